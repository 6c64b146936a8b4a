"""Runs under attack: several processes, flipped bits, full disks, unreadable files."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from goodformer import files
from goodformer.engine.run import train
from goodformer.engine.store import BEST, CONFIG, LOCK, STATE, SUMMARY, Run
from goodformer.engine.training import Training
from goodformer.errors import CannotWrite, InputError
from tests.engine.tiny import QUIET, tiny_config

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def stopped(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of three epochs, stopped after two."""
    save = Training.save

    def stop(self: Training) -> None:
        save(self)
        if self.epoch == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            train(three_epochs(), tmp_path / "runs", QUIET)
    return Run(tmp_path / "runs" / three_epochs().folder_name)


def three_epochs() -> Any:
    return tiny_config(training={"epochs": 3})


def test_of_three_processes_on_a_new_run_one_trains_and_the_others_touch_nothing(
    tmp_path: Path, own_cache: Path
) -> None:
    """The processes are forked, so that they start at the same moment and the slow imports are paid once."""
    code = "import json, sys, pathlib, torch, goodformer.engine.loop\nfrom lab.crash import TRAIN, ended, start\n"
    code += "torch.set_num_threads(1)\nprocesses = [start(TRAIN, pathlib.Path(sys.argv[1])) for _ in range(3)]\n"
    code += "print(json.dumps([ended(one) for one in processes]))"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], cwd=PROJECT, capture_output=True, text=True, check=True, timeout=280
    )
    said = (tmp_path / "output.txt").read_text()
    codes = json.loads(done.stdout)
    assert codes.count(0) >= 1, said
    assert said.count("already being trained by another process (process ") == len(codes) - codes.count(0), said
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / SUMMARY).is_file()


def test_a_refused_process_leaves_the_lock_and_the_folder_of_the_other(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    with run.locked():
        owner = (run.folder / LOCK).read_text()
        assert str(os.getpid()) in owner
        code = "import sys; from goodformer.engine.store import Run\nwith Run(sys.argv[1]).locked(): pass"
        done = subprocess.run([sys.executable, "-c", code, run.folder], capture_output=True, text=True, check=False)
        assert f"({owner})" in done.stderr
        assert (run.folder / LOCK).read_text() == owner
        files.write_json(run.folder / CONFIG, {})
    assert (run.folder / CONFIG).is_file()


def test_the_folder_of_a_run_that_cannot_be_built_is_removed(tmp_path: Path) -> None:
    with Run(tmp_path / "run").locked():
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_flipped_bit_in_a_checkpoint_is_noticed(stopped: Run) -> None:
    path, draw = stopped.folder / STATE, random.Random(0)
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        entries = [one for one in archive.infolist() if one.file_size > 100]
    for place in draw.sample(entries, 12):
        start = content.index(place.filename.encode()) + len(place.filename)
        flipped = bytearray(content)
        flipped[start + 70 + draw.randrange(place.file_size - 100)] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(InputError, match="damaged"):
            train(three_epochs(), stopped.folder.parent, QUIET)
    path.write_bytes(content)
    assert train(three_epochs(), stopped.folder.parent, QUIET).finished


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let writes beyond a size fail as on a full disk (EFBIG; Python ignores the signal)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_one_sentence_and_the_run_goes_on_when_there_is_room(stopped: Run, tmp_path: Path) -> None:
    kept = (stopped.folder / STATE).read_bytes()
    with files_of_at_most(len(kept) // 2), pytest.raises(CannotWrite, match="make room and repeat"):
        train(three_epochs(), stopped.folder.parent, QUIET)
    assert (stopped.folder / STATE).read_bytes() == kept
    whole = train(three_epochs(), tmp_path / "whole", QUIET)
    again = train(three_epochs(), stopped.folder.parent, QUIET)
    for name in ("weights.safetensors", "model.json"):
        assert (again.folder / BEST / name).read_bytes() == (whole.folder / BEST / name).read_bytes()


def test_a_checkpoint_that_cannot_be_read_is_not_called_damaged(stopped: Run) -> None:
    kept = (stopped.folder / STATE).read_bytes()
    (stopped.folder / STATE).unlink()
    (stopped.folder / STATE).mkdir()  # for the superuser, too, a file that cannot be read
    with pytest.raises(InputError, match="cannot read") as caught:
        train(three_epochs(), stopped.folder.parent, QUIET)
    assert not {"damaged", "remove", "delete"} & set(str(caught.value).replace(",", " ").split())
    shutil.rmtree(stopped.folder / STATE)
    (stopped.folder / STATE).write_bytes(kept)
    assert train(three_epochs(), stopped.folder.parent, QUIET).finished
