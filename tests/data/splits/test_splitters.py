"""Splits that keep whole domains for testing, and how far their parts lie apart."""

import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from torch import Tensor

from goodformer.data.molecule import featurise
from goodformer.data.readers.collection import Collection, collect
from goodformer.data.similarity import BITS
from goodformer.data.splits.distance import _sentence, distance_report, nearest_similarity, separation
from goodformer.data.splits.domains import NO_RING, by_cluster, by_column, by_scaffold
from goodformer.data.splits.order import order_of
from goodformer.data.splits.split import Split
from goodformer.data.splits.splitters import SPLITTERS, make_split
from goodformer.data.splits.twins import same_graphs, same_molecules
from goodformer.errors import InputError
from goodformer.spec import SPLITS

RINGS = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNCC1", "c1ccsc1", "C1CCOC1", "c1ccc2ccccc2c1", "C1CC1"]
COUNTS = [30, 20, 12, 10, 8, 6, 3, 1]
MOLECULES = [
    f"{'C' * (number % 7 + 1)}{ring}" for ring, count in zip(RINGS, COUNTS, strict=True) for number in range(count)
]


def paths(sizes: list[int]) -> Collection:
    """Paths of the given numbers of nodes."""
    return collect([nx.path_graph(size) for size in sizes])


def column(values: list[Any], how: str = "column:a", **options: Any) -> Split:
    """A split of edgeless graphs by one column."""
    return make_split(how, paths([1] * len(values)), {"a": values}, **options)


def parts_of(split: Split) -> dict[int, set[int]]:
    """Parts in which each domain occurs, those of training counted as one."""
    found: dict[int, set[int]] = {}
    for part, domain in zip(split.part.tolist(), split.domain.tolist(), strict=True):
        if part >= 0:
            found.setdefault(domain, set()).add(max(part, 2))
    return found


# Parts ----------------------------------------------------------------------------------------------------------------

GROUPS = st.lists(st.integers(1, 30), min_size=2, max_size=12).filter(lambda counts: sum(counts) >= 10)


@settings(max_examples=80, deadline=None)
@given(GROUPS, st.integers(0, 3), st.booleans(), st.randoms(use_true_random=False))
def test_domains_stay_whole_and_no_part_is_empty(counts: list[int], seed: int, numbers: bool, random: Any) -> None:
    values = [str(place) if numbers else f"w{place}" for place, count in enumerate(counts) for _ in range(count)]
    random.shuffle(values)
    split = column(values, seed=seed)
    sizes = split.counts()
    assert sum(sizes.values()) == len(values)
    assert sizes["train"] > 0
    assert sizes["val"] > 0
    if sizes["train"] + sizes["id_val"] + sizes["id_test"] >= 3:
        assert sizes["id_val"] > 0
    assert [split.names[domain] for domain in split.domain.tolist()] == values
    for parts in parts_of(split).values():
        assert len(parts) == 1 or (len(counts) == 2 and parts == {3, 4})
    again = column(values, seed=seed)
    assert torch.equal(split.part, again.part)


@settings(max_examples=60, deadline=None)
@example([(0, 0)] * 9 + [(1, 1), (2, 0), (3, 0)], 0)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3)), min_size=12, max_size=60), st.integers(0, 3))
def test_no_class_is_left_out_of_training_where_that_can_be(rows: list[tuple[int, int]], seed: int) -> None:
    domains = [str(domain) for domain, _ in rows]
    y = torch.tensor([label for _, label in rows])
    if len(set(domains)) < 4:
        return
    split = column(domains, y=y, seed=seed)
    sizes = split.counts()
    assert min(sizes["train"], sizes["val"], sizes["test"]) > 0
    if set(y.tolist()) - set(y[split.rows("train")].tolist()):
        assert not any(complete(rows, set(pair)) for pair in combinations(set(domains), 2))


def complete(rows: list[tuple[int, int]], outside: set[str]) -> bool:
    """Whether the rows of the other domains have every class."""
    return {label for domain, label in rows if str(domain) not in outside} == {label for _, label in rows}


def test_a_rare_class_takes_its_smallest_domain_into_training() -> None:
    values = [str(place) for place in range(20) for _ in range(5)]
    y = torch.zeros(101).long()
    y[82] = y[97] = 1  # domains 16 and 19, of which the latter is larger
    split = column([*values, "19"], y=y)
    assert split.part[80:85].max() < 3
    assert split.counts()["val"] + split.counts()["test"] == 16
    assert y[split.rows("train")].unique().tolist() == [0, 1]
    assert column([*values, "19"]).part[80:85].tolist() == [3] * 5


def test_training_gives_another_domain_for_one_that_it_needs() -> None:
    y = torch.tensor([0] * 25 + [1] * 5 + [0] * 5)
    split = column([str(place) for place in range(7) for _ in range(5)], y=y)
    assert split.domain[split.rows("val")].unique().tolist() == [4]
    assert split.domain[split.rows("test")].unique().tolist() == [6]
    assert 1 in y[split.rows("train")]


def test_every_value_of_every_target_stays_in_training() -> None:
    nan = float("nan")
    y = torch.zeros(60, 2)
    y[:, 1] = nan
    y[3, 0] = y[11, 1] = 1.0
    y[17, 1] = 0.0
    for seed in range(20):
        train = make_split("random", paths([2] * 60), y=y, seed=seed).rows("train").tolist()
        assert {3, 11, 17} <= set(train)


def test_parts_that_leave_training_have_its_classes() -> None:
    y = (torch.arange(1000) % 10 == 0).long()
    split = make_split("random", paths([2] * 1000), y=y)
    assert split.counts() == {"train": 600, "id_val": 100, "id_test": 100, "val": 100, "test": 100}
    for name in SPLITS:
        assert float(y[split.rows(name)].double().mean()) == pytest.approx(0.1, abs=0.011)


def test_shares_are_those_asked_for() -> None:
    values = [str(place) for place in range(20) for _ in range(50)]
    split = column(values, outside=(0.2, 0.0), inside=(0.05, 0.0))
    assert split.counts() == {"train": 750, "id_val": 50, "id_test": 0, "val": 200, "test": 0}


def test_other_seeds_draw_other_rows() -> None:
    one, other = (make_split("random", paths([2] * 50), seed=seed) for seed in (0, 1))
    assert not torch.equal(one.part, other.part)


def test_two_domains_are_train_and_what_val_and_test_share() -> None:
    split = column(["old"] * 30 + ["new"] * 20)
    assert split.counts() == {"train": 20, "id_val": 5, "id_test": 5, "val": 10, "test": 10}
    assert split.names[0] == "old"


def test_rows_without_graph_label_or_value_are_in_no_part() -> None:
    smiles: list[str | None] = ["CCO", "C1C", "CN", "CC", "CO", "CCC", "CCN", "CCCC", "CF", "CCl", "CBr", "CS"]
    y = torch.tensor([0, 1] * 6)
    y[4] = -1
    values: list[str | None] = [str(place) for place in range(12)]
    values[3] = None
    split = make_split("column:a", collect(smiles), {"a": values}, y)
    assert (split.part < 0).nonzero().flatten().tolist() == [1, 3, 4]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("scafold", "did you mean scaffold"),
        ("column", "column:NAME"),
        ("file:", "file:PATH"),
        ("size:3", "size"),
        ("column:b", "no column 'b'; its columns are: a"),
        ("column:a", "a is 'same' for all 20 rows"),
        ("size", "size is '2' for all 20 rows"),
        ("cluster", "cluster is 'cluster 0' for all 20 rows"),
        ("scaffold", "scaffold"),
        ("file:none.json", "cannot read the split none.json"),
    ],
)
def test_what_cannot_be_split_is_refused_in_one_sentence(how: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        make_split(how, paths([2] * 20), {"a": ["same"] * 20})
    assert "\n" not in str(caught.value)


def test_labels_must_be_as_many_as_rows_and_some_known() -> None:
    with pytest.raises(InputError, match="3 labels for 2 rows"):
        make_split("random", paths([2, 2]), y=torch.zeros(3))
    with pytest.raises(InputError, match="graph and a label"):
        make_split("random", paths([2, 2]), y=torch.full((2,), -1))
    with pytest.raises(InputError, match="no columns"):
        make_split("column:a", paths([2, 2]))


def test_a_saved_split_is_read_again(tmp_path: Path) -> None:
    graphs = paths(list(range(1, 41)))
    split = make_split("size", graphs)
    split.save(tmp_path / "split.json")
    again = make_split(f"file:{tmp_path / 'split.json'}", graphs)
    assert torch.equal(again.part, split.part)
    assert (again.by, again.names) == ("size", split.names)
    with pytest.raises(InputError, match=r"40 rows .* 39"):
        make_split(f"file:{tmp_path / 'split.json'}", paths(list(range(1, 40))))


def test_splitters_are_named() -> None:
    assert set(SPLITTERS) == {"scaffold", "size", "cluster", "random", "column", "file"}


# The same molecule ----------------------------------------------------------------------------------------------------

SPELLINGS = [("CCO", "OCC"), ("c1ccccc1C", "Cc1ccccc1"), ("C1=CC=CC=C1O", "Oc1ccccc1"), ("C[C@H](N)O", "O[C@@H](C)N")]
OTHERS = ["C[C@@H](N)O", "CC(N)O", "CCCO", "CC(C)O", "COC", "C/C=C/C", "C/C=C\\C", "CC=CC", "C", "[CH3-]", "[13CH4]"]


def test_molecules_are_the_same_where_their_canonical_smiles_are() -> None:
    texts = [text for pair in SPELLINGS for text in pair] + OTHERS + MOLECULES
    found = same_molecules(collect(texts))
    assert found is not None
    names = [Chem.CanonSmiles(text) for text in texts]
    assert [[one == other for other in found] for one in found] == [[a == b for b in names] for a in names]
    assert same_molecules(paths([2, 3])) is None


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([*OTHERS, *RINGS, "CC(=O)Nc1ccc(O)cc1", "C[N+](C)(C)CC(O)CC(=O)[O-]"]), st.integers(0, 10**6))
def test_any_spelling_of_a_molecule_is_known_again(text: str, seed: int) -> None:
    mol = Chem.MolFromSmiles(text)
    order = np.random.default_rng(seed).permutation(mol.GetNumAtoms()).tolist()
    other = Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False)
    found = same_molecules(collect([text, "CCCCCCN", other]))
    assert found is not None
    assert found[0] == found[2] != found[1]


def test_other_graphs_are_the_same_where_they_are_written_so() -> None:
    graphs = [nx.path_graph(3), nx.path_graph(3), nx.Graph([(0, 1), (0, 2)]), nx.path_graph(4), nx.empty_graph(3)]
    found = same_graphs(collect(graphs)).tolist()
    assert found[0] == found[1]
    assert len(set(found)) == 4


def copies(counts: list[int]) -> list[str]:
    """Molecules that occur so many times, in two spellings, mixed."""
    texts = [
        f"C1CCCCC1{'C' * place}" if copy % 2 else f"{'C' * place}C1CCCCC1"
        for place, count in enumerate(counts, 1)
        for copy in range(count)
    ]
    return [texts[place] for place in np.random.default_rng(0).permutation(len(texts))]


def names_of(texts: list[str], split: Split, part: str) -> set[str]:
    return {Chem.CanonSmiles(texts[row]) for row in split.rows(part).tolist()}


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=12, max_size=30), st.integers(0, 3), st.booleans())
def test_rows_of_a_molecule_leave_training_together(counts: list[int], seed: int, labels: bool) -> None:
    texts = copies(counts)
    y = torch.tensor([Chem.MolFromSmiles(text).GetNumAtoms() % 2 for text in texts]) if labels else None
    split = make_split("random", collect(texts), y=y, seed=seed)
    found = [names_of(texts, split, name) for name in SPLITS]
    assert sum(map(len, found)) == len(set.union(*found)) == len(counts)
    assert all(found)
    wanted = max(1, len(texts) // 10)
    assert all(abs(split.counts()[name] - wanted) <= max(counts) for name in SPLITS[1:])


def test_nothing_is_said_where_no_molecule_is_in_two_parts() -> None:
    texts = copies([3] * 30)
    report = distance_report(make_split("random", collect(texts)), collect(texts))
    assert [report["parts"][name]["also_in_train"] for name in SPLITS] == [None, 0, 0, 0, 0]
    assert "the same molecule" not in report["sentence"]


def test_molecules_stay_together_under_a_shift_too() -> None:
    texts = copies([4] * 30)
    years: list[str | None] = [str(2000 + place % 10) for place in range(120)]
    split = make_split("column:year", collect(texts), {"year": years})
    train = names_of(texts, split, "train")
    assert train.isdisjoint(names_of(texts, split, "id_val") | names_of(texts, split, "id_test"))
    assert names_of(texts, split, "id_val").isdisjoint(names_of(texts, split, "id_test"))
    twice = make_split("column:year", collect(texts), {"year": ["old"] * 90 + ["new"] * 30})
    assert names_of(texts, twice, "val").isdisjoint(names_of(texts, twice, "test"))


def test_a_molecule_that_a_column_keeps_apart_is_counted() -> None:
    texts = ["CCO"] * 6 + ["CCN", "CCC", "CCF"] * 4 + ["OCC", "CCCl"] + ["C(O)C", "CCO", "CS"]
    split = Split(torch.tensor([0] * 18 + [3] * 2 + [4] * 3), torch.tensor([0] * 18 + [1] * 2 + [2] * 3))
    report = distance_report(split, collect(texts))
    assert [report["parts"][name]["also_in_train"] for name in ("val", "test")] == [1, 2]
    assert "the same molecule as 1 validation row and 2 test rows" in report["sentence"]


def test_no_part_is_empty_where_all_but_one_molecule_are_common() -> None:
    texts = copies([1, 20, 20, 20, 20, 20])
    split = make_split("column:a", collect(texts), {"a": ["old"] * 61 + ["new"] * 40}, inside=(0.05, 0.05))
    assert all(split.counts().values())
    assert names_of(texts, split, "train").isdisjoint(names_of(texts, split, "id_val"))


def test_too_few_molecules_are_drawn_row_by_row() -> None:
    texts = ["CCO", "CCN"] * 30
    split = make_split("random", collect(texts), y=torch.tensor([0, 1] * 30))
    assert split.counts() == {"train": 36, "id_val": 6, "id_test": 6, "val": 6, "test": 6}
    report = distance_report(split, collect(texts))
    assert report["parts"]["id_val"]["also_in_train"] == 6


def test_a_molecule_that_fills_the_file_stays_in_training() -> None:
    texts = ["CCO"] * 60 + copies([1] * 40)
    split = make_split("random", collect(texts))
    assert set(range(60)) <= set(split.rows("train").tolist())
    assert split.counts() == {"train": 60, "id_val": 10, "id_test": 10, "val": 10, "test": 10}


# Domains --------------------------------------------------------------------------------------------------------------


def test_common_scaffolds_train_and_rare_ones_test() -> None:
    collection = collect([*MOLECULES, "CCCC", "CCO"])
    domains = by_scaffold(collection)
    expected = {Chem.CanonSmiles(ring): count for ring, count in zip(RINGS, COUNTS, strict=True)} | {NO_RING: 2}
    found = dict(zip(domains.names, np.bincount(domains.number).tolist(), strict=True))
    assert found == expected
    assert list(found.values()) == sorted([*COUNTS, 2], reverse=True)
    split = make_split("scaffold", collection)
    assert split.names == domains.names
    largest = split.domain[split.rows("train")].max()
    assert largest < split.domain[split.rows("val")].min()
    assert split.domain[split.rows("val")].max() < split.domain[split.rows("test")].min()
    assert torch.equal(make_split("auto", collection).part, split.part)


def test_equally_common_scaffolds_are_in_drawn_order() -> None:
    collection = collect(RINGS)
    assert by_scaffold(collection, 0).names != by_scaffold(collection, 1).names
    assert by_scaffold(collection, 0).names == by_scaffold(collection, 0).names


def test_small_graphs_train_and_large_ones_test() -> None:
    sizes = [2 + (7 * place) % 40 for place in range(200)]
    collection = paths(sizes)
    split = make_split("size", collection)
    bounds = [(min(found), max(found)) for found in ([sizes[row] for row in split.rows(name)] for name in SPLITS)]
    assert bounds[0][1] < bounds[3][0] <= bounds[3][1] < bounds[4][0]
    assert bounds[1][1] < bounds[3][0]
    assert torch.equal(make_split("auto", collection).part, split.part)


def test_auto_is_random_where_nothing_differs() -> None:
    assert make_split("auto", paths([3] * 20)).by == "random"
    assert make_split("auto", collect(["CCO", "CCN", "CC"] * 5)).by == "random"


def test_numbers_and_dates_ascend_and_words_are_grouped() -> None:
    assert column(["10", "9", "9.0", "-1e0"]).names == ("-1e0", "9", "10")
    assert column(["2021-03", "2020-12-31", "2021-02-28T12:00"]).names == ("2020-12-31", "2021-02-28T12:00", "2021-03")
    assert column(["b", "a", "a", "7"]).names[0] == "a"
    assert column(["1_000", "2", "2", "3"]).names[0] == "2"  # 1_000 is a name
    assert column([10, 9.5, None, True]).names[0] in ("10", "9.5", "true")


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["27.03.2019", "1.4.2018", "02.02.2020 10:30"], ("1.4.2018", "27.03.2019", "02.02.2020 10:30")),
        (["3/27/2019", "4/1/2018", "2/2/2020"], ("4/1/2018", "3/27/2019", "2/2/2020")),
        (["27/3/2019", "2/1/2019", "1/2/2019"], ("2/1/2019", "1/2/2019", "27/3/2019")),
        (["2019/03/27", "2018/12/01"], ("2018/12/01", "2019/03/27")),
    ],
)
def test_dates_as_people_write_them_ascend(values: list[str], names: tuple[str, ...]) -> None:
    assert by_column("a", paths([1] * len(values)), {"a": values}).names == names


def test_dates_whose_day_nobody_knows_are_groups_and_that_is_told() -> None:
    order = order_of("a", ["3/4/2019", "3/4/2019", "5/6/2018"])
    assert order.measure is None
    assert "3/4/2019" in order.note
    assert "unordered groups" in order.note
    assert "month/day/year" in order_of("a", ["3/27/2019"]).note
    assert order_of("a", ["3/4/2019"] * 19 + ["n/k"]).measure is None
    assert "month/day/year" in order_of("a", ["3/4/2019"] * 19 + ["3/27/2019"]).note  # one date tells
    assert "unordered groups" in order_of("a", ["lab 1", "lab 2"]).note
    assert not order_of("a", ["2019", "2020"]).note
    assert not order_of("a", ["27.03.2019", "2.1.2020"]).note


def test_a_few_words_among_numbers_are_no_domain() -> None:
    years = [str(2000 + place % 15) for place in range(95)] + ["n/k"] * 5
    split = column(years)
    assert split.names == tuple(str(year) for year in range(2000, 2015))
    assert (split.part < 0).tolist() == [year == "n/k" for year in years]
    note = order_of("a", years).note
    assert all(fact in note for fact in ("'a'", "5 rows", "'n/k'"))
    assert order_of("a", ["1"] * 8 + ["n/k"] * 2).measure is None


def test_words_for_no_value_are_no_domain() -> None:
    split = column(["10", "9", "NA", "2", "None", "?"])
    assert split.names == ("2", "9", "10")
    assert (split.part < 0).tolist() == [False, False, True, False, True, True]


def test_many_numbers_are_put_into_bins_of_equal_counts() -> None:
    draws = np.random.default_rng(0)
    numbers = np.concatenate([draws.normal(size=900), np.zeros(100)])
    values = [repr(value) for value in numbers.tolist()]
    domains = by_column("a", paths([1] * 1000), {"a": values})
    counts = np.bincount(domains.number)
    assert 15 <= len(counts) <= 20
    assert len(domains.names) == len(counts)
    assert np.median(counts) == 50
    assert len(set(domains.number[900:].tolist())) == 1
    bounds = [
        (numbers[domains.number == one].min(), numbers[domains.number == one].max()) for one in range(len(counts))
    ]
    assert all(before[1] < after[0] for before, after in pairwise(bounds))


def test_clusters_of_molecules_hold_like_ones() -> None:
    collection = collect(
        [f"{'C' * n}{tail}" for tail in ("S(=O)(=O)O", "c1ccc(Br)cc1", "[N+](C)(C)C") for n in range(5, 45)]
    )
    domains = by_cluster(collection)
    kinds = np.repeat([0, 1, 2], 40)
    for one in np.unique(domains.number):
        assert len(set(kinds[domains.number == one])) == 1
    assert np.array_equal(domains.number, by_cluster(collection).number)


def test_clusters_of_graphs_hold_like_ones() -> None:
    kinds = [nx.star_graph, nx.cycle_graph, nx.complete_graph]
    collection = collect([kind(size) for kind in kinds for size in range(8, 28)])
    domains = by_cluster(collection)
    which = np.repeat([0, 1, 2], 20)
    for one in np.unique(domains.number):
        assert len(set(which[domains.number == one])) == 1
    split = make_split("cluster", collection)
    assert all(len(parts) == 1 for parts in parts_of(split).values())


# Distance -------------------------------------------------------------------------------------------------------------


def test_nearest_similarity_is_that_of_rdkit() -> None:
    some, others = MOLECULES[:40], [*MOLECULES[60:], "CCO", "O"]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)
    mine, theirs = ([generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in part] for part in (some, others))
    expected = [max(DataStructs.BulkTanimotoSimilarity(one, theirs)) for one in mine]
    assert nearest_similarity(
        featurise(some).parsed.fingerprints(), featurise(others).parsed.fingerprints()
    ).tolist() == pytest.approx(expected)


def test_empty_fingerprints_are_equal() -> None:
    none = np.zeros((1, 8), dtype=bool)
    assert nearest_similarity(none, none).tolist() == [1.0]
    assert nearest_similarity(none, ~none).tolist() == [0.0]


def test_a_classifier_tells_apart_what_differs_only() -> None:
    draws = np.random.default_rng(0)
    same = separation(draws.normal(size=(400, 3)), draws.normal(size=(300, 3)))
    apart = separation(draws.normal(size=(400, 3)), draws.normal(size=(300, 3)) + 3)
    assert same == pytest.approx(0.5, abs=0.08)
    assert apart == pytest.approx(1.0, abs=0.01)
    assert separation(np.zeros((400, 1)), np.zeros((3, 1))) is None


def hand_made() -> tuple[Split, Collection, Tensor]:
    """Seven rows, one without a label, in three parts and three domains."""
    part = torch.tensor([0, 0, 0, 0, 3, 4, 4])
    domain = torch.tensor([0, 0, 0, 1, 2, 2, 1])
    return (
        Split(part, domain, ("a", "b", "c"), "lab"),
        paths([2, 4, 2, 4, 3, 7, 9]),
        torch.tensor([0, 1, 1, -1, 0, 2, 0]),
    )


def test_the_report_by_hand() -> None:
    split, collection, y = hand_made()
    report = distance_report(split, collection, y)
    assert (report["by"], report["rows"], report["left_out"]) == ("lab", 7, 1)
    train, test = report["parts"]["train"], report["parts"]["test"]
    assert (train["graphs"], train["domains"], train["classes"]) == (3, 1, [0.3333, 0.6667, 0.0])
    assert (train["mean_size"], train["size_difference"], train["unseen_domains"]) == (2.67, 0.0, 0.0)
    assert (test["graphs"], test["domains"], test["classes"]) == (2, 2, [0.5, 0.0, 0.5])
    spread = np.std([2, 4, 2])
    assert test["size_difference"] == pytest.approx((8 - 8 / 3) / spread, abs=1e-3)
    assert test["unseen_domains"] == 1.0  # domain 1 has a training row, but without a label
    assert report["parts"]["id_val"] == {
        "graphs": 0,
        "domains": 0,
        "classes": None,
        "mean_size": None,
        "size_difference": None,
        "unseen_domains": None,
        "nearest_mean": None,
        "nearest_median": None,
        "auroc": None,
        "also_in_train": 0,
    }
    assert (train["also_in_train"], test["also_in_train"], report["parts"]["val"]["also_in_train"]) == (None, 0, 0)
    assert "OOD test" in report["sentence"]
    assert "5.7 standard deviations larger" in report["sentence"]
    assert "100% of its domains are unseen" in report["sentence"]
    assert distance_report(split, collection)["parts"]["test"]["unseen_domains"] == 0.5


def test_the_report_tells_a_shift_from_none() -> None:
    graphs = collect([nx.star_graph(5 + n % 20) if n < 150 else nx.cycle_graph(5 + n % 20) for n in range(200)])
    kinds: list[str | None] = ["star" if n < 150 else "cycle" if n < 175 else "ring" for n in range(200)]
    shifted = distance_report(make_split("column:kind", graphs, {"kind": kinds}), graphs)
    mixed = distance_report(make_split("random", graphs), graphs)
    assert shifted["parts"]["test"]["auroc"] > 0.95
    assert f"AUROC {shifted['parts']['test']['auroc']:.2f}" in shifted["sentence"]
    assert f"ID test: {shifted['parts']['id_test']['auroc']:.2f}" in shifted["sentence"]
    assert "100% of its domains are unseen" in shifted["sentence"]
    assert mixed["parts"]["test"]["auroc"] < 0.75
    assert mixed["parts"]["test"]["nearest_mean"] is None


def test_the_report_of_molecules_names_their_nearest_neighbours() -> None:
    collection = collect(MOLECULES)
    report = distance_report(make_split("scaffold", collection), collection)
    parts = report["parts"]
    assert parts["train"]["nearest_mean"] is None
    assert parts["test"]["nearest_mean"] < parts["id_test"]["nearest_mean"] <= 1.0
    assert (
        f"molecule {parts['test']['nearest_mean']:.2f} (ID test: {parts['id_test']['nearest_mean']:.2f})"
        in report["sentence"]
    )
    bits = collection.molecules.fingerprints() if collection.molecules is not None else np.zeros((0, 0), dtype=bool)
    split = make_split("scaffold", collection)
    near = nearest_similarity(bits[split.rows("test").numpy()], bits[split.rows("train").numpy()])
    assert parts["test"]["nearest_mean"] == pytest.approx(near.mean(), abs=1e-4)
    assert parts["test"]["nearest_median"] == pytest.approx(np.median(near), abs=1e-4)


@pytest.mark.parametrize(("sizes", "expected"), [([2, 2], "smaller"), ([9, 9], "larger"), ([5, 5], None)])
def test_the_sentence_says_whether_test_graphs_are_larger_or_smaller(sizes: list[int], expected: str | None) -> None:
    split = Split(torch.tensor([0] * 4 + [4] * 2), torch.zeros(6, dtype=torch.long))
    report = distance_report(split, paths([4, 6, 4, 6, *sizes]))
    difference = (sizes[0] - 5) / 1.0
    assert report["parts"]["test"]["size_difference"] == difference
    for word in ("larger", "smaller"):
        assert (f"{abs(difference):.1f} standard deviations {word}" in report["sentence"]) == (word == expected)


@pytest.mark.parametrize(("auroc", "words"), [(0.59, "resembles"), (0.79, "differs from"), (0.81, "differs strongly")])
def test_every_number_of_the_sentence_is_that_of_its_part(auroc: float, words: str) -> None:
    """A made-up report in which no number occurs twice."""
    row = {"graphs": 9, "nearest_median": 0.99, "mean_size": 88.0, "also_in_train": 0}
    test = {"auroc": auroc, "nearest_mean": 0.21, "size_difference": -1.3, "domains": 4, "unseen_domains": 0.75}
    inside = {"auroc": 0.51, "nearest_mean": 0.62, "size_difference": 0.0, "domains": 5, "unseen_domains": 0.1}
    parts = {split: {**row, **inside} for split in SPLITS} | {"test": {**row, **test, "also_in_train": 17}}
    parts["id_val"] |= {"auroc": 0.33, "nearest_mean": 0.34, "also_in_train": 6}
    found = _sentence(parts, "molecule")
    verdict, facts = found.split(": ", 1)
    assert "9 rows" in verdict
    assert "OOD test" in verdict
    assert words in verdict
    numbers = re.findall(r"\d+(?:\.\d+)?%?", facts)
    assert numbers == [f"{auroc:.2f}", "0.5", "0.51", "0.21", "0.62", "1.3", "75%", "6", "17"]
    assert "1.3 standard deviations smaller" in facts
    assert "6 ID validation rows and 17 OOD test rows" in facts


def test_a_report_without_training_rows_says_so() -> None:
    split = Split(torch.tensor([4, 4]), torch.tensor([0, 0]))
    assert "empty" in distance_report(split, paths([2, 3]))["sentence"]


@pytest.mark.parametrize(
    "dates",
    [
        ["05-Feb-2017", "6-Mar-2017", "01-Jan-2019"],
        ["Sep 2015", "Oct 2015", "January 2016"],
        ["2015-Q3", "2015-Q4", "2016Q1"],
        ["06/29/98", "07/01/05", "01/15/18"],
        ["Feb 5, 2017", "March 1, 2017", "Feb 1, 2018"],
    ],
)
def test_dates_with_words_quarters_and_short_years_have_an_order(dates: list[str]) -> None:
    measure = order_of("day", dates).measure
    assert measure is not None
    times = [measure(one) for one in dates]
    assert times == sorted(times)
    assert len(set(times)) == 3


# Environments ---------------------------------------------------------------------------------------------------------


def test_each_source_is_an_environment_and_neighbouring_numbers_are_merged() -> None:
    names = [f"assay {number:02d}" for number in range(15) for _ in range(20)]
    split = column(names)
    env, count = split.envs()
    inside = split.part <= 2
    assert count == len(split.domain[inside].unique()) > 10
    pairs = set(zip(split.domain[inside].tolist(), env[inside].tolist(), strict=True))
    assert len(pairs) == count  # one environment per assay
    assert column([str(number) for number in range(15) for _ in range(20)]).envs()[1] == 10


def test_sources_with_few_rows_are_merged() -> None:
    assert column([f"assay {number:02d}" for number in range(60) for _ in range(5)]).envs()[1] == 10
