"""Settings shared by several models: type, range and help sentence of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from goodformer.nn.gps import Combine
from goodformer.nn.message_passing import Aggregation
from goodformer.nn.normalisation import Norm

Width = Annotated[int, Field(ge=1, le=65536, description="Width of the node embeddings.")]
Layers = Annotated[int, Field(ge=1, le=1000, description="Number of layers.")]
Rate = Annotated[float, Field(ge=0, lt=1, description="Dropout rate.")]
Inputs = Annotated[
    Sequence[str],
    Field(description="Encodings added to the node input, as [name:width, ...]."),
]
EnvironmentRadius = Annotated[
    int,
    Field(
        ge=0, le=3, description="Largest radius of the Morgan environments whose codes are added to graph embeddings."
    ),
]
EnvironmentTable = Annotated[
    int, Field(ge=1, le=65536, description="Rows of the table of environments; codes are folded to this number.")
]
EnvironmentDropout = Annotated[
    float, Field(ge=0, lt=1, description="Rate at which each code of a graph is dropped in training.")
]
Heads = Annotated[int, Field(ge=1, le=65536, description="Attention heads; dim must be a multiple of this.")]
NormName = Annotated[Norm, Field(description="Normalisation: layer, batch or none.")]
AggregationName = Annotated[Aggregation, Field(description="How messages are combined: sum, mean or log.")]
CombineName = Annotated[Combine, Field(description="How messages and attention are combined: sum or concat.")]
