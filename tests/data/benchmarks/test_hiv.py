"""GOOD-HIV: the published split sizes on the real file, the same rules on a small one."""

from __future__ import annotations

import csv
import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rdkit import Chem, rdBase
from rdkit.Chem.Scaffolds import MurckoScaffold

from goodformer.data import load_benchmark
from goodformer.data.acquire import data_folder, obtain
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks import hiv
from goodformer.data.molecule import FEATURES, RDKIT
from goodformer.errors import InputError
from goodformer.spec import SPLITS

REAL = Path(os.environ.get("GOODFORMER_DATA", "")) / "hiv" / "HIV.csv"

RINGS = ("", "c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CC1", "c1ccsc1", "C1CCNC1", "c1ccc2ccccc2c1", "C1CCOC1", "C1CCC1")
GROUPS = ("C", "CC", "CCO", "CCN", "CC(=O)O", "CCCl", "CCCC", "CC#N", "CCS", "COC", "CCCCCO", "CF")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the format of HIV.csv: 480 molecules of ten scaffolds, and three rows that are none."""
    rows = [(f"{one}{ring}{other}", len(one) % 2) for ring, one in itertools.product(RINGS, GROUPS) for other in GROUPS]
    rows = [(text if Chem.MolFromSmiles(text) else "C", label) for text, label in rows[::3]]
    rows[5:5] = [("C1CC", 0)]
    rows[100:100] = [("CN(C)(C)(C)C", 1)]
    rows += [("xx", 0)]
    (tmp_path / "HIV.csv").write_text(
        "smiles,activity,HIV_active\n" + "".join(f"{text},CI,{label}\n" for text, label in rows)
    )
    monkeypatch.setattr(hiv, "SOURCE", replace(hiv.SOURCE, sha256=None))
    return tmp_path


def load(folder: Path, **settings: object) -> Benchmark:
    with data_folder(folder):
        return load_benchmark("good-hiv", **settings)


def sizes(benchmark: Benchmark) -> tuple[int, ...]:
    return tuple(len(benchmark.splits[split]) for split in SPLITS)


def domains(benchmark: Benchmark, *splits: str) -> set[int]:
    return {number for split in splits for number in benchmark.splits[split].graph["domain"].tolist()}


def test_covariate_scaffold(small: Path) -> None:
    benchmark = load(small)
    assert sum(sizes(benchmark)) == 480
    assert benchmark.features == FEATURES
    assert (benchmark.task.kind, benchmark.task.outputs, benchmark.task.metric) == ("binary", 1, "rocauc")
    inside, val, test = domains(benchmark, *SPLITS[:3]), domains(benchmark, "val"), domains(benchmark, "test")
    assert max(inside) < min(val)
    assert max(val) < min(test)
    assert benchmark.num_envs == len(inside)
    assert set(benchmark.splits["train"].graph["env"].tolist()) <= set(range(len(inside)))


def test_covariate_size_trains_on_the_large(small: Path) -> None:
    benchmark = load(small, domain="size")
    for split in SPLITS:
        assert torch.equal(benchmark.splits[split].graph["domain"], benchmark.splits[split].sizes)
    assert min(domains(benchmark, *SPLITS[:3])) > max(domains(benchmark, "val"))
    assert min(domains(benchmark, "val")) > max(domains(benchmark, "test"))


def test_each_molecule_keeps_its_label(small: Path) -> None:
    """Whatever the split, atoms and label belong together as in the file."""
    with (small / "HIV.csv").open() as file:
        rows = [(row["smiles"], float(row["HIV_active"])) for row in csv.DictReader(file)]
    mols = [(Chem.MolFromSmiles(text), label) for text, label in rows]
    wanted = sorted((sorted(atom.GetAtomicNum() for atom in mol.GetAtoms()), label) for mol, label in mols if mol)
    for settings in ({}, {"domain": "size", "shift": "concept"}, {"shift": "none", "seed": 3}):
        graphs = [graph for split in load(small, **settings).splits.values() for graph in split]
        assert sorted((sorted(graph.x[:, 0].tolist()), float(graph.y)) for graph in graphs) == wanted


def test_concept_ties_are_turned_in_test(small: Path) -> None:
    benchmark = load(small, shift="concept")
    assert benchmark.num_envs == 3
    assert domains(benchmark, "train") == domains(benchmark, "test")
    early = sorted(domains(benchmark, *SPLITS))[:4]

    def rate(split: str) -> float:
        graph = benchmark.splits[split].graph
        chosen = torch.isin(graph["domain"], torch.tensor(early))
        return float(graph["y"][chosen].mean() - graph["y"][~chosen].mean())

    assert rate("train") > 0.4
    assert rate("test") < -0.4


def test_without_shift(small: Path) -> None:
    benchmark = load(small, shift="none")
    assert sizes(benchmark) == (288, 48, 48, 48, 48)
    assert load(small, domain="size", shift="none").num_envs <= 10
    assert "halved" in benchmark.notes


def test_notes_name_the_rows_left_out(small: Path) -> None:
    notes = load(small).notes
    assert f"RDKit {RDKIT} rejects 3 of 483 rows" in notes
    assert "line 7 (unclosed ring)" in notes
    assert "line 102 (Explicit valence for atom # 1 N, 5, is greater than permitted)" in notes
    assert "line 484 (syntax error at position 1)" in notes
    assert "Published split sizes are 24,682 / 4,112 / 4,112 / 4,113 / 4,108" in notes
    assert "split sizes" not in load(small, shift="concept").notes


def test_recipe_tells_settings_apart(small: Path) -> None:
    recipes = [load(small, **one).recipe for one in ({}, {"domain": "size"}, {"seed": 1}, {"shift": "none"})]
    assert all(one != other for one, other in itertools.combinations(recipes, 2))
    assert recipes[0]["rdkit"] == RDKIT
    assert recipes[0] == load(small).recipe


def test_wrong_columns(small: Path) -> None:
    (small / "HIV.csv").write_text("smiles,active\nCC,1\n")
    with pytest.raises(InputError, match="columns smiles and HIV_active"):
        load(small)
    (small / "HIV.csv").write_text("smiles,activity,HIV_active\nCC,CI,maybe\n")
    with pytest.raises(InputError, match="columns smiles and HIV_active"):
        load(small)


def test_another_file_of_the_same_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "HIV.csv").write_text("smiles,activity,HIV_active\nCC,CI,1\n")
    with pytest.raises(InputError, match="SHA-256"):
        load(tmp_path)


@pytest.fixture(scope="module")
def real() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[int]]:
    """Atoms, places of scaffolds and labels of the real molecules, read once; and the rows that are none."""
    with REAL.open() as file:
        rows = list(csv.DictReader(file))
    with rdBase.BlockLogs():
        mols = [Chem.MolFromSmiles(row["smiles"]) for row in rows]
    accepted = [(mol, float(row["HIV_active"])) for mol, row in zip(mols, rows, strict=True) if mol]
    names = [MurckoScaffold.MurckoScaffoldSmiles(mol=mol) for mol, _ in accepted]
    sizes = torch.tensor([mol.GetNumAtoms() for mol, _ in accepted])
    y = torch.tensor([label for _, label in accepted])
    place = {name: number for number, name in enumerate(sorted(set(names)))}
    return sizes, torch.tensor([place[name] for name in names]), y, [row for row, mol in enumerate(mols) if mol is None]


needs_file = pytest.mark.skipif(not REAL.is_file(), reason="GOODFORMER_DATA holds no hiv/HIV.csv")


@needs_file
def test_published_sizes_by_size(real: tuple[torch.Tensor, ...]) -> None:
    """Exactly the published ones, but for the molecules RDKit rejects: all of them are missing in train."""
    atoms, _, y, rejected = real
    assert len(atoms) == 41_127 - len(rejected)
    assert y.sum() == 1_443
    found = hiv._split(atoms, y, "size", "covariate", 0)
    assert tuple(found.counts().values()) == (26_169 - len(rejected), 4_112, 4_112, 2_773, 3_961)
    if RDKIT == "2026.09.1":
        assert hiv._moved(found, "size", "covariate").endswith("here: train -7.")


@needs_file
def test_published_sizes_by_scaffold(real: tuple[torch.Tensor, ...]) -> None:
    """Near the published ones but not equal, for a reason not found: no way to move the cuts gives exactly those."""
    _, place, y, rejected = real
    found = hiv._split(place, y, "scaffold", "covariate", 0)
    for got, wanted in zip(found.counts().values(), hiv.PUBLISHED["scaffold", "covariate"], strict=True):
        assert abs(got - wanted) <= 20
    if RDKIT == "2026.09.1":
        assert rejected == [137, 987, 12_882, 18_293, 30_784, 30_785, 35_728]
        assert tuple(found.counts().values()) == (24_672, 4_112, 4_112, 4_116, 4_108)
        assert hiv._moved(found, "scaffold", "covariate").endswith("here: train -10, val +3.")


@needs_file
@pytest.mark.parametrize("domain", ["scaffold", "size"])
def test_sizes_under_a_concept_shift(real: tuple[torch.Tensor, ...], domain: str) -> None:
    """They hardly depend on the seed; GOOD's are not known here, so none are printed as such."""
    number = real[1] if domain == "scaffold" else real[0]
    counts = [tuple(hiv._split(number, real[2], domain, "concept", seed).counts().values()) for seed in range(10)]
    for got in zip(*counts, strict=True):
        assert max(got) - min(got) < 0.05 * min(got)


@needs_file
def test_the_real_file_has_the_right_checksum() -> None:
    assert obtain(hiv.SOURCE) == REAL
