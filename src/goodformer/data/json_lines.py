"""Graphs from a text file, one JSON object a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from goodformer.data.features import check_values
from goodformer.registry import InputError, unknown
from goodformer.spec import Features

KEYS = ("edges", "num_nodes", "x")


def read_graphs(path: str | Path, features: Features | None = None) -> list[Data]:
    """Graphs written as ``{"edges": [[0, 1], [1, 2]], "num_nodes": 3, "x": [[...], [...], [...]]}``, one a line.

    An edge may be given in one direction or both; it is stored in both. ``num_nodes`` may be left out where ``x`` or
    the edges tell it, ``x`` where nodes carry nothing.

    Args:
        path: The file.
        features: What nodes must carry; a constant feature is filled in with ones. Codes beyond those of training are
            accepted: models give them the vector of the last one.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; give a file with one JSON graph a line.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({error}); give a file with one JSON graph a line.") from None
    graphs = [
        _graph(_parse(line, f"{path} line {number}"), features or Features(), f"{path} line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not graphs:
        raise InputError(f"{path} holds no graph; write one JSON object a line.")
    return graphs


def _parse(line: str, where: str) -> dict[str, Any]:
    """One line as a mapping with the keys of a graph."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f'{where} is not JSON ({error.msg}); write a graph as {{"edges": [[0, 1]]}}.') from None
    if not isinstance(value, dict) or "edges" not in value:
        raise InputError(f'{where} is not a graph; write it as {{"edges": [[0, 1]], "num_nodes": 2}}.')
    for key in value:
        if key not in KEYS:
            raise unknown(f"key in {where}", key, KEYS)
    return value


def _graph(value: dict[str, Any], features: Features, where: str) -> Data:
    """The graph a mapping describes."""
    edges = _edges(value["edges"], where)
    x = _features(value.get("x"), where)
    told = len(x) if x is not None else int(edges.max()) + 1 if edges.numel() else 0
    nodes = value.get("num_nodes", told)
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        raise InputError(f"{where} has num_nodes = {nodes!r}; a graph needs at least one node.")
    if edges.numel() and int(edges.max()) >= nodes:
        raise InputError(f"{where} has an edge to node {int(edges.max())} but {nodes} nodes; count nodes from 0.")
    if x is None and features.kind == "constant":
        x = torch.ones(nodes, 1)
    return Data(x=_checked(x, nodes, features, where), edge_index=edges, num_nodes=nodes)


def _edges(value: Any, where: str) -> Tensor:
    """Both directions of every edge once, without loops, (2, E)."""
    pairs = value if isinstance(value, list) else None
    if pairs is None or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise InputError(f"{where} has edges that are not pairs; write them as [[0, 1], [1, 2]].")
    if not all(type(end) is int and end >= 0 for pair in pairs for end in pair):
        raise InputError(f"{where} has an edge end that is no node number; count nodes from 0.")
    ends = torch.tensor(pairs, dtype=torch.long).view(-1, 2)
    ends = ends[ends[:, 0] != ends[:, 1]]
    both: Tensor = torch.cat((ends, ends.flip(1))).unique(dim=0)  # (E, 2)
    return both.T.contiguous()


def _features(value: Any, where: str) -> Tensor | None:
    """Node features as numbers, (N, F)."""
    if value is None:
        return None
    try:
        x = torch.tensor(value, dtype=torch.double)  # holds every code
    except (TypeError, ValueError):
        raise InputError(f"{where} has an x that is not a table of numbers; write one row a node.") from None
    if x.dim() != 2:
        raise InputError(f"{where} has an x with rows of no length; write one row of numbers a node.")
    return x


def _checked(x: Tensor | None, nodes: int, features: Features, where: str) -> Tensor:
    """Features as the model was trained on: their number of rows and columns, codes as whole numbers."""
    if x is None:
        raise InputError(f"{where} has no x although nodes carry {features.kind} features; add one row a node.")
    if len(x) != nodes:
        raise InputError(f"{where} has {len(x)} rows of x for {nodes} nodes; write one row a node.")
    codes = features.kind == "categorical"
    x = x.long() if codes and bool((x == x.floor()).all()) else x.float()
    check_values(x, features, f"x of {where}")
    return x
