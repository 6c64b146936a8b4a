"""Reuse of freed memory between training steps."""

from __future__ import annotations

import ctypes
import platform
import sys

TRIM, MAPPED_BLOCKS = -1, -4
"""Names of two parameters in malloc.h: how much free memory is kept, and how many blocks are mapped one by one."""


def keep_freed_memory(megabytes: int = 512) -> bool:
    """Let the C library keep up to so much freed memory for the next step; return whether it does.

    By default glibc returns the memory of a step to the system and asks for it again in the next one, page by page,
    which takes several percent of a step on small graphs and more where blocks are large. Here no block is mapped for
    itself, so large ones are kept, too. With other C libraries nothing changes.
    """
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MAPPED_BLOCKS, 0)) and bool(mallopt(TRIM, megabytes << 20))
