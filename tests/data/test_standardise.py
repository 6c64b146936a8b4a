"""Salts, charged forms and tautomers of a molecule as one molecule, and duplicates whose labels differ."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rdkit import Chem

from goodformer.apply.explain import explain_file
from goodformer.apply.fit import OwnFile, fit_file
from goodformer.apply.predict import OLD_READER, notes_on, predict_file
from goodformer.apply.recipe import Recipe
from goodformer.config.run import Hardware
from goodformer.data.benchmarks.table import load_table
from goodformer.data.molecule import featurise, featurise_blocks
from goodformer.errors import InputError
from goodformer.estimator import GraphClassifier
from goodformer.fitted import FittedModel
from tests.apply.molecules import FITTED, write_table

PROPRANOLOL = [
    "CC(C)NCC(O)COc1cccc2ccccc12",
    "CC(C)NCC(O)COc1cccc2ccccc12.Cl",
    "CC(C)[NH2+]CC(O)COc1cccc2ccccc12",
    "[Cl-].CC(C)[NH2+]CC(O)COc1cccc2ccccc12",
    "[Cl].CC(C)NCC(O)COc1cccc2ccccc12",
]
KETO, ENOL = "CC(=O)CC(C)=O", "CC(O)=CC(C)=O"
QUICK = Recipe("erm", "gin", overrides=["training.epochs=1", "model.dim=16"])


def fitted(folder: Path, standardise: str, **more: Any) -> tuple[FittedModel, dict[str, Any]]:
    """A model of the small molecules, and its report."""
    write_table(folder / "train.csv")
    source = OwnFile(folder / "train.csv", ("nitro",), standardise=standardise, **more)
    report = fit_file(source, folder / "model", QUICK, runs=folder / "runs", hardware=Hardware(progress=False))
    return FittedModel.open(folder / "model"), report


def answers(model: FittedModel, smiles: list[str], folder: Path) -> list[dict[str, str]]:
    """The rows that prediction writes."""
    (folder / "new.csv").write_text("smiles\n" + "".join(f"{one}\n" for one in smiles))
    predict_file(model, folder / "new.csv", folder / "answers.csv")
    with (folder / "answers.csv").open() as file:
        return list(csv.DictReader(file))


def test_salts_and_charged_forms_are_one_graph() -> None:
    plain, parent = featurise(PROPRANOLOL), featurise(PROPRANOLOL, standardise="parent")
    assert len({len(graph.x) for graph in plain.graphs}) > 1
    assert parent.parsed.smiles == (PROPRANOLOL[0],) * 5
    assert all(torch.equal(graph.x, parent.graphs[0].x) for graph in parent.graphs)
    assert all(torch.equal(graph.edge_index, parent.graphs[0].edge_index) for graph in parent.graphs)
    blocks = [Chem.MolToMolBlock(Chem.MolFromSmiles(one)) for one in PROPRANOLOL]
    assert featurise_blocks(blocks, "parent").parsed.smiles == parent.parsed.smiles


def test_tautomers_are_one_graph_if_asked() -> None:
    assert len(set(featurise([KETO, ENOL], standardise="parent").parsed.smiles)) == 2
    assert featurise([KETO, f"{ENOL}.Cl"], standardise="tautomer").parsed.smiles == (KETO, KETO)
    with pytest.raises(InputError, match="parent"):
        featurise([KETO], standardise="parents")


def test_rows_that_cannot_be_read_stay_where_they_are() -> None:
    made = featurise(["C1C", PROPRANOLOL[1], None], standardise="parent")
    assert made.rows.tolist() == [1]
    assert [one.row for one in made.rejected] == [0, 2]


def test_a_model_standardises_what_it_predicts(tmp_path: Path) -> None:
    model, report = fitted(tmp_path, "parent")
    assert model.standardise == report["standardise"] == "parent"
    assert json.loads((tmp_path / "model" / "model.json").read_text())["about"]["meaning"]["standardise"] == "parent"
    found = answers(model, [*PROPRANOLOL, "C1C"], tmp_path)
    assert len({(row["p_yes"], row["domain_score"]) for row in found[:5]}) == 1
    assert [row["standardised"] for row in found] == [PROPRANOLOL[0]] * 5 + [""]
    assert [row["smiles"] for row in found] == [*PROPRANOLOL, "C1C"]
    explain_file(model, tmp_path / "new.csv", tmp_path / "why")
    with (tmp_path / "why" / "nodes.csv").open() as file:
        nodes = [row["row"] for row in csv.DictReader(file)]
    assert {nodes.count(str(row)) for row in range(1, 6)} == {19}  # atoms of propranolol without its salt
    classifier = GraphClassifier.load(tmp_path / "model")
    assert len({tuple(row) for row in classifier.predict_proba(PROPRANOLOL).tolist()}) == 1


def test_without_it_salts_differ(tmp_path: Path) -> None:
    model, _ = fitted(tmp_path, "none")
    found = answers(model, PROPRANOLOL, tmp_path)
    assert len({row["p_yes"] for row in found}) > 1
    assert "standardised" not in found[0]


def test_a_model_of_the_old_reader_says_so(tmp_path: Path) -> None:
    assert OLD_READER in notes_on(FittedModel.open(FITTED), FITTED / "new.csv")
    model, _ = fitted(tmp_path, "none")
    assert OLD_READER not in notes_on(model, FITTED / "new.csv")


def conflicting(path: Path) -> Path:
    """A table in which two molecules have rows with different labels, one of them only as its salt."""
    chains = "".join(f"{'C' * length}{end},{length % 2},\n" for length in range(1, 20) for end in ("O", "N", "F"))
    more = "OCC,1,0\nCCO,0,1\nC(O)C,1,\nCC(=O)O,1,1\nCC(=O)[O-].[Na+],0,1\nCCO,0,1\n"
    path.write_text(f"smiles,a,b\n{chains}{more}")
    return path


def test_duplicates_with_conflicting_labels_are_listed(tmp_path: Path) -> None:
    path = conflicting(tmp_path / "a.csv")
    table = load_table(path, target="a", split="random")
    assert table.conflicts == [
        {"rows": [4, 58, 59, 60, 63], "smiles": "CCO", "target": "a", "labels": ["0", "1", "0", "1", "0"]}
    ]
    assert "1 duplicate with conflicting labels: rows 4, 58, 59, 60, 63 (a = 0 and 1);" in " ".join(table.notes)
    parents = load_table(path, target="a", split="random", standardise="parent").conflicts
    assert [one["rows"] for one in parents] == [[4, 58, 59, 60, 63], [61, 62]]
    both = load_table(path, target=["a", "b"], split="random").conflicts
    assert [(one["target"], one["rows"]) for one in both] == [("a", [4, 58, 59, 60, 63]), ("b", [58, 59, 63])]
    apart = load_table(path, target="a", test=path).conflicts[0]["rows"]
    assert apart[:2] == ["4 of a.csv", "58 of a.csv"]
