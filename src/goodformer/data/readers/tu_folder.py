"""Graphs from a folder in TU format: text files with one line per node, edge or graph.

Letters: N nodes, E edges, G graphs, F columns.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer.data.graphs import GraphSet
from goodformer.data.readers.collection import Collection, Columns, from_set
from goodformer.data.readers.source import lines_of, open_text, reading
from goodformer.data.readers.values import counted
from goodformer.errors import InputError
from goodformer.limits import check_limit
from goodformer.spec import Features, FeatureSpec

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
WHOLE = b"0123456789+- \t\r\n\f\v"
"""Characters of a file of integers."""
INDICATOR = "_graph_indicator.txt"
LABEL = "label"


def read(folder: Path, features: FeatureSpec | None = None) -> tuple[Collection, Columns]:
    """Read all graphs of a folder, and their labels as the column ``label``.

    ``NAME_A.txt`` holds the edges as pairs of node numbers counted from 1 and ``NAME_graph_indicator.txt`` the graph of
    each node. ``NAME_graph_labels.txt`` holds labels, ``NAME_node_labels.txt`` and ``NAME_edge_labels.txt`` codes,
    ``NAME_node_attributes.txt`` and ``NAME_edge_attributes.txt`` measurements; each of these may be missing. Codes stay
    as they are; next to measurements they are appended as one-hot columns. Self-loops are dropped.

    Args:
        folder: The folder.
        features: Expected node and edge features, if known.
    """
    name = _name(folder)
    graph = read_owners(folder / f"{name}{INDICATOR}")  # (N,)
    edges = read_edges(folder / f"{name}_A.txt", graph, first=1)  # (E, 2)
    node = _values(folder, f"{name}_node", len(graph), None if features is None else features.node)
    if node is None and features is not None and features.node.kind != "constant":
        raise InputError(
            f"{folder} has no features of nodes, but {features.node.kind} node features are expected; add "
            f"{name}_node_labels.txt or {name}_node_attributes.txt."
        )
    edge = _values(folder, f"{name}_edge", len(edges), None if features is None else features.edge)
    made = from_set(_graph_set(graph, edges, node, edge), features, node is None)
    return made, _labels(folder / f"{name}_graph_labels.txt", made.count)


def _graph_set(graph: Ints, edges: Ints, x: Tensor | None, attr: Tensor | None) -> GraphSet:
    """Return the graphs, with edges in the order of the file."""
    count = int(graph[-1]) + 1
    node_ptr = np.searchsorted(graph, np.arange(count + 1))
    order = np.argsort(graph[edges[:, 0]], kind="stable")
    owner = graph[edges[order, 0]]  # (E,)
    edge = {"index": torch.from_numpy((edges[order] - node_ptr[owner][:, None]).T.copy())}
    if attr is not None:
        edge["attr"] = attr[torch.from_numpy(order)]
    node = {"x": torch.ones(len(graph), 1) if x is None else x}
    edge_ptr = np.searchsorted(owner, np.arange(count + 1))
    return GraphSet(node, edge, {}, torch.from_numpy(node_ptr), torch.from_numpy(edge_ptr))


def _name(folder: Path) -> str:
    """Return the common prefix of the folder's files."""
    found = sorted(folder.glob(f"*{INDICATOR}"))
    if len(found) != 1:
        raise InputError(
            f"{folder} contains {len(found)} files NAME{INDICATOR}; give a folder in TU format with NAME_A.txt and one "
            f"NAME{INDICATOR}."
        )
    return found[0].name.removesuffix(INDICATOR)


def _values(folder: Path, prefix: str, count: int, features: Features | None) -> Tensor | None:
    """Return node or edge features (N, F): codes, measurements, or both as measurements; None if there are none."""
    attributes = _optional(folder / f"{prefix}_attributes.txt", count)
    codes = _optional(folder / f"{prefix}_labels.txt", count)
    if codes is not None and not (np.isfinite(codes) & (codes == np.floor(codes)) & (abs(codes) < 2**53)).all():
        raise InputError(f"{folder / f'{prefix}_labels.txt'} contains a code that is not an integer; correct it.")
    if attributes is None:
        return None if codes is None else torch.from_numpy(codes.astype(np.int64))
    if codes is None:
        return torch.from_numpy(attributes).float()
    width = len(features.sizes) - attributes.shape[1] if features else None
    shown = _one_hot(torch.from_numpy(codes.astype(np.int64)), width, folder / f"{prefix}_labels.txt")
    return torch.cat((torch.from_numpy(attributes).float(), shown), 1)


def _one_hot(codes: Tensor, width: int | None, path: Path) -> Tensor:
    """Return codes as one-hot columns; codes beyond ``width`` count as the last."""
    if codes.shape[1] != 1 or (codes.numel() and int(codes.min()) < 0):
        raise InputError(
            f"{path} contains several columns or a negative code; write one code per line, numbered from 0."
        )
    columns = width if width is not None and width > 0 else int(codes.max()) + 1 if codes.numel() else 1
    check_limit("columns", columns, f"{path}, as one-hot codes beside measurements,")
    check_limit("cells", columns * len(codes), f"{path}, as one-hot codes beside measurements,")
    return torch.nn.functional.one_hot(codes[:, 0].clamp(max=columns - 1), columns).float()


def _labels(path: Path, count: int) -> Columns:
    """Return the graph labels as text."""
    if not path.is_file():
        return {}
    with reading(path), open_text(path) as file:
        lines = [line.strip() for line in lines_of(file, path) if line.strip()]
    if len(lines) != count:
        raise InputError(f"{path} has {len(lines)} labels for {count} graphs; write one per line.")
    return {LABEL: list(lines)}


def _optional(path: Path, count: int) -> Floats | None:
    """Return the numbers of a file that may be missing, one row per node or edge."""
    if not path.is_file():
        return None
    values = _numbers(path)
    if len(values) != count:
        raise InputError(f"{path} has {len(values)} lines where {count} are expected; write one per node or edge.")
    return values


def _numbers(path: Path) -> Floats:
    """Return the numbers of a file, separated by commas or blanks (lines, F)."""
    try:
        text = path.read_bytes().decode("utf-8", "replace").replace(",", " ")
        values: Floats = np.loadtxt(text.splitlines(), ndmin=2) if text.strip() else np.empty((0, 1))
    except ValueError as error:
        raise InputError(f"{path} is not a table of numbers ({str(error).partition(';')[0]}); correct it.") from None
    return values


def read_owners(path: Path) -> Ints:
    """Read the graph of each node (N,), numbered from 0; in the file graphs are numbered from 1, in ascending order."""
    graph = whole_numbers(path, 1)[:, 0] - 1
    steps = np.diff(graph, prepend=-1)
    wrong = np.flatnonzero((steps < 0) | (steps > 1))
    if not len(graph) or graph[0] != 0 or len(wrong):
        line = int(wrong[0]) + 1 if len(wrong) else 1
        raise InputError(f"{path} line {line} skips a graph number; number graphs from 1 without gaps.")
    return graph


def read_edges(path: Path, graph: Ints, first: int) -> Ints:
    """Read edges (E, 2) between nodes of the same graph, numbered from 0.

    Args:
        path: The file, with one pair of node numbers per line.
        graph: Graph of each node (N,).
        first: Number of the first node in the file.
    """
    edges = whole_numbers(path, 2) - first
    outside = ((edges < 0) | (edges >= len(graph))).any(1)
    ends = graph[np.clip(edges, 0, len(graph) - 1)]
    wrong = np.flatnonzero(outside | (ends[:, 0] != ends[:, 1]))
    if len(wrong):
        u, v = edges[wrong[0]] + first
        raise InputError(
            f"{path} line {int(wrong[0]) + 1} joins nodes {u} and {v}, which are not nodes of one graph; correct it."
        )
    return edges


def whole_numbers(path: Path, columns: int) -> Ints:
    """Read the integers of a text file (lines, columns), separated by spaces or commas."""
    try:
        content = path.read_bytes().replace(b",", b" ").rstrip()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); a folder in TU format must hold it.") from None
    lines = {number: line for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()}
    try:
        if content.translate(None, WHOLE):
            raise ValueError("not an integer")  # numpy would read 1.5 as 1
        values = np.array(content.split(), dtype=np.int64)
        if len(values) == columns * len(lines):
            return values.reshape(-1, columns)
    except (ValueError, OverflowError):
        pass
    for number, line in lines.items():
        words = line.split()
        if len(words) != columns or not all(word.lstrip(b"+-").isdigit() for word in words):
            got = line[:60].decode("utf-8", "replace").strip()
            raise InputError(f"{path} line {number} is {got!r}; write {counted(columns, 'integer')} per line.")
    raise InputError(f"{path} holds an integer that is too large; correct it.")
