"""The fuzzing harness finds a planted fault and shrinks it."""

from __future__ import annotations

import time
from pathlib import Path

from hypothesis import strategies as st

from goodformer.errors import InputError
from lab import fuzz


def test_a_planted_fault_is_found_and_shrunk(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        content = path.read_bytes()
        if b"\xff" in content:
            raise KeyError(content)
        raise InputError("no.")

    kind = ("a.bin", st.binary(max_size=20), read)
    counts, failure = fuzz.fuzz("bytes", kind, 0, 500, tmp_path, time.monotonic() + 60)
    assert failure.startswith("KeyError")
    assert (tmp_path / "input" / "a.bin").read_bytes() == b"\xff"
    assert counts["refused"] > 0


def test_input_that_takes_too_long_is_found(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            pass

    fuzz.SECONDS, before = 1, fuzz.SECONDS
    try:
        _, failure = fuzz.fuzz("slow", ("a", st.just(b""), read), 0, 1, tmp_path, time.monotonic() + 60)
    finally:
        fuzz.SECONDS = before
    assert "TimeoutError" in failure


def test_refused_and_sound_inputs_are_no_findings(tmp_path: Path) -> None:
    counts, failure = fuzz.fuzz("any", ("a", st.binary(), lambda path: None), 0, 20, tmp_path, time.monotonic() + 60)
    assert (failure, counts["refused"]) == ("", 0)
