"""One forward pass over graphs, keeping everything that calibration and domain scores need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.sparse import csr_array, vstack
from torch import Tensor

from goodformer.batch import Batch
from goodformer.data.graphs import GraphSet
from goodformer.data.similarity import BITS
from goodformer.engine.evaluate import infer
from goodformer.engine.seeds import derive_seed
from goodformer.methods.base import Method, Prediction
from goodformer.spec import Encoding
from goodformer.transforms.environments import counts
from goodformer.uncertainty.training_rows import MOST

TRAINING_GRAPHS = 5000
"""Training graphs that a domain score is fitted to at most."""
FINGERPRINTED = MOST
"""The same for a score that compares fingerprints."""
KINDS = 128
"""Number of kinds of nodes; further codes count as the last kind."""
ENVIRONMENTS = "environments:2"
"""Encoding of which fingerprints are made; those of molecules are RDKit's Morgan fingerprints of radius 2."""


@dataclass(frozen=True)
class Seen:
    """Outputs for B graphs after one pass, on the CPU and in double precision.

    Attributes:
        logits: (B, C).
        statistics: Statistics of the graphs themselves, (B, S).
        embedding: (B, D), where requested.
        signals: The method's own signals, each (B,).
        y: Labels, where the graphs carry them.
        kinds: Whether a graph has a node of each kind, (B, KINDS), where nodes have kinds (for molecules: elements).
        bits: Fingerprints (B, BITS) of zeros and ones, where the graphs carry `ENVIRONMENTS`.
    """

    logits: Tensor
    statistics: Tensor
    embedding: Tensor | None = None
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    y: Tensor | None = None
    kinds: Tensor | None = None
    bits: csr_array | None = None

    def __len__(self) -> int:
        return len(self.logits)

    def take(self, rows: Tensor) -> Seen:
        """Return the graphs at some rows, in that order."""
        return Seen(
            self.logits[rows],
            self.statistics[rows],
            None if self.embedding is None else self.embedding[rows],
            {name: value[rows] for name, value in self.signals.items()},
            None if self.y is None else self.y[rows],
            None if self.kinds is None else self.kinds[rows],
            None if self.bits is None else self.bits[rows.numpy()],
        )


def observe(method: Method, graphs: GraphSet, embeds: bool = True, batch_size: int = 256) -> Seen:
    """Run a trained method over graphs that carry its encodings; rows are in the order of the graphs."""
    positions, parts = [], []
    for places, batch, prediction in infer(method, graphs, batch_size, scores=False):
        positions.append(places)
        parts.append(observe_batch(method, batch, prediction, embeds))

    def joined(values: Iterable[Tensor | None]) -> Tensor | None:
        there = [value for value in values if value is not None]
        return torch.cat(there) if there else None

    every = Seen(
        torch.cat([part.logits for part in parts]),
        torch.cat([part.statistics for part in parts]),
        joined(part.embedding for part in parts),
        {name: torch.cat([part.signals[name] for part in parts]) for name in parts[0].signals},
        joined(part.y for part in parts),
        joined(part.kinds for part in parts),
        stacked(part.bits for part in parts),
    )
    return every.take(torch.cat(positions).argsort())


def observe_batch(method: Method, batch: Batch, prediction: Prediction, embeds: bool) -> Seen:
    """Return the outputs for one batch; the embedding takes a second pass if the method does not return it."""
    embedding = prediction.embedding if embeds else None
    if embeds and embedding is None:
        with torch.no_grad():
            embedding = method.model.graph_embedding(batch)

    def plain(value: Tensor) -> Tensor:
        return value.detach().cpu().double()

    return Seen(
        plain(prediction.logits),
        statistics(batch),
        None if embedding is None else plain(embedding),
        {name: plain(value) for name, value in prediction.signals.items()},
        batch.y.cpu() if "y" in batch else None,
        node_kinds(batch.x if "x" in batch else None, batch.batch, batch.num_graphs),
        fingerprints(batch),
    )


def fingerprints(batch: Batch) -> csr_array | None:
    """Return which codes of `ENVIRONMENTS`, modulo `BITS`, each graph has, (B, BITS); None if the batch lacks them."""
    name = Encoding.parse(ENVIRONMENTS).attribute
    if name not in batch:
        return None
    found = counts(batch[name].cpu(), batch.ptr.cpu(), BITS).astype(np.float32)
    found.data[:] = 1
    return found


def stacked(parts: Iterable[csr_array | None]) -> csr_array | None:
    """Return the fingerprints of several batches, one after the other."""
    there = [part for part in parts if part is not None]
    return vstack(there, format="csr") if there else None


def fingerprinted(graphs: GraphSet, batch_size: int = 4096) -> Seen:
    """Return the fingerprints of graphs that carry `ENVIRONMENTS`, each once, without a method.

    If one occurred twice, its nearest other would be itself, and every new graph would look unusual beside it.
    """
    chunks = torch.arange(len(graphs)).split(batch_size)
    bits = stacked(fingerprints(graphs.batch(chunk)) for chunk in chunks)
    assert bits is not None
    key = np.random.default_rng(0).integers(1, 2**63, bits.shape[1], dtype=np.uint64)  # a row's is the sum of its bits'
    sums = np.zeros(len(bits.indices) + 1, dtype=np.uint64)
    np.cumsum(key[bits.indices], out=sums[1:])  # it may wrap around
    first = np.sort(np.unique(np.diff(sums[bits.indptr]), return_index=True)[1])
    none = torch.zeros(len(first), 0)
    return Seen(none, none, bits=bits[first])


def node_kinds(x: Tensor | None, graph: Tensor, graphs: int) -> Tensor | None:
    """Return whether each graph has a node of each kind, (B, KINDS); None if the nodes have no codes.

    The kind is the first code of a node, for molecules the element.

    Args:
        x: Node features (N, F).
        graph: Graph of each node (N,).
        graphs: Number of graphs B.
    """
    if x is None or x.is_floating_point() or x.dim() != 2:
        return None
    found = torch.zeros(graphs, KINDS, dtype=torch.bool)
    found[graph.cpu(), x[:, 0].cpu().clamp(0, KINDS - 1)] = True
    return found


def statistics(batch: Batch) -> Tensor:
    """Return log size, mean, deviation and log maximum of the degrees, and the share of nodes of degree <= 1, (B, 5).

    These need no model and serve as a baseline.
    """
    graph, size = batch.batch.cpu(), batch.ptr.cpu().diff().double()
    degree = torch.bincount(batch.edge_index[1].cpu(), minlength=len(graph)).double()  # (N,)
    zeros = torch.zeros(len(size), dtype=torch.double)
    mean = zeros.index_add(0, graph, degree) / size
    square = zeros.index_add(0, graph, degree.square()) / size
    largest = zeros.scatter_reduce(0, graph, degree, "amax")
    leaves = zeros.index_add(0, graph, (degree <= 1).double()) / size
    deviation = (square - mean.square()).clamp(min=0).sqrt()
    return torch.stack((size.log(), mean, deviation, largest.log1p(), leaves), 1)


def sample(graphs: GraphSet, limit: int = TRAINING_GRAPHS) -> GraphSet:
    """Return a seeded random sample of at most ``limit`` graphs, in their order.

    The sample is random because graphs are often sorted: every k-th graph would not be representative.
    """
    return graphs if len(graphs) <= limit else graphs.subset(sampled(len(graphs), limit))


def sampled(graphs: int, limit: int = TRAINING_GRAPHS) -> Tensor:
    """Return the places of such a sample."""
    generator = torch.Generator().manual_seed(derive_seed("sureness", graphs))
    return torch.randperm(graphs, generator=generator)[:limit].sort().values
