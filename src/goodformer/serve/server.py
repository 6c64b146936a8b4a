"""The server process: opens models, binds an address, and runs until it is stopped."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.serve.app import build
from goodformer.serve.limits import Limits

HEAD_SECONDS = 10.0
"""Time in which the head of a request must arrive."""

IDLE_SECONDS = 30
"""Time after which a connection without requests is closed."""


class Protocol(H11Protocol):
    """HTTP/1.1; closes connections that do not send the head of a request in time."""

    _head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._head = self.loop.call_later(HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """Stop the clock when the head is complete; the next request starts it again."""
        if self._head is None and self.conn.their_state is h11.IDLE:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        super().data_received(data)
        if self._head is not None and self.conn.their_state is not h11.IDLE:
            self._head.cancel()
            self._head = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        if self._head is not None:
            self._head.cancel()
        super().connection_lost(exc)


def open_models(names: Sequence[str], runs: str | Path = "runs", weights: str = "best") -> dict[str, FittedModel]:
    """Open fitted models or runs; each is called like its folder, with a number if two folders share a name."""
    opened: dict[str, FittedModel] = {}
    for given in names:
        model = FittedModel.open(given, runs, weights)
        stem = Path(given).resolve().name if Path(given).exists() else given
        name, number = stem, 1
        while name in opened:
            number += 1
            name = f"{stem}-{number}"
        opened[name] = model
    return opened


def is_local(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 stands for any free one."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}, port {port} ({error.strerror or error}); choose another --host or --port."
        ) from None
    return bound


def server_of(
    models: dict[str, FittedModel], host: str = "127.0.0.1", token: str | None = None, limits: Limits | None = None
) -> uvicorn.Server:
    """Return a server for some models; addresses of other machines need a token.

    Args:
        models: The models by name.
        host: The address it will listen on.
        token: The token that requests need.
        limits: What a request may ask for.
    """
    if not is_local(host) and not token:
        raise InputError(
            f"other machines can reach {host}, so requests need a token; set the variable GOODFORMER_TOKEN to a long "
            "random word, or use --host 127.0.0.1."
        )
    bounds = limits or Limits()
    names = {host, socket.gethostname(), socket.getfqdn()} - {"0.0.0.0", "::", ""}
    config: Any = uvicorn.Config(
        build(models, bounds, token, names),
        http=Protocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=int(bounds.seconds + bounds.arrival),
        proxy_headers=False,
    )
    return uvicorn.Server(config)


def serve(
    models: dict[str, FittedModel],
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    limits: Limits | None = None,
    started: Callable[[str], None] = print,
) -> None:
    """Serve models until the process is stopped; requests that are being answered are finished first.

    Args:
        models: The models by name.
        host: Address to listen on.
        port: Port to listen on; 0 stands for any free one.
        token: The token that requests need; required unless the address is local.
        limits: What a request may ask for.
        started: Called with the address of the page.
    """
    server = server_of(models, host, token, limits)
    with bind(host, port) as bound:
        shown = f"[{host}]" if ":" in host else host
        started(f"http://{shown}:{bound.getsockname()[1]}/")
        with suppress(KeyboardInterrupt):
            server.run(sockets=[bound])
