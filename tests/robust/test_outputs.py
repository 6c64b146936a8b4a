"""Outputs that would destroy something, and models that are replaced whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from goodformer import files
from goodformer.apply.predict import holds_answers, predict_file
from goodformer.engine.store import MODEL, Run
from goodformer.engine.weights import WEIGHTS
from goodformer.errors import CannotWrite, InputError
from goodformer.fitted import FittedModel
from tests.apply.molecules import untrained, write_table
from tests.cli.conftest import Command, cache, command  # noqa: F401

QUICK = ["--target", "nitro", "--split", "random", "--epochs", "1", "--method", "erm", "--model", "gin"]
QUICK += ["--set", "model.dim=16", "--no-baseline", "--quiet"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_table(tmp_path / "mine.csv", bad=False)
    return untrained().save(tmp_path / "model")


@pytest.mark.parametrize("out", ["model/model.json", "model/weights.safetensors", "model/new/answers.csv", "mine.csv"])
def test_predictions_do_not_replace_a_model_or_the_input(out: str, model: Path, command: Command) -> None:  # noqa: F811
    kept = {path: path.read_bytes() for path in model.parent.rglob("*") if path.is_file()}
    answer = command("predict", model, "mine.csv", "-o", out)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "choose" in answer.err
    assert {path: path.read_bytes() for path in model.parent.rglob("*") if path.is_file()} == kept


def test_explanations_do_not_go_into_a_model_or_a_run(model: Path, finished: Run, command: Command) -> None:  # noqa: F811
    for folder in (model, finished.folder, finished.folder / "best"):
        answer = command("explain", model, "mine.csv", "-o", folder)
        assert answer.code == 2
        assert "holds a model or a run" in answer.err
    assert command("predict", model, "mine.csv", "-o", model.parent).code == 2


def test_parts_and_searches_do_not_go_into_a_model(model: Path, command: Command) -> None:  # noqa: F811
    kept = {path: path.read_bytes() for path in model.parent.rglob("*") if path.is_file()}
    for words in (
        ["predict", model, "mine.csv", "-o", model / "parts"],
        ["tune", "mine.csv", "-t", "nitro", "-o", model],
    ):
        answer = command(*words)
        assert answer.code == 2
        assert "holds a model or a run" in answer.err
    assert {path: path.read_bytes() for path in model.parent.rglob("*") if path.is_file()} == kept


OWN = {
    "csv": "smiles,measured\nCCO,1.5\n",
    "tsv": "predicted\tproblem\tmy remark\n1\t\tcheck this\n",  # answers with a column added by hand
    "parquet": "no table",
    "json": '{"mine": 1}',
    "jsonl": '{"smiles": "CCO", "note": 1}\n',
}
"""Files of a user, by suffix."""


@pytest.mark.parametrize("suffix", OWN)
def test_predictions_replace_earlier_ones_but_no_other_file(suffix: str, model: Path, command: Command) -> None:  # noqa: F811
    out = model.parent / f"out.{suffix}"
    words = ("predict", model, "mine.csv", "-o", out.name)
    out.write_text(OWN[suffix])
    refused = command(*words)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert out.name in refused.err
    assert "--overwrite" in refused.err
    assert out.read_text() == OWN[suffix]
    assert command(*words, "--overwrite").code == 0
    written = out.read_bytes()
    assert command(*words).code == 0  # its own answers
    assert out.read_bytes() == written
    assert {path.name for path in model.parent.iterdir()} == {"mine.csv", "model", out.name}


def test_answers_are_known_by_their_columns(tmp_path: Path) -> None:
    cases = {
        "smiles,predicted,p_a,problem": True,
        "smiles,a_predicted,b_predicted,problem": True,
        "predicted,goodformer_predicted,goodformer_problem": True,
        "predicted,goodformer_goodformer_predicted,goodformer_goodformer_problem": True,
        "smiles,predicted,problem,mine": False,
        "smiles,problem": False,
        "predicted,my_problem": False,
        "predicted,goodformer_problem": False,
    }
    for head, ours in cases.items():
        (tmp_path / "a.csv").write_text(f"{head}\n")
        assert holds_answers(tmp_path / "a.csv") == ours, head
    (tmp_path / "a.csv").write_text("predicted,verdict,marked,problem\n")
    assert holds_answers(tmp_path / "a.csv", "verdict", "marked")
    assert not holds_answers(tmp_path / "a.csv", "verdict", "spread")


def test_predictions_replace_an_empty_file_and_continue_beside_earlier_answers(
    model: Path,
    command: Command,  # noqa: F811
) -> None:
    out, words = model.parent / "answers.csv", ("predict", model, "mine.csv")
    out.touch()
    assert command(*words).code == 0
    whole = out.read_text()

    def stop(rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_file(FittedModel.load(model), model.parent / "mine.csv", out, watch=stop)
    assert out.with_name("answers.csv.part").is_file()
    assert "earlier call" in command(*words).out
    assert out.read_text() == whole
    assert command(*words, "-o", "parts", "--overwrite").code == 2  # only files


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "parquet"])
@pytest.mark.parametrize("name", ["answers.{}", "edges.{}", "nodes.{}", "edges.json", "subgraphs.png"])
def test_explanations_replace_earlier_ones_but_no_other_file(
    name: str,
    form: str,
    model: Path,
    command: Command,  # noqa: F811
) -> None:
    own = model.parent / "why" / name.format(form)
    own.parent.mkdir()
    (model.parent / "new.csv").write_text("smiles\nC\n")  # no edge
    words = ("explain", model, "new.csv", "-o", "why", "--format", form)
    own.write_text("row,mine\n1,2\n")
    refused = command(*words)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert own.name in refused.err
    assert [path.read_text() for path in own.parent.iterdir()] == ["row,mine\n1,2\n"]
    assert command(*words, "--overwrite").code == 0
    assert command(*words).code == 0  # its own tables
    assert len(list(own.parent.iterdir())) == 5


@contextmanager
def killed_at(count: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the process before it puts file number ``count`` in place, and before all later ones."""
    move, seen = os.replace, 0

    def deadly(source: Path, target: Path) -> None:
        nonlocal seen
        seen += 1
        if seen >= count:
            raise KeyboardInterrupt
        move(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", deadly)
        yield


def test_an_explanation_killed_anywhere_can_be_repeated(
    model: Path,
    command: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (model.parent / "new.csv").write_text("smiles\nCCO\n")
    for count in range(1, 20):
        words = ("explain", model, "new.csv", "-o", f"why{count}")
        with killed_at(count, monkeypatch):
            killed = command(*words).code != 0
        assert command(*words).code == 0
        assert len(list(Path(f"why{count}").iterdir())) == 5
        if not killed:
            break
    assert count == 6  # five files


def test_answers_without_verdicts_are_not_those_of_an_explanation(model: Path, command: Command) -> None:  # noqa: F811
    (model.parent / "why").mkdir()
    assert command("predict", model, "mine.csv", "-o", "why/answers.csv").code == 0
    assert command("explain", model, "mine.csv", "-o", "why").code == 2


def test_a_loop_of_links_gives_no_traceback(model: Path, command: Command) -> None:  # noqa: F811
    loop = model.parent / "loop.csv"
    loop.symlink_to(loop)
    answer = command("predict", model, "loop.csv", "-o", "answers.csv")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert command("predict", model, "loop.csv", "-o", "parts").code == 2
    assert command("predict", model, "mine.csv", "-o", "loop.csv").code == 0  # the answers replace the link
    assert not loop.is_symlink()


def test_another_model_is_replaced_only_when_asked(tmp_path: Path, command: Command) -> None:  # noqa: F811
    write_table(tmp_path / "mine.csv")
    fit = ["fit", "mine.csv", *QUICK, "-o", "model"]
    assert command(*fit).code == 0
    first = (tmp_path / "model" / MODEL).read_bytes()
    (tmp_path / "model" / "notes.txt").write_text("mine")
    assert command(*fit).code == 0  # the same fit
    refused = command(*fit, "--seed", "1")
    assert refused.code == 2
    assert "--overwrite" in refused.err
    assert (tmp_path / "model" / MODEL).read_bytes() == first
    assert command(*fit, "--seed", "1", "--overwrite").code == 0
    assert (tmp_path / "model" / MODEL).read_bytes() != first
    assert (tmp_path / "model" / "notes.txt").read_text() == "mine"


def test_a_model_killed_while_it_is_replaced_is_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped before every file that is put in place; what is left loads and answers like one of the two."""
    old, new = untrained(), untrained(dim=24)
    answers = set()
    for count in range(1, 20):
        place = old.save(tmp_path / str(count) / "model")
        with killed_at(count, monkeypatch):
            try:
                new.save(place)
                break
            except KeyboardInterrupt:
                pass
        answers.add(FittedModel.load(place).file.model["dim"])
        assert {path.name for path in place.iterdir()} == {MODEL, WEIGHTS}
    assert answers == {16, 24}


def test_a_folder_that_cannot_be_written_is_found_before_training(
    tmp_path: Path,
    command: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_table(tmp_path / "mine.csv")
    (tmp_path / "model").mkdir()
    make = Path.mkdir

    def refuse(self: Path, *words: object, **more: object) -> None:
        if self.name == files.NEXT:
            raise PermissionError(13, "Permission denied", str(self))
        make(self, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", refuse)
    answer = command("fit", "mine.csv", *QUICK, "-o", "model")
    assert answer.code == 2
    assert "Permission denied" in answer.err
    assert not (tmp_path / "runs").exists()


def test_a_damaged_checksum_is_noticed_and_old_files_have_none() -> None:
    value = {"a": 1, "b": [0.1, None]}
    sealed = files.sealed(value)
    assert files.unsealed(sealed, "it") == value
    assert files.unsealed(value, "it") == value
    for damaged in ({**sealed, "a": 2}, {"a": 1, "b": [0.1, None], "checksun": sealed["checksum"]}):
        with pytest.raises(InputError, match="checksum"):
            files.unsealed(damaged, "it")


def test_a_full_disk_keeps_the_old_model(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {path: path.read_bytes() for path in model.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWrite, match="make room"):
        untrained(dim=24).save(model)
    assert {path: path.read_bytes() for path in model.iterdir()} == kept
