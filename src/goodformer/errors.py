"""Errors a user can act on: one sentence that says what is wrong, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

LISTED = 24
"""The most names an error message lists; of a longer list it shows only the nearest."""


class InputError(ValueError):
    """Input that cannot be used; the message is shown without a traceback."""


class CannotWrite(InputError):
    """A file that cannot be written, for example on a full disk; the same command continues once it can be."""


def check_name(kind: str, got: str, accepted: Collection[str]) -> None:
    """Raise an error unless a name is one of the accepted ones."""
    if got not in accepted:
        raise unknown(kind, got, accepted)


def unknown(kind: str, got: str, accepted: Iterable[str]) -> InputError:
    """Return the error for an unknown name, with the accepted names."""
    return InputError(f"unknown {kind} {got!r}; {suggestion(got, accepted)}")


def suggestion(got: str, accepted: Iterable[str]) -> str:
    """Return the nearest accepted name and, if there are few, all of them."""
    names = sorted(accepted)
    short = len(names) <= LISTED
    near = difflib.get_close_matches(got, names, n=1 if short else 3)
    listed = f"accepted: {', '.join(names) or 'none'}"
    return f"did you mean {' or '.join(near)}?{f' ({listed})' if short else ''}" if near else f"{listed}."
