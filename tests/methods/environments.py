"""Labels of all kinds and the loss of one environment by torch, for the tests of methods that use environments."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from goodformer.methods import METHODS
from goodformer.methods.base import Method
from goodformer.models import MODELS
from goodformer.spec import Features, FeatureSpec, Task

SPEC = FeatureSpec(Features.continuous(4), Features.continuous(3))
TASKS = {"multiclass": Task("multiclass", 3), "targets": Task("binary", 4, "rocauc")}
NAN = float("nan")


def build(name: str, task: Task, model: str = "gin", **settings: float) -> Method:
    torch.manual_seed(0)
    return METHODS.build(name, MODELS.build(model, SPEC, dim=16), task, **settings)


def labels(task: Task, count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if task.kind == "multiclass":
        return torch.randint(3, (count,), generator=generator)
    y = torch.randint(2, (count, task.outputs), generator=generator).float()
    y[torch.rand(y.shape, generator=generator) < 0.4] = NAN
    return y


def one_environment(task: Task, logits: Tensor, y: Tensor) -> Tensor:
    """The mean loss over the labels of some graphs, by torch."""
    if task.kind == "multiclass":
        return F.cross_entropy(logits, y)
    known = ~y.isnan()
    return F.binary_cross_entropy_with_logits(logits[known], y[known])
