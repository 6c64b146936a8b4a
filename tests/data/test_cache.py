"""The cache never returns anything but what was built under the same key, and never stops the work."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
import warnings
from pathlib import Path

import pytest
import safetensors.torch
import torch

from goodformer.data import cache
from goodformer.data.cache import cached, checksum

KEY = {"name": "thing", "version": 1}


def tensors(value: float = 1.0) -> dict[str, torch.Tensor]:
    whole = torch.full((4, 5), value)
    return {
        "row": whole[1],  # shares memory with the next
        "whole": whole,
        "turned": torch.arange(6).reshape(2, 3).T,
        "flags": torch.tensor([True, False]),
        "none": torch.empty(0, 3),
        "one": torch.tensor(7),
    }


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert value.dtype == other[name].dtype
        assert torch.equal(value, other[name])


def the_file(folder: Path) -> Path:
    (path,) = folder.glob("*.safetensors")
    return path


def never() -> dict[str, torch.Tensor]:
    raise AssertionError("built although it was there")


def test_built_once_and_read_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    assert_equal(cached(KEY, tensors, folder), tensors())
    assert_equal(cached(KEY, never, folder), tensors())
    assert_equal(cached(dict(reversed(KEY.items())), never, folder), tensors())
    assert not list(folder.glob(".*.part"))


def test_another_key_is_another_thing(tmp_path: Path) -> None:
    cached(KEY, tensors, tmp_path)
    other = cached({**KEY, "version": 2}, lambda: tensors(2.0), tmp_path)
    assert_equal(other, tensors(2.0))
    assert_equal(cached(KEY, never, tmp_path), tensors())


def test_the_folder_is_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "here"))
    cached(KEY, tensors)
    assert the_file(tmp_path / "here").exists()
    monkeypatch.delenv("GOODFORMER_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / ".cache" / "goodformer"


def damage_tail(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def damage_key(path: Path) -> None:
    safetensors.torch.save_file(
        tensors_apart(), path, {"key": '{"name":"other"}', "checksum": checksum(tensors_apart())}
    )


def damage_metadata(path: Path) -> None:
    safetensors.torch.save_file(tensors_apart(), path)


def damage_contents(path: Path) -> None:
    text = json.dumps(KEY, sort_keys=True, separators=(",", ":"))
    safetensors.torch.save_file({"x": torch.zeros(3)}, path, {"key": text, "checksum": "0" * 64})


def tensors_apart() -> dict[str, torch.Tensor]:
    return {name: value.contiguous().clone() for name, value in tensors().items()}


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (damage_tail, "is damaged"),
        (damage_contents, "is damaged"),
        (damage_key, "another key"),
        (damage_metadata, "another key"),
        (lambda path: path.write_bytes(path.read_bytes()[:-10]), "cannot be read"),
        (lambda path: path.write_bytes(path.read_bytes()[:20]), "cannot be read"),
        (lambda path: path.write_bytes(b""), "cannot be read"),
        (
            lambda path: path.write_bytes(b"not a tensor file at all, but long enough to hold a header"),
            "cannot be read",
        ),
    ],
)
def test_an_unusable_file_is_built_anew_with_a_warning(tmp_path: Path, harm, message: str) -> None:
    cached(KEY, tensors, tmp_path)
    harm(the_file(tmp_path))
    with pytest.warns(UserWarning, match=message):
        assert_equal(cached(KEY, tensors, tmp_path), tensors())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_equal(cached(KEY, never, tmp_path), tensors())


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    cached(KEY, tensors, tmp_path)
    path = the_file(tmp_path)
    sound = path.read_bytes()
    for position in range(0, len(sound), 7):
        broken = bytearray(sound)
        broken[position] ^= 0x40
        path.write_bytes(broken)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_equal(cached(KEY, tensors, tmp_path), tensors())


def test_a_folder_that_cannot_be_made_costs_a_warning_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UserWarning, match="without it"):
        assert_equal(cached(KEY, tensors, tmp_path / "file" / "cache"), tensors())


def test_a_full_disk_costs_a_warning_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="No space left"):
        assert_equal(cached(KEY, tensors, tmp_path), tensors())
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.filterwarnings("ignore:cache folder")
def test_a_failing_build_is_not_hidden_and_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> dict[str, torch.Tensor]:
        raise OSError("the source is gone")

    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path, tmp_path / "file" / "cache"):
        with pytest.raises(OSError, match="the source is gone"):
            cached(KEY, failing, folder)
    assert_equal(cached(KEY, tensors, tmp_path), tensors())


def test_left_overs_of_a_killed_process_are_cleared(tmp_path: Path) -> None:
    cached(KEY, tensors, tmp_path)
    path = the_file(tmp_path)
    path.unlink()
    stale = path.with_name(f".{path.name}.999999.part")
    stale.write_bytes(b"half")
    cached(KEY, tensors, tmp_path)
    assert not stale.exists()


def test_what_was_read_does_not_change_with_the_file(tmp_path: Path) -> None:
    cached(KEY, tensors, tmp_path)
    read = cached(KEY, never, tmp_path)
    the_file(tmp_path).write_bytes(b"\0" * the_file(tmp_path).stat().st_size)
    assert_equal(read, tensors())


def build_slowly(folder: Path) -> dict[str, torch.Tensor]:
    with (folder / "builds.txt").open("a") as file:
        file.write("built\n")
    time.sleep(0.5)
    return tensors()


def worker(folder: Path, results: multiprocessing.Queue) -> None:
    results.put(checksum(cached(KEY, lambda: build_slowly(folder), folder)))


def test_of_several_processes_one_builds(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")  # spawned ones would each import torch anew
    results = context.Queue()
    processes = [context.Process(target=worker, args=(tmp_path, results)) for _ in range(3)]
    for process in processes:
        process.start()
    sums = {results.get(timeout=60) for _ in processes}
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    assert sums == {checksum(tensors())}
    assert (tmp_path / "builds.txt").read_text() == "built\n"
