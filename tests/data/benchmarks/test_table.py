"""A user's own file as a benchmark."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from goodformer.apply.split import split_file
from goodformer.config.run import RunConfig
from goodformer.data import Benchmark, load_benchmark, molecule
from goodformer.data.benchmarks.table import assemble, load_table, rejected_sentence
from goodformer.data.digest import digest
from goodformer.data.readers.collection import collect
from goodformer.data.readers.labels import Labels, read_labels
from goodformer.data.readers.rows import read_collection
from goodformer.data.splits.split import Split
from goodformer.data.splits.splitters import make_split
from goodformer.errors import InputError
from goodformer.spec import SPLITS, Features, FeatureSpec, Task

RINGS = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNCC1", "c1ccsc1", "C1CCOC1", "c1ccc2ccccc2c1", "C1CC1", "c1ccoc1"]
BACE = Path(os.environ.get("GOODFORMER_DATA", "")) / "bace" / "bace.csv"


def molecules(path: Path, copies: int = 8, extra: str = "") -> Path:
    """A table of molecules with two targets, a year, and two rows that cannot be used."""
    lines = ["id,mol,active,toxic,year"]
    for number in range(copies * len(RINGS)):
        ring, length = RINGS[number % len(RINGS)], number // len(RINGS) + 1
        toxic = "" if number % 5 == 0 else str(length % 2)
        lines.append(f"m{number},{'C' * length}{ring},{'yes' if number % 3 else 'no'},{toxic},{2000 + number % 11}")
    path.write_text("\n".join([*lines, "bad,C1C,yes,1,2000", "bare,CCO,,,2000"]) + extra + "\n")
    return path


def graph_lines(path: Path, count: int = 60) -> Path:
    """Graphs with a code a node that grows with their size."""
    rows = []
    for number in range(count):
        nodes = 2 + number % 12
        edges = [[node, node + 1] for node in range(nodes - 1)]
        rows.append({"edges": edges, "x": [[node] for node in range(nodes)], "kind": "abc"[number % 3]})
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def table(path: Path, **more: Any) -> Benchmark:
    """The data set ``table`` of the molecules."""
    return load_benchmark("table", **{"path": str(path), "smiles": "mol", "target": "active", **more})


def test_a_table_of_molecules_is_a_benchmark(tmp_path: Path) -> None:
    made = table(molecules(tmp_path / "mine.csv"))
    assert (made.name, made.domain, made.shift) == ("mine", "scaffold", "covariate")
    assert made.task == Task("binary", 1, "rocauc")
    assert sum(len(graphs) for graphs in made.splits.values()) == 72
    assert all(len(made.splits[split]) for split in SPLITS)
    inside = torch.cat([made.splits[split].graph["env"] for split in SPLITS[:3]])
    assert sorted(inside.unique().tolist()) == list(range(made.num_envs))
    outside = set(made.splits["test"].graph["domain"].tolist())
    assert outside.isdisjoint(made.splits["train"].graph["domain"].tolist())
    assert "row 73 (C1C:" in made.notes
    assert "1 row without a label or domain" in made.notes
    assert made.with_encodings(["random_walk:2"]).splits["test"].node["random_walk_2"].shape[1] == 2


def test_graphs_and_labels_belong_together(tmp_path: Path) -> None:
    path = molecules(tmp_path / "mine.csv")
    made = table(path, split="random")
    collection, columns = read_collection(path, "mol")
    split = make_split("random", collection, columns, read_labels({"a": columns["active"]}).y)
    for name in SPLITS:
        rows = split.rows(name)
        assert made.splits[name].graph["y"].flatten().tolist() == [
            float(columns["active"][row] == "yes") for row in rows
        ]
        alone = collect([columns["mol"][row] for row in rows])
        assert torch.equal(made.splits[name].node["x"], alone.graphs.node["x"])
    assert made.shift == "none"


def test_several_targets_may_be_missing(tmp_path: Path) -> None:
    made = table(molecules(tmp_path / "mine.csv"), target=["active", "toxic"], split="column:year")
    assert made.task == Task("binary", 2, "rocauc")
    y = torch.cat([made.splits[split].graph["y"] for split in SPLITS])
    assert int(y.isnan().sum()) == 15
    assert made.domain == "year"


def test_graphs_have_as_many_codes_as_training(tmp_path: Path) -> None:
    made = load_benchmark("table", path=str(graph_lines(tmp_path / "g.jsonl")), target="kind")
    assert made.domain == "size"
    assert made.task == Task("multiclass", 3, "accuracy")
    largest = int(made.splits["train"].node["x"].max())
    assert made.features == FeatureSpec(Features.categorical(largest + 1))
    assert int(made.splits["test"].node["x"].max()) > largest


def test_a_saved_split_is_used_again(tmp_path: Path) -> None:
    path = molecules(tmp_path / "mine.csv")
    report = split_file(path, "mol", ["active"], "scaffold", 3, tmp_path / "split.json", tmp_path / "split.png")
    first, second = table(path, seed=3), table(path, split=f"file:{tmp_path / 'split.json'}")
    for name in SPLITS:
        assert torch.equal(first.splits[name].node["x"], second.splits[name].node["x"])
        assert report["parts"][name]["graphs"] == len(first.splits[name])
    assert first.recipe == second.recipe
    assert (tmp_path / "split.png").stat().st_size > 5_000
    assert report["class_names"] == {"active": ("no", "yes")}
    assert report["rejected"][0] | {"reason": ""} == {"row": 73, "text": "C1C", "reason": ""}
    json.dumps(report, allow_nan=False)


def config(path: Path, **more: Any) -> RunConfig:
    """A run on a file."""
    dataset = {"name": "table", "path": str(path), "smiles": "mol", "target": "active", **more}
    return RunConfig(dataset=dataset, model="gin", method="erm")


def test_a_run_belongs_to_the_content_of_its_file(tmp_path: Path) -> None:
    path = molecules(tmp_path / "mine.csv")
    before = config(path)
    assert before.dataset["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert config(path).id == before.id
    molecules(path, extra="\nnew,CCCO,no,,2001")
    after = config(path)
    assert after.id != before.id
    restored = RunConfig.from_dict(before.to_dict())
    assert restored.id == before.id
    with pytest.raises(InputError, match="has changed"):
        load_benchmark(**restored.dataset)
    path.unlink()
    assert RunConfig.from_dict(before.to_dict()).id == before.id  # a record can be read without its file
    with pytest.raises(InputError, match="not found"):
        load_benchmark(**before.dataset)


def test_a_run_belongs_to_the_content_of_its_split(tmp_path: Path) -> None:
    path, saved = molecules(tmp_path / "mine.csv"), tmp_path / "split.json"
    split_file(path, "mol", ["active"], "scaffold", 0, saved)
    before = config(path, split=f"file:{saved}")
    assert before.dataset["split_sha256"] == digest(saved)
    split_file(path, "mol", ["active"], "random", 0, saved)
    assert config(path, split=f"file:{saved}").id != before.id
    with pytest.raises(InputError, match="restore the split"):
        load_benchmark(**before.dataset)
    assert config(path).dataset["split_sha256"] == ""


def test_recipes_differ_with_file_and_split(tmp_path: Path) -> None:
    path = molecules(tmp_path / "mine.csv")
    recipes = [table(path).recipe, table(path, seed=1).recipe, table(path, split="size").recipe]
    molecules(path, copies=9)
    recipes.append(table(path).recipe)
    assert len({json.dumps(recipe, sort_keys=True) for recipe in recipes}) == 4
    assert recipes[3]["sha256"] == digest(path)


def test_encodings_belong_to_the_version_that_read_the_molecules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = molecules(tmp_path / "mine.csv")
    before = table(path).recipe
    assert before["rdkit"] == molecule.RDKIT
    monkeypatch.setattr(molecule, "VERSION", molecule.VERSION + 1)
    assert table(path).recipe != before


def test_folders_have_a_digest_of_all_their_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1")
    (tmp_path / "b.txt").write_text("2")
    before = digest(tmp_path)
    (tmp_path / "b.txt").write_text("23")
    assert digest(tmp_path) != before


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"target": "Active"}, "no column 'Active'; did you mean 'active'"),
        ({"smiles": "smiles"}, "no column 'smiles'"),
        ({"split": "scafold"}, "did you mean scaffold"),
        ({"target": "id"}, "74 different values"),
        ({"sha256": "0" * 64}, "has changed since"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        table(molecules(tmp_path / "mine.csv"), **more)
    assert "\n" not in str(caught.value)


def test_counts_must_agree() -> None:
    labels = Labels(torch.tensor([0, 1]), Task("multiclass", 2), {"y": ("a", "b")})
    split = Split(torch.tensor([0, 0, 0]), torch.tensor([0, 0, 0]))
    with pytest.raises(InputError, match="3 rows, 2 labels and 3 "):
        assemble(collect(["C", "CC", "CCC"]), labels, split, "own", "none", {})


def test_rejected_rows_are_counted_and_the_first_named() -> None:
    rejected = collect([*["C1C"] * 7, "C", None]).rejected
    text = rejected_sentence(rejected, "a.csv")
    assert text.startswith("8 rows of a.csv")
    assert all(f"row {number} (C1C: " in text for number in range(1, 6))  # counted from 1
    assert "row 6" not in text
    assert text.endswith("and 3 more.")
    (last,) = collect(["C", "CC", "C1C"]).rejected
    assert "row 3 (C1C" in rejected_sentence([last], "a.csv")
    assert rejected_sentence((), "a.csv") == ""


@pytest.mark.skipif(not BACE.is_file(), reason="GOODFORMER_DATA holds no bace/bace.csv")
def test_a_real_file_by_scaffold() -> None:
    made = load_benchmark("table", path=str(BACE), target="Class")
    counts = {split: len(graphs) for split, graphs in made.splits.items()}
    assert sum(counts.values()) == 1513
    assert counts["id_val"] == counts["id_test"] == 151
    assert 140 <= counts["val"] <= 165
    assert 140 <= counts["test"] <= 165


@pytest.mark.parametrize(("most", "point", "noted"), [(80, "", True), (80, ".0", False), (12, "", False)])
def test_many_integers_are_said_to_be_read_as_categories(tmp_path: Path, most: int, point: str, noted: bool) -> None:
    values = ", ".join(f"[{value}{point}]" for value in (1, 5, most))
    lines = [f'{{"edges": [[0, 1], [1, 2]], "x": [{values}], "label": {row % 2}}}' for row in range(20)]
    (tmp_path / "graphs.jsonl").write_text("\n".join(lines))
    notes = load_table(tmp_path / "graphs.jsonl", "smiles", "label", "random", 0).notes
    assert any("read as categories" in note and f"{most}.0" in note for note in notes) == noted


def test_repeated_molecules_and_salts_are_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    some = [f"{'C' * (n % 9 + 1)}{ring}" for n in range(9) for ring in ("c1ccccc1", "C1CCCCC1", "c1ccncc1")]
    lines = [f"{one},{place % 2}" for place, one in enumerate(some)]
    path.write_text("\n".join(["smiles,y", *lines, lines[0], lines[4], f"{some[1]}.Cl,1"]))
    notes = " ".join(load_table(path, "smiles", "y", "random").notes)
    assert "2 rows repeat the molecule of another row" in notes
    assert "1 molecule has several fragments" in notes
    parents = " ".join(load_table(path, "smiles", "y", "random", standardise="parent").notes)
    assert "3 rows repeat" in parents  # the salt is its parent now
    assert "fragments" not in parents


@pytest.mark.parametrize("labels", ["1 0 1", "1 1 1"])
def test_an_error_names_rows_that_cannot_be_read(labels: str, tmp_path: Path) -> None:
    first, bad, last = labels.split()
    rows = [
        {"edges": [[0, 1], [1, 2]], "label": int(first)},
        {"edges": [[0, 1], [1, -2]], "label": int(bad)},
        {"edges": [[0, 1]], "label": int(last)},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"1 row cannot be read, first row 2: line 2 has an edge end"):
        load_table(tmp_path / "a.jsonl", target="label").benchmark()
