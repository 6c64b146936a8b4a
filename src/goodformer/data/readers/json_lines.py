"""Graphs from a text file, one JSON object a line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from goodformer.data.features import check_values
from goodformer.data.graphs import each_way_once
from goodformer.registry import InputError
from goodformer.spec import Features, FeatureSpec

KEYS = ("edges", "num_nodes", "x", "edge_attr")
"""What makes a graph; every other key is a column of the row."""
EXAMPLE = '{"edges": [[0, 1]], "num_nodes": 2}'


def read_graphs(path: str | Path, features: Features | FeatureSpec | None = None) -> list[Data]:
    """Graphs written as ``{"edges": [[0, 1], [1, 2]], "num_nodes": 3, "x": [[...], [...], [...]]}``, one a line.

    An edge may be given in one direction or both; it is stored in both, and loops are left out. ``num_nodes`` may be
    missing where ``x`` or the edges tell it, ``x`` where nodes carry nothing. ``edge_attr`` has one row an edge as
    given, which its other direction shares. Any other key is a column of the row and may hold a word or a number.

    Args:
        path: The file.
        features: What nodes (and edges) must carry; a constant feature is filled in with ones. Codes beyond those of
            training are accepted: models give them the vector of the last one.
    """
    spec = features if isinstance(features, FeatureSpec) else FeatureSpec(node=features or Features())
    graphs = [graph_of(row, spec, f"{path} line {number}") for number, row in read_lines(path)]
    if not graphs:
        raise InputError(f"{path} holds no graph; write one JSON object a line.")
    return graphs


def read_lines(path: str | Path) -> Iterator[tuple[int, Any]]:
    """The JSON values of a file with the number of their line from 1 on, one at a time; empty lines are skipped."""
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, _parsed(line, f"{path} line {number}")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; give a file with one JSON graph a line.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text ({error}); give a file with one JSON graph a line.") from None


def _parsed(line: str, where: str) -> Any:
    """The value of one line."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(f'{where} is not JSON ({reason}); write a graph as {{"edges": [[0, 1]]}}.') from None


def columns_of(row: Any) -> dict[str, Any]:
    """Every key that does not make the graph and holds a word or a number, as it is written."""
    items = row.items() if isinstance(row, dict) else ()
    return {key: value for key, value in items if key not in KEYS and not isinstance(value, list | dict)}


def check_keys(row: Any, where: str) -> None:
    """A row is a mapping, its columns hold words or numbers, and no key looks like a mistyped one of a graph."""
    if not isinstance(row, dict):
        raise InputError(f"{where} is not a graph; write it as {EXAMPLE}.")
    for key, value in row.items():
        if key in KEYS:
            continue
        near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.7) if "edges" in row else []
        if near:
            raise InputError(f"unknown key in {where} {key!r}; did you mean {near[0]}? Give a column another name.")
        if isinstance(value, list | dict):
            raise InputError(f"{where} has a {type(value).__name__} under {key!r}; a column holds a word or a number.")


def graph_of(row: Any, features: FeatureSpec | None, where: str) -> Data:
    """The graph a mapping describes.

    Args:
        row: The mapping.
        features: What nodes and edges must carry; where not given they carry what the mapping says.
        where: What it is, for messages.
    """
    check_keys(row, where)
    if "edges" not in row:
        raise InputError(f"{where} is not a graph; write it as {EXAMPLE}.")
    ends = _ends(row["edges"], where)
    x = table_of(row.get("x"), "x", where)
    nodes = _count(row, ends, x, where)
    if ends.numel() and int(ends.max()) >= nodes:
        raise InputError(f"{where} has an edge to node {int(ends.max())} but {nodes} nodes; count nodes from 0.")
    index, given = _both(ends, nodes)
    attr = table_of(row.get("edge_attr"), "edge_attr", where)
    if attr is not None and len(attr) != len(row["edges"]):
        raise InputError(f"{where} has {len(attr)} rows of edge_attr for {len(row['edges'])} edges; write one an edge.")
    data = Data(edge_index=index, num_nodes=nodes)
    data.x = _checked(_ones(x, nodes, features), nodes, None if features is None else features.node, where)
    if attr is not None if features is None else features.edge.kind != "constant":
        data.edge_attr = _edge_values(attr, given, None if features is None else features.edge, where)
    return data


def _count(row: Mapping[str, Any], ends: Tensor, x: Tensor | None, where: str) -> int:
    """The number of nodes, as written or as features or edges tell it."""
    told = len(x) if x is not None else int(ends.max()) + 1 if ends.numel() else 0
    nodes = row.get("num_nodes", told)
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        raise InputError(f"{where} has num_nodes = {nodes!r}; a graph needs at least one node.")
    return nodes


def _ends(value: Any, where: str) -> Tensor:
    """The edges as written (e, 2)."""
    pairs = value if isinstance(value, list) else None
    if pairs is None or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise InputError(f"{where} has edges that are not pairs; write them as [[0, 1], [1, 2]].")
    if not all(type(end) is int and 0 <= end < 2**31 for pair in pairs for end in pair):
        raise InputError(f"{where} has an edge end that is no node number; count nodes from 0.")
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2)


def _both(ends: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """The stored edges in the order of their ends (2, E), and which written edge each of them is (E,)."""
    chosen, turned = each_way_once(ends.T.numpy(), nodes)
    u, v = np.where(turned, ends.T.numpy()[::-1, chosen], ends.T.numpy()[:, chosen])
    order = np.lexsort((v, u))
    return torch.from_numpy(np.stack([u, v])[:, order]), torch.from_numpy(chosen[order])


def table_of(value: Any, name: str, where: str) -> Tensor | None:
    """Features as numbers (N, F): integers where all are whole numbers as written, double precision otherwise."""
    if value is None:
        return None
    try:
        table = torch.tensor(value)
        table = torch.tensor(value, dtype=torch.double if table.is_floating_point() else torch.long)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"{where} has an {name} that is not a table of numbers; write one row each.") from None
    if table.dim() != 2 and not (table.dim() == 1 and not len(table) and name == "edge_attr"):
        raise InputError(f"{where} has an {name} with rows of no length; write one row of numbers each.")
    return table


def _ones(x: Tensor | None, nodes: int, features: FeatureSpec | None) -> Tensor | None:
    """Ones where nodes carry nothing that could differ."""
    alike = features is not None and features.node.kind == "constant"
    return torch.ones(nodes, 1) if x is None and alike else x


def _checked(x: Tensor | None, nodes: int, features: Features | None, where: str) -> Tensor | None:
    """Node features as the model was trained on: their number of rows and columns, codes as whole numbers."""
    if x is None and features is None:
        return None
    if x is None:
        assert features is not None
        raise InputError(f"{where} has no x although nodes carry {features.kind} features; add one row a node.")
    if len(x) != nodes:
        raise InputError(f"{where} has {len(x)} rows of x for {nodes} nodes; write one row a node.")
    return _typed(x, features, f"x of {where}")


def _edge_values(attr: Tensor | None, given: Tensor, features: Features | None, where: str) -> Tensor:
    """Features of the stored edges (E, F), each those of the edge as written."""
    if attr is None:
        assert features is not None
        if len(given):
            raise InputError(
                f"{where} has no edge_attr although edges carry {features.kind} features; add one row an edge."
            )
        attr = torch.zeros(0, max(len(features.sizes), 1), dtype=torch.long)
    if attr.dim() == 1:  # [] says nothing of the width
        attr = attr.reshape(0, max(len(features.sizes), 1) if features else 1)
    return _typed(attr[given], features, f"edge_attr of {where}")


def _typed(values: Tensor, features: Features | None, what: str) -> Tensor:
    """Codes as whole numbers, all else as real ones; checked where it is known what they should be."""
    if features is None:
        if not bool(values.isfinite().all()):
            raise InputError(f"there is NaN or infinity in {what}; replace or drop these values.")
        return values.float() if values.is_floating_point() else values
    codes = features.kind == "categorical" and bool((values == values.floor()).all())
    values = values.long() if codes else values.float()
    check_values(values, features, what)
    return values
