"""Runs of blends: members trained one by one, combined on validation, resumed, saved and used."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from goodformer.config.members import blend_of
from goodformer.config.run import RunConfig
from goodformer.data import load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.engine import combine as module
from goodformer.engine import record
from goodformer.engine.blend import member_run
from goodformer.engine.evaluate import collect, measure
from goodformer.engine.run import train
from goodformer.engine.store import Run, list_runs
from goodformer.engine.training import Training
from goodformer.engine.weights import load_weights
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.methods.blend import Blend
from tests.engine.tiny import QUIET, tiny_config


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return blend_of(tiny_config(training={"epochs": 2, "average": "ema"}), members=2, others=[])


@pytest.fixture(scope="module")
def run(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(config, tmp_path_factory.mktemp("blend"), QUIET)


def test_a_finished_blend_is_one_run_with_its_members_inside(run: Run, config: RunConfig) -> None:
    assert [one.folder for one in list_runs(run.folder.parent)] == [run.folder]
    members = list_runs(run.folder / "members")
    assert [one.config.seed for one in members] == [0, 1]
    assert all(one.finished and len(one.epochs) == 2 for one in members)
    assert run.config == config
    (epoch,), summary = run.epochs, run.summary
    assert summary is not None
    assert (summary["method"], summary["epochs"], summary["selected_epoch"]) == ("blend", 1, 1)
    assert summary["id_val"] == epoch["id_val"]["accuracy"]
    assert [one["run"] for one in summary["members"]] == [one.folder.name for one in members]
    assert sum(one["weight"] for one in summary["members"]) == pytest.approx(1, abs=1e-5)
    assert summary["parameters"] == 2 * members[0].summary["parameters"]


def test_the_progress_names_the_preset_of_each_member(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("goodformer.engine.run.train", stop)
    for preset, words in (("default", "erm, seed 0"), ("paper", "erm:paper, seed 0")):
        named = config.model_copy(update={"preset": preset})
        with pytest.raises(KeyboardInterrupt):
            train(named, tmp_path / preset, QUIET.model_copy(update={"progress": True}))
        assert capsys.readouterr().err.splitlines()[-1] == f"member 1 of 2: {words}"


def test_its_weights_predict_what_the_members_do(run: Run) -> None:
    model = FittedModel.of_run(run)
    graphs = model.prepare(load_benchmark(**run.config.dataset).splits["test"])
    members = [load_weights(one.weights("best"))[0] for one in list_runs(run.folder / "members")]
    batch = graphs.batch(list(range(len(graphs))))
    with torch.no_grad():
        z = torch.stack([one(batch).double() for one in members])
    t, w = (one[:, None, None] for one in (model.method.temperatures, model.method.weights))
    expected = (w * (z / t).softmax(-1)).sum(0)
    answer = model.predict(graphs)
    torch.testing.assert_close(answer.probabilities.double(), expected, atol=1e-6, rtol=1e-5)
    assert answer.spread.shape == (len(graphs),)
    assert model.members == 2
    assert FittedModel.of_run(run, "last").predict(graphs).logits.shape == answer.logits.shape


def test_a_saved_blend_says_the_same(run: Run, tmp_path: Path) -> None:
    splits = load_benchmark(**run.config.dataset).splits
    model = FittedModel.of_run(run).fit_uncertainty(splits["train"], splits["id_val"])
    again = FittedModel.load(model.save(tmp_path / "model"))
    one, two = (some.predict(splits["test"]) for some in (model, again))
    for name in ("logits", "probabilities", "domain_score", "spread"):
        assert torch.equal(getattr(one, name), getattr(two, name)), name
    spread = model.fit_uncertainty(splits["train"], splits["id_val"], "spread").predict(splits["test"])
    ordered = spread.domain_score[spread.spread.argsort()]
    assert bool((ordered.diff() >= 0).all())
    assert ordered[-1] > ordered[0]


def test_what_is_averaged_is_stored(config: RunConfig, tmp_path: Path) -> None:
    changed = config.with_overrides(["method.mean=log_odds"])
    assert changed.id != config.id
    run = train(changed, tmp_path, QUIET)
    method, file = load_weights(run.weights())
    assert isinstance(method, Blend)
    assert (method.mean, file.method["mean"]) == ("log_odds", "log_odds")
    assert method.weights.tolist() == [0.5, 0.5]
    FittedModel(method, file).save(tmp_path / "copy")
    again, _ = load_weights(tmp_path / "copy")
    assert isinstance(again, Blend)
    assert again.mean == "log_odds"


@pytest.mark.parametrize(
    "members",
    ["erm", [1], [{"model": {"name": "gin"}}], [{"model": {"name": "gin"}, "method": {"name": "ermm"}}] * 2],
)
def test_damaged_members_are_refused(run: Run, members: object, tmp_path: Path) -> None:
    for name in ("model.json", "weights.safetensors"):
        (tmp_path / name).write_bytes((run.folder / "best" / name).read_bytes())
    described = json.loads((tmp_path / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**described, "members": members}))
    with pytest.raises(InputError):
        load_weights(tmp_path)


def test_a_blend_stopped_in_its_second_member_goes_on_the_same(
    run: Run, config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Training.save

    def stop(self: Training) -> None:
        if self.config.seed == 1 and self.epoch == 2:
            raise RuntimeError("power cut")
        save(self)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "save", stop)
        with pytest.raises(RuntimeError, match="power cut"):
            train(config, tmp_path, QUIET)
    (broken,) = list_runs(tmp_path)
    assert not broken.finished
    first, second = list_runs(broken.folder / "members")
    assert (first.finished, second.finished, len(second.epochs)) == (True, False, 1)
    kept = (first.folder / "last.ckpt").stat().st_mtime_ns
    again = train(config, tmp_path, QUIET)
    assert (first.folder / "last.ckpt").stat().st_mtime_ns == kept
    for part in ("best", "last"):
        for name in ("weights.safetensors", "model.json"):
            assert (again.folder / part / name).read_bytes() == (run.folder / part / name).read_bytes()
    assert again.epochs[0]["test"] == run.epochs[0]["test"]


@pytest.mark.parametrize("commit", ["abc", "abc+", "def"])
def test_a_member_of_another_blend_is_copied_if_the_same_source_trained_it(
    config: RunConfig, run: Run, commit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "source_commit", lambda: "abc")
    first = train(config, tmp_path, QUIET)
    other = RunConfig.from_dict({**config.to_dict(), "preset": "other"}).with_overrides(["method.mean=log_odds"])
    trained, save = [], Training.save

    def note(self: Training) -> None:
        trained.append(self.config.seed)
        save(self)

    monkeypatch.setattr(Training, "save", note)
    monkeypatch.setattr(record, "source_commit", lambda: commit)
    second = train(other, tmp_path, QUIET)
    assert (trained == []) is (commit == "abc")
    shutil.rmtree(first.folder)  # a copy does not need it
    members = (second.summary or {})["members"]
    assert all(member_run(second, one["run"]).finished for one in members)
    assert {one["preset"] for one in members} == {"other"}
    assert [one["id_val"] for one in members] == [one["id_val"] for one in (run.summary or {})["members"]]


def permuted(benchmark: Benchmark, *names: str) -> Benchmark:
    """The same data with the labels of some splits in another order."""
    splits = dict(benchmark.splits)
    for name in names:
        graphs = splits[name]
        labels = {**graphs.graph, "y": graphs.graph["y"].flip(0)}
        splits[name] = GraphSet(graphs.node, graphs.edge, labels, graphs.node_ptr, graphs.edge_ptr)
    return replace(benchmark, splits=splits)


def test_labels_outside_the_selecting_split_change_nothing(run: Run, config: RunConfig, tmp_path: Path) -> None:
    data = load_benchmark(**config.dataset)
    other = train(config, tmp_path, QUIET, permuted(data, "test", "id_test", "id_val"))
    weights = [(one.folder / "best" / "weights.safetensors").read_bytes() for one in (run, other)]
    assert weights[0] == weights[1]
    assert run.epochs[0]["test"] != other.epochs[0]["test"]


def test_labels_of_validation_change_the_weights(run: Run) -> None:
    data, found = load_benchmark(**run.config.dataset), []
    for some in (data, permuted(data, "val")):
        method, _ = load_weights(run.weights())
        assert isinstance(method, Blend)
        module.combine(method, some.with_encodings(method.encodings).splits["val"])
        found.append([*method.weights.tolist(), *method.temperatures.tolist()])
    assert found[0] != found[1]
    saved = FittedModel.of_run(run).method
    assert found[0] == [*saved.weights.tolist(), *saved.temperatures.tolist()]


def test_the_metrics_of_validation_come_from_weights_that_did_not_see_its_labels(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load_benchmark(**run.config.dataset)
    method, _ = load_weights(run.weights())
    assert isinstance(method, Blend)
    graphs = data.with_encodings(method.encodings).splits["val"]
    honest = module.combine(method, graphs)
    outputs = collect(method, graphs, 256)
    assert not torch.equal(honest, outputs["logits"])
    assert run.summary["cross_fitted"] == "val"
    assert run.epochs[0]["val"] == measure(data.task, [{**outputs, "logits": honest}])

    graphs = data.with_encodings(method.encodings).splits["train"]  # more graphs, so that every fold learns
    first, y = int(collect(method, graphs, 256)["place"][0]), graphs.graph["y"].clone()
    y[first] = (y[first] + 1) % 3
    changed = GraphSet(graphs.node, graphs.edge, {**graphs.graph, "y": y}, graphs.node_ptr, graphs.edge_ptr)
    fixed = module.folds(torch.zeros(len(y)))  # else another label changes the folds
    monkeypatch.setattr(module, "folds", lambda _: fixed)
    same = (module.combine(method, graphs) == module.combine(method, changed)).all(1)
    assert same[0]  # its own label does not count, that of graphs in other folds does
    assert not same.all()


@pytest.mark.parametrize("y", [torch.arange(41) % 4 // 3, (torch.arange(41) % 4 // 3).float()[:, None]])
def test_folds_of_validation_have_the_same_share_of_each_class(y: torch.Tensor) -> None:
    held = module.folds(y)
    assert torch.stack(held).sum(0).tolist() == [1] * len(y)
    assert {int(y.flatten()[one].sum()) for one in held} == {2}
    assert {int(one.sum()) for one in held} <= {8, 9}
