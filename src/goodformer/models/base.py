"""The contract every model keeps."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.data import Batch


class GraphModel(nn.Module):
    """Graphs in, node embeddings out. Knows no label.

    Attributes:
        dim: Width D of the node embeddings.
        encodings: Computed node attributes (``name:width``) the batch must carry.
        in_words: What it does and when to choose it, for people who want no formula.
    """

    in_words: str = ""
    dim: int
    encodings: tuple[str, ...] = ()

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings (N, D); messages along each edge are multiplied by ``edge_weight`` (E,)."""
        raise NotImplementedError

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """Graph embeddings (B, D) from node embeddings (N, D)."""
        raise NotImplementedError
