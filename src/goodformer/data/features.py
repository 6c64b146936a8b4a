"""The check of node and edge features against their description, for benchmarks, fitted models and files."""

from __future__ import annotations

import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.spec import Features, FeatureSpec


def check_features(graphs: GraphSet, spec: FeatureSpec, where: str) -> None:
    """Raise an error unless the node and edge features of a set match their description.

    Args:
        graphs: The graphs.
        spec: Expected features. Edges with constant features may have any attributes: no model reads them.
        where: Name of the graphs in the message.

    Raises:
        InputError: Features are missing, have another width or type, or are not finite; see `check_values`.
    """
    check_values(graphs.node.get("x"), spec.node, f"x of {where}", graphs.node_ptr)
    if spec.edge.kind != "constant":
        check_values(graphs.edge.get("attr"), spec.edge, f"edge_attr of {where}", graphs.edge_ptr)


def check_values(values: Tensor | None, spec: Features, what: str, ptr: Tensor | None = None) -> None:
    """Raise an error unless features (N, F) have the expected columns, with integers from 0 for codes.

    Codes beyond the description are accepted: models treat them like the last code.

    Args:
        values: The features, None if missing.
        spec: Expected features; a constant feature is one column.
        what: Name of the features in the message.
        ptr: First node or edge of each graph (B + 1,), to name the graph of a value that is not finite.
    """
    width = max(len(spec.sizes), 1)
    if values is None:
        raise InputError(f"{what} is missing; give {width} {spec.kind} column(s).")
    if values.dim() != 2 or values.shape[1] != width:
        got = f"the shape {tuple(values.shape)}, {values[:1].numel()} columns"
        raise InputError(f"{what} has {got}; give {width} {spec.kind} column(s).")
    if spec.kind == "categorical" and values.is_floating_point():
        raise InputError(f"{what} contains real numbers instead of codes; give integers.")
    if spec.kind == "categorical" and bool((values < 0).any()):
        raise InputError(f"{what} contains a negative code; number codes from 0.")
    if not bool(values.isfinite().all()):
        row = int((~values.isfinite()).any(1).nonzero()[0])
        graph = "" if ptr is None else f", graph {int(torch.searchsorted(ptr, row, right=True)) - 1}"
        raise InputError(f"{what}{graph} contains NaN or infinity; replace or drop these values.")
