"""How fast and how large: figures measured side by side in one run, as ratios wherever machines differ.

Every figure of a pair is timed in turns (one step of the one, one step of the other, and so on) and the medians are
divided, so that a busy machine slows both.
"""

from __future__ import annotations

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
from functools import partial
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch_geometric.data import Batch

from benchmarks.drugs import DRUGS
from goodformer.config.presets import configure
from goodformer.data import load_benchmark
from goodformer.data.benchmark import Benchmark
from goodformer.data.graphs import GraphSet
from goodformer.data.molecule import FEATURES, featurise
from goodformer.engine.batches import EpochBatches
from goodformer.engine.record import machine, source_commit, versions
from goodformer.engine.weights import ModelFile
from goodformer.explain.explanation import explain
from goodformer.fitted import FittedModel
from goodformer.methods import METHODS
from goodformer.methods.base import Method
from goodformer.models import MODELS
from goodformer.spec import SPLITS, Encoding, Task
from goodformer.transforms import encode

BASIS = {"name": "good-motif", "domain": "basis"}
NODES = (20, 50, 100, 200, 500)
PUBLISHED = {"basis": 30.0, "size": 48.0}
"""Seconds the published generator needs for the 30,000 graphs of each domain, alone.

As stated in the goals of this project, which name no machine; not measured here. So a speed-up over them tells the
order of magnitude and no more.
"""
PUBLISHED_ENCODING = 3.0
"""Milliseconds the published encodings need a graph; as stated in the same place, not measured here."""

GOALS: dict[str, tuple[str, str]] = {
    "step_over_matmul": ("training step / its matrix products alone", "<= 2"),
    "train_over_graphgps": ("training, GOODFormer / GraphGPS of equal depth and width", "<= 1.6"),
    "infer_over_graphgps": ("inference with exact temperature, GOODFormer / GraphGPS", "<= 1.8"),
    "temperature_share_150": ("share of inference spent on the temperature, 150 nodes", "<= 0.25"),
    "memory_512_over_64": ("peak memory of a step, batch 512 / batch 64", "<= 9"),
    "generate_basis_speedup": ("graphs and encodings of basis, published time / ours", ">= 5"),
    "generate_size_speedup": ("graphs and encodings of size, published time / ours", ">= 5"),
    "node_exponent": ("exponent of time a graph in its nodes, 20 to 500", ""),
    "generate_basis_seconds": ("30,000 graphs of GOOD-Motif basis, seconds", ""),
    "generate_size_seconds": ("30,000 graphs of GOOD-Motif size, seconds", ""),
    "encode_ms_per_graph": ("encodings that GOODFormer's default asks for, of a basis graph, ms", ""),
    "encode_size_ms_per_graph": ("encodings that GOODFormer's default asks for, of a size graph, ms", ""),
    "graphs_trained_per_second": ("GOODFormer, graphs trained a second", ""),
    "graphs_predicted_per_second": ("GOODFormer, graphs predicted and explained a second", ""),
    "step_megabytes_64": ("peak memory of a step of 64 graphs, MB", ""),
    "molecules_featurised_per_second": ("molecules made into graphs a second, one process", ""),
    "molecules_trained_per_second": ("GOODFormer, molecules trained a second", ""),
    "molecules_predicted_per_second": ("GOODFormer, molecules predicted a second, encodings included", ""),
    "molecules_explained_per_second": ("GOODFormer, molecules explained a second by its own scores", ""),
    "molecules_trained_per_second_erm": ("ERM on GIN-VN, molecules trained a second", ""),
    "molecules_predicted_per_second_erm": ("ERM on GIN-VN, molecules predicted a second", ""),
    "molecules_explained_per_second_erm": ("ERM on GIN-VN, molecules explained a second by occlusion", ""),
}


def run(quick: bool = False, progress: bool = True) -> dict[str, float]:
    """Measure everything; ``quick`` repeats less often and generates fewer graphs."""
    torch.set_num_threads(1)
    results: dict[str, float] = {}
    rounds = 5 if quick else 20
    parts: list[Callable[[], dict[str, float]]] = [
        lambda: generation(3000 if quick else 30000),
        lambda: ratios(rounds),
        lambda: temperature_share(rounds),
        memory_ratio,
        lambda: node_scaling(NODES[:3] if quick else NODES, max(rounds // 4, 2)),
        lambda: molecule_rates(rounds // 2),
    ]
    for part in parts:
        fresh = part()
        results.update(fresh)
        if progress:
            print(*(f"  {name}: {value:.3g}" for name, value in fresh.items()), sep="\n", file=sys.stderr, flush=True)
    return results


# ------------------------------------------------------------------------------------------ clocks


def interleaved(rounds: int, *works: Callable[[], Any]) -> list[float]:
    """Median seconds of each piece of work, timed in turns after one warm-up each."""
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
    """Notes every matrix product that runs: its operator and its arguments."""

    NAMES = frozenset({"mm", "addmm", "bmm", "baddbmm"})

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name.split("::")[1] in self.NAMES:
            self.calls.append((func, tree_map(_twin, args), tree_map(_twin, kwargs or {})))
        return func(*args, **(kwargs or {}))


def _twin(value: Any) -> Any:
    """A tensor of the same shape, layout and contents that the step no longer owns."""
    return value.detach().clone(memory_format=torch.preserve_format) if isinstance(value, Tensor) else value


@contextmanager
def products_of(work: Callable[[], Any]) -> Iterator[Callable[[], None]]:
    """The matrix products of a piece of work, to be run again alone; those inside fused attention count, too."""
    with sdpa_kernel(SDPBackend.MATH), _Products() as seen:
        work()

    def again() -> None:
        with torch.no_grad():
            for func, args, kwargs in seen.calls:
                func(*args, **kwargs)

    yield again
    seen.calls.clear()


# ------------------------------------------------------------------------------------------ subjects


def goodformer(bench: Benchmark, **model: Any) -> Method:
    """GOODFormer as the default preset builds it."""
    config = configure(BASIS)
    torch.manual_seed(0)
    settings = {key: value for key, value in config.model.items() if key != "name"} | model
    method = {key: value for key, value in config.method.items() if key != "name"}
    return METHODS.build("goodformer", MODELS.build("goodformer", bench.features, **settings), bench.task, **method)


def graphgps(bench: Benchmark) -> Method:
    """GraphGPS with four layers (GOODFormer has 2 + 1 + 1), all that the two share set alike."""
    settings = configure(BASIS).model
    shared = {key: settings[key] for key in ("dim", "heads", "dropout_rate", "norm", "aggregation", "inputs")}
    torch.manual_seed(0)
    return METHODS.build("erm", MODELS.build("gps", bench.features, layers=4, **shared), bench.task)


def trainer(method: Method, batches: Sequence[Batch]) -> Callable[[], None]:
    """One optimiser step on the next batch."""
    optimiser = torch.optim.Adam(method.parameters(), lr=1e-4, fused=True)
    endless = _cycle(batches)

    def step() -> None:
        method.train()
        optimiser.zero_grad()
        torch.stack(list(method.loss(next(endless), 0).values())).sum().backward()
        optimiser.step()

    return step


def predictor(method: Method, batches: Sequence[Batch]) -> Callable[[], None]:
    """One prediction of the next batch."""
    endless = _cycle(batches)

    def step() -> None:
        method.eval()
        with torch.inference_mode():
            method.predict(next(endless))

    return step


def _cycle(batches: Sequence[Batch]) -> Iterator[Batch]:
    while True:
        yield from batches


def _batches(graphs: GraphSet, size: int, count: int) -> list[Batch]:
    return [graphs.batch(list(range(k * size, (k + 1) * size))) for k in range(count)]


# ------------------------------------------------------------------------------------------ figures


def generation(graphs: int) -> dict[str, float]:
    """Seconds to make the graphs of both domains (scaled to 30,000) and milliseconds to encode one."""
    results = {}
    for domain in ("basis", "size"):
        with uncached():
            bench, made = timed(lambda: load_benchmark("good-motif", domain=domain, graphs=graphs))  # noqa: B023
        encodings = goodformer(bench).encodings
        _, encoded = timed(lambda: _encode(bench, encodings))  # noqa: B023
        seconds, each = made * 30000 / graphs, 1000 * encoded / graphs
        published = PUBLISHED[domain] + 30 * PUBLISHED_ENCODING
        results[f"generate_{domain}_seconds"] = seconds
        results["encode_ms_per_graph" if domain == "basis" else "encode_size_ms_per_graph"] = each
        results[f"generate_{domain}_speedup"] = published / (seconds + 30 * each)
    return results


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What a piece of work gives, and the seconds it took."""
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def _encode(bench: Benchmark, encodings: Sequence[str]) -> None:
    for part in bench.splits.values():
        for encoding in encodings:
            encode(encoding, part.edge_index, part.node_ptr)


@contextmanager
def uncached() -> Iterator[None]:
    """An empty cache folder for a while."""
    before = os.environ.get("GOODFORMER_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GOODFORMER_CACHE"] = folder
        try:
            yield
        finally:
            os.environ.pop("GOODFORMER_CACHE")
            os.environ.update({} if before is None else {"GOODFORMER_CACHE": before})


def ratios(rounds: int) -> dict[str, float]:
    """Training and inference against GraphGPS, and a training step against its own matrix products."""
    bench = load_benchmark("good-motif", domain="basis", graphs=3000)
    ours, theirs = goodformer(bench), graphgps(bench)
    bench = bench.with_encodings(tuple(dict.fromkeys((*ours.encodings, *theirs.encodings))))
    batches = _batches(bench.splits["train"], 64, 16)
    train_ours, train_theirs = interleaved(rounds, trainer(ours, batches), trainer(theirs, batches))
    infer_ours, infer_theirs = interleaved(rounds, predictor(ours, batches), predictor(theirs, batches))
    step = trainer(ours, batches[:1])
    step()
    with products_of(step) as products:
        whole, alone = interleaved(rounds, step, products)
    return {
        "step_over_matmul": whole / alone,
        "train_over_graphgps": train_ours / train_theirs,
        "infer_over_graphgps": infer_ours / infer_theirs,
        "graphs_trained_per_second": 64 / train_ours,
        "graphs_predicted_per_second": 64 / infer_ours,
    }


def temperature_share(rounds: int) -> dict[str, float]:
    """What part of inference at 150 nodes a graph goes into the exact temperature, after training on small graphs."""
    bench = load_benchmark("good-motif", domain="basis", graphs=3000)
    ours, without = goodformer(bench, temperature="exact"), goodformer(bench, temperature="none")
    bench = bench.with_encodings(ours.encodings)
    train = trainer(ours, _batches(bench.splits["train"], 64, 16))
    for _ in range(16):
        train()
    without.load_state_dict(ours.state_dict())
    large = [ladders(150, 16, ours.encodings)]
    exact, plain = interleaved(rounds, predictor(ours, large), predictor(without, large))
    return {"temperature_share_150": max(0.0, 1 - plain / exact)}


def ladders(nodes: int, count: int, encodings: Sequence[str]) -> Batch:
    """Ladder graphs of about ``nodes`` nodes with all the attributes a method wants."""
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
        batch[Encoding.parse(text).attribute] = encode(text, batch.edge_index, batch.ptr)
    return batch


def node_scaling(nodes: Sequence[int], rounds: int) -> dict[str, float]:
    """Seconds of a training step a graph as graphs grow, and the exponent of a power law through them."""
    bench = load_benchmark("good-motif", domain="basis", graphs=3000)
    method, results = goodformer(bench), {}
    for n in nodes:
        count = max(2, 1000 // n)
        (seconds,) = interleaved(rounds, trainer(method, [ladders(n, count, method.encodings)]))
        results[f"train_ms_per_graph_{n}_nodes"] = 1000 * seconds / count
    log_n = torch.tensor(list(nodes), dtype=torch.double).log()
    log_t = torch.tensor(list(results.values()), dtype=torch.double).log()
    centred = log_n - log_n.mean()
    results["node_exponent"] = float((centred * log_t).sum() / centred.square().sum())
    return results


def molecule_rates(rounds: int) -> dict[str, float]:
    """Molecules a second through every step of the way, for GOODFormer and, in turns with it, for ERM on GIN-VN."""
    bench = molecules()
    rivals = molecule_predictor("goodformer", None, bench), molecule_predictor("erm", "gin-vn", bench)
    encodings = tuple(dict.fromkeys(text for one in rivals for text in one.method.encodings))
    batches = _batches(bench.with_encodings(encodings).splits["train"], 64, len(DRUGS) // 64)
    drugs = bench.splits["train"]
    some = drugs.subset(range(64))  # occlusion takes as many passes as a molecule has bonds
    trained = interleaved(rounds, *(trainer(one.method, batches) for one in rivals))
    made, *predicted = interleaved(rounds, lambda: featurise(DRUGS), *(partial(one.predict, drugs) for one in rivals))
    explained = interleaved(max(rounds // 5, 1), *(partial(explain, one, some, measure=False) for one in rivals))
    rates = {"molecules_featurised_per_second": len(DRUGS) / made}
    for suffix, train, predict, why in zip(("", "_erm"), trained, predicted, explained, strict=True):
        rates[f"molecules_trained_per_second{suffix}"] = 64 / train
        rates[f"molecules_predicted_per_second{suffix}"] = len(drugs) / predict
        rates[f"molecules_explained_per_second{suffix}"] = len(some) / why
    return rates


def molecules() -> Benchmark:
    """The built-in drugs as a benchmark; labels and environments are made up, since nothing is to be learnt."""
    graphs = featurise(DRUGS).graphs
    number = torch.arange(len(graphs))
    marks = {"y": (number % 2).float()[:, None], "env": number % 4, "domain": number % 4}
    marked = GraphSet(graphs.node, graphs.edge, marks, graphs.node_ptr, graphs.edge_ptr)
    task = Task("binary", 1, "rocauc")
    return Benchmark("drugs", "none", "none", dict.fromkeys(SPLITS, marked), task, FEATURES, 4)


def molecule_predictor(method: str, model: str | None, bench: Benchmark) -> FittedModel:
    """A method with fresh weights, built as the default preset builds it for molecules."""
    config = configure({"name": "good-hiv"}, method, model)
    recipe = ModelFile(model=config.model, method=config.method, features=bench.features, task=bench.task)
    torch.manual_seed(0)
    return FittedModel(recipe.build(), recipe)


def batch_orders(dataset: Mapping[str, Any], graphs: int = 3000, every: int = 6) -> dict[str, float]:
    """Processor seconds of a GOODFormer step on some training graphs, in batches of any sizes and of like sizes.

    Beside them stand how many graphs there were, and the nodes of the median and of the largest one.

    Steps are timed in turns. Batches of like sizes differ much among each other, so all of an epoch are timed; of the
    others, which do not, one in ``every``. No part of `run`, for sizes differ much in real data only.
    """
    torch.set_num_threads(1)
    config, bench = configure(dataset, "goodformer"), load_benchmark(**dataset)
    recipe = ModelFile(model=config.model, method=config.method, features=bench.features, task=bench.task)
    torch.manual_seed(0)
    method = recipe.build()
    some = torch.randperm(len(bench.splits["train"]), generator=torch.Generator().manual_seed(0))[:graphs]
    ready = FittedModel(method, recipe).prepare(bench.splits["train"].subset(some))
    orders = [EpochBatches(len(ready), config.training.batch_size, sizes=sizes) for sizes in (None, ready.sizes)]
    seconds: list[list[float]] = [[], []]
    for number, batches in enumerate(zip(*orders, strict=True)):
        for kept, indices in zip(seconds, batches, strict=True):
            if kept is seconds[1] or number % every == 0:
                start = time.process_time()
                trainer(method, [ready.batch(indices)])()
                kept.append(time.process_time() - start)
    random, by_size = map(statistics.mean, seconds)
    sizes = {"graphs": len(ready), "median_nodes": int(ready.sizes.median()), "largest_nodes": int(ready.sizes.max())}
    return {**sizes, "step_random": random, "step_by_size": by_size, "random_over_by_size": random / by_size}


def memory_ratio() -> dict[str, float]:
    """Peak memory a training step adds, batch 512 over batch 64, each in a process of its own."""
    small, large = (_step_memory(size) for size in (64, 512))
    return {"memory_512_over_64": large / small, "step_megabytes_64": small / 2**20}


def _step_memory(size: int) -> float:
    code = f"from benchmarks.speed import print_step_memory; print_step_memory({size})"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def print_step_memory(size: int) -> None:
    """Print the bytes by which training steps raise the memory of this process at their peak."""
    torch.set_num_threads(1)
    bench = load_benchmark("good-motif", domain="basis", graphs=3000)
    method = goodformer(bench)
    graphs = bench.with_encodings(method.encodings).splits["train"]
    trainer(method, _batches(graphs, 2, 1))()  # weights, optimiser state and libraries are there before
    step = trainer(method, _batches(graphs, size, 2))
    print(json.dumps(peak_rise(lambda: [step() for _ in range(3)])))


def peak_rise(work: Callable[[], Any]) -> int:
    """Bytes by which a piece of work raises the memory of this process at its peak, looked at every millisecond."""
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


# ------------------------------------------------------------------------------------------ records and tables


def record(figures: Mapping[str, float], **about: Any) -> dict[str, Any]:
    """Figures with what they were measured with and on, as they are kept in ``benchmarks/``."""
    return {
        **about,
        "commit": source_commit(),
        "versions": versions(),
        "machine": machine(),
        "figures": dict(figures),
    }


def table(made: Mapping[str, Any]) -> str:
    """The figures as a Markdown table with the goals beside them and the machine below."""
    results = made["figures"]
    lines = ["| figure | measured | goal | |", "|---|---|---|---|"]
    for name, (text, goal) in GOALS.items():
        if name in results:
            lines.append(f"| {text} | {results[name]:.3g} | {goal} | {verdict(results[name], goal)} |")
    for name, value in results.items():
        if name.startswith("train_ms_per_graph_"):
            lines.append(f"| training step a graph of {name.split('_')[4]} nodes, ms | {value:.3g} | | |")
    return "\n".join([*lines, "", origin(made)])


def batches_table(made: Mapping[str, Any]) -> str:
    """What `batch_orders` found as a Markdown table with the machine below."""
    found, settings = made["figures"], dict(made["dataset"])
    name = " ".join([settings.pop("name"), *(f"{key}={value}" for key, value in settings.items())])
    sizes = f"{found['graphs']:,} | {found['median_nodes']} | {found['largest_nodes']}"
    steps = f"{found['step_random']:.2f} | {found['step_by_size']:.2f} | {found['random_over_by_size']:.1f}"
    return "\n".join(
        [
            "| data | training graphs | median nodes | most nodes | step, random, s | step, by size, s | ratio |",
            "|---|---|---|---|---|---|---|",
            f"| {name} | {sizes} | {steps} |",
            "",
            origin(made),
        ]
    )


def verdict(value: float, goal: str) -> str:
    """Whether a figure keeps its goal, such as ``<= 2``; empty where there is none."""
    if not goal:
        return ""
    sign, bound = goal.split()
    return "met" if (value <= float(bound) if sign == "<=" else value >= float(bound)) else "missed"


def origin(made: Mapping[str, Any]) -> str:
    """What figures were measured on and with, without naming the host."""
    used, place = made["versions"], made["machine"]
    return (
        f"One thread of {place['processor']}, {place['platform']}; Python {used['python']}, torch {used['torch']}, "
        f"goodformer {used['goodformer']} at commit {made['commit'] or 'unknown'}."
    )
