"""``goodformer serve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goodformer.cli import options, output
from goodformer.errors import InputError


def command(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Folders written by goodformer fit, or folders or ids of runs."),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GOODFORMER_TOKEN",
            show_envvar=True,
            help="Token that requests must send; required unless the address is local. Other users of this machine "
            "can see options, so prefer the variable.",
        ),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Most rows per request.")] = 10_000,
    atoms: Annotated[int, typer.Option(min=1, help="Most atoms or nodes per row.")] = 400,
    megabytes: Annotated[int, typer.Option(min=1, help="Largest request in MB.")] = 8,
    seconds: Annotated[float, typer.Option(min=1, help="Longest time for an answer.")] = 60,
    weights: options.Weights = "best",
    runs: options.Runs = Path("runs"),
    threads: options.Threads = 1,
) -> None:
    """Serve fitted models as a web page and a JSON interface.

    [bold]Examples[/bold]

      goodformer serve nitro
      goodformer serve nitro bace --port 8080
      GOODFORMER_TOKEN=... goodformer serve nitro --host 0.0.0.0

    Paste or upload molecules on the page, or send them to /predict or /explain:

      curl localhost:8000/predict --data-binary @new.csv -H 'Content-Type: text/csv'

    Several models are shown side by side. /openapi.json describes the interface. Ctrl-C or SIGTERM stops the server
    after it has finished what is running.
    """
    try:
        from goodformer.serve.limits import Limits
        from goodformer.serve.server import open_models, serve
    except ModuleNotFoundError as error:
        raise InputError(f"serve needs {error.name}; install it with: pip install 'goodformer[serve]'.") from None

    with output.working():
        options.limit_threads(threads)
        opened = open_models(models, runs, weights)
    limits = Limits(rows=rows, atoms=atoms, megabytes=megabytes, seconds=seconds)
    serve(opened, host, port, token, limits, lambda address: _announce(list(opened), address))


def _announce(names: list[str], address: str) -> None:
    """Print where the page is."""
    typer.echo(f"serving {', '.join(names)} at {address}")
    typer.echo("press Ctrl-C to stop", err=True)
