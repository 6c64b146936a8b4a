"""Generated graphs are what the recipes say, the same everywhere, and distributed as they should be."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from goodformer.data import Benchmark, GraphSet, load_benchmark
from goodformer.data.benchmarks.motif import (
    GOOD_BASES,
    RATIOS,
    Draws,
    check_disjoint,
    check_graphs,
    check_sizes,
    good_sizes,
    sp_sizes,
)
from goodformer.data.cache import checksum
from goodformer.spec import SPLITS

GOOD = list(product(("basis", "size"), ("covariate", "concept", "none")))
MOTIFS = {
    "house": nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)]),
    "cycle": nx.cycle_graph(5),
    "crane": nx.complete_bipartite_graph(2, 3),
    "fan": nx.Graph([*nx.cycle_graph(5).edges, (0, 2), (0, 3)]),
}
LARGE = {"good-motif": 6000, "sp-motif": 2000}


def good(domain: str = "basis", shift: str = "covariate", graphs: int = LARGE["good-motif"], **more: Any) -> Benchmark:
    return load_benchmark("good-motif", domain=domain, shift=shift, graphs=graphs, **more)


def sp(bias: float = 0.9, graphs: int = LARGE["sp-motif"], **more: Any) -> Benchmark:
    return load_benchmark("sp-motif", bias=bias, graphs=graphs, **more)


def as_networkx(graphs: GraphSet, index: int) -> nx.Graph:
    data = graphs[index]
    graph = nx.empty_graph(data.num_nodes)
    graph.add_edges_from(data.edge_index.T.tolist())
    return graph


def base_of(name: str, width: int) -> nx.Graph:
    if name == "tree":
        return nx.balanced_tree(2, max(1, int(math.log2(width)) - 1))
    makers = {"wheel": nx.wheel_graph, "ladder": nx.ladder_graph, "star": nx.star_graph, "path": nx.path_graph}
    return makers[name](width)


def close(found: float, expected: float, deviation: float) -> bool:
    """Within five standard deviations."""
    return abs(found - expected) <= 5 * deviation


def share_close(hits: torch.Tensor, expected: float) -> bool:
    return close(float(hits.double().mean()), expected, math.sqrt(expected * (1 - expected) / len(hits)) + 1e-12)


# The stream of random numbers


def test_draws_are_the_words_of_pcg64_mapped_by_hand() -> None:
    words = np.random.PCG64([7, 3632233996]).random_raw(5)  # crc32 of "test"
    drawn = Draws(7, "test").uniform(5)
    assert [int(value * 2**53) for value in drawn] == [int(word) >> 11 for word in words]
    assert Draws(0, "a").below(10, 5).tolist() == (Draws(0, "a").uniform(5) * 10).astype(int).tolist()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 10**9))
def test_whole_numbers_stay_below_their_limit(seed: int, limit: int) -> None:
    drawn = Draws(seed, "x").below(limit, 50)
    assert drawn.min() >= 0
    assert drawn.max() < limit
    each = np.array([1, 2, limit])
    assert (Draws(seed, "y").below(each) < each).all()


# The same everywhere

GOLDEN = {
    "good-motif basis covariate": "c271fda06d83a5e5",
    "good-motif basis concept": "4a81d6af199d575b",
    "good-motif basis none": "a10d0bef0059f84b",
    "good-motif size covariate": "339d6782e06277ad",
    "good-motif size concept": "0da24bdd0c61ff16",
    "good-motif size none": "fbb37e4a1348250e",
    "sp-motif 0.5": "a9ca6a6c9497280d",
    "sp-motif 0.9": "3723d2e9dd0cb735",
}
"""First digits of the checksum of all splits; a change here needs a new `goodformer.data.benchmarks.motif.VERSION`."""


@pytest.mark.parametrize("case", sorted(GOLDEN))
def test_golden_checksums(case: str) -> None:
    name, *words = case.split()
    given_settings = {"domain": words[0], "shift": words[1]} if name == "good-motif" else {"bias": float(words[0])}
    benchmark = load_benchmark(name, graphs=300, **given_settings)
    assert _digest(benchmark) == GOLDEN[case]


def _digest(benchmark: Benchmark) -> str:
    flat = {f"{split}/{name}": value for split in SPLITS for name, value in benchmark.splits[split].tensors().items()}
    return checksum(flat)[:16]


def test_from_cache_and_from_scratch_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    first = _digest(good(graphs=130))
    assert first == _digest(good(graphs=130))
    monkeypatch.setattr("goodformer.data.benchmarks.motif.cached", lambda _, build: build())
    assert first == _digest(good(graphs=130))


def test_seeds_splits_and_settings_give_other_graphs() -> None:
    digests = {_digest(good(graphs=130, seed=seed)) for seed in range(3)} | {_digest(good("size", graphs=130))}
    assert len(digests) == 4
    splits = good(shift="none", graphs=1000).splits
    assert not torch.equal(splits["id_val"].sizes, splits["val"].sizes)


def test_global_random_state_is_neither_used_nor_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goodformer.data.benchmarks.motif.cached", lambda _, build: build())
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = _digest(good(graphs=150))
    assert torch.equal(torch_state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    assert first == _digest(good(graphs=150))


# Splits


def test_published_split_sizes() -> None:
    assert good_sizes("covariate", 30_000) == dict(zip(SPLITS, (18_000, 3_000, 3_000, 3_000, 3_000), strict=True))
    assert good_sizes("concept", 30_000) == dict(zip(SPLITS, (12_600, 2_700, 2_700, 6_000, 6_000), strict=True))
    assert good_sizes("none", 30_000) == dict(zip(SPLITS, (18_000, 3_000, 3_000, 3_000, 3_000), strict=True))
    assert sp_sizes(9_000) == dict(zip(SPLITS, (9_000, 3_000, 3_000, 3_000, 6_000), strict=True))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["covariate", "concept", "none"]), st.integers(100, 100_000))
def test_splits_sum_to_the_asked_number(shift: str, graphs: int) -> None:
    sizes = good_sizes(shift, graphs)
    assert sum(sizes.values()) == graphs
    assert min(sizes.values()) > 0


@settings(max_examples=6, deadline=None)
@given(st.sampled_from(GOOD), st.integers(100, 300), st.integers(0, 2**32))
def test_any_setting_gives_a_benchmark_of_the_asked_size(case: tuple[str, str], graphs: int, seed: int) -> None:
    benchmark = good(*case, graphs=graphs, seed=seed)
    assert {split: len(part) for split, part in benchmark.splits.items()} == good_sizes(case[1], graphs)


# What each graph is


@pytest.mark.parametrize(("domain", "shift"), GOOD)
@pytest.mark.parametrize("split", SPLITS)
def test_each_good_graph_is_base_motif_one_joint_and_allowed_noise(domain: str, shift: str, split: str) -> None:
    graphs = good(domain, shift).splits[split]
    names = ("house", "cycle", "crane")
    for index in range(0, 60, 5):
        graph, data = as_networkx(graphs, index), graphs[index]
        n = graph.number_of_nodes()
        inside = graph.subgraph(range(n - 5, n))
        assert nx.is_isomorphic(inside, MOTIFS[names[int(data.motif)]])
        truth = {
            (u, v) for (u, v), true in zip(data.edge_index.T.tolist(), data.edge_truth.tolist(), strict=True) if true
        }
        assert truth == {(u, v) for u, v in inside.to_directed().edges}
        candidates = [base for base in _bases_of(domain, int(data.domain)) if base.number_of_nodes() == n - 5]
        assert any(_is_made_of(graph, base, inside) for base in candidates)
        assert data.x.tolist() == [[1.0]] * n


def _bases_of(domain: str, level: int) -> list[nx.Graph]:
    names = [GOOD_BASES[level]] if domain == "basis" else GOOD_BASES
    nominal = 10 if domain == "basis" else level
    return [base_of(name, width) for name in names for width in range(nominal - 5, nominal + 6)]


def _is_made_of(graph: nx.Graph, base: nx.Graph, inside: nx.Graph) -> bool:
    """The base's edges are there, the joint is, and what is more is at most 5 %."""
    planned = base.number_of_edges() + inside.number_of_edges() + 1
    extra = {tuple(sorted(edge)) for edge in graph.edges} - {
        tuple(sorted(edge)) for edge in [*base.edges, *inside.edges]
    }
    joints = [edge for edge in extra if edge[1] == base.number_of_nodes()]
    return all(graph.has_edge(*edge) for edge in base.edges) and bool(joints) and len(extra) - 1 <= int(0.05 * planned)


@pytest.mark.parametrize("split", SPLITS)
def test_each_sp_graph_is_base_motif_and_one_joint(split: str) -> None:
    graphs = sp().splits[split]
    trees = [nx.balanced_tree(r, h) for r in (2, 3) for h in (range(3, 6) if split == "test" else range(3))]
    ladders = [nx.ladder_graph(width) for width in (range(30, 50) if split == "test" else range(8, 12))]
    wheels = [nx.wheel_graph(nodes) for nodes in (range(60, 80) if split == "test" else range(15, 20))]
    for index in range(60):
        graph, data = as_networkx(graphs, index), graphs[index]
        n = graph.number_of_nodes()
        inside, outside = graph.subgraph(range(n - 5, n)), graph.subgraph(range(n - 5))
        assert nx.is_isomorphic(inside, MOTIFS[("cycle", "house", "fan")[int(data.motif)]])
        assert any(set(outside.edges) == set(base.edges) for base in (trees, ladders, wheels)[int(data.domain)])
        assert graph.number_of_edges() == inside.number_of_edges() + outside.number_of_edges() + 1
        assert any(graph.has_edge(node, n - 5) for node in range(n - 5))
        assert int(data.y) == int(data.motif)
        assert int(data.env) == int(data.domain)


def test_edges_are_sorted_symmetric_and_single() -> None:
    for part in (*good("size").splits.values(), *sp().splits.values()):
        u, v = part.edge_index
        keys = u * int(part.node_ptr[-1]) + v
        assert (keys.diff() > 0).all()
        assert torch.equal((v * int(part.node_ptr[-1]) + u).sort().values, keys)
        assert (u != v).all()


# How they are distributed


def test_sizes_of_basis_are_the_published_ones() -> None:
    described = good().describe()
    assert [round(described[split]["mean_nodes"]) for split in ("train", "val", "test")] == [17, 16, 15]
    assert [described[split]["max_nodes"] for split in ("train", "val", "test")] == [35, 21, 20]
    assert described["train"]["domains"] == {"0": 1200, "1": 1200, "2": 1200} == described["train"]["envs"]
    assert (described["val"]["domains"], described["test"]["domains"]) == ({"3": 600}, {"4": 600})
    assert (described["val"]["envs"], described["test"]["envs"]) == ({"3": 600}, {"4": 600})


def test_sizes_of_size_are_the_published_ones() -> None:
    described = good("size").describe()
    means = [described[split]["mean_nodes"] for split in ("train", "val", "test")]
    np.testing.assert_allclose(means, [17, 39, 88], rtol=0.04)
    assert [described[split]["max_nodes"] for split in ("train", "val", "test")] == [45, 75, 155]
    assert [list(described[split]["domains"]) for split in ("train", "val", "test")] == [
        ["6", "10", "15"],
        ["30"],
        ["70"],
    ]


def test_widths_are_uniform() -> None:
    counts = (good().splits["test"].sizes - 5).bincount(minlength=16)[5:]
    assert len(counts) == 11
    assert all(close(int(count), 600 / 11, math.sqrt(600 / 11 * 10 / 11)) for count in counts)


@pytest.mark.parametrize("domain", ["basis", "size"])
def test_concept_ties_domain_and_motif_as_published(domain: str) -> None:
    benchmark = good(domain, "concept", graphs=12_000)
    level = {"basis": torch.arange(3), "size": torch.tensor([10, 40, 70])}[domain]
    for part in benchmark.splits.values():
        tied = level[part.graph["motif"]] == part.graph["domain"]
        for env in part.graph["env"].unique().tolist():
            assert share_close(tied[part.graph["env"] == env], RATIOS[env] + (1 - RATIOS[env]) / 3)
    assert benchmark.num_envs == 3
    assert benchmark.splits["val"].graph["env"].unique().tolist() == [3]


@pytest.mark.parametrize("domain", ["basis", "size"])
def test_without_shift_all_splits_have_all_domains_and_one_environment(domain: str) -> None:
    benchmark = good(domain, "none")
    assert benchmark.num_envs == 1
    for part in benchmark.splits.values():
        domains, counts = part.graph["domain"].unique(return_counts=True)
        assert len(domains) == 5
        assert all(close(int(count), len(part) / 5, math.sqrt(len(part) * 0.16)) for count in counts)
        assert not part.graph["env"].any()


@pytest.mark.parametrize(("domain", "shift"), GOOD)
def test_label_noise_and_balance(domain: str, shift: str) -> None:
    whole = GraphSet.concat(list(good(domain, shift).splits.values()))
    assert share_close(whole.graph["y"] != whole.graph["motif"], 0.1 * 2 / 3)
    for label in range(3):
        assert share_close(whole.graph["motif"] == label, 1 / 3)
        assert share_close(whole.graph["y"] == label, 1 / 3)


def test_the_joint_is_uniform_over_base_nodes() -> None:
    part = sp().splits["train"]
    size, graph = part.sizes, part.edge_graph
    u, v = part.edge["index"]
    joint = (u < (size - 5)[graph]) & (v >= (size - 5)[graph])
    assert torch.equal(v[joint], size - 5)
    place = (u[joint] + 0.5) / (size - 5)
    assert close(float(place.mean()), 0.5, math.sqrt(1 / 12 / len(size)))
    assert close(float((place - 0.5).square().mean()), 1 / 12, 0.1 / math.sqrt(len(size)) + 0.001)


def test_draws_inside_the_motif_are_dropped_as_often_as_expected() -> None:
    part = good(graphs=12_000).splits["train"]
    base_names = [GOOD_BASES[level] for level in part.graph["domain"].tolist()]
    motif_edges = torch.tensor([6, 5, 6])[part.graph["motif"]].tolist()
    dropped, expected, variance = 0, 0.0, 0.0
    for position, (name, inner) in enumerate(zip(base_names, motif_edges, strict=True)):
        n = int(part.sizes[position])
        planned = _base_edges(name, n - 5) + inner + 1
        if int(0.05 * planned) != 1:
            continue
        chance = (10 - inner) / (n * (n - 1) / 2 - planned)
        edges = int(part.edge_ptr[position + 1] - part.edge_ptr[position]) // 2
        dropped += planned + 1 - edges
        expected, variance = expected + chance, variance + chance * (1 - chance)
    assert expected > 20
    assert close(dropped, expected, math.sqrt(variance))


def _base_edges(name: str, nodes: int) -> int:
    return {"wheel": 2 * (nodes - 1), "tree": nodes - 1, "ladder": 3 * (nodes // 2) - 2}[name]


@pytest.mark.parametrize("bias", [0.0, 1 / 3, 0.7, 1.0])
def test_sp_bias(bias: float) -> None:
    benchmark = sp(bias)
    for split, part in benchmark.splits.items():
        tied = part.graph["motif"] == part.graph["domain"]
        assert share_close(tied, 1 / 3 if split in ("val", "test") else bias)
        assert part.graph["y"].bincount().diff().abs().max() <= 1
    assert benchmark.shift == f"bias={bias:g}"


def test_sp_features_are_uniform_noise() -> None:
    x = sp().splits["train"].node["x"]
    assert x.shape[1] == 4
    assert x.min() >= 0
    assert x.max() <= 1
    assert close(float(x.double().mean()), 0.5, math.sqrt(1 / 12 / x.numel()))
    assert float(torch.corrcoef(x.T).fill_diagonal_(0).abs().max()) < 0.03


# The self-check


def test_the_self_check_notices_what_is_wrong() -> None:
    part = good(graphs=1000).splits["train"]
    check_graphs(part, "train", (6, 5, 6), 0.1)

    def changed(kind: str, **values: torch.Tensor) -> GraphSet:
        fields = {"node": part.node, "edge": part.edge, "graph": part.graph}
        fields[kind] = {**fields[kind], **values}
        return GraphSet(fields["node"], fields["edge"], fields["graph"], part.node_ptr, part.edge_ptr)

    with pytest.raises(RuntimeError, match="true edges"):
        check_graphs(changed("edge", truth=torch.zeros_like(part.edge["truth"])), "train", (6, 5, 6), 0.1)
    with pytest.raises(RuntimeError, match="labels are wrong"):
        check_graphs(changed("graph", y=(part.graph["motif"] + 1) % 3), "train", (6, 5, 6), 0.1)
    loops = part.edge["index"][:1].expand(2, -1)
    with pytest.raises(RuntimeError, match="not connected"):
        check_graphs(changed("edge", index=loops), "train", (6, 5, 6), 0.1)


@pytest.mark.parametrize("split", ["id_val", "val", "test"])
def test_the_self_check_notices_domains_that_overlap_and_sizes_that_differ(split: str) -> None:
    splits = dict(good(graphs=1000).splits)
    check_disjoint(splits)
    wrong = {"id_val": "val", "val": "train", "test": "val"}[split]
    with pytest.raises(RuntimeError, match="domains of the splits"):
        check_disjoint({**splits, split: splits[wrong]})
    with pytest.raises(RuntimeError, match="the splits have"):
        check_sizes({**splits, split: splits[split].subset([0])}, good_sizes("covariate", 1000))


def test_without_the_second_shift_only_the_tie_of_base_and_motif_changes() -> None:
    bench = load_benchmark("sp-motif", bias=0.95, larger=False, graphs=600)
    sizes = {split: part.sizes.double().mean().item() for split, part in bench.splits.items()}
    assert int(bench.splits["test"].sizes.max()) <= 27
    tied = {
        split: (part.graph["domain"] == part.graph["y"]).double().mean().item() for split, part in bench.splits.items()
    }
    assert tied["train"] == pytest.approx(0.95, abs=0.03)
    assert tied["test"] == pytest.approx(1 / 3, abs=0.08)
    assert sizes["test"] == pytest.approx(sizes["train"], abs=1.5)
    assert bench.shift == "bias=0.95, equal sizes"
    assert int(load_benchmark("sp-motif", bias=0.95, graphs=600).splits["test"].sizes.max()) > 60
