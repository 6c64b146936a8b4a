"""Data cards: what is counted is what is there, and the picture shows graphs of every split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from goodformer.data import cards, load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES, featurise
from goodformer.spec import SPLITS, Task

SMILES = (
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[N+](C)(C)CC([O-])=O.[Na+]",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "O=[N+]([O-])c1ccc(cc1)S(=O)(=O)Nc1ncccn1",
    "C#CCN1CCC(=C(Cl)Br)C1",
    "C",
    "c1cc[nH]c1",
    "[CH3][Hg]Cl",
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path_factory.getbasetemp() / "cards-cache"))


def motif(**settings: object) -> Benchmark:
    """A small GOOD-Motif."""
    return load_benchmark("good-motif", **{"graphs": 300, **settings})


def molecules(domains: int, y: torch.Tensor | None = None, names: tuple[str, ...] = ()) -> Benchmark:
    """Molecules over some domains, all splits alike but for the domains of val and test."""
    graphs = featurise(SMILES * 10).graphs
    count = len(graphs)
    labels = (torch.arange(count) % 2).float()[:, None] if y is None else y
    splits = {}
    for split in SPLITS:
        first = {"val": domains, "test": 2 * domains}.get(split, 0)
        marks = {"y": labels, "env": torch.zeros(count).long(), "domain": torch.arange(count) % domains + first}
        splits[split] = GraphSet(graphs.node, graphs.edge, marks, graphs.node_ptr, graphs.edge_ptr)
    task = Task("binary", labels.shape[1], "rocauc")
    return Benchmark("mine", "assay", "covariate", splits, task, FEATURES, domain_names=names)


# Facts ----------------------------------------------------------------------------------------------------------------


def test_shares_by_domain_against_a_loop() -> None:
    bench = motif(shift="concept")
    for graphs in bench.splits.values():
        found, counts, shares = cards.shares_by_domain(graphs, bench.task)
        domains, y = graphs.graph["domain"].tolist(), graphs.graph["y"].tolist()
        assert found.tolist() == sorted(set(domains))
        for domain, count, balance in zip(found.tolist(), counts.tolist(), shares.tolist(), strict=True):
            members = [label for label, own in zip(y, domains, strict=True) if own == domain]
            assert count == len(members)
            assert balance == pytest.approx([members.count(label) / count for label in range(3)])


def test_missing_labels_count_neither_way() -> None:
    nan = float("nan")
    y = torch.tensor([[1.0, nan], [0.0, nan], [nan, 1.0], [1.0, nan]]).repeat(20, 1)
    graphs = molecules(2).splits["train"]
    graphs.graph["y"] = y
    _, counts, shares = cards.shares_by_domain(graphs, Task("binary", 2, "rocauc"))
    assert counts.tolist() == [40, 40]
    assert shares[0].tolist() == [1.0, 1.0]  # rows 0, 2 of four: 1 and missing; missing and 1
    assert shares[1, 0] == 0.5
    assert np.isnan(shares[1, 1])


def test_facts_by_hand() -> None:
    """Every split, class and domain has a share of its own."""
    splits = {}
    rows = {"train": [(2, 0, 0)] * 5 + [(3, 1, 0)] * 3 + [(9, 2, 1)] * 2, "val": [(4, 0, 1)] * 3 + [(5, 2, 2)]}
    for split in SPLITS:
        graphs = [
            Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=size, y=torch.tensor([y]), env=0, domain=domain)
            for size, y, domain in rows.get(split, rows["train"])
        ]
        splits[split] = GraphSet.from_list(graphs)
    facts = cards.facts(Benchmark("mine", "lab", "covariate", splits, domain_names=("a", "b", "c")))
    train, val = facts["statistics"]["train"], facts["statistics"]["val"]
    assert (train["graphs"], train["mean_nodes"], train["max_nodes"], train["mean_edges"]) == (10, 3.7, 9, 1.0)
    assert (train["class_balance"], val["class_balance"]) == ([0.5, 0.3, 0.2], [0.75, 0.0, 0.25])
    assert (train["domains"], val["domains"]) == ({"0": 8, "1": 2}, {"1": 3, "2": 1})
    assert (facts["seen_in_training"]["val"], facts["seen_in_training"]["test"]) == (0.75, 1.0)
    assert [row for row in facts["by_domain"] if row["split"] in ("train", "val")] == [
        {"split": "train", "domain": "a", "graphs": 8, "class_balance": [0.625, 0.375, 0.0]},
        {"split": "train", "domain": "b", "graphs": 2, "class_balance": [0.0, 0.0, 1.0]},
        {"split": "val", "domain": "b", "graphs": 3, "class_balance": [1.0, 0.0, 0.0]},
        {"split": "val", "domain": "c", "graphs": 1, "class_balance": [0.0, 0.0, 1.0]},
    ]


def test_facts_of_few_domains_name_each() -> None:
    facts = cards.facts(motif())
    assert facts["over_domains"] is None
    assert [row["domain"] for row in facts["by_domain"] if row["split"] == "train"] == ["wheel", "tree", "ladder"]
    assert [row["domain"] for row in facts["by_domain"] if row["split"] in ("val", "test")] == ["star", "path"]
    assert sum(row["graphs"] for row in facts["by_domain"]) == 300
    assert facts["seen_in_training"] == {"train": 1.0, "id_val": 1.0, "id_test": 1.0, "val": 0.0, "test": 0.0}
    assert facts["notes"]


def test_facts_of_many_domains_are_a_summary() -> None:
    bench = molecules(cards.FEW + 1)
    marks = bench.splits["train"].graph
    marks["domain"] = torch.where(torch.arange(80) < 45, 0, torch.where(torch.arange(80) < 70, 1, marks["domain"] + 2))
    facts = cards.facts(bench)
    assert facts["by_domain"] is None
    train = facts["over_domains"]["train"]
    found, counts = np.unique(marks["domain"].numpy(), return_counts=True)
    assert train["domains"] == len(found)
    assert train["largest"] == {"domain": "0", "graphs": 45}
    assert train["smallest"]["graphs"] == counts.min()
    assert train["counted"] == 2
    own = [bench.splits["train"].graph["y"][marks["domain"] == domain].mean() for domain in (0, 1)]
    assert train["balance_quartiles"][0] == pytest.approx(np.quantile(own, [0.25, 0.5, 0.75]), abs=1e-4)
    assert facts["over_domains"]["val"]["balance_quartiles"] == []
    described = bench.describe()["train"]["domains"]
    assert described == {"number": len(found), "largest": 45, "smallest": counts.min()}


def test_domains_have_names_where_they_were_given() -> None:
    bench = molecules(2, names=("", "c1ccccc1"))
    assert [cards.domain_name(bench, domain) for domain in (0, 1, 2)] == ["none", "c1ccccc1", "2"]


def test_an_empty_split_is_no_trouble() -> None:
    bench = motif()
    empty = replace(bench, splits={**bench.splits, "val": bench.splits["val"].subset([])})
    facts = cards.facts(empty)
    assert facts["seen_in_training"]["val"] is None
    assert not [row for row in facts["by_domain"] if row["split"] == "val"]
    many = molecules(cards.FEW + 1)
    many = replace(many, splits={**many.splits, "test": many.splits["test"].subset([])})
    assert cards.facts(many)["over_domains"]["test"] == {"domains": 0}
