"""Graphs passed from Python, which are in no file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from goodformer.data.benchmark import Benchmark
from goodformer.errors import InputError


def memory(
    *, fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{16}$", description="Digest of the graphs and labels.")]
) -> Benchmark:
    """Graphs passed from Python: the training data of `goodformer.GraphClassifier` and `goodformer.GraphRegressor`.

    Splits: as fit made them.
    Input: what the graphs carried.
    Label: what fit was given.
    Task: depends on the labels passed to fit.
    Domain: scaffold, size or what the split was made by.
    Source: the caller.
    Licence: the caller's.
    Statistics: unknown.
    """
    raise InputError(f"the graphs with fingerprint {fingerprint} were only in memory; fit them again from Python.")
