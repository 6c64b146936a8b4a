"""A data file is found where it should be, is the right one, or one sentence says what to do."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from goodformer.data import acquire
from goodformer.data.acquire import PublicFile, data_folder, obtain
from goodformer.errors import InputError

CONTENT = b"smiles,active\nCC,1\n"
SOURCE = PublicFile("set/table.csv", "", hashlib.sha256(CONTENT).hexdigest(), "the project page (MIT)")


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GOODFORMER_DATA", raising=False)
    monkeypatch.setattr(acquire, "RETRIES", 0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


class Quiet(SimpleHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    put(tmp_path / "served" / "table.csv")
    Quiet.asked.clear()
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/table.csv"
        running.shutdown()


@pytest.mark.parametrize("name", ["set/table.csv", "table.csv"])
def test_places_in_their_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = put(tmp_path / "cache" / "data" / name)
    assert obtain(SOURCE) == kept
    named = put(tmp_path / "named" / name)
    monkeypatch.setenv("GOODFORMER_DATA", str(tmp_path / "named"))
    assert obtain(SOURCE) == named
    around = put(tmp_path / "around" / name)
    with data_folder(tmp_path / "around"):
        assert obtain(SOURCE) == around
        given = put(tmp_path / "given" / name)
        assert obtain(SOURCE, tmp_path / "given") == given
        with data_folder(None):
            assert obtain(SOURCE) == around
    assert obtain(SOURCE) == named


def test_a_folder_without_the_file_is_passed_over(tmp_path: Path) -> None:
    kept = put(tmp_path / "cache" / "data" / "set" / "table.csv")
    assert obtain(SOURCE, tmp_path) == kept
    with data_folder(tmp_path):
        assert obtain(SOURCE) == kept


def test_the_folder_is_forgotten_after_an_error(tmp_path: Path) -> None:
    put(tmp_path / "table.csv")
    with pytest.raises(RuntimeError), data_folder(tmp_path):
        raise RuntimeError
    with pytest.raises(InputError):
        obtain(SOURCE)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"), data_folder(tmp_path / "nowhere"):
        pass


def test_another_content_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "table.csv", CONTENT + b"more")
    with pytest.raises(InputError, match="SHA-256") as caught:
        obtain(SOURCE, tmp_path)
    assert str(path) in str(caught.value)
    assert str(caught.value).count(". ") == 0
    assert obtain(PublicFile("table.csv", "", None, ""), tmp_path) == path


def test_downloaded_once(server: str, tmp_path: Path) -> None:
    source = PublicFile("set/table.csv", server, SOURCE.sha256, "")
    path = obtain(source)
    assert path == tmp_path / "cache" / "data" / "set" / "table.csv"
    assert path.read_bytes() == CONTENT
    assert obtain(source) == path
    assert Quiet.asked == ["/table.csv"]


def test_downloaded_without_a_checksum(server: str) -> None:
    assert obtain(PublicFile("set/table.csv", server, None, "")).read_bytes() == CONTENT


def test_a_wrong_download_is_not_kept(server: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="checksum"):
        obtain(PublicFile("set/table.csv", server, "0" * 64, ""))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_download_that_fails_says_where_to_put_the_file(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOODFORMER_DATA", str(tmp_path / "named"))
    address = server.replace("table", "nothing")
    with pytest.raises(InputError, match="the server answered 404") as caught, data_folder(tmp_path):
        obtain(PublicFile("set/table.csv", address, None, ""))
    message = str(caught.value)
    for part in (address, str(tmp_path), str(tmp_path / "named"), str(tmp_path / "cache/data/set/table.csv")):
        assert part in message
    assert "\n" not in message
    assert message.count(". ") == 0


def test_nobody_there() -> None:
    with pytest.raises(InputError, match="cannot be downloaded") as caught:
        obtain(PublicFile("set/table.csv", "http://127.0.0.1:9/table.csv", None, ""))
    assert "GOODFORMER_DATA" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_address(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the project page") as caught:
        obtain(SOURCE)
    assert str(tmp_path / "cache/data/set/table.csv") in str(caught.value)


def test_a_failed_try_is_repeated(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquire, "RETRIES", 1)
    real = Quiet.do_GET

    def once(self: Quiet) -> None:
        if not self.asked:
            self.asked.append("failed")
            self.send_error(500)
        else:
            real(self)

    monkeypatch.setattr(Quiet, "do_GET", once)
    assert obtain(PublicFile("set/table.csv", server, SOURCE.sha256, "")).read_bytes() == CONTENT
    assert Quiet.asked == ["failed", "/table.csv"]


def test_a_download_that_is_too_large_is_stopped(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_LIMITS", f"download={len(CONTENT) - 1}")
    with pytest.raises(InputError, match="larger than"):
        obtain(PublicFile("set/table.csv", server, SOURCE.sha256, ""))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
