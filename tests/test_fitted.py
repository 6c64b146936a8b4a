from __future__ import annotations

import csv
import hashlib
import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from rdkit import Chem
from torch_geometric.data import Data

from goodformer import explain_graphs, files
from goodformer.data import Benchmark, GraphSet
from goodformer.data.molecule import FEATURES, featurise
from goodformer.data.readers.collection import collect
from goodformer.engine.evaluate import evaluate
from goodformer.engine.store import Run
from goodformer.engine.weights import ModelFile
from goodformer.errors import InputError
from goodformer.fitted import FittedModel, Predictions
from goodformer.methods.base import Method
from goodformer.models import MODELS
from goodformer.spec import Features, FeatureSpec, Task
from goodformer.uncertainty.domain import DEFAULT, DOMAIN_SCORES
from goodformer.uncertainty.observe import observe
from tests.apply.molecules import FITTED, untrained
from tests.engine.tiny import Plain


@pytest.fixture
def saved(finished: Run, tmp_path: Path) -> Path:
    """A copy of saved weights that a test may damage."""
    return Path(shutil.copytree(finished.folder / "best", tmp_path / "best"))


def test_a_saved_model_says_the_same(explained: Run, benchmark: Benchmark, tmp_path: Path) -> None:
    first = FittedModel.of_run(explained)
    second = FittedModel.load(first.save(tmp_path / "copy"))
    graphs = benchmark.splits["test"]
    assert torch.equal(first.predict(graphs).logits, second.predict(graphs).logits)
    assert second.file == first.file
    assert second.file.about["run"] == explained.config.id


def test_predictions_come_in_the_order_of_the_graphs(explained: Run, benchmark: Benchmark) -> None:
    model, graphs = FittedModel.of_run(explained), list(benchmark.splits["test"])
    whole = model.predict(graphs, batch_size=7)
    assert len(whole) == len(graphs)
    assert torch.allclose(whole.probabilities.sum(-1), torch.ones(len(graphs)), atol=1e-5)
    assert torch.equal(whole.classes, whole.logits.argmax(-1))
    assert whole.edge_scores is not None
    assert [len(scores) for scores in whole.edge_scores] == [graph.num_edges for graph in graphs]
    for position in (0, 5, len(graphs) - 1):
        alone = model.predict([graphs[position]])
        assert torch.allclose(alone.logits[0], whole.logits[position], atol=1e-4)
        assert alone.edge_scores is not None
        assert torch.allclose(alone.edge_scores[0], whole.edge_scores[position], atol=1e-4)


def test_edge_scores_follow_the_edges_of_the_graph(explained: Run, benchmark: Benchmark) -> None:
    model, graph = FittedModel.of_run(explained), benchmark.splits["test"][3]
    order = torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(0))
    shuffled = Data(x=graph.x, edge_index=graph.edge_index[:, order])
    straight, mixed = model.predict([graph]).edge_scores, model.predict([shuffled]).edge_scores
    assert straight is not None
    assert mixed is not None
    assert torch.allclose(straight[0][order], mixed[0], atol=1e-4)


def test_a_method_without_explanation_has_no_scores(finished: Run, benchmark: Benchmark) -> None:
    assert FittedModel.of_run(finished).predict(benchmark.splits["test"]).edge_scores is None


def test_evaluation_equals_the_runs_record(finished: Run, benchmark: Benchmark) -> None:
    model = FittedModel.of_run(finished)
    assert finished.summary is not None
    assert model.evaluate(benchmark.splits["val"])["accuracy"] == finished.summary["ood_val"]
    single = FittedModel.of_run(finished).method.float()
    assert evaluate(single, benchmark.splits["val"]) == model.evaluate(list(benchmark.splits["val"]))
    with pytest.raises(InputError, match="attach y"):
        model.evaluate([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))])


def test_unlabelled_graphs_without_features_or_edges_are_predicted(explained: Run) -> None:
    lonely = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=1)
    pair = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    found = FittedModel.of_run(explained).predict([lonely, pair])
    assert found.logits.isfinite().all()
    assert found.edge_scores is not None
    assert [len(scores) for scores in found.edge_scores] == [0, 2]


def test_loading_leaves_the_callers_randomness(finished: Run) -> None:
    before = torch.random.get_rng_state()
    FittedModel.of_run(finished, "last")
    assert torch.equal(before, torch.random.get_rng_state())


def test_bad_graphs_are_named_by_their_position(finished: Run, benchmark: Benchmark) -> None:
    model, good = FittedModel.of_run(finished), benchmark.splits["test"][0]
    spoilt = Data(x=good.x.clone(), edge_index=good.edge_index)
    spoilt.x[1] = float("nan")
    empty = Data(x=torch.empty(0, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
    plain = Data(x=good.x, edge_index=good.edge_index)
    with pytest.raises(InputError, match="graph 1 has NaN"):
        model.predict([plain, spoilt])
    with pytest.raises(InputError, match="graph 1 is empty"):
        model.predict([plain, empty])
    with pytest.raises(InputError, match="at least one"):
        model.predict([])
    with pytest.raises(InputError, match=r"shape \(\d+, 3\)"):
        model.predict([Data(x=torch.ones(good.num_nodes, 3), edge_index=good.edge_index)])


@pytest.mark.parametrize("kind", ["graph", "networkx", "none", "number"])
def test_a_single_graph_is_refused_with_the_advice_to_give_a_list(
    kind: str, finished: Run, benchmark: Benchmark, tmp_path: Path
) -> None:
    model, good = FittedModel.of_run(finished), benchmark.splits["test"][0]
    single: Any = {"graph": good, "networkx": nx.path_graph(3), "none": None, "number": 3}[kind]
    for apply in (model.predict, model.probabilities, model.edge_scores, model.evaluate, model.read):
        with pytest.raises(InputError, match=f"is .*{type(single).__name__.removesuffix('Type')}; pass a list"):
            apply(single)
    with pytest.raises(InputError, match="pass a list"):
        explain_graphs(model, single, tmp_path / "pictures")
    with pytest.raises(InputError, match="no graph was passed"):
        model.predict([None])  # type: ignore[list-item]


def test_bad_sets_are_refused_too(finished: Run, benchmark: Benchmark) -> None:
    model, graphs = FittedModel.of_run(finished), benchmark.splits["test"]
    x = graphs.node["x"].clone()
    x[int(graphs.node_ptr[4])] = float("inf")
    with pytest.raises(InputError, match=r"graph 4 .*NaN or infinity"):
        model.predict(graphs.with_node("x", x))
    nothing, bounds = torch.empty(2, 0, dtype=torch.long), torch.zeros(2, dtype=torch.long)
    hollow = GraphSet({}, {"index": nothing}, {}, bounds, bounds)
    with pytest.raises(InputError, match="graph 0 is empty"):
        model.predict(hollow)


def test_codes_are_wanted_where_the_model_knows_codes() -> None:
    spec = FeatureSpec(node=Features.categorical(5, 3), edge=Features.continuous(2))
    file = ModelFile(
        model={"name": "gin", "dim": 8}, method={"name": "erm"}, features=spec, task=Task("binary", 2, "rocauc")
    )
    model = FittedModel(file.build(), file)
    edges = torch.tensor([[0, 1], [1, 0]])
    good = Data(x=torch.zeros(2, 2, dtype=torch.long), edge_index=edges, edge_attr=torch.ones(2, 2))
    found = model.predict([good])
    assert found.classes.shape == found.probabilities.shape == (1, 2)
    assert torch.equal(found.classes, (found.probabilities > 0.5).long())
    unseen = Data(x=torch.tensor([[4, 99], [4, 2]]), edge_index=edges, edge_attr=torch.ones(2, 2))
    last = Data(x=torch.tensor([[4, 2], [4, 2]]), edge_index=edges, edge_attr=torch.ones(2, 2))
    assert torch.equal(model.predict([unseen]).logits, model.predict([last]).logits)
    with pytest.raises(InputError, match="give integers"):
        model.predict([Data(x=torch.zeros(2, 2), edge_index=edges, edge_attr=torch.ones(2, 2))])
    with pytest.raises(InputError, match="graph 0 has no edge_attr"):
        model.predict([Data(x=torch.zeros(2, 2, dtype=torch.long), edge_index=edges)])


def change(folder: Path, **fields: Any) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps(files.sealed(files.unsealed(files.read_json(path), path) | fields)))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "model.json").unlink(), "no saved model"),
        (lambda folder: (folder / "model.json").write_text("{"), "damaged or not JSON"),
        (lambda folder: (folder / "model.json").write_text("[]"), "was not written by goodformer"),
        (lambda folder: change(folder, format="else"), "was not written by goodformer"),
        (lambda folder: change(folder, version=99), "reads version 1"),
        (lambda folder: change(folder, task={"kind": "regression"}), "is damaged"),
        (lambda folder: change(folder, weights=None), "truncated or belongs to another model"),
        (lambda folder: change(folder, model={"name": "gim"}), "did you mean gin"),
        (lambda folder: change(folder, model={"name": "gin", "dim": 32}), "do not match .*model.json"),
        (lambda folder: (folder / "weights.safetensors").unlink(), "No such file"),
        (lambda folder: (folder / "weights.safetensors").write_bytes(b"x"), "truncated"),
    ],
)
def test_damaged_and_foreign_files_get_one_sentence(saved: Path, damage: Any, words: str) -> None:
    damage(saved)
    with pytest.raises(InputError, match=words) as caught:
        FittedModel.load(saved)
    assert "\n" not in str(caught.value)


def test_a_truncated_file_is_noticed(saved: Path) -> None:
    path = saved / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(InputError, match="truncated"):
        FittedModel.load(saved)
    with pytest.raises(InputError, match="no saved model"):
        FittedModel.load(saved / "nowhere")


def test_loading_never_executes_code(saved: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (saved / "exploded",))

    content = pickle.dumps(Bomb())
    (saved / "weights.safetensors").write_bytes(content)
    change(saved, weights={"file": "weights.safetensors", "sha256": hashlib.sha256(content).hexdigest()})
    with pytest.raises(InputError, match="not a safetensors file"):
        FittedModel.load(saved)
    assert not (saved / "exploded").exists()


# ---------------------------------------------------------------- parts of a prediction


def test_probabilities_and_edge_scores_alone_are_those_of_predict(
    finished: Run, explained: Run, benchmark: Benchmark
) -> None:
    graphs = benchmark.splits["test"]
    for run, scored in ((finished, False), (explained, True)):
        model = FittedModel.of_run(run)
        whole, alone = model.predict(graphs), model.edge_scores(graphs)
        assert torch.equal(model.probabilities(graphs), whole.probabilities)
        assert (alone is not None) == (whole.edge_scores is not None) == scored
        for one, other in zip(alone or (), whole.edge_scores or (), strict=True):
            assert torch.equal(one, other)


def test_predictions_are_cut_and_joined(explained: Run, benchmark: Benchmark) -> None:
    whole = certain(explained, benchmark).predict(benchmark.splits["test"])
    again = Predictions.concat([whole.subset([4]), whole.subset([0, 2])])
    assert len(again) == 3
    for name in ("logits", "probabilities", "classes", "domain_score", "outside"):
        assert torch.equal(getattr(again, name), getattr(whole, name)[[4, 0, 2]])
    assert again.edge_scores is not None
    assert whole.edge_scores is not None
    assert [id(one) for one in again.edge_scores] == [id(whole.edge_scores[place]) for place in (4, 0, 2)]
    assert replace(whole, edge_scores=None).subset([1]).edge_scores is None


# ---------------------------------------------------------------- what answers mean


def named(task: Task, features: FeatureSpec | None = None, **meaning: Any) -> FittedModel:
    """A model with random weights."""
    file = ModelFile(
        model={"name": "gin", "dim": 8}, method={"name": "erm"}, features=features or FeatureSpec(), task=task
    )
    return FittedModel(file.build(), file, **meaning)


def test_classes_without_names_are_numbers() -> None:
    assert named(Task("multiclass", 3)).classes == {"label": ("0", "1", "2")}
    assert named(Task("binary", 1, "rocauc")).classes == {"label": ("0", "1")}
    several = named(Task("binary", 2, "rocauc"))
    assert several.classes == {"label_0": ("0", "1"), "label_1": ("0", "1")}
    assert tuple(several.classes) == ("label_0", "label_1")
    assert (several.smiles, several.molecular) == (None, False)
    assert (named(Task(), FEATURES).smiles, named(Task(), FEATURES).molecular) == ("smiles", True)


@pytest.mark.parametrize(
    ("kind", "names", "values"),
    [("U", ("no", "yes"), ["no", "yes"]), ("i", ("-1", "7"), [-1, 7]), ("f", ("0.5", "2.0"), [0.5, 2.0]),
     ("b", ("False", "True"), [False, True])],
)  # fmt: skip
def test_classes_come_back_in_the_type_of_the_labels(kind: str, names: tuple[str, ...], values: list[Any]) -> None:
    (found,) = named(Task("binary", 1, "rocauc"), classes={"y": names}, label_kind=kind).class_values
    assert found.tolist() == values
    assert found.dtype.kind == kind


def test_a_folder_of_the_previous_version_predicts_the_same_numbers() -> None:
    """The folder and its answers were written before `FittedModel` existed."""
    model = FittedModel.open(FITTED)
    assert (model.smiles, model.classes) == ("smiles", {"nitro": ("no", "yes")})
    assert model.task == Task("binary", 1, "rocauc")
    assert model.features == FEATURES
    with (FITTED / "answers.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if not row["problem"]]
    answer = model.predict(collect([row["smiles"] for row in rows]).graphs)
    assert answer.outside is not None
    assert answer.domain_score is not None
    assert answer.outside.tolist() == [row["outside"] == "True" for row in rows]
    assert [round(one, 6) for one in answer.domain_score.tolist()] == [float(row["domain_score"]) for row in rows]
    for found, row in zip(answer.probabilities[:, 0].tolist(), rows, strict=True):
        assert found == pytest.approx(float(row["p_yes"]), abs=2e-6)


def test_saving_an_old_folder_again_keeps_its_content(tmp_path: Path) -> None:
    FittedModel.load(FITTED).save(tmp_path)
    for name in ("model.json", "sureness.json"):
        new, old = (files.unsealed(json.loads((folder / name).read_text()), name) for folder in (tmp_path, FITTED))
        assert new.pop("task").items() >= old.pop("task").items()
        assert new == old
    for name in ("weights.safetensors", "sureness.safetensors"):
        assert (tmp_path / name).read_bytes() == (FITTED / name).read_bytes()


def test_saving_that_fails_keeps_the_model_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The training rows of the new model must not replace those of the old one before its weights do."""
    model = FittedModel.load(FITTED)
    assert model.uncertainty is not None
    rows = collect(["CCO", "CCN", "c1ccccc1"])
    model.remember(rows, torch.tensor([0.0, 1.0, 0.0])).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("goodformer.fitted.save_weights", full)
    with pytest.raises(OSError, match="No space"):
        model.remember(rows.subset(torch.tensor([0])), torch.tensor([0.0, 1.0, 0.0])).save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert FittedModel.load(tmp_path).training is not None


def test_one_list_of_classes_for_all_targets_is_read(tmp_path: Path) -> None:
    """The format of the first fitted models."""
    old = Path(shutil.copytree(FITTED, tmp_path / "old"))
    about = json.loads((old / "model.json").read_text())["about"]
    about["meaning"] |= {"targets": ["nitro"], "classes": ["no", "yes"]}
    change(old, about=about)
    assert FittedModel.load(old).classes == {"nitro": ("no", "yes")}
    about["meaning"] = {"classes": 3}
    change(old, about=about)
    with pytest.raises(InputError, match=r"model\.json"):
        FittedModel.load(old)


def test_a_fitted_model_without_its_uncertainty_is_refused(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(FITTED, tmp_path / "copy"))
    (copy / "sureness.json").unlink()
    with pytest.raises(InputError, match=r"sureness\.json is missing"):
        FittedModel.load(copy)


def test_a_model_is_opened_by_folder_run_or_id(finished: Run, tmp_path: Path) -> None:
    for name in (finished.folder, finished.config.id):
        assert FittedModel.open(name, finished.folder.parent, "last").file.about["run"] == finished.config.id
    with pytest.raises(InputError, match="--weights"):
        FittedModel.open(FITTED, weights="last")
    with pytest.raises(InputError, match="neither"):
        FittedModel.open(tmp_path)
    with pytest.raises(InputError, match="best"):
        FittedModel.of_run(finished, "bset")


def test_a_missing_folder_suggests_the_fitted_models_nearby(
    finished: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("solubility", "bace"):
        shutil.copytree(FITTED, tmp_path / "models" / name)
    runs = finished.folder.parent
    with pytest.raises(InputError, match=r"nearby: \S*models/bace, \S*models/solubility\.$"):
        FittedModel.open(tmp_path / "models" / "BACE1", runs)
    with pytest.raises(InputError, match=r"nearby: \S*models/bace\.$"):
        FittedModel.open(tmp_path / "models" / "bace" / "card.md", runs)
    monkeypatch.chdir(tmp_path / "models")
    with pytest.raises(InputError, match="nearby: bace, solubility"):
        FittedModel.open("bcae", runs)
    with pytest.raises(InputError, match="nearest in"):
        Run.open("bcae", runs)
    assert FittedModel.open(finished.config.id, runs).file.about["run"] == finished.config.id


# ---------------------------------------------------------------- uncertainty


def certain(run: Run, benchmark: Benchmark, score: str = DEFAULT, alpha: float = 0.2) -> FittedModel:
    """A model that knows how sure it is."""
    model = FittedModel.of_run(run)
    splits = benchmark.splits
    return model.fit_uncertainty(splits["train"], splits["id_val"], score, alpha)


def test_without_uncertainty_nothing_is_claimed(finished: Run, benchmark: Benchmark) -> None:
    answer = FittedModel.of_run(finished).predict(benchmark.splits["test"])
    assert (answer.domain_score, answer.outside) == (None, None)
    assert torch.allclose(answer.probabilities, answer.logits.softmax(-1))


@pytest.mark.parametrize("score", [name for name, one in DOMAIN_SCORES.items() if one.signal != "member_spread"])
def test_a_graph_alone_is_as_sure_as_in_a_batch(explained: Run, benchmark: Benchmark, score: str) -> None:
    model, graphs = certain(explained, benchmark, score), benchmark.splits["test"]
    whole = model.predict(graphs, batch_size=7)
    assert whole.domain_score is not None
    assert whole.outside is not None
    assert model.uncertainty is not None
    for position in range(0, len(graphs), 3):
        alone = model.predict([graphs[position]])
        assert alone.domain_score is not None
        assert torch.allclose(alone.probabilities[0], whole.probabilities[position], atol=1e-6)
        assert float(alone.domain_score[0]) == float(whole.domain_score[position])


def test_calibrated_probabilities_divide_the_logits(finished: Run, benchmark: Benchmark) -> None:
    model = certain(finished, benchmark)
    assert model.uncertainty is not None
    answer = model.predict(benchmark.splits["test"])
    wanted = model.uncertainty.scaling(answer.logits).softmax(-1).float()
    assert torch.allclose(answer.probabilities, wanted, atol=1e-6)
    assert torch.equal(model.probabilities(benchmark.splits["test"]), answer.probabilities)
    assert torch.equal(answer.probabilities.argmax(-1), answer.classes)


def test_uncertainty_is_saved_with_the_folder_bit_for_bit(explained: Run, benchmark: Benchmark, tmp_path: Path) -> None:
    first = certain(explained, benchmark, "mahalanobis")
    second = FittedModel.load(first.save(tmp_path / "copy"))
    one, two = first.predict(benchmark.splits["test"]), second.predict(benchmark.splits["test"])
    for name in ("logits", "probabilities", "domain_score", "outside"):
        assert torch.equal(getattr(one, name), getattr(two, name))


def test_new_weights_take_old_uncertainty_away(finished: Run, benchmark: Benchmark, tmp_path: Path) -> None:
    folder = certain(finished, benchmark).save(tmp_path / "copy")
    assert (folder / "sureness.json").is_file()
    FittedModel.of_run(finished, "last").save(folder)
    assert not list(folder.glob("sureness*"))
    assert FittedModel.load(folder).uncertainty is None


def test_uncertainty_of_other_weights_is_refused(
    finished: Run, explained: Run, benchmark: Benchmark, tmp_path: Path
) -> None:
    mine, other = certain(finished, benchmark).save(tmp_path / "a"), FittedModel.of_run(explained).save(tmp_path / "b")
    for name in ("sureness.json", "sureness.safetensors"):
        shutil.copy(mine / name, other / name)
    with pytest.raises(InputError, match="belongs to other weights"):
        FittedModel.load(other)


@pytest.mark.parametrize("kind", ["finished", "explained"])
def test_embeddings_cost_no_second_pass(kind: str, benchmark: Benchmark, request: pytest.FixtureRequest) -> None:
    model = certain(request.getfixturevalue(kind), benchmark, "mahalanobis")
    passes: list[int] = []
    model.method.model.nodes.register_forward_hook(lambda *_: passes.append(1))
    model.predict(benchmark.splits["test"], batch_size=16)
    assert len(passes) == -(-len(benchmark.splits["test"]) // 16)


def test_a_method_that_keeps_its_embedding_is_asked_for_it(finished: Run, benchmark: Benchmark) -> None:
    model, graphs = FittedModel.of_run(finished), benchmark.splits["id_val"]
    given = observe(model.method, graphs).embedding
    model.method.predict = lambda batch: Method.predict(model.method, batch)  # type: ignore[method-assign]
    asked = observe(model.method, graphs).embedding
    assert given is not None
    assert asked is not None
    assert torch.equal(given, asked)
    assert observe(model.method, graphs, embeds=False).embedding is None


def test_a_subclass_with_logits_of_its_own_keeps_them(benchmark: Benchmark) -> None:
    method = Plain(MODELS.build("gin", benchmark.features, dim=8), benchmark.task).eval()
    batch = benchmark.splits["test"].batch([0, 1, 2])
    assert torch.equal(method.predict(batch).logits, method(batch))
    assert method.predict(batch).embedding is None


def test_goodformers_signals_are_those_of_its_attention(explained: Run, benchmark: Benchmark) -> None:
    model = FittedModel.of_run(explained)
    batch = model.prepare(benchmark.splits["id_val"]).batch(list(range(8)))
    with torch.no_grad():
        found = model.method.model.disentangle(batch, both=False)  # type: ignore[operator]
        signals = model.method.predict(batch).signals
    assert torch.equal(signals["log_temperature"], found.temperature[0].log().mean(-1))
    model.method.model.solver = "none"  # the same attention as it is before a temperature is solved
    with torch.no_grad():
        plain = model.method.model.disentangle(batch, both=False).entropy[0]  # type: ignore[operator]
    gap = plain - model.method.model.mean_entropy[0]  # type: ignore[index]
    assert torch.allclose(signals["entropy_gap"], gap.mean(-1), atol=1e-6)
    assert float(gap.abs().max()) > 0.01


def test_no_validation_graph_is_refused(finished: Run, benchmark: Benchmark) -> None:
    nothing = benchmark.splits["id_val"].subset([])
    with pytest.raises(InputError, match="ID validation"):
        FittedModel.of_run(finished).fit_uncertainty(benchmark.splits["train"], nothing)
    with pytest.raises(InputError, match="choose one of energy"):
        certain(finished, benchmark, "temperature")


@pytest.mark.parametrize("model", ["gin", "gps", "graphormer", "goodformer"])
def test_one_answer_per_molecule_in_any_notation_and_any_batch(model: str) -> None:
    drugs = ["CC(C)NC[C@H](O)COc1cccc2ccccc12", "C[C@H]1CC[C@@H](C)CC1", "C" * 60, "CC(=O)Nc1ccc(O)cc1", "C1CC2CCC1CC2"]
    written = [
        one for text in drugs for one in (text, *Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(text), 4, randomSeed=3))
    ]
    graphs, method = featurise(written).graphs, "goodformer" if model == "goodformer" else "erm"
    fitted = untrained(method, model)
    order = torch.randperm(len(written), generator=torch.Generator().manual_seed(0))
    shuffled = fitted.predict(graphs.subset(order), batch_size=3).probabilities[order.argsort()]
    whole = fitted.predict(graphs).probabilities
    assert float((shuffled - whole).abs().max()) < 1e-6
    each = whole.view(len(drugs), -1)
    assert float((each - each[:, :1]).abs().max()) < 1e-6
    assert float(each[:, 0].std()) > 1e-4
