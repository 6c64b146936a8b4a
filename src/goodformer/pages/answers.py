"""The page of predictions for a file: how many rows lie outside the domain, what drifts, and every row with its why."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import featurise
from goodformer.data.readers.collection import Collection, joined, known_column
from goodformer.data.readers.rows import read_blocks, read_columns
from goodformer.data.readers.values import counted, text_of
from goodformer.errors import InputError
from goodformer.explain.explanation import edge_scores, plain
from goodformer.fitted import FittedModel
from goodformer.pages import charts, evidence, page, statistics
from goodformer.pages.charts import Series
from goodformer.pages.evidence import GraphRows, Seen
from goodformer.pages.page import PART_COLOURS, figure
from goodformer.spec import ANSWER_PREFIX, BECAUSE, SMILES

NEW = "new"
"""Colour variable of the rows of the file."""
COMPARED, SHOWN = 2_000, 300
"""Rows whose properties are compared with training, and rows in the table."""
OWN_COLUMNS, LETTERS = 4, 60
"""The user's columns that the table repeats, and letters of each entry."""
CHECKED, SAME, FEW = 32, 1e-3, 0.25
"""Rows that are predicted again, the largest difference by rounding, and the share of rows that may differ more."""
LISTED = 50
"""Unreadable rows that are listed."""
MANY, SOME = 0.3, 0.1
"""Shares of rows outside the domain from which a page warns strongly, and at all."""
Columns = Mapping[str, list[Any]]


def answers_page(
    folder: Path,
    path: Path,
    out: Path | None = None,
    data: Path | None = None,
    smiles: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write the page of predictions.

    Args:
        folder: The fitted model that made them.
        path: The file that ``goodformer predict`` wrote.
        out: The page; by default beside the answers, with the suffix ``.html``.
        data: The file that was predicted, if the answers lack the structures.
        smiles: Column of the SMILES; by default that of the training file.
        overwrite: Whether to replace another file than a page.
    """
    place = page.check_page(out or path.with_suffix(".html"), overwrite)
    known, model = evidence.load(folder), FittedModel.load(folder)
    answers = Answers.read(path, known["targets"])
    table = [row for row in range(answers.rows) if row not in answers.problems]
    if not table:
        raise InputError(f"{path} has no row with a prediction; predict a file that can be read.")
    random = np.random.default_rng(0)
    compared = sorted(random.permutation(table)[:COMPARED].tolist())
    shown = answers.telling(compared, SHOWN)
    structures = read_structures(model, path if data is None else data, answers.columns, data is None, compared, smiles)
    check_model(model, answers, structures, path, folder)
    return page.write(place, "answers.html", **context(known, model, answers, structures, shown, path))


@dataclass(frozen=True)
class Answers:
    """The answers in a file, whatever its format.

    Attributes:
        columns: All columns as they are.
        rows: Number of rows.
        own: The user's columns.
        predicted: For each target the class or value of each row, None where unknown.
        p: For each target the probability of each class by name; empty for measured values.
        ends: For each target lower and upper ends; None if there are none.
        domain_score: Domain score of each row, or None.
        outside: Whether each row is outside the domain, or None.
        because: Why it is, or None.
        spread: Disagreement of members, or None.
        sets: Conformal set of each row as text, or None.
        verdicts: Whether the marked part of each row decides (``predict --explain``), or None.
        problems: Why rows have no answer.
    """

    columns: Columns
    rows: int
    own: list[str]
    predicted: list[list[Any]]
    p: list[dict[str, list[float | None]]]
    ends: list[tuple[list[float | None], list[float | None]] | None]
    domain_score: list[float | None] | None
    outside: list[bool | None] | None
    because: list[Any] | None
    spread: list[float | None] | None
    sets: list[Any] | None
    verdicts: list[Any] | None
    problems: dict[int, str]

    @classmethod
    def read(cls, path: Path, targets: Sequence[Mapping[str, Any]]) -> Answers:
        """Find the columns of answers, which follow the user's; raise an error if a target has none."""
        every = read_columns(path)
        prefix = ""
        while f"{prefix}{ANSWER_PREFIX}problem" in every:
            prefix += ANSWER_PREFIX
        first = f"{prefix}{targets[0]['name']}_predicted" if len(targets) > 1 else f"{prefix}predicted"
        columns = dict(dropwhile(lambda column: column[0] != first, every.items()))
        taken, predicted, shares, ends = [f"{prefix}problem"], [], [], []  # type: list[str], list[Any], list[Any], list[Any]
        for target in targets:
            start = f"{prefix}{target['name']}_" if len(targets) > 1 else prefix
            if f"{start}predicted" not in columns:
                raise InputError(
                    f"{path} has no column {start}predicted; give a file that goodformer predict wrote with this model."
                )
            taken.append(f"{start}predicted")
            numbers = not target["classes"]
            predicted.append([_number(one) if numbers else text_of(one) for one in columns[f"{start}predicted"]])
            named = {name: f"{start}p_{name}" for name in target["classes"] if f"{start}p_{name}" in columns}
            taken += named.values()
            found = {name: [_number(one) for one in columns[column]] for name, column in named.items()}
            if len(target["classes"]) == 2 and len(found) == 1:  # of several targets, the second class alone is written
                (other,) = [name for name in target["classes"] if name not in found]
                (share,) = found.values()
                found = {other: [None if one is None else 1 - one for one in share], **found}
            shares.append(found)
            both = [f"{start}{end}" for end in ("lower", "upper")]
            within = all(name in columns for name in both) and numbers
            taken += both if within else []
            ends.append(tuple([_number(one) for one in columns[name]] for name in both) if within else None)
        rest: dict[str, list[Any] | None] = {}
        for name in ("domain_score", "outside", BECAUSE, "spread", "set", "standardised", "verdict", "marked"):
            rest[name] = columns.get(f"{prefix}{name}")
            taken += [f"{prefix}{name}"] if rest[name] is not None else []
        problem = columns.get(f"{prefix}problem", [])
        named_row = re.compile(rf"{re.escape(prefix)}neighbour_\d+_\w+")  # the page names the nearest row itself
        return cls(
            every,
            len(predicted[0]),
            [name for name in every if name not in taken and not named_row.fullmatch(name)],
            predicted,
            shares,
            ends,
            rest["domain_score"] and [_number(one) for one in rest["domain_score"]],
            rest["outside"] and [None if one is None else str(one).lower() == "true" for one in rest["outside"]],
            rest[BECAUSE],
            rest["spread"] and [_number(one) for one in rest["spread"]],
            rest["set"],
            rest["verdict"],
            {row: str(reason) for row, reason in enumerate(problem) if reason not in (None, "")},
        )

    def telling(self, rows: Sequence[int], count: int) -> list[int]:
        """Return some rows for the table: half of them the most unusual, the others evenly spread; all if few."""
        if len(rows) <= count:
            return list(rows)
        scores = self.domain_score or [0.0] * self.rows
        unusual = sorted(rows, key=lambda row: -(scores[row] or 0.0))[: count // 2]
        rest = [row for row in rows if row not in set(unusual)]
        return sorted([*unusual, *(rest[place * len(rest) // (count // 2)] for place in range(count // 2))])


def read_structures(
    model: FittedModel, path: Path, columns: Columns, inside: bool, rows: Sequence[int], smiles: str | None
) -> tuple[list[int], Collection]:
    """Return the graphs of some rows, and which rows they are.

    Args:
        model: The model, which says how to read them.
        path: The answers, or the file that was predicted.
        columns: The columns of the answers.
        inside: Whether the answers contain the structures.
        rows: The wanted rows, ascending.
        smiles: Column of the SMILES; by default that of the training file.
    """
    name = smiles or model.smiles or SMILES
    if smiles is None and inside and name not in columns and SMILES in columns:  # of rows of an SDF file
        name = SMILES
    if not inside:
        wanted, parts = torch.tensor(list(rows)), []
        for block in read_blocks(path, name, 1024, model.features, model.standardise):
            places = torch.isin(block.collection.rows, wanted).nonzero().flatten()
            if len(places):
                parts.append(block.collection.subset(places))
        if not parts:
            raise InputError(f"{path} has none of the predicted rows; give the file that was predicted.")
        whole = joined(parts)
        return whole.rows.tolist(), whole
    if not model.molecular:
        raise InputError(f"{path} has no graphs; name the file that was predicted with --data FILE.")
    otherwise = ", or the file that was predicted with --data FILE"
    column = known_column(name, columns, str(path), True, otherwise)
    made = featurise([text_of(columns[column][row]) for row in rows], standardise=model.standardise)
    found = Collection(made.graphs, model.features, made.rows, len(rows), made.rejected, made.parsed)
    return [rows[place] for place in made.rows.tolist()], found


def check_model(
    model: FittedModel, answers: Answers, structures: tuple[list[int], Collection], path: Path, folder: Path
) -> None:
    """Raise an error if a model predicts something else for some rows than their answers say."""
    rows, collection = structures[0][:CHECKED], structures[1].subset(torch.arange(min(CHECKED, len(structures[0]))))
    if not rows:
        return
    found = model.predict(collection.graphs, scores=False)
    differs = np.zeros(len(rows), dtype=bool)
    for place, names in enumerate(model.classes.values()):
        expected: list[tuple[Sequence[Any], list[float]]] = []
        if found.values is not None:
            expected = [(answers.predicted[place], found.values[:, place].tolist())]
        elif model.task.kind == "multiclass":
            expected = [
                (answers.p[place][name], p.tolist())
                for name, p in zip(names, found.probabilities.T, strict=True)
                if name in answers.p[place]
            ]
        elif names[1] in answers.p[place]:
            expected = [(answers.p[place][names[1]], found.probabilities[:, place].tolist())]
        for given, values in expected:
            differs |= [not _close(given[row], value) for row, value in zip(rows, values, strict=True)]
        if not expected:  # the file has no probabilities of these classes
            codes = found.classes.view(len(rows), -1)[:, place].tolist()
            differs |= [answers.predicted[place][row] != names[code] for row, code in zip(rows, codes, strict=True)]
    if differs.mean() > FEW:
        raise InputError(
            f"{folder} predicts other values than those in {path} ({differs.sum()} of {counted(len(rows), 'row')} "
            "differ); give the model that wrote the file and the structures it read (--data), or predict them again."
        )


def _close(given: float | None, value: float) -> bool:
    """Return whether a number in a file is a predicted one, apart from rounding."""
    return isinstance(given, float) and abs(given - value) <= SAME * max(1.0, abs(value))


def context(
    known: Mapping[str, Any],
    model: FittedModel,
    answers: Answers,
    structures: tuple[list[int], Collection],
    shown: Sequence[int],
    path: Path,
) -> dict[str, Any]:
    """Return what the template of a page of predictions shows."""
    rows, collection = structures
    targets, train = known["targets"], known["parts"]["train"]
    part = GraphRows(collection.graphs, [row + 1 for row in rows], collection.molecules)
    described = evidence.describe(model, part)
    near = nearest_training(model, known, part, described)
    drift = statistics.drift(train["described"], {name: values.tolist() for name, values in described.items()})
    flagged = [bool(one) for one in answers.outside or () if one is not None]
    share = sum(flagged) / len(flagged) if flagged else None
    first = {row: place for place, row in enumerate(rows)}
    drifting = [row for row in drift if row["drifts"]]
    own = [name for name in answers.own if name != model.smiles][:OWN_COLUMNS]
    places = [(row, first[row]) for row in shown if row in first]
    made = table_rows(known, model, answers, collection, places, near, own)
    return {
        "title": f"Predictions for {path.name}",
        "about": known["about"],
        "verdict": verdict(answers, share, drifting, known),
        "tiles": tiles(answers, share, drifting, near, known),
        "targets": [target["name"] for target in targets],
        "classes": targets[0]["classes"] if len(targets) == 1 else [],
        "several": len(targets) > 1,
        "prediction_charts": prediction_charts(known, answers),
        "drift": drift,
        "drift_charts": drift_charts(known, described, near, answers, drift),
        "heads": {
            "own": own,
            "sets": answers.sets is not None,
            "spread": answers.spread is not None,
            "verdict": answers.verdicts is not None,
            "domain": answers.domain_score is not None,
        },
        "rows": made,
        "total": answers.rows - len(answers.problems),
        "compared": len(rows),
        "problems": [(row + 1, reason) for row, reason in list(answers.problems.items())[:LISTED]],
        "unreadable": len(answers.problems),
        "molecular": known["similarity"] != "distance",
        "source": made[0]["source"] if made else "own",
    }


def nearest_training(
    model: FittedModel, known: Mapping[str, Any], part: GraphRows, described: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Return similarity to the nearest training row of the evidence, and its place, both (G, 1)."""
    train = known["parts"]["train"]
    bits = old = None
    if part.molecules is not None and train["smiles"] is not None:
        old = featurise(train["smiles"], standardise=model.standardise).parsed.fingerprints()
        bits = part.molecules.fingerprints()
    before = {name: np.array(values, dtype=float) for name, values in train["described"].items()}
    empty: Any = None
    theirs = Seen(part, empty, np.zeros((len(train["row"]), 1)), before, old)
    return evidence.nearest(Seen(part, empty, np.zeros((0, 1)), dict(described), bits), theirs, count=1)


def verdict(
    answers: Answers, share: float | None, drifting: Sequence[Mapping[str, Any]], known: Mapping[str, Any]
) -> dict[str, str]:
    """Return one sentence on how far the rows are from what the model knows."""
    read = answers.rows - len(answers.problems)
    if share is None:
        return {"kind": "", "text": f"{counted(read, 'row')} predicted; this model has no domain check."}
    usual = known["parts"].get("id_test", {}).get("outside")
    beside = f" (ID test: {page.percent(sum(map(bool, usual)) / len(usual))})" if usual else ""
    text = f"{page.percent(share)} of {counted(read, 'row')} lie outside the domain of the training data{beside}."
    names = ", ".join(row["name"] for row in drifting[:3])
    if len(drifting) > 1:
        text += f" {len(drifting)} properties differ from training, most of all {names}."
    else:
        text += (
            f" One property differs from training: {names}."
            if drifting
            else " No property differs measurably from training."
        )
    if share >= MANY:
        return {"kind": "bad", "text": f"{text} Do not rely on predictions for rows outside the domain."}
    return {"kind": "warn" if share >= SOME else "good", "text": text}


def tiles(
    answers: Answers,
    share: float | None,
    drifting: Sequence[Mapping[str, Any]],
    near: tuple[Any, Any],
    known: Mapping[str, Any],
) -> list[dict[str, str]]:
    """Return the few numbers that a reader looks for first."""
    made = [{"value": f"{answers.rows:,}", "name": "rows", "more": ""}]
    if share is not None:
        made.append({"value": page.percent(share), "name": "outside the domain", "more": ""})
    made.append({"value": str(len(answers.problems)), "name": "cannot be read", "more": ""})
    made.append({"value": str(len(drifting)), "name": "properties differ from training", "more": ""})
    if len(near[0]):
        name = f"median {known['similarity']} to the nearest training row"
        made.append({"value": f"{float(np.median(near[0])):.2f}", "name": name, "more": ""})
    if len(answers.p) == 1:
        for name in answers.p[0]:
            made.append({"value": f"{answers.predicted[0].count(name):,}", "name": f"predicted {name}", "more": ""})
    return made


# Charts ---------------------------------------------------------------------------------------------------------------


def prediction_charts(known: Mapping[str, Any], answers: Answers) -> list[dict[str, Any]]:
    """Return the distribution of predictions of each target beside that of training and OOD test."""
    made = []
    for place, target in enumerate(known["targets"]):
        classes = target["classes"]
        shares = answers.p[place]
        if not classes:
            across, now = f"predicted {target['name']}", answers.predicted[place]
        elif len(classes) == 2 and classes[1] in shares:
            across, now = f"probability of {target['name']} = {classes[1]}", shares[classes[1]]
        else:
            best = [max(filter(None, some), default=None) for some in zip(*shares.values(), strict=True)]
            across, now = "probability of the predicted class", best
        series = [
            Series(known["names"][name], PART_COLOURS[name], _before(known["parts"][name], place, classes))
            for name in ("train", "test")
            if name in known["parts"]
        ]
        series.append(Series("these rows", NEW, [one for one in now if one is not None]))
        made.append(
            figure(target["name"], charts.histogram(series, across), [(one.name, one.colour) for one in series])
        )
        if len(classes) > 2:
            before = known["parts"]["train"]["predicted"][place]
            words = answers.predicted[place]
            rows = []
            for code, name in enumerate(classes):
                rows.append((f"{name}: training", before.count(code) / max(len(before), 1), "train"))
                rows.append((f"{name}: these rows", words.count(name) / max(len(words), 1), NEW))
            made.append(figure(f"{target['name']}: predicted classes", charts.bars(rows, "share of rows", span=(0, 1))))
    return made


def _before(table: Mapping[str, Any], place: int, classes: Sequence[str]) -> list[float]:
    """Return what the evidence has of the same kind of prediction."""
    if not classes:
        values = table["predicted"][place]
    elif len(classes) == 2:
        values = table["p"][place][1]
    else:
        values = [max(some) for some in zip(*table["p"][place], strict=True)]
    return [one for one in values if one is not None]


def drift_charts(
    known: Mapping[str, Any],
    described: Mapping[str, Any],
    near: tuple[Any, Any],
    answers: Answers,
    drift: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return charts of how these rows differ from training, the strongest difference first."""
    rows = [(row["name"], row["ks"], NEW if row["drifts"] else "s8") for row in drift[:12]]
    note = "Kolmogorov-Smirnov distance: 0 = same distribution, 1 = separate. Grey: within chance."
    made = [figure("What differs from training", charts.bars(rows, "distance from training", span=(0, 1)), note=note)]
    for row in drift[:4]:
        name = row["name"]
        before = [one for one in known["parts"]["train"]["described"][name] if one is not None]
        series = [Series("training", "train", before), Series("these rows", NEW, described[name].tolist())]
        whole = all(float(one).is_integer() for some in series for one in some.x)
        made.append(figure(name, charts.histogram(series, name, whole), [(one.name, one.colour) for one in series]))
    for title, across, now, entry in (
        (
            "Nearest training row",
            f"{known['similarity']} to the nearest training row",
            near[0][:, 0].tolist(),
            "nearest",
        ),
        ("Domain score", "domain score", answers.domain_score or [], "domain_score"),
    ):
        values = [one for one in now if one is not None]
        if values:
            series = [
                Series(
                    known["names"][name],
                    PART_COLOURS[name],
                    [one for one in known["parts"][name][entry] if one is not None],
                )
                for name in ("id_test", "test")
                if known["parts"].get(name, {}).get(entry)
            ]
            series.append(Series("these rows", NEW, values))
            made.append(figure(title, charts.histogram(series, across), [(one.name, one.colour) for one in series]))
    return made


# Table ----------------------------------------------------------------------------------------------------------------


def table_rows(
    known: Mapping[str, Any],
    model: FittedModel,
    answers: Answers,
    collection: Collection,
    rows: Sequence[tuple[int, int]],
    near: tuple[Any, Any],
    own: Sequence[str],
) -> list[dict[str, Any]]:
    """Return the rows of the table with their drawings; each row is given by its number and its place."""
    places = [place for _, place in rows]
    drawings = explained(model, collection, places) if answers.verdicts else plainly(model, collection, places)
    targets, train, made = known["targets"], known["parts"]["train"], []
    for (row, place), item in zip(rows, drawings, strict=True):
        said = []
        for number, target in enumerate(targets):
            word, shares, ends = answers.predicted[number][row], answers.p[number], answers.ends[number]
            share = shares.get(word, [None] * answers.rows)[row] if isinstance(word, str) else None
            within = "" if ends is None else page.span({"low": ends[0][row], "high": ends[1][row]})
            said.append({"word": word, "p": share, "ends": within, "number": not target["classes"]})
        closest = int(near[1][place, 0])
        label = [
            page.class_word(target, column[closest])
            for target, column in zip(targets, train["label"], strict=True)
            if column[closest] is not None
        ]
        decided = answers.verdicts and answers.verdicts[row]
        made.append(
            {
                "row": row + 1,
                "drawing": page.drawing({**item, "verdict": decided}, 200, 140),
                "verdict": decided,
                "source": item.get("source"),
                "own": [_cut(answers.columns[name][row]) for name in own],
                "smiles": collection.smiles[place] if collection.smiles else "",
                "answers": said,
                "domain_score": answers.domain_score and answers.domain_score[row],
                "outside": bool(answers.outside and answers.outside[row]),
                "because": answers.because and answers.because[row],
                "spread": answers.spread and answers.spread[row],
                "set": answers.sets and answers.sets[row],
                "near": float(near[0][place, 0]),
                "near_row": train["row"][closest],
                "near_label": ", ".join(label[:3]),
            }
        )
    return made


def plainly(model: FittedModel, collection: Collection, places: Sequence[int]) -> list[dict[str, Any]]:
    """Return what is needed to draw some graphs of a collection without edge scores."""
    graphs, smiles = collection.graphs, collection.smiles
    return [
        {"edges": [], "drawn_smiles": smiles[place]}
        if smiles is not None
        else evidence.drawn(graphs[place], None, model.molecular)
        if int(graphs.sizes[place]) <= evidence.LARGEST
        else {}
        for place in places
    ]


def explained(model: FittedModel, collection: Collection, places: Sequence[int]) -> list[dict[str, Any]]:
    """Return what is needed to draw some graphs of a collection with their edge scores."""
    if not places:
        return []
    some = collection.subset(torch.tensor(list(places)))
    parts = [
        GraphRows(some.graphs.subset([place]), [0], None if some.molecules is None else some.molecules.subset([place]))
        for place in range(len(places))
    ]
    if some.molecules is not None:
        return evidence.explained(model, parts)
    small = [place for place in range(len(places)) if int(some.graphs.sizes[place]) <= evidence.LARGEST]
    graphs: GraphSet = some.graphs.subset(small)
    scores, source = edge_scores(model, graphs) if small else ([], "own")
    found: list[dict[str, Any]] = [{"source": source} for _ in places]
    for at, place in enumerate(small):
        found[place] = {
            **evidence.drawn(graphs[at], None, model.molecular),
            "scores": plain(scores[at]),
            "source": source,
        }
    return found


def _number(value: Any) -> float | None:
    """Return a field as a number, None if it is empty or not a number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _cut(value: Any) -> str:
    text = text_of(value) or ""
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"
