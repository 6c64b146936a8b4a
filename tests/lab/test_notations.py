"""One answer per molecule, however its SMILES is written."""

from __future__ import annotations

import random

import pytest

from goodformer.fitted import FittedModel
from lab.notations import LIMIT, answers, compare, notations
from tests.apply.molecules import FITTED, untrained

MOLECULES = [
    "C[C@H](N)C(=O)O",
    "CC(C)(C)c1ccc(O)cc1",
    "C/C=C/C(=O)N[C@@H](Cc1ccccc1)C(=O)O",
    "O=C(O)[C@H](O)[C@@H](O)C(=O)O",
    "C[C@@H]1CC[C@H](C)CC1",
    "CN1[C@H]2CC[C@@H]1[C@@H](C(=O)OC)[C@@H](OC(=O)c1ccccc1)C2",
    "F/C=C\\F",
    "c1ccc2c(c1)ccc1ccccc12",
    "[Na+].[O-]C(=O)c1ccccc1",
    "N#Cc1cc([N+](=O)[O-])ccc1Cl",
]


@pytest.mark.parametrize(("method", "model"), [("goodformer", "goodformer"), ("erm", "gps"), ("fitted", "")])
def test_notation_changes_nothing(method: str, model: str) -> None:
    """Probability, domain score, flag, scores and marks, in blocks that mix the notations of all molecules."""
    fitted = FittedModel.open(FITTED) if method == "fitted" else untrained(method, model)
    rows = [(place, text) for place, one in enumerate(MOLECULES) for text in notations(one, 6, place + 1)]
    random.Random(0).shuffle(rows)
    said: dict[int, list[dict[str, object]]] = {}
    for start in range(0, len(rows), 17):
        block = rows[start : start + 17]
        for (place, _), answer in zip(block, answers(fitted, [text for _, text in block]), strict=True):
            said.setdefault(place, []).append(answer)
    assert len({text for _, text in rows}) > 4 * len(MOLECULES)
    assert compare([said[0][0], said[1][0]])["probability"] > LIMIT  # another molecule
    for place, one in said.items():
        assert all(value <= LIMIT for value in compare(one).values()), (MOLECULES[place], compare(one))
