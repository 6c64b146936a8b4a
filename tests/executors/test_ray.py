"""Runs on a real Ray cluster of two nodes that share no folder with the caller, one of which is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goodformer import executors
from goodformer.apply.parts import predict_parts
from goodformer.cli import run as command
from goodformer.config.run import Hardware, RunConfig
from goodformer.engine.run import train
from goodformer.engine.store import Run, list_runs
from goodformer.errors import InputError
from goodformer.executors import ray as remote
from goodformer.executors.board import Status
from goodformer.fitted import FittedModel
from goodformer.methods import METHODS
from goodformer.registry import VARIABLE, import_plugin
from goodformer.report import compare
from tests.apply.molecules import FITTED
from tests.executors.cluster import two_nodes

SETTINGS = ["dataset.graphs=150", "model.dim=8", "training.epochs=30"]
PLAN = ["--dataset", "good-motif", "--methods", "erm", "--seeds", "2", *(w for s in SETTINGS for w in ("--set", s))]


@pytest.fixture
def _deadly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A method from a plugin that nodes must import by its name."""
    monkeypatch.setenv(VARIABLE, "tests.executors.deadly")
    import_plugin("tests.executors.deadly")
    yield
    METHODS.remove("deadly")


@pytest.mark.usefixtures("_deadly", "own_cache")
def test_a_killed_node_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Runs continue from the folder that arrived last, and the table is that of one machine."""
    configs = list(compare.plan({"name": "good-motif"}, "erm", 2, overrides=SETTINGS).configs.values())
    deadly = configs[0].with_overrides(["method=deadly"])
    monkeypatch.setattr(remote, "INTERVAL", 0.1)
    monkeypatch.setattr(remote, "LOST", 1)
    here, there = tmp_path / "here", tmp_path / "there"
    arrived: dict[str, list[dict[str, Any]]] = {}
    launched: list[str] = []
    launch = remote.Fleet._launch

    def noted(self: remote.Fleet, flight: remote.Flight) -> None:
        launch(self, flight)
        launched.append(flight.config.folder_name)

    monkeypatch.setattr(remote.Fleet, "_launch", noted)
    with two_nodes() as (cluster, nodes):
        predict_on_both_nodes(tmp_path)

        def kill(status: Status) -> None:
            begun = {run.folder.name: run.epochs for run in list_runs(there) if not run.finished and run.epochs}
            if not arrived and len(begun) == 2:
                arrived.update(begun)
                cluster.remove_node(nodes.pop(), allow_graceful=False)

        failures = executors.complete([*configs, deadly], there, "ray", watch=kill)
        assert failures.keys() == {deadly.id}
        assert "lost 2 times without a new epoch" in failures[deadly.id]
        assert len(arrived) == 2
        again = [name for name in set(launched) if launched.count(name) == 2]
        assert deadly.folder_name in again
        assert len(set(again) & arrived.keys()) == 1
        assert len(launched) == 3 + 2
        assert executors.complete(configs, there, "ray") == {}
        assert len(launched) == 3 + 2  # finished runs are not sent

    for config in configs:  # as the processes of the local executor do
        train(config, here, Hardware(progress=False, test_epochs=False))
    assert {run.folder.name for run in list_runs(there) if run.finished} == {one.folder_name for one in configs}
    for config in configs:
        ours, theirs = (Run(root / config.folder_name) for root in (here, there))
        assert [epoch["epoch"] for epoch in theirs.epochs] == [*range(1, 31)]
        before = [clock(epoch) for epoch in arrived.get(config.folder_name, [])]
        assert [clock(epoch) for epoch in theirs.epochs][: len(before)] == before  # they were not trained again
        assert computed(theirs.summary) == computed(ours.summary)
        for part in ("best", "last"):
            weights = [(run.folder / part / "weights.safetensors").read_bytes() for run in (ours, theirs)]
            assert weights[0] == weights[1]
        assert {path.name for path in theirs.folder.iterdir()} == {path.name for path in ours.folder.iterdir()}
    tables = []
    for root in (here, there):
        capfd.readouterr()
        assert (
            command(["compare", *PLAN, "--table-only", "--runs", str(root), "--records", str(tmp_path), "--json"]) == 0
        )
        tables.append(json.loads(capfd.readouterr().out)["rows"][0])
    assert tables[0]["ood_test"] == tables[1]["ood_test"]
    assert tables[0]["ood_test"]["mean"] is not None


def predict_on_both_nodes(tmp_path: Path) -> None:
    """Parts of a table are the same files, byte by byte, as on one machine."""
    model, table, watched = FittedModel.open(FITTED), FITTED / "new.csv", []
    reports = [
        predict_parts(model, table, tmp_path / name, 0.9, size=2, watch=watched.append, each=executors.each(name))
        for name in executors.EXECUTORS
    ]
    assert watched[:7] == [2, 4, 6, 8, 10, 12, 13]
    assert watched[-1] == 13
    for report in reports:
        assert (report["rows"], report["unreadable"], report["outside"], report["parts"]) == (13, 2, 2, 7)
    assert reports[0]["problems"] == reports[1]["problems"]
    for number in range(7):
        here, there = (tmp_path / name / f"part-{number:06d}.csv" for name in executors.EXECUTORS)
        assert here.read_bytes() == there.read_bytes()


def clock(epoch: dict[str, Any]) -> tuple[Any, ...]:
    """The loss of an epoch and how long it took, to the millisecond."""
    return epoch["epoch"], epoch["loss"], epoch["seconds"], epoch["eval_seconds"]


def computed(summary: dict[str, Any] | None) -> dict[str, Any]:
    """A record without what depends on the clock and the process."""
    assert summary is not None
    clock = ("seconds_per_epoch", "processor_seconds_per_epoch", "wall_seconds", "peak_memory_mb")
    return {name: value for name, value in summary.items() if name not in clock}


def test_what_is_wrong_on_a_node_comes_back_as_one_sentence() -> None:
    post, setup = (None, ("id", 1), 1.0), remote.setup()
    reason, said, _ = remote.train_run({}, {}, None, None, post, setup)
    assert str(reason).startswith("a run needs a data set")
    assert said == ""
    reason, said, _ = remote.train_run({}, {}, None, None, post, {**setup, "version": "0.0.1"})
    assert "the caller 0.0.1" in str(reason)
    assert said == ""
    values = {"dataset": "good-motif", "method": "erm", "model": "gin"}
    reason, said, _ = remote.train_run(values, {"progress": False}, object(), None, post, setup)
    assert str(reason).startswith("AttributeError: ")
    assert "Traceback" in said


@pytest.mark.parametrize(
    ("executor", "address", "sentence"),
    [
        ("rai", None, "did you mean ray"),
        ("local", "auto", "--executor ray"),
        ("ray", "ray://head:10001", "on a node of the cluster"),
        ("ray", "127.0.0.1:1", "cannot connect to Ray"),
    ],
)
def test_wrong_executors_are_refused(tmp_path: Path, executor: str, address: str | None, sentence: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'goodformer[dist]'")
    config = RunConfig(dataset="good-motif", method="erm", model="gin")
    with pytest.raises(InputError, match=sentence):
        executors.complete([config], tmp_path, executor, address=address)
