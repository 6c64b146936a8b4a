"""Predictions kept with a run: they are those the metrics were computed from, of the graphs they claim."""

from __future__ import annotations

import hashlib
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from goodformer.data import Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.engine import predictions
from goodformer.engine.run import train
from goodformer.engine.store import Run, export_results
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from tests.engine.tiny import QUIET, tiny_config


def entry(run: Run) -> dict[str, object]:
    assert run.summary is not None
    found: dict[str, object] = run.summary["predictions"]
    return found


def kept(run: Run) -> dict[str, predictions.Kept]:
    return predictions.read(run.folder / "predictions.npz", str(entry(run)["sha256"]))


def test_the_metrics_of_the_record_follow_from_the_file(finished: Run) -> None:
    summary, found = finished.summary, kept(finished)
    assert summary is not None
    assert set(found) == {"id_val", "val", "id_test", "test"}
    for split, one in found.items():
        assert one.logits.dtype == np.float32
        accuracy = (one.logits.argmax(1) == one.y).mean()
        assert accuracy == pytest.approx(summary["splits"][split]["accuracy"])


def test_graphs_keep_their_order(finished: Run, benchmark: Benchmark) -> None:
    model = FittedModel.of_run(finished)
    for split, one in kept(finished).items():
        graphs = benchmark.splits[split]
        assert one.y.tolist() == graphs.graph["y"].tolist()
        alone = model.method.predict(model.prepare(graphs).batch([3])).logits
        assert one.logits[3] == pytest.approx(alone[0].detach().numpy(), abs=1e-5)


def test_a_run_that_leaves_the_tests_for_the_end_keeps_the_same(finished: Run, tmp_path: Path) -> None:
    late = train(tiny_config(), tmp_path, QUIET.model_copy(update={"test_epochs": False}))
    assert entry(late) == entry(finished)
    assert late.summary is not None
    assert finished.summary is not None
    assert late.summary["splits"] == finished.summary["splits"]


def test_a_changed_file_is_refused(finished: Run, tmp_path: Path) -> None:
    path = tmp_path / "predictions.npz"
    shutil.copy(finished.folder / path.name, path)
    with pytest.raises(InputError, match="does not belong"):
        predictions.read(path, "0" * 64)
    with pytest.raises(InputError, match="cannot read"):
        predictions.read(tmp_path / "none.npz", "0" * 64)
    for content in (b"text", _archive(logits=np.ones((3, 2))), _archive(logits=np.array([{}], dtype=object))):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a file of predictions"):
            predictions.read(path, hashlib.sha256(content).hexdigest())
    short = {f"{split}/{name}": np.ones((3, 1)) for split in predictions.KEPT for name in ("logits", "y")}
    content = _archive(**short | {"val/y": np.ones((2, 1))})
    path.write_bytes(content)
    with pytest.raises(InputError, match="3 predictions for 2 labels of val"):
        predictions.read(path, hashlib.sha256(content).hexdigest())


def _archive(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def test_export_copies_predictions_on_request(finished: Run, tmp_path: Path) -> None:
    export_results([finished], tmp_path / "plain" / "a.jsonl")
    assert not (tmp_path / "plain" / "predictions").exists()
    export_results([finished], tmp_path / "b.jsonl", predictions=True)
    copy = tmp_path / "predictions" / f"{finished.config.id}.npz"
    assert copy.read_bytes() == (finished.folder / "predictions.npz").read_bytes()


def test_fingerprints_see_every_change(benchmark: Benchmark) -> None:
    graphs = benchmark.splits["test"]

    def with_(**parts: torch.Tensor) -> GraphSet:
        fields = {**graphs.tensors(), **{name.replace("_", "/", 1): value for name, value in parts.items()}}
        return GraphSet.from_tensors(fields)

    same = predictions.fingerprint(graphs)
    assert same == predictions.fingerprint(with_())
    order = torch.arange(len(graphs)).roll(1)
    labels = graphs.graph["y"].clone()
    labels[0] = (labels[0] + 1) % 3
    features = graphs.node["x"].clone()
    features[5] += 1
    index = graphs.edge["index"].clone()
    index[0, 4] += 1
    changed = [graphs.subset(order), with_(graph_y=labels), with_(node_x=features), with_(edge_index=index)]
    assert len({same, *map(predictions.fingerprint, changed)}) == 5


def test_keys_belong_to_graphs_not_to_places(benchmark: Benchmark) -> None:
    graphs = benchmark.splits["test"]
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0))
    assert (predictions.graph_keys(graphs)[order] == predictions.graph_keys(graphs.subset(order))).all()
    assert len(np.unique(predictions.graph_keys(graphs))) > 0.9 * len(graphs)


def test_a_split_without_graphs_is_kept_too(benchmark: Benchmark, tmp_path: Path) -> None:
    path, empty = tmp_path / "it.npz", benchmark.splits["val"].subset([])
    splits = {**benchmark.splits, "val": empty, "test": empty}
    logits = {split: torch.zeros(len(splits[split]), 3) for split in predictions.KEPT}
    found = predictions.read(path, predictions.keep(path, logits, splits, benchmark.task)["sha256"])
    assert (found["test"].logits.shape, found["test"].y.shape, found["id_val"].logits.shape[1]) == ((0, 3), (0,), 3)
