"""Jobs: the rows of one request for one model, answered block by block."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import Any, ClassVar

from goodformer.apply.predict import block_answers, fresh_names, without_threshold
from goodformer.data.graphs import GraphSet
from goodformer.data.readers.rows import Block
from goodformer.draw.molecules import formula
from goodformer.errors import InputError
from goodformer.explain.explanation import Explanation, explain
from goodformer.explain.fidelity import is_marked
from goodformer.fitted import FittedModel, Predictions
from goodformer.serve.rows import RequestRows


class Job(ABC):
    """Rows of one request; a worker reads a block, answers it, and comes back for the next one.

    Args:
        name: Name of the model.
        model: The model.
        rows: The rows.
        level: Level of conformal sets; no sets by default.

    Attributes:
        done: The answer as plain values, or an error.
        block: The block to be answered next; None before the first one and after the last one.
    """

    size: ClassVar[int]
    """Rows per block: other requests wait while a block is answered."""
    together: ClassVar[bool]
    """Whether jobs of one kind share a model call."""

    def __init__(self, name: str, model: FittedModel, rows: RequestRows, level: float | None = None) -> None:
        self.name, self.model, self.rows, self.level = name, model, rows, level
        self.done: Future[dict[str, Any]] = Future()
        self.block: Block | None = None
        self._blocks: Generator[Block] = rows.blocks(self.size)
        self._count = self._unreadable = self._outside = 0
        self._input: dict[str, list[Any]] = {}
        self._answer: dict[str, list[Any]] = {}
        self._molecules: list[str | None] = []

    @property
    def kind(self) -> tuple[type[Job], str]:
        """Jobs of the same kind can be answered together."""
        return type(self), self.name

    @property
    def expected(self) -> int:
        """Rows of the next block, at most."""
        given = self.rows.given
        return self.size if isinstance(given, bytes) else min(len(given), self.size)

    def advance(self) -> bool:
        """Read the next block and return whether there is one; without one, the job is done."""
        try:
            if self.done.cancelled():
                raise InputError("nobody waits for the answer.")
            self.block = next(self._blocks, None)
            if self.block is None:
                if not self._count:
                    raise InputError("the request has no rows; give at least one to predict.")
                self._finish()
        except Exception as error:
            self.fail(error)
        return self.block is not None

    def fail(self, error: Exception) -> None:
        """End the job with an error."""
        self.block = None
        self._blocks.close()
        with suppress(InvalidStateError):  # nobody waits any more
            self.done.set_exception(error)

    def _finish(self) -> None:
        names = fresh_names(list(self._answer), self._input)
        answer = dict(zip(names, self._answer.values(), strict=True))
        result = {
            "model": self.name,
            "rows": self._count,
            "unreadable": self._unreadable,
            "outside": self._outside if self.model.knows_domain else None,
            "input": list(self._input),
            "answer": names,
            "columns": {name: list(map(_finite, values)) for name, values in {**self._input, **answer}.items()},
            "molecules": self._molecules if self.model.molecular else None,
            "notes": [*self.rows.notes, *without_threshold(self.model, self.level)],
            **self.extra(),
        }
        with suppress(InvalidStateError):
            self.done.set_result(result)

    def extra(self) -> dict[str, Any]:
        """Return further entries of the answer."""
        return {}

    @classmethod
    @abstractmethod
    def answers(cls, jobs: Sequence[Any]) -> list[Any]:
        """Return what the model answers to the current block of each job, all of one kind; None without a graph."""

    def add(self, answer: Any) -> None:
        """Add what `answers` returned for the current block."""
        block, predictions = self.block, self.predictions_of(answer)
        assert block is not None
        columns = block_answers(self.model, block, predictions, self.level)
        for table, values in ((self._input, block.columns), (self._answer, columns)):
            for name, part in values.items():
                table.setdefault(name, []).extend(part)
        found = block.collection
        molecules: list[str | None] = [None] * found.count
        for row, text in zip(found.rows.tolist(), found.smiles or (), strict=False):
            molecules[row - block.first] = text
        self._molecules += molecules
        self._count += found.count
        self._unreadable += len(found.rejected)
        self._outside += sum(value is True for value in columns.get("outside", []))

    def predictions_of(self, answer: Any) -> Predictions | None:
        """Return the predictions in an answer."""
        return answer  # type: ignore[no-any-return]


class PredictionJob(Job):
    """Predictions."""

    size, together = 64, True

    @classmethod
    def answers(cls, jobs: Sequence[Job]) -> list[Predictions | None]:
        """Predict the blocks of all jobs in one call."""
        graphs = [job.block.collection.graphs for job in jobs if job.block is not None]
        filled = [one for one in graphs if len(one)]
        if not filled:
            return [None] * len(jobs)
        answer = jobs[0].model.predict(filled[0] if len(filled) == 1 else GraphSet.concat(filled), scores=False)
        if len(jobs) == 1:
            return [answer]
        ends = list(accumulate(map(len, graphs), initial=0))
        return [answer.subset(range(start, end)) if start < end else None for start, end in pairwise(ends)]


class Explanations(Job):
    """Predictions with edge and node scores, fidelity, and a formula of each molecule.

    Args:
        name: Name of the model.
        model: The model.
        rows: The rows.
        k: Edges to choose; by default as the scores suggest.
    """

    size, together = 8, False

    def __init__(self, name: str, model: FittedModel, rows: RequestRows, k: int | None = None) -> None:
        super().__init__(name, model, rows)
        self.k = k
        self._graphs: list[dict[str, Any]] = []
        self._source: str | None = None

    def extra(self) -> dict[str, Any]:
        """Return the source of the scores and one entry per readable row."""
        return {"explanation": self._source, "graphs": self._graphs}

    @classmethod
    def answers(cls, jobs: Sequence[Explanations]) -> list[Explanation | None]:
        """Explain the block of each job."""
        found: list[Explanation | None] = []
        for job in jobs:
            assert job.block is not None
            read = job.block.collection
            names = [f"row {row + 1}" for row in read.rows.tolist()]
            found.append(explain(job.model, read.graphs, names, job.k, read.smiles) if len(read) else None)
        return found

    def add(self, answer: Explanation | None) -> None:
        """Add predictions, scores and formulas."""
        super().add(answer)
        if answer is None or self.block is None:
            return
        read, self._source = self.block.collection, answer.source
        binaries = read.molecules.binaries() if read.molecules is not None and read.as_written else None
        for place, row in enumerate(read.rows.tolist()):
            record = {"row": row + 1, **answer.record(place, self.k)}
            record["marked"] = is_marked(record["verdict"])
            if self.model.molecular:
                graph, scores = answer.graphs[place], answer.scores[place]
                molecule = binaries[place] if binaries else graph
                drawn = formula(molecule, graph.edge_index, scores, self.k, record["marked"])
                record |= {"elements": drawn.elements, "places": drawn.places, "picture": drawn.svg}
            self._graphs.append(record)

    def predictions_of(self, answer: Explanation | None) -> Predictions | None:
        """Return the predictions in an explanation."""
        return None if answer is None else answer.answer


def _finite(value: Any) -> Any:
    """Return the value, or None if it is a number that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
