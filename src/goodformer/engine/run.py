"""Training in one call: a configuration in, a finished run out."""

from __future__ import annotations

from pathlib import Path

from goodformer import files
from goodformer.config.presets import member_configs
from goodformer.config.run import Hardware, RunConfig
from goodformer.data import load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.engine import predictions
from goodformer.engine.blend import complete_blend
from goodformer.engine.evaluate import collect, logits_in_order, measure
from goodformer.engine.processes import node_rank
from goodformer.engine.products import fast_products
from goodformer.engine.record import summarise
from goodformer.engine.seeds import own_randomness, set_seed
from goodformer.engine.store import BEST, CONFIG, EPOCHS, PREDICTED, SUMMARY, Run
from goodformer.engine.teacher import taught
from goodformer.engine.training import AfterEpoch, Training
from goodformer.engine.weights import MemberFile, ModelFile, load_weights
from goodformer.errors import InputError
from goodformer.methods import METHODS
from goodformer.methods.base import Method, check_task
from goodformer.spec import SPLITS, Task

WATCHED = ("train", "id_val", "val")
"""Splits that are evaluated after every epoch when the test splits are not."""


def train(
    config: RunConfig,
    root: str | Path = "runs",
    hardware: Hardware | None = None,
    benchmark: Benchmark | None = None,
    after_epoch: AfterEpoch | None = None,
) -> Run:
    """Train, evaluate and record the run that a configuration describes.

    The run's folder is ``root / config.folder_name``. A finished run is returned at once. An interrupted run continues
    from its last whole epoch and ends, on a CPU, with the same bits as an uninterrupted one. The caller's random
    generators are left unchanged.

    Args:
        config: What to compute.
        root: Folder that holds the run folders.
        hardware: Where to compute it; by default one CPU thread.
        benchmark: The data, if they are already loaded or have no name; by default loaded as the configuration says.
        after_epoch: Called with the records of all epochs after each one is saved; what it raises stops the run, which
            can then be continued. The members of a blend do not call it.

    Of several nodes (``hardware.nodes``) only the first writes into the run's folder.
    """
    run = Run(Path(root) / config.folder_name)
    if run.finished:
        return run
    if hardware is not None and hardware.nodes > 1 and node_rank() > 0:
        with own_randomness():
            _assist(run, config, hardware, benchmark)
        return run
    hardware = hardware or Hardware()
    with run.locked(), own_randomness(), fast_products(hardware.threads):
        if not run.finished:
            _complete(run, config, hardware, benchmark, after_epoch)
    return run


def build_method(config: RunConfig, benchmark: Benchmark) -> tuple[Method, ModelFile]:
    """Return the method of a configuration, its initial weights drawn from the seed, and its description."""
    check_method(config, benchmark.task)
    members = tuple(MemberFile(model=one.model, method=one.method) for one in member_configs(config))
    file = ModelFile(
        model=config.model, method=config.method, features=benchmark.features, task=benchmark.task, members=members
    )
    with own_randomness():
        set_seed(config.seed, "weights")
        return file.build(), file


def check_method(config: RunConfig, task: Task) -> None:
    """Raise an error if the method of a run, or of one of its members, does not support the task."""
    for one in member_configs(config) or (config,):
        check_task(one.method["name"], METHODS[one.method["name"]], task)


def _assist(run: Run, config: RunConfig, hardware: Hardware, given: Benchmark | None) -> None:
    """Take part in the training of a run that the first node records."""
    from goodformer.engine.loop import fit

    benchmark = given or load_benchmark(**config.dataset)
    method, file = build_method(config, benchmark)
    _check_nodes(method, file, hardware)
    ready = taught(config, benchmark.with_encodings(method.encodings), method, hardware.threads)
    fit(Training(config, ready, method, file, run.folder, SPLITS if hardware.test_epochs else WATCHED), hardware)


def _check_nodes(method: Method, file: ModelFile, hardware: Hardware) -> None:
    """Raise an error if a method that cannot be trained by several nodes is to be."""
    if hardware.nodes > 1 and (file.members or method.at_once):
        raise InputError(f"{file.method['name']} is trained on one node; leave --nodes out.")


def _complete(
    run: Run, config: RunConfig, hardware: Hardware, given: Benchmark | None, after_epoch: AfterEpoch | None = None
) -> None:
    """Train what is missing of a run and write its summary."""
    benchmark = given or load_benchmark(**config.dataset)
    method, file = build_method(config, benchmark)
    _check_nodes(method, file, hardware)
    if file.members:
        complete_blend(run, config, hardware, benchmark, file, train)
        return
    ready = benchmark.with_encodings(method.encodings)
    watched = SPLITS if hardware.test_epochs else WATCHED
    training = Training(config, ready, method, file, run.folder, watched, after_epoch)
    files.write_json(run.folder / CONFIG, config.to_dict())  # not earlier: settings that cannot be built are no run
    training.resume()
    if not training.done or hardware.nodes > 1:  # the other nodes cannot know that it is done
        if method.at_once:
            training.fit_at_once(hardware)
        else:
            from goodformer.engine.loop import fit  # Lightning takes a second to import

            training.benchmark = taught(config, ready, method, hardware.threads)
            fit(training, hardware)
        if not training.resume():
            raise InputError(f"{run.folder} was removed while it was being trained; train it again.")
    chosen = training.epochs[training.selected]
    method, _ = load_weights(run.folder / BEST)
    kept = {}
    for split in (one for one in SPLITS if one not in chosen or one in predictions.KEPT):
        outputs = collect(method, ready.splits[split], config.training.eval_batch_size)
        chosen.setdefault(split, measure(ready.task, [outputs]))
        kept[split] = logits_in_order(outputs, ready.splits[split], ready.task)
    entry = predictions.keep(run.folder / PREDICTED, kept, benchmark.splits, benchmark.task)
    training.save_last()
    files.write_lines(run.folder / EPOCHS, map(files.sealed, training.epochs))
    summary = summarise(config, benchmark, training.epochs, training.cost, hardware, entry)
    files.write_json(run.folder / SUMMARY, files.sealed(summary))
