"""Whether the values of a column have an order: numbers, dates as people write them, or neither."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from goodformer.data.readers.values import counted, number_of

Measure = Callable[[str], float | None]

FEW = 0.1
"""Share of a column's values that may be words for nothing, such as n/k, among numbers or dates."""
NAMED = 3
"""Such words that are named."""
TIME = r"(?:[ T](\d{1,2}):(\d{2})(?::(\d{2}))?)?"
DOTTED = re.compile(rf"(\d{{1,2}})\.(\d{{1,2}})\.(\d{{4}}){TIME}")
PARTED = re.compile(rf"(\d{{1,2}})([/-])(\d{{1,2}})\2(\d{{4}}){TIME}")


@dataclass(frozen=True)
class Order:
    """How the values of a column follow each other.

    Attributes:
        measure: What a value is in the order, None of a value that has no place in it; None where there is no order.
        note: One sentence on what is not plain about it; empty where all is.
    """

    measure: Measure | None
    note: str = ""


def order_of(name: str, values: Iterable[str]) -> Order:
    """The order of a column's values that are not missing: as numbers, else as dates, else none.

    Dates are written as ISO has them (2019-03-27, 2019-03, with or without time), as 27.03.2019, or as 27/3/2019 or
    3/27/2019 where some date of the column tells which of the two it is. A few values that are none are missing.
    """
    counts = Counter(values)
    odd = {kind: _unread(counts, measure) for kind, measure in MEASURES.items()}
    kind = min(odd, key=lambda one: odd[one].total())  # of equals the first
    if odd[kind].total() > FEW * counts.total() or len(odd[kind]) == len(counts):
        return Order(
            None, f"column {name!r} holds neither numbers nor dates; its values are taken as unordered groups."
        )
    if kind in SLASHED and odd[kind] == odd[SLASHED[kind]]:
        return Order(None, _ambiguous(name, next(value for value in counts if value not in odd[kind])))
    return Order(MEASURES[kind], " ".join(filter(None, (_read_as(name, kind), _without(name, kind, odd[kind])))))


def _unread(counts: Counter[str], measure: Measure) -> Counter[str]:
    """Values without a place in an order, and how often each occurs."""
    return Counter({value: count for value, count in counts.items() if measure(value) is None})


def _ambiguous(name: str, example: str) -> str:
    """What is said of dates of which nobody knows day from month."""
    return (
        f"dates of column {name!r} such as {example} may begin with the day or the month, so they are taken as "
        "unordered groups; write them as 2019-03-27 to split by time."
    )


def _read_as(name: str, kind: str) -> str:
    """How dates are read that could be read otherwise."""
    return f"dates of column {name!r} are read as {kind}." if kind in SLASHED else ""


def _without(name: str, kind: str, odd: Counter[str]) -> str:
    """Which values have no place in the order."""
    if not odd:
        return ""
    rows, what = odd.total(), "numbers" if kind == "numbers" else "dates"
    named = ", ".join([*map(repr, list(odd)[:NAMED]), *(["..."] if len(odd) > NAMED else [])])
    verb = "is" if rows == 1 else "are"
    return f"column {name!r} holds {what}; {counted(rows, 'row')} with {named} {verb} taken as without a value."


def _iso(text: str) -> float | None:
    """The moment an ISO date writes, with or without time; a month stands for its first day."""
    whole = text.replace("/", "-") if re.match(r"\d{4}/", text) else text
    whole = f"{whole}-01" if re.fullmatch(r"\d{4}-\d{2}", whole) else whole
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _dotted(text: str) -> float | None:
    """The moment that 27.03.2019 writes."""
    found = DOTTED.fullmatch(text)
    return _moment(found[3], found[2], found[1], found.groups()[3:]) if found else None


def _parted(text: str, day: int, month: int) -> float | None:
    """The moment that 27/3/2019 or 3/27/2019 writes, by the groups that hold day and month."""
    found = PARTED.fullmatch(text)
    return _moment(found[4], found[month], found[day], found.groups()[4:]) if found else None


def _moment(year: str, month: str, day: str, time: Iterable[str | None]) -> float | None:
    """Seconds of a date and a time; None where the calendar has no such day."""
    hours, minutes, seconds = (int(part or 0) for part in time)
    try:
        return datetime(int(year), int(month), int(day), hours, minutes, seconds, tzinfo=UTC).timestamp()
    except ValueError:
        return None


MEASURES: dict[str, Measure] = {
    "numbers": number_of,
    "ISO": _iso,
    "day.month.year": _dotted,
    "day/month/year": partial(_parted, day=1, month=3),
    "month/day/year": partial(_parted, day=3, month=1),
}
"""What can be in order, by name; what fits most values is taken."""
SLASHED = {"day/month/year": "month/day/year", "month/day/year": "day/month/year"}
"""What else dates of a kind could be."""
