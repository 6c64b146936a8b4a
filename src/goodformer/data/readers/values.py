"""Single values of a table: what they are as text, which of them are missing, which are numbers."""

from __future__ import annotations

import json
import math
from typing import Any

MISSING = frozenset(("", "nan", "na", "n/a", "#n/a", "null", "missing", "?"))
"""What stands for no value, in any case."""
NONE = "None"
"""What Python writes for no value. In small letters it is a word, which may well be a class: none, mild, severe."""


def text_of(value: Any) -> str | None:
    """A value as a text file would hold it; None where there is none."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, default=str)
    return str(value)


def plain_of(value: Any) -> str | int | float | None:
    """A value as it is where it is a number or a truth value, and as text otherwise; None where there is none."""
    return value if isinstance(value, bool | int) or _is_known(value) else text_of(value)


def _is_known(value: Any) -> bool:
    """Whether this is a real number and not NaN."""
    return isinstance(value, float) and not math.isnan(value)


def word_of(value: Any) -> str | None:
    """A value as text without blanks around it; None where it is missing or a word that says so."""
    bare = (text_of(value) or "").strip()
    return None if bare.lower() in MISSING or bare == NONE else bare


def counted(number: int, what: str) -> str:
    """A number of things in words, one or many."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def number_of(text: str) -> float | None:
    """The finite number a text writes, None where it writes none; ``1_000`` is a name and not a number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None
