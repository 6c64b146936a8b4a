"""The command ``goodformer``, also as ``python -m goodformer``, and what a signal does to it.

Nothing heavy is imported here, so that Ctrl-C is understood from the first moment.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED = 128 + signal.SIGINT
STOPPED = "stopped."
_seen: list[int] = []
"""Signals that were handled here, in order."""


def main() -> NoReturn:
    """Run the command line and leave with its exit code; 130 or 143 where a signal stopped it."""
    received = _listen()
    try:
        from goodformer.cli import run

        code = run()
    except BaseException:
        if not _seen:
            raise
        # An interrupt may become any other error in a library that is just being loaded.
        print(STOPPED, file=sys.stderr)
        code = INTERRUPTED
    if code == INTERRUPTED:
        _leave(128 + _first(received))
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: _leave(128 + number))
    raise SystemExit(code)


def _listen() -> socket.socket:
    """Let signals interrupt, and give out where each is noted whoever else handles it: Lightning has handlers, too."""
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
    """The first signal interrupts, the second leaves time to clean up, the third does not."""
    _seen.append(number)
    if len(_seen) == 1:
        raise KeyboardInterrupt
    if len(_seen) > 2:
        _leave(128 + _seen[0])


def _end_silently() -> None:
    """Processes forked from this one end at a signal, as if they had never heard of it."""
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _first(received: socket.socket) -> int:
    """The first signal that was noted."""
    try:
        return next((number for number in received.recv(64) if number in SIGNALS), signal.SIGINT)
    except BlockingIOError:
        return signal.SIGINT


def _leave(code: int) -> NoReturn:
    """End at once: all that was begun is undone, and what libraries do at exit would only be interrupted again."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, RuntimeError):  # closed, or just being written to
            continue
    os._exit(code)


if __name__ == "__main__":
    main()
