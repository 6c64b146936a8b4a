"""Which rows of a data set go into which split: unseen domains, a changed tie, or no shift at all.

Letters: R rows, D domains, E environments.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer import files
from goodformer.data.graphs import GraphSet
from goodformer.data.random import Draws
from goodformer.registry import InputError
from goodformer.spec import SPLITS

Ints = npt.NDArray[np.int64]
Whole = Sequence[int] | Tensor | Ints

FORMAT = "goodformer split 1"
TRAIN, ID_VAL, ID_TEST, VAL, TEST = range(len(SPLITS))

MIXED = ((0.6, TRAIN), (0.7, ID_VAL), (0.8, VAL), (0.9, ID_TEST), (1.0, TEST))
"""Up to which share of the shuffled rows each split reaches where nothing shifts."""


@dataclass(frozen=True)
class Tie:
    """One group of rows under a concept shift, taken from what earlier groups left.

    Attributes:
        part: The split it belongs to.
        bias: Probability to be taken of a row whose label its domain is tied to; the others have 1 - bias.
        share: By which both probabilities are scaled down, to leave rows for later groups.
    """

    part: int
    bias: float
    share: float


TIES = (Tie(TRAIN, 0.95, 0.3), Tie(TEST, 0.95, 0.5), Tie(TRAIN, 0.9, 0.6), Tie(TRAIN, 0.85, 1.0))
"""The groups of GOOD-HIV in the order they are taken; what is left over is val. In test each domain's tie is turned."""
MOST_ENVS = 10
"""Environments that domains make at most: where there are more of them, neighbouring ones are joined."""
CONCEPT_INSIDE = 0.15
"""Share of the training rows that leaves as id_val under a concept shift, and again as id_test."""


@dataclass(frozen=True)
class Split:
    """Which split and domain each of R rows belongs to.

    Attributes:
        part: Index into `goodformer.spec.SPLITS`, or -1 for a row that is left out (R,).
        domain: The number of its domain, counted from 0 (R,).
        names: What each domain is called; empty where they have no names.
        by: What the domains are, e.g. ``scaffold``.
        env: Environment of each row (R,) where environments are something else than domains; kept as given.
    """

    part: Tensor
    domain: Tensor
    names: tuple[str, ...] = ()
    by: str = "random"
    env: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("part", "domain", "env"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _whole(getattr(self, name), name))
        object.__setattr__(self, "names", tuple(self.names))
        self._check()

    def _check(self) -> None:
        """Every row has a split that is there and a domain that has a name."""
        rows = len(self.part)
        if len(self.domain) != rows or (self.env is not None and len(self.env) != rows):
            raise InputError(f"a split has {rows} parts but {len(self.domain)} domains; give one of each a row.")
        if rows == 0:
            return
        if int(self.part.min()) < -1 or int(self.part.max()) >= len(SPLITS):
            raise InputError(f"a split has parts {int(self.part.min())} to {int(self.part.max())}; use -1 to 4.")
        if int(self.domain.min()) < 0 or (self.env is not None and int(self.env.min()) < 0):
            raise InputError("a split has a domain or environment below 0; count them from 0.")
        if self.names and int(self.domain.max()) >= len(self.names):
            raise InputError(
                f"a split has domain {int(self.domain.max())} but {len(self.names)} names; give one a domain, or none."
            )

    def __len__(self) -> int:
        return len(self.part)

    def rows(self, split: str) -> Tensor:
        """Rows of one split in ascending order (r,)."""
        return (self.part == SPLITS.index(split)).nonzero().flatten()

    def counts(self) -> dict[str, int]:
        """Number of rows of each split."""
        return {split: int((self.part == number).sum()) for number, split in enumerate(SPLITS)}

    def envs(self) -> tuple[Tensor, int]:
        """Environments of the train, id_val and id_test rows renumbered from 0, 0 elsewhere (R,); and their number.

        Where none are given they are the domains, of which neighbouring ones are joined to at most ten: methods
        compare risks between environments, which a scaffold of one molecule cannot take part in.
        """
        inside = (self.part >= TRAIN) & (self.part <= ID_TEST)  # (R,)
        group = _joined(self.domain[inside]) if self.env is None else self.env[inside]
        found, renumbered = group.unique(return_inverse=True)
        env = torch.zeros_like(self.part)
        env[inside] = renumbered
        return env, len(found)

    def cut(self, graphs: GraphSet, **attributes: Tensor) -> dict[str, GraphSet]:
        """The graphs (one a row) of every split, carrying ``domain``, ``env`` and the given attributes (R, ...)."""
        whole = {**graphs.graph, "domain": self.domain, "env": self.envs()[0], **attributes}
        marked = GraphSet(graphs.node, graphs.edge, whole, graphs.node_ptr, graphs.edge_ptr)
        return {split: marked.subset(self.rows(split)) for split in SPLITS}

    def save(self, path: str | Path) -> None:
        """Write it as JSON, in one step."""
        value = {"format": FORMAT, "by": self.by, "splits": SPLITS, "names": self.names}
        value |= {"part": self.part.tolist(), "domain": self.domain.tolist()}
        value |= {} if self.env is None else {"env": self.env.tolist()}
        files.write_text(Path(path), json.dumps(value) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Split:
        """Read what `save` wrote."""
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not JSON"
            raise InputError(
                f"cannot read the split {path} ({reason}); give a file that a split was saved to."
            ) from None
        if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("splits") != list(SPLITS):
            raise InputError(f"{path} is no saved split; give a JSON file whose format is {FORMAT!r}.")
        try:
            return cls(**_fields(value))
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"the split {path} is damaged ({str(error).rstrip('.')}); save it anew.") from None


def _fields(value: dict[str, Any]) -> dict[str, Any]:
    """The fields of a split as JSON holds them."""
    names, by = value["names"], value["by"]
    if not isinstance(by, str) or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names are not words")
    numbers: dict[str, Any] = {
        name: value[name] for name in ("part", "domain", "env") if name == "part" or name in value
    }
    for name, numbered in numbers.items():
        if not isinstance(numbered, list) or not all(type(number) is int for number in numbered):
            raise ValueError(f"{name} is not a list of whole numbers")
    return {**numbers, "names": tuple(names), "by": by}


def covariate(
    domain: Whole,
    by: str,
    names: Sequence[str] = (),
    seed: int = 0,
    outside: tuple[float, float] = (0.1, 0.1),
    inside: tuple[float, float] = (0.1, 0.1),
) -> Split:
    """Unseen domains outside: rows in ascending order of their domain's number, cut into train, val and test.

    Each cut moves on to the next place where a domain begins, as in the GOOD benchmark, but never so far that val or
    test would be left without a domain. Then id_val and id_test leave train at random.

    Args:
        domain: The domain of each row (R,), in the order in which domains are handed out.
        by: What the domains are.
        names: What each domain is called.
        seed: Decides which training rows become id_val and id_test.
        outside: Shares of all rows that val and test should have.
        inside: Shares of all rows that id_val and id_test have.
    """
    number = _whole(domain, "domain").numpy()
    order = np.argsort(number, kind="stable")  # (R,)
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))  # (D,)
    first, second = _cuts(np.append(starts, len(number)), outside, by)
    part = np.full(len(number), TRAIN)
    part[order[first:second]] = VAL
    part[order[second:]] = TEST
    _leave(part, [_share(len(number), share) for share in inside], Draws(seed, f"covariate/{by}"), by)
    return Split(torch.from_numpy(part), torch.from_numpy(number), tuple(names), by)


def _joined(domain: Tensor, most: int = MOST_ENVS) -> Tensor:
    """Environments (r,) of neighbouring domains with about as many rows each; the domains where they are few."""
    found, place, counts = domain.unique(return_inverse=True, return_counts=True)
    if len(found) <= most:
        return domain
    middle = counts.cumsum(0).double() - counts / 2  # (D,)
    return (middle * most / len(domain)).long().clamp(max=most - 1)[place]


def concept(domain: Whole, y: Any, by: str, names: Sequence[str] = (), seed: int = 0) -> Split:
    """The same domains everywhere, tied to a label in training and to the other one in test.

    Domains in the first half of the rows are tied to high labels in training, the others to low ones; in test it is
    the other way round, and val has the rows left over. Groups of training rows whose tie is of different strength
    (`TIES`) are the environments. Where a group has rows of a domain but only of one of its labels, one row of the
    other label joins them. 15 % of the training rows each leave as id_val and id_test.

    Args:
        domain: The domain of each row (R,).
        y: Labels (R,), or (R, T) with NaN where missing: above the mean of all is high.
        by: What the domains are.
        names: What each domain is called.
        seed: Decides which rows are taken.
    """
    number, draws = _whole(domain, "domain").numpy(), Draws(seed, f"concept/{by}")
    high, tied = _high(y, len(number)), _first_half(number)  # (R,), (R,)
    part, env = np.full(len(number), VAL), np.zeros(len(number), dtype=np.int64)
    left, trained = np.ones(len(number), dtype=bool), 0
    for tie in TIES:
        agrees = high == (tied if tie.part == TRAIN else ~tied)
        chance = np.where(agrees, tie.bias, 1 - tie.bias) * tie.share
        taken = left & (draws.uniform(len(number)) < chance)
        taken |= _companions(number, agrees, left, taken)
        part[taken], env[taken], left = tie.part, trained, left & ~taken
        trained += tie.part == TRAIN
    inside = _share(int((part == TRAIN).sum()), CONCEPT_INSIDE)
    _leave(part, [inside, inside], draws, by)
    return Split(torch.from_numpy(part), torch.from_numpy(number), tuple(names), by, torch.from_numpy(env))


def mixed(domain: Whole, by: str, names: Sequence[str] = (), seed: int = 0) -> Split:
    """No shift: rows at random, 60 % in train and 10 % in each other split."""
    number = _whole(domain, "domain").numpy()
    order = Draws(seed, f"mixed/{by}").uniform(len(number)).argsort(kind="stable")
    part, start = np.empty(len(number), dtype=np.int64), 0
    for reach, split in MIXED:
        stop = _share(len(number), reach)
        part[order[start:stop]], start = split, stop
    return Split(torch.from_numpy(part), torch.from_numpy(number), tuple(names), by)


def _whole(values: Any, name: str) -> Tensor:
    """Whole numbers (R,)."""
    tensor = torch.as_tensor(values)
    if tensor.dim() != 1 or (tensor.numel() and tensor.is_floating_point()):
        raise InputError(f"{name} has the shape {tuple(tensor.shape)} of {tensor.dtype}; give one whole number a row.")
    return tensor.long()


def _share(rows: int, share: float) -> int:
    """That share of the rows, rounded down; 0.7 of 10 is 7 whatever its last bits are."""
    return math.floor(round(rows * share, 6))


def _cuts(starts: Ints, outside: tuple[float, float], by: str) -> tuple[int, int]:
    """Where val and test begin among the sorted rows, given where domains begin and the number of rows (D + 1,)."""
    rows, domains = int(starts[-1]), len(starts) - 1
    val, test = (int(share > 0) for share in outside)
    if domains < 1 + val + test:
        raise InputError(
            f"{by} has {domains} domain(s) for {rows} rows, which cannot be train and {val + test} unseen part(s); "
            "split at random or by something that differs more."
        )
    wanted = [_share(rows, 1 - sum(outside)), _share(rows, 1 - outside[1])]
    first, second = (int(cut) for cut in np.searchsorted(starts, wanted))
    first = min(max(first, 1), domains - val - test)
    second = min(max(second, first + val), domains - test)
    return int(starts[first]), int(starts[second])


def _leave(part: Ints, sizes: Sequence[int], draws: Draws, by: str) -> None:
    """Turn as many training rows as given into id_val and id_test, at random."""
    train = np.flatnonzero(part == TRAIN)
    if len(train) <= sum(sizes):
        raise InputError(
            f"{by} leaves {len(train)} rows in training, too few for {sum(sizes)} more to leave it; "
            "ask for smaller shares or give more rows."
        )
    shuffled = train[draws.uniform(len(train)).argsort(kind="stable")]
    part[shuffled[: sizes[0]]] = ID_VAL
    part[shuffled[sizes[0] : sum(sizes)]] = ID_TEST


def _high(y: Any, rows: int) -> npt.NDArray[np.bool_]:
    """Whether each row's mean label is above the mean of all rows (R,); a row without label is not."""
    value = torch.as_tensor(y).double().reshape(rows, -1).nanmean(1)  # (R,)
    return (value > value.nanmean()).numpy()


def _first_half(number: Ints) -> npt.NDArray[np.bool_]:
    """Whether each row's domain begins within the first half of the rows sorted by domain (R,)."""
    begins = np.searchsorted(np.sort(number), number)
    return begins < len(number) / 2


def _companions(
    number: Ints, agrees: npt.NDArray[np.bool_], left: npt.NDArray[np.bool_], taken: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """For each domain taken from with one label only, its last free row of the other label, where it has one (R,)."""
    domains = int(number.max(initial=-1)) + 1
    found = np.zeros(len(number), dtype=bool)
    some = np.bincount(number[taken], minlength=domains) > 0  # (D,)
    for side in (agrees, ~agrees):
        missing = some & (np.bincount(number[taken & side], minlength=domains) == 0)
        rows = np.flatnonzero(left & side & ~taken & missing[number])
        last = np.full(domains, -1)
        last[number[rows]] = rows  # rows ascend, so the last one stays
        found[last[last >= 0]] = True
    return found
