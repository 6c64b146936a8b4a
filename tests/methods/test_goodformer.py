"""GOODFormer's objective against the equations written out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from torch_geometric.data import Batch

from goodformer.config.presets import configure
from goodformer.engine.weights import ModelFile, load_weights, save_weights
from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.methods.goodformer import (
    MEMORY,
    GOODFormerMethod,
    LabelInformation,
    intervene,
    intervention_variance,
)
from goodformer.models import MODELS
from goodformer.nn.gradient import scale_gradient
from goodformer.spec import Features, FeatureSpec, Task
from tests.nn.graphs import batch

SPEC = FeatureSpec(Features.continuous(4), Features.continuous(3))


def build(model: dict | None = None, **method: object) -> GOODFormerMethod:
    torch.manual_seed(0)
    settings = {"dim": 16, "dropout_rate": 0.0, **(model or {})}
    made = METHODS.build("goodformer", MODELS.build("goodformer", SPEC, **settings), Task(), **method)
    assert isinstance(made, GOODFormerMethod)
    return made


def test_interventions_equal_an_explicit_double_loop() -> None:
    y_c, y_s, y = torch.randn(5, 3), torch.randn(5, 3), torch.randint(3, (5,))
    pairs, labels = intervene(y_c, y_s, y)
    expected = torch.empty(5, 5)
    for i in range(5):
        for j in range(5):
            mixed = y_c[i] * torch.sigmoid(y_s[j])
            torch.testing.assert_close(pairs[i, j], mixed)
            assert labels[i, j] == y[i]
            expected[i, j] = F.cross_entropy(mixed[None], y[i : i + 1])
    risks = torch.stack([expected[:, j].mean() for j in range(5)])
    graphs = torch.stack([expected[i].var() for i in range(5)])
    torch.testing.assert_close(intervention_variance(expected, "risks"), risks.var())
    torch.testing.assert_close(intervention_variance(expected, "graphs"), graphs.mean())
    assert intervention_variance(torch.ones(1, 1), "risks") == 0


def from_preset(preset: str, changes: dict | None = None, **more: object) -> GOODFormerMethod:
    torch.manual_seed(0)
    config = configure({"name": "good-motif", "domain": "basis"}, preset=preset)
    model, method = ({k: v for k, v in part.items() if k != "name"} for part in (config.model, config.method))
    model |= {"dim": 16, "dropout_rate": 0.0, **(changes or {})}
    made = METHODS.build("goodformer", MODELS.build("goodformer", SPEC, **model), Task(), **{**method, **more})
    assert isinstance(made, GOODFormerMethod)
    return made.eval()


def pairs(y_c: torch.Tensor, y_s: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """l_ij of graph i under the variant half of graph j."""
    return torch.stack([F.cross_entropy(y_c * s.sigmoid(), y, reduction="none") for s in y_s], 1)


def recovery(recovered: torch.Tensor, data: Batch) -> torch.Tensor:
    """L_PSE: both halves' distances added, over the columns that are eigenvectors."""
    total, count = torch.zeros(()), 0
    for g in range(data.num_graphs):
        here, columns = data.batch == g, min(8, int((data.batch == g).sum()) - 1)
        goal = data.laplacian_8[here, :columns]
        total = total + sum((part[here, :columns] - goal).abs().sum() for part in recovered)
        count += goal.numel()
    return total / count


def test_the_paper_preset_minimises_the_papers_objective() -> None:
    method, data = from_preset("paper"), batch()
    terms, found = method.loss(data, epoch=7), method.model.disentangle(data)
    y_c, y_s = method.invariant_classifier(found.invariant), method.variant_classifier(found.variant)
    each = pairs(y_c, y_s, data.y)
    expected = {
        "intervention": each.mean(),
        "variance": 10 * each.mean(0).var(),
        "variant": F.cross_entropy(y_s, data.y),
        "entropy": 0.1 * found.entropy[0].mean(),
        "encoder": 0.01 * recovery(found.recovered, data),
    }
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value, msg=name)


def test_the_published_preset_minimises_what_the_code_does() -> None:
    method, data = from_preset("as_published"), batch()
    terms, found = method.loss(data, epoch=4), method.model.disentangle(data)
    y_c, y_s = method.invariant_classifier(found.invariant), method.variant_classifier(found.variant)
    each = pairs(y_c, y_s, data.y)
    expected = {
        "invariant": F.cross_entropy(y_c, data.y),
        "intervention": 0.1 * each.mean(),
        "variance": 10 * each.var(1).mean(),
        "variant": F.cross_entropy(y_s, data.y),
        "entropy": 0.1 / 5 * (found.entropy[::2].mean() + found.entropy[1::2].mean()),  # means over the two layers
        "encoder": 0.01 * recovery(found.recovered, data),
    }
    assert len(found.entropy) == 4
    assert terms.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value, msg=name)


def test_interventions_train_the_invariant_classifier_alone_of_the_two() -> None:
    method, data = from_preset("paper"), batch()
    terms = method.loss(data, 0)
    (terms["intervention"] + terms["variance"]).backward()
    assert method.variant_classifier.weight.grad is None
    assert method.invariant_classifier.weight.grad.abs().sum() > 0


def test_entropy_weight_can_fall_with_the_epochs() -> None:
    method, data = build(entropy_schedule="decay", entropy_weight=0.1, encoder_weight=0), batch()
    method.eval()
    first, later = method.loss(data, 0)["entropy"], method.loss(data, 4)["entropy"]
    torch.testing.assert_close(first, 5 * later)


def test_the_recovered_encoding_skips_columns_a_small_graph_does_not_have() -> None:
    method, data = build(encoder_weight=1.0), batch((3, 12))
    method.eval()
    before = method.loss(data, 0)["encoder"]
    data.laplacian_8[:3, 2:] += 100  # a graph of 3 nodes has 2 non-trivial eigenvectors
    torch.testing.assert_close(method.loss(data, 0)["encoder"], before)
    data.laplacian_8[:3, 1] += 100
    assert method.loss(data, 0)["encoder"] > before + 1


def test_no_gradient_flows_from_the_encoder_loss_to_the_disentangler() -> None:
    method, data = build(encoder_weight=1.0), batch()
    method.loss(data, 0)["encoder"].backward()
    trained = {name for name, p in method.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert trained
    assert all(".encoder." in name for name in trained)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_the_variant_gradient_reaches_scores_scaled_and_layers_whole(scale: float) -> None:
    gradients = []
    for given in (1.0, torch.tensor(scale)):
        method, data = build({"norm": "layer"}), batch()  # BatchNorm would couple the halves
        found = method.model.disentangle(data, variant_gradient=given)
        F.cross_entropy(method.variant_classifier(found.variant), data.y).backward()
        gradients.append({name: p.grad for name, p in method.named_parameters()})
    whole, scaled = gradients
    layer, scores = "model.embed.value.weight", "model.scores.qk.weight"
    torch.testing.assert_close(scaled[layer], whole[layer])
    torch.testing.assert_close(scaled[scores], scale * whole[scores])


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("preset", ["default", "paper", "as_published"])
def test_a_detached_variant_half_trains_its_classifier_alone(preset: str, norm: str) -> None:
    method, data = from_preset(preset, {"norm": norm}, variant_path="detached").train(), batch()
    method.loss(data, 0)["variant"].backward()
    trained = {name for name, p in method.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert trained == {"variant_classifier.weight", "variant_classifier.bias"}


@pytest.mark.parametrize("preset", ["paper", "as_published"])
def test_the_presets_of_the_paper_detach_the_variant_half(preset: str) -> None:
    assert from_preset(preset).variant_path == "detached"


def test_edge_scores_are_the_mask_or_the_logits() -> None:
    data = batch()
    for preset, masked in (("default", False), ("paper", True), ("as_published", True)):
        method = from_preset(preset)
        prediction, found = method.predict(data), method.model.disentangle(data)
        torch.testing.assert_close(prediction.edge_scores, found.mask if masked else found.edge_logits)
        torch.testing.assert_close(prediction.edge_logits, found.edge_logits)


def test_entropies_of_both_attentions_are_added_or_averaged() -> None:
    terms = [build(entropy_weight=1.0, entropy_of=of).eval().loss(batch(), 0)["entropy"] for of in ("both", "mean")]
    torch.testing.assert_close(terms[0], 2 * terms[1])


def test_a_gradient_scale_is_read_when_the_gradient_flows() -> None:
    x, scale = torch.ones(3, requires_grad=True), torch.tensor(1.0)
    y = scale_gradient(x, scale)
    scale *= -2
    y.sum().backward()
    assert x.grad.tolist() == [-2] * 3


def test_what_a_half_tells_is_its_gain_over_the_frequencies_of_the_labels() -> None:
    y = torch.tensor([0, 0, 0, 1])
    frequencies = torch.tensor([0.75, 0.25])
    told = LabelInformation(Task("multiclass", 2))
    told.update(50 * F.one_hot(y).float(), frequencies.log().expand(4, 2), y)
    entropy = -(frequencies * frequencies.log()).sum()
    torch.testing.assert_close(told.nats, torch.stack([entropy, torch.zeros(())]), atol=1e-6, rtol=1e-6)
    assert float(told.left) == pytest.approx(0, abs=1e-6)
    told.update(torch.zeros(4, 2), torch.zeros(4, 2), y)  # mean of two steps; no knowledge is worse than frequencies
    torch.testing.assert_close(told.nats[0], (entropy + entropy - F.cross_entropy(torch.zeros(4, 2), y)) / 2)


def test_a_target_without_any_label_in_a_batch_keeps_its_frequency() -> None:
    told = LabelInformation(Task("binary", 2))
    told.update(torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
    told.update(torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor([[1.0, float("nan")], [1.0, float("nan")]]))
    assert told.frequency.tolist() == [0.75, 1.0]
    assert told.nats.isfinite().all()


def test_what_the_halves_tell_is_forgotten_slowly_and_kept_with_the_weights() -> None:
    method, data = build(), batch()
    method.train().loss(data, 0)
    first = method.told.nats.clone()
    assert first.abs().sum() > 0
    method.eval().loss(data, 0)
    assert torch.equal(method.told.nats, first)
    assert {"told.nats", "told.frequency", "told.step"} <= method.state_dict().keys()
    method.told.step.fill_(10 * MEMORY)
    nothing = method.told.frequency.log().expand(len(data.y), 3)
    before = float(method.told.nats[0])
    method.told.update(nothing, nothing, data.y)
    assert float(method.told.nats[0]) == pytest.approx(before * (1 - 1 / MEMORY), abs=1e-5)


@pytest.mark.parametrize(("left", "share"), [(-0.1, 0.0), (0.04, 0.0), (0.1, 0.5), (0.16, 1.0), (0.7, 1.0)])
@pytest.mark.parametrize("nats", [0.02, 1.0])
def test_the_reversed_gradient_fades_as_the_variant_half_tells_less(left: float, share: float, nats: float) -> None:
    gradients = []
    for before in (1.0, left):
        method, data = build({"norm": "layer"}, variant_path="reversed", ramp_steps=0).eval(), batch()
        method.step += 1
        method.told.nats.copy_(torch.tensor([nats, before * nats]))
        method.loss(data, 0)["variant"].backward()
        gradients.append(method.model.scores.qk.weight.grad)
    torch.testing.assert_close(gradients[1], share * gradients[0], atol=1e-7, rtol=1e-3)


def test_a_reversed_gradient_grows_over_the_first_steps() -> None:
    method, data = build(variant_path="reversed", ramp_steps=4), batch()
    seen = [float(method._variant_gradient()) for _ in range(5)]
    assert seen == [-0.25, -0.5, -0.75, -1.0, -1.0]
    method.eval().loss(data, 0)
    assert int(method.step) == 5


def test_budgets_equal_their_formulas() -> None:
    data = batch()
    for budget in ("kl", "size"):
        method = build(budget=budget, budget_weight=2.0, budget_rate=0.3).eval()
        assert method.loss(data, 0)["budget"] == 0  # nothing is told yet
        method.told.nats.copy_(torch.tensor([0.8, 0.1]))
        m = method.model.disentangle(data).mask
        kl = (m * (m / 0.3).log() + (1 - m) * ((1 - m) / 0.7).log()).mean()
        torch.testing.assert_close(
            method.loss(data, 0)["budget"], 2 * 0.8 * (kl if budget == "kl" else -(1 - m).log().mean())
        )


def test_training_remembers_the_entropy_and_evaluation_restores_it() -> None:
    method = build({"temperature": "exact"})
    small, large = batch((10, 12, 11), p=0.4), batch((40, 60), p=0.1)
    for _ in range(3):
        method.train().loss(small, 0)
    assert method.model.mean_entropy.isfinite().all()
    before = method.model.mean_entropy.clone()
    found = method.eval().model.disentangle(large)
    assert torch.equal(method.model.mean_entropy, before)
    torch.testing.assert_close(found.entropy, before[:, None].expand_as(found.entropy), atol=2e-3, rtol=0)
    assert (found.temperature < 1).all()  # larger graphs disperse, so attention must be sharpened


def test_the_ways_to_a_temperature() -> None:
    data, seen = batch((30, 25), p=0.2), {}
    for kind in ("none", "descent", "joint_descent", "exact"):
        method = build({"temperature": kind})
        method.train().loss(batch((6, 7), p=0.4), 0)
        seen[kind] = method.eval().model.disentangle(data).temperature
    assert (seen["none"] == 1).all()
    assert ((seen["descent"] - 1).abs() < 0.02).all()
    assert ((seen["joint_descent"] - 1).abs() < 0.02).all()
    assert torch.equal(*seen["joint_descent"])  # one for both attentions
    assert (seen["descent"] != 1).any()
    assert ((seen["exact"] - 1).abs() > 0.02).any()


def test_a_drawn_mask_is_the_same_both_ways_and_complementary() -> None:
    for sample in ("soft", "hard"):
        model = build({"sample": sample}).model.train()
        found = model.disentangle(batch((15,), p=0.4))
        again = model.disentangle(batch((15,), p=0.4))
        edge_index = batch((15,), p=0.4).edge_index
        table = {(int(u), int(v)): float(m) for u, v, m in zip(*edge_index, found.mask.detach(), strict=True)}
        assert all(table[u, v] == table[v, u] for u, v in table)
        assert not torch.equal(found.mask, again.mask)
        if sample == "hard":
            assert set(found.mask.unique().tolist()) <= {0.0, 1.0}
        found = model.eval().disentangle(batch())
        assert torch.equal(found.mask, found.edge_logits.sigmoid())


def test_presets_of_structure_all_run() -> None:
    data = batch()
    for settings in (
        {"predictor": "disentangler", "mask": "heads", "norm": "batch", "combine": "concat"},
        {"predictor": "mlp"},
        {"values": "inputs", "sample": "hard"},
        {"node_weights": False, "bounded": True, "encoder_layers": 0},
        {"scoring": "inner", "mask": "top", "inputs": ("signnet:8",)},
        {"scoring": "generator", "mask": "top", "encoder_layers": 0},
        {"predictor": "mlp", "halves": "apart", "half": "concat", "encoder": "edges", "sample": "soft"},
    ):
        method = build(settings)
        sum(method.loss(data, 0).values()).backward()
        assert method.eval()(data).isfinite().all()


def test_gils_mask_keeps_its_share_of_pairs_and_passes_gradient() -> None:
    method, data = build({"scoring": "inner", "mask": "top", "kept_share": 0.5}), batch((20,), p=0.4)
    found = method.model.disentangle(data)
    assert set(found.mask.tolist()) == {0.0, 1.0}
    assert float(found.mask.detach().mean()) == pytest.approx(0.5, abs=0.05)
    found.invariant.sum().backward()
    assert method.model.trunk[0].ffn[0].weight.grad.abs().sum() > 0


def test_the_published_predictor_sees_both_halves_in_training_and_at_test() -> None:
    method, data = build({"predictor": "disentangler", "mask": "heads"}).eval(), batch()
    whole, asked = method.model.disentangle(data, both=True), method.model.disentangle(data, both=False)
    torch.testing.assert_close(whole.invariant, asked.invariant)


def test_entropy_is_remembered_under_any_method() -> None:
    erm = METHODS.build("erm", MODELS.build("goodformer", SPEC, dim=16), Task())
    erm.train().loss(batch(), 0)
    assert erm.model.mean_entropy[0].isfinite().all()
    assert (erm.eval().model.disentangle(batch((40,), p=0.1), both=False).temperature != 1).any()


def test_weights_saved_under_an_old_setting_name_still_load(tmp_path: Path) -> None:
    method = build(variant_path="flowing")
    model = {"name": "goodformer", "dim": 16, "dropout_rate": 0.0}
    old = {"name": "goodformer", "variant_gradient": 1.0}
    save_weights(tmp_path, ModelFile(model=model, method=old, features=SPEC, task=Task()), method.state_dict())
    loaded, file = load_weights(tmp_path)
    assert file.method == {"name": "goodformer", "variant_path": "flowing"}
    torch.testing.assert_close(loaded(batch()), method.eval()(batch()))


def test_another_model_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match="needs model goodformer"):
        METHODS.build("goodformer", MODELS.build("gin", SPEC, dim=8), Task())
    with pytest.raises(InputError, match="not a multiple of heads"):
        MODELS.build("goodformer", SPEC, dim=10)
