"""The command line: parse, call one library function, print.

Each command lives in a file of its own and imports what is heavy when it is called, so that ``--help`` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import (
    compare,
    datasets,
    evaluate,
    explain,
    fit,
    methods,
    predict,
    quickstart,
    reproduce,
    runs,
    split,
    train,
    uncertainty,
)

INTERRUPTED = 130
STOPPED = "stopped; the same command continues training from the last finished epoch, and does all else anew."
STOPPED_PLAIN = "stopped; the same command begins anew."
TRAINING = ("quickstart", "train", "compare", "reproduce", "fit")
"""Commands that train, and so can go on."""

app = typer.Typer(
    name="goodformer",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS = {
    "Your own data": (split, fit, predict, explain),
    "Benchmarks": (quickstart, train, compare, reproduce, evaluate, uncertainty),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(command.__name__.rpartition(".")[2], rich_help_panel=panel)(command.command)
for group in (datasets, methods, runs):
    app.add_typer(group.app, rich_help_panel="Look")


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
        typer.Option(
            metavar="DIR", help="Folder of benchmark files; also by the environment variable GOODFORMER_DATA."
        ),
    ] = None,
) -> None:
    """Graph classification that keeps working when the data shift.

    [bold]Begin here[/bold]

      goodformer quickstart                        train two, compare, draw
      goodformer train good-motif --domain basis   train GOODFormer
      goodformer explain RUN -o pictures           draw what it found
      goodformer fit my.csv --target active        a model of your own molecules
      goodformer train --help                      each command shows examples
    """
    if data_dir is not None:
        _look_in(data_dir)


def _look_in(folder: Path) -> None:
    """Look for benchmark files in that folder; in the environment, so that processes started here know it."""
    from goodformer.data.acquire import VARIABLE
    from goodformer.registry import InputError

    if not folder.is_dir():
        raise InputError(f"there is no folder {folder} for --data-dir; give the folder that holds the data files.")
    os.environ[VARIABLE] = str(folder)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 nothing came of it, 2 bad input, 130 interrupted.

    By which signal, and what its exit code is, `goodformer.__main__` tells.
    """
    try:
        code = app(args=None if arguments is None else list(arguments), standalone_mode=False, prog_name="goodformer")
        sys.stdout.flush()
    except typer.TyperException as error:
        if not error.format_message():  # no arguments at all: the help has been shown
            return error.exit_code
        return _refuse(_sentence(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _refuse(
            f"{error.filename or 'file'}: {error.strerror or error}; check the path and that it can be written."
        )
    except ValueError as error:
        return _refuse_or_raise(error)
    if code == INTERRUPTED:
        words = sys.argv[1:] if arguments is None else arguments
        typer.echo(STOPPED if any(word in TRAINING for word in words) else STOPPED_PLAIN, err=True)
    return int(code or 0)


def _refuse(sentence: str) -> int:
    """Say what is wrong with the input."""
    typer.echo(f"goodformer: {sentence}", err=True)
    return 2


def _refuse_or_raise(error: ValueError) -> int:
    """Bad input becomes a sentence; any other error is ours and keeps its traceback."""
    from goodformer.registry import InputError

    if isinstance(error, InputError):
        return _refuse(str(error))
    raise error


def _sentence(error: typer.TyperException) -> str:
    """What was wrong with the arguments, and where help is."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "goodformer"
    return f"{error.format_message().rstrip('.')}; see {path} --help."
