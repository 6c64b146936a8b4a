"""The one place that knows Lightning: devices, processes, gradient clipping and the loop over batches.

Lightning's own logging, checkpoints and validation are left off. They cost milliseconds a step, and a state that is
saved by `goodformer.engine.training` alone can be resumed exactly.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.strategies.launchers import _MultiProcessingLauncher
from torch import Tensor
from torch.multiprocessing.spawn import ProcessRaisedException
from torch.utils.data import DataLoader
from torch_geometric.data import Batch
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from goodformer.config.run import Hardware
from goodformer.engine.batches import EpochBatches
from goodformer.engine.training import Training, TrainingDiverged
from goodformer.registry import InputError
from goodformer.spec import METRIC_NAMES

LOGGERS = ("lightning.pytorch", "lightning.fabric", "lightning.pytorch.utilities.rank_zero")
BAR = "{desc} {percentage:3.0f}%|{bar:16}| {n_fmt}/{total_fmt} steps, {remaining} left{postfix}"
REFRESH = 20
"""Steps between two looks of the progress bar."""
BRIEF_NAMES = {
    "train": "training",
    "id_val": "validation",
    "id_test": "test",
    "val": "shifted validation",
    "test": "shifted test",
}
"""What splits are called in the line of an epoch."""


def fit(training: Training, hardware: Hardware) -> None:
    """Train until the run is done; the result is in the run's folder."""
    callbacks: list[pl.Callback] = [Progress()] if hardware.progress else []
    callbacks += [TensorBoard()] if hardware.tensorboard else []
    _check(hardware)
    with _quiet(), _threads(hardware.threads), _plain_errors():
        trainer = pl.Trainer(
            accelerator=hardware.accelerator,
            devices=hardware.devices,
            strategy=_strategy(hardware),
            max_epochs=training.config.training.epochs,
            gradient_clip_val=training.config.training.clip_norm,
            callbacks=callbacks,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
            default_root_dir=training.folder,
        )
        trainer.fit(Adapter(training, hardware))


class Adapter(pl.LightningModule):
    """Calls the verbs of a training where Lightning has hooks."""

    def __init__(self, training: Training, hardware: Hardware) -> None:
        super().__init__()
        self.training_state, self.hardware = training, hardware
        self.method = training.method

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        _silence()  # the first moment in a process that Lightning has started

    def setup(self, stage: str) -> None:
        """Called in every process before anything is built."""
        torch.set_num_threads(self.hardware.threads)
        _silence()
        self.training_state.resume()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimiser, over weights that are on their device."""
        return self.training_state.make_optimizer()

    def train_dataloader(self) -> DataLoader[Batch]:
        """Whole batches cut from the training graphs; the share of this process."""
        training, state = self.training_state.config.training, self.training_state
        graphs = state.benchmark.splits["train"]
        self.batches = EpochBatches(
            len(graphs),
            training.batch_size,
            seed=state.config.seed,
            drop_last=training.drop_last,
            rank=self.global_rank,
            world=self.trainer.world_size,
            sizes=graphs.sizes if training.batches == "by_size" else None,
        )
        self.batches.epoch = state.epoch
        # A generator of its own: the loader draws a seed, which must not come from that of the epoch.
        return DataLoader(graphs, batch_sampler=self.batches, collate_fn=_as_is, generator=torch.Generator())

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Move a batch, unless it is where it should be."""
        return batch if device.type == "cpu" else batch.to(device, non_blocking=True)

    def on_train_start(self) -> None:
        """Take up the rest of the saved state."""
        self.training_state.start()
        if threading.current_thread() is threading.main_thread():  # Lightning's own would end as if all were done
            signal.signal(signal.SIGTERM, signal.default_int_handler)

    def on_train_epoch_start(self) -> None:
        """Seeds, learning rate, order of the graphs."""
        self.batches.epoch = self.training_state.epoch
        self.training_state.begin_epoch(self.global_rank)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of one batch."""
        return self.training_state.step_loss(batch)

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """Weight averaging."""
        self.training_state.after_step()

    def on_train_epoch_end(self) -> None:
        """Evaluate, record, save."""
        state = self.training_state
        self._share_buffers()
        state.end_epoch(self._gather, self.global_rank, self.trainer.world_size)
        self.trainer.should_stop = state.done
        for watcher in self.trainer.callbacks if self.trainer.is_global_zero else []:
            if isinstance(watcher, Watcher):
                watcher.on_record(state)

    def on_train_end(self) -> None:
        """All processes must have come to the same weights."""
        sums = self._gather([float(weight.detach().double().sum()) for weight in self.method.parameters()])
        if any(other != sums[0] for other in sums):
            raise RuntimeError("the processes of a run ended with different weights.")

    def _gather(self, value: Any) -> list[Any]:
        if self.trainer.world_size == 1:
            return [value]
        values = [None] * self.trainer.world_size
        dist.all_gather_object(values, value)
        return values

    def _share_buffers(self) -> None:
        """Running statistics differ between processes after a step; all take those of the first."""
        average = self.training_state.average
        if self.trainer.world_size > 1 and average is not None:
            for buffer in {id(b): b for module in (self.method, average.module) for b in module.buffers()}.values():
                dist.broadcast(buffer, 0)


class Watcher(pl.Callback):
    """Something that is told of every record, in the first process."""

    def on_record(self, state: Training) -> None:
        """Called when the newest of ``state.epochs`` is safe."""
        raise NotImplementedError


class Progress(Watcher):
    """One bar over all epochs with the running means of the loss terms, and a line when an epoch ends."""

    def __init__(self) -> None:
        self.bar: Any = None

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: Adapter) -> None:
        """Open the bar in the first process."""
        steps, state = int(trainer.num_training_batches), pl_module.training_state
        if trainer.is_global_zero and self.bar is None:
            seen = {"dynamic_ncols": True} if sys.stderr.isatty() else {"ncols": 110, "mininterval": 10}
            total = steps * state.config.training.epochs
            self.bar = tqdm(total=total, initial=steps * state.epoch, leave=False, bar_format=BAR, **seen)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Adapter, *_: Any) -> None:
        """Move on every few steps."""
        state = pl_module.training_state
        steps = state.meter.steps
        if self.bar is not None and (steps % REFRESH == 0 or steps == trainer.num_training_batches):
            self.bar.set_description(f"epoch {state.epoch + 1}/{state.config.training.epochs}", refresh=False)
            self.bar.set_postfix({name: f"{mean:.3f}" for name, mean in state.meter.means().items()}, refresh=False)
            self.bar.update(steps % REFRESH or REFRESH)

    def on_record(self, state: Training) -> None:
        """A line that stays."""
        self.bar.write(describe(state.epochs[-1], state), file=sys.stderr)

    def on_train_end(self, trainer: pl.Trainer, pl_module: Adapter) -> None:
        """Close the bar."""
        if self.bar is not None:
            self.bar.close()

    def on_exception(self, trainer: pl.Trainer, pl_module: Adapter, exception: BaseException) -> None:
        """Close the bar, so that a message has its own line."""
        self.on_train_end(trainer, pl_module)


class TensorBoard(Watcher):
    """The epochs' records as curves, in the run's folder."""

    def __init__(self) -> None:
        self.writer: Any = None

    def on_record(self, state: Training) -> None:
        """One point on every curve."""
        from torch.utils.tensorboard import SummaryWriter

        record, step = state.epochs[-1], state.epoch
        if self.writer is None:
            self.writer = SummaryWriter(state.folder / "tensorboard", purge_step=step)
        for name, value in flatten(record):
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def on_train_end(self, trainer: pl.Trainer, pl_module: Adapter) -> None:
        """Close the file."""
        if self.writer is not None:
            self.writer.close()


def describe(record: dict[str, Any], state: Training) -> str:
    """One line for an epoch's record."""
    metric = state.benchmark.task.metric
    scores = {name: record.get(split, {}).get(metric) for split, name in BRIEF_NAMES.items()}
    found = record.get("test", {}).get("precision_at_10")
    parts = [f"{name} {value:.4f}" for name, value in scores.items() if value is not None]
    shown = f"{METRIC_NAMES[metric]}: {', '.join(parts)}" + ("" if found is None else f"  precision@10 {found:.4f}")
    progress = f"epoch {record['epoch']}/{state.config.training.epochs}"
    return (
        f"{progress}  loss {record['loss']['total']:.4f}  {shown}  ({record['seconds'] + record['eval_seconds']:.1f} s)"
    )


def flatten(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a nested record under names like ``val/accuracy``."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{name}/")
        elif value is not None:
            yield prefix + name, float(value)


def _strategy(hardware: Hardware) -> Any:
    """One process, or several that start themselves and average their gradients."""
    if hardware.devices == 1:
        return "auto"
    # Methods that alternate leave parameters without gradient, which the averaging must be told to expect.
    return Processes(start_method="spawn", find_unused_parameters=True)


class Processes(DDPStrategy):
    """Processes of this machine, each of which ends as soon as its work is done."""

    def _configure_launcher(self) -> None:
        self._launcher = Launcher(self, start_method=self._start_method)


class Launcher(_MultiProcessingLauncher):
    """Leaves a process without taking its interpreter apart.

    The threads of torch.distributed outlive the work. Now and then one of them asks for the interpreter that is being
    taken apart and aborts its process, and a finished run would be lost to its caller. Nothing is left to tidy up: the
    result is in the pipe and the run is on disk.
    """

    def _wrapping_function(self, process_idx: int, *args: Any) -> None:
        super()._wrapping_function(process_idx, *args)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _check(hardware: Hardware) -> None:
    """The devices asked for are there."""
    cards = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
    if hardware.accelerator == "gpu" and hardware.devices > cards:
        raise InputError(f"{hardware.devices} gpu(s) asked for but {cards} found; use fewer or accelerator cpu.")


def _as_is(batch: Batch) -> Batch:
    return batch


def _silence() -> None:
    """Leave out Lightning's hints, which speak of things this file decides."""
    warnings.filterwarnings("ignore", module=r"lightning\..*")
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Lightning and the processes it starts, and only for a while."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    surroundings = set(os.environ)
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with warnings.catch_warnings():
        _silence()
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
            for name in set(os.environ) - surroundings:  # Lightning leaves its ports and ranks behind
                del os.environ[name]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Use so many threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Errors as the caller expects them, though Lightning ends the program on Ctrl-C and processes wrap theirs."""
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    except ProcessRaisedException as error:
        found = re.search(r"^goodformer\S*\.(InputError|TrainingDiverged): (.+)$", str(error), re.MULTILINE)
        if found is None:
            raise
        kind = TrainingDiverged if found[1] == "TrainingDiverged" else InputError
        raise kind(found[2]) from None
    finally:
        for number, handler in handlers.items() if main else ():
            signal.signal(number, handler)
