"""Graphs from a text file."""

import json
from pathlib import Path

import pytest
import torch

from goodformer.data.json_lines import read_graphs
from goodformer.registry import InputError
from goodformer.spec import Features


def written(tmp_path: Path, *graphs: dict[str, object]) -> Path:
    """A file with the graphs."""
    path = tmp_path / "graphs.jsonl"
    path.write_text("\n".join(map(json.dumps, graphs)) + "\n\n")
    return path


def test_edges_are_stored_in_both_directions_once_without_loops(tmp_path: Path) -> None:
    (graph,) = read_graphs(written(tmp_path, {"edges": [[0, 1], [1, 0], [1, 2], [2, 2]]}))
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert graph.num_nodes == 3
    assert torch.equal(graph.x, torch.ones(3, 1))


def test_features_are_kept(tmp_path: Path) -> None:
    lonely = {"edges": [], "num_nodes": 1, "x": [[1, 2]]}
    path = written(tmp_path, {"edges": [[0, 1]], "x": [[0.5, 1.0], [2.0, 3.0]]}, lonely)
    first, second = read_graphs(path, Features.continuous(2))
    assert first.x.tolist() == [[0.5, 1.0], [2.0, 3.0]]
    assert second.num_edges == 0


def test_codes_are_whole_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, {"edges": [[0, 1]], "x": [[1], [2]]})
    assert read_graphs(path, Features.categorical(3))[0].x.dtype == torch.long
    assert read_graphs(path, Features.categorical(2))[0].x.tolist() == [[1], [2]]  # 2 was not there in training
    for wrong in (1.5, -1):
        with pytest.raises(InputError, match="code"):
            read_graphs(written(tmp_path, {"edges": [[0, 1]], "x": [[1], [wrong]]}), Features.categorical(3))


@pytest.mark.parametrize("features", [Features.continuous(1), Features.categorical(4, 4)])
def test_features_must_be_those_of_training(tmp_path: Path, features: Features) -> None:
    path = written(tmp_path, {"edges": [[0, 1]], "x": [[0, 1, 0], [2, 3, 0]]})
    with pytest.raises(InputError, match="3 columns"):
        read_graphs(path, features)
    with pytest.raises(InputError, match="no x"):
        read_graphs(written(tmp_path, {"edges": [[0, 1]]}), features)
