"""Measure whether an answer depends on how a molecule is written: random SMILES of the same molecules, stereo included.

    python -m lab.notations MODEL HIV.csv --molecules 1000 --each 10

For every molecule it compares probabilities, domain score, out-of-domain flag, edge scores and marked bonds over random
SMILES of it, and prints the largest differences and the number of molecules above 1e-6. Molecules that RDKit itself
writes as two canonical SMILES are counted apart.
"""

from __future__ import annotations

import argparse
import csv
import random
from typing import Any

import torch
from rdkit import Chem, rdBase

from goodformer.data.molecule import featurise
from goodformer.explain.explanation import edge_scores
from goodformer.explain.subgraph import score_edges
from goodformer.fitted import FittedModel

BLOCK = 500
"""SMILES that are predicted at a time: notations of one molecule share blocks with other molecules."""
LIMIT = 1e-6


def notations(smiles: str, each: int, seed: int) -> list[str]:
    """Return random SMILES of a molecule."""
    return list(Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(smiles), each, randomSeed=seed))


def answers(model: FittedModel, texts: list[str]) -> list[dict[str, Any]]:
    """Return what a model says of each SMILES, bonds and their scores by canonical number."""
    graphs = featurise(texts).graphs
    ready = model.prepare(graphs)
    found = model.predict(ready)
    scores, _ = edge_scores(model, ready, found)
    rows = []
    for place, score in enumerate(scores):
        index = graphs[place].edge_index  # canonical numbers
        rows.append(
            {
                "probabilities": found.probabilities[place].double(),
                "domain_score": None if found.domain_score is None else float(found.domain_score[place]),
                "outside": None if found.outside is None else bool(found.outside[place]),
                "ends": index,
                "scores": score.double(),
                "marked": score_edges(index, score).chosen,
            }
        )
    return rows


def compare(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the largest differences between the answers for one molecule and the first of them."""
    first = rows[0]
    found = dict.fromkeys(("probability", "domain_score", "outside", "edge_score", "marked"), 0.0)
    for row in rows[1:]:
        if not torch.equal(row["ends"], first["ends"]):
            return {**dict.fromkeys(found, 0.0), "probability": torch.inf}
        scale = float(first["scores"].abs().max()) if len(first["scores"]) else 1.0
        now = {
            "probability": float((row["probabilities"] - first["probabilities"]).abs().max()),
            "domain_score": abs((row["domain_score"] or 0.0) - (first["domain_score"] or 0.0)),
            "outside": float(row["outside"] != first["outside"]),
            "edge_score": float((row["scores"] - first["scores"]).abs().max()) / scale if scale else 0.0,
            "marked": float((row["marked"] != first["marked"]).sum()),
        }
        found = {name: max(value, now[name]) for name, value in found.items()}
    return found


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("file")
    parser.add_argument("--molecules", type=int, default=1000)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--column", default="smiles")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with open(given.file, newline="") as file:
        texts = [row[given.column] for row in csv.DictReader(file)]
    rdBase.DisableLog("rdApp.*")
    stereo = [text for text in texts if "@" in text or "/" in text]
    plain = [text for text in texts if "@" not in text and "/" not in text]
    draw = random.Random(0)
    half = min(given.molecules // 2, len(stereo))
    chosen = draw.sample(stereo, half) + draw.sample(plain, given.molecules - half)
    chosen = [text for text in chosen if Chem.MolFromSmiles(text) is not None]
    rows = [(place, text) for place, one in enumerate(chosen) for text in notations(one, given.each, place + 1)]
    draw.shuffle(rows)
    model = FittedModel.open(given.model)
    said: dict[int, list[dict[str, Any]]] = {}
    written: dict[int, set[str]] = {}
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        for (place, text), answer in zip(block, answers(model, [text for _, text in block]), strict=True):
            said.setdefault(place, []).append(answer)
            written.setdefault(place, set()).add(Chem.CanonSmiles(text))
    several = [place for place, texts in written.items() if len(texts) > 1]
    found = {place: compare(answers) for place, answers in said.items() if place not in several}
    print(f"{len(chosen)} molecules, {half} with stereo, {len(rows)} SMILES; {len(several)} with two canonical SMILES")
    for name in ("probability", "domain_score", "outside", "edge_score", "marked"):
        values = [one[name] for one in found.values()]
        worst = max(found, key=lambda place: found[place][name])
        above = sum(value > LIMIT for value in values)
        print(f"{name:12s} largest {max(values):.2e}, {above} molecules above {LIMIT:g}, e.g. {chosen[worst]}")


if __name__ == "__main__":
    main()
