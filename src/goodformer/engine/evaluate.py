"""Predictions over many graphs and what they are worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric.data import Batch

from goodformer.data.graphs import GraphSet
from goodformer.engine.precision import edge_auc, graph_precision
from goodformer.methods.base import Method, Prediction, mean_loss
from goodformer.spec import Task

Metrics = dict[str, float | None]
Outputs = dict[str, Tensor]


def evaluate(method: Method, graphs: GraphSet, batch_size: int = 256, indices: Tensor | None = None) -> Metrics:
    """What the predictions are worth: the task's metric under its own name and the mean ``loss``.

    Where the graphs carry edge truth and the method scores edges, also ``precision_at_10`` and ``edge_auc``. A value
    that is not defined (one class only, no graph) is None.

    Args:
        method: The trained method; it is left in the mode it was found in.
        graphs: Graphs that carry labels and the method's encodings.
        batch_size: Graphs predicted at once.
        indices: The graphs that count; all where not given.
    """
    return measure(method.task, [collect(method, graphs, batch_size, indices)])


def infer(
    method: Method, graphs: GraphSet, batch_size: int, indices: Tensor | None = None
) -> Iterator[tuple[Tensor, Batch, Prediction]]:
    """Positions, batch and prediction, batch by batch, graphs of like size together so that little is padded."""
    indices = torch.arange(len(graphs)) if indices is None else indices
    order = indices[graphs.sizes[indices].argsort(stable=True)]
    device = next(method.parameters()).device
    mode = method.training
    method.eval()
    try:
        for chunk in order.split(batch_size) if len(order) else ():
            with torch.no_grad():
                batch = graphs.batch(chunk)
                prediction = method.predict(batch if device.type == "cpu" else batch.to(device))
            yield chunk, batch, prediction
    finally:
        method.train(mode)


def collect(method: Method, graphs: GraphSet, batch_size: int, indices: Tensor | None = None) -> Outputs:
    """What `measure` needs of some of the graphs, on the CPU: what one process adds to the whole."""
    parts: list[Outputs] = []
    for _, batch, prediction in infer(method, graphs, batch_size, indices):
        part = {"logits": prediction.logits.detach().cpu(), "y": batch.y.cpu()}
        if prediction.edge_scores is not None and "edge_truth" in batch:
            part |= _edge_outputs(prediction.edge_scores.detach().cpu(), batch)
        parts.append(part)
    return _joined(parts)


def measure(task: Task, parts: Sequence[Outputs]) -> Metrics:
    """The metrics of outputs collected in one or several parts."""
    outputs = _joined([part for part in parts if part])
    if not outputs:
        return {task.metric: None, "loss": None}
    logits, y = outputs["logits"].double(), outputs["y"]
    metrics = {task.metric: score(task, logits, y), "loss": _known(float(mean_loss(task, logits, _double(y))))}
    if "scores" in outputs:
        metrics["precision_at_10"] = _known(float(outputs["precision"].nanmean()))
        metrics["edge_auc"] = _known(edge_auc(outputs["scores"], outputs["truth"]))
    return metrics


def score(task: Task, logits: Tensor, y: Tensor) -> float | None:
    """The task's metric, None where it is not defined."""
    if not bool(logits.isfinite().all()):
        return None
    if task.metric == "rocauc":
        return rocauc(logits.numpy(), y.numpy())
    if task.kind == "multiclass":
        return float((logits.argmax(-1) == y).double().mean())
    known = ~y.isnan()
    return _known(float(((logits > 0) == (y > 0.5))[known].double().mean()))


def rocauc(logits: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """ROC-AUC averaged over the targets that have both classes; missing labels (NaN) are passed over."""
    values = []
    for column, target in _columns(logits, y):
        known = ~np.isnan(target)
        if len(np.unique(target[known])) == 2:
            values.append(roc_auc_score(target[known], column[known]))
    return float(np.mean(values)) if values else None


def _columns(
    logits: NDArray[np.floating], y: NDArray[np.floating]
) -> Iterator[tuple[NDArray[np.floating], NDArray[np.floating]]]:
    """Scores and labels of each target; the classes of a multi-class task each against the rest."""
    if y.ndim == 1:
        logits = logits - logits.max(-1, keepdims=True)
        logits = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        y = (y[:, None] == np.arange(logits.shape[-1])).astype(float)
    return iter(zip(logits.T, y.T, strict=True))


def _edge_outputs(scores: Tensor, batch: Batch) -> Outputs:
    """Edge scores, truth and the precision of each graph."""
    graph = batch.batch[batch.edge_index[0]].cpu()  # (E,)
    truth = batch.edge_truth.cpu()
    return {"scores": scores, "truth": truth, "precision": graph_precision(scores, truth, graph, batch.num_graphs)}


def _joined(parts: Sequence[Outputs]) -> Outputs:
    """Outputs of several parts as those of one."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _double(y: Tensor) -> Tensor:
    return y.double() if y.is_floating_point() else y


def _known(value: float) -> float | None:
    """The value, None where it is not a number: JSON has no NaN."""
    return value if math.isfinite(value) else None
