"""Order of the values of a column: numbers, dates in common formats, or none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from goodformer.data.readers.values import counted, number_of

Measure = Callable[[str], float | None]

FEW = 0.1
"""Share of values that may be neither numbers nor dates in an ordered column, such as n/k."""
CENTURY = 69
"""Years of two digits below it are those of this century, as in Python's own reading of dates."""
NAMED = 3
"""Number of such values that a note lists."""
TIME = r"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?"
DOTTED = re.compile(rf"(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}}){TIME}")
PARTED = re.compile(rf"(\d{{1,2}})([/-])(\d{{1,2}})\2(\d{{4}}|\d{{2}}){TIME}")
QUARTER = re.compile(r"(\d{4})[ -]?Q([1-4])", re.IGNORECASE)
WORDED = tuple(f"%d{mark}%{month}{mark}%{year}" for mark in "- " for month in "bB" for year in "Yy")
WORDED += tuple(f"%{month}{mark}%{year}" for mark in "- " for month in "bB" for year in "Yy")
WORDED += ("%b %d, %Y", "%B %d, %Y")
"""Dates whose month is a word: 05-Feb-2017, 5 February 17, Feb 2017, Feb 5, 2017."""


@dataclass(frozen=True)
class Order:
    """Order of the values of a column.

    Attributes:
        measure: Returns a value's position in the order, or None for a value without one; None if there is no order.
        note: A remark on how the values were read; empty if there is nothing to say.
    """

    measure: Measure | None
    note: str = ""


def order_of(name: str, values: Iterable[str]) -> Order:
    """Return the order of a column's values that are not missing: as numbers, else as dates, else none.

    Dates are in ISO format (2019-03-27, 2019-03, with or without time), written as 27.03.2019, 27-Mar-2019, Mar 2019 or
    2019-Q1, or as 27/3/2019 or 3/27/19 if some date of the column shows which of the two it is. Years of two digits are
    those from 1969 to 2068. A few other values count as missing.
    """
    counts = Counter(values)
    odd = {  # values that cannot be read as this kind
        kind: Counter({value: count for value, count in counts.items() if measure(value) is None})
        for kind, measure in MEASURES.items()
    }
    kind = min(odd, key=lambda one: odd[one].total())  # of equals the first
    if odd[kind].total() > FEW * counts.total() or len(odd[kind]) == len(counts):
        return Order(
            None, f"column {name!r} contains neither numbers nor dates; its values are treated as unordered groups."
        )
    if kind in SLASHED and odd[kind] == odd[SLASHED[kind]]:
        example = next(value for value in counts if value not in odd[kind])
        note = f"dates of column {name!r} such as {example} may start with the day or the month and are treated as "
        return Order(None, f"{note}unordered groups; write them as 2019-03-27 to split by time.")
    notes = [f"dates of column {name!r} are read as {kind}."] if kind in SLASHED else []
    if odd[kind]:
        rows, what = odd[kind].total(), "numbers" if kind == "numbers" else "dates"
        named = ", ".join([*map(repr, list(odd[kind])[:NAMED]), *(["..."] if len(odd[kind]) > NAMED else [])])
        verb = "counts" if rows == 1 else "count"
        notes.append(f"column {name!r} contains {what}; {counted(rows, 'row')} with {named} {verb} as missing.")
    return Order(MEASURES[kind], " ".join(notes))


def _iso(text: str) -> float | None:
    """Return the time of an ISO date, with or without time of day; a month stands for its first day."""
    whole = text.replace("/", "-") if re.match(r"\d{4}/", text) else text
    whole = f"{whole}-01" if re.fullmatch(r"\d{4}-\d{2}", whole) else whole
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _dotted(text: str) -> float | None:
    """Return the time of a date like 27.03.2019."""
    found = DOTTED.fullmatch(text)
    return _moment(found[3], found[2], found[1], found.groups()[3:]) if found else None


def _parted(text: str, day: int, month: int) -> float | None:
    """Return the time of a date like 27/3/2019 or 3/27/2019; ``day`` and ``month`` are group numbers."""
    found = PARTED.fullmatch(text)
    return _moment(found[4], found[month], found[day], found.groups()[4:]) if found else None


def _worded(text: str) -> float | None:
    """Return the time of a date whose month is a word, or of a quarter."""
    if quarter := QUARTER.fullmatch(text):
        return _moment(quarter[1], str(3 * int(quarter[2]) - 2), "1", (None, None, None))
    for form in WORDED:
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    return None


def _moment(year: str, month: str, day: str, time: Iterable[str | None]) -> float | None:
    """Return the seconds of a date and time; None if there is no such day."""
    hours, minutes, seconds = (int(part or 0) for part in time)
    try:
        full = int(year) + (0 if len(year) == 4 else 2000 if int(year) < CENTURY else 1900)
        return datetime(full, int(month), int(day), hours, minutes, seconds, tzinfo=UTC).timestamp()
    except ValueError:
        return None


MEASURES: dict[str, Measure] = {
    "numbers": number_of,
    "ISO": _iso,
    "day.month.year": _dotted,
    "words": _worded,
    "day/month/year": partial(_parted, day=1, month=3),
    "month/day/year": partial(_parted, day=3, month=1),
}
"""Kinds of ordered values; the one that fits most values is used."""
SLASHED = {"day/month/year": "month/day/year", "month/day/year": "day/month/year"}
"""The other reading of dates with slashes."""
