"""GOOD-HIV: molecules that inhibit HIV replication or do not, split by scaffold or size."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from goodformer.data.acquire import PublicFile, obtain
from goodformer.data.benchmark import HALVED, Benchmark
from goodformer.data.molecule import FEATURES, RDKIT, featurise, rejected_note
from goodformer.data.splits.split import Split, concept, covariate, mixed
from goodformer.errors import InputError
from goodformer.spec import SPLITS, Task

VERSION = 2
"""Increased when the same file yields different splits."""

SOURCE = PublicFile(
    "hiv/HIV.csv",
    "https://raw.githubusercontent.com/GLambard/Molecules_Dataset_Collection/master/originals/HIV.csv",
    "54713c3205055055ea4214e8c4b0d22d93af7e54ad2c48f4edc866e161e57262",
    "MoleculeNet's HIV, 41,127 rows, as collected in GLambard/Molecules_Dataset_Collection on GitHub (MIT)",
)
TASK = Task("binary", 1, "rocauc")
PUBLISHED = {
    ("scaffold", "covariate"): (24_682, 4_112, 4_112, 4_113, 4_108),
    ("size", "covariate"): (26_169, 4_112, 4_112, 2_773, 3_961),
}
"""Sizes of the splits of the GOOD benchmark, in the order of `SPLITS`."""


def good_hiv(
    *,
    domain: Annotated[
        Literal["scaffold", "size"], Field(description="What shifts: the Murcko scaffold, or the number of atoms.")
    ] = "scaffold",
    shift: Annotated[
        Literal["covariate", "concept", "none"],
        Field(description="Kind of shift: unseen domains, a changed correlation of domain and label, or none."),
    ] = "covariate",
    seed: Annotated[int, Field(ge=0, description="Seed of the random part of the split.")] = 0,
) -> Benchmark:
    """GOOD-HIV: 41,127 molecules and whether they inhibit HIV; OOD molecules have unseen scaffolds or sizes.

    Splits:
        covariate: molecules sorted by scaffold string (or by number of atoms, the largest first), cut at 80 % and 90 %
        where the next domain begins; id_val and id_test, 10 % of all each, are drawn from train. concept: three
        groups of training molecules, one of test, and val with the rest; in the first half of the domains (the rows
        sorted by scaffold, or by size with the smallest first) an active molecule is taken into the training groups
        with probability .95, .9, .85 and an inactive one with 1 minus that; in the second half it is the reverse, and
        in test (.95) both are reversed. id_val and id_test are 15 % of these training molecules each. none: 60 %
        train and 10 % each of the others; GOOD has one val and one test of 20 % here, which are halved.
    Input:
        One node per atom, in the order of the SMILES, with nine codes; one edge per bond and direction, with three
        codes (`goodformer.data.molecule.FEATURES`). Hydrogens are not nodes.
    Label:
        1 if the molecule inhibits replication of HIV (confirmed active or moderately active), else 0; 3.5 % are 1.
    Task: 1 binary target, ROC-AUC.
    Domain:
        scaffold: the number of the Murcko scaffold among all of them in the order of their SMILES, 0 without a ring.
        size: the number of atoms. ``env``: neighbouring training domains merged into at most ten environments of
        similar size, numbered from 0; under a concept shift the three training groups. GOOD's environments are ten
        random groups of training molecules instead, which are unrelated to the domain.
    Source:
        Wu et al., MoleculeNet, Chemical Science 2018, from the AIDS antiviral screen of the US National Cancer
        Institute; split after Gui et al., GOOD: A Graph Out-of-Distribution Benchmark, NeurIPS 2022.
    Licence:
        The file is taken from a collection under MIT; the results of the screen are public. The split is made by this
        package's own code: MIT.

    Statistics (scaffold, covariate, RDKit 2026.9.1, which rejects 7 rows): 24,672 / 4,112 / 4,112 / 4,116 / 4,108
    graphs, mean nodes 26 / 27 / 26 / 25 / 20, largest 222 / 213 / 200 / 116 / 145. size: 26,162 / 4,112 / 4,112 /
    2,773 / 3,961 graphs, mean nodes 28 / 28 / 28 / 16 / 12, largest 214 / 200 / 222 / 16 / 14.
    """
    smiles, y = read_rows(obtain(SOURCE))
    show = sys.stderr.isatty()
    made = featurise(smiles, progress=show)
    graphs, labels = made.graphs, y[made.rows]
    number = graphs.sizes
    names: tuple[str, ...] = ()
    if domain == "scaffold":
        found = made.parsed.scaffolds(show)
        names = tuple(sorted(set(found)))
        place = {name: number for number, name in enumerate(names)}
        number = torch.tensor([place[name] for name in found])
    split = _split(number, labels, domain, shift, seed)
    recipe: dict[str, Any] = {"name": "good-hiv", "domain": domain, "shift": shift, "seed": seed}
    recipe |= {"file": SOURCE.sha256, "rdkit": RDKIT, "version": VERSION}
    rejected = rejected_note(made.rejected, len(smiles), lambda row: f"line {row + 2}")
    notes = " ".join(filter(None, (rejected, _moved(split, domain, shift))))
    splits = split.cut(graphs, y=labels[:, None], domain=number)
    return Benchmark("good-hiv", domain, shift, splits, TASK, FEATURES, split.envs()[1], notes, recipe, names)


def read_rows(path: Path) -> tuple[list[str], Tensor]:
    """Return SMILES and labels (R,) of the file."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        return [row["smiles"] for row in rows], torch.tensor([float(row["HIV_active"]) for row in rows])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path} lacks the columns smiles and HIV_active (0 or 1); download it again.") from None


def _split(number: Tensor, y: Tensor, domain: str, shift: str, seed: int) -> Split:
    """Split the molecules; as in GOOD, a covariate shift of size trains on the large ones."""
    if shift == "none":
        return mixed(number, domain, seed=seed)
    if shift == "concept":
        return concept(number, y, domain, seed=seed)
    return covariate(int(number.max()) - number if domain == "size" else number, domain, seed=seed)


def _moved(split: Split, domain: str, shift: str) -> str:
    """Compare the sizes of the splits with the published ones, if these are known."""
    if shift == "none":
        return HALVED
    if (domain, shift) not in PUBLISHED:
        return ""
    published, found = PUBLISHED[domain, shift], split.counts().values()
    moved = [
        f"{name} {have - want:+,}" for name, want, have in zip(SPLITS, published, found, strict=True) if have != want
    ]
    sizes = " / ".join(f"{want:,}" for want in published)
    return f"Published split sizes are {sizes} ({', '.join(SPLITS)}); here: {', '.join(moved) or 'the same'}."
