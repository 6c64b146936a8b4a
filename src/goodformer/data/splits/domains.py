"""Attributes by which graphs can be split: each puts every graph into a domain and the domains in an order.

Letters: G graphs, D domains, K clusters.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from goodformer.data.benchmarks.motif import Draws
from goodformer.data.readers.collection import Collection, known_column
from goodformer.data.readers.values import number_of, word_of
from goodformer.data.splits.descriptors import spectrum, structure
from goodformer.data.splits.order import Measure, order_of
from goodformer.registry import InputError

Ints = npt.NDArray[np.int64]
Columns = Mapping[str, Sequence[Any]]

BINS = 20
"""Domains that a column of many different numbers or dates is cut into, with about equally many rows each."""
CLUSTERS = (10, 100)
"""Fewest and most clusters that are looked for."""
NO_RING = "(no ring)"


@dataclass(frozen=True)
class Domains:
    """The domain of each graph; the first domains go to training, the last to test.

    Attributes:
        number: The number of its domain, -1 where that is not known (G,).
        names: What each domain is called (D).
    """

    number: Ints
    names: tuple[str, ...]


def by_scaffold(collection: Collection, seed: int = 0) -> Domains:
    """Domains are Murcko scaffolds, the commonest first; equally common ones in an order that the seed draws.

    So a model trains on the large series and is tested on scaffolds of which there are few, as happens when a new
    series is begun. An order by the alphabet, as in GOOD, makes test whatever the alphabet puts last, which says
    something of the notation and little of chemistry; so does an alphabet among scaffolds that occur once.
    """
    if collection.molecules is None:
        raise InputError("only molecules have scaffolds; split these graphs by size or cluster instead.")
    return _commonest_first([text or NO_RING for text in collection.molecules.scaffolds()], seed)


def by_size(collection: Collection) -> Domains:
    """Domains are numbers of nodes, the smallest first."""
    sizes, number = np.unique(collection.graphs.sizes.numpy(), return_inverse=True)
    return Domains(number, tuple(str(size) for size in sizes))


def by_cluster(collection: Collection, seed: int = 0) -> Domains:
    """Domains are clusters of alike graphs, those nearest to the mean of all first.

    Molecules are alike in their Morgan fingerprints, other graphs in sizes, degrees and spectrum. Clusters are found
    by k-means in small batches, so that time and memory grow with the number of graphs and not with its square.
    """
    if collection.molecules is not None:
        bits = csr_array(collection.molecules.fingerprints().astype(np.float32))  # (G, F), a few in a hundred set
        return _clustered(diags_array(1 / np.sqrt(np.maximum(bits.sum(1), 1))) @ bits, seed)
    raw = np.concatenate([structure(collection.graphs), spectrum(collection.graphs)], 1)
    return _clustered(csr_array((raw - raw.mean(0)) / np.maximum(raw.std(0), 1e-9)), seed)


def by_column(name: str, collection: Collection, columns: Columns | None, seed: int = 0) -> Domains:
    """Domains are values of a column: numbers and dates in ascending order, words the commonest first.

    More than 20 different numbers or dates are put into 20 bins, equal values always in the same one. Rows without a
    value, or with a word for none such as NA, have no domain, and neither have a few words among numbers or dates
    (`goodformer.data.splits.order`).
    """
    values = _words(name, collection, columns)
    measure = order_of(name, filter(None, values)).measure
    return _commonest_first(values, seed) if measure is None else _ascending(values, measure)


def column_note(name: str, collection: Collection, columns: Columns | None) -> str:
    """One sentence on how the values of a column were read, where that is not plain."""
    return order_of(name, filter(None, _words(name, collection, columns))).note


def _words(name: str, collection: Collection, columns: Columns | None) -> list[str]:
    """The value of each graph in a column (G), empty where there is none."""
    if columns is None:
        raise InputError(f"there are no columns to split by {name!r}; give a file that has it, or split otherwise.")
    known_column(name, columns, "the data")
    values = [word_of(columns[name][row]) or "" for row in collection.rows.tolist()]
    if not any(values):
        raise InputError(f"column {name!r} is empty in every row; split by another one.")
    return values


def _commonest_first(values: Sequence[str], seed: int) -> Domains:
    """Domains of equal words, the commonest first, ties in drawn order; an empty word is none."""
    counts = Counter(value for value in values if value)
    words = sorted(counts)
    drawn = Draws(seed, "ties").uniform(len(words))
    order = np.lexsort((drawn, np.array([-counts[word] for word in words])))
    names = tuple(words[place] for place in order)
    number = {word: place for place, word in enumerate(names)}
    return Domains(np.array([number.get(value, -1) for value in values], dtype=np.int64), names)


def _ascending(values: Sequence[str], measure: Measure) -> Domains:
    """Domains of equal or neighbouring numbers in ascending order."""
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
    return Domains(number, tuple(_span(texts, bins == one) for one in range(int(bins[-1]) + 1)))


def _span(texts: Sequence[str], inside: npt.NDArray[np.bool_]) -> str:
    """The smallest and the largest value of a bin."""
    places = np.flatnonzero(inside)
    low, high = texts[places[0]], texts[places[-1]]
    return low if low == high else f"{low} to {high}"


def _clustered(table: csr_array, seed: int) -> Domains:
    """Clusters of the rows of a table (G, F), numbered by the distance of their centre from the mean of all."""
    from sklearn.cluster import MiniBatchKMeans

    wanted = int(np.clip(math.sqrt(table.shape[0]) / 2, *CLUSTERS))
    means = MiniBatchKMeans(min(wanted, table.shape[0]), random_state=seed, n_init=3, batch_size=2048)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are fewer different rows than clusters: they are counted below
        found = means.fit_predict(table)
    kept, number, counts = np.unique(found, return_inverse=True, return_counts=True)
    member = csr_array((np.ones(len(number)), (number, np.arange(len(number)))))  # (K, G)
    centres = (member @ table).toarray() / counts[:, None]  # (K, F)
    far = np.linalg.norm(centres - table.mean(0), axis=1)  # (K,)
    rank = np.argsort(np.argsort(far, kind="stable"), kind="stable")
    return Domains(rank[number], tuple(f"cluster {place}" for place in range(len(kept))))
