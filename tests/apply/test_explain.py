"""Which rows of a file are drawn, and whether the notes on the others are true."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from goodformer.apply.explain import Shown, explain_file
from goodformer.apply.predict import predict_file
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES
from goodformer.data.readers.attributes import Attributes
from goodformer.data.readers.collection import Collection
from goodformer.errors import InputError
from goodformer.explain.fidelity import NONE, VERDICTS, Fidelity
from goodformer.fitted import Predictions
from tests.apply.molecules import untrained


def add(shown: Shown, sizes: list[int], rows: list[int]) -> None:
    """Add a block of graphs without edges."""
    nodes = torch.tensor([0, *sizes]).cumsum(0)
    graphs = GraphSet(
        {"x": torch.zeros(int(nodes[-1]), 9, dtype=torch.long)},
        {"index": torch.zeros(2, 0, dtype=torch.long), "attr": torch.zeros(0, 3, dtype=torch.long)},
        {},
        nodes,
        torch.zeros(len(nodes), dtype=torch.long),
    )
    z = torch.tensor(rows).float()[:, None]
    answer = Predictions(z, z, z.long(), None)
    collection = Collection(graphs, FEATURES, torch.tensor(rows), max(rows) + 1)
    shown.add(collection, answer, [torch.tensor([row]) for row in rows], Fidelity(*[z[:, 0]] * 6))


@settings(max_examples=80, deadline=None)
@given(
    kinds=st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), min_size=1, max_size=14),
    count=st.integers(1, 8),
    size=st.integers(1, 5),
)
def test_rows_and_notes_against_a_plain_loop(kinds: list[int], count: int, size: int) -> None:
    """Readable up to 2 nodes, drawn up to 4; every third row of the file cannot be read."""
    rows = [place + place // 2 for place in range(len(kinds))]
    shown = Shown(count, (2, 4))
    for start in range(0, len(kinds), size):
        add(shown, kinds[start : start + size], rows[start : start + size])
    ranked = sorted(zip(rows, kinds, strict=True), key=lambda pair: (pair[1] > 2) + (pair[1] > 4))[:count]
    chosen = [row for row, _ in ranked]
    assert [row.number - 1 for row in shown.rows] == chosen
    assert shown.drawable == sum(nodes <= 4 for _, nodes in ranked)
    for row in shown.rows:  # each with its own prediction, scores and graph
        nodes = kinds[rows.index(row.number - 1)]
        assert (int(row.answer.classes), int(row.scores), int(row.graph.sizes)) == (
            row.number - 1,
            row.number - 1,
            nodes,
        )
    skipped = [row for row in rows if row < max(chosen) and row not in chosen]
    missing = len(skipped) + len(chosen) - shown.drawable
    assert shown.missing.startswith(f"{missing} molecule" if missing else "")
    assert bool(shown.missing) == bool(missing)
    notes = shown.notes()
    assert len(notes) == bool(skipped) + (shown.drawable < len(chosen))
    if skipped:
        assert f"{len(skipped)} molecule" in notes[0]
        assert f"row {skipped[0] + 1})" in notes[0]
    if shown.drawable < len(chosen):
        assert notes[-1].startswith(f"row {chosen[shown.drawable] + 1} ")


# The order of atoms ---------------------------------------------------------------------------------------------------

DRUGS = ["CC(=O)Nc1ccc(O)cc1", "CC(C)NC[C@H](O)COc1cccc2ccccc12", "C[C@H]1CC[C@@H](C)CC1", r"C/C=C/[C@H](O)/C=C\C"]


def by_bond(mol: Chem.Mol, scored: list[tuple[int, int, float]]) -> list[tuple[str, float]]:
    """Scores of bonds with the environment of their atoms, which does not depend on the order of atoms."""
    rank = list(Chem.CanonicalRankAtoms(mol, breakTies=False))
    return sorted((str(sorted((rank[a], rank[b]))), round(score, 5)) for a, b, score in scored)


def marks(mol: Chem.Mol, record: dict[str, Any]) -> list[int]:
    """The marked atoms as classes of symmetric atoms, and whether atoms of one class are marked alike."""
    ranks = list(Chem.CanonicalRankAtoms(mol, breakTies=False))
    marked = set(record["subgraph_nodes"])
    alike = {rank: {atom in marked for atom, one in enumerate(ranks) if one == rank} for rank in ranks}
    assert all(len(one) == 1 for one in alike.values())
    return sorted(ranks[atom] for atom in marked)


@pytest.mark.parametrize(("method", "model"), [("erm", "gin"), ("gsat", "gps")])
def test_scores_belong_to_the_atoms_as_the_user_numbers_them(tmp_path: Path, method: str, model: str) -> None:
    """Each drug in four notations: the same prediction, and the same score for the same bond in table and JSON."""
    written = [
        one for text in DRUGS for one in (text, *Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(text), 3, randomSeed=5))
    ]
    (tmp_path / "drugs.csv").write_text("smiles\n" + "".join(f"{one}\n" for one in written))
    report = explain_file(untrained(method, model), tmp_path / "drugs.csv", tmp_path / "why", count=len(written))
    with (tmp_path / "why" / "edges.csv").open() as file:
        edges = [
            (int(row["row"]), int(row["source"]), int(row["target"]), float(row["score"]))
            for row in csv.DictReader(file)
        ]
    records = json.loads((tmp_path / "why" / "edges.json").read_text())["graphs"]
    for first in range(0, len(written), 4):
        wanted = None
        for place in range(first, first + 4):
            mol = Chem.MolFromSmiles(written[place])
            table = [(a, b, score) for row, a, b, score in edges if row == place + 1]
            assert {tuple(sorted(pair[:2])) for pair in table} == {
                tuple(sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))) for bond in mol.GetBonds()
            }
            wanted = wanted or by_bond(mol, table)
            assert by_bond(mol, table) == wanted
            listed = [(a, b, s) for (a, b), s in zip(records[place]["edges"], records[place]["scores"], strict=True)]
            assert by_bond(mol, listed) == wanted
            assert records[place]["probabilities"] == records[first]["probabilities"]
            assert records[place]["verdict"] == records[first]["verdict"]
            assert records[place]["fidelity"] == records[first]["fidelity"]
            assert marks(mol, records[place]) == marks(Chem.MolFromSmiles(written[first]), records[first])
    assert report["unreadable"] == 0


def test_an_untrained_model_claims_no_reason(tmp_path: Path) -> None:
    """Nothing is marked, in tables and picture, and a note says why."""
    (tmp_path / "drugs.csv").write_text("smiles\n" + "".join(f"{one}\n" for one in DRUGS))
    report = explain_file(untrained("goodformer", "goodformer"), tmp_path / "drugs.csv", tmp_path / "why")
    assert {graph["verdict"] for graph in report["graphs"]} == {NONE}
    assert report["fidelity"][NONE] == len(DRUGS)
    assert any("no reason" in note for note in report["notes"])
    with (tmp_path / "why" / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["verdict"], row["marked"]) for row in rows} == {(NONE, "")}
    assert set(VERDICTS) == {"decides", "contributes", "no single part"}


def test_a_model_of_networkx_attributes_reads_no_file(tmp_path: Path) -> None:
    model = untrained()
    model.attributes = Attributes()
    rows = tmp_path / "rows.csv"
    rows.write_text("smiles\nCCO\n")
    with pytest.raises(InputError, match="predict networkx graphs from Python"):
        predict_file(model, rows, tmp_path / "answers.csv")
