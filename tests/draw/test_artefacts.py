"""The figures of the paper: their points, lines and edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch_geometric.data import Data

from goodformer.config.run import RunConfig
from goodformer.data import load_benchmark
from goodformer.draw import artefacts
from goodformer.draw.palette import BLUE, FOUND, TRUE, VERMILION
from goodformer.errors import InputError
from goodformer.report import reproduce
from goodformer.report.artefacts import REFERENCE, artefact, narrowed
from tests.report.test_reproduce import record

DATASET: dict[str, Any] = {"name": "good-motif", "domain": "basis", "graphs": 300}


@pytest.mark.usefixtures("own_cache")
def test_examples_are_the_first_of_each_class_before_the_second_ones() -> None:
    """Against a plain loop over the graphs that are not the largest."""
    test = load_benchmark(**DATASET).splits["test"]
    median = float(test.sizes.float().median())
    places: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for place in range(len(test)):
        if int(test.sizes[place]) <= median:
            places[int(test.graph["y"].flatten()[place])].append(place)
    expected = [places[kind][turn] for turn in range(2) for kind in range(3)][:5]
    found = artefacts.examples(test, 5)
    assert [graph.edge_index.tolist() for graph in found] == [test[place].edge_index.tolist() for place in expected]


def coloured(axes: Any, colour: str) -> int:
    """The number of edges that a panel draws in a colour."""
    lines = [one for one in axes.collections if isinstance(one, LineCollection)]
    edges = [(one.get_colors()[k % len(one.get_colors())]) for one in lines for k in range(len(one.get_segments()))]
    return sum(to_hex(edge) == colour.lower() for edge in edges)


def segments(axes: Any, colour: str) -> set[tuple[float, ...]]:
    """The ends of the edges that a panel draws in one colour."""
    lines = [one for one in axes.collections if isinstance(one, LineCollection) and len(one.get_segments())]
    found = [one for one in lines if {to_hex(edge) for edge in one.get_colors()} == {colour.lower()}]
    return {tuple(np.round(segment, 6).flatten().tolist()) for one in found for segment in one.get_segments()}


def test_subgraphs_draw_the_chosen_edges_and_the_true_ones() -> None:
    """A path of five edges: two are true; one method finds both, the other none of them."""
    pairs = [(k, k + 1) for k in range(5)]
    index = torch.tensor([*pairs, *((b, a) for a, b in pairs)]).T
    truth = torch.tensor([True, True, False, False, False] * 2)
    graph = Data(edge_index=index, num_nodes=6, edge_truth=truth)
    figure = artefacts.subgraphs([graph], {"right": [truth.float()], "wrong": [1 - truth.float()]})
    right, wrong, _ = figure.axes
    assert [one.get_title() for one in figure.axes] == ["right", "wrong", "truth"]
    assert [one.get_xlabel() for one in (right, wrong)] == ["2 of 2 edges", "0 of 2 edges"]
    assert [coloured(one, FOUND) for one in figure.axes] == [2, 3, 0]  # three share the highest score
    lines = [segments(one, FOUND) for one in (right, wrong)]
    assert lines[0] == segments(figure.axes[2], TRUE)
    assert not lines[0] & lines[1]
    assert [coloured(one, TRUE) for one in figure.axes] == [0, 0, 2]


Values = Callable[[RunConfig], float | None]


def drawn(values: Values, methods: str | None = None) -> Figure:
    """The figure of records whose OOD test is a function of their configuration."""
    one = artefact("figure-sensitivity")
    plans = narrowed(one.plans(), methods=methods)
    configs = reproduce.configs_of(plans)
    known = {key: values(config) for key, config in configs.items()}
    found = {key: record(configs[key], ood_test=value) for key, value in known.items() if value is not None}
    report = reproduce.report(one, plans, found)
    tables = {table["title"]: table for table in report["tables"]}
    reference = tables.pop(REFERENCE, None)
    return artefacts.sensitivity(list(tables.values()), reference, report["remark"])


def points(line: Line2D) -> tuple[list[float], list[float]]:
    """Where a line goes, across and up."""
    across, up = (np.asarray(values, dtype=float).tolist() for values in (line.get_xdata(), line.get_ydata()))
    return across, up


def test_sensitivity_draws_every_point_with_a_record() -> None:
    def value(config: RunConfig) -> float | None:
        if config.method["name"] != "goodformer":
            return 0.4
        return None if config.method["variance_weight"] == 100.0 else 0.5 + config.method["encoder_weight"] / 100

    figure = drawn(value)
    assert len(figure.axes) == 6
    level = [points(line)[1] for line in figure.axes[0].get_lines() if line.get_label() in ("CIGA", "Exphormer")]
    assert level == [[40.0, 40.0]] * 2
    assert points(figure.axes[0].get_lines()[0])[0] == [0.1, 1.0, 10.0]  # 100 is not run
    assert points(figure.axes[2].get_lines()[0])[1] == pytest.approx([50.01, 50.1, 51.0, 60.0])
    assert "; 2 of 24 points not run" in figure.get_supxlabel()
    assert "333 OOD test graphs" in figure.get_supxlabel()
    for axes in figure.axes:
        (line,) = [line for line in axes.get_lines() if line.get_label() == "chance"]
        assert (points(line)[1][0], line.get_linestyle()) == (pytest.approx(100 / 3), "--")
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "GOODFormer (paper)",
        "CIGA",
        "Exphormer",
        "chance",
    }


def test_the_caption_says_what_the_records_say_of_chance() -> None:
    assert "nothing about sensitivity follows" in drawn(lambda _: 1 / 3).get_supxlabel()
    assert "chance" not in drawn(lambda _: 0.5).get_supxlabel()


def test_every_series_line_and_error_bar_is_that_of_its_own_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four panels of made-up tables in which every number is another."""
    monkeypatch.setattr(artefacts, "NAMES", {"goodformer": "ours", "goodformer:paper": "theirs"})
    monkeypatch.setattr(artefacts, "COLOURS", {"goodformer": BLUE, "goodformer:paper": VERMILION})
    titles = [f"{data}: {weight}" for data in ("A", "B") for weight in ("lambda", "alpha_E")]
    heads = {"lambda": (0.1, 10.0), "alpha_E": (1.0, 2.0)}
    panels = []
    for number, title in enumerate(titles):
        weight = title.partition(": ")[2]
        columns = [{"head": f"{weight} = {x:g}", "train_graphs": 1234, "epochs": 7} for x in heads[weight]]
        rows = [
            {"row": name, "cells": [{"mean": 10 * number + 2 * place + x, "std": 1 + place + x / 4} for x in (0, 1)]}
            for place, name in enumerate(("goodformer", "goodformer:paper"))
        ]
        panels.append({"title": title, "columns": columns, "rows": rows})
    levels = {"ciga": (51.0, 52.0), "exphormer": (53.0, 54.0)}
    reference = {
        "columns": [{"head": "A"}, {"head": "B"}],
        "rows": [
            {"row": name, "title": name.upper(), "cells": [{"mean": mean} for mean in means]}
            for name, means in levels.items()
        ],
    }
    figure = artefacts.sensitivity(panels, reference)
    for number, (axes, title) in enumerate(zip(figure.axes, titles, strict=True)):
        data, _, weight = title.partition(": ")
        assert axes.get_title() == f"{data}: {artefacts.SIGNS[weight]}"
        for place, (series, colour) in enumerate(zip(axes.containers, (BLUE, VERMILION), strict=True)):
            line, _, (bars,) = series.lines
            assert to_hex(line.get_color()) == colour
            assert points(line) == (list(heads[weight]), [10 * number + 2 * place + x for x in (0, 1)])
            spans = [segment[:, 1].tolist() for segment in bars.get_segments()]
            for x, (low, high) in enumerate(spans):
                assert (high - low) / 2 == pytest.approx(1 + place + x / 4)
        found = {line.get_label(): points(line)[1][0] for line in axes.get_lines()}
        assert [found[name.upper()] for name in levels] == [means["AB".index(data)] for means in levels.values()]
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {"ours", "theirs", "CIGA", "EXPHORMER"}
    named = dict(zip((text.get_text() for text in legend.get_texts()), legend.legend_handles, strict=True))
    assert [to_hex(named[name].get_color()[0]) for name in ("ours", "theirs")] == [BLUE, VERMILION]
    assert "1,234 training graphs, 7 epochs" in figure.get_supxlabel()


def test_sensitivity_without_any_record_is_refused() -> None:
    with pytest.raises(InputError, match="--records"):
        drawn(lambda _: None)


def test_sensitivity_of_some_rows_alone() -> None:
    figure = drawn(lambda _: 0.5, "goodformer:paper")
    assert len(figure.axes) == 6
    labels = [line.get_label() for line in figure.axes[0].get_lines()]
    assert not {"CIGA", "Exphormer"} & set(labels)
    with pytest.raises(InputError, match="choose from goodformer:paper"):
        drawn(lambda _: 0.5, "ciga")
