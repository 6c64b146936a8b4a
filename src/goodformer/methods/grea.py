"""GREA: environments are exchanged between the embeddings of graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

from goodformer.batch import Batch
from goodformer.methods.base import ALL_TASKS, Method, Prediction, losses, mean_loss
from goodformer.methods.imold import edge_share, share_distance
from goodformer.models.base import GraphModel
from goodformer.nn.layout import Layout
from goodformer.nn.normalisation import normed_mlp
from goodformer.nn.pairs import normed_sums, on_pairs
from goodformer.nn.readout import sum_nodes
from goodformer.nn.statistics import unrecorded
from goodformer.spec import Task


class GREA(Method):
    """L = mean_i l(p(r_i), y_i) + mean_ij l(p(r_i + e_j), y_i) + mean_i |mean_v m_v - gamma|; the prediction is p(r).

    h = f(G) embeds the nodes; a separator, a second network g with an MLP, assigns each node its invariant share
    m_v = sigmoid(MLP(g(G)_v)). r_i = sum_v m_v h_v is the invariant part of graph i, e_i = sum_v (1 - m_v) h_v its
    environment, and all B^2 pairs of the batch are combined.

    Epochs 0, 4, 8, ... train only the separator, with all three terms; the others train the rest with the first two.

    Paper: Liu et al., "Graph Rationalization with Environment-based Augmentations", 2022.
    Differs from the published code: g is a network of the same size as f with weights of its own, instead of two
        layers. The model has the given number of layers and width, without residual connections, instead of 5 layers
        of width 128 with them; weights are not drawn orthogonal on HIV. The predictor's BatchNorm averages come from r,
        which it predicts from, instead of from both r and r + e.
    Paper silent on: explanations by edges; an edge scores the mean share of its two ends.
    """

    in_words = (
        "Selects the invariant nodes and combines them with the rest of other graphs; choose it for small training "
        "sets whose labels depend on nodes."
    )
    tasks = ALL_TASKS

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        share: Annotated[float, Field(ge=0, le=1, description="gamma, the target share of invariant nodes.")] = 0.4,
        replacement_weight: Annotated[
            float, Field(ge=0, description="Weight of the risk with exchanged environments.")
        ] = 1.0,
        share_weight: Annotated[
            float, Field(ge=0, description="Weight of the distance between the share and gamma.")
        ] = 1.0,
        separator_every: Annotated[
            int, Field(ge=2, description="The separator is trained in every n-th epoch, alone.")
        ] = 4,
        head_dropout: Annotated[float, Field(ge=0, lt=1, description="Dropout rate of the two MLPs.")] = 0.5,
    ) -> None:
        super().__init__(model, task)
        dim = model.dim
        self.gamma, self.replacement_weight, self.share_weight = share, replacement_weight, share_weight
        self.separator_every = separator_every
        self.separator = model.twin()
        self.gate = normed_mlp(dim, 2 * dim, 1, head_dropout)
        self.predictor = normed_mlp(dim, 2 * dim, task.outputs, head_dropout)

    def forward(self, batch: Batch) -> Tensor:
        """p(r), (B, C)."""
        return self.predict(batch).logits

    def edge_scores(self, batch: Batch) -> Tensor:
        """The mean invariant share of the two ends of each edge (E,)."""
        return edge_share(self._share(batch), batch)

    def predict(self, batch: Batch) -> Prediction:
        """Logits of the invariant part, and edge scores."""
        share = self._share(batch)
        invariant = self.model.fuse(sum_nodes(share * self.model(batch), Layout(batch)), batch, share)
        return Prediction(self.predictor(invariant), edge_share(share, batch))

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The risks with the environment removed and replaced; in the separator's epochs also its size."""
        layout, share = Layout(batch), self._share(batch)  # m, (N, 1)
        h = self.model(batch)
        invariant, variant = sum_nodes(share * h, layout), sum_nodes((1 - share) * h, layout)  # r and e, (B, D)
        invariant = self.model.fuse(invariant, batch, share)
        terms = {
            "removal": mean_loss(self.task, self.predictor(invariant), batch.y),
            "replacement": self.replacement_weight * self._replaced(invariant, variant, batch.y).mean(),
        }
        if self._separates(epoch):
            terms["share"] = self.share_weight * share_distance(share, layout, self.gamma)
        return terms

    def trainable(self, epoch: int) -> Iterable[nn.Parameter]:
        """Return the separator's parameters in every n-th epoch, starting with the first, and the others otherwise."""
        parts = (self.separator, self.gate) if self._separates(epoch) else (self.model, self.predictor)
        return [parameter for part in parts for parameter in part.parameters()]

    def _separates(self, epoch: int) -> bool:
        return epoch % self.separator_every == 0

    def _share(self, batch: Batch) -> Tensor:
        return self.gate(self.separator(batch)).sigmoid()

    def _replaced(self, invariant: Tensor, variant: Tensor, y: Tensor) -> Tensor:
        """l(p(r_i + e_j), y_i) of all pairs (B, B)."""
        first, norm, *others = self.predictor
        with unrecorded(self.predictor):
            r, e = normed_sums(norm, first(invariant), first(variant))  # each (B, 2D)
        logits = on_pairs(nn.Sequential(*others), r, e)  # (B, B, C)
        return losses(self.task, logits, y[:, None].expand(len(y), len(y), *y.shape[1:]))
