"""Search for the settings of a method on a user's file, judged on the split that selects epochs.

A search is an Optuna study in a folder, so it can be stopped and continued, and several processes can work on one
search. A trial is a run. The trial of a process that has ended, however it ended, is continued by the next one: it
keeps its number and its settings, and its run goes on from the last epoch. The test splits take no part in a search.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodformer import files
from goodformer.apply.fit import OwnFile, check_splits
from goodformer.apply.recipe import Recipe, configure_fit
from goodformer.config.run import Hardware, RunConfig, parse_assignment
from goodformer.config.search import Range, lines_of, search_space, value_of, write_preset
from goodformer.data.benchmark import Benchmark
from goodformer.data.digest import FILE, digest
from goodformer.data.readers.values import counted
from goodformer.engine.run import train
from goodformer.engine.selection import RULES
from goodformer.engine.store import AlreadyTrained, Run
from goodformer.engine.training import TrainingDiverged
from goodformer.errors import CannotWrite, InputError
from goodformer.spec import LOWER_IS_BETTER, METRIC_NAMES, SPLIT_NAMES

if TYPE_CHECKING:
    import optuna

    from goodformer.apply.journal import Journal

STUDY, BEST, REPORT, PICTURE, RUNS = "study.log", "best.yaml", "search.json", "search.png", "runs"
"""Files of a search in its folder, and the folder of its runs."""
NAME = "goodformer"
STARTUP = 5
"""Finished trials before the first one is pruned."""
WORKER, DIVERGED = "worker", "diverged"
"""Attributes of trials: the process that works on it, and that the loss was not finite."""
PATIENCE = 1.0
"""Seconds between two looks at a run that another process is training."""
STOPPED = "stopped"
"""What `Spread` says of a run that the search has stopped, and of one whose loss was not finite `DIVERGED`."""
Reporter = Callable[[int, float], None]
"""Called with the number of an epoch and its validation score; what it raises ends the trial."""
Watch = Callable[[str], None]
Ask = Callable[[], RunConfig | None]
"""Returns the next run to train, None if there is none for now."""
Judge = Callable[[RunConfig, Sequence[Mapping[str, Any]]], bool]
"""Called with the epochs of a run so far; returns whether to stop it."""
Ended = tuple[RunConfig, str, str | None]
"""A run that has ended, how (finished, stopped, diverged or failed), and a sentence on why it failed."""
Spread = Callable[[Path, Ask, Judge, Hardware, Callable[[RunConfig], Any]], Generator[Ended, None, None]]
"""Trains runs elsewhere and yields each that has ended, see `goodformer.executors.spread`."""


@dataclass(frozen=True)
class Search:
    """What is tuned.

    Attributes:
        source: The data.
        method: Name of a method.
        model: Name of a model; by default the one the method is published with.
        preset: Preset of the method that a search starts from; by default that of `fit`.
        overrides: Settings that all trials share, ``part.setting=value``.
        seed: Seed of all runs and of the search.
        runs: Folder of the runs.
        hardware: Where to compute.
    """

    source: OwnFile
    method: str = "goodformer"
    model: str | None = None
    preset: str | None = None
    overrides: tuple[str, ...] = ()
    seed: int = 0
    runs: Path = Path(RUNS)
    hardware: Hardware = field(default_factory=lambda: Hardware(progress=False, test_epochs=False))

    def config(self, settings: Mapping[str, Any] | None = None) -> RunConfig:
        """Return the run of a trial; without settings that of the preset. The user's settings win over the trial's."""
        lines = [*lines_of(settings or {}), *self.overrides]
        recipe = Recipe(self.method, self.model, self.preset, lines, self.seed)
        return configure_fit(loaded(self.source), self.source.dataset, recipe)

    def space(self) -> dict[str, Range]:
        """Return what is varied: the ranges of method and model, without settings that the user or the preset fixed."""
        fixed = {line.partition("=")[0].strip() for line in self.overrides}
        space = {name: one for name, one in search_space(self.config()).items() if name not in fixed}
        if not space:
            raise InputError(f"nothing is left to tune for method {self.method}; leave out some --set options.")
        return space


def loaded(source: OwnFile) -> Benchmark:
    """Return the data of a search, read once per process as long as its files do not change."""
    given = Path(source.split.removeprefix(FILE)) if source.split.startswith(FILE) else None
    paths = [path for path in (source.path, source.val, source.test, given) if path is not None and path.exists()]
    return _loaded(source, tuple(map(digest, paths)))


@lru_cache(maxsize=1)
def _loaded(source: OwnFile, digests: tuple[str, ...]) -> Benchmark:
    return source.load().benchmark()


def objective(settings: Mapping[str, Any], report: Reporter, search: Search) -> float:
    """Train one run in this process and return its score on the split that selects the epoch, at the selected epoch.

    A run that was stopped before continues from its last epoch.

    Args:
        settings: Values of the settings that are varied, by names such as ``training.learning_rate``.
        report: Called after every epoch; what it raises ends the run.
        search: What is tuned.
    """
    config, benchmark, reported = search.config(settings), loaded(search.source), 0

    def after_epoch(epochs: Sequence[Mapping[str, Any]]) -> None:
        nonlocal reported
        new, reported = epochs[reported:], len(epochs)
        for number, score in scores(new, config, benchmark):
            report(number, score)

    return score_of(train(config, search.runs, search.hardware, benchmark, after_epoch), benchmark)


def scores(epochs: Sequence[Mapping[str, Any]], config: RunConfig, benchmark: Benchmark) -> Iterator[tuple[int, float]]:
    """Yield number and validation score of the epochs that have one."""
    for epoch in epochs:
        if (score := epoch[judged_by(config)].get(benchmark.task.metric)) is not None:
            yield epoch["epoch"], score


def score_of(run: Run, benchmark: Benchmark) -> float:
    """Return the validation score of a finished run."""
    split, metric = judged_by(run.config), benchmark.task.metric
    score = (run.summary or {})["splits"][split].get(metric)
    if score is None:
        raise InputError(
            f"{METRIC_NAMES[metric]} is not defined on {SPLIT_NAMES[split]} ({split}); choose another split."
        )
    return float(score)


def judged_by(config: RunConfig) -> str:
    """Return the split whose metric judges a trial: the one that selects the epoch, never a test split."""
    return RULES[config.training.selection] or "val"


def tune(
    search: Search, out: str | Path, trials: int = 30, watch: Watch | None = None, spread: Spread | None = None
) -> dict[str, Any]:
    """Search until a study has so many finished trials, and write the best settings found.

    Args:
        search: What is tuned; its runs are stored below ``out``.
        out: Folder of the search. A search that is there and has the same task is continued.
        trials: Finished trials of the whole search, those of earlier calls and of other processes included.
        watch: Called with a sentence after every trial, or if no trial is left to do.
        spread: Trains many runs at a time elsewhere; by default this process trains one after the other.

    Returns:
        The content of ``search.json``: the best trials, the importance of each setting, and the files.
    """
    folder = Path(out)
    files.check_output(folder / STUDY, "trials")
    search = replace(search, runs=folder / RUNS)
    config = search.config()
    check_splits(config, loaded(search.source))
    space = search.space()
    files.make_folder(folder)
    study, journal = open_study(search, folder / STUDY)
    with journal.lock:
        if not study.get_trials(deepcopy=False):  # the first trial is the preset itself
            study.enqueue_trial({name: value_of(config, name) for name in space})
    done = len(finished(study))
    if watch and done >= trials:
        watch(f"the search in {folder} has {counted(done, 'finished trial')}; to continue it, give a larger --trials.")
    try:
        with journal.worker() as name:
            worker = SearchWorker(study, journal, name, search, space, config.training.epochs, watch)
            while len(finished(study)) < trials:
                worker.work_here() if spread is None else worker.work_elsewhere(spread, trials)
    finally:  # also if the user stops the search
        report = summarise(study, search, folder, space)
    return report


def open_study(search: Search, path: Path) -> tuple[optuna.Study, Journal]:
    """Return the study in a file, which is made if it is missing, and its journal; refuse one of another task."""
    try:
        import optuna

        from goodformer.apply.journal import ADVICE, Journal
    except ImportError:
        raise InputError("the search needs Optuna; install it with: pip install 'goodformer[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    metric = loaded(search.source).task.metric
    config = search.config()  # its data set has the digests of the files
    task = {**config.dataset, "method": search.method, "model": search.model, "preset": config.preset}
    task = json.loads(json.dumps({**task, "set": list(search.overrides), "seed": search.seed}))
    journal = Journal(path)
    try:
        study = optuna.create_study(
            storage=optuna.storages.JournalStorage(journal),
            pruner=optuna.pruners.MedianPruner(STARTUP, max(config.training.epochs // 10, 1)),
            study_name=NAME,
            direction="minimize" if metric in LOWER_IS_BETTER else "maximize",
            load_if_exists=True,
        )
        known = study.user_attrs.get("task")
    except InputError:
        raise
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is damaged; {ADVICE}.") from None
    if known is None:
        study.set_user_attr("task", known := task)
    other = sorted(name for name in task if known.get(name, task[name]) != task[name])
    if other and all(name.endswith("sha256") for name in other):
        raise InputError(
            f"the data have changed since the search in {path.parent} began; choose another folder for a new search."
        )
    if other:
        raise InputError(
            f"{path.parent} holds a search with other settings ({', '.join(other)}); choose another folder, or repeat "
            "its command."
        )
    return study, journal


@dataclass(frozen=True)
class SearchWorker:
    """Where a process works on a search: it takes trials, has their runs trained, and tells the study how they ended.

    Attributes:
        study: The study.
        journal: Its file.
        name: Name of this process in the study.
        search: What is tuned.
        space: What is varied.
        epochs: Epochs of a run that is not pruned.
        watch: Called with a sentence after every trial.
    """

    study: optuna.Study
    journal: Journal
    name: str
    search: Search
    space: Mapping[str, Range]
    epochs: int
    watch: Watch | None = None

    def take(self) -> tuple[optuna.Trial, RunConfig, dict[str, Any]]:
        """Return a trial with its run and settings: one whose process has ended, else a new one."""
        from optuna.samplers import TPESampler
        from optuna.trial import Trial, TrialState

        with self.journal.lock:
            running = self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            left = [one for one in running if not self.journal.alive(str(one.user_attrs.get(WORKER)))]
            trial = Trial(self.study, left[0]._trial_id) if left else self.study.ask()
            trial.set_user_attr(WORKER, self.name)
        settings = {}
        for place, (name, one) in enumerate(self.space.items()):
            # Every value has its own seed: a process that is killed between two of them repeats itself, and two
            # processes that share a study differ.
            seed = (1000 * self.search.seed + trial.number) * 100 + place
            self.study.sampler = TPESampler(seed=seed % 2**32, constant_liar=True)
            settings[name] = suggest(trial, name, one)
        return trial, self.search.config(settings), settings

    def work_here(self) -> None:
        """Complete one trial in this process."""
        from optuna import TrialPruned

        trial, config, settings = self.take()

        def report(epoch: int, score: float) -> None:
            self.report(trial, {epoch: score})
            if epoch < self.epochs and trial.should_prune():
                raise TrialPruned

        while True:
            try:
                return self.note_score(trial, config, objective(settings, report, self.search))
            except AlreadyTrained:  # another process has a trial with the same settings
                time.sleep(PATIENCE)
            except (TrialPruned, TrainingDiverged) as reason:
                return self.note_pruned(trial, config, isinstance(reason, TrainingDiverged))
            except CannotWrite:  # the trial goes on when there is room again
                raise
            except Exception:
                self.note_failure(trial)
                raise

    def work_elsewhere(self, spread: Spread, trials: int) -> None:
        """Complete trials, several at a time, until the study has so many finished ones."""
        benchmark = loaded(self.search.source)
        training: dict[str, list[optuna.Trial]] = {}  # two trials may have the same settings, and then one run

        def ask() -> RunConfig | None:
            while sum(map(len, training.values())) + len(finished(self.study)) < trials:
                trial, config, _ = self.take()
                training.setdefault(config.id, []).append(trial)
                if len(training[config.id]) == 1:
                    return config
            return None

        def judge(config: RunConfig, epochs: Sequence[Mapping[str, Any]]) -> bool:
            found = dict(scores(epochs, config, benchmark))
            for trial in training[config.id]:
                self.report(trial, found)
            return max(found, default=self.epochs) < self.epochs and all(
                trial.should_prune() for trial in training[config.id]
            )

        runs = spread(self.search.runs, ask, judge, self.search.hardware, lambda _: benchmark)
        with closing(runs):
            for config, how, why in runs:
                for trial in training.pop(config.id):
                    if why is not None:
                        self.note_failure(trial)
                    elif how in (STOPPED, DIVERGED):
                        self.note_pruned(trial, config, how == DIVERGED)
                    else:
                        run = Run(self.search.runs / config.folder_name)
                        self.report(trial, dict(scores(run.epochs, config, benchmark)))
                        self.note_score(trial, config, score_of(run, benchmark))
                if why is not None:
                    raise InputError(why)

    def report(self, trial: optuna.Trial, found: Mapping[int, float]) -> None:
        """Tell the study the scores of epochs that it does not know."""
        known = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        for number in sorted(found.keys() - known):
            trial.report(found[number], number)

    def note_score(self, trial: optuna.Trial, config: RunConfig, score: float) -> None:
        """Tell the study the score of a trial."""
        trial.set_user_attr("run", config.folder_name)
        self.study.tell(trial, score)
        self._say(trial)

    def note_pruned(self, trial: optuna.Trial, config: RunConfig, diverged: bool) -> None:
        """Tell the study that a trial was pruned, and remove its run."""
        from optuna.trial import TrialState

        if diverged:
            trial.set_user_attr(DIVERGED, True)
        self.study.tell(trial, state=TrialState.PRUNED)
        shutil.rmtree(self.search.runs / config.folder_name, ignore_errors=True)
        self._say(trial)

    def note_failure(self, trial: optuna.Trial) -> None:
        """Tell the study that a trial has failed, so that it is not tried again."""
        from optuna.trial import TrialState

        self.study.tell(trial, state=TrialState.FAIL)

    def _say(self, trial: optuna.Trial) -> None:
        if self.watch:
            self.watch(_told(self.study, trial.number, loaded(self.search.source).task.metric))


def suggest(trial: optuna.Trial, name: str, one: Range) -> Any:
    """Return the value that a study suggests for a setting."""
    if one.choices:
        return trial.suggest_categorical(name, one.choices)
    if one.whole:
        return trial.suggest_int(name, int(one.low), int(one.high), log=one.log)
    return trial.suggest_float(name, one.low, one.high, log=one.log)


def finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the trials that have ended by themselves or were pruned."""
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


def ranked(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the trials with a score, best first; of equals the earliest."""
    from optuna.study import StudyDirection

    sign = 1 if study.direction == StudyDirection.MINIMIZE else -1
    scored = [trial for trial in finished(study) if trial.state.name == "COMPLETE" and trial.value is not None]
    return sorted(scored, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


def _told(study: optuna.Study, number: int, metric: str) -> str:
    """Return a sentence on a trial that has just ended."""
    trial, best = study.get_trials(deepcopy=False)[number], next(iter(ranked(study)), None)
    what = f"pruned after {counted(len(trial.intermediate_values), 'epoch')}"
    what = "diverged" if trial.user_attrs.get(DIVERGED) else what
    value = f"{METRIC_NAMES[metric]} {trial.value:.4f}" if trial.state.name == "COMPLETE" else what
    leads = "" if best is None else f"; best {best.value:.4f} (trial {best.number + 1})"
    return f"trial {number + 1}: {value}{leads}"


def summarise(study: optuna.Study, search: Search, folder: Path, space: Mapping[str, Range]) -> dict[str, Any]:
    """Write the best settings, a picture and ``search.json``, and return the content of the last."""
    from goodformer.draw.search import draw_search  # loads Matplotlib

    metric, config = loaded(search.source).task.metric, search.config()
    best, split = ranked(study), judged_by(config)
    judge = f"{METRIC_NAMES[metric]} on {SPLIT_NAMES[split]}"
    report: dict[str, Any] = {
        "folder": str(folder),
        "method": config.method["name"],
        "model": config.model["name"],
        "metric": metric,
        "split": split,
        "trials": len(finished(study)),
        "pruned": sum(trial.state.name == "PRUNED" for trial in finished(study)),
        "settings": list(space),
        "importances": importances(study),
        "best": [
            {
                "trial": trial.number + 1,
                "score": trial.value,
                "epochs": max(trial.intermediate_values, default=1),
                "run": trial.user_attrs.get("run"),
                "settings": {name: trial.params[name] for name in space},
            }
            for trial in best
        ],
    }
    if best:
        about = f"Trial {best[0].number + 1} of a search by goodformer tune: {judge} {best[0].value:.4f}."
        given = {".".join(path): value for path, value in map(parse_assignment, search.overrides)}
        kept = {name: value for name, value in given.items() if name.count(".") == 1 and not name.endswith(".name")}
        write_preset(folder / BEST, config, {**report["best"][0]["settings"], **kept}, about)
        history = [(trial.number + 1, _last(trial), trial.state.name == "PRUNED") for trial in finished(study)]
        lower = metric in LOWER_IS_BETTER
        draw_search(history, report["importances"], folder / PICTURE, judge, lower)

    files.write_json(folder / REPORT, report)
    return report


def _last(trial: optuna.trial.FrozenTrial) -> float | None:
    """Return the score of a trial, or the last one that was reported before it was pruned."""
    seen = trial.intermediate_values
    return trial.value if trial.value is not None else seen[max(seen)] if seen else None


def importances(study: optuna.Study) -> dict[str, float]:
    """Return the importance of each setting by Optuna's default evaluator; nothing if there are too few trials."""
    from optuna.importance import get_param_importances

    scored = ranked(study)
    if len(scored) < 4 or scored[0].value == scored[-1].value:
        return {}
    with _silent():
        try:
            return {name: round(float(value), 4) for name, value in get_param_importances(study).items()}
        except (ValueError, RuntimeError):  # settings that never varied
            return {}


@contextmanager
def _silent() -> Iterator[None]:
    """Suppress warnings about features of Optuna that may still change."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
