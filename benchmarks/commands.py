"""Time of whole commands as a user types them, in processor seconds of the command's own process.

    python -m benchmarks.commands MODEL [--rows 100000]

MODEL is a folder that ``goodformer fit examples/nitro.csv --target nitro -o MODEL`` wrote. Measured are ``predict`` of
16 rows, ``fit`` up to its first line and up to the first line on training, ``predict`` of many rows with the memory of
the process after each tenth of them, and the estimate of ``compare`` after its first run beside the time it then took.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.drugs import DRUGS

ROWS = Path(__file__).parents[1] / "examples" / "nitro.csv"
COMMAND = (sys.executable, "-m", "goodformer")
LEFT = re.compile(r"(\d+) of (\d+) runs.*about (?:(\d+) h )?(?:(\d+) min)?(?: ?(\d+) s)? left")


def started(words: list[Any], **more: Any) -> subprocess.Popen[str]:
    """Start goodformer with one thread."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen([*COMMAND, *map(str, words)], env=env, text=True, **more)


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """Wait for a process and return its user and system time."""
    _, code, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    if process.returncode:
        sys.exit(f"{process.args} exited with code {process.returncode}.")
    return usage.ru_utime + usage.ru_stime


def predict_few(model: Path, folder: Path) -> dict[str, float]:
    """Predict 16 rows."""
    write(folder / "few.csv", list(DRUGS[:16]))
    words = ["predict", model, folder / "few.csv", "-o", folder / "few-answers.csv"]
    return {"predict_16_rows": processor_seconds(started(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))}


def first_lines(folder: Path) -> dict[str, float]:
    """Start a fit and stop it at its first line on training."""
    words = ["fit", ROWS, "--target", "nitro", "-o", folder / "model", "--runs", folder / "runs"]
    process = started(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    found: dict[str, float] = {}
    assert process.stderr is not None
    for line in process.stderr:
        times = psutil.Process(process.pid).cpu_times()
        found.setdefault("fit_first_line", times.user + times.system)
        if line.startswith("training"):
            found["fit_first_line_on_training"] = times.user + times.system
            break
    process.kill()
    process.wait()
    return found


def predict_many(model: Path, rows: int, folder: Path) -> dict[str, Any]:
    """Predict many different molecules and watch the memory."""
    chains = [f"{'C' * (place // len(DRUGS) % 7)}{DRUGS[place % len(DRUGS)]}" for place in range(rows)]
    write(folder / "many.csv", chains)  # some of them cannot be read, as in real libraries
    words = ["predict", model, folder / "many.csv", "-o", folder / "many-answers.csv"]
    process = started(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watched, memory = psutil.Process(process.pid), []
    with contextlib.suppress(psutil.Error):
        while watched.status() != psutil.STATUS_ZOMBIE:
            memory.append(watched.memory_info().rss / 2**20)
            time.sleep(1)
    seconds = processor_seconds(process)
    return {
        "predict_many_rows": rows,
        "predict_many_seconds": seconds,
        "rows_per_processor_second": rows / seconds,
        "million_rows_hours": 1e6 / (rows / seconds) / 3600,
        "memory_mb_by_tenth": [round(memory[len(memory) * tenth // 10]) for tenth in range(10)],
        "memory_mb_peak": max(memory),
    }


def estimate(folder: Path) -> dict[str, float]:
    """Compare two methods on a small benchmark; return the first estimate of the time left and the time it took."""
    words = ["compare", "--dataset", "bace", "--methods", "erm,vrex", "--seeds", "2", "--budget", "full"]
    words += ["--set", "training.epochs=4", "--set", "training.patience=0", "--runs", folder / "runs", "--jobs", "1"]
    process = started(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said: list[tuple[float, float]] = []
    assert process.stderr is not None
    for line in process.stderr:
        if (match := LEFT.search(line)) and match[1] != "0":
            hours, minutes, seconds = (float(part or 0) for part in match.groups()[2:])
            said.append((time.monotonic(), 3600 * hours + 60 * minutes + seconds))
    processor_seconds(process)
    moment, left = said[0]
    took = time.monotonic() - moment
    return {"compare_seconds_said": left, "compare_seconds_taken": took, "compare_ratio": left / took}


def write(path: Path, smiles: list[str]) -> None:
    """Write a table of SMILES."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles"])
        writer.writerows([one] for one in smiles)


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rows", type=int, default=100_000, help="Rows of the large prediction; 0 leaves it out.")
    parser.add_argument("--no-compare", action="store_true", help="Leave out the comparison.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found: dict[str, Any] = {**predict_few(given.model, folder), **first_lines(folder)}
        print(json.dumps(found), flush=True)
        found |= {} if given.no_compare else estimate(folder)
        found |= predict_many(given.model, given.rows, folder) if given.rows else {}
    print(json.dumps({key: round(value, 2) if isinstance(value, float) else value for key, value in found.items()}))


if __name__ == "__main__":
    main()
