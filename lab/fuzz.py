"""Random and damaged input for everything that reads a file: ``python -m lab.fuzz`` or ``make fuzz``.

Every input is read as a user's file or a stored one would be. It must end in a result or in one sentence
(`InputError`), within `SECONDS`; any other error is shrunk by Hypothesis and its smallest input is saved. The record
counts inputs, refusals and the peak memory, with the seed.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from goodformer import files
from goodformer.errors import InputError

SECONDS = 10
"""Longest time that one input may take."""
Read = Callable[[Path], object]
Kind = tuple[str, st.SearchStrategy[Any], Read]
"""The name of the file, the strategy of its content (bytes, or bytes by name for a folder), and what reads it."""

ODD = st.sampled_from(
    ["", "nan", "-1", "0", "1e400", "1" * 400, "[" * 3000, "\\ud800", "null", "{}", "$x_{$", "\0", "\ufeff", '"', "\r"]
)
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**7, 10**12, 10**20]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
PAIRS = st.lists(st.lists(st.integers(0, 6), min_size=2, max_size=2), max_size=5)
EDGES = st.lists(st.lists(st.integers(-1, 6) | VALUE, min_size=1, max_size=3), max_size=5)
GRAPH = st.dictionaries(st.sampled_from(["num_nodes", "x", "edge_attr", "label", "edgs"]), VALUE, max_size=3)
WHOLE = st.builds(lambda edges, more: {"edges": edges, **more}, PAIRS | PAIRS | EDGES | VALUE, GRAPH | st.just({}))
GRAPHS = st.lists(WHOLE | WHOLE | VALUE, min_size=1, max_size=4)
SMILES = st.text("CNOPSFIclnos()[]=#+-@/\\.%0123456789*:H ", max_size=40)
NUMBERS = st.lists(
    st.sampled_from(["1", "2", "1.5", "-1", "1000000000", "x", "1,2", "2,1", "", "nan", "\xff"]), max_size=6
)


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    """Return valid content with a few changes: flipped bits, cuts, repeats and odd words."""
    place = st.integers(0, max(len(content) - 1, 0))
    flip = st.tuples(st.just("flip"), place, st.integers(0, 7))
    cut = st.tuples(st.just("cut"), place, st.integers(1, 200))
    word = st.tuples(st.just("word"), place, ODD | st.text(max_size=4))

    def changed(changes: list[tuple[str, int, Any]]) -> bytes:
        made = bytearray(content)
        for kind, at, what in changes:
            if kind == "flip" and at < len(made):
                made[at] ^= 1 << what
            elif kind == "cut":
                del made[at : at + what]
            elif kind == "word":
                made[at : at + len(what)] = str(what).encode("utf-8", "replace")
        return bytes(made)

    return st.lists(flip | cut | word, min_size=1, max_size=4).map(changed)


def edited(value: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Return a JSON object without its checksum, one of its entries, at any depth, replaced."""
    paths: list[list[Any]] = []

    def walk(inner: Any, path: list[Any]) -> None:
        items = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        for key, one in items:
            paths.append([*path, key])
            walk(one, [*path, key])

    plain = files.unsealed(value, "the object")
    walk(plain, [])

    def replaced(path: list[Any], other: Any) -> bytes:
        made = json.loads(json.dumps(plain))
        inner = made
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = other
        return json.dumps(made).encode()

    return st.builds(replaced, st.sampled_from(paths), VALUE)


def kinds(scratch: Path) -> dict[str, Kind]:
    """Return every kind of input; valid examples to damage are made in ``scratch``."""
    import openpyxl  # type: ignore[import-untyped]
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    from goodformer.config.run import Hardware, RunConfig
    from goodformer.data.molecule import featurise
    from goodformer.data.readers.rows import read_collection, reading_notes
    from goodformer.data.splits.split import Split
    from goodformer.engine.run import train
    from goodformer.engine.store import EPOCHS, STATE, SUMMARY, Run
    from goodformer.engine.training import load_state
    from goodformer.fitted import FittedModel
    from goodformer.report.records import read_records

    config = RunConfig(
        dataset={"name": "good-motif", "graphs": 100},
        model={"name": "gin", "dim": 8, "layers": 1},
        method="erm",
        training={"epochs": 1},
    )
    run = train(config, scratch / "runs", Hardware(progress=False))
    model = FittedModel.of_run(run).save(scratch / "model")
    pq.write_table(pa.table({"smiles": ["CC", "CO"], "y": [1, 2]}), scratch / "a.parquet")
    book = openpyxl.Workbook()
    book.active.append(["smiles", "y"])
    book.active.append(["CC", 1])
    book.save(scratch / "a.xlsx")
    block = "\n  x\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0000    0.0000    0.0000 C   0  0\nM  END\n"
    sdf = f"{block}> <y>\n1\n\n$$$$\n{block}$$$$\n".encode()
    table = b'smiles,name,y\nCC,"a, b",1\nc1ccccc1,,0\n'
    yaml = config.to_yaml().encode()

    def table_of(path: Path) -> object:
        return read_collection(path), reading_notes(path)

    def weights_in(path: Path) -> object:
        for name in ("model.json", "weights.safetensors"):
            if not (path / name).exists():
                shutil.copy(model / name, path / name)
        return FittedModel.load(path)

    def run_in(path: Path) -> object:
        opened = Run(path)
        return opened.summary, opened.epochs

    def one(name: str, content: st.SearchStrategy[bytes]) -> st.SearchStrategy[dict[str, bytes]]:
        return content.map(lambda made: {name: made})

    def text(some: st.SearchStrategy[list[str]]) -> st.SearchStrategy[bytes]:
        return some.map(lambda lines: "\n".join(lines).encode("latin-1"))

    folder = {"A": "1, 2\n2, 1\n3, 4\n", "graph_indicator": "1\n1\n2\n2\n", "graph_labels": "0\n1\n"}
    folder |= {"node_labels": "0\n1\n2\n0\n", "node_attributes": "0.5\n1.5\n0\n1\n", "edge_labels": "0\n1\n1\n"}
    needed = {
        f"D_{name}.txt": st.just(lines.encode()) | damaged(lines.encode()) | text(NUMBERS)
        for name, lines in folder.items()
    }
    first = ("D_A.txt", "D_graph_indicator.txt")
    tu = st.fixed_dictionaries(
        {name: needed.pop(name) for name in first},
        optional=needed,
    )
    described = json.loads((model / "model.json").read_text())
    summary = json.loads((run.folder / SUMMARY).read_text())
    epochs = json.loads((run.folder / EPOCHS).read_text())  # one line
    return {
        "csv": ("a.csv", damaged(table) | st.binary(max_size=60), table_of),
        "smi": ("a.smi", SMILES.map(str.encode) | st.binary(max_size=60), table_of),
        "smiles": ("a.txt", SMILES.map(str.encode), lambda path: featurise([path.read_text()])),
        "json": ("a.jsonl", GRAPHS.map(lambda some: "\n".join(map(json.dumps, some)).encode()), table_of),
        "json-text": ("a.jsonl", damaged(b'{"edges": [[0, 1]], "x": [[1], [2]], "y": "a"}\n' * 2), table_of),
        "tu": ("tu", tu, read_collection),
        "sdf": ("a.sdf", damaged(sdf), table_of),
        "parquet": ("a.parquet", damaged((scratch / "a.parquet").read_bytes()), table_of),
        "xlsx": ("a.xlsx", damaged((scratch / "a.xlsx").read_bytes()), table_of),
        "yaml": ("a.yaml", damaged(yaml) | VALUE.map(lambda value: json.dumps(value).encode()), RunConfig.from_yaml),
        "split": ("a.json", VALUE.map(lambda value: json.dumps(value).encode()), Split.load),
        "model": (
            "model",
            one("model.json", edited(described) | damaged((model / "model.json").read_bytes())),
            weights_in,
        ),
        "weights": (
            "model",
            one("weights.safetensors", damaged((model / "weights.safetensors").read_bytes())),
            weights_in,
        ),
        "checkpoint": (
            "run",
            one(STATE, damaged((run.folder / STATE).read_bytes())),
            lambda path: load_state(path, config),
        ),
        "summary": ("run", one(SUMMARY, edited(summary)), run_in),
        "epochs": ("run", one(EPOCHS, edited(epochs)), run_in),
        "records": ("a.jsonl", edited(summary), read_records),
    }


@contextmanager
def in_time() -> Iterator[None]:
    """Raise an error after `SECONDS`."""

    def late(number: int, frame: Any) -> None:
        raise TimeoutError(f"longer than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fuzz(name: str, kind: Kind, number: int, inputs: int, scratch: Path, until: float) -> tuple[Counter[str], str]:
    """Read up to ``inputs`` inputs of one kind; return counts, and the first unexpected error or an empty text."""
    file, contents, read = kind
    counts: Counter[str] = Counter()
    place = scratch / "input" / file

    @seed(number)
    @settings(
        max_examples=inputs,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
    )
    @given(contents)
    def check(content: Any) -> None:
        if time.monotonic() > until:
            return
        shutil.rmtree(place.parent, ignore_errors=True)
        place.parent.mkdir()
        for path, part in (
            [(place, content)]
            if isinstance(content, bytes)
            else [(place / key, value) for key, value in content.items()]
        ):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(part)
        counts["inputs"] += 1
        with in_time():
            try:
                read(place)
            except InputError as error:
                counts["refused"] += 1
                if "\n" in str(error).strip():
                    raise ValueError("a refusal of more than one line") from error

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check()
    except Exception as error:  # everything that is no InputError is a finding
        return counts, f"{type(error).__name__}: {str(error)[:300]}"
    return counts, ""


def main() -> int:
    """Fuzz every kind and write the record; the exit code is 1 if something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=600, help="Inputs of each kind.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=8.0, help="Stop after this time.")
    parser.add_argument("--kinds", nargs="*", help="Only these kinds.")
    parser.add_argument(
        "-o", "--out", type=Path, help="File of JSON to put the record into, under the key fuzz and its seed."
    )
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"), help="Folder for inputs that failed.")
    words = parser.parse_args()
    until, found = time.monotonic() + 60 * words.minutes, 0
    record: dict[str, dict[str, Any]] = {}
    stderr = sys.stderr
    with tempfile.TemporaryDirectory() as scratch:
        known = kinds(Path(scratch))
        chosen = words.kinds or list(known)
        for number, name in enumerate(chosen):
            share = time.monotonic() + (until - time.monotonic()) / (len(chosen) - number)
            sys.stderr = io.StringIO()  # openpyxl and RDKit talk
            counts, failure = fuzz(name, known[name], words.seed, words.inputs, Path(scratch), share)
            sys.stderr = stderr
            record[name] = {**counts, **({"failure": failure} if failure else {})}
            print(name, record[name], flush=True)
            if failure:
                found += 1
                shutil.rmtree(words.found / name, ignore_errors=True)
                shutil.copytree(Path(scratch) / "input", words.found / name)
    peak = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    total = sum(int(str(one.get("inputs", 0))) for one in record.values())
    whole = {
        "seed": words.seed,
        "inputs": total,
        "found": found,
        "peak_mb": peak,
        "seconds_allowed": SECONDS,
        "kinds": record,
    }
    print({key: value for key, value in whole.items() if key != "kinds"})
    if words.out:
        put(words.out, f"fuzz, seed {words.seed}", whole)
    return 1 if found else 0


def put(path: Path, key: str, value: dict[str, Any]) -> None:
    """Replace one entry of a JSON file."""
    files.write_json(path, {**(files.read_json(path) if path.exists() else {}), key: value})


if __name__ == "__main__":
    sys.exit(main())
