"""Decision trees as tensors, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from goodformer.errors import InputError
from goodformer.methods.forest import arrays
from goodformer.nn import trees
from goodformer.nn.trees import Trees


def rows(count: int = 200, columns: int = 12, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """Counts and two real columns; the label depends on three of them."""
    random = np.random.default_rng(seed)
    x = random.poisson(0.7, (count, columns)).astype(np.float32)
    x[:, -2:] = random.normal(size=(count, 2))
    y = (x[:, 0] + (x[:, 1] > 0) * x[:, -1] + 0.3 * random.normal(size=count) > 0.8).astype(int) + (x[:, 2] > 1)
    return torch.from_numpy(x), y


def grown(x: torch.Tensor, y: np.ndarray, **settings: object) -> tuple[Trees, RandomForestClassifier]:
    """The same forest here and in scikit-learn."""
    forest = RandomForestClassifier(**{"n_estimators": 15, "random_state": 0, **settings}).fit(x.numpy(), y)
    parts = [arrays(one.tree_, forest.classes_, len(forest.classes_), x.shape[1]) for one in forest.estimators_]
    starts = np.cumsum([0, *(len(part["child"]) for part in parts)])
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    joined["child"] = joined["child"] + np.repeat(starts[:-1], np.diff(starts))
    joined["root"] = starts[None, :-1]
    made = Trees(x.shape[1], 1, len(forest.classes_))
    made.set({name: torch.from_numpy(value) for name, value in joined.items()})
    return made, forest


@pytest.mark.parametrize("settings", [{}, {"class_weight": "balanced", "min_samples_leaf": 3}, {"max_depth": 1}])
def test_probabilities_are_those_of_scikit_learn(settings: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows()
    made, forest = grown(x, y, **settings)
    new, _ = rows(90, seed=1)
    found = made(new)[:, 0].numpy()
    np.testing.assert_allclose(found, forest.predict_proba(new.numpy()), atol=1e-6)
    monkeypatch.setattr(trees, "PAIRS", 100)  # in parts of six rows
    np.testing.assert_array_equal(made(new)[:, 0].numpy(), found)
    assert made(new[:0]).shape == (0, 1, 3)


def test_a_threshold_between_neighbouring_numbers_separates_them() -> None:
    low = np.float32(100.1)
    high = np.nextafter(low, np.float32(200))
    x = torch.tensor([[low], [high]]).repeat(20, 1)
    y = np.tile([0, 1], 20)
    made, forest = grown(x, y)
    np.testing.assert_allclose(made(x)[:, 0].numpy(), forest.predict_proba(x.numpy()), atol=1e-6)
    assert made(x)[:, 0, 1].round().tolist() == y.tolist()


def test_constant_and_contributions_add_up_to_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows()
    made, _ = grown(x, y)
    direction = torch.randn(len(x), 1, 3)
    constant, terms = made.contributions(x, direction)
    expected = (made(x) * direction).sum((1, 2))
    torch.testing.assert_close(constant + terms.sum(1), expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(constant, (made.value[made.root[0].long()].mean(0).double() * direction[:, 0]).sum(1))
    monkeypatch.setattr(trees, "PAIRS", 100)
    torch.testing.assert_close(made.contributions(x, direction)[1], terms)


def test_contributions_of_stumps_are_the_effects_of_their_columns() -> None:
    """In trees of depth one, each column acts alone: its term is the change of the output from the mean."""
    x, y = rows()
    made, forest = grown(x, y, max_depth=1)
    direction = torch.tensor([0.0, 1.0, 0.0]).expand(len(x), 1, 3)
    _, terms = made.contributions(x, direction)
    expected = np.zeros(x.shape)
    for one in forest.estimators_:
        tree = one.tree_
        if tree.node_count == 1:
            continue
        leaf = tree.apply(x.numpy())
        expected[:, tree.feature[0]] += (tree.value[leaf, 0, 1] - tree.value[0, 0, 1]) / len(forest.estimators_)
    np.testing.assert_allclose(terms.numpy(), expected, atol=1e-6)


def test_trees_of_any_size_are_loaded() -> None:
    x, y = rows()
    made, _ = grown(x, y)
    other = Trees(x.shape[1], 1, 3)
    other.load_state_dict(made.state_dict())
    assert torch.equal(made(x), other(x))
    with pytest.raises(RuntimeError, match="Missing"):
        other.load_state_dict({name: value for name, value in made.state_dict().items() if name != "root"})


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("child", 0, 0),  # the root as its own child: a path without end
        ("child", 5, 2),  # back to an earlier node
        ("child", 0, 10**6),
        ("feature", 0, 12),
        ("feature", 0, -1),
        ("root", (0, 0), 10**6),
        ("root", (0, 0), -1),
        ("value", (0, 0), float("nan")),
        ("threshold", 0, float("nan")),
        ("threshold", 0, float("inf")),
    ],
)
def test_damaged_trees_are_refused(name: str, place: object, value: float) -> None:
    x, y = rows()
    made, _ = grown(x, y)
    state = {key: one.clone() for key, one in made.state_dict().items()}
    state[name][place] = value
    with pytest.raises(InputError, match="decision trees are damaged"):
        Trees(x.shape[1], 1, 3).load_state_dict(state)


def test_wrong_shapes_are_refused() -> None:
    x, y = rows()
    made, _ = grown(x, y)
    state = made.state_dict()
    for name in ("feature", "threshold", "value"):
        with pytest.raises(InputError, match=f"{name} has the shape"):
            Trees(x.shape[1], 1, 3).load_state_dict({**state, name: state[name][:-1]})
    with pytest.raises(InputError, match="groups"):
        Trees(x.shape[1], 2, 3).load_state_dict(state)
    with pytest.raises(InputError, match="real numbers"):
        Trees(x.shape[1], 1, 3).load_state_dict({**state, "child": state["child"].float()})


def test_no_trees_are_said() -> None:
    with pytest.raises(InputError, match="fit it first"):
        Trees(3, 1, 1)(torch.zeros(2, 3))
