"""Kills, rivals, full disks and flipped bits: ``python -m lab.crash`` or ``make crash``.

Commands are killed at random moments and repeated; the result must equal that of a command that was never killed.
Several processes start on one output; disks are full; a flipped bit in a stored file is noticed or makes no difference.
The record counts all of it, with the seed. Processes are forked, so that slow imports are paid once. ``--minutes``
bounds the time: each part stops when its share is over, and the record says how much was done.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.fuzz import put

TRAIN = ["train", "good-motif", "--method", "erm", "--epochs", "3", "--quiet", "--json", "--set", "dataset.graphs=150"]
TRAIN += ["--set", "model.dim=16", "--runs", "runs"]
FIT = [
    "fit",
    "rows.csv",
    "-t",
    "y",
    "--split",
    "random",
    "--method",
    "erm",
    "--model",
    "gin",
    "--epochs",
    "3",
    "-o",
    "model",
]
FIT += ["--set", "model.dim=16", "--set", "training.batch_size=32", "--no-baseline", "--quiet"]
PREDICT = ["predict", "model", "many.csv", "-o", "answers.csv", "--quiet"]
COMPARE = ["compare", "--dataset", "good-motif", "--methods", "erm", "--seeds", "2", "--quiet", "-o", "table.json"]
COMPARE += ["--set", "dataset.graphs=150", "--set", "model.dim=16", "--set", "training.epochs=2"]
TUNE = ["tune", "rows.csv", "-t", "y", "--split", "random", "--method", "erm", "--model", "gin", "--epochs", "3"]
TUNE += ["--set", "model.dim=16", "--set", "training.batch_size=32", "--trials", "3", "-o", "tuned", "--quiet"]
TIMED = ("seconds", "memory", "rows_per_second", "commit", "continued")
"""Parts of the names of entries that no two runs share."""


def start(
    words: Sequence[str], folder: Path, prepare: Callable[[], None] | None = None, said: Path | None = None
) -> int:
    """Start a command in a forked process and return its number.

    Args:
        words: The command.
        folder: Where it runs.
        prepare: Called in the process before the command.
        said: File for its output; by default ``output.txt`` in the folder.
    """
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        os.setsid()  # so that a kill also reaches the processes that the command starts
        os.chdir(folder)
        null = os.open(said or "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(null, 1)
        os.dup2(null, 2)
        from goodformer import cli

        if prepare:
            prepare()
        code = cli.run(list(words))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(process: int) -> int:
    """Wait for a process and return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def state(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Return a digest of each result below a folder, without times."""
    found = {}
    for path in sorted(one for name in names for one in folder.glob(name)):
        content = path.read_bytes()
        if path.suffix == ".json":
            content = json.dumps(timeless(json.loads(content)), sort_keys=True).encode()
        found[str(path.relative_to(folder))] = hashlib.sha256(content).hexdigest()
    return found


def timeless(value: Any) -> Any:
    """Return JSON without entries that depend on time, place or machine."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key != "checksum" and not any(word in key for word in TIMED)}
        return {key: timeless(one) for key, one in kept.items()}
    return [timeless(one) for one in value] if isinstance(value, list) else value


RUN = ("best/*", "last/*", "summary.json", "predictions.npz")
SCENES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "train": (TRAIN, tuple(f"runs/*/{one}" for one in RUN)),
    "fit": (FIT, ("model/model.json", "model/*.safetensors", "model/sureness.json", "model/split.json")),
    "compare": (COMPARE, ("table.json", *(f"runs/*/{one}" for one in RUN))),
    "tune": (TUNE, ("tuned/search.json", "tuned/best.yaml", *(f"tuned/runs/*/{one}" for one in RUN))),
    "predict": (PREDICT, ("answers.csv",)),
    "parts": (["predict", "model", "many.csv", "-o", "answers", "--quiet"], ("answers/part-*",)),
    "report": (["report", "model", "-o", "page.html"], ("page.html",)),
    "explain": (["explain", "model", "few.csv", "-o", "reasons", "--count", "2", "--quiet"], ("reasons/*.csv",)),
    "split": (["split", "rows.csv", "-t", "y", "--by", "random", "-o", "split.json"], ("split.json",)),
}
"""Commands that write, and what they leave."""
KILLED = ("train", "fit", "compare", "tune", "predict", "parts", "report")
FITTED = ("predict", "parts", "report", "explain")
"""Commands that need a fitted model."""
Clock = Callable[[], bool]
"""Whether there is time left."""


def killed(name: str, kills: int, draw: random.Random, scratch: Path, base: Path, left: Clock) -> dict[str, int]:
    """Kill a command at random moments, repeat it, and compare all results."""
    words, names = SCENES[name]
    states = []
    for attempt in ("first", "whole"):  # the first one fills the caches
        whole = Path(shutil.copytree(base, scratch / f"{name}-{attempt}"))
        begin = time.monotonic()
        assert ended(start(words, whole)) == 0, (whole / "output.txt").read_text()
        states.append(state(whole, names))
    seconds, expected, counts = time.monotonic() - begin, states[1], {"kills": 0, "lost": 0, "different": 0}
    assert expected
    assert states[0] == expected, "the command does not repeat itself"
    while counts["kills"] < kills and left():
        place = Path(shutil.copytree(base, scratch / f"{name}-{counts['kills']}"))
        for _ in range(draw.choice((1, 1, 2))):  # sometimes the second attempt is killed, too
            process = start(words, place)
            time.sleep(draw.random() * seconds)
            try:
                os.killpg(process, signal.SIGKILL)
            except ProcessLookupError:  # it has not yet a group of its own
                os.kill(process, signal.SIGKILL)
            counts["kills"] += ended(process) == -signal.SIGKILL
        code = ended(start(words, place))
        counts["lost"] += code != 0
        if code == 0 and (found := state(place, names)) != expected:
            counts["different"] += 1
            print(name, "differs in", sorted(one for one in found | expected if found.get(one) != expected.get(one)))
        if code:
            print(name, (place / "output.txt").read_text()[-2000:])
        shutil.rmtree(place)
    return counts


def rivals(name: str, count: int, times: int, scratch: Path, base: Path, left: Clock) -> dict[str, int]:
    """Start several processes on one output: one must finish, none may fail otherwise than by refusal."""
    words, names = SCENES[name]
    whole = Path(shutil.copytree(base, scratch / f"rivals-{name}-{count}"))
    assert ended(start(words, whole)) == 0, (whole / "output.txt").read_text()
    expected, counts = state(whole, names), {"started": 0, "finished": 0, "refused": 0, "failed": 0, "different": 0}
    for number in range(times):
        if not left():
            break
        place = Path(shutil.copytree(base, scratch / f"rivals-{name}-{count}-{number}"))
        codes = [ended(process) for process in [start(words, place) for _ in range(count)]]
        counts["started"] += count
        counts["finished"] += codes.count(0)
        counts["refused"] += codes.count(2)
        counts["failed"] += sum(code not in (0, 2) for code in codes) + (0 not in codes)
        # Several processes share a search, whose trials then depend on their order.
        counts["different"] += name != "tune" and state(place, names) != expected
        if counts["failed"] or counts["different"]:
            print(name, (place / "output.txt").read_text()[-2000:])
        shutil.rmtree(place)
    return counts


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Mount a disk of so many bytes on a folder; yields whether that was possible, which takes root."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = (
        shutil.which("mount") is not None and subprocess.run(words, check=False, capture_output=True).returncode == 0
    )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def used(disk: Path) -> int:
    """Return the bytes that are taken of a disk."""
    facts = os.statvfs(disk)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


def full(name: str, sizes: int, scratch: Path, base: Path, left: Clock) -> dict[str, int]:
    """Run a command on disks that are too small by various amounts, then with room: no traceback, the same result.

    A disk has room for a share of what the command writes. Without the right to mount disks, nothing is done.
    """
    words, names = SCENES[name]
    counts = {"disks": 0, "ran out": 0, "tracebacks": 0, "lost": 0, "different": 0}
    for number in range(-1, sizes):  # the first disk has room for everything
        disk, said = scratch / f"disk-{name}-{number}", scratch / f"disk-{name}-{number}.txt"
        with small_disk(disk, 2**30) as mounted:
            if not mounted or not left():
                break
            place = Path(shutil.copytree(base, disk / "here"))
            taken = used(disk)
            if number < 0:
                assert ended(start(words, place, said=said)) == 0, said.read_text()
                expected, written = state(place, names), used(disk) - taken
                continue
            size = taken + int(number / sizes * written)
            subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)
            code = ended(start(words, place, said=said))
            counts["disks"] += 1
            counts["ran out"] += code != 0
            counts["tracebacks"] += "Traceback" in said.read_text() or code not in (0, 1, 2)
            subprocess.run(["mount", "-o", f"remount,size={2**30}", str(disk)], check=True)
            again = ended(start(words, place, said=said))
            counts["lost"] += again != 0
            different = again == 0 and state(place, names) != expected
            counts["different"] += different
            if "Traceback" in said.read_text() or again or different:
                print(name, number, code, again, said.read_text()[-2500:])
    return counts


def read_back(place: Path, scratch: Path) -> dict[Path, Callable[[], str]]:
    """Return every kind of file that is read back, in a folder where all commands have run, and what reads it."""
    from goodformer import registry
    from goodformer.apply.fit import OwnFile
    from goodformer.apply.parts import predict_parts
    from goodformer.apply.tune import Search, open_study, ranked
    from goodformer.data import load_benchmark
    from goodformer.data.splits.split import Split
    from goodformer.engine import parcel
    from goodformer.engine.predictions import read
    from goodformer.engine.store import Run
    from goodformer.engine.training import load_state
    from goodformer.fitted import FittedModel
    from goodformer.pages import EVIDENCE
    from goodformer.pages.evidence import load as load_evidence
    from goodformer.uncertainty.training_rows import TRAINING

    (folder,) = place.glob("runs/good-motif*")
    (folder / parcel.PARCEL).write_bytes(parcel.pack(folder) or b"")
    smiles, whole = ["CCO", "c1ccccc1", "CC(=O)N"], FittedModel.load(place / "model")
    given = tuple(f"{name}={value}" for name, value in (("model.dim", 16), ("training.batch_size", 32)))
    search = Search(
        OwnFile(Path("rows.csv"), ("y",), split="random"), "erm", "gin", overrides=(*given, "training.epochs=3")
    )

    def answers() -> str:
        model = FittedModel.load(place / "model")
        found = model.predict(smiles)  # type: ignore[arg-type]
        near = model.neighbours(smiles, 2)  # type: ignore[arg-type]
        return repr((found.probabilities.tolist(), found.classes.tolist(), model.classes, model.smiles, near))

    def stored() -> str:
        run = Run(folder)
        return repr((run.summary, run.epochs, run.config.id))

    def checkpoint() -> str:
        return repr(load_state(folder, Run(folder).config))

    def weights(which: str) -> str:
        return repr(FittedModel.of_run(Run(folder), which).method.state_dict())

    def predicted() -> str:
        summary = Run(folder).summary or {}
        return repr(read(folder / "predictions.npz", summary["predictions"]["sha256"]))

    def study() -> str:
        trials = ranked(open_study(search, place / "tuned" / "study.log")[0])
        return repr([(one.number, one.value, one.params) for one in trials])

    def parts() -> str:
        report = predict_parts(whole, place / "many.csv", place / "answers")
        return repr((report["rows"], report["unreadable"], report["outside"], state(place, SCENES["parts"][1])))

    def settled() -> str:
        other = Path(shutil.copytree(folder, scratch / "settled"))
        try:
            parcel.settle(other)
            return repr(state(other, RUN))
        finally:
            shutil.rmtree(other)

    def cached() -> str:
        both = (load_benchmark("good-motif", graphs=150), search.source.load().benchmark())
        sets = [one.splits["train"] for one in both]
        tensors = [{**one.node, **one.edge, **one.graph} for one in sets]
        return repr([(name, one[name].double().sum().item()) for one in tensors for name in sorted(one)])

    def catalogue() -> str:
        registry._catalogue.cache_clear()
        return repr(registry._catalogue())

    cache = Path(os.environ["GOODFORMER_CACHE"])
    model = ("model.json", "weights.safetensors", "sureness.json", "sureness.safetensors", TRAINING)
    return {
        **{place / "model" / name: answers for name in model},
        place / "model" / EVIDENCE: lambda: repr(load_evidence(place / "model")),
        place / "model" / "split.json": lambda: repr(vars(Split.load(place / "model" / "split.json"))),
        **{folder / name: stored for name in ("summary.json", "epochs.jsonl", "config.json")},
        folder / "last.ckpt": checkpoint,
        **{
            folder / which / name: lambda which=which: weights(which)  # type: ignore[misc]
            for which in ("best", "last")
            for name in ("model.json", "weights.safetensors")
        },
        folder / "predictions.npz": predicted,
        folder / parcel.PARCEL: settled,
        place / "tuned" / "study.log": study,
        **{place / "answers" / name: parts for name in ("prediction.json", "parts.jsonl")},
        **dict.fromkeys(sorted(cache.glob("*.safetensors")), cached),
        **dict.fromkeys(sorted(cache.glob("catalogue/*.json")), catalogue),
    }


def flipped(times: int, draw: random.Random, scratch: Path, base: Path, left: Clock) -> dict[str, int]:
    """Flip a bit in each file that is read back: it is refused or made again, or gives what it gave before."""
    import warnings

    from goodformer.errors import InputError

    place = Path(shutil.copytree(base, scratch / "flipped"))
    for words in (TRAIN, TUNE, SCENES["parts"][0]):
        assert ended(start(words, place)) == 0, (place / "output.txt").read_text()
    os.chdir(place)  # the search knows its table by a relative path
    counts = {"files": 0, "flips": 0, "refused": 0, "same": 0, "different": 0, "tracebacks": 0}
    warnings.simplefilter("ignore")  # a damaged cache says so and is made again
    for path, once in read_back(place, scratch).items():
        if not left():
            break
        content, expected = path.read_bytes(), once()
        counts["files"] += 1
        for _ in range(times):
            made = bytearray(content)
            made[draw.randrange(len(made))] ^= 1 << draw.randrange(8)
            path.write_bytes(made)
            counts["flips"] += 1
            try:
                same = once() == expected
                counts["same" if same else "different"] += 1
                if not same:
                    print("different:", path.name)
            except InputError:
                counts["refused"] += 1
            except Exception as error:  # a traceback for the user
                counts["tracebacks"] += 1
                print(path.name, repr(error)[:300])
        path.write_bytes(content)
    return counts


def main() -> int:  # noqa: PLR0915
    """Run all of it and write the record; the exit code is 1 if anything was lost or silently different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=8, help="Kills of each command.")
    parser.add_argument("--flips", type=int, default=20, help="Flipped bits per file.")
    parser.add_argument("--full", type=int, default=4, help="Sizes of too small disks per command.")
    parser.add_argument("--rivals", type=int, default=2, help="How often two and three processes start on one output.")
    parser.add_argument("--minutes", type=float, default=30.0, help="Start nothing new after this time.")
    parser.add_argument("--only", nargs="*", choices=("kills", "rivals", "full", "flips"), help="Only these parts.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, help="File of JSON to put the record into, under the key crash.")
    words = parser.parse_args()
    out = words.out and words.out.absolute()
    draw, record = random.Random(words.seed), {}
    until = time.monotonic() + 60 * words.minutes
    import lightning.fabric  # noqa: F401  imported once, before the processes are forked
    import optuna  # noqa: F401
    import torch

    import goodformer.apply.fit
    import goodformer.apply.predict
    import goodformer.engine.loop  # noqa: F401

    def left() -> bool:
        return time.monotonic() < until

    def wanted(part: str) -> bool:
        return left() and (not words.only or part in words.only)

    def note(key: str, counts: dict[str, int]) -> None:
        record[key] = counts
        print(key, counts, flush=True)

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        os.environ["GOODFORMER_CACHE"] = str(scratch / "cache")
        base = scratch / "base"
        base.mkdir()
        rows = [f"{'C' * (1 + n % 9)}{'ON'[n % 2]},{n % 2}" for n in range(120)]
        for name, some in (("rows", rows), ("many", rows * 25), ("few", rows[:8])):
            (base / f"{name}.csv").write_text("smiles,y\n" + "\n".join(some) + "\n")
        assert ended(start(FIT, base)) == 0, (base / "output.txt").read_text()
        fresh = Path(shutil.copytree(base, scratch / "fresh", ignore=shutil.ignore_patterns("model", "runs")))
        for name in KILLED:
            if wanted("kills"):
                kills = words.kills if name != "compare" else -(-words.kills // 2)
                note(f"kills: {name}", killed(name, kills, draw, scratch, base if name in FITTED else fresh, left))
        for name in ("train", "fit", "compare", "tune", "predict", "parts"):
            for count in (2, 3):
                if wanted("rivals"):
                    source = base if name in FITTED else fresh
                    note(f"{count} processes: {name}", rivals(name, count, words.rivals, scratch, source, left))
        for name in SCENES:
            if wanted("full"):
                note(f"full disk: {name}", full(name, words.full, scratch, base if name in FITTED else fresh, left))
        if wanted("flips"):
            here = Path.cwd()
            note("flipped bits", flipped(words.flips, draw, scratch, base, left))
            os.chdir(here)
    bad = sum(one.get(key, 0) for one in record.values() for key in ("lost", "different", "failed", "tracebacks"))
    print("wrong:", bad)
    if out:
        put(out, "crash", {"seed": words.seed, "wrong": bad, **record})
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
