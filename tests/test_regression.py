"""Measured values: metrics, selection, standardising, blends, and the scikit-learn regressor."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_regressor
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.model_selection import cross_val_score
from sklearn.utils import estimator_checks

from goodformer import GraphClassifier, GraphRegressor, InputError
from goodformer.data import load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.engine.combine import mean_weights
from goodformer.engine.evaluate import measure
from goodformer.engine.selection import select_epoch, should_stop
from goodformer.methods.goodformer import intervene
from goodformer.report.table import Cell, ranked
from goodformer.spec import Task
from tests.apply.molecules import molecules

pytestmark = pytest.mark.usefixtures("own_cache")
TASK = Task("regression", 2, "rmse", centre=(1.0, 10.0), scale=(2.0, 5.0))


def values() -> tuple[list[str], list[float]]:
    """Molecules and a value that follows from their atoms."""
    smiles, nitro = molecules()
    return smiles, [
        round(0.3 * one.count("C") - 2.5 * label + 0.01 * (place % 7), 3)
        for place, (one, label) in enumerate(zip(smiles, nitro, strict=True))
    ]


# The parts ------------------------------------------------------------------------------------------------------------


def test_metrics_are_those_of_scikit_learn_in_the_units_of_the_targets() -> None:
    random = np.random.default_rng(0)
    z = torch.from_numpy(random.normal(size=(40, 2)))
    y = torch.from_numpy(random.normal(size=(40, 2)) * [2, 5] + [1, 10])
    y[::6, 0] = math.nan
    found = measure(TASK, [{"logits": z, "y": y}])
    each = []
    for place, (centre, scale) in enumerate(zip(TASK.centre, TASK.scale, strict=True)):
        known = ~y[:, place].isnan()
        truth, said = y[known, place].numpy(), (centre + scale * z[known, place]).numpy()
        assert found[f"rmse_{place}"] == pytest.approx(root_mean_squared_error(truth, said))
        assert found[f"mae_{place}"] == pytest.approx(mean_absolute_error(truth, said))
        assert found[f"r2_{place}"] == pytest.approx(r2_score(truth, said))
        each.append(root_mean_squared_error(truth, said) / scale)
    assert found["rmse"] == pytest.approx(np.mean(each)), "several targets are averaged in standard deviations"
    single = Task("regression", 1, "rmse", centre=(1.0,), scale=(2.0,))
    alone = measure(single, [{"logits": z[:, 1:], "y": y[:, 1:]}])
    assert alone["rmse"] == pytest.approx(root_mean_squared_error(y[:, 1], 1 + 2 * z[:, 1])), "one in its own unit"
    assert measure(single, [{"logits": z[:1, 1:], "y": y[:1, 1:]}])["r2"] is None


def test_the_lowest_error_is_selected_and_stops_training() -> None:
    epochs = [{"val": {"rmse": value, "loss": 1.0}} for value in (2.0, None, 0.7, 0.9, 1.1)]
    assert select_epoch(epochs, "ood_val", "rmse") == 2
    assert should_stop(epochs, "ood_val", "rmse", patience=2)
    assert not should_stop(epochs, "ood_val", "rmse", patience=3, perfect=1), "an error of 1.1 is not perfect"
    perfect = [{"val": {"rmse": 0.0, "loss": 0.0}}] * 2
    assert should_stop(perfect, "ood_val", "rmse", patience=None, perfect=2)


def test_the_lowest_cell_is_bold() -> None:
    cells = ranked([Cell.mean(1.5), Cell.mean(0.9), Cell.mean(1.2)], lowest=True)
    assert [cell.rank for cell in cells] == [0, 1, 2]


def test_an_intervention_shifts_a_value_by_less_than_a_standard_deviation_and_not_on_average() -> None:
    y_c, y_s, y = torch.randn(6, 2), 5 * torch.randn(6, 2), torch.randn(6, 2)
    pairs, labels = intervene(y_c, y_s, y, measured=True)
    assert pairs.shape == labels.shape == (6, 6, 2)
    torch.testing.assert_close(pairs.mean(1), y_c)
    assert float((pairs - y_c[:, None]).abs().max()) < 1
    assert torch.equal(labels[2, 4], y[2])


def test_the_mean_of_members_leans_on_the_better_ones() -> None:
    draw = torch.Generator().manual_seed(0)
    y = torch.randn(200, 1, generator=draw).double()
    noise = torch.randn(3, 200, 1, generator=draw).double()
    members = y + torch.tensor([0.2, 0.2, 2.0]).double()[:, None, None] * noise
    y[3] = math.nan
    weights = mean_weights(members, y, torch.full((3,), 1 / 3).double())
    assert float(weights.sum()) == pytest.approx(1)
    assert weights[2] < 0.05
    assert 0.35 < weights[0] < 0.65
    few = mean_weights(members[:, :2], y[:2], torch.full((3,), 1 / 3).double())
    assert float((few - 1 / 3).abs().max()) < 0.25, "two labels hardly move the weights"


def test_a_benchmark_standardises_by_its_training_graphs_alone() -> None:
    graphs = load_benchmark("good-motif", domain="basis", graphs=200)
    random, splits = np.random.default_rng(0), {}
    for split, part in graphs.splits.items():
        part.graph["y"] = torch.from_numpy(random.normal(5 if split == "train" else 50, 3, (len(part), 1))).float()
        splits[split] = part
    made = Benchmark(
        "mine", "basis", "covariate", splits, Task("regression", 1, "rmse"), graphs.features, graphs.num_envs
    )
    train = splits["train"].graph["y"].double()
    assert made.task.centre[0] == pytest.approx(float(train.mean()))
    assert made.task.scale[0] == pytest.approx(float(train.std(correction=0)))
    splits["train"].graph["y"][:] = 3
    with pytest.raises(InputError, match="only the value 3"):
        Benchmark("mine", "basis", "covariate", splits, Task("regression", 1, "rmse"), graphs.features, graphs.num_envs)


# The estimator --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_mixin_order,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_set_params,
        estimator_checks.check_valid_tag_types,
    ],
)
def test_scikit_learns_checks_that_need_no_table_of_numbers_pass(check: Callable[[str, GraphRegressor], None]) -> None:
    check("GraphRegressor", GraphRegressor())


def test_scikit_learn_has_no_other_check_for_this_input() -> None:
    results = estimator_checks.check_estimator(GraphRegressor(), on_skip=None, on_fail=None)
    assert results
    assert {result["status"] for result in results} <= {"passed", "skipped"}


def test_the_regressor_learns_saves_and_loads(tmp_path: Path) -> None:
    smiles, y = values()
    some = GraphRegressor("linear", split="random").fit(smiles, y)
    assert is_regressor(some)
    assert not hasattr(clone(some), "model_")
    assert some.score(smiles, y) > 0.8, "R2"
    said, ends = some.predict(smiles), some.predict_interval(smiles, 0.8)
    assert said.shape == (len(smiles),)
    assert ends.shape == (len(smiles), 2)
    assert ((ends[:, 0] <= y) & (y <= ends[:, 1])).mean() > 0.7
    again = GraphRegressor.load(some.save(tmp_path / "model"))
    assert (again.predict(smiles) == said).all()
    assert (again.predict_interval(smiles, 0.8) == ends).all()
    assert (pickle.loads(pickle.dumps(some)).predict(smiles) == said).all()
    with pytest.raises(InputError, match="GraphRegressor"):
        GraphClassifier.load(tmp_path / "model")
    assert len(cross_val_score(GraphRegressor("linear", split="random"), smiles, y, cv=2)) == 2


def test_members_of_a_regressor_have_a_spread_in_the_units_of_the_target() -> None:
    smiles, y = values()
    scaled = 1000 * np.array(y)
    settings = {"model.dim": 16, "model.layers": 2}
    some = GraphRegressor("erm", "gin", settings=settings, epochs=2, members=2, split="random").fit(smiles, scaled)
    assert some.model_.members == 2
    assert 1 < some.spread(smiles).mean() < 10 * scaled.std()
    assert some.predict(smiles).std() > 1


def test_goodformer_fits_several_targets_with_gaps() -> None:
    smiles, y = values()
    both = np.stack((y, -10 * np.array(y)), 1)
    both[::4, 1] = np.nan
    settings = {"model.dim": 16, "training.batch_size": 32}
    some = GraphRegressor("goodformer", settings=settings, epochs=1, split="random").fit(smiles, both)
    assert some.predict(smiles[:5]).shape == (5, 2)
    assert some.predict_interval(smiles[:5], 0.5).shape == (5, 2, 2)
    assert {"invariant", "intervention", "variance", "variant"} <= some.history_[0]["loss"].keys()


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (["a", "b", "c"], "not numbers"),
        ([1.0, 2.0], "shape"),
        ([1.0, math.inf, 2.0], "infinite"),
        ([1.0, math.nan, 2.0], "NaN"),
        ([1.0, 1.0, 1.0], "the single value 1"),
    ],
)
def test_values_that_cannot_be_learnt_get_one_sentence(y: list, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        GraphRegressor("linear").fit(["CC", "CCC", "CCO"], y)
