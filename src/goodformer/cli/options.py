"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from goodformer.cli.output import Format
from goodformer.errors import check_name

if TYPE_CHECKING:
    from goodformer.data.readers.labels import TaskChoice

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Folder of the runs.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or the start of its name or id.")]
ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="A folder written by goodformer fit, or a run's folder or id.")
]
DataFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="CSV, TSV, SMI, Excel, Parquet, SDF, JSON lines (.gz allowed) or a TU folder."),
]
ValFile = Annotated[Path | None, typer.Option("--val", metavar="FILE", help="Validation rows in a file of their own.")]
TestFile = Annotated[Path | None, typer.Option("--test", metavar="FILE", help="Test rows in a file of their own.")]
Standardise = Annotated[
    str,
    typer.Option(
        metavar="HOW", help="Molecules: none (as they are), parent (largest fragment, neutral) or tautomer (canonical)."
    ),
]
Smiles = Annotated[str, typer.Option(help="Column with the SMILES, in a table of molecules; case does not matter.")]
SmilesAsTrained = Annotated[str | None, typer.Option(help="Column with the SMILES; default: as in training.")]
TaskKind = Annotated[
    str,
    typer.Option(
        "--task",
        help="Kind of target: classification, regression (measured values), or auto: numbers with decimals or more "
        "than 20 different numbers are measured values.",
    ),
]
Model = Annotated[str | None, typer.Option(help="Model; default: the one the method was published with.")]
Weights = Annotated[str, typer.Option(help="Weights to use: best (selected epoch) or last (last epoch).")]
RESULTS = Path("results")
"""Default folder of records."""
BUDGETS = "full, settled, medium, short, quick, compare or quickstart"
"""Names of the budgets for help texts, which do not read the file of budgets; a test compares the two."""
SUITES = "molecules or measurements or rules"
"""Names of the suites for help texts; a test compares them with the file of suites."""
Page = Annotated[
    bool, typer.Option("--report/--no-report", help="Write an HTML page, report.html; it contains rows of the data.")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace existing files, also those that this command did not write.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bars.")]
Device = Annotated[str, typer.Option(help="cpu, gpu or auto.")]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, help="Runs trained at the same time, one process each. Default: 2; with ray as many as fit."),
]
Executor = Annotated[
    str, typer.Option("--executor", metavar="WHERE", help="local (this machine) or ray (the nodes of a Ray cluster).")
]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Ray cluster; auto finds the one of this machine. Default: one of its own."),
]
Export = Annotated[
    Path | None, typer.Option("--export", metavar="FILE", help="Add the records of finished runs to this file.")
]
Predictions = Annotated[
    bool,
    typer.Option(
        "--predictions", help="With --export or -o: also copy the test predictions into a folder predictions beside it."
    ),
]
Threads = Annotated[int, typer.Option(min=1, help="Threads per process.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="a.b=value", help="Change a setting, e.g. training.batch_size=32; repeatable."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML file with dataset, model, method, training, seed, preset."),
]
Preset = Annotated[str | None, typer.Option(metavar="NAME", help="Preset of settings: default, paper, ...")]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="Format of tables; default: by the extension of the file, or text.")
]


def record_sources(given: list[Path] | None) -> list[Path]:
    """Return the files and folders of records: those given, else the folder ``results`` if it exists."""
    return given or ([RESULTS] if RESULTS.is_dir() else [])


def task_choice(task: str) -> TaskChoice:
    """Return the kind of target that --task names."""
    from goodformer.data.readers import labels

    check_name("task", task, get_args(labels.TaskChoice))
    return cast("TaskChoice", task)


def limit_threads(threads: int) -> None:
    """Set the number of threads that this process computes with."""
    import torch

    torch.set_num_threads(threads)
