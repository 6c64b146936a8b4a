"""How sure a run may be: measured, recorded, ranked."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import goodformer as gf
from goodformer import cli
from goodformer.data.splits.split import Split
from goodformer.engine.store import export_results
from goodformer.fitted import FittedModel
from goodformer.registry import InputError
from goodformer.report import tables
from goodformer.report import uncertainty as sureness
from goodformer.spec import SPLITS, Task
from goodformer.uncertainty.observe import Seen
from goodformer.uncertainty.uncertainty import DEFAULT

BASIS = {"name": "good-motif", "domain": "basis", "graphs": 200}
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gf.Run:
    """A finished run of GOODFormer."""
    config = gf.configure(BASIS, overrides=["training.epochs=1", "model.dim=16"])
    return gf.train(config, tmp_path_factory.mktemp("runs"), gf.Hardware(progress=False))


@pytest.fixture(scope="module")
def record(run: gf.Run) -> dict[str, Any]:
    return sureness.measure_run(run, alpha=0.1)


def made(
    auroc: dict[str, float], dataset: str = "a", identity: str = "1", val: dict[str, float] | None = None
) -> dict[str, Any]:
    """A record as far as ranking looks at it; validation says half of what test does where it is not given."""
    figures = {
        name: {
            "id_test": {"outside": 0.05},
            "val": {"auroc": (val or {}).get(name, value / 2), "fpr95": 0.5, "outside": 0.1},
            "test": {"auroc": value, "fpr95": 1 - value, "outside": value},
        }
        for name, value in auroc.items()
    }
    place = {"dataset": dataset, "domain": "d", "shift": "s"}
    return {"kind": "sureness", "id": identity, "weights": "best", **place, "scores": figures}


def test_a_record_says_who_and_what(run: gf.Run, record: dict[str, Any]) -> None:
    assert (record["id"], record["dataset"], record["method"], record["seed"]) == (
        run.config.id,
        "good-motif",
        "goodformer",
        0,
    )
    assert {"commit", "versions", "machine", "domain", "shift", "weights"} <= set(record)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert list(record["scores"]) == list(sureness.DOMAIN_SCORES)
    assert record["graphs"]["train"] == len(gf.load_benchmark(**BASIS).splits["train"])


def test_figures_are_those_of_the_predictor(run: gf.Run, record: dict[str, Any], tmp_path: Path) -> None:
    """The share outside, coverage and loss follow from what the predictor says graph by graph."""
    sureness.save(run, "best", alpha=0.1)
    predictor = FittedModel.of_run(run)
    assert predictor.sureness is not None
    for split in sureness.MEASURED:
        graphs = gf.load_benchmark(**BASIS).splits[split]
        answer, y = predictor.predict(graphs), graphs.graph["y"]
        assert answer.outside is not None
        assert answer.calibrated is not None
        default = record["scores"][record["default"]][split]
        assert default["outside"] == pytest.approx(float(answer.outside.double().mean()))
        loss = -answer.calibrated.double().gather(1, y[:, None]).log().mean()
        assert record["calibration"][split]["after"]["nll"] == pytest.approx(float(loss), rel=1e-4)
        held = predictor.sureness.sets(answer.logits, 0.9).gather(1, y[:, None])
        assert record["conformal"][split]["coverage"] == pytest.approx(float(held.double().mean()))
    sureness_free = FittedModel(predictor.method, predictor.file)
    assert torch.equal(sureness_free.predict(graphs).logits, answer.logits)


def split_by_hand(seed: int, shift: float = 0.0, lost: bool = False) -> Seen:
    """Graphs whose embeddings lie elsewhere by ``shift``, and whose logits say nothing of their labels if ``lost``."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (600,), generator=draw)
    said = y[torch.randperm(600, generator=draw)] if lost else y
    logits = torch.randn(600, 3, generator=draw) + 4 * torch.eye(3)[said]
    embedding = torch.randn(600, 4, generator=draw) + torch.tensor([9.0, 0, 0, shift])
    statistics = torch.randn(600, 5, generator=draw)
    return Seen(logits.double(), statistics.double(), embedding.double(), {}, y)


def test_moved_embeddings_are_detected_and_wrong_labels_uncovered() -> None:
    """Splits made by hand: test graphs lie elsewhere and their labels have nothing to do with the logits."""
    splits = {name: split_by_hand(seed) for seed, name in enumerate(("train", "id_val", "id_test", "val"))}
    found = sureness.measure(Task(), {**splits, "test": split_by_hand(9, shift=9.0, lost=True)})
    for name in ("mahalanobis", "neighbours"):
        assert found["scores"][name]["test"]["auroc"] > 0.99
        assert found["scores"][name]["test"]["outside"] > 0.95
        assert found["scores"][name]["val"]["auroc"] == pytest.approx(0.5, abs=0.08)
    assert found["scores"]["statistics"]["test"]["auroc"] == pytest.approx(0.5, abs=0.08)
    assert found["conformal"]["id_test"]["coverage"] > 0.85
    assert found["conformal"]["test"]["coverage"] < 0.6
    assert found["calibration"]["test"]["after"]["ece"] > 0.3


def test_validation_is_told_from_validation_and_test_from_test() -> None:
    """In-distribution test graphs moved aside as far as shifted ones: test is no longer told apart, validation is."""
    splits = {name: split_by_hand(seed) for seed, name in enumerate(("train", "id_val"))}
    moved = {name: split_by_hand(seed, shift=9.0) for seed, name in enumerate(("id_test", "val", "test"), 4)}
    found = sureness.measure(Task(), splits | moved)
    assert found["against"] == {"val": "id_val", "test": "id_test"}
    assert found["scores"]["neighbours"]["val"]["auroc"] > 0.99
    assert found["scores"]["neighbours"]["test"]["auroc"] == pytest.approx(0.5, abs=0.08)


def test_what_is_there_is_measured() -> None:
    splits = {name: split_by_hand(seed) for seed, name in enumerate(("train", "id_val", "id_test"))}
    inside = sureness.measure(Task(), splits)
    assert [list(inside[part]) for part in ("calibration", "conformal")] == [["id_test"], ["id_test"]]
    assert all(list(row) == ["id_test"] for row in inside["scores"].values())
    del splits["id_test"]
    outside = sureness.measure(Task(), {**splits, "test": split_by_hand(9, shift=9.0)})
    row = outside["scores"]["neighbours"]["test"]
    assert (row["auroc"], row["fpr95"]) == (None, None)  # nothing to tell it from
    assert row["outside"] > 0.95


@pytest.fixture(scope="module")
def unshifted(tmp_path_factory: pytest.TempPathFactory) -> gf.Run:
    """A run on one's own table whose split has no shifted graph."""
    folder = tmp_path_factory.mktemp("table")
    rows = [f"{'C' * (1 + k % 9)}{'O' if k % 2 else 'N'},{k % 2}" for k in range(90)]
    (folder / "mine.csv").write_text("\n".join(("smiles,label", *rows)))
    part = torch.tensor([SPLITS.index(name) for name in ("train", "id_val", "id_test")])[torch.arange(90) % 3]
    Split(part, torch.zeros(90, dtype=torch.long), (), "none").save(folder / "split.json")
    data = {"name": "table", "path": str(folder / "mine.csv"), "target": ["label"]}
    config = gf.configure(
        {**data, "split": f"file:{folder / 'split.json'}"},
        method="erm",
        model="gin",
        overrides=["training.epochs=1", "training.selection=id_val", "model.dim=8"],
    )
    return gf.train(config, folder / "runs", gf.Hardware(progress=False))


def test_a_run_without_shifted_graphs_is_measured_and_ranked(
    unshifted: gf.Run, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sureness.jsonl"
    assert cli.run(["sureness", str(unshifted.folder), "--export", str(path)]) == 0
    out = capfd.readouterr().out
    assert "test, in distribution" in out
    assert "test, shifted" not in out
    (found,) = sureness.read_records(path)
    assert found["graphs"] == {"train": 30, "id_val": 30, "id_test": 30, "val": 0, "test": 0}
    assert {row["auroc_val"] for row in sureness.rank([found])} == {None}
    assert cli.run(["sureness", "--records", str(path)]) == 0
    assert " | - | " in sureness.markdown([found])


def test_a_run_counts_once_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "sureness.jsonl"
    assert sureness.export(made({"energy": 0.5}), path) == 1
    assert sureness.export(made({"energy": 0.6}, identity="2"), path) == 2
    assert sureness.export(made({"energy": 0.9}), path) == 2
    assert [line["scores"]["energy"]["test"]["auroc"] for line in sureness.read_records(path)] == [0.9, 0.6]


def test_two_that_export_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sureness.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda k: sureness.export(made({"energy": 0.5}, identity=str(k)), path), range(40)))
    assert {line["id"] for line in sureness.read_records(path)} == {str(k) for k in range(40)}


def test_results_of_runs_do_not_take_the_place_of_records(run: gf.Run, tmp_path: Path) -> None:
    path = tmp_path / "sureness.jsonl"
    sureness.export(made({"energy": 0.5}, identity=run.config.id), path)
    with pytest.raises(InputError, match="choose another file"):
        export_results([run], path)


def test_files_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_text('{"id": "1"}\n')
    with pytest.raises(InputError, match="did not write"):
        sureness.export(made({"energy": 0.5}), tmp_path / "runs.jsonl")
    with pytest.raises(InputError, match="no file"):
        sureness.read_records(tmp_path / "none.jsonl")


def test_data_sets_count_alike_however_many_runs_they_have() -> None:
    records = [
        made({"energy": 0.6, "mahalanobis": 0.7}, "a", "1"),
        made({"energy": 0.8, "mahalanobis": 0.7}, "a", "2"),
        made({"energy": 0.9, "mahalanobis": 0.7, "temperature": 1.0}, "b", "3"),
    ]
    rows = {row["score"]: row for row in sureness.rank(records)}
    assert rows["energy"]["auroc"] == pytest.approx((0.7 + 0.9) / 2)
    assert (rows["energy"]["lowest"], rows["energy"]["runs"], rows["energy"]["data_sets"]) == (0.6, 3, 2)
    assert list(rows) == ["temperature", "energy", "mahalanobis"]
    assert sureness.best(records) == "energy"  # the temperature is not everybody's


def test_test_graphs_have_no_say_in_what_is_chosen() -> None:
    """The best on test is last on validation, and a baseline that reads no model is first."""
    test = {"energy": 0.9, "neighbours": 0.7, "statistics": 0.2}
    records = [made(test, val={"energy": 0.6, "neighbours": 0.8, "statistics": 0.95})]
    rows = sureness.rank(records)
    assert [row["score"] for row in rows] == ["statistics", "neighbours", "energy"]
    assert [row["auroc"] for row in rows] == [0.2, 0.7, 0.9]
    assert sureness.best(records) == "neighbours"


def test_the_default_is_what_the_records_speak_for() -> None:
    records = sureness.read_records(Path(__file__).parents[2] / "results" / "sureness.jsonl")
    assert sureness.best(records) == DEFAULT


def test_tables_stand_between_the_markers_of_a_page(record: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- sureness: begin -->\nold\n<!-- sureness: end -->\nmore\n")
    assert sureness.write([record], page)
    assert not sureness.write([record], page)
    text = page.read_text()
    assert "old" not in text
    assert text.endswith("<!-- sureness: end -->\nmore\n")
    cells = [f"{record['conformal'][split]['coverage']:.3f}" for split in ("id_test", "test")]
    assert "| good-motif / basis / covariate | goodformer | goodformer | 1 | " in text
    assert f" | {cells[0]} | {cells[1]} | " in text
    assert "| `neighbours` | " in text


def test_the_page_of_the_documentation_holds_the_tables_of_the_records() -> None:
    root = Path(__file__).parents[2]
    records = sureness.read_records(root / "results" / "sureness.jsonl")
    assert sureness.markdown(records) in (root / "docs" / "sureness.md").read_text(encoding="utf-8")


def test_records_of_sureness_are_no_records_of_runs(tmp_path: Path) -> None:
    summary = {"id": "1", "dataset": "a", "ood_test": 0.5}
    (tmp_path / "runs.jsonl").write_text(json.dumps(summary) + "\n")
    sureness.export(made({"energy": 0.5}), tmp_path / "sureness.jsonl")
    assert tables.read_records(tmp_path) == [summary]


def test_the_command_prints_exports_and_ranks(
    run: gf.Run, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "sureness.jsonl"
    assert cli.run(["sureness", str(run.folder), "--export", str(path)]) == 0
    out = capfd.readouterr().out
    for words in ("neighbours *", "entropy_gap", "ece after", "coverage", "test, shifted"):
        assert words in out
    assert cli.run(["sureness", "--records", str(path), "--json"]) == 0
    assert {row["score"] for row in json.loads(capfd.readouterr().out)["scores"]} == set(sureness.DOMAIN_SCORES)
    assert cli.run(["sureness", "--records", str(path)]) == 0
    assert "best on validation, of those with a model that every run has: " in capfd.readouterr().out
    for wrong in ([], [str(run.folder), "--records", str(path)]):
        assert cli.run(["sureness", *wrong]) == 2
        assert "either a RUN" in capfd.readouterr().err
