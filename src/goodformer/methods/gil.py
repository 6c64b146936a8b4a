"""GIL: environments are inferred from variant subgraphs, and risks must have equal gradients in all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from goodformer.batch import Batch
from goodformer.methods.base import Method, Prediction, losses
from goodformer.methods.environments import environment_means
from goodformer.models.base import GraphModel
from goodformer.nn.clustering import k_means, nearest
from goodformer.nn.extractor import instance_norm
from goodformer.nn.layout import Layout
from goodformer.nn.selection import node_factor, straight_through, top_in_batch, top_pairs
from goodformer.spec import Task


class GIL(Method):
    """L = mean_e R_e + lambda sum_theta Var_e(dR_e / dtheta), R_e the risk of w(f(G_I)) in environment e.

    A generator g scores edges by s_uv = <z_u, z_v> / sqrt(D) with z = g(G). The top share t of each graph's edges is
    the invariant subgraph G_I, the rest is the variant one G_V. Edges weigh 0 or 1, with the gradient of sigmoid(s)
    after s is normalised to mean 0 and variance 1 per graph, where the sigmoid is steep. Environments e are K
    clusters of f(G_V), embedded in evaluation mode; theta are all weights of f and w. The prediction is w(f(G_I)).

    Paper: Li et al., "Learning Invariant Graph Representations for Out-of-Distribution Generalization", 2022.
    Differs from the paper: K-means runs over the variant subgraphs of each batch instead of the training set, because
        risks and gradients are compared within a batch and embeddings change with every step. In the first
        ``warmup_epochs``, L is the mean loss. Nodes without an edge of a subgraph do not count in its readout.
        With ``variant="as_published"`` the code of the GOOD benchmark is followed, from which the published numbers
        seem to come: the share of edges is taken over the whole batch; weights of 0 and 1 pass no gradient, so the
        generator keeps its initial weights; G_V is embedded by another untrained network; there is no warm-up. At
        evaluation the share is still taken per graph, so that a prediction depends on its graph alone.
    Paper silent on: the training of the encoder of variant subgraphs, since clusters pass no gradient; here it is f.
    """

    in_words = (
        "Selects an invariant subgraph and infers environments from the rest; choose it if data come from several "
        "sources that are not recorded."
    )

    def __init__(
        self,
        model: GraphModel,
        task: Task,
        *,
        share: Annotated[float, Field(gt=0, lt=1, description="t, the invariant share of edges.")] = 0.6,
        penalty_weight: Annotated[
            float, Field(ge=0, description="lambda, weight of the variance of gradients.")
        ] = 1e-3,
        clusters: Annotated[int, Field(ge=2, description="K, the number of environments.")] = 3,
        warmup_epochs: Annotated[int, Field(ge=0, description="Epochs before environments are inferred.")] = 1,
        variant: Annotated[
            Literal["as_designed", "as_published"],
            Field(description="as_designed: the generator is trained; as_published: it keeps its initial weights."),
        ] = "as_designed",
    ) -> None:
        super().__init__(model, task)
        self.share, self.penalty_weight, self.clusters = share, penalty_weight, clusters
        self.published = variant == "as_published"
        self.warmup_epochs = 0 if self.published else warmup_epochs
        self.generator = model.twin()
        self.classifier = nn.Linear(model.dim, task.outputs)
        if self.published:
            self.generator.requires_grad_(False)
            self.variant_model = model.twin().requires_grad_(False)

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, C)."""
        return self.predict(batch).logits

    def edge_scores(self, batch: Batch) -> Tensor:
        """s (E,)."""
        return self._score(batch, Layout(batch))

    def predict(self, batch: Batch) -> Prediction:
        """Return the logits of the invariant subgraph and the edge scores that selected it."""
        layout = Layout(batch)
        score = self._score(batch, layout)
        keep = self._keep(score, layout)
        return Prediction(self._classify(batch, layout, keep, keep.to(score)), score)

    def loss(self, batch: Batch, epoch: int) -> dict[str, Tensor]:
        """The mean risk over environments and the variance of its gradients."""
        layout = Layout(batch)
        score = self._score(batch, layout)
        keep = self._keep(score, layout)
        weight = keep.to(score) if self.published else straight_through(keep, self._soft(score, layout))
        with sdpa_kernel(SDPBackend.MATH):  # the only attention kernel that supports a second derivative
            logits = self._classify(batch, layout, keep, weight)
        each = losses(self.task, logits, batch.y)  # (B,)
        if epoch < self.warmup_epochs:
            return {"risk": each.mean()}
        rest = self._variant(batch, layout, ~keep, 1 - weight)  # (B, D)
        env = nearest(rest, k_means(rest, self.clusters))  # (B,)
        risks = environment_means(self.task, each, batch.y, env)  # R_e, at most (K,)
        penalty = gradient_variance(risks, (*self.model.parameters(), *self.classifier.parameters()))
        return {"risk": risks.sum() / max(risks.numel(), 1), "penalty": self.penalty_weight * penalty}

    def _score(self, batch: Batch, layout: Layout) -> Tensor:
        """s (E,), the same for both directions of an edge."""
        z = self.generator(batch)
        return (z.index_select(0, layout.src) * z.index_select(0, layout.dst)).sum(1) * z.shape[1] ** -0.5

    def _keep(self, score: Tensor, layout: Layout) -> Tensor:
        """Mark the edges of the invariant subgraph (E,)."""
        if self.published and self.training:
            return top_in_batch(score, self.share)
        return top_pairs(score, layout, self.share)

    def _soft(self, score: Tensor, layout: Layout) -> Tensor:
        """Return the soft weight of every edge, (E,)."""
        return instance_norm(score[:, None], layout.graph[layout.src], layout.num_graphs)[:, 0].sigmoid()

    def _classify(self, batch: Batch, layout: Layout, keep: Tensor, weight: Tensor) -> Tensor:
        """w(f(G_I)), (B, C)."""
        return self.classifier(self.model.graph_embedding(batch, weight, node_factor(keep, layout)))

    @torch.no_grad()
    def _variant(self, batch: Batch, layout: Layout, keep: Tensor, weight: Tensor) -> Tensor:
        """Return embeddings of the variant subgraphs (B, D), without dropout, for deterministic environments."""
        model = self.variant_model if self.published else self.model
        mode = model.training
        rest = model.eval().graph_embedding(batch, weight, node_factor(keep, layout))
        model.train(mode)
        return rest


def gradient_variance(risks: Tensor, parameters: Iterable[nn.Parameter]) -> Tensor:
    """Return the sum over all weights of the variance over environments of dR_e / dtheta; it is differentiable."""
    weights = [weight for weight in parameters if weight.requires_grad]
    if risks.numel() < 2:
        return risks.new_zeros(())
    gradients = [torch.autograd.grad(risk, weights, create_graph=True, allow_unused=True) for risk in contrasts(risks)]
    squares = [part.square().sum() for gradient in gradients for part in gradient if part is not None]
    return torch.stack(squares).sum() / risks.numel()


def contrasts(risks: Tensor) -> Tensor:
    """Return K - 1 orthonormal contrasts of K risks; their squares sum to K times the variance.

    They are Helmert's: the sum of the first m risks minus m times the next one, divided by sqrt(m (m + 1)). They need
    one gradient fewer than the risks themselves.
    """
    order = torch.arange(1, risks.numel(), dtype=risks.dtype, device=risks.device)  # m, (K - 1,)
    return (risks.cumsum(0)[:-1] - order * risks[1:]) * (order * (order + 1)).rsqrt()
