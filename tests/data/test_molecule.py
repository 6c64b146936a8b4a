"""Molecules are the graphs PyG makes of them, and what is no molecule is listed with its reason."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem, DataStructs, RDLogger
from rdkit.Chem import AllChem, rdFingerprintGenerator
from torch_geometric.utils import from_smiles

from goodformer.data import molecule
from goodformer.data.benchmarks.table import load_table
from goodformer.data.features import check_features
from goodformer.data.molecule import FEATURES, Molecules, featurise, featurise_blocks, rejected_note
from goodformer.data.readers.rows import read_blocks, read_collection
from goodformer.data.similarity import BITS
from goodformer.data.splits.distance import distance_report
from goodformer.data.splits.splitters import make_split

SMILES = [
    "C",
    "[Na+]",
    "[H][H]",
    "CCO",
    "c1ccccc1",
    "CC(=O)Oc1ccccc1C(=O)O",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "C[C@H](N)C(=O)O",
    "C[C@@H](N)C(=O)O",
    "F/C=C/F",
    r"F/C=C\F",
    "[O-][N+](=O)c1ccccc1",
    "[CH3]",
    "[CH2]",
    "[O][O]",
    "C#N",
    "[C-]#[O+]",
    "FS(F)(F)(F)(F)F",
    "FP(F)(F)(F)F",
    "O=S(=O)(O)O",
    "[2H]C([2H])([2H])O",
    "*C",
    "[Cl-].[Na+]",
    "CC[N+](C)(C)C.[Br-]",
    "Cl[Pt](Cl)(N)N",
    "[Fe+3]",
    "C1CC1C2CCCCC2",
    "c1ccc2c(c1)[nH]c1ccccc12",
    "C=CC=C",
    "C=C=C",
    "N->[Cu]",
    "CCC1=[O+][Cu-3]2([O+]=C(CC)C1)[O+]=C(CC)CC(CC)=[O+]2",
    "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H](O)[C@@H]1O",
    "C[Si](C)(C)C",
    "B(O)(O)c1ccccc1",
    "[U]",
    "c1ccccc1 benzene",
]

OTHERS = [0, 2, 3, 4, 5, 6, 7, 8]
"""All columns of atoms but chirality."""
DATA = os.environ.get("GOODFORMER_DATA", "")


STEREO = [
    "C[C@H](N)C(=O)O",
    "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H](O)[C@@H]1O",
    "C[C@H]1CC[C@@H](C)CC1",
    "C[C@H]1CC[C@H](C)CC1",
    r"C/C=C/[C@H](O)/C=C\C",
    "CC(C)NC[C@H](O)COc1cccc2ccccc12",
    "C[C@]12CC[C@H]3[C@@H](CC=C4C[C@@H](O)CC[C@@]43C)[C@@H]1CC[C@@H]2O",
    "C1CC2CCC1CC2",
    "[O-][N+](=O)c1ccc(cc1)[C@@H](O)[C@@H](CO)NC(=O)C(Cl)Cl",
    "C[C@@H]1C[C@H](C)C[C@@H](C)C1",
    "O[C@H]1[C@@H](O)[C@@H](O)[C@H](O)[C@@H](O)[C@H]1O",
    "C1C[C@H]2CC[C@@H]1CC2",
    "CC(=O)O.[Na+].O.O",
]


def same_as_pyg(made: Molecules, smiles: list[str]) -> None:
    """In the order of the text, x and the codes of every directed edge are those of `from_smiles`; not chirality."""
    for graph, row in zip(made.graphs.as_given(), made.rows.tolist(), strict=True):
        expected = from_smiles(smiles[row])
        assert torch.equal(graph.x[:, OTHERS], expected.x[:, OTHERS]), smiles[row]
        assert torch.equal(graph.x[:, 1] > 0, expected.x[:, 1] > 0), smiles[row]
        assert edges(graph) == edges(expected), smiles[row]


def edges(graph: Any) -> list[tuple[int, ...]]:
    return sorted(map(tuple, torch.cat([graph.edge_index.T, graph.edge_attr], 1).tolist()))


def contents(graph: Any) -> tuple[Any, ...]:
    """Atoms and bonds, whatever their order."""
    return sorted(graph.x.tolist()), sorted(graph.edge_attr.tolist())


def same(one: Molecules, other: Molecules) -> None:
    """Two results are equal in everything."""
    assert one.rejected == other.rejected
    assert torch.equal(one.rows, other.rows)
    mine, others = one.graphs.tensors(), other.graphs.tensors()
    assert mine.keys() == others.keys()
    assert all(torch.equal(mine[name], others[name]) and mine[name].dtype == others[name].dtype for name in mine)


def test_equal_to_pyg() -> None:
    made = featurise(SMILES)
    assert not made.rejected
    assert made.rows.tolist() == list(range(len(SMILES)))
    same_as_pyg(made, SMILES)
    check_features(made.graphs, FEATURES, "molecules")
    assert made.graphs.node["x"].dtype == torch.long


@pytest.mark.skipif(not (Path(DATA) / "hiv/HIV.csv").is_file(), reason="GOODFORMER_DATA holds no hiv/HIV.csv")
def test_equal_to_pyg_on_real_molecules() -> None:
    with (Path(DATA) / "hiv/HIV.csv").open() as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)][::100]
    same_as_pyg(featurise(smiles), smiles)


@pytest.mark.skipif(not (Path(DATA) / "bbbp/BBBP.csv").is_file(), reason="GOODFORMER_DATA holds no bbbp/BBBP.csv")
def test_real_rows_that_are_rejected() -> None:
    with (Path(DATA) / "bbbp/BBBP.csv").open() as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    made = featurise(smiles)
    RDLogger.DisableLog("rdApp.*")
    wrong = [row for row, text in enumerate(smiles) if Chem.MolFromSmiles(text) is None]
    assert [one.row for one in made.rejected] == wrong
    assert all("valence" in one.reason and one.text == smiles[one.row] for one in made.rejected)
    assert sorted([*made.rows.tolist(), *wrong]) == list(range(len(smiles)))


def test_order_of_atoms_and_bonds() -> None:
    made = featurise(["OCC=N", "C", "CC"])
    assert made.graphs.node["x"][:, 0].tolist() == [7, 8, 6, 6, 6, 6, 6]
    assert made.graphs.node["given"].tolist() == [3, 0, 2, 1, 0, 0, 1]
    assert made.graphs.edge["index"].tolist() == [[0, 2, 1, 3, 2, 3, 0, 1], [2, 0, 3, 1, 3, 2, 1, 0]]
    assert made.graphs.edge["attr"][:, 0].tolist() == [2, 2, 1, 1, 1, 1, 1, 1]
    assert made.graphs.node_ptr.tolist() == [0, 4, 5, 7]
    assert made.graphs.edge_ptr.tolist() == [0, 6, 6, 8]  # a single atom has no edge
    given = made.graphs.as_given()
    assert given.node["x"][:, 0].tolist() == [8, 6, 6, 7, 6, 6, 6]
    assert given.edge["index"].tolist() == [[3, 2, 0, 1, 2, 1, 0, 1], [2, 3, 1, 0, 1, 2, 1, 0]]
    assert "given" not in given.node


def test_every_notation_of_a_molecule_is_one_graph() -> None:
    """Random SMILES of molecules with every kind of stereochemistry: equal tensors, whatever the order of atoms."""
    for text in STEREO:
        mol = Chem.MolFromSmiles(text)
        written = [text, *(Chem.MolToRandomSmilesVect(mol, 20, randomSeed=7))]
        assert len(set(written)) > 4
        made = featurise(written).graphs
        for graph in made:
            assert torch.equal(graph.x, made[0].x), text
            assert torch.equal(graph.edge_index, made[0].edge_index), text
            assert torch.equal(graph.edge_attr, made[0].edge_attr), text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
        ("C[C@H]1CC[C@@H](C)CC1", "C[C@H]1CC[C@H](C)CC1"),
        ("F/C=C/F", r"F/C=C\F"),
    ],
)
def test_stereoisomers_are_different_graphs(one: str, other: str) -> None:
    first, second = featurise([one, other]).graphs
    assert contents(first) != contents(second)  # also if atoms are renumbered


def test_chirality_is_r_or_s() -> None:
    made = featurise(["C[C@@H](N)C(=O)O", "OC(=O)[C@H](N)C", "C[C@H](N)C(=O)O"])  # D-alanine twice, then L-alanine
    codes = [int(graph.x[:, 1].max()) for graph in made.graphs]
    assert codes == [1, 1, 2]


def test_rejected_rows_keep_their_number_and_reason() -> None:
    smiles = ["CC", "CN(C)(C)(C)C", None, "", "  ", "C1CC", "xx", "C(C", "CCO", "c1cccc1", "CЖ"]
    made = featurise(smiles)
    assert made.rows.tolist() == [0, 8]
    assert {one.row: one.reason for one in made.rejected} == {
        1: "Explicit valence for atom # 1 N, 5, is greater than permitted",
        2: "empty",
        3: "empty",
        4: "empty",
        5: "unclosed ring",
        6: "syntax error at position 1",
        7: "extra open parentheses at position 2",
        9: "Can't kekulize mol. Unkekulized atoms: 0 1 2 3 4",
        10: "contains a character that SMILES do not have",
    }
    assert [one.text for one in made.rejected] == [text or "" for row, text in enumerate(smiles) if row not in (0, 8)]


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    featurise(["CN(C)(C)(C)C", "xx", "CC"])
    featurise_blocks(["nonsense"])
    assert capfd.readouterr() == ("", "")


def test_nothing_and_nothing_accepted() -> None:
    for given, count in (([], 0), (["xx", None], 2)):
        made = featurise(given)
        assert (len(made.graphs), len(made.rows), len(made.rejected)) == (0, 0, count)
        check_features(made.graphs, FEATURES, "molecules")


def test_values_beyond_the_columns_take_the_nearest_code() -> None:
    made = featurise(["[Fe+12]", "[O-12]", "[Pt+2]1(N)(N)ClCCl1", "[Cl+7](=O)(=O)"])
    assert made.graphs.node["x"][:2, 3].tolist() == [11, 0]
    for kind, name in (("node", "x"), ("edge", "attr")):
        values, sizes = getattr(made.graphs, kind)[name], torch.tensor(getattr(FEATURES, kind).sizes)
        assert bool(((values >= 0) & (values < sizes)).all())


def test_kinds_without_a_code() -> None:
    """RDKit numbers hybridisation otherwise than PyG, and knows kinds that PyG does not."""
    names = ("UNSPECIFIED", "S", "SP", "SP2", "SP3", "SP2D", "SP3D", "SP3D2", "OTHER")
    table = molecule.ATOM[6][2]
    assert table is not None
    assert [int(table[int(Chem.HybridizationType.names[name])]) for name in names] == [0, 1, 2, 3, 4, 7, 5, 6, 7]
    stereo = molecule.BOND[1][2]
    assert stereo is not None
    assert stereo[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert set(stereo[6:].tolist()) <= {1}


def test_several_processes_give_the_same(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(molecule, "CHUNK", 7)
    smiles = [*SMILES, "xx", None, *SMILES[::-1], "C1CC"]
    alone = featurise(smiles)
    same(alone, featurise(smiles, processes=2))
    monkeypatch.setattr(molecule, "CHUNK", 1000)
    same(alone, featurise(smiles, processes=2))
    assert capfd.readouterr().out == ""
    expected = alone.parsed.scaffolds()
    monkeypatch.setattr(molecule, "CHUNK", 10)
    monkeypatch.setattr(molecule, "KEPT_FROM", 20)
    monkeypatch.setattr(molecule, "worker_count", lambda: 2)
    assert featurise(smiles).parsed.scaffolds() == expected


def test_progress_goes_to_the_error_stream(capfd: pytest.CaptureFixture[str]) -> None:
    same(featurise(SMILES), featurise(SMILES, progress=True))
    printed = capfd.readouterr()
    assert printed.out == ""
    assert re.search(rf"{len(SMILES)} molecules in \d+\.\d s, \d+\.\d\d s per 1,000", printed.err)


def test_kept_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path))
    smiles = [*SMILES, "xx", None]
    featurise(smiles)
    assert not list(tmp_path.iterdir())  # a few are not worth it
    first = featurise(smiles, key={"file": "mine"})
    other = featurise(smiles[:-1], key={"file": "mine"})
    monkeypatch.setattr(molecule, "_read_chunk", never)
    same(first, featurise(smiles, key={"file": "mine"}))
    same(other, featurise(smiles[:-1], key={"file": "mine"}))
    with pytest.raises(AssertionError, match="built"):
        featurise(smiles, key={"file": "other"})


def test_many_are_kept_without_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path))
    monkeypatch.setattr(molecule, "KEPT_FROM", 10)
    first = featurise(SMILES)
    names = first.parsed.scaffolds()
    blocks = [Chem.MolToMolBlock(Chem.MolFromSmiles("C" * size)) for size in range(1, 12)]
    chains = featurise_blocks(blocks)
    monkeypatch.setattr(molecule, "_read_chunk", never)
    monkeypatch.setattr(molecule, "_write_chunk", never)
    same(first, featurise(SMILES))
    assert featurise(SMILES).parsed.scaffolds() == names
    same(chains, featurise_blocks(blocks))
    assert featurise_blocks(blocks).parsed.smiles == chains.parsed.smiles == tuple("C" * size for size in range(1, 12))


def never(*_: object, **__: object) -> None:
    raise AssertionError("built although it was there")


def test_another_version_is_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    key = molecule._key("smiles", SMILES, None)
    monkeypatch.setattr(molecule, "RDKIT", "1999.1")
    assert molecule._key("smiles", SMILES, None) != key
    assert molecule._key(molecule.BLOCK, SMILES, None) != molecule._key("smiles", SMILES, None)


def test_mol_blocks() -> None:
    smiles = ["CCO", "c1ccccc1C(=O)O", "C[N+](C)(C)C", "CC"]
    with_hydrogens = [Chem.MolToMolBlock(Chem.AddHs(Chem.MolFromSmiles(text))) for text in smiles]
    made = featurise_blocks([*with_hydrogens, "nonsense", None])
    assert made.rows.tolist() == [0, 1, 2, 3]
    assert [one.row for one in made.rejected] == [4, 5]
    assert made.rejected[0].reason
    assert made.parsed.smiles == tuple(map(Chem.CanonSmiles, smiles))
    same_as_pyg(made, smiles)


def test_mol_block_in_three_dimensions_has_its_chirality() -> None:
    mol = Chem.AddHs(Chem.MolFromSmiles("C[C@H](N)C(=O)O"))
    AllChem.EmbedMolecule(mol, randomSeed=1)
    made = featurise_blocks([Chem.MolToMolBlock(mol)])
    assert int((made.graphs.node["x"][:, 1] > 0).sum()) == 1


def test_scaffolds() -> None:
    smiles = ["Cc1ccccc1", "xx", "CCCC", "OC1CCC(c2ccncc2)C1", "C[C@@H]1CCC[C@H](c2ccccc2)C1", "O=C1CCCCC1"]
    found = ["c1ccccc1", "", "c1cc(C2CCCC2)ccn1", "c1ccc(C2CCCCC2)cc1", "O=C1CCCCC1"]
    parsed = featurise(smiles).parsed
    assert parsed.scaffolds() == found
    assert parsed.subset([4, 0]).scaffolds() == [found[4], found[0]]
    assert molecule.Parsed.concat([parsed.subset([3]), featurise(["C1CC1C"]).parsed]).scaffolds() == [found[3], "C1CC1"]


def test_canonical_smiles_are_those_of_rdkit() -> None:
    assert featurise(SMILES).parsed.canonical() == [Chem.CanonSmiles(text) for text in SMILES]


def test_fingerprints_have_rdkits_similarity() -> None:
    found = featurise(SMILES).parsed.fingerprints(bits=512)
    assert found.shape == (len(SMILES), 512)
    assert found.dtype == np.bool_
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=512)
    theirs = [generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in SMILES]
    for one, other in ((4, 5), (7, 8), (12, 0), (3, 20), (26, 27)):
        ours = (found[one] & found[other]).sum() / (found[one] | found[other]).sum()
        assert ours == pytest.approx(DataStructs.TanimotoSimilarity(theirs[one], theirs[other]))
    assert featurise([]).parsed.fingerprints().shape == (0, BITS)


def test_note_on_rejected_rows() -> None:
    assert rejected_note([], 10, str) == ""
    made = featurise(["xx", "C1CC", "", "CC", None])
    text = rejected_note(made.rejected, 1_005, lambda row: f"line {row + 2}", named=2)
    for fact in ("4 of 1,005", "line 2 (syntax error at position 1)", "line 3 (unclosed ring)", "and 2 more"):
        assert fact in text
    assert "line 4" not in text
    assert " more" not in rejected_note(made.rejected, 5, str, named=4)


# One parse per string -------------------------------------------------------------------------------------------------


@pytest.fixture
def parsed_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that RDKit parses during a test."""
    texts: list[str] = []

    def counted(real: Callable[[str], Any]) -> Callable[[str], Any]:
        def parse(text: str) -> Any:
            texts.append(text)
            return real(text)

        return parse

    for name in ("MolFromSmiles", "MolFromMolBlock"):
        monkeypatch.setattr(Chem, name, counted(getattr(Chem, name)))
    return texts


def chemist_file(path: Path) -> list[str]:
    """Write a table of distinct molecules, two of them the same molecule and one that RDKit rejects."""
    rings = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CC1", "c1ccsc1", "C1CCNCC1"]
    smiles = [f"{'C' * length}{ring}" for ring in rings for length in range(1, 9)]
    smiles += ["OCC", "CCO", "C1CC"]
    rows = [f"{text},{number % 2},{number % 5}" for number, text in enumerate(smiles)]
    path.write_text("\n".join(["smiles,active,batch", *rows]) + "\n")
    return smiles


@pytest.mark.parametrize("split", ["auto", "scaffold", "size", "cluster", "random", "column:batch"])
def test_fitting_parses_every_string_once(split: str, tmp_path: Path, parsed_texts: list[str]) -> None:
    smiles = chemist_file(tmp_path / "mine.csv")
    table = load_table(tmp_path / "mine.csv", target="active", split=split)
    distance_report(table.split, table.collection, table.labels.y)
    table.benchmark()
    assert sorted(parsed_texts) == sorted(smiles)


def test_splitting_and_predicting_parse_every_string_once(tmp_path: Path, parsed_texts: list[str]) -> None:
    smiles = chemist_file(tmp_path / "mine.csv")
    collection, columns = read_collection(tmp_path / "mine.csv")
    distance_report(make_split("scaffold", collection, columns), collection)
    assert sorted(parsed_texts) == sorted(smiles)
    parsed_texts.clear()
    assert sum(len(block.collection) for block in read_blocks(tmp_path / "mine.csv", size=10)) == len(smiles) - 1
    assert sorted(parsed_texts) == sorted(smiles)


def test_a_record_of_an_sdf_file_is_parsed_once(tmp_path: Path, parsed_texts: list[str]) -> None:
    blocks = [Chem.MolToMolBlock(Chem.RWMol(from_text)) for from_text in map(Chem.MolFromSmiles, SMILES[3:12])]
    (tmp_path / "mine.sdf").write_text("".join(f"{block}$$$$\n" for block in blocks))
    parsed_texts.clear()
    collection, _ = read_collection(tmp_path / "mine.sdf")
    distance_report(make_split("scaffold", collection), collection)
    assert len(parsed_texts) == len(blocks) == len(set(parsed_texts))


def test_molecules_from_the_cache_are_parsed_at_most_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parsed_texts: list[str]
) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path))
    first = featurise(SMILES, key={"file": "mine"}).parsed
    parsed_texts.clear()
    again = featurise(SMILES, key={"file": "mine"}).parsed
    assert not parsed_texts
    some = again.subset(range(5, 12))
    assert np.array_equal(some.fingerprints(), first.subset(range(5, 12)).fingerprints())
    assert parsed_texts == SMILES[5:12]
    assert again.scaffolds() == first.scaffolds()
    assert again.canonical() == first.canonical()
    assert sorted(parsed_texts) == sorted(SMILES)
