"""Explain every row of a user's file: tables of edge and node scores, and pictures of some rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from goodformer import files
from goodformer.apply.explanation import EDGES as SCORES
from goodformer.apply.explanation import MOST_ATOMS, PICTURE, READABLE, check_explained, explain_graphs
from goodformer.apply.predict import (
    Answers,
    Columns,
    Watch,
    holds_answers,
    model_blocks,
    no_reasons,
    notes_on,
    reason_columns,
)
from goodformer.data.graphs import GraphSet
from goodformer.data.readers.collection import Collection
from goodformer.data.readers.rows import RowWriter, written_columns
from goodformer.data.readers.values import counted
from goodformer.engine.precision import node_scores
from goodformer.errors import InputError, check_name
from goodformer.explain.explanation import edge_scores, measure_fidelity, plain
from goodformer.explain.fidelity import Fidelity, joined_scores
from goodformer.explain.subgraph import Size, Undirected
from goodformer.fitted import FittedModel, Predictions

BLOCK = 256
"""Rows that are read, explained and written at a time."""
FORMS = ("csv", "tsv", "parquet", "json", "jsonl")
EDGES = ("row", "source", "target", "score", "chosen")
NODES = ("row", "node", "score", "chosen")
ENDS, OWN_NAME = ("source_name", "target_name"), ("name",)
"""Further columns if nodes have names."""


def explain_file(
    model: FittedModel,
    path: str | Path,
    out: str | Path,
    count: int = 12,
    k: Size = None,
    form: str = "csv",
    smiles: str | None = None,
    watch: Watch | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Explain every row of a file: tables of predictions, edge scores and node scores, and a picture of the first rows.

    Rows are numbered from 1 in the order of the file; nodes and atoms from 0 in the order of the graph or SMILES. Rows
    pass through in blocks, so a file may be larger than memory. Each row is predicted and scored once; its verdict
    takes 22 more predictions, of parts of it. Small molecules are drawn before large ones, which a note says.

    Args:
        model: A fitted model.
        path: Rows to explain, see `goodformer.data.readers.rows.read_blocks`.
        out: Folder for ``answers``, ``edges`` and ``nodes`` (tables), ``subgraphs.png`` and ``edges.json``.
        count: How many rows are drawn, and listed in ``edges.json``.
        k: Number or share of undirected edges to choose, see `goodformer.explain.subgraph.Undirected.sizes`.
        form: Format of the tables: csv, tsv, parquet, json or jsonl.
        smiles: Column of the SMILES; by default that of the training file.
        watch: Called with the number of finished rows.
        overwrite: Whether to replace other files of these names; an earlier explanation is replaced in any case.
    """
    check_name("format", form, FORMS)
    folder, source = Path(out), "own"
    tables = _tables(folder, form)
    for place in tables:
        files.check_output(place, "tables", path)
    _check_earlier(tables, overwrite)
    check_explained(folder, overwrite=overwrite)
    files.make_folder(folder)
    shown = Shown(count, (READABLE, MOST_ATOMS) if model.molecular else ())
    with ExitStack() as opened:  # tables appear when all rows are written
        answers = opened.enter_context(Answers(model, tables[0]))
        writers: list[RowWriter] = []
        for block in model_blocks(model, path, smiles, BLOCK):
            answer, reasons = None, no_reasons()
            if not writers:
                named = block.collection.names is not None
                heads = ((*EDGES, *ENDS), (*NODES, *OWN_NAME)) if named else (EDGES, NODES)
                writers = [opened.enter_context(RowWriter(*one)) for one in zip(tables[1:], heads, strict=True)]
            if len(block.collection.graphs):
                ready = model.prepare(block.collection.graphs)
                answer = model.predict(ready)
                scores, source = edge_scores(model, ready, answer)
                for table, columns in zip(writers, score_columns(block.collection, scores, k), strict=True):
                    table.write(columns)
                found = measure_fidelity(model, block.collection.graphs, answer, scores, k)
                reasons = reason_columns(block.collection.graphs, scores, found, k)
                shown.add(block.collection, answer, scores, found)
            answers.write(block, answer, reasons)
            if watch:
                watch(answers.rows)
        report = answers.report()
        if not shown.rows:  # raised before the tables are closed, so that those of an earlier call stay
            first = report["problems"][0]["reason"] if report["problems"] else "the file has no rows"
            raise InputError(f"no row of {path} can be read ({first}); give at least one graph to explain.")
    report["notes"] = [*notes_on(model, path, smiles), *shown.notes()]
    if not shown.drawable:
        (folder / f"{PICTURE}.png").unlink(missing_ok=True)  # of an earlier call
    rows = shown.rows
    known = Predictions.concat([row.answer for row in rows]), [row.scores for row in rows], source
    drawn = explain_graphs(
        model,
        GraphSet.concat([row.graph for row in rows]),
        folder,
        [row.name for row in rows],
        k,
        smiles=shown.smiles,
        picture_limit=shown.drawable,
        note=shown.missing,
        molecules=None if shown.smiles is None else [row.molecule or b"" for row in rows],
        known=known,
        node_names=None if any(row.names is None for row in rows) else [row.names or () for row in rows],
        measured=Fidelity.concat([row.fidelity for row in rows]),
        overwrite=True,  # checked above
    )
    return {**report, "tables": [str(table) for table in tables], **drawn, "notes": [*report["notes"], *drawn["notes"]]}


def _tables(folder: Path, form: str) -> list[Path]:
    """Return the files of answers, edges and nodes; as JSON, edges have another name than the file of scores."""
    names = ("answers", "edges", "nodes")
    return [folder / (f"{name}.{form}" if f"{name}.{form}" != SCORES else f"{name}-table.{form}") for name in names]


def _check_earlier(tables: Sequence[Path], overwrite: bool) -> None:
    """Raise an error if the tables would replace other files than those of an earlier explanation."""
    answers, edges, nodes = tables
    files.check_replaceable(answers, lambda path: holds_answers(path, *no_reasons()), overwrite)
    for table, heads in ((edges, EDGES), (nodes, NODES)):
        files.check_replaceable(table, partial(_holds, heads), overwrite)


def _holds(heads: tuple[str, ...], path: Path) -> bool:
    """Return whether a file is a table of scores with these first columns; JSON without rows has none."""
    names = written_columns(path)
    return names is not None and tuple(names or heads)[: len(heads)] == heads


@dataclass(frozen=True)
class ExplainedRow:
    """A row that may be drawn.

    Attributes:
        number: Its number in the file, from 1.
        order: Its number, from 0, among the readable rows.
        graph: The graph, alone in its set.
        answer: Its prediction.
        scores: Its edge scores, (E,).
        fidelity: How much its prediction depends on the chosen edges.
        smiles: Its SMILES, if the atoms are in that order.
        molecule: The same molecule in RDKit's binary form, so that it is not parsed again.
        rank: Its class of size, from 0.
        names: Names of its nodes, if they have some.
    """

    number: int
    order: int
    graph: GraphSet
    answer: Predictions
    scores: Tensor
    fidelity: Fidelity
    smiles: str | None
    molecule: bytes | None
    rank: int
    names: tuple[str | int, ...] | None = None

    @property
    def name(self) -> str:
        """Its name in the picture."""
        return f"row {self.number}"


class Shown:
    """The rows of a file that are drawn: the first ones, smaller classes of size before larger ones.

    Args:
        count: How many rows to draw.
        limits: Largest number of nodes that is readable in a picture of several graphs, and that is drawn at all;
            empty if size does not matter.
    """

    def __init__(self, count: int, limits: tuple[int, ...] = ()) -> None:
        self.count, self.limits, self._seen = count, limits, 0
        self._kept: list[list[ExplainedRow]] = [[] for _ in range(len(limits) + 1)]

    def add(self, collection: Collection, answer: Predictions, scores: Sequence[Tensor], found: Fidelity) -> None:
        """Keep the rows of a block that may be drawn."""
        ranks = torch.bucketize(collection.graphs.sizes, torch.tensor(self.limits, dtype=torch.long))  # (G,)
        molecules = collection.molecules if collection.as_written else None
        for rank, kept in enumerate(self._kept):
            kept += [
                ExplainedRow(
                    int(collection.rows[place]) + 1,
                    self._seen + place,
                    collection.graphs.subset([place]),
                    answer.subset([place]),
                    scores[place],
                    found.subset([place]),
                    None if molecules is None else molecules.smiles[place],
                    None if molecules is None else molecules.subset([place]).binaries()[0],
                    rank,
                    None if collection.names is None else collection.names[place],
                )
                for place in (ranks == rank).nonzero().flatten()[: self.count - len(kept)].tolist()
            ]
        self._seen += len(ranks)

    @property
    def rows(self) -> list[ExplainedRow]:
        """The chosen rows; those too large to draw come last."""
        return [row for kept in self._kept for row in kept][: self.count]

    @property
    def drawable(self) -> int:
        """How many of them, the first ones, are drawn."""
        return sum(row.rank < 2 for row in self.rows)

    @property
    def smiles(self) -> list[str] | None:
        """Their SMILES; None if one is missing or its atoms have another order."""
        found = [row.smiles for row in self.rows if row.smiles is not None]
        return found if found and len(found) == len(self.rows) else None

    @property
    def skipped(self) -> int:
        """How many rows before the last chosen one were skipped because of their size."""
        return max((row.order + 1 for row in self.rows), default=0) - len(self.rows)

    @property
    def missing(self) -> str:
        """A phrase for the picture on the molecules it leaves out."""
        left = self.skipped + len(self.rows) - self.drawable
        return f"{counted(left, 'molecule')} with more than {self.limits[0]} atoms left out" if left else ""

    def notes(self) -> list[str]:
        """Return a sentence on rows that were skipped, and one on rows that are too large to draw."""
        notes, chosen = [], {row.number for row in self.rows}
        if self.skipped:
            first = min(row.number for kept in self._kept[1:] for row in kept if row.number not in chosen)
            large = f"{counted(self.skipped, 'molecule')} with more than {self.limits[0]} atoms"
            notes.append(f"the picture leaves out {large} (first: row {first}); explain them in a file of their own.")
        if left := self.rows[self.drawable :]:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            size = f"more than {self.limits[1]} atoms"
            notes.append(f"{left[0].name}{more} not drawn: {size}; the tables contain their scores.")
        return notes


def score_columns(collection: Collection, scores: Sequence[Tensor], k: Size) -> tuple[Columns, Columns]:
    """Return one line per undirected edge and one per node: its score, and whether it is in the chosen subgraph."""
    graphs = collection.graphs.as_given()
    pairs = Undirected.of(graphs)
    value = pairs.mean(joined_scores(graphs, scores))  # (M,)
    chosen = pairs.best(value, pairs.sizes(value, k, graphs.edge.get("truth")))  # (M,)
    source, target = pairs.ends - graphs.node_ptr[pairs.graph]  # (M,), (M,)
    count = int(graphs.node_ptr[-1])
    graph = torch.repeat_interleave(graphs.sizes)  # (N,)
    touched = torch.zeros(count, dtype=torch.bool)
    touched[pairs.ends[:, chosen].flatten()] = True
    edges: Columns = {
        "row": (collection.rows[pairs.graph] + 1).tolist(),
        "source": source.tolist(),
        "target": target.tolist(),
        "score": plain(value),
        "chosen": chosen.tolist(),
    }
    nodes: Columns = {
        "row": (collection.rows[graph] + 1).tolist(),
        "node": (torch.arange(count) - graphs.node_ptr[graph]).tolist(),
        "score": plain(node_scores(value, pairs.ends, count)),
        "chosen": touched.tolist(),
    }
    if collection.names is not None:
        ends = zip(pairs.graph.tolist(), edges["source"], edges["target"], strict=True)
        both = [(str(collection.names[place][one]), str(collection.names[place][other])) for place, one, other in ends]
        edges |= {name: [pair[side] for pair in both] for side, name in enumerate(ENDS)}
        nodes["name"] = [str(name) for names in collection.names for name in names]
    return edges, nodes
