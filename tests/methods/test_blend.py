"""A blend against its members, computed one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from goodformer.config.members import blend_of
from goodformer.config.presets import configure, default_model, member_configs, member_name, presets
from goodformer.config.run import RunConfig
from goodformer.engine.combine import EQUAL, best_shift, combine, learn, mixture_weights
from goodformer.engine.evaluate import rocauc
from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.methods.base import edge_gradients, predicted_direction
from goodformer.methods.blend import Blend
from goodformer.models import MODELS
from tests.methods.test_contract import SPEC, TASKS, labelled

MOTIF = {"name": "good-motif"}


def blend(task: str, of: str = "goodformer", members: int = 3) -> Blend:
    parts = []
    for seed in range(members):
        torch.manual_seed(seed)
        parts.append(METHODS.build(of, MODELS.build(default_model(of), SPEC, dim=16), TASKS[task]).eval())
    made = Blend.join(TASKS[task], parts)
    made.weights.copy_(torch.tensor([0.5, 0.3, 0.2])[:members])
    made.temperatures.copy_(torch.tensor([1.0, 2.0, 0.5])[:members])
    return made.eval()


@pytest.mark.parametrize("task", TASKS)
@torch.no_grad()
def test_probabilities_are_the_weighted_mean_of_those_of_the_members(task: str) -> None:
    made, data = blend(task), labelled(TASKS[task])
    shares = []
    for part, t in zip(made.parts, (1.0, 2.0, 0.5), strict=True):
        z = (part(data).double() / t).numpy()
        p = np.exp(z) / np.exp(z).sum(-1, keepdims=True) if task == "multiclass" else 1 / (1 + np.exp(-z))
        shares.append(p)
    expected = np.average(shares, axis=0, weights=[0.5, 0.3, 0.2])
    logits = made(data).double()
    found = logits.softmax(-1) if task == "multiclass" else logits.sigmoid()
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    predicted = made.predict(data)
    assert torch.equal(predicted.logits, made(data))
    deviation = np.sqrt(np.average((np.array(shares) - expected) ** 2, axis=0, weights=[0.5, 0.3, 0.2]))
    said = deviation[np.arange(len(expected)), expected.argmax(1)] if task == "multiclass" else deviation.mean(1)
    np.testing.assert_allclose(predicted.signals["member_spread"].numpy(), said, atol=1e-6)


@pytest.mark.parametrize("task", TASKS)
@torch.no_grad()
def test_a_mean_of_log_odds_is_that_of_the_members(task: str) -> None:
    made, data = blend(task), labelled(TASKS[task])
    made.mean = "log_odds"
    made.shifts[1] = 0.0 if task == "multiclass" else 0.25
    logits = [part(data).double() / t for part, t in zip(made.parts, (1.0, 2.0, 0.5), strict=True)]
    if task == "multiclass":
        p = np.exp(np.average([one.log_softmax(-1).numpy() for one in logits], axis=0, weights=[0.5, 0.3, 0.2]))
        np.testing.assert_allclose(made(data).softmax(-1).numpy(), p / p.sum(-1, keepdims=True), atol=1e-6)
    else:
        expected = np.average([one.numpy() for one in logits], axis=0, weights=[0.5, 0.3, 0.2]) + 0.3 * 0.25
        np.testing.assert_allclose(made(data).numpy(), expected, atol=1e-6)


def test_a_mean_of_log_odds_has_equal_weights_and_ignores_a_member_that_knows_nothing() -> None:
    random = np.random.default_rng(0)
    y = torch.tensor(random.integers(0, 2, (400, 1)), dtype=torch.double)
    knows = 2 * y - 1 + torch.from_numpy(random.normal(size=(400, 1)))
    guesses = 3 * torch.from_numpy(random.normal(size=(400, 1)))
    found = learn(TASKS["binary"], ["a", "b"], torch.stack((knows, guesses)), y, True, "log_odds")
    assert found.weights.tolist() == [0.5, 0.5]
    assert float(found.temperatures[1]) > 10 * float(found.temperatures[0])
    mixed = found.mix(TASKS["binary"], torch.stack((knows, guesses)))
    assert rocauc(mixed.numpy(), y.numpy()) == pytest.approx(rocauc(knows.numpy(), y.numpy()), abs=0.01)


@torch.no_grad()
def test_certain_members_leave_finite_logits() -> None:
    made = blend("binary", "erm", 2)
    logits = [torch.tensor([[200.0], [-200.0], [200.0]]), torch.tensor([[300.0], [-300.0], [-300.0]])]
    made.weights.copy_(torch.tensor([0.75, 0.25]))
    made.temperatures.fill_(1)
    mixed = made.mix(logits)
    assert mixed.isfinite().all()
    assert mixed[:2, 0].tolist() == pytest.approx([200 - np.log(0.75), -200 + np.log(0.75)], rel=1e-4)
    assert float(mixed[2]) == pytest.approx(np.log(3))


@torch.no_grad()
def test_edge_scores_are_the_mean_of_standardised_scores() -> None:
    made, data = blend("multiclass"), labelled(TASKS["multiclass"])
    graph = data.batch[data.edge_index[0]]
    expected = np.zeros(data.num_edges)
    for part, weight in zip(made.parts, (0.5, 0.3, 0.2), strict=True):
        scores = part.edge_scores(data).double().numpy()
        for g in graph.unique().tolist():
            own = scores[graph == g]
            expected[graph == g] += weight * (own - own.mean()) / max(own.std(), 1e-6)
    np.testing.assert_allclose(made.edge_scores(data).numpy(), expected, atol=1e-4)
    np.testing.assert_allclose(made.predict(data).edge_scores.numpy(), expected, atol=1e-4)
    assert blend("multiclass", "erm").edge_scores(data) is None


@pytest.mark.parametrize("task", TASKS)
def test_members_without_scores_are_scored_by_their_gradients(task: str) -> None:
    torch.manual_seed(0)
    data, wide = labelled(TASKS[task]), labelled(TASKS[task])
    scored = METHODS.build("goodformer", MODELS.build("goodformer", SPEC, dim=16), TASKS[task]).eval()
    plain = METHODS.build("erm", MODELS.build("dmpnn", SPEC, dim=16), TASKS[task]).double().eval()
    wide.x, wide.edge_attr = data.x.double(), data.edge_attr.double()
    gradient = edge_gradients(plain, wide)
    ones, step = torch.ones(data.num_edges, dtype=torch.double), 1e-6
    with torch.no_grad():
        logits = plain(wide)
        toward = predicted_direction(TASKS[task], logits)
        for edge in range(0, data.num_edges, 7):
            more = ones.index_fill(0, torch.tensor([edge]), 1 + step)
            change = ((plain.weighted_logits(wide, more) - logits) * toward).sum() / step
            assert float(gradient[edge]) == pytest.approx(float(change), rel=1e-4, abs=1e-8)
        plain = plain.float()
        assert Blend.join(TASKS[task], [plain, plain]).edge_scores(data) is None
        both = Blend.join(TASKS[task], [scored, plain]).eval()
        alone = Blend.join(TASKS[task], [scored]).eval()
        graph = data.batch[data.edge_index[0]]
        for number in graph.unique():
            some = gradient[graph == number]
            expected = (some - some.mean()) / some.std(correction=0).clamp(min=1e-6)
            rest = (2 * both.edge_scores(data) - alone.edge_scores(data))[graph == number]
            torch.testing.assert_close(rest, expected.float(), atol=1e-3, rtol=1e-3)
        assert torch.equal(both.predict(data).edge_scores, both.edge_scores(data))
        plainly = both.outputs(data)
        assert plainly.edge_scores is None
        assert torch.equal(plainly.logits, both.predict(data).logits)
        assert torch.equal(plainly.embedding, both.predict(data).embedding)


@torch.no_grad()
def test_distances_between_embeddings_are_weighted_means() -> None:
    made, data = blend("binary"), labelled(TASKS["binary"])
    found = made.predict(data).embedding
    assert found.norm(dim=1).tolist() == pytest.approx([1.0] * len(found), abs=1e-5)
    units = [torch.nn.functional.normalize(part.predict(data).embedding, dim=1) for part in made.parts]
    expected = sum(w * (u[0] - u[1]).square().sum() for w, u in zip((0.5, 0.3, 0.2), units, strict=True))
    assert float((found[0] - found[1]).square().sum()) == pytest.approx(float(expected), abs=1e-5)


@torch.no_grad()
def test_post_hoc_explanations_see_all_members() -> None:
    made, data = blend("binary", "erm"), labelled(TASKS["binary"])
    weight = torch.rand(data.num_edges)
    expected = made.mix([part.weighted_logits(data, weight) for part in made.parts])
    assert torch.equal(made.weighted_logits(data, weight), expected)
    assert torch.equal(made.weighted_logits(data, torch.ones(data.num_edges)), made(data))


def test_the_first_model_is_saved_once() -> None:
    made = blend("binary", "erm", 2)
    assert not [name for name in made.state_dict() if name.startswith("model.")]
    assert made.model is made.parts[0].model


def test_weights_maximise_the_likelihood_and_stay_near_equal_with_few_labels() -> None:
    draw = np.random.default_rng(0)
    good, bad = draw.uniform(0.6, 0.9, 400), draw.uniform(0.3, 0.6, 400)
    for labels in (10, 400):
        p = torch.from_numpy(np.stack((good[:labels], bad[:labels])))
        weights = mixture_weights(p, torch.tensor([0.5, 0.5], dtype=torch.double))
        assert float(weights.sum()) == pytest.approx(1)
        grid = np.linspace(0.001, 0.999, 999)
        value = np.log(grid[:, None] * p[0].numpy() + (1 - grid[:, None]) * p[1].numpy()).sum(1)
        value += EQUAL / 2 * (np.log(grid) + np.log(1 - grid))
        assert float(weights[0]) == pytest.approx(grid[value.argmax()], abs=2e-3)
    assert float(weights[0]) > 0.8
    prior = torch.tensor([0.25, 0.25, 0.5], dtype=torch.double)
    same = mixture_weights(torch.full((3, 9), 0.7, dtype=torch.double), prior)
    assert same.tolist() == pytest.approx(prior.tolist(), abs=1e-6)


def test_a_shift_minimises_the_loss_of_its_target_with_a_belief_in_none() -> None:
    draw = np.random.default_rng(0)
    z, y = draw.normal(2, 1, (60, 2)), (draw.random((60, 2)) < 0.2).astype(float)
    y[5:, 1] = np.nan
    found = best_shift(torch.from_numpy(z), torch.from_numpy(y))
    for target in range(2):
        some = ~np.isnan(y[:, target])

        def objective(b: float, z: np.ndarray = z[some, target], y: np.ndarray = y[some, target]) -> float:
            return float((np.logaddexp(0, z + b) - y * (z + b)).sum() + b * b / 2)

        assert float(found[target]) == pytest.approx(minimize_scalar(objective).x, abs=1e-6)


@torch.no_grad()
def test_shifts_reach_the_probabilities_and_older_weights_have_none() -> None:
    made, data = blend("binary"), labelled(TASKS["binary"])
    older = {name: value for name, value in made.state_dict().items() if name != "shifts"}
    before = made(data)
    made.shifts.copy_(torch.tensor([[0.5], [-1.0], [2.0]]))
    z = torch.stack([part(data).double() for part in made.parts]) / made.temperatures[:, None, None]
    p = ((z + made.shifts[:, None]).sigmoid() * made.weights[:, None, None]).sum(0)
    torch.testing.assert_close(made(data).double().sigmoid(), p, atol=1e-6, rtol=0)
    made.load_state_dict(older)
    assert torch.equal(made(data), before)


def test_too_few_labels_leave_members_equal() -> None:
    from goodformer.data.graphs import GraphSet

    made = blend("multiclass", "erm", 2)
    made.weights.fill_(0.5)
    made.temperatures.fill_(1)
    combine(made, GraphSet.from_list(labelled(TASKS["multiclass"]).to_data_list()))
    assert made.weights.tolist() == [0.5, 0.5]
    assert made.temperatures.tolist() == [1, 1]


# ---------------------------------------------------------------- configurations


def test_a_blend_is_configured_like_the_method_of_its_members() -> None:
    config = configure(
        MOTIF,
        "blend",
        seed=2,
        overrides=["method.of=vrex", "method.members=3", "method.others=[]", "method.variance_weight=0.5"],
    )
    plain = configure(MOTIF, "vrex", overrides=["method.variance_weight=0.5"])
    assert config.method["settings"] == ["variance_weight=0.5"]
    assert (config.model, config.training) == (plain.model, plain.training)
    members = member_configs(config)
    assert [one.seed for one in members] == [200, 201, 202]
    assert [one.with_seed(0) for one in members] == [plain] * 3
    assert member_configs(plain) == []
    assert {"fast", *presets("goodformer")} <= set(presets("blend"))
    paper = configure(MOTIF, "blend", preset="paper")
    assert member_configs(paper)[0] == configure(MOTIF, preset="paper")


def test_a_blend_survives_its_file_and_has_one_id() -> None:
    config = configure(MOTIF, "blend", overrides=["method.members=2", "method.budget_weight=0.5", "model.dim=16"])
    assert RunConfig.from_dict(config.to_dict()) == config
    lines = ["variance_weight=1.0", "budget_weight=0.5"]  # one of them is the default
    again = RunConfig(**{**config.to_dict(), "method": {**config.method, "settings": lines}})
    assert again.id == config.id
    assert blend_of(member_configs(config)[0], members=2).id == config.id
    linear, _, tuned, pairs = member_configs(config)[2:]
    assert (linear.method["name"], linear.model["name"], linear.seed) == ("linear", "fingerprint", 2)
    assert [one.method["min_leaf"] for one in (tuned, pairs)] == [None, None]
    columns = [[one.model[name] for name in ("table", "pairs", "properties")] for one in (linear, tuned, pairs)]
    assert columns == [[2048, 0, 0], [2048, 2048, 38], [0, 2048, 0]]


def test_a_preset_may_name_the_members_of_a_blend() -> None:
    usual, measured = (
        configure({"name": "esol"}, "blend", preset=name).method["others"] for name in ("molecules", "measured")
    )
    assert measured == ["linear", "forest:groups", "erm on dmpnn", "gaussian-process"]
    assert usual == ["linear:shared", "linear:shared-pairs", "forest:shared", "forest:shared-pairs"]
    given = configure({"name": "esol"}, "blend", preset="measured", overrides=["method.others=[forest]"])
    assert given.method["others"] == ["forest"]


def test_members_have_the_preset_of_the_blend_if_there_is_one_of_that_name() -> None:
    def network(preset: str) -> RunConfig:
        others = "method.others=[erm on dmpnn]"
        return member_configs(configure({"name": "bace"}, "blend", preset=preset, overrides=[others]))[-1]

    molecules, measured = network("molecules"), network("measured")
    assert (molecules.preset, molecules.model["inputs"], molecules.model["pooling"]) == (
        "molecules",
        ["properties:38"],
        "mean",
    )
    assert (measured.preset, measured.model["inputs"], measured.model["pooling"]) == ("default", [], "sum")


def test_a_forest_on_a_network_is_refused_before_anything_is_trained() -> None:
    config = configure(MOTIF, "blend", overrides=["method.others=[forest on gin]"])
    with pytest.raises(InputError, match="forest has no other model than fingerprint"):
        member_configs(config)


def test_members_learn_as_long_as_the_blend_says() -> None:
    others = "method.others=[forest, erm  on dmpnn, erm:default]"
    config = configure(MOTIF, "blend", overrides=[others, "training.epochs=7", "training.patience=3"])
    assert config.method["others"] == ["forest", "erm on dmpnn", "erm:default"]
    forest, network, plain = member_configs(config)[1:]
    assert [one.training.epochs for one in (forest, network, plain)] == [1, 7, 7]
    assert (network.training.patience, network.training.learning_rate, network.training.warmup) == (3, 0.001, 0.04)
    assert [one.model["name"] for one in (network, plain)] == ["dmpnn", "gin"]
    named = [
        {"method": one.method["name"], "model": one.model["name"], "preset": one.preset} for one in (forest, network)
    ]
    assert [member_name(one) for one in named] == ["forest", "erm on dmpnn"]
    assert member_name({"method": "forest", "model": "fingerprint", "preset": "pairs"}) == "forest:pairs"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("method.others=[erm on nothing]", "nothing"),
        ("method.of=blend", "blend"),
        ("method.of=ermm", "erm"),
        ("method.wieght=1", "wieght"),
        ("method.members=0", "0"),
        ("method.others=[tree]", "tree"),
        ("method.others=[blend]", "blend"),
    ],
)
def test_what_no_member_can_be_is_refused(override: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        configure(MOTIF, "blend", overrides=[override])
