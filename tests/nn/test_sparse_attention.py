"""Sparse attention against softmax graph by graph and the equation written out."""

from __future__ import annotations

import pytest
import torch

from goodformer.nn.layout import Layout
from goodformer.nn.sparse_attention import SparseAttention, connect, segment_softmax
from tests.nn.graphs import batch


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_segment_softmax_equals_softmax_of_each_segment(scale: float) -> None:
    torch.manual_seed(0)
    logits, segment = scale * torch.randn(40, 3), torch.randint(7, (40,))
    segment[segment == 4] = 5  # one segment has no rows
    got = segment_softmax(logits, segment, 7)
    assert got.isfinite().all()
    for k in range(7):
        torch.testing.assert_close(got[segment == k], logits[segment == k].softmax(0))


def test_segment_softmax_has_the_gradient_of_softmax() -> None:
    torch.manual_seed(0)
    logits = torch.randn(9, 2, dtype=torch.double, requires_grad=True)
    segment, values = torch.zeros(9, dtype=torch.long), torch.randn(9, 2, dtype=torch.double)
    (got,) = torch.autograd.grad((segment_softmax(logits, segment, 1) * values).sum(), logits)
    (expected,) = torch.autograd.grad((logits.softmax(0) * values).sum(), logits)
    torch.testing.assert_close(got, expected)


def test_weights_count_rows_and_zero_hides_them() -> None:
    logits, segment = torch.randn(6, 2), torch.tensor([0, 0, 0, 1, 1, 2])
    weight = torch.tensor([2.0, 1.0, 0.0, 0.5, 0.5, 0.0])
    got = segment_softmax(logits, segment, 3, weight)
    doubled = torch.stack((logits[0], logits[0], logits[1])).softmax(0)
    torch.testing.assert_close(got[0], doubled[0] + doubled[1])
    torch.testing.assert_close(got[3:5], logits[3:5].softmax(0))
    assert not got[2].any()
    assert not got[5].any()


def test_connections_are_edges_extra_edges_and_virtual_nodes() -> None:
    data = batch((3, 2), p=0.9)
    layout, extra = Layout(data), torch.tensor([[0, 3], [2, 4]])
    found = connect(layout, extra, 2)
    own, n = data.num_edges, 5
    assert found.counts == (own, 2, n, n, n, n)
    blocks = list(zip(found.source.split(found.counts), found.target.split(found.counts), strict=True))
    assert torch.equal(torch.stack(blocks[0]), data.edge_index)
    assert torch.equal(torch.stack(blocks[1]), extra)
    for j in range(2):
        hubs = 5 + 2 * data.batch + j
        assert torch.equal(torch.stack(blocks[2 + j]), torch.stack((torch.arange(5), hubs)))
        assert torch.equal(torch.stack(blocks[4 + j]), torch.stack((hubs, torch.arange(5))))
    weighted = connect(layout, extra, 2, None, torch.full((own,), 0.3))
    assert weighted.weight.tolist() == pytest.approx([0.3] * own + [1.0] * (2 + 4 * n))


@pytest.mark.parametrize("with_edges", [False, True])
def test_attention_is_its_equation(with_edges: bool) -> None:
    torch.manual_seed(0)
    data, dim, heads = batch((5, 4), p=0.6), 8, 2
    layout, extra = Layout(data), torch.tensor([[0, 4, 6], [3, 1, 8]])
    edges = torch.randn(data.num_edges, dim) if with_edges else None
    found, attention = connect(layout, extra, 1, edges), SparseAttention(dim, heads)
    h, kinds = torch.randn(9 + 2, dim), torch.randn(4, dim)
    q, k, v = attention.qkv(h).chunk(3, 1)
    kind = torch.repeat_interleave(torch.tensor(found.counts))
    out = torch.zeros_like(h)
    for i in range(len(h)):
        into = torch.where(found.target == i)[0].tolist()
        for head in range(heads):
            here = slice(head * 4, head * 4 + 4)
            scores = []
            for c in into:
                vector = kinds[kind[c]] + (edges[c] if with_edges and c < data.num_edges else 0)
                e = attention.edge(vector)[here]
                scores.append((q[i, here] * k[found.source[c], here] * e).sum() / 2)
            alpha = torch.stack(scores).clamp(-5, 5).softmax(0)
            out[i, here] = sum(a * v[found.source[c], here] for a, c in zip(alpha, into, strict=True))
    torch.testing.assert_close(attention(h, found, kinds), out, atol=1e-5, rtol=1e-4)


def test_logits_stay_within_their_bounds() -> None:
    torch.manual_seed(0)
    data = batch((6,), p=0.8)
    layout, attention = Layout(data), SparseAttention(8, 2)
    h = 1e3 * torch.randn(7, 8)
    found = connect(layout, torch.empty(2, 0, dtype=torch.long), 1)
    q, k, _ = attention.qkv(h).chunk(3, 1)
    scores = attention._scores(q, k, layout.src, layout.dst, torch.ones(8), None)
    assert scores.abs().max() == 5
    assert attention(h, found, torch.randn(4, 8)).isfinite().all()
