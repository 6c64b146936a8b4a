"""Picture and scores from Python."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import goodformer as gf
from goodformer.registry import InputError

BASIS = {"name": "good-motif", "domain": "basis", "graphs": 150}


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A data cache of the tests' own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOODFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gf.Run:
    """A finished run of GOODFormer."""
    config = gf.configure(BASIS, overrides=["training.epochs=1", "model.dim=16"])
    return gf.train(config, tmp_path_factory.mktemp("runs"), gf.Hardware(progress=False))


def test_a_run_is_explained_on_graphs_spread_over_a_split(run: gf.Run, tmp_path: Path) -> None:
    report = gf.explain_run(run, tmp_path / "found", split="id_test", count=3)
    assert [graph["graph"] for graph in report["graphs"]] == ["id_test 0", "id_test 5", "id_test 10"]
    assert json.loads((tmp_path / "found" / "edges.json").read_text()) == report
    assert Path(report["picture"]).stat().st_size > 10_000
    assert report["run"] == run.folder.name
    answer = run.predictor().predict(gf.load_benchmark(**BASIS).splits["id_test"])
    assert [graph["predicted"] for graph in report["graphs"]] == answer.classes[[0, 5, 10]].tolist()
    with pytest.raises(InputError, match="did you mean test"):
        gf.explain_run(run, tmp_path, split="tset")


def test_graphs_of_ones_own_are_numbered_and_need_no_label(run: gf.Run, tmp_path: Path) -> None:
    edges = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    graphs = [Data(edge_index=edges, num_nodes=3), Data(edge_index=edges, num_nodes=4)]
    report = gf.explain_graphs(run.predictor("last"), graphs, tmp_path, k=1)
    assert [(graph["graph"], graph["label"]) for graph in report["graphs"]] == [("graph 0", None), ("graph 1", None)]
    assert sorted(report["graphs"][1]["edges"]) == [[0, 1], [0, 2], [1, 2]]
    labelled = [Data(edge_index=edges, num_nodes=3, y=torch.tensor([[1.0, float("nan")]]))]
    assert gf.explain_graphs(run.predictor(), labelled, tmp_path)["graphs"][0]["label"] == [1.0, None]


def test_a_method_without_scores_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    config = gf.configure(BASIS, "erm", overrides=["training.epochs=1", "model.dim=16"])
    plain = gf.train(config, tmp_path / "runs", gf.Hardware(progress=False))
    with pytest.raises(InputError, match="erm gives edges no score"):
        gf.explain_run(plain, tmp_path / "found")
    assert not (tmp_path / "found").exists()
