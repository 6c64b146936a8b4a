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
from goodformer import cli
from goodformer.cli import output
from goodformer.data.graphs import GraphSet
from goodformer.models.goodformer import GOODFormer
from goodformer.registry import InputError
from goodformer.report import tables
from lab import theory, theory_picture

ROOT = Path(__file__).parents[2]
BASIS = {"name": "good-motif", "domain": "basis", "graphs": 150}
NODES = (10, 20)
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


@settings(max_examples=60, deadline=None)
@given(logits=logit_lists, t=temperatures)
def test_no_softmax_breaks_the_bounds(logits: list[float], t: float) -> None:
    e = tensor(logits) / t
    p, spread, n = e.softmax(-1), e.max() - e.min(), len(logits)
    entropy = float(-(p * p.clamp(min=1e-300).log()).sum())
    assert float(p.max()) <= float(theory.weight_bound(spread, n)) * (1 + 1e-12)
    assert entropy >= float(theory.entropy_bound(spread, n)) - 1e-9


@settings(max_examples=60, deadline=None)
@given(
    inside=st.lists(st.floats(1e-3, 4), min_size=1, max_size=8),
    outside=st.lists(st.floats(-4, -1e-3), min_size=1, max_size=40),
)
def test_no_softmax_breaks_theorem_1(inside: list[float], outside: list[float]) -> None:
    p = tensor(inside + outside).softmax(-1)
    gap = float(p[: len(inside)].max() - p[len(inside) :].min())
    assert gap < theory.gap_bound(min(outside), max(inside), len(inside), len(outside))


def test_the_bound_is_the_paper_s_by_hand() -> None:
    assert theory.gap_bound(-1, 2, 5, 10) == pytest.approx((math.e**2 - 1 / math.e) / (5 + 10 / math.e))


def test_random_logits_keep_the_premise_and_the_bounds() -> None:
    e = theory.bounded_logits(50, 12, torch.Generator().manual_seed(1))
    inside, outside = e[:, :5], e[:, 5:]
    assert 0 < float(inside.min()) <= float(inside.max()) <= theory.HIGH
    assert theory.LOW <= float(outside.min()) <= float(outside.max()) < 0
    rows = theory.dispersion((10, 100, 3000), rows=20)
    for row in rows:
        assert row["gap"] <= row["gap_worst"] < row["gap_bound"]
        assert row["largest"] <= row["largest_bound"]
        assert row["entropy_bound"] <= row["entropy"] <= math.log(row["nodes"])
    assert [row["gap"] for row in rows] == sorted((row["gap"] for row in rows), reverse=True)
    assert rows[-1]["gap_worst"] == pytest.approx(rows[-1]["gap_bound"], rel=0.02)  # the bound is tight in the limit


# Theorem 2


@settings(max_examples=60, deadline=None)
@given(logits=logit_lists, t=temperatures)
def test_the_derivative_is_that_of_autograd(logits: list[float], t: float) -> None:
    e, at = tensor(logits), tensor([t])
    assert float(theory.entropy_slope(e, at)) == pytest.approx(float(theory.autograd_slope(e, at)), rel=1e-7, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(logits=logit_lists, pair=st.tuples(temperatures, temperatures))
def test_entropy_never_falls_with_temperature(logits: list[float], pair: tuple[float, float]) -> None:
    low, high = theory.entropy_at(tensor(logits), tensor(sorted(pair))).tolist()
    assert low <= high + 1e-12


def test_entropy_rises_strictly_unless_all_logits_are_equal() -> None:
    t = tensor([0.5, 1, 2])
    assert bool((theory.entropy_at(tensor([1, 2, 3]), t).diff() > 0).all())
    equal = tensor([3, 3, 3])
    assert theory.entropy_at(equal, t).tolist() == pytest.approx(3 * [math.log(3)])
    assert theory.entropy_slope(equal, t).tolist() == pytest.approx([0, 0, 0])
    assert float(theory.published_slope(equal, t).min()) > 0  # the cross terms it lacks do matter


def test_a_shift_of_all_logits_changes_nothing_but_the_published_expression() -> None:
    e, t = tensor([0.3, -1, 2]), tensor([0.7])
    assert theory.entropy_slope(e + 4, t).tolist() == pytest.approx(theory.entropy_slope(e, t).tolist())
    assert float(theory.published_slope(e + 4, t)) > 2 * float(theory.published_slope(e, t))


def test_every_vector_shown_agrees() -> None:
    for name, e in theory.vectors().items():
        row = theory.slopes(name, e)
        assert row["rises"]
        assert row["error_autograd"] < 1e-10
        assert row["error_difference"] < 1e-6
        assert row["logits"] == len(e)


# A trained model


@pytest.mark.parametrize("base", theory.BASES)
def test_grown_graphs_are_motif_graphs_of_one_size(base: str) -> None:
    graphs = theory.grown(base, 20, 6)
    assert graphs.sizes.tolist() == 6 * [25]
    assert graphs.graph["y"].tolist() == [0, 1, 2, 0, 1, 2]
    motif = nx.Graph(graphs[1].edge_index.T[graphs[1].edge_truth].tolist())
    assert sorted(motif) == [20, 21, 22, 23, 24]
    assert nx.is_isomorphic(motif, nx.cycle_graph(5))
    whole = nx.Graph(graphs[0].edge_index.T.tolist())
    assert nx.is_connected(whole)
    degrees = {"path": 2, "tree": 3, "star": 19, "wheel": 19, "ladder": 3}
    assert max(dict(whole.degree(range(20))).values()) >= degrees[base]
    assert torch.equal(theory.grown(base, 20, 6).edge_index, graphs.edge_index)


def test_a_base_of_odd_size_is_refused() -> None:
    with pytest.raises(InputError, match="even number"):
        theory.grown("ladder", 11, 3)


def test_twins_share_weights_and_differ_in_temperature(run: gf.Run) -> None:
    pair = theory.twins(run)
    graphs = pair["none"].prepare(theory.grown("path", 20, 3))
    models = {setting: one.method.model for setting, one in pair.items()}
    for name, value in models["none"].state_dict().items():
        assert torch.equal(value, models["exact"].state_dict()[name])
    assert [one.recipe.model["temperature"] for one in pair.values()] == ["none", "exact"]
    assert torch.equal(_disentangled(models["none"], graphs).temperature, torch.ones(1, 3, 4))


def test_what_is_seen_is_what_the_model_does(run: gf.Run) -> None:
    """Temperature, entropy and kept attention agree with the model's own and with plain loops."""
    pair = theory.twins(run)
    graphs = pair["none"].prepare(theory.grown("tree", 10, 3))
    figures = theory.observe(pair, graphs)
    for setting, one in pair.items():
        found = _disentangled(one.method.model, graphs)
        assert figures["entropy"][setting] == pytest.approx(float(found.entropy[0].mean()), abs=1e-4)
        if setting == "exact":
            assert figures["temperature"] == pytest.approx(float(found.temperature[0].log().mean().exp()), rel=1e-3)
        predicted = one.predict(graphs)
        right = float((predicted.classes == graphs.graph["y"]).double().mean())
        assert figures["accuracy"][setting] == pytest.approx(right)
    assert figures["precision_at_10"]["none"] == figures["precision_at_10"]["exact"]  # scores know no temperature


def test_figures_of_attention_by_hand() -> None:
    """Six nodes, five of them the motif; every row prefers the motif by one."""
    scores = torch.zeros(1, 1, 6, 6)
    scores[..., 0] = -1
    figures = theory.attention(scores, torch.tensor([1.0]))
    kept = 5 / (5 + math.exp(-1))
    assert float(figures["kept/none"]) == pytest.approx(kept)
    assert float(figures["largest/none"]) == pytest.approx(kept / 5)
    assert float(figures["spread"]) == pytest.approx(1)
    assert float(figures["largest_bound/none"]) == pytest.approx(math.e / 6)
    assert float(figures["entropy_bound/none"]) == pytest.approx(math.log(6) - 1)
    assert (float(figures["inside"]), float(figures["outside"])) == (0, 1)
    assert float(figures["broken/none"] + figures["broken/exact"]) == 0


def _disentangled(model: Any, graphs: GraphSet) -> Any:
    assert isinstance(model, GOODFormer)
    with torch.no_grad():
        return model.eval().disentangle(graphs.batch(list(range(len(graphs)))), both=False)


def test_a_record_is_whole(record: dict[str, Any], run: gf.Run) -> None:
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    (measured,) = record["runs"]
    assert measured["id"] == run.config.id
    assert [(cell["base"], cell["nodes"]) for cell in measured["cells"]] == [
        (base, nodes + 5) for base in theory.BASES for nodes in NODES
    ]
    assert all(cell["broken"] == {"none": 0, "exact": 0} for cell in measured["cells"])
    assert theory.sizes(record) == [15, 25]


def test_another_model_or_data_set_is_refused(tmp_path: Path) -> None:
    config = gf.configure(BASIS, method="erm", model="gin", overrides=["training.epochs=1", "model.dim=8"])
    other = gf.train(config, tmp_path, gf.Hardware(progress=False))
    with pytest.raises(InputError, match="gin on good-motif; give a run of model goodformer"):
        theory.twins(other)


# Page, pictures, command

PAGE = "\n".join(f"<!-- theory-{name}: begin -->\nold\n<!-- theory-{name}: end -->" for name in ("random", "slope"))
PAGE += "\n" + "\n".join(
    f"<!-- theory-{name}: begin -->\n<!-- theory-{name}: end -->" for name in ("attention", "solved", "origin")
)


def test_means_are_over_bases_then_runs() -> None:
    def cell(base: str, value: float | None) -> dict[str, Any]:
        return {"base": base, "nodes": 15, "accuracy": {"none": value}, "spread": 2.0}

    made = {"runs": [{"cells": [cell("path", 0.5), cell("tree", 1.0), cell("star", 0.0)]}, {"cells": []}]}
    assert theory.over_runs(made, 15, "accuracy", "none") == [0.75]
    assert theory.over_runs(made, 15, "accuracy", "none", ("star",)) == [0.0]
    assert theory.over_runs(made, 15, "spread") == [2.0]
    assert theory.over_runs({"runs": [{"cells": [cell("path", None)]}]}, 15, "accuracy", "none") == []


def test_the_page_is_written_from_the_record(record: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "theory.md"
    page.write_text(PAGE)
    assert theory.write(record, page)
    assert not theory.write(record, page)
    text = page.read_text()
    assert "old" not in text
    (measured,) = record["runs"]
    assert measured["id"] in text
    path = next(cell for cell in measured["cells"] if (cell["base"], cell["nodes"]) == ("path", 25))
    row = next(line for line in text.splitlines() if line.startswith("| path | accuracy %, t = 1"))
    assert row.endswith(f"| {100 * path['accuracy']['none']:.2f} |")
    assert theory.EMPTY in theory.blocks({**record, "runs": []}).values()


def test_the_page_of_the_docs_is_that_of_the_record() -> None:
    """No figure on the page was typed by hand or is older than the record."""
    kept = json.loads((ROOT / "results" / "theory.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    for name, body in theory.blocks(kept).items():
        assert f"<!-- theory-{name}: begin -->\n{body}\n<!-- theory-{name}: end -->" in text
    for picture in ("dispersion", "temperature", "attention", "solved", "accuracy"):
        assert f"images/theory-{picture}.png" in text
        assert (ROOT / "docs" / "images" / f"theory-{picture}.png").stat().st_size < 120_000


def test_pictures_are_drawn_from_the_record(record: dict[str, Any], tmp_path: Path) -> None:
    paths = theory_picture.draw(record, tmp_path / "new")
    assert [path.name for path in paths] == [
        f"theory-{name}.png" for name in ("dispersion", "temperature", "attention", "solved", "accuracy")
    ]
    assert all(imread(path).std() > 0.01 for path in paths)
    assert len(theory_picture.draw({**record, "runs": []}, tmp_path / "less")) == 2


def test_the_command_without_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["theory", "-o", str(tmp_path / "p"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["runs"] == []
    assert sorted(path.name for path in (tmp_path / "p").iterdir()) == [
        "theory-dispersion.png",
        "theory-temperature.png",
    ]
    assert cli.run(["theory", "--format", "markdown"]) == 0
    assert "| n | gap | worst case |" in capfd.readouterr().out


def test_markdown_becomes_plain_text() -> None:
    text = f"Before `it`.\n\n{tables.markdown_table(['n', 'gap'], [['10', '0.5'], ['200', '-']])}\n\n- a list;\n- more."
    first, *lines, one, two = (line for line in output.plain(text).splitlines() if line)
    assert (first, one, two) == ("Before it.", "- a list;", "- more.")
    assert [line.split() for line in lines if "─" not in line] == [["n", "gap"], ["10", "0.5"], ["200", "-"]]


def test_the_command_with_a_run(
    runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theory, "BASE_NODES", NODES)
    (tmp_path / "page.md").write_text(PAGE)
    name = next(runs.iterdir()).name
    kept, page = tmp_path / "theory.json", tmp_path / "page.md"
    given_words = ("--runs", runs, "--run", name, "--graphs", 3, "--record", kept, "--page", page, "--quiet")
    assert cli.run(["theory", *map(str, given_words)]) == 0
    answer = capfd.readouterr()
    assert "ladder" in answer.out
    assert not [sign for sign in "|`" if sign in answer.out]  # Markdown is for pages
    assert "rewritten" in answer.err
    for body in theory.blocks(json.loads(kept.read_text())).values():
        assert body in page.read_text()


def test_an_unknown_run_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["theory", "--run", "none", "--runs", str(tmp_path)]) == 2
    assert "unknown run" in capfd.readouterr().err
