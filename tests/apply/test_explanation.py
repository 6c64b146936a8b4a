"""Explanations as files: pictures and JSON."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch_geometric.data import Data

import goodformer as gf
from goodformer.apply.explanation import CAPTIONS, explain_agreement, readable
from goodformer.data import Benchmark
from goodformer.data.molecule import featurise
from goodformer.engine.run import train
from goodformer.engine.store import Run
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from tests.apply.molecules import untrained
from tests.draw.test_molecules import fills
from tests.engine.tiny import QUIET, tiny_config

SMILES = ["CC(=O)Nc1ccc(O)cc1", "CC(=O)Oc1ccccc1C(=O)O", "C", "[Na+].CC(=O)[O-]"]
TRIANGLE = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
pytestmark = pytest.mark.usefixtures("own_cache")


def test_a_run_is_explained_on_graphs_spread_over_a_split(explained: Run, benchmark: Benchmark, tmp_path: Path) -> None:
    report = gf.explain_run(explained, tmp_path / "found", split="id_test", count=3)
    graphs = benchmark.splits["id_test"]
    places = [0, len(graphs) // 3, 2 * len(graphs) // 3]
    assert [graph["graph"] for graph in report["graphs"]] == [f"id_test {place}" for place in places]
    assert json.loads((tmp_path / "found" / "edges.json").read_text()) == report
    assert Path(report["picture"]).stat().st_size > 10_000
    assert (report["run"], report["method"], report["explanation"]) == (explained.folder.name, "goodformer", "own")
    answer = FittedModel.of_run(explained).predict(graphs)
    assert [graph["predicted"] for graph in report["graphs"]] == answer.classes[places].tolist()
    assert [graph["label"] for graph in report["graphs"]] == graphs.graph["y"][places].tolist()
    with pytest.raises(InputError, match="did you mean test"):
        gf.explain_run(explained, tmp_path, split="tset")


def test_large_molecules_of_a_run_are_left_out_and_counted(tmp_path: Path) -> None:
    """Every fourth molecule is a chain of 70 atoms, and every split has some."""
    chains = ["C" * (70 if row % 4 == 0 else 3 + row % 5) + "ON"[row % 2] for row in range(80)]
    (tmp_path / "chains.csv").write_text("smiles,y\n" + "".join(f"{one},{one[-1]}\n" for one in chains))
    table = {"name": "table", "path": str(tmp_path / "chains.csv"), "target": "y", "split": "random"}
    config = gf.configure(table, "erm", overrides=["training.epochs=1", "model.dim=16"])
    run = gf.train(config, tmp_path / "runs", QUIET)
    sizes = gf.load_benchmark(**table).splits["train"].sizes
    few, everything = (gf.explain_run(run, tmp_path / "why", split="train", count=n) for n in (3, len(sizes)))
    assert [int(sizes[int(graph["graph"].split()[1])]) < 10 for graph in few["graphs"]] == [True] * 3
    note = few["notes"][0]
    assert int((sizes > 60).sum()) > 0
    assert note.startswith(f"{int((sizes > 60).sum())} of {len(sizes)} molecules")
    assert not any("left out" in one for one in everything["notes"])


@pytest.mark.parametrize(
    ("sizes", "count", "expected"),
    [
        ([70, 10, 500, 20, 30], 2, [1, 3, 4]),  # enough readable ones: all of them
        ([70, 10, 500, 65, 20], 3, [1, 3, 4]),  # the smallest of the others
        ([70, 10, 500, 65, 20], 9, [0, 1, 3, 4]),  # never one that is too large
        ([900, 500, 700], 2, [1, 2]),  # unless all are
        ([400, 401], 2, [0]),
    ],
)
def test_small_molecules_are_taken_first(sizes: list[int], count: int, expected: list[int]) -> None:
    assert readable(torch.tensor(sizes), count, (60, 400)).tolist() == expected


def test_own_graphs_are_numbered_and_need_no_label(explained: Run, tmp_path: Path) -> None:
    graphs = [Data(edge_index=TRIANGLE, num_nodes=3), Data(edge_index=TRIANGLE, num_nodes=4)]
    report = gf.explain_graphs(FittedModel.of_run(explained, "last"), graphs, tmp_path, k=1)
    assert [(graph["graph"], graph["label"]) for graph in report["graphs"]] == [("graph 0", None), ("graph 1", None)]
    assert sorted(report["graphs"][1]["edges"]) == [[0, 1], [0, 2], [1, 2]]
    assert report["graphs"][1]["node_scores"][3] is None
    labelled = [Data(edge_index=TRIANGLE, num_nodes=3, y=torch.tensor([[1.0, float("nan")]]))]
    report = gf.explain_graphs(FittedModel.of_run(explained), labelled, tmp_path, measure=False)
    assert report["graphs"][0]["label"] == [1.0, None]


@pytest.mark.parametrize(("name", "source"), [("explained", "own"), ("finished", "post-hoc")])
def test_the_caption_says_where_scores_come_from(
    name: str, source: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model = FittedModel.of_run(request.getfixturevalue(name))
    graphs = [Data(edge_index=TRIANGLE, num_nodes=3)]
    report = gf.explain_graphs(model, graphs, tmp_path, measure=False, form="svg")
    text = Path(report["picture"]).read_text()  # Matplotlib writes every text as a comment
    assert report["explanation"] == source
    assert [one for one in CAPTIONS if CAPTIONS[one] in text] == [source]


def test_molecules_are_drawn_from_smiles_or_codes(tmp_path: Path) -> None:
    model, molecules = untrained(), featurise(SMILES).graphs
    report = gf.explain_graphs(model, molecules, tmp_path / "a", smiles=SMILES, form="svg", single_pictures=True)
    assert not any(fills(Path(path)) for path in report["pictures"])  # an untrained model has no reasons to mark
    assert report["graphs"][2]["fidelity"] == dict.fromkeys(report["graphs"][2]["fidelity"])  # a single atom
    assert report["fidelity"]["graphs"] == 3
    how = {"form": "svg", "single_pictures": True, "measure": False}
    report = gf.explain_graphs(model, molecules, tmp_path / "a", smiles=SMILES, **how)
    drawn = fills(Path(report["picture"]))
    assert len(drawn) == 13  # the bonds of aspirin, the largest
    assert [Path(path).name for path in report["pictures"]] == ["0.svg", "1.svg", "2.svg", "3.svg"]
    assert [row["smiles"] for row in report["graphs"]] == SMILES
    bare = gf.explain_graphs(model, list(molecules), tmp_path / "b", **how)
    for one, other in zip(report["pictures"], bare["pictures"], strict=True):  # bonds have other numbers
        assert sorted(map(sorted, fills(Path(one)).values())) == sorted(map(sorted, fills(Path(other)).values()))
    png = gf.explain_graphs(model, molecules, tmp_path / "c", measure=False)
    assert Image.open(png["picture"]).size[0] > 700
    assert png["fidelity"] is None
    assert "fidelity" not in png["graphs"][0]


def test_pictures_get_each_molecule_with_its_own_bonds_scores_and_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr("goodformer.draw.molecules.draw_molecules", lambda *given: calls.append(given) or given[3])
    model, graphs = untrained(), featurise(SMILES[:2]).graphs
    names = ["paracetamol", "aspirin"]
    report = gf.explain_graphs(
        model, graphs, tmp_path, names, k=4, smiles=SMILES[:2], single_pictures=True, measure=False, note="one left out"
    )
    both, *alone = calls
    assert both[0] == SMILES[:2]
    assert [index.tolist() for index in both[1]] == [graph.edge_index.tolist() for graph in graphs.as_given()]
    assert [title.split("\n")[0] for title in both[4]] == names
    assert both[5:] == (4, CAPTIONS["post-hoc"].replace("edges", "bonds"), "one left out", [True, True])
    for place, (index, scores) in enumerate(zip(both[1], both[2], strict=True)):
        best = index[:, scores.argmax()].sort().values.tolist()
        assert report["graphs"][place]["edges"][0] == best
    for place, call in enumerate(alone):
        assert (call[0], call[4]) == (both[0][place : place + 1], both[4][place : place + 1])
        assert call[3].name == f"{place}.png"


def test_all_graphs_are_scored_and_the_first_are_drawn(tmp_path: Path) -> None:
    model, smiles = untrained(), ["C" * size for size in range(2, 32)]
    molecules = featurise(smiles).graphs
    report = gf.explain_graphs(
        model, molecules, tmp_path, smiles=smiles, picture_limit=4, single_pictures=True, measure=False
    )
    assert len(report["graphs"]) == 30
    assert len(report["pictures"]) == len(list((tmp_path / "graphs").iterdir())) == 4
    lines = (tmp_path / "edges.json").read_text().splitlines()
    assert sum('"graph": "graph ' in line for line in lines) == 30  # one line per graph
    assert json.loads("\n".join(lines)) == report
    assert gf.explain_graphs(model, molecules, tmp_path, picture_limit=0, measure=False)["picture"] is None


def test_wrong_input_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 names for 4 graphs"):
        gf.explain_graphs(untrained(), featurise(SMILES).graphs, tmp_path / "found", names=["one"])
    assert not (tmp_path / "found").exists()


def test_runs_of_different_seeds_are_compared(finished: Run, explained: Run, tmp_path: Path) -> None:
    other = train(tiny_config(seed=1, training={"epochs": 1}), tmp_path / "runs", QUIET)
    report = explain_agreement([finished, other], tmp_path, split="test", count=5)
    assert json.loads((tmp_path / "agreement.json").read_text()) == report
    assert report["runs"] == [finished.folder.name, other.folder.name]
    assert len(report["per_graph"]) == report["graphs"] == 5
    for name in ("correlation", "overlap"):
        assert statistics.fmean(row[name] for row in report["per_graph"]) == pytest.approx(report[name], abs=1e-5)
    assert -1 <= report["correlation"] < 1
    assert 0 <= report["overlap"] < 1
    same = explain_agreement([finished, finished], count=5)
    assert (same["correlation"], same["overlap"]) == (pytest.approx(1), 1)
    with pytest.raises(InputError, match=f"{finished.folder.name} and {explained.folder.name} differ in their model"):
        explain_agreement([finished, explained])
    with pytest.raises(InputError, match="two or more"):
        explain_agreement([explained])
