"""Nearest training rows against RDKit and plain numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

import goodformer as gf
from goodformer.data.molecule import featurise
from goodformer.data.similarity import BITS
from goodformer.errors import InputError
from goodformer.uncertainty import training_rows
from goodformer.uncertainty.training_rows import COSINE, TANIMOTO, TrainingRows, label_words, packed_bits, unit
from tests.apply.molecules import molecules, untrained


def test_molecules_are_compared_by_tanimoto() -> None:
    smiles, y = molecules()
    bits = packed_bits(featurise(smiles).parsed.fingerprints(BITS))
    rows = TrainingRows(torch.arange(len(smiles)) + 1, tuple(map(str, y)), len(smiles), tuple(smiles), bits)
    new = ["c1ccc(CC[N+](=O)[O-])cc1", "CCO", "[Na+]", smiles[7]]
    found = rows.nearest(packed_bits(featurise(new).parsed.fingerprints(BITS)), 4)
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS)
    known = [generator.GetFingerprint(Chem.MolFromSmiles(one)) for one in smiles]
    for text, row in zip(new, found, strict=True):
        shares = DataStructs.BulkTanimotoSimilarity(generator.GetFingerprint(Chem.MolFromSmiles(text)), known)
        order = np.argsort(-np.array(shares), kind="stable")[:4]
        assert [one.row for one in row] == (order + 1).tolist()
        assert [one.similarity for one in row] == pytest.approx([shares[place] for place in order], abs=1e-6)
        assert [(one.smiles, one.label) for one in row] == [(smiles[place], str(y[place])) for place in order]
    assert found[3][0].similarity == 1.0
    assert rows.measure == TANIMOTO
    with pytest.raises(InputError, match="at least 1"):
        rows.nearest(bits, 0)


def test_other_graphs_are_compared_by_their_embeddings() -> None:
    draw = torch.Generator().manual_seed(0)
    known, new = torch.randn(30, 5, generator=draw), torch.randn(4, 5, generator=draw)
    rows = TrainingRows(torch.arange(30), ("a",) * 30, 30, embedding=unit(known).float())
    cosine = (new / new.norm(dim=1, keepdim=True)) @ (known / known.norm(dim=1, keepdim=True)).T
    for row, values in zip(rows.nearest(new, 3), cosine, strict=True):
        best = values.topk(3)
        assert [one.row for one in row] == best.indices.tolist()
        assert [one.similarity for one in row] == pytest.approx(best.values.tolist(), abs=1e-6)
        assert row[0].smiles is None
    assert rows.measure == COSINE
    assert len(rows.nearest(new, 50)[0]) == 30


def test_the_estimator_names_the_graphs_it_was_fitted_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smiles, y = molecules()
    words = np.array(["plain", "nitro"])[y]
    classifier = gf.GraphClassifier("linear", refit=False).fit(smiles, words)
    train = set(classifier.split_.rows("train").tolist())
    for text, row in zip(smiles[:6], classifier.neighbours(smiles[:6], 2), strict=True):
        assert {one.row for one in row} <= train
        assert all((smiles[one.row], words[one.row]) == (one.smiles, one.label) for one in row)
        assert row[0].similarity == 1.0 or smiles.index(text) not in train
    again = gf.GraphClassifier.load(classifier.save(tmp_path / "model"))
    assert again.neighbours(smiles[:6], 2) == classifier.neighbours(smiles[:6], 2)
    (tmp_path / "model" / training_rows.TRAINING).unlink()
    bare = gf.FittedModel.load(tmp_path / "model")
    assert torch.equal(bare.predict(smiles[:3]).logits, classifier.model_.predict(smiles[:3]).logits)
    with pytest.raises(InputError, match="no training rows"):
        bare.neighbours(smiles[:1])
    monkeypatch.setattr(training_rows, "MOST", 20)
    fewer = classifier.model_.remember(classifier.model_.read(smiles), torch.tensor(y))
    assert fewer.training is not None
    assert (len(fewer.training), fewer.training.total) == (20, len(smiles))


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    rows = TrainingRows(torch.arange(3), ("a", "b", "a"), 3, embedding=torch.eye(3))
    sha256 = rows.save(tmp_path)
    assert TrainingRows.load(tmp_path, sha256).labels == rows.labels
    path = tmp_path / training_rows.TRAINING
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="delete it"):
        TrainingRows.load(tmp_path, sha256)


def test_labels_in_words() -> None:
    assert label_words([1.0], [("y", ("no", "yes"))]) == "yes"
    assert label_words([2.5], [("y", ())]) == "2.5"
    assert label_words([1.0, float("nan")], [("y", ("no", "yes")), ("z", ("a", "b"))]) == "y yes, z ?"


def test_a_run_has_no_training_rows() -> None:
    with pytest.raises(InputError, match="no training rows"):
        untrained().neighbours(["CCO"])
