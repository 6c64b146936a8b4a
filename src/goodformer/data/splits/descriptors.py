"""Descriptors of graphs, used to cluster graphs and to separate two sets of graphs.

Letters: N nodes, G graphs, F columns, K codes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.spec import FeatureSpec
from goodformer.transforms import encode

Floats = npt.NDArray[np.float64]

DEGREES = 7
"""Number of degrees distinguished; the last includes all larger ones."""
CODES = 16
"""Number of codes distinguished in each categorical column: the commonest."""
MOST_NAMED = 6
"""Node features that have a name of their own."""
WALK = "random_walk:8"


def structure(graphs: GraphSet) -> Floats:
    """Return log size, edges per node and the share of nodes of each degree (G, 2 + DEGREES)."""
    sizes = graphs.sizes.double()  # (G,)
    nodes = int(graphs.node_ptr[-1])
    degree = graphs.edge_index[0].bincount(minlength=nodes).clamp(max=DEGREES - 1)  # (N,)
    plain = torch.stack((sizes.log(), graphs.edge_ptr.diff() / sizes), 1)  # (G, 2)
    return torch.cat((plain, _shares(graphs, degree, DEGREES)), 1).numpy()


def spectrum(graphs: GraphSet) -> Floats:
    """Return moments 2 to 9 of the random-walk spectrum (G, 8): mean return probabilities."""
    return _means(graphs, encode(WALK, graphs.structure()).double()).numpy()


def contents(graphs: GraphSet, features: FeatureSpec) -> Floats:
    """Return mean node features (G, F): means of measurements, shares of codes; no column for constant features."""
    x = graphs.node["x"]
    if features.node.kind == "constant":
        return np.zeros((len(graphs), 0))
    if features.node.kind == "continuous":
        return _means(graphs, x.double()).numpy()
    return torch.cat([_column_shares(graphs, column) for column in x.T], 1).numpy()


def _column_shares(graphs: GraphSet, codes: Tensor) -> Tensor:
    """Return the share of nodes with each of the commonest codes (G, K)."""
    found, place, counts = codes.unique(return_inverse=True, return_counts=True)
    rank = torch.empty_like(found)
    rank[counts.argsort(descending=True, stable=True)] = torch.arange(len(found))
    kept = min(len(found), CODES)
    return _shares(graphs, rank[place].clamp(max=kept), kept + 1)[:, :kept]


def _shares(graphs: GraphSet, codes: Tensor, kinds: int) -> Tensor:
    """Return the share of nodes with each code (G, K)."""
    owner = torch.repeat_interleave(graphs.sizes)  # (N,)
    counts = (owner * kinds + codes).bincount(minlength=len(graphs) * kinds).view(len(graphs), kinds)
    return counts / graphs.sizes[:, None]


def _means(graphs: GraphSet, values: Tensor) -> Tensor:
    """Return the mean of node values (N, F) over each graph (G, F)."""
    owner = torch.repeat_interleave(graphs.sizes)  # (N,)
    return torch.zeros(len(graphs), values.shape[1]).double().index_add_(0, owner, values) / graphs.sizes[:, None]


def named(graphs: GraphSet, features: FeatureSpec) -> dict[str, Floats]:
    """Return plain properties of each graph (G,) by name: size, density, branching, cycles and mean node features."""
    nodes, edges = graphs.sizes.double(), graphs.edge_ptr.diff().double() / 2
    degree = graphs.edge_index[0].bincount(minlength=int(graphs.node_ptr[-1]))  # (N,)
    owner = torch.repeat_interleave(graphs.sizes)  # (N,)
    largest = torch.zeros(len(graphs)).double().scatter_reduce_(0, owner, degree.double(), "amax")
    found = {
        "nodes": nodes,
        "edges": edges,
        "edges per node": edges / nodes,
        "largest degree": largest,
        "share of leaves": _means(graphs, (degree == 1).double()[:, None])[:, 0],
        "edges beyond a tree": edges - nodes + 1,
    }
    if features.node.kind == "continuous":
        means = _means(graphs, graphs.node["x"].double())
        found |= {f"mean of feature {place}": column for place, column in enumerate(means.T[:MOST_NAMED])}
    elif features.node.kind == "categorical":
        codes, counts = graphs.node["x"][:, 0].unique(return_counts=True)
        for code in codes[counts.argsort(descending=True, stable=True)][:MOST_NAMED].tolist():
            own = (graphs.node["x"][:, 0] == code).double()[:, None]
            found[f"share of nodes of type {code}"] = _means(graphs, own)[:, 0]
    return {name: values.numpy() for name, values in found.items()}
