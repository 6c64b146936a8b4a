"""One pass over graphs and what it leaves: logits, embeddings, the method's own figures, and those of the graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.data.graphs import GraphSet
from goodformer.engine.evaluate import infer
from goodformer.engine.seeds import derive_seed
from goodformer.methods.base import Method, Prediction


@dataclass(frozen=True)
class Seen:
    """What is known of B graphs after one pass, on the CPU and in double precision.

    Attributes:
        logits: (B, C).
        statistics: Plain figures of the graphs themselves, (B, S).
        embedding: (B, D), where it was asked for.
        signals: The method's own figures, each (B,).
        y: Labels, where the graphs carry them.
    """

    logits: Tensor
    statistics: Tensor
    embedding: Tensor | None = None
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    y: Tensor | None = None

    def __len__(self) -> int:
        return len(self.logits)

    def take(self, rows: Tensor) -> Seen:
        """The graphs at some rows, in that order."""
        return Seen(
            self.logits[rows],
            self.statistics[rows],
            None if self.embedding is None else self.embedding[rows],
            {name: value[rows] for name, value in self.signals.items()},
            None if self.y is None else self.y[rows],
        )


def look(method: Method, batch: Batch, prediction: Prediction, embeds: bool) -> Seen:
    """What one predicted batch leaves; a method that does not hand out its embedding is asked for it."""
    embedding = prediction.embedding if embeds else None
    if embeds and embedding is None:
        device = next(method.parameters()).device
        with torch.no_grad():
            there = batch.to(device)
            embedding = method.model.readout(method.model(there), there)
    return Seen(
        _plain(prediction.logits),
        statistics(batch),
        None if embedding is None else _plain(embedding),
        {name: _plain(value) for name, value in prediction.signals.items()},
        batch.y.cpu() if "y" in batch else None,
    )


class Ready(Protocol):
    """A method, and what makes graphs ready for it: all that looking at graphs takes of a predictor."""

    @property
    def method(self) -> Method:
        """The trained method."""

    def prepare(self, graphs: GraphSet) -> GraphSet:
        """The graphs, checked and with the method's encodings."""


def observe(
    predictor: Ready, graphs: GraphSet, embeds: bool = True, limit: int | None = None, batch_size: int = 256
) -> Seen:
    """One pass over graphs, or over a seeded random sample of at most ``limit``; rows in the order of the graphs."""
    ready = predictor.prepare(graphs if limit is None or len(graphs) <= limit else graphs.subset(_some(graphs, limit)))
    parts = list(infer(predictor.method, ready, batch_size))
    seen = [look(predictor.method, batch, prediction, embeds) for _, batch, prediction in parts]
    return _joined(seen).take(torch.cat([positions for positions, _, _ in parts]).argsort())


def statistics(batch: Batch) -> Tensor:
    """Log size, mean, deviation and log maximum of the degrees, and share of nodes with one neighbour at most, (B, 5).

    What a reader of the data would compare first, without any model.
    """
    graph, size = batch.batch.cpu(), batch.ptr.cpu().diff().double()
    degree = torch.bincount(batch.edge_index[1].cpu(), minlength=len(graph)).double()  # (N,)
    count = len(size)
    mean = torch.zeros(count, dtype=torch.double).index_add_(0, graph, degree) / size
    square = torch.zeros(count, dtype=torch.double).index_add_(0, graph, degree.square()) / size
    largest = torch.zeros(count, dtype=torch.double).scatter_reduce_(0, graph, degree, "amax")
    leaves = torch.zeros(count, dtype=torch.double).index_add_(0, graph, (degree <= 1).double()) / size
    deviation = (square - mean.square()).clamp(min=0).sqrt()
    return torch.stack((size.log(), mean, deviation, largest.log1p(), leaves), 1)


def _some(graphs: GraphSet, limit: int) -> Tensor:
    """A fixed random choice: graphs often come in an order, so that every k-th would be no fair sample."""
    generator = torch.Generator().manual_seed(derive_seed("sureness", len(graphs)))
    return torch.randperm(len(graphs), generator=generator)[:limit].sort().values


def _plain(value: Tensor) -> Tensor:
    return value.detach().cpu().double()


def _joined(parts: Sequence[Seen]) -> Seen:
    """Several passes as one."""
    embeddings = [part.embedding for part in parts if part.embedding is not None]
    labels = [part.y for part in parts if part.y is not None]
    return Seen(
        torch.cat([part.logits for part in parts]),
        torch.cat([part.statistics for part in parts]),
        torch.cat(embeddings) if embeddings else None,
        {name: torch.cat([part.signals[name] for part in parts]) for name in parts[0].signals},
        torch.cat(labels) if labels else None,
    )
