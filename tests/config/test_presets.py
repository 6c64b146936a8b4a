"""From names to configurations."""

from __future__ import annotations

import pytest

from goodformer.config.presets import budgets, configure, default_model, presets, root_preset
from goodformer.data.benchmarks.motif import good_sizes
from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.methods.erm import ERM
from goodformer.models import MODELS

BASIS = {"name": "good-motif", "domain": "basis"}


@pytest.mark.parametrize("dataset", [BASIS, {"name": "good-motif", "domain": "size"}, {"name": "sp-motif"}])
@pytest.mark.parametrize("method", list(METHODS))
def test_every_preset_of_every_method_is_valid_on_every_benchmark(method: str, dataset: dict) -> None:
    assert "default" in presets(method)
    assert default_model(method) in list(MODELS)
    for preset in presets(method):
        for budget in budgets():
            config = configure(dataset, method, preset=preset, budget=budget)
            assert (config.preset, config.budget) == (preset, budget)


def test_the_paper_values_of_each_benchmark() -> None:
    basis = configure(BASIS, preset="paper")
    size = configure({"name": "good-motif", "domain": "size"}, preset="paper")
    assert (basis.method["variance_weight"], size.method["variance_weight"]) == (10.0, 1.0)
    assert (basis.training.epochs, size.training.epochs) == (50, 100)
    layers = ("trunk_layers", "encoder_layers", "predictor_layers", "dim")
    assert [basis.model[name] for name in layers] == [2, 3, 1, 128]


def test_a_budget_never_lengthens_a_run() -> None:
    epochs = {
        (preset, budget): configure(BASIS, preset=preset, budget=budget).training.epochs
        for preset in ("default", "paper")
        for budget in ("full", "medium", "short", "compare")
    }
    assert list(epochs.values()) == [5, 5, 5, 4, 50, 15, 5, 4]
    assert configure(BASIS, budget="medium").id == configure(BASIS).id


def test_every_ablation_has_a_root() -> None:
    assert root_preset("goodformer", "signnet-input") == root_preset("goodformer", "paper") == "paper"
    assert {root_preset("goodformer", name) for name in presets("goodformer")} == {"default", "paper", "as_published"}


def test_the_three_presets_differ() -> None:
    ids = {configure(BASIS, preset=preset).id for preset in ("default", "paper", "as_published")}
    assert len(ids) == 3


def test_an_ablation_changes_one_thing_of_the_paper_preset() -> None:
    paper, ablated = configure(BASIS, preset="paper"), configure(BASIS, preset="without-entropy")
    assert (paper.method["entropy_weight"], ablated.method["entropy_weight"]) == (0.1, 0.0)
    assert ablated.method["variance_weight"] == paper.method["variance_weight"] == 10.0
    for preset, base, changed in (
        ("without-entropy", "paper", {"model.temperature", "method.entropy_weight"}),
        ("without-entropy-loss", "paper", {"method.entropy_weight"}),
        ("without-temperature", "paper", {"model.temperature"}),
        ("gil-generator", "without-entropy", {"model.scoring", "model.mask"}),
        ("without-encoder", "paper", {"model.encoder_layers"}),
        ("laplacian-input", "without-encoder", {"model.inputs"}),
        ("signnet-input", "without-encoder", {"model.inputs"}),
        ("mlp-predictor", "paper", {"model.predictor"}),
    ):
        one, other = configure(BASIS, preset=base), configure(BASIS, preset=preset)
        differs = {f"model.{key}" for key in one.model if one.model[key] != other.model[key]}
        differs |= {f"method.{key}" for key in one.method if one.method[key] != other.method[key]}
        assert differs == changed
        assert one.training == other.training


def test_the_published_second_layer_joins_the_readout_of_synthetic_data_only() -> None:
    for dataset, joins in ((BASIS, True), ({"name": "sp-motif"}, True), ({"name": "good-hiv"}, False)):
        assert configure(dataset, preset="as_published").model["second_readout"] is joins


def test_what_the_user_gives_wins_over_budget_and_preset() -> None:
    assert configure(BASIS, budget="quick").dataset["graphs"] == 10000
    assert configure({**BASIS, "graphs": 500}, budget="quick").dataset["graphs"] == 500
    config = configure(BASIS, budget="quick", overrides=["training.epochs=3", "model.dim=64"])
    assert (config.training.epochs, config.model["dim"]) == (3, 64)


def test_labels_do_not_enter_the_hash_but_seeds_do() -> None:
    full = configure({**BASIS, "graphs": 10000}, overrides=["training.epochs=5"])
    quick = configure(BASIS, budget="quick")
    assert full.id == quick.id
    assert configure(BASIS, seed=1).id != configure(BASIS).id


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "goodfromer"}, "did you mean goodformer"),
        ({"preset": "papr"}, "did you mean paper"),
        ({"budget": "qick"}, "did you mean quick"),
        ({"model": "gin2"}, "did you mean gin"),
        ({"overrides": ["model.dims=3"]}, "did you mean dim"),
        ({"overrides": ["budget=mine"]}, "unknown budget"),
        ({"overrides": ["preset=papr"]}, "did you mean paper"),
        ({"overrides": ["method=em"]}, "did you mean erm"),
        ({"overrides": ["dataset.domian=size"]}, "did you mean domain"),
        ({"overrides": ["model=3"]}, "has no name"),
    ],
)
def test_unknown_names_get_suggestions(settings: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        configure(BASIS, **settings)


def test_a_budget_counts_training_graphs_alike_on_every_benchmark() -> None:
    for budget, graphs, epochs in (("quick", 6000, 5), ("compare", 2000, 4), ("quickstart", 12000, 200)):
        motif, spurious = (configure({"name": name}, "erm", budget=budget) for name in ("good-motif", "sp-motif"))
        assert good_sizes("covariate", motif.dataset["graphs"])["train"] == spurious.dataset["graphs"] == graphs
        assert motif.training.epochs == spurious.training.epochs == epochs


def test_the_short_budget_cuts_epochs_only_and_leaves_the_default_as_it_is() -> None:
    assert configure(BASIS, budget="short").id == configure(BASIS).id
    paper, whole = (configure(BASIS, preset="paper", budget=budget) for budget in ("short", "full"))
    assert (paper.training.epochs, whole.training.epochs) == (5, 50)
    assert paper.dataset == whole.dataset


def test_a_domain_left_out_is_the_usual_one() -> None:
    assert configure({"name": "good-motif"}, "vrex").id == configure(BASIS, "vrex").id


SIZE = {"name": "good-motif", "domain": "size"}


@pytest.mark.parametrize(
    ("start", "lines", "same"),
    [
        ({"preset": "paper"}, ["dataset.domain=size"], {"preset": "paper", "dataset": SIZE}),
        ({"preset": "paper"}, ["dataset=sp-motif"], {"preset": "paper", "dataset": {"name": "sp-motif"}}),
        ({}, ["dataset.name=sp-motif", "dataset.bias=0.5"], {"dataset": {"name": "sp-motif", "bias": 0.5}}),
        ({"budget": "quick"}, ["dataset.graphs=500"], {"budget": "quick", "dataset": {**BASIS, "graphs": 500}}),
        ({"method": "erm"}, ["model=gps"], {"method": "erm", "model": "gps"}),
        ({"method": "erm"}, ["model.name=gps", "training.epochs=3"],
         {"method": "erm", "model": "gps", "overrides": ["training.epochs=3"]}),
        ({}, ["method=gsat"], {"method": "gsat"}),
        ({}, ["method.name=erm", "model=goodformer"], {"method": "erm", "model": "goodformer"}),
        ({}, ["preset=paper"], {"preset": "paper"}),
        ({}, ["budget=quick"], {"budget": "quick"}),
    ],
)  # fmt: skip
def test_an_override_of_a_name_brings_the_settings_of_that_name(start: dict, lines: list[str], same: dict) -> None:
    """Whether a name is given as an argument or as an override, the same layers follow from it."""
    assert configure(BASIS, **start, overrides=lines) == configure(**{"dataset": BASIS, **same})


def test_another_name_leaves_the_settings_of_the_old_one_behind() -> None:
    config = configure(BASIS, "erm", overrides=["model.layers=7", "model=gps", "model.dim=32"])
    assert (config.model["name"], config.model["dim"]) == ("gps", 32)
    assert config.model["layers"] == configure(BASIS, "erm", "gps").model["layers"] != 7
    same = configure(BASIS, "erm", overrides=["model.layers=7", "model=gin"])
    assert same.model["layers"] == 7


@pytest.mark.parametrize("model", ["gps", "graphormer", "exphormer"])
def test_graph_transformers_have_the_papers_epochs(model: str) -> None:
    epochs = [configure(dataset, "erm", model).training.epochs for dataset in (BASIS, SIZE, {"name": "sp-motif"})]
    assert epochs == [50, 100, 100]
    assert configure(BASIS, "erm", model).training.learning_rate == 0.0002
    assert configure(BASIS, "erm", "gin").training.epochs == 200
    assert configure(BASIS, "erm", model, budget="quick").training.epochs == 5


GNN_ROWS = ("erm", "irm", "vrex", "dir", "gil", "gsat", "ciga")
"""Methods whose settings on GNNs are the GOOD benchmark's."""


@pytest.mark.parametrize("method", GNN_ROWS)
def test_gnns_are_trained_as_in_the_good_benchmark(method: str) -> None:
    training = configure(BASIS, method).training
    assert (training.epochs, training.milestones, training.drop_last) == (200, [150], True)
    assert configure(BASIS, method, budget="compare").training.milestones == []
    spurious = configure({"name": "sp-motif"}, method).training
    assert (spurious.milestones, spurious.drop_last) == ([150], False)
    own = configure({"name": "table", "path": "some.csv", "smiles": "smiles", "target": "y"}, method).training
    assert not own.drop_last  # a user's few rows need not fill a batch


def test_published_settings_that_differ_between_benchmarks() -> None:
    hiv, twitter, assay = {"name": "good-hiv"}, {"name": "good-twitter"}, {"name": "drugood"}
    assert [configure({**hiv, "domain": name}, "erm").training.epochs for name in ("scaffold", "size")] == [300, 200]
    for method in ("erm", "irm", "vrex", "gsat", "dir"):
        for dataset in (twitter, assay):
            training = configure(dataset, method, "gin-vn").training
            assert (training.learning_rate, training.weight_decay) == (1e-4, 1e-4)
    ciga = configure(assay, "ciga")
    assert (ciga.model["dim"], ciga.model["layers"], ciga.method["generator"]) == (128, 4, "network")
    assert configure(twitter, "ciga").training.weight_decay == 1e-4
    imold = configure({**assay, "domain": "size"}, "imold")
    assert [imold.model[name] for name in ("dim", "layers", "dropout_rate")] == [128, 4, 0.1]
    assert imold.method["head"] == "mlp"
    assert configure(hiv, "imold").method["head"] == "linear"
    for method in ("dir", "ciga"):
        assert configure(hiv, method).method["generator"] == "layers"
        assert configure(hiv, method, "gps").method["generator"] == "network"


def test_the_warm_up_is_a_share_of_training() -> None:
    shares = [configure(BASIS, "erm", model).training.warmup for model in ("gin", "gps", "graphormer", "exphormer")]
    assert shares == [0, 0, 0.16, 0.05]


def test_a_method_needs_no_file_of_settings(request: pytest.FixtureRequest) -> None:
    """One file and one line are enough for a new method, as CONTRIBUTING says."""
    METHODS.add("mine", type("Mine", (ERM,), {}))
    request.addfinalizer(lambda: METHODS.remove("mine"))
    assert presets("mine") == ["default"]
    config = configure(BASIS, "mine", budget="quick", overrides=["training.batch_size=32"])
    assert (config.method["name"], config.model["name"], config.training.epochs) == ("mine", "gin", 5)
    assert configure(BASIS, "mine", "gps").model["name"] == "gps"
    with pytest.raises(InputError, match="unknown preset"):
        configure(BASIS, "mine", preset="paper")


def test_one_input_need_not_be_a_list() -> None:
    one = configure(BASIS, overrides=["model.inputs=laplacian:4"])
    assert list(one.model["inputs"]) == ["laplacian:4"]
    assert one.id == configure(BASIS, overrides=["model.inputs=[laplacian:4]"]).id
