"""Methods: what is minimised in training, predicted at test time, and shown as explanation."""

from goodformer.methods.base import Method, Prediction
from goodformer.methods.cal import CALPlus
from goodformer.methods.ciga import CIGA
from goodformer.methods.dir import DIR
from goodformer.methods.erm import ERM
from goodformer.methods.gil import GIL
from goodformer.methods.goodformer import GOODFormerMethod
from goodformer.methods.grea import GREA
from goodformer.methods.gsat import GSAT
from goodformer.methods.imold import IMoLD
from goodformer.methods.irm import IRM
from goodformer.methods.vrex import VREx
from goodformer.registry import Registry

METHODS: Registry[Method] = Registry(
    "method",
    {
        "erm": ERM,
        "irm": IRM,
        "vrex": VREx,
        "dir": DIR,
        "grea": GREA,
        "gil": GIL,
        "gsat": GSAT,
        "ciga": CIGA,
        "imold": IMoLD,
        "cal-plus": CALPlus,
        "goodformer": GOODFormerMethod,
    },
)

__all__ = [
    "CIGA",
    "DIR",
    "ERM",
    "GIL",
    "GREA",
    "GSAT",
    "IRM",
    "METHODS",
    "CALPlus",
    "GOODFormerMethod",
    "IMoLD",
    "Method",
    "Prediction",
    "VREx",
]
