"""Reuse of freed memory between training steps."""

from __future__ import annotations

import ctypes
import platform
import sys

TRIM, MMAP = -1, -3
"""Names of the two parameters in malloc.h."""


def keep_freed_memory(megabytes: int = 512) -> bool:
    """Let the C library keep up to so much freed memory for the next step; return whether it does.

    By default glibc returns the memory of a step to the system and asks for it again in the next one, page by page,
    which takes several percent of a step on small graphs. Blocks above 32 MB are still returned at once. With other C
    libraries nothing changes.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MMAP, 32 << 20)) and bool(mallopt(TRIM, megabytes << 20))
