"""CIGA: invariant subgraphs of one class are similar, and the rest predicts the class less well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.batch import Batch
from goodformer.methods.base import Method, Prediction, losses, mean_loss
from goodformer.methods.cal import membership
from goodformer.methods.dir import Generator, Scorer, parts
from goodformer.models.base import GraphModel
from goodformer.nn.attention import NEVER
from goodformer.nn.extractor import PairScorer
from goodformer.nn.layout import Layout
from goodformer.nn.readout import sum_nodes
from goodformer.nn.selection import SelectedEdges, split
from goodformer.nn.statistics import unrecorded
from goodformer.spec import Task


@dataclass(frozen=True)
class Featurised:
    """Output of the featurizer: node embeddings (N, D), edge scores (E,), and the two subgraphs."""

    h: Tensor
    score: Tensor
    invariant: SelectedEdges
    variant: SelectedEdges


class CIGA(Method):
    """L = mean l_c + alpha L_con + beta L_hinge, with l_c and l_s the losses of the invariant and the variant subgraph.

    A featurizer g scores edges, s_uv = MLP([h_u; h_v]) with h = g(G). The top share rho of each graph's edges is the
    invariant subgraph G_c, with edge weights sigmoid(s), the rest is G_s, with sigmoid(-s). One model f embeds both:
    y_c = w_c(f(G_c)), y_s = w_s(f(G_s)), and the prediction is y_c.

    L_con = mean_i -1/|P(i)| sum_(p in P(i)) log softmax_(a != i)(z_i . z_a / t) at a = p, where P(i) are the
    other graphs of the batch with i's label, i runs over graphs with non-empty P(i), and z is the unit vector along the
    sum of h over the nodes of G_c. L_hinge = mean of l_s over the graphs with l_s > l_c.

    With ``generator="layers"`` g is the first two layers of the model, without dropout, and f the others, which start
    from h, as in the GOOD benchmark (Gui et al., 2022); its scores are linear (``scorer="linear"``). With
    ``generator="network"`` g is a second network like f, and f reads the graph's own features, as in the authors' run
    on DrugOOD; any model can then be f.

    CIGAv1 is ``hinge_weight=0``; otherwise it is CIGAv2.

    Paper: Chen et al., "Learning Causally Invariant Representations for Out-of-Distribution Generalization on Graphs",
        2022.
    Differs from the published code: nodes without a kept edge stay isolated, count in BatchNorm and not in the readout,
        instead of being removed. G_s does not update BatchNorm's running averages, which are used for G_c at
        evaluation. The authors' own run on DrugOOD sums over nodes in the readout; the model's mean is used here.
    Paper silent on: several binary targets; L_con is then the mean over targets.
    """

    soft_labels = False
    in_words = (
        "Selects a subgraph that is similar within a class and different between classes; choose it if each class has "
        "one typical part."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        share: Annotated[float, Field(gt=0, lt=1, description="rho, the invariant share of edges.")] = 0.8,
        contrast_weight: Annotated[float, Field(ge=0, description="alpha, weight of the contrastive loss.")] = 1.0,
        hinge_weight: Annotated[float, Field(ge=0, description="beta, weight of the hinge loss; 0 is CIGAv1.")] = 1.0,
        temperature: Annotated[float, Field(gt=0, description="t of the contrastive softmax.")] = 1.0,
        generator: Generator = "network",
        scorer: Scorer = "mlp",
    ) -> None:
        front, back = parts(model, generator)
        super().__init__(back, task)
        self.share, self.contrast_weight, self.hinge_weight = share, contrast_weight, hinge_weight
        self.temperature = temperature
        self.featurizer, self.shared = front, generator == "layers"
        self.scorer = PairScorer(model.dim, hidden=scorer == "mlp")
        self.invariant_classifier = nn.Linear(model.dim, task.outputs)
        self.variant_classifier = nn.Linear(model.dim, task.outputs) if hinge_weight else None

    def forward(self, batch: Batch) -> Tensor:
        """y_c (B, C)."""
        return self.predict(batch).logits

    def edge_scores(self, batch: Batch) -> Tensor:
        """s (E,)."""
        return self.featurise(batch).score

    def predict(self, batch: Batch) -> Prediction:
        """Return the logits of the invariant subgraph and the edge scores that selected it."""
        found = self.featurise(batch)
        return Prediction(self.invariant_classifier(self._embed(batch, found, found.invariant)), found.score)

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The risk of the invariant subgraph, the contrast between classes and, in CIGAv2, the hinge."""
        found = self.featurise(batch)
        y_c = self.invariant_classifier(self._embed(batch, found, found.invariant))  # (B, C)
        z = self._representation(found, Layout(batch))
        terms = {
            "invariant": mean_loss(self.task, y_c, batch.y),
            "contrast": self.contrast_weight * contrast(z, membership(self.task, batch.y), self.temperature),
        }
        if self.variant_classifier is not None:
            with unrecorded(self.model):
                y_s = self.variant_classifier(self._embed(batch, found, found.variant))
            terms["hinge"] = self.hinge_weight * hinge(losses(self.task, y_c, batch.y), losses(self.task, y_s, batch.y))
        return terms

    def featurise(self, batch: Batch) -> Featurised:
        """Embed the nodes, score the edges and split every graph."""
        layout, h = Layout(batch), self.featurizer(batch)
        score = self.scorer.score(h, layout)
        return Featurised(h, score, *split(score, layout, self.share))

    def _representation(self, found: Featurised, layout: Layout) -> Tensor:
        """Return z, unit vectors along the sum of embeddings over the invariant subgraph's nodes (B, D)."""
        inside = (found.invariant.node_factor > 0).to(found.h)
        return F.normalize(sum_nodes(found.h * inside, layout))

    def _embed(self, batch: Batch, found: Featurised, part: SelectedEdges) -> Tensor:
        """f of a subgraph (B, D), from the featurizer's node states if they are shared."""
        start = found.h if self.shared else None
        return self.model.graph_embedding(batch, part.edge_weight, part.node_factor, start)


def contrast(z: Tensor, member: Tensor, temperature: float = 1.0) -> Tensor:
    """Return L_con of unit vectors (B, D) with class membership (B, T, K); 0 if no two share a class."""
    others = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    log_p = (z @ z.T / temperature).masked_fill(~others, NEVER).log_softmax(1)  # (B, B)
    alike = (member[:, None] & member[None]).any(-1) & others[..., None]  # (B, B, T)
    count = alike.sum(1)  # |P(i)|, (B, T)
    each = -torch.where(alike, log_p[..., None], 0.0).sum(1) / count.clamp(min=1)
    return each.sum() / (count > 0).sum().clamp(min=1)


def hinge(invariant: Tensor, variant: Tensor) -> Tensor:
    """Return the mean of l_s over the graphs with l_s > l_c, both (B,); 0 if there is none."""
    active = variant > invariant
    return (variant * active).sum() / (active.sum() + 1e-6)
