"""The benchmarks measure what they say; the speed itself is never tested."""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rdkit import Chem
from torch_geometric.data import Batch

from benchmarks import page, speed
from benchmarks.drugs import DRUGS
from goodformer.data import load_benchmark
from goodformer.data.molecule import featurise
from goodformer.nn import layout as layouts
from goodformer.nn.layout import Layout

ROOT = Path(__file__).parents[2]
TINY = speed.Scale(rounds=1, generated=120, graphs=120, batch=4, nodes=(10, 20, 30), molecules=8)
pytestmark = pytest.mark.usefixtures("own_cache")


def test_work_is_timed_in_turns() -> None:
    order: list[str] = []
    slow, fast = speed.interleaved(3, lambda: (order.append("a"), time.sleep(0.02)), lambda: order.append("b"))
    assert order == ["a", "b"] * 4
    assert slow >= 0.02 > fast


def test_matrix_products_are_recorded_forward_and_backward_and_run_again() -> None:
    layer, x = torch.nn.Linear(5, 7), torch.randn(3, 5, requires_grad=True)
    with speed.products_of(lambda: layer(x).sum().backward()) as again:
        again()
    seen = speed._Products()
    with seen:
        layer(x).sum().backward()
    assert [call[0]._schema.name for call in seen.calls] == ["aten::addmm", "aten::mm", "aten::mm"]
    shapes = [tuple(part.shape for part in call[1] if isinstance(part, torch.Tensor)) for call in seen.calls]
    assert shapes[0] == ((7,), (3, 5), (5, 7))


def test_every_value_of_the_table_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "step_memory", float)
    results = speed.measure(TINY)
    assert {name for name in page.ROWS if not name.startswith("train_ms_per_graph_")} <= set(results)
    assert {f"train_ms_per_graph_{n}_nodes" for n in TINY.nodes} <= set(results)
    assert all(value >= 0 for value in results.values())
    assert results["memory_512_over_64"] == 8
    assert 0 <= results["temperature_share_150"] < 1


def test_competitors_are_compared_with_erm_per_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every step takes one second, a method with a batch twice as large costs half as much per graph."""
    ran: list[int] = []

    def one_second(rounds: int, *works: Callable[[], object]) -> list[float]:
        ran.append(len(works))
        return [1.0] * len(works)

    monkeypatch.setattr(speed, "interleaved", one_second)
    found = speed.competitors(speed.Scale(graphs=1000))  # 600 training graphs
    assert ran == [10]
    assert found["epoch_over_erm_gsat"] == 1
    assert found["epoch_over_erm_cal-plus"] == 32 / 256


def test_rates_count_all_molecules(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every piece of work takes one second, a rate is the number of molecules of that piece."""
    ran: list[object] = []

    def one_second(rounds: int, *works: Callable[[], object]) -> list[float]:
        ran.extend(work() for work in works)
        return [1.0] * len(works)

    monkeypatch.setattr(speed, "interleaved", one_second)
    rates = speed.molecule_rates(TINY)
    assert len(ran) == 2 + 3 + 2
    assert [getattr(found, "source", None) for found in ran[-2:]] == ["own", "post-hoc"]
    assert rates["molecules_featurised_per_second"] == TINY.molecules
    for suffix in ("", "_erm"):
        assert rates[f"molecules_trained_per_second{suffix}"] == TINY.batch
        assert rates[f"molecules_predicted_per_second{suffix}"] == TINY.molecules
        assert rates[f"molecules_explained_per_second{suffix}"] == TINY.batch


def test_a_peak_is_seen_though_it_is_gone_at_the_end() -> None:
    def work() -> None:
        with mmap.mmap(-1, 100_000_000) as fresh:  # never memory that was freed before
            fresh.write(b"1" * 100_000_000)
            time.sleep(0.2)

    assert speed.peak_rise(work) > 80_000_000


def test_the_memory_of_a_step_is_one_number(capsys: pytest.CaptureFixture[str]) -> None:
    speed.print_step_memory(2, graphs=120)
    assert json.loads(capsys.readouterr().out) >= 0


def test_ladders_are_ladders() -> None:
    data = speed.ladders(10, 3, ("closed_walks:6",))
    layout = Layout(data)
    assert (layout.num_graphs, layout.num_nodes, data.edge_index.shape[1]) == (3, 30, 3 * 2 * 13)
    assert data.closed_walks_6.shape == (30, 6)
    assert (layout.graph[layout.src] == layout.graph[layout.dst]).all()


def test_drugs_are_different_molecules() -> None:
    found = featurise(DRUGS)
    assert found.rejected == ()
    assert len(DRUGS) == len({Chem.CanonSmiles(text) for text in DRUGS}) >= 200
    assert 20 < float(found.graphs.sizes.double().mean()) < 30


def test_buckets_and_padding_are_timed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes as many seconds as its buckets have padded rows."""
    now = [0.0]
    order: list[int] = []

    def train(method: object, batches: list[Batch]) -> Callable[[], None]:
        def step() -> None:
            buckets = Layout(batches[0]).buckets
            order.append(len(buckets))
            now[0] += sum(bucket.mask.numel() for bucket in buckets)

        return step

    monkeypatch.setattr(speed, "trainer", train)
    monkeypatch.setattr(time, "process_time", lambda: now[0])
    before = layouts.BUCKET_COST
    found = speed.bucket_gain({"name": "good-motif", "domain": "size", "graphs": 600}, graphs=320, every=2)
    assert before == layouts.BUCKET_COST
    assert order[::2] == [1] * 3
    assert min(order[1::2]) > 1
    assert found["step_padded"] > found["step_buckets"]
    assert found["padded_over_buckets"] == found["step_padded"] / found["step_buckets"]
    assert (found["graphs"], found["median_nodes"] < found["largest_nodes"]) == (320, True)


def test_the_cache_folder_is_restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path))
    with speed.uncached():
        assert os.environ["GOODFORMER_CACHE"] != str(tmp_path)
        load_benchmark("good-motif", graphs=100)
    assert os.environ["GOODFORMER_CACHE"] == str(tmp_path)


# Tables and command line


def test_a_goal_is_met_or_missed() -> None:
    assert page.verdict(1.5, "<= 1.6") == "met"
    assert page.verdict(1.7, "<= 1.6") == "missed"
    assert page.verdict(4.9, ">= 5") == "missed"
    assert page.verdict(3.0, "") == ""


def test_numbers_have_the_digits_a_reader_needs() -> None:
    assert [page.number(value) for value in (1597.1, 393.46, 44.45, 0.0564)] == ["1,597", "393", "44.5", "0.0564"]


@pytest.mark.parametrize(
    ("record", "docs"), [("latest", "benchmarks"), ("buckets", "training"), ("products", "training")]
)
def test_the_script_rebuilds_the_pages_of_the_docs(
    record: str, docs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = ROOT / "docs" / f"{docs}.md", tmp_path / "page.md"
    target.write_text(source.read_text())
    assert speed.main(["--from", str(ROOT / "benchmarks" / f"{record}.json"), "--page", str(target)]) == 0
    assert target.read_text() == source.read_text()
    assert capsys.readouterr().out.strip() in source.read_text()
    kept = json.loads((ROOT / "benchmarks" / f"{record}.json").read_text())
    assert {"commit", "versions", "machine"} <= set(kept)


def test_the_script_writes_what_it_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "measure", lambda scale: {"step_over_matmul": float(scale.rounds)})
    assert speed.main(["--quick", "-o", str(tmp_path / "made.json")]) == 0
    made = json.loads((tmp_path / "made.json").read_text())
    assert (made["quick"], made["figures"]) == (True, {"step_over_matmul": 5.0})
    assert "| training step / its matrix products alone | 5 | <= 1.5 | missed |" in page.table(made)
