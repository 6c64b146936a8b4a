"""Edge scores for methods that have none of their own, found afterwards by weighing the edges of a trained method.

Everything goes through PyG's `Explainer` and an explicit weight of each edge (`Method.weighted_logits`), never through
masks hidden inside layers. The weights of a batch act on each graph alone, so all its graphs are explained at once, and
nothing is drawn at random: explaining twice, alone or in a batch, gives one answer.

A weight reaches what a model lets it reach: all messages of GIN, with or without virtual node; the messages, not the
all-pairs attention, of GraphGPS and of GOODFormer's model; messages and attention along the graph's own edges, not
along the expander's, of Exphormer; degrees and the pairs that an edge joins, of Graphormer, and distances only where
the weight is 0. Encodings computed from the whole graph stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer, ExplainerAlgorithm, Explanation, ModelConfig
from torch_geometric.explain.config import MaskType

from goodformer.data.graphs import GraphSet
from goodformer.explain.subgraph import Undirected
from goodformer.methods.base import Method
from goodformer.registry import InputError, unknown
from goodformer.spec import Task

Odds = Callable[[Tensor], Tensor]
"""Log-odds of what was predicted (B, T) as a function of the weights of undirected edges (M,)."""


class WeightedMethod(nn.Module):
    """A method as PyG's explainers call a model, with the weight of each edge as its last argument."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method
        self.training = method.training  # the mode PyG restores when it is done

    def forward(self, x: Tensor, edge_index: Tensor, graphs: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Logits (B, C); ``x`` and ``edge_index`` are those of ``graphs``, and edges weigh 1 where nothing is said."""
        if edge_weight is None:
            edge_weight = torch.ones(edge_index.shape[1], device=edge_index.device)
        return self.method.weighted_logits(graphs, edge_weight)


class EdgeAlgorithm(ExplainerAlgorithm):
    """What the algorithms share: one weight for both directions of an edge, and the log-odds of what was predicted.

    Log-odds and not probabilities, because where a model is certain no single edge moves its probability any more.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    def supports(self) -> bool:
        """Scores of edges only."""
        config = self.explainer_config
        return config.node_mask_type is None and config.edge_mask_type == MaskType.object

    def forward(
        self,
        model: WeightedMethod,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor,
        index: Any = None,
        graphs: Batch,
    ) -> Explanation:
        """The score of every directed edge as PyG's ``edge_mask`` (E,), equal for both directions."""
        pairs = Undirected.among(edge_index, graphs.ptr)

        def odds(weight: Tensor) -> Tensor:
            return log_odds(self.task, model(x, edge_index, graphs, weight[pairs.number]), target)

        return Explanation(edge_mask=self.scores(odds, pairs)[pairs.number])

    def scores(self, odds: Odds, pairs: Undirected) -> Tensor:
        """The score of each undirected edge (M,)."""
        raise NotImplementedError


class Occlusion(EdgeAlgorithm):
    """s_e = o(G) - o(G without e): what the log-odds of the prediction lose when this edge alone is silenced.

    Step i silences the i-th edge of every graph of the batch, so that there are as many passes as the largest graph has
    edges, without gradients.
    """

    @torch.no_grad()
    def scores(self, odds: Odds, pairs: Undirected) -> Tensor:
        """Log-odds of the whole graph less those without each edge, mean over targets, (M,)."""
        ones = torch.ones(len(pairs.graph), device=pairs.graph.device)
        whole, found = odds(ones).mean(1), torch.zeros_like(ones)  # (B,), (M,)
        for step in range(int(pairs.counts.max()) if len(pairs.counts) else 0):
            at = pairs.start[pairs.counts > step] + step  # one edge of every graph that has so many
            without = odds(ones.index_fill(0, at, 0.0)).mean(1)  # (B,)
            found[at] = (whole - without)[pairs.graph[at]]
        return found


class PathGradient(EdgeAlgorithm):
    """s_e = integral over a from 0 to 1 of do / dw_e where all edges weigh a; the scores add up to o(G) - o(no edge).

    Integrated gradients (Sundararajan et al., 2017) along the way from no edge to the whole graph: a fixed number of
    passes, however large the graph is.
    """

    def __init__(self, task: Task, steps: int = 16) -> None:
        super().__init__(task)
        self.steps = steps

    def scores(self, odds: Odds, pairs: Undirected) -> Tensor:
        """The mean gradient over the middles of equal steps, (M,)."""
        total = torch.zeros(len(pairs.graph), device=pairs.graph.device)
        for step in range(self.steps):
            weight = torch.full_like(total, (step + 0.5) / self.steps).requires_grad_()
            total += torch.autograd.grad(odds(weight).mean(1).sum(), weight)[0]
        return total / self.steps


class MaskSearch(EdgeAlgorithm):
    """s = sigmoid(m) that minimises -log p(G weighted by s) + size sum s + mean entropy of s, by Adam from m = 0.

    The objective and the coefficients of GNNExplainer (Ying et al., 2019) in PyG, where each direction counts.
    """

    def __init__(
        self, task: Task, steps: int = 100, rate: float = 0.01, size: float = 0.005, entropy: float = 1.0
    ) -> None:
        super().__init__(task)
        self.steps, self.rate, self.size, self.entropy = steps, rate, size, entropy

    def scores(self, odds: Odds, pairs: Undirected) -> Tensor:
        """The mask after the last step, (M,)."""
        logits = torch.zeros(len(pairs.graph), device=pairs.graph.device, requires_grad=True)
        adam = torch.optim.Adam([logits], self.rate)
        share = 1 / pairs.counts.clamp(min=1)[pairs.graph]  # of an edge in its graph's mean, (M,)
        for _ in range(self.steps):
            mask = logits.sigmoid()
            doubt = -(mask * F.logsigmoid(logits) + (1 - mask) * F.logsigmoid(-logits))
            risk = F.softplus(-odds(mask)).mean(1).sum()  # -log p of what was predicted
            terms = risk + 2 * self.size * mask.sum() + self.entropy * (share * doubt).sum()
            (logits.grad,) = torch.autograd.grad(terms, logits)
            adam.step()
        return logits.detach().sigmoid()


def log_odds(task: Task, logits: Tensor, target: Tensor) -> Tensor:
    """log p / (1 - p) of the predicted class (B, 1), or of the predicted side of each binary target (B, T)."""
    if task.kind == "multiclass":
        said = target[:, None]
        return logits.gather(1, said) - logits.scatter(1, said, -torch.inf).logsumexp(1, keepdim=True)
    return torch.where(target.view_as(logits) > 0, logits, -logits)


ALGORITHMS: dict[str, type[EdgeAlgorithm]] = {"occlusion": Occlusion, "gradient": PathGradient, "mask": MaskSearch}


def edge_scores(method: Method, graphs: GraphSet, batch_size: int = 64, algorithm: str = "occlusion") -> list[Tensor]:
    """For each graph a score of each of its directed edges, larger = more decisive for what the method predicts.

    Args:
        method: A trained method that can weigh edges; it is left in the mode it was found in.
        graphs: Graphs that carry the method's encodings (`FittedModel.prepare`).
        batch_size: Graphs explained at once; the answer does not depend on it.
        algorithm: ``occlusion``, ``gradient`` (for graphs of many hundred edges) or ``mask`` (GNNExplainer's).
    """
    explainer = _explainer(method, algorithm)
    device = next(method.parameters()).device
    found: list[Tensor] = [torch.empty(0)] * len(graphs)
    for chunk in graphs.edge_ptr.diff().argsort(stable=True).split(batch_size):
        batch = graphs.batch(chunk).to(device)
        mask = explainer(batch.x, batch.edge_index, graphs=batch).edge_mask.cpu()  # (E,)
        for place, scores in zip(chunk.tolist(), mask.split(graphs.edge_ptr.diff()[chunk].tolist()), strict=True):
            found[place] = scores
    return found


def _explainer(method: Method, algorithm: str) -> Explainer:
    """PyG's explainer of what the method itself predicts."""
    if algorithm not in ALGORITHMS:
        raise unknown("algorithm", algorithm, ALGORITHMS)
    if type(method).weighted_logits is Method.weighted_logits:
        raise InputError(
            f"method {type(method).__name__} has neither edge scores nor weighted logits; "
            "implement one of them, or explain a method that has."
        )
    kind = "multiclass_classification" if method.task.kind == "multiclass" else "binary_classification"
    return Explainer(
        WeightedMethod(method),
        ALGORITHMS[algorithm](method.task),
        explanation_type="model",
        model_config=ModelConfig(mode=kind, task_level="graph", return_type="raw"),
        edge_mask_type="object",
    )
