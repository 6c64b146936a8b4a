"""Commands load no library that they do not need: each costs up to two seconds before the first word."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.apply.molecules import write_table

HEAVY = ("torch_geometric", "torch._dynamo", "sklearn", "scipy.stats", "lightning", "matplotlib", "pandas")
FIT = """
import sys
from pathlib import Path
import goodformer.apply.fit as room
from goodformer.apply.recipe import Recipe

def watch(sentence):  # the first line of progress, before any training
    print("loaded", *({heavy} & set(sys.modules)))
    raise KeyboardInterrupt

try:
    room.fit_file(room.OwnFile(Path("mine.csv"), ("nitro",)), "model", Recipe("erm", "gin"), watch=watch)
except KeyboardInterrupt:
    pass
room.fit_file(room.OwnFile(Path("mine.csv"), ("nitro",)), "model", Recipe("forest"), baseline=False)
"""
PREDICT = """
import sys
from goodformer.cli import run
assert run(["predict", "model", "mine.csv", "-o", "answers.csv"]) == 0
print("loaded", *({heavy} & set(sys.modules)))
"""
EXPLAIN = """
import sys
from goodformer.cli import run
assert run(["explain", "model", "mine.csv", "-o", "why", "--count", "2"]) == 0
assert run(["fit", "mine.csv", "--target", "nitro", "--method", "linear", "--no-baseline", "-o", "other"]) == 0
print("loaded", *({"torch_geometric", "torch._dynamo"} & set(sys.modules)))
"""


@pytest.mark.usefixtures("cache")
def test_fit_and_predict_load_nothing_heavy_before_they_need_it(tmp_path: Path) -> None:
    write_table(tmp_path / "mine.csv")
    for code in (FIT, PREDICT, EXPLAIN):
        words = [sys.executable, "-c", code.replace("{heavy}", str(set(HEAVY)))]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "loaded\n" in done.stdout


def test_fit_says_what_it_does_before_it_loads_anything(tmp_path: Path) -> None:
    words = [sys.executable, "-X", "importtime", "-m", "goodformer", "fit", "missing.csv", "--target", "nitro"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    lines = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    assert lines.index("reading missing.csv ...") < lines.index("torch")
