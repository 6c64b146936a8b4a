"""The page that fits a model, its answers, a run or records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from goodformer.engine.store import CONFIG, MODEL, Run
from goodformer.errors import InputError
from goodformer.pages.answers import answers_page
from goodformer.pages.comparison import comparison_page
from goodformer.pages.model import model_page, run_page


def report(
    sources: Sequence[str | Path],
    out: Path | None = None,
    data: Path | None = None,
    smiles: str | None = None,
    runs: Path = Path("runs"),
    overwrite: bool = False,
) -> Path:
    """Write the page that fits the sources and return its path.

    Args:
        sources: A fitted model or a run; a fitted model and a file of its answers; or files of records and folders.
        out: The page; by default ``report.html`` beside the source.
        data: The file that was predicted, if the answers lack the structures.
        smiles: Column of the SMILES in the answers; by default that of the training file.
        runs: Folder in which runs are looked up by name.
        overwrite: Whether to replace a file that is not a page of this package; earlier pages are replaced in any case.
    """
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{out} is not the name of a page; give a file that ends in .html.")
    places = [Path(source) for source in sources]
    first = places[0]
    if (first / MODEL).is_file() and not (first / CONFIG).is_file():
        if len(places) > 2:
            raise InputError(f"{first} is a fitted model; give at most one file of answers with it.")
        if len(places) == 2 and (places[1] / MODEL).is_file():
            raise InputError(
                f"{first} and {places[1]} are two models, and a page shows one; make a page for each, or evaluate both "
                "on one file with goodformer evaluate."
            )
        if len(places) == 1:
            return model_page(first, out, overwrite)
        return answers_page(first, places[1], out, data, smiles, overwrite)
    if all(place.suffix == ".jsonl" or (place.is_dir() and not (place / CONFIG).is_file()) for place in places):
        return comparison_page(places, out, overwrite)
    if len(places) > 1:
        raise InputError(
            f"{first} is neither a fitted model nor records; give MODEL ANSWERS, or files of records (.jsonl)."
        )
    return run_page(Run.open(first, runs, models=True), out, overwrite=overwrite)
