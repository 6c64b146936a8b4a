"""Compare ways to combine the members of a blend on OOD validation, with labels that the combination has not seen.

    python -m lab.combination --page docs/tried.md

The members are recorded runs of the suite ``molecules``, one seed each, whose predictions are in results/predictions.
A fifth of the OOD validation molecules at a time is predicted by what the other four fifths teach, so learnt weights
and single members are judged on the same terms. Values are means over these fifths, since the log-odds of different
combinations have different scales. Test predictions are not read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from goodformer.engine.blend import folds, kind_weights, learn
from goodformer.engine.evaluate import rocauc
from goodformer.methods import METHODS
from goodformer.methods.blend import Combination
from goodformer.methods.members import BLEND
from goodformer.report import suite
from goodformer.report.compare import Comparison
from goodformer.report.paired import Shelf
from goodformer.report.records import Record, known_records
from goodformer.report.suite import Suite
from goodformer.report.table import Cell, Table, insert
from goodformer.spec import Task

MARKER, RESULTS = "combination", Path("results")
NETWORK, LINEAR = "goodformer:molecules", ["linear", "linear:pairs"]
MEMBERS = [NETWORK, *METHODS.settings(BLEND)["others"].default]
TASK = Task("binary", 1, "rocauc")

Combine = Callable[[Sequence[str], Tensor, Tensor], Combination]


def planned() -> Suite:
    """Return the recorded runs: the members, and the baselines beside them."""
    return suite.plan("molecules", ",".join([*MEMBERS, "forest"]), 1, "full")


def learnt(shift: bool) -> Combine:
    """Return what learns temperatures, weights and perhaps shifts, as training a blend does."""
    return lambda kinds, logits, y: learn(TASK, kinds, logits, y, shift)


def equal(kinds: Sequence[str], logits: Tensor, y: Tensor) -> Combination:
    """Give all kinds the same weight and learn nothing."""
    weights = kind_weights(kinds)
    return Combination(weights, torch.ones_like(weights), torch.zeros(len(weights), 1, dtype=torch.double))


WAYS: Mapping[str, tuple[Sequence[str], Combine]] = {
    "five members, learnt weights and shifts (default)": (MEMBERS, learnt(shift=True)),
    "five members, learnt weights": (MEMBERS, learnt(shift=False)),
    "five members, equal weights of kinds, nothing learnt": (MEMBERS, equal),
    "without GOODFormer, learnt weights and shifts": (MEMBERS[1:], learnt(shift=True)),
    "GOODFormer and two linear models, learnt weights and shifts": ([NETWORK, *LINEAR], learnt(shift=True)),
    **{f"`{name}` alone": ([name], equal) for name in (*MEMBERS, "forest")},
}


def held_out(names: Sequence[str], combine: Combine, logits: Mapping[str, Tensor], y: Tensor) -> float:
    """Return the mean ROC-AUC over folds, each predicted by what the others teach.

    Args:
        names: The members.
        combine: Returns their combination, given their kinds, logits (M, B, 1) and labels (B, 1).
        logits: OOD validation logits (B, 1) of every row.
        y: Labels (B, 1).
    """
    z, kinds, scores = torch.stack([logits[name] for name in names]), [name.split(":")[0] for name in names], []
    for held in folds(len(y)):
        mixed = combine(kinds, z[:, ~held], y[~held]).mix(TASK, z[:, held])
        scores.append(rocauc(mixed.numpy(), y[held].numpy()))
    return float(np.mean([score for score in scores if score is not None]))


def predictions(one: Comparison, found: Mapping[str, Record], shelf: Shelf) -> tuple[dict[str, Tensor], Tensor]:
    """Return the OOD validation logits (B, 1) of all rows of a comparison and the labels (B, 1)."""
    logits, y = {}, torch.empty(0)
    for row in one.rows:
        config = one.configs[row.name, one.seeds[0]]
        kept = shelf.kept(found[config.id], config.folder_name)
        if kept is None:
            raise SystemExit(f"the predictions of {config.folder_name} are not in {RESULTS}.")
        logits[row.name] = torch.from_numpy(kept["val"].logits).double()
        y = torch.from_numpy(kept["val"].y.astype(float))
    return logits, y


def table(plan: Suite, found: Mapping[str, Record], shelf: Shelf) -> Table:
    """Return the mean over data sets and that of each data set, over its splits, in percent."""
    data = {title: [predictions(one, found, shelf) for one in some] for title, some in plan.data.items()}
    rows = []
    for way, (names, combine) in WAYS.items():
        means = [np.mean([held_out(names, combine, *one) for one in some]) for some in data.values()]
        rows.append([Cell(way), *(Cell.mean(100 * float(value)) for value in (np.mean(means), *means))])
    return Table(["cross-fitted OOD validation ROC-AUC, %", "mean", *data], rows)


def main() -> None:
    """Write the table into its page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, default=Path("docs/tried.md"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    plan = planned()
    insert(
        given.page, MARKER, table(plan, known_records([RESULTS], plan.runs), Shelf(Path("runs"), [RESULTS])).markdown()
    )


if __name__ == "__main__":
    main()
