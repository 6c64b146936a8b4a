"""``goodformer explain`` on a user's own rows."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rdkit import Chem

from goodformer.apply.explain import explain_file
from goodformer.apply.explanation import CAPTIONS
from goodformer.cli.explain import _show
from goodformer.draw import molecules
from goodformer.fitted import FittedModel
from tests.apply.molecules import FITTED, counted_passes
from tests.cli.conftest import Command


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("k", [None, 2])
def test_tables_hold_every_row_edge_and_atom(command: Command, k: int | None) -> None:
    """Row 2 cannot be read. Chosen edges are the best of their row, equal ones together; chosen atoms are theirs."""
    smiles = ["CCO", "nonsense", "c1ccccc1C[N+](=O)[O-]"]
    Path("new.csv").write_text("\n".join(["smiles", *smiles]) + "\n")
    words = [] if k is None else ["--k", str(k)]
    report = command("explain", FITTED, "new.csv", "-o", "why", "--count", "1", *words, "--json").json
    assert (report["rows"], report["unreadable"], report["problems"][0]["row"]) == (3, 1, 2)
    assert report["tables"] == ["why/answers.csv", "why/edges.csv", "why/nodes.csv"]
    assert [row["problem"] == "" for row in rows_of(Path("why/answers.csv"))] == [True, False, True]
    edges, nodes = rows_of(Path("why/edges.csv")), rows_of(Path("why/nodes.csv"))
    assert [row["row"] for row in edges] == ["1"] * 2 + ["3"] * 10
    for number in (1, 3):
        mol = Chem.MolFromSmiles(smiles[number - 1])
        mine = [row for row in edges if row["row"] == str(number)]
        atoms = [row for row in nodes if row["row"] == str(number)]
        bonds = {tuple(sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))) for bond in mol.GetBonds()}
        assert {(int(row["source"]), int(row["target"])) for row in mine} == bonds
        assert [int(row["node"]) for row in atoms] == list(range(mol.GetNumAtoms()))
        chosen, others = ([row for row in mine if row["chosen"] == kind] for kind in ("True", "False"))
        assert len(chosen) >= (k or 1)
        lowest = min(float(row["score"]) for row in chosen)
        assert all(float(row["score"]) < lowest for row in others)
        assert sum(float(row["score"]) > lowest for row in chosen) < (k or len(mine) / 2)
        touched = {row[end] for row in chosen for end in ("source", "target")}
        assert {row["node"] for row in atoms if row["chosen"] == "True"} == touched
        for atom in atoms:
            around = [float(row["score"]) for row in mine if atom["node"] in (row["source"], row["target"])]
            assert float(atom["score"]) == pytest.approx((max(around) + sum(around) / len(around)) / 2, abs=2e-6)
    (shown,) = report["graphs"]
    first = [row for row in edges if row["row"] == "1"]
    assert (shown["graph"], shown["smiles"], shown["num_nodes"]) == ("row 1", "CCO", 3)
    assert shown["scores"] == sorted((float(row["score"]) for row in first), reverse=True)


def test_each_row_is_predicted_once(tmp_path: Path) -> None:
    """11 readable rows in one block: 1 prediction with domain scores, and bare ones of 22 parts of each, in batches."""
    model = FittedModel.open(FITTED)
    with counted_passes(model) as calls:
        report = explain_file(model, FITTED / "new.csv", tmp_path, count=4)
    assert (calls["predict"], calls["forward"], calls["edge_scores"]) == (1, -(-11 * 22 // 64), 1)
    assert calls["weighted_logits"] == 43  # 41 bonds of the largest molecule, and the whole graphs twice
    assert (report["rows"], report["outside"], report["unreadable"]) == (13, 2, 2)
    answers = [row for row in rows_of(tmp_path / "answers.csv") if not row["problem"]]
    assert [row["graph"] for row in report["graphs"]] == ["row 1", "row 2", "row 3", "row 5"]
    for row, answer in zip(report["graphs"], answers, strict=False):
        assert row["probabilities"] == [float(answer["p_yes"])]
        assert row["predicted"] == [int(answer["predicted"] == "yes")]
    assert json.loads((tmp_path / "edges.json").read_text())["graphs"] == report["graphs"]


@pytest.mark.parametrize("name", ["predict", "explain"])
def test_every_smiles_is_parsed_once(name: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    parse = Chem.MolFromSmiles

    def counted(text: str, *settings: Any) -> Any:
        texts.append(text)
        return parse(text, *settings)

    monkeypatch.setattr(Chem, "MolFromSmiles", counted)
    given = [f"{'C' * size}O" for size in range(1, 8)]
    Path("new.csv").write_text("\n".join(["smiles", *given]) + "\n")
    assert command(name, FITTED, "new.csv").code == 0
    assert sorted(texts) == sorted(given)


def test_printed_table_and_files(command: Command) -> None:
    answer = command("explain", FITTED, FITTED / "new.csv", "-o", "why", "--count", "5")
    assert answer.code == 0
    lines = [line.split() for line in answer.out.splitlines()]
    known = [row["predicted"] for row in rows_of(FITTED / "answers.csv")]
    for number in (1, 2, 3, 5, 6):
        assert ["row", str(number), known[number - 1]] in [line[:3] for line in lines]
    assert "2 of 13 rows cannot be read" in answer.out
    for path in ("why/subgraphs.png", "why/edges.json", "why/answers.csv", "why/edges.csv", "why/nodes.csv"):
        assert path in answer.out
        assert Path(path).is_file()


def test_graphs_of_a_run_are_printed_with_label_prediction_and_hits(invariant: Path, command: Command) -> None:
    words = ("explain", invariant, "--count", "3", "--split", "id_val")
    report, out = command(*words, "--json").json, command(*words).out
    lines = [line.split() for line in out.splitlines()]
    for graph in report["graphs"]:
        number = sum(graph["truth"])
        hits = [str(sum(graph["truth"][:number])), "of", str(number)]
        said = [str(graph["label"]), str(graph["predicted"]), *graph["verdict"].split()]
        assert [*graph["graph"].split(), *said, *hits] in lines
        assert graph["k"] >= number  # as many edges are chosen as are true, or more if some are equal
    fidelity = report["fidelity"]
    (line,) = [line for line in out.splitlines() if line.startswith("fidelity")]
    numbers = [word.strip("(),") for word in line.split() if word.strip("(),-")[:1].isdigit()]
    assert numbers == [f"{fidelity[key]:.3f}" for key in ("removed", "random_removed", "kept", "random_kept")]


def test_every_printed_number_of_a_report_is_the_one_its_words_say(capsys: pytest.CaptureFixture[str]) -> None:
    graph = {"graph": "test 5", "label": 2, "predicted": 0, "verdict": "decides"}
    graph["truth"] = [True, False, True, True, False]
    _show(
        {
            "graphs": [graph],
            "classes": {"label": ["house", "cycle", "crane"]},
            "fidelity": {"removed": 0.11, "random_removed": 0.22, "kept": 0.33, "random_kept": 0.44},
            "agreement": {"correlation": 0.55, "overlap": 0.66, "chance": 0.77},
            "marked": CAPTIONS["post-hoc"],
            "picture": "a.png",
            "scores": "b.json",
        }
    )
    out = capsys.readouterr().out
    assert ["test", "5", "2", "house", "decides", "2", "of", "3"] in [line.split() for line in out.splitlines()]
    assert [float(number) for number in re.findall(r"0\.\d{3}", out)] == [0.11, 0.22, 0.33, 0.44, 0.55, 0.66, 0.77]
    order = [out.index(word) for word in ("without", "alone", "correlation", "overlap", "chance")]
    assert order == sorted(order)
    assert CAPTIONS["post-hoc"] in out


def test_a_failed_explanation_leaves_an_earlier_one_alone(command: Command) -> None:
    Path("new.csv").write_text("smiles\nCCO\n")
    Path("bad.csv").write_text("smiles\nnonsense\n")
    assert command("explain", FITTED, "new.csv", "-o", "why").code == 0
    before = Path("why/edges.csv").read_text()
    assert command("explain", FITTED, "bad.csv", "-o", "why").code == 2
    assert Path("why/edges.csv").read_text() == before


def test_notes_on_how_a_file_was_read_are_shown_once(command: Command) -> None:
    Path("new.csv").write_text("name;smiles\n1;CCO\n2;CC\n")
    for words in (["predict", FITTED, "new.csv"], ["explain", FITTED, "new.csv"], ["split", "new.csv"]):
        done = command(*words)
        assert done.code == 0
        assert done.out.count("semicolons") == 1
    assert len(rows_of(Path("answers.csv"))) == 2


def test_very_large_molecules_are_explained_but_not_drawn(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    draw = molecules.draw_molecules

    def noting(*given: Any) -> Path:
        notes.append(given[-2])
        return draw(*given)

    monkeypatch.setattr(molecules, "draw_molecules", noting)
    Path("new.csv").write_text(f"smiles\n{'C' * 401}\nCCO\n")
    answer = command("explain", FITTED, "new.csv", "-o", "why")
    assert answer.code == 0
    (note,) = [line for line in answer.out.splitlines() if "400 atoms" in line]
    assert "row 1" in note
    assert Path("why/subgraphs.png").is_file()
    (below,) = notes  # the last line of the picture
    assert below.startswith("1 molecule ")
    assert sum(row["row"] == "1" for row in rows_of(Path("why/edges.csv"))) == 400
    Path("new.csv").write_text(f"smiles\n{'C' * 401}\n")
    answer = command("explain", FITTED, "new.csv", "-o", "why")
    assert (answer.code, "picture:" in answer.out) == (0, False)
    assert not Path("why/subgraphs.png").exists()


def test_atoms_of_an_sdf_record_keep_its_numbers(command: Command) -> None:
    """The canonical SMILES of the same molecule begins with another atom, so the picture must not use it."""
    mol = Chem.MolFromSmiles("[O-][N+](=O)Cc1ccccc1")
    bonds = {tuple(sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))) for bond in mol.GetBonds()}
    Path("new.sdf").write_text(f"{Chem.MolToMolBlock(mol)}$$$$\n")
    assert not Chem.MolToSmiles(mol).startswith("[O-]")
    why = command("explain", FITTED, "new.sdf", "-o", "why", "--json")
    assert why.code == 0
    assert {(int(row["source"]), int(row["target"])) for row in rows_of(Path("why/edges.csv"))} == bonds
    assert "smiles" not in why.json["graphs"][0]


def test_names_of_nodes_are_repeated_in_tables_and_scores(command: Command, invariant: Path) -> None:
    named = {"edges": [[0, 1], [1, 2], [2, 0]], "names": ["pump", 7, "valve"], "plant": "north"}
    bare = {"edges": [[0, 1]], "plant": "south"}
    wrong = {"edges": [[0, 1]], "names": ["only one"]}
    Path("plants.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in (bare, wrong, named)))
    why = command("explain", invariant, "plants.jsonl", "-o", "why", "--json")
    assert why.code == 0
    assert [problem["row"] for problem in why.json["problems"]] == [2]
    assert "2 nodes" in why.json["problems"][0]["reason"]
    assert [graph["node_names"] for graph in why.json["graphs"]] == [[0, 1], ["pump", 7, "valve"]]
    assert [(row["row"], row["name"]) for row in rows_of(Path("why/nodes.csv"))] == [
        ("1", "0"), ("1", "1"), ("3", "pump"), ("3", "7"), ("3", "valve")
    ]  # fmt: skip
    edges = [row for row in rows_of(Path("why/edges.csv")) if row["row"] == "3"]
    assert len(edges) == 3
    for row in edges:
        for end in ("source", "target"):
            assert row[f"{end}_name"] == ("pump", "7", "valve")[int(row[end])]
    assert "names" not in rows_of(Path("why/answers.csv"))[0]


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["MODEL"], "FILE"),
        (["MODEL", "new.csv", "--split", "test"], "--split"),
        (["MODEL", "bad.csv"], "bad.csv"),
        (["MODEL", "new.csv", "--format", "xls"], "xls"),
    ],
)
def test_bad_input_gets_one_line(command: Command, words: list[str], fact: str) -> None:
    Path("new.csv").write_text("smiles\nCC\n")
    Path("bad.csv").write_text("smiles\nnonsense\n")
    answer = command("explain", *(str(FITTED) if word == "MODEL" else word for word in words))
    assert answer.code == 2
    assert fact in answer.err
    assert len(answer.err.strip().splitlines()) == 1
