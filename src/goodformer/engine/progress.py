"""Progress of a run on stderr, and its curves for TensorBoard."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from goodformer.spec import METRIC_NAMES, SPLIT_NAMES

if TYPE_CHECKING:
    from goodformer.engine.loop import LossMeter
    from goodformer.engine.training import Training

BAR = "{desc} {percentage:3.0f}%|{bar:16}| {n_fmt}/{total_fmt} steps, {remaining} left{postfix}"
REFRESH = 20
"""Steps between two updates of the bar."""


class Progress:
    """One line per epoch and, on a terminal, a bar over all epochs with the running means of the loss terms.

    Args:
        state: The run.
        steps: Steps per epoch.
        shown: Whether anything is shown.
    """

    def __init__(self, state: Training, steps: int, shown: bool = True) -> None:
        self.state, self.steps, self.shown = state, steps, shown
        self.bar: Any = None
        if shown and sys.stderr.isatty():
            from tqdm import tqdm  # type: ignore[import-untyped]

            total, done = steps * state.planned, steps * state.epoch
            self.bar = tqdm(total=total, initial=done, leave=False, bar_format=BAR, dynamic_ncols=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def after_step(self, meter: LossMeter) -> None:
        """Move the bar every few steps."""
        if self.bar is not None and (meter.steps % REFRESH == 0 or meter.steps == self.steps):
            self.bar.set_description(f"epoch {self.state.epoch + 1}/{self.state.planned}", refresh=False)
            self.bar.set_postfix({name: f"{mean:.3f}" for name, mean in meter.means().items()}, refresh=False)
            self.bar.update(meter.steps % REFRESH or REFRESH)

    def after_epoch(self, record: dict[str, Any]) -> None:
        """Print the line of an epoch."""
        bench = self.state.benchmark
        planned = None if self.state.method.at_once else self.state.planned
        line = describe(record, bench.task.metric, planned, bench.split_names)
        if self.bar is not None:
            self.bar.write(line, file=sys.stderr)
        elif self.shown:
            print(line, file=sys.stderr, flush=True)


def describe(record: dict[str, Any], metric: str, epochs: int | None, names: Mapping[str, str] = SPLIT_NAMES) -> str:
    """Return one line about an epoch; ``epochs`` is None for a method that is fitted at once."""
    scores = [(name, record.get(split, {}).get(metric)) for split, name in names.items()]
    shown = ", ".join(f"{name} {value:.4f}" for name, value in scores if value is not None)
    precision = record.get("test", {}).get("precision_at_10")
    parts = [] if epochs is None else [f"epoch {record['epoch']}/{epochs}"]
    parts += [f"loss {record['loss']['total']:.4f}"]
    parts += [f"{METRIC_NAMES[metric]}: {shown}"] if shown else []
    parts += [] if precision is None else [f"Precision@10 {precision:.4f}"]
    return "  ".join([*parts, f"({record['seconds'] + record['eval_seconds']:.1f} s)"])


class TensorBoard:
    """The records of the epochs as curves, in the run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tensorboard"
        self.writer: Any = None

    def add(self, record: dict[str, Any]) -> None:
        """Add one point to every curve."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = self.writer or SummaryWriter(self.folder, purge_step=record["epoch"])
        for name, value in flatten(record):
            self.writer.add_scalar(name, value, record["epoch"])
        self.writer.flush()


def flatten(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield the numbers of a nested record under names like ``val/accuracy``."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{name}/")
        elif value is not None:
            yield prefix + name, float(value)
