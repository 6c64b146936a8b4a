"""A run in progress: what happens in a step and between epochs, whoever drives the loop.

``last.ckpt`` alone is the truth of an unfinished run. It is replaced in one step at the end of an epoch, and all other
files are written from what it holds, so a run killed anywhere goes on from the last whole epoch. All randomness of an
epoch follows from seed, epoch and process, so the repeated epoch is the one that was lost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from goodformer import files
from goodformer.config.run import RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.engine.average import WeightAverage
from goodformer.engine.evaluate import Metrics, collect, measure
from goodformer.engine.record import peak_memory_mb
from goodformer.engine.seeds import derive_seed, set_seed
from goodformer.engine.selection import select_epoch, should_stop
from goodformer.engine.store import EPOCHS, STATE
from goodformer.engine.weights import ModelFile, save_weights
from goodformer.methods.base import Method
from goodformer.registry import InputError
from goodformer.spec import SPLITS

FORMAT, VERSION = "goodformer-training", 1
CHECK_EVERY = 20
"""Steps between looks at the running loss: each look waits for the device."""

Gather = Callable[[Any], list[Any]]
"""Brings together one object of every process, in the order of their ranks."""


class TrainingDiverged(InputError):
    """The loss is no longer a number; the epochs before are kept."""


class Training:
    """The state of a run and its verbs, in the order they are called.

    Args:
        config: What to compute.
        benchmark: Data that carry the method's encodings.
        method: The method to train, its initial weights drawn from the run's seed.
        file: How the method was built.
        folder: The run's folder.
        watched: Splits that are measured after every epoch.
    """

    def __init__(
        self,
        config: RunConfig,
        benchmark: Benchmark,
        method: Method,
        file: ModelFile,
        folder: Path,
        watched: Sequence[str] = SPLITS,
    ) -> None:
        self.watched = tuple(watched)
        self.config, self.benchmark, self.method, self.file, self.folder = config, benchmark, method, file, folder
        self.epochs: list[dict[str, Any]] = []
        self.best: dict[str, Tensor] = {}
        self.cost: dict[str, Any] = {"wall_seconds": 0.0, "peak_memory_mb": 0.0}
        self.free = [parameter for parameter in method.parameters() if parameter.requires_grad]
        self.average: WeightAverage | None = None
        self.optimizer: torch.optim.Optimizer | None = None
        self.saved: dict[str, Any] = {}
        self.meter = LossMeter()
        self.clock = self.epoch_start = time.perf_counter()
        self.processor_start = time.process_time()

    @property
    def epoch(self) -> int:
        """Epochs completed, which is also the number, from 0, of the one to come."""
        return len(self.epochs)

    @property
    def done(self) -> bool:
        """Whether no epoch is left, or the selection metric has stopped improving."""
        training, metric = self.config.training, self.benchmark.task.metric
        return self.epoch >= training.epochs or should_stop(self.epochs, training.selection, metric, training.patience)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the epoch to come."""
        training = self.config.training
        share = (1 + math.cos(math.pi * self.epoch / training.epochs)) / 2 if training.schedule == "cosine" else 1.0
        return training.learning_rate * share

    def resume(self) -> None:
        """Load the saved state where there is one; comes before the weights go to their device."""
        state = load_state(self.folder, self.config)
        if state is not None:
            self.epochs, self.best, self.cost = state["epochs"], state["best"], state["cost"]
            self.method.load_state_dict(state["method"])
            self.saved = state

    def make_optimizer(self) -> torch.optim.Optimizer:
        """Adam over the parameters that may change; fused into one kernel where the device has it."""
        training, fused = self.config.training, self.free[0].device.type in ("cpu", "cuda")
        self.optimizer = torch.optim.Adam(
            self.free, lr=training.learning_rate, weight_decay=training.weight_decay, fused=fused
        )
        return self.optimizer

    def start(self) -> None:
        """Get ready for the first epoch; weights are on their device and the optimiser is made."""
        training = self.config.training
        self.average = WeightAverage(self.method, training.average, training.average_decay)
        if self.saved:
            self._optimizer.load_state_dict(self.saved["optimizer"])
            self._average.load_state_dict(self.saved["average"])
        self.saved = {}
        self.clock = time.perf_counter()

    def begin_epoch(self, rank: int = 0) -> None:
        """Set seeds, learning rate and the parameters this epoch updates."""
        set_seed(self.config.seed, "epoch", self.epoch, rank)
        chosen = {id(parameter) for parameter in self.method.trainable(self.epoch)}
        for parameter in self.free:
            parameter.requires_grad_(id(parameter) in chosen)
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate
        self.meter = LossMeter()
        self.epoch_start, self.processor_start = time.perf_counter(), time.process_time()

    def step_loss(self, batch: Batch) -> Tensor:
        """The loss of one batch, its terms noted."""
        terms = self.method.loss(batch, self.epoch)
        total = cast(Tensor, sum(terms.values()))
        self.meter.add({"total": total, **terms}, batch.num_graphs)
        return total

    def after_step(self) -> None:
        """What follows an optimiser step."""
        self._average.after_step()
        if self.meter.steps % CHECK_EVERY == 0:
            self._check_finite(self.meter.means()["total"])

    def end_epoch(self, gather: Gather, rank: int = 0, world: int = 1) -> None:
        """Evaluate, record and, in the first process, save."""
        sums = self.meter.sums()
        parts = gather((sums, time.process_time() - self.processor_start))
        loss, busy = merge_means([means for means, _ in parts]), sum(own for _, own in parts)
        self._check_finite(loss["total"])
        seconds = time.perf_counter() - self.epoch_start
        self._average.after_epoch()
        record = {
            "epoch": self.epoch + 1,
            "loss": loss,
            **self._evaluated(gather, rank, world),
            "learning_rate": self.learning_rate,
            "seconds": round(seconds, 3),
            "processor_seconds": round(busy, 3),
            "eval_seconds": round(time.perf_counter() - self.epoch_start - seconds, 3),
        }
        self.epochs.append(record)
        self._note_best()
        if rank == 0:
            self.save()

    def state(self) -> dict[str, Any]:
        """All that the run needs to go on, as tensors and plain values."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "id": self.config.id,
            "epochs": self.epochs,
            "method": self.method.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "average": self._average.state_dict(),
            "best": self.best,
            "cost": self.cost,
        }

    def save(self) -> None:
        """Replace the saved state in one step, then write what people read from it."""
        if not self.folder.is_dir():
            raise InputError(f"{self.folder} was removed while it was being trained; train it again.")
        now = time.perf_counter()
        self.cost = {
            "parameters": sum(parameter.numel() for parameter in self.method.parameters()),
            "wall_seconds": round(self.cost["wall_seconds"] + now - self.clock, 3),
            "peak_memory_mb": max(self.cost["peak_memory_mb"], peak_memory_mb()),
            "device": self._devices(),
        }
        self.clock = now
        state = self.state()
        files.write(self.folder / STATE, lambda part: torch.save(state, part))
        publish(self.folder, self.file, self.config, state)

    def _devices(self) -> str:
        """What has computed the run so far, as torch calls it: cpu, or cuda, or both where it went on elsewhere."""
        before = self.cost.get("device")
        return ", ".join(dict.fromkeys([*(before.split(", ") if before else []), self.free[0].device.type]))

    def _evaluated(self, gather: Gather, rank: int, world: int) -> dict[str, Metrics]:
        """The metrics of the watched splits, each process predicting its share of the graphs."""
        method = cast(Method, self._average.module)
        records = {}
        for split in self.watched:
            graphs = self.benchmark.splits[split]
            share = self._indices(split)[rank::world]
            outputs = collect(method, graphs, self.config.training.eval_batch_size, share)
            records[split] = measure(self.benchmark.task, gather(outputs))
        return records

    def _indices(self, split: str) -> Tensor:
        """The graphs of a split that count: all, or a fixed sample of the training graphs."""
        size = len(self.benchmark.splits[split])
        limit = self.config.training.train_eval_graphs if split == "train" else size
        if size <= limit:
            return torch.arange(size)
        generator = torch.Generator().manual_seed(derive_seed(self.config.seed, "sample"))
        return torch.randperm(size, generator=generator)[:limit].sort().values

    def _note_best(self) -> None:
        """Keep a copy of the weights where the newest epoch is the selected one."""
        training = self.config.training
        if select_epoch(self.epochs, training.selection, self.benchmark.task.metric) == self.epoch - 1:
            self.best = copy_state(self._average.module)

    def _check_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise TrainingDiverged(
                f"the loss became NaN or infinite in epoch {self.epoch + 1}; "
                "lower training.learning_rate or set training.clip_norm, the epochs before are kept."
            )

    @property
    def _average(self) -> WeightAverage:
        assert self.average is not None, "start() comes first"
        return self.average

    @property
    def _optimizer(self) -> torch.optim.Optimizer:
        assert self.optimizer is not None, "make_optimizer() comes first"
        return self.optimizer


class LossMeter:
    """Running sums of loss terms, kept on the device so that no step waits for them."""

    def __init__(self) -> None:
        self.steps, self.graphs = 0, 0
        self.totals: dict[str, Tensor] = {}

    def add(self, terms: dict[str, Tensor], graphs: int) -> None:
        """Count the terms of a batch, by its number of graphs."""
        self.steps += 1
        self.graphs += graphs
        for name, term in terms.items():
            if name in self.totals:
                self.totals[name].add_(term.detach(), alpha=graphs)
            else:
                self.totals[name] = term.detach() * graphs

    def sums(self) -> tuple[int, dict[str, float]]:
        """Graphs counted and the sum of each term over them."""
        return self.graphs, {name: float(total) for name, total in self.totals.items()}

    def means(self) -> dict[str, float]:
        """The mean of each term so far."""
        return merge_means([self.sums()])


def merge_means(parts: Sequence[tuple[int, dict[str, float]]]) -> dict[str, float]:
    """The means of loss terms that several processes have summed up."""
    graphs = max(sum(count for count, _ in parts), 1)
    names = dict.fromkeys(name for _, sums in parts for name in sums)
    return {name: sum(sums.get(name, 0.0) for _, sums in parts) / graphs for name in names}


def copy_state(module: nn.Module) -> dict[str, Tensor]:
    """The weights of a module as they are now, on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}


def load_state(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """The saved state of an unfinished run, None where there is none; no code in the file is executed."""
    path = folder / STATE
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        sound = isinstance(state, dict) and (state.get("format"), state.get("version")) == (FORMAT, VERSION)
    except Exception:  # torch.load raises anything from KeyError to UnpicklingError on a damaged file
        sound = False
    if not sound or state["id"] != config.id:
        raise InputError(f"{path} is damaged or belongs to another run; remove it to start this run anew.")
    return cast(dict[str, Any], state)


def publish(folder: Path, file: ModelFile, config: RunConfig, state: dict[str, Any]) -> None:
    """Write what people and programs read of a saved state: epochs, selected and last weights."""
    epochs = state["epochs"]
    files.write_lines(folder / EPOCHS, epochs)
    last = state["average"].get("module", state["method"])
    chosen = select_epoch(epochs, config.training.selection, file.task.metric)
    for name, weights, position in (("last", last, len(epochs) - 1), ("best", state["best"], chosen)):
        about = {"run": config.id, "epoch": epochs[position]["epoch"], "dataset": config.dataset}
        save_weights(folder / name, file.model_copy(update={"about": about}), weights)
