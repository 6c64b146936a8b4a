"""Runs on a real Ray cluster of two nodes that share no folder with the caller, one of which is killed."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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
from tests.apply.molecules import FITTED, write_table
from tests.executors.cluster import Nodes, two_nodes

pytestmark = pytest.mark.xdist_group("ray")  # one process, hence one cluster, for all of them
PROJECT = Path(__file__).parents[2]
SETTINGS = ["dataset.graphs=150", "model.dim=8", "training.epochs=30"]
PLAN = ["--dataset", "good-motif", "--methods", "erm", "--seeds", "2", *(w for s in SETTINGS for w in ("--set", s))]


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Nodes]:
    with two_nodes() as nodes:
        yield nodes


@pytest.fixture
def cluster(shared_cluster: Nodes) -> Nodes:
    """A cluster of two nodes, also if an earlier test has killed one of them."""
    shared_cluster.complete()
    return shared_cluster


@pytest.fixture
def _deadly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A method from a plugin that nodes must import by its name."""
    monkeypatch.setenv(VARIABLE, "tests.executors.deadly")
    import_plugin("tests.executors.deadly")
    yield
    METHODS.remove("deadly")


@pytest.mark.usefixtures("_deadly", "own_cache")
def test_a_killed_node_loses_and_doubles_nothing(
    cluster: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Runs continue from the folder that arrived last, and the table is that of one machine."""
    configs = list(compare.plan({"name": "good-motif"}, "erm", 2, overrides=SETTINGS).configs.values())
    deadly = configs[0].with_overrides(["method=deadly"])
    monkeypatch.setattr(remote, "INTERVAL", 0.1)
    monkeypatch.setattr(remote, "LOST", 1)
    here, there = tmp_path / "here", tmp_path / "there"
    arrived: dict[str, list[dict[str, Any]]] = {}
    launched: list[str] = []
    launch = remote.RemoteRuns._launch

    def noted(self: remote.RemoteRuns, one: remote.RemoteRun) -> None:
        launch(self, one)
        launched.append(one.config.folder_name)

    monkeypatch.setattr(remote.RemoteRuns, "_launch", noted)

    def kill(status: Status) -> None:
        begun = {run.folder.name: run.epochs for run in list_runs(there) if not run.finished and run.epochs}
        if not arrived and len(begun) == 2:
            arrived.update(begun)
            cluster.kill_one()

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


def noted(function: Callable[[Any], Any], log: Path) -> Callable[[Any], Any]:
    """A function that notes when it begins, so that a test sees which calls were repeated; sent to nodes by value."""

    def call(item: Any) -> Any:
        with log.open("a") as file:
            file.write(f"{item[0]}\n")
        time.sleep(0.3)
        return function(item)

    return call


def test_a_node_that_dies_during_a_prediction_changes_nothing(cluster: Nodes, tmp_path: Path) -> None:
    """Parts are the same files, byte by byte, as on one machine: none is missing, doubled or in another place."""
    model, table, log = FittedModel.open(FITTED), tmp_path / "rows.csv", tmp_path / "begun.txt"
    lines = (FITTED / "new.csv").read_text().splitlines()
    table.write_text("\n".join([lines[0], *lines[1:] * 3]) + "\n")
    watched: list[int] = []

    def watch(rows: int) -> None:
        watched.append(rows)
        if len(watched) == 4:
            cluster.kill_one()

    def each(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return executors.each("ray")(noted(function, log), items)

    here = predict_parts(model, table, tmp_path / "here", 0.9, size=2)
    there = predict_parts(model, table, tmp_path / "there", 0.9, size=2, watch=watch, each=each)
    begun = Counter(log.read_text().split())
    assert max(begun.values()) > 1  # at least one part was lost with its node and repeated
    assert len(begun) == there["parts"] == 20
    assert watched[-1] == 39
    assert len(watched) == 20
    untimed = [
        {key: value for key, value in one.items() if key not in ("rows_per_second", "out")} for one in (here, there)
    ]
    assert untimed[0] == untimed[1]
    assert untimed[0]["rows"] == 39
    names = sorted(path.name for path in (tmp_path / "here").glob("part-*"))
    assert names == sorted(path.name for path in (tmp_path / "there").glob("part-*"))
    for name in names:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    rows = [row for name in names for row in csv.DictReader((tmp_path / "there" / name).open())]
    assert [int(row["row"]) for row in rows] == [*range(1, 40)]
    done = [json.loads(line)["part"] for line in (tmp_path / "there" / "parts.jsonl").read_text().splitlines()]
    assert sorted(done) == [*range(20)]


@pytest.mark.usefixtures("own_cache")
def test_a_search_survives_its_driver_and_a_node(
    cluster: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same command continues the trials of a killed one; every score is that of a run on one machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote, "INTERVAL", 0.1)
    write_table(Path("mine.csv"))
    words = ["tune", "mine.csv", "-t", "nitro", "--split", "random", "--method", "erm", "--model", "gin", "-o", "found"]
    words += ["--epochs", "60", "--set", "model.dim=16", "--trials", "4", "--executor", "ray"]
    words += ["--address", cluster.address, "--json"]
    code = "import sys, goodformer.executors.ray as ray; ray.INTERVAL = 0.1\n"
    code += "from goodformer.cli import run; sys.exit(run(sys.argv[1:]))"
    driver = subprocess.Popen(
        [sys.executable, "-c", code, *words], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    try:
        before = begun(tmp_path, lambda: driver.poll() is None, 2)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert len(before) >= 2
    kept = {run.folder.name: [clock(epoch) for epoch in run.epochs] for run in list_runs("found/runs")}

    receive, killed = remote.RemoteRuns._receive, list[str]()

    def received(self: remote.RemoteRuns, ref: Any, one: remote.RemoteRun, *more: Any) -> None:
        receive(self, ref, one, *more)
        if not killed and one.epochs > len(kept.get(one.config.folder_name, [])) + 1:
            killed.append(one.config.folder_name)
            cluster.kill_one()

    monkeypatch.setattr(remote.RemoteRuns, "_receive", received)
    capfd.readouterr()
    assert command(words) == 0
    report = json.loads(capfd.readouterr().out)
    assert killed
    assert report["trials"] == 4
    assert sorted(one["trial"] for one in report["best"]) + ["pruned"] * report["pruned"] == [1, 2, 3, 4]
    for one in report["best"]:
        theirs = Run(tmp_path / "found" / "runs" / one["run"])
        early = kept.get(one["run"], [])
        assert [clock(epoch) for epoch in theirs.epochs][: len(early)] == early  # they were not trained again
        ours = train(theirs.config, "here", Hardware(progress=False, test_epochs=False))
        assert computed(theirs.summary) == computed(ours.summary)
        assert one["score"] == theirs.summary["splits"]["val"]["rocauc"]  # type: ignore[index]
    assert command(words) == 0  # nothing is left to do
    assert json.loads(capfd.readouterr().out) == report


def begun(place: Path, going: Callable[[], bool], runs: int) -> list[Run]:
    """Wait until some runs of a search have epochs here, and return them."""
    while going():
        found = [run for run in list_runs(place / "found" / "runs") if run.epochs and not run.finished]
        if len(found) >= runs:
            return found
        time.sleep(0.05)
    return []


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
