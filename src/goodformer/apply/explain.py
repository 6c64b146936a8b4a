"""Why: tables of edge and node scores beside a file of molecules or graphs, and pictures of some of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch_geometric.data import Data

from goodformer import files
from goodformer.apply.predict import Answers, Columns, model_blocks, notes_on, said_of, smiles_column
from goodformer.apply.trained import Trained
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES
from goodformer.data.readers.collection import Collection
from goodformer.data.readers.rows import Block, RowWriter
from goodformer.data.readers.values import counted
from goodformer.explain.explanation import MOST_ATOMS, PICTURE, READABLE, explain_graphs, scores_of
from goodformer.explain.record import plain
from goodformer.explain.subgraph import Undirected, subgraph_sizes
from goodformer.registry import InputError, unknown

BLOCK = 256
FORMS = ("csv", "tsv", "parquet", "json", "jsonl")
EDGES = ("row", "source", "target", "score", "chosen")
NODES = ("row", "node", "score", "chosen")
Watch = Callable[[int], None]


def explain_file(
    model: Trained,
    path: str | Path,
    out: str | Path,
    count: int = 12,
    k: int | None = None,
    form: str = "csv",
    smiles: str | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Explain every row of a file: tables of answers, edge scores and node scores, and pictures of the first rows.

    Rows are numbered from 1 in the order of the file, nodes and atoms from 0 in the order of the graph or SMILES. Rows
    pass through in blocks, so a file may be larger than memory. Molecules that can be read in a picture are drawn
    before larger ones, which a note tells.

    Args:
        model: What predicts.
        path: Rows to explain, see `goodformer.data.readers.rows.read_blocks`.
        out: Folder for ``answers``, ``edges`` and ``nodes`` (tables), ``subgraphs.png`` and ``edges.json``.
        count: How many rows are drawn, and measured for fidelity.
        k: Undirected edges of a chosen subgraph; a third of them where not given.
        form: Format of the tables: csv, tsv, parquet, json or jsonl.
        smiles: Column of the SMILES; that of the training file where not given.
        watch: Told how many rows are done.
    """
    if form not in FORMS:
        raise unknown("format", form, FORMS)
    molecules = model.predictor.file.features == FEATURES
    shown = Shown(count, (READABLE, MOST_ATOMS) if molecules else ())
    files.make_folder(Path(out))
    with Tables(model, Path(out), form, k) as tables:
        for block in model_blocks(model, path, smiles, BLOCK):
            tables.write(block)
            shown.add(block.collection)
            if watch:
                watch(tables.answers.rows)
        report = tables.answers.report()
        if not shown.rows:  # said before the tables are closed, so that those of an earlier call stay
            raise _nothing_read(path, report)
    report["notes"] = [*notes_on(path, smiles_column(model, smiles), model.predictor), *shown.notes()]
    drawn = _drawn(model, shown, Path(out), k)
    return {**report, "classes": dict(model.meaning.classes), "tables": tables.paths, **drawn}


class Tables:
    """Answers, edge scores and node scores of a file's rows; nothing is there before the last row is written.

    Args:
        model: What predicts.
        folder: Where the tables go.
        form: Their format.
        k: Undirected edges of a chosen subgraph; a third of them where not given.

    Attributes:
        answers: Writes what is predicted, and counts.
        paths: The files.
    """

    def __init__(self, model: Trained, folder: Path, form: str, k: int | None) -> None:
        self.model, self.k = model, k
        self.paths = [str(folder / f"{name}.{form}") for name in ("answers", "edges", "nodes")]
        self.answers = Answers(model, self.paths[0])
        self._writers = [RowWriter(self.paths[1], EDGES), RowWriter(self.paths[2], NODES)]

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            opened.enter_context(self.answers)
            for table in self._writers:
                opened.enter_context(table)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._opened.__exit__(*error)

    def write(self, block: Block) -> None:
        """Add the rows of a block; those that cannot be read have no scores."""
        said = said_of(self.model, block.collection)
        self.answers.write(block, said)
        if said is not None:
            scores, _ = scores_of(self.model.predictor, block.collection.graphs, said)
            for table, columns in zip(self._writers, score_columns(block.collection, scores, self.k), strict=True):
                table.write(columns)


def _nothing_read(path: str | Path, report: dict[str, Any]) -> InputError:
    """The error of a file without a single graph."""
    first = report["problems"][0]["reason"] if report["problems"] else "it holds no row"
    return InputError(f"no row of {path} can be read ({first}); give at least one graph to explain.")


@dataclass(frozen=True)
class Row:
    """A graph that may be shown.

    Attributes:
        number: Number of its row, from 1.
        order: Its number, from 0, among the rows that can be read.
        graph: The graph.
        smiles: Its SMILES where atoms have that order.
        rank: Its class of size.
    """

    number: int
    order: int
    graph: Data
    smiles: str | None
    rank: int

    @property
    def name(self) -> str:
        """What it is called."""
        return f"row {self.number}"


class Shown:
    """The rows of a file that are drawn: the first ones, smaller classes of size before larger ones.

    Args:
        count: How many there are to be.
        limits: Nodes up to which a graph can be read among others, and up to which it is drawn at all; none where any
            size will do.
    """

    def __init__(self, count: int, limits: tuple[int, ...] = ()) -> None:
        self.count, self.limits, self._seen = count, limits, 0
        self._kept: list[list[Row]] = [[] for _ in range(len(limits) + 1)]

    def add(self, collection: Collection) -> None:
        """Take what may be wanted from the next rows."""
        ranks = torch.bucketize(collection.graphs.sizes, torch.tensor(self.limits, dtype=torch.long))  # (G,)
        for rank, kept in enumerate(self._kept):
            places = (ranks == rank).nonzero().flatten()[: self.count - len(kept)]
            kept += [_row(collection, place, self._seen + place, rank) for place in places.tolist()]
        self._seen += len(ranks)

    @property
    def rows(self) -> list[Row]:
        """Those that are shown, the ones that are not drawn at the end."""
        return [row for kept in self._kept for row in kept][: self.count]

    @property
    def drawable(self) -> int:
        """How many of them, the first ones, are drawn."""
        return sum(row.rank < 2 for row in self.rows)

    @property
    def smiles(self) -> list[str] | None:
        """The SMILES of those that are shown, None where there are none in the order of the atoms."""
        found = [row.smiles for row in self.rows if row.smiles is not None]
        return found if found and len(found) == len(self.rows) else None

    @property
    def passed(self) -> int | None:
        """The first row whose size made it give way to a later one; None where none did."""
        shown = {row.number for row in self.rows}
        large = [row.number for kept in self._kept[1:] for row in kept if row.number not in shown]
        return min(large) if large and min(large) < max(shown) else None

    @property
    def gave_way(self) -> int:
        """How many rows gave way to later ones: of all before the last one shown, only too large ones are missing."""
        return max((row.order + 1 for row in self.rows), default=0) - len(self.rows)

    @property
    def missing(self) -> str:
        """What a picture of them says it does not show; empty where it shows all that it could be expected to."""
        left = self.gave_way + len(self.rows) - self.drawable
        return f"{counted(left, 'molecule')} above {self.limits[0]} atoms left out" if left else ""

    def notes(self) -> list[str]:
        """A sentence on rows that gave way to later ones, and one on rows that are not drawn."""
        words = "gave way in the picture to later rows that can be read; explain a file of them alone to see them large"
        first = ""
        if self.passed:
            large = counted(self.gave_way, "molecule")
            first = f"{large} above {self.limits[0]} atoms (row {self.passed} is the first) {words}."
        return [note for note in (first, self._undrawn()) if note]

    def _undrawn(self) -> str:
        left = self.rows[self.drawable :]
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        words = "atoms a picture shows nothing; the tables hold their scores."
        return f"{left[0].name}{more} not drawn: above {self.limits[1]} {words}" if left else ""


def _row(collection: Collection, place: int, order: int, rank: int) -> Row:
    """One graph of a collection."""
    smiles = collection.smiles[place] if collection.smiles is not None and collection.as_written else None
    return Row(int(collection.rows[place]) + 1, order, collection.graphs[place], smiles, rank)


def _drawn(model: Trained, shown: Shown, folder: Path, k: int | None) -> dict[str, Any]:
    """Draw the rows and measure what their scores are worth."""
    if not shown.drawable:
        (folder / f"{PICTURE}.png").unlink(missing_ok=True)  # of an earlier call
    graphs, names = [row.graph for row in shown.rows], [row.name for row in shown.rows]
    classes, limit = model.meaning.classes, shown.drawable
    return explain_graphs(
        model.predictor, graphs, folder, names, k, None, shown.smiles, limit, classes=classes, note=shown.missing
    )


def score_columns(collection: Collection, scores: Sequence[Tensor], k: int | None) -> tuple[Columns, Columns]:
    """One line an undirected edge and one a node, with its score and whether it is in the chosen subgraph."""
    graphs = collection.graphs
    pairs = Undirected.of(graphs)
    value = pairs.mean(torch.cat(list(scores)).float())  # (M,)
    chosen = pairs.best(value, subgraph_sizes(graphs, k, pairs))  # (M,)
    low, high = _ends(graphs, pairs)  # (M,), (M,), in global node numbers
    edges: Columns = {
        "row": (collection.rows[pairs.graph] + 1).tolist(),
        "source": (low - graphs.node_ptr[pairs.graph]).tolist(),
        "target": (high - graphs.node_ptr[pairs.graph]).tolist(),
        "score": plain(value),
        "chosen": chosen.tolist(),
    }
    return edges, _node_columns(collection, low, high, value, chosen)


def _ends(graphs: GraphSet, pairs: Undirected) -> tuple[Tensor, Tensor]:
    """The two nodes of each undirected edge (M,), in global numbers, the smaller first."""
    ends = graphs.edge_index.sort(dim=0).values  # (2, E)
    found = ends.new_zeros(2, len(pairs.graph))
    found[:, pairs.number] = ends
    return found[0], found[1]


def _node_columns(collection: Collection, low: Tensor, high: Tensor, value: Tensor, chosen: Tensor) -> Columns:
    """One line a node: the mean score of its edges, empty where it has none."""
    graphs = collection.graphs
    other = low != high  # a loop touches its node once
    nodes, ends = int(graphs.node_ptr[-1]), torch.cat((low, high[other]))
    total = value.new_zeros(nodes).index_add_(0, ends, torch.cat((value, value[other])))
    mean = total / torch.bincount(ends, minlength=nodes)  # (N,)
    touched = torch.zeros(nodes, dtype=torch.bool)
    touched[ends[torch.cat((chosen, chosen[other]))]] = True
    graph = torch.repeat_interleave(graphs.sizes)  # (N,)
    return {
        "row": (collection.rows[graph] + 1).tolist(),
        "node": (torch.arange(nodes) - graphs.node_ptr[graph]).tolist(),
        "score": plain(mean),
        "chosen": touched.tolist(),
    }
