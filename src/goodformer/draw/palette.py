"""Colours of all pictures; they also differ in lightness, for colour-blind readers and greyscale prints."""

from __future__ import annotations

INK, GREY, FRAME, PAPER = "#222222", "#5b6470", "#e3e6ea", "#ffffff"
"""Text, secondary text, frames and grids, background."""
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
"""Colours of series that are compared."""
TRUE, FOUND = "#111111", "#d7191c"
"""True invariant edges, and the edges that a method chose."""

SPLITS = {"train": BLUE, "id_val": "#86b9d9", "id_test": "#86b9d9", "val": "#e69f00", "test": "#882255"}
"""Colours of the five splits; ID splits are pale."""
SPLIT_LETTERS = {"train": "#005a8e", "id_val": "#3f7ba3", "id_test": "#3f7ba3", "val": "#9c6700", "test": "#882255"}
"""The same colours, dark enough for text."""
