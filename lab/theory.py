"""Measure the paper's two theorems: attention disperses as graphs grow, and temperature restores it.

Run from the root of the repository:

  python -m lab.theory                                      random logits only
  python -m lab.theory --run RUN --record results/theory.json --page docs/theory.md -o docs/images
  python -m lab.theory --from results/theory.json --page docs/theory.md -o docs/images

`measure` computes one record; the tables and pictures are made from the record alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from goodformer import files
from goodformer.engine.record import machine, source_commit, versions
from goodformer.engine.store import Run
from goodformer.errors import InputError
from lab import theory_page, theory_picture
from lab.theorems import dispersion, slopes, vectors
from lab.trained import GRAPHS, measure_run


def measure(
    runs: Sequence[Run] = (),
    graphs: int = GRAPHS,
    base_nodes: Sequence[int] | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> dict[str, Any]:
    """Compute everything that the theory page shows, as one JSON value.

    Args:
        runs: Finished runs of GOODFormer on GOOD-Motif; without any, only what needs no model is measured.
        graphs: Graphs per base and size.
        base_nodes: Even numbers of nodes of the bases; `lab.trained.BASE_NODES` by default.
        done: Called with the number of finished base sizes of the current run.
    """
    return {
        "kind": "theory",
        "commit": source_commit(),
        "dispersion": dispersion(),
        "temperature": [slopes(name, e) for name, e in vectors().items()],
        "runs": [measure_run(run, graphs, base_nodes, done) for run in runs],
        "versions": versions(),
        "machine": machine(),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Parse the command line, measure or read a record, and write what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m lab.theory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", action="append", default=[], help="GOODFormer run on good-motif; repeat for seeds")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of runs")
    parser.add_argument("--graphs", type=int, default=GRAPHS, help="graphs per base and size")
    parser.add_argument("--from", dest="source", type=Path, help="read this record instead of measuring")
    parser.add_argument("--record", type=Path, help="write the measured record to this JSON file")
    parser.add_argument("--page", type=Path, help="write the tables between the markers of this page")
    parser.add_argument("-o", "--out", type=Path, help="draw the pictures theory-*.png into this folder")
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    try:
        if given.source:
            record = files.read_json(given.source)
        else:
            opened = [Run.open(name, given.runs) for name in given.run]
            record = measure(
                opened, given.graphs, done=lambda count: print(f"{count} base sizes done", file=sys.stderr)
            )
        if given.record:
            files.write_json(given.record, record)
        if given.out:
            theory_picture.draw(record, given.out)
        if given.page:
            theory_page.write(record, given.page)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("\n\n".join(theory_page.blocks(record).values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
