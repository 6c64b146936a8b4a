"""Explanations as files: pictures of graphs, and all scores as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from goodformer import files
from goodformer.data import load_benchmark
from goodformer.data.graphs import GraphSet
from goodformer.draw.subgraphs import draw_subgraphs
from goodformer.engine.store import Run
from goodformer.errors import InputError, check_name
from goodformer.explain.agreement import agreement
from goodformer.explain.explanation import Explanation, edge_scores, explain, kind_of_scores, plain
from goodformer.explain.fidelity import CONTRIBUTES, DECIDES, NONE, Fidelity, is_marked
from goodformer.explain.subgraph import Size
from goodformer.fitted import FittedModel, Predictions
from goodformer.spec import SPLITS

if TYPE_CHECKING:
    from torch_geometric.data import Data

PICTURE, EDGES, SINGLE, AGREEMENT = "subgraphs", "edges.json", "graphs", "agreement.json"
PICTURE_LIMIT = 12
READABLE = 60
"""Largest number of atoms that is readable in a picture of several molecules."""
MOST_ATOMS = 400
"""Largest number of atoms of a molecule that is drawn: larger ones are unreadable and take minutes to lay out."""
CAPTIONS = {
    "own": "found invariant subgraph",
    "contributions": "edges that add most to the prediction",
    "mixed": "edges with the highest mean score of all members",
    "post-hoc": "edges that matter to the prediction",
}
"""What the chosen edges are, by the kind of their scores."""
LINES = {DECIDES: "marked part decides", CONTRIBUTES: "marked part contributes", NONE: "no single part decides"}
"""The verdict under a molecule."""


def explain_graphs(
    model: FittedModel,
    graphs: Sequence[Data] | GraphSet,
    folder: str | Path,
    names: Sequence[str] | None = None,
    k: Size = None,
    about: dict[str, Any] | None = None,
    smiles: Sequence[str] | None = None,
    picture_limit: int = PICTURE_LIMIT,
    single_pictures: bool = False,
    measure: bool = True,
    form: str = "png",
    note: str = "",
    molecules: Sequence[str | bytes | Data] | None = None,
    known: tuple[Predictions, Sequence[Tensor], str] | None = None,
    node_names: Sequence[Sequence[str | int]] | None = None,
    measured: Fidelity | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Explain the predictions for graphs; write a picture and all scores into a folder.

    The method's own edge scores are used if it has some, otherwise post-hoc scores (`goodformer.explain.posthoc`).

    Args:
        model: A fitted model.
        graphs: The graphs; molecules are drawn as structural formulas.
        folder: Where ``subgraphs.png`` and ``edges.json`` go.
        names: A name for each graph; its number by default.
        k: Number or share of undirected edges to choose, see `goodformer.explain.subgraph.Undirected.sizes`.
        about: Entries to begin the report with.
        smiles: The SMILES of each graph, if they are molecules.
        picture_limit: How many graphs are drawn, the first ones; all are scored.
        single_pictures: Whether each of these is also drawn alone, into the folder ``graphs``.
        measure: Whether to measure fidelity, which takes 22 predictions per graph. Without it, there are no verdicts.
        form: Format of pictures, ``png`` or ``svg``.
        note: A line below a picture of molecules.
        molecules: What to draw, for example in RDKit's binary form; by default the SMILES or the graphs.
        known: Predictions, edge scores and their source, if the graphs are already predicted.
        node_names: Names of the nodes of each graph, which the report repeats beside their numbers.
        measured: Fidelity of the graphs, if it is known.
        overwrite: Whether to replace other files of these names; an earlier explanation is replaced in any case.

    Returns:
        The content of ``edges.json``: the files, the source of the scores (``explanation``: own or post-hoc), what is
        marked in words, ``fidelity``, and for every graph its prediction, verdict, edges (best first) and nodes.
    """
    place = Path(folder)
    check_explained(place, form, overwrite)
    found = explain(model, graphs, names, k, smiles, measure, known, measured)
    found = replace(found, node_names=node_names)
    words = CAPTIONS[kind_of_scores(model, found.source)]
    files.make_folder(place)
    molecules = molecules or found.smiles
    if molecules is None and "attr" in found.graphs.edge and model.molecular:
        molecules = list(found.graphs)
    drawn = list(range(min(picture_limit, len(found.graphs))))
    pictures: dict[Path, list[int]] = {place / f"{PICTURE}.{form}": drawn} if drawn else {}
    if drawn and single_pictures:
        width = len(str(drawn[-1]))
        pictures |= {place / SINGLE / f"{number:0{width}d}.{form}": [number] for number in drawn}
    paths = [str(path) for path in pictures]
    report = {
        **(about or {}),
        "notes": [*(about or {}).get("notes", ()), *found.notes()],
        "method": model.file.method["name"],
        "explanation": found.source,
        "marked": words,
        "fidelity": None if found.fidelity is None else found.fidelity.summary(),
        "classes": {target: list(names) for target, names in model.classes.items()},
        "picture": paths[0] if drawn else None,
        **({"pictures": paths[1:]} if drawn and single_pictures else {}),
        "scores": str(place / EDGES),
        "graphs": [found.record(number, k) for number in range(len(found.graphs))],
    }
    head = json.dumps({**report, "graphs": []}, indent=2, allow_nan=False).removesuffix("[]\n}")
    rows = ",\n    ".join(json.dumps(row, allow_nan=False) for row in report["graphs"])  # one line per graph
    files.write_text(place / EDGES, f"{head}[\n    {rows}\n  ]\n}}\n")
    for number, (path, some) in enumerate(pictures.items()):  # after the scores, by which the same command knows them
        _draw(found, some, path, k, words, molecules, "" if number else note)
    return report


def check_explained(folder: Path, form: str = "png", overwrite: bool = False) -> None:
    """Raise an error if picture and scores would replace other files; a picture is known by the scores beside it."""
    files.check_output(folder / EDGES, "explanations")
    files.check_replaceable(folder / EDGES, _holds_scores, overwrite)
    files.check_replaceable(folder / f"{PICTURE}.{form}", lambda path: _holds_scores(path.with_name(EDGES)), overwrite)


def _holds_scores(path: Path, keys: Sequence[str] = ("explanation", "marked", "graphs")) -> bool:
    """Return whether a file is a JSON object with these keys."""
    try:
        found = files.read_json(path)
    except InputError:
        return False
    return isinstance(found, dict) and set(keys) <= set(found)


def _draw(
    found: Explanation,
    places: Sequence[int],
    path: Path,
    k: Size,
    words: str,
    molecules: Sequence[str | bytes | Data] | None,
    note: str = "",
) -> Path:
    """Draw some of the graphs into one picture; those without a single part that matters have no colours."""
    graphs, scores = [found.graphs.batch([place]) for place in places], [found.scores[place] for place in places]
    titles, verdicts = [found.title(place) for place in places], found.verdicts
    said = [verdicts[place] if verdicts else "" for place in places]
    marked = [is_marked(one) for one in said]
    if molecules is None:
        lines = [f"{words}: {one}" if one and is_marked(one) else one or words for one in said]
        return draw_subgraphs(graphs, scores, path, titles, k, lines, marked)
    from goodformer.draw.molecules import draw_molecules  # loads RDKit

    return draw_molecules(
        [molecules[place] for place in places],
        [graph.edge_index for graph in graphs],
        scores,
        path,
        [
            "\n".join((*title.split(": ", 1), *([LINES[one]] if one else [])))
            for title, one in zip(titles, said, strict=True)
        ],
        k,
        words.replace("edges", "bonds"),
        note,
        marked,
    )


def explain_run(
    run: Run,
    folder: str | Path,
    split: str = "test",
    count: int = 6,
    k: Size = None,
    weights: str = "best",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Explain graphs of a run's data set; write a picture and all scores into a folder.

    Large molecules are skipped, see `readable`; picture and report say how many.

    Args:
        run: A trained run.
        folder: Where picture and scores go.
        split: Split the graphs are taken from.
        count: How many graphs, spread evenly over the split.
        k: Number or share of undirected edges to choose, see `goodformer.explain.subgraph.Undirected.sizes`.
        weights: ``best`` or ``last``.
        overwrite: Whether to replace other files, see `explain_graphs`.
    """
    check_explained(Path(folder), overwrite=overwrite)
    model = FittedModel.of_run(run, weights)
    limits = (READABLE, MOST_ATOMS) if model.molecular else None
    graphs, names, note = _spread(run, split, count, limits)
    about = {"run": run.folder.name, **({"notes": [f"{note}."]} if note else {})}
    return explain_graphs(model, graphs, folder, names, k, about, picture_limit=count, note=note, overwrite=overwrite)


def explain_agreement(
    runs: Sequence[Run],
    folder: str | Path | None = None,
    split: str = "test",
    count: int = 200,
    k: Size = None,
    weights: str = "best",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Compare the explanations of runs that differ only in their seed.

    Args:
        runs: Two or more trained runs of the same data set, model and method.
        folder: Where ``agreement.json`` goes, if anywhere.
        split: Split the graphs are taken from.
        count: How many graphs, spread evenly over the split.
        k: Number or share of undirected edges to choose, see `goodformer.explain.subgraph.Undirected.sizes`.
        weights: ``best`` or ``last``.
        overwrite: Whether to replace another file ``agreement.json``.
    """
    if folder is not None:
        ours = partial(_holds_scores, keys=("runs", "per_graph"))
        files.check_replaceable(Path(folder) / AGREEMENT, ours, overwrite)
    if len(runs) < 2:
        raise InputError(f"agreement needs two or more runs that differ in their seed, got {len(runs)}.")
    for run in runs[1:]:
        for part in ("dataset", "model", "method"):
            if getattr(run.config, part) != getattr(runs[0].config, part):
                raise InputError(
                    f"runs {runs[0].folder.name} and {run.folder.name} differ in their {part}; "
                    "give runs that differ in their seed only."
                )
    graphs, names, _ = _spread(runs[0], split, count)
    found = agreement(graphs, [edge_scores(FittedModel.of_run(run, weights), graphs)[0] for run in runs], k)
    rows = zip(names, plain(found.correlation), plain(found.overlap), strict=True)
    report = {
        "runs": [run.folder.name for run in runs],
        **found.summary(),
        "per_graph": [{"graph": name, "correlation": rank, "overlap": common} for name, rank, common in rows],
    }
    if folder is not None:
        files.make_folder(Path(folder))
        files.write_json(Path(folder) / AGREEMENT, report)
    return report


def _spread(run: Run, split: str, count: int, limits: tuple[int, int] | None = None) -> tuple[GraphSet, list[str], str]:
    """Return graphs spread evenly over a split, their names, and a phrase on molecules left out for their size."""
    check_name("split", split, SPLITS)
    graphs = load_benchmark(**run.config.dataset).splits[split]
    pool = torch.arange(len(graphs)) if limits is None else readable(graphs.sizes, count, limits)
    left = len(graphs) - len(pool)
    note = f"{left} of {len(graphs)} molecules with more than {limits[0]} atoms left out" if limits and left else ""
    taken = min(count, len(pool))
    places = [int(pool[place * len(pool) // taken]) for place in range(taken)]
    return graphs.subset(places), [f"{split} {place}" for place in places], note


def readable(sizes: Tensor, count: int, limits: tuple[int, int]) -> Tensor:
    """Return the places, ascending, of all graphs of readable size; if they are too few, the smallest others join.

    Args:
        sizes: Nodes of each graph (G,).
        count: How many graphs are wanted.
        limits: Largest readable size, and largest size taken at all unless all graphs are larger.
    """
    few, possible = (int((sizes <= limit).sum()) for limit in limits)
    taken = max(few, min(count, possible or len(sizes)))
    return sizes.argsort(stable=True)[:taken].sort().values
