"""Estimated durations against hand computations."""

from __future__ import annotations

import pytest

from goodformer.config.presets import configure
from goodformer.report.pace import Paces, duration
from goodformer.report.rows import row
from tests.report.test_reproduce import BASIS, made


def test_estimates_by_hand() -> None:
    paces = Paces([made("gps", 0), made("gps", 1, processor_seconds_per_epoch=6.0)])
    full = row("gps", "good-motif").configure(BASIS)
    # 4 and 6 s for 2,000 graphs: 2.5 ms a graph, times 18,000 graphs, times 50 epochs.
    assert paces.seconds(full) == pytest.approx(0.0025 * 18_000 * 50)
    assert paces.seconds(row("exphormer", "good-motif").configure(BASIS)) is None


def test_other_data_are_estimated_by_what_erm_costs_there() -> None:
    hiv = {"name": "good-hiv", "domain": "scaffold"}
    erm = made("erm", 0, hiv, train_graphs=24_000, processor_seconds_per_epoch=72.0)  # 3 ms a graph
    paces = Paces(
        [made("erm", 0, processor_seconds_per_epoch=4.0), made("gsat", 0, processor_seconds_per_epoch=20.0), erm]
    )
    config = row("gsat", "good-hiv").configure(hiv, overrides=["training.epochs=2"])
    assert config.model["name"] == "gin-vn"
    assert paces.seconds(config) == pytest.approx(5 * 0.003 * 24_000 * 2)
    assert paces.seconds(row("gps", "good-hiv").configure(hiv)) is None


def test_training_graphs_come_from_settings_records_or_the_paper() -> None:
    paces = Paces([])
    assert paces.graphs(configure(BASIS).dataset) == 18_000
    assert paces.graphs(configure({**BASIS, "shift": "concept"}).dataset) == 12_600
    assert paces.graphs(configure({"name": "sp-motif"}).dataset) == 9_000
    assert paces.graphs(configure({"name": "good-hiv", "domain": "size"}).dataset) == 26_169


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "5 s"), (120, "2 min"), (3600, "60 min"), (2 * 3600 + 300, "2 h 5 min"), (50 * 3600, "2 d 2 h")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
