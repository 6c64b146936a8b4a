"""``goodformer fit`` on a user's own table."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from rdkit import Chem
from sklearn.metrics import roc_auc_score

from goodformer import cli
from goodformer.apply.card import card
from goodformer.apply.fit import fresh_folder
from goodformer.cli.fit import _show
from goodformer.config.members import MANY_CLASSES, MANY_VALUES
from goodformer.config.presets import member_name
from goodformer.data.splits.split import Split
from goodformer.fitted import FittedModel
from goodformer.spec import SPLIT_NAMES, SPLITS, split_names
from tests.apply.molecules import molecules, write_table
from tests.cli.conftest import Command

QUICK = ["--method", "erm", "--model", "gin", "--set", "model.dim=16", "--set", "training.batch_size=32"]
QUICK += ["--no-baseline", "--quiet"]


class Fitted(NamedTuple):
    """A fitted model, its report and what the command printed."""

    folder: Path
    report: dict[str, Any]
    out: str
    err: str


@pytest.fixture(scope="module")
def fitted(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """A model of 256 small molecules; two more rows of the table cannot be read."""
    place = tmp_path_factory.mktemp("own")
    write_table(place / "mine.csv")
    words = ["fit", place / "mine.csv", "--target", "nitro", "--split", "random", "--epochs", "2", *QUICK[:-1]]
    words += ["--set", "training.learning_rate=0.01", "-o", place / "model", "--runs", place / "runs"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert cli.run([str(word) for word in words]) == 0
    return Fitted(
        place / "model", json.loads((place / "model" / "report.json").read_text()), out.getvalue(), err.getvalue()
    )


def said(answer: Any) -> list[str]:
    """Return what a command wrote to stderr, except which file it reads."""
    return [line for line in answer.err.splitlines() if not line.startswith("reading ")]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_stored_training_rows_are_those_of_the_file(fitted: Fitted) -> None:
    """Rows 4 and 10 cannot be read, so rows and graphs are numbered differently."""
    table, training = rows_of(fitted.folder.parent / "mine.csv"), FittedModel.load(fitted.folder).training
    assert training is not None
    assert training.smiles is not None
    assert len(training) == training.total == fitted.report["counts"]["train"]
    split = Split.load(fitted.folder / "split.json")
    assert (training.rows - 1).tolist() == [row for row in split.rows("train").tolist() if row not in (3, 9)]
    for row, smiles, label in zip(training.rows.tolist(), training.smiles, training.labels, strict=True):
        assert (table[row - 1]["smiles"], table[row - 1]["nitro"]) == (smiles, label)


def test_the_report_counts_rows_and_lists_unreadable_ones(fitted: Fitted) -> None:
    report = fitted.report
    assert (report["rows"], report["unreadable"], report["graphs"]) == (258, 2, 256)
    assert [one["row"] for one in report["problems"]] == [4, 10]
    assert report["classes"] == {"nitro": ["no", "yes"]}
    assert sum(report["counts"].values()) == 256
    assert [row["row"] for row in rows_of(fitted.folder / "unreadable.csv")] == ["4", "10"]


def test_metrics_are_those_of_the_rows_of_each_split(fitted: Fitted, command: Command) -> None:
    """ROC-AUC by scikit-learn from written predictions and split.json against the report and the printed table."""
    write_table(Path("mine.csv"))
    assert command("predict", fitted.folder, "mine.csv", "-o", "answers.csv").code == 0
    rows, split = rows_of(Path("answers.csv")), Split.load(fitted.folder / "split.json")
    names = split_names(fitted.report["split"], fitted.report["given"])
    for code, (name, shown) in enumerate(names.items()):
        part = [row for row, one in zip(rows, split.part.tolist(), strict=True) if one == code]
        (line,) = [line.split() for line in fitted.out.splitlines() if line.startswith(shown)]
        assert fitted.report["counts"][name] == len(part) == int(line[-2])
        metric = fitted.report["splits"][name]["rocauc"]
        if metric is None:
            assert line[-1] == "-"
            continue
        truth, shares = [row["nitro"] == "yes" for row in part], [float(row["p_yes"]) for row in part]
        assert metric == pytest.approx(roc_auc_score(truth, shares), abs=0.01)  # shares have six digits, so ties
        assert line[-1] == f"{metric:.3f}"


def test_the_printed_table_has_each_number_in_the_row_of_its_split(capfd: pytest.CaptureFixture[str]) -> None:
    report = {
        "metric": "rocauc", "classes": {"y": ["no", "yes"]}, "method": "erm", "model": "gin", "file": "mine.csv",
        "files": [], "split": "size", "selected_epoch": 3, "epochs": 7, "selection": "ood_val", "graphs": 23,
        "distance": {}, "given": [], "coverage": {"splits": {}, "widths": ""},
        "rows": 31, "unreadable": 7, "problems": [{"row": n, "text": f"x{n}", "reason": "why"} for n in range(2, 9)],
        "notes": [], "folder": "mine", "counts": {split: n for n, split in enumerate(SPLITS, 2)},
        "splits": {split: {"rocauc": n / 10} for n, split in enumerate(SPLITS, 2)},
    }  # fmt: skip
    _show(report)
    out = capfd.readouterr().out
    for number, name in enumerate(SPLIT_NAMES.values(), 2):
        (line,) = [line for line in out.splitlines() if line.startswith(name)]
        assert line.split()[-2:] == [str(number), f"0.{number}00"]
    assert "calibration" in next(line for line in out.splitlines() if line.startswith("ID validation"))
    assert "choose the epoch" in next(line for line in out.splitlines() if line.startswith("OOD validation"))
    assert "3 of 7 (best on OOD validation)" in out
    (meaning,) = [line for line in out.splitlines() if line.startswith("ROC-AUC: ")]
    assert re.findall(r"\b(no|yes)\b", meaning) == ["yes", "no"]  # the second class is ranked above the first
    assert "predicts y: no or yes; 3 rows" in out  # 23 graphs, 20 of them in a split
    assert "7 of 31 rows" in out
    assert re.findall(r"row (\d): 'x(\d)'", out) == [(str(n), str(n)) for n in range(2, 7)]
    assert "2 more" in out
    assert "goodformer predict mine NEW.csv" in out


def test_parts_that_nobody_knows_to_shift_are_not_called_shifted(command: Command) -> None:
    smiles, labels = molecules()
    part = ["train", "train", "train", "test"]
    lines = [f"{one},{label},{part[n % 4]}" for n, (one, label) in enumerate(zip(smiles, labels, strict=True))]
    Path("mine.csv").write_text("\n".join(["smiles,nitro,set", *lines]))
    done = command("fit", "mine.csv", "--target", "nitro", "--split", "column:set", "--method", "linear", "-o", "model")
    assert done.code == 0, done.err
    report = json.loads(Path("model/report.json").read_text())
    assert report["given"] == ["train", "test"]
    assert "OOD" not in done.out + done.err + Path("model/card.md").read_text()
    rows = {line.split()[0]: line for line in done.out.splitlines() if line.strip()}
    assert "(given; " in rows["test"]
    assert "(taken from training rows; " in rows["validation"]
    page = Path("model/report.html").read_text()
    assert "OOD" not in page
    assert "shifted" not in done.out + page


def test_output_uses_one_name_per_split_and_no_keys(fitted: Fitted) -> None:
    for word in ("ood_val", "ood_test", "rocauc", "id_val", "shifted test", "OOD"):
        assert word not in fitted.out + fitted.err
    assert "\r" not in fitted.err  # redirected: no fragments of progress bars
    lines = [line for line in fitted.err.splitlines() if "epoch" in line and "/2" in line]
    assert len(lines) == 2  # one line per epoch


def test_each_target_has_its_own_classes(command: Command) -> None:
    words = {"yes": ("active", "toxic"), "no": ("inactive", "safe")}
    rows = [[row["smiles"], *words[row["nitro"]]] for row in write_table(Path("all.csv"), bad=False)]
    Path("two.csv").write_text("\n".join(",".join(row) for row in [["smiles", "a", "b"], *rows]))
    fit = command("fit", "two.csv", "-t", "a", "-t", "b", "--split", "random", "--epochs", "1", *QUICK, "-o", "both")
    assert fit.code == 0
    assert "predicts a: inactive or active; b: safe or toxic" in fit.out
    classes = {"a": ["inactive", "active"], "b": ["safe", "toxic"]}
    assert json.loads(Path("both/report.json").read_text())["classes"] == classes
    assert command("predict", "both", "two.csv", "-o", "answers.csv").code == 0
    found = rows_of(Path("answers.csv"))
    assert {row["a_predicted"] for row in found} <= {"inactive", "active"}
    assert all((float(row["b_p_toxic"]) > 0.5) == (row["b_predicted"] == "toxic") for row in found)
    assert all((float(row["a_p_active"]) > 0.5) == (row["a_predicted"] == "active") for row in found)
    assert command("predict", "both", "two.csv", "-o", "sets.csv", "--sets", "0.9").code == 0
    assert {"a_set", "b_set"} <= rows_of(Path("sets.csv"))[0].keys()
    assert all(row["b_predicted"] in row["b_set"].split("|") for row in rows_of(Path("sets.csv")))
    report = json.loads(Path("both/report.json").read_text())
    for split, found_metrics in report["splits"].items():
        assert found_metrics["rocauc"] == pytest.approx((found_metrics["rocauc_0"] + found_metrics["rocauc_1"]) / 2), (
            split
        )
    (line,) = [line.split() for line in fit.out.splitlines() if line.split()[:1] == ["b"]]
    assert [float(word) for word in line[1:]] == pytest.approx(
        [row["rocauc_1"] for row in report["splits"].values()], abs=5e-4
    )
    why = command("explain", "both", "two.csv", "-o", "why", "--count", "2")
    assert f"a {found[0]['a_predicted']}, b {found[0]['b_predicted']}" in why.out
    split = command("split", "two.csv", "-t", "a", "-t", "b", "--by", "random")
    assert "active in a, toxic in b" in split.out


def test_a_weak_split_is_noted_once_and_before_training(command: Command) -> None:
    rows = write_table(Path("all.csv"), bad=False)
    Path("mine.csv").write_text("\n".join(["smiles,nitro", *(f"{row['smiles']},{row['nitro']}" for row in rows)]))
    part = [4 if place == 0 else 3 if place < 30 else place % 3 for place in range(len(rows))]
    Split(torch.tensor(part), torch.zeros(len(part), dtype=torch.long)).save("split.json")
    fit = ["fit", "mine.csv", "-t", "nitro", "--split", "file:split.json", "--epochs", "1", *QUICK, "-o", "own"]
    done = command(*fit)
    assert done.code == 0
    (note,) = [line for line in done.err.splitlines() if "1 row" in line]
    assert note.startswith("note: ")
    assert note not in done.out
    assert note.removeprefix("note: ") in json.loads(Path("own/report.json").read_text())["notes"]
    assert note in command("split", "mine.csv", "-t", "nitro", "--by", "file:split.json", "-o", "again.json").out


@pytest.mark.parametrize("name", ["fit", "split"])
def test_a_table_without_a_molecule_names_the_first_rows(command: Command, name: str) -> None:
    Path("bad.csv").write_text("\n".join(["smiles,y", *(f"xx{row},{row % 2}" for row in range(1, 60))]))
    done = command(name, "bad.csv", "-t", "y")
    assert (done.code, done.out) == (2, "")
    assert [f"row {row} (xx{row}: " in done.err for row in (1, 5, 6)] == [True, True, False]
    assert "bad.csv (59 rows)" in done.err
    assert "54 more" in done.err


def test_a_table_too_small_to_fit_gets_the_error_alone(command: Command) -> None:
    Path("two.csv").write_text("smiles,y\nCCO,0\nCCN,1\n")
    done = command("fit", "two.csv", "-t", "y")
    assert done.code == 2
    assert "2 usable rows" in done.err
    assert len(said(done)) == 1


def test_molecules_of_an_sdf_file_are_fitted_by_scaffold(command: Command) -> None:
    with Chem.SDWriter("mine.sdf") as writer:
        for row in write_table(Path("mine.csv"), bad=False):
            mol = Chem.MolFromSmiles(row["smiles"])
            mol.SetProp("nitro", row["nitro"])
            writer.write(mol)
    fit = command("fit", "mine.sdf", "-t", "nitro", "--epochs", "1", *QUICK, "-o", "own")
    assert fit.code == 0
    assert "split by scaffold" in fit.out
    assert "goodformer predict own NEW.sdf" in fit.out
    assert command("predict", "own", "mine.csv", "-o", "answers.csv").code == 0  # SMILES work as well


def test_the_next_step_can_be_pasted_into_a_shell(command: Command) -> None:
    write_table(Path("mine.csv"))
    fit = command("fit", "mine.csv", "-t", "nitro", "--method", "linear", *QUICK[-2:], "--no-report", "-o", "mod ü")
    assert fit.code == 0
    (line,) = (line for line in fit.out.splitlines() if line.startswith("next:"))
    assert shlex.split(line)[1:] == ["goodformer", "predict", "mod ü", "NEW.csv", "-o", "answers.csv"]


def test_a_second_fit_replaces_the_first_and_says_so(command: Command) -> None:
    rows = write_table(Path("all.csv"), bad=False)
    lines = [";".join(row) for row in [list(rows[0]), *(list(row.values()) for row in rows)]]
    Path("clean.csv").write_text("\n".join(lines))
    Path("model").mkdir()
    Path("model/unreadable.csv").write_text("row,text,reason\n")
    words = ["fit", "clean.csv", "--target", "nitro", "--split", "random", "--epochs", "1", *QUICK, "-o", "model"]
    first = command(*words)
    assert first.code == 0
    assert "semicolons" in first.out
    assert not Path("model/unreadable.csv").exists()
    again = command(*words).err
    (run,) = Path("runs").glob("*/summary.json")
    assert str(run.parent) in again  # the finished run is not trained again
    assert str(run.parent) not in first.err
    other = command(*words, "--seed", "1", "--overwrite").err
    assert "earlier model" in other
    assert "earlier model" not in again


def test_a_model_is_not_written_among_other_files(command: Command) -> None:
    write_table(Path("mine.csv"))
    Path("docs").mkdir()
    Path("docs/index.md").write_text("mine")
    answer = command("fit", "mine.csv", "--target", "nitro", "-o", "docs")
    assert answer.code == 2
    assert "docs" in answer.err
    assert [one.name for one in Path("docs").iterdir()] == ["index.md"]


def test_a_refused_fit_leaves_no_folder(command: Command) -> None:
    write_table(Path("mine.csv"))
    Path("mine").mkdir()
    for words in (["-t", "nitor"], ["-t", "nitro", "--split", "scafold"]):
        for folder in ("new/deep", "mine"):
            assert command("fit", "mine.csv", *words, "-o", folder).code == 2
    assert sorted(one.name for one in Path().iterdir()) == ["mine", "mine.csv"]


@pytest.mark.parametrize("content", [None, "mine"])
def test_an_interrupted_fit_leaves_only_what_others_wrote(content: str | None, tmp_path: Path) -> None:
    def interrupted() -> None:
        with fresh_folder(tmp_path / "new" / "deep"):
            assert (tmp_path / "new" / "deep").is_dir()
            if content:
                (tmp_path / "new" / "mine.txt").write_text(content)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [one.name for one in tmp_path.rglob("*")] == (["new", "mine.txt"] if content else [])


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["two.csv", "--target", "y", "-o", "new.csv"], "new.csv"),
        (["new.csv", "--target", "label"], "'label'"),
        (["one.csv", "--target", "y"], "'y'"),
    ],
)
def test_bad_input_gets_one_line(command: Command, words: list[str], fact: str) -> None:
    Path("new.csv").write_text("smiles\nCC\n")
    Path("one.csv").write_text("smiles,y\nCC,1\nCCC,1\n")
    Path("two.csv").write_text("smiles,y\n" + "".join(f"{'C' * size},{size % 2}\n" for size in range(1, 40)))
    answer = command("fit", *words)
    assert answer.code == 2
    assert fact in answer.err
    assert len(said(answer)) == 1


@pytest.mark.skipif(
    not Path(os.environ.get("GOODFORMER_DATA", "none"), "bace").is_dir(),
    reason="GOODFORMER_DATA holds no bace/bace.csv",
)
def test_bace_and_bbbp_from_table_to_pictures(command: Command) -> None:
    data = Path(os.environ["GOODFORMER_DATA"])
    done = command("fit", data / "bace" / "bace.csv", "--target", "Class", "--epochs", "2", *QUICK, "-o", "bace")
    assert done.code == 0
    bbbp = data / "bbbp" / "BBBP.csv"
    said = command("predict", "bace", bbbp, "-o", "answers.csv", "--json").json
    assert (said["rows"], said["unreadable"]) == (2050, 11)
    assert said["outside"] > 0.2 * 2050
    Path("some.csv").write_text("".join(bbbp.read_text().splitlines(keepends=True)[:20]))
    assert command("explain", "bace", "some.csv", "--count", "4", "-o", "why").code == 0
    assert Path("why/subgraphs.png").is_file()


def test_members_are_averaged_and_their_spread_is_a_column(command: Command) -> None:
    write_table(Path("mine.csv"))
    words = ["--target", "nitro", "--split", "random", "--epochs", "1", *QUICK, "-o", "model"]
    answer = command("fit", "mine.csv", "--members", "2", *words)
    assert answer.code == 0, answer.err
    report = json.loads(Path("model/report.json").read_text())
    assert [one["seed"] for one in report["members"]] == [0, 1]
    seeds = [line.split()[1] for line in answer.out.splitlines() if line.startswith("erm ")]
    assert seeds == ["0", "1"]
    assert command("predict", "model", "mine.csv", "-o", "answers.csv", "--quiet").code == 0
    rows = rows_of(Path("answers.csv"))
    spread = [float(row["spread"]) for row in rows if not row["problem"]]
    assert 0 < max(spread) < 0.5
    assert [row["spread"] for row in rows if row["problem"]] == ["", ""]
    again = command("fit", "mine.csv", "--members", "2", *words)
    assert "table-blend" in again.err


def test_members_of_another_method_have_their_own_presets(command: Command) -> None:
    write_table(Path("mine.csv"))
    settings = ["--set", "method.of=gsat", "--set", "method.others=[forest]", "--set", "model.dim=16"]
    words = ["--target", "nitro", "--split", "random", "--epochs", "1", "--quiet", "--no-report", "-o", "model"]
    answer = command("fit", "mine.csv", "--method", "blend", *settings, *words)
    assert answer.code == 0, answer.err
    report = json.loads(Path("model/report.json").read_text())
    assert [member_name(one) for one in report["members"]] == ["gsat", "forest"]


def test_a_blend_with_a_forest_predicts_and_explains_as_one(command: Command) -> None:
    write_table(Path("mine.csv"))
    words = ["--target", "nitro", "--split", "random", "--epochs", "1", "--quiet", "-o", "model"]
    settings = ["method.of=erm", "method.members=1", "model.dim=16"]
    settings = [word for one in settings for word in ("--set", one)]
    answer = command("fit", "mine.csv", "--method", "blend", "--model", "gin", *settings, *words)
    assert answer.code == 0, answer.err
    report = json.loads(Path("model/report.json").read_text())
    assert [member_name(one) for one in report["members"]] == [
        "erm",
        "linear:shared",
        "linear:shared-pairs",
        "forest:shared",
        "forest:shared-pairs",
    ]
    assert not {row["run"] for row in report["baseline"]["rows"].values()} & {one["run"] for one in report["members"]}
    assert report["members"][0]["weight"] < 0.5  # one epoch is nothing beside a forest and a linear model
    assert report["splits"]["test"]["rocauc"] > 0.95
    shown = command("explain", "model", "mine.csv", "-o", "why", "--count", "3", "--json")
    assert shown.code == 0, shown.err
    assert shown.json["method"] == "blend"
    assert shown.json["fidelity"]["graphs"] == 3


@pytest.mark.parametrize(
    ("target", "members"),
    [
        ("nitro", ["gaussian-process:shared", "linear:shared", "forest:shared"]),
        ("size", ["gaussian-process", "linear", "forest:groups"]),
    ],
)
def test_small_tables_of_molecules_are_fitted_without_networks(
    target: str, members: list[str], command: Command
) -> None:
    write_table(Path("mine.csv"))
    rows = rows_of(Path("mine.csv"))
    lines = [f"{row['smiles']},{row['nitro']},{len(row['smiles']) + 0.5}" for row in rows]
    Path("mine.csv").write_text("\n".join(["smiles,nitro,size", *lines]) + "\n")
    answer = command("fit", "mine.csv", "--target", target, "--quiet", "-o", "model")
    assert answer.code == 0, answer.err
    report = json.loads(Path("model/report.json").read_text())
    assert [member_name(one) for one in report["members"]] == members
    assert all(member.at_once for member in FittedModel.load("model").method.members)
    shown = command("explain", "model", "mine.csv", "-o", "why", "--count", "2", "--json")
    assert shown.json["fidelity"]["graphs"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--method", "erm"],
        ["--preset", "paper"],
        ["--model", "gin"],
        ["--members", "3"],
        ["--epochs", "2"],
        ["--set", "training.epochs=2"],
    ],
)
def test_no_networks_excludes_what_is_about_networks(words: list[str], command: Command) -> None:
    write_table(Path("mine.csv"))
    answer = command("fit", "mine.csv", "--target", "nitro", "--no-networks", *words)
    assert answer.code == 2
    assert "networks" in answer.err
    assert len(said(answer)) == 1


def test_the_card_states_data_metrics_calibration_and_versions(fitted: Fitted) -> None:
    card, report = (fitted.folder / "card.md").read_text(), fitted.report
    cells = {
        row[0]: row[1:]
        for line in card.splitlines()
        if line.startswith("| ") and len(row := [cell.strip() for cell in line.strip("|").split("|")]) == 4
    }
    names = split_names(report["split"], report["given"])
    for split, name in names.items():
        assert cells[name][:2] == [str(report["counts"][split]), f"{report['splits'][split]['rocauc']:.3f}"]
    assert "258 rows, 2 of them unreadable; 256 are used" in card
    assert f"Epoch {report['selected_epoch']} of 2 was chosen: best on {names['val']}." in card
    assert f"torch {torch.__version__}" in card
    for split in ("id_test", "test"):
        errors = [f"{report['calibration'][split][when]['ece']:.3f}" for when in ("before", "after")]
        assert f"| {names[split]} | {' | '.join(errors)} |" in card


def test_the_calibration_of_the_card_is_that_of_the_written_probabilities(fitted: Fitted, command: Command) -> None:
    write_table(Path("mine.csv"))
    assert command("predict", fitted.folder, "mine.csv", "-o", "answers.csv").code == 0
    part = Split.load(fitted.folder / "split.json").part.tolist()
    rows = [row for row, one in zip(rows_of(Path("answers.csv")), part, strict=True) if one == SPLITS.index("test")]
    brier = sum((float(row["p_yes"]) - (row["nitro"] == "yes")) ** 2 for row in rows) / len(rows)
    assert fitted.report["calibration"]["test"]["after"]["brier"] == pytest.approx(brier, abs=1e-4)


def test_the_card_names_baselines_and_members() -> None:
    splits = {split: {"rocauc": 0.75} for split in SPLITS}
    report = {
        "file": "a.csv", "files": [], "rows": 10, "unreadable": 0, "targets": ["y"], "classes": {"y": ["0", "1"]},
        "standardise": "parent", "conflicts": 2, "split": "scaffold", "given": [], "counts": dict.fromkeys(SPLITS, 2),
        "distance": {}, "method": "blend", "model": "goodformer", "metric": "rocauc", "selection": "ood_val",
        "selected_epoch": 1, "epochs": 1, "splits": splits, "seed": 3, "run": "r", "notes": ["val has only 2 rows."],
        "baseline": {"best": "forest", "rows": {"forest": {"splits": {**splits, "test": {"rocauc": 0.25}}}}},
        "members": [
            {
                "method": "erm", "seed": 3, "epochs": 5, "weight": 0.25, "temperature": 1.5,
                "id_val": 0.625, "ood_test": 0.875,
            },
            {"method": "linear", "seed": 4, "epochs": 1, "weight": 0.75, "temperature": 1.0},
        ],
    }  # fmt: skip
    text = card(report)
    assert "| OOD test | 2 | 0.750 | 0.250 | testing only |" in text
    assert "| erm | 3 | 0.250 | 1.500 | 0.625 | - | - | 0.875 |" in text
    assert "| linear | 4 | 0.750 | 1.000 | - | - | - | - |" in text
    assert "Val has only 2 rows." in text
    assert "## Calibration" not in text


def test_help_and_pages_name_the_rows_from_which_networks_join(command: Command) -> None:
    root = Path(__file__).parents[2]
    pages = [(root / name).read_text(encoding="utf-8") for name in ("README.md", "docs/own-data.md", "CHANGELOG.md")]
    for text in (command("fit", "--help").out, *pages):
        words = " ".join(text.replace("│", " ").split())
        assert f"{MANY_CLASSES:,} training rows" in words
        assert re.search(rf"(?i)\bfrom {MANY_VALUES}\b", words)


def test_a_model_that_gives_every_test_row_the_same_class_is_pointed_out(command: Command) -> None:
    rows = [f"{'C' * (n % 40 + 1)}{'NO'[n % 2]},{'rare' if n % 11 == 0 else 'usual'}" for n in range(200)]
    Path("rare.csv").write_text("\n".join(["smiles,y", *rows]))
    words = ["--split", "random", "--method", "linear", "--no-baseline", "--no-report", "-o", "model"]
    notes = command("fit", "rare.csv", "-t", "y", *words, "--json").json["notes"]
    assert any(re.fullmatch(r"all \d+ test rows are predicted as usual: .*", note) for note in notes)
    write_table(Path("mine.csv"), bad=False)
    notes = command("fit", "mine.csv", "-t", "nitro", *words, "--overwrite", "--json").json["notes"]
    assert not any("are predicted as" in note for note in notes)
