"""The server under load: batching, turns, slow clients, SIGTERM, and how it starts."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from select import select
from typing import Any

import httpx
import pytest

from goodformer import cli
from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.serve import server
from goodformer.serve.jobs import Explanations, PredictionJob
from goodformer.serve.limits import Limits
from goodformer.serve.rows import RequestRows
from goodformer.serve.worker import Busy, Worker
from tests.apply.molecules import FITTED, molecules, untrained
from tests.serve.conftest import Site, running

SMILES = molecules()[0]


def job(model: FittedModel, smiles: list[str], level: float | None = None) -> PredictionJob:
    return PredictionJob("nitro", model, RequestRows(model, smiles, Limits()), level)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of graphs in each model call."""
    sizes: list[int] = []
    original = FittedModel.predict

    def counted(self: FittedModel, graphs: GraphSet, *rest: Any, **named: Any) -> Any:
        sizes.append(len(graphs))
        return original(self, graphs, *rest, **named)

    monkeypatch.setattr(FittedModel, "predict", counted)
    return sizes


def test_waiting_requests_share_a_model_call(fitted: FittedModel, calls: list[int]) -> None:
    alone = fitted.predict(SMILES[:30]).probabilities[:, 0].tolist()
    calls.clear()
    worker = Worker(100)
    jobs = [job(fitted, [one]) for one in SMILES[:30]]
    for one in jobs:
        worker.submit(one)
    worker.start()
    worker.stop()
    assert calls == [30]
    found = [one.done.result()["columns"]["p_yes"][0] for one in jobs]
    assert found == pytest.approx(alone, abs=1e-6)


def test_a_small_request_overtakes_a_large_one(fitted: FittedModel, calls: list[int]) -> None:
    worker, order = Worker(100), []
    large, small = job(fitted, SMILES[:64] * 9), job(fitted, SMILES[:1])
    for name, one in (("large", large), ("small", small)):
        one.done.add_done_callback(lambda _, name=name: order.append(name))
        worker.submit(one)
    worker.start()
    worker.stop()
    assert order == ["small", "large"]
    assert calls == [65, *[64] * 8]
    assert large.done.result()["columns"]["p_yes"] == large.done.result()["columns"]["p_yes"][:64] * 9


def test_one_bad_request_does_not_spoil_the_others(fitted: FittedModel) -> None:
    several = untrained(classes={"a": ("0", "1")})
    worker = Worker(100)
    bad = PredictionJob("other", several, RequestRows(several, ["CC"], Limits()), 0.9)  # has no conformal sets
    worse = PredictionJob("other", several, RequestRows(several, b"x,y\n1\n", Limits(), "csv"))
    good = PredictionJob("other", several, RequestRows(several, ["CC"], Limits()))
    for one in (bad, worse, good):
        worker.submit(one)
    worker.start()
    worker.stop()
    assert good.done.result()["rows"] == 1
    for one in (bad, worse):
        with pytest.raises(InputError):
            one.done.result()


def test_an_answer_nobody_waits_for_is_not_computed(fitted: FittedModel, calls: list[int]) -> None:
    worker, given = Worker(100), job(fitted, SMILES[:5])
    worker.submit(given)
    given.done.cancel()
    worker.start()
    worker.stop()
    assert not calls


def test_the_queue_has_an_end(fitted: FittedModel) -> None:
    worker = Worker(2)
    for _ in range(2):
        worker.submit(job(fitted, SMILES[:1]))
    with pytest.raises(Busy):
        worker.submit(job(fitted, SMILES[:1]))


def test_too_long_answers_and_too_many_requests(fitted: FittedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    go, original = threading.Event(), FittedModel.predict

    def slow(*arguments: Any, **named: Any) -> Any:
        go.wait(20)
        return original(*arguments, **named)

    monkeypatch.setattr(FittedModel, "predict", slow)
    with running({"nitro": fitted}, limits=Limits(seconds=1.5, waiting=1)) as site, ThreadPoolExecutor(2) as pool:
        ask = lambda: httpx.post(f"{site.address}/predict", json={"smiles": ["CC"]}, trust_env=False)  # noqa: E731
        first = pool.submit(ask)
        time.sleep(0.3)
        second = pool.submit(ask)
        time.sleep(0.3)
        third = ask()
        assert (third.status_code, third.headers["retry-after"]) == (503, "1")
        assert site.client.get("/health").status_code == 200
        assert {first.result().status_code, second.result().status_code} == {504}
        go.set()
        assert ask().status_code == 200


def test_answers_do_not_depend_on_the_company(site: Site) -> None:
    wanted = site.client.post("/predict", json={"smiles": SMILES[:40]}).json()["columns"]["p_yes"]

    def ask(place: int) -> float:
        with httpx.Client(base_url=site.address, trust_env=False) as client:
            return client.post("/predict", json={"smiles": [SMILES[place]]}).json()["columns"]["p_yes"][0]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(40))) == wanted


@pytest.fixture
def slow_clients(site: Site) -> Iterator[list[socket.socket]]:
    """Clients that never finish: heads without an end, and bodies that do not come."""
    opened = []
    for place in range(60):
        client = socket.create_connection(("127.0.0.1", site.port))
        head = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n"
        client.sendall(head + (b"Content-Length: 9999\r\n\r\nCC" if place % 2 else b"X-Slow: "))
        opened.append(client)
    yield opened
    for client in opened:
        client.close()


def test_slow_clients_do_not_hold_up_others(site: Site, slow_clients: list[socket.socket]) -> None:
    assert site.client.post("/predict", json={"smiles": ["CCO"]}).status_code == 200
    assert not select(slow_clients, (), (), 0)[0]  # all of them still wait
    body = slow_clients[1]
    body.settimeout(10)
    assert b" 408 " in body.recv(4096).splitlines()[0]  # after `Limits.arrival`


def test_a_head_must_arrive_in_time(fitted: FittedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.4)
    with running({"nitro": fitted}) as site, socket.create_connection(("127.0.0.1", site.port)) as client:
        client.settimeout(10)
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while b"}" not in answer:  # head and body may arrive one after the other
            answer += client.recv(4096)
        assert b"200 OK" in answer
        client.sendall(b"GET /health HTTP/1.1\r\nX-Slow:")  # the second request of the connection
        start = time.perf_counter()
        assert client.recv(4096) == b""
        assert time.perf_counter() - start < 4


def request_of(smiles: list[str]) -> bytes:
    """A whole request to predict, as it goes over a connection."""
    body = json.dumps({"smiles": smiles}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def test_a_client_that_goes_away_takes_its_request_with_it(
    fitted: FittedModel, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go, counted = threading.Event(), threading.Event(), FittedModel.predict

    def slow(*arguments: Any, **named: Any) -> Any:
        started.set()
        go.wait(20)
        return counted(*arguments, **named)

    monkeypatch.setattr(FittedModel, "predict", slow)
    with running({"nitro": fitted}) as site:
        with socket.create_connection(("127.0.0.1", site.port)) as client:
            client.sendall(request_of(SMILES[:64] * 30))
            assert started.wait(20)
        counts = ""
        for _ in range(200):
            counts = site.client.get("/metrics").text
            if 'goodformer_requests_total{path="/predict",status="499"} 1.0' in counts:
                break
            time.sleep(0.05)
        assert 'status="499"} 1.0' in counts
        go.set()
        assert site.client.post("/predict", json={"smiles": ["CCO"]}).status_code == 200
    assert calls == [64, 1]  # the block that was being answered, and the next request


def test_a_fault_does_not_spoil_the_next_request_of_the_client(
    fitted: FittedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, faults = FittedModel.predict, ["once", "twice"]

    def faulty(*arguments: Any, **named: Any) -> Any:
        if faults:
            raise RuntimeError(faults.pop())
        return original(*arguments, **named)

    monkeypatch.setattr(FittedModel, "predict", faulty)
    with running({"nitro": fitted}) as site:
        for _ in range(2):
            answer = site.client.post("/predict", json={"smiles": ["CCO"]})
            assert (answer.status_code, answer.headers["connection"]) == (500, "close")
            time.sleep(0.2)  # the server has closed the connection
        assert site.client.post("/predict", json={"smiles": ["CCO"]}).status_code == 200


def test_an_idle_connection_does_not_hold_up_the_end(fitted: FittedModel) -> None:
    with running({"nitro": fitted}) as site:
        idle = socket.create_connection(("127.0.0.1", site.port))
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")  # HTTP/1.1: kept alive
        silent = socket.create_connection(("127.0.0.1", site.port))
        idle.settimeout(20)
        assert b"200" in idle.recv(4096)
        start = time.perf_counter()
    assert time.perf_counter() - start < 10  # far less than the time for requests
    idle.close()
    silent.close()


def test_sigterm_finishes_what_is_running(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "goodformer", "serve", str(FITTED), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        assert address.startswith("http://127.0.0.1:")
        client = httpx.Client(base_url=address, timeout=60, trust_env=False)
        for _ in range(200):
            try:
                client.get("/health")
                break
            except httpx.ConnectError:
                time.sleep(0.05)
        with ThreadPoolExecutor(1) as pool:
            running_request = pool.submit(lambda: client.post("/predict", json={"smiles": SMILES * 8}))
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
            answer = running_request.result()
        assert (answer.status_code, answer.json()["rows"]) == (200, len(SMILES) * 8)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()  # type: ignore[union-attr]
        assert not list(tmp_path.iterdir())
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["nowhere"], "nowhere"),
        ([str(FITTED), "--host", "0.0.0.0"], "GOODFORMER_TOKEN"),
        ([str(FITTED), "--host", "256.0.0.1", "--token", "x"], "--host"),
    ],
)
def test_a_start_that_fails_says_why(words: list[str], fact: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["serve", *words]) == 2
    said = capsys.readouterr().err
    assert fact in said
    assert len(said.strip().splitlines()) == 1


def test_a_port_in_use(capsys: pytest.CaptureFixture[str], site: Site) -> None:
    assert cli.run(["serve", str(FITTED), "--port", str(site.port)]) == 2
    assert str(site.port) in capsys.readouterr().err


def test_models_are_called_like_their_folders() -> None:
    twice = server.open_models([str(FITTED), f"{FITTED}/"])
    assert list(twice) == ["fitted_before", "fitted_before-2"]


def test_explanations_are_answered_in_small_blocks(fitted: FittedModel) -> None:
    worker = Worker(10)
    given = Explanations("nitro", fitted, RequestRows(fitted, SMILES[:10], Limits()))
    worker.submit(given)
    worker.start()
    worker.stop()
    assert [graph["row"] for graph in given.done.result()["graphs"]] == list(range(1, 11))
    json.dumps(given.done.result(), allow_nan=False)
