"""From columns of a table to labels: which classes there are, what they are called and which are missing."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from goodformer.data.readers.values import number_of, word_of
from goodformer.registry import InputError
from goodformer.spec import Task

Column = Sequence[Any]
Classes = Mapping[str, tuple[str, ...]]
"""What is predicted: the name of each target, and those of its classes in the order of their codes."""

PAIRS = (
    ("0", "1"),
    ("-1", "1"),
    ("false", "true"),
    ("f", "t"),
    ("no", "yes"),
    ("n", "y"),
    ("inactive", "active"),
    ("negative", "positive"),
    ("neg", "pos"),
    ("-", "+"),
    ("low", "high"),
    ("weak", "strong"),
    ("miss", "hit"),
    ("decoy", "active"),
    ("absent", "present"),
    ("fail", "pass"),
    ("failed", "passed"),
    ("off", "on"),
    ("control", "case"),
    ("safe", "toxic"),
    ("benign", "malignant"),
)
"""Two values whose order everybody knows; the second is the one that is predicted. Written in any case."""
NEGATIONS = ("non", "not", "no", "in", "un", "im")
"""What makes a word its contrary, with or without a blank, hyphen or underscore after it: nontoxic, not toxic."""
SHOWN = 3
"""Words named that were written in several ways."""
MANY = 20
"""So many different values may be classes without further questions."""
MISSING = -1
"""The class of a row without a label, where classes are numbers."""


@dataclass(frozen=True)
class Labels:
    """What is known of R rows.

    Attributes:
        y: A class (R,) as long, -1 where it is missing, or binary targets (R, T) as float, NaN where missing.
        task: What is predicted.
        classes: For each target column the names of its classes in the order of their codes; of a binary target the
            names of 0 and 1.
        notes: What is not plain about how they were read, a sentence each.
    """

    y: Tensor
    task: Task
    classes: Classes
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.y)

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the target columns."""
        return tuple(self.classes)

    @property
    def labelled(self) -> Tensor:
        """Rows with at least one known label (R,)."""
        return labelled(self.y)


def labelled(y: Tensor) -> Tensor:
    """Rows of labels (R,) or (R, T) of which at least one is known (R,)."""
    return (~y.isnan()).any(1) if y.is_floating_point() else y >= 0


def read_labels(columns: Mapping[str, Column]) -> Labels:
    """Labels from one column, or several binary ones.

    One column with two different values is a binary task scored by ROC-AUC, with more values a multiclass task scored
    by accuracy. Several columns are several binary targets. Of two values the one predicted is that of `PAIRS` (1,
    true, yes, active, positive, high, ...) or the one whose contrary the other is (toxic and nontoxic), of other words
    the second in the alphabet. ``1`` and ``1.0`` are the same class, and so are ``Yes`` and ``yes``. An empty entry is
    missing, and so is one that says so: nan, NA, N/A, #N/A, null, missing, ? in any case, and None as Python writes it.

    Raises:
        InputError: No column, one value only, measurements instead of classes, or more than two values in one of
            several columns.
    """
    if not columns:
        raise InputError("no target column was named; give at least one column that holds the labels.")
    read = {name: _folded(name, [_value(entry) for entry in column]) for name, column in columns.items()}
    values, notes = (
        {name: column for name, (column, _) in read.items()},
        tuple(note for _, note in read.values() if note),
    )
    counts = {name: _counted(name, column) for name, column in values.items()}
    if len(counts) == 1 and len(next(iter(counts.values()))) > 2:
        return replace(_multiclass(*next(iter(values.items())), next(iter(counts.values()))), notes=notes)
    classes = {name: _pair(name, list(count)) for name, count in counts.items()}
    y = torch.tensor([_coded(column, classes[name], math.nan) for name, column in values.items()])  # (T, R)
    return Labels(y.T.float().contiguous(), Task("binary", len(columns), "rocauc"), classes, notes)


def _multiclass(name: str, column: list[str | None], counts: Counter[str]) -> Labels:
    """Labels of one column with more than two values."""
    _check_classes(name, counts)
    classes = tuple(sorted(counts, key=_order))
    y = torch.tensor(_coded(column, classes, MISSING), dtype=torch.long)  # (R,)
    return Labels(y, Task("multiclass", len(classes), "accuracy"), {name: classes})


def _value(entry: Any) -> str | None:
    """An entry as a word, None where it is missing, a number in its shortest form."""
    word = word_of(entry)
    number = None if word is None else number_of(word)
    return f"{int(number)}" if number is not None and number.is_integer() and abs(number) < 2**53 else word


def _folded(name: str, column: list[str | None]) -> tuple[list[str | None], str]:
    """The column with one spelling of each word, its commonest, and a sentence where there were several."""
    counts = Counter(value for value in column if value is not None)
    spellings: dict[str, list[str]] = {}
    for value in sorted(counts, key=lambda value: (-counts[value], value)):
        spellings.setdefault(value.casefold(), []).append(value)
    several = [words for words in spellings.values() if len(words) > 1]
    if not several:
        return column, ""
    said = "; ".join(f"{', '.join(words[1:])} as {words[0]}" for words in several[:SHOWN])
    kept = [None if value is None else spellings[value.casefold()][0] for value in column]
    return kept, f"upper and lower case make no classes of target {name!r}: {said}{'; ...' * (len(several) > SHOWN)}."


def _counted(name: str, column: list[str | None]) -> Counter[str]:
    """How often each value occurs; a column of one value teaches nothing."""
    counts = Counter(value for value in column if value is not None)
    if len(counts) < 2:
        only = f"only the value {next(iter(counts))!r}" if counts else "no value at all"
        raise InputError(f"target column {name!r} holds {only}; give a column with at least two different values.")
    return counts


def _pair(name: str, values: list[str]) -> tuple[str, str]:
    """Two values, that of 0 first."""
    if len(values) > 2:
        shown = ", ".join(sorted(values, key=_order)[:4])
        raise InputError(
            f"target column {name!r} holds {len(values)} different values ({shown}, ...); of several target columns "
            "each must hold two, so give this one alone or leave it out."
        )
    first, second = sorted(values, key=_order)
    known = {first.lower(): first, second.lower(): second}
    for zero, one in PAIRS:
        if known.keys() == {zero, one}:
            return known[zero], known[one]
    return (second, first) if _denies(second, first) else (first, second)


def _denies(word: str, other: str) -> bool:
    """Whether a word says that the other is not so."""
    bare = re.sub(r"[ _-]", "", word.lower())
    return any(bare == prefix + re.sub(r"[ _-]", "", other.lower()) for prefix in NEGATIONS)


def _check_classes(name: str, counts: Counter[str]) -> None:
    """Many values are classes only if they come back."""
    numbers = [number_of(value) for value in counts]
    fractions = all(number is not None for number in numbers) and any(number % 1 for number in numbers if number)
    single = sum(count == 1 for count in counts.values())
    if len(counts) > MANY and (fractions or single > len(counts) / 2):
        raise InputError(
            f"target column {name!r} holds {len(counts):,} different values, which are measurements or names rather "
            "than classes; give a column of classes, for example whether the value is above a threshold."
        )


def _coded(column: list[str | None], classes: Sequence[str], missing: float) -> list[float]:
    """The place of each entry among the classes."""
    codes: dict[str | None, float] = {value: place for place, value in enumerate(classes)}
    return [codes.get(value, missing) for value in column]


def _order(value: str) -> tuple[bool, float, str]:
    """Numbers by size before words by the alphabet."""
    number = number_of(value)
    return (number is None, number or 0.0, value)
