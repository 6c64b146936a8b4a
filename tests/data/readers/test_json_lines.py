"""Graphs from a text file."""

import json
from pathlib import Path

import pytest
import torch

from goodformer.data.readers.json_lines import columns_of, read_graphs
from goodformer.errors import InputError
from goodformer.spec import Features, FeatureSpec


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


def test_edge_features_are_those_of_the_edge_as_written(tmp_path: Path) -> None:
    edges = [[0, 1], [1, 2], [1, 0], [2, 2]]
    path = written(tmp_path, {"edges": edges, "edge_attr": [[1.5], [2.5], [3.5], [9.5]]}, {"edges": [], "num_nodes": 1})
    first, second = read_graphs(path, FeatureSpec(edge=Features.continuous(1)))
    assert first.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert first.edge_attr.flatten().tolist() == [1.5, 3.5, 2.5, 2.5]
    assert second.edge_attr.shape == (0, 1)
    assert read_graphs(path)[0].get("edge_attr") is None  # nobody asked for it


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"edges": [[0, 1]], "edge_attr": [[1], [2]]}, "2 rows of edge_attr for 1 edges"),
        ({"edges": [[0, 1]]}, "no edge_attr .*continuous"),
        ({"edges": [[0, 1]], "edge_atr": [[1]]}, "did you mean edge_attr"),
        ({"edges": [[0, 1]], "edge_attr": [[1]], "tags": [1]}, "a list .*'tags'"),
        ({"edge_attr": []}, "is not a graph"),
    ],
)
def test_unsound_edge_features_are_refused(tmp_path: Path, line: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_graphs(written(tmp_path, line), FeatureSpec(edge=Features.continuous(1)))


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"], ["a", None], ["a", ["b"]]])
def test_names_that_are_not_those_of_the_nodes_are_refused(tmp_path: Path, names: list[object]) -> None:
    with pytest.raises(InputError, match=r"line 1 has names .* 2 nodes"):
        read_graphs(written(tmp_path, {"edges": [[0, 1]], "names": names}))


def test_a_word_under_names_is_a_column(tmp_path: Path) -> None:
    line = {"edges": [[0, 1]], "names": "pair"}
    assert columns_of(line) == {"names": "pair"}
    assert len(read_graphs(written(tmp_path, line))) == 1


def test_other_keys_are_columns() -> None:
    row = {"edges": [[0, 1]], "y": 1, "lab": "a", "p": 0.5, "ok": True, "none": None, "num_nodes": 2}
    assert columns_of(row) == {"y": 1, "lab": "a", "p": 0.5, "ok": True, "none": None}
    assert columns_of([1]) == {}
