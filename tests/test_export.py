"""Exported models give the answers of the package, computed by onnxruntime."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from goodformer import FittedModel, GraphClassifier, GraphRegressor, InputError, cli
from goodformer.batch import Batch
from goodformer.export import check_export, export_folder, export_onnx, inputs
from tests.apply.molecules import FITTED, molecules, untrained

pytestmark = pytest.mark.usefixtures("own_cache")
SMALL = {"model.dim": 16, "model.trunk_layers": 1, "model.encoder_layers": 1, "model.encoder_dim": 8}
LONG = "C" * 70 + "C[N+](=O)[O-]"
"""A molecule larger than any that a model is traced with."""


def check_answers(model: FittedModel, path: Path, answer: str = "probabilities") -> onnxruntime.InferenceSession:
    """Compare answers for batches of several sizes, with small and large molecules and single atoms."""
    smiles, session = molecules()[0], onnxruntime.InferenceSession(path)
    batches: Sequence[Sequence[str]] = (smiles[:1], ["C"], ["C", "O"], [LONG], ["[Na+].[Cl-]", LONG, *smiles[::17]])
    for some in batches:
        expected = model.predict(list(some))
        logits, answers = session.run(["logits", answer], inputs(model, list(some)))
        assert np.abs(logits - expected.logits.numpy()).max() < 1e-5
        assert np.abs(answers - getattr(expected, answer).numpy()).max() < 1e-5
        if len(some) > 2:
            assert np.ptp(logits) > 1e-3  # the answers differ, so that equality says something
    assert not any(racing(node) for node in onnx.load(path).graph.node)
    return session


def racing(node: onnx.NodeProto) -> bool:
    """Whether threads of onnxruntime add to the same element at once and lose terms, in some of many runs."""
    return node.op_type == "ScatterND" and any(one.name == "reduction" and one.s != b"none" for one in node.attribute)


def test_an_exported_model_gives_the_same_answers(tmp_path: Path) -> None:
    smiles, labels = molecules()
    settings = {"model.dim": 16, "model.layers": 2}
    GraphClassifier("erm", "gin-vn", settings=settings, epochs=1, split="random").fit(smiles, labels).save(
        tmp_path / "model"
    )
    assert cli.run(["export", str(tmp_path / "model"), "--quiet"]) == 0
    path = tmp_path / "model" / "model.onnx"
    session = check_answers(FittedModel.load(tmp_path / "model"), path)
    assert [one.name for one in session.get_inputs()] == ["x", "edge_index", "edge_attr", "batch", "ptr"]
    (entry,) = (one.value for one in onnx.load(path).metadata_props if one.key == "goodformer")
    assert json.loads(entry)["classes"] == {"label": ["0", "1"]}


def test_a_blend_gives_the_same_answers(tmp_path: Path) -> None:
    smiles, labels = molecules()
    settings = {**SMALL, "method.others": ["forest", "linear:pairs"]}
    model = GraphClassifier("blend", settings=settings, epochs=2, split="random").fit(smiles, labels).model_
    assert {type(part).__name__ for part in model.method.parts} == {"GOODFormerMethod", "Forest", "Linear"}
    assert not model.method.parts[0].model.mean_entropy.isnan().any()  # so that temperatures are searched
    export_onnx(model, tmp_path / "blend.onnx")
    check_answers(model, tmp_path / "blend.onnx")


def test_a_blend_of_measured_values_gives_the_same_values(tmp_path: Path) -> None:
    smiles, _ = molecules()
    settings = {**SMALL, "method.others": ["forest:groups", "erm on dmpnn", "gaussian-process"]}
    values = [len(one) + 3.0 * ("N" in one) for one in smiles]
    model = GraphRegressor("blend", settings=settings, epochs=2, split="random").fit(smiles, values).model_
    export_onnx(model, tmp_path / "values.onnx")
    check_answers(model, tmp_path / "values.onnx", "values")


@pytest.mark.parametrize(
    ("method", "preset"),
    [
        *(("forest", preset) for preset in ("default", "pairs", "properties")),
        *(("linear", preset) for preset in ("default", "pairs")),
        ("gaussian-process", "default"),
    ],
)
def test_methods_on_counts_give_the_same_values(method: str, preset: str, tmp_path: Path) -> None:
    smiles, _ = molecules()
    values = [len(one) + 3.0 * ("N" in one) for one in smiles]
    model = GraphRegressor(method, preset=preset, split="random").fit(smiles, values).model_
    export_onnx(model, tmp_path / "values.onnx")
    session = check_answers(model, tmp_path / "values.onnx", "values")
    read = {"default": [], "pairs": ["edge_index"], "properties": ["properties_38"]}[preset]
    read = ["properties_123"] if method == "gaussian-process" else read
    assert {one.name for one in session.get_inputs()} - {"positions"} == {"environments_2", "batch", "ptr", *read}


@pytest.mark.parametrize(
    ("method", "name"), [("erm", "gps"), ("erm", "graphormer"), ("erm", "exphormer"), ("erm", "dmpnn"), ("gsat", "gin")]
)
def test_networks_give_the_same_answers(method: str, name: str, tmp_path: Path) -> None:
    model = untrained(method, name, layers=1)
    export_onnx(model, tmp_path / "network.onnx")
    check_answers(model, tmp_path / "network.onnx")


@pytest.mark.parametrize(
    ("method", "name"), [("goodformer", "goodformer"), ("erm", "gps"), ("erm", "graphormer"), ("erm", "exphormer")]
)
def test_positions_put_all_graphs_in_one_bucket_and_change_no_answer(method: str, name: str) -> None:
    model = untrained(method, name)
    ready = model.prepare(["C", LONG, *molecules()[0][:9]])
    batch = ready.batch(range(len(ready)))
    with torch.no_grad():
        expected = model.method(batch)
        padded = model.method(Batch(**vars(batch), positions=torch.arange(int(ready.sizes.max()) + 3)))
    assert torch.allclose(padded, expected, atol=1e-10)


@pytest.mark.parametrize(("out", "fact"), [("taken", "taken"), ("taken/model.onnx", "taken"), ("fine.onnx", "onnx")])
def test_what_prevents_an_export_is_found_before_it_begins(
    out: str, fact: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    if out == "fine.onnx":
        monkeypatch.setitem(sys.modules, "onnxscript", None)  # as if it were not installed
    assert cli.run(["export", str(FITTED), "-o", str(tmp_path / out)]) == 2
    (sentence,) = capfd.readouterr().err.splitlines()
    assert sentence.startswith("goodformer: ")
    assert fact in sentence


def test_a_folder_is_no_file_to_export_to(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        check_export(tmp_path / "model.onnx")


def test_another_ending_is_refused(tmp_path: Path) -> None:
    smiles, labels = molecules()
    model: Any = GraphClassifier("linear", split="random").fit(smiles, labels)
    with pytest.raises(InputError, match=r"does not end with .onnx"):
        export_onnx(model.model_, tmp_path / "model.pt")


def test_a_folder_to_share_answers_the_same_and_holds_no_row(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    smiles, labels = molecules()
    data, model, shared = tmp_path / "secret.csv", tmp_path / "model", tmp_path / "shared"
    data.write_text("smiles,active\n" + "".join(f"{one},{y}\n" for one, y in zip(smiles, labels, strict=True)))
    assert cli.run(["fit", str(data), "--target", "active", "--method", "linear", "-o", str(model), "--quiet"]) == 0
    assert cli.run(["export", str(model), "--format", "folder", "-o", str(shared)]) == 0
    assert {one.name for one in shared.iterdir()} == {
        "model.json",
        "weights.safetensors",
        "sureness.json",
        "sureness.safetensors",
    }
    content = b"".join(one.read_bytes() for one in shared.iterdir())
    assert b"secret" not in content
    assert not [one for one in smiles if len(one) > 4 and one.encode() in content]
    with_rows, without = FittedModel.load(model), FittedModel.load(shared)
    assert with_rows.training is not None
    assert without.training is None
    new = smiles[::7]
    assert torch.equal(without.predict(new).probabilities, with_rows.predict(new).probabilities)
    assert with_rows.uncertainty is not None
    assert without.uncertainty is not None
    assert "having" in with_rows.uncertainty.state
    assert "having" not in without.uncertainty.state
    again = without.without_data()
    assert again.uncertainty is not None
    assert again.uncertainty.notes == without.uncertainty.notes
    odd = ["CC[Au]", "C" * 400, smiles[0], "O=C1NC(=O)c2ccccc12"]
    assert with_rows.predict(odd).outside.tolist() == [True, True, False, True]
    assert without.predict(odd).outside is None
    assert without.predict(odd).domain_score is None
    assert cli.run(["predict", str(shared), str(data), "-o", str(tmp_path / "parts") + "/", "--quiet"]) == 0
    with pytest.raises(InputError, match="no domain score"):
        GraphClassifier.load(shared).domain_score(odd)
    assert without.classes == with_rows.classes

    capfd.readouterr()
    assert cli.run(["export", str(model), "--format", "folder", "-o", str(shared)]) == 2
    assert "name a new folder" in capfd.readouterr().err
    assert cli.run(["export", str(model), "--format", "folder"]) == 2
    assert "name it with -o" in capfd.readouterr().err
    with pytest.raises(InputError, match="exists"):
        export_folder(without, shared)


def test_a_model_that_keeps_training_graphs_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smiles, _ = molecules()
    for method, keeps in (("gaussian-process", True), ("linear", False)):
        folder = tmp_path / method
        GraphRegressor(method, split="random").fit(smiles, [float(len(one)) for one in smiles]).save(folder)
        asked = ["export", str(folder), "--format", "folder", "-o", str(tmp_path / f"{method}-shared")]
        assert cli.run(asked) == (2 if keeps else 0)
        assert ("may be reconstructed; fit the model with --method forest" in capsys.readouterr().err) is keeps
        if keeps:
            assert cli.run([*asked, "--with-counts"]) == 0
            assert "may be reconstructed" in capsys.readouterr().out
