"""Settings that several models share: type, range and help sentence of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from goodformer.nn.gps import Combine
from goodformer.nn.message_passing import Aggregation
from goodformer.nn.normalisation import Norm

Width = Annotated[int, Field(ge=1, description="Width of the node embeddings.")]
Layers = Annotated[int, Field(ge=1, description="Number of layers.")]
Rate = Annotated[float, Field(ge=0, lt=1, description="Dropout rate.")]
Inputs = Annotated[
    Sequence[str],
    Field(description="Computed node attributes added to the input, as [name:width, ...]."),
]
Heads = Annotated[int, Field(ge=1, description="Attention heads; the width must be a multiple.")]
NormName = Annotated[Norm, Field(description="Normalisation: layer, batch or none.")]
AggregationName = Annotated[Aggregation, Field(description="How messages are combined: sum, mean or log.")]
CombineName = Annotated[Combine, Field(description="How messages and attention are joined: sum or concat.")]
