"""Similarities of fingerprints: sparse and dense ones agree."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from goodformer.data import similarity
from goodformer.data.similarity import nearest_tanimoto, tanimoto


@pytest.mark.parametrize("cells", [1, 100, similarity.CELLS])
def test_the_nearest_of_sparse_fingerprints(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "CELLS", cells)
    some, others = (np.random.default_rng(seed).random((count, 64)) < 0.1 for seed, count in ((0, 20), (1, 30)))
    some[3] = others[4] = False  # two empty ones are equal
    ordered = np.sort(tanimoto(some, others), 1)
    sparse = [csr_array(one.astype(np.float32)) for one in (some, others.T)]
    assert nearest_tanimoto(*sparse) == pytest.approx(ordered[:, -1])
    assert nearest_tanimoto(*sparse, 2) == pytest.approx(ordered[:, -2])
    assert nearest_tanimoto(*sparse, 99) == pytest.approx(ordered[:, 0])
    assert nearest_tanimoto(*sparse)[3] == 1
    assert nearest_tanimoto(*sparse).dtype == np.float32
    assert nearest_tanimoto(sparse[0], sparse[1][:, :4])[3] == 0, "an empty one shares nothing with others"
