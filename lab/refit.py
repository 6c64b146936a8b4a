"""Measure what a fit is worth on new molecules, before and after it is fitted again to all its rows.

    python -m lab.refit --data DIR -o results/refit.json --page docs/own-data.md

A user has a table of 400 molecules and then meets others. Here both are drawn at random from a public data set, six
times each; the first two draws are also fitted with networks. Beside `goodformer fit`, a random forest of scikit-learn
with 500 trees learns all 400 rows, on Morgan counts of radius 2 (2,048) and RDKit's descriptors: what the user could do
instead. The share of new molecules that is flagged as outside the domain should be near 5 %, and 90 % of measured
values should lie in their intervals.
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
from goodformer.apply.recipe import Recipe
from goodformer.config.run import Hardware
from goodformer.data.readers.collection import collect
from goodformer.data.readers.rows import read_columns
from goodformer.fitted import FittedModel
from goodformer.report.table import Cell, Table, insert

MARKER, ROWS, NEW = "refit", 400, 700
DRAWS, COMPARED = 6, 2
"""Draws that the default is fitted to, and those that the other ways are fitted to, too."""
TABLES = {
    "BACE": ("bace/bace.csv", "Class"),
    "BBBP": ("bbbp/BBBP.csv", "p_np"),
    "ESOL": ("esol/delaney-processed.csv", "measured log solubility in mols per litre"),
    "Lipophilicity": ("lipophilicity/Lipophilicity.csv", "exp"),
}
"""File and target of each data set."""
MEASURED = ("ESOL", "Lipophilicity")
DEFAULT, FOREST = "fit", "forest"
WAYS: dict[str, tuple[Recipe, dict[str, Any]]] = {
    DEFAULT: (Recipe(), {}),
    "fit --no-refit": (Recipe(), {"refit": False}),
    "fit --networks --no-refit": (Recipe(networks=True), {"refit": False}),
    "fit --networks --no-retrain": (Recipe(networks=True), {"retrain": False}),
    "fit --networks --retrain": (Recipe(networks=True), {"retrain": True}),
}
"""Commands that are compared."""


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


def measure(name: str, data: Path, seed: int, known: dict[str, Any]) -> dict[str, Any]:
    """Return what each way of fitting, and the forest, is worth on new molecules of one draw of a data set.

    Args:
        name: The data set.
        data: Folder of all data sets.
        seed: Of the draw.
        known: What is measured already.
    """
    missing = [way for way in WAYS if way not in known and (seed < COMPARED or way == DEFAULT)]
    if not missing and FOREST in known:
        return known
    file, target = TABLES[name]
    smiles, labels = drawn(data / file, target, seed)
    y, measured = [float(one) for one in labels], name in MEASURED
    found: dict[str, Any] = {"data": name, "draw": seed, **known}
    with tempfile.TemporaryDirectory(prefix="goodformer-") as folder:
        place = Path(folder)
        with (place / "mine.csv").open("w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([("smiles", "target"), *zip(smiles[:ROWS], labels[:ROWS], strict=True)])
        for title in missing:
            recipe, options = WAYS[title]
            fit_file(
                OwnFile(place / "mine.csv", ("target",)),
                place / title,
                recipe,
                runs=place / "runs",
                hardware=Hardware(progress=False, test_epochs=False),
                baseline=False,
                page=False,
                **options,
            )
            found[title] = described(FittedModel.load(place / title), smiles[ROWS:], y[ROWS:])
    if FOREST not in found:
        found[FOREST] = {"metric": round(worth(measured, y[ROWS:], forest(measured, smiles, y)), 4)}
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
        every = [one for one in found if one["data"] == name]
        if not every:
            continue
        some = [one for one in every if one["draw"] < COMPARED]
        cells = [
            *(_mean(some, way, "metric") for way in (*WAYS, FOREST)),
            *(_mean(every, way, "metric") for way in (DEFAULT, FOREST)),
            *(_mean(every, DEFAULT, what) for what in ("flagged", "covered")),
        ]
        rows.append([Cell(f"{name}, {'RMSE' if name in MEASURED else 'ROC-AUC'}"), *cells])
    heads = [*(f"`{way}`" for way in WAYS), "random forest", f"`fit`, {DRAWS} draws", f"random forest, {DRAWS} draws"]
    return Table([f"{NEW} new molecules", *heads, "flagged by `fit`", "in its 90 % intervals"], rows)


def _mean(found: Sequence[dict[str, Any]], way: str, what: str) -> Cell:
    """Return the mean of a figure over draws; no figure if a draw lacks it."""
    values = [one[way][what] for one in found if what in one.get(way, {})]
    if not values or len(values) < len(found):
        return Cell("-")
    return Cell.mean(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None, 3)


def main() -> None:
    """Measure what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="Folder with bace, bbbp, esol and lipophilicity.")
    parser.add_argument("--out", "-o", type=Path, default=Path("results/refit.json"))
    parser.add_argument("--page", type=Path, default=Path("docs/own-data.md"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    kept: list[dict[str, Any]] = files.read_json(given.out)["fits"] if given.out.exists() else []
    found = {(one["data"], one["draw"]): one for one in kept}
    for seed in range(DRAWS):
        for name in TABLES:
            known = found.get((name, seed), {})
            found[name, seed] = new = measure(name, given.data, seed, known)
            if new is not known:
                files.write_json(given.out, {"rows": ROWS, "new": NEW, "fits": list(found.values())})
                print(new, flush=True)
    insert(given.page, MARKER, table([found[key] for key in sorted(found)]).markdown())


if __name__ == "__main__":
    main()
