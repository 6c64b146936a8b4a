"""Splits of a user's own data that hold out whole domains.

Letters: R rows, G graphs, D domains, T targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer.data.random import Draws
from goodformer.data.readers.collection import Collection
from goodformer.data.readers.labels import labelled
from goodformer.data.readers.values import counted, percent
from goodformer.data.splits.domains import (
    Columns,
    Domains,
    by_cluster,
    by_column,
    by_scaffold,
    by_size,
    column_note,
    column_words,
)
from goodformer.data.splits.given import given_note, word_parts
from goodformer.data.splits.split import ID_TEST, ID_VAL, TEST, TRAIN, VAL, Split, covariate
from goodformer.data.splits.twins import row_keys, same_molecules
from goodformer.errors import InputError, unknown
from goodformer.spec import RANDOM, SPLITS

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Shares = tuple[float, float]

AUTO = "auto"
SAME = 0.5
"""Share of rows that must be where a saved split has them; standardising otherwise changes some molecules."""


@dataclass(frozen=True)
class Request:
    """What to split, and how.

    Attributes:
        collection: The graphs that have a label.
        columns: Columns of the file, one entry per row of the source.
        argument: The text after the colon in ``column:NAME``.
        y: Labels of the graphs (G,) or (G, T), if known.
        seed: Seed of the draws.
        outside: Shares of val and test.
        inside: Shares of id_val and id_test.
    """

    collection: Collection
    columns: Columns | None
    argument: str
    y: Tensor | None
    seed: int
    outside: Shares
    inside: Shares


def make_split(
    how: str,
    collection: Collection,
    columns: Columns | None = None,
    y: Tensor | None = None,
    seed: int = 0,
    outside: Shares = (0.1, 0.1),
    inside: Shares = (0.1, 0.1),
    given: Tensor | None = None,
) -> Split:
    """Split rows into the five parts; whole domains are held out.

    ``scaffold``, ``size``, ``cluster`` and ``column:NAME`` order their domains (`goodformer.data.splits.domains`): the
    first go to train, the next to val, the last to test. Then id_val and id_test are drawn from train, with all classes
    in proportion and duplicates of a molecule together (unless there are too few molecules to fill the parts). With two
    domains only, val and test share the second. If only val or test would have a class, the smallest domain with that
    class moves to train, in exchange for another domain if necessary. ``random`` keeps only duplicates together,
    ``file:PATH`` reads a file that `Split.save` wrote, and ``auto`` is scaffold for molecules and size for other
    graphs, or random if these have a single value.

    If the column holds words for parts (`goodformer.data.splits.given`: train, valid, test), or if parts are ``given``,
    these are kept: valid is val and test is test. id_val and id_test are drawn from train at random, and so is val if
    no row is given for it.

    Args:
        how: One of `SPLITTERS`, or ``auto``.
        collection: The graphs.
        columns: Columns of all R rows, for ``column:NAME``.
        y: Labels of all R rows (R,) or (R, T); rows without any label are left out.
        seed: Seed of the draws, of the order of equally common domains, and of clusters.
        outside: Intended shares of val and test; 0 leaves one out.
        inside: Intended shares of id_val and id_test; of train if parts are given.
        given: Part of each row (R,), for example of separate files; a missing val is then drawn from train as ``how``
            says (``auto``: at random).

    Returns:
        The split of all R rows; rows without graph, label or domain are in no part.
    """
    name, _, argument = how.partition(":")
    if name not in SPLITTERS and how != AUTO:
        raise unknown("split", name, [AUTO, *SPLITTERS])
    if bool(argument) != (name in TAKING):
        what = f"{name}:{TAKING[name]}" if name in TAKING else name
        raise InputError(f"invalid split {how!r}; expected {what}.")
    if y is not None and len(y) != collection.count:
        raise InputError(f"y has {counted(len(y), 'label')} for {counted(collection.count, 'row')}; give one per row.")
    usable, labels = collection, None
    if y is not None:  # the graphs that have a label
        known = labelled(y[collection.rows])
        usable, labels = collection.subset(known.nonzero().flatten()), y[collection.rows][known]
    if not len(usable):
        raise InputError("no row has both a graph and a label; check the input and target columns.")
    request = Request(usable, columns, argument, labels, seed, outside, inside)
    if given is not None and name != "file":
        return _given(request, given[usable.rows].numpy(), "file", how)
    return _auto(request) if how == AUTO else SPLITTERS[name](request)


def split_note(
    how: str,
    collection: Collection,
    columns: Columns | None,
    split: Split,
    y: Tensor | None,
    given: Tensor | None = None,
) -> str:
    """Return a note on how the column of a split was read, or how given parts are used; empty for other splits."""
    name, _, argument = how.partition(":")
    if given is not None and name != "file":
        cut = RANDOM if how == AUTO else how.replace(":", " ")
        return given_note("the files give", _counts(given), split, collection, y, cut)
    if name != "column":
        return ""
    parts = word_parts(argument, column_words(argument, collection, columns))
    if parts is None:
        return column_note(argument, collection, columns)
    known = torch.from_numpy(parts)
    if y is not None:
        known = torch.where(labelled(y[collection.rows]), known, -1)
    return given_note(f"column {argument!r} gives", _counts(known), split, collection, y)


def _counts(parts: Tensor) -> dict[int, int]:
    """Count the rows of each part."""
    return {part: int((parts == part).sum()) for part in (TRAIN, ID_VAL, ID_TEST, VAL, TEST)}


def check_not_target(how: str, targets: Sequence[str]) -> None:
    """Raise an error if the split goes by the target: training would lack the classes that are tested."""
    name, _, argument = how.partition(":")
    if name == "column" and argument in targets:
        raise InputError(f"column {argument!r} is the target; split by another column, by scaffold or by size.")


def _random(request: Request) -> Split:
    """Draw every part at random, without shift."""
    part, twin = np.full(len(request.collection), TRAIN), _twins(request.collection)
    draws = Draws(request.seed, "random")
    _leave(part, dict(zip((VAL, TEST), request.outside, strict=True)), len(part), request.y, twin, draws)
    _leave(part, dict(zip((ID_VAL, ID_TEST), request.inside, strict=True)), len(part), request.y, twin, draws)
    return _of_rows(request.collection, part, np.zeros_like(part), (), RANDOM)


def _file(request: Request) -> Split:
    """Read a saved split."""
    split, rows = Split.load(request.argument), request.collection.count
    if len(split) != rows:
        raise InputError(
            f"the split {request.argument} has {len(split):,} rows but the data have {rows:,}; "
            "give a split of this file."
        )
    if split.keys is not None:
        known = request.collection.rows
        same = (split.keys == row_keys(request.collection))[known].double().mean()
        if same < SAME:
            raise InputError(
                f"the split {request.argument} is of other rows: only {percent(float(same))} of them are in the place "
                "that they had then; restore their order, or split the file again."
            )
    return replace(split, keys=None)


def _column(request: Request) -> Split:
    """Split by the parts that a column names, or else by its values as domains."""
    parts = word_parts(request.argument, column_words(request.argument, request.collection, request.columns))
    if parts is not None:
        return _given(request, parts, request.argument)
    domains = by_column(request.argument, request.collection, request.columns, request.seed)
    return _by_domains(request, domains, request.argument)


SPLITTERS: dict[str, Callable[[Request], Split]] = {
    "scaffold": lambda one: _by_domains(one, by_scaffold(one.collection, one.seed), "scaffold"),
    "size": lambda one: _by_domains(one, by_size(one.collection), "size"),
    "cluster": lambda one: _by_domains(one, by_cluster(one.collection, one.seed), "cluster"),
    "random": _random,
    "column": _column,
    "file": _file,
}
"""Ways to split. OOD test has rare scaffolds, large graphs, unusual clusters, or a column's last values."""
TAKING = {"column": "NAME", "file": "PATH"}
"""What follows the colon."""


def _auto(request: Request) -> Split:
    """Split by scaffold or size, or at random if there is a single one."""
    molecules = request.collection.molecules is not None
    domains = by_scaffold(request.collection, request.seed) if molecules else by_size(request.collection)
    if len(domains.names) < 2:
        return _random(request)
    return _by_domains(request, domains, "scaffold" if molecules else "size")


def _given(request: Request, parts: Ints, by: str, how: str = AUTO) -> Split:
    """Keep given parts (G,) and draw from train those that are missing; scaffolds or sizes are the domains.

    Args:
        request: What to split.
        parts: Given part of each graph, -1 for none.
        by: Where the parts come from.
        how: How val is drawn from train if it is missing.
    """
    part, collection = parts.copy(), request.collection
    train = np.flatnonzero(part == TRAIN)
    if not len(train):
        raise InputError(f"no row of the training part ({by}) has a graph and a label; add such rows.")
    if how != AUTO and (part == VAL).any():
        raise InputError(f"split {how!r} has no use: validation rows are given; leave the option out.")
    draws, twin, y = Draws(request.seed, f"given/{by}"), _twins(collection), request.y
    if how not in (AUTO, RANDOM):
        part[train] = _cut_val(request, torch.from_numpy(train), how)
    elif not (part == VAL).any():
        _leave(part, {VAL: request.outside[0]}, len(train), y, twin, draws)
    missing = {one: share for one, share in zip((ID_VAL, ID_TEST), request.inside, strict=True) if one not in parts}
    if missing:
        _leave(part, missing, len(train), y, twin, draws)
    domains = by_size(collection) if collection.molecules is None else by_scaffold(collection, request.seed)
    whole = _of_rows(collection, part, domains.number, domains.names, by)
    return replace(whole, given=tuple(name for number, name in enumerate(SPLITS) if number in parts))


def _cut_val(request: Request, train: Tensor, how: str) -> Ints:
    """Return train or val for each graph of a given training part (g,)."""
    name, _, argument = how.partition(":")
    if (
        name == "column"
        and word_parts(argument, column_words(argument, request.collection, request.columns)) is not None
    ):
        raise InputError(f"both separate files and column {argument!r} give parts; use one of the two.")
    inner = replace(
        request,
        collection=request.collection.subset(train),
        y=None if request.y is None else request.y[train],
        outside=(request.outside[0], 0.0),
        inside=(0.0, 0.0),
    )
    return SPLITTERS[name](inner).part[request.collection.rows[train]].numpy()


SOURCE_ROWS = 10
"""Rows that sources must have on average in training for each to be an environment of its own."""


def _by_domains(request: Request, domains: Domains, by: str) -> Split:
    """Assign the first domains to train, the next to val, the last to test; draw id_val and id_test from train."""
    known = np.flatnonzero(domains.number >= 0)
    number = domains.number[known]
    if len(domains.names) < 2:
        raise InputError(
            f"{by} is {domains.names[0]!r} for all {len(known):,} rows; split by another attribute, or at random."
        )
    y = None if request.y is None else request.y[torch.from_numpy(known)]
    draws, twin = Draws(request.seed, f"split/{by}"), _twins(request.collection)[known]
    inner = _cut(number, by, request.outside, y, twin, draws)
    _complete(inner, number, y, request.outside)
    _leave(inner, dict(zip((ID_VAL, ID_TEST), request.inside, strict=True)), len(inner), y, twin, draws)
    part = np.full(len(domains.number), -1)
    part[known] = inner
    split = _of_rows(request.collection, part, np.maximum(domains.number, 0), domains.names, by)
    trained = number[inner == TRAIN]
    if domains.sources and len(trained) >= SOURCE_ROWS * len(np.unique(trained)):
        return replace(split, env=split.domain)  # each source is an environment
    return split


def _twins(collection: Collection) -> Ints:
    """Return a number for each graph (G,), equal for duplicates of a molecule; other graphs have their own."""
    found = same_molecules(collection)
    return np.arange(len(collection)) if found is None else found


def _cut(number: Ints, by: str, outside: Shares, y: Tensor | None, twin: Ints, draws: Draws) -> Ints:
    """Return train, val and test (G,), with whole domains unless there are fewer than three."""
    wanted = sum(share > 0 for share in outside)
    if number.max() >= wanted:  # as many domains as parts
        return covariate(number, by, outside=outside, inside=(0.0, 0.0)).part.numpy().copy()
    part = np.where(number == 0, TRAIN, VAL)
    second = np.flatnonzero(part == VAL)
    size = round(len(second) * outside[1] / sum(outside))
    part[_spread(second, _class(y, len(part)), _separable(twin, second, 2), size, draws, spare=1)] = TEST
    return part


def _complete(part: Ints, number: Ints, y: Tensor | None, outside: Shares) -> None:
    """Move whole domains into train, in place, until it has every class that it can have."""
    wanted = [one for one, share in zip((VAL, TEST), outside, strict=True) if share > 0]
    values, sizes = list(_values(y)), np.bincount(number)
    for holds in values:
        if not holds[part == TRAIN].any():
            having = np.unique(number[holds])
            smallest_first = having[np.argsort(sizes[having], kind="stable")].tolist()
            trials = (_taken_in(part, number, domain, wanted, values) for domain in smallest_first)
            part[:] = next((moved for moved in trials if moved is not None), part)


def _taken_in(part: Ints, number: Ints, domain: int, wanted: Sequence[int], values: Sequence[Bools]) -> Ints | None:
    """Return the parts after a domain moved into train; a part left empty gets a domain that another can spare.

    This is the last domain of train if train keeps every class without it, else the first of an OOD part with several.
    """
    moved = np.where(number == domain, TRAIN, part)
    empty = [one for one in wanted if not (moved == one).any()]
    if not empty:
        return moved
    there = [holds for holds in values if holds[moved == TRAIN].any()]
    spared = [
        one for side in wanted for one in np.unique(number[moved == side]) if (moved[number != one] == side).any()
    ]
    for other in (*np.unique(number[moved == TRAIN])[::-1], *spared):
        swapped = np.where(number == other, empty[0], moved)
        if len(empty) == 1 and other != domain and all(holds[swapped == TRAIN].any() for holds in there):
            return swapped
    return None


def _values(y: Tensor | None) -> Iterator[Bools]:
    """Yield, for every class or value of a binary target that occurs, which graphs have it (G,)."""
    if y is None:
        return
    for column in y.reshape(len(y), -1).T.numpy():
        for value in np.unique(column[~np.isnan(column)]):
            yield column == value


def _leave(part: Ints, shares: Mapping[int, float], total: int, y: Tensor | None, twin: Ints, draws: Draws) -> None:
    """Draw parts from train, in place: shares of all rows, but at most a quarter of train each.

    One row of every class stays in train. Duplicates of a molecule stay together: probabilities calibrated on molecules
    that are also in train would be overconfident.
    """
    train = np.flatnonzero(part == TRAIN)
    most = max(1, len(train) // 4) if len(train) > len(shares) else 0
    sizes = [min(most, max(1, math.floor(round(total * share, 6)))) if share > 0 else 0 for share in shares.values()]
    kept = _indispensable(train, y, draws)
    twin = _separable(twin, train[~np.isin(twin[train], twin[kept])], len(shares) + (len(kept) == 0))
    free = train[~np.isin(twin[train], twin[kept])]
    sizes = [min(size, len(free) // len(sizes)) for size in sizes]
    kinds = _class(y, len(part))
    leaving = _spread(free, kinds, twin, sum(sizes), draws, least=sum(size > 0 for size in sizes))
    for place, one in enumerate(shares):
        later = sizes[place + 1 :]
        size = round(len(leaving) * sizes[place] / max(sizes[place] + sum(later), 1))  # duplicates change the number
        taken = _spread(leaving, kinds, twin, size, draws, spare=sum(size > 0 for size in later))
        part[taken] = one
        leaving = leaving[~np.isin(leaving, taken)]


def _separable(twin: Ints, rows: Ints, least: int) -> Ints:
    """Return the duplicate numbers (G,), or one per row if the rows have too few molecules."""
    return twin if len(np.unique(twin[rows])) >= least else np.arange(len(twin))


def _indispensable(train: Ints, y: Tensor | None, draws: Draws) -> Ints:
    """Return one training row of every class, or of every value of every target."""
    shuffled = train[draws.uniform(len(train)).argsort(kind="stable")]
    kept: list[int] = []
    for holds in _values(y):
        there = shuffled[holds[shuffled]]
        if len(there) and not holds[kept].any():
            kept.append(int(there[0]))
    return np.array(kept, dtype=np.int64)


def _class(y: Tensor | None, count: int) -> Ints:
    """Return the class of each graph (G,), 0 without labels or with several targets."""
    if y is None or (y.dim() == 2 and y.shape[1] > 1):
        return np.zeros(count, dtype=np.int64)
    return y.reshape(-1).long().numpy()


def _spread(rows: Ints, kinds: Ints, twin: Ints, size: int, draws: Draws, least: int = 1, spare: int = 0) -> Ints:
    """Draw about ``size`` rows, classes in proportion and duplicates together; exactly ``size`` without duplicates.

    Args:
        rows: Rows to draw from.
        kinds: Class of each graph (G,).
        twin: A number for each graph (G,), equal for graphs that stay together.
        size: Number of rows; larger groups of duplicates are avoided.
        draws: Random numbers.
        least: Smallest number of groups to draw.
        spare: Smallest number of groups to leave.
    """
    if not size or not len(rows):
        return rows[:0]
    _, first, group, weight = np.unique(twin[rows], return_index=True, return_inverse=True, return_counts=True)
    fitting = np.argsort(first)  # in the order of occurrence
    fitting = fitting[weight[fitting] <= max(size, np.sort(weight)[:least].max())]
    # Neighbours have the same class and weight, so groups at equal distances have about the wanted size.
    order = fitting[np.lexsort((draws.uniform(len(fitting)), weight[fitting], kinds[rows[first[fitting]]]))]
    count = max(least, round(size * len(order) / int(weight[order].sum())))
    count = min(count, len(order), len(weight) - spare)
    places = ((np.arange(count) + 0.5) * len(order) / count).astype(np.int64)
    rank = np.full(len(weight), len(weight))
    rank[order[places]] = np.arange(count)
    chosen = np.flatnonzero(rank[group] < count)
    return rows[chosen[np.argsort(rank[group[chosen]], kind="stable")]]


def _of_rows(collection: Collection, part: Ints, number: Ints, names: Sequence[str], by: str) -> Split:
    """Return the split of all rows of the source from that of its graphs."""
    whole: dict[str, Any] = {}
    for name, values, missing in (("part", part, -1), ("domain", number, 0)):
        whole[name] = torch.full((collection.count,), missing)
        whole[name][collection.rows] = torch.from_numpy(values.astype(np.int64))
    return Split(**whole, names=tuple(names), by=by)
