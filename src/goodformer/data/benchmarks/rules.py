"""Molecules labelled by a rule about functional groups: real structures, and a known reason for every label.

Letters: R molecules of the file, G molecules of the benchmark, N atoms, E directed bonds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor

from goodformer.data.acquire import obtain
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks import hiv
from goodformer.data.cache import cached
from goodformer.data.graphs import GIVEN, GraphSet
from goodformer.data.molecule import FEATURES, RDKIT, Molecules, featurise, packed, rejected_note, unpacked
from goodformer.data.random import Draws
from goodformer.data.readers.collection import Collection
from goodformer.data.splits.split import Split
from goodformer.data.splits.splitters import make_split
from goodformer.errors import InputError
from goodformer.spec import Task

Bools = npt.NDArray[np.bool_]

VERSION = 2
"""Increased when the same file yields different molecules, truth or splits."""
TASK = Task("binary", 1, "rocauc")
DECOYS = 0.5
"""Share of the negatives that are decoys, if there are enough."""
LEAST = 50
"""Molecules of each class below which there is no benchmark."""

GROUPS = {
    "nitro": "[NX3+;$([N+][#6])](=O)[O-]",
    "acid": "[CX3](=O)[OX2H1,OX1-]",
    "ester": "[CX3;$(C[#6]),H1](=O)[OX2;$(O[#6;!$(C=[O,S])])]",
    "amine": "[NX3;H1,H2;+0;!$(N~[!#6]);!$(N[#6,#16]=[O,N,S])]-[#6]",
    "halogen": "[F,Cl,Br,I]-[#6]",
    "benzene": "c1ccccc1",
    "nitrogen and oxygen bonded": "[#7]~[#8]",
    "charged nitrogen": "[#7+]",
    "charged oxygen": "[O-]",
    "amide": "[CX3](=O)[#7]",
    "ketone or aldehyde": "[CX3;$(C([#6])([#6])=O),$([CH1]([#6])=O)]=O",
    "carbonate or carbamate": "[OX2][CX3](=O)[OX2,#7]",
    "alcohol": "[OX2H1]-[#6;!$(C=O)]",
    "aromatic heterocycle": "[a;!c]1aaaa1",
    "aromatic heterocycle of six": "[a;!c]1aaaaa1",
    "saturated ring of six": "C1CCCCC1",
}
"""Functional groups as SMARTS; conditions ``$(...)`` are no part of the truth."""


@dataclass(frozen=True)
class Rule:
    """A rule that labels molecules.

    Attributes:
        groups: Groups that decide; their atoms and bonds are the truth of a positive molecule.
        every: Whether a positive molecule has all of these groups, not only one of them.
        without: Groups that a positive molecule must not have.
        decoys: Groups that are not enough, but much like those that are; a negative with one of them is a decoy.
    """

    groups: tuple[str, ...]
    every: bool = False
    without: tuple[str, ...] = ()
    decoys: tuple[str, ...] = ()

    def apply(self, has: Mapping[str, Bools]) -> tuple[Bools, Bools]:
        """Return which molecules are positive and which are decoys (R,), given which have each group."""
        these = [has[group] for group in self.groups]
        excluded = np.any([has[group] for group in self.without], axis=0)  # False if there is none
        positive: Bools = np.asarray(np.all(these, axis=0) if self.every else np.any(these, axis=0)) & ~excluded
        near: Bools = np.asarray(np.any([has[group] for group in self.decoys], axis=0))
        return positive, near & ~positive


RULES = {
    "nitro": Rule(("nitro",), decoys=("nitrogen and oxygen bonded", "charged nitrogen", "charged oxygen")),
    "acid-or-ester": Rule(
        ("acid", "ester"), decoys=("amide", "ketone or aldehyde", "carbonate or carbamate", "alcohol")
    ),
    "acid-without-ester": Rule(("acid",), without=("ester",), decoys=("ester", "amide", "alcohol")),
    "amine-and-halogen": Rule(("amine", "halogen"), every=True, decoys=("amine", "halogen")),
    "benzene": Rule(
        ("benzene",),
        decoys=("aromatic heterocycle", "aromatic heterocycle of six", "saturated ring of six"),
    ),
}
"""The rules by name."""


def molecule_rules(
    *,
    rule: Annotated[
        Literal["nitro", "acid-or-ester", "acid-without-ester", "amine-and-halogen", "benzene"],
        Field(description="The rule that labels molecules."),
    ] = "nitro",
    graphs: Annotated[
        int, Field(ge=2 * LEAST, description="Number of molecules, half of them positive; fewer if there are fewer.")
    ] = 4000,
    seed: Annotated[int, Field(ge=0, description="Seed of the choice of molecules and of the split.")] = 0,
) -> Benchmark:
    """Molecule rules: real molecules labelled by their functional groups, so that the deciding atoms are known.

    Splits:
        Whole scaffolds, the commonest first: 80 % for training, then 10 % each for OOD validation and OOD test; ID
        validation and ID test, 10 % of all each, are drawn from training.
    Input:
        One node per atom, in RDKit's canonical order, with nine codes; one edge per bond and direction, with three
        codes (`goodformer.data.molecule.FEATURES`, the layout of PyG's ``from_smiles``). Hydrogens are not nodes.
    Label:
        1 if the rule holds; half of the molecules are drawn from those where it does. nitro: has a nitro group on
        carbon. acid-or-ester: has a carboxylic acid or an ester. acid-without-ester: has a carboxylic acid and no
        ester. amine-and-halogen: has a primary or secondary amine and a halogen on carbon. benzene: has a benzene ring.
        Half of the negatives are decoys, if there are enough: molecules with a group that is nearly the right one, or
        with only one of two that are needed. ``edge_truth`` and ``node_truth`` mark the bonds and atoms of all matches
        of the groups that decide, in positive molecules; negatives have no truth, and edge and node ROC-AUC leave them
        out.
    Task: 1 binary target, ROC-AUC.
    Domain: the Murcko scaffold.
    Source:
        Molecules of MoleculeNet's HIV (see ``good-hiv``); the labels of that screen are not used. Groups are found with
        RDKit.
    Licence: The file is taken from a collection under MIT; rules and split are made by this package's own code: MIT.

    Statistics (nitro, 4,000 molecules, RDKit 2026.9.1): 2,400 / 400 / 400 / 400 / 400 graphs, mean nodes 26 / 25 / 27 /
    29 / 29, largest 140 / 137 / 104 / 189 / 85, positive 52 / 52 / 52 / 41 / 39 %.
    """
    recipe: dict[str, Any] = {"name": "molecule-rules", "rule": rule, "graphs": graphs, "seed": seed}
    recipe |= {"file": hiv.SOURCE.sha256, "rdkit": RDKIT, "version": VERSION}
    path = obtain(hiv.SOURCE)
    build = partial(_build, path, rule, graphs, seed)
    tensors = build() if hiv.SOURCE.sha256 is None else cached(recipe, build)
    about = unpacked(tensors.pop("about"))
    split = Split(tensors.pop("part"), tensors.pop("domain"), tuple(about["names"]), "scaffold")
    parts = split.cut(GraphSet.from_tensors(tensors))
    envs = split.envs()[1]
    return Benchmark(
        "molecule-rules", "scaffold", "covariate", parts, TASK, FEATURES, envs, about["notes"], recipe, split.names
    )


def _build(path: Path, rule: str, graphs: int, seed: int) -> dict[str, Tensor]:
    """Return the chosen molecules with labels and truth, their split, and words about them."""
    smiles, _ = hiv.read_rows(path)
    show, chosen = sys.stderr.isatty(), RULES[rule]
    made = featurise(smiles, progress=show)
    found = made.parsed.contain(tuple(GROUPS.values()), show)  # (R, P), of all groups: rules share the cached answer
    positive, decoy = chosen.apply(dict(zip(GROUPS, found.T, strict=True)))
    places = _sample(positive, decoy, graphs, Draws(seed, f"molecule-rules/{rule}"), rule)
    y = torch.from_numpy(positive[places]).float()[:, None]  # (G, 1)
    molecules = _marked(made, places, positive[places], chosen)
    split = make_split("scaffold", molecules, None, y, seed)
    count, near = int(positive[places].sum()), int(decoy[places].sum())
    notes = [rejected_note(made.rejected, len(smiles), lambda row: f"line {row + 2}")]
    notes += [f"{count:,} positives, {len(places) - count:,} negatives, {near:,} of them decoys."]
    about = {"names": split.names, "notes": " ".join(filter(None, notes))}
    return {
        **molecules.graphs.tensors(),
        "graph/y": y,
        "part": split.part,
        "domain": split.domain,
        "about": packed(about),
    }


def _sample(positive: Bools, decoy: Bools, graphs: int, draws: Draws, rule: str) -> npt.NDArray[np.int64]:
    """Return the chosen molecules in ascending order (G,): equally many of both classes."""
    each = min(graphs // 2, int(positive.sum()), int((~positive).sum()))
    if each < LEAST:
        raise InputError(
            f"the file has {int(positive.sum())} molecules where the rule {rule} holds and {int((~positive).sum())} "
            f"others; at least {LEAST} of each are needed: choose another rule."
        )
    order = draws.uniform(len(positive)).argsort(kind="stable")

    def first(which: Bools, count: int) -> npt.NDArray[np.int64]:
        return order[which[order]][:count]

    near = first(decoy, int(each * DECOYS))
    plain = first(~positive & ~decoy, each - len(near))
    near = first(decoy, each - len(plain))  # more decoys where other negatives are too few
    return np.sort(np.concatenate([first(positive, each), near, plain]))


def _marked(made: Molecules, places: npt.NDArray[np.int64], positive: Bools, rule: Rule) -> Collection:
    """Return the chosen molecules with the truth of the positive ones."""
    parsed, graphs = made.parsed.subset(places.tolist()), made.graphs.subset(torch.from_numpy(places))
    atoms, ends = parsed.matched([GROUPS[group] for group in rule.groups])  # as numbered in the SMILES
    given = (graphs.node[GIVEN] + torch.repeat_interleave(graphs.node_ptr[:-1], graphs.sizes)).numpy()  # (N,)
    low, high = np.sort(given[graphs.edge_index.numpy()], 0)  # (E,), (E,)
    edges = np.isin(low * len(atoms) + high, ends.min(0) * len(atoms) + ends.max(0))
    edges &= np.repeat(positive, graphs.edge_ptr.diff().numpy())
    atoms = atoms[given] & np.repeat(positive, graphs.sizes.numpy())
    node = {**graphs.node, "node_truth": torch.from_numpy(atoms)}
    edge = {**graphs.edge, "truth": torch.from_numpy(edges)}
    marked = GraphSet(node, edge, graphs.graph, graphs.node_ptr, graphs.edge_ptr)
    return Collection(marked, FEATURES, torch.arange(len(places)), len(places), molecules=parsed)
