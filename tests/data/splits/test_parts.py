"""Parts of a split that teach or tell too little are named in the words of the user."""

import pytest
import torch

from goodformer.data.benchmarks.table import assemble
from goodformer.data.readers.collection import collect
from goodformer.data.readers.labels import Labels, read_labels
from goodformer.data.splits.parts import LEAST, weak_parts
from goodformer.data.splits.split import Split
from goodformer.errors import InputError
from goodformer.spec import SPLITS

TRAIN, ID_VAL, ID_TEST, VAL, TEST = range(len(SPLITS))
SIZES = {TRAIN: 20, ID_VAL: 12, ID_TEST: 12, VAL: 12, TEST: 12}


def made(sizes: dict[int, int]) -> tuple[Split, Labels]:
    """A split of chains into parts of these sizes, classes in turn."""
    part = torch.tensor([number for number, size in sizes.items() for _ in range(size)])
    labels = read_labels({"kind": [("active", "inactive")[place % 2] for place in range(len(part))]})
    return Split(part, torch.zeros_like(part)), labels


def chains(rows: int) -> list[str]:
    return ["C" * (1 + row % 9) for row in range(rows)]


def test_sound_parts_need_no_word() -> None:
    split, labels = made(SIZES)
    assert weak_parts(split, collect(chains(len(split))), labels) == ""


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({TEST: 1}, "test has only 1 row:"),
        ({TEST: 0}, "test has no rows:"),
        ({VAL: LEAST - 1, TEST: 2}, "validation has only 9 rows, test has only 2 rows:"),
        (
            {ID_TEST: 3, VAL: 1, TEST: 0},
            "ID test has only 3 rows, validation has only 1 row, test has no rows:",
        ),
    ],
)
def test_small_parts_are_named(sizes: dict[int, int], sentence: str) -> None:
    split, labels = made({**SIZES, **sizes})
    collection = collect(chains(len(split)))
    for given in (labels, None):
        found = weak_parts(split, collection, given)
        assert found.startswith(sentence)
        assert found.count("row") == sentence.count("row") + 1


def test_rows_without_a_graph_or_label_do_not_count() -> None:
    split, _ = made(SIZES)
    test = (split.part == TEST).nonzero().flatten().tolist()
    smiles, words = chains(len(split)), [("active", "inactive")[place % 2] for place in range(len(split))]
    smiles[test[0]] = "nonsense"
    words[test[1]], words[test[2]] = "", "NA"
    found = weak_parts(split, collect(smiles), read_labels({"kind": words}))
    assert found.startswith("test has only 9 rows:")


def test_a_part_of_one_class_is_named_by_its_word() -> None:
    split, _ = made(SIZES)
    odd = torch.arange(len(split)) % 2 == 0
    words = ["toxic" if one else "safe" for one in (odd & (split.part != TEST)).tolist()]
    others = ["yes" if one else "no" for one in odd.tolist()]
    collection = collect(chains(len(split)))
    assert "test has only b = 'safe':" in weak_parts(split, collection, read_labels({"b": words}))
    both = read_labels({"a": others, "b": words})
    assert "test has only b = 'safe':" in weak_parts(split, collection, both)
    three = ["mild" if word == "toxic" and place % 4 else word for place, word in enumerate(words)]
    assert "test has only b = 'safe':" in weak_parts(split, collection, read_labels({"b": three}))


def test_training_that_lacks_a_class_is_refused_in_the_users_words() -> None:
    split, _ = made(SIZES)
    words = ["safe" if part == TRAIN or place % 2 else "toxic" for place, part in enumerate(split.part.tolist())]
    with pytest.raises(InputError, match=r"training .*hazard = 'toxic'"):
        assemble(collect(chains(len(split))), read_labels({"hazard": words}), split, "own", "none", {})
    three = [word if word == "safe" else ("toxic", "lethal")[place // 2 % 2] for place, word in enumerate(words)]
    with pytest.raises(InputError, match="hazard = 'lethal'"):
        assemble(collect(chains(len(split))), read_labels({"hazard": three}), split, "own", "none", {})
