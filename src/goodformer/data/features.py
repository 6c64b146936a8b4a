"""What nodes and edges carry, held against its description: one check for benchmarks, predictors and files."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.registry import InputError
from goodformer.spec import Features, FeatureSpec


def check_features(graphs: GraphSet, spec: FeatureSpec, where: str) -> None:
    """Node and edge features of a set are what a model of this description reads.

    Args:
        graphs: The graphs.
        spec: What their nodes and edges should carry. Edges of constant features may carry anything: no model reads it.
        where: What the graphs are, for the message.

    Raises:
        InputError: Features are missing, of another width or type, or not finite; see `check_values`.
    """
    check_values(graphs.node.get("x"), spec.node, f"x of {where}", graphs.node_ptr)
    if spec.edge.kind != "constant":
        check_values(graphs.edge.get("attr"), spec.edge, f"edge_attr of {where}", graphs.edge_ptr)


def check_values(values: Tensor | None, spec: Features, what: str, ptr: Tensor | None = None) -> None:
    """Features (N, F) have the columns of their description, whole numbers from 0 where they are codes.

    A code beyond those of the description is accepted: models give all such codes the vector of the last one.

    Args:
        values: The features, None where there are none.
        spec: What they should be; a constant feature is one column.
        what: What they are, for the message.
        ptr: Where each graph begins (B + 1,), to name the graph of a value that is not finite.
    """
    width = max(len(spec.sizes), 1)
    if values is None:
        raise InputError(f"{what} is missing; give {width} {spec.kind} column(s).")
    if values.dim() != 2 or values.shape[1] != width:
        got = f"the shape {tuple(values.shape)}, {values[:1].numel()} columns"
        raise InputError(f"{what} has {got}; give {width} {spec.kind} column(s).")
    if spec.kind == "categorical" and values.is_floating_point():
        raise InputError(f"{what} holds real numbers where codes are expected; give integers.")
    if spec.kind == "categorical" and bool((values < 0).any()):
        raise InputError(f"{what} holds a code below 0; count codes from 0.")
    if not bool(values.isfinite().all()):
        raise InputError(f"{_spoilt(values, ptr)}NaN or infinity in {what}; replace or drop these values.")


def _spoilt(values: Tensor, ptr: Tensor | None) -> str:
    """The number of the first graph with a value that is not finite, where that can be told."""
    if ptr is None:
        return "there is "
    row = int((~values.isfinite()).any(1).nonzero()[0])
    return f"graph {int(torch.searchsorted(ptr, row, right=True)) - 1} has "
