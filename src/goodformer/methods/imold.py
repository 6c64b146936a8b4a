"""iMoLD: encode nodes, then separate the invariant part of every channel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.batch import Batch
from goodformer.methods.base import Method, Prediction, mean_loss
from goodformer.models.base import GraphModel
from goodformer.nn.layout import Layout
from goodformer.nn.normalisation import normed_mlp
from goodformer.nn.quantiser import Quantiser
from goodformer.nn.readout import mean_nodes
from goodformer.spec import Task


@dataclass(frozen=True)
class Separated:
    """Output of the encoder and the scorer.

    Attributes:
        share: S, the invariant share of every channel of every node, (N, D).
        invariant: z_inv, (B, D).
        variant: z_var, (B, D).
        commitment: Mean squared distance of the node embeddings to their codes.
    """

    share: Tensor
    invariant: Tensor
    variant: Tensor
    commitment: Tensor


class IMoLD(Method):
    """L = mean l(w(z_inv), y) + l3 L_commit + l1 L_inv + l2 L_share; the prediction is w(z_inv).

    H' = H + VQ(H), H = f(G); S = sigmoid(MLP(f'(G))), f' a second model; z_inv = mean of H' * S, z_var = mean of
    H' * (1 - S) over the nodes. L_commit = mean (sg(code) - H)^2. L_share = mean over graphs |mean S - gamma|.
    L_inv = -mean_i cos(sg(z_inv,i), MLP([z_inv,i; z_var,p(i)])), p a random permutation of the batch.

    Epochs 0, 4, 8, ... train only f' and its MLP; the others train only the rest.

    Paper: Zhuang et al., "Learning Invariant Molecular Representation in Latent Discrete Space", 2023.
    Differs from the published code: codes without assigned nodes do not move, instead of being driven away by a
        vanishing count.
    Paper silent on: explanations by edges; an edge scores the mean share of its two ends, over all channels.
    """

    in_words = (
        "Separates invariant channels of node embeddings instead of nodes; choose it for molecules whose label "
        "does not depend on a single subgraph."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        invariance_weight: Annotated[
            float, Field(ge=0, description="l1, weight of the invariance under mixing.")
        ] = 0.01,
        share_weight: Annotated[
            float, Field(ge=0, description="l2, weight of the distance between the share and gamma.")
        ] = 0.5,
        commitment_weight: Annotated[float, Field(ge=0, description="l3, weight of the distance to the codes.")] = 0.1,
        share: Annotated[float, Field(ge=0, le=1, description="gamma, the target invariant share.")] = 0.7,
        codes: Annotated[int, Field(ge=1, description="Number of codes of the quantiser.")] = 1000,
        code_decay: Annotated[float, Field(ge=0, lt=1, description="Decay of the codes' running means.")] = 0.9,
        mix_dropout: Annotated[float, Field(ge=0, lt=1, description="Dropout rate of the mixing MLP.")] = 0.5,
        scorer_every: Annotated[int, Field(ge=1, description="The scorer is trained in every n-th epoch, alone.")] = 4,
        head: Annotated[
            Literal["linear", "mlp"], Field(description="Classifier w: linear, or an MLP with dropout 0.5.")
        ] = "linear",
    ) -> None:
        super().__init__(model, task)
        dim = model.dim
        self.invariance_weight, self.share_weight = invariance_weight, share_weight
        self.commitment_weight, self.gamma, self.scorer_every = commitment_weight, share, scorer_every
        self.quantiser = Quantiser(dim, codes, code_decay)
        self.scorer = model.twin()
        self.score = normed_mlp(dim, 2 * dim, dim)
        self.mix = normed_mlp(2 * dim, dim, dim, mix_dropout)
        self.classifier: nn.Module = nn.Linear(dim, task.outputs)
        if head == "mlp":
            self.classifier = normed_mlp(dim, 2 * dim, task.outputs, 0.5)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C)."""
        return self.classifier(self.separate(batch).invariant)

    def edge_scores(self, batch: Batch) -> Tensor:
        """The mean invariant share of the two ends of each edge (E,)."""
        return edge_share(self._share(batch), batch)

    def predict(self, batch: Batch) -> Prediction:
        """Logits and edge scores from one pass."""
        found = self.separate(batch)
        return Prediction(self.classifier(found.invariant), edge_share(found.share, batch))

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The risk of the invariant part and the three further terms."""
        found = self.separate(batch)
        return {
            "risk": mean_loss(self.task, self.classifier(found.invariant), batch.y),
            "commitment": self.commitment_weight * found.commitment,
            "invariance": self.invariance_weight * self._invariance(found),
            "share": self.share_weight * share_distance(found.share, Layout(batch), self.gamma),
        }

    def trainable(self, epoch: int) -> Iterable[nn.Parameter]:
        """Return the scorer's parameters in every n-th epoch, starting with the first, and the others otherwise."""
        scorer = {id(p) for module in (self.scorer, self.score) for p in module.parameters()}
        turn = epoch % self.scorer_every == 0
        return [p for p in self.parameters() if (id(p) in scorer) == turn]

    def separate(self, batch: Batch) -> Separated:
        """Encode and quantise the nodes, score them, and pool both parts."""
        layout, share = Layout(batch), self._share(batch)
        h = self.model(batch)
        code, commitment = self.quantiser(h)
        h = h + code  # H', (N, D)
        invariant = self.model.fuse(mean_nodes(h * share, layout), batch, share.mean(1, keepdim=True))
        return Separated(share, invariant, mean_nodes(h * (1 - share), layout), commitment)

    def _share(self, batch: Batch) -> Tensor:
        return self.score(self.scorer(batch)).sigmoid()

    def _invariance(self, found: Separated) -> Tensor:
        """Return -cos between the invariant part and its mixture with another graph's variant part."""
        other = found.variant[torch.randperm(len(found.variant), device=found.variant.device)]
        mixed = self.mix(torch.cat((found.invariant, other), 1))
        return -F.cosine_similarity(found.invariant.detach(), mixed).mean()


def share_distance(share: Tensor, layout: Layout, goal: float) -> Tensor:
    """Return the mean over graphs of |mean of S over nodes and channels - gamma|."""
    return (mean_nodes(share, layout).mean(1) - goal).abs().mean()


def edge_share(share: Tensor, batch: Batch) -> Tensor:
    """Return the mean over channels and over the two ends of each edge (E,)."""
    return share.mean(1)[batch.edge_index].mean(0)
