"""Input layers: map node and edge features to vectors of the model's width."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from goodformer.batch import Batch
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


class LapPE(nn.Module):
    """W sum_j phi([v_j, lambda_j]) over a graph's eigenvectors v_j and eigenvalues lambda_j of the Laplacian.

    phi has two layers with ReLU, of widths 2, 2d, d.

    Paper: Rampasek et al., "Recipe for a General, Powerful, Scalable Graph Transformer", 2022, the Laplacian encoder
    with a DeepSet.
    Differs from the published code: the sum is mapped to the model's width and added to the node's vector, instead of
        being a part of it; the constant eigenvector is left out.
    """

    def __init__(self, dim: int, hidden: int = 32) -> None:
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(2, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, dim, bias=False)

    def forward(self, vectors: Tensor, values: Tensor, graph: Tensor, graphs: int) -> Tensor:
        """Return (N, D) from eigenvectors and eigenvalues, both (N, k); a vector of zeros is a missing one."""
        size = vectors.new_zeros(graphs, vectors.shape[1]).index_add(0, graph, vectors.abs())
        known = (size > 0).index_select(0, graph)  # (N, k)
        return self.out((self.phi(torch.stack((vectors, values), -1)) * known[..., None]).sum(1))


SPECTRAL = {"signnet": ("laplacian",), "lappe": ("laplacian", "eigenvalues")}
"""Inputs with a network of their own, and the encodings that they read."""


class NodeInput(nn.Module):
    """h_v = embed(x_v) + sum over encodings p of W_p p_v, the node's own features and its computed attributes.

    The signs of eigenvectors are arbitrary: in training those of ``laplacian:k`` are flipped at random per graph and
    column (Dwivedi & Bresson, 2021). ``signnet:k`` reads the same encoding with `SignNet`, ``lappe:k`` reads it and the
    eigenvalues with `LapPE`.

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
        read = [[Encoding(name, part.width) for name in SPECTRAL.get(part.name, (part.name,))] for part in asked]
        self.encodings = tuple(dict.fromkeys(str(part) for parts in read for part in parts))
        self.attributes = [[part.attribute for part in parts] for parts in read]
        self.computed = nn.ModuleList(_computed(part, dim) for part in asked)

    def forward(self, batch: Batch) -> Tensor:
        """Node vectors (N, D)."""
        x = batch.x if self.kind == "categorical" else batch.x.to(self.own.weight.dtype)
        h = self.own(x)
        for attributes, layer in zip(self.attributes, self.computed, strict=True):
            value, *more = (batch[attribute] for attribute in attributes)
            if self.training and attributes[0].startswith("laplacian_"):
                value = flip_signs(value, batch.batch, batch.num_graphs)
            h = h + (layer(value, *more, batch.batch, batch.num_graphs) if isinstance(layer, LapPE) else layer(value))
        return h


def _computed(part: Encoding, dim: int) -> nn.Module:
    """Return the layer that reads one of the inputs."""
    if part.name == "signnet":
        return SignNet(part.width, dim)
    return LapPE(dim) if part.name == "lappe" else nn.Linear(part.width, dim, bias=False)


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
        attr = batch.edge_attr if self.kind == "categorical" else batch.edge_attr.to(self.own.weight.dtype)
        return self.own(attr)
