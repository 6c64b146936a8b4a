"""Methods: what is minimised in training, predicted at test time, and shown as explanation."""

from goodformer.methods.base import Method, Prediction
from goodformer.methods.erm import ERM
from goodformer.methods.goodformer import GOODFormerMethod
from goodformer.methods.gsat import GSAT
from goodformer.registry import Registry

METHODS: Registry[Method] = Registry(
    "method",
    {
        "erm": ERM,
        "gsat": GSAT,
        "goodformer": GOODFormerMethod,
    },
)

__all__ = ["ERM", "GSAT", "METHODS", "GOODFormerMethod", "Method", "Prediction"]
