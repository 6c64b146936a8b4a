"""Kills, rivals, full disks and flipped bits: ``python -m lab.crash`` or ``make crash``.

Commands are killed at random moments and repeated; the result must equal that of a command that was never killed.
Several processes start on one run; disks are full; a flipped bit in a stored file is noticed or makes no difference.
The record counts all of it, with the seed. Processes are forked, so that slow imports are paid once.
"""

from __future__ import annotations

import argparse
import errno
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
COMPARE = ["compare", "--dataset", "good-motif", "--methods", "erm", "--seeds", "1", "--quiet"]
COMPARE += ["--set", "dataset.graphs=150", "--set", "training.epochs=1"]
TIMED = ("seconds", "memory", "rows_per_second", "commit", "continued")
"""Parts of the names of entries that no two runs share."""


def start(words: Sequence[str], folder: Path, prepare: Callable[[], None] | None = None) -> int:
    """Start a command in a forked process and return its number."""
    process = os.fork()
    if process:
        return process
    code = 70
    try:
        os.chdir(folder)
        null = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
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


SCENES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "train": (TRAIN, ("runs/*/best/*", "runs/*/last/*", "runs/*/summary.json", "runs/*/predictions.npz")),
    "fit": (FIT, ("model/model.json", "model/*.safetensors", "model/sureness.json", "model/split.json")),
    "predict": (PREDICT, ("answers.csv",)),
}
"""Commands that are killed, and what they leave."""


def killed(name: str, kills: int, draw: random.Random, scratch: Path, base: Path) -> dict[str, int]:
    """Kill a command at random moments, repeat it, and compare the results."""
    words, names = SCENES[name]
    for attempt in ("first", "whole"):  # the first one fills the caches
        whole = Path(shutil.copytree(base, scratch / f"{name}-{attempt}"))
        begin = time.monotonic()
        assert ended(start(words, whole)) == 0, (whole / "output.txt").read_text()
    seconds, expected, counts = time.monotonic() - begin, state(whole, names), {"kills": 0, "lost": 0, "different": 0}
    assert expected
    while counts["kills"] < kills:
        place = Path(shutil.copytree(base, scratch / f"{name}-{counts['kills']}"))
        for _ in range(draw.choice((1, 1, 2))):  # sometimes the second attempt is killed, too
            process = start(words, place)
            time.sleep(draw.random() * seconds)
            os.kill(process, signal.SIGKILL)
            counts["kills"] += ended(process) == -signal.SIGKILL
        code = ended(start(words, place))
        counts["lost"] += code != 0
        counts["different"] += code == 0 and state(place, names) != expected
        if code:
            print(name, (place / "output.txt").read_text()[-2000:])
        shutil.rmtree(place)
    return counts


def compared(kills: int, draw: random.Random, scratch: Path, base: Path) -> dict[str, int]:
    """Kill ``compare``, which starts processes of its own, with its whole group; then repeat it."""
    counts = {"kills": 0, "lost": 0}
    for number in range(kills):
        place = Path(shutil.copytree(base, scratch / f"compare-{number}"))
        command = [sys.executable, "-m", "goodformer", *COMPARE]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": place}
        process = subprocess.Popen(command, start_new_session=True, **quiet)  # type: ignore[call-overload]
        time.sleep(5 + 20 * draw.random())
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        counts["kills"] += 1
        counts["lost"] += subprocess.run(command, check=False, **quiet).returncode != 0  # type: ignore[call-overload]
        shutil.rmtree(place)
    return counts


def rivals(count: int, times: int, scratch: Path, base: Path) -> dict[str, int]:
    """Start several processes on one new run: at least one must finish, none may fail otherwise than by refusal."""
    counts = {"started": 0, "finished": 0, "refused": 0, "failed": 0}
    for number in range(times):
        place = Path(shutil.copytree(base, scratch / f"rivals-{count}-{number}"))
        codes = [ended(process) for process in [start(TRAIN, place) for _ in range(count)]]
        done = len(list(place.glob("runs/good-motif*/summary.json")))
        counts["started"] += count
        counts["finished"] += codes.count(0)
        counts["refused"] += codes.count(2)
        counts["failed"] += sum(code not in (0, 2) for code in codes) + (done != 1)
        shutil.rmtree(place)
    return counts


@contextmanager
def small_disk(folder: Path, megabytes: float) -> Iterator[bool]:
    """Mount a small disk on a folder; yields whether that was possible, which takes root."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={int(megabytes * 1024)}k", "tmpfs", str(folder)]
    mounted = (
        shutil.which("mount") is not None and subprocess.run(words, check=False, capture_output=True).returncode == 0
    )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


def full(times: int, draw: random.Random, scratch: Path, base: Path) -> dict[str, int]:
    """Run commands while the disk is full, then with room: no traceback, and the same result as ever."""
    counts = {"runs": 0, "refused": 0, "tracebacks": 0, "lost": 0, "different": 0}
    for name, (words, names) in SCENES.items():
        whole = Path(shutil.copytree(base, scratch / f"full-{name}-whole"))
        assert ended(start(words, whole)) == 0
        expected = state(whole, names)
        for number in range(times):
            place = Path(shutil.copytree(base, scratch / f"full-{name}-{number}"))
            left = draw.randrange(1, 60)

            def fill(left: int = left) -> None:
                sync = os.fsync

                def limited(descriptor: int) -> None:
                    nonlocal left
                    left -= 1
                    if left < 0:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    sync(descriptor)

                os.fsync = limited  # type: ignore[assignment]

            code = ended(start(words, place, fill))
            counts["runs"] += 1
            counts["refused"] += code == 2
            counts["tracebacks"] += "Traceback" in (place / "output.txt").read_text()
            again = ended(start(words, place))
            counts["lost"] += again != 0
            counts["different"] += again == 0 and state(place, names) != expected
            shutil.rmtree(place)
    with small_disk(scratch / "disk", 0.3) as mounted:
        if mounted:
            place = Path(shutil.copytree(base, scratch / "disk" / "here", ignore=shutil.ignore_patterns("model")))
            code = ended(start(TRAIN, place))
            counts["runs"] += 1
            counts["refused"] += code == 2
            counts["tracebacks"] += code not in (0, 2)
    return counts


def flipped(times: int, draw: random.Random, scratch: Path, base: Path) -> dict[str, int]:
    """Flip a bit in each stored file: reading it is refused, or gives what it gave before."""
    from goodformer.engine.store import Run
    from goodformer.engine.training import load_state
    from goodformer.errors import InputError
    from goodformer.fitted import FittedModel

    place = Path(shutil.copytree(base, scratch / "flipped"))
    assert ended(start(TRAIN, place)) == 0
    (folder,) = place.glob("runs/good-motif*")
    smiles = ["CCO", "c1ccccc1", "CC(=O)N"]

    def answers() -> str:
        model = FittedModel.load(place / "model")
        found = model.predict(smiles)  # type: ignore[arg-type]
        return repr((found.probabilities.tolist(), found.classes.tolist(), model.classes, model.smiles))

    def stored() -> str:
        run = Run(folder)
        return repr((run.summary, run.epochs, run.config.id))

    def checkpoint() -> str:
        return repr(load_state(folder, Run(folder).config))

    def weights() -> str:
        return repr(FittedModel.of_run(Run(folder)).method.state_dict())

    reads: dict[Path, Callable[[], str]] = {
        **{
            place / "model" / name: answers
            for name in ("model.json", "weights.safetensors", "sureness.json", "sureness.safetensors")
        },
        **{folder / name: stored for name in ("summary.json", "epochs.jsonl", "config.json")},
        folder / "last.ckpt": checkpoint,
        folder / "best" / "model.json": weights,
        folder / "best" / "weights.safetensors": weights,
    }
    counts = {"files": len(reads), "flips": 0, "refused": 0, "same": 0, "different": 0, "tracebacks": 0}
    for path, read in reads.items():
        content, expected = path.read_bytes(), read()
        for _ in range(times):
            made = bytearray(content)
            made[draw.randrange(len(made))] ^= 1 << draw.randrange(8)
            path.write_bytes(made)
            counts["flips"] += 1
            try:
                same = read() == expected
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


def main() -> int:
    """Run all of it and write the record; the exit code is 1 if anything was lost or silently different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=16, help="Kills of each of train, fit and predict.")
    parser.add_argument("--compare", type=int, default=2, help="Kills of compare.")
    parser.add_argument("--flips", type=int, default=20, help="Flipped bits per file.")
    parser.add_argument("--full", type=int, default=4, help="Full disks per command.")
    parser.add_argument("--rivals", type=int, default=3, help="How often two, and three, processes start on one run.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, help="File of JSON to put the record into, under the key crash.")
    words = parser.parse_args()
    draw, record = random.Random(words.seed), {}
    import lightning.fabric  # noqa: F401  imported once, before the processes are forked
    import torch

    import goodformer.apply.fit
    import goodformer.apply.predict
    import goodformer.engine.loop  # noqa: F401

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["GOODFORMER_CACHE"] = str(Path(scratch) / "cache")
        base = Path(scratch) / "base"
        base.mkdir()
        rows = [f"{'C' * (1 + n % 9)}{'ON'[n % 2]},{n % 2}" for n in range(120)]
        (base / "rows.csv").write_text("smiles,y\n" + "\n".join(rows) + "\n")
        (base / "many.csv").write_text("smiles,y\n" + "\n".join(rows * 25) + "\n")
        assert ended(start(FIT, base)) == 0, (base / "output.txt").read_text()
        fresh = Path(shutil.copytree(base, Path(scratch) / "fresh", ignore=shutil.ignore_patterns("model", "runs")))
        for name in SCENES:
            record[name] = killed(name, words.kills, draw, Path(scratch), base if name == "predict" else fresh)
            print(name, record[name], flush=True)
        record["compare"] = compared(words.compare, draw, Path(scratch), fresh)
        for count in (2, 3):
            record[f"{count} processes"] = rivals(count, words.rivals, Path(scratch), fresh)
        record["full disk"] = full(words.full, draw, Path(scratch), base)
        record["flipped bits"] = flipped(words.flips, draw, Path(scratch), base)
    bad = sum(one.get(key, 0) for one in record.values() for key in ("lost", "different", "failed", "tracebacks"))
    for name, counts in record.items():
        print(name, counts)
    if words.out:
        put(words.out, "crash", {"seed": words.seed, "wrong": bad, **record})
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
