"""Members fitted again to all rows once the model has been measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from goodformer.config.presets import member_configs
from goodformer.config.run import Hardware, RunConfig
from goodformer.data.benchmark import Benchmark
from goodformer.data.readers.values import counted
from goodformer.data.splits.split import Split
from goodformer.engine.blend import announce, member_run
from goodformer.engine.run import train
from goodformer.engine.store import LAST, Run
from goodformer.engine.weights import load_weights
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.methods.base import Method
from goodformer.spec import SPLITS

AGAIN = "again"
"""Folder of the second runs of networks in the folder of the run."""
FEW_ROWS = 5000
"""Rows up to which networks for measured values are trained again by default: it takes longer than the first time."""


@dataclass(frozen=True)
class RefitPlan:
    """What is fitted again.

    Attributes:
        splits: Splits whose rows the final model knows.
        quick: Whether its members that are fitted at once learn from them.
        networks: Whether its networks are trained on them.
    """

    splits: tuple[str, ...]
    quick: bool
    networks: bool


def check_refit(refit: bool, retrain: bool | None) -> None:
    """Raise an error if networks are to be trained again, but nothing is to be refitted."""
    if retrain and not refit:
        raise InputError("retrain needs refit: networks are trained again as part of it; leave one of the two out.")


def plan_refit(fitted: FittedModel, split: Split, refit: bool = True, retrain: bool | None = None) -> RefitPlan:
    """Decide what is fitted again to all rows but validation and test rows of the user.

    All but networks are, since that takes seconds. Networks are trained again by default where that was found
    to help: for measured values (docs/own-data.md), on tables of at most `FEW_ROWS` rows.

    Args:
        fitted: The measured model.
        split: Of its rows.
        refit: False fits nothing again.
        retrain: Whether networks are trained again; None decides as said.
    """
    every = tuple(name for name in SPLITS if name not in ("val", "test") or name not in split.given)
    counts = split.counts()
    few = fitted.task.measured and sum(counts[name] for name in every) <= FEW_ROWS
    kinds = [member.at_once for member in fitted.method.members]
    quick, networks = refit and any(kinds), refit and not all(kinds) and (few if retrain is None else retrain)
    return RefitPlan(every if quick or networks else ("train",), quick, networks)


def refitted(
    fitted: FittedModel,
    run: Run,
    config: RunConfig,
    benchmark: Benchmark,
    plan: RefitPlan,
    hardware: Hardware | None = None,
    watch: Callable[[str], None] | None = None,
) -> FittedModel:
    """Return a model that knows the rows of several splits, see `FittedModel.refitted`.

    A network starts from the same weights and follows the same schedule as before, up to the epoch that was selected;
    only a rate that falls on a plateau stays as it is, because no validation rows are left.

    Args:
        fitted: The measured model.
        run: Its run, in whose folder the second runs of networks are stored.
        config: Of the run.
        benchmark: The data.
        plan: What is fitted again.
        hardware: Where to compute.
        watch: Called with a sentence before members are fitted.
    """
    if not (plan.quick or plan.networks):
        return fitted
    where, every = hardware or Hardware(), benchmark.with_encodings(fitted.method.encodings).merged(plan.splits)
    rows, networks = counted(len(every.splits["train"]), "row"), {}
    if plan.networks:
        if watch:
            watch(f"training networks again on all {rows} ...")
        networks = retrained(fitted, run, config, every, where)
    if watch and plan.quick:
        whole = plan.networks or all(member.at_once for member in fitted.method.members)
        watch(f"fitting {'the model' if whole else 'every member except networks'} again to all {rows} ...")
    return fitted.refitted(every.splits["train"], config.seed, where.threads, networks)


def retrained(
    fitted: FittedModel, run: Run, config: RunConfig, benchmark: Benchmark, hardware: Hardware
) -> dict[int, Method]:
    """Return the networks among the members of a model, by their position, trained on another benchmark."""
    members, cheaper = member_configs(config), hardware.model_copy(update={"test_epochs": False})
    dataset, found = {"name": "memory", "fingerprint": benchmark.fingerprint}, {}
    for number, one in enumerate(members or (config,)):
        if fitted.method.members[number].at_once:
            continue
        if members:
            announce(one, number, len(members), hardware)
        first = member_run(run, one.folder_name) if members else run
        epoch = int((first.summary or {})["selected_epoch"])
        lines = ["selection=last", f"stop_after={epoch}", "patience=null", "perfect_patience=null"]
        second = one.with_overrides(f"training.{line}" for line in lines).to_dict()
        done = train(RunConfig.from_dict({**second, "dataset": dataset}), run.folder / AGAIN, cheaper, benchmark)
        found[number] = load_weights(done.weights(LAST))[0]
    return found
