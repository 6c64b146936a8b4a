"""The interface of every model."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.data import Batch

from goodformer.errors import InputError


class GraphModel(nn.Module):
    """Base class of models: graphs in, node embeddings out. A model never reads labels.

    Attributes:
        dim: Width D of the node embeddings.
        encodings: Encodings (``name:width``) that the batch must carry.
        in_words: What the model does and when to choose it, in one sentence without formulas.
    """

    in_words: str = ""
    dim: int
    encodings: tuple[str, ...] = ()

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
        """Return graph embeddings (B, D) from node embeddings (N, D)."""
        raise NotImplementedError
