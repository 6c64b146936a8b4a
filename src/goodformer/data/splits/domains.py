"""Attributes by which graphs can be split: each assigns graphs to domains and orders the domains.

Letters: G graphs, D domains, K clusters.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from goodformer.data.random import Draws
from goodformer.data.readers.collection import Collection, known_column
from goodformer.data.readers.values import number_of, percent, word_of
from goodformer.data.splits.descriptors import spectrum, structure
from goodformer.data.splits.order import Measure, order_of
from goodformer.errors import InputError

Ints = npt.NDArray[np.int64]
Columns = Mapping[str, Sequence[Any]]

BINS = 20
"""Number of domains, with about equally many rows, into which many different numbers or dates are binned."""
CLUSTERS = (10, 100)
"""Smallest and largest number of clusters."""
CLUSTERED = 1024
"""Bits of the fingerprints that are clustered; another number would change the splits of recorded runs."""
NO_RING = "(no ring)"


@dataclass(frozen=True)
class Domains:
    """Domain of each graph; the first domains go to training, the last to OOD test.

    Attributes:
        number: Number of each graph's domain, -1 if unknown (G,).
        names: Name of each domain (D).
        sources: Whether domains have no order, such as assays or laboratories, so that neighbours are not alike.
    """

    number: Ints
    names: tuple[str, ...]
    sources: bool = False


def by_scaffold(collection: Collection, seed: int = 0) -> Domains:
    """Use Murcko scaffolds as domains, the commonest first; the seed orders equally common ones.

    A model then trains on large series and is tested on rare scaffolds, as happens when a new series begins. An
    alphabetical order, as in GOOD, would depend on the notation and not on chemistry.
    """
    if collection.molecules is None:
        raise InputError("these graphs are not molecules and have no scaffolds; split by size or cluster.")
    return _commonest_first([text or NO_RING for text in collection.molecules.scaffolds()], seed)


def by_size(collection: Collection) -> Domains:
    """Use the number of nodes as domain, the smallest first."""
    sizes, number = np.unique(collection.graphs.sizes.numpy(), return_inverse=True)
    return Domains(number, tuple(str(size) for size in sizes))


def by_cluster(collection: Collection, seed: int = 0) -> Domains:
    """Use clusters of similar graphs as domains, those nearest to the overall mean first.

    Molecules are compared by Morgan fingerprints, other graphs by size, degrees and spectrum. Mini-batch k-means keeps
    time and memory linear in the number of graphs.
    """
    if collection.molecules is not None:
        bits = csr_array(collection.molecules.fingerprints(CLUSTERED).astype(np.float32))  # (G, F), few of them set
        return _clustered(diags_array(1 / np.sqrt(np.maximum(bits.sum(1), 1))) @ bits, seed)
    raw = np.concatenate([structure(collection.graphs), spectrum(collection.graphs)], 1)
    return _clustered(csr_array((raw - raw.mean(0)) / np.maximum(raw.std(0), 1e-9)), seed)


def by_column(name: str, collection: Collection, columns: Columns | None, seed: int = 0) -> Domains:
    """Use the values of a column as domains: numbers and dates ascending, words the commonest first.

    More than 20 different numbers or dates are put into 20 bins; equal values share a bin. Rows with a missing value
    have no domain, and neither have a few words among numbers or dates (`goodformer.data.splits.order`).
    """
    values = column_words(name, collection, columns)
    measure = order_of(name, filter(None, values)).measure
    return replace(_commonest_first(values, seed), sources=True) if measure is None else _ascending(values, measure)


def column_note(name: str, collection: Collection, columns: Columns | None) -> str:
    """Return a note on how the values of a column were read and which are held out."""
    words = [word for word in column_words(name, collection, columns) if word]
    order = order_of(name, words)
    if order.measure is None:
        own = sum(count for count in Counter(words).values() if count == 1)
        single = f" {percent(own / len(words))} of the rows have a value of their own: they are held out at random."
        return order.note + single * (own > len(words) / 2)
    return f"{order.note} rows with the last values of column {name!r} are held out.".strip()


def column_words(name: str, collection: Collection, columns: Columns | None) -> list[str]:
    """Return the value of each graph in a column (G), empty if missing."""
    if columns is None:
        raise InputError(
            f"cannot split by column {name!r}: the data have no columns; give a file, or choose another split."
        )
    known_column(name, columns, "the data")
    values = [word_of(columns[name][row]) or "" for row in collection.rows.tolist()]
    if not any(values):
        raise InputError(f"column {name!r} is empty in every row; split by another column.")
    return values


def _commonest_first(values: Sequence[str], seed: int) -> Domains:
    """Return domains of equal words, the commonest first, ties in random order; an empty word has no domain."""
    counts = Counter(value for value in values if value)
    words = sorted(counts)
    drawn = Draws(seed, "ties").uniform(len(words))
    order = np.lexsort((drawn, np.array([-counts[word] for word in words])))
    names = tuple(words[place] for place in order)
    number = {word: place for place, word in enumerate(names)}
    return Domains(np.array([number.get(value, -1) for value in values], dtype=np.int64), names)


def _ascending(values: Sequence[str], measure: Measure) -> Domains:
    """Return domains of equal or neighbouring numbers in ascending order."""
    keys = np.array([math.nan if not value else measure(value) for value in values], dtype=np.float64)
    known = np.flatnonzero(~np.isnan(keys))
    _, first, place, counts = np.unique(keys[known], return_index=True, return_inverse=True, return_counts=True)
    bins = np.arange(len(counts))
    if len(counts) > BINS:
        bins = ((np.cumsum(counts) - counts) * BINS // len(known)).astype(np.int64)
        bins = np.unique(bins, return_inverse=True)[1]
    texts = [values[known[row]] for row in first]
    if len(counts) > BINS and measure is number_of:
        texts = [f"{float(text):.5g}" for text in texts]
    number = np.full(len(values), -1)
    number[known] = bins[place]
    ends = (np.flatnonzero(bins == one)[[0, -1]] for one in range(int(bins[-1]) + 1))
    spans = ((texts[low], texts[high]) for low, high in ends)
    return Domains(number, tuple(low if low == high else f"{low} to {high}" for low, high in spans))


def _clustered(table: csr_array, seed: int) -> Domains:
    """Cluster the rows of a table (G, F) and number clusters by the distance of their centre from the overall mean."""
    from sklearn.cluster import MiniBatchKMeans

    wanted = int(np.clip(math.sqrt(table.shape[0]) / 2, *CLUSTERS))
    means = MiniBatchKMeans(min(wanted, table.shape[0]), random_state=seed, n_init=3, batch_size=2048)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer different rows than clusters; empty clusters are dropped below
        found = means.fit_predict(table)
    kept, number, counts = np.unique(found, return_inverse=True, return_counts=True)
    member = csr_array((np.ones(len(number)), (number, np.arange(len(number)))))  # (K, G)
    centres = (member @ table).toarray() / counts[:, None]  # (K, F)
    far = np.linalg.norm(centres - table.mean(0), axis=1)  # (K,)
    rank = np.argsort(np.argsort(far, kind="stable"), kind="stable")
    return Domains(rank[number], tuple(f"cluster {place}" for place in range(len(kept))))
