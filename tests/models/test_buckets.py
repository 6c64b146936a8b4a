"""Models with attention give the same results for any buckets: outputs, losses, statistics and all gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch, Data

from goodformer.config.presets import configure
from goodformer.methods import METHODS
from goodformer.methods.base import Method
from goodformer.models import MODELS
from goodformer.nn import layout as layouts
from goodformer.nn.layout import Layout, bucket_widths
from goodformer.spec import Encoding, Features, FeatureSpec, Task
from goodformer.transforms import Structure, encode
from tests.nn.graphs import graphs

SPEC = FeatureSpec(Features.categorical(5), Features.categorical(3))
MIXED = (3, 52, 1, 7, 25, 7)
SIZES = [MIXED, (12,), (1, 30, 1)]
CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("gps", "default", {}, {}),
    ("graphormer", "default", {}, {}),
    ("graphormer", "default", {"pooling": "mean"}, {}),
    ("goodformer", "default", {}, {"entropy_weight": 0.3}),
    ("goodformer", "default", {"halves": "apart", "sample": "hard", "bounded": True}, {}),
    ("goodformer", "default", {"scoring": "inner", "mask": "top"}, {}),
    ("goodformer", "paper", {}, {}),
    ("goodformer", "paper", {"halves": "together"}, {"variant_path": "flowing"}),
    ("goodformer", "as_published", {}, {}),
    ("goodformer", "as_published", {"second_readout": True, "halves": "together"}, {"entropy_of": "both"}),
]


@pytest.fixture(autouse=True)
def _double() -> Any:
    """Compute in double precision: results that differ by more than rounding then differ clearly."""
    torch.set_default_dtype(torch.double)
    yield
    torch.set_default_dtype(torch.float)


def build(model: str, preset: str, changes: dict[str, Any], objective: dict[str, Any]) -> Method:
    config = configure({"name": "good-motif"}, "goodformer" if model == "goodformer" else "erm", model, preset=preset)
    chosen = {**config.model, "dim": 16, "dropout_rate": 0.0, **changes}
    method = {**config.method, **objective}
    torch.manual_seed(0)
    built = MODELS.build(chosen.pop("name"), SPEC, **chosen)
    built = METHODS.build(method.pop("name"), built, Task("binary", 1, "rocauc"), **method)
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2)  # attention far from uniform
    return built


def batch_of(sizes: tuple[int, ...], encodings: tuple[str, ...]) -> Batch:
    parts = []
    for number, part in enumerate(graphs(sizes, p=0.2)):
        generator = torch.Generator().manual_seed(number)
        x = torch.randint(5, (part.num_nodes, 1), generator=generator)
        kinds = torch.randint(3, (part.num_edges, 1), generator=generator)
        parts.append(Data(x=x, edge_index=part.edge_index, edge_attr=kinds, y=torch.tensor([[number % 2.0]])))
    batch = Batch.from_data_list(parts)
    batch.env = torch.zeros(len(sizes), dtype=torch.long)
    for text in encodings:
        batch[Encoding.parse(text).attribute] = encode(text, Structure(batch.edge_index, batch.ptr)).double()
    return batch


def everything(method: Method, data: Batch) -> dict[str, Tensor]:
    """All that training steps and predictions return, gradients and running statistics included."""
    found: dict[str, Tensor] = {}
    if data.num_nodes > 1:  # BatchNorm needs two rows
        torch.manual_seed(1)
        method.train()
        for step in range(2):
            losses = method.loss(data, 0)
            found |= {f"loss {name} {step}": value.detach() for name, value in losses.items()}
            torch.stack(list(losses.values())).sum().backward()
        found |= {f"gradient {name}": p.grad for name, p in method.named_parameters() if p.grad is not None}
        found |= {f"buffer {name}": value.clone() for name, value in method.named_buffers()}
    method.eval()
    with torch.no_grad():
        predicted = vars(method.predict(data))
        weighted = method.model(data, torch.linspace(0, 1, data.num_edges))
        parts = vars(method.model.disentangle(data)) if hasattr(method.model, "disentangle") else {}
    found |= {f"signal {name}": value for name, value in (predicted.pop("signals", None) or {}).items()}
    found |= {name: value for name, value in {**predicted, **parts}.items() if value is not None}
    return found | {"edge weights": weighted}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(("model", "preset", "changes", "objective"), CASES)
def test_results_do_not_depend_on_the_buckets(
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, ...],
    model: str,
    preset: str,
    changes: dict[str, Any],
    objective: dict[str, Any],
) -> None:
    results = []
    for cost, count in ((10**12, 1), (0, len(set(sizes)))):
        monkeypatch.setattr(layouts, "BUCKET_COST", cost)
        method = build(model, preset, changes, objective)
        data = batch_of(sizes, method.encodings)
        assert len(Layout(data).buckets) == count
        results.append(everything(method, data))
    one, many = results
    assert one.keys() == many.keys()
    for name, value in one.items():
        torch.testing.assert_close(
            many[name], value, atol=1e-8, rtol=1e-7, msg=lambda text, name=name: f"{name}: {text}"
        )


def cheapest(sizes: list[int], row: int, bucket: int) -> int:
    """The cost of the cheapest buckets, by trying every cut of the sorted sizes."""
    sizes, best = sorted(sizes), 10**15
    for cuts in range(2 ** (len(sizes) - 1)):
        groups, start = [], 0
        for end in range(1, len(sizes) + 1):
            if end == len(sizes) or cuts >> (end - 1) & 1:
                groups.append(sizes[start:end])
                start = end
        best = min(best, sum(len(group) * group[-1] * (group[-1] + row) + bucket for group in groups))
    return best


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.integers(0, 3000))
def test_the_buckets_are_the_cheapest(sizes: list[int], cost: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "BUCKET_COST", cost)
        widths = bucket_widths(np.array(sizes))
    assert widths == sorted(set(widths))
    padded = [min(width for width in widths if width >= size) for size in sizes]
    found = sum(n * (n + layouts.ROW_COST) for n in padded) + cost * len(widths)
    assert found == cheapest(sizes, layouts.ROW_COST, cost)


def test_one_large_graph_is_padded_alone_and_similar_ones_together() -> None:
    assert bucket_widths(np.array([20] * 255 + [1000])) == [20, 1000]
    assert bucket_widths(np.array([28, 29, 30, 31] * 16)) == [31]
    assert bucket_widths(np.array([0])) == [1]
    assert bucket_widths(np.array([], dtype=np.int64)) == [1]
