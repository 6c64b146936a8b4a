"""Records of finished runs: reading them, finding those that count today, averages over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from goodformer import files
from goodformer.config.history import at_once
from goodformer.config.members import is_blend
from goodformer.config.presets import member_configs
from goodformer.config.run import RunConfig
from goodformer.engine.store import InferenceLine, RecordLine, Run, check_record
from goodformer.errors import InputError

Record = Mapping[str, Any]
"""The summary of one run, as ``summary.json`` and ``results/*.jsonl`` hold it."""
TORCH = "torch"
"""Name of torch's own library among those that multiply matrices."""
INFERENCE = "inference"
"""Kind of the records of inference times, and the metric they contain."""
ADVICE = "give a file with one JSON object per line, as goodformer runs export -o FILE writes it"


def read_lines(source: Path) -> Iterator[tuple[Path, Any]]:
    """Yield all lines of a file, or of the ``*.jsonl`` files in a folder, each with its file."""
    for path in [source] if source.is_file() else sorted(source.glob("*.jsonl")):
        yield from ((path, line) for line in files.read_lines(path, ADVICE))


def read_records(source: Path, kind: type[RecordLine] = RecordLine) -> list[Record]:
    """Return the records of a file or folder, one per run; the last line of a run wins.

    Args:
        source: The file or folder.
        kind: What every record must hold.
    """
    records: dict[str, Record] = {}
    for path, record in read_lines(source):
        if not isinstance(record, dict) or not isinstance(record.get("id"), str):
            raise InputError(f"{path} contains a line that is not the record of a run; {ADVICE}.")
        if "kind" not in record:  # records of something other than training have a kind
            records[record["id"]] = check_record(record, path, kind, ADVICE)
    return list(records.values())


def config_of(record: Record) -> RunConfig | None:
    """Return the configuration of a record as it reads today; None if it has none, or settings that no longer exist."""
    try:
        return RunConfig.from_dict(record.get("config", {}))
    except InputError:
        return None


def records_by_id(sources: Sequence[Path]) -> dict[str, Record]:
    """Return all records of files and folders by the ids that their settings have today.

    A record that an older version wrote may lack settings that were added since. It counts if the run would be the
    same today, so ids are computed from the settings. Records with settings that no longer exist are left out.
    """
    found: dict[str, Record] = {}
    for source in sources:
        if not source.exists():
            raise InputError(f"there is no {source}; give a file of records or a folder that contains some.")
        for record in read_records(source):
            if config := config_of(record):
                found[config.id] = record
    return found


def finished(configs: Iterable[RunConfig], root: Path) -> list[Run]:
    """Return the finished runs among some configurations in a folder of runs, or others with the same results."""
    if not root.is_dir():
        return []
    found = []
    for config in configs:
        run = Run(root / config.folder_name)
        if not run.finished and at_once(config.method["name"]):
            others = (Run(path) for path in sorted(root.glob(f"{config.folder_name.removesuffix(config.id)}*")))
            run = next((one for one in others if one.finished and one.config.result_id == config.result_id), run)
        found += [run] if run.finished else []
    return found


def known_records(
    sources: Sequence[Path], configs: Iterable[RunConfig] = (), root: Path | None = None
) -> dict[str, Record]:
    """Return records by id, from files and folders of records and from the folders of finished runs, which win.

    A configuration without a record gets that of a run with the same results, see `RunConfig.result_id`. The record of
    a blend in a file counts only if its members would be the same runs today, because its own settings name only their
    presets.
    """
    configs = list(configs)
    runs = [] if root is None else finished(configs, root)
    found = records_by_id(sources)
    for config in (one for one in configs if one.id in found and is_blend(one)):
        members = [str(member.get("run")).rpartition("-")[2] for member in found[config.id].get("members") or ()]
        if members != [member.id for member in member_configs(config)]:
            del found[config.id]
    found |= {run.config.id: run.summary for run in runs if run.summary}
    if lacking := [one for one in configs if one.id not in found and at_once(one.method["name"])]:
        alike = {
            today.result_id: record
            for record in found.values()
            if isinstance(method := record.get("config", {}).get("method"), Mapping) and at_once(method.get("name"))
            if (today := config_of(record))
        }
        found |= {one.id: alike[one.result_id] for one in lacking if one.result_id in alike}
    return found


def timed_records(
    sources: Sequence[Path], configs: Iterable[RunConfig] = (), root: Path | None = None
) -> dict[str, Record]:
    """Return the records of `known_records` with inference times."""
    times = (
        check_record(line, path, InferenceLine, ADVICE)
        for source in sources
        for path, line in read_lines(source)
        if line.get("kind") == INFERENCE
    )
    return with_times(known_records(sources, configs, root), times)


def with_times(found: Mapping[str, Record], times: Iterable[Mapping[str, Any]]) -> dict[str, Record]:
    """Return the records with records of inference times added to them; `config_of` says which are left out."""
    more = {config.id: line for line in times if (config := config_of(line))}
    return {**found, **{key: {**found.get(key, {}), INFERENCE: line} for key, line in more.items()}}


def records_of(configs: Sequence[RunConfig], root: Path, sources: Sequence[Path] = ()) -> dict[str, Record]:
    """Return the records of some runs by id, see `known_records`."""
    found = known_records(sources, configs, root)
    return {config.id: found[config.id] for config in configs if config.id in found}


class Mean(NamedTuple):
    """Mean and standard deviation (n - 1; None for a single value) of ``known`` values."""

    mean: float | None
    std: float | None
    known: int

    def to_dict(self) -> dict[str, float | None]:
        """Return the mean and the deviation as plain values."""
        return {"mean": self.mean, "std": self.std}


def mean_of(values: Iterable[float | None]) -> Mean:
    """Return mean and standard deviation of the values that are known and finite."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return Mean(None, None, 0)
    return Mean(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


class SeedDifference(NamedTuple):
    """Mean of paired differences and its 95 % confidence interval (Student's t); no interval for a single pair."""

    mean: float
    low: float | None
    high: float | None
    pairs: int

    @property
    def measurable(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def seed_difference(ours: Mapping[int, float | None], theirs: Mapping[int, float | None]) -> SeedDifference | None:
    """Return the mean of ``ours - theirs`` over the seeds that both have, None without such a seed.

    Args:
        ours: Values by seed.
        theirs: Values by seed.
    """
    from scipy.special import stdtrit

    pairs = [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]
    gaps = [one - other for one, other in pairs if one is not None and other is not None]
    mean, std, known = mean_of(gaps)
    if mean is None or std is None:
        return None if mean is None else SeedDifference(mean, None, None, known)
    half = float(stdtrit(known - 1, 0.975)) * std / math.sqrt(known)
    return SeedDifference(mean, mean - half, mean + half, known)


class Interval(NamedTuple):
    """A difference of two means and its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def undecided(self) -> bool:
        """Whether the interval contains zero."""
        return self.low <= 0 <= self.high


def welch(ours: Mean, theirs: Mean) -> Interval:
    """Return the difference ``ours - theirs`` of independent means with Welch's interval; both need two values."""
    from scipy.special import stdtrit

    if ours.mean is None or theirs.mean is None or ours.std is None or theirs.std is None:
        raise ValueError(f"Welch's interval needs two values on each side, got {ours} and {theirs}.")
    gap, a, b = ours.mean - theirs.mean, ours.std**2 / ours.known, theirs.std**2 / theirs.known
    if a + b == 0:
        return Interval(gap, gap, gap)
    freedom = (a + b) ** 2 / (a**2 / (ours.known - 1) + b**2 / (theirs.known - 1))
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(a + b)
    return Interval(gap, gap - half, gap + half)


def relative_cost(records: Iterable[Record], baseline: Iterable[Record], clock: str) -> float | None:
    """Return the mean time of some runs as a multiple of the baseline's; None if they cannot be compared.

    Runs whose matrices different libraries multiplied are compared apart (`goodformer.engine.products`).
    """
    mine, theirs = _by_library(records, clock), _by_library(baseline, clock)
    ratios = [statistics.fmean(mine[name]) / statistics.fmean(theirs[name]) for name in mine if name in theirs]
    return statistics.fmean(ratios) if ratios else None


def mean_seconds(records: Iterable[Record], clock: str) -> float | None:
    """Return the mean time of some runs: of those whose matrices torch multiplied, if there are any."""
    known = _by_library(records, clock)
    return statistics.fmean(known.get(TORCH) or next(iter(known.values()))) if known else None


def library_of(record: Record) -> str:
    """Return the library that multiplied the matrices of a run: torch's own, or OpenBLAS on some processors."""
    named: str | None = (record.get("machine") or {}).get("products")
    return named if named and record.get("device") == "cpu" else TORCH


def _by_library(records: Iterable[Record], clock: str) -> dict[str, list[float]]:
    """Return the positive times of runs, by library."""
    found: dict[str, list[float]] = {}
    for record in records:
        if seconds := record.get(clock):
            found.setdefault(library_of(record), []).append(seconds)
    return found


def clock_of(records: Iterable[Record]) -> str:
    """Return the entry that holds the cost of an epoch: CPU seconds if all records have them, else wall-clock seconds.

    CPU seconds do not depend on other processes, but say nothing about a run on a GPU. Old records do not name the
    device: it was the CPU if the CPU was asked for, or if the machine has no GPU.
    """

    def on_cpu(record: Record) -> bool:
        asked = (record.get("hardware") or {}).get("accelerator")
        guess = "cpu" if asked == "cpu" or (record.get("machine") or {}).get("gpu") is None else asked
        return record.get("processor_seconds_per_epoch") is not None and (record.get("device") or guess) == "cpu"

    known = [on_cpu(record) for record in records]
    return "processor_seconds_per_epoch" if known and all(known) else "seconds_per_epoch"
