"""Assignment of rows to splits under covariate shift, concept shift or no shift.

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
from goodformer.data.graphs import GIVEN, GraphSet
from goodformer.data.random import Draws
from goodformer.data.readers.values import counted
from goodformer.errors import InputError
from goodformer.spec import RANDOM, SPLITS, split_names

Ints = npt.NDArray[np.int64]
Whole = Sequence[int] | Tensor | Ints

FORMAT = "goodformer split 1"
TRAIN, ID_VAL, ID_TEST, VAL, TEST = range(len(SPLITS))

MIXED = ((0.6, TRAIN), (0.7, ID_VAL), (0.8, VAL), (0.9, ID_TEST), (1.0, TEST))
"""Cumulative share of the shuffled rows at which each split ends without a shift."""


@dataclass(frozen=True)
class Tie:
    """One group of rows under a concept shift, drawn from the rows that earlier groups left.

    Attributes:
        part: Its split.
        bias: Probability of a row whose label agrees with its domain; other rows have 1 - bias.
        share: Factor on both probabilities, which leaves rows for later groups.
    """

    part: int
    bias: float
    share: float


TIES = (Tie(TRAIN, 0.95, 0.3), Tie(TEST, 0.95, 0.5), Tie(TRAIN, 0.9, 0.6), Tie(TRAIN, 0.85, 1.0))
"""Groups of GOOD-HIV in the order in which they are drawn; the rest is val. In test, labels disagree with domains."""
MOST_ENVS = 10
"""Largest number of environments made from domains; neighbouring domains are merged if there are more."""
CONCEPT_INSIDE = 0.15
"""Share of the training rows that become id_val under a concept shift, and again id_test."""


@dataclass(frozen=True)
class Split:
    """Split and domain of each of R rows.

    Attributes:
        part: Index into `goodformer.spec.SPLITS`, or -1 for a row that is left out (R,).
        domain: Number of the domain, counted from 0 (R,).
        names: Name of each domain; empty if domains have no names.
        by: What the domains are, e.g. ``scaffold``.
        env: Environment of each row (R,) if environments differ from domains.
        files: If rows come from several files: part, name and number of rows of each, in the order of the rows.
        given: Parts that the user gave, in a column or as files; whether they shift is not known.
        keys: In a saved split, a hash of the graph of each row (R,), by which the rows are known again.
    """

    part: Tensor
    domain: Tensor
    names: tuple[str, ...] = ()
    by: str = RANDOM
    env: Tensor | None = None
    files: tuple[tuple[str, str, int], ...] = ()
    given: tuple[str, ...] = ()
    keys: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("part", "domain", "env", "keys"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _whole(getattr(self, name), name))
        object.__setattr__(self, "names", tuple(self.names))
        rows = len(self.part)
        if any(len(one) != rows for one in (self.domain, self.env, self.keys) if one is not None):
            raise InputError(f"a split has {rows} parts but {len(self.domain)} domains; give one of each per row.")
        if rows == 0:
            return
        if int(self.part.min()) < -1 or int(self.part.max()) >= len(SPLITS):
            raise InputError(f"a split has parts {int(self.part.min())} to {int(self.part.max())}; use -1 to 4.")
        if int(self.domain.min()) < 0 or (self.env is not None and int(self.env.min()) < 0):
            raise InputError("a split has a negative domain or environment; number them from 0.")
        if self.names and int(self.domain.max()) >= len(self.names):
            raise InputError(
                f"a split has domain {int(self.domain.max())} but {len(self.names)} names; name every domain or none."
            )

    def __len__(self) -> int:
        return len(self.part)

    def rows(self, split: str) -> Tensor:
        """Return the rows of one split in ascending order (r,)."""
        return (self.part == SPLITS.index(split)).nonzero().flatten()

    @property
    def part_names(self) -> dict[str, str]:
        """The name of each part."""
        return split_names(self.by, self.given)

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each split."""
        return {split: int((self.part == number).sum()) for number, split in enumerate(SPLITS)}

    def envs(self) -> tuple[Tensor, int]:
        """Return environments of the train, id_val and id_test rows from 0, 0 elsewhere (R,); and their number.

        Unless the split names them, they are the domains, neighbouring ones merged into at most ten: methods compare
        risks between environments, which is meaningless for a scaffold with a single molecule.
        """
        inside = (self.part >= TRAIN) & (self.part <= ID_TEST)  # (R,)
        group = _joined(self.domain[inside]) if self.env is None else self.env[inside]
        found, renumbered = group.unique(return_inverse=True)
        env = torch.zeros_like(self.part)
        env[inside] = renumbered
        return env, len(found)

    def cut(self, graphs: GraphSet, **attributes: Tensor) -> dict[str, GraphSet]:
        """Return the graphs (one per row) of every split with ``domain``, ``env`` and the given attributes (R, ...)."""
        whole = {**graphs.graph, "domain": self.domain, "env": self.envs()[0], **attributes}
        node = {name: value for name, value in graphs.node.items() if name != GIVEN}
        marked = GraphSet(node, graphs.edge, whole, graphs.node_ptr, graphs.edge_ptr)
        return {split: marked.subset(self.rows(split)) for split in SPLITS}

    def save(self, path: str | Path) -> None:
        """Write the split as JSON in one step."""
        value: dict[str, Any] = {"format": FORMAT, "by": self.by, "splits": SPLITS, "names": self.names}
        value |= {"part": self.part.tolist(), "domain": self.domain.tolist()}
        value |= {name: kept.tolist() for name in ("env", "keys") if (kept := getattr(self, name)) is not None}
        value |= {"files": self.files} if self.files else {}
        value |= {"given": self.given} if self.given else {}
        files.write_text(Path(path), json.dumps(files.sealed(value)) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Split:
        """Read a file that `save` wrote."""
        try:
            value = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
            reason = getattr(error, "strerror", None) or "not JSON"
            raise InputError(f"cannot read the split {path} ({reason}); give a saved split.") from None
        value = files.unsealed(value, path, "save it again, or remove the entry checksum if you changed the file")
        if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("splits") != list(SPLITS):
            raise InputError(f"{path} is not a saved split; give a JSON file with the format {FORMAT!r}.")
        try:
            return cls(**_fields(value))
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"the split {path} is damaged ({str(error).rstrip('.')}); save it again.") from None


def _fields(value: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a split from JSON."""
    names, by = value["names"], value["by"]
    if not isinstance(by, str) or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names are not text")
    numbers: dict[str, Any] = {
        name: value[name] for name in ("part", "domain", "env", "keys") if name == "part" or name in value
    }
    for name, numbered in numbers.items():
        if not isinstance(numbered, list) or not all(type(number) is int for number in numbered):
            raise ValueError(f"{name} is not a list of integers")
    sources = tuple(map(tuple, value.get("files", ())))
    if any([type(one) for one in source] != [str, str, int] for source in sources):
        raise ValueError("files are not parts, names and numbers of rows")
    given = tuple(value.get("given", ()))
    if not set(given) <= set(SPLITS):
        raise ValueError("given is not a list of parts")
    return {**numbers, "names": tuple(names), "by": by, "files": sources, "given": given}


def covariate(
    domain: Whole,
    by: str,
    names: Sequence[str] = (),
    seed: int = 0,
    outside: tuple[float, float] = (0.1, 0.1),
    inside: tuple[float, float] = (0.1, 0.1),
) -> Split:
    """Split rows under covariate shift: sort them by domain number and cut them into train, val and test.

    Each cut moves to the next start of a domain, as in the GOOD benchmark, but val and test always keep a domain. Then
    id_val and id_test are drawn from train.

    Args:
        domain: Domain of each row (R,), numbered in the order of the cut.
        by: What the domains are.
        names: Name of each domain.
        seed: Seed of the draw of id_val and id_test.
        outside: Intended shares of val and test among all rows.
        inside: Shares of id_val and id_test among all rows.
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
    """Return environments (r,) of neighbouring domains with about equally many rows; the domains if they are few."""
    found, place, counts = domain.unique(return_inverse=True, return_counts=True)
    if len(found) <= most:
        return domain
    middle = counts.cumsum(0).double() - counts / 2  # (D,)
    return (middle * most / len(domain)).long().clamp(max=most - 1)[place]


def concept(domain: Whole, y: Any, by: str, names: Sequence[str] = (), seed: int = 0) -> Split:
    """Split rows under concept shift: the same domains everywhere, correlated with the label in opposite ways.

    In training, domains in the first half of the rows mostly have high labels and the others low ones; in test it is
    the reverse, and val has the remaining rows. The environments are groups of training rows with different strength of
    correlation (`TIES`). If a group has rows of a domain with only one of its labels, one row of the other label is
    added. 15 % of the training rows each become id_val and id_test.

    Args:
        domain: Domain of each row (R,).
        y: Labels (R,), or (R, T) with NaN for missing; above the overall mean is high.
        by: What the domains are.
        names: Name of each domain.
        seed: Seed of the draws.
    """
    number, draws = _whole(domain, "domain").numpy(), Draws(seed, f"concept/{by}")
    label = torch.as_tensor(y).double().reshape(len(number), -1).nanmean(1)  # (R,), NaN without a label
    high = (label > label.nanmean()).numpy()
    tied = np.searchsorted(np.sort(number), number) < len(number) / 2  # (R,), in domains of the first half
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
    """Split rows at random, without shift: 60 % in train and 10 % in each other split."""
    number = _whole(domain, "domain").numpy()
    order = Draws(seed, f"mixed/{by}").uniform(len(number)).argsort(kind="stable")
    part, start = np.empty(len(number), dtype=np.int64), 0
    for reach, split in MIXED:
        stop = _share(len(number), reach)
        part[order[start:stop]], start = split, stop
    return Split(torch.from_numpy(part), torch.from_numpy(number), tuple(names), by)


def _whole(values: Any, name: str) -> Tensor:
    """Return integers (R,)."""
    tensor = torch.as_tensor(values)
    if tensor.dim() != 1 or (tensor.numel() and tensor.is_floating_point()):
        raise InputError(f"{name} has the shape {tuple(tensor.shape)} of {tensor.dtype}; give one integer per row.")
    return tensor.long()


def _share(rows: int, share: float) -> int:
    """Return that share of the rows, rounded down; 0.7 of 10 is 7 despite floating-point error."""
    return math.floor(round(rows * share, 6))


def _cuts(starts: Ints, outside: tuple[float, float], by: str) -> tuple[int, int]:
    """Return where val and test begin among the sorted rows; ``starts`` ends with the number of rows (D + 1,)."""
    rows, domains = int(starts[-1]), len(starts) - 1
    val, test = (int(share > 0) for share in outside)
    if domains < 1 + val + test:
        raise InputError(
            f"{by} has {counted(domains, 'domain')} for {rows} rows, too few for train and "
            f"{counted(val + test, 'unseen part')}; "
            "split at random or by an attribute with more values."
        )
    wanted = [_share(rows, 1 - sum(outside)), _share(rows, 1 - outside[1])]
    first, second = (int(cut) for cut in np.searchsorted(starts, wanted))
    first = min(max(first, 1), domains - val - test)
    second = min(max(second, first + val), domains - test)
    return int(starts[first]), int(starts[second])


def _leave(part: Ints, sizes: Sequence[int], draws: Draws, by: str) -> None:
    """Turn the given numbers of training rows into id_val and id_test at random."""
    train = np.flatnonzero(part == TRAIN)
    if len(train) <= sum(sizes):
        raise InputError(
            f"{by} leaves {len(train)} rows in training, too few for {sum(sizes)} rows of ID validation and ID test; "
            "use smaller shares or add rows."
        )
    shuffled = train[draws.uniform(len(train)).argsort(kind="stable")]
    part[shuffled[: sizes[0]]] = ID_VAL
    part[shuffled[sizes[0] : sum(sizes)]] = ID_TEST


def _companions(
    number: Ints, agrees: npt.NDArray[np.bool_], left: npt.NDArray[np.bool_], taken: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """For each domain drawn with one label only, return its last free row of the other label (R,)."""
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
