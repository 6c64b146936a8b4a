"""Many runs in processes: some at a time, failures that stop no other run, estimates, no process left behind.

Small scripts take the place of training.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from goodformer.config.presets import configure
from goodformer.config.run import RunConfig
from goodformer.engine.store import Run
from goodformer.executors import local
from goodformer.executors.board import Board, Status

BASIS = {"name": "good-motif", "domain": "basis"}
FINISH = """
import json, pathlib, sys, time
settings, folder = json.loads(pathlib.Path(sys.argv[1]).read_text()), pathlib.Path(sys.argv[2])
log = folder / "log"
log.open("a").write("+")
time.sleep(0.3)
log.open("a").write("-")
seed = settings["seed"]
if seed == 1:
    raise RuntimeError("seed 1 broke")
if seed == 2:
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
if seed == 3:
    print("one\\ngoodformer: this cannot be used.", file=sys.stderr)
    sys.exit(2)
if seed == 4:
    sys.exit(0)
name = next(line for line in (folder / "names").read_text().splitlines() if f"-s{seed}-" in line)
(folder / name).mkdir()
(folder / name / "summary.json").write_text("{}")
"""


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(settings: Path, root: Path, threads: int, every_test: bool) -> list[str]:
        assert not every_test  # the budget cuts the graphs
        return [sys.executable, "-S", "-c", FINISH, str(settings), str(root)]

    monkeypatch.setattr(local, "command", command)
    monkeypatch.setattr(local, "PERIOD", 0.02)


def configs(root: Path, seeds: range) -> list[RunConfig]:
    made = [configure(BASIS, "erm", budget="compare", seed=seed) for seed in seeds]
    (root / "names").write_text("\n".join(config.folder_name for config in made))
    return made


@pytest.mark.usefixtures("scripts")
def test_failures_stop_no_other_run_and_are_reported(tmp_path: Path) -> None:
    wanted = configs(tmp_path, range(7))
    seen: list[Status] = []
    failures = local.complete(wanted, tmp_path, jobs=2, watch=seen.append)
    assert [config.seed for config in wanted if config.id in failures] == [1, 2, 3, 4]
    assert "SIGKILL" in failures[wanted[2].id]
    assert failures[wanted[3].id] == "this cannot be used."
    assert "code 0" in failures[wanted[4].id]
    assert wanted[4].folder_name in failures[wanted[4].id]
    log = tmp_path / f"{wanted[1].folder_name}.log"
    assert str(log) in failures[wanted[1].id]
    assert failures[wanted[1].id].startswith("RuntimeError: seed 1 broke (")
    assert "Traceback" in log.read_text()
    assert (seen[-1].runs, seen[-1].ended, seen[-1].failed, seen[-1].running) == (7, 7, 4, ())
    assert max(len(status.running) for status in seen) == 2
    assert {status.ended for status in seen} == set(range(8))  # one report whenever a run ends


@pytest.mark.usefixtures("scripts")
def test_jobs_run_at_a_time_and_none_twice(tmp_path: Path) -> None:
    wanted = [config for config in configs(tmp_path, range(9)) if config.seed in (0, 5, 6, 7, 8)]
    assert local.complete(wanted, tmp_path, jobs=3) == {}
    log = (tmp_path / "log").read_text()
    running = [log[: place + 1].count("+") - log[: place + 1].count("-") for place in range(len(log))]
    assert 2 <= max(running) <= 3
    assert local.complete(wanted, tmp_path, jobs=3) == {}
    assert (tmp_path / "log").read_text() == log


@pytest.mark.parametrize("finishes", [True, False])
def test_a_run_of_another_process_is_awaited_and_continued_if_need_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finishes: bool
) -> None:
    (config,) = configs(tmp_path, range(1))
    run = Run(tmp_path / config.folder_name)
    refuse = "import sys; print('goodformer: it is being trained; wait.', file=sys.stderr); sys.exit(2)"
    finish = f"import pathlib; pathlib.Path({str(run.folder / 'summary.json')!r}).write_text('{{}}')"
    started: list[bool] = []

    def command(*_: object, **__: object) -> list[str]:
        started.append(run.owner is not None)
        return [sys.executable, "-S", "-c", refuse if started[-1] else finish]

    monkeypatch.setattr(local, "command", command)
    monkeypatch.setattr(local, "PERIOD", 0.02)
    other, seen = run.locked(), list[Status]()
    other.__enter__()
    (run.folder / "config.json").write_text("{}")

    def watch(status: Status) -> None:
        seen.append(status)
        if any("in another process" in words for words in status.running) and run.owner:
            if finishes:
                (run.folder / "summary.json").write_text("{}")
            other.__exit__(None, None, None)

    assert local.complete([config], tmp_path, watch=watch) == {}
    assert started == ([True] if finishes else [True, False])
    assert (seen[-1].ended, seen[-1].failed, seen[-1].running) == (1, 0, ())


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: signal.Signals) -> None:
    monkeypatch.setattr(local, "command", lambda *_, **__: [sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    started: list[local.Worker] = []
    make = local.Worker.__init__

    def note(self: local.Worker, *arguments: object) -> None:
        make(self, *arguments)  # type: ignore[arg-type]
        started.append(self)

    def interrupt(status: Status) -> None:
        os.kill(os.getpid(), by)

    monkeypatch.setattr(local.Worker, "__init__", note)
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        local.complete(configs(tmp_path, range(3)), tmp_path, jobs=2, watch=interrupt)
    assert len(started) == 2
    assert all(worker.ended for worker in started)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert time.perf_counter() - start < 20


def test_time_left_by_hand(tmp_path: Path) -> None:
    made = [
        configure(BASIS, method, model, budget="compare", seed=seed)
        for method, model, seed in (("erm", "gin", 0), ("erm", "gin", 1), ("gsat", "gin", 0), ("erm", "gps", 0))
    ]
    for config, seconds in ((made[0], [1.0, 3.0]), (made[2], [7.0])):
        (tmp_path / config.folder_name).mkdir()
        lines = [json.dumps({"epoch": 1, "seconds": one, "eval_seconds": 1.0}) for one in seconds]
        (tmp_path / config.folder_name / "epochs.jsonl").write_text("\n".join(lines))
    board = Board(made, tmp_path, jobs=2)
    status = board.status([made[0]])
    # An epoch takes 3 s with ERM on GIN, 8 s with GSAT, and where nothing is known yet 5.5 s.
    assert status.seconds_left == pytest.approx((2 * 3 + 4 * 3 + 3 * 8 + 4 * 5.5) / 2)
    assert (status.epochs, status.epochs_done, status.ended) == (16, 3, 0)
    assert status.running == ("erm on gin, seed 0, epoch 3 of 4",)


def test_what_a_record_holds_is_decided_by_settings_and_not_by_labels(tmp_path: Path) -> None:
    """The short and the full budget of GOODFormer's default are one run with one id, so they measure the same."""
    full, short = (configure(BASIS, budget=budget) for budget in ("full", "short"))
    assert full.id == short.id
    assert [local.uncut(config) for config in (full, short)] == [True, True]
    cut = configure(BASIS, budget="compare")
    assert not local.uncut(cut)
    relabelled = RunConfig.from_dict({**cut.to_dict(), "budget": "full"})
    assert relabelled.id == cut.id
    assert not local.uncut(relabelled)
    assert local.uncut(configure({"name": "good-hiv"}, budget="compare"))  # no budget cuts its graphs
    sentences = {"name": "good-sst2"}  # all graphs unless the setting says how many
    assert local.uncut(configure(sentences, budget="compare"))
    assert not local.uncut(configure({**sentences, "graphs": 100}, budget="compare"))
    said = [local.command(tmp_path, tmp_path, 1, every) for every in (True, False)]
    assert ["--test-chosen" in words for words in said] == [False, True]


def test_the_estimate_follows_records_and_what_processes_need_besides_epochs(tmp_path: Path) -> None:
    """Records expect 2 s and 20 s per epoch; the first method took 3 s, so the second is expected to take 30 s."""
    made = [configure(BASIS, method, overrides=["training.epochs=4"]) for method in ("erm", "gsat")]
    expected = {made[0].id: 8.0, made[1].id: 80.0}
    assert Board(made, tmp_path, 1, expected).status([]).seconds_left == pytest.approx(88)
    folder = tmp_path / made[0].folder_name
    folder.mkdir()
    (folder / "epochs.jsonl").write_text('{"epoch": 1, "seconds": 2.0, "eval_seconds": 1.0}\n')
    board = Board(made, tmp_path, 1, expected)
    assert board.status([]).seconds_left == pytest.approx(3 * 3 + 4 * 30)
    board.around += [5.0, 7.0]
    assert board.status([]).seconds_left == pytest.approx(3 * 3 + 4 * 30 + 2 * 6)


def test_no_estimate_before_the_first_epoch(tmp_path: Path) -> None:
    assert Board([configure(BASIS, "erm")], tmp_path, 2).status([]).seconds_left is None


def test_the_command_trains_the_very_run(tmp_path: Path) -> None:
    """What a process would train has the id its parent expects."""
    from goodformer.config.settings_file import configure_from
    from goodformer.report.rows import ALL, rows

    for row in rows(f"{ALL},gps-inputs", "good-motif"):
        config = row.configure(BASIS, "compare", 2)
        path = tmp_path / "settings.json"
        path.write_text(json.dumps(config.to_dict()))
        assert configure_from(path) == config
