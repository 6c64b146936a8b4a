"""Small molecules whose class is known: 1 where there is a nitro group."""

from __future__ import annotations

import csv
from pathlib import Path

SCAFFOLDS = (
    "c1ccc({})cc1",
    "c1ccc2cc({})ccc2c1",
    "c1cc({})ccn1",
    "C1CCC({})CC1",
    "c1cc({})cs1",
    "c1ccc(-c2ccc({})cc2)cc1",
    "C1CCN({})CC1",
    "c1ccc(Oc2ccc({})cc2)cc1",
)
PLAIN = ("C(=O)O", "C#N", "CO", "CC", "F", "CCl", "C(=O)N", "OC")
CHAINS = ("", "C", "CC", "CCC")


def molecules() -> tuple[list[str], list[int]]:
    """SMILES and classes, half of each class."""
    smiles: list[str] = []
    for scaffold in SCAFFOLDS:
        for chain in CHAINS:
            smiles += [scaffold.format(f"{chain}C[N+](=O)[O-]"), scaffold.format(f"{chain}CC[N+](=O)[O-]")] * 2
            smiles += [scaffold.format(chain + end) for end in PLAIN[:4]]
    return smiles, [int("[N+]" in one) for one in smiles]


def write_table(path: Path, bad: bool = True) -> list[dict[str, str]]:
    """The molecules as a table with a name, a SMILES and a class a row; two rows cannot be read."""
    rows = [
        {"name": f"m{place}", "smiles": one, "nitro": "yes" if label else "no"}
        for place, (one, label) in enumerate(zip(*molecules(), strict=True))
    ]
    if bad:
        rows.insert(3, {"name": "broken", "smiles": "c1ccc(cc1", "nitro": "no"})
        rows.insert(9, {"name": "empty", "smiles": "", "nitro": "yes"})
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["name", "smiles", "nitro"])
        writer.writeheader()
        writer.writerows(rows)
    return rows
