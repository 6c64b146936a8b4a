"""The theorems: bounds that hold, derivatives that agree with autograd, and a page made from a record."""

import json
import math
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from torch import Tensor

import goodformer as gf
from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.models.goodformer import GOODFormer
from lab import theorems, theory, theory_page, theory_picture, trained

ROOT = Path(__file__).parents[2]
BASIS = {"name": "good-motif", "domain": "basis", "graphs": 150}
NODES = (10, 20)
PICTURES = ("dispersion", "temperature", "attention", "solved", "accuracy")
logit_lists = st.lists(st.floats(-5, 5), min_size=2, max_size=30)
temperatures = st.floats(0.3, 8)
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one tiny finished run of GOODFormer."""
    folder = tmp_path_factory.mktemp("runs")
    gf.train(gf.configure(BASIS, overrides=["training.epochs=1", "model.dim=16"]), folder, gf.Hardware(progress=False))
    return folder


@pytest.fixture(scope="module")
def run(runs: Path) -> gf.Run:
    return gf.Run(next(runs.iterdir()))


@pytest.fixture(scope="module")
def record(run: gf.Run) -> dict[str, Any]:
    return theory.measure([run], graphs=3, base_nodes=NODES)


def tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.double)


# Theorem 1


@settings(max_examples=30, deadline=None)
@given(logits=logit_lists, t=temperatures)
def test_no_softmax_violates_the_bounds(logits: list[float], t: float) -> None:
    e = tensor(logits) / t
    p, spread, n = e.softmax(-1), e.max() - e.min(), len(logits)
    entropy = float(-(p * p.clamp(min=1e-300).log()).sum())
    assert float(p.max()) <= float(theorems.weight_bound(spread, n)) * (1 + 1e-12)
    assert entropy >= float(theorems.entropy_bound(spread, n)) - 1e-9


@settings(max_examples=30, deadline=None)
@given(
    inside=st.lists(st.floats(1e-3, 4), min_size=1, max_size=8),
    outside=st.lists(st.floats(-4, -1e-3), min_size=1, max_size=40),
)
def test_no_softmax_violates_theorem_1(inside: list[float], outside: list[float]) -> None:
    p = tensor(inside + outside).softmax(-1)
    gap = float(p[: len(inside)].max() - p[len(inside) :].min())
    assert gap < theorems.gap_bound(min(outside), max(inside), len(inside), len(outside))


def test_the_bound_is_the_paper_s_by_hand() -> None:
    assert theorems.gap_bound(-1, 2, 5, 10) == pytest.approx((math.e**2 - 1 / math.e) / (5 + 10 / math.e))


def test_random_logits_satisfy_the_premise_and_the_bounds() -> None:
    e = theorems.bounded_logits(50, 12, torch.Generator().manual_seed(1))
    inside, outside = e[:, :5], e[:, 5:]
    assert 0 < float(inside.min()) <= float(inside.max()) <= theorems.HIGH
    assert theorems.LOW <= float(outside.min()) <= float(outside.max()) < 0
    rows = theorems.dispersion((10, 100, 3000), rows=20)
    for row in rows:
        assert row["gap"] <= row["gap_worst"] < row["gap_bound"]
        assert row["largest"] <= row["largest_bound"]
        assert row["entropy_bound"] <= row["entropy"] <= math.log(row["nodes"])
    assert [row["gap"] for row in rows] == sorted((row["gap"] for row in rows), reverse=True)
    assert rows[-1]["gap_worst"] == pytest.approx(rows[-1]["gap_bound"], rel=0.02)  # the bound is tight in the limit


# Theorem 2


@settings(max_examples=30, deadline=None)
@given(logits=logit_lists, pair=st.tuples(temperatures, temperatures))
def test_entropy_never_falls_with_temperature_and_its_slope_is_that_of_autograd(
    logits: list[float], pair: tuple[float, float]
) -> None:
    e, at = tensor(logits), tensor(sorted(pair))
    low, high = theorems.entropy_at(e, at).tolist()
    assert low <= high + 1e-12
    expected = theorems.autograd_slope(e, at).tolist()
    assert theorems.entropy_slope(e, at).tolist() == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_entropy_rises_strictly_unless_all_logits_are_equal() -> None:
    t = tensor([0.5, 1, 2])
    assert bool((theorems.entropy_at(tensor([1, 2, 3]), t).diff() > 0).all())
    equal = tensor([3, 3, 3])
    assert theorems.entropy_at(equal, t).tolist() == pytest.approx(3 * [math.log(3)])
    assert theorems.entropy_slope(equal, t).tolist() == pytest.approx([0, 0, 0])
    assert float(theorems.published_slope(equal, t).min()) > 0  # the cross terms it lacks do matter


def test_a_shift_of_all_logits_changes_nothing_but_the_published_expression() -> None:
    e, t = tensor([0.3, -1, 2]), tensor([0.7])
    assert theorems.entropy_slope(e + 4, t).tolist() == pytest.approx(theorems.entropy_slope(e, t).tolist())
    assert float(theorems.published_slope(e + 4, t)) > 2 * float(theorems.published_slope(e, t))


def test_every_vector_shown_agrees() -> None:
    for name, e in theorems.vectors().items():
        row = theorems.slopes(name, e)
        assert row["rises"]
        assert row["error_autograd"] < 1e-10
        assert row["error_difference"] < 1e-6
        assert row["logits"] == len(e)


# A trained model


@pytest.mark.parametrize("base", trained.BASES)
def test_grown_graphs_are_motif_graphs_of_one_size(base: str) -> None:
    graphs = trained.grown(base, 20, 6)
    assert graphs.sizes.tolist() == 6 * [25]
    assert graphs.graph["y"].tolist() == [0, 1, 2, 0, 1, 2]
    motif = nx.Graph(graphs[1].edge_index.T[graphs[1].edge_truth].tolist())
    assert sorted(motif) == [20, 21, 22, 23, 24]
    assert nx.is_isomorphic(motif, nx.cycle_graph(5))
    whole = nx.Graph(graphs[0].edge_index.T.tolist())
    assert nx.is_connected(whole)
    degrees = {"path": 2, "tree": 3, "star": 19, "wheel": 19, "ladder": 3}
    assert max(dict(whole.degree(range(20))).values()) >= degrees[base]
    assert torch.equal(trained.grown(base, 20, 6).edge_index, graphs.edge_index)


def test_a_base_of_odd_size_is_refused() -> None:
    with pytest.raises(InputError, match="11"):
        trained.grown("ladder", 11, 3)


def test_twins_share_weights_and_differ_in_temperature(run: gf.Run) -> None:
    pair = trained.twins(run)
    graphs = trained.with_encodings(pair["none"], trained.grown("path", 20, 3))
    models = {setting: method.model for setting, method in pair.items()}
    for name, value in models["none"].state_dict().items():
        assert torch.equal(value, models["exact"].state_dict()[name])
    assert torch.equal(_disentangled(models["none"], graphs).temperature, torch.ones(1, 3, 4))
    assert not torch.equal(_disentangled(models["exact"], graphs).temperature, torch.ones(1, 3, 4))


def test_what_is_observed_is_what_the_model_does(run: gf.Run) -> None:
    """Temperature, entropy and accuracy agree with the model's own."""
    pair = trained.twins(run)
    graphs = trained.with_encodings(pair["none"], trained.grown("tree", 10, 3))
    found = trained.observe(pair, graphs)
    for setting, method in pair.items():
        inside = _disentangled(method.model, graphs)
        assert found["entropy"][setting] == pytest.approx(float(inside.entropy[0].mean()), abs=1e-4)
        if setting == "exact":
            assert found["temperature"] == pytest.approx(float(inside.temperature[0].log().mean().exp()), rel=1e-3)
        with torch.no_grad():
            classes = method(graphs.batch([0, 1, 2])).argmax(-1)
        assert found["accuracy"][setting] == pytest.approx(float((classes == graphs.graph["y"]).double().mean()))
    assert found["precision_at_10"]["none"] == found["precision_at_10"]["exact"]  # scores know no temperature


def test_statistics_of_attention_by_hand() -> None:
    """Six nodes, five of them the motif; every row prefers the motif by one."""
    scores = torch.zeros(1, 1, 6, 6)
    scores[..., 0] = -1
    found = trained.attention(scores, torch.tensor([1.0]))
    kept = 5 / (5 + math.exp(-1))
    assert float(found["kept/none"]) == pytest.approx(kept)
    assert float(found["largest/none"]) == pytest.approx(kept / 5)
    assert float(found["spread"]) == pytest.approx(1)
    assert float(found["largest_bound/none"]) == pytest.approx(math.e / 6)
    assert float(found["entropy_bound/none"]) == pytest.approx(math.log(6) - 1)
    assert (float(found["inside"]), float(found["outside"])) == (0, 1)
    assert float(found["broken/none"] + found["broken/exact"]) == 0


def _disentangled(model: Any, graphs: GraphSet) -> Any:
    assert isinstance(model, GOODFormer)
    with torch.no_grad():
        return model.eval().disentangle(graphs.batch(list(range(len(graphs)))), both=False)


def test_a_record_is_complete(record: dict[str, Any], run: gf.Run) -> None:
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    (measured,) = record["runs"]
    assert measured["id"] == run.config.id
    assert [(cell["base"], cell["nodes"]) for cell in measured["cells"]] == [
        (base, nodes + 5) for base in trained.BASES for nodes in NODES
    ]
    assert all(cell["broken"] == {"none": 0, "exact": 0} for cell in measured["cells"])
    assert theory_page.sizes(record) == [15, 25]


def test_another_model_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    config = gf.configure(BASIS, method="erm", model="gin")
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    with pytest.raises(InputError, match=r"gin on good-motif.*goodformer"):
        trained.twins(gf.Run(folder))


# Page, pictures, command line

MARKERS = ("random", "slope", "attention", "solved", "origin")
PAGE = "\n".join(f"<!-- theory-{name}: begin -->\nold\n<!-- theory-{name}: end -->" for name in MARKERS)


def test_means_are_over_bases_then_runs() -> None:
    def cell(base: str, value: float | None) -> dict[str, Any]:
        return {"base": base, "nodes": 15, "accuracy": {"none": value}, "spread": 2.0}

    made = {"runs": [{"cells": [cell("path", 0.5), cell("tree", 1.0), cell("star", 0.0)]}, {"cells": []}]}
    assert theory_page.over_runs(made, 15, "accuracy", "none") == [0.75]
    assert theory_page.over_runs(made, 15, "accuracy", "none", ("star",)) == [0.0]
    assert theory_page.over_runs(made, 15, "spread") == [2.0]
    assert theory_page.over_runs({"runs": [{"cells": [cell("path", None)]}]}, 15, "accuracy", "none") == []


def test_the_page_of_the_docs_is_that_of_the_record() -> None:
    """No number on the page was typed by hand or is older than the record."""
    kept = json.loads((ROOT / "results" / "theory.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    for name, body in theory_page.blocks(kept).items():
        assert f"<!-- theory-{name}: begin -->\n{body}\n<!-- theory-{name}: end -->" in text
    for picture in PICTURES:
        assert f"images/theory-{picture}.png" in text
        assert (ROOT / "docs" / "images" / f"theory-{picture}.png").stat().st_size < 120_000


def test_pictures_show_the_values_of_the_record(record: dict[str, Any], tmp_path: Path) -> None:
    solved, uniform = theory_picture.solved(record).axes[1].lines[-1], theory_picture.solved(record).axes[1].lines[0]
    expected = [theory_page.over_runs(record, n, "entropy", "exact")[0] for n in (15, 25)]
    assert list(solved.get_ydata()) == pytest.approx(expected)
    assert list(uniform.get_ydata()) == pytest.approx([math.log(15), math.log(25)])
    paths = theory_picture.draw(record, tmp_path / "new")
    assert [path.name for path in paths] == [f"theory-{name}.png" for name in PICTURES]
    assert all(imread(path).std() > 0.01 for path in paths)
    assert len(theory_picture.draw({**record, "runs": []}, tmp_path / "less")) == 2


def test_the_script_measures_and_rebuilds_from_its_record(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trained, "BASE_NODES", NODES)
    page, kept = tmp_path / "page.md", tmp_path / "theory.json"
    page.write_text(PAGE)
    words = ("--runs", runs, "--run", next(runs.iterdir()).name, "--graphs", 3, "--record", kept, "--page", page)
    assert theory.main([*map(str, words)]) == 0
    printed, made = capsys.readouterr().out, json.loads(kept.read_text())
    assert "old" not in page.read_text()
    for body in theory_page.blocks(made).values():
        assert body in page.read_text()
        assert body in printed
    path = next(cell for cell in made["runs"][0]["cells"] if (cell["base"], cell["nodes"]) == ("path", 25))
    row = next(line for line in page.read_text().splitlines() if line.startswith("| path | accuracy %, t = 1"))
    assert row.endswith(f"| {100 * path['accuracy']['none']:.2f} |")
    again = tmp_path / "again.md"
    again.write_text(PAGE)
    assert theory.main(["--from", str(kept), "--page", str(again), "-o", str(tmp_path / "p")]) == 0
    assert again.read_text() == page.read_text()
    assert len(list((tmp_path / "p").glob("theory-*.png"))) == len(PICTURES)


def test_an_unknown_run_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert theory.main(["--run", "none", "--runs", str(tmp_path)]) == 2
    assert "none" in capsys.readouterr().err
