"""Measure what a fit is worth on new molecules, before and after it is fitted again to all its rows.

    python -m lab.refit --data DIR -o results/refit.json --page docs/own-data.md

A user has a table of 400 molecules and then meets others. Here both are drawn at random from a public data set, three
times each. Beside `goodformer fit`, a random forest of scikit-learn with 500 trees learns all 400 rows, on Morgan
counts of radius 2 (2,048) and RDKit's descriptors: what the user could do instead. The share of new molecules that is
flagged as outside the domain should be near 5 %, and 90 % of measured values should lie in their intervals.
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
    "Lipophilicity": ("lipophilicity/Lipophilicity.csv", "exp"),
}
"""File and target of each data set."""
MEASURED = ("ESOL", "Lipophilicity")
WAYS: dict[str, dict[str, Any]] = {
    "--no-refit": {"refit": False},
    "--no-retrain": {"retrain": False},
    "--retrain": {"retrain": True},
}
"""Options of `goodformer fit` that are compared."""


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
    """Return what each way of fitting, and the forest, is worth on new molecules of one draw of a data set."""
    file, target = TABLES[name]
    smiles, labels = drawn(data / file, target, seed)
    y, measured = [float(one) for one in labels], name in MEASURED
    found: dict[str, Any] = {"data": name, "draw": seed}
    with tempfile.TemporaryDirectory(prefix="goodformer-") as folder:
        place = Path(folder)
        with (place / "mine.csv").open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([("smiles", "target"), *zip(smiles[:ROWS], labels[:ROWS], strict=True)])
        for title, options in WAYS.items():
            source = OwnFile(place / "mine.csv", ("target",))
            fit_file(
                source,
                place / title,
                runs=place / "runs",
                hardware=Hardware(progress=False, test_epochs=False),
                baseline=False,
                page=False,
                **options,
            )
            found[title] = described(FittedModel.load(place / title), smiles[ROWS:], y[ROWS:])
    found["forest"] = {"metric": round(worth(measured, y[ROWS:], forest(measured, smiles, y)), 4)}
    return found


def described(model: FittedModel, smiles: Sequence[str], y: Sequence[float]) -> dict[str, float]:
    """Return the metric of a model on new molecules, the share it flags, and that of values in their intervals."""
    answer = model.predict(smiles, scores=False)
    assert answer.outside is not None
    assert model.uncertainty is not None
    said = answer.logits if answer.values is None else answer.values
    found = {
        "metric": worth(answer.values is not None, y, said[:, 0].tolist()),
        "flagged": float(answer.outside.double().mean()),
    }
    if answer.hardness is not None:
        low, high = model.uncertainty.intervals(answer.logits, answer.hardness, 0.9)[:, 0].T
        true = torch.tensor(y)
        found["covered"] = float(((low <= true) & (true <= high)).double().mean())
    return {name: round(value, 4) for name, value in found.items()}


def table(found: Sequence[dict[str, Any]]) -> Table:
    """Return mean and standard deviation over the draws of each data set."""
    rows = []
    for name in TABLES:
        some = [one for one in found if one["data"] == name]
        if not some:
            continue
        chosen = "--retrain" if name in MEASURED else "--no-retrain"
        wanted = [*((way, "metric") for way in (*WAYS, "forest")), (chosen, "flagged"), (chosen, "covered")]
        cells = []
        for way, what in wanted:
            values = [one[way][what] for one in some if what in one[way]]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            cells.append(Cell.mean(float(np.mean(values)), spread, 3) if values else Cell("-"))
        rows.append([Cell(f"{name}, {'RMSE' if name in MEASURED else 'ROC-AUC'}"), *cells])
    heads = [*(f"`fit {way}`" for way in WAYS), "random forest, all rows", "flagged by default", "in 90 % intervals"]
    return Table([f"{NEW} new molecules", *heads], rows)


def main() -> None:
    """Measure what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with bace, bbbp and esol.")
    parser.add_argument("--out", "-o", type=Path, default=Path("results/refit.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/own-data.md"))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only", choices=TABLES, help="One data set.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: list[dict[str, Any]] = files.read_json(given.out)["fits"] if given.out.exists() else []
    for seed in range(given.draws):
        for name in (given.only,) if given.only else TABLES:
            if not any((one["data"], one["draw"]) == (name, seed) for one in found):
                found.append(measure(name, given.data, seed))
                files.write_json(given.out, {"rows": ROWS, "new": NEW, "fits": found})
                print(found[-1], flush=True)
    insert(given.page, MARKER, table(found).markdown())


if __name__ == "__main__":
    main()
