"""Limits on what is read and built, so that a small damaged or hostile file cannot fill the memory.

Each limit is checked before anything of that size is allocated. The environment variable GOODFORMER_LIMITS changes
some of them, for example ``GOODFORMER_LIMITS=nodes=1000000,parameters=500000000``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from goodformer.errors import InputError, check_name

VARIABLE = "GOODFORMER_LIMITS"
LIMITS: Mapping[str, int] = {
    "nodes": 100_000,
    "edges": 1_000_000,
    "columns": 10_000,
    "codes": 100_000,
    "classes": 10_000,
    "characters": 2**27,
    "atoms": 5_000,
    "layers": 1_000,
    "parameters": 100_000_000,
}
"""Nodes and edges of a graph, columns of features, codes of a column, classes or targets, characters of a field, atoms
of a molecule, layers and parameters of a model."""


def limit(name: str) -> int:
    """Return a limit: the default, or what the environment variable says."""
    for line in filter(None, os.environ.get(VARIABLE, "").split(",")):
        key, _, value = line.partition("=")
        check_name(f"limit in {VARIABLE}", key.strip(), LIMITS)
        if not value.strip().isdigit():
            raise InputError(f"{VARIABLE} has {line!r}; write limits as name=number, for example nodes=1000000.")
        if key.strip() == name:
            return int(value)
    return LIMITS[name]


def check_limit(name: str, got: int, where: str) -> None:
    """Raise an error if there are more nodes, edges, ... than the limit of that name allows."""
    if got > limit(name):
        raise InputError(
            f"{where} has {got:,} {name}, more than the limit of {limit(name):,}; make it smaller, or set "
            f"{VARIABLE}={name}={got}."
        )
