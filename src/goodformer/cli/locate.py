"""Words of the command line that several commands read the same way: splits and threads."""

from __future__ import annotations

from collections.abc import Sequence

from goodformer.registry import unknown
from goodformer.spec import SPLITS

ALIASES = {"ood_val": "val", "ood_test": "test"}
"""Other names of splits, as summaries write them."""


def chosen_splits(given: Sequence[str] | None) -> list[str]:
    """Return the splits that were asked for, each once, or all five."""
    splits = [ALIASES.get(split, split) for split in given or SPLITS]
    for split in splits:
        if split not in SPLITS:
            raise unknown("split", split, [*SPLITS, *ALIASES])
    return list(dict.fromkeys(splits))


def limit_threads(threads: int) -> None:
    """Set the number of threads this process computes with."""
    import torch

    torch.set_num_threads(threads)
