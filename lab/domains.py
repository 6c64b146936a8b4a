"""Measure which molecules of other data sets a fitted model flags as outside its domain, by two domain scores.

    python -m lab.domains --data DIR -o results/domains.json --page docs/uncertainty.md

A model is fitted to rows drawn at random from a public data set, and its domain is that of all of them, as `fit` leaves
it. Then it meets further rows of the same data set, of which about 5 % should be flagged, and rows of other data sets.
The model is the method `linear`, whose embedding is a random projection of counts of environments.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from goodformer import GraphClassifier, GraphRegressor, files
from goodformer.data.graphs import GraphSet
from goodformer.data.readers.collection import collect
from goodformer.data.readers.rows import read_columns
from goodformer.fitted import FittedModel
from goodformer.report.table import Table, insert
from lab.refit import MEASURED, TABLES

MARKER, ROWS, NEW = "domains", (300, 1000), 300
SCORES = ("neighbours", "similarity")
FURTHER = {"HIV": "hiv/HIV.csv"}
"""Data sets that no model is fitted to."""


def drawn(path: Path, target: str | None = None) -> tuple[list[str], list[str], GraphSet]:
    """Return molecules of a file that can be read, in random order: SMILES, labels and graphs."""
    columns = read_columns(path)
    places = np.random.default_rng(0).permutation(len(columns["smiles"]))[: max(ROWS) + 3 * NEW]
    read = collect([columns["smiles"][place] for place in places])
    kept = places[read.rows.numpy()]
    smiles, labels = ([columns[name][place] for place in kept] if name else [] for name in ("smiles", target))
    return smiles, labels, read.graphs


def fitted(measured: bool, smiles: Sequence[str], labels: Sequence[str]) -> FittedModel:
    """Return a linear model of the counts of environments."""
    kind = GraphRegressor if measured else GraphClassifier
    return kind("linear", split="random").fit(smiles, [float(label) for label in labels]).model_


def flagged(model: FittedModel, score: str, rows: GraphSet, others: dict[str, GraphSet]) -> dict[str, float]:
    """Return the share of each other set that is outside a domain of these rows."""
    bound = len(rows) * 4 // 5
    train, id_val = rows.subset(torch.arange(bound)), rows.subset(torch.arange(bound, len(rows)))
    known = model.fit_uncertainty(train, id_val, score).uncertainty
    assert known is not None
    model.uncertainty = known.knowing(model.method, model.prepare(rows, known.encodings))
    found = {}
    for name, graphs in others.items():
        outside = model.predict(graphs, scores=False).outside
        assert outside is not None
        found[name] = round(float(outside.double().mean()), 3)
    return found


def measure(data: Path) -> list[dict[str, Any]]:
    """Return, for each data set, number of rows and score, which share of every data set is flagged."""
    known = {name: drawn(data / file, target) for name, (file, target) in TABLES.items()}
    graphs = {name: some for name, (_, _, some) in known.items()}
    graphs |= {name: drawn(data / file)[2] for name, file in FURTHER.items()}
    found = []
    for name, (smiles, labels, mine) in known.items():
        last = mine.subset(torch.arange(len(mine) - NEW, len(mine)))
        others = {other: some.subset(torch.arange(NEW)) for other, some in graphs.items() if other != name}
        for rows in (min(rows, len(mine) - NEW) for rows in ROWS):
            model = fitted(name in MEASURED, smiles[:rows], labels[:rows])
            some = mine.subset(torch.arange(rows))
            for score in SCORES:
                shares = flagged(model, score, some, {name: last, **others})
                found.append({"data": name, "rows": rows, "score": score, "outside": shares})
                print(found[-1], flush=True)
    return found


def table(found: Sequence[dict[str, Any]]) -> Table:
    """Return the flagged share of molecules of the same data set and of every other one, one line per fit and score."""
    names = list(dict.fromkeys(name for row in found for name in row["outside"]))
    lines = [
        [
            f"{row['data']}, {row['rows']:,} rows",
            f"`{row['score']}`",
            f"{row['outside'][row['data']]:.0%}",
            *("-" if name == row["data"] else f"{row['outside'][name]:.0%}" for name in names),
        ]
        for row in found
    ]
    return Table.of(["fitted to", "domain score", "same data set", *names], lines)


def main() -> None:
    """Measure, keep what was found and write the table into its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with bace, bbbp, esol, hiv, lipophilicity.")
    parser.add_argument("-o", "--out", type=Path, default=Path("results/domains.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/uncertainty.md"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = measure(given.data)
    files.write_json(given.out, found)
    insert(given.page, MARKER, table(found).markdown())


if __name__ == "__main__":
    main()
