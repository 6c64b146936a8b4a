"""The training loop, on Lightning Fabric: devices, processes, backward pass and gradient clipping.

A run is saved by `goodformer.engine.training` alone, so that it can be resumed exactly.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from lightning.fabric import Fabric
from lightning.fabric.plugins.environments import LightningEnvironment
from lightning.fabric.strategies import DDPStrategy
from torch import Tensor, nn

from goodformer.config.run import Hardware
from goodformer.engine.batches import EpochBatches
from goodformer.engine.memory import keep_freed_memory
from goodformer.engine.processes import gather, run_processes
from goodformer.engine.products import fast_products
from goodformer.engine.progress import Progress, TensorBoard
from goodformer.engine.seeds import set_seed
from goodformer.engine.teacher import TAUGHT
from goodformer.engine.training import Training, TrainingDiverged
from goodformer.errors import InputError
from goodformer.methods.base import Method

CHECK_EVERY = 20
"""Steps between two checks of the running loss: each check waits for the device."""


def fit(state: Training, hardware: Hardware) -> None:
    """Train until the run is done; the result is in the run's folder."""
    cards = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
    if hardware.accelerator == "gpu" and hardware.devices > cards:
        raise InputError(f"{hardware.devices} gpu(s) requested but {cards} found; use fewer or accelerator cpu.")
    if hardware.devices * hardware.nodes > 1:
        run_processes(hardware.devices, train_share, state, hardware, nodes=hardware.nodes)
        return
    threads = torch.get_num_threads()
    try:
        train_epochs(state, hardware)
    finally:
        torch.set_num_threads(threads)


def train_share(state: Training, hardware: Hardware) -> None:
    """Train as one of several processes."""
    for name in ("lightning.fabric", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Tensors arrive in memory that all processes share; weights and optimiser state must be this process's own.
    state.method, state.saved = copy.deepcopy((state.method, state.saved))
    with fast_products(hardware.threads):
        train_epochs(state, hardware)


def train_epochs(state: Training, hardware: Hardware) -> None:
    """Train, evaluate, record and save, epoch by epoch."""
    torch.set_num_threads(hardware.threads)
    keep_freed_memory()
    fabric = Fabric(
        accelerator=hardware.accelerator,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        # Methods that alternate leave parameters without gradient, which DDP does not expect by default.
        strategy=DDPStrategy(find_unused_parameters=True) if hardware.devices * hardware.nodes > 1 else "auto",
        plugins=[LightningEnvironment()],
    )
    fabric.launch()
    rank, world, training = fabric.global_rank, fabric.world_size, state.config.training
    if hardware.nodes > 1:
        share_state(state)

    method = fabric.setup_module(state.method)
    method.mark_forward_method("loss")
    optimizer = fabric.setup_optimizers(state.start())
    graphs = state.benchmark.splits["train"]
    batches = EpochBatches(
        len(graphs),
        training.batch_size,
        seed=state.config.seed,
        drop_last=training.drop_last,
        rank=rank,
        world=world,
        labels=graphs.graph["y"] if training.sampling == "balanced" else None,
    )
    curves = TensorBoard(state.folder) if hardware.tensorboard and rank == 0 else None
    with Progress(state, len(batches), shown=hardware.progress and rank == 0) as progress:
        while not state.done:
            start, processor_start = time.perf_counter(), time.process_time()
            set_seed(state.config.seed, "epoch", state.epoch, rank)
            meter = train_epoch(fabric, state, method, optimizer, batches, progress)
            shares = gather((meter.sums(), time.process_time() - processor_start))
            loss = merge_means([sums for sums, _ in shares])
            check_finite(loss, state.epoch, int(graphs.edge_ptr[-1]))
            seconds = time.perf_counter() - start

            state.average.after_epoch()
            if world > 1:  # running statistics differ between processes; all take those of the first
                modules = dict.fromkeys((state.method, state.average.module))
                for buffer in (buffer for module in modules for buffer in module.buffers()):
                    dist.broadcast(buffer, 0)
            record = {
                "epoch": state.epoch + 1,
                "loss": loss,
                **state.evaluate(rank, world),
                "learning_rate": state.learning_rate,
                "seconds": round(seconds, 3),
                "processor_seconds": round(sum(used for _, used in shares), 3),
                "eval_seconds": round(time.perf_counter() - start - seconds, 3),
            }
            state.epochs.append(record)
            if rank == 0:
                state.save()
                progress.after_epoch(record)
                if curves is not None:
                    curves.add(record)
                if state.after_epoch is not None:
                    state.after_epoch(state.epochs)

    sums = gather([float(weight.detach().double().sum()) for weight in state.method.parameters()])
    if any(other != sums[0] for other in sums):
        raise RuntimeError("the processes of a run ended with different weights.")


def train_epoch(
    fabric: Fabric, state: Training, method: Any, optimizer: Any, batches: EpochBatches, progress: Progress
) -> LossMeter:
    """Take one optimiser step per batch and return the loss terms; ``method`` is the one that Fabric has set up."""
    graphs, clip_norm = state.benchmark.splits["train"], state.config.training.clip_norm
    epoch = batches.epoch = state.epoch
    chosen = {id(parameter) for parameter in state.method.trainable(epoch)}
    for parameter in state.free:
        parameter.requires_grad_(id(parameter) in chosen)

    meter = LossMeter()
    for step, (indices, rate) in enumerate(zip(batches, state.rates(len(batches)), strict=True)):
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = graphs.batch(indices)
        batch = batch if fabric.device.type == "cpu" else batch.to(fabric.device, non_blocking=True)
        if TAUGHT in batch:
            batch.y = batch.taught
        terms = method.loss(batch, epoch)
        if meter.steps == 0:
            check_terms(terms, state.method)
        total = cast(Tensor, sum(terms.values()))
        # Gradients are averaged over processes: a share of more graphs must count for more.
        part = len(indices) * fabric.world_size / batches.lengths[step]
        fabric.backward(total if part == 1 else total * part)
        if clip_norm is not None:
            fabric.clip_gradients(method, optimizer, max_norm=clip_norm, error_if_nonfinite=False)
        optimizer.step()
        optimizer.zero_grad()
        if fabric.world_size > 1:
            merge_flags(state.method)
        state.average.after_step()
        meter.add({"total": total, **terms}, batch.num_graphs)
        if meter.steps % CHECK_EVERY == 0:
            check_finite(meter.means(), epoch, int(graphs.edge_ptr[-1]))
        progress.after_step(meter)
    return meter


def share_state(state: Training) -> None:
    """Give the saved state of the first process to all others, whose machines need not share its disk."""
    ids = gather(state.config.id)
    if len(set(ids)) > 1:
        raise InputError(f"the nodes were asked to train different runs ({', '.join(dict.fromkeys(ids))}); give one.")
    held: list[Any] = [(state.epochs, state.cost, state.saved)]
    dist.broadcast_object_list(held, 0)
    state.epochs, state.cost, state.saved = held[0]
    if state.saved:
        state.method.load_state_dict(state.saved["method"])


def merge_flags(module: nn.Module) -> None:
    """Set in every process what one of them has set: boolean buffers, such as which codes have been seen."""
    for buffer in (buffer for buffer in module.buffers() if buffer.dtype == torch.bool):
        flags = buffer.to(torch.uint8)
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        buffer.copy_(flags)


def check_terms(terms: Any, method: Method) -> None:
    """Raise an error unless a method's loss is a dictionary of scalar tensors that depend on its parameters."""
    where = f"{type(method).__name__}.loss"
    if not isinstance(terms, dict) or not terms:
        got = "an empty dictionary" if terms == {} else f"an object of type {type(terms).__name__}"
        raise InputError(f'{where} returns {got}; return a dictionary of scalar tensors, such as {{"risk": loss}}.')
    for name, term in terms.items():
        if not isinstance(term, Tensor) or term.dim() > 0:
            got = f"a tensor of shape {tuple(term.shape)}" if isinstance(term, Tensor) else f"a {type(term).__name__}"
            raise InputError(f"{where} returns {got} as {name!r}; return a scalar tensor, for example its mean.")
    if "total" in terms:
        raise InputError(f"{where} returns a term 'total', which is the name of the sum of all terms; rename it.")
    if not any(term.requires_grad for term in terms.values()):
        raise InputError(f"no term of {where} depends on a parameter; compute it without detach() and no_grad().")


def check_finite(loss: Mapping[str, float], epoch: int, edges: int = 1) -> None:
    """Stop the run when its loss, the entry ``total``, is no longer a number; ``edges`` are those of all graphs."""
    if not math.isfinite(loss["total"]) and not edges:
        raise TrainingDiverged("no training graph has an edge, which this method needs; use --method erm.")
    if not math.isfinite(loss["total"]):
        wrong = [name for name, value in loss.items() if name != "total" and not math.isfinite(value)]
        named = f"the loss ({', '.join(wrong)})" if wrong else "the loss"
        raise TrainingDiverged(
            f"{named} became NaN or infinite in epoch {epoch + 1}; lower training.learning_rate or set "
            f"training.clip_norm.{' Earlier epochs are kept.' if epoch else ''}"
        )


class LossMeter:
    """Running sums of loss terms, kept on the device so that no step waits for them."""

    def __init__(self) -> None:
        self.steps, self.graphs = 0, 0
        self.totals: dict[str, Tensor] = {}

    def add(self, terms: dict[str, Tensor], graphs: int) -> None:
        """Add the terms of a batch, weighted by its number of graphs."""
        self.steps += 1
        self.graphs += graphs
        for name, term in terms.items():
            if name in self.totals:
                self.totals[name].add_(term.detach(), alpha=graphs)
            else:
                self.totals[name] = term.detach() * graphs

    def sums(self) -> tuple[int, dict[str, float]]:
        """Return the number of graphs and the sum of each term over them."""
        return self.graphs, {name: float(total) for name, total in self.totals.items()}

    def means(self) -> dict[str, float]:
        """Return the mean of each term so far."""
        return merge_means([self.sums()])


def merge_means(parts: Sequence[tuple[int, dict[str, float]]]) -> dict[str, float]:
    """Return the mean of each loss term over the graphs of all processes."""
    graphs = max(sum(count for count, _ in parts), 1)
    names = dict.fromkeys(name for _, sums in parts for name in sums)
    return {name: sum(sums.get(name, 0.0) for _, sums in parts) / graphs for name in names}
