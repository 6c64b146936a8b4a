"""The processor of this machine."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> str | None:
    """Return the name of the processor, None if it is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None
