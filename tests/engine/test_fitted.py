from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from goodformer.data import Benchmark, GraphSet
from goodformer.engine.evaluate import evaluate
from goodformer.engine.store import Run
from goodformer.engine.weights import ModelFile
from goodformer.fitted import FittedModel
from goodformer.registry import InputError
from goodformer.spec import Features, FeatureSpec, Task
from goodformer.uncertainty.domain import DOMAIN_SCORES
from goodformer.uncertainty.uncertainty import DEFAULT, Sureness


@pytest.fixture
def saved(finished: Run, tmp_path: Path) -> Path:
    """A copy of saved weights that a test may damage."""
    return Path(shutil.copytree(finished.folder / "best", tmp_path / "best"))


def test_a_saved_predictor_says_the_same(explained: Run, benchmark: Benchmark, tmp_path: Path) -> None:
    first = FittedModel.of_run(explained)
    second = FittedModel.load(first.save(tmp_path / "copy"))
    graphs = benchmark.splits["test"]
    assert torch.equal(first.predict(graphs).logits, second.predict(graphs).logits)
    assert second.recipe == first.recipe
    assert second.about == first.about
    assert second.about["run"] == explained.config.id


def test_predictions_come_in_the_order_of_the_graphs(explained: Run, benchmark: Benchmark) -> None:
    predictor, graphs = FittedModel.of_run(explained), list(benchmark.splits["test"])
    whole = predictor.predict(graphs, batch_size=7)
    assert len(whole) == len(graphs)
    assert torch.allclose(whole.probabilities.sum(-1), torch.ones(len(graphs)), atol=1e-5)
    assert torch.equal(whole.classes, whole.logits.argmax(-1))
    assert whole.edge_scores is not None
    assert [len(scores) for scores in whole.edge_scores] == [graph.num_edges for graph in graphs]
    for position in (0, 5, len(graphs) - 1):
        alone = predictor.predict([graphs[position]])
        assert torch.allclose(alone.logits[0], whole.logits[position], atol=1e-4)
        assert alone.edge_scores is not None
        assert torch.allclose(alone.edge_scores[0], whole.edge_scores[position], atol=1e-4)


def test_edge_scores_follow_the_edges_of_the_graph(explained: Run, benchmark: Benchmark) -> None:
    predictor, graph = FittedModel.of_run(explained), benchmark.splits["test"][3]
    order = torch.randperm(graph.num_edges, generator=torch.Generator().manual_seed(0))
    shuffled = Data(x=graph.x, edge_index=graph.edge_index[:, order])
    straight, mixed = predictor.predict([graph]).edge_scores, predictor.predict([shuffled]).edge_scores
    assert straight is not None
    assert mixed is not None
    assert torch.allclose(straight[0][order], mixed[0], atol=1e-4)


def test_a_method_without_explanation_has_no_scores(finished: Run, benchmark: Benchmark) -> None:
    assert FittedModel.of_run(finished).predict(benchmark.splits["test"]).edge_scores is None


def test_evaluation_equals_the_runs_record(finished: Run, benchmark: Benchmark) -> None:
    predictor = FittedModel.of_run(finished)
    assert finished.summary is not None
    assert predictor.evaluate(benchmark.splits["val"])["accuracy"] == finished.summary["ood_val"]
    assert evaluate(predictor.method, benchmark.splits["val"]) == predictor.evaluate(list(benchmark.splits["val"]))
    with pytest.raises(InputError, match="no labels"):
        predictor.evaluate([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))])


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
    predictor, good = FittedModel.of_run(finished), benchmark.splits["test"][0]
    spoilt = Data(x=good.x.clone(), edge_index=good.edge_index)
    spoilt.x[1] = float("nan")
    empty = Data(x=torch.empty(0, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
    plain = Data(x=good.x, edge_index=good.edge_index)
    with pytest.raises(InputError, match="graph 1 has NaN"):
        predictor.predict([plain, spoilt])
    with pytest.raises(InputError, match="graph 1 is empty"):
        predictor.predict([plain, empty])
    with pytest.raises(InputError, match="at least one"):
        predictor.predict([])
    with pytest.raises(InputError, match=r"shape \(\d+, 3\)"):
        predictor.predict([Data(x=torch.ones(good.num_nodes, 3), edge_index=good.edge_index)])


def test_bad_sets_are_refused_too(finished: Run, benchmark: Benchmark) -> None:
    predictor, graphs = FittedModel.of_run(finished), benchmark.splits["test"]
    x = graphs.node["x"].clone()
    x[int(graphs.node_ptr[4])] = float("inf")
    with pytest.raises(InputError, match="graph 4 has NaN or infinity"):
        predictor.predict(graphs.with_node("x", x))
    nothing, bounds = torch.empty(2, 0, dtype=torch.long), torch.zeros(2, dtype=torch.long)
    hollow = GraphSet({}, {"index": nothing}, {}, bounds, bounds)
    with pytest.raises(InputError, match="graph 0 is empty"):
        predictor.predict(hollow)


def test_codes_are_wanted_where_the_model_knows_codes() -> None:
    spec = FeatureSpec(node=Features.categorical(5, 3), edge=Features.continuous(2))
    recipe = ModelFile(
        model={"name": "gin", "dim": 8}, method={"name": "erm"}, features=spec, task=Task("binary", 2, "rocauc")
    )
    predictor = FittedModel(recipe.build(), recipe)
    edges = torch.tensor([[0, 1], [1, 0]])
    good = Data(x=torch.zeros(2, 2, dtype=torch.long), edge_index=edges, edge_attr=torch.ones(2, 2))
    found = predictor.predict([good])
    assert found.classes.shape == found.probabilities.shape == (1, 2)
    assert torch.equal(found.classes, (found.probabilities > 0.5).long())
    unseen = Data(x=torch.tensor([[4, 99], [4, 2]]), edge_index=edges, edge_attr=torch.ones(2, 2))
    last = Data(x=torch.tensor([[4, 2], [4, 2]]), edge_index=edges, edge_attr=torch.ones(2, 2))
    assert torch.equal(predictor.predict([unseen]).logits, predictor.predict([last]).logits)
    with pytest.raises(InputError, match="give integers"):
        predictor.predict([Data(x=torch.zeros(2, 2), edge_index=edges, edge_attr=torch.ones(2, 2))])
    with pytest.raises(InputError, match="edge_attr of the graphs to predict is missing"):
        predictor.predict([Data(x=torch.zeros(2, 2, dtype=torch.long), edge_index=edges)])


def change(folder: Path, **fields: Any) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "model.json").unlink(), "holds no saved model"),
        (lambda folder: (folder / "model.json").write_text("{"), "damaged or not JSON"),
        (lambda folder: (folder / "model.json").write_text("[]"), "was not written by goodformer"),
        (lambda folder: change(folder, format="else"), "was not written by goodformer"),
        (lambda folder: change(folder, version=99), "reads version 1"),
        (lambda folder: change(folder, task={"kind": "regression"}), "is damaged"),
        (lambda folder: change(folder, weights=None), "truncated or belongs to another model"),
        (lambda folder: change(folder, model={"name": "gim"}), "did you mean gin"),
        (lambda folder: change(folder, model={"name": "gin", "dim": 32}), "do not fit"),
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
    with pytest.raises(InputError, match="holds no saved model"):
        FittedModel.load(saved / "nowhere")


def test_loading_never_executes_code(saved: Path) -> None:
    import hashlib

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (saved / "exploded",))

    content = pickle.dumps(Bomb())
    (saved / "weights.safetensors").write_bytes(content)
    change(saved, weights={"file": "weights.safetensors", "sha256": hashlib.sha256(content).hexdigest()})
    with pytest.raises(InputError, match="not a safetensors file"):
        FittedModel.load(saved)
    assert not (saved / "exploded").exists()


# ---------------------------------------------------------------- how sure


def sure(run: Run, benchmark: Benchmark, score: str = DEFAULT, alpha: float = 0.2) -> FittedModel:
    """A predictor that knows how sure it is."""
    predictor = FittedModel.of_run(run)
    splits = benchmark.splits
    predictor.sureness = Sureness.fit(predictor, splits["train"], splits["id_val"], score, alpha)
    return predictor


def test_without_sureness_nothing_is_claimed(finished: Run, benchmark: Benchmark) -> None:
    answer = FittedModel.of_run(finished).predict(benchmark.splits["test"])
    assert (answer.calibrated, answer.domain_score, answer.outside) == (None, None, None)


@pytest.mark.parametrize("score", list(DOMAIN_SCORES))
def test_a_graph_alone_is_as_sure_as_in_a_batch(explained: Run, benchmark: Benchmark, score: str) -> None:
    predictor, graphs = sure(explained, benchmark, score), benchmark.splits["test"]
    whole = predictor.predict(graphs, batch_size=7)
    assert whole.calibrated is not None
    assert whole.domain_score is not None
    assert whole.outside is not None
    assert predictor.sureness is not None
    step = 1.01 / len(predictor.sureness.reference)  # rounding may move a graph past one of its like
    for position in range(0, len(graphs), 3):
        alone = predictor.predict([graphs[position]])
        assert alone.calibrated is not None
        assert alone.domain_score is not None
        assert torch.allclose(alone.calibrated[0], whole.calibrated[position], atol=1e-4)
        assert abs(float(alone.domain_score[0] - whole.domain_score[position])) <= step


def test_calibrated_probabilities_divide_the_logits(finished: Run, benchmark: Benchmark) -> None:
    predictor = sure(finished, benchmark)
    assert predictor.sureness is not None
    answer = predictor.predict(benchmark.splits["test"])
    assert answer.calibrated is not None
    wanted = (answer.logits / predictor.sureness.temperature).softmax(-1)
    assert torch.allclose(answer.calibrated, wanted, atol=1e-6)
    assert torch.equal(answer.calibrated.argmax(-1), answer.classes)


def test_sureness_is_saved_with_the_folder_bit_for_bit(explained: Run, benchmark: Benchmark, tmp_path: Path) -> None:
    first = sure(explained, benchmark, "mahalanobis")
    second = FittedModel.load(first.save(tmp_path / "copy"))
    one, two = first.predict(benchmark.splits["test"]), second.predict(benchmark.splits["test"])
    for name in ("logits", "calibrated", "domain_score", "outside"):
        assert torch.equal(getattr(one, name), getattr(two, name))


def test_new_weights_take_old_sureness_away(finished: Run, benchmark: Benchmark, tmp_path: Path) -> None:
    folder = sure(finished, benchmark).save(tmp_path / "copy")
    assert (folder / "sureness.json").is_file()
    FittedModel.of_run(finished, "last").save(folder)
    assert not list(folder.glob("sureness*"))
    assert FittedModel.load(folder).sureness is None


def test_sureness_of_other_weights_is_refused(
    finished: Run, explained: Run, benchmark: Benchmark, tmp_path: Path
) -> None:
    mine, other = sure(finished, benchmark).save(tmp_path / "a"), FittedModel.of_run(explained).save(tmp_path / "b")
    for name in ("sureness.json", "sureness.safetensors"):
        shutil.copy(mine / name, other / name)
    with pytest.raises(InputError, match="belongs to other weights"):
        FittedModel.load(other)


@pytest.mark.parametrize("kind", ["finished", "explained"])
def test_embeddings_cost_no_second_pass(kind: str, benchmark: Benchmark, request: pytest.FixtureRequest) -> None:
    predictor = sure(request.getfixturevalue(kind), benchmark, "mahalanobis")
    passes: list[int] = []
    predictor.method.model.nodes.register_forward_hook(lambda *_: passes.append(1))
    predictor.predict(benchmark.splits["test"], batch_size=16)
    assert len(passes) == -(-len(benchmark.splits["test"]) // 16)


def test_a_method_that_keeps_its_embedding_is_asked_for_it(finished: Run, benchmark: Benchmark) -> None:
    from goodformer.methods.base import Method
    from goodformer.uncertainty.observe import observe

    predictor, graphs = FittedModel.of_run(finished), benchmark.splits["id_val"]
    given = observe(predictor, graphs).embedding
    predictor.method.predict = lambda batch: Method.predict(predictor.method, batch)  # type: ignore[method-assign]
    asked = observe(predictor, graphs).embedding
    assert given is not None
    assert asked is not None
    assert torch.equal(given, asked)
    assert observe(predictor, graphs, embeds=False).embedding is None


def test_a_subclass_with_logits_of_its_own_keeps_them(benchmark: Benchmark) -> None:
    recipe = ModelFile(
        model={"name": "gin", "dim": 8}, method={"name": "plain"}, features=benchmark.features, task=benchmark.task
    )
    method = recipe.build().eval()
    batch = benchmark.splits["test"].batch([0, 1, 2])
    assert torch.equal(method.predict(batch).logits, method(batch))
    assert method.predict(batch).embedding is None


def test_goodformers_signals_are_those_of_its_attention(explained: Run, benchmark: Benchmark) -> None:
    predictor = FittedModel.of_run(explained)
    batch = predictor.prepare(benchmark.splits["id_val"]).batch(list(range(8)))
    with torch.no_grad():
        found = predictor.method.model.disentangle(batch, both=False)  # type: ignore[operator]
        signals = predictor.method.predict(batch).signals
    assert torch.equal(signals["log_temperature"], found.temperature[0].log().mean(-1))
    predictor.method.model.solver = "none"  # the same attention as it is before a temperature is solved
    with torch.no_grad():
        plain = predictor.method.model.disentangle(batch, both=False).entropy[0]  # type: ignore[operator]
    gap = plain - predictor.method.model.mean_entropy[0]  # type: ignore[index]
    assert torch.allclose(signals["entropy_gap"], gap.mean(-1), atol=1e-6)
    assert float(gap.abs().max()) > 0.01


def test_no_validation_graph_is_refused(finished: Run, benchmark: Benchmark) -> None:
    nothing = benchmark.splits["id_val"].subset([])
    with pytest.raises(InputError, match="no validation graph"):
        Sureness.fit(FittedModel.of_run(finished), benchmark.splits["train"], nothing)
    with pytest.raises(InputError, match="not offered by this method"):
        Sureness.fit(FittedModel.of_run(finished), benchmark.splits["train"], benchmark.splits["id_val"], "temperature")
