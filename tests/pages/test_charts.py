from __future__ import annotations

import math
import re
from xml.etree import ElementTree as XML

import pytest

from goodformer.pages import charts
from goodformer.pages.charts import Series


def tips(svg: str) -> list[str]:
    return [one.text or "" for one in XML.fromstring(svg).iter("title")]


def test_a_histogram_tells_the_share_in_every_bin() -> None:
    series = [Series("old", "train", [1, 1, 2, 3]), Series("new", "test", [3, 3])]
    assert tips(charts.histogram(series, "rings", whole=True)) == [
        "1: old: 50%; new: 0%",
        "2: old: 25%; new: 0%",
        "3: old: 25%; new: 100%",
    ]


def test_all_values_are_in_some_bin() -> None:
    values = [0.0, 0.3, 7.5, 7.5, 19.0, 41.0]
    for whole in (False, True):
        told = tips(charts.histogram([Series("all", "s1", values)], "x", whole))
        assert sum(int(share) for one in told for share in re.findall(r"(\d+)%", one)) == pytest.approx(100, abs=5)


def test_a_line_leaves_out_what_is_unknown_and_keeps_the_rest() -> None:
    svg = charts.lines([Series("loss", "s1", [1, 2, 3], [0.5, math.nan, 0.25])], "epoch", "loss", mark=2)
    assert tips(svg) == ["loss: 1, 0.5", "loss: 3, 0.25"]
    assert "nan" not in svg


def test_higher_values_are_drawn_higher_and_further_right() -> None:
    svg = XML.fromstring(charts.scatter([Series("a", "s1", [1, 2], [10, 30])], "x", "y"))
    first, second = svg.iter("circle")
    assert float(first.get("cx", "")) < float(second.get("cx", ""))
    assert float(first.get("cy", "")) > float(second.get("cy", ""))


def test_bars_are_as_long_as_their_values() -> None:
    svg = XML.fromstring(charts.bars([("one", 0.25, "s1"), ("two", 0.5, "s2")], "share", span=(0, 1)))
    short, long = (float(one.get("width", "")) for one in svg.iter("rect"))
    assert long == pytest.approx(2 * short, rel=0.01)


def test_names_are_escaped() -> None:
    evil = '<script>alert("x")</script>'
    for svg in (
        charts.bars([(evil, 1.0, "s1")], evil),
        charts.scatter([Series(evil, "s1", [1], [1], labels=[evil])], evil, evil, names=True),
        charts.histogram([Series(evil, "s1", [1, 2])], evil),
        charts.lines([Series(evil, "s1", [1, 2], [1, 2])], evil, evil),
    ):
        assert "<script" not in svg
        XML.fromstring(svg)


def test_without_values_there_is_a_sentence_instead_of_a_chart() -> None:
    for found in (charts.histogram([], "x"), charts.lines([], "x", "y"), charts.bars([], "x")):
        assert "<svg" not in found


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 17.9), (0.001, 0.0024), (5, 5), (1e6, 4e6)])
def test_ticks_are_round_and_inside(low: float, high: float) -> None:
    found = charts.ticks(low, high)
    assert 1 <= len(found) <= 8
    assert all(low - 1e-9 <= one <= high + 1e-9 for one in found)
