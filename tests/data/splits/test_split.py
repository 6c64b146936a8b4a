"""Every row goes where the rule says, domains stay apart, and a saved split is the same split."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from goodformer.data.graphs import GraphSet
from goodformer.data.splits.split import TIES, Split, concept, covariate, mixed
from goodformer.errors import InputError
from goodformer.spec import SPLITS

domains = st.lists(st.integers(0, 12), min_size=30, max_size=200).filter(lambda found: len(set(found)) >= 3)


def members(split: Split, *names: str) -> set[int]:
    """Domains of some splits."""
    return {int(number) for name in names for number in split.domain[split.rows(name)]}


# Unseen domains -------------------------------------------------------------------------------------------------------


def test_cuts_move_on_to_the_next_domain() -> None:
    domain = [3] * 2 + [0] * 7 + [2] * 2 + [1] * 9  # in order: 0 x 7, 1 x 9, 2 x 2, 3 x 2; 80 % is 16, 90 % is 18
    split = covariate(domain, "size")
    assert split.counts() == {"train": 12, "id_val": 2, "id_test": 2, "val": 2, "test": 2}
    assert members(split, "val") == {2}
    assert members(split, "test") == {3}
    late = covariate([0] * 7 + [1] * 10 + [2] * 1 + [3] * 2, "size")  # 16 lies within domain 1, so train ends at 17
    assert late.counts() == {"train": 13, "id_val": 2, "id_test": 2, "val": 1, "test": 2}


@given(domains, st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_covariate_against_a_plain_scan(domain: list[int], seed: int) -> None:
    try:
        split = covariate(domain, "size", seed=seed)
    except InputError:
        assume(False)  # too few rows are left in train
    order = sorted(range(len(domain)), key=lambda row: domain[row])
    wanted, cuts, part = {}, [int(0.8 * len(domain) + 1e-9), int(0.9 * len(domain) + 1e-9)], 0
    for place, row in enumerate(order):
        begins = place > 0 and domain[row] != domain[order[place - 1]]
        left = len({domain[other] for other in order[place:]})
        if part < 2 and begins and (place >= cuts[part] or left == 2 - part):
            part += 1
        wanted[row] = part
    found = [max(0, int(number) - 2) for number in split.part]
    assert found == [wanted[row] for row in range(len(domain))]
    tenth = int(0.1 * len(domain) + 1e-9)
    assert split.counts()["id_val"] == split.counts()["id_test"] == tenth
    inside = members(split, "train", "id_val", "id_test")
    assert inside.isdisjoint(members(split, "val"))
    assert (inside | members(split, "val")).isdisjoint(members(split, "test"))


def test_three_equal_domains_are_three_parts() -> None:
    split = covariate([0] * 10 + [1] * 10 + [2] * 10, "lab")
    assert (members(split, "train"), members(split, "val"), members(split, "test")) == ({0}, {1}, {2})
    huge = covariate([0] * 2 + [1] * 2 + [2] * 96, "lab", inside=(0, 0))
    assert (members(huge, "train"), members(huge, "val"), members(huge, "test")) == ({0}, {1}, {2})


def test_shares_of_nothing() -> None:
    split = covariate([0] * 6 + [1] * 4, "lab", outside=(0, 0.4), inside=(0, 0))
    assert split.counts() == {"train": 6, "id_val": 0, "id_test": 0, "val": 0, "test": 4}
    whole = covariate([0] * 10, "lab", outside=(0, 0), inside=(0.3, 0.0))
    assert whole.counts() == {"train": 7, "id_val": 3, "id_test": 0, "val": 0, "test": 0}


def test_too_little_to_split() -> None:
    with pytest.raises(InputError, match=r"lab has 2 domains for 10 rows"):
        covariate([0] * 5 + [1] * 5, "lab")
    with pytest.raises(InputError, match=r"2 rows in training.* 20"):
        covariate([0] * 2 + [1] * 2 + [2] * 96, "lab")


def test_the_seed_decides_only_what_leaves_train() -> None:
    domain = np.arange(1000) % 50
    one, same, other = (covariate(domain, "size", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.part, same.part)
    assert not torch.equal(one.part, other.part)
    assert torch.equal(one.part.clamp(min=2), other.part.clamp(min=2))
    assert one.rows("id_val")[:5].tolist() == [17, 26, 32, 50, 51]  # the same on every machine


# A changed tie --------------------------------------------------------------------------------------------------------


def test_ties_are_as_strong_as_they_should_be() -> None:
    """Two large domains, labels half and half: shares follow from the probabilities alone."""
    rows = 200_000
    generator = np.random.default_rng(0)
    domain, y = np.arange(rows) * 2 // rows, generator.integers(0, 2, rows)
    split = concept(domain, y, "size")
    agrees = torch.from_numpy(y == (domain == 0))
    env, count = split.envs()
    assert count == 3
    left = np.array([rows / 2, rows / 2])  # rows that agree with the training tie, and that do not
    for number, tie in enumerate(TIES):
        chances = np.array([tie.bias, 1 - tie.bias])[:: 1 if tie.part == 0 else -1] * tie.share
        taken, left = left * chances, left * (1 - chances)
        trained = sum(earlier.part == 0 for earlier in TIES[:number])
        here = (split.part == 4) if tie.part == 4 else (split.part <= 2) & (env == trained)
        assert int(here.sum()) == pytest.approx(taken.sum(), rel=0.02)
        assert float(agrees[here].double().mean()) == pytest.approx(taken[0] / taken.sum(), abs=0.005)
    assert split.counts()["val"] == pytest.approx(left.sum(), rel=0.02)
    train = sum(split.counts()[name] for name in SPLITS[:3])
    assert split.counts()["id_val"] == split.counts()["id_test"] == int(0.15 * train)


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=60, max_size=150), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_no_group_has_one_label_of_a_domain_that_could_have_two(rows: list[tuple[int, bool]], seed: int) -> None:
    domain, y = np.array([row[0] for row in rows]), np.array([row[1] for row in rows]).astype(float)
    assume(y.min() < y.max())
    split = concept(domain, y, "size", seed=seed)
    env = split.env
    assert env is not None
    group = torch.where(split.part == 4, 1, torch.where(env > 0, env + 1, 0))
    group = torch.where(split.part == 3, 9, group).numpy()  # in the order they are taken
    for number in range(4):
        for one in np.unique(domain[group == number]):
            free = (domain == one) & (group >= number)
            if len(set(y[free])) == 2:
                assert len(set(y[free & (group == number)])) == 2


def test_missing_labels_and_several_targets() -> None:
    generator = np.random.default_rng(1)
    domain = generator.integers(0, 5, 400)
    y = generator.integers(0, 2, (400, 3)).astype(np.float64)
    y[generator.random((400, 3)) < 0.4] = np.nan
    split = concept(domain, y, "lab")
    assert int((split.part < 0).sum()) == 0
    assert all(split.counts().values())


def test_no_shift() -> None:
    split = mixed(np.arange(41_120) % 7, "size", seed=3)
    assert split.counts() == {"train": 24_672, "id_val": 4_112, "id_test": 4_112, "val": 4_112, "test": 4_112}
    shares = split.domain[split.rows("test")].bincount() / 4_112
    assert torch.allclose(shares, torch.full((7,), 1 / 7), atol=0.02)
    assert not torch.equal(split.part, mixed(split.domain, "size", seed=4).part)


# The split itself -----------------------------------------------------------------------------------------------------


def small() -> Split:
    return Split([0, 3, -1, 1, 4, 0, 2], [7, 5, 0, 2, 9, 2, 8], by="lab")  # type: ignore[arg-type]


def test_rows_and_envs() -> None:
    split = small()
    assert len(split) == 7
    assert [split.rows(name).tolist() for name in SPLITS] == [[0, 5], [3], [6], [1], [4]]
    env, count = split.envs()
    assert (env.tolist(), count) == ([1, 0, 0, 0, 0, 0, 2], 3)  # 2, 7 and 8 in order; 0 outside
    grouped = Split(split.part, split.domain, env=torch.tensor([4, 9, 9, 6, 9, 6, 4]))
    assert (grouped.envs()[0].tolist(), grouped.envs()[1]) == ([0, 0, 0, 1, 0, 1, 0], 2)


def test_cut() -> None:
    graphs = GraphSet.from_list([Data(num_nodes=number + 1) for number in range(7)])
    parts = small().cut(graphs, y=torch.arange(7))
    assert {name: part.sizes.tolist() for name, part in parts.items()} == {
        "train": [1, 6],
        "id_val": [4],
        "id_test": [7],
        "val": [2],
        "test": [5],
    }
    assert parts["train"].graph["y"].tolist() == [0, 5]
    assert parts["train"].graph["domain"].tolist() == [7, 2]
    assert parts["train"].graph["env"].tolist() == [1, 0]


@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 3)), max_size=30), st.booleans(), st.booleans())
@settings(max_examples=30, deadline=None)
def test_saved_and_loaded(rows: list[tuple[int, int]], named: bool, grouped: bool) -> None:
    part, domain = [row[0] for row in rows], [row[1] for row in rows]
    names = ("Ä", "b\n", "", "d") if named else ()
    split = Split(part, domain, names, "lab", domain[::-1] if grouped else None)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        split.save(Path(folder) / "split.json")
        assert [path.name for path in Path(folder).iterdir()] == ["split.json"]
        again = Split.load(Path(folder) / "split.json")
    assert torch.equal(again.part, split.part)
    assert torch.equal(again.domain, split.domain)
    assert (again.names, again.by) == (split.names, split.by)
    assert again.envs()[1] == split.envs()[1]
    assert torch.equal(again.envs()[0], split.envs()[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"part": [0, 9]}, "parts 0 to 9"),
        ({"part": [0]}, "1 parts but 2 domains"),
        ({"part": [0, 1.5]}, "integers"),
        ({"part": [0, True]}, "integers"),
        ({"domain": [0, -1]}, "negative"),
        ({"names": ["a"]}, "domain 1 but 1 names"),
        ({"names": [1, 2]}, "not text"),
        ({"env": [0]}, "2 parts"),
        ({"domain": None}, "integers"),
        ({"format": "else"}, "is not a saved split"),
        ({"splits": ["train"]}, "is not a saved split"),
    ],
)
def test_damaged_files(change: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    Split([0, 3], [0, 1], ("a", "b")).save(path)  # type: ignore[arg-type]
    value = json.loads(path.read_text())
    del value["checksum"]
    path.write_text(json.dumps(value | change))
    with pytest.raises(InputError, match=message):
        Split.load(path)


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    Split([0, 3], [0, 1], ("a", "b")).save(path)  # type: ignore[arg-type]
    path.write_text(path.read_text().replace('"part": [0, 3]', '"part": [0, 2]'))
    with pytest.raises(InputError, match="checksum"):
        Split.load(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        Split.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        Split.load(tmp_path / "bad.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="is not a saved split"):
        Split.load(tmp_path / "list.json")
    with pytest.raises(InputError, match="cannot write"):
        small().save(tmp_path / "nowhere" / "split.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json", "list.json"]


def test_refused() -> None:
    with pytest.raises(InputError, match="one integer per row"):
        covariate([0.5, 1.0], "size")  # type: ignore[list-item]
    with pytest.raises(InputError, match="one integer per row"):
        mixed(torch.zeros(3, 2, dtype=torch.long), "size")


def test_many_domains_are_joined_to_ten_environments_of_neighbours() -> None:
    split = covariate(torch.arange(500), "scaffold")
    env, count = split.envs()
    assert count == 10
    inside = split.part <= 2
    ordered = env[inside][split.domain[inside].argsort()]
    assert bool((ordered.diff() >= 0).all())
    assert int(ordered.bincount().max()) - int(ordered.bincount().min()) <= 1
    few = covariate(torch.arange(500) // 70, "scaffold")
    assert few.envs()[1] == len(members(few, *SPLITS[:3]))


@given(st.lists(st.integers(0, 40), min_size=30, max_size=200), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_no_domain_is_torn_and_environments_are_at_most_ten(domain: list[int], seed: int) -> None:
    split = mixed(domain, "size", seed=seed)
    env, count = split.envs()
    inside = split.part <= 2
    pairs = {(int(number), int(group)) for number, group in zip(split.domain[inside], env[inside], strict=True)}
    assert len(pairs) == len(members(split, *SPLITS[:3]))
    assert {group for _, group in pairs} == set(range(count))
    assert [group for _, group in sorted(pairs)] == sorted(group for _, group in pairs)  # neighbours
    assert count == len(pairs) if len(pairs) <= 10 else 1 <= count <= 10


def test_given_environments_stay_as_they_are() -> None:
    domain = torch.arange(50)
    assert Split(torch.zeros(50, dtype=torch.long), domain).envs()[1] == 10
    assert Split(torch.zeros(50, dtype=torch.long), domain, env=domain).envs()[1] == 50


def test_a_large_domain_is_an_environment_of_its_own() -> None:
    split = covariate(torch.tensor([0] * 300 + list(range(1, 201))), "scaffold")
    env, _ = split.envs()
    assert len(set(env[(split.domain == 0) & (split.part <= 2)].tolist())) == 1
