"""A user's own graphs from SMILES, PyG graphs, networkx graphs or rows of a file.

Letters: N nodes, E edges, G graphs, R rows of the source.
"""

from __future__ import annotations

import difflib
import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from goodformer.data.features import check_features
from goodformer.data.graphs import GraphSet, bounds, check_several, each_way_once
from goodformer.data.molecule import FEATURES, Mol, Molecules, Parsed, Rejected, featurise, featurise_molecules
from goodformer.data.readers.attributes import Attributes, has_own, node_names, own_features, warn_unread
from goodformer.errors import InputError
from goodformer.limits import check_limit, limit
from goodformer.spec import Features, FeatureSpec

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

SMILES_OPTION = "--smiles COLUMN"
"""How a command names the column of SMILES."""
STRUCTURE = re.compile(r"=O|[cCn]1|\(C|\[[A-Zn][@H+\-\]]|C\(")
"""Parts of a SMILES; a column whose name has two of them is a row of data."""
BAR = "|"
"""A separator of fields that is not read, because it also occurs in extended SMILES."""
Columns = dict[str, list[Any]]
"""Columns of a table: text, numbers and booleans as in the file, None for empty fields."""


@dataclass(frozen=True)
class Collection:
    """Graphs read from rows of a source, and the rows that could not be read.

    Attributes:
        graphs: The graphs with ``x``, edges in both directions and, if edges have features, ``attr``. Molecules also
            have ``given``, the number of each atom in the input, because atoms are in canonical order.
        features: Node and edge features.
        rows: Row of the source for each graph, ascending (G,).
        count: Number of rows of the source (of a block: rows in the block).
        rejected: Rows without a graph, and why.
        molecules: The parsed molecule of each graph; None if the graphs are not molecules.
        names: Names of the nodes of each graph; None if they are numbers.
        attributes: Encoding of the attributes of networkx graphs, if they are the features.
        as_written: Whether ``given`` numbers atoms as in the SMILES; records of SDF files and RDKit molecules have
            numbers of their own.
    """

    graphs: GraphSet
    features: FeatureSpec
    rows: Tensor
    count: int
    rejected: tuple[Rejected, ...] = ()
    molecules: Parsed | None = None
    as_written: bool = True
    names: tuple[tuple[str | int, ...], ...] | None = None
    attributes: Attributes | None = None

    def __len__(self) -> int:
        return len(self.graphs)

    @property
    def smiles(self) -> tuple[str, ...] | None:
        """SMILES of each graph; None if the graphs are not molecules."""
        return None if self.molecules is None else self.molecules.smiles

    def subset(self, places: Tensor) -> Collection:
        """Return the graphs at some places."""
        molecules = None if self.molecules is None else self.molecules.subset(places.tolist())
        names = None if self.names is None else tuple(self.names[place] for place in places.tolist())
        graphs = self.graphs.subset(places)
        return replace(self, graphs=graphs, rows=self.rows[places], molecules=molecules, names=names)


def listed(X: Any) -> list[Any]:
    """Return the items of a list, an array, or a pandas column or table with one column; missing values become None."""
    check_several(X, "X")
    values = np.asarray(X, dtype=object) if hasattr(X, "columns") else X
    if isinstance(values, np.ndarray) and values.ndim != 1:
        if values.ndim != 2 or values.shape[1] != 1:
            raise InputError(
                f"X is a table of shape {values.shape}; give the column that contains the SMILES or graphs, "
                "for example X['smiles']."
            )
        values = values[:, 0]
    return [None if _missing(item) else item for item in values]


def _missing(item: Any) -> bool:
    """Return whether an item stands for a missing value: NaN, or pandas' NA, which equals nothing."""
    return (isinstance(item, float) and math.isnan(item)) or type(item).__name__ == "NAType"


def collect(
    items: Sequence[str | Mol | Data | nx.Graph | None],
    features: FeatureSpec | None = None,
    standardise: str = "none",
    attributes: Attributes | None = None,
    named: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
) -> Collection:
    """Collect SMILES, RDKit molecules, PyG `Data` objects or networkx graphs, in the order given.

    Atoms have the numbers that they have in the SMILES, or in the RDKit molecule once explicit hydrogens are removed.

    Models read undirected graphs. If an edge is given in one direction only, the other direction is appended with the
    same features; repeated edges count once and self-loops are dropped. A directed networkx graph is therefore read as
    undirected, and parallel edges of a multigraph as one, with a warning. Edges that are given in both directions keep
    their order.

    PyG graphs provide ``x``, ``edge_index`` and ``edge_attr``. Nodes of a networkx graph may have any names and keep
    their order. All attributes that every node (edge) has become features (`Attributes`): words, truth values and few
    different integers are categories, other numbers are standardised. If some node has ``x`` or some edge
    ``edge_attr``, a number or a list of numbers, then these alone are the features. A warning names what is ignored.

    In ``x`` and ``edge_attr``, integers are codes (categorical features) and real numbers are measurements (continuous
    features). Without features, all nodes are alike.

    Args:
        items: SMILES (None or empty for a missing one), RDKit molecules (None for a missing one), PyG graphs or
            networkx graphs, all of one kind.
        features: Expected node and edge features; inferred from the graphs by default.
        standardise: How molecules are standardised, see `goodformer.data.molecule.STANDARDS`.
        attributes: Encoding of networkx attributes that a model was trained with; learnt from the graphs by default.
        named: Names of the node and of the edge attributes to use; by default all.

    Raises:
        InputError: Kinds are mixed, or a graph is invalid. A SMILES or molecule that RDKit rejects is no error; its
            row is in ``rejected``.
    """
    kind = _kind(items)
    if kind is str:
        return from_smiles(items, features, standardise=standardise)  # type: ignore[arg-type]
    if kind is Mol:
        check_molecular(features, "RDKit molecules were passed")
        parsed = featurise_molecules(items, standardise)  # type: ignore[arg-type]
        return from_molecules(parsed, len(items), as_written=standardise != "none")
    if kind.__name__ == "Data":
        return from_data(items, features)  # type: ignore[arg-type]
    if features is None:  # not again for predictions
        _warn_simplified(items)  # type: ignore[arg-type]
    names = tuple(tuple(node_names(graph)) for graph in items)
    bare = features is not None and attributes is None
    if named == (None, None) and attributes is None and (has_own(items) or bare):  # type: ignore[arg-type]
        warn_unread(items)  # type: ignore[arg-type]
        data = [own_features(graph, f"graph {place}") for place, graph in enumerate(items)]
        return replace(from_data(data, features), names=names)
    known = attributes or Attributes.learn(items, *named)  # type: ignore[arg-type]
    made = from_data(known.encode(items), features or known.features)  # type: ignore[arg-type]
    return replace(made, names=names, attributes=known if known != Attributes() else None)


def _warn_simplified(graphs: Sequence[nx.Graph]) -> None:
    """Warn if directions or parallel edges of networkx graphs are lost."""
    lost = []
    if any(graph.is_directed() and any(not graph.has_edge(v, u) for u, v in graph.edges()) for graph in graphs):
        lost.append("the directions of edges")
    if any(graph.is_multigraph() and graph.number_of_edges() > len(set(graph.edges())) for graph in graphs):
        lost.append("parallel edges")
    if lost:
        warnings.warn(
            f"{' and '.join(lost)} are not read: models see undirected graphs with single edges. If they matter, "
            "describe them by attributes of nodes or edges.",
            stacklevel=3,
        )


def from_smiles(
    smiles: Sequence[str | None], features: FeatureSpec | None = None, first: int = 0, standardise: str = "none"
) -> Collection:
    """Read molecules from SMILES; ``first`` is the number of the first row."""
    check_molecular(features, "SMILES were passed" if any(smiles) or not len(smiles) else "no graph was passed")
    return from_molecules(featurise(smiles, standardise=standardise), len(smiles), first)


def from_molecules(made: Molecules, rows: int, first: int = 0, as_written: bool = True) -> Collection:
    """Return molecules that were read from so many rows; ``first`` is the number of the first row."""
    rejected = tuple(replace(one, row=one.row + first) for one in made.rejected)
    return Collection(made.graphs, FEATURES, made.rows + first, rows, rejected, made.parsed, as_written)


def check_molecular(features: FeatureSpec | None, what: str) -> None:
    """Raise an error if molecules are passed to a model that was trained on other graphs."""
    if features not in (None, FEATURES):
        raise InputError(f"{what}, but the model was trained on other graphs; pass graphs with its training features.")


def from_data(graphs: Sequence[Data], features: FeatureSpec | None = None) -> Collection:
    """Collect PyG graphs."""
    from torch_geometric.data import Data

    check_given(graphs, features)
    bare = not any(isinstance(graph, Data) and graph.x is not None for graph in graphs)
    return from_set(GraphSet.from_list([_only_structure(graph, features) for graph in graphs]), features, bare)


def check_given(graphs: Sequence[Data], features: FeatureSpec | None) -> None:
    """Raise an error if a graph lacks the features that a model was trained with; warn if it has others."""
    if features is None:
        return
    from torch_geometric.data import Data

    read = [graph for graph in graphs if isinstance(graph, Data)]
    for place, graph in enumerate(read):
        for name, spec, count in (("x", features.node, graph.num_nodes), ("edge_attr", features.edge, graph.num_edges)):
            if spec.kind != "constant" and graph.get(name) is None and count:
                width = f"{len(spec.sizes)} {spec.kind} column(s)"
                raise InputError(f"graph {place} has no {name}, but the model was trained with it; give {width}.")
    if features.node.kind == "constant" and any(_single(graph.x) and bool((graph.x != 1).any()) for graph in read):
        warnings.warn("ignored: x, because the model was trained without node features.", stacklevel=3)


def _single(x: Tensor | None) -> bool:
    """Return whether node features are one column; models without features read a column of ones."""
    return isinstance(x, Tensor) and x.numel() == len(x)


def from_set(graphs: GraphSet, features: FeatureSpec | None, bare: bool) -> Collection:
    """Collect a set of graphs; ``bare`` means that nodes have no features."""
    if len(graphs):
        check_limit("nodes", int(graphs.sizes.max()), "a graph")
        check_limit("edges", int(graphs.edge_ptr.diff().max()), "a graph")
    described = features
    if described is None:  # codes or measurements, as the graphs have them
        node = Features() if bare else _inferred(graphs.node["x"], "x")
        edge = _inferred(graphs.edge["attr"], "edge_attr") if "attr" in graphs.edge else Features()
        described = FeatureSpec(node, edge)
    both = both_directions(GraphSet(graphs.node, graphs.edge, {}, graphs.node_ptr, graphs.edge_ptr))
    ready = cast_features(both, described)
    check_features(ready, described, "the graphs")
    return Collection(ready, described, torch.arange(len(ready)), len(ready))


def both_directions(graphs: GraphSet) -> GraphSet:
    """Return the graphs with every edge once in each direction and no loops; unchanged if that is already so."""
    index = graphs.edge_index.numpy()
    chosen, turned = each_way_once(index, int(graphs.node_ptr[-1]))
    if len(chosen) == index.shape[1] and not turned.any():
        return graphs
    graph = graphs.edge_graph.numpy()
    order = np.argsort(graph[chosen], kind="stable")
    picked, flipped = torch.from_numpy(chosen[order]), torch.from_numpy(turned[order])
    edge = {name: value.index_select(int(name == "index"), picked) for name, value in graphs.edge.items()}
    edge["index"] = torch.where(flipped, edge["index"].flip(0), edge["index"])  # (2, E)
    counts = torch.from_numpy(np.bincount(graph[chosen], minlength=len(graphs)))
    return GraphSet(graphs.node, edge, graphs.graph, graphs.node_ptr, bounds(counts))


def cast_features(graphs: GraphSet, features: FeatureSpec) -> GraphSet:
    """Return the graphs with integer codes and real measurements, without edge features that no model reads."""
    edge = dict(graphs.edge)
    if features.edge.kind == "constant":
        edge.pop("attr", None)
    elif "attr" in edge:
        edge["attr"] = _cast(edge["attr"], features.edge)
    node = {**graphs.node, "x": _cast(graphs.node["x"], features.node)}
    return GraphSet(node, edge, graphs.graph, graphs.node_ptr, graphs.edge_ptr)


def _cast(values: Tensor, features: Features) -> Tensor:
    """Return integers where codes are expected, real numbers otherwise."""
    if features.kind != "categorical":
        return values.float()
    return values.long() if not values.is_floating_point() or bool((values == values.floor()).all()) else values


def _kind(items: Sequence[Any]) -> type:
    """Return the common kind of all items."""
    if not len(items):
        raise InputError("the input is empty; pass at least one SMILES, molecule or graph.")
    if all(item is None or isinstance(item, str) for item in items):
        return str
    import networkx as nx
    from torch_geometric.data import Data  # takes two seconds

    known = (str, Mol, Data, nx.Graph)
    kinds = [next((kind for kind in known if isinstance(item, kind)), None) for item in items]
    missing = Mol if Mol in kinds else str
    found = [kind or (missing if item is None else None) for kind, item in zip(kinds, items, strict=True)]
    for place, kind in enumerate(found):
        if kind is None:
            got = type(items[place]).__name__
            raise InputError(
                f"item {place} is a {got}; pass SMILES, RDKit molecules, torch_geometric.data.Data or networkx graphs."
            )
        if kind is not found[0]:
            first = getattr(found[0], "__name__", "")
            raise InputError(f"item {place} is a {kind.__name__} but item 0 is a {first}; pass one kind only.")
    assert found[0] is not None
    return found[0]


def _only_structure(graph: Data, features: FeatureSpec | None) -> Data:
    """Return the parts of a PyG graph that are read; edge features only if a model reads them."""
    from torch_geometric.data import Data

    if not isinstance(graph, Data):
        return graph  # `GraphSet.from_list` raises the error
    wanted = features is None or features.edge.kind != "constant"
    attr = graph.edge_attr if wanted else None
    unread = features is not None and features.node.kind == "constant" and _single(graph.x)
    x = None if unread else graph.x
    return Data(x=x, edge_index=graph.edge_index, edge_attr=attr, num_nodes=graph.num_nodes)


def _inferred(values: Tensor, name: str) -> Features:
    """Return categorical features for integers, continuous ones for real numbers."""
    if values.is_floating_point():
        return Features.continuous(values.shape[1])
    if values.numel() and (int(values.min()) < 0 or int(values.max()) >= limit("codes")):
        raise InputError(
            f"{name} contains integers from {int(values.min())} to {int(values.max())}, which cannot be codes; "
            f"number codes from 0 and below {limit('codes'):,}, or use real numbers."
        )
    largest = values.amax(0).tolist() if len(values) else [0] * values.shape[1]
    return Features.categorical(*(code + 1 for code in largest))


def joined(parts: Sequence[Collection]) -> Collection:
    """Join collections whose rows follow each other."""
    features, end = parts[0].features, 0
    for before, after in pairwise(parts):
        end += before.count
        node = _merged(features.node, after.features.node, "x", end)
        features = FeatureSpec(node, _merged(features.edge, after.features.edge, "edge_attr", end))
    graphs = GraphSet.concat([cast_features(part.graphs, features) for part in parts])
    parsed = [part.molecules for part in parts if part.molecules is not None]
    rows = torch.cat([part.rows for part in parts])  # (G,)
    rejected = tuple(one for part in parts for one in part.rejected)
    count = sum(part.count for part in parts)
    molecules = Parsed.concat(parsed) if parsed else None
    named = [part.names for part in parts if part.names is not None]
    names = tuple(chain.from_iterable(named)) if len(named) == len(parts) else None
    as_written = all(part.as_written for part in parts)
    return Collection(graphs, features, rows, count, rejected, molecules, as_written, names)


def _merged(one: Features, other: Features, name: str, end: int) -> Features:
    """Return features that fit the rows up to ``end`` and those after: the most codes, real numbers if any are real."""
    if one.kind == other.kind == "categorical" and len(one.sizes) == len(other.sizes):
        return Features.categorical(*map(max, one.sizes, other.sizes))
    if ("constant" in (one.kind, other.kind) and one != other) or len(one.sizes) != len(other.sizes):
        raise InputError(
            f"rows up to {end} and later rows differ in {name}; give all graphs the same columns, or none."
        )
    return one if one.kind != "categorical" else other


def pick(columns: Mapping[str, list[Any]], names: Iterable[str], where: str) -> Columns:
    """Return the named columns; a missing one raises an error that lists the available names."""
    return {name: columns[known_column(name, columns, where)] for name in names}


def same_column(name: str, columns: Iterable[str]) -> str | None:
    """Return the column of that name, or the only one that differs from it in upper and lower case; None if none."""
    there = list(columns)
    same = [known for known in there if known.lower() == name.lower()]
    return name if name in there else same[0] if len(same) == 1 else None


def known_column(name: str, columns: Iterable[str], where: str, molecules: bool = False, otherwise: str = "") -> str:
    """Return the name if there is such a column.

    ``molecules`` means that it should be the column of SMILES, which is also found in another case (``SMILES``) if only
    one column has that name. ``otherwise`` says what else the user can do if there is none.
    """
    there = list(columns)
    if name in there:
        return name
    if molecules and (same := same_column(name, there)):
        return same
    lower = {known.lower(): known for known in there}
    near = [lower[word] for word in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)]
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    if len(there) == 1 and BAR in there[0]:
        raise InputError(
            f"{where} has no column {name!r}: its first line is the single column {there[0]!r}, probably because its "
            f"fields are separated by {BAR!r}; save it with commas, semicolons or tabs between them."
        )
    listed = ", ".join(there[:20]) + (f" and {len(there) - 20} more" if len(there) > 20 else "")
    if any(len(STRUCTURE.findall(one)) > 1 and " " not in one for one in there):
        raise InputError(
            f"{where} has no column {name!r}, and its first line looks like data: {listed}; write the names of the "
            "columns in its first line, or save a list of SMILES as .smi."
        )
    advice = f"; name the column of SMILES with {SMILES_OPTION}" if molecules or name == "smiles" else ""
    raise InputError(f"{where} has no column {name!r}; {hint}its columns are: {listed or 'none'}{advice}{otherwise}.")
