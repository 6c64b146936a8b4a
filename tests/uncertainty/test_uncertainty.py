"""Calibration, domain scores and conformal sets against independent computations."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator
from scipy.optimize import brute
from scipy.sparse import csr_array
from scipy.spatial.distance import mahalanobis as scipy_mahalanobis
from scipy.special import expit, softmax
from sklearn.covariance import LedoitWolf
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from torch_geometric.data import Batch, Data
from torch_geometric.utils import from_networkx

from goodformer import GraphClassifier, files
from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.methods.base import Prediction
from goodformer.spec import Task
from goodformer.uncertainty import calibration, conformal, observe
from goodformer.uncertainty import domain as unusual
from goodformer.uncertainty import uncertainty as u
from goodformer.uncertainty.domain import INSIDE, LARGER, NEW_KIND, UNUSUAL, similarity_among

CLASSES, TARGETS = Task("multiclass", 3, "accuracy"), Task("binary", 2, "rocauc")
TARGET = Task("binary", 1, "rocauc")


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def seen(count: int, seed: int, shift: float = 0.0, width: int = 6) -> observe.Seen:
    """Graphs of three classes whose embeddings are clouds around three means, moved aside by ``shift``."""
    draw = generator(seed)
    y = draw.integers(0, 3, count)
    z = draw.normal(size=(count, 3)) + 2 * np.eye(3)[y]
    x = (
        draw.normal(size=(count, width)) * np.arange(1, width + 1)
        + 3 * np.eye(3, width)[y]
        + shift
        + 30 * np.eye(1, width)
    )
    signals = {"log_temperature": torch.from_numpy(draw.normal(size=count) + shift)}
    signals["entropy_gap"] = torch.zeros(count, dtype=torch.double)
    signals["member_spread"] = torch.from_numpy(draw.random(count))
    figures = torch.from_numpy(draw.normal(size=(count, 5)))
    bits = csr_array((draw.random((count, 2048)) < 0.02).astype(np.float32))
    return observe.Seen(torch.from_numpy(z), figures, torch.from_numpy(x), signals, torch.from_numpy(y), bits=bits)


def calibrated_labels(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels drawn from just these probabilities."""
    draw = generator(seed)
    z = 2 * draw.normal(size=(count, 3))
    return z, (softmax(z, -1).cumsum(-1) < draw.random((count, 1))).sum(-1).clip(max=2)


# ---------------------------------------------------------------- calibration


@pytest.mark.parametrize("factor", [0.4, 1.7, 5.0])
def test_temperature_and_shift_are_where_brute_force_finds_them(factor: float) -> None:
    draw = generator(1)
    z = 2 * draw.normal(size=(60, 1))
    y = (draw.random((60, 1)) < expit(z - 1)).astype(float)
    found = calibration.fit_scaling(TARGET, torch.from_numpy(factor * z), torch.from_numpy(y), (0.7, 0.4))

    def risk(parameters: np.ndarray) -> float:
        log_t, shift = parameters
        scaled = factor * z / np.exp(log_t) + shift
        prior = (log_t / 0.7) ** 2 / 2 + (shift / 0.4) ** 2 / 2
        return float(np.logaddexp(0, np.where(y == 1, -scaled, scaled)).sum() + prior)

    log_t, shift = brute(risk, ((-2.9, 2.9), (-2.0, 2.0)), Ns=60)
    assert math.log(found.temperature) == pytest.approx(log_t, abs=2e-3)
    assert found.shift[0] == pytest.approx(shift, abs=2e-3)


def test_scaling_of_binary_targets_passes_over_missing_labels() -> None:
    draw = generator(2)
    z = draw.normal(size=(400, 2)) * 3
    y = (draw.random((400, 2)) < expit(z / 2)).astype(float)
    y[draw.random((400, 2)) < 0.3] = np.nan
    known = ~np.isnan(y)
    found = calibration.fit_scaling(TARGETS, torch.from_numpy(z), torch.from_numpy(y))
    everything = torch.from_numpy(np.where(known, z, 1e3 * z))  # what an unknown label was given does not matter
    again = calibration.fit_scaling(TARGETS, everything, torch.from_numpy(y))
    assert again.temperature == pytest.approx(found.temperature, rel=1e-6)
    assert again.shift == pytest.approx(found.shift, abs=1e-6)


def test_the_temperature_of_an_overconfident_model_is_recovered() -> None:
    z, y = calibrated_labels(20_000, seed=3)
    logits, labels = torch.from_numpy(3 * z), torch.from_numpy(y)
    t = calibration.fit_scaling(CLASSES, logits, labels).temperature
    assert t == pytest.approx(3, rel=0.03)
    assert calibration.ece(CLASSES, logits, labels) > 0.05
    assert calibration.ece(CLASSES, logits / t, labels) < 0.015


@pytest.mark.parametrize("seed", range(5))
def test_calibration_never_costs_likelihood_on_validation(seed: int) -> None:
    draw = generator(seed)
    z, y = torch.from_numpy(4 * draw.normal(size=(25, 3))), torch.from_numpy(draw.integers(0, 3, 25))
    scaling = calibration.fit_scaling(CLASSES, z, y)
    assert calibration.nll(CLASSES, scaling(z), y) <= calibration.nll(CLASSES, z, y)


def test_graphs_that_are_all_right_make_probabilities_as_sure_as_their_number_allows() -> None:
    """With equal margins the likeliest class gets (n + 1) / (n + 2), however sure or unsure the model was."""
    y = torch.arange(60) % 3
    for margin in (0.01, 20.0):
        scaling, notes = calibration.calibrate(CLASSES, margin * torch.eye(3)[y], y)
        assert scaling.shift == ()
        assert float(scaling(margin * torch.eye(3)).softmax(-1)[0, 0]) == pytest.approx(61 / 62, abs=1e-6)
        assert len(notes) == 1
    targets = torch.stack((y, 1 - y), 1).clamp(0, 1).double()
    t = calibration.capped_temperature(TARGETS, 0.2 * (targets - 0.5), targets)
    assert 1 / (1 + math.exp(-0.1 / t)) == pytest.approx(121 / 122, abs=1e-6)


@pytest.mark.parametrize("rows", [60, 600])
@pytest.mark.parametrize("task", [CLASSES, TARGETS])
def test_logits_that_tell_nothing_are_cooled_off(task: Task, rows: int) -> None:
    """Overconfident noise: even probabilities are best, which no temperature reaches; the hottest is nearest."""
    draw = generator(25)
    z = torch.from_numpy(10 * draw.normal(size=(rows, task.outputs)))
    said = draw.integers(0, 3, rows) if task.kind == "multiclass" else draw.integers(0, 2, (rows, 2)).astype(float)
    y = torch.from_numpy(said)
    scaling, notes = calibration.calibrate(task, z, y)
    assert scaling.temperature > 10
    assert len(notes) == 1
    assert calibration.ece(task, z, y) > 0.35
    assert calibration.ece(task, scaling(z), y) < 0.6 * calibration.ece(task, z, y)
    assert calibration.nll(task, scaling(z), y) < calibration.nll(task, z, y)


def test_few_labels_move_probabilities_less_than_many() -> None:
    """Four times too sure, and the odds of the first class e^2 too high; 20 labels say less about it than 2,000."""
    z, y = (torch.from_numpy(one) for one in calibrated_labels(2000, 35))
    wrong = 4 * (z + torch.tensor([2.0, 0.0, 0.0]))
    found = [calibration.fit_scaling(CLASSES, wrong[:count], y[:count]) for count in (20, 200, 2000)]
    temperatures = [one.temperature for one in found]
    assert 1 < temperatures[0] < temperatures[1] < temperatures[2] == pytest.approx(4, rel=0.1)
    gaps = [one.shift[0] - one.shift[1] for one in found]
    assert 0 > gaps[0] > gaps[1] > gaps[2] == pytest.approx(-2, abs=0.2)


@pytest.mark.parametrize("prior", [0.05, 0.9])
def test_probabilities_of_balanced_training_get_their_prior_back(prior: float) -> None:
    """Logits for classes of equal size, labels of another share: the shift is the log-odds of that share."""
    draw = generator(31)
    y = (draw.random((4000, 1)) < prior).astype(float)
    z = torch.from_numpy(2 * draw.normal(size=(4000, 1)) + 4 * (y - 0.5))  # log-odds z for equal priors
    labels = torch.from_numpy(y)
    scaling, notes = calibration.calibrate(TARGET, z, labels)
    assert notes == ()
    assert scaling.temperature == pytest.approx(1, abs=0.1)
    assert scaling.shift[0] == pytest.approx(math.log(prior / (1 - prior)), abs=0.3)
    oracle = LogisticRegression(C=1e6).fit(z.numpy(), y[:, 0])
    assert 1 / scaling.temperature == pytest.approx(float(oracle.coef_[0, 0]), rel=0.05)
    assert scaling.shift[0] == pytest.approx(float(oracle.intercept_[0]), rel=0.05)
    assert calibration.ece(TARGET, scaling(z), labels) < 0.02 < calibration.ece(TARGET, z, labels)


def test_a_target_of_one_class_does_not_move_the_others() -> None:
    draw = generator(36)
    z = torch.from_numpy(2 * draw.normal(size=(200, 2)))
    y = torch.from_numpy((draw.random((200, 2)) < expit(z.numpy() / 2)).astype(float))
    y[:, 1] = 0
    both, notes = calibration.calibrate(TARGETS, z, y)
    alone, none = calibration.calibrate(TARGET, z[:, :1], y[:, :1])
    assert (len(notes), none) == (1, ())
    assert both.temperature == pytest.approx(alone.temperature, rel=1e-4)
    assert both.shift == pytest.approx((*alone.shift, 0), abs=1e-4)


def test_classes_and_targets_are_shifted_where_they_must() -> None:
    z, y = (torch.from_numpy(one) for one in calibrated_labels(3000, 32))
    assert calibration.calibrate(CLASSES, z, y)[0].shift == ()
    moved = z + torch.tensor([2.0, 0.0, 0.0])
    scaling, _ = calibration.calibrate(CLASSES, moved, y)
    assert calibration.nll(CLASSES, scaling(moved), y) == pytest.approx(calibration.nll(CLASSES, z, y), abs=5e-3)
    draw = generator(33)
    both = torch.from_numpy(draw.normal(size=(2000, 2)))
    labels = torch.from_numpy((draw.random((2000, 2)) < expit(both.numpy())).astype(float))
    shift = calibration.calibrate(TARGETS, both + torch.tensor([0.0, 1.5]), labels)[0].shift
    assert shift[0] == pytest.approx(0, abs=0.15)
    assert shift[1] == pytest.approx(-1.5, abs=0.25)


def test_the_class_said_is_the_most_probable_after_calibration(tmp_path: Path) -> None:
    draw = generator(34)
    y = (draw.random((500, 1)) < 0.1).astype(float)
    z = torch.from_numpy(draw.normal(size=(500, 1)) + 2 * (y - 0.5))
    what = observe.Seen(z, torch.zeros(500, 5), None, {}, torch.from_numpy(y))
    fitted = u.Uncertainty.learn(TARGET, what, what, "energy")
    assert fitted.scaling.shift[0] < -1
    assert torch.equal(fitted.classes(z), (fitted.probabilities(z) > 0.5).long())
    assert int(fitted.classes(z).sum()) < int((z > 0).sum())
    again = u.Uncertainty.load(fitted.save(tmp_path))
    assert again.scaling == fitted.scaling
    change(tmp_path, shift=[1.0, 2.0])
    with pytest.raises(InputError, match="shift"):
        u.Uncertainty.load(tmp_path)


def test_figures_without_a_label_are_none() -> None:
    nothing = calibration.measures(TARGETS, torch.zeros(3, 2), torch.full((3, 2), math.nan))
    assert nothing == {"nll": None, "ece": None, "brier": None}


def test_figures_by_hand() -> None:
    p = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.05, 0.05, 0.9]], dtype=torch.double)
    y = torch.tensor([1, 0, 1, 0])
    # in halves: claimed .5 + .6 and one of two right, then .8 + .9 and one of two right
    assert calibration.ece(CLASSES, p.log(), y, bins=2) == pytest.approx((abs(1.1 - 1) + abs(1.7 - 1)) / 4)
    assert calibration.ece(CLASSES, p.log(), y, bins=4) == pytest.approx((0.5 + 0.4 + 0.2 + 0.9) / 4)
    assert calibration.nll(CLASSES, p.log(), y) == pytest.approx(-math.log(0.3 * 0.6 * 0.8 * 0.05) / 4)
    squares = (0.25 + 0.49 + 0.04) + (0.16 + 0.09 + 0.01) + (0.01 + 0.04 + 0.01) + (0.9025 + 0.0025 + 0.81)
    assert calibration.brier(CLASSES, p.log(), y) == pytest.approx(squares / 4)


def test_figures_of_binary_targets_by_hand() -> None:
    p = torch.tensor([[0.9, 0.2], [0.4, 0.7]], dtype=torch.double)
    y = torch.tensor([[1.0, float("nan")], [0.0, 0.0]])
    assert calibration.brier(TARGETS, p.logit(), y) == pytest.approx((0.01 + 0.16 + 0.49) / 3)
    assert calibration.nll(TARGETS, p.logit(), y) == pytest.approx(-math.log(0.9 * 0.6 * 0.3) / 3)
    assert calibration.ece(TARGETS, p.logit(), y, bins=3) == pytest.approx((0.1 + 0.4 + 0.7) / 3)


# ---------------------------------------------------------------- domain scores


def test_mahalanobis_distance_is_scipys() -> None:
    train, new = seen(200, 4), seen(20, 5)
    assert train.embedding is not None
    assert train.y is not None
    assert new.embedding is not None
    x, y = train.embedding.numpy(), train.y.numpy()
    means = np.stack([x[y == k].mean(0) for k in range(3)])
    inverse = np.linalg.inv(LedoitWolf(assume_centered=True).fit(x - means[y]).covariance_)
    wanted = [min(scipy_mahalanobis(row, mean, inverse) for mean in means) for row in new.embedding.numpy()]
    found = unusual.mahalanobis(CLASSES, unusual.learn_mahalanobis(CLASSES, train), new)
    assert found.numpy() == pytest.approx(np.array(wanted), rel=1e-8)
    one = unusual.learn_mahalanobis(TARGETS, train)["means"]  # binary targets have no classes to tell apart
    assert torch.allclose(one[0], train.embedding.mean(0))
    assert len(one) == 1


def test_neighbours_are_scikit_learns() -> None:
    train, new = seen(700, 6), seen(600, 7)
    assert train.embedding is not None
    assert new.embedding is not None
    ref, x = (
        part.numpy() / np.linalg.norm(part.numpy(), axis=1, keepdims=True) for part in (train.embedding, new.embedding)
    )
    wanted = NearestNeighbors(n_neighbors=10).fit(ref).kneighbors(x)[0][:, -1]
    found = unusual.neighbours(CLASSES, unusual.learn_neighbours(CLASSES, train), new)
    assert found.numpy() == pytest.approx(wanted, abs=1e-6)
    few = train.take(torch.arange(4))
    assert unusual.neighbours(CLASSES, unusual.learn_neighbours(CLASSES, few), new).isfinite().all()


def test_scores_of_logits_by_hand() -> None:
    z = torch.tensor([[2.0, 0.0, -1.0], [0.1, 0.0, 0.0]], dtype=torch.double)
    what = observe.Seen(z, torch.zeros(2, 5))
    p = softmax(z.numpy(), -1)
    assert unusual.energy(CLASSES, {}, what).numpy() == pytest.approx(-np.log(np.exp(z.numpy()).sum(-1)))
    assert unusual.doubt(CLASSES, {}, what).numpy() == pytest.approx(-np.log(p.max(-1)))
    assert unusual.entropy(CLASSES, {}, what).numpy() == pytest.approx(-(p * np.log(p)).sum(-1))
    two = z[:, :2]
    binary, flipped = observe.Seen(two, torch.zeros(2, 5)), observe.Seen(-two, torch.zeros(2, 5))
    assert unusual.energy(TARGETS, {}, binary).numpy() == pytest.approx(-np.log(2 * np.cosh(two.numpy() / 2)).sum(-1))
    for measure in (unusual.energy, unusual.doubt, unusual.entropy):  # which value is called 1 does not matter
        assert torch.allclose(measure(TARGETS, {}, binary), measure(TARGETS, {}, flipped))


def test_both_sides_of_the_median_are_unusual() -> None:
    score = unusual.DOMAIN_SCORES["temperature"]
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 100.0, 1.0], dtype=torch.double)
    what = observe.Seen(torch.zeros(7, 3), torch.zeros(7, 5), None, {"log_temperature": values})
    state = score.learn(CLASSES, what)
    assert float(state["centre"]) == 3
    assert float(state["scale"]) == pytest.approx(1.4826 * 2)  # of 2 1 0 1 2 97 2
    assert score.measure(CLASSES, state, what).numpy() == pytest.approx(abs(values.numpy() - 3) / (1.4826 * 2))
    flat = observe.Seen(torch.zeros(3, 3), torch.ones(3, 5))
    assert unusual.DOMAIN_SCORES["statistics"].learn(CLASSES, flat)["scale"].tolist() == [1.0] * 5


def test_statistics_are_networkx() -> None:
    graphs = [nx.star_graph(6), nx.path_graph(5), nx.erdos_renyi_graph(12, 0.4, seed=1), nx.empty_graph(1)]
    rows = []
    for graph in graphs:
        degree = np.array([d for _, d in graph.degree()], dtype=float)
        rows.append([np.log(len(graph)), degree.mean(), degree.std(), np.log1p(degree.max()), (degree <= 1).mean()])
    batch = Batch.from_data_list([from_networkx(graph) for graph in graphs])
    assert observe.statistics(batch).numpy() == pytest.approx(np.array(rows))


def test_detection_counts_pairs() -> None:
    draw = generator(8)
    usual, odd = draw.integers(0, 9, 60).astype(float), draw.integers(3, 12, 40).astype(float)
    found = unusual.detection(torch.from_numpy(usual), torch.from_numpy(odd))
    pairs = [(o > i) + 0.5 * (o == i) for i in usual for o in odd]
    truth = np.repeat([0, 1], [60, 40])
    assert found["auroc"] == pytest.approx(np.mean(pairs))
    assert found["auroc"] == pytest.approx(roc_auc_score(truth, np.concatenate((usual, odd))))
    bars = [bar for bar in np.unique(odd) if (odd >= bar).mean() >= 0.95]
    assert found["fpr95"] == pytest.approx(min((usual >= bar).mean() for bar in bars))
    assert unusual.detection(torch.tensor([1.0]), torch.tensor([math.inf])) == {"auroc": None, "fpr95": None}


# ---------------------------------------------------------------- conformal sets


def test_sets_hold_each_class_as_often_as_they_promise() -> None:
    """Binomial limits for the test labels and for the labels that set the threshold, four deviations."""
    z, y = calibrated_labels(13_000, seed=9)
    logits, labels = torch.from_numpy(z * 0.3), torch.from_numpy(y)  # unsure, so that sets are larger than one label
    what = observe.Seen(logits, torch.zeros(13_000, 5), torch.randn(13_000, 2, dtype=torch.double), {}, labels)
    fitted = u.Uncertainty.learn(CLASSES, what, what.take(torch.arange(3000)), "energy")
    sets = fitted.sets(logits[3000:], 0.9)
    held = sets.gather(1, labels[3000:, None])[:, 0]
    for k in range(3):
        of_class = labels[3000:] == k
        spread = math.sqrt(0.09 / int(of_class.sum()) + 0.09 / int((labels[:3000] == k).sum()))
        assert abs(float(held[of_class].double().mean()) - 0.9) < 4 * spread
    assert conformal.coverage(CLASSES, sets, labels[3000:])["coverage"] == pytest.approx(float(held.double().mean()))
    assert conformal.coverage(CLASSES, sets, labels[3000:])["size"] == pytest.approx(
        float(sets.sum(-1).double().mean())
    )
    assert fitted.sets(logits, 0.99).sum() > sets.sum()


def test_sets_are_those_of_a_plain_loop() -> None:
    z, y = calibrated_labels(60, seed=10)
    what = observe.Seen(torch.from_numpy(z), torch.zeros(60, 5), None, {}, torch.from_numpy(y))
    fitted = u.Uncertainty.learn(CLASSES, what, what, "energy")
    p = softmax(fitted.scaling(torch.from_numpy(z)).numpy(), -1)
    for row, found in zip(p, fitted.sets(torch.from_numpy(z), 0.8).tolist(), strict=True):
        for k in range(3):
            scores = np.sort(1 - p[y == k, k])
            rank = math.ceil((len(scores) + 1) * 0.8)
            inside = rank > len(scores) or 1 - row[k] <= scores[rank - 1]
            assert found[k] == (inside or row[k] == row.max())


def test_sets_of_binary_targets_pass_over_missing_labels() -> None:
    draw = generator(11)
    z = draw.normal(size=(4000, 2))
    y = (draw.random((4000, 2)) < expit(z)).astype(float)
    y[draw.random((4000, 2)) < 0.4] = np.nan
    y[:, 1] = np.where(np.arange(4000) < 3, y[:, 1], np.nan)  # hardly any label: nothing can be ruled out
    what = observe.Seen(torch.from_numpy(z), torch.zeros(4000, 5), None, {}, torch.from_numpy(y))
    fitted = u.Uncertainty.learn(TARGETS, what.take(torch.arange(2000)), what.take(torch.arange(2000)), "energy")
    sets = fitted.sets(what.logits[2000:], 0.9)
    assert sets.shape == (2000, 2, 2)
    assert sets[:, 1].all()
    assert conformal.coverage(TARGETS, sets, what.y[2000:])["coverage"] == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("count", range(1, 40))
def test_the_rank_is_the_finite_sample_one(count: int) -> None:
    rank = conformal.conformal_rank(count, 0.95)
    assert rank / (count + 1) >= 0.95 - 1e-9
    assert (rank - 1) / (count + 1) < 0.95
    assert (rank > count) == (count < 19)


# ---------------------------------------------------------------- all of it


@pytest.mark.parametrize("score", list(unusual.DOMAIN_SCORES))
def test_usual_graphs_are_outside_as_often_as_alpha(score: str) -> None:
    train, val, test = seen(1000, 12), seen(2000, 13), seen(2000, 14)
    fitted = u.Uncertainty.learn(CLASSES, train, val, score, alpha=0.05)
    unusual = fitted.unusual(test)
    share = float(fitted.outside(unusual).double().mean())
    if score == "entropy_gap":  # all alike here: nothing is unusual
        assert share == 0
        return
    assert abs(share - 0.05) < 4 * math.sqrt(0.05 * 0.95 * 2 / 2000)
    rank = fitted.domain_score(unusual)
    assert 0 <= float(rank.min()) <= float(rank.max()) <= 1
    assert float(rank.mean()) == pytest.approx(0.5, abs=0.03)
    reference = similarity_among(CLASSES, dict(fitted.state), train) if score == "similarity" else fitted.unusual(val)
    assert float(rank[0]) == pytest.approx(float((reference < unusual[0]).double().mean()))


@pytest.mark.parametrize("score", ["mahalanobis", "neighbours", "temperature"])
def test_moved_graphs_are_found(score: str) -> None:
    fitted = u.Uncertainty.learn(CLASSES, seen(1000, 15), seen(1000, 16), score)
    assert fitted.outside(fitted.unusual(seen(300, 17, shift=40.0))).double().mean() > 0.95


def test_the_documented_thresholds_are_those_of_the_code() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "own-data.md").read_text(encoding="utf-8")
    (line,) = (one for one in page.splitlines() if one.startswith("| `outside` |"))
    stated = [(float(score), int(rows.replace(",", ""))) for score, rows in re.findall(r"([\d.]+) for ([\d,]+)", line)]
    assert len(stated) == 3
    learnt = u.Uncertainty.learn(CLASSES, seen(100, 15), seen(100, 16), alpha=0.05)
    for score, rows in stated:
        fitted = replace(learnt, reference=torch.arange(rows, dtype=torch.double))
        values = torch.arange(rows + 1, dtype=torch.double) - 0.5
        assert float(fitted.domain_score(values)[fitted.outside(values)].min()) == pytest.approx(score)


def test_the_documented_numbers_of_labels_are_the_fewest_that_exclude_a_class() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "own-data.md").read_text(encoding="utf-8")
    levels, needed = (
        [float(cell) for cell in line.split("|")[2:-1]]
        for start in ("| `--sets` |", "| ID validation labels per class |")
        for line in page.splitlines()
        if line.startswith(start)
    )
    assert len(levels) == len(needed) == 5
    scores = torch.linspace(0, 1, 100, dtype=torch.double)[None, None]  # (T, K, n)
    for level, fewest in zip(levels, map(int, needed), strict=True):
        enough, few = (float(conformal.thresholds(scores, torch.tensor([[n]]), level)) for n in (fewest, fewest - 1))
        assert math.isfinite(enough), level
        assert math.isinf(few), level


def test_so_few_graphs_say_so() -> None:
    few = seen(7, 18)
    fitted = u.Uncertainty.learn(CLASSES, few, few)
    assert fitted.scaling.temperature == 1
    assert not fitted.outside(torch.tensor([1e9], dtype=torch.double)).any()
    assert fitted.sets(few.logits, 0.9).all()
    assert ["7" in note for note in fitted.notes] == [True, True]


def test_one_class_no_labels_and_no_numbers_say_so() -> None:
    what = seen(50, 19)
    one = u.Uncertainty.learn(CLASSES, what, replace(what, y=torch.zeros(50, dtype=torch.long)))
    assert (one.scaling.temperature, len(one.notes)) == (1, 1)
    none = u.Uncertainty.learn(CLASSES, what, replace(what, y=None))
    assert "0 validation labels" in none.notes[0]
    assert none.sets(what.logits).all()
    missing = replace(what, logits=what.logits[:, :2], y=torch.full((50, 2), math.nan))
    assert u.Uncertainty.learn(TARGETS, missing, missing).sets(missing.logits).all()
    broken = replace(what, logits=torch.full((50, 3), math.nan, dtype=torch.double))
    lost = u.Uncertainty.learn(CLASSES, broken, broken, "energy")
    assert (lost.scaling.temperature, len(lost.notes)) == (1, 1)


def test_wrong_words_get_one_sentence() -> None:
    what = seen(30, 20)
    with pytest.raises(InputError, match="did you mean energy"):
        u.Uncertainty.learn(CLASSES, what, what, "enegry")
    with pytest.raises(InputError, match="temperature; choose one of energy"):
        u.Uncertainty.learn(CLASSES, what, replace(what, signals={}), "temperature")
    with pytest.raises(InputError, match="alpha = 2"):
        u.Uncertainty.learn(CLASSES, what, what, alpha=2)
    with pytest.raises(InputError, match="level = 1"):
        u.Uncertainty.learn(CLASSES, what, what).sets(what.logits, 1)


def test_a_sample_of_training_graphs_is_random() -> None:
    graphs = GraphSet(
        {},
        {"index": torch.empty(2, 0, dtype=torch.long)},
        {"place": torch.arange(3000)},
        *(torch.zeros(3001, dtype=torch.long),) * 2,
    )
    first = observe.sample(graphs, 900).graph["place"]
    assert torch.equal(first, observe.sample(graphs, 900).graph["place"])
    assert len(first.unique()) == 900
    assert torch.equal(first, first.sort().values)
    for k in range(3):  # every k-th graph would miss domains that alternate
        assert int((first % 3 == k).sum()) == pytest.approx(300, abs=60)
    assert observe.sample(graphs) is graphs


# ---------------------------------------------------------------- on disk


@pytest.mark.parametrize("score", list(unusual.DOMAIN_SCORES))
def test_what_is_saved_says_the_same_bit_for_bit(score: str, tmp_path: Path) -> None:
    new = seen(40, 23)
    first = u.Uncertainty.learn(CLASSES, seen(100, 21), seen(15, 22), score, 0.1)
    second = u.Uncertainty.load(first.save(tmp_path, "abc"), "abc")
    assert torch.equal(first.unusual(new), second.unusual(new))
    assert torch.equal(first.probabilities(new.logits), second.probabilities(new.logits))
    assert torch.equal(first.sets(new.logits, 0.7), second.sets(new.logits, 0.7))
    assert torch.equal(first.outside(first.unusual(new)), second.outside(first.unusual(new)))
    assert (first.task, first.alpha, first.notes) == (second.task, second.alpha, second.notes)
    assert first.scaling == second.scaling


def change(folder: Path, **fields: Any) -> None:
    path = folder / "sureness.json"
    path.write_text(json.dumps(files.sealed(files.unsealed(files.read_json(path), path) | fields)))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "sureness.json").write_text("{"), "damaged or not JSON"),
        (lambda folder: (folder / "sureness.json").write_text("[]"), "not written by goodformer"),
        (lambda folder: change(folder, version=9), "reads version 1"),
        (lambda folder: change(folder, temperature="warm"), "temperature = 'warm'"),
        (lambda folder: change(folder, score="enegry"), "did you mean energy"),
        (lambda folder: change(folder, weights="other"), "belongs to other weights"),
        (lambda folder: (folder / "sureness.safetensors").unlink(), "No such file"),
        (lambda folder: (folder / "sureness.safetensors").write_bytes(b"x"), "truncated"),
    ],
)
def test_a_damaged_file_gets_one_sentence(tmp_path: Path, damage: Any, words: str) -> None:
    what = seen(30, 24)
    u.Uncertainty.learn(CLASSES, what, what).save(tmp_path, "mine")
    damage(tmp_path)
    with pytest.raises(InputError, match=words) as caught:
        u.Uncertainty.load(tmp_path, "mine")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("score", list(unusual.DOMAIN_SCORES))
def test_every_tensor_of_the_domain_score_is_checked_when_it_is_read(score: str, tmp_path: Path) -> None:
    learnt = u.Uncertainty.learn(CLASSES, seen(100, 21), seen(15, 22), score, 0.1)
    assert set(unusual.DOMAIN_SCORES[score].keeps) == set(learnt.state)
    for name in learnt.state:
        replace(learnt, state={one: learnt.state[one] for one in learnt.state if one != name}).save(tmp_path)
        with pytest.raises(InputError, match=f"state/{name}"):
            u.Uncertainty.load(tmp_path)


def test_an_unlabelled_batch_is_looked_at() -> None:
    batch = Batch.from_data_list([Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))])
    found = observe.observe_batch(torch.nn.Linear(1, 1), batch, Prediction(torch.zeros(1, 3), None), False)  # type: ignore[arg-type]
    assert found.y is None
    assert found.embedding is None


def test_graphs_beyond_the_training_graphs_are_outside_whatever_their_embedding(tmp_path: Path) -> None:
    """A chain of a thousand atoms has the environments of a short one, and a new element may look like a known one."""
    from goodformer.data.molecule import featurise
    from tests.apply.molecules import untrained

    model = untrained(task=Task("binary", 1, "rocauc"))
    usual = ["C" * size for size in range(2, 12)] + ["C" * size + "O" for size in range(2, 12)]
    train = model.prepare(featurise(usual * 2).graphs)
    known = u.Uncertainty.fit(model.method, train, train)
    known.save(tmp_path)
    for one in (known, u.Uncertainty.load(tmp_path)):
        model.uncertainty = one
        answer = model.predict(featurise(["CCCCC", "C" * 22, "C" * 23 + "O", "C" * 1000, "CC[Pt]", "CCO"]).graphs)
        assert answer.reason.tolist()[3:5] == [LARGER, NEW_KIND + 78]
        assert answer.outside.tolist()[3:5] == [True, True]
        assert answer.domain_score[3:5].tolist() == [1.0, 1.0]
        assert not answer.outside[[0, 5]].any()
    older = replace(known, state={name: known.state[name] for name in known.state if name not in ("largest", "kinds")})
    assert not older.beyond(observe.observe(model.method, train)).any()
    assert known.reason(known.reference[-1:] + 1).tolist() == [UNUSUAL]
    assert known.reason(known.reference[:1]).tolist() == [INSIDE]


@pytest.mark.parametrize("score", ["neighbours", "energy"])
def test_the_range_is_that_of_all_training_graphs(score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not that of the sample that a score is fitted to, nor that of the validation graphs."""
    from goodformer import fitted
    from goodformer.data.molecule import featurise
    from tests.apply.molecules import untrained

    monkeypatch.setattr(fitted, "sample", lambda graphs: graphs.subset(range(20)))
    model = untrained(task=Task("binary", 1, "rocauc"))
    usual = ["C" * size for size in range(2, 12)] + ["C" * size + "O" for size in range(2, 12)]
    train = featurise([*usual, "C" * 60, "CC[Pt]"]).graphs
    model.fit_uncertainty(train, featurise(usual).graphs, score)
    assert model.uncertainty is not None
    seen = observe.observe(model.method, model.prepare(featurise(["C" * 60, "CC[Pt]", "C" * 200, "CC[Au]"]).graphs))
    assert model.uncertainty.beyond(seen).tolist() == [INSIDE, INSIDE, LARGER, NEW_KIND + 79]


def test_the_domain_of_molecules_is_the_similarity_to_the_nearest_one() -> None:
    training = [f"{'C' * length}{end}" for length in range(1, 26) for end in ("O", "N", "S", "C(=O)O", "c1ccccc1")]
    model = GraphClassifier("linear", split="random").fit(training, [int("N" in one) for one in training]).model_
    assert model.uncertainty is not None
    assert model.uncertainty.score == "similarity"
    known = model.fit_uncertainty(training, model.read(training).graphs).uncertainty
    assert known is not None
    new = ["CCCCCO", "CC(C)(C)N", "O=C1NC(=O)c2ccccc12"]
    found = known.unusual(observe.observe(model.method, model.prepare(new, known.encodings), known.embeds))
    morgan = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = {one: morgan.GetFingerprint(Chem.MolFromSmiles(one)) for one in (*training, *new)}
    nearest = [max(DataStructs.BulkTanimotoSimilarity(bits[one], [bits[old] for old in training])) for one in new]
    assert found.tolist() == pytest.approx([1 - one for one in nearest])
    outside = model.predict(new).outside
    assert outside is not None
    assert outside.tolist()[::2] == [False, True]


def test_molecules_that_occur_twice_do_not_make_new_ones_unusual() -> None:
    rings = ("c1ccccc1", "C1CCNCC1", "c1ccncc1", "C1CCOC1", "c1ccsc1")
    usual = [f"{'C' * length}{end}{ring}" for length in range(1, 9) for end in ("O", "N", "C(=O)") for ring in rings]
    flagged = []
    for rows in (usual[::2], usual[::2] * 2):
        labels = [int("N" in one) for one in rows]
        model = GraphClassifier("linear", split="random", refit=False).fit(rows, labels).model_
        outside = model.predict(usual[1::2]).outside
        assert outside is not None
        flagged.append(float(outside.double().mean()))
    assert flagged[1] <= flagged[0] + 0.1 < 0.4


def test_known_molecules_are_compared_with_the_others() -> None:
    bits = np.zeros((3, 2048), dtype=np.float32)
    bits[0, :4], bits[1, :3], bits[2, 9:] = 1, 1, 1
    rows = observe.Seen(torch.zeros(3, 1), torch.zeros(3, 5), bits=csr_array(bits))
    state = unusual.learn_similarity(TARGET, rows)
    assert unusual.similarity(TARGET, state, rows).tolist() == [0, 0, 0]
    assert unusual.similarity_among(TARGET, state, rows).tolist() == [0.25, 0.25, 1]
