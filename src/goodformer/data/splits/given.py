"""Parts that a user gives: words such as train, valid and test in a column, or separate files.

Letters: G graphs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from goodformer.data.readers.collection import Collection
from goodformer.data.readers.values import counted
from goodformer.data.splits.parts import places_of
from goodformer.data.splits.split import ID_TEST, ID_VAL, TEST, TRAIN, VAL, Split
from goodformer.data.splits.twins import same_graphs
from goodformer.errors import InputError
from goodformer.spec import RANDOM, SPLITS, UNKNOWN_SHIFT

Ints = npt.NDArray[np.int64]

WORDS: dict[int, tuple[str, ...]] = {
    TRAIN: ("train", "training", "trn", "tr", "trained", "learn", "learning"),
    VAL: ("val", "valid", "validation", "validate", "validating", "vld", "dev", "devel", "development", "oodval"),
    TEST: ("test", "testing", "tst", "te", "holdout", "heldout", "eval", "evaluation", "external", "oodtest"),
    ID_VAL: ("idval", "idvalid", "idvalidation"),
    ID_TEST: ("idtest",),
}
"""Words for each part, in lower case without spaces, hyphens and underscores; ``set`` or ``split`` may follow."""
PART = {word: part for part, words in WORDS.items() for word in words}
ROLES = {
    ID_VAL: "ID validation (for calibration)",
    ID_TEST: "ID test",
    VAL: f"{UNKNOWN_SHIFT['val']} (to choose epochs or to combine members)",
    TEST: UNKNOWN_SHIFT["test"],
}
"""What the parts are used for."""
NAMED = 3
"""Number of other words that an error lists."""


def word_part(word: str) -> int | None:
    """Return the part that a word means, None if it means none."""
    bare = re.sub(r"[ _\-.]", "", word.casefold())
    return PART.get(bare, PART.get(re.sub(r"(set|split|data)$", "", bare)))


def unused_note(columns: Mapping[str, Sequence[object]], targets: Sequence[str], split: str) -> str:
    """Return a note if a column names the parts of rows, but rows are split in another way; otherwise nothing.

    Words of two letters do not count: ``tr`` and ``te`` are languages, too.
    """
    if split.partition(":")[0] == "column":
        return ""
    for name, values in columns.items():
        words = {str(value) for value in values if value not in (None, "")} if name not in targets else {""}
        if min(map(len, words), default=0) <= 2:
            continue
        if (
            len(words) <= 2 * len(SPLITS)
            and {TRAIN} < (parts := {word_part(word) for word in words})
            and None not in parts
        ):
            return f"column {name!r} names the parts of rows, but is not used; use it with --split column:{name}."
    return ""


def word_parts(name: str, values: Sequence[str]) -> Ints | None:
    """Return the part of each value of a column (G,), -1 if missing; None if the column does not give parts.

    A column gives parts if it contains a word for training and one for validation or test.

    Args:
        name: The column.
        values: Its values, empty if missing.

    Raises:
        InputError: Some values are words for parts and others are not.
    """
    meaning = {word: word_part(word) for word in set(values) if word}
    found = {part for part in meaning.values() if part is not None}
    if TRAIN not in found or not found & {VAL, TEST}:
        return None
    others = [word for word in dict.fromkeys(values) if word and meaning[word] is None]
    if others:
        counts = Counter(values)
        listed = ", ".join(map(repr, others[:NAMED])) + (", ..." if len(others) > NAMED else "")
        raise InputError(
            f"column {name!r} contains words for parts (train, test) in some rows and {listed} in "
            f"{counted(sum(counts[word] for word in others), 'row')}; write train, valid or test in every row, "
            "or leave the field empty to leave a row out."
        )
    return np.array([-1 if not value else meaning[value] for value in values], dtype=np.int64)


def given_note(
    source: str, given: Mapping[int, int], split: Split, collection: Collection, y: Tensor | None, how: str = RANDOM
) -> str:
    """Return how given parts are used, and how many of their molecules training also has.

    Args:
        source: Where the parts come from, for example ``column 'set' gives``.
        given: Number of the rows given for each part.
        split: The split made of them.
        collection: The graphs.
        y: Labels of all rows, if known.
        how: How validation is drawn from the training rows if it is not given.
    """
    places = places_of(split, collection, y)
    said = [f"{given[part]:,} rows are {ROLES[part]}" for part in ROLES if given.get(part)]
    drawn = [
        f"{counted(len(places[SPLITS[part]]), 'row')} {_way(part, how)} for {ROLES[part]}"
        for part in ROLES
        if not given.get(part) and len(places[SPLITS[part]])
    ]
    note = f"{source} the parts: {given[TRAIN]:,} rows are for training, {', '.join(said)}"
    note += f"; of the training rows, these are taken: {', '.join(drawn)}." if drawn else "."
    twin = same_graphs(collection)
    inside = np.concatenate([places[name].numpy() for name in SPLITS[:3]])
    what = "graph" if collection.molecules is None else "molecule"
    shared = {name: int(np.isin(twin[places[name].numpy()], twin[inside]).sum()) for name in SPLITS[3:]}
    twins = [f"{counted(count, 'row')} of {UNKNOWN_SHIFT[name]}" for name, count in shared.items() if count]
    return f"{note} The training rows contain the {what} of {' and '.join(twins)}." if twins else note


def _way(part: int, how: str) -> str:
    """Return how a part is drawn from the training rows."""
    return f"by {how}" if part == VAL and how != RANDOM else "at random"
