"""DrugOOD: binding affinity of molecules, split by assay, scaffold or size, read from the curator's files."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from goodformer.data.acquire import PublicFile, obtain
from goodformer.data.benchmark import Benchmark
from goodformer.data.molecule import FEATURES, RDKIT, featurise, rejected_note
from goodformer.data.splits.split import Split
from goodformer.errors import InputError
from goodformer.spec import SPLITS, Task

VERSION = 2
"""Increased when the same file yields different graphs."""

TASK = Task("binary", 1, "rocauc")
PARTS = {"train": "train", "id_val": "iid_val", "id_test": "iid_test", "val": "ood_val", "test": "ood_test"}
"""Name of each split in the file."""

_MOLEOOD = "https://raw.githubusercontent.com/yangnianzu0515/MoleOOD"
_EC50 = "EC50 of DrugOOD, from ChEMBL 29, as kept in yangnianzu0515/MoleOOD on GitHub (MIT)"
SOURCES = {
    source.file: source
    for source in (
        PublicFile(
            "drugood/lbap_core_ec50_assay.json",
            f"{_MOLEOOD}/e18aec70452776278d65767644ed21c4d04ef1a4/drugood/data/ec50/lbap_core_ec50_assay.json",
            "a7e8dd4dfe9f60d7ebcc94ccdaa0c77edb628525978f91e0c82bb1ab61924643",
            _EC50,
        ),
        PublicFile(
            "drugood/lbap_core_ec50_size.json",
            f"{_MOLEOOD}/e18aec70452776278d65767644ed21c4d04ef1a4/drugood/data/ec50/lbap_core_ec50_size.json",
            None,
            _EC50,
        ),
        PublicFile(
            "drugood/lbap_core_ec50_scaffold.json",
            f"{_MOLEOOD}/b814eb9fa258ba59c422e0e199a5b4213be2037d/DrugOOD/data/ec50/lbap_core_ec50_scaffold.json",
            None,
            _EC50,
        ),
    )
}
"""Files with a download address; the DrugOOD project provides the others."""


def drug_ood(
    *,
    measurement: Annotated[
        Literal["ec50", "ic50", "ki", "potency"], Field(description="What was measured; the paper uses ic50.")
    ] = "ec50",
    domain: Annotated[
        Literal["assay", "scaffold", "size"], Field(description="What shifts: assay, scaffold or number of atoms.")
    ] = "assay",
    noise: Annotated[
        Literal["core", "refined", "general"],
        Field(description="Strictness of the choice of measurements: core is the strictest."),
    ] = "core",
) -> Benchmark:
    """DrugOOD: molecules and whether they are active; OOD molecules have unseen assays, scaffolds or sizes.

    Splits:
        As in the file: train, iid_val (ID validation), iid_test (ID test), ood_val (OOD validation) and ood_test (OOD
        test). The first three share their domains; OOD validation and OOD test have others.
    Input:
        One node per atom, in the order of the SMILES, with nine codes; one edge per bond and direction, with three
        codes (`goodformer.data.molecule.FEATURES`). Hydrogens are not nodes.
    Label:
        1 if the measured activity is above the threshold of the file's recipe (between 4 and 6 on the negative decadic
        logarithm), else 0.
    Task: 1 binary target, ROC-AUC.
    Domain:
        The file's number of the assay, scaffold or size. ``env``: the training domain, numbered from 0.
    Source:
        Ji et al., DrugOOD, AAAI 2023; made from ChEMBL by the project's curator (https://drugood.github.io). The EC50
        files have a public address; those of other measurements must be put into a data folder by hand. This is why
        ec50 is the default although the paper uses ic50.
    Licence:
        ChEMBL is under CC BY-SA 3.0; the EC50 files are taken from a repository under MIT.

    Statistics (ec50, assay, core): 4,540 / 1,502 / 1,557 / 2,572 / 2,490 graphs, mean nodes 40 / 40 / 40 / 48 / 32,
    largest 326 / 324 / 321 / 335 / 317; 47 assays in training, 46 in OOD validation and 101 in OOD
    test; 75 / 74 / 74 / 89 / 91 % are active.
    """
    file = f"drugood/lbap_{noise}_{measurement}_{domain}.json"
    by_hand = PublicFile(file, "", None, "the DrugOOD project (https://drugood.github.io)")
    path = obtain(SOURCES.get(file, by_hand))
    content, rows = _read(path)
    made = featurise([row["smiles"] for _, row in rows], progress=sys.stderr.isatty(), key={"file": file})
    kept = [rows[row] for row in made.rows.tolist()]
    number = torch.tensor([row["domain_id"] for _, row in kept], dtype=torch.long)  # (G,)
    part = torch.tensor([SPLITS.index(part) for part, _ in kept], dtype=torch.long)  # (G,)
    split = Split(part, number, by=domain, env=number)  # an assay is an experiment of its own, so assays are not merged
    y = torch.tensor([[float(row["cls_label"])] for _, row in kept])  # (G, 1)
    notes = [_label(measurement, domain, noise), rejected_note(made.rejected, len(rows), lambda row: _place(rows, row))]
    recipe = {"name": "drugood", "file": content, "rdkit": RDKIT, "version": VERSION}
    envs = split.envs()[1]
    text = " ".join(filter(None, notes))
    return Benchmark("drugood", domain, "covariate", split.cut(made.graphs, y=y), TASK, FEATURES, envs, text, recipe)


def _label(measurement: str, domain: str, noise: str) -> str:
    """Return which of the many DrugOOD sets this is, compared with the paper's."""
    name = {"ec50": "EC50", "ic50": "IC50", "ki": "Ki", "potency": "potency"}[measurement]
    paper = (
        "" if (measurement, domain, noise) == ("ic50", "assay", "core") else ", not the paper's IC50 by assay (core)"
    )
    return f"This is DrugOOD {name} by {domain} ({noise}){paper}."


def _read(path: Path) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    """Return the checksum of the file and its checked rows with their splits."""
    try:
        content = path.read_bytes()
        parts = json.loads(content)["split"]
        rows = [(split, row) for split, part in PARTS.items() for row in parts[part]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a DrugOOD file ({type(error).__name__}: {error}); it needs a key split with "
            f"{', '.join(PARTS.values())}."
        ) from None
    for number, (_, row) in enumerate(rows):
        if not _is_row(row):
            raise InputError(
                f"{path} has {_place(rows, number)} without a smiles, a domain_id from 0 on and a cls_label of 0 or 1; "
                "correct or remove it."
            )
    return hashlib.sha256(content).hexdigest(), rows


def _is_row(row: Any) -> bool:
    """Return whether a row has everything that is read from it."""
    if not isinstance(row, dict) or not isinstance(row.get("smiles"), str):
        return False
    number = row.get("domain_id")
    return type(number) is int and number >= 0 and row.get("cls_label") in (0, 1)


def _place(rows: list[tuple[str, dict[str, Any]]], number: int) -> str:
    """Return where a row stands: its number within its part of the file, counted from 0."""
    split = rows[number][0]
    first = next(index for index, (other, _) in enumerate(rows) if other == split)
    return f"row {number - first} of {PARTS[split]}"
