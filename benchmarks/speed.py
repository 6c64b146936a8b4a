"""Measure speed and memory on this machine.

Run from the root of the repository:

  python -m benchmarks.speed --quick
  python -m benchmarks.speed -o benchmarks/latest.json --page docs/benchmarks.md
  python -m benchmarks.speed --buckets drugood -o benchmarks/buckets.json --page docs/training.md
  python -m benchmarks.speed --products -o benchmarks/products.json --page docs/training.md
  python -m benchmarks.speed --from benchmarks/latest.json --page docs/benchmarks.md

Two pieces of work that are compared take turns (one step of the first, one step of the second, and so on), and their
medians are divided. A busy machine then slows both, so ratios can be compared between machines; seconds cannot.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch_geometric.data import Batch

from benchmarks import page
from benchmarks.drugs import DRUGS
from goodformer import files
from goodformer.config.presets import configure
from goodformer.data import load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES, featurise
from goodformer.engine.batches import EpochBatches
from goodformer.engine.memory import keep_freed_memory
from goodformer.engine.products import fast_products, openblas_is_faster
from goodformer.engine.record import machine, source_commit, versions
from goodformer.engine.weights import ModelFile
from goodformer.errors import InputError
from goodformer.explain.explanation import explain
from goodformer.fitted import FittedModel
from goodformer.methods import METHODS
from goodformer.methods.base import Method
from goodformer.models import MODELS
from goodformer.nn import layout
from goodformer.spec import SPLITS, Encoding, Task
from goodformer.transforms import Structure, encode

BASIS = {"name": "good-motif", "domain": "basis"}


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        rounds: Repetitions of a timed step.
        generated: Graphs generated for the timing of generation.
        graphs: Graphs of the benchmark that steps are timed on.
        batch: Graphs per batch.
        nodes: Numbers of nodes for which the growth of a step is measured.
        molecules: Molecules taken from the built-in list.
    """

    rounds: int = 20
    generated: int = 30000
    graphs: int = 3000
    batch: int = 64
    nodes: tuple[int, ...] = (20, 50, 100, 200, 500)
    molecules: int = len(DRUGS)


FULL, QUICK = Scale(), Scale(rounds=5, generated=3000, nodes=(20, 50, 100))


def measure(scale: Scale = FULL) -> dict[str, float]:
    """Measure everything and return the values by name; each part is printed to the error stream when it is done."""
    torch.set_num_threads(1)
    keep_freed_memory()  # as in training
    results: dict[str, float] = {}
    for part in (generation, ratios, competitors, temperature_share, memory_ratio, node_scaling, molecule_rates):
        fresh = part(scale)
        results |= fresh
        print(*(f"  {name}: {value:.3g}" for name, value in fresh.items()), sep="\n", file=sys.stderr, flush=True)
    return results


# Clocks ---------------------------------------------------------------------------------------------------------------


def interleaved(rounds: int, *works: Callable[[], Any]) -> list[float]:
    """Return the median seconds of each piece of work, timed in turns after one warm-up each."""
    for work in works:
        work()
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, kept in zip(works, times, strict=True):
            start = time.perf_counter()
            work()
            kept.append(time.perf_counter() - start)
    return [statistics.median(kept) for kept in times]


class _Products(TorchDispatchMode):
    """Recorder of every matrix product that runs: its operator and its arguments."""

    NAMES = frozenset({"mm", "addmm", "bmm", "baddbmm"})

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.split("::")[1] in self.NAMES:
            self.calls.append((func, tree_map(_twin, args), tree_map(_twin, kwargs or {})))
        return func(*args, **(kwargs or {}))


def _twin(value: Any) -> Any:
    """Copy a tensor with its layout, detached from the step that made it; return other values unchanged."""
    return value.detach().clone(memory_format=torch.preserve_format) if isinstance(value, Tensor) else value


@contextmanager
def products_of(work: Callable[[], Any]) -> Iterator[Callable[[], None]]:
    """Record the matrix products of a piece of work, those of fused attention included, to run them again alone."""
    with sdpa_kernel(SDPBackend.MATH), _Products() as seen:
        work()

    def again() -> None:
        with torch.no_grad():
            for func, args, kwargs in seen.calls:
                func(*args, **kwargs)

    yield again
    seen.calls.clear()


# Subjects -------------------------------------------------------------------------------------------------------------


def fresh(
    bench: Benchmark, dataset: Mapping[str, Any], method: str = "goodformer", model: str | None = None, **changes: Any
) -> FittedModel:
    """Build a method with fresh weights as its default preset does for a data set; changes are model settings."""
    config = configure(dataset, method, model)
    settings = {**config.model, **changes}
    recipe = ModelFile(model=settings, method=config.method, features=bench.features, task=bench.task)
    torch.manual_seed(0)
    return FittedModel(recipe.build(), recipe)


def goodformer(bench: Benchmark, **model: Any) -> Method:
    """Build GOODFormer as the default preset does, in single precision, in which methods are trained."""
    return fresh(bench, BASIS, **model).method.float()


def graphgps(bench: Benchmark) -> Method:
    """Build GraphGPS with four layers (GOODFormer has 2 + 1 + 1) and GOODFormer's values for all shared settings."""
    settings = configure(BASIS).model
    shared = {key: settings[key] for key in ("dim", "heads", "dropout_rate", "norm", "aggregation", "inputs")}
    torch.manual_seed(0)
    return METHODS.build("erm", MODELS.build("gps", bench.features, layers=4, **shared), bench.task)


def trainer(method: Method, batches: Sequence[Batch], epoch: int = 0) -> Callable[[], None]:
    """Return a function that makes one optimiser step of an epoch on the next batch."""
    optimiser = torch.optim.Adam(method.parameters(), lr=1e-4, fused=True)
    endless = itertools.cycle(batches)

    def step() -> None:
        method.train()
        optimiser.zero_grad()
        torch.stack(list(method.loss(next(endless), epoch).values())).sum().backward()
        optimiser.step()

    return step


def predictor(method: Method, batches: Sequence[Batch]) -> Callable[[], None]:
    """Return a function that predicts the next batch."""
    endless = itertools.cycle(batches)

    def step() -> None:
        method.eval()
        with torch.inference_mode():
            method.predict(next(endless))

    return step


def _batches(graphs: GraphSet, size: int, count: int) -> list[Batch]:
    return [graphs.batch(list(range(k * size, (k + 1) * size))) for k in range(count)]


# Figures --------------------------------------------------------------------------------------------------------------


def generation(scale: Scale) -> dict[str, float]:
    """Time the generation of both domains, scaled to 30,000 graphs, and the encoding of one graph."""
    results = {}
    for domain, suffix in (("basis", ""), ("size", "_size")):
        with uncached():
            start = time.perf_counter()
            bench = load_benchmark("good-motif", domain=domain, graphs=scale.generated)
            made = time.perf_counter() - start
        encodings = goodformer(bench).encodings
        start = time.perf_counter()
        for part in bench.splits.values():
            for encoding in encodings:
                encode(encoding, part.structure())
        encoded = time.perf_counter() - start
        seconds, each = made * 30000 / scale.generated, 1000 * encoded / scale.generated
        results[f"generate_{domain}_seconds"] = seconds
        results[f"encode{suffix}_ms_per_graph"] = each
    return results


@contextmanager
def uncached() -> Iterator[None]:
    """Use an empty cache folder inside the block."""
    before = os.environ.get("GOODFORMER_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GOODFORMER_CACHE"] = folder
        try:
            yield
        finally:
            os.environ.pop("GOODFORMER_CACHE")
            os.environ.update({} if before is None else {"GOODFORMER_CACHE": before})


def ratios(scale: Scale) -> dict[str, float]:
    """Compare training and inference with GraphGPS, and a training step with its own matrix products."""
    bench, rounds = load_benchmark("good-motif", domain="basis", graphs=scale.graphs), scale.rounds
    ours, theirs = goodformer(bench), graphgps(bench)
    bench = bench.with_encodings(tuple(dict.fromkeys((*ours.encodings, *theirs.encodings))))
    batches = _batches(bench.splits["train"], scale.batch, 16)
    train_ours, train_theirs = interleaved(rounds, trainer(ours, batches), trainer(theirs, batches))
    infer_ours, infer_theirs = interleaved(rounds, predictor(ours, batches), predictor(theirs, batches))
    step, other = trainer(ours, batches[:1]), trainer(theirs, batches[:1])
    step()
    other()
    with products_of(step) as products, products_of(other) as their_products:
        whole, alone, their_alone = interleaved(rounds, step, products, their_products)
    return {
        "step_over_matmul": whole / alone,
        "train_over_graphgps": train_ours / train_theirs,
        "matmul_over_graphgps": alone / their_alone,
        "infer_over_graphgps": infer_ours / infer_theirs,
        "graphs_trained_per_second": scale.batch / train_ours,
        "graphs_predicted_per_second": scale.batch / infer_ours,
    }


def competitors(scale: Scale) -> dict[str, float]:
    """Compare the training time per graph of the paper's methods on GIN with that of ERM, each with its own batch size.

    The epoch is the second one: GIL's first knows no environments, and GREA and iMoLD train their main part.
    """
    bench = load_benchmark("good-motif", domain="basis", graphs=scale.graphs)
    train, steps, sizes = bench.splits["train"], [], []
    for name in ("erm", *page.COMPETITORS):
        method = fresh(bench, BASIS, name, "gin").method
        chosen = {id(parameter) for parameter in method.trainable(1)}
        for parameter in method.parameters():
            parameter.requires_grad_(parameter.requires_grad and id(parameter) in chosen)
        sizes.append(min(configure(BASIS, name, "gin").training.batch_size, len(train) // 2))
        steps.append(trainer(method, _batches(train, sizes[-1], 2), epoch=1))
    seconds = interleaved(max(scale.rounds // 2, 1), *steps)
    erm, *others = (time / size for time, size in zip(seconds, sizes, strict=True))
    return {f"epoch_over_erm_{name}": other / erm for name, other in zip(page.COMPETITORS, others, strict=True)}


def temperature_share(scale: Scale) -> dict[str, float]:
    """Measure the share of inference spent on the exact temperature at 150 nodes, after training on small graphs."""
    bench = load_benchmark("good-motif", domain="basis", graphs=scale.graphs)
    ours, without = goodformer(bench, temperature="exact"), goodformer(bench, temperature="none")
    bench = bench.with_encodings(ours.encodings)
    train = trainer(ours, _batches(bench.splits["train"], scale.batch, 16))
    for _ in range(16):
        train()
    without.load_state_dict(ours.state_dict())
    large = [ladders(150, 16, ours.encodings)]
    exact, plain = interleaved(scale.rounds, predictor(ours, large), predictor(without, large))
    return {"temperature_share_150": max(0.0, 1 - plain / exact)}


def ladders(nodes: int, count: int, encodings: Sequence[str]) -> Batch:
    """Return a batch of ladder graphs of about ``nodes`` nodes with the given encodings."""
    half = nodes // 2
    left = torch.arange(half)
    rails = torch.stack((left[:-1], left[1:]))
    one = torch.cat((rails, rails + half, torch.stack((left, left + half))), 1)
    one = torch.cat((one, one.flip(0)), 1)
    shift = torch.arange(count) * 2 * half
    batch = Batch(
        x=torch.ones(2 * half * count, 1),
        edge_index=(one[:, None] + shift[:, None]).flatten(1),
        batch=torch.arange(count).repeat_interleave(2 * half),
        ptr=torch.arange(count + 1) * 2 * half,
        y=torch.arange(count) % 3,
        env=torch.zeros(count, dtype=torch.long),
    )
    for text in encodings:
        batch[Encoding.parse(text).attribute] = encode(text, Structure(batch.edge_index, batch.ptr))
    return batch


def node_scaling(scale: Scale) -> dict[str, float]:
    """Time a training step per graph as graphs grow, and fit the exponent of a power law."""
    bench = load_benchmark("good-motif", domain="basis", graphs=scale.graphs)
    method, results, rounds = goodformer(bench), {}, max(scale.rounds // 4, 2)
    for n in scale.nodes:
        count = max(2, 1000 // n)
        (seconds,) = interleaved(rounds, trainer(method, [ladders(n, count, method.encodings)]))
        results[f"train_ms_per_graph_{n}_nodes"] = 1000 * seconds / count
    log_n = torch.tensor(scale.nodes, dtype=torch.double).log()
    log_t = torch.tensor(list(results.values()), dtype=torch.double).log()
    centred = log_n - log_n.mean()
    results["node_exponent"] = float((centred * log_t).sum() / centred.square().sum())
    return results


def molecule_rates(scale: Scale) -> dict[str, float]:
    """Measure molecules per second for every step from SMILES to explanation, GOODFormer and ERM on GIN-VN in turns."""
    smiles, rounds = DRUGS[: scale.molecules], max(scale.rounds // 2, 1)
    bench = molecules(smiles)
    hiv = {"name": "good-hiv"}
    rivals = fresh(bench, hiv), fresh(bench, hiv, "erm", "gin-vn")
    encodings = tuple(dict.fromkeys(text for one in rivals for text in one.method.encodings))
    batches = _batches(bench.with_encodings(encodings).splits["train"], scale.batch, len(smiles) // scale.batch)
    drugs = bench.splits["train"]
    some = drugs.subset(range(scale.batch))  # occlusion needs one pass per bond of a molecule
    trained = interleaved(rounds, *(trainer(deepcopy(one.method).float(), batches) for one in rivals))
    made, *predicted = interleaved(rounds, lambda: featurise(smiles), *(partial(one.predict, drugs) for one in rivals))
    explained = interleaved(max(rounds // 5, 1), *(partial(explain, one, some, measure=False) for one in rivals))
    rates = {"molecules_featurised_per_second": len(smiles) / made}
    for suffix, train, predict, why in zip(("", "_erm"), trained, predicted, explained, strict=True):
        rates[f"molecules_trained_per_second{suffix}"] = scale.batch / train
        rates[f"molecules_predicted_per_second{suffix}"] = len(drugs) / predict
        rates[f"molecules_explained_per_second{suffix}"] = len(some) / why
    return rates


def molecules(smiles: Sequence[str] = DRUGS) -> Benchmark:
    """Return drugs as a benchmark with arbitrary labels and environments, since nothing has to be learnt."""
    graphs = featurise(smiles).graphs
    number = torch.arange(len(graphs))
    marks = {"y": (number % 2).float()[:, None], "env": number % 4, "domain": number % 4}
    marked = GraphSet(graphs.node, graphs.edge, marks, graphs.node_ptr, graphs.edge_ptr)
    task = Task("binary", 1, "rocauc")
    return Benchmark("drugs", "none", "none", dict.fromkeys(SPLITS, marked), task, FEATURES, 4)


def bucket_gain(dataset: Mapping[str, Any], graphs: int = 3000, every: int = 6) -> dict[str, float]:
    """Time GOODFormer steps with buckets of similar size and padded to the largest graph, in processor seconds.

    Of the random batches of an epoch, one in ``every`` is timed, first one way, then the other. The result also holds
    the number of training graphs used and the nodes of the median and the largest one. `measure` leaves this out,
    because sizes differ much in real data only.
    """
    torch.set_num_threads(1)
    bench = load_benchmark(**dataset)
    fitted = fresh(bench, dataset)
    some = torch.randperm(len(bench.splits["train"]), generator=torch.Generator().manual_seed(0))[:graphs]
    method, ready = fitted.method.float(), fitted.prepare(bench.splits["train"].subset(some))
    ready = ready.in_precision(torch.float)
    seconds: dict[str, list[float]] = {"padded": [], "buckets": []}
    usual = layout.BUCKET_COST
    for indices in itertools.islice(EpochBatches(len(ready), configure(dataset).training.batch_size), 0, None, every):
        for name, cost in (("padded", sys.maxsize), ("buckets", usual)):
            layout.BUCKET_COST = cost
            try:
                step, start = trainer(method, [ready.batch(indices)]), time.process_time()
                step()
                seconds[name].append(time.process_time() - start)
            finally:
                layout.BUCKET_COST = usual
    padded, buckets = (statistics.mean(kept) for kept in seconds.values())
    sizes = {"graphs": len(ready), "median_nodes": int(ready.sizes.median()), "largest_nodes": int(ready.sizes.max())}
    return {**sizes, "step_padded": padded, "step_buckets": buckets, "padded_over_buckets": padded / buckets}


def product_gain(scale: Scale) -> dict[str, float]:
    """Time training steps with matrix products of OpenBLAS and of torch in turns, in processor milliseconds."""
    torch.set_num_threads(1)
    keep_freed_memory()
    if not openblas_is_faster():
        raise InputError("OpenBLAS is not faster than torch on this processor, or OPENBLAS_CORETYPE turns it off.")
    bench = load_benchmark("good-motif", domain="basis", graphs=scale.graphs)
    found: dict[str, float] = {}
    for title, (name, model) in page.MULTIPLIED.items():
        method = fresh(bench, BASIS, name, model).method.float()
        size = configure(BASIS, name, model).training.batch_size
        ready = bench.with_encodings(method.encodings).splits["train"]
        step = trainer(method, _batches(ready, size, 8), epoch=1)

        def quick(step: Callable[[], None] = step) -> None:
            with fast_products():
                step()

        alone, replaced = interleaved(scale.rounds, step, quick)
        found |= {f"{title}/torch": 1000 * alone, f"{title}/openblas": 1000 * replaced}
    return found


def memory_ratio(scale: Scale) -> dict[str, float]:
    """Compare the peak memory that a training step adds at batch 512 and at batch 64, each in its own process."""
    small, large = (step_memory(size) for size in (64, 512))
    return {"memory_512_over_64": large / small, "step_megabytes_64": small / 2**20}


def step_memory(size: int) -> float:
    """Return the bytes that training steps of a batch size add at their peak, measured in a new process."""
    code = f"from benchmarks.speed import print_step_memory; print_step_memory({size})"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def print_step_memory(size: int, graphs: int = 3000) -> None:
    """Print the bytes that training steps add to the memory of this process at their peak."""
    torch.set_num_threads(1)
    bench = load_benchmark("good-motif", domain="basis", graphs=graphs)
    method = goodformer(bench)
    train = bench.with_encodings(method.encodings).splits["train"]
    trainer(method, _batches(train, 2, 1))()  # load weights, optimiser state and libraries first
    step = trainer(method, _batches(train, size, 2))
    print(json.dumps(peak_rise(lambda: [step() for _ in range(3)])))


def peak_rise(work: Callable[[], Any]) -> int:
    """Return the bytes that a piece of work adds to this process at its peak, sampled every millisecond."""
    process, done = psutil.Process(), threading.Event()
    before = peak = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return peak - before


# Command line ---------------------------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    """Parse the command line, measure or read a record, and write what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and smaller data")
    parser.add_argument("--buckets", metavar="DATASET", help="only compare buckets with padding to the largest graph")
    parser.add_argument("--products", action="store_true", help="only compare OpenBLAS with the products of torch")
    parser.add_argument("--from", dest="source", type=Path, help="read this record instead of measuring")
    parser.add_argument("-o", "--out", type=Path, help="write the record to this JSON file")
    parser.add_argument("--page", type=Path, help="write the table between the markers of this page")
    given = parser.parse_args(words)
    try:
        if given.source:
            record = files.read_json(given.source)
        else:
            about: dict[str, Any] = {"quick": given.quick}
            if given.buckets:
                about["dataset"] = {"name": given.buckets}
                found = bucket_gain(about["dataset"], 600 if given.quick else 3000)
            elif given.products:
                about["products"] = True
                found = product_gain(QUICK if given.quick else FULL)
            else:
                found = measure(QUICK if given.quick else FULL)
            record = {
                **about,
                "commit": source_commit(),
                "versions": versions(),
                "machine": machine(),
                "figures": found,
            }
        if given.out:
            files.write_json(given.out, record)
        if given.page:
            page.write(record, given.page)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(page.table(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
