"""Labels from columns of a table: classes with their names, or measured values; some may be missing."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from goodformer.data.readers.values import counted, number_of, word_of
from goodformer.errors import InputError
from goodformer.spec import REGRESSION, Task

Column = Sequence[Any]
TaskChoice = Literal["auto", "classification", "regression"]
"""What a user says about the targets; ``auto`` decides by their values."""
Classes = Mapping[str, tuple[str, ...]]
"""Names of the classes of each target, in the order of their codes."""

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
"""Pairs of values in any case; the second one is the positive class."""
NEGATIONS = ("non", "not", "no", "in", "un", "im")
"""Prefixes that negate a word, with or without a space, hyphen or underscore: nontoxic, not toxic."""
LARGEST = 1e30
"""Largest size of a measured value; squares of larger ones are not finite."""
SHOWN = 3
"""Number of words with several spellings that a note lists."""
MANY = 20
"""Number of different values up to which a column of words or integers always counts as classes."""
FAR, LEAST_OTHERS = 2, 5
"""How many times the range of all other values a placeholder for missing values is away from them, and how many these
must be."""
WIDE = 1e4
"""Ratio of the largest to the smallest measured value from which a note recommends logarithms."""
MOSTLY = 0.8
"""Share of numbers from which a column of many values counts as measured values with some mistakes."""
COMMA = re.compile(r"[+-]?\d+,(\d+)(?:[eE][+-]?\d+)?")
"""A number with a decimal comma."""
MISSING = -1
"""Class of a row without a label."""


@dataclass(frozen=True)
class Labels:
    """Labels of R rows.

    Attributes:
        y: Integer classes (R,) with -1 for missing, or float targets (R, T), binary or measured, with NaN for missing.
        task: The task.
        classes: For each target column, the names of its classes in the order of their codes; for a binary target, the
            names of 0 and 1; none for measured values.
        notes: Remarks on how the labels were read, one sentence each.
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
    def strata(self) -> Tensor:
        """What a split keeps in proportion: the classes, or whether a measured value is above its median."""
        if not self.task.measured:
            return self.y
        return torch.where(self.y.isnan(), self.y, (self.y > self.y.nanmedian(0).values).to(self.y))


def labelled(y: Tensor) -> Tensor:
    """Return which rows of labels (R,) or (R, T) have at least one known label (R,)."""
    return (~y.isnan()).any(1) if y.is_floating_point() else y >= 0


def check_varies(values: Tensor, target: str) -> None:
    """Raise an error if the training values (G,) of a measured target are all equal or missing."""
    known = values[~values.isnan()]
    if len(known) < 2 or bool((known == known[0]).all()):
        only = f"only the value {float(known[0]):g}" if len(known) else "no value"
        raise InputError(
            f"target {target} has {only} in training, so nothing can be learnt; choose another split or column."
        )


def read_labels(columns: Mapping[str, Column], task: TaskChoice = "auto") -> Labels:
    """Read labels from one column, or from several binary or measured ones.

    Columns of numbers are measured values if one of them has decimals or more than `MANY` different values, unless
    ``task`` says otherwise; the metric is RMSE. All other columns are classes. One column with two different values is
    a binary task with metric ROC-AUC; with more values it is a multiclass task with metric accuracy. Several columns
    are several binary targets. The positive class is the second value of a known
    pair (`PAIRS`: 1, true, yes, active, positive, high, ...), else the word that the other one negates (toxic and
    nontoxic), else the second word in alphabetical order. ``1`` and ``1.0`` are the same class, and so are ``Yes`` and
    ``yes``. Missing values are empty entries, the words nan, NA, N/A, #N/A, null, missing and ? in any case, and None.

    Raises:
        InputError: There is no column, only one value, words instead of measured values, names instead of classes,
            more than two values in one of several columns of classes, or measured values beside classes.
    """
    if not columns:
        raise InputError("no target column given; name at least one column that contains the labels.")
    words = {name: [_value(entry) for entry in column] for name, column in columns.items()}
    commas = [name for name, column in words.items() if _decimal_commas(column)]
    points = {name: [_with_point(word) for word in words[name]] for name in commas}
    if task == REGRESSION or (task == "auto" and _measured(words | points)):
        labels = _read_values(words | points, task)
        note = f"numbers of {', '.join(map(repr, commas))} have decimal commas, read as decimal points."
        return replace(labels, notes=(note, *labels.notes)) if commas else labels
    read = {name: _folded(name, column) for name, column in words.items()}
    values = {name: column for name, (column, _) in read.items()}
    notes = tuple(note for _, note in read.values() if note)
    counts = {name: _counted(name, column) for name, column in values.items()}
    if len(counts) == 1:
        ((name, column),), ((_, count),) = values.items(), counts.items()
        if len(count) > 2:
            _check_classes(name, column, count, task)
            named = tuple(sorted(count, key=_order))
            y = torch.tensor(_coded(column, named, MISSING), dtype=torch.long)  # (R,)
            about = (_classes_note(name, named),) if task == "auto" else ()
            return Labels(y, Task("multiclass", len(named), "accuracy"), {name: named}, notes + about)
    classes = {name: _pair(name, list(count)) for name, count in counts.items()}
    y = torch.tensor([_coded(column, classes[name], math.nan) for name, column in values.items()])  # (T, R)
    return Labels(y.T.float().contiguous(), Task("binary", len(columns), "rocauc"), classes, notes)


def read_known(columns: Mapping[str, Column], classes: Classes) -> Tensor:
    """Read labels of further rows as a model knows them: its codes, or measured values, (R, T), NaN where missing.

    Args:
        columns: The column of each target.
        classes: The names of the classes of each target; none for measured values.

    Raises:
        InputError: An entry is no class that the model knows, or no number.
    """
    found = []
    for name, names in classes.items():
        words = [_value(entry) for entry in columns[name]]
        if not names:
            points = [_with_point(word) for word in words] if _decimal_commas(words) else words
            found.append([math.nan if number is None else number for number in _numbers(name, points)])
            continue
        # From Python a class may be called 0.0, which is 0 in a file.
        codes = {(_value(one) or one).casefold(): float(place) for place, one in enumerate(names)}
        other = sorted({word for word in words if word is not None and word.casefold() not in codes})
        if other:
            raise InputError(
                f"target column {name!r} contains {other[0]!r}, but the model knows {', '.join(names)}; correct or "
                "empty such entries."
            )
        found.append([math.nan if word is None else codes[word.casefold()] for word in words])
    return torch.tensor(found, dtype=torch.double).T.contiguous()


def _decimal_commas(column: list[str | None]) -> bool:
    """Return whether nearly all values are numbers, none with a point and some with a decimal comma.

    A comma before three digits alone could separate thousands, so one entry must have another number of digits.
    Reading the others names those that are no numbers, such as ``>10``.
    """
    values = {word for word in column if word is not None}
    parts = [match for word in values if (match := COMMA.fullmatch(word))]
    whole = [word for word in values if number_of(word) is not None]
    enough = len(parts) + len(whole) >= MOSTLY * len(values)
    return enough and all("." not in word for word in whole) and any(len(match[1]) != 3 for match in parts)


def _with_point(word: str | None) -> str | None:
    """Return a number with a decimal comma as one with a decimal point, and everything else unchanged."""
    return word.replace(",", ".") if word is not None and COMMA.fullmatch(word) else word


def _measured(columns: Mapping[str, list[str | None]]) -> bool:
    """Return whether columns are measured values; raise if some are and others are classes."""
    found, classes = [], []
    for name, column in columns.items():
        values = {value for value in column if value is not None}
        numbers = [number for value in values if (number := number_of(value)) is not None]
        many = len(values) > MANY
        clean = len(numbers) == len(values) > 2
        if (clean and (many or any(number % 1 for number in numbers))) or (
            many and len(numbers) >= MOSTLY * len(values)  # reading them names the entries that are not numbers
        ):
            found.append(name)
        elif not clean:
            classes.append(name)
    if found and classes:
        raise InputError(
            f"target column {found[0]!r} contains measured values, but {classes[0]!r} contains classes; fit them "
            "separately, or give --task regression if all are numbers."
        )
    return bool(found)


def placeholders(values: Sequence[float]) -> list[float]:
    """Return the smallest and largest value where they occur several times, far from all others, such as -999."""
    distinct = sorted(set(values))
    inner = distinct[1:-1]
    if len(inner) < LEAST_OTHERS:
        return []
    ends = ((distinct[0], inner[0]), (distinct[-1], inner[-1]))
    return [end for end, near in ends if values.count(end) > 1 and abs(end - near) > FAR * (inner[-1] - inner[0])]


def _read_values(columns: Mapping[str, list[str | None]], task: str) -> Labels:
    """Return columns of numbers as measured values (R, T)."""
    values, notes = [], []
    for name, column in columns.items():
        numbers = _numbers(name, column)
        values.append([math.nan if number is None else number for number in numbers])
        known = [number for number in numbers if number is not None]
        _counted(name, [repr(number) for number in known])
        if min(known) > 0 and max(known) / min(known) >= WIDE:
            notes.append(
                f"target {name!r} spans {math.log10(max(known) / min(known)):.0f} orders of magnitude, so its largest "
                "values decide RMSE and intervals; if ratios matter, as for IC50 in nM, fit the logarithm."
            )
        for repeated in placeholders(known):
            notes.append(
                f"target {name!r} is {repeated:g} in {counted(known.count(repeated), 'row')}, far from all other "
                "values; if that stands for a missing value, leave these entries empty."
            )
        if task == "auto":
            notes.append(
                f"target {name!r} is read as measured values from {min(known):.4g} to {max(known):.4g} (regression); "
                "if its values are classes, give --task classification."
            )
    y = torch.tensor(values, dtype=torch.double).T.float().contiguous()  # (R, T)
    return Labels(y, Task("regression", len(columns), "rmse"), dict.fromkeys(columns, ()), tuple(notes))


def _numbers(name: str, column: Sequence[str | None]) -> list[float | None]:
    """Return the numbers of a column, None where missing; raise an error for entries that cannot be used as such."""
    numbers = [None if word is None else number_of(word) for word in column]
    wrong = [word for word, number in zip(column, numbers, strict=True) if word is not None and number is None]
    wrong += [f"{number:g}" for number in numbers if number is not None and abs(number) > LARGEST]
    if wrong:
        raise _no_numbers(name, wrong)
    return numbers


def _no_numbers(name: str, wrong: Sequence[str]) -> InputError:
    """Return the error for entries of a measured target that are no numbers, commas only if nothing else is wrong."""
    others = [word for word in wrong if not COMMA.fullmatch(word)]
    if not others:
        return InputError(
            f"target column {name!r} contains {counted(len(wrong), 'number')} with a comma, first {wrong[0]!r}, which "
            "may mark decimals or thousands; write decimal points and no separators of thousands."
        )
    return InputError(
        f"target column {name!r} contains {counted(len(others), 'value')} that cannot be used as numbers, first "
        f"{others[0]!r}; correct or empty them, or choose a column of classes with --task classification."
    )


def _value(entry: Any) -> str | None:
    """Return an entry as a word: None if missing, a number in its shortest form."""
    word = word_of(entry)
    number = None if word is None else number_of(word)
    return f"{int(number)}" if number is not None and number.is_integer() and abs(number) < 2**53 else word


def _folded(name: str, column: list[str | None]) -> tuple[list[str | None], str]:
    """Merge spellings that differ in case into the commonest, and return a note if there were any."""
    counts = Counter(value for value in column if value is not None)
    spellings: dict[str, list[str]] = {}
    for value in sorted(counts, key=lambda value: (-counts[value], value)):
        spellings.setdefault(value.casefold(), []).append(value)
    several = [words for words in spellings.values() if len(words) > 1]
    if not several:
        return column, ""
    said = "; ".join(f"{', '.join(words[1:])} into {words[0]}" for words in several[:SHOWN])
    kept = [None if value is None else spellings[value.casefold()][0] for value in column]
    return (
        kept,
        f"target {name!r}: spellings that differ in case are merged, {said}{'; ...' * (len(several) > SHOWN)}.",
    )


def _counted(name: str, column: list[str | None]) -> Counter[str]:
    """Count each value; a column with a single value is an error."""
    counts = Counter(value for value in column if value is not None)
    if len(counts) < 2:
        only = f"only the value {next(iter(counts))!r}" if counts else "no value"
        raise InputError(f"target column {name!r} contains {only}; choose a column with at least two different values.")
    return counts


def _pair(name: str, values: list[str]) -> tuple[str, str]:
    """Return two values, that of code 0 first."""
    if len(values) > 2:
        shown = ", ".join(sorted(values, key=_order)[:4])
        raise InputError(
            f"target column {name!r} contains {len(values)} different values ({shown}, ...), but each of several "
            "target columns must have two; use this column alone or leave it out."
        )
    first, second = sorted(values, key=_order)
    known = {first.lower(): first, second.lower(): second}
    for zero, one in PAIRS:
        if known.keys() == {zero, one}:
            return known[zero], known[one]
    plain, other = (re.sub(r"[ _-]", "", word.lower()) for word in (first, second))
    return (second, first) if any(other == prefix + plain for prefix in NEGATIONS) else (first, second)


def _check_classes(name: str, column: list[str | None], counts: Counter[str], task: str) -> None:
    """Raise an error if there are many values that hardly repeat; if most are numbers, it names those that are not."""
    numbers = [number_of(value) for value in counts]
    fractions = all(number is not None for number in numbers) and any(number % 1 for number in numbers if number)
    single = sum(count == 1 for count in counts.values())
    if len(counts) > MANY and (fractions or single > len(counts) / 2):
        wrong = [value for value in column if value is not None and number_of(value) is None]
        words = {value for value in wrong if not COMMA.fullmatch(value)}
        if task == "auto" and wrong and len(words) < len(counts) / 2:
            raise _no_numbers(name, wrong)
        raise InputError(
            f"target column {name!r} contains {len(counts):,} different values, which look like measurements or names; "
            "choose a column of classes, or of numbers for --task regression."
        )


def _classes_note(name: str, classes: Sequence[str]) -> str:
    """Return a note on a target with more than two classes."""
    shown = ", ".join(classes[:SHOWN]) + ", ..." * (len(classes) > SHOWN)
    numbers = all(number_of(one) is not None for one in classes)
    advice = "; if its values are measured, give --task regression" if numbers else ""
    return f"target {name!r} is read as {len(classes)} classes ({shown}){advice}."


def _coded(column: list[str | None], classes: Sequence[str], missing: float) -> list[float]:
    """Return the code of each entry."""
    codes: dict[str | None, float] = {value: place for place, value in enumerate(classes)}
    return [codes.get(value, missing) for value in column]


def _order(value: str) -> tuple[bool, float, str]:
    """Return a sort key: numbers by size before words in alphabetical order."""
    number = number_of(value)
    return (number is None, number or 0.0, value)
