"""Compare ways to combine the members of a blend under shifts that are made inside the training graphs.

    python -m lab.inner_shifts --runs runs/inner --page docs/tried.md

The suite ``molecules`` has one OOD validation split per data set, too few to choose a rule that suits any shift.
Here whole environments of its training graphs are held out: some as validation, on which a rule may learn, others as
test, on which it is judged. Graphs of the validation and test splits of the suite are not used. Members are trained for
each shift; training can be stopped and continued, and finished predictions are kept in results/inner-shifts.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer import files
from goodformer.config.presets import configure
from goodformer.config.run import Hardware
from goodformer.data import load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.engine import predictions
from goodformer.engine.combine import kind_weights, learn
from goodformer.engine.evaluate import rocauc
from goodformer.engine.run import train
from goodformer.engine.store import PREDICTED
from goodformer.methods import METHODS
from goodformer.methods.blend import Combination
from goodformer.methods.members import BLEND, split_member
from goodformer.report.table import Cell, Table, insert
from goodformer.spec import Task

MARKER, FEW_MARKER, KEPT = "inner-shifts", "few-labels", Path("results/inner-shifts")
FEW, DRAWS = (25, 50, 100, 200), 8
"""Numbers of validation molecules from which combinations learn in the second table, and draws of each."""
HELD, WITHIN = 0.2, 0.1
"""Shares of the graphs that are held out as validation and as test, and of those left, as ID validation and ID test."""
BASELINES, SPLITS = ("forest", "linear"), ("val", "test")
NETWORK, TAUGHT, OTHERS = "goodformer:molecules", "goodformer:taught", METHODS.settings(BLEND)["others"].default
MEMBERS = [NETWORK, *OTHERS]
EARLIER = ["linear", "linear:pairs", "forest:tuned", "forest:tuned-pairs"]
"""The same without shared labels."""
WITHOUT_FORESTS = [name for name in MEMBERS if "forest" not in name]
PROCESS, PLAIN_PROCESS = "gaussian-process:shared", "gaussian-process"
FAST = [PROCESS, "linear:shared", "forest:shared"]
NAMES = list(dict.fromkeys([*BASELINES, *EARLIER, *OTHERS, NETWORK, TAUGHT, PLAIN_PROCESS, PROCESS]))
TASK = Task("binary", 1, "rocauc")

Combine = Callable[[Sequence[str], Tensor, Tensor], Combination]


def learnt(kinds: Sequence[str], logits: Tensor, y: Tensor) -> Combination:
    """Learn temperatures, shifts and weights, as training a blend for molecules does."""
    return learn(TASK, kinds, logits, y, shift=True)


def without_shifts(kinds: Sequence[str], logits: Tensor, y: Tensor) -> Combination:
    """Learn temperatures and weights."""
    return learn(TASK, kinds, logits, y, shift=False)


def log_odds(kinds: Sequence[str], logits: Tensor, y: Tensor) -> Combination:
    """Learn temperatures and shifts; the mean is that of log-odds, with equal weights of members."""
    return learn(TASK, kinds, logits, y, shift=True, mean="log_odds")


def equal(kinds: Sequence[str], logits: Tensor, y: Tensor) -> Combination:
    """Give all kinds the same weight and learn nothing."""
    weights = kind_weights(kinds)
    return Combination(weights, torch.ones_like(weights), torch.zeros(len(weights), 1, dtype=torch.double))


WAYS: Mapping[str, tuple[Sequence[str], Combine]] = {
    "Gaussian process, linear model and forest, learnt weights and shifts (`fit --no-networks`)": (FAST, learnt),
    "the same, mean of log-odds with learnt shifts": (FAST, log_odds),
    "the same and GOODFormer, learnt weights and shifts": ([NETWORK, *FAST], learnt),
    "five members, learnt weights and shifts (`fit --networks`)": (MEMBERS, learnt),
    "five members, learnt weights": (MEMBERS, without_shifts),
    "five members, equal weights of kinds, nothing learnt": (MEMBERS, equal),
    "five members, mean of log-odds with learnt shifts": (MEMBERS, log_odds),
    "five members without shared labels, learnt weights and shifts": ([NETWORK, *EARLIER], learnt),
    "five members, GOODFormer taught by a forest, learnt weights and shifts": ([TAUGHT, *OTHERS], learnt),
    "without GOODFormer, learnt weights and shifts": (OTHERS, learnt),
    "without forests, learnt weights and shifts": (WITHOUT_FORESTS, learnt),
    "without forests, mean of log-odds with learnt shifts": (WITHOUT_FORESTS, log_odds),
    "without forests, GOODFormer taught by one": ([TAUGHT, *WITHOUT_FORESTS[1:]], learnt),
    "six members with a Gaussian process, learnt weights and shifts": ([*MEMBERS, PROCESS], learnt),
    "six members with a Gaussian process, mean of log-odds": ([*MEMBERS, PROCESS], log_odds),
    "without forests, with a Gaussian process, learnt weights and shifts": ([*WITHOUT_FORESTS, PROCESS], learnt),
    **{f"`{name}` alone": ([name], equal) for name in NAMES},
}


@dataclass(frozen=True, eq=False)
class Shift:
    """Which environments of a data set's training graphs are held out.

    Attributes:
        title: The data set.
        dataset: Its settings.
        draw: Seed of the order of environments, the first of which are held out.
    """

    title: str
    dataset: Mapping[str, Any]
    draw: int

    @property
    def name(self) -> str:
        """Name of its files."""
        return f"{self.title.lower().replace(' ', '-')}-{self.draw}"

    def benchmark(self) -> Benchmark:
        """Return the training graphs of the data set with new splits."""
        outer = load_benchmark(**self.dataset)
        graphs = outer.splits["train"]
        env, random = graphs.graph["env"], np.random.default_rng(self.draw)
        order = random.permutation(env.unique().numpy())
        counts = torch.bincount(env).numpy()[order]
        start = (np.cumsum(counts) - counts) / len(graphs)  # share of the graphs in earlier environments
        held = {"test": order[start < HELD], "val": order[(start >= HELD) & (start < 2 * HELD)]}
        places = {split: np.flatnonzero(np.isin(env.numpy(), some)) for split, some in held.items()}
        left = random.permutation(np.setdiff1d(np.arange(len(graphs)), np.concatenate([*places.values()])))
        within = int(WITHIN * len(left))
        places |= {"id_val": left[:within], "id_test": left[within : 2 * within], "train": np.sort(left[2 * within :])}
        return replace(
            outer, splits={split: graphs.subset(torch.from_numpy(some)) for split, some in places.items()}, recipe={}
        )


SHIFTS = [
    Shift(title, dataset, draw)
    for title, dataset, draws in (
        ("BACE scaffold", {"name": "bace", "split": "scaffold"}, 3),
        ("BBBP scaffold", {"name": "bbbp", "split": "scaffold"}, 3),
        ("EC50 assay", {"name": "drugood", "measurement": "ec50", "domain": "assay"}, 3),
        ("HIV scaffold", {"name": "good-hiv", "domain": "scaffold"}, 2),
    )
    for draw in range(draws)
]


def complete(shift: Shift, names: Sequence[str], runs: Path) -> None:
    """Train the members that are missing, and keep their predictions for validation and test."""
    path, benchmark = KEPT / f"{shift.name}.npz", None
    known = dict(np.load(path)) if path.exists() else {}
    for name in names:
        if f"test/{name}" in known:
            continue
        benchmark = benchmark or shift.benchmark()
        method, model, preset = split_member(name)
        config = configure(dict(shift.dataset), method, model, preset or "default", "full", 0, [])
        own = {"name": "memory", "fingerprint": predictions.fingerprint(benchmark.splits["train"])}
        config = config.model_copy(update={"dataset": own})  # else it would have the id of a run of the suite
        run = train(config, runs / shift.name, Hardware(test_epochs=False, progress=False), benchmark)
        assert run.summary is not None
        found = predictions.read(run.folder / PREDICTED, run.summary["predictions"]["sha256"])
        for split in SPLITS:
            known |= {f"{split}/y": found[split].y, f"{split}/{name}": found[split].logits.astype(np.float32)}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **known)  # type: ignore[arg-type]
        files.make_folder(KEPT)
        files.write_bytes(path, buffer.getvalue())
        print(f"{shift.name}: {name} {100 * auc(known[f'test/{name}'], known['test/y']):.2f}", flush=True)


def auc(logits: Any, y: Any) -> float:
    """Return the ROC-AUC of logits (B, 1) for labels (B, 1)."""
    value = rocauc(np.asarray(logits), np.asarray(y, dtype=float))
    assert value is not None
    return value


def judged(known: Mapping[str, Any], names: Sequence[str], combine: Combine, places: Any = slice(None)) -> float:
    """Return the test ROC-AUC of some members, combined by what validation teaches, or some of its molecules."""
    val, test = (
        torch.stack([torch.from_numpy(known[f"{split}/{name}"]).double() for name in names]) for split in SPLITS
    )
    kinds, y = [name.split(":")[0] for name in names], torch.from_numpy(known["val/y"].astype(float))
    return auc(combine(kinds, val[:, places], y[places]).mix(TASK, test).numpy(), known["test/y"])


def drawn(y: npt.NDArray[Any], labels: int, draw: int) -> npt.NDArray[np.int64]:
    """Return the places of so many labels (B, 1), drawn with the shares of the classes, at least three of each."""
    random = np.random.default_rng(draw)
    classes = [random.permutation(np.flatnonzero(y[:, 0] == one)) for one in (1, 0)]
    positive = min(max(round(labels * len(classes[0]) / len(y)), 3), labels - 3)
    return np.concatenate([classes[0][:positive], classes[1][: labels - positive]])


def preferred(known: Mapping[str, Any]) -> float:
    """Return the test ROC-AUC of the baseline that is better on validation."""
    best = max(BASELINES, key=lambda name: auc(known[f"val/{name}"], known["val/y"]))
    return auc(known[f"test/{best}"], known["test/y"])


def table(found: Mapping[Shift, Mapping[str, Any]]) -> Table:
    """Return the test ROC-AUC of every way in percent: the mean over data sets, and each data set over its shifts."""
    titles = list(dict.fromkeys(shift.title for shift in found))
    base = [preferred(known) for known in found.values()]
    rows = []
    for way, scores in [
        *((way, [judged(known, *how) for known in found.values()]) for way, how in WAYS.items()),
        ("the baseline that validation prefers", base),
    ]:
        means = [
            float(np.mean([score for shift, score in zip(found, scores, strict=True) if shift.title == title]))
            for title in titles
        ]
        ahead = sum(score > other for score, other in zip(scores, base, strict=True))
        cells = [Cell.mean(100 * value) for value in (float(np.mean(means)), *means)]
        rows.append([Cell(way), *cells, Cell(f"{ahead} of {len(base)}" if scores is not base else "-")])
    return Table(["test ROC-AUC of inner shifts, %", "mean", *titles, "ahead of that baseline"], rows)


def few_table(found: Mapping[Shift, Mapping[str, Any]]) -> Table:
    """Return the mean test ROC-AUC over data sets if a combination learns from few validation molecules only."""
    titles = list(dict.fromkeys(shift.title for shift in found))
    rows = []
    for way, names, combine in (
        ("`fit --no-networks`, mean of probabilities with learnt weights", FAST, learnt),
        ("the same members, mean of log-odds", FAST, log_odds),
        ("`fit --networks`, mean of probabilities with learnt weights", MEMBERS, learnt),
        ("the same members, mean of log-odds", MEMBERS, log_odds),
    ):
        cells = []
        for labels in (*FEW, None):
            values: dict[str, list[float]] = {title: [] for title in titles}
            for shift, known in found.items():
                some = [slice(None) if labels is None else drawn(known["val/y"], labels, draw) for draw in range(DRAWS)]
                values[shift.title] += [judged(known, names, combine, places) for places in some]
            cells.append(Cell.mean(100 * float(np.mean([np.mean(one) for one in values.values()]))))
        rows.append([Cell(way), *cells])
    heads = [*(f"{labels} validation molecules" for labels in FEW), "all"]
    return Table(["mean test ROC-AUC of inner shifts, %", *heads], rows)


def main() -> None:
    """Train what is missing, and write the tables into their page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/inner"))
    parser.add_argument("--page", type=Path, default=Path("docs/tried.md"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    for shift in SHIFTS:
        complete(shift, NAMES, given.runs)
    found = {shift: dict(np.load(KEPT / f"{shift.name}.npz")) for shift in SHIFTS}
    insert(given.page, MARKER, table(found).markdown())
    insert(given.page, FEW_MARKER, few_table(found).markdown())


if __name__ == "__main__":
    main()
