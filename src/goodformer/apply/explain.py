"""Why: tables of edge and node scores beside a file of molecules or graphs, and pictures of the first of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from goodformer import files
from goodformer.apply.predict import Answers, Columns, model_blocks, notes_on, said_of, smiles_column
from goodformer.apply.trained import Trained
from goodformer.data.collection import Collection
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES
from goodformer.data.rows import RowWriter
from goodformer.experiments.explanation import PICTURE, explain_graphs, scores_of
from goodformer.explain.subgraph import Undirected, subgraph_sizes
from goodformer.registry import InputError, unknown

BLOCK = 256
MOST_ATOMS = 400
"""Atoms of a molecule that can be looked at, and laid out without waiting for minutes."""
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
    pass through in blocks, so a file may be larger than memory.

    Args:
        model: What predicts.
        path: Rows to explain, see `goodformer.data.rows.read_blocks`.
        out: Folder for ``answers``, ``edges`` and ``nodes`` (tables), ``subgraphs.png`` and ``edges.json``.
        count: How many rows are drawn, and measured for fidelity.
        k: Undirected edges of a chosen subgraph; a third of them where not given.
        form: Format of the tables: csv, tsv, parquet, json or jsonl.
        smiles: Column of the SMILES; that of the training file where not given.
        watch: Told how many rows are done.
    """
    if form not in FORMS:
        raise unknown("format", form, FORMS)
    molecules = model.predictor.recipe.features == FEATURES
    folder, shown = Path(out), Shown(count, MOST_ATOMS if molecules else None)
    files.make_folder(folder)
    names = {name: folder / f"{name}.{form}" for name in ("answers", "edges", "nodes")}
    with (
        Answers(model, names["answers"]) as answers,
        RowWriter(names["edges"], EDGES) as edges,
        RowWriter(names["nodes"], NODES) as nodes,
    ):
        for block in model_blocks(model, path, smiles, BLOCK):
            said = said_of(model, block.collection)
            answers.write(block, said)
            if said is not None:
                scores, _ = scores_of(model.predictor, block.collection.graphs, said)
                for table, columns in zip((edges, nodes), score_columns(block.collection, scores, k), strict=True):
                    table.write(columns)
                shown.add(block.collection)
            if watch:
                watch(answers.rows)
        report = {**answers.report(), "notes": notes_on(path, smiles_column(model, smiles), model.predictor)}
        if not shown.graphs:  # said before the tables are closed, so that those of an earlier call stay
            first = report["problems"][0]["reason"] if report["problems"] else "it holds no row"
            raise InputError(f"no row of {path} can be read ({first}); give at least one graph to explain.")
    first, drawable = shown.drawable_first()
    if not drawable:
        (folder / f"{PICTURE}.png").unlink(missing_ok=True)  # of an earlier call
    drawn = explain_graphs(
        model.predictor,
        first.graphs,
        folder,
        first.names,
        k,
        None,
        first.smiles,
        drawable,
        classes=model.meaning.classes,
    )
    report["notes"] += first.undrawn(drawable)
    return {**report, "classes": dict(model.meaning.classes), "tables": list(map(str, names.values())), **drawn}


@dataclass
class Shown:
    """The first rows of a file, which are drawn.

    Attributes:
        count: How many there are to be.
        most: Nodes a graph may have to be drawn; any number where not given.
        graphs: Those so far.
        names: What each is called.
        smiles: The SMILES of each, None where atoms are not in its order or the file holds other graphs.
    """

    count: int
    most: int | None = None
    graphs: list[Data] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    smiles: list[str] | None = None

    def add(self, collection: Collection) -> None:
        """Take what is still wanted from the next rows."""
        wanted = range(min(self.count - len(self.graphs), len(collection.graphs)))
        self.graphs += [collection.graphs[place] for place in wanted]
        self.names += [f"row {int(collection.rows[place]) + 1}" for place in wanted]
        if collection.smiles is not None and collection.as_written:
            self.smiles = [*(self.smiles or []), *(collection.smiles[place] for place in wanted)]

    def drawable_first(self) -> tuple[Shown, int]:
        """The same with graphs that are too large to be drawn at the end, and how many are before them."""
        large = [self.most is not None and (graph.num_nodes or 0) > self.most for graph in self.graphs]
        order = sorted(range(len(large)), key=large.__getitem__)
        graphs, names = [self.graphs[place] for place in order], [self.names[place] for place in order]
        smiles = self.smiles and [self.smiles[place] for place in order]
        return Shown(self.count, self.most, graphs, names, smiles), large.count(False)

    def undrawn(self, drawable: int) -> list[str]:
        """One sentence on graphs that are not drawn, none where all are."""
        left = self.names[drawable:]
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        words = f"{more} not drawn: above {self.most} atoms a picture shows nothing; the tables hold their scores."
        return [f"{left[0]}{words}"] if left else []


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
        "score": _rounded(value),
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
        "score": _rounded(mean),
        "chosen": touched.tolist(),
    }


def _rounded(values: Tensor) -> list[float | None]:
    return [None if math.isnan(value) else round(value, 6) for value in values.double().tolist()]
