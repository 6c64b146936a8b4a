"""Freed memory is reused: a step causes few page faults."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import resource, sys, torch
from goodformer.engine.memory import keep_freed_memory

torch.set_num_threads(1)
keep = sys.argv[1] == "keep"
if keep and not keep_freed_memory():
    sys.exit(3)

def step():
    parts = [torch.ones(2_000_000) for _ in range(8)] + [torch.ones(20_000_000)]  # 8 MB each and 80 MB
    return sum(float(part.sum()) for part in parts)  # freed at the end

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

step()
print(sorted(faults() for _ in range(9))[4])  # the median: a block may find its lasting place only after some steps
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", CODE, how], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("the C library is not glibc")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_freed_memory_is_kept_for_the_next_step() -> None:
    usual = faults("usual")
    if not usual:
        pytest.skip("the system counted no page faults")
    assert faults("keep") < 0.1 * usual
