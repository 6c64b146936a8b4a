"""Graphs from a text file with one JSON object per line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from goodformer.data.features import check_values
from goodformer.data.graphs import both_ways
from goodformer.data.readers.source import lines_of, open_text, reading
from goodformer.errors import InputError
from goodformer.limits import check_limit
from goodformer.spec import Features, FeatureSpec

if TYPE_CHECKING:
    from torch_geometric.data import Data

KEYS = ("edges", "num_nodes", "x", "edge_attr")
"""Keys of a graph; every other key is a column of the row."""
NAMES = "names"
"""Key of the names of the nodes if it holds a list; otherwise a column like any other."""
EXAMPLE = '{"edges": [[0, 1]], "num_nodes": 2}'


def read_graphs(path: str | Path, features: Features | FeatureSpec | None = None) -> list[Data]:
    """Read graphs written as ``{"edges": [[0, 1], [1, 2]], "num_nodes": 3, "x": [[...], ...]}``, one per line.

    An edge may be given in one direction or both; it is stored in both, and self-loops are dropped. ``num_nodes`` may
    be missing if ``x`` or the edges imply it, ``x`` if nodes have no features. ``edge_attr`` has one row per edge as
    given, for both directions. ``names`` may list the names of the nodes, which explanations repeat. Any other key is a
    column of the row and holds a word or a number.

    Args:
        path: The file.
        features: Expected node (and edge) features; a constant feature is filled with ones. Codes beyond those seen in
            training are accepted: models treat them like the last code.
    """
    spec = features if isinstance(features, FeatureSpec) else FeatureSpec(node=features or Features())
    graphs = [graph_of(row, spec, f"{path} line {number}") for number, row in read_lines(path)]
    if not graphs:
        raise InputError(f"{path} contains no graph; write one JSON object per line.")
    return graphs


@dataclass(frozen=True)
class NotJson:
    """A line that is not JSON.

    Attributes:
        text: The line.
        reason: Why it cannot be read.
    """

    text: str
    reason: str


def read_lines(path: str | Path, strict: bool = True) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of a file with their line numbers from 1; empty lines are skipped.

    Args:
        path: The file.
        strict: Whether a line that is not JSON raises an error; otherwise a `NotJson` takes its place.
    """
    place = Path(path)
    if not place.is_file():
        raise InputError(f"file {path} not found; give a file with one JSON graph per line.")
    with reading(path), open_text(place) as file:
        for number, line in enumerate(lines_of(file, path), 1):
            if line.strip():
                value = _parsed(line)
                if strict and isinstance(value, NotJson):
                    raise InputError(f"{path} line {number} {value.reason}.")
                yield number, value


def _parsed(line: str) -> Any:
    """Return the value of one line."""
    try:
        value = json.loads(line)
        if "\\u" in line:
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        reason = "half a character, as in \\ud800" if isinstance(error, UnicodeEncodeError) else reason
        return NotJson(line.strip(), f'is not JSON ({reason}); write a graph as {{"edges": [[0, 1]]}}')


def columns_of(row: Any) -> dict[str, Any]:
    """Return every key that is not part of the graph and holds a word or a number."""
    items = row.items() if isinstance(row, dict) else ()
    return {key: value for key, value in items if key not in KEYS and not isinstance(value, list | dict)}


def check_keys(row: Any, where: str) -> None:
    """Raise an error unless a row is a mapping with valid columns and no mistyped graph key."""
    if isinstance(row, NotJson):
        raise InputError(f"{where} {row.reason}.")
    if not isinstance(row, dict):
        raise InputError(f"{where} is not a graph; write it as {EXAMPLE}.")
    for key, value in row.items():
        if key in KEYS or (key == NAMES and isinstance(value, list) and "edges" in row):
            continue
        near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.7) if "edges" in row else []
        if near:
            raise InputError(f"{where} has an unknown key {key!r}; did you mean {near[0]}? Or rename the column.")
        if isinstance(value, list | dict):
            raise InputError(f"{where} has a {type(value).__name__} in column {key!r}; use a word or a number.")


def graph_of(row: Any, features: FeatureSpec | None, where: str) -> Data:
    """Return the graph of a mapping.

    Args:
        row: The mapping.
        features: Expected node and edge features; by default those of the mapping.
        where: Where the mapping comes from, for messages.
    """
    from torch_geometric.data import Data

    check_keys(row, where)
    if "edges" not in row:
        raise InputError(f"{where} is not a graph; write it as {EXAMPLE}.")
    ends = _ends(row["edges"], where)
    x = table_of(row.get("x"), "x", where)
    nodes = _count(row, ends, x, where)
    if (names := names_of(row)) is not None and not (
        len(names) == nodes and all(isinstance(name, str) or type(name) is int for name in names)
    ):
        raise InputError(f"{where} has {NAMES} that do not name its {nodes} nodes; write one word or integer per node.")
    if ends.numel() and int(ends.max()) >= nodes:
        raise InputError(f"{where} has an edge to node {int(ends.max())} but {nodes} nodes; number nodes from 0.")
    index, given = map(torch.from_numpy, both_ways(ends.T.numpy(), nodes))
    attr = table_of(row.get("edge_attr"), "edge_attr", where)
    if attr is not None and len(attr) != len(row["edges"]):
        raise InputError(
            f"{where} has {len(attr)} rows of edge_attr for {len(row['edges'])} edges; write one row per edge."
        )
    data = Data(edge_index=index, num_nodes=nodes)
    if x is None and features is not None and features.node.kind == "constant":
        x = torch.ones(nodes, 1)
    data.x = _checked(x, nodes, None if features is None else features.node, where)
    if attr is not None if features is None else features.edge.kind != "constant":
        data.edge_attr = _edge_values(attr, given, None if features is None else features.edge, where)
    return data


def names_of(row: Any) -> list[Any] | None:
    """Return the names of the nodes of a graph, None if it has none."""
    names = row.get(NAMES) if isinstance(row, dict) and "edges" in row else None
    return names if isinstance(names, list) else None


def _count(row: Mapping[str, Any], ends: Tensor, x: Tensor | None, where: str) -> int:
    """Return the number of nodes, as given or implied by features or edges."""
    implied = len(x) if x is not None else int(ends.max()) + 1 if ends.numel() else 0
    nodes = row.get("num_nodes", implied)
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        raise InputError(
            f"{where} has num_nodes = {nodes!r}; a graph has at least one node, and a whole number of them."
        )
    check_limit("nodes", nodes, where)
    return nodes


def _ends(value: Any, where: str) -> Tensor:
    """Return the edges as given (e, 2)."""
    pairs = value if isinstance(value, list) else None
    if pairs is None or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise InputError(f"{where} has edges that are not pairs; write them as [[0, 1], [1, 2]].")
    check_limit("edges", len(pairs), where)
    if not all(type(end) is int and 0 <= end < 2**31 for pair in pairs for end in pair):
        raise InputError(f"{where} has an edge end that is not a node number; number nodes from 0.")
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2)


def table_of(value: Any, name: str, where: str) -> Tensor | None:
    """Return features as a table (N, F): integers if all are written as whole numbers, otherwise doubles."""
    if value is None:
        return None
    try:
        table = torch.tensor(value)
        table = torch.tensor(value, dtype=torch.double if table.is_floating_point() else torch.long)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise InputError(f"{where} has {name} that is not a table of numbers; write one list per row.") from None
    if table.dim() != 2 and not (table.dim() == 1 and not len(table) and name == "edge_attr"):
        raise InputError(f"{where} has {name} that is not a list of rows; write one list of numbers per row.")
    check_limit("columns", table[:1].numel(), f"{name} of {where}")
    return table


def _checked(x: Tensor | None, nodes: int, features: Features | None, where: str) -> Tensor | None:
    """Return node features with the expected rows, columns and type."""
    if x is None and features is None:
        return None
    if x is None:
        assert features is not None
        raise InputError(f"{where} has no x but {features.kind} node features are expected; add one row per node.")
    if len(x) != nodes:
        raise InputError(f"{where} has {len(x)} rows of x for {nodes} nodes; write one row per node.")
    return _typed(x, features, f"x of {where}")


def _edge_values(attr: Tensor | None, given: Tensor, features: Features | None, where: str) -> Tensor:
    """Return the features of the stored edges (E, F), each from the edge as given."""
    if attr is None:
        assert features is not None
        if len(given):
            raise InputError(
                f"{where} has no edge_attr but {features.kind} edge features are expected; add one row per edge."
            )
        attr = torch.zeros(0, max(len(features.sizes), 1), dtype=torch.long)
    if attr.dim() == 1:  # [] has no width
        attr = attr.reshape(0, max(len(features.sizes), 1) if features else 1)
    return _typed(attr[given], features, f"edge_attr of {where}")


def _typed(values: Tensor, features: Features | None, what: str) -> Tensor:
    """Return integer codes or real numbers, checked against the expected features."""
    if features is None:
        if not bool(values.isfinite().all()):
            raise InputError(f"{what} contains NaN or infinity; replace or drop these values.")
        return values.float() if values.is_floating_point() else values
    codes = features.kind == "categorical" and bool((values == values.floor()).all())
    values = values.long() if codes else values.float()
    check_values(values, features, what)
    return values
