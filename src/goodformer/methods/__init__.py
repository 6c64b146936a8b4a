"""Methods: what is minimised in training, predicted at test time, and shown as explanation.

A method is registered by one line below; its module is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodformer.registry import Registry

if TYPE_CHECKING:
    from goodformer.methods.base import Method

METHODS: Registry[Method] = Registry(
    "method",
    {
        "erm": "goodformer.methods.erm:ERM",
        "irm": "goodformer.methods.irm:IRM",
        "vrex": "goodformer.methods.vrex:VREx",
        "dir": "goodformer.methods.dir:DIR",
        "grea": "goodformer.methods.grea:GREA",
        "gil": "goodformer.methods.gil:GIL",
        "gsat": "goodformer.methods.gsat:GSAT",
        "ciga": "goodformer.methods.ciga:CIGA",
        "imold": "goodformer.methods.imold:IMoLD",
        "cal-plus": "goodformer.methods.cal:CALPlus",
        "goodformer": "goodformer.methods.goodformer:GOODFormerMethod",
        "forest": "goodformer.methods.forest:Forest",
        "linear": "goodformer.methods.linear:Linear",
        "gaussian-process": "goodformer.methods.gaussian:GaussianProcess",
        "blend": "goodformer.methods.blend:Blend",
    },
)
