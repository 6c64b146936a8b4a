"""The benchmarks measure what they say; how fast a machine is is never tested."""

from __future__ import annotations

import json
import mmap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rdkit import Chem
from torch_geometric.data import Batch

from benchmarks import speed as bench
from benchmarks.drugs import DRUGS
from goodformer.data import load_benchmark
from goodformer.data.molecule import featurise
from goodformer.explain.explanation import explain
from goodformer.nn.layout import Layout


def test_work_is_timed_in_turns() -> None:
    order: list[str] = []
    slow, fast = bench.interleaved(3, lambda: (order.append("a"), time.sleep(0.02)), lambda: order.append("b"))
    assert order == ["a", "b"] * 4
    assert slow >= 0.02 > fast


def test_matrix_products_are_noted_forward_and_backward_and_run_again() -> None:
    layer, x = torch.nn.Linear(5, 7), torch.randn(3, 5, requires_grad=True)
    with bench.products_of(lambda: layer(x).sum().backward()) as again:
        again()
    seen = bench._Products()
    with seen:
        layer(x).sum().backward()
    assert [call[0]._schema.name for call in seen.calls] == ["aten::addmm", "aten::mm", "aten::mm"]
    shapes = [tuple(part.shape for part in call[1] if isinstance(part, torch.Tensor)) for call in seen.calls]
    assert shapes[0] == ((7,), (3, 5), (5, 7))


def test_every_figure_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "NODES", (10, 20, 30))
    monkeypatch.setattr(bench, "_step_memory", float)
    results = bench.run(quick=True, progress=False)
    missing = set(bench.GOALS) - set(results)
    assert missing == set()
    assert all(value >= 0 for value in results.values())
    assert results["step_over_matmul"] > 1
    assert 0 <= results["temperature_share_150"] < 1
    text = bench.table(bench.record(results))
    assert "training step / its matrix products alone" in text
    assert "<= 1.6" in text


def test_a_goal_is_met_or_missed() -> None:
    assert bench.verdict(1.5, "<= 1.6") == "met"
    assert bench.verdict(1.7, "<= 1.6") == "missed"
    assert bench.verdict(4.9, ">= 5") == "missed"
    assert bench.verdict(3.0, "") == ""


def test_a_peak_is_seen_though_it_is_gone_at_the_end() -> None:
    def work() -> None:
        with mmap.mmap(-1, 100_000_000) as fresh:  # never memory that was freed before
            fresh.write(b"1" * 100_000_000)
            time.sleep(0.5)

    assert bench.peak_rise(work) > 80_000_000


def test_memory_is_counted_in_a_process_of_its_own() -> None:
    assert bench._step_memory(8) > 2**20


def test_ladders_are_ladders() -> None:
    data = bench.ladders(10, 3, ("closed_walks:6",))
    layout = Layout(data)
    assert (layout.num_graphs, layout.num_nodes, data.edge_index.shape[1]) == (3, 30, 3 * 2 * 13)
    assert data.closed_walks_6.shape == (30, 6)
    assert (layout.graph[layout.src] == layout.graph[layout.dst]).all()


def test_drugs_are_different_molecules() -> None:
    found = featurise(DRUGS)
    assert found.rejected == ()
    assert len(DRUGS) == len({Chem.CanonSmiles(text) for text in DRUGS}) >= 200
    assert 20 < float(found.graphs.sizes.double().mean()) < 30


def test_rates_of_molecules_count_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every piece of work taking one second, a rate is the number of molecules of that piece."""
    ran: list[int] = []

    def one_second(rounds: int, *works: Callable[[], object]) -> list[float]:
        ran.extend(work() is None for work in works)
        return [1.0] * len(works)

    monkeypatch.setattr(bench, "interleaved", one_second)
    rates = bench.molecule_rates(1)
    assert len(ran) == 2 + 3 + 2
    assert rates["molecules_featurised_per_second"] == len(DRUGS)
    for suffix in ("", "_erm"):
        assert rates[f"molecules_trained_per_second{suffix}"] == 64
        assert rates[f"molecules_predicted_per_second{suffix}"] == len(DRUGS)
        assert rates[f"molecules_explained_per_second{suffix}"] == 64
    assert set(rates) <= set(bench.GOALS)


def test_batches_of_any_and_of_like_sizes_are_timed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes as many seconds as its largest graph has nodes."""
    now = [0.0]
    order: list[int] = []

    def train(method: object, batches: list[Batch]) -> Callable[[], None]:
        def step() -> None:
            order.append(batches[0].num_graphs)
            now[0] += int(batches[0].ptr.diff().max())

        return step

    monkeypatch.setattr(bench, "trainer", train)
    monkeypatch.setattr(time, "process_time", lambda: now[0])
    found = bench.batch_orders({"name": "good-motif", "domain": "size", "graphs": 600}, graphs=320, every=2)
    assert len(order) == 5 + 3
    assert found["step_random"] > found["step_by_size"]
    assert found["random_over_by_size"] == found["step_random"] / found["step_by_size"]
    assert (found["graphs"], found["median_nodes"] < found["largest_nodes"]) == (320, True)


def test_figures_on_the_page_of_training_are_those_of_the_file() -> None:
    root = Path(__file__).parents[2]
    kept = json.loads((root / "benchmarks" / "batches.json").read_text())
    assert {"commit", "versions", "machine", "dataset"} <= set(kept)
    block = (root / "docs" / "training.md").read_text().split("<!-- batches: begin -->\n")[1]
    assert block.split("\n<!-- batches: end -->")[0] == bench.batches_table(kept)


def test_the_rivals_on_molecules_are_what_the_rows_say() -> None:
    made = bench.molecules()
    ours = bench.molecule_predictor("goodformer", None, made)
    theirs = bench.molecule_predictor("erm", "gin-vn", made)
    assert explain(ours, made.splits["train"].subset([0, 1]), measure=False).source == "own"
    assert explain(theirs, made.splits["train"].subset([0, 1]), measure=False).source == "post-hoc"
    assert theirs.recipe.model["name"] == "gin-vn"


def test_the_cache_folder_is_put_back(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path))
    import os

    with bench.uncached():
        assert os.environ["GOODFORMER_CACHE"] != str(tmp_path)
        load_benchmark("good-motif", graphs=100)
    assert os.environ["GOODFORMER_CACHE"] == str(tmp_path)
