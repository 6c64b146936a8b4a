"""Fitted models as ONNX files, for programs without Python or torch."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from goodformer import files
from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.methods.base import Method
from goodformer.spec import Encoding
from goodformer.uncertainty.calibration import Scaling

OUTPUTS = ("logits", "probabilities")
INSTALL = "exporting needs onnx and onnxscript; install them with: pip install 'goodformer[onnx]'."
DIMENSIONS = {"edge_index": {1: "edges"}, "edge_attr": {0: "edges"}, "ptr": {0: "starts"}}
"""Dimensions that differ from batch to batch; those of other inputs are the nodes."""
EXAMPLES = (
    ((0, 1, 1, 2, 2, 0, 2, 3), (1, 0, 2, 1, 0, 2, 3, 2)),
    ((0, 1, 1, 2, 2, 3, 3, 4), (1, 0, 2, 1, 3, 2, 4, 3)),
)
"""Edges of the graphs of 4 and 6 nodes that a model is traced with."""


class Exported(nn.Module):
    """A method as a function of tensors: logits and calibrated probabilities (B, C).

    Args:
        method: The method.
        names: Names of the inputs, in their order.
        scaling: The calibration; None for plain probabilities.
    """

    def __init__(self, method: Method, names: Sequence[str], scaling: Scaling | None) -> None:
        super().__init__()
        self.method, self.names, self.scaling = method, tuple(names), scaling

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and probabilities."""
        logits = self.method(Batch(**dict(zip(self.names, tensors, strict=True))))
        scaled = logits if self.scaling is None else self.scaling(logits)
        return logits, scaled.softmax(-1) if self.method.task.kind == "multiclass" else scaled.sigmoid()


def inputs(model: FittedModel, graphs: Any) -> dict[str, NDArray[Any]]:
    """Return what an exported model reads, by the names of its inputs: the graphs as one batch of numpy arrays.

    Args:
        model: The fitted model that was exported.
        graphs: SMILES, PyG or networkx graphs, or a `goodformer.data.graphs.GraphSet`.
    """
    ready = model.prepare(graphs).in_precision(torch.float)
    batch = ready.batch(range(len(ready)))
    return {name: batch[name].numpy() for name in input_names(model)}


def input_names(model: FittedModel) -> list[str]:
    """Return the names of the inputs in their order."""
    edges = [] if model.features.edge.kind == "constant" else ["edge_attr"]
    encodings = [Encoding.parse(text).attribute for text in model.method.encodings]
    return ["x", "edge_index", *edges, *encodings, "batch", "ptr"]


def export_onnx(model: FittedModel, path: str | Path) -> dict[str, Any]:
    """Write a fitted model as an ONNX file and check that it gives the same answers.

    Args:
        model: The fitted model. Models with attention and methods that are fitted at once cannot be exported.
        path: The file, which ends with ``.onnx``.

    Returns:
        The names of inputs and outputs, the classes, and the file.
    """
    place = Path(path)
    if place.suffix != ".onnx":
        raise InputError(f"{place} does not end with .onnx; rename it.")
    check_exportable(model)
    try:
        import onnx  # noqa: F401
        import onnxscript  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise InputError(INSTALL) from None
    names, feed = input_names(model), inputs(model, examples(model))
    scaling = None if model.uncertainty is None else model.uncertainty.scaling
    method = model.as_trained(deepcopy(model.method)).eval()
    dynamic = tuple(dict.fromkeys(DIMENSIONS.get(name, {0: "nodes"}), torch.export.Dim.DYNAMIC) for name in names)
    tensors = tuple(torch.from_numpy(feed[name]) for name in names)
    with _quiet():
        try:
            program = torch.onnx.export(
                Exported(method, names, scaling),
                tensors,
                dynamo=True,
                input_names=names,
                output_names=list(OUTPUTS),
                dynamic_shapes=(dynamic,),
                verbose=False,
            )
        except Exception as error:  # the exporter raises anything
            raise InputError(
                f"{model.file.method['name']} on {model.file.model['name']} cannot be exported to ONNX "
                f"({_reason(error)}); use goodformer predict, or fit erm on gin."
            ) from None
    assert program is not None
    about = {"classes": model.classes, "outputs": OUTPUTS, "inputs": names, "method": model.file.method["name"]}
    program.model.metadata_props["goodformer"] = json.dumps(about)
    files.make_folder(place.parent)
    files.write(place, lambda part: program.save(str(part)))
    return {**about, "file": str(place)}


def check_exportable(model: FittedModel) -> None:
    """Raise an error for methods and models whose operations depend on the values of a graph."""
    method = model.method
    if method.at_once or model.members > 1:
        raise InputError(
            f"method {model.file.method['name']} has no form in ONNX; use goodformer predict, or fit erm on gin."
        )


def examples(model: FittedModel) -> list[Any]:
    """Return two small graphs with the features of a model."""
    from torch_geometric.data import Data

    made = []
    for edges, nodes in zip(EXAMPLES, (4, 6), strict=True):
        index = torch.tensor(edges)
        values = {}
        for name, spec, rows in (("x", model.features.node, nodes), ("edge_attr", model.features.edge, index.shape[1])):
            if spec.kind == "categorical":
                values[name] = torch.zeros(rows, len(spec.sizes), dtype=torch.long)
            elif spec.kind == "continuous":
                values[name] = torch.zeros(rows, len(spec.sizes))
        made.append(Data(edge_index=index, num_nodes=nodes, **values))
    return made


def _reason(error: Exception) -> str:
    """Return the innermost cause of an exporter's error in a few words."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    words = " ".join(str(error).split())
    return words if len(words) <= 120 else f"{words[:117]}..."


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress what the exporter prints and warns."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)
