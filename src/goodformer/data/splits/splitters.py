"""Splits of a user's own data in which whole domains are kept for testing.

Letters: R rows, G graphs, D domains, T targets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer.data.benchmarks.motif import Draws
from goodformer.data.readers.collection import Collection
from goodformer.data.readers.labels import labelled
from goodformer.data.readers.values import counted
from goodformer.data.splits.distance import distance_report
from goodformer.data.splits.domains import Columns, Domains, by_cluster, by_column, by_scaffold, by_size, column_note
from goodformer.data.splits.split import ID_TEST, ID_VAL, TEST, TRAIN, VAL, Split, covariate
from goodformer.data.splits.twins import same_molecules
from goodformer.registry import InputError, unknown

__all__ = ["SPLITTERS", "check_not_target", "distance_report", "make_split", "split_note"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Shares = tuple[float, float]

AUTO = "auto"


@dataclass(frozen=True)
class Request:
    """What is to be split, and how.

    Attributes:
        collection: The graphs that can be used.
        columns: Columns of the file, one entry a row of the source.
        argument: What follows the colon in ``column:NAME``.
        y: Labels of the graphs (G,) or (G, T), where they are known.
        seed: Decides what is drawn.
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
) -> Split:
    """Which rows train and which test, domains kept whole.

    ``scaffold``, ``size``, ``cluster`` and ``column:NAME`` order their domains (`goodformer.data.splits.domains`) and
    give the first to train, the next to val and the last to test; then id_val and id_test leave train at random,
    with all classes in proportion and rows of the same molecule together (unless there are too few
    molecules to fill the parts).
    Where there are two domains only, val and test share the second. A class that only val or test would have takes the
    smallest domain that holds it into train, for which train gives another where it must. ``random`` keeps no domain
    apart but molecules together, ``file:PATH`` reads what `Split.save` wrote, and ``auto`` is scaffold for SMILES and
    size for other graphs, or random where that does not differ.

    Args:
        how: One of `SPLITTERS`, or ``auto``.
        collection: The graphs.
        columns: Columns of all R rows, for ``column:NAME``.
        y: Labels of all R rows (R,) or (R, T); rows without any label are left out.
        seed: Decides which rows leave train, the order of equally common domains, and how clusters begin.
        outside: Shares of the rows that val and test should have; 0 leaves one out.
        inside: Shares of the rows that id_val and id_test should have.

    Returns:
        The split of all R rows; a row without graph, label or domain is in none of the parts.
    """
    name, _, argument = how.partition(":")
    if name not in SPLITTERS and how != AUTO:
        raise unknown("split", name, [AUTO, *SPLITTERS])
    if bool(argument) != (name in TAKING):
        what = f"{name}:{TAKING[name]}" if name in TAKING else name
        raise InputError(f"split {how!r} is not complete or says too much; write it as {what}.")
    if y is not None and len(y) != collection.count:
        raise InputError(f"y has {counted(len(y), 'label')} for {counted(collection.count, 'row')}; give one a row.")
    usable, labels = _usable(collection, y)
    if not len(usable):
        raise InputError("there is no row with both a graph and a label; check the columns of input and target.")
    request = Request(usable, columns, argument, labels, seed, outside, inside)
    return _auto(request) if how == AUTO else SPLITTERS[name](request)


def split_note(how: str, collection: Collection, columns: Columns | None) -> str:
    """One sentence on how the column that a split goes by was read, where that is not plain; empty for others."""
    name, _, argument = how.partition(":")
    return column_note(argument, collection, columns) if name == "column" else ""


def check_not_target(how: str, targets: Sequence[str]) -> None:
    """Refuse to split by what is predicted: training would lack the classes that are tested."""
    name, _, argument = how.partition(":")
    if name == "column" and argument in targets:
        raise InputError(f"column {argument!r} is what is predicted; split by another column, by scaffold or by size.")


def _scaffold(request: Request) -> Split:
    """Rare Murcko scaffolds are kept for testing."""
    return _by_domains(request, by_scaffold(request.collection, request.seed), "scaffold")


def _size(request: Request) -> Split:
    """Large graphs are kept for testing."""
    return _by_domains(request, by_size(request.collection), "size")


def _cluster(request: Request) -> Split:
    """Clusters of unusual graphs are kept for testing."""
    return _by_domains(request, by_cluster(request.collection, request.seed), "cluster")


def _column(request: Request) -> Split:
    """The largest or latest values of a column, or its rarest words, are kept for testing."""
    name = request.argument
    return _by_domains(request, by_column(name, request.collection, request.columns, request.seed), name)


def _random(request: Request) -> Split:
    """No shift: every part is drawn at random."""
    part, twin = np.full(len(request.collection), TRAIN), _twins(request.collection)
    draws = Draws(request.seed, "random")
    _leave(part, dict(zip((VAL, TEST), request.outside, strict=True)), len(part), request.y, twin, draws)
    _leave(part, dict(zip((ID_VAL, ID_TEST), request.inside, strict=True)), len(part), request.y, twin, draws)
    return _of_rows(request.collection, part, np.zeros_like(part), (), "random")


def _file(request: Request) -> Split:
    """A split that was saved before."""
    split, rows = Split.load(request.argument), request.collection.count
    if len(split) != rows:
        raise InputError(
            f"the split {request.argument} is of {len(split):,} rows but the data have {rows:,}; "
            "give the split of this very file."
        )
    return split


SPLITTERS: dict[str, Callable[[Request], Split]] = {
    "scaffold": _scaffold,
    "size": _size,
    "cluster": _cluster,
    "random": _random,
    "column": _column,
    "file": _file,
}
"""How data can be split, by name."""
TAKING = {"column": "NAME", "file": "PATH"}
"""What must follow the colon."""


def _auto(request: Request) -> Split:
    """By scaffold where there are SMILES, by size otherwise, at random where that does not differ."""
    molecules = request.collection.molecules is not None
    domains = by_scaffold(request.collection, request.seed) if molecules else by_size(request.collection)
    if len(domains.names) < 2:
        return _random(request)
    return _by_domains(request, domains, "scaffold" if molecules else "size")


def _usable(collection: Collection, y: Tensor | None) -> tuple[Collection, Tensor | None]:
    """The graphs that have a label, and their labels."""
    if y is None:
        return collection, None
    labels = y[collection.rows]
    return collection.subset(labelled(labels).nonzero().flatten()), labels[labelled(labels)]


def _by_domains(request: Request, domains: Domains, by: str) -> Split:
    """The first domains train, the next are val, the last test; id_val and id_test leave train."""
    known = np.flatnonzero(domains.number >= 0)
    number = domains.number[known]
    if len(domains.names) < 2:
        raise InputError(
            f"{by} is {domains.names[0]!r} for all {len(known):,} rows; split by something that differs, or at random."
        )
    y = None if request.y is None else request.y[torch.from_numpy(known)]
    draws, twin = Draws(request.seed, f"split/{by}"), _twins(request.collection)[known]
    inner = _cut(number, by, request.outside, y, twin, draws)
    _complete(inner, number, y, request.outside)
    _leave(inner, dict(zip((ID_VAL, ID_TEST), request.inside, strict=True)), len(inner), y, twin, draws)
    part = np.full(len(domains.number), -1)
    part[known] = inner
    return _of_rows(request.collection, part, np.maximum(domains.number, 0), domains.names, by)


def _twins(collection: Collection) -> Ints:
    """A number for each graph (G,), equal for rows of the same molecule; of other graphs each has its own."""
    found = same_molecules(collection)
    return np.arange(len(collection)) if found is None else found


def _cut(number: Ints, by: str, outside: Shares, y: Tensor | None, twin: Ints, draws: Draws) -> Ints:
    """Train, val and test (G,), domains kept whole unless there are fewer than three."""
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
    values = list(_values(y))
    for holds in values:
        if not holds[part == TRAIN].any():
            trials = (_taken_in(part, number, domain, wanted, values) for domain in _smallest(number, holds))
            part[:] = next((moved for moved in trials if moved is not None), part)


def _taken_in(part: Ints, number: Ints, domain: int, wanted: Sequence[int], values: Sequence[Bools]) -> Ints | None:
    """The parts after a domain went into train; one that was left empty gets a domain that another part can spare.

    The last one of train, where it keeps every class without it, else the first of a part outside that has several.
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


def _smallest(number: Ints, holds: Bools) -> Sequence[int]:
    """Domains that have such a row, the smallest first."""
    sizes = np.bincount(number)
    there = np.unique(number[holds])
    return there[np.argsort(sizes[there], kind="stable")].tolist()


def _values(y: Tensor | None) -> Iterator[Bools]:
    """For every class, or every value of every binary target, that occurs: which graphs have it (G,)."""
    if y is None:
        return
    for column in y.reshape(len(y), -1).T.numpy():
        for value in np.unique(column[~np.isnan(column)]):
            yield column == value


def _leave(part: Ints, shares: Mapping[int, float], total: int, y: Tensor | None, twin: Ints, draws: Draws) -> None:
    """Let parts leave train at random, in place: shares of all rows, but no more than a quarter of train each.

    One row of every class stays in train, and rows of the same molecule stay together: a part that has the molecules
    of train says nothing of others, and probabilities calibrated on it are too sure.
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
        size = round(len(leaving) * sizes[place] / max(sizes[place] + sum(later), 1))  # twins may be more or fewer
        taken = _spread(leaving, kinds, twin, size, draws, spare=sum(size > 0 for size in later))
        part[taken] = one
        leaving = leaving[~np.isin(leaving, taken)]


def _separable(twin: Ints, rows: Ints, least: int) -> Ints:
    """The numbers of the molecules (G,), or one for each row where rows have too few molecules to be told apart by."""
    return twin if len(np.unique(twin[rows])) >= least else np.arange(len(twin))


def _indispensable(train: Ints, y: Tensor | None, draws: Draws) -> Ints:
    """One training row of every class, or of every value of every target."""
    shuffled = train[draws.uniform(len(train)).argsort(kind="stable")]
    kept: list[int] = []
    for holds in _values(y):
        there = shuffled[holds[shuffled]]
        if len(there) and not holds[kept].any():
            kept.append(int(there[0]))
    return np.array(kept, dtype=np.int64)


def _class(y: Tensor | None, count: int) -> Ints:
    """The class of each graph (G,), 0 where there are none or several targets."""
    if y is None or (y.dim() == 2 and y.shape[1] > 1):
        return np.zeros(count, dtype=np.int64)
    return y.reshape(-1).long().numpy()


def _spread(rows: Ints, kinds: Ints, twin: Ints, size: int, draws: Draws, least: int = 1, spare: int = 0) -> Ints:
    """About so many of the rows at random, each kind in proportion and twins together; just so many without twins.

    Args:
        rows: Rows to draw from.
        kinds: The class of each graph (G,).
        twin: A number for each graph (G,), equal for those that stay together.
        size: How many rows; larger groups of twins are not drawn where there are enough others.
        draws: What is drawn from.
        least: How many groups are drawn at least.
        spare: How many groups are left at least.
    """
    if not size or not len(rows):
        return rows[:0]
    _, first, group, weight = np.unique(twin[rows], return_index=True, return_inverse=True, return_counts=True)
    fitting = np.argsort(first)  # in the order they occur in
    fitting = fitting[weight[fitting] <= max(size, np.sort(weight)[:least].max())]
    # Neighbours have the same kind and weight, so that every so many of them have about the size that is wanted.
    order = fitting[np.lexsort((draws.uniform(len(fitting)), weight[fitting], kinds[rows[first[fitting]]]))]
    count = max(least, round(size * len(order) / int(weight[order].sum())))
    count = min(count, len(order), len(weight) - spare)
    places = ((np.arange(count) + 0.5) * len(order) / count).astype(np.int64)
    rank = np.full(len(weight), len(weight))
    rank[order[places]] = np.arange(count)
    chosen = np.flatnonzero(rank[group] < count)
    return rows[chosen[np.argsort(rank[group[chosen]], kind="stable")]]


def _of_rows(collection: Collection, part: Ints, number: Ints, names: Sequence[str], by: str) -> Split:
    """The split of all rows of the source, from that of its graphs."""
    whole: dict[str, Any] = {}
    for name, values, missing in (("part", part, -1), ("domain", number, 0)):
        whole[name] = torch.full((collection.count,), missing)
        whole[name][collection.rows] = torch.from_numpy(values.astype(np.int64))
    return Split(**whole, names=tuple(names), by=by)
