"""Exported models give the answers of the package, computed by onnxruntime."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from goodformer import FittedModel, GraphClassifier, InputError, cli
from goodformer.export import export_onnx, inputs
from tests.apply.molecules import molecules

pytestmark = pytest.mark.usefixtures("own_cache")
FAST = {"settings": {"model.dim": 16, "model.layers": 2}, "epochs": 1, "split": "random"}


def test_an_exported_model_gives_the_same_answers(tmp_path: Path) -> None:
    smiles, labels = molecules()
    GraphClassifier("erm", "gin-vn", **FAST).fit(smiles, labels).save(tmp_path / "model")
    assert cli.run(["export", str(tmp_path / "model"), "--quiet"]) == 0
    path = tmp_path / "model" / "model.onnx"
    model, session = FittedModel.load(tmp_path / "model"), onnxruntime.InferenceSession(path)
    for some in (smiles[:1], ["C"], smiles[:50]):
        expected = model.predict(some)
        logits, probabilities = session.run(None, inputs(model, some))
        assert np.abs(logits - expected.logits.numpy()).max() < 1e-5
        assert np.abs(probabilities - expected.probabilities.numpy()).max() < 1e-5
        if len(some) > 1:
            assert np.ptp(probabilities) > 1e-3
    (entry,) = (one.value for one in onnx.load(path).metadata_props if one.key == "goodformer")
    assert json.loads(entry)["classes"] == {"label": ["0", "1"]}


def test_what_has_no_form_in_onnx_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smiles, labels = molecules()
    model = GraphClassifier("linear", split="random").fit(smiles, labels)
    model.save(tmp_path / "linear")
    assert cli.run(["export", str(tmp_path / "linear"), "--quiet"]) == 2
    assert "method linear has no form in ONNX" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"does not end with .onnx"):
        export_onnx(model.model_, tmp_path / "model.pt")
