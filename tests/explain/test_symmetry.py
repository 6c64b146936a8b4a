"""Symmetric edges of molecules against RDKit's symmetry classes."""

from __future__ import annotations

import pytest
import torch
from rdkit import Chem

from goodformer.data.molecule import featurise
from goodformer.explain.explanation import edge_scores
from goodformer.explain.symmetry import even_scores, symmetric_edges
from tests.apply.molecules import untrained

SMILES = ["CC(C)(C)O", "c1ccccc1", "Cc1ccc(C)cc1", "CC(=O)Oc1ccccc1C(=O)O", "C", "O=[N+]([O-])c1ccccc1", "CC.CC"]


def test_edges_are_symmetric_where_rdkit_says_so() -> None:
    graphs = featurise(SMILES).graphs.as_given()
    group = symmetric_edges(graphs).split(graphs.edge_ptr.diff().tolist())
    seen: set[int] = set()
    for place, text in enumerate(SMILES):
        mol = Chem.MolFromSmiles(text)
        ranks = list(Chem.CanonicalRankAtoms(mol, breakTies=False))
        ends = [tuple(sorted((ranks[a], ranks[b]))) for a, b in graphs[place].edge_index.T.tolist()]
        numbers = group[place].tolist()
        assert len(set(zip(ends, numbers, strict=True))) == len(set(ends)) == len(set(numbers))
        assert not seen & set(numbers)  # graphs are never mixed
        seen |= set(numbers)


@pytest.mark.parametrize(("method", "model"), [("erm", "gps"), ("goodformer", "goodformer"), ("gsat", "gin")])
def test_symmetric_bonds_have_equal_scores(method: str, model: str) -> None:
    """Laplacian encodings tell symmetric atoms apart, scores do not."""
    fitted, graphs = untrained(method, model), featurise(SMILES).graphs
    scores, _ = edge_scores(fitted, graphs)
    group = symmetric_edges(graphs)
    flat = torch.cat(scores)
    for number in group.unique():
        assert float(flat[group == number].std(correction=0)) < 1e-12
    again = even_scores(graphs, scores)
    assert torch.allclose(torch.cat(again), flat)
