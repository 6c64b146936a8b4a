"""The measurement of how many labels calibration needs."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from goodformer.report.table import insert
from lab import calibration as lab


def test_the_page_shows_the_recorded_table_and_the_default_beats_no_calibration(tmp_path: Path) -> None:
    found = {int(labels): of for labels, of in json.loads(Path("results/calibration.json").read_text()).items()}
    assert tuple(found) == lab.LABELS
    assert all(of[lab.named(lab.DEVIATIONS)] < of[lab.NONE] for of in found.values())
    page = tmp_path / "page.md"
    page.write_text(Path("docs/uncertainty.md").read_text())
    insert(page, lab.MARKER, lab.table(found).markdown())
    assert page.read_text() == Path("docs/uncertainty.md").read_text()


def test_recorded_predictions_are_logits_with_known_labels() -> None:
    key, task, z, y = next(lab.recorded())
    assert len(key.split()) == 3
    assert z.shape == (len(y), task.outputs)
    assert not bool(torch.isnan(y).any())
