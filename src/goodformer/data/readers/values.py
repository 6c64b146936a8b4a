"""Single values of a table: text, missing values and numbers."""

from __future__ import annotations

import json
import math
from typing import Any

MISSING = frozenset(("", "nan", "na", "n/a", "#n/a", "null", "missing", "?"))
"""Words that mean a missing value, in any case."""
NONE = "None"
"""Python's missing value. In lower case it may be a class: none, mild, severe."""


def text_of(value: Any) -> str | None:
    """Return a value as a text file would hold it; None if missing."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, default=str)
    return str(value)


def plain_of(value: Any) -> str | int | float | None:
    """Return numbers and booleans unchanged and everything else as text; None if missing."""
    number = isinstance(value, bool | int) or (isinstance(value, float) and not math.isnan(value))
    return value if number else text_of(value)


def word_of(value: Any) -> str | None:
    """Return a value as stripped text; None if it is missing or a word for missing."""
    bare = (text_of(value) or "").strip()
    return None if bare.lower() in MISSING or bare == NONE else bare


def counted(number: int, what: str) -> str:
    """Return a number with its noun in singular or plural."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """Return a share in percent; 0% means none and 100% means all."""
    rounded = f"{share:.0%}"
    if rounded == "0%" and share > 0:
        return "<1%"
    return ">99%" if rounded == "100%" and share < 1 else rounded


def number_of(text: str) -> float | None:
    """Return the finite number that a text writes, or None; ``1_000`` is not a number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None
