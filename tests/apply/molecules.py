"""Small molecules whose class is known (1 for a nitro group), models for them, and a counter of passes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from goodformer.data.molecule import FEATURES
from goodformer.engine.weights import ModelFile
from goodformer.fitted import FittedModel
from goodformer.spec import Task
from goodformer.transforms import encode

FITTED = Path(__file__).parent / "fitted_before"
"""A model that an earlier version fitted to `write_table`, with rows (``new.csv``) and their answers."""

SCAFFOLDS = (
    "c1ccc({})cc1",
    "c1ccc2cc({})ccc2c1",
    "c1cc({})ccn1",
    "C1CCC({})CC1",
    "c1cc({})cs1",
    "c1ccc(-c2ccc({})cc2)cc1",
    "C1CCN({})CC1",
    "c1ccc(Oc2ccc({})cc2)cc1",
)
PLAIN = ("C(=O)O", "C#N", "CO", "CC", "F", "CCl", "C(=O)N", "OC")
CHAINS = ("", "C", "CC", "CCC")


def molecules() -> tuple[list[str], list[int]]:
    """SMILES and classes, half of each class."""
    smiles: list[str] = []
    for scaffold in SCAFFOLDS:
        for chain in CHAINS:
            smiles += [scaffold.format(f"{chain}C[N+](=O)[O-]"), scaffold.format(f"{chain}CC[N+](=O)[O-]")] * 2
            smiles += [scaffold.format(chain + end) for end in PLAIN[:4]]
    return smiles, [int("[N+]" in one) for one in smiles]


def write_table(path: Path, bad: bool = True) -> list[dict[str, str]]:
    """The molecules as a table with a name, a SMILES and a class a row; two rows cannot be read."""
    rows = [
        {"name": f"m{place}", "smiles": one, "nitro": "yes" if label else "no"}
        for place, (one, label) in enumerate(zip(*molecules(), strict=True))
    ]
    if bad:
        rows.insert(3, {"name": "broken", "smiles": "c1ccc(cc1", "nitro": "no"})
        rows.insert(9, {"name": "empty", "smiles": "", "nitro": "yes"})
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["name", "smiles", "nitro"])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def untrained(
    method: str = "erm",
    model: str = "gin",
    task: Task | None = None,
    classes: dict[str, Any] | None = None,
    **settings: Any,
) -> FittedModel:
    """A model of molecules with random weights; ``settings`` are those of the model."""
    torch.manual_seed(0)
    file = ModelFile(
        model={"name": model, "dim": 16, **settings},
        method={"name": method},
        features=FEATURES,
        task=task or Task("binary", 1, "rocauc"),
    )
    return FittedModel(file.build(), file, classes=classes)


@contextmanager
def counted_passes(model: FittedModel) -> Iterator[Counter[str]]:
    """Count the calls of a method from outside, by name, and the encodings that are computed."""
    calls: Counter[str] = Counter()
    inside = [0]

    def counting(name: str, original: Any) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if not inside[0]:
                calls[name] += 1
            inside[0] += 1
            try:
                return original(*args, **kwargs)
            finally:
                inside[0] -= 1

        return wrapped

    with pytest.MonkeyPatch.context() as patch:
        for name in ("predict", "forward", "edge_scores", "weighted_logits"):
            patch.setattr(model.method, name, counting(name, getattr(model.method, name)))
        patch.setattr("goodformer.fitted.encode", counting("encode", encode))
        yield calls
