"""Post-hoc edge scores for methods that have none of their own.

Everything goes through PyG's `Explainer` and explicit edge weights (`Method.weighted_logits`), not through masks inside
layers. Weights act on each graph separately, so all graphs of a batch are explained together. Nothing is random: a
graph has the same scores alone and in any batch.

What an edge weight affects depends on the model. GIN: all messages, with or without virtual node. GraphGPS and
GOODFormer's model: messages, but not the all-pairs attention. Exphormer: messages and attention along the graph's own
edges, but not along the expander's. Graphormer: degrees and the pairs that an edge joins; distances only where the
weight is 0. Encodings of the whole graph do not change, but codes of Morgan environments count with the smallest weight
of their edges (`goodformer.nn.environments`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.explain import Explainer, ExplainerAlgorithm, Explanation, ModelConfig
from torch_geometric.explain.config import MaskType

from goodformer.batch import Batch
from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError, check_name
from goodformer.explain.subgraph import Undirected
from goodformer.methods.base import Method
from goodformer.spec import REGRESSION, Task

Odds = Callable[[Tensor], Tensor]
"""Log-odds of the prediction (B, T) as a function of the weights of undirected edges (M,)."""


class WeightedMethod(nn.Module):
    """A method with the call signature that PyG's explainers expect; edge weights are the last argument."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.method = method
        self.training = method.training  # the mode PyG restores when it is done

    def forward(self, x: Tensor, edge_index: Tensor, graphs: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Return logits (B, C); ``x`` and ``edge_index`` are those of ``graphs``, and edges weigh 1 by default."""
        if edge_weight is None:
            edge_weight = torch.ones(edge_index.shape[1], device=edge_index.device)
        return self.method.weighted_logits(graphs, edge_weight.to(self.method.dtype)).double()


class EdgeAlgorithm(ExplainerAlgorithm):
    """Base of the algorithms: one weight for both directions of an edge, and the log-odds of the prediction.

    Log-odds are used because a single edge hardly changes the probability of a confident prediction.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    def supports(self) -> bool:
        """Support edge scores only."""
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
        """Return one score per directed edge as PyG's ``edge_mask`` (E,), equal for both directions."""
        pairs = Undirected.among(edge_index, graphs.ptr)

        def odds(weight: Tensor) -> Tensor:
            return log_odds(self.task, model(x, edge_index, graphs, weight[pairs.number]), target)

        return Explanation(edge_mask=self.scores(odds, pairs)[pairs.number])

    def scores(self, odds: Odds, pairs: Undirected) -> Tensor:
        """Return the score of each undirected edge (M,)."""
        raise NotImplementedError


class Occlusion(EdgeAlgorithm):
    """s_e = o(G) - o(G without e): the drop in log-odds when this edge alone has weight 0.

    Step i removes the i-th edge of every graph of the batch, so the number of passes is the number of edges of the
    largest graph. No gradients are needed.
    """

    @torch.no_grad()
    def scores(self, odds: Odds, pairs: Undirected) -> Tensor:
        """Return the log-odds of the whole graph minus those without each edge, averaged over targets, (M,)."""
        ones = torch.ones(len(pairs.graph), dtype=torch.double, device=pairs.graph.device)
        whole, found = odds(ones).mean(1), torch.zeros_like(ones)  # (B,), (M,)
        for step in range(int(pairs.counts.max()) if len(pairs.counts) else 0):
            at = pairs.start[pairs.counts > step] + step  # one edge of every graph that has enough edges
            without = odds(ones.index_fill(0, at, 0.0)).mean(1)  # (B,)
            found[at] = (whole - without)[pairs.graph[at]]
        return found


class PathGradient(EdgeAlgorithm):
    """s_e = integral over a from 0 to 1 of do / dw_e where all edges weigh a; the scores add up to o(G) - o(no edge).

    Integrated gradients (Sundararajan et al., 2017) from no edges to the whole graph: the number of passes does not
    depend on the size of the graph.
    """

    def __init__(self, task: Task, steps: int = 16) -> None:
        super().__init__(task)
        self.steps = steps

    def scores(self, odds: Odds, pairs: Undirected) -> Tensor:
        """Return the mean gradient over the midpoints of equal steps, (M,)."""
        total = torch.zeros(len(pairs.graph), dtype=torch.double, device=pairs.graph.device)
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
        """Return the mask after the last step, (M,)."""
        logits = torch.zeros(len(pairs.graph), dtype=torch.double, device=pairs.graph.device, requires_grad=True)
        adam = torch.optim.Adam([logits], self.rate)
        share = 1 / pairs.counts.clamp(min=1)[pairs.graph]  # weight of an edge in the mean of its graph, (M,)
        for _ in range(self.steps):
            mask = logits.sigmoid()
            doubt = -(mask * F.logsigmoid(logits) + (1 - mask) * F.logsigmoid(-logits))
            risk = F.softplus(-odds(mask)).mean(1).sum()  # -log p of the prediction
            terms = risk + 2 * self.size * mask.sum() + self.entropy * (share * doubt).sum()
            (logits.grad,) = torch.autograd.grad(terms, logits)
            adam.step()
        return logits.detach().sigmoid()


def log_odds(task: Task, logits: Tensor, target: Tensor) -> Tensor:
    """Return log p / (1 - p) of the predicted class (B, 1), or of the predicted value of each binary target (B, T).

    Of a measured target it is the distance of the prediction from the training mean, signed like the prediction.
    """
    if task.kind == "multiclass":
        said = target[:, None]
        return logits.gather(1, said) - logits.scatter(1, said, -torch.inf).logsumexp(1, keepdim=True)
    return torch.where(target.view_as(logits) > 0, logits, -logits)


ALGORITHMS: dict[str, type[EdgeAlgorithm]] = {"occlusion": Occlusion, "gradient": PathGradient, "mask": MaskSearch}


def edge_scores(method: Method, graphs: GraphSet, batch_size: int = 64, algorithm: str = "occlusion") -> list[Tensor]:
    """Return for each graph one score per directed edge, larger = more decisive for the prediction.

    Args:
        method: A trained method that implements ``weighted_logits``; its training mode is restored.
        graphs: Graphs that carry the method's encodings (`FittedModel.prepare`).
        batch_size: Graphs per batch; it does not change the scores.
        algorithm: ``occlusion``, ``gradient`` (for graphs with many hundred edges) or ``mask`` (GNNExplainer's).
    """
    explainer = _explainer(method, algorithm)
    device = method.device
    found: list[Tensor] = [torch.empty(0)] * len(graphs)
    for chunk in graphs.edge_ptr.diff().argsort(stable=True).split(batch_size):
        batch = graphs.batch(chunk).to(device)
        mask = explainer(batch.x, batch.edge_index, graphs=batch).edge_mask.cpu()  # (E,)
        for place, scores in zip(chunk.tolist(), mask.split(graphs.edge_ptr.diff()[chunk].tolist()), strict=True):
            found[place] = scores
    return found


def _explainer(method: Method, algorithm: str) -> Explainer:
    """Return PyG's explainer of the method's own predictions."""
    check_name("algorithm", algorithm, ALGORITHMS)
    if not method.weighs_edges:
        raise InputError(
            f"method {type(method).__name__} has neither edge scores nor weighted logits; "
            "implement one of them, or choose another method."
        )
    steep = [type(one).__name__ for one in method.members if not one.differentiable]
    if steep and algorithm != "occlusion":
        raise InputError(
            f"method {steep[0]} has no gradient, which {algorithm} needs; use occlusion or the method's own scores."
        )
    kinds = {"multiclass": "multiclass_classification", "binary": "binary_classification", REGRESSION: "regression"}
    return Explainer(
        WeightedMethod(method),
        ALGORITHMS[algorithm](method.task),
        explanation_type="model",
        model_config=ModelConfig(mode=kinds[method.task.kind], task_level="graph", return_type="raw"),
        edge_mask_type="object",
    )
