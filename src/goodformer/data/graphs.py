"""Many graphs in a few tensors, from which batches are cut without a loop over graphs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.spec import FeatureSpec
from goodformer.transforms.structure import Structure

if TYPE_CHECKING:
    from torch_geometric.data import Data

Indices = Sequence[int] | Tensor

EDGE_NAMES = {"index": "edge_index", "attr": "edge_attr", "truth": "edge_truth"}
"""Names in a batch of the entries of `GraphSet.edge`."""
SINGLE = (("networkx", "Graph"), ("torch_geometric.data", "Data"))
"""Modules and types of single graphs, which have a length and can be iterated over like a list."""
GIVEN = "given"
"""Node attribute (N,): number of each node in the input, if nodes are stored in another order."""


def check_several(items: Any, name: str) -> None:
    """Raise an error if one graph, one text, or no sequence at all is given instead of several graphs."""
    kinds = [getattr(sys.modules.get(home), kind, str) for home, kind in SINGLE]  # no graph without its module
    if isinstance(items, (str, *kinds)) or not isinstance(items, Iterable):
        got = "None" if items is None else "one text" if isinstance(items, str) else f"a {type(items).__name__}"
        raise InputError(f"{name} is {got}; pass a list of SMILES or graphs, for example [graph].")


class GraphSet(Dataset["Data"]):
    """Graphs laid end to end: one tensor per attribute, and the start of each graph.

    Works as the data set of a `torch.utils.data.DataLoader` with ``collate_fn=lambda batch: batch``: a list of indices
    becomes one `goodformer.batch.Batch` (`__getitems__`).

    Attributes:
        node: Node attributes (N, ...), e.g. ``x`` and encodings such as ``laplacian_8``.
        edge: Edge attributes: ``index`` (2, E) in node numbers local to each graph, optionally ``attr`` (E, ...) and
            ``truth`` (E,), true for edges of the subgraph that decides the label.
        graph: Graph attributes (B, ...): ``y``, ``env``, ``domain``.
        node_ptr: First node of each graph, and N (B + 1,).
        edge_ptr: First edge of each graph, and E (B + 1,).
    """

    def __init__(
        self,
        node: dict[str, Tensor],
        edge: dict[str, Tensor],
        graph: dict[str, Tensor],
        node_ptr: Tensor,
        edge_ptr: Tensor,
    ) -> None:
        self.node, self.edge, self.graph = dict(node), dict(edge), dict(graph)
        self.node_ptr, self.edge_ptr = node_ptr, edge_ptr
        lengths = {"node": int(self.node_ptr[-1]), "edge": int(self.edge_ptr[-1]), "graph": len(self)}
        for kind, expected in lengths.items():
            for name, value in getattr(self, kind).items():
                got = value.shape[1] if (kind, name) == ("edge", "index") else value.shape[0]
                if got != expected:
                    raise InputError(f"{kind} attribute {name!r} has {got} entries but there are {expected} {kind}s.")
        if len(self.node_ptr) != len(self.edge_ptr):
            raise InputError(f"node_ptr has {len(self.node_ptr)} entries, edge_ptr {len(self.edge_ptr)}; give B + 1.")

    def __len__(self) -> int:
        return len(self.node_ptr) - 1

    def __repr__(self) -> str:
        return f"GraphSet({len(self)} graphs, {int(self.node_ptr[-1])} nodes, {int(self.edge_ptr[-1])} directed edges)"

    @property
    def sizes(self) -> Tensor:
        """Number of nodes of each graph (B,)."""
        return self.node_ptr.diff()

    @property
    def edge_graph(self) -> Tensor:
        """Graph of each edge (E,)."""
        return torch.repeat_interleave(self.edge_ptr.diff())

    @property
    def edge_index(self) -> Tensor:
        """Edges (2, E) in global node numbers."""
        return self.edge["index"] + torch.repeat_interleave(self.node_ptr[:-1], self.edge_ptr.diff())

    def structure(self, features: FeatureSpec | None = None) -> Structure:
        """Return what encodings read; node and edge features only if they are described."""
        x, attr = self.node.get("x"), self.edge.get("attr")
        return Structure(self.edge_index, self.node_ptr, x, attr, features or FeatureSpec())

    def __getitem__(self, index: int) -> Data:
        if not -len(self) <= index < len(self):
            raise IndexError(f"graph {index} of {len(self)}")
        from torch_geometric.data import Data  # takes two seconds

        index %= len(self)
        nodes = slice(int(self.node_ptr[index]), int(self.node_ptr[index + 1]))
        edges = slice(int(self.edge_ptr[index]), int(self.edge_ptr[index + 1]))
        data = Data()
        for name, value in self.node.items():
            data[name] = value[nodes]
        for name, value in self.edge.items():
            data[EDGE_NAMES[name]] = value[..., edges] if name == "index" else value[edges]
        for name, value in self.graph.items():
            data[name] = value[index : index + 1]
        return data

    def __getitems__(self, indices: list[int]) -> Batch:
        return self.batch(indices)

    def __iter__(self) -> Iterator[Data]:
        return (self[index] for index in range(len(self)))

    def batch(self, indices: Indices) -> Batch:
        """Return the graphs at ``indices``, in that order, as one batch."""
        part = self.subset(indices)
        edge = {EDGE_NAMES[name]: value for name, value in part.edge.items()} | {"edge_index": part.edge_index}
        where = {"batch": torch.repeat_interleave(part.sizes), "ptr": part.node_ptr}  # (N,), (B + 1,)
        return Batch(**part.node, **edge, **part.graph, **where)

    def subset(self, indices: Indices) -> GraphSet:
        """Return the graphs at ``indices``, in that order."""
        chosen = torch.as_tensor(indices, dtype=torch.long)  # (b,)
        if len(chosen) and not (-len(self) <= int(chosen.min()) and int(chosen.max()) < len(self)):
            raise IndexError(f"graphs {int(chosen.min())} to {int(chosen.max())} of {len(self)}")
        chosen = torch.where(chosen < 0, chosen + len(self), chosen)
        nodes, node_ptr = ragged(self.node_ptr[chosen], self.node_ptr[chosen + 1])
        edges, edge_ptr = ragged(self.edge_ptr[chosen], self.edge_ptr[chosen + 1])
        new = GraphSet.__new__(GraphSet)  # without checks: batches are cut thousands of times
        new.node = {name: value.index_select(0, nodes) for name, value in self.node.items()}
        new.edge = {name: value.index_select(_edge_dim(name), edges) for name, value in self.edge.items()}
        new.graph = {name: value.index_select(0, chosen) for name, value in self.graph.items()}
        new.node_ptr, new.edge_ptr = node_ptr, edge_ptr
        return new

    def with_node(self, name: str, value: Tensor) -> GraphSet:
        """Return the same graphs with one more node attribute (N, ...); all other tensors are shared."""
        return GraphSet({**self.node, name: value}, self.edge, self.graph, self.node_ptr, self.edge_ptr)

    def with_graph(self, name: str, value: Tensor) -> GraphSet:
        """Return the same graphs with another or one more graph attribute (G, ...); all other tensors are shared."""
        return GraphSet(self.node, self.edge, {**self.graph, name: value}, self.node_ptr, self.edge_ptr)

    def in_precision(self, precision: torch.dtype) -> GraphSet:
        """Return the graphs with all real numbers of nodes and edges in this type; unchanged if they are so."""
        values = (*self.node.values(), *self.edge.values())
        if all(value.dtype == precision for value in values if value.is_floating_point()):
            return self
        node, edge = (
            {name: value.to(precision) if value.is_floating_point() else value for name, value in some.items()}
            for some in (self.node, self.edge)
        )
        return GraphSet(node, edge, self.graph, self.node_ptr, self.edge_ptr)

    def as_given(self) -> GraphSet:
        """Return the graphs with nodes numbered as in the input (`GIVEN`); the order of edges stays the same."""
        if GIVEN not in self.node:
            return self
        number, first = self.node[GIVEN], torch.repeat_interleave(self.node_ptr[:-1], self.sizes)  # (N,)
        order = (number + first).argsort()
        node = {name: value[order] for name, value in self.node.items() if name != GIVEN}
        edge = {**self.edge, "index": number[self.edge_index]}
        return GraphSet(node, edge, self.graph, self.node_ptr, self.edge_ptr)

    @classmethod
    def concat(cls, parts: Sequence[GraphSet]) -> GraphSet:
        """Join parts that have the same attributes."""
        fields = {(kind, name) for part in parts for kind in ("node", "edge", "graph") for name in getattr(part, kind)}
        for part in parts:
            for kind, name in sorted(fields):
                if name not in getattr(part, kind):
                    raise InputError(f"{kind} attribute {name!r} is missing in one part; give it to all parts or none.")
        return cls(
            {name: torch.cat([part.node[name] for part in parts]) for name in parts[0].node},
            {name: torch.cat([part.edge[name] for part in parts], _edge_dim(name)) for name in parts[0].edge},
            {name: torch.cat([part.graph[name] for part in parts]) for name in parts[0].graph},
            bounds(torch.cat([part.node_ptr.diff() for part in parts])),
            bounds(torch.cat([part.edge_ptr.diff() for part in parts])),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return everything as one flat mapping; the inverse of `from_tensors`."""
        kinds = {"node": self.node, "edge": self.edge, "graph": self.graph}
        flat = {f"{kind}/{name}": value for kind, values in kinds.items() for name, value in values.items()}
        return {**flat, "node_ptr": self.node_ptr, "edge_ptr": self.edge_ptr}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> GraphSet:
        """Return the set that `tensors` described."""
        kinds: dict[str, dict[str, Tensor]] = {"node": {}, "edge": {}, "graph": {}}
        for key, value in tensors.items():
            kind, _, name = key.partition("/")
            if name:
                kinds[kind][name] = value
        return cls(kinds["node"], kinds["edge"], kinds["graph"], tensors["node_ptr"], tensors["edge_ptr"])

    @classmethod
    def from_list(cls, graphs: Sequence[Data]) -> GraphSet:
        """Return the set of the given PyG graphs after checking each.

        Reads ``x``, ``edge_index``, ``edge_attr``, ``edge_truth``, ``y``, ``env`` and ``domain``. Without ``x``, all
        nodes are alike (ones); ``env`` and ``domain`` default to 0.

        Raises:
            InputError: A graph is empty, contains NaN or an edge to a missing node, or differs from the first graph in
                attributes or widths.
        """
        if not graphs:
            raise InputError("the list of graphs is empty; give at least one graph.")
        rows = [_fields(data, position) for position, data in enumerate(graphs)]
        for position, row in enumerate(rows):
            _check_like_first(row, rows[0], position)
        joined = {name: torch.cat([row[name] for row in rows], 1 if name == "edge/index" else 0) for name in rows[0]}
        joined["node_ptr"] = bounds(torch.tensor([len(row["node/x"]) for row in rows]))
        joined["edge_ptr"] = bounds(torch.tensor([row["edge/index"].shape[1] for row in rows]))
        return cls.from_tensors(joined)


def each_way_once(edges: npt.NDArray[np.int64], nodes: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return which of the given edges (2, e) are stored, and which of these are reversed (E,).

    Every edge is stored once in each direction, without self-loops: models look at every node itself, and an
    explanation cannot leave out a loop without its node. Edges in the direction given come first, in their order; then
    the reverse of those that are given in one direction only. Repeated edges count once.

    Args:
        edges: Ends of the edges as given.
        nodes: Number of nodes; all ends are below it.
    """
    u, v = edges
    there, back = u * max(nodes, 1) + v, v * max(nodes, 1) + u  # (e,)
    first = np.unique(there, return_index=True)[1]
    once = np.sort(first[u[first] != v[first]])
    alone = once[~np.isin(back[once], there)]
    return np.concatenate([once, alone]), np.arange(len(once) + len(alone)) >= len(once)


def both_ways(edges: npt.NDArray[np.int64], nodes: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the edges of `each_way_once` ordered by source and target (2, E), and the given edge of each (E,)."""
    chosen, turned = each_way_once(edges, nodes)
    u, v = np.where(turned, edges[::-1, chosen], edges[:, chosen])
    order = np.lexsort((v, u))
    return np.stack([u, v])[:, order], chosen[order]


def ragged(start: Tensor, stop: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers start_i .. stop_i - 1 of all i in one row, and where each stretch begins (b + 1,)."""
    counts = stop - start  # (b,)
    ptr = bounds(counts)
    return torch.repeat_interleave(start - ptr[:-1], counts) + torch.arange(int(ptr[-1])), ptr


def bounds(counts: Tensor) -> Tensor:
    """Return running sums of counts (b,) with a leading zero (b + 1,)."""
    return torch.nn.functional.pad(counts.cumsum(0), (1, 0))


def _edge_dim(name: str) -> int:
    """Return the dimension along which an edge attribute has its edges."""
    return 1 if name == "index" else 0


def _fields(data: Data, position: int) -> dict[str, Tensor]:
    """Return the checked attributes of one graph under the flat names of `GraphSet.tensors`."""
    from torch_geometric.data import Data  # takes two seconds

    if not isinstance(data, Data):
        raise InputError(f"graph {position} is a {type(data).__name__}; give torch_geometric.data.Data objects.")
    fields = {"node/x": _node_features(data, position), "edge/index": _edges(data, position)}
    edges = fields["edge/index"].shape[1]
    if data.get(GIVEN) is not None:
        fields[f"node/{GIVEN}"] = torch.as_tensor(data[GIVEN]).long().reshape(-1)
    for name in ("attr", "truth"):
        value = data.get(EDGE_NAMES[name])
        if value is not None:
            fields[f"edge/{name}"] = _edge_values(value, name, edges, position)
    for name in ("env", "domain"):
        given = data.get(name)
        fields[f"graph/{name}"] = torch.as_tensor(0 if given is None else given).long().reshape(-1)
    if data.get("y") is not None:
        y = torch.as_tensor(data.y)  # one integer is a class (1,), real numbers or several values are targets (1, T)
        targets = y.is_floating_point() or y.numel() > 1
        fields["graph/y"] = y.float().reshape(1, -1) if targets else y.long().reshape(-1)
    return fields


def _node_features(data: Data, position: int) -> Tensor:
    """Return node features (N, F); ones if the graph has none."""
    nodes = data.num_nodes or 0
    if nodes == 0:
        raise InputError(f"graph {position} is empty; every graph needs at least one node.")
    x = torch.ones(nodes, 1) if data.x is None else torch.as_tensor(data.x)
    x = x[:, None] if x.dim() == 1 else x
    if x.dim() != 2:
        raise InputError(f"graph {position} has x of shape {tuple(x.shape)}; give one row of features per node.")
    return _finite(x, "x", position)


def _edges(data: Data, position: int) -> Tensor:
    """Return edges (2, E) between existing nodes."""
    edges = torch.empty(2, 0, dtype=torch.long) if data.edge_index is None else torch.as_tensor(data.edge_index)
    if edges.dim() != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise InputError(f"graph {position} has edge_index {tuple(edges.shape)}, {edges.dtype}; give integers (2, E).")
    if edges.numel() and (int(edges.min()) < 0 or int(edges.max()) >= cast(int, data.num_nodes)):
        raise InputError(
            f"graph {position} has an edge to node {int(edges.max() if edges.min() >= 0 else edges.min())} "
            f"but its {data.num_nodes} nodes are numbered from 0; correct its edge_index."
        )
    return edges.long()


def _edge_values(value: Any, name: str, edges: int, position: int) -> Tensor:
    """Return edge attributes (E, F), or edge truth (E,) as booleans."""
    tensor = torch.as_tensor(value)
    if tensor.dim() == 0 or tensor.shape[0] != edges:
        raise InputError(
            f"graph {position} has {EDGE_NAMES[name]} {tuple(tensor.shape)} but {edges} edges; give one row per edge."
        )
    if name == "truth":
        return tensor.reshape(-1).bool()
    return _finite(tensor[:, None] if tensor.dim() == 1 else tensor, EDGE_NAMES[name], position)


def _finite(value: Tensor, name: str, position: int) -> Tensor:
    """Return real numbers as float32 and codes as integers; NaN and infinity are errors."""
    if not value.is_floating_point():
        return value.long()
    if not bool(value.isfinite().all()):
        raise InputError(f"graph {position} has NaN or infinity in {name}; replace or drop these values.")
    return value.float()


def _check_like_first(row: dict[str, Tensor], first: dict[str, Tensor], position: int) -> None:
    """Raise an error unless a graph has the attributes, widths and types of the first one."""
    if row.keys() != first.keys():
        names = ", ".join(sorted(name.partition("/")[2] for name in row.keys() ^ first.keys()))
        raise InputError(f"graph {position} and graph 0 differ in {names}; give it to all graphs or to none.")
    for name, value in row.items():
        wanted = (1 if name.startswith("graph/") else len(value), *first[name].shape[1:])
        same_width = name == "edge/index" or value.shape == wanted
        if not same_width or value.dtype != first[name].dtype:
            raise InputError(
                f"graph {position} has {name.partition('/')[2]} {tuple(value.shape)} of {value.dtype} "
                f"where {wanted} of {first[name].dtype} is expected as in graph 0; make the graphs alike."
            )
