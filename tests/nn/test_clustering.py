"""K-means against scikit-learn."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from goodformer.nn.clustering import k_means, nearest


def inertia(rows: torch.Tensor, centres: torch.Tensor) -> float:
    return float((rows - centres[nearest(rows, centres)]).square().sum())


def test_clusters_are_as_good_as_those_of_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    for seed, size in enumerate((60, 100, 300)):
        torch.manual_seed(seed)
        rows = torch.randn(size, 5, generator=generator)
        oracle = KMeans(4, n_init=10, random_state=0).fit(rows.numpy())
        assert inertia(rows, k_means(rows, 4)) <= 1.02 * oracle.inertia_


def test_groups_that_are_apart_are_found() -> None:
    torch.manual_seed(0)
    truth = torch.arange(90) % 3
    rows = torch.randn(90, 6) + 20 * torch.eye(6)[truth]
    found = nearest(rows, k_means(rows, 3))
    assert adjusted_rand_score(truth.numpy(), found.numpy()) == 1


def test_centres_are_the_means_of_their_rows() -> None:
    torch.manual_seed(0)
    rows = torch.randn(40, 3)
    centres = k_means(rows, 3, steps=50)
    found = nearest(rows, centres)
    for k in range(3):
        np.testing.assert_allclose(centres[k], rows[found == k].mean(0), atol=1e-5)


def test_fewer_rows_than_clusters_and_rows_that_are_all_alike() -> None:
    torch.manual_seed(0)
    assert nearest(torch.randn(2, 4), k_means(torch.randn(2, 4), 3)).shape == (2,)
    same = torch.ones(8, 4)
    assert len(nearest(same, k_means(same, 3)).unique()) == 1


def test_equal_seeds_give_equal_clusters() -> None:
    rows = torch.randn(50, 4)
    torch.manual_seed(3)
    first = k_means(rows, 3)
    torch.manual_seed(3)
    assert torch.equal(first, k_means(rows, 3))
