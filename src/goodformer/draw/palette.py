"""Colours of all pictures, told apart by lightness too, so that colour-blind readers and grey printers can."""

from __future__ import annotations

INK, GREY, FRAME, PAPER = "#222222", "#5b6470", "#e3e6ea", "#ffffff"
"""Letters, letters that matter less, hair-lines and grids, what all is drawn on."""
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
"""Lines and dots that are compared."""
TRUE, FOUND = "#111111", "#d7191c"
"""Edges that are truly invariant, and those a method chose."""

SPLITS = {"train": BLUE, "id_val": "#86b9d9", "id_test": "#86b9d9", "val": "#e69f00", "test": "#882255"}
"""The five splits: those distributed as training are pale."""
SPLIT_LETTERS = {"train": "#005a8e", "id_val": "#3f7ba3", "id_test": "#3f7ba3", "val": "#9c6700", "test": "#882255"}
"""The same, dark enough for letters."""
