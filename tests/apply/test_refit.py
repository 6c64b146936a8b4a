"""Members that are fitted again to all rows once the model has been measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from goodformer import GraphClassifier, GraphRegressor, GraphSet
from goodformer.apply.fit import OwnFile, fit_file
from goodformer.apply.recipe import Recipe
from goodformer.config.run import Hardware
from goodformer.data.readers.collection import collect
from goodformer.engine.store import Run
from goodformer.engine.weights import load_weights
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.methods import METHODS
from goodformer.methods.erm import ERM
from goodformer.models.base import GraphModel
from goodformer.spec import Task
from goodformer.uncertainty.intervals import Difficulty
from goodformer.uncertainty.uncertainty import few_notes
from tests.apply.molecules import molecules

NEW = ["CCCCCCO", "c1ccc(CC)cc1N", "OCCCCCCCO", "Clc1ccccc1"]
FAST: dict[str, Any] = {"baseline": False, "page": False, "hardware": Hardware(progress=False)}
BLEND = Recipe("blend", overrides=["method.of=erm", 'method.others=["linear", "forest"]', "training.epochs=1"])


def distinct(smiles: Sequence[str]) -> int:
    """The number of different fingerprints, by RDKit."""
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    return len({morgan.GetFingerprint(Chem.MolFromSmiles(one)).ToBitString() for one in smiles})


def table(path: Path, smiles: Sequence[str], labels: Sequence[int]) -> Path:
    path.write_text("smiles,label\n" + "".join(f"{one},{label}\n" for one, label in zip(smiles, labels, strict=True)))
    return path


def fitted(tmp_path: Path, recipe: Recipe, name: str, **more: Any) -> tuple[FittedModel, dict[str, Any]]:
    source = OwnFile(table(tmp_path / "mine.csv", *molecules()), ("label",), split="scaffold")
    report = fit_file(source, tmp_path / name, recipe, runs=tmp_path / "runs", **FAST, **more)
    return FittedModel.load(tmp_path / name), report


def test_only_members_that_are_fitted_at_once_change(tmp_path: Path) -> None:
    (new, report), (old, before) = (fitted(tmp_path, BLEND, name, refit=name == "new") for name in ("new", "old"))
    assert (report["refitted"], before["refitted"]) == (sum(report["counts"].values()), 0)
    assert report["splits"] == before["splits"]  # what was measured
    network, *others = zip(new.method.members, old.method.members, strict=True)
    assert all(torch.equal(*pair) for pair in zip(network[0].parameters(), network[1].parameters(), strict=True))
    for after, earlier in others:
        assert after.at_once
        graphs = new.prepare(collect(NEW).graphs)
        assert not torch.equal(after(graphs.batch(range(4))), earlier(graphs.batch(range(4))))
    after, earlier = (one.predict(NEW) for one in (new, old))
    assert after.similarity is not None
    assert earlier.similarity is not None
    assert (after.similarity >= earlier.similarity).all()  # more molecules are known
    assert after.probabilities.tolist() != earlier.probabilities.tolist()
    assert new.training is not None
    assert len(new.training) == report["refitted"]


def test_a_linear_model_is_that_of_all_rows(tmp_path: Path) -> None:
    model, report = fitted(tmp_path, Recipe("linear", overrides=["method.strength=0.1"]), "model")
    smiles, labels = molecules()
    graphs = collect(smiles).graphs
    env = torch.zeros(len(smiles), dtype=torch.long)
    y = torch.tensor([[float(one == model.classes["label"][1])] for one in map(str, labels)])
    every = GraphSet(graphs.node, graphs.edge, {"y": y, "env": env}, graphs.node_ptr, graphs.edge_ptr)
    again = model.refitted(every, seed=5)
    assert report["refitted"] == len(smiles)
    found = [one.predict(NEW).probabilities.flatten().tolist() for one in (again, model)]
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_the_domain_of_molecules_is_that_of_all_rows(tmp_path: Path) -> None:
    smiles, labels = molecules()
    rare = ["CCB(O)O", "CC[Si](C)C", "CCCCB(C)C", "C[Si](C)(C)CCC", "CCOB(C)C", "C" * 60]
    path = table(tmp_path / "rows.csv", [*smiles, *rare], [*labels, *([0, 1] * 3)])
    source = OwnFile(path, ("label",), split="random")
    report = fit_file(source, tmp_path / "model", Recipe("linear"), runs=tmp_path / "runs", **FAST)
    model = FittedModel.load(tmp_path / "model")
    assert model.uncertainty is not None
    assert report["refitted"] == len(smiles) + len(rare)
    assert int(model.uncertainty.state["having"].max()) + 1 == distinct([*smiles, *rare])
    answer = model.predict([*smiles, *rare])
    assert answer.outside is not None
    assert answer.similarity is not None
    assert not answer.outside.any()
    assert answer.similarity.tolist() == pytest.approx([1.0] * len(answer))


def test_test_rows_of_the_user_stay_out(tmp_path: Path) -> None:
    smiles, labels = molecules()
    path = table(tmp_path / "train.csv", smiles[:120], labels[:120])
    test = table(tmp_path / "test.csv", smiles[120:], labels[120:])
    source = OwnFile(path, ("label",), split="random", test=test)
    report = fit_file(source, tmp_path / "model", Recipe("linear"), runs=tmp_path / "runs", **FAST)
    assert report["refitted"] == sum(report["counts"].values()) - report["counts"]["test"] == 120


def test_a_network_for_classes_is_not_fitted_again_by_default(tmp_path: Path) -> None:
    recipe = Recipe("erm", "gin", overrides=["training.epochs=1"])
    assert fitted(tmp_path, recipe, "model")[1]["refitted"] == 0
    assert fitted(tmp_path, recipe, "again", retrain=True)[1]["refitted"] == 256


def test_networks_know_all_rows_if_asked(tmp_path: Path) -> None:
    (new, report), (old, before) = (
        fitted(tmp_path, BLEND, name, retrain=name == "new", **({"refit": False} if name == "old" else {}))
        for name in ("new", "old")
    )
    assert (report["retrained"], before["retrained"]) == (True, False)
    assert report["splits"] == before["splits"]  # what was measured
    for after, earlier in zip(new.method.members, old.method.members, strict=True):
        graphs = new.prepare(collect(NEW).graphs)
        assert not torch.equal(after(graphs.batch(range(4))), earlier(graphs.batch(range(4))))
    assert torch.equal(new.method.weights, old.method.weights)
    assert new.uncertainty is not None
    assert old.uncertainty is not None
    assert new.uncertainty.scaling == old.uncertainty.scaling
    smiles, _ = molecules()
    known = distinct(smiles)
    assert int(new.uncertainty.state["having"].max()) + 1 == len(new.uncertainty.reference) == known
    assert report["refitted"] == len(smiles)
    flagged = new.predict(smiles).outside
    assert flagged is not None
    assert float(flagged.double().mean()) <= 0.06  # of rows that it knows


def test_a_network_trained_again_is_the_one_that_would_have_been_trained_on_all_rows(tmp_path: Path) -> None:
    recipe = Recipe("erm", "gin", overrides=["training.epochs=3", "training.schedule=cosine"])
    model, report = fitted(tmp_path, recipe, "model", retrain=True)
    (again,) = (tmp_path / "runs" / report["run"] / "again").iterdir()
    second = Run(again)
    assert second.summary is not None
    assert second.summary["epochs"] == report["selected_epoch"]  # of the three that are planned
    assert second.config.training.epochs == 3
    weights, _ = load_weights(second.weights("last"))
    stored = model.as_trained(model.method).state_dict()
    assert all(torch.equal(value, stored[name]) for name, value in weights.state_dict().items())


def test_an_interrupted_fit_trains_networks_once_more_only_if_needed(tmp_path: Path) -> None:
    recipe = Recipe("erm", "gin", overrides=["training.epochs=1"])
    said: list[str] = []
    first, _ = fitted(tmp_path, recipe, "model", retrain=True, watch=said.append)
    assert any("training networks again on all 256 rows" in sentence for sentence in said)
    second, _ = fitted(tmp_path, recipe, "model", retrain=True)
    assert second.predict(NEW).probabilities.tolist() == first.predict(NEW).probabilities.tolist()


def test_networks_for_measured_values_of_small_tables_are_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smiles, _ = molecules()
    path = tmp_path / "values.csv"
    path.write_text("smiles,value\n" + "".join(f"{one},{len(one) + 0.5}\n" for one in smiles))
    source, recipe = OwnFile(path, ("value",)), Recipe("erm", "gin", overrides=["training.epochs=1"])
    for name, rows, again in (("small", 256, True), ("large", 255, False)):
        monkeypatch.setattr("goodformer.apply.refit.FEW_ROWS", rows)
        report = fit_file(source, tmp_path / name, recipe, runs=tmp_path / "runs", **FAST)
        assert report["retrained"] is again
    ends = FittedModel.load(tmp_path / "small").predict(NEW)
    assert ends.hardness is not None


def test_codes_that_only_held_out_rows_have_are_read_as_the_last_known_one(tmp_path: Path) -> None:
    rows = []
    for number in range(60):
        nodes = 3 + number // 4
        kinds = [[min(number // 12, place)] for place in range(nodes)]  # larger graphs have larger codes
        edges = [[place, place + 1] for place in range(nodes - 1)]
        rows.append(json.dumps({"edges": edges, "x": kinds, "label": number % 2}))
    path = tmp_path / "graphs.jsonl"
    path.write_text("\n".join(rows) + "\n")
    for name, recipe in (("linear", Recipe("linear")), ("erm", Recipe("erm", "gin", overrides=["training.epochs=1"]))):
        source = OwnFile(path, ("label",), split="size")
        report = fit_file(source, tmp_path / name, recipe, runs=tmp_path / "runs", retrain=True, **FAST)
        assert report["refitted"] == 60


def test_a_method_with_a_weight_per_environment_can_be_loaded_again(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    class PerEnvironment(ERM):
        def __init__(self, model: GraphModel, task: Task) -> None:
            super().__init__(model, task)
            self.register_buffer("q", torch.ones(task.num_envs))

    METHODS.add("per-environment", PerEnvironment)
    request.addfinalizer(lambda: METHODS.remove("per-environment"))
    model, report = fitted(
        tmp_path, Recipe("per-environment", "gin", overrides=["training.epochs=1"]), "m", retrain=True
    )
    assert report["retrained"]
    assert len(model.method.q) == model.task.num_envs


@pytest.mark.parametrize("score", ["neighbours", "similarity"])
def test_widths_that_follow_the_domain_score_keep_their_scale(score: str) -> None:
    graphs = collect(molecules()[0]).graphs
    values = torch.rand(len(graphs), 1, generator=torch.Generator().manual_seed(0))
    model = GraphRegressor("linear", split="random").fit(molecules()[0], values[:, 0].tolist()).model_
    rows = graphs.with_graph("y", values)
    model.fit_uncertainty(rows, rows, score)
    assert model.uncertainty is not None
    by_domain = Difficulty(by="domain", start=(0.5,), slope=(2.0,), mean=(1.0,))
    noted = (*few_notes(torch.ones(3), 0.05), "another note")
    known = replace(model.uncertainty, difficulty=by_domain, reference=3 * torch.ones(3), notes=noted)
    new = known.knowing(model.method, model.prepare(graphs, known.encodings))
    slope = 2 * 3 / float(new.reference.median()) if score == "neighbours" else 2  # a similarity has a scale of its own
    assert new.difficulty.slope[0] == pytest.approx(slope)
    assert new.notes == ("another note",)
    assert len(new.reference) == (distinct(molecules()[0]) if score == "similarity" else len(graphs))


def test_retraining_without_refitting_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="retrain needs refit"):
        fitted(tmp_path, BLEND, "model", refit=False, retrain=True)


def test_a_classifier_knows_all_graphs_in_the_end() -> None:
    smiles, labels = molecules()
    all_rows, part = (GraphClassifier("linear", refit=refit).fit(smiles, labels).model_ for refit in (True, False))
    assert all_rows.training is not None
    assert part.training is not None
    assert len(all_rows.training) == len(smiles) > len(part.training)
