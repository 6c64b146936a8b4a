"""The command as a process of its own: help at once, exit codes, a real interrupt and how the run goes on."""

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

COMMANDS = [
    [],
    ["quickstart"],
    ["train"],
    ["compare"],
    ["evaluate"],
    ["explain"],
    ["fit"],
    ["tune"],
    ["predict"],
    ["export"],
    ["serve"],
    ["datasets"],
    ["datasets", "list"],
    ["datasets", "show"],
    ["methods"],
    ["methods", "list"],
    ["methods", "show"],
    ["runs"],
    ["runs", "list"],
    ["runs", "show"],
    ["runs", "export"],
    ["runs", "table"],
]


def goodformer(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a new process."""
    command = [sys.executable, "-m", "goodformer", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_help_answers_in_half_a_second() -> None:
    """Counted in the processor's time: other tests may keep the machine busy."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert goodformer("--help").returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_help_and_import_load_nothing_heavy() -> None:
    code = "import sys, goodformer.cli; print({'torch', 'numpy', 'matplotlib', 'pydantic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_help_teaches_by_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from goodformer import cli

    assert cli.run([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.count(f"goodformer {' '.join(words)}".strip()) >= 2
    assert "Example" in text or "Begin here" in text


def test_exit_code_of_bad_input() -> None:
    done = goodformer("train", "good-motf", "--method", "erm")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "good-motif" in done.stderr


def test_version() -> None:
    assert goodformer("--version").stdout.strip() == __import__("goodformer").__version__


@pytest.mark.parametrize(
    "words", [["methods", "show", "goodformer"], ["--import", "loud", "runs", "export", "-o", "runs.jsonl"]]
)
def test_closed_pipe_is_no_error(words: list[str], tmp_path: Path) -> None:
    """Typer ends a command that prints into a closed pipe; what a plugin prints may be written only after that."""
    (tmp_path / "loud.py").write_text("print('loaded')\n")
    command = [sys.executable, "-m", "goodformer", *words]
    usual = {**os.environ, "PYTHONUNBUFFERED": ""}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=usual, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()  # long before anything is printed
    process.stdout = None
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Error" not in err


@pytest.mark.parametrize(("number", "devices"), [(signal.SIGINT, "1"), (signal.SIGTERM, "2")])
def test_interrupted_run_goes_on(cache: Path, tmp_path: Path, number: signal.Signals, devices: str) -> None:
    words = ["train", "good-motif", "--method", "erm", "--set", "dataset.graphs=150", "--set", "model.dim=16"]
    words += ["--json", "--quiet", "--epochs", "400", "--devices", devices]
    command = [sys.executable, "-m", "goodformer", *words]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_epochs(tmp_path, 3, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert out == ""
    assert err.count("\n") == 1
    assert "epoch" in err
    done = len(next(tmp_path.glob("runs/*/epochs.jsonl")).read_text().splitlines())
    assert 3 <= done < 400
    assert_goes_on(command, tmp_path, done)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("module", "becomes"),
    [("typer", "pass"), ("numpy", "pass"), ("numpy", "raise ImportError('cannot load') from None")],
)
def test_a_signal_while_libraries_are_loaded(tmp_path: Path, number: int, module: str, becomes: str) -> None:
    """A library of that name sends the signal when it is imported, and may make another error of it."""
    library = f"""
        import atexit, os, sys, time
        atexit.register(lambda: print("noise", file=sys.stderr))
        if "once" in os.environ:  # others may try to load it again
            raise ImportError
        os.environ["once"] = ""
        try:
            os.kill(os.getpid(), {int(number)})
            time.sleep(60)
        except KeyboardInterrupt:
            os.kill(os.getpid(), {int(number)})  # once more, while this one is still being dealt with
            {becomes if becomes != "pass" else "raise"}
    """
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(library))
    (tmp_path / "mine.csv").write_text("smiles,y\nCC,1\nCO,0\n")
    command = [sys.executable, "-m", "goodformer", "fit", "mine.csv", "--target", "y"]
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + number, "")
    rest = err.removeprefix("reading mine.csv ...\n")
    assert rest.startswith("stopped")
    assert rest.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_prediction_leaves_what_the_next_one_continues(erm: Path, tmp_path: Path, number: int) -> None:
    (tmp_path / "many.jsonl").write_text('{"edges": [[0, 1], [1, 2], [2, 3]], "num_nodes": 4}\n' * 200_000)
    command = [sys.executable, "-m", "goodformer", "predict", str(erm), "many.jsonl", "-o", "answers.csv"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "answers.csv.part.json").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(number)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.count("\n")) == (128 + number, "", 1)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["answers.csv.part", "answers.csv.part.json", "many.jsonl"]
    state = json.loads((tmp_path / "answers.csv.part.json").read_text())
    lines = (tmp_path / "answers.csv.part").read_bytes()[: state["at"]].count(b"\n")
    assert lines == state["rows"] + 1 <= 200_000


def wait_for_epochs(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    """Wait until a run in the folder has recorded so many epochs."""
    for _ in range(1800):
        found = list(folder.glob("runs/*/epochs.jsonl"))
        if found and len(found[0].read_text().splitlines()) >= count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("no epoch in three minutes")


def assert_goes_on(command: list[str], folder: Path, done: int) -> None:
    """The same command, given again, begins after the epochs that are done."""
    path = next(folder.glob("runs/*/epochs.jsonl"))
    kept = path.read_text().splitlines()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    try:
        wait_for_epochs(folder, done + 1, process)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    lines = path.read_text().splitlines()
    assert lines[:done] == kept
    assert json.loads(lines[done])["epoch"] == done + 1
