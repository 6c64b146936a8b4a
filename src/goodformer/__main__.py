"""The command ``goodformer``, also ``python -m goodformer``, and how it handles signals.

Nothing heavy is imported here, so Ctrl-C works from the first moment.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 128 + signal.SIGINT
STOPPED = "stopped."
_seen: list[int] = []
"""Signals handled here, in order."""


def main() -> NoReturn:
    """Run the command line and exit with its code; 130 or 143 if a signal stopped it."""
    received = _listen()
    try:
        from goodformer.cli import run

        code = run()
    except BaseException:
        if not _seen:
            raise
        # An interrupt can surface as any other error in a library that is being imported.
        print(STOPPED, file=sys.stderr)
        code = INTERRUPTED
    if code == INTERRUPTED:
        noted = b""
        with suppress(BlockingIOError):
            noted = received.recv(64)
        _leave(128 + next((number for number in noted if number in SIGNALS), signal.SIGINT))
    if _seen:  # a server that was stopped has finished; only libraries would be taken apart, for a second or more
        _leave(code)
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: _leave(128 + number))
    raise SystemExit(code)


def _listen() -> socket.socket:
    """Install the handlers and return a socket that notes every signal, even one another library handles."""
    received, note = socket.socketpair()
    received.setblocking(False)
    note.setblocking(False)
    signal.set_wakeup_fd(note.detach(), warn_on_full_buffer=False)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_end_silently)
    return received


def _interrupt(number: int, frame: Any) -> None:
    """Interrupt at the first signal, ignore the second while cleaning up, and exit at the third."""
    _seen.append(number)
    if len(_seen) == 1:
        raise KeyboardInterrupt
    if len(_seen) > 2:
        _leave(128 + _seen[0])


def _end_silently() -> None:
    """Restore the default handlers in a forked process."""
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _leave(code: int) -> NoReturn:
    """Exit at once, without the exit handlers of libraries, which the next signal would interrupt again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, RuntimeError):  # closed, or just being written to
            continue
    os._exit(code)


if __name__ == "__main__":
    main()
