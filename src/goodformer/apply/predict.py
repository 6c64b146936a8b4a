"""Predict every row of a user's file, block by block."""

from __future__ import annotations

import math
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from goodformer import files
from goodformer.apply.part import PartFile
from goodformer.data.digest import digest
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import RDKIT, VERSION, symbol
from goodformer.data.readers.collection import Collection
from goodformer.data.readers.rows import Block, RowWriter, read_blocks, reading_notes, written_columns
from goodformer.data.readers.source import form_of
from goodformer.errors import InputError
from goodformer.fitted import MEANING, FittedModel, Predictions
from goodformer.spec import ANSWER_PREFIX, BECAUSE, SMILES
from goodformer.uncertainty.conformal import conformal_rank
from goodformer.uncertainty.domain import INSIDE, LARGER, NEW_KIND, UNUSUAL

if TYPE_CHECKING:
    from goodformer.explain.fidelity import Fidelity
    from goodformer.explain.subgraph import Size

BLOCK = 1024
"""Rows that are read, predicted and written at a time."""
LISTED = 20
"""Unreadable rows that a report lists."""
PROBLEM, STANDARDISED, PREDICTED = "problem", "standardised", "predicted"
WORDS = {
    UNUSUAL: "unlike the training rows",
    LARGER: "more than twice as large as any training row",
}
"""Why a row is outside the domain; elements and kinds of nodes are named apart."""
LINE = re.compile(r"\bline \d+\b")
"""Occurs in the reason if a line of JSON is a graph but does not fit the model."""
OLD_READER = (
    "the model was fitted before chirality was read as R and S; fit it again if its molecules have stereo centres."
)
Columns = dict[str, list[Any]]
Watch = Callable[[int], None]
"""Called with the number of finished rows."""


def predict_file(
    model: FittedModel,
    path: str | Path,
    out: str | Path,
    level: float | None = None,
    smiles: str | None = None,
    size: int = BLOCK,
    watch: Watch | None = None,
    neighbours: int = 0,
    explain: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Predict every row of a file and write the rows with their predictions into another file.

    Rows keep their order and all their columns. A row that cannot be read has empty predictions and the reason in the
    column ``problem``. Rows pass through in blocks, so a file may be larger than memory. ``out`` appears when all rows
    are written; until then they are in ``out`` with ``.part`` added, which the same call continues after a stop.

    Args:
        model: A fitted model.
        path: Rows to predict, see `goodformer.data.readers.rows.read_blocks`.
        out: Where to write them; the extension sets the format (csv, tsv, parquet, json, jsonl).
        level: Level of conformal sets or intervals, for example 0.9; none by default.
        smiles: Column of the SMILES; by default that of the training file.
        size: Rows per block; it does not change the predictions.
        watch: Called with the number of finished rows.
        neighbours: How many of the most similar training rows to name for each row.
        explain: Whether to say which nodes decide, and whether they really do; takes more than 22 predictions per row.
        overwrite: Whether to replace a file that holds no answers; earlier answers are replaced in any case.

    Returns:
        Counts of rows, of unreadable rows with the first reasons, and of rows outside the domain; ``continued``, the
        rows of an earlier call; ``rows_per_second``; ``failure`` holds one sentence if no row could be read.
    """
    files.check_output(out, "answers", path)
    files.check_replaceable(out, holds_answers, overwrite)
    start = time.perf_counter()
    more = Further(model, neighbours, explain)
    same = {**answers_key(model, path, level, smiles, size), **more.settings}
    with PartFile(out, same) as part, Answers(model, out, level, part) as answers:
        continued = answers.rows
        if watch and continued:
            watch(continued)
        for block in model_blocks(model, path, smiles, size, continued):
            found = block.collection.graphs
            answer = model.predict(found, scores=explain) if len(found) else None
            answers.write(block, answer, more.columns(block.collection, answer))
            if watch:
                watch(answers.rows)
        if not answers.rows:
            raise InputError(f"{path} has no rows; give at least one to predict.")
    report, failure = answers.report(), None
    seconds = time.perf_counter() - start
    report |= {"continued": continued, "rows_per_second": round((answers.rows - continued) / max(seconds, 1e-9), 1)}
    if report["unreadable"] == report["rows"]:
        reason = str(report["problems"][0]["reason"]).rstrip(".")
        if form_of(path) == ".jsonl" and model.molecular and LINE.search(reason):
            reason = f"{path} contains graphs, but the model was trained on molecules; give SMILES or an SDF file"
        failure = f"no row could be read: {reason}."
    notes = notes_on(model, path, smiles, level)
    if part.discarded:
        notes.append(f"{part.discarded:,} rows of another, stopped command for {out} were discarded.")
    return {**report, **more.facts, "failure": failure, "notes": notes, "out": str(out)}


def answers_key(
    model: FittedModel, path: str | Path, level: float | None, smiles: str | None, size: int
) -> dict[str, Any]:
    """Return what decides the answers: a call with the same continues a stopped one."""
    place = Path(path)
    facts = place.stat() if place.exists() else None
    file = [digest(place)] if place.is_dir() else [facts and facts.st_size, facts and facts.st_mtime_ns]
    return {
        "molecules": [VERSION, RDKIT],
        "weights": model.file.sha256 or secrets.token_hex(),  # a model that is not saved is not known again
        "uncertainty": model.uncertainty and model.uncertainty.checksum,
        "reading": [smiles or model.smiles, model.standardise, model.reader],
        "classes": model.classes,
        "input": [str(files.real(place)), *file],
        "level": level,
        "block": size,
    }


class Answers:
    """A table of rows with their predictions, written block by block.

    Args:
        model: A fitted model.
        path: The file to write; the first block decides its columns.
        level: Level of conformal sets; no sets by default.
        part: Where rows are written until all are there; by default a file that an interrupted call does not leave.

    Attributes:
        rows: Rows written so far.
    """

    def __init__(
        self, model: FittedModel, path: str | Path, level: float | None = None, part: PartFile | None = None
    ) -> None:
        self.model, self.path, self.level, self.part = model, path, level, part
        earlier = {} if part is None else part.notes
        self.rows, self.outside = 0 if part is None else part.rows, int(earlier.get("outside", 0))
        self.unreadable = int(earlier.get("unreadable", 0))
        self.problems: list[dict[str, Any]] = list(earlier.get("problems", ()))
        self._files = ExitStack()
        self._writer: RowWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._files.__exit__(*error)

    def write(self, block: Block, answer: Predictions | None, more: Columns | None = None) -> None:
        """Add the rows of a block, with ``more`` columns; ``answer`` is None if none of them can be read."""
        collection = block.collection
        columns = block_answers(self.model, block, answer, self.level, more)
        self.outside += sum(value is True for value in columns.get("outside", []))
        names = fresh_names(list(columns), block.columns)
        table = {**block.columns, **dict(zip(names, columns.values(), strict=True))}
        self.rows += collection.count
        self.unreadable += len(collection.rejected)
        self.problems = [*self.problems, *problems_of(collection)][:LISTED]
        if self.part is not None:
            notes = {"outside": self.outside, "unreadable": self.unreadable, "problems": self.problems}
            self.part.write(table, notes)
            return
        if self._writer is None:
            self._writer = self._files.enter_context(RowWriter(self.path, list(table)))
        self._writer.write(table)

    def report(self) -> dict[str, Any]:
        """Return counts of rows, of unreadable rows, and of rows outside the domain (None without uncertainty)."""
        return {
            "rows": self.rows,
            "unreadable": self.unreadable,
            "problems": self.problems,
            "outside": self.outside if self.model.knows_domain else None,
        }


def block_answers(
    model: FittedModel,
    block: Block,
    answer: Predictions | None,
    level: float | None = None,
    more: Columns | None = None,
) -> Columns:
    """Return the answer columns for all rows of a block, with None in rows that cannot be read.

    Rows of an SDF file also get their SMILES, since a table cannot hold their mol blocks.

    Args:
        model: A fitted model.
        block: The rows.
        answer: Predictions for the graphs of the block; None if it has none.
        level: Level of conformal sets; no sets by default.
        more: Further columns of the rows that can be read.
    """
    collection = block.collection
    places = [int(row) - block.first for row in collection.rows]
    found = {**answer_columns(model, answer, level), **(more or {})}
    if model.standardise != "none":
        found[STANDARDISED] = list(collection.smiles or ())
    elif collection.smiles is not None and not collection.as_written and SMILES not in block.columns:
        found = {SMILES: list(collection.smiles), **found}
    columns: Columns = {}
    for name, values in found.items():
        columns[name] = [None] * collection.count
        for place, value in zip(places, values, strict=True):
            columns[name][place] = value
    columns[PROBLEM] = [None] * collection.count
    for rejected in collection.rejected:
        columns[PROBLEM][rejected.row - block.first] = rejected.reason
    return columns


def answer_columns(model: FittedModel, answer: Predictions | None, level: float | None = None) -> Columns:
    """Return the columns of answers, one value per graph; no graphs if there is no prediction.

    These are class and probabilities, or values; domain score and why a row is outside; spread; and conformal sets, or
    ends of intervals.
    """
    answer = model.empty() if answer is None else answer
    columns = _value_columns(model, answer) if model.task.measured else _class_columns(model, answer)
    if answer.domain_score is not None and answer.reason is not None:
        columns["domain_score"] = _rounded(answer.domain_score)
        columns["outside"] = (answer.reason != INSIDE).tolist()
        alike = answer.similarity.tolist() if answer.similarity is not None else [None] * len(answer)
        columns[BECAUSE] = [_because(model, *row) for row in zip(answer.reason.tolist(), alike, strict=True)]
    if answer.spread is not None:
        columns["spread"] = _rounded(answer.spread)
    if level is None:
        return columns
    if model.uncertainty is None:
        raise InputError("this model has no conformal sets; fit it with goodformer fit, or leave --sets out.")
    if model.task.measured:
        return columns | _interval_columns(model, answer, level)
    inside = model.uncertainty.sets(answer.logits, level)  # (B, C), or (B, T, 2) for binary targets
    inside = inside[:, None] if inside.dim() == 2 else inside  # (B, T, K)
    for place, (target, names) in enumerate(model.classes.items()):
        rows = inside[:, place].tolist()
        held = ["|".join(name for name, inside in zip(names, row, strict=True) if inside) for row in rows]
        columns[f"{target}_set" if len(model.classes) > 1 else "set"] = held
    return columns


def _because(model: FittedModel, code: int, similarity: float | None) -> str | None:
    """Return why a row is outside the domain, with its similarity to the nearest training row; None if it is inside."""
    if code < NEW_KIND:
        nearest = f" (nearest similarity {similarity:.2f})" if code == UNUSUAL and similarity is not None else ""
        return None if code == INSIDE else f"{WORDS[code]}{nearest}"
    element = symbol(code - NEW_KIND) if model.molecular else ""
    what = f"contains {'an H atom of its own, such as deuterium' if element == 'H' else element or 'a kind of node'}"
    return f"{what}, which no training row has"


def _class_columns(model: FittedModel, answer: Predictions) -> Columns:
    """Return class and probabilities of each target."""
    shares, columns = answer.probabilities, {}  # (B, C)
    if len(model.classes) > 1:
        for place, (target, names) in enumerate(model.classes.items()):
            columns[f"{target}_predicted"] = [names[code] for code in answer.classes[:, place].tolist()]
            columns[f"{target}_p_{names[1]}"] = _rounded(shares[:, place])
        return columns
    (names,) = model.classes.values()
    shares = torch.cat((1 - shares, shares), 1) if model.task.kind == "binary" else shares
    columns["predicted"] = [names[code] for code in answer.classes.flatten().tolist()]
    return columns | {f"p_{name}": _rounded(shares[:, place]) for place, name in enumerate(names)}


def _value_columns(model: FittedModel, answer: Predictions) -> Columns:
    """Return the predicted value of each measured target."""
    assert answer.values is not None
    return {f"{prefix}predicted": _digits(answer.values[:, place]) for place, prefix in enumerate(_prefixes(model))}


def _interval_columns(model: FittedModel, answer: Predictions, level: float) -> Columns:
    """Return lower and upper end of the interval of each measured target; empty where it is unbounded."""
    assert model.uncertainty is not None
    assert answer.hardness is not None
    ends = model.uncertainty.intervals(answer.logits, answer.hardness, level)  # (B, T, 2)
    return {
        f"{prefix}{name}": _digits(ends[:, place, side])
        for place, prefix in enumerate(_prefixes(model))
        for side, name in enumerate(("lower", "upper"))
    }


def _prefixes(model: FittedModel) -> list[str]:
    """Return what the columns of each target start with: its name if there are several."""
    return [f"{target}_" for target in model.classes] if len(model.classes) > 1 else [""]


def _digits(values: Tensor) -> list[float | None]:
    """Return measured values with seven significant digits, None where they are not finite."""
    return [float(f"{value:.7g}") if math.isfinite(value) else None for value in values.double().tolist()]


class Further:
    """Further columns of predictions: the nearest training rows, and the verdict on an explanation.

    Args:
        model: A fitted model.
        neighbours: How many training rows to name for each row; 0 for none.
        explain: Whether to add the columns of `reason_columns`.
    """

    def __init__(self, model: FittedModel, neighbours: int = 0, explain: bool = False) -> None:
        self.model, self.count, self.explain = model, neighbours, explain
        if neighbours and model.training is None:
            raise InputError(
                "this model has no training rows to compare with; fit it again with goodformer fit, or leave "
                "--neighbours out."
            )

    @property
    def settings(self) -> dict[str, Any]:
        """What decides these columns; empty if there are none."""
        if not self.count and not self.explain:
            return {}
        rows = self.model.file.about.get(MEANING, {}).get("training")
        return {"neighbours": self.count, "explain": self.explain, "training": rows}

    @property
    def facts(self) -> dict[str, Any]:
        """Entries of a report: what similarity is, and how many training rows are compared."""
        rows = self.model.training
        if not self.count or rows is None:
            return {}
        return {"neighbours": {"similarity": rows.measure, "rows": len(rows), "training_rows": rows.total}}

    def columns(self, collection: Collection, answer: Predictions | None) -> Columns:
        """Return the columns of the readable rows of a block."""
        columns: Columns = {}
        if self.count:
            found = self.model.neighbours(collection, self.count) if len(collection) else []
            fields = ("row", *(("smiles",) if self.model.molecular else ()), "similarity", "label")
            for place in range(self.count):
                for name in fields:
                    values = [getattr(row[place], name) if place < len(row) else None for row in found]
                    columns[f"neighbour_{place + 1}_{name}"] = values
        if self.explain and answer is None:
            columns |= no_reasons()
        elif self.explain and answer is not None:
            from goodformer.explain.explanation import edge_scores, measure_fidelity  # loads PyG's explainers

            scores, _ = edge_scores(self.model, collection.graphs, answer)
            found_parts = measure_fidelity(self.model, collection.graphs, answer, scores)
            columns |= reason_columns(collection.graphs, scores, found_parts)
        return columns


def holds_answers(path: Path, *more: str) -> bool:
    """Return whether a table ends with the columns of answers, among them ``more``; see `block_answers`."""
    names = written_columns(path) or [""]
    prefix = names[-1].removesuffix(PROBLEM)
    if names[-1] != prefix + PROBLEM or prefix.replace(ANSWER_PREFIX, ""):
        return False
    own = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return any(name.endswith(PREDICTED) for name in own) and set(more) <= set(own)


def reason_columns(graphs: GraphSet, scores: Sequence[Tensor], found: Fidelity, k: Size = None) -> Columns:
    """Return the verdict on each graph and the nodes of its marked part, numbered as in the input.

    See `goodformer.explain.fidelity.VERDICTS`; a graph without a single part that matters has no marked nodes.
    """
    from goodformer.explain.explanation import marked_nodes
    from goodformer.explain.fidelity import is_marked

    verdicts, nodes = found.verdicts, marked_nodes(graphs, scores, k)
    marked = [" ".join(map(str, part)) if is_marked(one) else "" for one, part in zip(verdicts, nodes, strict=True)]
    return {"verdict": verdicts, "marked": marked}


def no_reasons() -> Columns:
    """Return the columns of `reason_columns` of no graph."""
    return {"verdict": [], "marked": []}


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 6) for value in values.double().tolist()]


def model_blocks(model: FittedModel, path: str | Path, smiles: str | None, size: int, skip: int = 0) -> Iterator[Block]:
    """Return the rows of a file as the model reads them, after the first ``skip`` ones."""
    if model.attributes is not None:
        raise InputError(
            "the model was fitted to networkx graphs and encodes their attributes itself, which a file does not hold; "
            "predict networkx graphs from Python, or fit a model to a file."
        )
    return read_blocks(path, smiles or model.smiles or "smiles", size, model.features, model.standardise, skip)


def notes_on(model: FittedModel, path: str | Path, smiles: str | None = None, level: float | None = None) -> list[str]:
    """Return sentences on how a file was read and on limits of the model's uncertainty, or of its sets of a level."""
    read = reading_notes(path, smiles or model.smiles or "smiles")
    old = model.molecular and model.uncertainty is not None and model.reader < 2
    limits = model.uncertainty.notes if model.uncertainty else ()
    return [*read, *([OLD_READER] if old else []), *limits, *without_threshold(model, level)]


def without_threshold(model: FittedModel, level: float | None) -> list[str]:
    """Return a sentence if there are too few validation labels for intervals or sets of a level."""
    known = model.uncertainty
    if level is None or known is None:
        return []
    fewest = int(known.counts.min())
    if conformal_rank(fewest, level) <= fewest:
        return []
    needed = math.ceil(level / (1 - level) - 1e-9)
    if model.task.measured:
        what = f"{100 * level:g} % intervals need {needed} ID validation values, the model has {fewest}"
        return [f"{what}: they are left empty."]
    always = [
        name if len(model.classes) == 1 else f"{target} = {name}"
        for (target, names), counts in zip(model.classes.items(), known.counts.tolist(), strict=True)
        for name, count in zip(names, counts, strict=True)
        if conformal_rank(int(count), level) > count
    ]
    more = f" and {len(always) - LISTED} more" if len(always) > LISTED else ""
    what = f"every {100 * level:g} % set contains {', '.join(always[:LISTED])}{more}"
    return [f"{what}: {needed} ID validation rows of a class are needed to exclude it."]


def problems_of(collection: Collection) -> list[dict[str, Any]]:
    """Return the rows that cannot be read, counted from 1."""
    return [{"row": one.row + 1, "text": one.text, "reason": one.reason} for one in collection.rejected]


def fresh_names(wanted: Sequence[str], taken: Sequence[str] | dict[str, Any]) -> list[str]:
    """Return names for new columns; all get a prefix, repeatedly, while one of them is taken by an input column."""
    names = list(wanted)
    while set(taken) & set(names):
        names = [f"{ANSWER_PREFIX}{name}" for name in names]
    return names
