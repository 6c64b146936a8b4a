"""CAL+: attention splits a graph, and the invariant part must predict beside any remembered variant part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from goodformer.batch import Batch
from goodformer.methods.base import Method, Prediction, losses, mean_loss
from goodformer.models.base import GraphModel
from goodformer.nn.attention import NEVER
from goodformer.nn.bank import Bank
from goodformer.nn.extractor import pair_linear
from goodformer.nn.gcn import GCN
from goodformer.nn.layout import Layout
from goodformer.nn.pairs import normed_sums, pair_sums
from goodformer.nn.readout import sum_nodes
from goodformer.spec import Task


@dataclass(frozen=True)
class Attended:
    """Node embeddings and their invariant shares.

    Attributes:
        h: Node embeddings, (N, D).
        node: Invariant share of every node, (N,); the rest is variant.
        edge: Invariant share of every directed edge, (E,).
    """

    h: Tensor
    node: Tensor
    edge: Tensor


class CALPlus(Method):
    """L = o l(w_c(x_c), y) + c KL(uniform || w_s(x_s)) + m mean_ij l(w_m(x_c,i + m_j), y_i) + beta L_P.

    h = f(G); shares of edges softmax(A_e [h_u; h_v]) and of nodes softmax(A_v h) split the graph; x = sum over nodes of
    ReLU(GCN(BN(share * h), edge shares)), one GCN for the invariant part x_c and one for the variant part x_s. The m_j
    are one vector per graph of the batch, drawn from a first-in, first-out bank of variant vectors.
    L_P = mean_i -log softmax_k(cos(x_c,i, p_k)) at k = y_i pulls each graph to the prototype of its class, updated as
    p_k <- d p_k + (1 - d) sum_i w_i x_c,i over the batch's members of class k, w_i = softmax_i(cos(p_k, x_c,i) / 5).
    The prediction is w_c(x_c).

    Paper: Sui et al., "Enhancing Out-of-distribution Generalization on Graphs via Causal Attention Learning", 2024.
    Differs from the published code: the model embeds the input itself, without BatchNorm before it; binary targets have
        two prototypes each. The bank size is a number of vectors instead of batches. With
        ``variant="as_published"`` prototypes are the class means of the batch, L_P applies the softmax twice, and the
        divergence trains w_s only, as in the authors' code. That code also refills the bank from further batches in
        every step; here it stays first-in, first-out.
    Paper silent on: the decay d; whether prototypes pass a gradient (they do not here).
    """

    soft_labels = False
    in_words = (
        "Separates the invariant subgraph by attention and exchanges the rest between graphs; choose it if you suspect "
        "a shortcut in the data."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        invariant_weight: Annotated[float, Field(ge=0, description="o, weight of the invariant part's loss.")] = 1.0,
        ignorance_weight: Annotated[
            float, Field(ge=0, description="c, weight of the variant part's divergence.")
        ] = 0.5,
        mixture_weight: Annotated[float, Field(ge=0, description="m, weight of the loss of mixtures.")] = 0.5,
        prototype_weight: Annotated[float, Field(ge=0, description="beta, weight of the prototype loss.")] = 0.5,
        prototype_decay: Annotated[
            float, Field(ge=0, lt=1, description="d, decay of the prototypes' running means.")
        ] = 0.9,
        bank_size: Annotated[
            int, Field(ge=1, description="Variant vectors kept: the paper's number of batches times their size.")
        ] = 768,
        variant: Annotated[
            Literal["as_designed", "as_published"],
            Field(
                description="as_published: class means of the batch as prototypes, softmax twice, divergence detached."
            ),
        ] = "as_designed",
    ) -> None:
        super().__init__(model, task)
        self.invariant_weight, self.ignorance_weight = invariant_weight, ignorance_weight
        self.mixture_weight, self.prototype_weight = mixture_weight, prototype_weight
        self.published = variant == "as_published"
        dim = model.dim
        self.edge_attention, self.node_attention = nn.Linear(2 * dim, 2), nn.Linear(dim, 2)
        self.invariant_branch, self.variant_branch = Branch(dim), Branch(dim)
        self.invariant_classifier, self.variant_classifier, self.mixture_classifier = (
            _head(dim, task.outputs) for _ in range(3)
        )
        self.bank = Bank(bank_size, dim)
        self.prototypes = Prototypes(task, dim, prototype_decay, persist=not self.published)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C) of the invariant part."""
        return self.predict(batch).logits

    def edge_scores(self, batch: Batch) -> Tensor:
        """The invariant share of every directed edge (E,)."""
        return self.attend(batch).edge

    def predict(self, batch: Batch) -> Prediction:
        """Return logits and edge scores; only the invariant part is computed."""
        found = self.attend(batch)
        x_c = self._invariant(found, batch)
        return Prediction(self.invariant_classifier(x_c), found.edge)

    def attend(self, batch: Batch) -> Attended:
        """Embed the nodes and compute the invariant shares of nodes and edges."""
        h = self.model(batch)
        edge = pair_linear(self.edge_attention, h, Layout(batch))  # (E, 2)
        return Attended(h, self.node_attention(h).softmax(1)[:, 0], edge.softmax(1)[:, 0])

    def _invariant(self, found: Attended, batch: Batch) -> Tensor:
        """Return x_c (B, D)."""
        x_c = self.invariant_branch(found.h, found.node, found.edge, Layout(batch))
        return self.model.fuse(x_c, batch, found.node[:, None])

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The four weighted terms; in training the bank and the prototypes are updated."""
        found, layout = self.attend(batch), Layout(batch)
        x_c = self._invariant(found, batch)  # (B, D)
        x_s = self.variant_branch(found.h, 1 - found.node, 1 - found.edge, layout)
        if self.training:
            self.bank.push(x_s.detach())
        ignorant = self.variant_classifier(x_s.detach() if self.published else x_s)
        return {
            "invariant": self.invariant_weight * mean_loss(self.task, self.invariant_classifier(x_c), batch.y),
            "ignorance": self.ignorance_weight * ignorance(self.task, ignorant),
            "mixture": self.mixture_weight * self._mixture(x_c, batch.y),
            "prototype": self.prototype_weight * self.prototypes(x_c, batch.y, twice=self.published),
        }

    def _mixture(self, x_c: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss over all sums of an invariant vector and a drawn variant vector."""
        drawn = self.bank.draw(len(x_c))  # (M, D)
        if not len(drawn):
            return x_c.new_zeros(())
        norm, linear, *others = self.mixture_classifier
        assert isinstance(linear, nn.Linear)
        invariant, variant = normed_sums(norm, x_c, drawn)
        pairs = pair_sums(linear(invariant), F.linear(variant, linear.weight))  # (B * M, D)
        for layer in others:
            pairs = layer(pairs)
        logits = pairs.unflatten(0, (len(x_c), -1))
        return losses(self.task, logits, y[:, None].expand(-1, len(drawn), *y.shape[1:])).mean()


class Branch(nn.Module):
    """x = sum over nodes of ReLU(GCN(BN(n * h), e)), with shares n of nodes and e of edges."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm, self.layer = nn.BatchNorm1d(dim), GCN(dim, dim)

    def forward(self, h: Tensor, node: Tensor, edge: Tensor, layout: Layout) -> Tensor:
        """(N, D), (N,), (E,) -> (B, D)."""
        return sum_nodes(self.layer(self.norm(h * node[:, None]), layout, edge).relu(), layout)


class Prototypes(nn.Module):
    """Running class means: one vector per class, K classes for each of T targets; NaN until a member is seen.

    Without ``persist`` every batch starts over, so that prototypes are the class means of the batch.
    """

    vectors: Tensor

    def __init__(self, task: Task, dim: int, decay: float, *, persist: bool = True, temperature: float = 5.0) -> None:
        super().__init__()
        self.task, self.decay, self.persist, self.temperature = task, decay, persist, temperature
        shape = (1, task.outputs) if task.kind == "multiclass" else (task.outputs, 2)
        self.register_buffer("vectors", torch.full((*shape, dim), float("nan")))  # (T, K, D)

    def forward(self, x: Tensor, y: Tensor, twice: bool = False) -> Tensor:
        """Return the mean of -log softmax_k(cos(x, p_k)) at the class of each row of x (B, D), over known labels."""
        member = membership(self.task, y)  # (B, T, K)
        if self.training:
            self._follow(x.detach(), member)
        known = ~self.vectors[..., 0].isnan()  # (T, K)
        likeness = self._likeness(x).masked_fill(~known, NEVER)
        if twice:
            likeness = likeness.softmax(-1).masked_fill(~known, NEVER)
        counted = member & known
        return -torch.where(counted, likeness.log_softmax(-1), 0.0).sum() / counted.sum().clamp(min=1)

    def _likeness(self, x: Tensor) -> Tensor:
        """Return cos(x_i, p_k) of rows and prototypes (B, T, K); 0 for unknown prototypes."""
        unit = F.normalize(self.vectors.nan_to_num(), dim=-1)
        return torch.einsum("bd,tkd->btk", F.normalize(x, dim=-1), unit)

    @torch.no_grad()
    def _follow(self, x: Tensor, member: Tensor) -> None:
        """Move the prototypes of the classes in a batch; similar members have larger weights."""
        if not self.persist:
            self.vectors.fill_(float("nan"))
        weight = (self._likeness(x) / self.temperature).masked_fill(~member, NEVER).softmax(0)  # (B, T, K)
        mean = torch.einsum("btk,bd->tkd", weight, x)
        old = torch.where(self.vectors.isnan(), mean, self.vectors)
        moved = torch.lerp(mean, old, self.decay)
        self.vectors.copy_(torch.where(member.any(0)[..., None], moved, self.vectors))


def membership(task: Task, y: Tensor) -> Tensor:
    """Return whether a graph belongs to a class of a target (B, T, K); False for missing labels."""
    if task.kind == "multiclass":
        return F.one_hot(y, task.outputs).bool()[:, None]
    return torch.stack((y == 0, y == 1), -1)


def ignorance(task: Task, logits: Tensor) -> Tensor:
    """Return the mean KL(uniform || prediction); 0 if the logits (B, C) are uninformative."""
    if task.kind == "multiclass":
        return -(logits.log_softmax(-1) + math.log(task.outputs)).mean()
    return -((F.logsigmoid(logits) + F.logsigmoid(-logits)) / 2 + math.log(2)).mean()


def _head(dim: int, out: int) -> nn.Sequential:
    """Return BatchNorm, linear, ReLU, BatchNorm, linear."""
    return nn.Sequential(nn.BatchNorm1d(dim), nn.Linear(dim, dim), nn.ReLU(), nn.BatchNorm1d(dim), nn.Linear(dim, out))
