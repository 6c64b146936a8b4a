"""Graphs that were given from Python and are in no file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from goodformer.data.benchmark import Benchmark
from goodformer.registry import InputError


def memory(
    *, fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{16}$", description="Digest of the graphs and labels.")]
) -> Benchmark:
    """Graphs given from Python, by which `goodformer.GraphClassifier` names what it was fitted to; they are in no file.

    Splits: as fit made them.
    Input: what the graphs carried.
    Label: what fit was given.
    Task: depends on the labels passed to fit.
    Domain: scaffold, size or what the split was made by.
    Source: the caller.
    Licence: the caller's.
    Statistics: unknown.
    """
    raise InputError(f"the graphs with the fingerprint {fingerprint} were in memory only; fit them from Python again.")
