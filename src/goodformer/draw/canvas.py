"""Writing pictures: accepted formats, text that is not a formula, and files that appear only when complete."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from goodformer import files
from goodformer.errors import InputError

FORMATS = (".png", ".pdf", ".svg")


def literal_text() -> AbstractContextManager[None]:
    """Make text with dollar signs appear as written: names of groups and domains are not formulas."""
    return matplotlib.rc_context({"text.parse_math": False})


def check_format(path: Path) -> None:
    """Raise an error unless the file's suffix is a picture format."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"cannot write a picture as {path.name!r}; use the suffix {', '.join(FORMATS)}.")


def draw(make: Callable[[], Figure], path: str | os.PathLike[str], dpi: int = 110) -> Path:
    """Make a figure with literal text, write it and return its path."""
    check_format(Path(path))
    with literal_text():
        return save(make(), Path(path), dpi)


def save(figure: Figure, path: Path, dpi: int = 110) -> Path:
    """Write a figure in one step and return its path."""
    check_format(path)
    canvas, form = FigureCanvasAgg(figure), path.suffix.lower().lstrip(".")
    files.make_folder(path.parent)
    with literal_text():
        files.write(path, lambda part: canvas.print_figure(part, dpi=dpi, format=form))
    return path


def shortened(text: str, letters: int) -> str:
    """Return a text cut to a number of letters."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
