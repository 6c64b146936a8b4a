"""Rows of a JSON lines file: their columns, and their graphs or the reason why there is none.

A line that is not JSON, or not a valid graph or molecule, becomes a rejected row.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from goodformer.data.molecule import Rejected
from goodformer.data.readers.collection import Collection, Columns, from_data, from_smiles, same_column
from goodformer.data.readers.json_lines import NotJson, check_keys, columns_of, graph_of, names_of, read_lines
from goodformer.data.readers.values import plain_of, text_of
from goodformer.errors import InputError
from goodformer.spec import FeatureSpec

if TYPE_CHECKING:
    from torch_geometric.data import Data

Lines = Sequence[tuple[int, Any]]
LARGEST = 2**63
"""Integers from here on are kept as text, because tables have 64-bit integers."""
SHOWN = 60
"""Characters shown of a line that is not a graph."""


@dataclass(frozen=True)
class Survey:
    """What the lines of a file have in common.

    Attributes:
        path: The file.
        kinds: Type of each column, in the order in which columns first occur.
        smiles: Column of the SMILES; None if lines are graphs.
        named: Whether a graph has names for its nodes.
    """

    path: Path
    kinds: dict[str, type]
    smiles: str | None
    named: bool = False


def survey(path: Path, smiles: str) -> Survey:
    """Read the file once to find its columns and whether it holds graphs or molecules."""
    kinds: dict[str, set[type]] = {}
    graphs = named = False
    for _, row in read_lines(path, strict=False):
        graphs = graphs or (isinstance(row, dict) and "edges" in row)
        named = named or names_of(row) is not None
        for name, value in columns_of(row).items():
            kinds.setdefault(name, set())
            if plain_of(value) is not None:
                large = isinstance(value, int) and not -LARGEST <= value < LARGEST
                kinds[name].add(str if large else type(value))
    column = None if graphs else same_column(smiles, kinds)
    common = {name: _common(found) for name, found in kinds.items()}
    return Survey(path, common, column, named)


def columns(lines: Lines, known: Survey) -> Columns:
    """Return the columns of some lines, each with the type it has in the whole file."""
    rows = [columns_of(row) for _, row in lines]
    return {name: [_cast(row.get(name), kind) for row in rows] for name, kind in known.kinds.items()}


def collection(
    lines: Lines, known: Survey, features: FeatureSpec | None, first: int, standardise: str = "none"
) -> Collection:
    """Return the graphs or molecules of some lines; the first line is row ``first``."""
    if known.smiles is None:
        return _graphs(lines, known, features, first)
    wrong: dict[int, str] = {}
    for place, (number, row) in enumerate(lines):
        try:
            check_keys(row, f"line {number}")
        except InputError as error:
            wrong[place] = str(error).rstrip(".")
    texts = [None if place in wrong else text_of(row.get(known.smiles)) for place, (_, row) in enumerate(lines)]
    made = from_smiles(texts, features, first, standardise)
    rejected = tuple(
        replace(one, text=_shown(lines[one.row - first][1]), reason=wrong[one.row - first])
        if one.row - first in wrong
        else one
        for one in made.rejected
    )
    return replace(made, rejected=rejected)


def _common(kinds: set[type]) -> type:
    """Return one type that can hold all values."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return float if kinds == {int, float} else str


def _cast(value: Any, kind: type) -> Any:
    """Return a value in the type of its column, None if it is missing."""
    plain = text_of(value) if kind is str else plain_of(value)
    return float(plain) if kind is float and plain is not None else plain


def _graphs(lines: Lines, known: Survey, features: FeatureSpec | None, first: int) -> Collection:
    """Return the valid graphs of some lines, and why the others are rejected."""
    graphs: dict[int, Data] = {}
    wrong: dict[int, str] = {}
    for place, (number, row) in enumerate(lines):
        try:
            graphs[place] = graph_of(row, features, f"line {number}")
        except InputError as error:
            wrong[place] = str(error).rstrip(".")
    if features is None:
        wrong |= {place: f"line {lines[place][0]} {reason}" for place, reason in _odd_ones(graphs).items()}
    sound = [place for place in graphs if place not in wrong]
    if not sound and features is None:
        raise InputError(f"{known.path} contains no valid graph ({wrong[min(wrong)]}); correct its lines.")
    made = from_data(_alike([graphs[place] for place in sound]), features) if sound else _none(features)
    rejected = tuple(Rejected(first + place, _shown(lines[place][1]), wrong[place]) for place in sorted(wrong))
    rows = first + torch.tensor(sound, dtype=torch.long)  # (G,)
    sizes = zip(sound, made.graphs.sizes.tolist(), strict=True)
    names = tuple(tuple(names_of(lines[place][1]) or range(size)) for place, size in sizes) if known.named else None
    return replace(made, rows=rows, count=len(lines), rejected=rejected, names=names)


def _odd_ones(graphs: dict[int, Data]) -> dict[int, str]:
    """Find graphs whose feature width differs from that of most graphs; a graph without edges always fits."""
    odd: dict[int, str] = {}
    for name in ("x", "edge_attr"):
        with_any = {place: graph for place, graph in graphs.items() if name == "x" or graph.num_edges}
        usual = next(iter(Counter(_width(graph, name) for graph in with_any.values()).most_common(1)), (0, 0))[0]
        for place, graph in graphs.items():
            if place not in with_any:
                graph.edge_attr = torch.zeros(0, usual, dtype=torch.long) if usual else None
            elif _width(graph, name) != usual:
                odd.setdefault(place, f"has {_width(graph, name)} columns of {name} where most graphs have {usual}")
    return odd


def _width(graph: Data, name: str) -> int:
    return 0 if graph.get(name) is None else int(graph[name].shape[1])


def _alike(graphs: list[Data]) -> list[Data]:
    """Return the graphs with real features if any of them has real ones: JSON writes 1.0 as 1."""
    for name in ("x", "edge_attr"):
        values = [graph.get(name) for graph in graphs]
        if any(value is not None and value.is_floating_point() for value in values):
            for graph, value in zip(graphs, values, strict=True):
                if value is not None:
                    graph[name] = value.float()
    return graphs


def _none(features: FeatureSpec | None) -> Collection:
    """Return an empty collection with these features."""
    from torch_geometric.data import Data

    spec = features or FeatureSpec()
    attr = None if spec.edge.kind == "constant" else torch.zeros(0, len(spec.edge.sizes))
    blank = Data(torch.ones(1, max(len(spec.node.sizes), 1)), torch.zeros(2, 0, dtype=torch.long), attr)
    made = from_data([blank], spec)
    return replace(made, graphs=made.graphs.subset([]))


def _shown(row: Any) -> str:
    """Return the beginning of a line."""
    text = row.text if isinstance(row, NotJson) else json.dumps(row)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
