"""Load on ``goodformer serve``: a real server process and real clients, beside a bare loop of `FittedModel.predict`.

    python -m benchmarks.serve [MODEL]

For single SMILES and for batches of 256, requests per second and latency are measured with 1, 8 and 32 clients at the
same time. The loop predicts the same rows in this process, right before and right after the clients. Two ratios compare
the server with the loop: requests per second by the clock, which on a busy machine says more about the scheduler, and
requests per processor second of the server process, which is its throughput on one free core. Without a MODEL, an ERM
model is fitted for one epoch.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from goodformer.cli import run
from goodformer.fitted import FittedModel

ROWS = Path(__file__).parents[1] / "examples" / "nitro.csv"
BATCH, CLIENTS = 256, (1, 8, 32)
GOAL = 0.7
"""Share of the throughput of the bare loop that the server should reach."""


TIMEOUT = 90
"""Seconds that clients wait, longer than the server's limit, so that the server says what took long."""


@dataclass(frozen=True)
class Load:
    """One measurement.

    Attributes:
        rows: Rows per request.
        clients: Clients at the same time.
        requests: Answered requests.
        per_second: Requests per second.
        p50: Median latency in milliseconds.
        p99: 99th percentile of the latency in milliseconds.
        per_cpu_second: Requests per processor second of the server process.
        loop: Calls of `FittedModel.predict` per second with the same rows, in a loop.
        loop_per_cpu_second: The same per processor second.
    """

    rows: int
    clients: int
    requests: int
    per_second: float
    p50: float
    p99: float
    per_cpu_second: float
    loop: float
    loop_per_cpu_second: float

    @property
    def ratio(self) -> float:
        """Throughput of the server by the clock, as a share of that of the loop."""
        return self.per_second / self.loop

    @property
    def cpu_ratio(self) -> float:
        """The same per processor second."""
        return self.per_cpu_second / self.loop_per_cpu_second


def looped(model: FittedModel, parts: list[list[str]], seconds: float) -> NDArray[np.float64]:
    """Return the calls of `predict`, their seconds and their processor seconds."""
    model.predict(parts[0])
    start, cpu, calls = time.perf_counter(), time.process_time(), 0
    for part in itertools.cycle(parts):
        model.predict(part)
        calls += 1
        if time.perf_counter() - start > seconds:
            break
    return np.array([calls, time.perf_counter() - start, time.process_time() - cpu])


async def asked(
    address: str, parts: list[list[str]], clients: int, seconds: float, most: int = 10**9
) -> tuple[list[float], float]:
    """Send requests from several clients, one connection each, and return the latencies and the time taken."""
    times: list[float] = []
    pool = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT, trust_env=False, limits=pool) as session:
        await session.post("/predict", json={"smiles": parts[0]})  # warms up
        begin = time.perf_counter()

        async def client(number: int) -> None:
            for part in itertools.cycle(parts[number % len(parts) :] + parts[: number % len(parts)]):
                start = time.perf_counter()
                if start > begin + seconds or len(times) >= most:
                    return
                answer = await session.post("/predict", json={"smiles": part})
                assert answer.status_code == 200, answer.text
                times.append(time.perf_counter() - start)

        await asyncio.gather(*map(client, range(clients)))
        return times, time.perf_counter() - begin


def measured(
    address: str, server: psutil.Process, model: FittedModel, parts: list[list[str]], clients: int, seconds: float
) -> Load:
    """Measure the loop, the clients and the loop again."""
    before = looped(model, parts, seconds / 2)
    cpu = sum(server.cpu_times()[:2])
    times, took = asyncio.run(asked(address, parts, clients, seconds))
    used = sum(server.cpu_times()[:2]) - cpu
    calls, wall, busy = before + looped(model, parts, seconds / 2)
    p50, p99 = (1000 * float(np.percentile(times, share)) for share in (50, 99))
    rates = len(times) / took, p50, p99, len(times) / used, calls / wall, calls / busy
    return Load(len(parts[0]), clients, len(times), *(round(float(value), 1) for value in rates))


def memory(address: str, process: psutil.Process, parts: list[list[str]], requests: int) -> tuple[int, int]:
    """Return the server's resident megabytes after a tenth of the requests and after all of them."""
    sizes = []
    for share in (requests // 10, requests - requests // 10):
        asyncio.run(asked(address, parts, 8, 600, share))
        sizes.append(process.memory_info().rss // 2**20)
    return sizes[0], sizes[1]


def serving(folder: str, use: Callable[[str, psutil.Process], None]) -> None:
    """Run a server process for a fitted model while ``use`` works with its address."""
    command = [sys.executable, "-m", "goodformer", "serve", folder, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        for _ in range(100):
            try:
                httpx.get(f"{address}health", trust_env=False)
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        use(address, psutil.Process(server.pid))
    finally:
        server.terminate()
        server.wait(30)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print one line per load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a folder written by goodformer fit")
    parser.add_argument("--rows", type=int, nargs="+", choices=(1, BATCH), default=(1, BATCH), help="rows per request")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="numbers of clients")
    parser.add_argument("--seconds", type=float, default=5, help="time per load; the loop takes as long again")
    parser.add_argument("--requests", type=int, default=10_000, help="requests of the memory measurement; 0 skips it")
    parser.add_argument("-o", "--out", type=Path, help="file for the record (JSON)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with ROWS.open() as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    singles, batches = [[one] for one in smiles], [smiles[:BATCH], smiles[-BATCH:]]
    record: dict[str, object] = {}

    def use(address: str, process: psutil.Process) -> None:
        print("rows clients requests/s  p50 ms  p99 ms requests/cpu-s   loop/s loop/cpu-s  ratio  cpu ratio")
        found = []
        for rows, clients in itertools.product(options.rows, options.clients):
            parts = singles if rows == 1 else batches
            load = measured(address, process, model, parts, clients, options.seconds)
            found.append({**asdict(load), "ratio": round(load.ratio, 2), "cpu_ratio": round(load.cpu_ratio, 2)})
            print(
                f"{load.rows:4} {load.clients:7} {load.per_second:10} {load.p50:7} {load.p99:7} "
                f"{load.per_cpu_second:14} {load.loop:8} {load.loop_per_cpu_second:10} {load.ratio:6.2f} "
                f"{load.cpu_ratio:10.2f}{'' if max(load.ratio, load.cpu_ratio) >= GOAL else '  below the goal'}",
                flush=True,
            )
        record["loads"] = found
        if options.requests:
            first, last = memory(address, process, singles, options.requests)
            record["memory"] = {"requests": options.requests, "first_tenth_mb": first, "all_mb": last}
            print(f"memory of the server: {first} MB after {options.requests // 10:,} requests, {last} MB after all")

    with tempfile.TemporaryDirectory() as folder:
        place = options.model or f"{folder}/model"
        if not options.model:
            words = ["--method", "erm", "--epochs", "1", "--no-baseline", "--quiet", "-o", place]
            assert run(["fit", str(ROWS), "--target", "nitro", *words]) == 0
        model = FittedModel.load(place)
        serving(place, use)
    if options.out:
        options.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
