"""A split is drawn whatever its domains are called, and what cannot be drawn is refused."""

from pathlib import Path

import matplotlib.image
import pytest
import torch

from goodformer.data.splits.split import Split
from goodformer.draw.splits import draw_split
from goodformer.registry import InputError
from tests.data.splits.test_splitters import column


@pytest.mark.parametrize(
    "values",
    [
        [str(n) for n in range(100)],
        ["a", "b", "c"] * 20,
        [f"{n} to {n + 1}" for n in range(60)],
        [str(n / 2) for n in range(30)],
    ],
)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_picture_is_drawn(tmp_path: Path, values: list[str], suffix: str) -> None:
    path = draw_split(column(list(values)), tmp_path / f"split{suffix}")
    assert path.stat().st_size > 2_000
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    if suffix == ".png":
        assert matplotlib.image.imread(path).shape[1] == 960


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    split = column(["a", "b", "c"] * 10)
    with pytest.raises(InputError, match="suffix"):
        draw_split(split, tmp_path / "a.txt")
    with pytest.raises(InputError, match="choose a folder"):
        draw_split(split, tmp_path / "none" / "a.png")
    with pytest.raises(InputError, match="nothing to draw"):
        draw_split(Split(torch.tensor([-1]), torch.tensor([0])), tmp_path / "a.png")
