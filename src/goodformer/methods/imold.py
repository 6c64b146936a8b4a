"""iMoLD: encode first, then separate what is invariant, channel by channel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch

from goodformer.methods.base import Method, Prediction, mean_loss
from goodformer.models.base import GraphModel
from goodformer.nn.layout import Layout
from goodformer.nn.normalisation import normed_mlp
from goodformer.nn.quantiser import Quantiser
from goodformer.nn.readout import mean_nodes
from goodformer.nn.twin import fresh_twin
from goodformer.spec import Task


@dataclass(frozen=True)
class Separated:
    """What the encoder and the scorer make of a batch.

    Attributes:
        share: S, the invariant share of every node's every channel, (N, D).
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

    Epochs 0, 4, 8, ... train f' and its MLP alone, all others the rest alone.

    Paper: Zhuang et al., "Learning Invariant Molecular Representation in Latent Discrete Space", 2023.
    Differs from the paper: f' is a twin of the given model with weights of its own. Codes that no node is near stay
        where they are instead of being driven away by a vanishing count.
    Paper silent on: explanations by edges; an edge scores the mean share of its two ends, over all channels.
    """

    in_words = (
        "Separates properties of atoms rather than the atoms themselves; choose it for molecules whose deciding "
        "part cannot be cut out."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        invariance_weight: Annotated[float, Field(ge=0, description="l1, of the likeness under mixing.")] = 0.01,
        share_weight: Annotated[float, Field(ge=0, description="l2, of the distance of the share to gamma.")] = 0.5,
        commitment_weight: Annotated[float, Field(ge=0, description="l3, of the distance to the codes.")] = 0.1,
        share: Annotated[float, Field(ge=0, le=1, description="gamma, the invariant share aimed at.")] = 0.7,
        codes: Annotated[int, Field(ge=1, description="Number of codes of the quantiser.")] = 1000,
        code_decay: Annotated[float, Field(ge=0, lt=1, description="Share of a code that a step keeps.")] = 0.9,
        mix_dropout: Annotated[float, Field(ge=0, lt=1, description="Dropout rate of the mixing MLP.")] = 0.5,
        scorer_every: Annotated[int, Field(ge=1, description="Every so many epochs the scorer alone is trained.")] = 4,
    ) -> None:
        super().__init__(model, task)
        dim = model.dim
        self.invariance_weight, self.share_weight = invariance_weight, share_weight
        self.commitment_weight, self.gamma, self.scorer_every = commitment_weight, share, scorer_every
        self.quantiser = Quantiser(dim, codes, code_decay)
        self.scorer = fresh_twin(model)
        self.score = normed_mlp(dim, 2 * dim, dim)
        self.mix = normed_mlp(2 * dim, dim, dim, mix_dropout)
        self.classifier = nn.Linear(dim, task.outputs)

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
        """The risk of the invariant part and three terms that shape it."""
        found = self.separate(batch)
        return {
            "risk": mean_loss(self.task, self.classifier(found.invariant), batch.y),
            "commitment": self.commitment_weight * found.commitment,
            "invariance": self.invariance_weight * self._invariance(found),
            "share": self.share_weight * share_distance(found.share, Layout(batch), self.gamma),
        }

    def trainable(self, epoch: int) -> Iterable[nn.Parameter]:
        """The scorer in every fourth epoch, from the first on; the rest in the others."""
        scorer = {id(p) for module in (self.scorer, self.score) for p in module.parameters()}
        turn = epoch % self.scorer_every == 0
        return [p for p in self.parameters() if (id(p) in scorer) == turn]

    def separate(self, batch: Batch) -> Separated:
        """Encode and quantise the nodes, score them, and pool both parts."""
        layout, share = Layout(batch), self._share(batch)
        h = self.model(batch)
        code, commitment = self.quantiser(h)
        h = h + code  # H', (N, D)
        return Separated(share, mean_nodes(h * share, layout), mean_nodes(h * (1 - share), layout), commitment)

    def _share(self, batch: Batch) -> Tensor:
        return self.score(self.scorer(batch)).sigmoid()

    def _invariance(self, found: Separated) -> Tensor:
        """-cos of what is invariant to its mixture with the variant part of another graph."""
        other = found.variant[torch.randperm(len(found.variant), device=found.variant.device)]
        mixed = self.mix(torch.cat((found.invariant, other), 1))
        return -F.cosine_similarity(found.invariant.detach(), mixed).mean()


def share_distance(share: Tensor, layout: Layout, goal: float) -> Tensor:
    """Mean over graphs of |mean of S over nodes and channels - gamma|."""
    return (mean_nodes(share, layout).mean(1) - goal).abs().mean()


def edge_share(share: Tensor, batch: Batch) -> Tensor:
    """The mean over channels and over the two ends of each edge (E,)."""
    return share.mean(1)[batch.edge_index].mean(0)
