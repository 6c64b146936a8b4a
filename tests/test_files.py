from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from goodformer import files
from goodformer.errors import InputError


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"a": 1})

    def breaks(part: Path) -> None:
        part.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match="No space left"):
        files.write(path, breaks)
    assert files.read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_left_overs_of_killed_processes_are_swept(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / ".model.json.17.part").write_text("half")
    (tmp_path / "kept.part").write_text("not ours")
    files.sweep(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["kept.part"]


def test_what_is_not_a_number_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "a.json", float("nan"))


def test_bad_files_are_input_errors(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe")
    for name, words in (("a.json", "damaged"), ("b.json", "not a text file"), ("c.json", "No such file")):
        with pytest.raises(InputError, match=words):
            files.read_json(tmp_path / name)
    assert files.read_lines(tmp_path / "none.jsonl") == []
    with pytest.raises(InputError, match="cannot create folder"):
        files.make_folder(tmp_path / "a.json" / "below")


def test_an_error_of_another_kind_passes_and_leaves_nothing(tmp_path: Path) -> None:
    def breaks(part: Path) -> None:
        part.write_text("half")
        raise KeyError

    with pytest.raises(KeyError):
        files.write(tmp_path / "a.txt", breaks)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="choose a folder"):
        files.write_text(tmp_path / "file" / "a.txt", "a")


def test_left_overs_of_one_name_are_swept_alone(tmp_path: Path) -> None:
    for name in (".a.json.17.part", ".b.json.17.part"):
        (tmp_path / name).write_text("half")
    files.sweep(tmp_path, "a.json")
    assert [path.name for path in tmp_path.iterdir()] == [".b.json.17.part"]


def decided(folder: Path) -> Path:
    """Files as `replacing` leaves them if its process is killed before it moves them: a new one, and one to remove."""
    (folder / "old.json").write_text("0")
    new = folder / files.NEXT
    new.mkdir()
    (new / "new.json").write_text("1")
    files.write_json(new / files.READY, ["old.json"])
    return new


def test_what_a_killed_process_decided_is_completed(tmp_path: Path) -> None:
    decided(tmp_path)
    files.settle(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new.json"]


def test_a_reader_waits_for_the_process_that_completes_a_folder(tmp_path: Path) -> None:
    new = decided(tmp_path)
    with ThreadPoolExecutor() as pool, files.hold(tmp_path / files.LOCK):
        reader = pool.submit(files.settle, tmp_path)
        time.sleep(2 * files.PROBE)
        assert not reader.done()
        assert (new / "new.json").exists()
        shutil.rmtree(new)
        (tmp_path / files.LOCK).unlink()
    reader.result()
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]


def test_a_folder_that_cannot_be_locked_is_read_unless_it_is_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "hold", refused)
    files.settle(tmp_path)
    new = decided(tmp_path)
    with pytest.raises(InputError, match="Permission denied"):
        files.settle(tmp_path)

    def completed(*_: object) -> None:
        shutil.rmtree(new)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "hold", completed)
    files.settle(tmp_path)
