from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from goodformer.data.similarity import BITS
from goodformer.pages import evidence
from goodformer.pages.answers import Answers
from tests.pages.conftest import EVIL


@pytest.fixture(scope="module")
def kept(nitro: dict[str, Any]) -> dict[str, Any]:
    return evidence.load(Path(nitro["folder"]))


def test_every_row_is_kept_with_its_label(kept: dict[str, Any], nitro: dict[str, Any], home: Path) -> None:
    counts = {name: len(table["row"]) for name, table in kept["parts"].items()}
    assert counts == nitro["counts"]
    lines = (home / "nitro.csv").read_text().splitlines()
    for table in kept["parts"].values():
        for row, smiles, label in zip(table["row"], table["smiles"], table["label"][0], strict=True):
            assert smiles in lines[row]
            assert ("[N+]" in smiles) == (kept["targets"][0]["classes"][int(label)] == "yes")


def test_similarity_and_neighbours_are_those_of_rdkit(kept: dict[str, Any]) -> None:
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)

    def bits(smiles: str) -> Any:
        return generator.GetFingerprint(Chem.MolFromSmiles(smiles))

    train = [bits(one) for one in kept["parts"]["train"]["smiles"]]
    test = kept["parts"]["test"]
    expected = [max(DataStructs.BulkTanimotoSimilarity(bits(one), train)) for one in test["smiles"]]
    assert test["nearest"] == pytest.approx(expected, abs=1e-4)
    for item in kept["shown"]["novel"]:
        closeness = [one["closeness"] for one in item["neighbours"]]
        assert closeness == sorted(closeness, reverse=True)
        assert closeness[0] == pytest.approx(item["nearest"], abs=1e-3)


def test_shown_errors_are_wrong_and_the_most_confident_come_first(kept: dict[str, Any]) -> None:
    errors = kept["shown"]["errors"]
    sure = [max(item["p"][0]) for item in errors]
    assert sure == sorted(sure, reverse=True)
    assert all(item["label"] != item["predicted"] for item in errors)
    assert all(len(item["scores"]) == len(item["edges"][0]) for some in kept["shown"].values() for item in some)


def test_neighbours_of_graphs_are_nearest_by_their_properties() -> None:
    train = {"a": np.array([0.0, 1.0, 5.0]), "b": np.array([0.0, 1.0, 5.0])}
    some = {"a": np.array([4.0, 0.2]), "b": np.array([4.0, 0.1])}
    nothing: Any = None
    seen = [evidence.Seen(nothing, nothing, nothing, table, None) for table in (some, train)]
    values, places = evidence.nearest(seen[0], seen[1])
    assert places.tolist() == [[2, 1], [0, 1]]
    spread = np.std([0.0, 1.0, 5.0])
    assert values[0, 0] == pytest.approx(np.sqrt(2) / spread)
    own, others = evidence.nearest(seen[1], seen[1], skip_same=True)
    assert others[:, 0].tolist() == [1, 0, 1]
    assert (own > 0).all()


def test_answers_are_found_whatever_the_columns_are_called(tmp_path: Path) -> None:
    two = [{"name": "a", "classes": ["no", "yes"]}, {"name": "b", "classes": []}]
    path = tmp_path / "answers.csv"
    path.write_text(
        "smiles,problem,goodformer_a_predicted,goodformer_a_p_yes,goodformer_b_predicted,goodformer_b_lower,"
        "goodformer_b_upper,goodformer_outside,goodformer_outside_because,goodformer_problem\n"
        f'C,"{EVIL.replace(chr(34), chr(34) * 2)}",yes,0.75,1.5,1.0,2.5,True,contains Se,\n'
        "x,,,,,,,,,bad\n"
    )
    found = Answers.read(path, two)
    assert found.own == ["smiles", "problem"]
    assert found.predicted == [["yes", None], [1.5, None]]
    assert found.p[0] == {"no": [0.25, None], "yes": [0.75, None]}
    assert found.ends == [None, ([1.0, None], [2.5, None])]
    assert found.outside == [True, None]
    assert found.because == ["contains Se", None]
    assert found.problems == {1: "bad"}


def test_columns_of_the_user_are_no_answers(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text(
        "smiles,set,lower,upper,spread,verdict,predicted,domain_score,problem\nC,train,1,2,3,fine,1.5,0.5,\n"
    )
    found = Answers.read(path, [{"name": "y", "classes": []}])
    assert found.own == ["smiles", "set", "lower", "upper", "spread", "verdict"]
    assert (found.sets, found.ends, found.spread, found.verdicts) == (None, [None], None, None)
    assert found.domain_score == [0.5]
