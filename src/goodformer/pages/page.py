"""Templates filled into self-contained HTML, and the parts that all pages share: drawings, legends, numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import goodformer
from goodformer import files
from goodformer.data.readers import values as fields

ABSENT = "-"
PART_COLOURS = {"train": "train", "id_val": "id", "id_test": "id", "val": "val", "test": "test"}
"""Variables of the page for the parts of a split."""
MARKS = ('<meta name="generator" content="goodformer', '<header class="top">\n<strong>goodformer</strong>')
"""Show that a page is ours: the generator, and the first line of older pages."""


def check_page(path: Path, overwrite: bool = False) -> Path:
    """Return the path of a page; raise an error if that would replace another file than a page of this package."""
    files.check_replaceable(path, _is_page, overwrite)
    return path


def _is_page(path: Path) -> bool:
    """Return whether a file has the mark of a page."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return any(mark in text for mark in MARKS)


def write(path: Path, template: str, **values: Any) -> Path:
    """Fill a template and write the page."""
    files.make_folder(path.parent)
    files.write_text(path, render(template, **values))
    return path


def render(template: str, **values: Any) -> str:
    """Fill a template; all text is escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("goodformer.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "style": Markup(static("style.css")),
        "script": Markup(static("page.js")),
        "version": goodformer.__version__,
        "number": number,
        "percent": percent,
        "span": span,
    }
    return made


def static(name: str) -> str:
    """Return a file that pages contain, such as ``style.css``."""
    return resources("goodformer.pages").joinpath("static", name).read_text(encoding="utf-8")


def number(value: Any, digits: int = 3) -> str:
    """Return a number as it is shown; a dash if it is unknown."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ABSENT
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:,.0f}"


def percent(value: float | None) -> str:
    """Return a share in percent."""
    return ABSENT if value is None else fields.percent(value)


def span(found: Mapping[str, Any], digits: int = 3) -> str:
    """Return the interval of a value; empty if it is unknown."""
    if found.get("low") is None or found.get("high") is None:
        return ""
    return f"[{number(found['low'], digits)}, {number(found['high'], digits)}]"


def drawing(item: Mapping[str, Any], width: int = 260, height: int = 190) -> Markup:
    """Draw a row of `goodformer.pages.evidence`: a formula, or nodes and edges, with its best-scored edges.

    A row whose verdict is that no part matters has no colours, as in the pictures of ``goodformer explain``.
    """
    import torch

    from goodformer.batch import Batch
    from goodformer.draw.inline import graph_svg
    from goodformer.draw.molecules import molecule_svg
    from goodformer.explain.fidelity import is_marked

    if "edges" not in item:
        return Markup('<p class="quiet">too large to draw</p>')
    edges = torch.tensor(item["edges"], dtype=torch.long).reshape(2, -1)
    scores = None
    if item.get("scores") is not None and is_marked(item.get("verdict")):
        scores = torch.tensor([math.nan if one is None else one for one in item["scores"]]).nan_to_num()
    if item["drawn_smiles"] is not None and scores is None:
        return Markup(molecule_svg(item["drawn_smiles"], width=width, height=height))
    if item["drawn_smiles"] is not None:
        return Markup(molecule_svg(item["drawn_smiles"], edges, scores, width, height))
    nodes = item["nodes"]
    graph = Batch(edge_index=edges, batch=torch.zeros(nodes, dtype=torch.long), ptr=torch.tensor([0, nodes]))
    if "x" in item:
        graph.x, graph.edge_attr = (torch.tensor(item[name], dtype=torch.long) for name in ("x", "attr"))
        return Markup(molecule_svg(graph, edges, scores, width, height))
    if "truth" in item:
        graph["edge_truth"] = torch.tensor(item["truth"], dtype=torch.bool)
    return Markup(graph_svg(graph, scores, width, height))


def scaffold(smiles: str, width: int = 160, height: int = 110) -> Markup:
    """Draw a scaffold without scores."""
    from goodformer.draw.molecules import molecule_svg

    return Markup(molecule_svg(smiles, width=width, height=height))


def figure(title: str, chart: Markup, legend: Sequence[tuple[str, str]] = (), note: str = "") -> dict[str, Any]:
    """Return a chart with its title, its legend of names and colours, and a note, as templates show it."""
    return {"title": title, "chart": chart, "legend": list(legend), "note": note}


def class_word(target: Mapping[str, Any], code: float | None) -> str:
    """Return the name of a class of a target, or the number itself."""
    if code is None:
        return "unknown"
    return str(target["classes"][int(code)]) if target["classes"] else number(float(code))
