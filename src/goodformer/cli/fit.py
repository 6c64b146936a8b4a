"""``goodformer fit``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError
from goodformer.spec import RANDOM, REGRESSION


def command(
    data: options.DataFile,
    target: Annotated[
        list[str], typer.Option("--target", "-t", help="Column to predict; repeat it for several targets.")
    ],
    smiles: options.Smiles = "smiles",
    split: Annotated[
        str,
        typer.Option(
            help="How new data will differ: scaffold, size, cluster, random, column:NAME, file:PATH. "
            "auto is scaffold for molecules and size for other graphs. A column of the words train, valid and test "
            "gives these parts."
        ),
    ] = "auto",
    val: options.ValFile = None,
    test: options.TestFile = None,
    standardise: options.Standardise = "none",
    task: options.TaskKind = "auto",
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the model.")] = Path("model"),
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Method, see goodformer methods; with its preset or model as in tables: forest:shared, erm on gin. "
            "auto is a blend of methods on fingerprints for molecules, and GOODFormer for other graphs.",
        ),
    ] = "auto",
    networks: Annotated[
        bool | None,
        typer.Option(
            "--networks/--no-networks",
            help="Whether GOODFormer, and for measured values chemprop's network, is part of that blend; slower. "
            "Default: from 2,000 training rows (about 3,300 in all), with measured values from 500 (830).",
        ),
    ] = None,
    model: options.Model = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Preset of settings of the method; default: depends on the data."),
    ] = None,
    preset_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Method, model and settings from a file, such as tuned/best.yaml."),
    ] = None,
    overrides: options.Set = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run and of the split.")] = 0,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Epochs of networks (implies --networks); default: depends on the number of rows."),
    ] = None,
    members: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Seeds of a network to train and average (several imply --networks); default: 1. More is better "
            "and slower.",
        ),
    ] = None,
    baseline: Annotated[
        bool,
        typer.Option(
            "--baseline/--no-baseline",
            help="Also fit a random forest and a linear model, and for measured values a Gaussian process.",
        ),
    ] = True,
    refit: Annotated[
        bool,
        typer.Option("--refit/--no-refit", help="Fit the model again to all rows after measuring."),
    ] = True,
    retrain: Annotated[
        bool | None,
        typer.Option(
            "--retrain/--no-retrain",
            help="Whether this includes networks; default: for up to 5,000 rows with measured values.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another model in the folder of --out.")
    ] = False,
    page: options.Page = True,
    runs: options.Runs = Path("runs"),
    device: options.Device = "cpu",
    threads: options.Threads = 1,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Fit a model to your own molecules or graphs.

    [bold]Examples[/bold]

      goodformer fit bace.csv --smiles smiles --target Class --split scaffold -o bace
      goodformer fit assays.parquet -t toxic -t soluble --split column:year -o tox
      goodformer fit graphs.jsonl --target label --split size -o mine
      goodformer fit bace.csv --target Class --members 3 -o bace
      goodformer fit solubility.csv --target logS -o logS
      goodformer fit screen.csv --target active --networks -o screen
      goodformer fit train.csv --val val.csv --test test.csv --target active -o given
      goodformer predict bace new.csv -o answers.csv
      goodformer explain bace new.csv -o pictures

    Some rows are held out: ID rows resemble the training rows, OOD rows differ from them as --split says. The report
    shows the metric on both and lists rows that cannot be read. Beside the model, quick baselines are fitted to the
    same rows; the report shows what they reach. Then every member except networks, and for small tables of measured
    values networks, too, is fitted again, to all rows but validation and test rows that you gave. The same command
    continues an interrupted fit.
    """
    watch = output.teller(quiet)
    with output.working():
        watch(f"reading {data} ...")
        from goodformer.apply.fit import OwnFile, fit_file
        from goodformer.apply.recipe import Recipe
        from goodformer.config.run import Hardware

        if preset and preset_file:
            raise InputError("--preset and --preset-file exclude each other; give one of them.")
        given = [*(overrides or []), *([] if epochs is None else [f"training.epochs={epochs}"])]
        kind = options.task_choice(task)
        source = OwnFile(data, tuple(target), smiles, split, seed, val, test, standardise, kind)
        hardware = Hardware(accelerator=device, threads=threads, progress=not quiet, test_epochs=False)
        shown: list[str] = []

        def warn(sentence: str) -> None:
            shown.append(sentence)
            typer.echo(f"note: {sentence}", err=True)

        report = fit_file(
            source,
            out,
            Recipe(method, model, preset_file or preset, given, seed, members, networks),
            runs=runs,
            hardware=hardware,
            baseline=baseline,
            refit=refit,
            retrain=retrain,
            overwrite=overwrite,
            page=page,
            warn=warn,
            watch=watch,
        )
    if as_json:
        output.document(report)
    else:
        named = (method, networks, model, preset, preset_file) != ("auto", None, None, None, None)
        _show(report, shown, hint=not named)


USES = {
    "id_val": "like training; used for calibration",
    "id_test": "like training; used only for testing",
    "test": "used only for testing",
}
"""What each split is used for; the use of OOD validation depends on the method."""


def _origin(report: dict[str, Any], split: str) -> str:
    """Return where the rows of a split come from and what it is used for, as a table says it."""
    from goodformer.apply.card import validation_use

    use = validation_use(report) if split == "val" else USES.get(split, "")
    if split in report["given"] and split != "train":
        return f" (given; {use})"
    if split not in ("val", "test"):
        return f" ({use})" if use else ""
    drawn = "random rows" if report["split"] == RANDOM else "taken from training rows" if report["given"] else "shifted"
    return f" ({drawn}; {use})"


def _show(report: dict[str, Any], shown: Sequence[str] = (), hint: bool = False) -> None:
    """Print the metric on each split, the task, unreadable rows and the next step.

    Args:
        report: The report of the fit.
        shown: Notes that were printed before.
        hint: Whether to say how networks can be added to a blend without any.
    """
    from goodformer.config.history import at_once
    from goodformer.config.presets import member_table
    from goodformer.data.readers.values import counted
    from goodformer.engine.selection import describe_selection
    from goodformer.fitted import describe_refit
    from goodformer.spec import METRIC_NAMES, split_names

    metric, classes, names = report["metric"], report["classes"], split_names(report["split"], report["given"])
    baselines = (report.get("baseline") or {"rows": {}})["rows"]
    rows = [
        [
            f"{name}{_origin(report, split)}",
            report["counts"][split],
            report["splits"][split].get(metric),
            *(one["splits"][split].get(metric) for one in baselines.values()),
        ]
        for split, name in names.items()
    ]
    meaning = _meaning(report)
    rule = describe_selection(report["selection"], report["splits"], metric, names)
    selected = f"selected epoch: {report['selected_epoch']} of {report['epochs']} ({rule})"
    remarks = [meaning, *([selected] if report["epochs"] > 1 else [])]
    named = ", ".join(name for _, name, _ in report.get("files", ())) or report["file"]
    members = report.get("members") or []
    if members:
        remarks = [meaning]
        if hint and all(at_once(one["method"]) for one in members):
            more = " and chemprop's network" if report["task"] == REGRESSION else ""
            remarks.append(f"no member is a network; --networks adds GOODFormer{more} and takes longer")
    if again := describe_refit(report):
        remarks.append(f"metrics are those of the model that knows the training rows alone; afterwards {again}")
    fitted = report["method"] if members else f"{report['method']} ({report['model']})"
    title = f"{fitted} fitted to {named}, split by {report['split']}"
    if baselines:
        remarks.append(f"{', '.join(baselines)}: baseline{'s' * (len(baselines) > 1)} fitted to the same rows")
    columns = ["split", "rows", METRIC_NAMES[metric], *baselines]
    output.table(columns, rows, title=title, note="\n".join(remarks))
    if members:
        columns, rows = member_table(members, names)
        output.table(columns, rows, title=f"{METRIC_NAMES[metric]} of the members, combined on {names['val']}")
    if len(classes) > 1:
        splits = report["splits"].items()
        own = [[target, *(row.get(f"{metric}_{place}") for _, row in splits)] for place, target in enumerate(classes)]
        output.table(["target", *(names[split] for split, _ in splits)], own, title=METRIC_NAMES[metric])
    left = report["graphs"] - sum(report["counts"].values())
    missing = f"; {counted(left, 'row')} left out: no label, or no value to split by" if left else ""
    targets = "; ".join(f"{target}: {' or '.join(names) or 'a measured value'}" for target, names in classes.items())
    typer.echo(f"predicts {targets}{missing}")
    for line in _intervals(report, names):
        typer.echo(line)
    if report["distance"].get("sentence"):
        typer.echo(report["distance"]["sentence"])
    output.problems(report)
    output.notes(report, shown)
    typer.echo(f"model: {report['folder']}  (card.md, report.json, split.json)")
    if report.get("page"):
        typer.echo(f"page:  {report['page']}")
    new = f"NEW{''.join(Path(report['file']).suffixes[-2:])}"
    typer.echo(f"next:  {shlex.join(['goodformer', 'predict', report['folder'], new, '-o', 'answers.csv'])}")


def _intervals(report: dict[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """Yield what intervals of measured values hold on each split, if there are any, and what their width follows."""
    from goodformer.data.readers.values import percent

    level = report["coverage"].get("level")
    unit = " training standard deviations, averaged over targets" if len(report["classes"]) > 1 else ""
    for split, found in report["coverage"]["splits"].items():
        if found["coverage"] is not None:
            share = f"{level:.0%} intervals hold {percent(found['coverage'])} of the values of {names[split]}"
            yield f"{share}; mean width {found['width']:.3g}{unit}"
    if widths := report["coverage"]["widths"]:
        yield widths


def _majority(report: dict[str, Any]) -> str:
    """Return what predicting the commonest class of training would reach on OOD test; empty if it is not known."""
    from goodformer.spec import split_names

    (names,), shares = report["classes"].values(), (report["distance"]["parts"][part] for part in ("train", "test"))
    train, test = (one["classes"] for one in shares)
    if not train or not test:
        return ""
    commonest = train.index(max(train))
    where = split_names(report["split"], report["given"])["test"]
    return f"; predicting {names[commonest]} for every row gives {test[commonest]:.3f} on {where}"


def _meaning(report: dict[str, Any]) -> str:
    """Return what the metric says, in one line, and further metrics of measured values in a second one."""
    from goodformer.spec import FURTHER_METRICS, split_names

    metric, classes = report["metric"], report["classes"]
    several = len(classes) > 1
    if metric == "accuracy":
        return f"accuracy: share of rows whose class is predicted correctly{_majority(report)}"
    if metric == "rocauc":
        first, second = ("the first", "the second class") if several else next(iter(classes.values()))
        mean = ", averaged over targets" if several else ""
        return f"ROC-AUC: probability that a row of {second} is ranked above a row of {first}{mean}; 0.5 is chance"
    unit = "training standard deviations, averaged over targets" if several else f"the units of {next(iter(classes))}"
    ignorant = 1.0 if several else report["scale"][0]
    found = report["splits"]["test"]
    more = ", ".join(f"{name} {found[key]:.3f}" for key, name in FURTHER_METRICS.items() if found.get(key) is not None)
    said = f"RMSE: root mean squared error in {unit}; predicting the training mean gives about {ignorant:.3g}"
    where = split_names(report["split"], report["given"])["test"]
    return f"{said}\n{where}: {more}" if more else said
