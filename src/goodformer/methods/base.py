"""The interface of every method, and the loss of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.models.base import GraphModel
from goodformer.spec import REGRESSION, Task

SPREAD = "member_spread"
"""Signal of methods with several members: the standard deviation of their probabilities or values."""
CLASSES = frozenset(("multiclass", "binary"))
ALL_TASKS = CLASSES | {REGRESSION}


@dataclass(frozen=True)
class Prediction:
    """A method's output for a batch.

    Attributes:
        logits: Unnormalised scores, (B, C).
        edge_scores: One score per edge, (E,); None if the method does not score edges.
        embedding: The graph embedding that the logits are computed from, (B, D), if it needs no second pass.
        signals: Further statistics per graph that the method offers to the domain score, each (B,).
        edge_logits: Edge scores before a sigmoid that may saturate, (E,), if the method has them.
    """

    logits: Tensor
    edge_scores: Tensor | None
    embedding: Tensor | None = None
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    edge_logits: Tensor | None = None


class Method(nn.Module):
    """Base class of methods: the training loss, the prediction and the explanation.

    Attributes:
        in_words: What the method does and when to choose it, in one sentence without formulas.
        tasks: Kinds of tasks that it supports; see `goodformer.spec.Task`.
        at_once: Whether `fit` replaces training by gradients; such a run has one epoch.
        seedless: Whether seeds give the same model, but for the sample of graphs that chooses a setting.
        differentiable: Whether logits have a gradient by the weights of edges, see `weighted_logits`.
        soft_labels: Whether the loss accepts binary labels between 0 and 1.
        keeps_graphs: Whether the fitted method holds counts of its training graphs, which others could read.
        scores_are_shares: Whether edge scores are shares of the prediction, as those of fingerprints are.
    """

    in_words: str = ""
    tasks: ClassVar[frozenset[str]] = CLASSES
    at_once: ClassVar[bool] = False
    seedless: ClassVar[bool] = False
    differentiable: ClassVar[bool] = True
    soft_labels: ClassVar[bool] = True
    keeps_graphs: ClassVar[bool] = False
    scores_are_shares: ClassVar[bool] = False

    def __init__(self, model: GraphModel, task: Task) -> None:
        super().__init__()
        self.model = model
        self.task = task

    @property
    def members(self) -> Sequence[Method]:
        """The methods that predict together; by default this one."""
        return (self,)

    def rejoined(self, members: Sequence[Method]) -> Method:
        """Return a method of these trained members, combined as the present ones are; by default the only member."""
        (only,) = members
        return only

    @property
    def encodings(self) -> tuple[str, ...]:
        """Encodings (``name:width``) that the batch must carry."""
        return self.model.encodings

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C)."""
        raise NotImplementedError

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """Return named, weighted loss terms; their sum is minimised."""
        raise NotImplementedError

    def fit(self, batches: Iterable[Batch], seed: int, threads: int = 1) -> None:
        """Learn from all training graphs at once, if `at_once` is true; ``seed`` decides everything random."""
        raise NotImplementedError

    def edge_scores(self, batch: Batch) -> Tensor | None:
        """Return one score per edge (E,), larger = more invariant; None if the method does not score edges."""
        return None

    def weighted_logits(self, batch: Batch, edge_weight: Tensor) -> Tensor:
        """Return logits (B, C) with messages multiplied by ``edge_weight`` (E,), for post-hoc explanations."""
        raise NotImplementedError

    @property
    def weighs_edges(self) -> bool:
        """Whether the method implements `weighted_logits`."""
        return type(self).weighted_logits is not Method.weighted_logits

    def predict(self, batch: Batch) -> Prediction:
        """Return logits and edge scores; a method that computes both in one pass overrides this."""
        return Prediction(self(batch), self.edge_scores(batch))

    def outputs(self, batch: Batch) -> Prediction:
        """Return the prediction without edge scores where these cost extra."""
        return Prediction(self(batch), None) if type(self).predict is Method.predict else self.predict(batch)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next((one.device for one in (*self.parameters(), *self.buffers())), torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the weights."""
        weights = (*self.parameters(), *self.buffers())
        return next((one.dtype for one in weights if one.is_floating_point()), torch.get_default_dtype())

    def trainable(self, epoch: int) -> Iterable[nn.Parameter]:
        """Return the parameters that this epoch updates; for methods that alternate."""
        return self.parameters()


def predicted_direction(task: Task, logits: Tensor) -> Tensor:
    """Return the direction (B, C) in which the logits of a graph support what is predicted for it.

    It has a one at the predicted class, or the sign of each target's logit divided by the number of targets. The logit
    of a measured target is its distance from the training mean.
    """
    if task.kind == "multiclass":
        return torch.zeros_like(logits).scatter_(1, logits.argmax(1, keepdim=True), 1.0)
    return torch.where(logits > 0, 1.0, -1.0).to(logits) / task.outputs


def edge_gradients(method: Method, batch: Batch) -> Tensor:
    """Return how fast what is predicted for a graph gains support with the weight of each edge, (E,).

    For methods with `Method.weighted_logits`: a score of edges where the method has none of its own.
    """
    with torch.enable_grad():
        weight = torch.ones(batch.num_edges, dtype=method.dtype, device=batch.edge_index.device, requires_grad=True)
        logits = method.weighted_logits(batch, weight)
        support = (logits * predicted_direction(method.task, logits.detach())).sum()
        if not support.requires_grad:  # the method does not use the weights
            return torch.zeros_like(weight)
        (gradient,) = torch.autograd.grad(support, weight, materialize_grads=True)
    return gradient


def losses(task: Task, logits: Tensor, y: Tensor) -> Tensor:
    """Return the loss of every prediction (*, C) as (*).

    It is the cross-entropy of classes (``y`` holds their indices (*)) and of binary targets (zeros and ones (*, C)),
    and the squared error of measured targets (*, C) in training standard deviations. Missing labels (NaN) do not count:
    the mean of the result is the mean over the known labels.
    """
    if task.kind == "multiclass":
        return F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)
    known = ~y.isnan()  # (*, C)
    if task.measured:
        terms = (logits - standardised(task, y).nan_to_num()).square() * known
    else:
        terms = F.binary_cross_entropy_with_logits(logits, y.nan_to_num(), reduction="none") * known
    return terms.sum(-1) * (known[..., 0].numel() / known.sum().clamp(min=1))


def mean_loss(task: Task, logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean loss over the known labels."""
    return losses(task, logits, y).mean()


def link(task: Task, logits: Tensor) -> Tensor:
    """Return what logits mean, of the same shape: probabilities, or measured values in their own units."""
    if task.measured:
        centre, scale = _standard(task, logits)
        return centre + scale * logits
    return logits.softmax(-1) if task.kind == "multiclass" else torch.sigmoid(logits)


def standardised(task: Task, values: Tensor) -> Tensor:
    """Return measured values (*, T) in training standard deviations from the training mean."""
    centre, scale = _standard(task, values)
    return (values - centre) / scale


def _standard(task: Task, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each measured target (T,); 0 and 1 if the task does not have them."""
    return like.new_tensor(task.centre or [0.0] * task.outputs), like.new_tensor(task.scale or [1.0] * task.outputs)


def check_task(name: str, method: Callable[..., Method], task: Task) -> None:
    """Raise an error if a method does not support a kind of task."""
    if task.kind not in getattr(method, "tasks", CLASSES):
        what = "measured values" if task.measured else f"{task.kind} tasks"
        raise InputError(
            f"method {name} is not defined for {what}; choose another one, see goodformer methods"
            f"{', or predict whether the value is above a threshold' if task.measured else ''}."
        )
