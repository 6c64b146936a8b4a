from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from goodformer.engine.run import train
from goodformer.engine.store import Run, export_results, list_runs
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from tests.engine.tiny import QUIET, tiny_config


@pytest.fixture
def several(finished: Run, tmp_path: Path) -> Path:
    """A folder with a finished run, an unfinished one and something else."""
    shutil.copytree(finished.folder, tmp_path / finished.folder.name)
    other = tmp_path / tiny_config(seed=9).folder_name
    other.mkdir()
    (other / "config.json").write_text(json.dumps(tiny_config(seed=9).to_dict()))
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_runs_are_listed_and_read(several: Path, finished: Run) -> None:
    runs = list_runs(several)
    assert [run.finished for run in runs] == [True, False]
    assert runs[0].config == finished.config
    assert len(runs[0].epochs) == 2
    assert (runs[1].epochs, runs[1].summary) == ([], None)
    assert "finished" in repr(runs[0])
    assert list_runs(several / "nowhere") == []


def test_a_run_opens_by_folder_name_prefix_or_id(several: Path, finished: Run) -> None:
    name, key = finished.folder.name, finished.config.id
    for wanted in (several / name, name, key, key[:6], "good-motif-basis-covariate-erm-gin-s0"):
        assert Run.open(wanted, several).folder.name == name
    with pytest.raises(InputError, match="2 runs"):
        Run.open("good-motif", several)
    with pytest.raises(InputError, match="zzz"):
        Run.open("zzz", several)


def test_an_unknown_run_is_answered_with_the_five_nearest_and_their_number(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=str(tmp_path)):
        Run.open("zzz", tmp_path)
    names = [f"good-motif-erm-s{seed}-{seed}{seed}ab{seed}{seed}cd" for seed in range(9)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"9 in all; goodformer runs --runs") as caught:
        Run.open("77xb77cd", tmp_path)
    told = [name for name in names if name in str(caught.value)]
    assert names[7] in told
    assert len(told) == 5
    assert str(caught.value).index(names[7]) == min(str(caught.value).index(name) for name in told)
    with pytest.raises(InputError, match="9 runs") as caught:
        Run.open("good", tmp_path)
    assert sum(name in str(caught.value) for name in names) == 5


def test_a_model_alone_is_no_run(finished: Run, tmp_path: Path) -> None:
    shutil.copytree(finished.folder / "best", tmp_path / "mine")
    with pytest.raises(InputError, match=r"mine is a fitted model.*goodformer predict.*evaluate"):
        Run.open(tmp_path / "mine")


def test_weights_are_asked_for_by_name(several: Path, finished: Run) -> None:
    with pytest.raises(InputError, match="unknown weights"):
        FittedModel.of_run(finished, "worst")
    with pytest.raises(InputError, match="no weights yet"):
        FittedModel.of_run(list_runs(several)[1])


def test_results_are_exported_once(several: Path, finished: Run) -> None:
    path = several / "results" / "motif.jsonl"
    assert export_results(list_runs(several), path) == 1
    path.write_text(
        json.dumps({"id": "other", "kept": True}) + "\n" + path.read_text().replace('"seed": 0', '"seed": 5', 1)
    )
    assert export_results([finished], path) == 2
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [{"id": "other", "kept": True}, finished.summary]


def test_a_foreign_results_file_is_refused(finished: Run, tmp_path: Path) -> None:
    path = tmp_path / "foreign.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(InputError, match=r"foreign\.jsonl"):
        export_results([finished], path)
    assert path.read_text() == '{"a": 1}\n'


def test_two_processes_do_not_train_one_run(tmp_path: Path) -> None:
    config = tiny_config()
    folder = tmp_path / config.folder_name
    folder.mkdir()
    code = "import sys, filelock\nwith filelock.FileLock(sys.argv[1]):\n print('held', flush=True)\n sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(folder / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    try:
        with pytest.raises(InputError, match="another process"):
            train(config, tmp_path, QUIET)
    finally:
        other.kill()
        other.communicate()
    with Run(folder).locked():
        pass


def test_a_root_that_cannot_be_written_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot create folder"):
        train(tiny_config(), tmp_path / "file", QUIET)
