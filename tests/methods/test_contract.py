"""The contract of every registered method, on every kind of task."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch_geometric.data import Batch

from goodformer.config.presets import default_model
from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.methods.base import Method, check_task, link, losses, mean_loss
from goodformer.methods.blend import Blend
from goodformer.models import MODELS
from goodformer.spec import Features, FeatureSpec, Task
from tests.nn.graphs import batch, graphs

SPEC = FeatureSpec(Features.continuous(4), Features.continuous(3))
SMALL = {"forest": {"trees": 20}}
TASKS = {
    "multiclass": Task("multiclass", 3, num_envs=3),
    "binary": Task("binary", 1, "rocauc", num_envs=3),
    "targets": Task("binary", 4, "rocauc", num_envs=3),
}
MEASURED = {"values": Task("regression", 2, "rmse", 3, centre=(3.0, -1.0), scale=(2.0, 0.5))}


def build(name: str, task: Task) -> Method:
    torch.manual_seed(0)
    made = METHODS.build(name, MODELS.build(default_model(name), SPEC, dim=16), task, **SMALL.get(name, {}))
    if made.at_once:
        made.fit([labelled(task), labelled(task, (8, 11, 9, 14, 7, 10))], seed=0)
    return made


def labelled(task: Task, sizes: tuple[int, ...] = (7, 1, 12, 5, 2, 20)) -> Batch:
    data = batch(sizes)
    if task.kind == "binary":
        data.y = torch.randint(2, (data.num_graphs, task.outputs)).float()
        if task.outputs > 1:
            data.y[torch.rand(data.y.shape) < 0.4] = float("nan")
    if task.measured:
        data.y = torch.tensor(task.centre) + torch.tensor(task.scale) * torch.randn(data.num_graphs, task.outputs)
        data.y[::5, 1] = float("nan")
    return data


SUPPORTED = [
    (name, key) for name in METHODS for key, task in (TASKS | MEASURED).items() if task.kind in METHODS[name].tasks
]


@pytest.fixture(params=SUPPORTED, ids="-".join)
def method(request: pytest.FixtureRequest) -> Method:
    name, task = request.param
    return build(name, (TASKS | MEASURED)[task])


def test_methods_of_classes_refuse_measured_values() -> None:
    refusing = {name for name in METHODS if "regression" not in METHODS[name].tasks}
    assert refusing == {"gil", "ciga", "imold", "cal-plus"}
    for name in METHODS:
        if name in refusing:
            with pytest.raises(InputError, match=f"method {name} "):
                check_task(name, METHODS[name], MEASURED["values"])
        else:
            check_task(name, METHODS[name], MEASURED["values"])


def test_terms_are_finite_scalars_and_their_sum_trains_every_parameter(method: Method) -> None:
    data = labelled(method.task)
    terms = method.train().loss(data, epoch=0)
    assert terms
    assert all(term.shape == () and term.isfinite() for term in terms.values())
    if method.at_once:
        return
    sum(terms.values()).backward()
    silent = [name for name, p in method.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


def test_logits_have_one_column_an_output(method: Method) -> None:
    data = labelled(method.task)
    assert method.eval()(data).shape == (data.num_graphs, method.task.outputs)


def test_a_prediction_needs_no_label_and_is_the_same_twice_and_alone(method: Method) -> None:
    data = labelled(method.task)
    del data.y
    method.eval()
    with torch.no_grad():
        together = method.predict(data)
        assert torch.equal(together.logits, method.predict(data).logits)
        for g, part in enumerate(graphs()):
            alone = method.predict(Batch.from_data_list([part]))
            torch.testing.assert_close(alone.logits[0], together.logits[g], atol=1e-4, rtol=1e-3)


def test_edge_scores_are_one_number_an_edge(method: Method) -> None:
    data = labelled(method.task)
    scores = method.eval().edge_scores(data)
    assert scores is None or scores.shape == (data.num_edges,)
    with torch.no_grad():
        predicted = method.predict(data).edge_scores
    assert (scores is None) == (predicted is None)


@torch.no_grad()
def test_outputs_are_a_prediction_that_may_lack_edge_scores(method: Method) -> None:
    data = labelled(method.task)
    whole, plain = method.eval().predict(data), method.outputs(data)
    assert torch.equal(plain.logits, whole.logits)
    assert (plain.embedding is None) == (whole.embedding is None)
    if plain.embedding is not None:
        assert torch.equal(plain.embedding, whole.embedding)
    assert {name: value.tolist() for name, value in plain.signals.items()} == {
        name: value.tolist() for name, value in whole.signals.items()
    }


def test_a_tiny_set_is_memorised(method: Method) -> None:
    if isinstance(method, Blend) and method.task.measured:
        pytest.skip("its members are tested alone")
    data = labelled(method.task, (8, 11, 9, 14, 7, 10))
    if method.at_once:
        if hasattr(method, "strength"):
            method.strength = 1e4  # hardly any penalty
        method.fit([data] * 5, seed=0)  # copies, because each tree leaves out a third of the rows
    optimiser = None if method.at_once else torch.optim.Adam(method.parameters(), lr=3e-3)
    for _ in range(150 if optimiser else 0):
        optimiser.zero_grad()
        sum(method.train().loss(data, 0).values()).backward()
        optimiser.step()
    method.train()  # BatchNorm's running averages lag behind on six graphs
    predicted = method(data)
    known = None if method.task.kind == "multiclass" else ~data.y.isnan()
    if method.task.measured:
        assert mean_loss(method.task, predicted, data.y) < 0.5  # 1 is predicting the mean
    elif known is None:
        assert (predicted.argmax(1) == data.y).float().mean() >= 0.8
    else:
        assert ((predicted > 0) == (data.y > 0.5))[known].float().mean() >= 0.8


def test_a_saved_state_goes_on_as_if_never_saved(method: Method) -> None:
    data, resumed = labelled(method.task), deepcopy(method).train()
    for _ in range(3):
        method.train().loss(data, 0)
    resumed.load_state_dict(method.state_dict())
    terms = []
    for one in (method, resumed):
        torch.manual_seed(7)
        terms.append([one.loss(data, 0) for _ in range(2)][-1])
    assert terms[0].keys() == terms[1].keys()
    assert all(torch.equal(terms[0][term], terms[1][term]) for term in terms[0])


def test_missing_labels_count_nothing() -> None:
    task, logits = TASKS["targets"], torch.randn(5, 4)
    y = torch.randint(2, (5, 4)).float()
    y[0], y[3, 1:] = float("nan"), float("nan")
    known = ~y.isnan()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits[known], y[known])
    torch.testing.assert_close(losses(task, logits, y).mean(), expected)
    assert losses(task, logits, y)[0] == 0
    assert losses(task, logits, torch.full_like(y, float("nan"))).sum() == 0


def test_the_loss_of_measured_values_is_the_squared_error_in_standard_deviations() -> None:
    task, z = MEASURED["values"], torch.randn(5, 2)
    y = torch.randn(5, 2) * 3
    y[1, 0] = float("nan")
    known = ~y.isnan()
    standard = (y - torch.tensor([3.0, -1.0])) / torch.tensor([2.0, 0.5])
    expected = torch.nn.functional.mse_loss(z[known], standard[known])
    torch.testing.assert_close(losses(task, z, y).mean(), expected)
    torch.testing.assert_close(link(task, standard)[known], y[known])


def test_the_mean_of_the_losses_is_torch_cross_entropy() -> None:
    logits, y = torch.randn(6, 3), torch.randint(3, (6,))
    torch.testing.assert_close(
        losses(TASKS["multiclass"], logits, y).mean(), torch.nn.functional.cross_entropy(logits, y)
    )


@pytest.fixture(
    params=[name for name in METHODS if name != "blend" and "environments" in MODELS.settings(default_model(name))]
)
def reader(request: pytest.FixtureRequest) -> Method:
    """A method on a model that reads environments."""
    torch.manual_seed(0)
    model = MODELS.build(default_model(request.param), SPEC, dim=16, environments=2, environment_table=64)
    return METHODS.build(request.param, model, TASKS["multiclass"])


def test_environments_are_trained_by_every_method(reader: Method) -> None:
    data = labelled(reader.task)
    terms = reader.train().loss(data, epoch=1)  # after the warm-up of methods that infer environments
    assert all(term.isfinite() for term in terms.values())
    sum(terms.values()).backward()
    fused = [name for name, _ in reader.named_parameters() if ".fusion." in name]
    assert {name.split(".fusion.")[0] for name in fused} == {"model"}  # further networks of a method have none
    trained = dict(reader.named_parameters())
    assert all(trained[name].grad is not None and trained[name].grad.abs().sum() > 0 for name in fused)


def test_environments_enter_the_prediction_but_not_the_edge_scores(reader: Method) -> None:
    data = labelled(reader.task)
    reader.train().loss(data, epoch=1)
    other = data.clone()
    other.environments_2 = data.environments_2.roll(1, 0)
    with torch.no_grad():
        first, second = (reader.eval().predict(one) for one in (data, other))
        assert not torch.allclose(first.logits, second.logits, atol=1e-4)
        if first.edge_scores is not None and second.edge_scores is not None:
            assert torch.equal(first.edge_scores, second.edge_scores)
        for g, part in enumerate(graphs()):
            alone = reader.predict(Batch.from_data_list([part]))
            torch.testing.assert_close(alone.logits[0], first.logits[g], atol=1e-4, rtol=1e-3)
