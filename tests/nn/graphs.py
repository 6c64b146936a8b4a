"""Small batches for the tests of layers, models and methods."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_undirected

from goodformer.models import MODELS
from goodformer.transforms import Structure, encode

NETWORKS = [name for name in MODELS if name != "fingerprint"]
"""Models with layers to train."""


def random_graph(n: int, p: float, generator: torch.Generator) -> Tensor:
    """Both directions of the edges of an Erdos-Renyi graph (2, E)."""
    upper = torch.rand(n, n, generator=generator).triu(1) > 1 - p
    return to_undirected(upper.nonzero().T, num_nodes=n)


def data(n: int, edge_index: Tensor, generator: torch.Generator, y: Tensor | None = None) -> Data:
    """A graph with continuous features, codes, encodings and labels of all kinds."""
    return Data(
        x=torch.randn(n, 4, generator=generator),
        edge_index=edge_index,
        edge_attr=torch.randn(edge_index.shape[1], 3, generator=generator),
        cycle_walks_6=torch.rand(n, 6, generator=generator),
        laplacian_8=torch.randn(n, 8, generator=generator) / 4,
        environments_2=encode("environments:2", Structure(edge_index, torch.tensor([0, n]))),
        eigenvalues_8=(torch.arange(8.0) + 1).expand(n, 8) / n,
        y=torch.randint(3, (1,), generator=generator) if y is None else y,
        env=torch.randint(3, (1,), generator=generator),
    )


def graphs(sizes: tuple[int, ...] = (7, 1, 12, 5, 2, 20), p: float = 0.3, seed: int = 0) -> list[Data]:
    """Graphs of the given sizes, a single node and possibly edgeless ones among them."""
    generator = torch.Generator().manual_seed(seed)
    return [data(n, random_graph(n, p, generator), generator) for n in sizes]


def batch(sizes: tuple[int, ...] = (7, 1, 12, 5, 2, 20), p: float = 0.3, seed: int = 0) -> Batch:
    """The same as one batch."""
    return Batch.from_data_list(graphs(sizes, p, seed))


def relabelled(graph: Data, order: Tensor) -> Data:
    """The same graph with node ``order[i]`` called i; edges keep their order."""
    place = order.argsort()
    new = graph.clone()
    for name in ("x", "cycle_walks_6", "laplacian_8", "eigenvalues_8", "environments_2"):
        if name in graph:
            new[name] = graph[name][order]
    new.edge_index = place[graph.edge_index]
    return new
