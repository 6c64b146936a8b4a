"""Models: graphs in, node embeddings out.

A model is registered by one line below; its module is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodformer.registry import Registry

if TYPE_CHECKING:
    from goodformer.models.base import GraphModel

MODELS: Registry[GraphModel] = Registry(
    "model",
    {
        "gin": "goodformer.models.gin:GIN",
        "gin-vn": "goodformer.models.gin:VirtualNodeGIN",
        "dmpnn": "goodformer.models.dmpnn:DMPNN",
        "graphormer": "goodformer.models.graphormer:Graphormer",
        "gps": "goodformer.models.gps:GraphGPS",
        "exphormer": "goodformer.models.exphormer:Exphormer",
        "goodformer": "goodformer.models.goodformer:GOODFormer",
        "fingerprint": "goodformer.models.fingerprint:Fingerprint",
    },
)
