"""DIR: predictions from the invariant subgraph must not change when the rest of the graph is replaced."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from goodformer.batch import Batch
from goodformer.methods.base import ALL_TASKS, Method, Prediction, losses, mean_loss
from goodformer.methods.goodformer import intervene, intervention_variance
from goodformer.models.base import GraphModel
from goodformer.nn.extractor import PairScorer
from goodformer.nn.layout import Layout
from goodformer.nn.selection import SelectedEdges, split
from goodformer.nn.statistics import unrecorded
from goodformer.spec import Task

Generator = Annotated[
    Literal["network", "layers"],
    Field(description="What scores edges: a second network, or the first two layers, which the others then continue."),
]
Scorer = Annotated[
    Literal["mlp", "linear"], Field(description="Map from the ends of an edge to its score: two layers, or one.")
]


class DIR(Method):
    """L = l(y_c) + l(y_s) + alpha (mean_j R_j + Var_j R_j), where R_j = mean_i l(y_c,i * sigmoid(y_s,j), y_i).

    A generator g scores edges, s_uv = MLP([h_u; h_v]) with h = g(G). The top share rho of each graph's edges is the
    invariant subgraph G_c, with edge weights sigmoid(s), the rest is G_s, with sigmoid(-s). One model f embeds both:
    y_c = w_c(f(G_c)), y_s = w_s(f(G_s)). R_j is the risk when all graphs of the batch have the variant part of
    graph j. The loss of the variant part trains w_s only. alpha = alpha_0 * epoch^1.6; the prediction is y_c.

    With ``generator="layers"`` g is the first two layers of the model, without dropout, and f the others, which start
    from h. With ``generator="network"`` g is a second network like f, and f reads the graph's own features; any model
    can then be f.

    With ``variant="as_published"`` the code of the GOOD benchmark (Gui et al., 2022) is followed, from which the
    published numbers come: alpha = 2 / (1 + exp(-10 p)) - 1, where p is the completed share of training, and mean_j R_j
    is divided by the number of labels of the batch. Its scores are linear (``scorer="linear"``).

    Paper: Wu et al., "Discovering Invariant Rationales for Graph Neural Networks", 2022.
    Differs from the published code: nodes without a kept edge stay isolated, count in BatchNorm and not in the readout,
        instead of being removed. Weights are updated after each batch, as in the GOOD benchmark, not once per epoch.
        The authors multiply R_j by the batch size inside the variance. G_s does not update BatchNorm's running
        averages, which G_c uses at evaluation. p grows once per epoch, not with every batch.
    """

    in_words = (
        "Selects a subgraph whose prediction holds when the rest comes from other graphs; choose it for explanations "
        "without known environments."
    )
    tasks = ALL_TASKS

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
        generator: Generator = "network",
        scorer: Scorer = "mlp",
    ) -> None:
        front, back = parts(model, generator)
        super().__init__(back, task)
        self.share, self.intervention_weight, self.growth = share, intervention_weight, growth
        self.variant, self.ramp_epochs = variant, ramp_epochs
        self.generator, self.shared = front, generator == "layers"
        self.scorer = PairScorer(model.dim, hidden=scorer == "mlp")
        self.invariant_classifier = nn.Linear(model.dim, task.outputs)
        self.variant_classifier = nn.Linear(model.dim, task.outputs)

    def forward(self, batch: Batch) -> Tensor:
        """y_c (B, C)."""
        return self.predict(batch).logits

    def edge_scores(self, batch: Batch) -> Tensor:
        """s (E,)."""
        return self.scorer.score(self.generator(batch), Layout(batch))

    def predict(self, batch: Batch) -> Prediction:
        """Return the logits of the invariant subgraph and the edge scores that selected it."""
        layout, h = Layout(batch), self.generator(batch)
        score = self.scorer.score(h, layout)
        invariant, _ = split(score, layout, self.share)
        return Prediction(self.invariant_classifier(self._embed(h, batch, invariant)), score)

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """Return all weighted terms of the objective."""
        layout, h = Layout(batch), self.generator(batch)
        invariant, variant = split(self.scorer.score(h, layout), layout, self.share)
        y_c = self.invariant_classifier(self._embed(h, batch, invariant))  # (B, C)
        with torch.no_grad(), unrecorded(self.model):
            rest = self._embed(h, batch, variant)
        y_s = self.variant_classifier(rest)
        intervened = losses(self.task, *intervene(y_c, y_s.detach(), batch.y, self.task.measured))  # l_ij, (B, B)
        alpha, mean, variance = self.alpha(epoch), intervened.mean(), intervention_variance(intervened, "risks")
        if self.variant == "as_published":
            labels = batch.y.numel() - batch.y.isnan().sum()
            mean, variance = mean / labels, variance * (len(batch.y) / labels) ** 2
        return {
            "invariant": mean_loss(self.task, y_c, batch.y),
            "intervention": alpha * mean,
            "variance": alpha * variance,
            "variant": mean_loss(self.task, y_s, batch.y),
        }

    def alpha(self, epoch: int) -> float:
        """Return the weight of the intervened risks in an epoch."""
        if self.variant == "as_published":
            return 2 / (1 + math.exp(-10 * min(epoch / self.ramp_epochs, 1.0))) - 1
        return float(self.intervention_weight * epoch**self.growth)

    def _embed(self, h: Tensor, batch: Batch, part: SelectedEdges) -> Tensor:
        """f of a subgraph (B, D), from the generator's node states h if they are shared."""
        return self.model.graph_embedding(batch, part.edge_weight, part.node_factor, h if self.shared else None)


def parts(model: GraphModel, kind: Generator) -> tuple[GraphModel, GraphModel]:
    """Return the network that scores edges and the one that embeds subgraphs."""
    return model.divide() if kind == "layers" else (model.twin(dropout=False), model)
