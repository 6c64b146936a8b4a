"""Attributes of networkx nodes and edges as features, with an encoding that a fitted model stores.

Letters: N nodes or edges, F columns.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from goodformer.data.readers.json_lines import table_of
from goodformer.errors import InputError
from goodformer.spec import Features, FeatureSpec

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

OWN = {"node": "x", "edge": "edge_attr"}
"""Attributes that hold finished features; if graphs have them, others are ignored."""
FEW = 20
"""Largest number of different integers that count as categories; more are numbers."""
MOST = 1000
"""Largest number of categories; text with more, or with values that rarely come back, is a name, not a category."""
SHOWN = 5
"""Names or values that a warning lists."""

Values = list[dict[str, Any]]
"""The attributes of each node or edge."""


@dataclass(frozen=True)
class Attribute:
    """How one attribute is encoded.

    Attributes:
        name: Its name.
        kind: ``category``, or ``number`` for a number or a list of numbers.
        values: The categories; code 0 means any other value.
        mean: Mean of each number in training.
        scale: Standard deviation of each number in training, 1 if it is constant.
    """

    name: str
    kind: Literal["category", "number"]
    values: tuple[str | int | bool, ...] = ()
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """Columns of the attribute among real numbers: one per category or number."""
        return len(self.values) if self.kind == "category" else len(self.mean)


@dataclass(frozen=True)
class Attributes:
    """The encoding of all node and edge attributes.

    If all attributes of nodes (edges) are categories, features are codes. Otherwise they are real numbers: numbers
    minus their mean, divided by their standard deviation, and a column of zeros and ones per category.
    """

    node: tuple[Attribute, ...] = ()
    edge: tuple[Attribute, ...] = ()

    @property
    def features(self) -> FeatureSpec:
        """Node and edge features."""
        return FeatureSpec(_described(self.node), _described(self.edge))

    @classmethod
    def learn(
        cls, graphs: Sequence[nx.Graph], node: Sequence[str] | None = None, edge: Sequence[str] | None = None
    ) -> Attributes:
        """Return the encoding of the attributes of some graphs.

        Args:
            graphs: The graphs.
            node: Names of the node attributes to use; by default all that every node has. A warning names the others.
            edge: The same for edges.

        Raises:
            InputError: A named attribute is missing or neither a number nor a category.
        """
        found, ignored = {}, []
        for kind, wanted in (("node", node), ("edge", edge)):
            values = [one for graph in graphs for one in _values(graph, kind)]
            found[kind], others = _learnt(kind, values, wanted)
            ignored += [f"{kind} attribute {name!r} ({reason})" for name, reason in others.items()]
        _warn_ignored(ignored)
        return cls(found["node"], found["edge"])

    def encode(self, graphs: Sequence[nx.Graph]) -> list[Data]:
        """Return the graphs as PyG graphs with encoded features.

        Raises:
            InputError: A graph lacks an attribute, or a number is not finite.
        """
        others: dict[str, set[str]] = {}
        made = []
        for place, graph in enumerate(graphs):
            data = structure(graph)
            data.x = _encoded(self.node, _values(graph, "node"), f"graph {place}", "node", others)
            data.edge_attr = _encoded(self.edge, _values(graph, "edge"), f"graph {place}", "edge", others)
            made.append(data)
        for name, values in others.items():
            listed = ", ".join(sorted(values)[:SHOWN]) + (", ..." if len(values) > SHOWN else "")
            warnings.warn(f"{name} has values that training did not have: {listed}.", stacklevel=4)
        return made


def has_own(graphs: Iterable[nx.Graph]) -> bool:
    """Return whether any node has ``x`` or any edge has ``edge_attr``."""
    return any(name in one for graph in graphs for kind, name in OWN.items() for one in _values(graph, kind))


def own_features(graph: nx.Graph, where: str) -> Data:
    """Convert a graph whose features are ``x`` and ``edge_attr``; other attributes are not read."""
    data = structure(graph)
    for kind, name in OWN.items():
        data[name] = _own([one.get(name) for one in _values(graph, kind)], name, where)
    return data


def warn_unread(graphs: Iterable[nx.Graph]) -> None:
    """Warn of attributes beside ``x`` and ``edge_attr``."""
    names = {
        f"{kind} attribute {name!r} (features are in {own!r})"
        for graph in graphs
        for kind, own in OWN.items()
        for one in _values(graph, kind)
        for name in one
        if name != own
    }
    _warn_ignored(sorted(names))


def structure(graph: nx.Graph) -> Data:
    """Return nodes in their order and edges as given, without features."""
    from torch_geometric.data import Data

    place = {node: number for number, node in enumerate(graph)}
    ends = [(place[u], place[v]) for u, v in graph.edges()]
    index = torch.tensor(ends, dtype=torch.long).reshape(-1, 2).T
    return Data(edge_index=index, num_nodes=len(place))


def node_names(graph: nx.Graph) -> list[str | int]:
    """Return the names of the nodes in their order, as JSON holds them."""
    return [name if isinstance(name, str | int) and not isinstance(name, bool) else str(name) for name in graph]


def _values(graph: nx.Graph, kind: str) -> Values:
    """Return the attributes of each node or edge."""
    if kind == "node":
        return [carried for _, carried in graph.nodes(data=True)]
    return [carried for _, _, carried in graph.edges(data=True)]


def _learnt(kind: str, values: Values, wanted: Sequence[str] | None) -> tuple[tuple[Attribute, ...], dict[str, str]]:
    """Return the encodings of the attributes of nodes or edges, and why others are ignored."""
    present = list(dict.fromkeys(name for one in values for name in one))
    found: list[Attribute] = []
    ignored: dict[str, str] = {}
    for name in present if wanted is None else wanted:
        given = [one[name] for one in values if one.get(name) is not None]
        made: Attribute | str = "missing"
        if given:
            made = f"missing on {len(values) - len(given)} of {len(values)} {kind}s"
        if given and len(given) == len(values):
            made = _described_values(str(name), given, wanted is not None)
        if isinstance(made, Attribute):
            found.append(made)
        elif wanted is not None:
            raise InputError(f"{kind} attribute {name!r} is {made}; name attributes that every {kind} has.")
        else:
            ignored[str(name)] = made
    return tuple(found), ignored


def _described_values(name: str, given: list[Any], chosen: bool) -> Attribute | str:
    """Return how values are encoded, or what is wrong with them.

    Text whose values rarely come back is a name, such as that of a person, unless the user has chosen the attribute.
    """
    plain = [_plain(value) for value in given]
    kinds = {type(value) for value in plain}
    if kinds <= {str, bool} or (kinds == {int} and len(set(plain)) <= FEW):
        categories = sorted({(type(value).__name__, value) for value in plain})
        if len(categories) > (MOST if chosen else min(MOST, max(FEW, len(plain) // 2))):
            return f"text with {len(categories):,} different values on {len(plain):,} places"
        return Attribute(name, "category", tuple(value for _, value in categories))
    if not kinds <= {int, float, list}:
        return f"neither numbers nor words, but {', '.join(sorted(kind.__name__ for kind in kinds))}"
    rows = [value if isinstance(value, list) else [value] for value in plain]
    sound = all(type(one) in (int, float, bool) and math.isfinite(one) for row in rows for one in row)
    if not sound or not rows[0] or len({len(row) for row in rows}) > 1:
        return "not the same number of finite numbers everywhere"
    table = np.array(rows, dtype=np.float64)  # (N, F)
    scale = table.std(0)
    return Attribute(name, "number", (), tuple(table.mean(0).tolist()), tuple(np.where(scale > 0, scale, 1).tolist()))


def _plain(value: Any) -> Any:
    """Return numpy and torch values as Python values, and tuples as lists."""
    if isinstance(value, np.generic | np.ndarray | Tensor):
        value = value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _described(attributes: Sequence[Attribute]) -> Features:
    """Return the features that attributes become."""
    if not attributes:
        return Features()
    if all(one.kind == "category" for one in attributes):
        return Features.categorical(*(len(one.values) + 1 for one in attributes))
    return Features.continuous(sum(one.width for one in attributes))


def _encoded(
    attributes: Sequence[Attribute], values: Values, where: str, kind: str, others: dict[str, set[str]]
) -> Tensor | None:
    """Return the features of nodes or edges (N, F), and note values that training did not have in ``others``."""
    if not attributes:
        return None
    codes = all(one.kind == "category" for one in attributes)
    columns: list[Tensor] = []
    for attribute in attributes:
        given = [_plain(one.get(attribute.name)) for one in values]
        missing = sum(value is None for value in given)
        if missing:
            raise InputError(
                f"{where} lacks the {kind} attribute {attribute.name!r} on {missing} of {len(given)} {kind}s, but the "
                f"model was trained with it; set it on every {kind}."
            )
        if attribute.kind == "number":
            columns.append(_numbers(attribute, given, f"{kind} attribute {attribute.name!r} of {where}"))
            continue
        known = {(type(value), value): code for code, value in enumerate(attribute.values, 1)}
        found = [known.get((type(value), _hashable(value)), 0) for value in given]
        new = {str(value) for value, code in zip(given, found, strict=True) if not code}
        if new:
            others.setdefault(f"{kind} attribute {attribute.name!r}", set()).update(new)
        code = torch.tensor(found, dtype=torch.long)  # (N,)
        hot = torch.nn.functional.one_hot(code, len(attribute.values) + 1)[:, 1:].float()
        columns.append(code[:, None] if codes else hot)
    return torch.cat(columns, 1)


def _hashable(value: Any) -> Any:
    """Return the value, or its text if it cannot be looked up."""
    return str(value) if isinstance(value, list | dict | set) else value


def _numbers(attribute: Attribute, given: list[Any], where: str) -> Tensor:
    """Return standardised numbers (N, F)."""
    rows = [value if isinstance(value, list) else [value] for value in given]
    sound = all(
        len(row) == attribute.width and all(type(one) in (int, float, bool) and math.isfinite(one) for one in row)
        for row in rows
    )
    if not sound:
        raise InputError(f"{where} is not {attribute.width} finite number(s) everywhere, as in training; correct it.")
    table = torch.tensor(rows, dtype=torch.double).reshape(-1, attribute.width)
    return ((table - torch.tensor(attribute.mean).double()) / torch.tensor(attribute.scale).double()).float()


def _own(values: list[Any], name: str, where: str) -> Tensor | None:
    """Return ``x`` or ``edge_attr`` of all nodes or edges as a table; None if none has it."""
    given = [value is not None for value in values]
    if not any(given):
        return None
    if not all(given):
        raise InputError(f"{where} has {name} on {sum(given)} of {len(given)}; set it on all or on none.")
    rows = [_plain(value) for value in values]
    return table_of([row if isinstance(row, list) else [row] for row in rows], name, where)


def _warn_ignored(named: Sequence[str]) -> None:
    """Warn once of all attributes that are not read."""
    if named:
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        warnings.warn(f"ignored: {', '.join(named[:SHOWN])}{more}.", stacklevel=5)
