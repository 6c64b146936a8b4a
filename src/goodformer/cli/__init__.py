"""The command line: parse, call one library function, print.

Each command has its own file and imports heavy libraries only when it runs, so ``--help`` answers at once. Importing
the files of all commands takes 0.02 CPU seconds, which is why they are not loaded one by one.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import (
    compare,
    datasets,
    evaluate,
    explain,
    export,
    fit,
    methods,
    predict,
    quickstart,
    report,
    reproduce,
    runs,
    serve,
    split,
    train,
    tune,
    uncertainty,
)
from goodformer.errors import InputError

INTERRUPTED = 130
TRAINING = ("quickstart", "train", "compare", "reproduce", "fit", "tune")
"""Commands that train, and so can continue from a checkpoint."""

app = typer.Typer(
    name="goodformer",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS = {
    "Your own data": (split, fit, tune, predict, explain, report, serve, export),
    "Benchmarks": (quickstart, train, compare, reproduce, evaluate, uncertainty),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(command.__name__.rpartition(".")[2], rich_help_panel=panel)(command.command)
for group in (datasets, methods, runs):
    app.add_typer(group.app, rich_help_panel="Lists")


def _version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        from goodformer import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of benchmark files; also set by the variable GOODFORMER_DATA."),
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import a module that registers a method, model or data set; repeatable. "
            "Also set by the variable GOODFORMER_IMPORT.",
        ),
    ] = None,
) -> None:
    """Graph classification and regression under distribution shift.

    [bold]Examples[/bold]

      goodformer quickstart                        train two methods, compare, draw
      goodformer train good-motif --domain basis   train GOODFormer
      goodformer explain RUN -o pictures           draw the subgraphs it found
      goodformer fit my.csv --target active        fit a model to your own molecules
      goodformer train --help                      each command shows examples
    """
    # Both go into the environment, so that processes started from here know them.
    if data_dir is not None:
        from goodformer.data.acquire import VARIABLE as DATA

        if not data_dir.is_dir():
            raise InputError(f"there is no folder {data_dir} for --data-dir; give the folder with the data files.")
        os.environ[DATA] = str(data_dir)
    if modules:
        from goodformer.registry import VARIABLE, import_plugin

        for module in modules:
            import_plugin(module)
        named = filter(None, os.environ.get(VARIABLE, "").split(","))
        os.environ[VARIABLE] = ",".join(dict.fromkeys([*named, *modules]))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 success, 1 no result, 2 bad input, 130 interrupted.

    `goodformer.__main__` turns 130 into the exit code of the signal that interrupted.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note
            given = None if arguments is None else list(arguments)
            code = app(args=given, standalone_mode=False, prog_name="goodformer")
        sys.stdout.flush()
    except typer.TyperException as error:
        if not error.format_message():  # no arguments at all: the help has been shown
            return error.exit_code
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "goodformer"
        said = error.format_message().rstrip(".")
        return _refuse(f"{said}{' See' if said.endswith('?') else '; see'} {path} --help.")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _refuse(
            f"{error.filename or 'file'}: {error.strerror or error}; check the path and that it can be written."
        )
    except InputError as error:  # any other error is a fault of the program and keeps its traceback
        return _refuse(str(error))
    if code == INTERRUPTED:
        commands = {one.name for one in app.registered_commands}
        said = next((word for word in arguments or sys.argv[1:] if word in commands), "")
        rest = "; the same command continues from the last finished epoch, if there is one."
        typer.echo(f"stopped{rest if said in TRAINING else '.'}", err=True)
    return int(code or 0)


def _note(message: Warning | str, *place: object, **more: object) -> None:
    """Print a warning as a note, without the line of code that raised it."""
    typer.echo(f"note: {message}", err=True)


def _refuse(sentence: str) -> int:
    """Print what is wrong with the input and return the exit code for it."""
    typer.echo(f"goodformer: {sentence}", err=True)
    return 2
