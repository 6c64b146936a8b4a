"""A run in progress and the files that hold its state.

``last.ckpt`` decides how far an unfinished run has come. It is replaced in one step at the end of every epoch. The
weights of a new best epoch are written to ``best.next`` before and moved to ``best`` after, so a run killed at any
moment continues from its last whole epoch. All randomness of an epoch follows from seed, epoch and process, so the
repeated epoch equals the one that was lost.
"""

from __future__ import annotations

import io
import math
import shutil
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from goodformer import files
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.engine.average import WeightAverage
from goodformer.engine.evaluate import Metrics, collect, measure
from goodformer.engine.processes import gather
from goodformer.engine.progress import Progress
from goodformer.engine.record import peak_memory_mb
from goodformer.engine.seeds import derive_seed, set_seed
from goodformer.engine.selection import plateau_cuts, select_epoch, should_stop
from goodformer.engine.store import BEST, EPOCHS, LAST, MODEL, STATE
from goodformer.engine.weights import WEIGHTS, ModelFile, move_weights, read_description, read_tensors, save_weights
from goodformer.errors import InputError
from goodformer.methods.base import Method
from goodformer.spec import SPLITS

FORMAT, VERSION = "goodformer-training", 2
NEXT = "best.next"
AfterEpoch = Callable[[Sequence[dict[str, Any]]], None]
"""What a caller does with the records of the epochs so far."""


class TrainingDiverged(InputError):
    """The loss is no longer a number; earlier epochs, if any, are kept."""


class Training:
    """A run in progress.

    Args:
        config: What to compute.
        benchmark: Data that carry the method's encodings.
        method: The method to train, its initial weights drawn from the run's seed.
        file: How the method was built.
        folder: The run's folder.
        watched: Splits that are evaluated after every epoch.
        after_epoch: Called with the records of all epochs after each one is saved; it may raise to stop the run.
    """

    average: WeightAverage
    optimizer: torch.optim.Optimizer | None = None

    def __init__(
        self,
        config: RunConfig,
        benchmark: Benchmark,
        method: Method,
        file: ModelFile,
        folder: Path,
        watched: Sequence[str] = SPLITS,
        after_epoch: AfterEpoch | None = None,
    ) -> None:
        self.config, self.benchmark, self.method, self.file, self.folder = config, benchmark, method, file, folder
        self.watched, self.after_epoch = tuple(watched), after_epoch
        self.epochs: list[dict[str, Any]] = []
        self.cost: dict[str, Any] = {"wall_seconds": 0.0, "peak_memory_mb": 0.0}
        self.saved: dict[str, Any] = {}

    @property
    def epoch(self) -> int:
        """The number of completed epochs, which is also the index of the next one."""
        return len(self.epochs)

    @property
    def selected(self) -> int:
        """The index of the best epoch so far under the selection rule."""
        return select_epoch(self.epochs, self.config.training.selection, self.benchmark.task.metric)

    @property
    def planned(self) -> int:
        """The number of epochs if the metric does not stop training; one for a method that is fitted at once."""
        training = self.config.training
        return 1 if self.method.at_once else min(training.epochs, training.stop_after or training.epochs)

    @property
    def done(self) -> bool:
        """Whether no epoch is left, or the selection metric has stopped improving."""
        training, metric = self.config.training, self.benchmark.task.metric
        return self.epoch >= self.planned or should_stop(
            self.epochs, training.selection, metric, training.patience, training.perfect_patience
        )

    @property
    def learning_rate(self) -> float:
        """The learning rate at the end of the next epoch."""
        return self.rates(1)[-1]

    def rates(self, steps: int) -> list[float]:
        """Return the learning rate of each of the ``steps`` of the next epoch."""
        training = self.config.training
        rate = training.learning_rate * 0.1 ** sum(self.epoch >= number for number in training.milestones)
        if training.schedule == "cosine":
            rate *= (1 + math.cos(math.pi * self.epoch / training.epochs)) / 2
        elif training.schedule == "plateau":
            wait = max((training.patience or training.epochs) // 3, 1)
            rate *= 0.5 ** plateau_cuts(self.epochs, training.selection, self.benchmark.task.metric, wait)
        rising = training.warmup * training.epochs * steps  # the number of steps of the warm-up
        taken = range(self.epoch * steps + 1, (self.epoch + 1) * steps + 1)  # with each of them
        return [rate * min(1.0, number / rising) if rising else rate for number in taken]

    def resume(self) -> bool:
        """Load the saved state and return whether there is one; call it before the weights go to their device."""
        self.saved = load_state(self.folder, self.config)
        if not self.saved:
            shutil.rmtree(self.folder / NEXT, ignore_errors=True)
            return False
        self.epochs, self.cost = self.saved["epochs"], self.saved["cost"]
        self.method.load_state_dict(self.saved["method"])
        best = self.folder / BEST
        if "best" in self.saved:  # version 1 kept the best weights in the state, too
            save_weights(best, self._described(self.selected), self.saved.pop("best"))
            return True
        epoch = self.epochs[self.selected]["epoch"]
        described = (self.folder / NEXT / MODEL).is_file()
        if described and read_description(self.folder / NEXT).about["epoch"] == epoch:
            move_weights(self.folder / NEXT, best)  # the state was replaced, but the weights were not yet moved
        shutil.rmtree(self.folder / NEXT, ignore_errors=True)
        try:
            file = read_description(best)
            intact = bool(read_tensors(best / WEIGHTS, file.sha256)) and file.about.get("epoch") == epoch
        except InputError:
            intact = False
        if not intact:
            raise InputError(f"{best} lacks the weights of epoch {epoch}; remove {self.folder} and train again.")
        return True

    def start(self) -> torch.optim.Optimizer:
        """Make the optimiser and the average of weights, which are on their device by now; return the optimiser."""
        training = self.config.training
        self.free = [parameter for parameter in self.method.parameters() if parameter.requires_grad]
        if not self.free:
            raise InputError(
                f"{type(self.method).__name__} has no trainable parameter; give it at least one whose requires_grad is "
                "true, or set at_once = True if it needs no gradients."
            )
        fused = self.method.device.type in ("cpu", "cuda")
        kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
        self.optimizer = kind(self.free, lr=training.learning_rate, weight_decay=training.weight_decay, fused=fused)
        self.average = WeightAverage(self.method, training.average, training.average_decay)
        if self.saved:
            self.optimizer.load_state_dict(self.saved["optimizer"])
            self.average.load_state_dict(self.saved["average"])
        self.saved = {}
        self.clock = time.perf_counter()
        return self.optimizer

    def fit_at_once(self, hardware: Hardware) -> None:
        """Fit a method that needs no gradients, evaluate it, and save it as the only epoch of the run."""
        training, graphs = self.config.training, self.benchmark.splits["train"]
        self.average, self.saved = WeightAverage(self.method, "none"), {}
        self.clock, processor_start = time.perf_counter(), time.process_time()
        set_seed(self.config.seed, "epoch", 0, 0)
        batches = (graphs.batch(chunk) for chunk in torch.arange(len(graphs)).split(training.eval_batch_size))
        with Progress(self, 1, shown=hardware.progress) as progress:
            self.method.fit(batches, derive_seed(self.config.seed, "fit"), hardware.threads)
            seconds, used = time.perf_counter() - self.clock, time.process_time() - processor_start
            found = self.evaluate()
            record = {
                "epoch": 1,
                "loss": {"total": found["train"]["loss"]},
                **found,
                "seconds": round(seconds, 3),
                "processor_seconds": round(used, 3),
                "eval_seconds": round(time.perf_counter() - self.clock - seconds, 3),
            }
            self.epochs.append(record)
            self.save()
            progress.after_epoch(record)

    def evaluate(self, rank: int = 0, world: int = 1) -> dict[str, Metrics]:
        """Evaluate the watched splits with the averaged weights; each process predicts its share of the graphs."""
        method, size, found = cast(Method, self.average.module), self.config.training.eval_batch_size, {}
        for split in self.watched:
            share = self.evaluated_graphs(split)[rank::world]
            outputs = collect(method, self.benchmark.splits[split], size, share)
            found[split] = measure(self.benchmark.task, gather(outputs))
        return found

    def evaluated_graphs(self, split: str) -> Tensor:
        """Return the positions of the graphs that are evaluated: all, or a fixed sample of the training graphs."""
        size = len(self.benchmark.splits[split])
        limit = self.config.training.train_eval_graphs if split == "train" else size
        if size <= limit:
            return torch.arange(size)
        generator = torch.Generator().manual_seed(derive_seed(self.config.seed, "sample"))
        return torch.randperm(size, generator=generator)[:limit].sort().values

    def save(self) -> None:
        """Save the state after an epoch, and its weights where it is the best so far."""
        if not self.folder.is_dir():
            raise InputError(f"{self.folder} was removed while it was being trained; train it again.")
        now, devices = time.perf_counter(), str(self.cost.get("device") or "").split(", ")
        self.cost = {
            "parameters": sum(parameter.numel() for parameter in self.method.parameters()),
            "wall_seconds": round(self.cost["wall_seconds"] + now - self.clock, 3),
            "peak_memory_mb": max(self.cost["peak_memory_mb"], peak_memory_mb()),
            # cpu, cuda, or both where a run continued on another device
            "device": ", ".join(dict.fromkeys([*filter(None, devices), self.method.device.type])),
        }
        self.clock = now
        state = {
            "format": FORMAT,
            "version": VERSION,
            "id": self.config.id,
            "epochs": self.epochs,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict() if self.optimizer else {},
            "average": self.average.state_dict(),
            "cost": self.cost,
        }
        best = self.selected == self.epoch - 1
        if best:
            save_weights(self.folder / NEXT, self._described(self.selected), self.average.module.state_dict())
        content = io.BytesIO()  # torch.save hides the reason if it cannot write a file
        torch.save(state, content)
        files.write_bytes(self.folder / STATE, content.getbuffer())
        if best:
            move_weights(self.folder / NEXT, self.folder / BEST)
        files.write_lines(self.folder / EPOCHS, map(files.sealed, self.epochs))

    def save_last(self) -> None:
        """Write the weights of the last epoch of a resumed state, which end the run."""
        weights = self.saved["average"].get("module", self.saved["method"])
        save_weights(self.folder / LAST, self._described(self.epoch - 1), weights)

    def _described(self, position: int) -> ModelFile:
        """Describe the weights of an epoch."""
        about = {"run": self.config.id, "epoch": self.epochs[position]["epoch"], "dataset": self.config.dataset}
        about["preset"] = self.config.preset
        return self.file.model_copy(update={"about": about})


def load_state(folder: Path, config: RunConfig) -> dict[str, Any]:
    """Read the saved state of an unfinished run, empty where there is none; no code in the file is executed.

    The file is a zip archive, whose checksums torch.load does not compare.
    """
    path = folder / STATE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror}); make it readable and repeat the command.") from None
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            intact = archive.testzip() is None
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True) if intact else {}
        sound = intact and isinstance(state, dict) and state.get("format") == FORMAT
    except Exception:  # torch.load raises anything from KeyError to UnpicklingError on a damaged file
        sound = False
    if not sound:
        raise InputError(f"{path} is damaged; restore it from a copy, or move it away to train from the start.")
    if state.get("version") not in (1, VERSION) or state.get("id") != config.id:
        raise InputError(
            f"{path} belongs to another run or a newer goodformer; move it away to train this run from the start."
        )
    return cast(dict[str, Any], state)
