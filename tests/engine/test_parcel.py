"""Run folders in transit: whole or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from goodformer.engine import parcel
from goodformer.engine.run import train
from goodformer.engine.store import Run
from goodformer.errors import InputError
from tests.engine.tiny import QUIET, tiny_config


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in parcel.signature(folder)}


def test_a_folder_arrives_as_it_was_and_nothing_else_stays(tmp_path: Path, finished: Run) -> None:
    packed = parcel.pack(finished.folder)
    assert packed is not None
    place = tmp_path / "place"
    (place / "best.next").mkdir(parents=True)
    (place / "best.next" / "model.json").write_text("stale")
    (place / ".lock").write_text("")
    parcel.receive(place, packed)
    assert content(place) == content(finished.folder)
    assert (place / ".lock").exists()
    assert not (place / parcel.PARCEL).exists()
    assert parcel.pack(tmp_path / "nothing") is None


def test_a_folder_that_changes_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("one")
    add = tarfile.TarFile.add

    def changing(self: tarfile.TarFile, *arguments: object) -> None:
        add(self, *arguments)  # type: ignore[arg-type]
        (tmp_path / "b").write_text("two")

    with monkeypatch.context() as patch:
        patch.setattr(tarfile.TarFile, "add", changing)
        assert parcel.pack(tmp_path) is None
    assert parcel.pack(tmp_path) is not None


def test_a_stop_at_any_file_is_made_good_by_the_next_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: Run
) -> None:
    """The summary is the last file that appears, so a half-filled folder never counts as finished."""
    packed = parcel.pack(finished.folder)
    assert packed is not None
    files = len(parcel.signature(finished.folder))
    for count in range(1, files + 2):  # the first file put in place is the parcel
        place, seen, replace = tmp_path / str(count), 0, os.replace

        def stopping(source: object, target: object, count: int = count, replace: object = replace) -> None:
            nonlocal seen
            seen += 1
            if seen == count:
                raise KeyboardInterrupt
            replace(source, target)  # type: ignore[operator]

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", stopping)
            with pytest.raises(KeyboardInterrupt):
                parcel.receive(place, packed)
        assert not Run(place).finished
        with Run(place).locked():
            assert content(place) == (content(finished.folder) if count > 1 else {})


def test_training_continues_in_another_folder(tmp_path: Path) -> None:
    config = tiny_config(method="noisy", training={"epochs": 3})
    whole = train(config, tmp_path / "whole", QUIET)
    part = train(config, tmp_path / "part", QUIET)
    (part.folder / "summary.json").unlink()
    before, packed = part.epochs, parcel.pack(part.folder)
    assert packed is not None
    shutil.rmtree(part.folder)
    parcel.receive(tmp_path / "other" / config.folder_name, packed)
    again = train(config, tmp_path / "other", QUIET)
    assert again.epochs == before
    assert again.summary is not None
    assert whole.summary is not None
    assert again.summary["splits"] == whole.summary["splits"]


@pytest.mark.parametrize("name", ["../out", "/tmp/out", None])
def test_a_damaged_parcel_is_refused(tmp_path: Path, name: str | None) -> None:
    made = io.BytesIO(b"no archive")
    if name:
        with tarfile.open(fileobj=made, mode="w") as archive:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    whole = hashlib.sha256(made.getvalue()).digest() + made.getvalue()
    with pytest.raises(InputError, match="damaged"):
        parcel.receive(tmp_path / "run", whole)
    assert not (tmp_path / "out").exists()


def test_a_flipped_bit_in_a_parcel_is_noticed(tmp_path: Path, finished: Run) -> None:
    packed = parcel.pack(finished.folder)
    assert packed is not None
    for place in range(0, len(packed), len(packed) // 50):
        made = bytearray(packed)
        made[place] ^= 1 << place % 8
        with pytest.raises(InputError, match="damaged"):
            parcel.receive(tmp_path / "run", bytes(made))
    assert parcel.signature(tmp_path / "run") == {}
