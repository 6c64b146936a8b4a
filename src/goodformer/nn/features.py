"""Input layers: map node and edge features to vectors of the model's width."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from goodformer.errors import InputError
from goodformer.spec import Encoding, Features, FeatureSpec


class CodeEmbedding(nn.Module):
    """Sum of one learned vector per categorical column; codes out of range share the last vector."""

    start: Tensor
    last: Tensor

    def __init__(self, sizes: Sequence[int], dim: int) -> None:
        super().__init__()
        starts = torch.tensor([0, *sizes]).cumsum(0)
        self.register_buffer("start", starts[:-1], persistent=False)
        self.register_buffer("last", torch.tensor(list(sizes)) - 1, persistent=False)
        self.table = nn.Embedding(int(starts[-1]), dim)
        nn.init.xavier_uniform_(self.table.weight)

    def forward(self, codes: Tensor) -> Tensor:
        """(N, F) codes -> (N, D)."""
        known = codes.long().clamp(min=0).minimum(self.last)  # (N, F)
        return self.table(known + self.start).sum(1)


def embedding(features: Features, dim: int) -> nn.Module:
    """Return the input layer for node or edge features of one kind."""
    if features.kind == "categorical":
        return CodeEmbedding(features.sizes, dim)
    return nn.Linear(max(len(features.sizes), 1), dim)


class SignNet(nn.Module):
    """rho([phi(v_1) + phi(-v_1), ..., phi(v_k) + phi(-v_k)]): independent of the signs of the eigenvectors v.

    Paper: Lim et al., "Sign and Basis Invariant Networks for Spectral Graph Representation Learning", 2023, with an MLP
    for phi.
    """

    def __init__(self, width: int, dim: int, hidden: int = 16) -> None:
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.rho = nn.Sequential(nn.Linear(width * hidden, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, vectors: Tensor) -> Tensor:
        """(N, k) -> (N, D)."""
        entries = vectors[..., None]
        return self.rho((self.phi(entries) + self.phi(-entries)).flatten(1))


class NodeInput(nn.Module):
    """h_v = embed(x_v) + sum over encodings p of W_p p_v, the node's own features and its computed attributes.

    The signs of eigenvectors are arbitrary: in training those of ``laplacian:k`` are flipped at random per graph and
    column (Dwivedi & Bresson, 2021). ``signnet:k`` reads the same encoding with `SignNet`.

    Attributes:
        encodings: Computed attributes the batch must carry, as ``name:width``.
    """

    def __init__(self, spec: FeatureSpec, dim: int, inputs: Sequence[str] = ()) -> None:
        super().__init__()
        self.own = embedding(spec.node, dim)
        self.kind = spec.node.kind
        asked = [Encoding.parse(text) for text in inputs]
        if any(part.name == "environments" for part in asked):
            raise InputError("environments are codes, not node inputs; set model.environments to their radius instead.")
        read = [Encoding("laplacian", part.width) if part.name == "signnet" else part for part in asked]
        self.encodings = tuple(str(part) for part in read)
        self.attributes = [part.attribute for part in read]
        self.computed = nn.ModuleList(
            SignNet(part.width, dim) if part.name == "signnet" else nn.Linear(part.width, dim, bias=False)
            for part in asked
        )

    def forward(self, batch: Batch) -> Tensor:
        """Node vectors (N, D)."""
        x = batch.x if self.kind == "categorical" else batch.x.float()
        h = self.own(x)
        for attribute, layer in zip(self.attributes, self.computed, strict=True):
            value = batch[attribute]
            flip = self.training and attribute.startswith("laplacian_")
            h = h + layer(flip_signs(value, batch.batch, batch.num_graphs) if flip else value)
        return h


def flip_signs(vectors: Tensor, graph: Tensor, graphs: int) -> Tensor:
    """Multiply each column of each graph's vectors (N, k) by a random sign from torch's global generator."""
    signs = torch.randint(0, 2, (graphs, vectors.shape[1]), device=vectors.device) * 2 - 1
    return vectors * signs[graph]


class EdgeInput(nn.Module):
    """Input layer of edges; returns None if edges have no features."""

    def __init__(self, spec: FeatureSpec, dim: int) -> None:
        super().__init__()
        self.own = None if spec.edge.kind == "constant" else embedding(spec.edge, dim)
        self.kind = spec.edge.kind

    def forward(self, batch: Batch) -> Tensor | None:
        """Edge vectors (E, D), or None."""
        if self.own is None:
            return None
        attr = batch.edge_attr if self.kind == "categorical" else batch.edge_attr.float()
        return self.own(attr)
