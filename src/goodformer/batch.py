"""A batch of graphs as methods and models read it."""

from __future__ import annotations

from collections.abc import KeysView
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Batch:
    """Graphs laid end to end, with the attributes of a PyG batch: each is a tensor, ``batch.x`` or ``batch["x"]``.

    PyG takes two seconds to import, and training and prediction need only these attributes. For anything else of PyG,
    graphs of a `goodformer.data.graphs.GraphSet` are PyG ``Data``, which ``Batch.from_data_list`` of PyG joins; methods
    and models accept its batches, too.

    Attributes:
        x: Node features (N, F), codes or real numbers.
        edge_index: Edges in node numbers of the batch (2, E).
        edge_attr: Edge features (E, F), None if there are none.
        y: Labels (B,) or (B, T), None if there are none.
        batch: Graph of each node (N,).
        ptr: First node of each graph, and N (B + 1,).
    """

    x: Any = None
    edge_index: Any
    edge_attr: Any = None
    y: Any = None
    batch: Any
    ptr: Any

    def __init__(self, **tensors: Tensor) -> None:
        self.__dict__ |= tensors

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the batch has no {name!r}; it has {', '.join(vars(self))}.")

    def __contains__(self, name: str) -> bool:
        return name in vars(self)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def __setitem__(self, name: str, value: Tensor) -> None:
        setattr(self, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a tensor, or the default if there is none of that name."""
        return getattr(self, name, default)

    def keys(self) -> KeysView[str]:
        """Return the names of all tensors."""
        return vars(self).keys()

    @property
    def num_graphs(self) -> int:
        """The number of graphs B."""
        starts: int = self.ptr.shape[0]
        return starts - 1

    @property
    def num_nodes(self) -> int:
        """The number of nodes N."""
        nodes: int = self.batch.shape[0]
        return nodes

    @property
    def num_edges(self) -> int:
        """The number of directed edges E."""
        return int(self.edge_index.shape[1])

    def to(self, device: str | torch.device, non_blocking: bool = False) -> Batch:
        """Return the batch on a device."""
        return Batch(**{name: value.to(device, non_blocking=non_blocking) for name, value in vars(self).items()})


Graph: TypeAlias = "Batch | Data"
"""One graph: a batch of one, or PyG's."""
