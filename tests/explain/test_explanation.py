"""Pictures, scores and their worth from Python."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor
from torch_geometric.data import Data

import goodformer as gf
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES, featurise
from goodformer.engine.weights import ModelFile
from goodformer.explain.explanation import explain, explain_agreement, scores_of
from goodformer.fitted import FittedModel
from goodformer.registry import InputError
from goodformer.spec import Task
from tests.draw.test_molecules import fills

BASIS = {"name": "good-motif", "domain": "basis", "graphs": 150}
SMILES = ["CC(=O)Nc1ccc(O)cc1", "CC(=O)Oc1ccccc1C(=O)O", "C", "[Na+].CC(=O)[O-]"]
TRIANGLE = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(runs: Path) -> gf.Run:
    """A finished run of GOODFormer."""
    config = gf.configure(BASIS, overrides=["training.epochs=1", "model.dim=16"])
    return gf.train(config, runs, gf.Hardware(progress=False))


@pytest.fixture(scope="module")
def plain(runs: Path) -> list[gf.Run]:
    """Two finished runs of ERM that differ in their seed."""
    tiny = ["training.epochs=1", "model.dim=16"]
    configs = [gf.configure(BASIS, "erm", overrides=tiny, seed=seed) for seed in (0, 1)]
    return [gf.train(config, runs, gf.Hardware(progress=False)) for config in configs]


def chemist(method: str = "erm", model: str = "gin", task: Task | None = None) -> gf.FittedModel:
    """A method for molecules with random weights."""
    torch.manual_seed(0)
    parts = {"name": model, "dim": 16}, {"name": method}
    recipe = ModelFile(model=parts[0], method=parts[1], features=FEATURES, task=task or Task("binary", 1, "rocauc"))
    return gf.FittedModel(recipe.build(), recipe)


def test_a_run_is_explained_on_graphs_spread_over_a_split(run: gf.Run, tmp_path: Path) -> None:
    report = gf.explain_run(run, tmp_path / "found", split="id_test", count=3)
    assert [graph["graph"] for graph in report["graphs"]] == ["id_test 0", "id_test 5", "id_test 10"]
    assert json.loads((tmp_path / "found" / "edges.json").read_text()) == report
    assert Path(report["picture"]).stat().st_size > 10_000
    assert (report["run"], report["method"], report["explanation"]) == (run.folder.name, "goodformer", "own")
    answer = FittedModel.of_run(run).predict(gf.load_benchmark(**BASIS).splits["id_test"])
    assert [graph["predicted"] for graph in report["graphs"]] == answer.classes[[0, 5, 10]].tolist()
    with pytest.raises(InputError, match="did you mean test"):
        gf.explain_run(run, tmp_path, split="tset")


def test_molecules_that_can_be_read_are_taken_first_and_the_report_says_so(runs: Path, tmp_path: Path) -> None:
    """Every fourth molecule is a chain of 70 atoms, and every part of the table has some."""
    chains = ["C" * (70 if row % 4 == 0 else 3 + row % 5) + "ON"[row % 2] for row in range(80)]
    (tmp_path / "chains.csv").write_text("smiles,y\n" + "".join(f"{one},{one[-1]}\n" for one in chains))
    table = {"name": "table", "path": str(tmp_path / "chains.csv"), "target": "y", "split": "random"}
    config = gf.configure(table, "erm", overrides=["training.epochs=1", "model.dim=16"])
    run = gf.train(config, runs, gf.Hardware(progress=False))
    sizes = gf.load_benchmark(**table).splits["train"].sizes
    few, all_of_them = (gf.explain_run(run, tmp_path / "why", split="train", count=n) for n in (3, len(sizes)))
    assert [int(sizes[int(graph["graph"].split()[1])]) < 10 for graph in few["graphs"]] == [True] * 3
    large = int((sizes > 60).sum())
    assert few["notes"] == [f"{large} of {len(sizes)} molecules left out, for they have above 60 atoms."]
    assert large > 0
    assert "notes" not in all_of_them


def test_graphs_of_ones_own_are_numbered_and_need_no_label(run: gf.Run, tmp_path: Path) -> None:
    graphs = [Data(edge_index=TRIANGLE, num_nodes=3), Data(edge_index=TRIANGLE, num_nodes=4)]
    report = gf.explain_graphs(FittedModel.of_run(run, "last"), graphs, tmp_path, k=1)
    assert [(graph["graph"], graph["label"]) for graph in report["graphs"]] == [("graph 0", None), ("graph 1", None)]
    assert sorted(report["graphs"][1]["edges"]) == [[0, 1], [0, 2], [1, 2]]
    assert report["graphs"][1]["node_scores"][3] is None
    labelled = [Data(edge_index=TRIANGLE, num_nodes=3, y=torch.tensor([[1.0, float("nan")]]))]
    assert gf.explain_graphs(FittedModel.of_run(run), labelled, tmp_path)["graphs"][0]["label"] == [1.0, None]


def test_a_method_without_scores_is_explained_afterwards(plain: list[gf.Run], tmp_path: Path) -> None:
    report = gf.explain_run(plain[0], tmp_path / "found", count=2)
    assert report["explanation"] == "post-hoc"
    graphs = gf.load_benchmark(**BASIS).splits["test"].subset([0, 7])
    predictor = FittedModel.of_run(plain[0])
    for record, graph in zip(report["graphs"], graphs, strict=True):
        (low, high), best = record["edges"][0], record["scores"][0]
        weight = (~((graph.edge_index == low).any(0) & (graph.edge_index == high).any(0))).float()
        odds = [_odds(predictor, graph, one, record["predicted"]) for one in (torch.ones_like(weight), weight)]
        assert best == pytest.approx(odds[0] - odds[1], abs=1e-3)


def test_a_picture_says_what_its_edges_are(run: gf.Run, plain: list[gf.Run], tmp_path: Path) -> None:
    captions = {"own": "found invariant subgraph", "post-hoc": "edges that matter to the prediction"}
    graphs = [Data(edge_index=TRIANGLE, num_nodes=3)]
    for one, source, other in ((run, "own", "post-hoc"), (plain[0], "post-hoc", "own")):
        report = gf.explain_graphs(FittedModel.of_run(one), graphs, tmp_path / source, measure=False, form="svg")
        text = Path(report["picture"]).read_text()  # Matplotlib leaves every text in a comment
        assert report["explanation"] == source
        assert captions[source] in text
        assert captions[other] not in text


def _odds(predictor: gf.FittedModel, graph: Data, weight: Tensor, said: int) -> float:
    """log p / (1 - p) of a class of one graph, edges weighted."""
    batch = predictor.prepare([graph]).batch([0])
    with torch.no_grad():
        return float(predictor.method.weighted_logits(batch, weight).double().softmax(1)[0, said].logit())


@pytest.mark.parametrize("model", ["gin", "gps"])
def test_fidelity_is_that_of_graphs_cut_by_hand(model: str) -> None:
    predictor = chemist(model=model)
    molecules = featurise(SMILES[:2]).graphs
    found = explain(predictor, molecules, k=4)
    assert found.worth is not None
    for place in range(2):
        graph, record = found.graphs[place], found.record(place, 4)
        best = {tuple(edge) for edge in record["edges"][:4]}
        chosen = torch.tensor([tuple(sorted(pair)) in best for pair in graph.edge_index.T.tolist()])
        nodes = graph.edge_index[:, chosen].unique()
        number = torch.full((graph.num_nodes,), -1).index_copy(0, nodes, torch.arange(len(nodes)))
        removed = Data(x=graph.x, edge_index=graph.edge_index[:, ~chosen], edge_attr=graph.edge_attr[~chosen])
        kept = Data(x=graph.x[nodes], edge_index=number[graph.edge_index[:, chosen]], edge_attr=graph.edge_attr[chosen])
        for name, part in (("removed", removed), ("kept", kept)):  # encodings are those of the part
            share = float(predictor.predict([part]).probabilities)
            expected = share if record["predicted"] == [1] else 1 - share
            assert record["fidelity"][name] == pytest.approx(expected, abs=1e-5)


def test_molecules_are_drawn_as_such_from_smiles_or_codes(tmp_path: Path) -> None:
    predictor, molecules = chemist(), featurise(SMILES).graphs
    report = gf.explain_graphs(predictor, molecules, tmp_path / "a", smiles=SMILES, form="svg", single_pictures=True)
    drawn = fills(Path(report["picture"]))
    assert len(drawn) == 13  # the bonds of aspirin, the largest
    assert [Path(path).name for path in report["pictures"]] == ["0.svg", "1.svg", "2.svg", "3.svg"]
    assert [row["smiles"] for row in report["graphs"]] == SMILES
    assert report["graphs"][2]["fidelity"] == {"whole": None, "removed": None, "kept": None}  # a single atom
    assert report["fidelity"]["graphs"] == 3
    bare = gf.explain_graphs(predictor, list(molecules), tmp_path / "b", form="svg")
    assert fills(Path(bare["picture"])) == drawn
    png = gf.explain_graphs(predictor, molecules, tmp_path / "c", measure=False)
    assert Image.open(png["picture"]).size[0] > 700
    assert png["fidelity"] is None
    assert "fidelity" not in png["graphs"][0]


def test_all_are_scored_and_the_first_are_drawn(tmp_path: Path) -> None:
    predictor, smiles = chemist(), ["C" * size for size in range(2, 32)]
    molecules = featurise(smiles).graphs
    report = gf.explain_graphs(
        predictor, molecules, tmp_path, smiles=smiles, picture_limit=4, single_pictures=True, measure=False
    )
    assert len(report["graphs"]) == 30
    assert len(report["pictures"]) == len(list((tmp_path / "graphs").iterdir())) == 4
    lines = (tmp_path / "edges.json").read_text().splitlines()
    assert sum('"graph": "graph ' in line for line in lines) == 30  # one graph a line
    assert json.loads("\n".join(lines)) == report
    assert gf.explain_graphs(predictor, molecules, tmp_path, picture_limit=0, measure=False)["picture"] is None


@pytest.mark.parametrize(
    ("task", "classes", "expected"),
    [
        (Task("binary", 1, "rocauc"), ("inactive", "active"), "mine: class active, predicted {} ({:.2f})"),
        (Task("binary", 1, "rocauc"), None, "mine: class 1, predicted {} ({:.2f})"),
        (Task("multiclass", 3), ("a", "b", "c"), "mine: class b, predicted {} ({:.2f})"),
    ],
)
def test_titles_say_what_was_said(task: Task, classes: tuple[str, ...] | None, expected: str) -> None:
    graph = featurise(SMILES[:1]).graphs
    y = torch.tensor([[1.0]]) if task.kind == "binary" else torch.tensor([1])
    labelled = GraphSet(graph.node, graph.edge, {"y": y}, graph.node_ptr, graph.edge_ptr)
    found = explain(chemist(task=task), labelled, ["mine"], classes=classes and {"y": classes}, measure=False)
    shares, said = found.answer.probabilities[0], int(found.answer.classes.flatten()[0])
    share = shares[said] if task.kind == "multiclass" else shares[0] if said else 1 - shares[0]
    assert found.title(0) == expected.format(classes[said] if classes else said, float(share))
    targets = explain(chemist(task=Task("binary", 3, "rocauc")), graph, ["mine"], measure=False)
    assert targets.title(0) == f"mine: predicted {', '.join(map(str, targets.answer.classes[0].tolist()))}"


def test_titles_of_several_targets_name_each_in_its_own_words() -> None:
    task, graph = Task("binary", 2, "rocauc"), featurise(SMILES[:1]).graphs
    names = {"a": ("inactive", "active"), "b": ("safe", "toxic")}
    y = torch.tensor([[1.0, math.nan]])
    labelled = GraphSet(graph.node, graph.edge, {"y": y}, graph.node_ptr, graph.edge_ptr)
    found = explain(chemist(task=task), labelled, ["mine"], classes=names, measure=False)
    a, b = found.answer.classes[0].tolist()
    assert found.title(0) == f"mine: class a active, b ?, predicted a {names['a'][a]}, b {names['b'][b]}"


def test_runs_of_different_seeds_are_compared(plain: list[gf.Run], run: gf.Run, tmp_path: Path) -> None:
    report = explain_agreement(plain, tmp_path, split="test", count=5)
    assert json.loads((tmp_path / "agreement.json").read_text()) == report
    assert report["runs"] == [one.folder.name for one in plain]
    assert len(report["per_graph"]) == report["graphs"] == 5
    assert -1 <= report["correlation"] < 1
    assert 0 <= report["overlap"] < 1
    same = explain_agreement([plain[0], plain[0]], count=5)
    assert (same["correlation"], same["overlap"]) == (pytest.approx(1), 1)
    with pytest.raises(InputError, match="give runs that differ in their seed only"):
        explain_agreement([plain[0], run])
    with pytest.raises(InputError, match="two or more"):
        explain_agreement([run])


def test_own_scores_are_the_methods(run: gf.Run) -> None:
    graphs = gf.load_benchmark(**BASIS).splits["test"].subset(range(3))
    predictor = FittedModel.of_run(run)
    scores, source = scores_of(predictor, graphs)
    answer = predictor.predict(graphs)
    assert source == "own"
    assert answer.edge_scores is not None
    assert all(torch.equal(a, b) for a, b in zip(scores, answer.edge_scores, strict=True))


@pytest.mark.parametrize("wrong", [{"names": ["one"]}, {"smiles": ["C"]}])
def test_what_does_not_fit_is_refused_before_anything_is_written(wrong: dict[str, list[str]], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one for each graph"):
        gf.explain_graphs(chemist(), featurise(SMILES).graphs, tmp_path / "found", **wrong)
    assert not (tmp_path / "found").exists()
