"""Training of a blend: its members one after the other, then what combines them."""

from __future__ import annotations

import glob
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from goodformer import files
from goodformer.config.presets import member_configs, member_name
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.engine import predictions
from goodformer.engine.combine import combine
from goodformer.engine.evaluate import collect, logits_in_order, measure
from goodformer.engine.parcel import pack, receive
from goodformer.engine.record import peak_memory_mb, provenance, summarise
from goodformer.engine.selection import RULES
from goodformer.engine.store import BEST, CONFIG, EPOCHS, LAST, PREDICTED, SUMMARY, Run
from goodformer.engine.weights import ModelFile, load_weights, save_weights
from goodformer.errors import InputError
from goodformer.methods.blend import Blend, Mean
from goodformer.spec import SPLITS

MEMBERS = "members"
"""Folder of the members' runs in the folder of the blend, except those that were there before the blend."""


def complete_blend(
    run: Run,
    config: RunConfig,
    hardware: Hardware,
    benchmark: Benchmark,
    file: ModelFile,
    train: Callable[[RunConfig, Path, Hardware, Benchmark], Run],
) -> None:
    """Train what is missing of the members, combine them and write the run's summary.

    Temperatures and weights are learnt on the split that selects epochs, so ID validation stays held out for
    calibration and conformal sets unless it selects the epoch, too. The metrics of that split are cross-fitted, see
    `combine`.

    Args:
        run: The blend.
        config: Its configuration.
        hardware: Where to compute.
        benchmark: The data.
        file: Description of the blend.
        train: Trains a member, see `goodformer.engine.run.train`.
    """
    files.write_json(run.folder / CONFIG, config.to_dict())
    members = member_configs(config)
    quick, trained = hardware.model_copy(update={"test_epochs": False}), []
    for number, one in enumerate(members):
        announce(one, number, len(members), hardware)
        member = member_run(run, one.folder_name)
        if not member.finished:
            copy_member(run, member)
        trained.append(train(one, member.folder.parent, quick, benchmark))
    start, task, size = time.perf_counter(), benchmark.task, config.training.eval_batch_size
    mean: Mean = config.method["mean"]
    blend = Blend.join(task, [load_weights(one.weights(BEST))[0] for one in trained], mean)
    ready = benchmark.with_encodings(blend.encodings)
    taught_by = RULES[config.training.selection] or "val"
    held_out = combine(blend, ready.splits[taught_by], size, config.method["shift"])

    about = {"run": config.id, "epoch": 1, "dataset": config.dataset, "preset": config.preset}
    described = file.model_copy(update={"about": about})
    save_weights(run.folder / BEST, described, blend.state_dict())
    last = Blend.join(task, [load_weights(one.weights(LAST))[0] for one in trained], mean)
    last.combination = blend.combination
    save_weights(run.folder / LAST, described, last.state_dict())

    measured, kept = {}, {}
    for split in SPLITS:
        outputs = collect(blend, ready.splits[split], size)
        if split == taught_by and held_out is not None:
            outputs["logits"] = held_out
        measured[split] = measure(task, [outputs])
        kept[split] = logits_in_order(outputs, ready.splits[split], task)
    entry = predictions.keep(
        run.folder / PREDICTED, {split: kept[split] for split in predictions.KEPT}, benchmark.splits, task
    )
    summaries = [one.summary or {} for one in trained]
    record = {
        "epoch": 1,
        "loss": {"total": measured["train"]["loss"]},
        **measured,
        "learning_rate": config.training.learning_rate,
        **{name: _total(trained, name) for name in ("seconds", "processor_seconds")},
        "eval_seconds": round(time.perf_counter() - start, 3),
    }
    weights, temperatures = blend.weights.tolist(), blend.temperatures.tolist()
    cost = {
        "parameters": sum(parameter.numel() for parameter in blend.parameters()),
        "wall_seconds": round(sum(one.get("wall_seconds") or 0.0 for one in summaries), 3),
        "peak_memory_mb": max(peak_memory_mb(), *(one.get("peak_memory_mb") or 0.0 for one in summaries)),
        "device": ", ".join(dict.fromkeys(str(one["device"]) for one in summaries if one.get("device"))) or None,
        "cross_fitted": taught_by,
        "members": [
            {
                "run": one.folder_name,
                "method": one.method["name"],
                "preset": one.preset,
                "model": one.model["name"],
                "seed": one.seed,
                **{name: summary.get(name) for name in ("selected_epoch", "epochs")},
                **{name: summary.get(name) for name in ("id_val", "ood_val", "id_test", "ood_test")},
                "weight": round(weight, 6),
                "temperature": round(temperature, 6),
            }
            for one, summary, weight, temperature in zip(members, summaries, weights, temperatures, strict=True)
        ],
    }
    files.write_lines(run.folder / EPOCHS, [files.sealed(record)])
    summary = summarise(config, benchmark, [record], cost, hardware, entry)
    files.write_json(run.folder / SUMMARY, files.sealed(summary))


def announce(config: RunConfig, number: int, members: int, hardware: Hardware) -> None:
    """Say which member is trained next, if progress is shown."""
    if hardware.progress:
        name = member_name({"method": config.method["name"], "model": config.model["name"], "preset": config.preset})
        print(f"member {number + 1} of {members}: {name}, seed {config.seed}", file=sys.stderr, flush=True)


def member_run(run: Run, name: str) -> Run:
    """Return the run of a member: a finished one beside the blend, or one inside its folder."""
    beside = Run(run.folder.parent / name)
    return beside if beside.finished else Run(run.folder / MEMBERS / name)


def copy_member(run: Run, member: Run) -> None:
    """Copy a member of a blend that another blend beside it has trained, so that it is not trained again.

    Nothing happens unless the same commit, packages and machine trained it, which the record of the blend states.
    """
    here = provenance()
    if not here["commit"] or here["commit"].endswith("+"):  # unknown, or with changed files, which may change again
        return
    for place in sorted(run.folder.parent.glob(f"*/{MEMBERS}/{glob.escape(member.folder.name)}/{SUMMARY}")):
        with suppress(InputError):  # the other one is damaged
            summary = Run(place.parent).summary or {}
            if here.items() <= summary.items() and (content := pack(place.parent)):
                receive(member.folder, content)
                return


def _total(runs: Sequence[Run], name: str) -> float:
    """Return the sum of a value over all epochs of some runs."""
    return round(sum(float(epoch.get(name, 0.0)) for run in runs for epoch in run.epochs), 3)
