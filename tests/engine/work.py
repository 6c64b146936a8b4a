"""Work for processes that ends early or never: ``-m tests.engine.work`` never ends by itself."""

from __future__ import annotations

import os
import sys
import time

from goodformer.engine.processes import run_processes
from goodformer.errors import InputError


class Mistake(InputError):
    """A mistake of a user."""


def fail(error: Exception) -> None:
    """Fail in the second process while the first is at work."""
    if os.environ["LOCAL_RANK"] == "1":
        raise error
    time.sleep(60)


def leave(code: int) -> None:
    """End the first process without a word while the second is at work."""
    if os.environ["LOCAL_RANK"] == "0":
        os._exit(code)
    time.sleep(60)


def wait() -> None:
    """Say so and work on."""
    os.write(1, b"at work\n")
    time.sleep(60)


if __name__ == "__main__":
    from tests.engine.work import wait as imported

    try:
        run_processes(2, imported)
    except KeyboardInterrupt:
        sys.exit(130)
