"""Records: reading, ids, averages, the clock."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from goodformer import files
from goodformer.config.presets import configure, member_configs
from goodformer.errors import InputError
from goodformer.report.records import (
    INFERENCE,
    clock_of,
    finished,
    known_records,
    mean_of,
    mean_seconds,
    read_records,
    records_by_id,
    relative_cost,
    timed_records,
    welch,
)


def test_a_run_counts_once_and_its_last_line_wins(tmp_path: Path) -> None:
    for name, values in (("a", [0.5]), ("b", [0.6, 0.7])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"id": "1", "x": x}) + "\n" for x in values))
    (tmp_path / "c.jsonl").write_text(json.dumps({"id": "1", "x": 9, "kind": "sureness"}) + "\n")
    assert [record["x"] for record in read_records(tmp_path)] == [0.7]
    (tmp_path / "d.jsonl").write_text("[1]\n")
    with pytest.raises(InputError, match=r"d\.jsonl"):
        read_records(tmp_path)


def test_a_record_from_before_a_new_setting_counts_and_one_of_a_lost_setting_does_not(tmp_path: Path) -> None:
    """Ids are those that the settings have today."""
    config = configure({"name": "good-motif"}, "erm")
    old, lost = config.to_dict(), config.to_dict()
    del old["training"]["schedule"]
    lost["method"]["gone"] = 1
    lines = [{"id": "0123456789ab", "config": old}, {"id": "ba9876543210", "config": lost}]
    (tmp_path / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(records_by_id([tmp_path])) == [config.id]
    with pytest.raises(InputError, match="none"):
        records_by_id([tmp_path / "none"])


def test_inference_times_of_settings_that_no_longer_exist_are_left_out(tmp_path: Path) -> None:
    config = configure({"name": "good-motif"}, "erm")
    lost, plugin = config.to_dict(), config.to_dict()
    lost["method"]["gone"], plugin["method"] = 1, {"name": "of-a-plugin"}
    time = {"kind": INFERENCE, "graphs": 10, "processor_seconds": 2.0}
    lines = [{"id": str(number), **time, "config": one} for number, one in enumerate((lost, plugin, config.to_dict()))]
    lines.append({"id": "3", **time})
    (tmp_path / "times.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert timed_records([tmp_path]) == {config.id: {INFERENCE: lines[2]}}


@pytest.mark.parametrize(
    "entries",
    [
        {"members": ["a"]},
        {"members": "a"},
        {"predictions": {}},
        {"predictions": {"graphs": {"test": "0"}}},
        {"predictions": {"sha256": "0", "graphs": {"val": "0"}}},
        {"config": None},
        {"config": {"dataset": "esol"}},
        {"config": {"dataset": {"domain": "size"}}},
        {"edge_auc": "high"},
        {"selection": "best"},
        {"kind": INFERENCE},
        {"kind": INFERENCE, "graphs": 10, "processor_seconds": "2"},
    ],
)
def test_a_record_that_tables_cannot_read_is_refused_at_once(tmp_path: Path, entries: dict[str, Any]) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "1", **entries}) + "\n")
    with pytest.raises(InputError, match=r"a\.jsonl"):
        timed_records([tmp_path])


def test_a_blend_counts_while_its_members_would_be_the_same_runs(tmp_path: Path) -> None:
    config = configure({"name": "bace"}, "blend", preset="molecules", overrides=["method.others=[linear,forest]"])
    runs = [member.folder_name for member in member_configs(config)]
    for number, names in enumerate((runs, [*runs[:-1], f"{runs[-1][:-12]}0123456789ab"], runs[:-1])):
        record = {"id": config.id, "config": config.to_dict(), "members": [{"run": name} for name in names]}
        (tmp_path / "one.jsonl").write_text(json.dumps(record) + "\n")
        assert list(known_records([tmp_path], [config])) == ([config.id] if number == 0 else [])


def test_mean_and_deviation_of_what_is_known() -> None:
    assert mean_of([0.5, None, 0.7, math.nan]) == pytest.approx((0.6, 0.02**0.5, 2))
    assert mean_of([None, 0.25]) == (0.25, None, 1)
    assert mean_of([None]) == (None, None, 0)


@pytest.mark.parametrize(
    ("known", "cpu"),
    [
        ({}, True),
        ({"machine": {"gpu": "card"}}, False),  # neither the device nor the request is recorded
        ({"machine": {"gpu": "card"}, "hardware": {"accelerator": "cpu"}}, True),
        ({"machine": {"gpu": "card"}, "hardware": {"accelerator": "auto"}}, False),
        ({"machine": {"gpu": "card"}, "hardware": {"accelerator": "auto"}, "device": "cpu"}, True),
        ({"machine": {"gpu": None}, "hardware": {"accelerator": "auto"}, "device": "mps"}, False),
        ({"machine": {"gpu": "card"}, "hardware": {"accelerator": "cpu"}, "device": "cuda, cpu"}, False),
    ],
)
def test_cpu_seconds_count_if_the_cpu_computed(known: dict[str, Any], cpu: bool) -> None:
    clock = clock_of([{"processor_seconds_per_epoch": 1.0, **known}])
    assert clock == ("processor_seconds_per_epoch" if cpu else "seconds_per_epoch")
    assert clock_of([]) == clock_of([{"processor_seconds_per_epoch": 1.0}, {}]) == "seconds_per_epoch"


def test_a_method_fitted_at_once_has_one_result_under_all_budgets(tmp_path: Path) -> None:
    """Their ids differ, because records keep their ids, but the record of one is found for the other."""
    esol = {"name": "esol"}
    short = {
        name: configure(esol, name, budget="compare", overrides=["training.epochs=3"]) for name in ("forest", "erm")
    }
    full = {name: configure(esol, name) for name in ("forest", "erm")}
    other_seed, other_trees = full["forest"].with_seed(1), configure(esol, "forest", overrides=["method.trees=7"])
    lines = [{"id": config.id, "config": config.to_dict(), "ood_test": 1.5} for config in short.values()]
    (tmp_path / "short.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settled = configure(esol, "forest", budget="settled")
    found = known_records([tmp_path], [*full.values(), settled, other_seed, other_trees])
    assert len({short["forest"].id, full["forest"].id, settled.id}) == 3
    assert found[settled.id]["ood_test"] == 1.5
    assert found[full["forest"].id]["ood_test"] == 1.5
    assert not {full["erm"].id, other_seed.id, other_trees.id} & found.keys()

    folder = tmp_path / "runs" / short["forest"].folder_name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(short["forest"].to_dict()))
    assert finished(full.values(), tmp_path / "runs") == []
    (folder / "summary.json").write_text(json.dumps(files.sealed({"id": short["forest"].id, "ood_test": 2.5})))
    assert [run.folder for run in finished([*full.values(), other_seed], tmp_path / "runs")] == [folder]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [([1.0, 2.0, 4.0], [3.0, 3.5, 9.0, 8.0]), ([5.0, 5.5, 6.0], [1.0, 1.1, 0.9]), ([2.0, 2.1, 2.0], [1.0, 5.0, 3.0])],
)
def test_welchs_interval_is_that_of_scipy(ours: list[float], theirs: list[float]) -> None:
    found = welch(mean_of(ours), mean_of(theirs))
    oracle = stats.ttest_ind(ours, theirs, equal_var=False)
    assert found[1:] == pytest.approx(tuple(oracle.confidence_interval(0.95)))
    assert found.undecided == (oracle.pvalue > 0.05)


def test_equal_runs_have_an_interval_without_width() -> None:
    same = mean_of([2.0, 2.0])
    assert welch(same, same).undecided
    assert not welch(same, mean_of([1.0, 1.0])).undecided
    with pytest.raises(ValueError, match="two values"):
        welch(same, mean_of([1.0]))


def timed(seconds: float | None, library: str | None = None, device: str = "cpu") -> dict[str, Any]:
    return {"seconds_per_epoch": seconds, "device": device, "machine": {"products": library}}


@pytest.mark.parametrize(
    ("ours", "theirs", "ratio"),
    [
        ([timed(6.0), timed(2.0)], [timed(2.0)], 2.0),
        ([timed(3.0), timed(8.0, "OpenBLAS")], [timed(1.0), timed(4.0, "OpenBLAS")], 2.5),
        ([timed(3.0), timed(8.0, "OpenBLAS")], [timed(1.0)], 3.0),
        ([timed(3.0)], [timed(1.0, "OpenBLAS")], None),
        ([timed(3.0, "OpenBLAS", "cuda")], [timed(1.0, None, "cuda")], 3.0),
        ([timed(None)], [timed(1.0)], None),
        ([{"seconds_per_epoch": 4.0, "device": "cpu"}], [timed(1.0)], 4.0),
    ],
)
def test_times_are_compared_by_the_library_that_multiplied_matrices(
    ours: list[dict[str, Any]], theirs: list[dict[str, Any]], ratio: float | None
) -> None:
    assert relative_cost(ours, theirs, "seconds_per_epoch") == (None if ratio is None else pytest.approx(ratio))


def test_seconds_are_those_of_torchs_products_if_there_are_any() -> None:
    clock = "seconds_per_epoch"
    assert mean_seconds([timed(3.0), timed(5.0), timed(1.0, "OpenBLAS"), timed(None)], clock) == 4.0
    assert mean_seconds([timed(1.0, "OpenBLAS")], clock) == 1.0
    assert mean_seconds([timed(None)], clock) is None
