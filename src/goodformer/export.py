"""Fitted models for others: as ONNX files, for programs without Python or torch, and as folders without data."""

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
from goodformer.methods.base import Method, link
from goodformer.uncertainty.calibration import Scaling

INSTALL = "exporting needs onnx and onnxscript; install them with: pip install 'goodformer[onnx]'."
COUNTS_KEPT = (
    "the Gaussian process in this model holds counts of the substructures of its training graphs, from which these may "
    "be reconstructed"
)
DIMENSIONS = {
    "edge_index": {1: "edges"},
    "edge_attr": {0: "edges"},
    "ptr": {0: "starts"},
    "positions": {0: "largest"},
}
"""Dimensions that differ from batch to batch; those of other inputs are the nodes."""
EXAMPLES = (
    (4, (0, 1, 1, 2, 2, 0, 2, 3), (1, 0, 2, 1, 0, 2, 3, 2)),
    (7, (0, 1, 1, 2, 2, 3, 3, 4), (1, 0, 2, 1, 3, 2, 4, 3)),
    (3, (0, 1), (1, 0)),
)
"""Nodes and edges of the graphs that a model is traced with; all their numbers differ, so that none is confused."""


class Exported(nn.Module):
    """A method as a function of tensors: logits (B, C), and calibrated probabilities or measured values (B, C).

    Args:
        method: The method.
        names: Names of the inputs, in their order.
        scaling: The calibration; None for plain probabilities.
    """

    def __init__(self, method: Method, names: Sequence[str], scaling: Scaling | None) -> None:
        super().__init__()
        self.method, self.names, self.scaling = method, tuple(names), scaling

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits, and probabilities or values."""
        logits = self.method(Batch(**dict(zip(self.names, tensors, strict=True))))
        task = self.method.task
        return logits, link(task, logits if self.scaling is None or task.measured else self.scaling(logits))


class _Recorded(Batch):
    """A batch that adds the names of the tensors that are read to a set."""

    def __init__(self, batch: Batch, names: set[str]) -> None:
        super().__init__(**vars(batch))
        self.__dict__["_names"] = names

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if isinstance(found, Tensor):
            object.__getattribute__(self, "_names").add(name)
        return found


def inputs(model: FittedModel, graphs: Any) -> dict[str, NDArray[Any]]:
    """Return what an exported model reads, by the names of its inputs: the graphs as one batch of numpy arrays.

    Args:
        model: The fitted model that was exported.
        graphs: SMILES, PyG or networkx graphs, or a `goodformer.data.graphs.GraphSet`.
    """
    names, batch = input_names(model), _batch(model, graphs)
    return {name: batch[name].numpy() for name in names}


def input_names(model: FittedModel) -> list[str]:
    """Return the names of the inputs that the prediction reads, in the order of a batch."""
    batch, read = _batch(model, examples(model)), set[str]()
    with torch.no_grad():
        model.method(_Recorded(batch, read))
    return [name for name in batch.keys() if name in read]  # noqa: SIM118 - a batch is no mapping


def _batch(model: FittedModel, graphs: Any) -> Batch:
    """Return graphs as one batch with the encodings of a model and the positions of its largest graph."""
    ready = model.prepare(graphs)
    batch = ready.batch(range(len(ready)))
    batch["positions"] = torch.arange(int(ready.sizes.max()))
    return batch


def check_export(path: str | Path) -> None:
    """Raise an error if a model cannot be exported: wrong ending, missing package, or a file that cannot be written."""
    place = Path(path)
    if place.suffix != ".onnx":
        raise InputError(f"{place} does not end with .onnx; rename it.")
    try:
        import onnx  # noqa: F401
        import onnxscript  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise InputError(INSTALL) from None
    files.check_writable(place)


def export_folder(model: FittedModel, folder: str | Path, with_counts: bool = False) -> Path:
    """Write a fitted model into a new folder, without rows of its data; `FittedModel.load` reads it.

    Args:
        model: The fitted model.
        folder: A new folder.
        with_counts: Whether the folder may hold counts of training graphs (`FittedModel.keeps_graphs`).
    """
    place = Path(folder)
    if model.keeps_graphs and not with_counts:
        raise InputError(f"{COUNTS_KEPT}; fit the model with {_without_counts(model)}, or share it with --with-counts.")
    if place.exists():
        raise InputError(f"{place} exists; name a new folder, so that it holds no row of any data.")
    return model.without_data().save(place)


def _without_counts(model: FittedModel) -> str:
    """Return options of `fit` for a model like this one that keeps no counts of training graphs."""
    if len(model.method.members) == 1:
        return "--method forest"
    if model.task.measured:
        return "--method blend --set method.of=linear --set 'method.others=[forest:groups]'"
    return "--method blend:molecules"


def export_onnx(model: FittedModel, path: str | Path) -> dict[str, Any]:
    """Write a fitted model as an ONNX file, in double precision as predictions are.

    Args:
        model: The fitted model.
        path: The file, which ends with ``.onnx``.

    Returns:
        The names of inputs and outputs, the classes, and the file.
    """
    place = Path(path)
    check_export(place)
    names, feed = input_names(model), inputs(model, examples(model))
    outputs = ("logits", "values" if model.task.measured else "probabilities")
    scaling = None if model.uncertainty is None else model.uncertainty.scaling
    method = _without_choices(deepcopy(model.method)).eval()
    dynamic = tuple(dict.fromkeys(DIMENSIONS.get(name, {0: "nodes"}), torch.export.Dim.DYNAMIC) for name in names)
    tensors = tuple(torch.from_numpy(feed[name]) for name in names)
    with _quiet():
        try:
            program = torch.onnx.export(
                Exported(method, names, scaling),
                tensors,
                dynamo=True,
                input_names=names,
                output_names=list(outputs),
                dynamic_shapes=(dynamic,),
                custom_translation_table={torch.ops.aten.index_add.default: _index_add},
                verbose=False,
            )
        except Exception as error:  # the exporter raises anything
            raise InputError(
                f"{model.file.method['name']} on {model.file.model['name']} cannot be exported to ONNX "
                f"({_reason(error)}); use goodformer predict, or fit another method."
            ) from None
    assert program is not None
    about = {"classes": model.classes, "outputs": outputs, "inputs": names, "method": model.file.method["name"]}
    program.model.metadata_props["goodformer"] = json.dumps(about)
    files.write(place, lambda part: program.save(str(part)))
    return {**about, "file": str(place)}


def _index_add(base: Any, dim: int, index: Any, source: Any, alpha: float = 1) -> Any:
    """Write ``base.index_add(dim, index, source)`` in ONNX.

    The exporter's own translation is ScatterND, whose threads in onnxruntime add to the same element at once and lose
    terms. ScatterElements adds one term after the other.
    """
    import onnxscript

    assert alpha == 1
    op: Any = onnxscript.opset18
    others = [axis for axis in range(len(source.shape)) if axis != dim % len(source.shape)]
    places = op.Expand(op.Unsqueeze(index, op.Constant(value_ints=others)), op.Shape(source)) if others else index
    return op.ScatterElements(base, places, source, axis=dim, reduction="add")


def _without_choices(method: Method) -> Method:
    """Settle what the layers of a method otherwise decide by looking at values."""
    for module in method.modules():
        if callable(settle := getattr(module, "settle", None)):
            settle()
    return method


def examples(model: FittedModel) -> list[Any]:
    """Return small graphs with the features of a model."""
    from torch_geometric.data import Data

    made = []
    for nodes, *edges in EXAMPLES:
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
