"""DIR: what is predicted must hold whatever the rest of the graph is exchanged for."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch_geometric.data import Batch

from goodformer.methods.base import Method, Prediction, losses, mean_loss
from goodformer.methods.goodformer import intervene, intervention_variance
from goodformer.models.base import GraphModel
from goodformer.nn.layout import Layout
from goodformer.nn.mlp import mlp
from goodformer.nn.selection import Part, split
from goodformer.nn.statistics import unrecorded
from goodformer.nn.twin import fresh_twin
from goodformer.spec import Task


class DIR(Method):
    """L = l(y_c) + l(y_s) + alpha (mean_j R_j + Var_j R_j), where R_j = mean_i l(y_c,i * sigmoid(y_s,j), y_i).

    A generator g scores edges, s_uv = MLP([h_u; h_v]) with h = g(G). The best share rho of each graph's edges is the
    invariant subgraph G_c, with edge weights sigmoid(s), the rest is G_s, with sigmoid(-s). One model f embeds both:
    y_c = w_c(f(G_c)), y_s = w_s(f(G_s)). R_j is the risk when all graphs of the batch are given the variant part of
    graph j. The variant part trains w_s alone. alpha = alpha_0 * epoch^1.6; the prediction is y_c.

    Paper: Wu et al., "Discovering Invariant Rationales for Graph Neural Networks", 2022.
    Differs from the paper: g is a second network like f, without dropout, instead of two layers whose embeddings f
        continues, so that any model can be f; f reads the graph's own features. Nodes without a kept edge stay as
        single nodes and count nothing in the readout, instead of being taken out. Weights are updated after each batch,
        as in the GOOD benchmark (Gui et al., 2022), not once an epoch. The authors' code multiplies R_j by the batch
        size inside the variance. G_s leaves no trace in BatchNorm's running averages, which serve G_c at evaluation.
        With ``variant="as_published"`` alpha = 2 / (1 + exp(-10 p)) - 1, p the share of training that is over: the
        benchmark's code overwrites alpha so, whatever alpha_0 is, and its numbers are the published ones.
    """

    in_words = (
        "Keeps the edges that decide and trains against remainders of other graphs; choose it to see deciding "
        "edges without known environments."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        share: Annotated[float, Field(gt=0, lt=1, description="rho, the share of edges that is invariant.")] = 0.8,
        intervention_weight: Annotated[float, Field(ge=0, description="alpha_0, of the intervened risks.")] = 0.01,
        growth: Annotated[float, Field(ge=0, description="Power of the epoch with which alpha grows.")] = 1.6,
        variant: Annotated[
            Literal["as_designed", "as_published"],
            Field(description="as_designed: alpha grows with the epochs; as_published: it rises from 0 to 1."),
        ] = "as_designed",
        ramp_epochs: Annotated[int, Field(ge=1, description="Epochs in which alpha rises to 1, as published.")] = 200,
    ) -> None:
        super().__init__(model, task)
        self.share, self.intervention_weight, self.growth = share, intervention_weight, growth
        self.variant, self.ramp_epochs = variant, ramp_epochs
        self.generator = fresh_twin(model, dropout=False)
        self.scorer = mlp(2 * model.dim, 4 * model.dim, 1)
        self.invariant_classifier = nn.Linear(model.dim, task.outputs)
        self.variant_classifier = nn.Linear(model.dim, task.outputs)

    def forward(self, batch: Batch) -> Tensor:
        """y_c (B, C)."""
        return self.predict(batch).logits

    def edge_scores(self, batch: Batch) -> Tensor:
        """s (E,)."""
        return self._score(batch, Layout(batch))

    def predict(self, batch: Batch) -> Prediction:
        """The logits of the invariant subgraph, and the scores it was cut out by."""
        layout = Layout(batch)
        score = self._score(batch, layout)
        invariant, _ = split(score, layout, self.share)
        return Prediction(self.invariant_classifier(self._embed(batch, invariant)), score)

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """All terms of the objective, weighted."""
        layout = Layout(batch)
        invariant, variant = split(self._score(batch, layout), layout, self.share)
        y_c = self.invariant_classifier(self._embed(batch, invariant))  # (B, C)
        with torch.no_grad(), unrecorded(self.model):
            rest = self._embed(batch, variant)
        y_s = self.variant_classifier(rest)
        intervened = losses(self.task, *intervene(y_c, y_s.detach(), batch.y))  # l_ij, (B, B)
        alpha = self.alpha(epoch)
        return {
            "invariant": mean_loss(self.task, y_c, batch.y),
            "intervention": alpha * intervened.mean(),
            "variance": alpha * intervention_variance(intervened, "risks"),
            "variant": mean_loss(self.task, y_s, batch.y),
        }

    def alpha(self, epoch: int) -> float:
        """The weight of the intervened risks in an epoch."""
        if self.variant == "as_published":
            return 2 / (1 + math.exp(-10 * min(epoch / self.ramp_epochs, 1.0))) - 1
        return float(self.intervention_weight * epoch**self.growth)

    def _score(self, batch: Batch, layout: Layout) -> Tensor:
        """s of every directed edge (E,)."""
        h = self.generator(batch)
        return self.scorer(torch.cat((h[layout.src], h[layout.dst]), 1))[:, 0]

    def _embed(self, batch: Batch, part: Part) -> Tensor:
        """f of a subgraph (B, D)."""
        return self.model.readout(self.model(batch, part.edge_weight) * part.node_factor, batch)
