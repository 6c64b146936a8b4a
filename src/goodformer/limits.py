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
    "nodes": 100_000,  # of a graph
    "edges": 1_000_000,  # of a graph
    "columns": 10_000,  # of node or edge features
    "codes": 100_000,  # of a categorical column: a model holds one vector per code
    "cells": 200_000_000,  # of a table of features
    "classes": 10_000,  # or binary targets
    "characters": 2**24,  # of a line or field
    "bytes": 2**29,  # of an unpacked workbook
    "download": 2 * 10**9,  # bytes of a public file
    "rows": 20_000_000,  # of a file that is read whole
    "atoms": 2_000,  # of a molecule
    "attention": 2_000,  # nodes of a graph that all attend to each other
    "parameters": 100_000_000,  # of a model
}


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


def check_pairs(nodes: int) -> None:
    """Raise an error if a graph has too many nodes for a value per pair of nodes."""
    if nodes > limit("attention"):
        raise InputError(
            f"a graph has {nodes:,} nodes, and attention or eigenvectors of all of them do not fit into memory; use a "
            f"model without them, such as gin, or set {VARIABLE}=attention={nodes}."
        )
