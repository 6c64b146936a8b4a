"""What words on the command line stand for: splits of a data set, threads of this process."""

from __future__ import annotations

from collections.abc import Sequence

from goodformer.registry import unknown
from goodformer.spec import SPLITS


def chosen_splits(given: Sequence[str] | None) -> list[str]:
    """The splits asked for, each known; all where none was asked for."""
    for split in given or ():
        if split not in SPLITS:
            raise unknown("split", split, SPLITS)
    return list(given or SPLITS)


def limit_threads(threads: int) -> None:
    """Let this process compute with so many threads."""
    import torch

    torch.set_num_threads(threads)
