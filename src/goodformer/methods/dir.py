"""DIR: predictions from the invariant subgraph must not change when the rest of the graph is replaced."""

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
from goodformer.spec import Task


class DIR(Method):
    """L = l(y_c) + l(y_s) + alpha (mean_j R_j + Var_j R_j), where R_j = mean_i l(y_c,i * sigmoid(y_s,j), y_i).

    A generator g scores edges, s_uv = MLP([h_u; h_v]) with h = g(G). The top share rho of each graph's edges is the
    invariant subgraph G_c, with edge weights sigmoid(s), the rest is G_s, with sigmoid(-s). One model f embeds both:
    y_c = w_c(f(G_c)), y_s = w_s(f(G_s)). R_j is the risk when all graphs of the batch have the variant part of
    graph j. The loss of the variant part trains w_s only. alpha = alpha_0 * epoch^1.6; the prediction is y_c.

    Paper: Wu et al., "Discovering Invariant Rationales for Graph Neural Networks", 2022.
    Differs from the paper: g is a second network like f, without dropout, instead of two layers whose embeddings f
        continues, so that any model can be f; f reads the graph's own features. Nodes without a kept edge stay
        isolated and do not count in the readout, instead of being removed. Weights are updated after each batch,
        as in the GOOD benchmark (Gui et al., 2022), not once per epoch. The authors' code multiplies R_j by the batch
        size inside the variance. G_s does not update BatchNorm's running averages, which G_c uses at evaluation. With
        ``variant="as_published"`` alpha = 2 / (1 + exp(-10 p)) - 1, where p is the completed share of training: the
        benchmark's code replaces alpha in this way, and its numbers are the published ones.
    """

    in_words = (
        "Selects a subgraph whose prediction holds when the rest comes from other graphs; choose it for explanations "
        "without known environments."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        share: Annotated[float, Field(gt=0, lt=1, description="rho, the invariant share of edges.")] = 0.8,
        intervention_weight: Annotated[
            float, Field(ge=0, description="alpha_0, initial weight of the intervened risks.")
        ] = 0.01,
        growth: Annotated[float, Field(ge=0, description="Exponent of the epoch in the growth of alpha.")] = 1.6,
        variant: Annotated[
            Literal["as_designed", "as_published"],
            Field(description="as_designed: alpha grows with the epoch; as_published: it rises from 0 to 1."),
        ] = "as_designed",
        ramp_epochs: Annotated[int, Field(ge=1, description="Epochs until alpha reaches 1, for as_published.")] = 200,
    ) -> None:
        super().__init__(model, task)
        self.share, self.intervention_weight, self.growth = share, intervention_weight, growth
        self.variant, self.ramp_epochs = variant, ramp_epochs
        self.generator = model.twin(dropout=False)
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
        """Return the logits of the invariant subgraph and the edge scores that selected it."""
        layout = Layout(batch)
        score = self._score(batch, layout)
        invariant, _ = split(score, layout, self.share)
        return Prediction(self.invariant_classifier(self._embed(batch, invariant)), score)

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """Return all weighted terms of the objective."""
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
        """Return the weight of the intervened risks in an epoch."""
        if self.variant == "as_published":
            return 2 / (1 + math.exp(-10 * min(epoch / self.ramp_epochs, 1.0))) - 1
        return float(self.intervention_weight * epoch**self.growth)

    def _score(self, batch: Batch, layout: Layout) -> Tensor:
        """s of every directed edge (E,)."""
        h = self.generator(batch)
        return self.scorer(torch.cat((h[layout.src], h[layout.dst]), 1))[:, 0]

    def _embed(self, batch: Batch, part: Part) -> Tensor:
        """f of a subgraph (B, D)."""
        return self.model.graph_embedding(batch, part.edge_weight, part.node_factor)
