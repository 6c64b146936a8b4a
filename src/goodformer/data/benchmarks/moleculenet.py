"""BACE, BBBP, ESOL and Lipophilicity: small tables of MoleculeNet, split like a user's own file."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from goodformer.data.acquire import PublicFile, obtain
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks.table import load_table
from goodformer.errors import InputError

_RAW = "https://raw.githubusercontent.com"
_ORIGINALS = f"{_RAW}/GLambard/Molecules_Dataset_Collection/master/originals"
_ABOUT = "as collected in GLambard/Molecules_Dataset_Collection on GitHub (MIT)"
BACE = PublicFile(
    "bace/bace.csv",
    f"{_ORIGINALS}/bace.csv",
    "d36f089649984f7bfaa4589ccc3ae907b831780a01ccfd065a5b604939e1a5df",
    f"MoleculeNet's BACE, 1,513 rows, {_ABOUT}",
)
BBBP = PublicFile(
    "bbbp/BBBP.csv",
    f"{_ORIGINALS}/BBBP.csv",
    "d07a38487aeac5cee5508413e468043ef3097451d2a112701c2d60be9ec6b662",
    f"MoleculeNet's BBBP, 2,050 rows, {_ABOUT}",
)
ESOL = PublicFile(
    "esol/delaney-processed.csv",
    f"{_RAW}/csjtx1021/DGBO/5768306b47d1cb8fd315e6412267269f6cef4795/datasets/delaney-processed.csv",
    "a51dcc10593a9f5b11fbf94bfc7504f7ef13eb133066fa5baf02e509efaae0b4",
    "MoleculeNet's ESOL, 1,128 rows",
)
LIPOPHILICITY = PublicFile(
    "lipophilicity/Lipophilicity.csv",
    f"{_RAW}/josieyi/Mix-Key/7c633d3c09444d878cfb1c8d1ab724798e0b833c/data/Lipophilicity.csv",
    "5792c2b997117c11e6868321c7014bf87cf0e2af629717af298b9d0c3d10bc9b",
    "MoleculeNet's Lipophilicity, 4,200 rows",
)
SPLITS = ("scaffold", "size", "cluster", "random")

SplitBy = Annotated[str, Field(pattern=f"^({'|'.join(SPLITS)})$", description="scaffold, size, cluster or random.")]
Seed = Annotated[int, Field(ge=0, description="Seed of the split; it orders equally common scaffolds.")]


def bace(*, split: SplitBy = "scaffold", seed: Seed = 0) -> Benchmark:
    """BACE: 1,513 molecules and whether they inhibit human beta-secretase 1; OOD molecules have rare scaffolds.

    Splits:
        As for a user's own file (data set ``table``): whole domains in the order of ``split``, 80 % for training, then
        10 % each for OOD validation and OOD test; ID validation and ID test, 10 % of all each, are drawn from
        training. Scaffolds are ordered from the commonest to the rarest, and the seed orders equally common ones, so
        that OOD test differs from seed to seed.
    Input:
        One node per atom, in the order of the SMILES, with nine codes; one edge per bond and direction, with three
        codes (`goodformer.data.molecule.FEATURES`, the layout of PyG's ``from_smiles``). Hydrogens are not nodes.
    Label:
        1 if the molecule inhibits the enzyme (pIC50 of 7 or more), else 0; 45.7 % are 1.
    Task: 1 binary target, ROC-AUC.
    Domain: the Murcko scaffold, the number of atoms, or the cluster of fingerprints; none for ``random``.
    Source:
        Subramanian et al., Computational Modeling of beta-Secretase 1 (BACE-1) Inhibitors, Journal of Chemical
        Information and Modeling 2016; part of Wu et al., MoleculeNet, Chemical Science 2018.
    Licence: The file is taken from a collection under MIT.

    Statistics (scaffold, seed 0, RDKit 2026.9.1): 908 / 151 / 151 / 151 / 152 graphs, mean nodes 34 / 33 / 33 /
    36 / 35, largest 73 / 50 / 52 / 97 / 62.
    """
    return _load("bace", BACE, "Class", split, seed)


def bbbp(*, split: SplitBy = "scaffold", seed: Seed = 0) -> Benchmark:
    """BBBP: 2,050 molecules and whether they cross the blood-brain barrier; OOD molecules have rare scaffolds.

    Splits:
        As for a user's own file (data set ``table``): whole domains in the order of ``split``, 80 % for training, then
        10 % each for OOD validation and OOD test; ID validation and ID test, 10 % of all each, are drawn from
        training. Scaffolds are ordered from the commonest to the rarest, and the seed orders equally common ones, so
        that OOD test differs from seed to seed.
    Input:
        One node per atom, in the order of the SMILES, with nine codes; one edge per bond and direction, with three
        codes (`goodformer.data.molecule.FEATURES`, the layout of PyG's ``from_smiles``). Hydrogens are not nodes.
    Label: 1 if the molecule crosses the barrier, else 0; 76.5 % are 1.
    Task: 1 binary target, ROC-AUC.
    Domain: the Murcko scaffold, the number of atoms, or the cluster of fingerprints; none for ``random``.
    Source:
        Martins et al., A Bayesian Approach to in Silico Blood-Brain Barrier Penetration Modeling, Journal of Chemical
        Information and Modeling 2012; part of Wu et al., MoleculeNet, Chemical Science 2018.
    Licence: The file is taken from a collection under MIT.

    Statistics (scaffold, seed 0, RDKit 2026.9.1, which rejects 11 rows): 1,225 / 203 / 203 / 204 / 204 graphs, mean
    nodes 23 / 23 / 24 / 25 / 27, largest 132 / 59 / 82 / 101 / 90.
    """
    return _load("bbbp", BBBP, "p_np", split, seed)


def esol(*, split: SplitBy = "scaffold", seed: Seed = 0) -> Benchmark:
    """ESOL: 1,128 molecules and their solubility in water; OOD molecules have rare scaffolds.

    Splits: as for ``bace``.
    Input: as for ``bace``.
    Label: the measured decadic logarithm of the solubility in mol per litre, from -11.6 to 1.6.
    Task: 1 measured target, RMSE.
    Domain: the Murcko scaffold, the number of atoms, or the cluster of fingerprints; none for ``random``.
    Source:
        Delaney, ESOL: Estimating Aqueous Solubility Directly from Molecular Structure, Journal of Chemical Information
        and Computer Sciences 2004; part of Wu et al., MoleculeNet, Chemical Science 2018.
    Licence: The file is taken from a public collection of MoleculeNet's tables.

    Statistics (scaffold, seed 0, RDKit 2026.9.1): 678 / 112 / 112 / 113 / 113 graphs, mean nodes 12 / 11 / 13 / 18 /
    19, largest 34 / 31 / 29 / 55 / 42.
    """
    return _load("esol", ESOL, "measured log solubility in mols per litre", split, seed)


def lipophilicity(*, split: SplitBy = "scaffold", seed: Seed = 0) -> Benchmark:
    """Lipophilicity: 4,200 molecules and their octanol-water distribution at pH 7.4; OOD molecules have rare scaffolds.

    Splits: as for ``bace``.
    Input: as for ``bace``.
    Label: the measured logD, from -1.5 to 4.5.
    Task: 1 measured target, RMSE.
    Domain: the Murcko scaffold, the number of atoms, or the cluster of fingerprints; none for ``random``.
    Source:
        Hersey, ChEMBL Deposited Data Set (AstraZeneca), 2015; part of Wu et al., MoleculeNet, Chemical Science 2018.
    Licence: ChEMBL's data are under CC BY-SA 3.0.

    Statistics (scaffold, seed 0, RDKit 2026.9.1): 2,520 / 420 / 420 / 420 / 420 graphs, mean nodes 27 / 28 / 26 / 28
    / 27, largest 100 / 50 / 115 / 72 / 61.
    """
    return _load("lipophilicity", LIPOPHILICITY, "exp", split, seed)


def _load(name: str, source: PublicFile, target: str, split: str, seed: int) -> Benchmark:
    """Return a table of molecules as a benchmark of that name."""
    path = obtain(source)
    try:
        return replace(load_table(path, "smiles", target, split, seed).benchmark(), name=name)
    except InputError as error:
        raise InputError(f"data set {name}, file {path}: {error}") from None
