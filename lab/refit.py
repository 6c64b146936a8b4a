"""Measure what a fit is worth on new molecules, before and after forests and linear models are fitted to all its rows.

    python -m lab.refit --data DIR -o results/refit.json --page docs/own-data.md

A user has a table of 400 molecules and then meets others. Here both are drawn at random from a public data set, three
times each. Beside `goodformer fit`, a random forest of scikit-learn with 500 trees learns all 400 rows, on Morgan
counts of radius 2 (2,048) and RDKit's descriptors: what the user could do instead.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from goodformer import files
from goodformer.apply.fit import OwnFile, fit_file
from goodformer.config.run import Hardware
from goodformer.data.readers.collection import collect
from goodformer.data.readers.rows import read_columns
from goodformer.fitted import FittedModel
from goodformer.report.table import Cell, Table, insert

MARKER, ROWS, NEW, DRAWS = "refit", 400, 700, 3
TABLES = {
    "BACE": ("bace/bace.csv", "Class"),
    "BBBP": ("bbbp/BBBP.csv", "p_np"),
    "ESOL": ("esol/delaney-processed.csv", "measured log solubility in mols per litre"),
}
"""File and target of each data set."""


def drawn(path: Path, target: str, seed: int) -> tuple[list[str], list[str]]:
    """Return molecules that can be read and their labels, in random order."""
    columns = read_columns(path)
    known = collect(columns["smiles"]).rows.tolist()
    order = np.random.default_rng(seed).permutation(known)[: ROWS + NEW]
    return [columns["smiles"][place] for place in order], [str(columns[target][place]) for place in order]


def worth(measured: bool, y: Sequence[float], said: Any) -> float:
    """Return the RMSE of values, or the ROC-AUC of scores."""
    from sklearn.metrics import roc_auc_score

    if measured:
        return float(np.sqrt(np.mean(np.square(np.asarray(y) - np.asarray(said)))))
    return float(roc_auc_score(y, said))


def forest(measured: bool, smiles: Sequence[str], y: Sequence[float]) -> Any:
    """Return what a random forest that learns all rows predicts for the new molecules."""
    from rdkit import Chem, rdBase
    from rdkit.Chem import Descriptors, rdFingerprintGenerator
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    counts = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    with rdBase.BlockLogs():
        molecules = [Chem.MolFromSmiles(one) for one in smiles]
        described = [Descriptors.CalcMolDescriptors(one).values() for one in molecules]
    rows = [[*counts.GetCountFingerprintAsNumPy(one), *more] for one, more in zip(molecules, described, strict=True)]
    inputs = np.nan_to_num(np.array(rows, dtype=float), posinf=0, neginf=0).clip(-1e6, 1e6)
    if measured:
        grown = RandomForestRegressor(500, max_features=1 / 3, random_state=0).fit(inputs[:ROWS], y[:ROWS])
        return grown.predict(inputs[ROWS:])
    grown = RandomForestClassifier(500, random_state=0).fit(inputs[:ROWS], y[:ROWS])
    return grown.predict_proba(inputs[ROWS:])[:, 1]


def measure(name: str, data: Path, seed: int) -> dict[str, Any]:
    """Return the metric on new molecules of both models and of the forest, for one draw of a data set."""
    file, target = TABLES[name]
    smiles, labels = drawn(data / file, target, seed)
    y, measured = [float(one) for one in labels], name == "ESOL"
    found: dict[str, Any] = {"data": name, "draw": seed, "metric": "rmse" if measured else "rocauc"}
    with tempfile.TemporaryDirectory(prefix="goodformer-") as folder:
        place = Path(folder)
        with (place / "mine.csv").open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([("smiles", "target"), *zip(smiles[:ROWS], labels[:ROWS], strict=True)])
        for title, refit in (("before", False), ("after", True)):
            source = OwnFile(place / "mine.csv", ("target",))
            fit_file(
                source,
                place / title,
                runs=place / "runs",
                hardware=Hardware(progress=False, test_epochs=False),
                baseline=False,
                page=False,
                refit=refit,
            )
            answer = FittedModel.load(place / title).predict(smiles[ROWS:])
            said = answer.values if answer.values is not None else answer.logits
            found[title] = round(worth(measured, y[ROWS:], said[:, 0].tolist()), 4)
    found["forest"] = round(worth(measured, y[ROWS:], forest(measured, smiles, y)), 4)
    return found


def table(found: Sequence[dict[str, Any]]) -> Table:
    """Return mean and standard deviation over the draws of each data set."""
    rows = []
    for name in TABLES:
        some = [one for one in found if one["data"] == name]
        if some:
            heads = [f"{name}, {'RMSE' if some[0]['metric'] == 'rmse' else 'ROC-AUC'}"]
            values = [[one[side] for one in some] for side in ("before", "after", "forest")]
            cells = [
                Cell.mean(float(np.mean(one)), float(np.std(one, ddof=1)) if len(one) > 1 else None, 3)
                for one in values
            ]
            rows.append([*(Cell(head) for head in heads), *cells])
    return Table([f"{NEW} new molecules", "`fit --no-refit`", "`fit`", "random forest, all rows"], rows)


def main() -> None:
    """Measure what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with bace, bbbp and esol.")
    parser.add_argument("--out", "-o", type=Path, default=Path("results/refit.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/own-data.md"))
    parser.add_argument("--draws", type=int, default=DRAWS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = files.read_json(given.out)["fits"] if given.out.exists() else []
    for seed in range(given.draws):
        for name in TABLES:
            if not any((one["data"], one["draw"]) == (name, seed) for one in found):
                found.append(measure(name, given.data, seed))
                files.write_json(given.out, {"rows": ROWS, "new": NEW, "fits": found})
                print(found[-1], flush=True)
    insert(given.page, MARKER, table(found).markdown())


if __name__ == "__main__":
    main()
