"""Molecule rules: labels and truth against RDKit on small files."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rdkit import Chem

from goodformer.data import DATASETS, load_benchmark
from goodformer.data.acquire import data_folder
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks import hiv, rules
from goodformer.data.benchmarks.rules import GROUPS, RULES
from goodformer.data.molecule import featurise, rebuilt
from goodformer.errors import InputError
from goodformer.spec import SPLITS

RINGS = ("C1CCCCC1", "c1ccccc1", "c1ccncc1", "C1CC1", "c1ccsc1", "C1CCNC1", "c1ccc2ccccc2c1", "C1CCOC1", "C1CCC1")
BEFORE = ("C", "OC(=O)C", "COC(=O)C", "NC", "ClC", "[O-][N+](=O)C", "CN(C)C", "NC(=O)C", "O=CC", "OC", "FCCC")
AFTER = ("CC", "CC(=O)O", "CC(=O)OC", "CNC", "CCl", "C[N+](=O)[O-]", "CN(C)C", "CC(=O)N", "CC=O", "CO", "C(F)CN")
TRUTHS = {
    # SMILES, rule, true atoms, true bonds
    "nitro": ("CC[N+](=O)[O-]", {2, 3, 4}, {(2, 3), (2, 4)}),
    "acid-or-ester": ("OC(=O)CC(=O)OC", {0, 1, 2, 4, 5, 6}, {(0, 1), (1, 2), (4, 5), (4, 6)}),
    "acid-without-ester": ("OC(=O)CC(=O)N", {0, 1, 2}, {(0, 1), (1, 2)}),
    "amine-and-halogen": ("NCCC(Cl)NC", {0, 1, 3, 4, 5, 6}, {(0, 1), (3, 4), (3, 5), (5, 6)}),
    "benzene": ("Cc1ccc2ccccc2n1", {4, 5, 6, 7, 8, 9}, {(4, 5), (5, 6), (6, 7), (7, 8), (8, 9), (4, 9)}),
}
MISSED = {
    "nitro": ("CO[N+](=O)[O-]", "C[n+]1ccccc1", "CN=O", "CC(=O)[O-]"),
    "acid-or-ester": ("CC(=O)N", "CC(=O)C", "COC(=O)N", "CC=O", "CO"),
    "acid-without-ester": ("CC(=O)OC", "OC(=O)CC(=O)OC", "CC(=O)N"),
    "amine-and-halogen": ("NCC", "CCl", "NC(=O)CCl", "CN(C)CCl", "NS(=O)(=O)CCl"),
    "benzene": ("c1ccncc1", "C1CCCCC1", "c1ccsc1"),
}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the format of HIV.csv with many scaffolds and groups, and a row that is no molecule."""
    rows = ["xx", *(f"{one}{ring}{other}" for ring, one, other in itertools.product(RINGS, BEFORE, AFTER))]
    (tmp_path / "HIV.csv").write_text("smiles,activity,HIV_active\n" + "".join(f"{text},CI,0\n" for text in rows))
    monkeypatch.setattr(hiv, "SOURCE", replace(hiv.SOURCE, sha256=None))
    return tmp_path


def load(folder: Path, **settings: object) -> Benchmark:
    with data_folder(folder):
        return load_benchmark("molecule-rules", **settings)


def test_every_rule_can_be_chosen() -> None:
    assert DATASETS.settings("molecule-rules")["rule"].choices == tuple(RULES)
    assert {group for rule in RULES.values() for group in (*rule.groups, *rule.without, *rule.decoys)} == set(GROUPS)


@pytest.mark.parametrize("rule", RULES)
def test_truth_by_hand(rule: str) -> None:
    smiles, atoms, bonds = TRUTHS[rule]
    made = featurise([smiles, *MISSED[rule]])
    has = made.parsed.contain(tuple(GROUPS.values()))
    positive, decoy = RULES[rule].apply(dict(zip(GROUPS, has.T, strict=True)))
    assert positive.tolist() == [True] + [False] * len(MISSED[rule])
    assert decoy.tolist() == [False] + [True] * len(MISSED[rule])
    marked = rules._marked(made, np.arange(len(positive)), positive, RULES[rule]).graphs
    first = marked.as_given()[0]  # atoms numbered as in the SMILES
    assert set(first.node_truth.nonzero().flatten().tolist()) == atoms
    assert {tuple(sorted(pair)) for pair in first.edge_index[:, first.edge_truth].T.tolist()} == bonds
    assert int(first.edge_truth.sum()) == 2 * len(bonds)
    assert not marked.subset(range(1, len(marked))).edge["truth"].any()
    assert not marked.subset(range(1, len(marked))).node["node_truth"].any()


@pytest.mark.parametrize("rule", RULES)
def test_classes_are_balanced_and_labels_follow_the_rule(small: Path, rule: str) -> None:
    benchmark = load(small, rule=rule, graphs=200, seed=1)
    assert (benchmark.name, benchmark.domain, benchmark.task.metric) == ("molecule-rules", "scaffold", "rocauc")
    y = torch.cat([benchmark.splits[split].graph["y"] for split in SPLITS])
    assert (len(y), float(y.mean())) == (200, 0.5)
    domains = {split: set(benchmark.splits[split].graph["domain"].tolist()) for split in SPLITS}
    assert not domains["test"] & (domains["train"] | domains["val"])
    queries = {group: Chem.MolFromSmarts(smarts) for group, smarts in GROUPS.items()}
    chosen = RULES[rule]
    for data in benchmark.splits["train"]:
        mol = rebuilt(data)
        Chem.SanitizeMol(mol)
        has = [mol.HasSubstructMatch(queries[group]) for group in chosen.groups]
        holds = (all(has) if chosen.every else any(has)) and not any(
            mol.HasSubstructMatch(queries[group]) for group in chosen.without
        )
        assert bool(data.y) == holds == bool(data.node_truth.any()) == bool(data.edge_truth.any())
        ends = data.edge_index[:, data.edge_truth].unique()
        assert bool(data.node_truth[ends].all())


def test_the_seed_chooses_and_the_number_is_kept(small: Path) -> None:
    first, again, other = (load(small, rule="acid-or-ester", graphs=160, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.splits["train"].node["x"], again.splits["train"].node["x"])
    assert first.splits["train"].node["x"].tolist() != other.splits["train"].node["x"].tolist()
    assert "80 positives, 80 negatives, 40 of them decoys" in first.notes
    assert "rejects 1 of" in first.notes


def test_a_file_with_too_few_molecules_is_refused(small: Path) -> None:
    lines = (small / "HIV.csv").read_text().splitlines()
    (small / "HIV.csv").write_text("\n".join(lines[:60]) + "\n")
    with pytest.raises(InputError, match=r"rule nitro holds .*at least 50 of each"):
        load(small)


def test_a_wrong_pattern_is_refused() -> None:
    with pytest.raises(InputError, match="not a SMARTS"):
        featurise(["CC"]).parsed.contain(["C(("])


def test_empty_input_has_no_matches() -> None:
    parsed = featurise([]).parsed
    assert parsed.contain(["C"]).shape == (0, 1)
    assert [one.shape for one in parsed.matched(["C"])] == [(0,), (2, 0)]
