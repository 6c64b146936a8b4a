"""Predictions over many graphs and their metrics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from goodformer.batch import Batch
from goodformer.data.graphs import GraphSet
from goodformer.engine.batches import evaluation_batches
from goodformer.engine.bootstrap import least_spread
from goodformer.engine.precision import edge_auc, graph_precision, node_scores
from goodformer.errors import InputError
from goodformer.methods.base import Method, Prediction, link, mean_loss
from goodformer.spec import Task

Metrics = dict[str, float | None]
Outputs = dict[str, Tensor]


def evaluate(method: Method, graphs: GraphSet, batch_size: int = 256, indices: Tensor | None = None) -> Metrics:
    """Return the task's metric under its own name and the mean ``loss``.

    Measured targets also have ``mae``, ``r2`` and ``spearman``, means over targets, and with several targets
    ``rmse_0``, ``rmse_1``, ... for each. Several binary targets also have a metric each, such as ``rocauc_0``.
    If the graphs carry edge truth and the method scores edges, the result also has ``precision_at_10`` and
    ``edge_auc``, and ``node_auc`` if they carry node truth: the score of a node is the highest of its edges. Only
    graphs with a true edge count. ``precision_at_10_logits`` ranks the edges by the method's logits instead, if it has
    them: a mask that saturates in float32 ties edges that the logits still rank. A value that is not defined (only one
    class, no graph) is None.

    Args:
        method: The trained method; its training mode is restored.
        graphs: Graphs that carry labels and the method's encodings.
        batch_size: Graphs per batch.
        indices: Positions of the graphs to evaluate; by default all.
    """
    return measure(method.task, [collect(method, graphs, batch_size, indices)])


def infer(
    method: Method, graphs: GraphSet, batch_size: int, indices: Tensor | None = None, scores: bool = True
) -> Iterator[tuple[Tensor, Batch, Prediction]]:
    """Yield positions, batch and prediction of each batch of `eval_batches`; ``scores`` asks for edge scores."""
    for chunk, batch in eval_batches(method, graphs, batch_size, indices):
        with torch.no_grad():
            prediction = method.predict(batch) if scores else method.outputs(batch)
        _check_shapes(method, batch, prediction)
        yield chunk, batch, prediction


def _check_shapes(method: Method, batch: Batch, prediction: Prediction) -> None:
    """Raise an error unless a prediction has one logit per graph and output, and at most one score per edge."""
    edges = (batch.num_edges,)
    expected = {"logits": (batch.num_graphs, method.task.outputs), "edge_scores": edges, "edge_logits": edges}
    for name, shape in expected.items():
        value = getattr(prediction, name)
        if value is not None and tuple(value.shape) != shape:
            raise InputError(
                f"{type(method).__name__} returns {name} of shape {tuple(value.shape)}; expected {shape} for "
                f"{batch.num_graphs} graphs with {batch.num_edges} edges and {method.task.outputs} outputs."
            )


def eval_batches(
    method: Method, graphs: GraphSet, batch_size: int, indices: Tensor | None = None
) -> Iterator[tuple[Tensor, Batch]]:
    """Yield positions and batch, on the method's device; graphs of similar size come together.

    Batches of large graphs are smaller (see `evaluation_batches`). The method is in evaluation mode until the last
    batch; its training mode is then restored.
    """
    indices = torch.arange(len(graphs)) if indices is None else indices
    device, mode = method.device, method.training
    method.eval()
    try:
        for places in evaluation_batches(graphs.sizes[indices], batch_size):
            chunk = indices[places]
            batch = graphs.batch(chunk)
            yield chunk, batch if device.type == "cpu" else batch.to(device)
    finally:
        method.train(mode)


def collect(method: Method, graphs: GraphSet, batch_size: int, indices: Tensor | None = None) -> Outputs:
    """Return what `measure` needs of some graphs, on the CPU; each process of a run collects its share."""
    parts: list[Outputs] = []
    for chunk, batch, prediction in infer(method, graphs, batch_size, indices, scores="truth" in graphs.edge):
        part = {"logits": prediction.logits.detach().cpu(), "y": batch.y.cpu(), "place": chunk}
        if prediction.edge_scores is not None and "edge_truth" in batch:
            scores, truth = prediction.edge_scores.detach().cpu(), batch.edge_truth.cpu()  # (E,), (E,)
            graph = batch.batch[batch.edge_index[0]].cpu()  # (E,)
            precision = graph_precision(scores, truth, graph, batch.num_graphs)  # (B,)
            known = ~precision.isnan()  # (B,)
            part |= {"scores": scores[known[graph]], "truth": truth[known[graph]], "precision": precision}
            if "node_truth" in batch:
                nodes = known[batch.batch.cpu()]  # (N,)
                by_node = node_scores(scores, batch.edge_index.cpu(), batch.num_nodes)  # (N,)
                part |= {"node_scores": by_node[nodes], "node_truth": batch.node_truth.cpu()[nodes]}
            if prediction.edge_logits is not None:
                logits = prediction.edge_logits.detach().cpu()  # (E,)
                part["logit_precision"] = graph_precision(logits, truth, graph, batch.num_graphs)  # (B,)
        parts.append(part)
    return _joined(parts)


def logits_in_order(outputs: Outputs, graphs: GraphSet, task: Task) -> Tensor:
    """Return the logits of collected outputs in the order of the graphs (G, C)."""
    logits = torch.zeros(len(graphs), task.outputs)
    if outputs:
        logits[outputs["place"]] = outputs["logits"].float()
    return logits


def measure(task: Task, parts: Sequence[Outputs]) -> Metrics:
    """Return the metrics of outputs that were collected in one or several parts."""
    outputs = _joined([part for part in parts if part])
    if not outputs:
        return {task.metric: None, "loss": None}
    logits, y = outputs["logits"].double(), outputs["y"]
    loss = mean_loss(task, logits, y.double() if y.is_floating_point() else y)
    metrics: Metrics = {task.metric: score(task, logits, y), "loss": _known(float(loss))}
    if task.measured:
        metrics = {**value_metrics(task, link(task, logits).numpy(), y.numpy()), "loss": metrics["loss"]}
    if task.kind == "binary" and task.outputs > 1:
        each = Task("binary", 1, task.metric)
        metrics |= {f"{task.metric}_{n}": score(each, logits[:, n, None], y[:, n, None]) for n in range(task.outputs)}
    if "scores" in outputs:
        metrics["precision_at_10"] = _known(float(outputs["precision"].nanmean()))
        if "logit_precision" in outputs:
            metrics["precision_at_10_logits"] = _known(float(outputs["logit_precision"].nanmean()))
        metrics["edge_auc"] = _known(edge_auc(outputs["scores"], outputs["truth"]))
    if "node_scores" in outputs:
        metrics["node_auc"] = _known(edge_auc(outputs["node_scores"], outputs["node_truth"]))
    return metrics


def score(task: Task, logits: Tensor, y: Tensor) -> float | None:
    """Return the task's metric, None if it is not defined."""
    if not bool(logits.isfinite().all()):
        return None
    if task.measured:
        return value_metrics(task, link(task, logits).numpy(), y.numpy())["rmse"]
    if task.metric == "rocauc":
        return rocauc(logits.numpy(), y.numpy())
    if task.kind == "multiclass":
        return float((logits.argmax(-1) == y).double().mean())
    known = ~y.isnan()
    return _known(float(((logits > 0) == (y > 0.5))[known].double().mean()))


def rocauc(logits: NDArray[np.floating], y: NDArray[np.floating]) -> float | None:
    """Return the ROC-AUC averaged over the targets that have both classes, without missing labels (NaN).

    Classes (G,) of a multi-class task become targets, each class against the rest.
    """
    from sklearn.metrics import roc_auc_score  # takes a second, which prediction does not need

    if y.ndim == 1:
        logits = logits - logits.max(-1, keepdims=True)
        logits = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        y = (y[:, None] == np.arange(logits.shape[-1])).astype(float)
    values = []
    for column, target in zip(logits.T, y.T, strict=True):
        known = ~np.isnan(target)
        if len(np.unique(target[known])) == 2:
            values.append(roc_auc_score(target[known], column[known]))
    return float(np.mean(values)) if values else None


def value_metrics(task: Task, values: NDArray[np.floating], y: NDArray[np.floating]) -> Metrics:
    """Return RMSE, MAE, R2 and Spearman's correlation of predicted values (G, T), without missing labels (NaN).

    RMSE and MAE are in the units of `Task.units`, R2 compares with the mean of these labels. With several targets each
    is the mean over the targets where it is defined, and the metrics of each target follow in its own unit.
    """
    rows = [_target_metrics(*columns) for columns in zip(values.T, y.T, strict=True)]

    def mean(name: str) -> float | None:
        units = task.units if name in ("rmse", "mae") else (1.0,) * len(rows)
        known = [value / unit for row, unit in zip(rows, units, strict=True) if (value := row[name]) is not None]
        return float(np.mean(known)) if known else None

    found = {name: mean(name) for name in rows[0]}
    if len(rows) > 1:
        found |= {f"{name}_{place}": value for place, row in enumerate(rows) for name, value in row.items()}
    return found


def _target_metrics(values: NDArray[np.floating], y: NDArray[np.floating]) -> Metrics:
    """Return the metrics of one measured target (G,); None where one is not defined."""
    from scipy.stats import spearmanr

    known = ~np.isnan(y)
    values, y = values[known].astype(np.float64), y[known].astype(np.float64)
    if not len(y) or not np.isfinite(values).all():
        return dict.fromkeys(("rmse", "mae", "r2", "spearman"))
    error, spread = values - y, float(np.square(y - y.mean()).mean())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one value, or of equal values
        rank = float(spearmanr(values, y).statistic) if len(y) > 1 else math.nan
    return {
        "rmse": float(np.sqrt(np.square(error).mean())),
        "mae": float(np.abs(error).mean()),
        "r2": 1 - float(np.square(error).mean()) / spread if spread > least_spread(y) else None,
        "spearman": _known(rank),
    }


def _joined(parts: Sequence[Outputs]) -> Outputs:
    """Concatenate outputs of several parts."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _known(value: float) -> float | None:
    """Return the value, None if it is not a number: JSON has no NaN."""
    return value if math.isfinite(value) else None
