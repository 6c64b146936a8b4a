"""``goodformer predict``: every row with its prediction, against a file that an earlier version wrote."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from rdkit import Chem

import goodformer as gf
from goodformer.apply.predict import answer_columns, predict_file, without_threshold
from goodformer.data.molecule import featurise
from goodformer.errors import InputError
from goodformer.explain.fidelity import VERDICTS
from goodformer.fitted import FittedModel, Predictions
from goodformer.spec import Task
from goodformer.uncertainty.observe import Seen
from goodformer.uncertainty.uncertainty import Uncertainty
from tests.apply.molecules import FITTED, molecules, untrained
from tests.cli.conftest import Command


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return list(pq.read_table(path).to_pylist())
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return list(json.loads(text))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ","))


def test_rows_and_printed_numbers_are_those_of_the_earlier_version(command: Command) -> None:
    """13 rows: two (4 and 10) cannot be read, the last two are outside the domain."""
    answer = command("predict", FITTED, FITTED / "new.csv", "-o", "answers.csv", "--sets", "0.9")
    assert answer.code == 0
    assert Path("answers.csv").read_text() == (FITTED / "answers.csv").read_text()
    first, *rest = answer.out.splitlines()
    assert first.startswith("13 rows; 2 outside")
    assert rest[0].startswith("2 of 13 rows cannot be read")
    assert [line.split(":")[0].strip() for line in rest[1:3]] == ["row 4", "row 10"]
    assert rest[-1] == "answers: answers.csv"


def test_rows_outside_the_domain_say_why(command: Command) -> None:
    model, usual = untrained(), featurise(["C" * size for size in range(2, 30)]).graphs
    model.fit_uncertainty(usual, usual).save("mine")
    Path("new.csv").write_text(f"smiles\nCCCC[SeH]\n{'C' * 400}\n", encoding="utf-8")
    assert command("predict", "mine", "new.csv", "-o", "answers.csv").code == 0
    assert [(row["outside"], row["outside_because"]) for row in rows_of(Path("answers.csv"))] == [
        ("True", "contains Se, which no training row has"),
        ("True", "more than twice as large as any training row"),
    ]


@pytest.mark.parametrize("size", [1, 4, 1024])
def test_counts_and_answers_do_not_depend_on_the_size_of_blocks(size: int, tmp_path: Path) -> None:
    done: list[int] = []
    report = predict_file(
        FittedModel.open(FITTED), FITTED / "new.csv", tmp_path / "out.csv", 0.9, size=size, watch=done.append
    )
    assert (report["rows"], report["outside"], report["unreadable"]) == (13, 2, 2)
    assert [(one["row"], one["text"]) for one in report["problems"]] == [(4, "c1ccc(cc1"), (10, "")]
    assert (report["failure"], done[-1]) == (None, 13)
    for found, known in zip(rows_of(tmp_path / "out.csv"), rows_of(FITTED / "answers.csv"), strict=True):
        assert list(found) == list(known)
        for name in ("p_no", "p_yes"):
            assert float(found.pop(name) or -1) == pytest.approx(float(known.pop(name) or -1), abs=1e-5)
        assert float(found.pop("domain_score") or 0) == pytest.approx(float(known.pop("domain_score") or 0), abs=0.05)
        assert found == known


def test_without_uncertainty_there_is_no_domain_check(erm: Path, command: Command) -> None:
    Path("new.jsonl").write_text('{"edges": [[0, 1], [1, 2]]}\n')
    assert command("predict", erm, "new.jsonl", "--json").json["outside"] is None
    answer = command("predict", erm, "new.jsonl")
    assert answer.out.splitlines()[0] == "1 row; domain check unavailable for this model"
    (row,) = rows_of(Path("answers.csv"))
    assert not {"domain_score", "outside"} & set(row)
    assert command("predict", erm, "new.jsonl", "--sets", "0.9").code == 2


def test_columns_of_probabilities_and_sets_carry_the_names_of_their_classes() -> None:
    """Three classes: each column holds the share of its own class, each set the classes that are not excluded."""
    task = Task("multiclass", 3)
    model = untrained(task=task, classes={"y": ("low", "mid", "high")})
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(3, (300,), generator=draw)
    logits = (torch.randn(300, 3, generator=draw) + 2 * torch.eye(3)[y]).double()
    seen = Seen(logits, torch.zeros(300, 5), torch.randn(300, 2, generator=draw).double(), {}, y)
    model.uncertainty = Uncertainty.learn(task, seen, seen)
    z = logits[:20].float()
    answer = Predictions(z, model.uncertainty.probabilities(z), z.argmax(-1), None)
    columns = answer_columns(model, answer, 0.95)
    assert list(columns) == ["predicted", "p_low", "p_mid", "p_high", "set"]
    sets = model.uncertainty.sets(z, 0.95)
    assert 20 < int(sets.sum()) < 60
    for row in range(20):
        calibrated = model.uncertainty.scaling(z[row : row + 1])[0].softmax(-1).tolist()
        shares = {name: columns[f"p_{name}"][row] for name in ("low", "mid", "high")}
        assert list(shares.values()) == pytest.approx(calibrated, abs=2e-6)
        assert columns["predicted"][row] == max(shares, key=lambda name: shares[name])
        held = [name for name, inside in zip(shares, sets[row].tolist(), strict=True) if inside]
        assert columns["set"][row] == "|".join(held)


def test_each_of_several_targets_has_columns_of_its_own() -> None:
    model = untrained(task=Task("binary", 2, "rocauc"), classes={"y": ("off", "on"), "z": ("cold", "hot")})
    shares, codes = torch.tensor([[0.1, 0.7], [0.8, 0.6], [0.9, 0.2]]), torch.tensor([[0, 1], [1, 1], [1, 0]])
    columns = answer_columns(model, Predictions(shares.logit(), shares, codes, None))
    assert {name: values if "predicted" in name else pytest.approx(values) for name, values in columns.items()} == {
        "y_predicted": ["off", "on", "on"],
        "y_p_on": [0.1, 0.8, 0.9],
        "z_predicted": ["hot", "hot", "cold"],
        "z_p_hot": [0.7, 0.6, 0.2],
    }


@pytest.mark.parametrize(
    ("task", "classes"),
    [
        (Task("multiclass", 3), {"y": ("a", "b", "c")}),
        (Task("binary", 1, "rocauc"), {"y": ("a", "b")}),
        (Task("binary", 2, "rocauc"), {"y": ("a", "b"), "z": ("c", "d")}),
    ],
)
def test_a_block_without_a_readable_row_has_the_same_columns(task: Task, classes: dict[str, Any]) -> None:
    model = untrained(task=task, classes=classes)
    z = torch.randn(4, task.outputs)
    codes = z.argmax(-1) if task.kind == "multiclass" else (z > 0).long()
    empty, full = answer_columns(model, None), answer_columns(model, Predictions(z, z.sigmoid(), codes, None))
    assert list(empty) == list(full)
    assert all(values == [] for values in empty.values())


def test_rows_of_an_sdf_file_get_their_smiles(command: Command) -> None:
    texts = ["OCC", "c1ccccc1[N+](=O)[O-]"]
    blocks = [Chem.MolToMolBlock(Chem.MolFromSmiles(text)) for text in texts]
    Path("new.sdf").write_text("".join(f"{block}> <y>\n1\n\n$$$$\n" for block in [blocks[0], "broken\n", blocks[1]]))
    assert command("predict", FITTED, "new.sdf", "-o", "out.csv", "--quiet").code == 0
    rows = rows_of(Path("out.csv"))
    found = [Chem.CanonSmiles(row["smiles"]) if row["smiles"] else "" for row in rows]
    assert found == [Chem.CanonSmiles(texts[0]), "", Chem.CanonSmiles(texts[1])]
    assert [bool(row["problem"]) for row in rows] == [False, True, False]


@pytest.mark.parametrize("taken", ["predicted", "predicted,goodformer_predicted"])
def test_an_input_column_is_never_overwritten(command: Command, taken: str) -> None:
    names = taken.split(",")
    Path("new.csv").write_text(f"smiles,{taken}\nCC,{','.join(f'mine{place}' for place in range(len(names)))}\n")
    assert command("predict", FITTED, "new.csv", "-o", "out.csv", "--quiet").code == 0
    (row,) = rows_of(Path("out.csv"))
    assert [row[name] for name in names] == [f"mine{place}" for place in range(len(names))]
    assert row[f"goodformer_{names[-1]}"] in ("no", "yes")


def test_a_model_without_its_uncertainty_is_refused(command: Command) -> None:
    shutil.copytree(FITTED, "copy")
    Path("copy/sureness.json").unlink()
    Path("new.csv").write_text("smiles\nCC\n")
    answer = command("predict", "copy", "new.csv", "-o", "out.csv")
    assert answer.code == 2
    assert "sureness.json" in answer.err
    assert not Path("out.csv").exists()


@pytest.mark.parametrize("suffix", ["parquet", "json", "jsonl", "tsv"])
def test_answers_are_written_in_every_format(command: Command, suffix: str) -> None:
    assert command("predict", FITTED, FITTED / "new.csv", "-o", f"answers.{suffix}", "--quiet").code == 0
    rows, known = rows_of(Path(f"answers.{suffix}")), rows_of(FITTED / "answers.csv")
    assert [row["predicted"] or "" for row in rows] == [row["predicted"] for row in known]
    assert [float(row["p_yes"] or -1) for row in rows] == [float(row["p_yes"] or -1) for row in known]


def test_columns_keep_their_types(command: Command) -> None:
    given = pa.table(
        {"smiles": ["CCO", "x", "CC"], "id": [7, 8, None], "share": [0.5, None, 1.0], "ok": [True, False, None]}
    )
    pq.write_table(given, "new.parquet")
    assert command("predict", FITTED, "new.parquet", "-o", "out.parquet", "--quiet").code == 0
    found = pq.read_table("out.parquet").select(given.column_names)
    assert (found.to_pydict(), found.schema.types) == (given.to_pydict(), given.schema.types)


def test_an_empty_line_of_a_single_column_is_a_row(command: Command) -> None:
    Path("new.csv").write_text("smiles\nCCO\n\nCC\n")
    assert command("predict", FITTED, "new.csv", "-o", "out.csv", "--quiet").code == 0
    assert [row["problem"] for row in rows_of(Path("out.csv"))] == ["", "empty", ""]


def test_a_bad_graph_keeps_its_place(invariant: Path, command: Command) -> None:
    good, bad = '{"edges": [[0, 1], [1, 2]], "name": 1}', '{"edges": [[0, 9]], "num_nodes": 2, "name": 2}'
    Path("new.jsonl").write_text("\n".join([good, bad, good]) + "\n")
    assert command("predict", invariant, "new.jsonl", "-o", "out.jsonl", "--quiet").code == 0
    rows = rows_of(Path("out.jsonl"))
    assert [row["name"] for row in rows] == [1, 2, 1]
    assert [row["predicted"] is None for row in rows] == [False, True, False]
    assert "line 2" in rows[1]["problem"]
    assert "node 9" in rows[1]["problem"]


def test_no_answer_at_all_is_exit_code_1(command: Command) -> None:
    Path("new.csv").write_text("smiles\nnonsense\nC1C\n")
    answer = command("predict", FITTED, "new.csv", "-o", "out.csv", "--quiet")
    assert answer.code == 1
    assert len(answer.err.splitlines()) == 1
    assert len(rows_of(Path("out.csv"))) == 2
    Path("new.jsonl").write_text('{"edges": [[0, 1], [1, 2]]}\n' * 9)
    answer = command("predict", FITTED, "new.jsonl", "-o", "out.csv", "--quiet")
    assert (answer.code, len(answer.err.splitlines())) == (1, 1)
    assert "new.jsonl" in answer.err
    assert "molecules" in answer.err


def test_an_interrupted_prediction_does_not_promise_to_continue(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("goodformer.apply.predict.predict_file", stop)
    answer = command("predict", FITTED, FITTED / "new.csv")
    assert answer.code == 130
    assert len(answer.err.splitlines()) == 1
    assert "continues" not in answer.err


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["MODEL", "none.csv"], "none.csv"),
        (["MODEL", "other.csv"], "'smiles'"),
        (["MODEL", "new.csv", "-o", "answers.xyz"], "xyz"),
        (["nowhere", "new.csv"], "nowhere"),
        (["MODEL", "new.csv", "-o", "."], "folder"),
        (["MODEL", "new.csv", "-o", "new.csv"], "new.csv"),
        (["MODEL", "new.csv", "--weights", "last"], "--weights"),
        (["MODEL", "empty.csv"], "empty.csv"),
    ],
)
def test_bad_input_gets_one_line(command: Command, words: list[str], fact: str) -> None:
    Path("new.csv").write_text("smiles\nCC\n")
    Path("other.csv").write_text("text\nCC\n")
    Path("empty.csv").write_text("smiles\n")
    answer = command("predict", *(str(FITTED) if word == "MODEL" else word for word in words))
    assert answer.code == 2
    assert fact in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert not Path("answers.csv").exists()


def test_sets_of_several_targets() -> None:
    """Each target has a set of its own, with its own names; the predicted class is always inside."""
    task = Task("binary", 2, "rocauc")
    model = untrained(task=task, classes={"y": ("off", "on"), "z": ("cold", "hot")})
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(2, (300, 2), generator=draw).float()
    logits = (torch.randn(300, 2, generator=draw) + 2 * (2 * y - 1)).double()
    seen = Seen(logits, torch.zeros(300, 5), torch.randn(300, 2, generator=draw).double(), {}, y)
    model.uncertainty = Uncertainty.learn(task, seen, seen)
    z = logits[:40].float()
    answer = Predictions(z, model.uncertainty.probabilities(z), model.uncertainty.classes(z), None)
    columns, inside = answer_columns(model, answer, 0.98), model.uncertainty.sets(z, 0.98)
    for place, (target, names) in enumerate(model.classes.items()):
        for row in range(40):
            held = [name for name, one in zip(names, inside[row, place].tolist(), strict=True) if one]
            assert columns[f"{target}_set"][row] == "|".join(held)
            assert columns[f"{target}_predicted"][row] in held
    assert 40 < int(inside[:, 0].sum()) < 80


def test_neighbours_and_reasons_are_columns_of_their_own(tmp_path: Path) -> None:
    smiles, y = molecules()
    model = gf.GraphClassifier("linear").fit(smiles, y).model_
    (tmp_path / "new.csv").write_text("smiles\nc1ccc(CC[N+](=O)[O-])cc1\nxx\nCCO\nc1ccc(C#N)cc1\n")
    parts = []
    for size in (1, 1024):  # blocks change nothing, even one without a readable row
        out = tmp_path / f"answers{size}.csv"
        report = predict_file(model, tmp_path / "new.csv", out, size=size, neighbours=2, explain=True)
        parts.append(rows_of(out))
    assert parts[0] == parts[1]
    first, bad, *_ = parts[0]
    wanted = [f"neighbour_{n}_{name}" for n in (1, 2) for name in ("row", "smiles", "similarity", "label")]
    assert list(first)[-len(wanted) - 3 :] == [*wanted, "verdict", "marked", "problem"]
    assert not any(bad[name] for name in (*wanted, "verdict", "marked"))
    assert first["neighbour_1_smiles"] == smiles[int(first["neighbour_1_row"])]
    assert first["neighbour_1_label"] == "1"
    assert float(first["neighbour_1_similarity"]) >= float(first["neighbour_2_similarity"]) > 0
    assert {row["verdict"] for row in parts[0]} <= {"", *VERDICTS}
    assert all(bool(row["marked"]) == (row["verdict"] in ("decides", "contributes")) for row in parts[0])
    assert report["neighbours"]["similarity"].startswith("Tanimoto")
    with pytest.raises(InputError, match="--neighbours"):
        predict_file(untrained(), tmp_path / "new.csv", tmp_path / "none.csv", neighbours=1)


@pytest.mark.parametrize(
    ("task", "classes", "kept", "words"),
    [
        (Task("multiclass", 3), {"y": ("low", "mid", "high")}, 8, "every 90 % set contains low, mid, high: 9 "),
        (Task("multiclass", 3), {"y": ("low", "mid", "high")}, 9, ""),
        (Task("binary", 2, "rocauc"), {"y": ("off", "on"), "z": ("no", "yes")}, 8, "contains y = on, z = yes: 9 "),
    ],
)
def test_classes_that_no_set_can_exclude_are_named(
    task: Task, classes: dict[str, tuple[str, ...]], kept: int, words: str
) -> None:
    """So many validation rows of each class, or of the second class of each target."""
    model = untrained(task=task, classes=classes)
    several = task.kind == "binary"
    y = torch.tensor([[0.0, 0.0]] * 30 + [[1.0, 1.0]] * kept) if several else torch.arange(3).repeat(kept)
    logits = (torch.randn(len(y), task.outputs, generator=torch.Generator().manual_seed(0))).double()
    seen = Seen(logits, torch.zeros(len(y), 5), torch.randn(len(y), 2).double(), {}, y)
    model.uncertainty = Uncertainty.learn(task, seen, seen)
    notes = without_threshold(model, 0.9)
    assert len(notes) == bool(words)
    assert all(words in note for note in notes)
    assert without_threshold(model, None) == []
