"""Models: graphs in, node embeddings out."""

from goodformer.models.base import GraphModel
from goodformer.models.exphormer import Exphormer
from goodformer.models.gin import GIN, VirtualNodeGIN
from goodformer.models.goodformer import GOODFormer
from goodformer.models.gps import GraphGPS
from goodformer.models.graphormer import Graphormer
from goodformer.registry import Registry

MODELS: Registry[GraphModel] = Registry(
    "model",
    {
        "gin": GIN,
        "gin-vn": VirtualNodeGIN,
        "graphormer": Graphormer,
        "gps": GraphGPS,
        "exphormer": Exphormer,
        "goodformer": GOODFormer,
    },
)

__all__ = ["GIN", "MODELS", "Exphormer", "GOODFormer", "GraphGPS", "GraphModel", "Graphormer", "VirtualNodeGIN"]
