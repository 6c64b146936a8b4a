"""The picture of a split: one row of bars per part, from the rows of that part alone."""

from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from goodformer.data.splits.split import Split
from goodformer.draw import palette
from goodformer.draw.splits import draw_split, split_figure
from goodformer.errors import InputError
from goodformer.spec import SPLIT_NAMES, SPLITS
from tests.data.splits.test_splitters import column


def bars(axis: Any) -> list[tuple[float, float, float]]:
    """Left edge, right edge and height of each bar, the gap between bars left out."""
    found = [patch for patch in axis.patches if isinstance(patch, Rectangle)]
    return [(bar.get_x(), bar.get_x() + bar.get_width() / 0.92, bar.get_height()) for bar in found]


@pytest.mark.parametrize(
    "values",
    [
        [str(n * n % 100) for n in range(100)],  # numbers
        ["a"] * 30 + ["b"] * 20 + ["c"] * 7,  # few words
        [f"{n * n % 60} to" for n in range(60)],  # many words
        [str(n / 3) for n in range(60)],  # fractions in bins
    ],
)
def test_every_part_shows_its_own_rows(values: list[str]) -> None:
    split = column(list(values))
    figure = split_figure(split)
    shown = [name for name in SPLITS if len(split.rows(name))]
    assert [axis.get_ylabel() for axis in figure.axes] == [
        f"{SPLIT_NAMES[name]}\n{len(split.rows(name))}" for name in shown
    ]
    few, numeric = len(split.names) <= 20, all(name.replace(".", "").isdigit() for name in split.names)
    for name, axis in zip(shown, figure.axes, strict=True):
        domains = split.domain[split.rows(name)].numpy()
        own = np.array([float(split.names[one]) for one in domains]) if numeric and not few else domains
        for place, (left, right, height) in enumerate(bars(axis)):
            last = place == len(bars(axis)) - 1
            inside = (own >= left - 1e-9) & ((own < right - 1e-9) | (last & (own <= right + 1e-9)))
            assert height == pytest.approx(inside.mean()), (name, left, right)
        assert {to_hex(patch.get_facecolor()) for patch in axis.patches} == {palette.SPLITS[name]}
        assert sum(height for _, _, height in bars(axis)) == pytest.approx(1)
    labels = [tick.get_text() for tick in figure.axes[-1].get_xticklabels()]
    if few:
        assert labels == list(split.names)
    axis_name = figure.axes[-1].get_xlabel()
    assert axis_name == "a" if few or numeric else "order" in axis_name


def test_colours_tell_the_five_parts_apart() -> None:
    assert len({palette.SPLITS[name] for name in ("train", "id_val", "val", "test")}) == 4
    assert set(palette.SPLITS) == set(palette.SPLIT_LETTERS) == set(SPLITS)


def test_the_picture_is_a_complete_file(tmp_path: Path) -> None:
    split = column(["a", "b", "c"] * 20)
    assert matplotlib.image.imread(draw_split(split, tmp_path / "new" / "split.png")).shape[1] == 960
    assert "<svg" in draw_split(split, tmp_path / "new" / "split.svg").read_text()
    assert sorted(one.name for one in (tmp_path / "new").iterdir()) == ["split.png", "split.svg"]


@pytest.mark.parametrize("name", ["$x_{$", "a$b$c", "$\\frac$", "100 % _sure_ ^"])
def test_a_group_with_any_name_is_drawn(tmp_path: Path, name: str) -> None:
    split = Split(torch.tensor([0, 3, 4]), torch.tensor([0, 1, 0]), (name, "other"), by=name)
    assert draw_split(split, tmp_path / "split.png").exists()
    figure = split_figure(split)
    assert figure.axes[-1].get_xticklabels()[0].get_text() == name


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    split = column(["a", "b", "c"] * 10)
    with pytest.raises(InputError, match=r"\.png, \.pdf, \.svg"):
        draw_split(split, tmp_path / "a.txt")
    with pytest.raises(InputError, match="leaves out every row"):
        draw_split(Split(torch.tensor([-1]), torch.tensor([0])), tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
