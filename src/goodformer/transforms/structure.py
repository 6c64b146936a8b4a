"""What encodings read: graphs laid end to end, with or without their features."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from goodformer.spec import FeatureSpec


@dataclass(frozen=True)
class Structure:
    """Graphs as encodings read them; most encodings read the edges alone.

    Attributes:
        edge_index: Edges (2, E) in global node numbers.
        ptr: First node of each graph, and the number of nodes (B + 1,).
        x: Node features (N, F); None if nodes have none.
        edge_attr: Edge features (E, F'); None if edges have none.
        features: What the features are; constant by default, which means that they are not read.
    """

    edge_index: Tensor
    ptr: Tensor
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    features: FeatureSpec = field(default_factory=FeatureSpec)
