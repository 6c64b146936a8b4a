"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Folder of the runs.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder, or the start of its name or id.")]
ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="A folder written by goodformer fit, or a run's folder or id.")
]
Weights = Annotated[str, typer.Option(help="Weights to use: best (selected epoch) or last (last epoch).")]
RESULTS = Path("results")
"""Default folder of records."""
BUDGETS = "full, short, quick, compare or quickstart"
"""Names of the budgets for help texts, which do not read the file of budgets; a test compares the two."""
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress bars.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads per process.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="a.b=value", help="Change a setting, e.g. training.batch_size=32; repeatable."),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML file with dataset, model, method, training, seed, preset."),
]
Preset = Annotated[
    str | None, typer.Option(metavar="NAME", help="Preset of settings, e.g. default, paper or as_published.")
]
