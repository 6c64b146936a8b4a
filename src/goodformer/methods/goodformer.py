"""GOODFormer's objective: the invariant half's prediction must hold whatever the variant half is."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.methods.base import ALL_TASKS, Method, Prediction, losses, mean_loss, standardised
from goodformer.models.base import GraphModel
from goodformer.models.goodformer import Disentangled, GOODFormer
from goodformer.spec import Task

NOTHING, ENOUGH = 0.04, 0.12
"""The reversed gradient grows with the label information in the variant half, as a share of that in the invariant half:
zero up to the first number, which is noise, and full once the second has been added."""

MEMORY = 100
"""Steps over which label information is averaged."""

SCALES = {"flowing": 1.0, "cut": 0.0, "reversed": -1.0}
"""Scale of the gradient from the variant half to the scores, by variant path."""


class LabelInformation(nn.Module):
    """Label information in each half, in nats: how far its loss is below that of predicting the label frequencies.

    These are running means, so a weight measured in them suits labels that are hard to predict as well as easy ones.
    For measured targets the ignorant prediction is their mean, and the information is the explained share of their
    variance.

    Attributes:
        nats: Of the invariant and of the variant half (2,).
        frequency: Of every class, or of the positive label of every target, or the mean of every measured target (C,).
    """

    step: Tensor
    nats: Tensor
    frequency: Tensor

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self.register_buffer("nats", torch.zeros(2))
        self.register_buffer("frequency", torch.full((task.outputs,), 0.0 if task.measured else 0.5))

    @torch.no_grad()
    def update(self, y_c: Tensor, y_s: Tensor, y: Tensor) -> None:
        """Update the means with the logits (B, C) of both halves of a training batch."""
        self.step += 1
        rate = (1 / self.step).clamp(min=1 / MEMORY)  # the plain mean of the first steps, then a running one
        if self.task.kind == "multiclass":
            self.frequency.lerp_(F.one_hot(y, self.task.outputs).float().mean(0), rate)
            prior = self.frequency.clamp(min=1e-4).log()  # logits that predict the frequencies
        else:
            share = torch.nanmean(standardised(self.task, y) if self.task.measured else y, 0)
            share = torch.where(share.isnan(), self.frequency, share)  # a batch may lack every label of a target
            self.frequency.lerp_(share, rate)
            prior = self.frequency if self.task.measured else self.frequency.clamp(1e-4, 1 - 1e-4).logit()
        ignorant = mean_loss(self.task, prior.expand_as(y_c), y)
        found = torch.stack([ignorant - mean_loss(self.task, logits, y) for logits in (y_c, y_s)])
        self.nats.lerp_(found, rate)

    @property
    def invariant(self) -> Tensor:
        """Nats in the invariant half, at least 0."""
        return self.nats[0].clamp(min=0)

    @property
    def left(self) -> Tensor:
        """Nats in the variant half as a share of those in the invariant half."""
        return self.nats[1] / self.nats[0].clamp(min=1e-3)


class GOODFormerMethod(Method):
    """L = a_c l(y_c) + L_I + a_S L_S + a_E L_E + a_PSE L_PSE + a_B L_B; the prediction is y_c.

    L_I = a_m mean + lambda Var of the losses l_ij of y_c,i * sigmoid(y_s,j) over all pairs of the batch (Eqs. 14, 15);
    measured values are shifted instead, see `intervene`;
    L_S = l(y_s) (Eq. 16); L_E the entropy of attention (Eq. 8); L_PSE the L1 distance of the recovered encodings
    (Eq. 12); L_B keeps the mask small.

    Paper: Liao et al., "Invariant Graph Transformer for Out-of-Distribution Generalization", KDD 2026, Eq. 17.
    Differs from the paper: in the paper and in the presets ``paper`` and ``as_published``, L_S trains the variant
        classifier w_s alone (``variant_path="detached"``). By default the path is reversed and the variant half an
        adversary: layers and w_s learn to read the label in it, and the mask moves what they read out of it. The
        reversed gradient fades as the variant half's label information approaches zero, since pushing further would
        make its predictions wrong instead of uninformed. L_B and l(y_c) are additions, and L_E is off by default. L_B
        is measured in the label information of the invariant half, so that an edge costs the same share of it on every
        data set. The preset ``paper`` has neither addition.
    Paper silent on: whether an intervention's gradient reaches the variant half; it does not here, as in DIR. Measured
        values, for which all losses are squared errors of standardised values.
    Differs from the published code: the objective of the preset ``as_published`` is the published one: l(y_c) with
        weight 1, the mean with weight 0.1, the variance per graph, a_E / (epoch + 1), entropies of both attentions and
        both layers. The model's docstring lists the remaining differences.
    """

    in_words = (
        "Finds the invariant subgraph by attention, predicts from it alone and removes label information from the rest "
        "of the graph; the default, for new data that will differ and where explanations matter."
    )

    tasks = ALL_TASKS
    step: Tensor

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        invariant_weight: Annotated[
            float, Field(ge=0, description="a_c, weight of the invariant half's own loss.")
        ] = 1.0,
        intervention_weight: Annotated[
            float, Field(ge=0, description="a_m, weight of the mean intervened loss.")
        ] = 0.1,
        variance_weight: Annotated[
            float, Field(ge=0, description="lambda, weight of the variance over interventions.")
        ] = 1.0,
        variance_of: Annotated[
            Literal["risks", "graphs"],
            Field(description="risks: variance of the batch's mean losses; graphs: mean of each graph's variance."),
        ] = "graphs",
        variant_weight: Annotated[float, Field(ge=0, description="a_S, weight of the variant half's loss.")] = 1.0,
        variant_path: Annotated[
            Literal["detached", "cut", "flowing", "reversed"],
            Field(
                description="What the gradient of L_S trains. detached: w_s alone; cut: also the layers, but not the "
                "scores through the variant half; flowing: everything; reversed: everything, the scores with "
                "reversed sign."
            ),
        ] = "reversed",
        ramp_steps: Annotated[
            int, Field(ge=0, description="Number of steps over which the reversed gradient grows to full strength.")
        ] = 300,
        entropy_weight: Annotated[float, Field(ge=0, description="a_E, weight of the entropy of attention.")] = 0.0,
        entropy_of: Annotated[
            Literal["invariant", "both", "mean"],
            Field(
                description="Entropy of Softmax(E) in the first layer, or, summed over layers, the sum (both) or the "
                "mean of Softmax(E) and Softmax(-E)."
            ),
        ] = "invariant",
        entropy_schedule: Annotated[
            Literal["constant", "decay"], Field(description="Weight a_E: constant, or divided by epoch + 1 (decay).")
        ] = "decay",
        encoder_weight: Annotated[float, Field(ge=0, description="a_PSE, weight of the recovery of encodings.")] = 0.01,
        budget: Annotated[
            Literal["kl", "size"],
            Field(description="Cost per edge. size: -log(1 - M); kl: divergence from a Bernoulli of rate r."),
        ] = "size",
        budget_weight: Annotated[
            float,
            Field(ge=0, description="a_B, cost of the mask as a share of the invariant half's label information."),
        ] = 0.25,
        budget_rate: Annotated[
            float, Field(gt=0, lt=1, description="r, the rate of the Bernoulli if budget is kl.")
        ] = 0.3,
        edge_score: Annotated[
            Literal["logits", "mask"],
            Field(description="Edge scores of the explanation: symmetrised logits, or the mask M."),
        ] = "logits",
    ) -> None:
        if not isinstance(model, GOODFormer):
            raise InputError(
                f"method goodformer needs model goodformer, not {type(model).__name__}; choose --model goodformer."
            )
        super().__init__(model, task)
        self.model: GOODFormer = model
        self.invariant_weight, self.intervention_weight = invariant_weight, intervention_weight
        self.variance_weight, self.variance_of = variance_weight, variance_of
        self.variant_weight, self.variant_path = variant_weight, variant_path
        self.ramp_steps = ramp_steps
        self.entropy_weight, self.entropy_of, self.entropy_schedule = entropy_weight, entropy_of, entropy_schedule
        self.encoder_weight = encoder_weight
        self.budget, self.budget_weight, self.budget_rate = budget, budget_weight, budget_rate
        self.edge_score = edge_score
        self.invariant_classifier = nn.Linear(model.dim, task.outputs)
        self.variant_classifier = nn.Linear(model.dim, task.outputs)
        self.register_buffer("step", torch.zeros((), dtype=torch.long))
        self.told = LabelInformation(task)  # the name is part of saved weights

    def forward(self, batch: Batch) -> Tensor:
        """Return y_c, the invariant half's logits (B, C)."""
        return self.predict(batch).logits

    def edge_scores(self, batch: Batch) -> Tensor:
        """Return the edges' symmetrised, head-averaged attention logits or their mask (E,)."""
        scores = self.predict(batch).edge_scores
        assert scores is not None
        return scores

    def predict(self, batch: Batch) -> Prediction:
        """Return logits, edge scores, embedding and attention signals of the invariant half.

        The signals (B,) are means over heads of log t_G and of the attention's entropy minus its training mean.
        """
        found = self.model.disentangle(batch, both=False)
        gap = found.plain_entropy[0] - self.model.mean_entropy[0]  # (B, H)
        return Prediction(
            logits=self.invariant_classifier(found.invariant),
            edge_scores=found.edge_logits if self.edge_score == "logits" else found.mask,
            embedding=found.invariant,
            signals={
                "log_temperature": found.temperature[0].log().mean(-1),
                "entropy_gap": gap.nan_to_num().mean(-1),
            },
            edge_logits=found.edge_logits,
        )

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """Return all terms of the objective, weighted."""
        scale = self._variant_gradient()
        found = self.model.disentangle(batch, variant_gradient=scale)
        assert found.variant is not None
        y_c = self.invariant_classifier(found.invariant)  # (B, C)
        y_s = self.variant_classifier(found.variant)
        if self.training:
            self.told.update(y_c, y_s, batch.y)
        if scale is not None and self.variant_path == "reversed":
            scale *= ((self.told.left - NOTHING) / ENOUGH).clamp(0, 1)
        intervened = losses(self.task, *intervene(y_c, y_s.detach(), batch.y, self.task.measured))  # (B, B)
        entropy_weight = self.entropy_weight / (epoch + 1) if self.entropy_schedule == "decay" else self.entropy_weight
        terms = {
            "invariant": self.invariant_weight * mean_loss(self.task, y_c, batch.y),
            "intervention": self.intervention_weight * intervened.mean(),
            "variance": self.variance_weight * intervention_variance(intervened, self.variance_of),
            "variant": self.variant_weight * mean_loss(self.task, y_s, batch.y),
            "entropy": entropy_weight * self._entropy(found),
            "encoder": self.encoder_weight * self._recovery(found, batch),
            "budget": self.budget_weight * self._budget(found),
        }
        return {name: term for name, term in terms.items() if self._active(name)}

    def _active(self, name: str) -> bool:
        """Return whether a term has a weight."""
        if name == "encoder" and self.model.target is None:
            return False
        weight: float = getattr(self, f"{name}_weight")
        return weight > 0

    def _variant_gradient(self) -> Tensor | None:
        """Return the scale of the gradient from the variant half to the scores, None where it is detached.

        A reversed gradient grows over the first steps.
        """
        self.step += self.training
        if self.variant_path == "detached":
            return None
        scale = SCALES[self.variant_path]
        grown = self.step / max(self.ramp_steps, 1) if self.variant_path == "reversed" else 1.0
        return torch.as_tensor(scale * grown, device=self.step.device).clamp(scale)

    def _entropy(self, found: Disentangled) -> Tensor:
        """L_E: mean entropy of the attention over graphs and heads (Eq. 8)."""
        if self.entropy_of == "invariant":
            return found.entropy[0].mean()
        total = found.entropy.mean(1).mean(1).sum()  # of both attentions of every layer
        return total if self.entropy_of == "both" else total / 2

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
        """L_B: mean cost of the mask over all edges of the batch, in units of the invariant half's nats."""
        logits, r = found.edge_logits, self.budget_rate
        if self.budget == "size":  # -log(1 - M): unlike M itself, it has a gradient where the sigmoid is flat
            return self.told.invariant * F.softplus(logits).mean()
        p = logits.sigmoid().clamp(1e-6, 1 - 1e-6)
        return self.told.invariant * (p * (p / r).log() + (1 - p) * ((1 - p) / (1 - r)).log()).mean()


def intervene(y_c: Tensor, y_s: Tensor, y: Tensor, measured: bool = False) -> tuple[Tensor, Tensor]:
    """Return y_c,i * sigmoid(y_s,j) for all pairs (B, B, C), and the label y_i of each (B, B) or (B, B, C) (Eq. 14).

    Scaling logits changes how certain a prediction is, but not which class it names. Scaling a standardised value would
    change the value itself, pull it towards the training mean and bias the mean intervened loss. For measured targets
    the intervention is therefore a shift: y_c,i + sigmoid(y_s,j) - mean_k sigmoid(y_s,k). It is bounded by one training
    standard deviation, as the factor is by 1. Its mean over the batch is zero, so the mean intervened loss is
    l(y_c) plus the variance of the shifts, and both have the same minimum. Its variance grows with the residual of y_c,
    so graphs whose value the invariant half does not explain count more where the variant half says much.
    """
    change = y_s.sigmoid()
    pairs = y_c[:, None] + (change - change.mean(0))[None] if measured else y_c[:, None] * change[None]
    return pairs, y[:, None].expand(len(y), len(y), *y.shape[1:])


def intervention_variance(intervened: Tensor, of: Literal["risks", "graphs"]) -> Tensor:
    """Return Var_j of l_ij (B, B) over interventions: of the mean over graphs i, or each graph's, averaged (Eq. 15)."""
    if intervened.shape[1] < 2:
        return intervened.new_zeros(())
    return intervened.mean(0).var() if of == "risks" else intervened.var(1).mean()
