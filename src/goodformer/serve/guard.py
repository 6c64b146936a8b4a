"""What every request must pass: host name, origin, token, size and time of arrival; and the headers of every answer."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import JSONResponse

from goodformer.serve.limits import Limits
from goodformer.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
DROPPED = 8
"""How many times the largest size is read and dropped of a request that is too large."""
OPEN = ("/", "/health", "/static/")
"""Paths that need no token: the page itself, which holds no data, and the state of the server."""


class Refused(Exception):
    """A request that is not answered.

    Args:
        status: Status code of the response.
        sentence: What is wrong and what to do.
        headers: Further headers of the response.
    """

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def response(self) -> JSONResponse:
        """The response."""
        return JSONResponse({"error": str(self)}, self.status, self.headers)


class Guard:
    """Refuses requests that are not for this server, too large or too slow; counts all of them.

    A page of another site can make the browser send requests here: its host name differs if it resolves to this
    machine (DNS rebinding), otherwise its origin does.

    Args:
        app: What answers the other requests.
        hosts: Host names of this server; addresses and ``localhost`` are always accepted.
        token: The token that requests need, if any.
        limits: Size and time of a request.
        metrics: Where requests are counted.
        paths: Known paths; the others are counted together.
    """

    def __init__(
        self, app: App, hosts: set[str], token: str | None, limits: Limits, metrics: Metrics, paths: set[str]
    ) -> None:
        self.app, self.hosts, self.token = app, {"localhost", *(host.lower() for host in hosts)}, token
        self.limits, self.metrics, self.paths = limits, metrics, paths

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 499  # the client went away

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(one for one in added if one[0] not in given)]
            async with asyncio.timeout(self.limits.seconds):  # a client that does not read
                await send(message)

        try:
            refused = self._refused(scope)
            body = await self._body(receive)  # read even if refused: clients do not listen before they have sent it
            if refused is not None:
                raise refused
            await self.app(scope, _given(body, receive), sending)
        except Refused as error:
            await error.response(scope, receive, sending)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.requests.labels(path, status).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - start)

    def _refused(self, scope: MutableMapping[str, Any]) -> Refused | None:
        """Return why a request is refused by its head: a wrong host, origin or token."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("origin")
        try:
            host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
            place = None if origin is None else urlsplit(origin).netloc
        except ValueError:
            return Refused(400, "the header Host or Origin is no address; send a valid one.")
        if host not in self.hosts and not _is_address(host):
            return Refused(421, f"{host!r} is not a host name of this server; use its address.")
        if origin is not None and place != headers.get("host"):
            return Refused(403, "requests of other web pages are refused; open the page of this server.")
        path = scope["path"]
        if self.token is None or path in OPEN or path.startswith(OPEN[-1]):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self.token.encode()):
            sentence = "this server needs a token; send the header Authorization: Bearer TOKEN."
            return Refused(401, sentence, www_authenticate="Bearer")
        return None

    async def _body(self, receive: Receive) -> bytes:
        """Return the content of a request; raise an error if it is too large or too slow.

        The rest of a request that is too large is read and dropped, up to a limit, so that the client sees the answer.
        """
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.arrival):
                more = True
                while more and size <= DROPPED * self.limits.size:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the request is not complete; send it again.")
                    more = message.get("more_body", False)
                    size += len(message.get("body", b""))
                    if size <= self.limits.size:
                        parts.append(message.get("body", b""))
                    else:
                        parts.clear()
        except TimeoutError:
            sentence = f"the request did not arrive within {self.limits.arrival:g} s; send it again."
            raise Refused(408, sentence, connection="close") from None
        if size > self.limits.size:
            sentence = f"the request is larger than {self.limits.megabytes} MB; send fewer rows at a time."
            raise Refused(413, sentence, connection="close")
        return b"".join(parts)


def _given(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body that has been read already."""
    left = [body]

    async def replay() -> Message:
        return {"type": "http.request", "body": left.pop()} if left else await receive()

    return replay


def _is_address(host: str) -> bool:
    """Return whether a host is an address, which no other name can pretend to be."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
