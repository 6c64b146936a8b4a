"""Reproduce a table or figure of the paper: train runs without a record, measure times, report and draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodformer.comparing import LOCAL, Work, complete
from goodformer.errors import InputError
from goodformer.report import artefacts
from goodformer.report import reproduce as shown
from goodformer.report.artefacts import REFERENCE, Artefact, TablePlan
from goodformer.report.records import with_times

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import Data


@dataclass(frozen=True)
class Reproduced:
    """A table or figure of the paper, as far as it is recorded.

    Attributes:
        artefact: What it is.
        plans: Its tables, or those that were chosen.
        report: All cells, the published numbers and the commands for missing runs as plain values;
            `goodformer.report.reproduce` has ``text``, ``markdown`` and ``latex`` of it.
        runs: Folder of the runs.
        failures: Reasons of failed runs by id.
    """

    artefact: Artefact
    plans: Sequence[TablePlan]
    report: Mapping[str, Any]
    runs: Path
    failures: Mapping[str, str]

    def draw(self, path: str | Path) -> Path:
        """Draw a figure from the weights of run folders, or from the tables of the report; png, svg or pdf."""
        from goodformer.draw.artefacts import sensitivity, subgraphs
        from goodformer.draw.canvas import save

        if self.artefact.folders:
            return save(subgraphs(*self._marked()), Path(path))
        tables = {made["title"]: made for made in self.report["tables"]}
        reference = tables.pop(REFERENCE, None)
        return save(sensitivity(list(tables.values()), reference, self.report["remark"]), Path(path))

    def _marked(self) -> tuple[list[Data], dict[str, Sequence[Tensor]]]:
        """Return some test graphs, and the edge scores of each row for them."""
        from goodformer.data import load_benchmark
        from goodformer.draw.artefacts import examples
        from goodformer.fitted import FittedModel

        finished = shown.drawn_runs(self.plans, self.runs)
        if not finished:
            raise InputError("no run to draw is finished; train them with goodformer reproduce figure-subgraphs --run.")
        data = next(iter(finished.values())).config.dataset
        graphs = examples(load_benchmark(**data).splits["test"])
        scores = {title: FittedModel.of_run(run, "best").predict(graphs).edge_scores for title, run in finished.items()}
        silent = [title for title, found in scores.items() if found is None]
        if silent:
            raise InputError(f"{', '.join(silent)} do not score edges; choose other methods with --methods.")
        return graphs, {title: found for title, found in scores.items() if found is not None}


def reproduce(
    name: str,
    *,
    budget: str | None = None,
    seeds: int | None = None,
    dataset: str | None = None,
    methods: str | None = None,
    runs: str | Path = "runs",
    records: Sequence[Path] = (),
    train: bool = False,
    times: bool = False,
    work: Work = LOCAL,
    export: Path | None = None,
) -> Reproduced:
    """Report a table or figure of the paper from records, and train and measure what has none if asked to.

    Args:
        name: Name of the artefact, see `goodformer.report.artefacts.ARTEFACTS`.
        budget: Only the tables of this budget.
        seeds: Number of seeds; by default that of the artefact.
        dataset: Only these data sets, separated by commas.
        methods: Only these rows, separated by commas.
        runs: Folder of the runs; finished ones are reused and stopped ones continued.
        records: Files or folders of further records.
        train: Whether to train the runs without a record.
        times: Whether to measure the inference times that are shown and not recorded.
        work: Where to train, and the threads that both use.
        export: Add the records of finished runs to this file, also if the rest is stopped.
    """
    one, folder = artefacts.artefact(name), Path(runs)
    plans = artefacts.narrowed(one.plans(budget, seeds), dataset, methods)
    known = shown.known_records(plans, records, folder)
    failures: dict[str, str] = {}
    measured: list[dict[str, Any]] = []
    # A figure of subgraphs needs run folders, not records.
    missing = shown.untrained(plans, {} if one.folders else known) if train else []
    try:
        if missing:
            failures = complete(missing, folder, known, work)
            known = shown.known_records(plans, records, folder)
        if times and (untimed := shown.untimed(plans, known)):
            from goodformer.engine.inference import time_inference  # loads torch

            measured = [time_inference(config, folder, work.threads) for config in untimed]
    finally:
        if export:
            shown.export(plans, folder, export, measured)
    chosen = {"--budget": budget, "--seeds": seeds, "--dataset": dataset, "--methods": methods}
    words = [str(word) for option, value in chosen.items() if value is not None for word in (option, value)]
    report = shown.report(one, plans, with_times(known, measured), words, folder)
    return Reproduced(one, plans, report, folder, failures)
