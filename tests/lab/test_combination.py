"""Ways to combine members, judged on molecules whose labels they have not seen."""

from __future__ import annotations

import torch

from goodformer.methods.blend import Combination
from lab import combination


def test_every_fold_is_judged_by_what_the_others_teach() -> None:
    generator = torch.Generator().manual_seed(0)
    y = (torch.arange(60) % 2).double()[:, None]
    good, noise = 4 * y - 2, torch.randn(60, 1, generator=generator, dtype=torch.double)
    logits, taught = {"forest:tuned": good, "linear": noise}, []

    def spy(kinds: list[str], z: torch.Tensor, labels: torch.Tensor) -> Combination:
        taught.append(len(labels))
        assert kinds == ["forest", "linear"]
        return combination.learnt(shift=False)(kinds, z, labels)

    names = ["forest:tuned", "linear"]
    assert combination.held_out(names, spy, logits, y) > 0.95  # type: ignore[arg-type]
    assert taught == [48] * 5
    weak = combination.held_out(["linear"], combination.equal, logits, y)
    assert weak < 0.8


def test_kinds_share_equally_whatever_their_number() -> None:
    found = combination.equal(["forest", "linear", "linear"], torch.zeros(3, 5, 1), torch.zeros(5, 1))
    assert found.weights.tolist() == [0.5, 0.25, 0.25]
