"""The interface of every model."""

from __future__ import annotations

from typing import Self

from torch import Tensor, nn

from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.nn.environments import EnvironmentFusion, environment_share
from goodformer.nn.layout import Layout
from goodformer.nn.twin import fresh_twin


class GraphModel(nn.Module):
    """Base class of models: graphs in, node and graph embeddings out. A model never reads labels.

    Attributes:
        dim: Width D of the node embeddings.
        encodings: Encodings (``name:width``) that the batch must carry.
        fusion: What adds the codes of Morgan environments to graph embeddings; None if the model does not read them.
        in_words: What the model does and when to choose it, in one sentence without formulas.
    """

    in_words: str = ""
    dim: int
    encodings: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.fusion: EnvironmentFusion | None = None

    def read_environments(self, radius: int, table: int, drop: float) -> None:
        """Read the codes of Morgan environments up to a radius; 0 reads none. Called last in a constructor."""
        if radius:
            self.fusion = EnvironmentFusion(radius, table, self.dim, drop)
            self.encodings = (*self.encodings, str(self.fusion.encoding))

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Return node embeddings (N, D); messages along each edge are multiplied by ``edge_weight`` (E,)."""
        raise NotImplementedError

    def continue_from(self, h: Tensor, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Apply all layers to the given node states (N, D); for models with `divide`."""
        raise NotImplementedError

    def divide(self) -> tuple[GraphModel, GraphModel]:
        """Return two models with new weights: the first layers, and the others, used through `continue_from`."""
        raise InputError(f"{type(self).__name__} cannot be divided by layers; use gin or gin-vn, or a second network.")

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """Return graph embeddings (B, D) from node embeddings (N, D) alone, without the codes of environments."""
        raise NotImplementedError

    def graph_embedding(
        self,
        batch: Batch,
        edge_weight: Tensor | None = None,
        node_factor: Tensor | None = None,
        start: Tensor | None = None,
    ) -> Tensor:
        """Return graph embeddings (B, D).

        Args:
            batch: Graphs.
            edge_weight: Selects the part of each graph to embed: it multiplies the messages along each edge and is the
                edge's share in the part, (E,).
            node_factor: Multiplies node embeddings before the readout, (N, 1).
            start: Node states (N, D) to continue from, for models with `divide`.
        """
        h = self(batch, edge_weight) if start is None else self.continue_from(start, batch, edge_weight)
        z = self.readout(h if node_factor is None else h * node_factor, batch)
        return self.fuse(z, batch, self.shares(batch, edge_weight))

    def shares(self, batch: Batch, edge_weight: Tensor | None) -> Tensor | None:
        """Return the share of each environment in the part that edge weights (E,) select, (N, R + 1)."""
        if self.fusion is None or edge_weight is None:
            return None
        return environment_share(edge_weight, Layout(batch), self.fusion.encoding.width)

    def fuse(self, z: Tensor, batch: Batch, share: Tensor | None = None) -> Tensor:
        """Add the codes of environments to graph embeddings (B, D), if the model reads them.

        Args:
            z: Graph embeddings (B, D).
            batch: Graphs.
            share: Share of each environment (N, R + 1), or of each node (N, 1), in the embedded part of its graph.
        """
        if self.fusion is None:
            return z
        return z + self.fusion(batch[self.fusion.encoding.attribute], Layout(batch), share)

    def twin(self, *, dropout: bool = True) -> Self:
        """Return a model with the same architecture and other initial weights, for node embeddings; see `fresh_twin`.

        It reads no codes of environments, which belong to graph embeddings.
        """
        twin = fresh_twin(self, dropout=dropout)
        twin.fusion = None
        return twin
