"""Predict the rows of a large table in parts, each a file of its own, in any order and on any machine."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer import files
from goodformer.apply.predict import BLOCK, LISTED, Answers, Further, Watch, answers_key, fresh_names, notes_on
from goodformer.data.readers.collection import Columns, known_column
from goodformer.data.readers.rows import PARQUET, molecule_block, parquet_types, read_rows, retype_empty
from goodformer.data.readers.source import form_of
from goodformer.data.readers.text import SMI, TABLES
from goodformer.errors import InputError
from goodformer.fitted import FittedModel

ROWS = 16_384
"""Rows of a part: some ten seconds of work, so that little is lost and nothing waits long."""
FORMAT = "goodformer parts 1"
ABOUT, DONE = "prediction.json", "parts.jsonl"
"""What is predicted, and one line per finished part."""
LOCK = ".lock"
ROW = "row"
"""Column of the number of a row in the table, counted from 1."""
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@dataclass(frozen=True)
class Predictor:
    """Predicts parts of a table; it can be sent to another machine, which needs neither the table nor the model's file.

    Attributes:
        model: A fitted model.
        smiles: Column of the SMILES.
        level: Level of conformal sets; no sets by default.
        suffix: Format of the parts.
        types: Types of the table's columns, if its format has any.
        more: Further columns.
    """

    model: FittedModel
    smiles: str
    level: float | None
    suffix: str
    types: dict[str, str]
    more: Further

    def __call__(self, part: tuple[int, int, Columns]) -> tuple[int, bytes, dict[str, Any]]:
        """Return the number of a part, the content of its file and its counts; given its number, first row and rows."""
        number, first, columns = part
        column = known_column(self.smiles, columns, "the table", True)
        count = len(columns[column])
        (row,) = fresh_names([ROW], columns)
        numbered = {row: list(range(first + 1, first + count + 1)), **columns}
        room = Path(tempfile.gettempdir())
        with files.writing(room), tempfile.TemporaryDirectory(prefix="goodformer-") as scratch:
            path = Path(scratch) / f"part{self.suffix}"
            with Answers(self.model, path, self.level) as answers:
                for start in range(0, count, BLOCK):
                    some = {name: values[start : start + BLOCK] for name, values in numbered.items()}
                    block = molecule_block(some, first + start, column, self.model.features, self.model.standardise)
                    graphs = block.collection.graphs
                    answer = self.model.predict(graphs, scores=self.more.explain) if len(graphs) else None
                    answers.write(block, answer, self.more.columns(block.collection, answer))
            if self.suffix == PARQUET:
                retype_empty(path, self.types)
            return number, path.read_bytes(), answers.report()


def predict_parts(
    model: FittedModel,
    path: str | Path,
    out: str | Path,
    level: float | None = None,
    smiles: str | None = None,
    size: int = ROWS,
    watch: Watch | None = None,
    each: Each = map,
    neighbours: int = 0,
    explain: bool = False,
) -> dict[str, Any]:
    """Predict every row of a table and write parts of it, with their predictions, into a folder.

    The files ``part-000000.parquet``, ``part-000001.parquet``, ... (``.csv`` if the table is text) hold the rows in
    their order, with their number in the column ``row``. Each file appears when all its rows are predicted; the same
    call after a stop predicts the missing ones. The answers do not depend on ``each``.

    Args:
        model: A fitted model that reads molecules.
        path: The table: ``.csv``, ``.tsv``, ``.txt``, ``.smi`` or ``.parquet``.
        out: The folder.
        level: Level of conformal sets, for example 0.9; no sets by default.
        smiles: Column of the SMILES; by default that of the training file.
        size: Rows per part.
        watch: Called with the number of finished rows.
        each: Applies a function to every item, see `goodformer.executors.each`.
        neighbours: How many of the most similar training rows to name for each row.
        explain: Whether to say which nodes decide, and whether they really do.

    Returns:
        What `goodformer.apply.predict.predict_file` returns, and ``parts``, the number of files.
    """
    place, folder, start = Path(path), Path(out), time.perf_counter()
    form = form_of(place)
    files.check_output(folder / ABOUT, "answers", path)
    if form not in (*TABLES, SMI, PARQUET):
        known = ", ".join((*TABLES, SMI, PARQUET))
        raise InputError(f"{path} cannot be predicted in parts; give a table ({known}), or a file as output.")
    if not place.is_file():
        raise InputError(f"file {path} not found; give a table ({', '.join((*TABLES, SMI, PARQUET))}).")
    suffix = PARQUET if form == PARQUET else ".csv"
    more = Further(model, neighbours, explain)
    column = smiles or model.smiles or "smiles"
    total = 0

    def parts() -> Iterator[tuple[int, int, Columns]]:
        nonlocal total
        number = 0
        for columns in read_rows(place, column, size):
            texts = columns[known_column(column, columns, str(path), True)]
            if texts:
                if number not in done:
                    yield number, total, columns
                number, total = number + 1, total + len(texts)

    types = parquet_types(place) if form == PARQUET else {}
    same = {**answers_key(model, path, level, smiles, BLOCK), **more.settings, "part": size}
    with _opened(folder, same) as done:
        finished = continued = sum(counts["rows"] for counts in done.values())
        for number, content, counts in each(Predictor(model, column, level, suffix, types, more), parts()):
            files.write_bytes(folder / f"part-{number:06d}{suffix}", content)
            _note(folder / DONE, {"part": number, **counts})
            done[number] = counts
            finished += counts["rows"]
            if watch:
                watch(finished)
    if not total:
        raise InputError(f"{path} has no rows; give at least one to predict.")
    problems = [problem for number in sorted(done) for problem in done[number]["problems"]][:LISTED]
    unreadable = sum(counts["unreadable"] for counts in done.values())
    outside = sum(counts["outside"] for counts in done.values()) if model.knows_domain else None
    reason = str(problems[0]["reason"]).rstrip(".") if problems else ""
    seconds = time.perf_counter() - start
    return {
        "rows": total,
        "unreadable": unreadable,
        "problems": problems,
        "outside": outside,
        **more.facts,
        "parts": len(done),
        "continued": continued,
        "rows_per_second": round((total - continued) / max(seconds, 1e-9), 1),
        "failure": f"no row could be read: {reason}." if unreadable == total else None,
        "notes": notes_on(model, path, smiles, level),
        "out": str(out),
    }


def _note(path: Path, line: dict[str, Any]) -> None:
    """Add a line to the list of finished parts."""
    with files.writing(path), path.open("a", encoding="utf-8") as notes:
        notes.write(json.dumps(files.sealed(line)) + "\n")
        notes.flush()
        os.fsync(notes.fileno())


@contextmanager
def _opened(folder: Path, same: dict[str, Any]) -> Iterator[dict[int, dict[str, Any]]]:
    """Yield the finished parts of a folder, which is made or must be of the same prediction; keep other processes out.

    A part whose line is damaged, or the cut last line of a killed process, is predicted again.
    """
    about = json.loads(json.dumps({"format": FORMAT, **same}))
    if not (folder / ABOUT).is_file() and folder.is_dir() and any(one.name != LOCK for one in folder.iterdir()):
        raise InputError(f"the folder {folder} holds other files; name a file or a new folder for the answers.")
    files.make_folder(folder)
    with files.locked(folder / LOCK, folder):
        files.sweep(folder)
        if not (folder / ABOUT).is_file():
            files.write_json(folder / ABOUT, about)
        elif files.read_json(folder / ABOUT) != about:
            raise InputError(
                f"{folder} holds the answers of another model, table or option; choose another folder or remove this "
                "one."
            )
        done: dict[int, dict[str, Any]] = {}
        text = (folder / DONE).read_bytes().decode(errors="replace") if (folder / DONE).is_file() else ""
        for line in text.splitlines():
            with suppress(ValueError, KeyError, TypeError):
                counts = dict(files.unsealed(files.parsed(folder / DONE, line), folder / DONE))
                number = int(counts.pop("part"))
                if any(folder.glob(f"part-{number:06d}.*")):
                    done[number] = counts
        files.write_lines(folder / DONE, [files.sealed({"part": number, **one}) for number, one in done.items()])
        yield done
