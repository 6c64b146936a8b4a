"""The journal of a search: whole lines, checksums, and locks that end with their process."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goodformer.errors import CannotWrite, InputError

pytest.importorskip("optuna", reason="Optuna is not installed; pip install 'goodformer[tune]'")
from goodformer.apply.journal import Journal

LOGS = [{"op_code": number, "worker_id": "w", "value": 0.25} for number in range(4)]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path / "study.log")
    made.append_logs(LOGS[:2])
    made.append_logs(LOGS[2:])
    return made


def test_operations_are_read_from_any_number_on(journal: Journal) -> None:
    assert [list(journal.read_logs(start)) for start in (0, 2, 4, 1)] == [LOGS, LOGS[2:], [], LOGS[1:]]
    other = Journal(journal.path)
    assert list(other.read_logs(0)) == LOGS
    other.append_logs([LOGS[0]])
    assert list(journal.read_logs(4)) == [LOGS[0]]


def test_every_flipped_bit_is_noticed_or_cuts_the_last_line(journal: Journal) -> None:
    content = journal.path.read_bytes()
    for place in range(len(content)):
        made = bytearray(content)
        made[place] ^= 1 << place % 8
        journal.path.write_bytes(made)
        if place == len(content) - 1:  # the end of the last line
            assert list(Journal(journal.path).read_logs(0)) == LOGS[:-1]
            continue
        with pytest.raises(InputError, match="damaged"):
            list(Journal(journal.path).read_logs(0))


def test_half_a_line_is_cut_before_the_next_is_written(journal: Journal) -> None:
    with journal.path.open("ab") as file:
        file.write(b'{"op_co')
    assert list(Journal(journal.path).read_logs(0)) == LOGS
    Journal(journal.path).append_logs([LOGS[1]])
    assert list(Journal(journal.path).read_logs(0)) == [*LOGS, LOGS[1]]


def test_a_full_disk_leaves_whole_lines(journal: Journal) -> None:
    before, content = resource.getrlimit(resource.RLIMIT_FSIZE), journal.path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + 20, before[1]))
    try:
        with pytest.raises(CannotWrite, match="make room"):
            journal.append_logs(LOGS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert journal.path.read_bytes() == content


def test_a_worker_is_alive_until_its_process_ends(journal: Journal) -> None:
    code = "import sys, time\nfrom pathlib import Path\nfrom goodformer.apply.journal import Journal\n"
    code += "with Journal(Path(sys.argv[1])).worker() as name:\n    print(name, flush=True)\n    time.sleep(100)\n"
    process = subprocess.Popen([sys.executable, "-c", code, journal.path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    assert journal.alive(name)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not journal.alive(name)
    assert not journal.alive("None")
    with journal.worker() as own:
        assert journal.alive(own)
    assert not journal.alive(own)
    assert json.dumps([path.name for path in (journal.path.parent / "workers").iterdir()]) == "[]"
