"""A blend: several trained methods that predict together."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.batch import Batch
from goodformer.methods import METHODS
from goodformer.methods.base import ALL_TASKS, SPREAD, Method, Prediction, check_task, edge_gradients, link
from goodformer.methods.members import read_settings
from goodformer.models.base import GraphModel
from goodformer.settings import Computed
from goodformer.spec import Task

LEVEL = 1e-6
"""Standard deviation of edge scores below which a graph's scores count as equal."""


Mean = Literal["probabilities", "log_odds"]


class Combination(NamedTuple):
    """What turns the logits of M members into one prediction, see `Blend`."""

    weights: Tensor  # (M,)
    temperatures: Tensor  # (M,)
    shifts: Tensor  # (M, C)
    mean: Mean = "probabilities"

    def scaled(self, logits: Tensor) -> Tensor:
        """Return the members' logits (M, B, C) with their temperatures and shifts."""
        return logits / self.temperatures[:, None, None] + self.shifts[:, None, :]

    def mix(self, task: Task, logits: Tensor) -> Tensor:
        """Return the logits (B, C) of the weighted mean of the members' probabilities, computed from logarithms.

        If the mean is that of log-odds, it is the weighted mean of the members' log-odds (of several classes: of their
        log-probabilities). Of measured targets it is the weighted mean of the members' values.
        """
        z, share = self.scaled(logits), self.weights.log()[:, None, None]  # (M, B, C), (M, 1, 1)

        def log_mean(logs: Tensor) -> Tensor:
            return (share + logs).logsumexp(0)

        if task.measured or self.mean == "log_odds":
            return (self.weights[:, None, None] * (z.log_softmax(-1) if task.kind == "multiclass" else z)).sum(0)
        if task.kind == "multiclass":
            return log_mean(z.log_softmax(-1))
        return log_mean(F.logsigmoid(z)) - log_mean(F.logsigmoid(-z))


class Blend(Method):
    """p(y | G) = sum_k w_k p_k(y | G), where member k predicts with its logits divided by t_k, plus b_k.

    With ``mean="log_odds"`` the log-odds of classes are averaged instead, and all w_k are equal: a member that knows
    little has a high t_k and so hardly counts in predictions. In edge scores, embedding and spread it counts in full.

    For measured targets, the weighted mean is that of the members' values, t_k is 1 and b_k is 0. Only log-odds of
    binary targets are shifted, each target by its own b_k.

    Members are runs of one method with different seeds, and one run of each other method or preset. Each is trained on
    its own; temperatures t_k, shifts b_k and weights w_k (positive, with sum 1) are then learnt from validation graphs.
    The score of an edge is the weighted mean of the members' scores, standardised within each graph; members that score
    no edges are scored by their gradients, unless all are such. The embedding holds those of all members, at unit
    length and times sqrt(w_k), so that squared distances are weighted means. The standard deviation of the p_k is a
    domain signal.

    Paper: Lakshminarayanan et al., "Simple and Scalable Predictive Uncertainty Estimation using Deep Ensembles", 2017.
    Differs from the paper: weights, temperatures and shifts are learnt, and there is no adversarial training.

    Attributes:
        parts: The members.
        mean: What is averaged.
        weights: w_k, (M,).
        temperatures: t_k, (M,).
        shifts: b_k, (M, C).
    """

    in_words = (
        "Averages a Gaussian process, a linear model and a random forest, or these and networks, weighted on "
        "validation graphs; what `fit` uses for molecules."
    )

    tasks = ALL_TASKS
    mean: Mean
    weights: Tensor
    temperatures: Tensor
    shifts: Tensor

    def __init__(  # builds the members that share a model; `join` adds others, which have models of their own
        self,
        model: GraphModel,
        task: Task,
        *,
        of: Annotated[
            str,
            Computed("goodformer.methods.members:check_method"),
            Field(description="Method of the members."),
        ] = "goodformer",
        members: Annotated[
            int, Field(ge=1, le=100, description="Members of that method, which differ in their seed.")
        ] = 1,
        others: Annotated[
            list[str],
            Computed("goodformer.methods.members:check_members"),
            Field(description="Further members: method, method:preset or method on model, trained for as many epochs."),
        ] = ["linear:shared", "linear:shared-pairs", "forest:shared", "forest:shared-pairs"],  # noqa: B006 - never changed
        settings: Annotated[
            list[str],
            Computed("goodformer.methods.members:check_settings"),
            Field(description="Settings of that method other than its defaults, each name=value."),
        ] = [],  # noqa: B006 - never changed
        shift: Annotated[
            bool, Field(description="Whether the log-odds of each member are shifted, too; used when it is trained.")
        ] = False,
        mean: Annotated[
            Mean,
            Field(
                description="What is averaged for classes: probabilities, with learnt weights, or log-odds, with equal "
                "weights."
            ),
        ] = "probabilities",
    ) -> None:
        nn.Module.__init__(self)
        self.task, self.mean = task, mean
        check_task(of, METHODS[of], task)
        given = read_settings(settings)
        models = [model, *(copy.deepcopy(model) for _ in range(members - 1))]
        self.take([METHODS.build(of, one, task, **given) for one in models])

    @classmethod
    def join(cls, task: Task, parts: Sequence[Method], mean: Mean = "probabilities") -> Blend:
        """Return a blend of any methods for one task."""
        blend = cls.__new__(cls)
        nn.Module.__init__(blend)
        blend.task, blend.mean = task, mean
        blend.take(parts)
        return blend

    def take(self, parts: Sequence[Method]) -> None:
        """Replace the members; their weights are equal until others are set."""
        self.parts = nn.ModuleList(parts)
        self.__dict__["model"] = parts[0].model  # not a submodule, so that saved weights hold it once
        self.register_buffer("weights", torch.full((len(parts),), 1 / len(parts), dtype=torch.double))
        self.register_buffer("temperatures", torch.ones(len(parts), dtype=torch.double))
        self.register_buffer("shifts", torch.zeros(len(parts), self.task.outputs, dtype=torch.double))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Read weights, also those of earlier versions, which shifted nothing."""
        state_dict.setdefault(f"{prefix}shifts", torch.zeros_like(self.shifts))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @property
    def encodings(self) -> tuple[str, ...]:
        """Encodings of all members."""
        return tuple(dict.fromkeys(text for part in self.members for text in part.encodings))

    @property
    def members(self) -> list[Method]:
        """The methods that predict together."""
        return [cast(Method, part) for part in self.parts]

    def rejoined(self, members: Sequence[Method]) -> Blend:
        """Return a blend of these members with the weights, temperatures and shifts of the present ones."""
        blend = Blend.join(self.task, members, self.mean)
        blend.combination = self.combination
        return blend

    @property
    def weighs_edges(self) -> bool:
        """Whether all members implement `weighted_logits`."""
        return all(part.weighs_edges for part in self.members)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C) of the weighted mean of the members' probabilities."""
        return self.mix([part(batch) for part in self.members])

    def weighted_logits(self, batch: Batch, edge_weight: Tensor) -> Tensor:
        """Logits (B, C) of the same mean with ``edge_weight`` (E,) in every member."""
        return self.mix([part.weighted_logits(batch, edge_weight) for part in self.members])

    def edge_scores(self, batch: Batch) -> Tensor | None:
        """Return the weighted mean of the members' standardised scores (E,), None if a member can have none."""
        return self._mean_scores(batch, [part.edge_scores(batch) for part in self.members])

    def predict(self, batch: Batch) -> Prediction:
        """Return logits, edge scores, embeddings and signals of all members, each from one pass."""
        found = [part.predict(batch) for part in self.members]
        return self._joined(found, self._mean_scores(batch, [one.edge_scores for one in found]))

    def outputs(self, batch: Batch) -> Prediction:
        """Return the same without edge scores."""
        return self._joined([part.outputs(batch) for part in self.members], None)

    def _joined(self, found: Sequence[Prediction], scores: Tensor | None) -> Prediction:
        """Return one prediction from those of all members."""
        logits = [one.logits for one in found]
        embedding = None
        if all(one.embedding is not None for one in found):
            roots = self.weights.sqrt().tolist()
            units = [F.normalize(cast(Tensor, one.embedding), dim=-1) for one in found]
            embedding = torch.cat([root * unit for root, unit in zip(roots, units, strict=True)], 1)
        return Prediction(
            logits=self.mix(logits),
            edge_scores=scores,
            embedding=embedding,
            signals={**self._mean_signals(found), SPREAD: self.spread(logits)},
        )

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """Return the members' own terms, averaged; members are trained one by one, not by this sum."""
        terms: dict[str, Tensor] = {}
        for part in self.members:
            for name, term in part.loss(batch, epoch).items():
                terms[name] = terms.get(name, term.new_zeros(())) + term / len(self.parts)
        return terms

    def trainable(self, epoch: int) -> Iterable[nn.Parameter]:
        """Return the parameters that the members update."""
        return [parameter for part in self.members for parameter in part.trainable(epoch)]

    @property
    def combination(self) -> Combination:
        """How the members are combined."""
        return Combination(self.weights, self.temperatures, self.shifts, self.mean)

    @combination.setter
    def combination(self, new: Combination) -> None:
        self.weights.copy_(new.weights)
        self.temperatures.copy_(new.temperatures)
        self.shifts.copy_(new.shifts)

    def mix(self, logits: Sequence[Tensor]) -> Tensor:
        """Return the logits (B, C) that the members' logits give together."""
        return self.combination.mix(self.task, _stacked(logits)).to(logits[0].dtype)

    def spread(self, logits: Sequence[Tensor]) -> Tensor:
        """Return the weighted standard deviation (B,) of the members' probabilities of the predicted class.

        With several binary targets it is the mean over the targets. For measured targets it is that of the members'
        values, in the units of `Task.units`.
        """
        p = link(self.task, self.combination.scaled(_stacked(logits)))  # (M, B, C)
        w = self.weights[:, None, None]
        mean = (w * p).sum(0)
        deviation = (w * (p - mean).square()).sum(0).sqrt()  # (B, C)
        if self.task.kind == "multiclass":
            return deviation.gather(1, mean.argmax(1, keepdim=True))[:, 0].to(logits[0].dtype)
        if self.task.measured:
            deviation = deviation / deviation.new_tensor(self.task.units)
        return deviation.mean(1).to(logits[0].dtype)

    def _mean_scores(self, batch: Batch, scores: Sequence[Tensor | None]) -> Tensor | None:
        """Return the weighted mean of edge scores (E,) after standardising each within its graph.

        Members without scores are scored by `edge_gradients`.
        """
        lacking = [part for part, one in zip(self.members, scores, strict=True) if one is None]
        if len(lacking) == len(scores) or any(not part.weighs_edges for part in lacking):
            return None
        known = [
            edge_gradients(part, batch) if one is None else one for part, one in zip(self.members, scores, strict=True)
        ]
        graph = batch.batch[batch.edge_index[0]]  # (E,)
        count = torch.bincount(graph, minlength=batch.num_graphs).clamp(min=1)

        def per_graph(values: Tensor) -> Tensor:
            return (values.new_zeros(batch.num_graphs).index_add(0, graph, values) / count)[graph]

        total = torch.zeros(len(graph), dtype=torch.double, device=graph.device)
        for weight, one in zip(self.weights, known, strict=True):
            centred = one.double() - per_graph(one.double())
            total += weight * centred / per_graph(centred.square()).sqrt().clamp(min=LEVEL)
        return total.to(known[0].dtype)

    def _mean_signals(self, found: Sequence[Prediction]) -> dict[str, Tensor]:
        """Return the weighted mean of every signal over the members that have it."""
        signals = {}
        for name in dict.fromkeys(name for one in found for name in one.signals):
            having = [
                (w, one.signals[name])
                for w, one in zip(self.weights.tolist(), found, strict=True)
                if name in one.signals
            ]
            total = sum(w for w, _ in having)
            signals[name] = cast(Tensor, sum(w / total * value for w, value in having))
        return signals


def _stacked(logits: Sequence[Tensor]) -> Tensor:
    """Return the logits of all members as one tensor in double precision (M, B, C)."""
    return torch.stack([one.double() for one in logits])
