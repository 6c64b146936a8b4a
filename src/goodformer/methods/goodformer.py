"""GOODFormer's objective: what the invariant half says must hold whatever the variant half is."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch

from goodformer.methods.base import Method, Prediction, losses, mean_loss
from goodformer.models.base import GraphModel
from goodformer.models.goodformer import Disentangled, GOODFormer
from goodformer.registry import InputError
from goodformer.spec import Task

NOTHING, ENOUGH = 0.04, 0.12
"""The adversary's reversed gradient grows with what the variant half tells of the labels, as a share of what the
invariant half tells: none of it up to the first number, which is noise, all of it once the second has been added."""

MEMORY = 100
"""Steps over which what the halves tell is averaged."""


class Told(nn.Module):
    """What each half tells of the labels, in nats: by how much its loss is below that of the labels' frequencies.

    Running means, so that a weight measured in them is right for labels that are hard to tell as for easy ones.

    Attributes:
        nats: Of the invariant and of the variant half (2,).
        frequency: Of every class, or of the positive label of every target (C,).
    """

    step: Tensor
    nats: Tensor
    frequency: Tensor

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self.register_buffer("nats", torch.zeros(2))
        self.register_buffer("frequency", torch.full((task.outputs,), 0.5))

    @torch.no_grad()
    def update(self, y_c: Tensor, y_s: Tensor, y: Tensor) -> None:
        """Take in the logits (B, C) of both halves of a training batch."""
        self.step += 1
        rate = (1 / self.step).clamp(min=1 / MEMORY)  # the plain mean of the first steps, then a running one
        self.frequency.lerp_(self._frequency(y), rate)
        ignorant = mean_loss(self.task, self._prior().expand_as(y_c), y)
        told = torch.stack([ignorant - mean_loss(self.task, logits, y) for logits in (y_c, y_s)])
        self.nats.lerp_(told, rate)

    @property
    def invariant(self) -> Tensor:
        """Nats the invariant half tells, 0 where it has told none yet."""
        return self.nats[0].clamp(min=0)

    @property
    def left(self) -> Tensor:
        """What the variant half tells, as a share of what the invariant one does."""
        return self.nats[1] / self.nats[0].clamp(min=1e-3)

    def _frequency(self, y: Tensor) -> Tensor:
        if self.task.kind == "multiclass":
            return F.one_hot(y, self.task.outputs).float().mean(0)
        share = torch.nanmean(y, 0)
        return torch.where(share.isnan(), self.frequency, share)  # a batch may lack every label of a target

    def _prior(self) -> Tensor:
        """The logits that predict the frequencies."""
        if self.task.kind == "multiclass":
            return self.frequency.clamp(min=1e-4).log()
        return self.frequency.clamp(1e-4, 1 - 1e-4).logit()


class GOODFormerMethod(Method):
    """L = a_c l(y_c) + L_I + a_S L_S + a_E L_E + a_PSE L_PSE + a_B L_B; the prediction is y_c.

    L_I = a_m mean + lambda Var of the losses l_ij of y_c,i * sigmoid(y_s,j) over all pairs of the batch (Eqs. 14, 15);
    L_S = l(y_s) (Eq. 16); L_E the entropy of attention (Eq. 8); L_PSE the L1 distance of the recovered encodings
    (Eq. 12); L_B keeps the mask small.

    Paper: Liao et al., "Invariant Graph Transformer for Out-of-Distribution Generalization", KDD 2026, Eq. 17.
    Differs from the paper: L_S reaches the scores scaled by ``variant_gradient``; a negative scale makes the variant
        half an adversary: layers and w_s learn to read the label in it, and the mask moves out of it what they read.
        The reversed gradient fades as the variant half ends telling more than label frequencies do: pushing further
        would make its predictions wrong, not ignorant. L_B and l(y_c) are additions; L_B is measured in what the
        invariant half tells of the labels, so that an edge costs the same share of it on every data set
        (weight 0 in the preset ``paper``), and L_E is off by default. The published code has l(y_c) with weight 1, the
        mean with weight 0.1, the variance per graph, entropies of both attentions and a_E / (epoch + 1).
    Paper silent on: whether an intervention's gradient reaches the variant half; it does not here, as in DIR.
    """

    in_words = (
        "Finds the deciding part by attention, predicts from it alone and empties the rest of all it tells; the "
        "default, where new data will differ and reasons matter."
    )

    step: Tensor

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        invariant_weight: Annotated[float, Field(ge=0, description="a_c, of the invariant half's own loss.")] = 1.0,
        intervention_weight: Annotated[float, Field(ge=0, description="a_m, of the mean intervened loss.")] = 0.1,
        variance_weight: Annotated[float, Field(ge=0, description="lambda, of the variance over interventions.")] = 1.0,
        variance_of: Annotated[
            Literal["risks", "graphs"],
            Field(description="risks: variance of the batch's mean losses; graphs: mean of each graph's variance."),
        ] = "graphs",
        variant_weight: Annotated[float, Field(ge=0, description="a_S, of the variant half's loss.")] = 1.0,
        variant_gradient: Annotated[
            float,
            Field(description="Scale of the variant half's gradient to the scores: 1 flows, 0 is cut, < 0 reverses."),
        ] = -1.0,
        ramp_steps: Annotated[int, Field(ge=0, description="Steps over which a reversed gradient grows.")] = 300,
        entropy_weight: Annotated[float, Field(ge=0, description="a_E, of the entropy of attention.")] = 0.0,
        entropy_of: Annotated[
            Literal["invariant", "both"], Field(description="Entropy of Softmax(E) alone, or of Softmax(-E) too.")
        ] = "invariant",
        entropy_schedule: Annotated[
            Literal["constant", "decay"], Field(description="decay divides the weight by epoch + 1.")
        ] = "decay",
        encoder_weight: Annotated[float, Field(ge=0, description="a_PSE, of the recovery of encodings.")] = 0.01,
        budget: Annotated[
            Literal["kl", "size"],
            Field(description="size: -log(1 - M) an edge; kl: each edge is drawn to a Bernoulli of rate r."),
        ] = "size",
        budget_weight: Annotated[
            float, Field(ge=0, description="a_B, of the mask's budget, a share of the nats the invariant half tells.")
        ] = 0.25,
        budget_rate: Annotated[
            float, Field(gt=0, lt=1, description="r, the rate to which the budget kl draws every edge.")
        ] = 0.3,
    ) -> None:
        if not isinstance(model, GOODFormer):
            raise InputError(
                f"method goodformer needs model goodformer, not {type(model).__name__}; choose --model goodformer."
            )
        super().__init__(model, task)
        self.model: GOODFormer = model
        self.invariant_weight, self.intervention_weight = invariant_weight, intervention_weight
        self.variance_weight, self.variance_of = variance_weight, variance_of
        self.variant_weight, self.variant_gradient = variant_weight, variant_gradient
        self.ramp_steps = ramp_steps
        self.entropy_weight, self.entropy_of, self.entropy_schedule = entropy_weight, entropy_of, entropy_schedule
        self.encoder_weight = encoder_weight
        self.budget, self.budget_weight, self.budget_rate = budget, budget_weight, budget_rate
        self.invariant_classifier = nn.Linear(model.dim, task.outputs)
        self.variant_classifier = nn.Linear(model.dim, task.outputs)
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self.told = Told(task)

    def forward(self, batch: Batch) -> Tensor:
        """y_c, the invariant half's logits (B, C)."""
        return self.predict(batch).logits

    def edge_scores(self, batch: Batch) -> Tensor:
        """The symmetrised, head-averaged attention logits of the edges (E,)."""
        scores = self.predict(batch).edge_scores
        assert scores is not None
        return scores

    def predict(self, batch: Batch) -> Prediction:
        """Logits, edge scores and embedding of the invariant half, which runs alone, and what its attention tells."""
        found = self.model.disentangle(batch, both=False)
        logits = self.invariant_classifier(found.invariant)
        return Prediction(logits, found.edge_logits, found.invariant, self._signals(found))

    def _signals(self, found: Disentangled) -> dict[str, Tensor]:
        """Mean over heads of log t_G, and of the attention's entropy less that of training, (B,)."""
        gap = found.plain_entropy[0] - self.model.mean_entropy[0]  # (B, H)
        return {
            "log_temperature": found.temperature[0].log().mean(-1),
            "entropy_gap": gap.nan_to_num().mean(-1),
        }

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """All terms of the objective, weighted."""
        scale = self._variant_gradient()
        found = self.model.disentangle(batch, variant_gradient=scale)
        assert found.variant is not None
        y_c = self.invariant_classifier(found.invariant)  # (B, C)
        y_s = self.variant_classifier(found.variant)
        if self.training:
            self.told.update(y_c, y_s, batch.y)
        if self.variant_gradient < 0:
            scale *= ((self.told.left - NOTHING) / ENOUGH).clamp(0, 1)
        intervened = losses(self.task, *intervene(y_c, y_s.detach(), batch.y))  # (B, B)
        terms = {
            "invariant": self.invariant_weight * mean_loss(self.task, y_c, batch.y),
            "intervention": self.intervention_weight * intervened.mean(),
            "variance": self.variance_weight * intervention_variance(intervened, self.variance_of),
            "variant": self.variant_weight * mean_loss(self.task, y_s, batch.y),
            "entropy": self._entropy_weight(epoch) * self._entropy(found),
            "encoder": self.encoder_weight * self._recovery(found, batch),
            "budget": self.budget_weight * self._budget(found),
        }
        return {name: term for name, term in terms.items() if self._active(name)}

    def _active(self, name: str) -> bool:
        """Whether a term has a weight at all."""
        if name == "encoder" and self.model.target is None:
            return False
        weight: float = getattr(self, f"{name}_weight")
        return weight > 0

    def _variant_gradient(self) -> Tensor:
        """The scale of the gradient from the variant half to the scores, a reversed one growing over first steps."""
        self.step += self.training
        grown = 1.0 if self.variant_gradient >= 0 else self.step / max(self.ramp_steps, 1)
        return torch.as_tensor(self.variant_gradient * grown, device=self.step.device).clamp(self.variant_gradient)

    def _entropy_weight(self, epoch: int) -> float:
        return self.entropy_weight / (epoch + 1) if self.entropy_schedule == "decay" else self.entropy_weight

    def _entropy(self, found: Disentangled) -> Tensor:
        """L_E: mean entropy of the attention over graphs and heads (Eq. 8)."""
        return found.entropy[0].mean() if self.entropy_of == "invariant" else found.entropy.mean(1).mean(1).sum()

    def _recovery(self, found: Disentangled, batch: Batch) -> Tensor:
        """L_PSE: L1 distance to the encoding, over the columns a graph of that size has (Eq. 12)."""
        if found.recovered is None or self.model.target is None:
            return batch.x.new_zeros(())
        goal = batch[self.model.target.attribute]  # (N, k)
        columns = torch.arange(goal.shape[1], device=goal.device)
        valid = columns < (batch.ptr.diff() - 1)[batch.batch][:, None]  # (N, k)
        distance = (found.recovered - goal).abs() * valid
        return distance.sum() / valid.sum().clamp(min=1)

    def _budget(self, found: Disentangled) -> Tensor:
        """L_B: what the mask costs, a mean over all edges of the batch in units of what the invariant half tells."""
        logits, r = found.edge_logits, self.budget_rate
        if self.budget == "size":  # -log(1 - M): unlike M itself, it still pulls where the sigmoid is flat
            return self.told.invariant * F.softplus(logits).mean()
        p = logits.sigmoid().clamp(1e-6, 1 - 1e-6)
        return self.told.invariant * (p * (p / r).log() + (1 - p) * ((1 - p) / (1 - r)).log()).mean()


def intervene(y_c: Tensor, y_s: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """y_c,i * sigmoid(y_s,j) for all pairs (B, B, C), and the labels y_i of each (B, B) or (B, B, C) (Eq. 14)."""
    pairs = y_c[:, None] * y_s.sigmoid()[None]
    return pairs, y[:, None].expand(len(y), len(y), *y.shape[1:])


def intervention_variance(intervened: Tensor, of: Literal["risks", "graphs"]) -> Tensor:
    """Var over interventions j of l_ij (B, B): of the mean over graphs i, or the mean of each graph's own (Eq. 15)."""
    if intervened.shape[1] < 2:
        return intervened.new_zeros(())
    return intervened.mean(0).var() if of == "risks" else intervened.var(1).mean()
