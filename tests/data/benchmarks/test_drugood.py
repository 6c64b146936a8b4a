"""DrugOOD's own files are read as they are, split by split."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from rdkit import Chem

from goodformer.data import load_benchmark
from goodformer.data.acquire import data_folder
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks import drugood
from goodformer.data.molecule import FEATURES
from goodformer.errors import InputError
from goodformer.spec import SPLITS

REAL = Path(os.environ.get("GOODFORMER_DATA", "")) / "drugood" / "lbap_core_ec50_assay.json"
NAMES = {"train": "train", "id_val": "iid_val", "id_test": "iid_test", "val": "ood_val", "test": "ood_test"}


def row(smiles: str, domain: int, label: int) -> dict[str, Any]:
    return {"smiles": smiles, "reg_label": 5.5, "assay_id": 1000 + domain, "cls_label": label, "domain_id": domain}


def content() -> dict[str, Any]:
    """A file of DrugOOD in small: its splits stand in another order than ours, domains begin at 2."""
    inside = [(5, "C"), (2, "CC"), (9, "CCC"), (5, "CCO")]
    split = {
        "train": [row("O" + text, domain, label) for label, (domain, text) in zip((0, 1, 1, 0), inside, strict=True)],
        "ood_val": [row("NCC", 3, 1), row("NC", 4, 0)],
        "ood_test": [row("SCC", 7, 1), row("SC", 8, 0), row("S", 8, 0)],
        "iid_val": [row("OCCCC", 9, 1), row("OCCCl", 2, 0)],
        "iid_test": [row("OCCF", 5, 1)],
    }
    return {"cfg": {}, "split": split, "statistics": {}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GOODFORMER_DATA", raising=False)
    return tmp_path


def load(folder: Path, value: Any, name: str = "lbap_core_ic50_assay.json", **settings: str) -> Benchmark:
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    with data_folder(folder):
        return load_benchmark("drugood", **{"measurement": "ic50", **settings})


def test_splits_as_in_the_file(folder: Path) -> None:
    benchmark = load(folder, content())
    for split, name in NAMES.items():
        rows, graphs = content()["split"][name], benchmark.splits[split]
        assert graphs.sizes.tolist() == [Chem.MolFromSmiles(one["smiles"]).GetNumAtoms() for one in rows]
        assert graphs.graph["y"].tolist() == [[float(one["cls_label"])] for one in rows]
        assert graphs.graph["domain"].tolist() == [one["domain_id"] for one in rows]
    assert benchmark.num_envs == 3
    assert benchmark.splits["train"].graph["env"].tolist() == [1, 0, 2, 1]
    assert benchmark.splits["id_val"].graph["env"].tolist() == [2, 0]
    assert benchmark.features == FEATURES
    assert (benchmark.domain, benchmark.shift, benchmark.task.metric) == ("assay", "covariate", "rocauc")


def test_every_training_assay_is_an_environment(folder: Path) -> None:
    value = content()
    value["split"]["train"] = [row("C" * (number + 1), number, number % 2) for number in range(15)]
    assert load(folder, value).num_envs == 15


def test_notes_say_which_set_it_is(folder: Path) -> None:
    assert load(folder, content()).notes == "This is DrugOOD IC50 by assay (core)."
    other = load(folder, content(), "lbap_refined_ki_size.json", measurement="ki", domain="size", noise="refined")
    assert other.notes == "This is DrugOOD Ki by size (refined), not the paper's IC50 by assay (core)."
    assert other.domain == "size"


def test_rows_left_out_are_named(folder: Path) -> None:
    value = content()
    value["split"]["ood_test"].insert(1, row("C1CC", 7, 1))
    benchmark = load(folder, value)
    assert all(fact in benchmark.notes for fact in ("1 of 13 rows", "row 1 of ood_test (unclosed ring)"))
    assert benchmark.splits["test"].graph["domain"].tolist() == [7, 8, 8]


def test_recipe_is_the_content(folder: Path) -> None:
    one, same = load(folder, content()).recipe, load(folder, content()).recipe
    value = content()
    value["split"]["train"][0]["smiles"] = "OCCCCCC"
    assert one == same
    assert load(folder, value).recipe != one


@pytest.mark.parametrize(
    "broken",
    [
        {"smiles": None},
        {"domain_id": -1},
        {"domain_id": "3"},
        {"domain_id": True},
        {"cls_label": 2},
        {"cls_label": None},
    ],
)
def test_broken_rows(folder: Path, broken: dict[str, Any]) -> None:
    value = content()
    value["split"]["iid_val"][1] |= broken
    with pytest.raises(InputError, match="has row 1 of iid_val without"):
        load(folder, value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"split": {"train": []}}', '{"split": []}', '{"split": {"train": 3}}']
)
def test_no_file_of_drugood(folder: Path, text: str) -> None:
    with pytest.raises(InputError, match="is not a DrugOOD file"):
        load(folder, text)


def test_file_without_an_address(folder: Path) -> None:
    with pytest.raises(InputError, match=r"https://drugood\.github\.io") as caught:
        load_benchmark("drugood", measurement="ic50")
    assert "drugood/lbap_core_ic50_assay.json" in str(caught.value)


def test_addresses_lead_to_the_files_they_are_for() -> None:
    for file, source in drugood.SOURCES.items():
        assert source.file == file
        assert source.url.startswith("https://")
        assert Path(source.url).name == Path(file).name


@pytest.mark.skipif(not REAL.is_file(), reason="GOODFORMER_DATA holds no drugood/lbap_core_ec50_assay.json")
def test_the_real_file() -> None:
    benchmark = load_benchmark("drugood")
    assert [len(benchmark.splits[split]) for split in SPLITS] == [4_540, 1_502, 1_557, 2_572, 2_490]
    assert benchmark.num_envs == 47
    assert benchmark.notes.startswith("This is DrugOOD EC50 by assay (core), not the paper's IC50")
    seen = {split: set(part.graph["domain"].tolist()) for split, part in benchmark.splits.items()}
    assert seen["train"] == seen["id_val"] == seen["id_test"]
    assert [len(seen[split]) for split in ("val", "test")] == [46, 101]
    assert seen["train"].isdisjoint(seen["val"] | seen["test"])
    rates = [round(float(part.graph["y"].mean()), 2) for part in benchmark.splits.values()]
    assert rates == [0.75, 0.74, 0.74, 0.89, 0.91]
