"""A benchmark refuses what does not fit and caches what it computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from goodformer.data import DATASETS, Benchmark, GraphSet, load_benchmark
from goodformer.errors import InputError
from goodformer.spec import SPLITS, Features, FeatureSpec, Task
from goodformer.transforms import ENCODINGS, Structure, encode

TWO_COLUMNS = FeatureSpec(node=Features.continuous(2))
CODES = FeatureSpec(node=Features.categorical(2, 3))
CODED = torch.tensor([[0, 3], [1, 0], [1, 2]])


def graphs(**changed: Any) -> GraphSet:
    """Three triangles of classes 0, 1, 2."""
    edges = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    plain: dict[str, Any] = {"x": torch.zeros(3, 2), "edge_index": edges, "edge_truth": torch.ones(6)}
    return GraphSet.from_list([Data(**{**plain, "y": torch.tensor([label]), **changed}) for label in range(3)])


def own(**fields: Any) -> Benchmark:
    """A small benchmark of the user's own, some fields changed."""
    plain: dict[str, Any] = {"splits": dict.fromkeys(SPLITS, graphs()), "features": TWO_COLUMNS}
    return Benchmark(**{"name": "own", "domain": "colour", "shift": "covariate", **plain, **fields})


def with_split(split: str, **changed: Any) -> dict[str, GraphSet]:
    return {**dict.fromkeys(SPLITS, graphs()), split: graphs(**changed)}


def with_codes(split: str, codes: torch.Tensor) -> dict[str, GraphSet]:
    """Codes within their columns in all splits, and the given ones in one."""
    return {**dict.fromkeys(SPLITS, graphs(x=CODED.clamp(max=1))), split: graphs(x=codes)}


def bare() -> GraphSet:
    """Graphs without any node attribute, which only a hand-made set can be."""
    whole = graphs()
    return GraphSet({}, whole.edge, whole.graph, whole.node_ptr, whole.edge_ptr)


def one_way() -> torch.Tensor:
    return torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 1]])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"splits": {"train": graphs()}}, "own has the splits train; give exactly train, id_val"),
        ({"splits": {**dict.fromkeys(SPLITS, graphs()), "train": graphs().subset([])}}, "no training graph"),
        (
            {"splits": {**dict.fromkeys(SPLITS, graphs()), "train": graphs().subset([0, 2])}},
            "lacks class 1 in training",
        ),
        ({"splits": {**dict.fromkeys(SPLITS, graphs()), "val": []}}, "own, split val is a list"),
        ({"task": Task(outputs=4)}, "lacks class 3 in training"),
        ({"task": Task(outputs=2)}, "has classes 0 to 2; use 0 to 1"),
        ({"task": Task("binary", 1, "rocauc")}, r"give floats \(B, 1\)"),
        ({"splits": with_split("val", y=torch.tensor([0.0]))}, "split val has y of shape .* integer"),
        ({"splits": with_split("val", y=None)}, "split val has no labels"),
        ({"splits": with_split("test", edge_index=one_way())}, "split test .* direction"),
        (
            {"splits": with_split("test", edge_truth=torch.tensor([1, 0, 0, 0, 0, 0]))},
            "truth .* direction",
        ),
        ({"splits": with_split("id_val", env=1)}, "split id_val has env 1 to 1; use 0 to 0"),
        ({"features": FeatureSpec(node=Features.continuous(3))}, "x of own, split train has the shape"),
        ({"features": FeatureSpec(node=Features.categorical(2, 2))}, "real numbers .* give integers"),
        ({"features": CODES, "splits": dict.fromkeys(SPLITS, graphs(x=CODED))}, "a code outside"),
        ({"features": CODES, "splits": with_codes("test", -CODED)}, "x of own, split test .* negative code"),
        ({"features": FeatureSpec()}, r"x of own, split train has the shape \(9, 2\).* 1 constant column"),
        ({"features": FeatureSpec(), "splits": dict.fromkeys(SPLITS, bare())}, "x of own, split train is missing"),
        ({"features": replace(TWO_COLUMNS, edge=Features.continuous(1))}, "edge_attr of own, split train is missing"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        own(**fields)
    assert "\n" not in str(caught.value)


def test_nan_and_strange_edges_are_refused_however_they_came_in() -> None:
    bad = graphs().with_node("x", torch.full((9, 2), float("nan")))
    with pytest.raises(InputError, match="NaN or infinity"):
        own(splits={**dict.fromkeys(SPLITS, graphs()), "val": bad})
    strange = graphs()
    strange.edge["index"] = strange.edge["index"] + 1
    with pytest.raises(InputError, match="does not have"):
        own(splits={**dict.fromkeys(SPLITS, graphs()), "val": strange})


def test_an_unknown_kind_of_task_or_metric_is_refused() -> None:
    for fields, word in (
        ({"kind": "ranking"}, "multiclass"),
        ({"metric": "auprc"}, "rocauc"),
        ({"metric": "rmse"}, "regression"),
    ):
        with pytest.raises(InputError, match=word):
            Task(**fields)  # type: ignore[arg-type]


def test_mistakes_in_a_data_set_of_the_users_own_name_it() -> None:
    results: dict[str, Any] = {"other": lambda: 3, "empty": lambda: GraphSet.from_list([])}
    for name, build in results.items():
        DATASETS.add(f"my-{name}", build)
        try:
            with pytest.raises(InputError, match=f"data set my-{name}"):
                load_benchmark(f"my-{name}")
        finally:
            DATASETS.remove(f"my-{name}")


def test_binary_targets_may_be_missing_but_need_both_values() -> None:
    def binary(*labels: list[float]) -> GraphSet:
        return GraphSet.from_list([Data(num_nodes=1, y=torch.tensor([label])) for label in labels])

    nan, task = float("nan"), Task("binary", 2, "rocauc")
    own(splits=dict.fromkeys(SPLITS, binary([0, 1], [1, nan], [nan, 0])), task=task, features=FeatureSpec())
    with pytest.raises(InputError, match="lacks both values of target 1"):
        own(splits=dict.fromkeys(SPLITS, binary([0, 1], [1, nan])), task=task, features=FeatureSpec())
    with pytest.raises(InputError, match="not 0, 1 or NaN"):
        own(splits=dict.fromkeys(SPLITS, binary([0, 1], [1, 0.5])), task=task, features=FeatureSpec())


def test_val_and_test_may_have_environments_beyond_training() -> None:
    assert own(splits=with_split("test", env=7)).splits["test"].graph["env"].tolist() == [7, 7, 7]


def test_categorical_features_are_accepted() -> None:
    splits = dict.fromkeys(SPLITS, graphs(x=CODED, edge_attr=torch.zeros(6).long()))
    own(splits=splits, features=FeatureSpec(Features.categorical(2, 4), Features.categorical(1)))


def test_codes_unseen_in_training_are_accepted_elsewhere() -> None:
    assert own(splits=with_codes("test", CODED), features=CODES).splits["test"].node["x"].max() == 3


def test_describe_counts() -> None:
    described = own(splits={**dict.fromkeys(SPLITS, graphs()), "val": graphs().subset([])}).describe()
    assert list(described) == list(SPLITS)
    assert described["val"] == {"graphs": 0}
    assert described["train"] == {
        "graphs": 3,
        "mean_nodes": 3.0,
        "max_nodes": 3,
        "mean_edges": 3.0,
        "class_balance": [0.3333, 0.3333, 0.3333],
        "domains": {"0": 3},
        "envs": {"0": 3},
    }


@pytest.mark.parametrize("name", list(ENCODINGS))
def test_encodings_are_attached_to_every_split(name: str) -> None:
    plain = load_benchmark("good-motif", graphs=100)
    encoded = plain.with_encodings([f"{name}:5"])
    for split, part in encoded.splits.items():
        assert torch.equal(part.node[f"{name}_5"], encode(f"{name}:5", part.structure(plain.features)))
        assert f"{name}_5" not in plain.splits[split].node
    assert replace(encoded, splits=plain.splits) == replace(plain)


def test_encodings_come_from_the_cache_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = load_benchmark("good-motif", graphs=110)
    first = benchmark.with_encodings(["laplacian:3"])
    monkeypatch.setattr("goodformer.data.benchmark.encode", lambda *_: pytest.fail("computed again"))
    second = benchmark.with_encodings(["laplacian:3"])
    assert second.with_encodings(["laplacian:3"]).splits.keys() == second.splits.keys()
    for split in SPLITS:
        assert torch.equal(first.splits[split].node["laplacian_3"], second.splits[split].node["laplacian_3"])


def test_the_version_of_an_encoding_and_the_recipe_are_part_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    load_benchmark("good-motif", graphs=120).with_encodings(["laplacian:3"])
    calls: list[str] = []

    def counting(text: str, graphs: Structure) -> torch.Tensor:
        calls.append(text)
        return encode(text, graphs)

    monkeypatch.setattr("goodformer.data.benchmark.encode", counting)
    load_benchmark("good-motif", graphs=120, seed=1).with_encodings(["laplacian:3"])
    assert len(calls) == 5
    monkeypatch.setattr("goodformer.data.benchmark.VERSIONS", {"laplacian": 999})
    load_benchmark("good-motif", graphs=120).with_encodings(["laplacian:3"])
    assert len(calls) == 10


def test_graphs_without_a_recipe_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goodformer.data.benchmark.cached", lambda *_: pytest.fail("cached"))
    assert own().with_encodings(["closed_walks:2"]).splits["test"].node["closed_walks_2"].shape == (9, 2)


def test_unknown_encodings_and_data_sets_are_refused() -> None:
    with pytest.raises(InputError, match="did you mean laplacian"):
        own().with_encodings(["laplaceian:3"])
    with pytest.raises(InputError, match="did you mean good-motif"):
        load_benchmark("good-motiv")
    with pytest.raises(InputError, match="did you mean shift"):
        load_benchmark("good-motif", shft="none")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("good-motif", {"domain": "colour"}),
        ("good-motif", {"shift": "label"}),
        ("good-motif", {"graphs": 5}),
        ("good-motif", {"seed": -1}),
        ("sp-motif", {"bias": 1.5}),
        ("sp-motif", {"bias": float("nan")}),
    ],
)
def test_settings_out_of_range_are_refused(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is not accepted"):
        load_benchmark(name, **settings)
