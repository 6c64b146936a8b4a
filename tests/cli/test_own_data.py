"""A user's own table from the command line: fit, predict, explain."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from rdkit import Chem

from goodformer import cli
from goodformer.apply.explain import Shown
from goodformer.apply.fit import fresh_folder
from goodformer.data.readers.rows import read_collection
from goodformer.data.splits.split import Split
from tests.apply.molecules import write_table
from tests.cli.conftest import Command

QUICK = ["--method", "erm", "--model", "gin", "--set", "model.dim=16", "--set", "training.batch_size=32", "--quiet"]


@pytest.fixture(scope="module")
def model(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of small molecules, two rows of whose table cannot be read."""
    place = tmp_path_factory.mktemp("own")
    write_table(place / "mine.csv")
    words = ["fit", place / "mine.csv", "--target", "nitro", "--split", "random", "--epochs", "8", *QUICK]
    words += ["--set", "training.learning_rate=0.01", "-o", place / "model", "--runs", place / "runs"]
    assert cli.run([str(word) for word in words]) == 0
    return place / "model"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_report_tells_what_was_fitted_and_what_could_not_be_read(model: Path) -> None:
    report = json.loads((model / "report.json").read_text())
    assert (report["rows"], report["unreadable"], report["graphs"]) == (258, 2, 256)
    assert [one["row"] for one in report["problems"]] == [4, 10]
    assert report["classes"] == {"nitro": ["no", "yes"]}
    assert sum(report["counts"].values()) == 256
    assert (report["splits"]["id_test"]["rocauc"] or 0) > 0.9
    assert [row["row"] for row in rows_of(model / "unreadable.csv")] == ["4", "10"]


def test_every_row_comes_out_in_order_with_its_columns(model: Path, command: Command) -> None:
    given = write_table(Path("new.csv"))
    answer = command("predict", model, "new.csv", "-o", "answers.csv", "--sets", "0.9", "--json")
    assert answer.code == 0
    assert (answer.json["rows"], answer.json["unreadable"]) == (258, 2)
    found = rows_of(Path("answers.csv"))
    assert [{name: row[name] for name in ("name", "smiles", "nitro")} for row in found] == given
    broken, fine = found[3], [row for row in found if not row["problem"]]
    assert broken["predicted"] == broken["p_yes"] == broken["domain_score"] == ""
    assert "open parentheses" in broken["problem"]
    assert sum(row["predicted"] == row["nitro"] for row in fine) > 0.9 * len(fine)
    for row in fine:
        assert abs(float(row["p_no"]) + float(row["p_yes"]) - 1) < 1e-5
        assert row["predicted"] in row["set"].split("|")


def test_the_size_of_blocks_changes_no_answer(model: Path, tmp_path: Path) -> None:
    from goodformer.apply.predict import predict_file
    from goodformer.apply.trained import Trained

    write_table(tmp_path / "new.csv")
    made = {size: tmp_path / f"{size}.csv" for size in (7, 1024)}
    for size, path in made.items():
        predict_file(Trained.open(model), tmp_path / "new.csv", path, size=size)
    small, large = (rows_of(path) for path in made.values())
    for one, other in zip(small, large, strict=True):
        assert one["predicted"] == other["predicted"]
        assert abs(float(one["p_yes"] or 0) - float(other["p_yes"] or 0)) < 1e-4


def test_an_input_column_is_never_overwritten(model: Path, command: Command) -> None:
    Path("new.csv").write_text("smiles,predicted\nCC,mine\n")
    assert command("predict", model, "new.csv", "-o", "out.csv", "--quiet").code == 0
    row = rows_of(Path("out.csv"))[0]
    assert row["predicted"] == "mine"
    assert row["goodformer_predicted"] in ("no", "yes")


def test_answers_to_answers_lose_nothing(model: Path, command: Command) -> None:
    Path("new.csv").write_text("smiles,predicted,goodformer_predicted\nCC,mine,theirs\n")
    assert command("predict", model, "new.csv", "-o", "out.csv", "--quiet").code == 0
    row = rows_of(Path("out.csv"))[0]
    assert (row["predicted"], row["goodformer_predicted"]) == ("mine", "theirs")
    assert row["goodformer_goodformer_predicted"] in ("no", "yes")


def test_a_model_that_lost_its_sureness_is_refused(model: Path, command: Command) -> None:
    shutil.copytree(model, "copy")
    Path("copy/sureness.json").unlink()
    Path("new.csv").write_text("smiles\nCC\n")
    answer = command("predict", "copy", "new.csv", "-o", "out.csv")
    assert answer.code == 2
    assert "how sure" in answer.err
    assert not Path("out.csv").exists()


def test_a_failed_explanation_leaves_an_earlier_one_alone(model: Path, command: Command) -> None:
    Path("new.csv").write_text("smiles\nCCO\n")
    Path("bad.csv").write_text("smiles\nnonsense\n")
    assert command("explain", model, "new.csv", "-o", "why").code == 0
    before = Path("why/edges.csv").read_text()
    assert command("explain", model, "bad.csv", "-o", "why").code == 2
    assert Path("why/edges.csv").read_text() == before


def test_each_target_is_answered_in_its_own_words(model: Path, command: Command) -> None:
    words = {"yes": ("active", "toxic"), "no": ("inactive", "safe")}
    rows = [[row["smiles"], *words[row["nitro"]]] for row in write_table(Path("all.csv"), bad=False)]
    Path("two.csv").write_text("\n".join(",".join(row) for row in [["smiles", "a", "b"], *rows]))
    fit = command("fit", "two.csv", "-t", "a", "-t", "b", "--split", "random", "--epochs", "1", *QUICK, "-o", "both")
    assert fit.code == 0
    assert "predicts a: inactive or active; b: safe or toxic" in fit.out
    assert "a row of the second class is ranked above one of the first, mean over targets" in " ".join(fit.out.split())
    assert json.loads(Path("both/report.json").read_text())["classes"] == {
        "a": ["inactive", "active"],
        "b": ["safe", "toxic"],
    }
    assert command("predict", "both", "two.csv", "-o", "answers.csv").code == 0
    found = rows_of(Path("answers.csv"))
    assert {row["a_predicted"] for row in found} <= {"inactive", "active"}
    assert {row["b_predicted"] for row in found} <= {"safe", "toxic"}
    assert all((float(row["b_p_toxic"]) > 0.5) == (row["b_predicted"] == "toxic") for row in found)
    why = command("explain", "both", "two.csv", "-o", "why", "--count", "2")
    assert f"a {found[0]['a_predicted']}, b {found[0]['b_predicted']}" in why.out
    split = command("split", "two.csv", "-t", "a", "-t", "b", "--by", "random")
    assert "classes: shares of active in a, toxic in b" in split.out


def test_the_report_speaks_plainly(model: Path, command: Command) -> None:
    write_table(Path("mine.csv"))
    words = ["fit", "mine.csv", "-t", "nitro", "--split", "random", "--epochs", "2", *QUICK[:-1], "-o", "own"]
    done = command(*words)
    assert done.code == 0
    for word in ("ood_val", "ood_test", "rocauc", "in distribution"):
        assert word not in done.out + done.err
    assert "shifted, used for nothing else (test)" in done.out
    assert "ROC-AUC: how often a row of yes is ranked above one of no" in " ".join(done.out.split())
    assert "epoch 1/2" in done.err
    assert "shifted test" in done.err


def test_a_split_that_tells_little_is_warned_about(model: Path, command: Command) -> None:
    rows = write_table(Path("all.csv"), bad=False)
    years = ["2030" if place == 0 else "2020" if place < 30 else str(2000 + place % 9) for place in range(len(rows))]
    lines = [f"{row['smiles']},{row['nitro']},{year}" for row, year in zip(rows, years, strict=True)]
    Path("mine.csv").write_text("\n".join(["smiles,nitro,year", *lines]))
    part = [3 if year == "2020" else 4 if year == "2030" else number % 3 for number, year in enumerate(years)]
    Split(torch.tensor(part), torch.zeros(len(part), dtype=torch.long)).save("split.json")
    fit = ["fit", "mine.csv", "-t", "nitro", "--split", "file:split.json", "--epochs", "1", *QUICK, "-o", "own"]
    sentence = "OOD test (1 row)"
    done = command(*fit)
    assert done.code == 0
    assert sentence in done.err  # at once
    assert sentence not in done.out  # and once
    assert any(sentence in note for note in json.loads(Path("own/report.json").read_text())["notes"])
    assert sentence in command("split", "mine.csv", "-t", "nitro", "--by", "file:split.json", "-o", "again.json").out


@pytest.mark.parametrize("words", [["fit", "bad.csv", "-t", "y"], ["split", "bad.csv", "-t", "y"]])
def test_a_table_without_a_molecule_says_why(command: Command, words: list[str]) -> None:
    Path("bad.csv").write_text("\n".join(["smiles,y", *(f"xx{row},{row % 2}" for row in range(1, 60))]))
    done = command(*words)
    assert (done.code, done.out) == (2, "")
    assert all(fact in done.err for fact in ("bad.csv", "59 rows", "row 1 (xx1: "))
    assert "row 5 (xx5: " in done.err
    assert " and 54 more; " in done.err
    assert "row 6" not in done.err


def test_a_table_too_small_to_fit_gets_the_error_alone(command: Command) -> None:
    Path("two.csv").write_text("smiles,y\nCCO,0\nCCN,1\n")
    done = command("fit", "two.csv", "-t", "y")
    assert done.code == 2
    assert "of 2 rows with a graph and a label none is left" in done.err
    assert "note:" not in done.err


def test_a_table_separated_by_semicolons_is_read_and_told(model: Path, command: Command) -> None:
    rows = write_table(Path("mine.csv"))
    for path in (Path("mine.csv"), Path("new.csv")):
        path.write_text("\n".join(";".join(row) for row in [list(rows[0]), *(list(row.values()) for row in rows)]))
    told = "is separated by semicolons"
    fit = command("fit", "mine.csv", "-t", "nitro", "--split", "random", "--epochs", "1", *QUICK, "-o", "own")
    assert (fit.code, f"note: mine.csv {told}" in fit.out) == (0, True)
    for words in (["predict", model, "new.csv"], ["explain", model, "new.csv", "--count", "1"], ["split", "new.csv"]):
        done = command(*words)
        assert (done.code, done.out.count(f"note: new.csv {told}")) == (0, 1)
    assert len(rows_of(Path("answers.csv"))) == len(rows)


def test_molecules_of_an_sdf_file_are_fitted_by_scaffold(model: Path, command: Command) -> None:
    with Chem.SDWriter("mine.sdf") as writer:
        for row in write_table(Path("mine.csv"), bad=False):
            mol = Chem.MolFromSmiles(row["smiles"])
            mol.SetProp("nitro", row["nitro"])
            writer.write(mol)
    fit = command("fit", "mine.sdf", "-t", "nitro", "--epochs", "1", *QUICK, "-o", "own")
    assert fit.code == 0
    assert "split by scaffold" in fit.out
    assert "Tanimoto" in fit.out
    assert "next:  goodformer predict own NEW.sdf" in fit.out
    assert command("predict", "own", "mine.csv", "-o", "answers.csv").code == 0  # SMILES do as well


def test_a_model_saved_with_one_list_of_classes_is_read(model: Path, command: Command) -> None:
    shutil.copytree(model, "old")
    kept = json.loads(Path("old/model.json").read_text())
    kept["about"]["meaning"] |= {"targets": ["nitro"], "classes": ["no", "yes"]}
    Path("old/model.json").write_text(json.dumps(kept))
    Path("new.csv").write_text("smiles\nCC\n")
    assert command("predict", "old", "new.csv", "-o", "out.csv", "--quiet").code == 0
    assert rows_of(Path("out.csv"))[0]["predicted"] in ("no", "yes")


def test_a_second_fit_leaves_no_list_of_rows_of_the_first(model: Path, command: Command) -> None:
    write_table(Path("clean.csv"), bad=False)
    Path("model").mkdir()
    Path("model/unreadable.csv").write_text("row,text,reason\n")
    words = ["fit", "clean.csv", "--target", "nitro", "--split", "random", "--epochs", "1", *QUICK, "-o", "model"]
    assert command(*words).code == 0
    assert not Path("model/unreadable.csv").exists()
    assert "note: model holds an earlier model, which this one replaces." in command(*words).err


def test_a_model_is_not_written_among_other_files(command: Command) -> None:
    write_table(Path("mine.csv"))
    Path("docs").mkdir()
    Path("docs/index.md").write_text("mine")
    answer = command("fit", "mine.csv", "--target", "nitro", "-o", "docs")
    assert answer.code == 2
    assert "docs holds other files; choose a new folder" in answer.err
    assert [one.name for one in Path("docs").iterdir()] == ["index.md"]


def test_a_refused_fit_leaves_no_folder(command: Command) -> None:
    write_table(Path("mine.csv"))
    Path("mine").mkdir()
    for words in (["-t", "nitor"], ["-t", "nitro", "--split", "scafold"]):
        for folder in ("new/deep", "mine"):
            assert command("fit", "mine.csv", *words, "-o", folder).code == 2
    assert sorted(one.name for one in Path().iterdir()) == ["mine", "mine.csv"]


def test_an_interrupted_fit_leaves_no_folder(tmp_path: Path) -> None:
    def interrupted(content: str | None) -> None:
        with fresh_folder(tmp_path / "new" / "deep"):
            assert (tmp_path / "new" / "deep").is_dir()
            if content:
                (tmp_path / "new" / "mine.txt").write_text(content)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(None)
    assert not list(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        interrupted("mine")
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("suffix", ["parquet", "json", "jsonl", "tsv"])
def test_answers_are_written_in_every_format(model: Path, command: Command, suffix: str) -> None:
    write_table(Path("new.csv"))
    assert command("predict", model, "new.csv", "-o", f"answers.{suffix}", "--quiet").code == 0
    rows = read_any(Path(f"answers.{suffix}"))
    assert len(rows) == 258
    assert rows[3]["predicted"] in (None, "")
    assert float(rows[0]["p_yes"]) >= 0


def read_any(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return list(json.loads(text))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(text.splitlines(), delimiter="\t"))


def test_columns_keep_their_types(model: Path, command: Command) -> None:
    given = pa.table(
        {"smiles": ["CCO", "x", "CC"], "id": [7, 8, None], "share": [0.5, None, 1.0], "ok": [True, False, None]}
    )
    pq.write_table(given, "new.parquet")
    assert command("predict", model, "new.parquet", "-o", "out.parquet", "--quiet").code == 0
    found = pq.read_table("out.parquet").select(given.column_names)
    assert (found.to_pydict(), found.schema.types) == (given.to_pydict(), given.schema.types)


def test_an_empty_line_of_a_single_column_is_a_row(model: Path, command: Command) -> None:
    Path("new.csv").write_text("smiles\nCCO\n\nCC\n")
    assert command("predict", model, "new.csv", "-o", "out.csv", "--quiet").code == 0
    assert [row["problem"] for row in rows_of(Path("out.csv"))] == ["", "empty", ""]


def test_a_bad_graph_keeps_its_place(invariant: Path, command: Command) -> None:
    good, bad = '{"edges": [[0, 1], [1, 2]], "name": 1}', '{"edges": [[0, 9]], "num_nodes": 2, "name": 2}'
    Path("new.jsonl").write_text("\n".join([good, bad, good]) + "\n")
    assert command("predict", invariant, "new.jsonl", "-o", "out.jsonl", "--quiet").code == 0
    rows = read_any(Path("out.jsonl"))
    assert [row["name"] for row in rows] == [1, 2, 1]
    assert [row["predicted"] is None for row in rows] == [False, True, False]
    assert "line 2 has an edge to node 9" in rows[1]["problem"]


def test_no_answer_at_all_is_exit_code_1(model: Path, command: Command) -> None:
    Path("new.csv").write_text("smiles\nnonsense\nC1C\n")
    answer = command("predict", model, "new.csv", "-o", "out.csv", "--quiet")
    assert (answer.code, "cannot be read" in answer.out) == (1, False)
    assert answer.err.startswith("goodformer: no row could be read: ")
    assert len(answer.err.splitlines()) == 1
    assert len(rows_of(Path("out.csv"))) == 2
    Path("new.jsonl").write_text('{"edges": [[0, 1], [1, 2]]}\n' * 9)
    answer = command("predict", model, "new.jsonl", "-o", "out.csv", "--quiet")
    assert (answer.code, len(answer.err.splitlines())) == (1, 1)
    assert "new.jsonl holds graphs, and this is a model of molecules" in answer.err


def test_very_large_molecules_are_explained_but_not_drawn(model: Path, command: Command) -> None:
    Path("new.csv").write_text(f"smiles\n{'C' * 500}\nCCO\n")
    answer = command("explain", model, "new.csv", "-o", "why")
    assert answer.code == 0
    assert "note: row 1 not drawn: above 400 atoms" in answer.out
    assert Path("why/subgraphs.png").is_file()
    assert sum(row["row"] == "1" for row in rows_of(Path("why/edges.csv"))) == 499
    Path("new.csv").write_text(f"smiles\n{'C' * 500}\n")
    answer = command("explain", model, "new.csv", "-o", "why")
    assert (answer.code, "picture:" in answer.out) == (0, False)
    assert not Path("why/subgraphs.png").exists()


def test_molecules_that_can_be_read_are_drawn_first(model: Path, command: Command) -> None:
    """Rows 1 and 4 are readable, row 2 is large, row 3 too large; all of them are explained in the tables."""
    Path("new.csv").write_text(f"smiles\nCCO\n{'C' * 61}\n{'C' * 500}\n{'C' * 60}\n")
    shown = {
        count: command("explain", model, "new.csv", "-o", "why", "--count", str(count), "--json").json
        for count in (1, 2, 3, 4)
    }
    names = {count: [row["graph"] for row in report["graphs"]] for count, report in shown.items()}
    assert names == {
        1: ["row 1"],
        2: ["row 1", "row 4"],
        3: ["row 1", "row 4", "row 2"],
        4: ["row 1", "row 4", "row 2", "row 3"],
    }
    told = {count: " ".join(report["notes"]) for count, report in shown.items()}
    assert "above 60 atoms" not in told[1]  # nothing was passed over
    assert "2 molecules above 60 atoms (row 2 is the first) gave way" in told[2]
    assert "1 molecule above 60 atoms (row 3 is the first) gave way" in told[3]
    assert "above 60 atoms" not in told[4]
    assert "row 3 not drawn: above 400 atoms" in told[4]
    assert {row["row"] for row in rows_of(Path("why/nodes.csv"))} == {"1", "2", "3", "4"}


def test_what_does_not_train_does_not_promise_to_go_on(
    model: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    Path("new.csv").write_text("smiles\nCCO\n")
    monkeypatch.setattr("goodformer.apply.predict.predict_file", stop)
    answer = command("predict", model, "new.csv")
    assert answer.code == 130
    assert answer.err.strip() == "stopped; the same command begins anew."


def test_scores_are_aligned_with_atoms_and_bonds(model: Path, command: Command) -> None:
    Path("new.csv").write_text("smiles\nCCO\nnonsense\nc1ccccc1C[N+](=O)[O-]\n")
    answer = command("explain", model, "new.csv", "-o", "why", "--count", "2", "--json")
    assert answer.code == 0
    edges, nodes = rows_of(Path("why/edges.csv")), rows_of(Path("why/nodes.csv"))
    assert [(row["row"], row["source"], row["target"]) for row in edges[:2]] == [("1", "0", "1"), ("1", "1", "2")]
    assert {row["row"] for row in edges} == {"1", "3"}
    assert [row["node"] for row in nodes if row["row"] == "3"] == [str(place) for place in range(10)]
    assert Path("why/subgraphs.png").stat().st_size > 5000
    assert answer.json["explanation"] == "post-hoc"
    assert len(rows_of(Path("why/answers.csv"))) == 3


def test_atoms_of_an_sdf_record_keep_its_numbers(model: Path, command: Command) -> None:
    """The canonical SMILES of the same molecule begins with another atom."""
    mol = Chem.MolFromSmiles("[O-][N+](=O)Cc1ccccc1")
    bonds = {tuple(sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))) for bond in mol.GetBonds()}
    Path("new.sdf").write_text(f"{Chem.MolToMolBlock(mol)}$$$$\n")
    assert not Chem.MolToSmiles(mol).startswith("[O-]")
    why = command("explain", model, "new.sdf", "-o", "why", "--json")
    assert why.code == 0
    edges = rows_of(Path("why/edges.csv"))
    assert {(int(row["source"]), int(row["target"])) for row in edges} == bonds
    shown = Shown(1)
    shown.add(read_collection("new.sdf")[0])
    assert shown.smiles is None  # so the picture is drawn from the record's own atoms


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["predict", "MODEL", "none.csv"], "none.csv"),
        (["predict", "MODEL", "other.csv"], "no column 'smiles'"),
        (["predict", "MODEL", "new.csv", "-o", "answers.xyz"], "xyz"),
        (["predict", "nowhere", "new.csv"], "nowhere"),
        (["predict", "MODEL", "new.csv", "-o", "."], "is a folder"),
        (["predict", "MODEL", "new.csv", "-o", "new.csv"], "would overwrite"),
        (["predict", "MODEL", "new.csv", "--weights", "last"], "leave --weights out"),
        (["explain", "MODEL"], "name a FILE"),
        (["explain", "MODEL", "new.csv", "--split", "test"], "leave them out"),
        (["fit", "two.csv", "--target", "y", "-o", "new.csv"], "new.csv"),
        (["explain", "MODEL", "bad.csv"], "no row of bad.csv can be read"),
        (["fit", "new.csv", "--target", "label"], "no column 'label'"),
        (["fit", "one.csv", "--target", "y"], "y"),
    ],
)
def test_bad_input_gets_one_sentence(model: Path, command: Command, words: list[str], sentence: str) -> None:
    Path("new.csv").write_text("smiles\nCC\n")
    Path("other.csv").write_text("text\nCC\n")
    Path("bad.csv").write_text("smiles\nnonsense\n")
    Path("one.csv").write_text("smiles,y\nCC,1\nCCC,1\n")
    Path("two.csv").write_text("smiles,y\n" + "".join(f"{'C' * size},{size % 2}\n" for size in range(1, 40)))
    answer = command(*(str(model) if word == "MODEL" else word for word in words))
    assert answer.code == 2
    assert sentence in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert not Path("answers.csv").exists()


@pytest.mark.skipif(
    not Path(os.environ.get("GOODFORMER_DATA", "none"), "bace").is_dir(),
    reason="GOODFORMER_DATA holds no bace/bace.csv",
)
def test_bace_and_bbbp_from_table_to_pictures(command: Command) -> None:
    data = Path(os.environ["GOODFORMER_DATA"])
    fitted = command("fit", data / "bace" / "bace.csv", "--target", "Class", "--epochs", "2", *QUICK, "-o", "bace")
    assert fitted.code == 0
    bbbp = data / "bbbp" / "BBBP.csv"
    said = command("predict", "bace", bbbp, "-o", "answers.csv", "--json").json
    assert (said["rows"], said["unreadable"]) == (2050, 11)
    assert said["outside"] > 0.2 * 2050
    Path("some.csv").write_text("".join(bbbp.read_text().splitlines(keepends=True)[:20]))
    assert command("explain", "bace", "some.csv", "--count", "4", "-o", "why").code == 0
    assert Path("why/subgraphs.png").is_file()
