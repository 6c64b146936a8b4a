"""Tables come from records and from nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from goodformer.registry import InputError
from goodformer.report import tables


def record(seed: int, ood_test: float | None, **more: Any) -> dict[str, Any]:
    """The summary of a run, as far as tables look at it."""
    return {
        "id": f"{seed}-{more.get('method', 'erm')}",
        "dataset": "good-motif",
        "domain": "basis",
        "shift": "covariate",
        "train_graphs": 600,
        "method": "erm",
        "model": "gin",
        "preset": "default",
        "budget": "full",
        "epochs": 3,
        "selection": "ood_val",
        "seed": seed,
        "id_test": 0.9,
        "ood_val": 0.8,
        "ood_test": ood_test,
        "precision_at_10": None,
        "edge_auc": None,
        "seconds_per_epoch": 2.0,
        **more,
    }


def folder(tmp_path: Path, records: list[dict[str, Any]]) -> Path:
    """A folder with the records in two files."""
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records[:1]))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records[1:]))
    return tmp_path


def test_mean_and_deviation_over_seeds(tmp_path: Path) -> None:
    rows = tables.read_records(folder(tmp_path, [record(0, 0.5), record(1, 0.7), record(0, 0.93, method="goodformer")]))
    text = tables.markdown(rows)
    assert text.startswith("### good-motif / basis / covariate, 600 training graphs")
    figures = "| 90.00 ±0.00 | 80.00 ±0.00 | 60.00 ±14.14 | - | - | 63.80 ±10.36 | 2.0 | 1.00 | 2 |"
    assert f"| erm | gin | default | full | 3 | ood_val {figures}" in text
    assert "| 93.00 | - | - | - | 2.0 | 1.00 | 1 |" in text


def test_cost_is_the_processors_where_every_record_tells_it() -> None:
    cheap = [record(0, 0.5, processor_seconds_per_epoch=1.0), record(0, 0.5, method="dir", seconds_per_epoch=9.0)]
    assert "| 9.0 | 4.50 | 1 |" in tables.markdown(cheap)
    cheap[1]["processor_seconds_per_epoch"] = 3.0
    assert "| 3.0 | 3.00 | 1 |" in tables.markdown(cheap)


@pytest.mark.parametrize(
    ("known", "processor"),
    [
        ({}, True),
        ({"machine": {"gpu": "card"}}, False),  # a record that tells neither device nor what was asked for
        ({"machine": {"gpu": "card"}, "hardware": {"accelerator": "cpu"}}, True),
        ({"machine": {"gpu": "card"}, "hardware": {"accelerator": "auto"}}, False),
        ({"machine": {"gpu": "card"}, "hardware": {"accelerator": "auto"}, "device": "cpu"}, True),
        ({"machine": {"gpu": None}, "hardware": {"accelerator": "auto"}, "device": "mps"}, False),
        ({"machine": {"gpu": "card"}, "hardware": {"accelerator": "cpu"}, "device": "cuda, cpu"}, False),
    ],
)
def test_the_processors_time_counts_where_the_processor_computed(known: dict[str, Any], processor: bool) -> None:
    """A card that is there and did nothing does not matter."""
    clock = tables.clock_of([record(0, 0.5, processor_seconds_per_epoch=1.0, **known)])
    assert clock == ("processor_seconds_per_epoch" if processor else "seconds_per_epoch")


def test_a_run_counts_once_and_its_last_line_wins(tmp_path: Path) -> None:
    rows = tables.read_records(folder(tmp_path, [record(0, 0.5), record(0, 0.6)]))
    assert [row["ood_test"] for row in rows] == [0.6]


def test_missing_figures_stay_missing() -> None:
    assert tables.spread([None, float("nan")], 100) == "-"
    assert tables.spread([None, 0.25], 100) == "25.00"


def test_the_page_is_rewritten_between_its_markers_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Before\n<!-- tables: begin -->\nold\n<!-- tables: end -->\nafter\n")
    assert tables.write(tmp_path, page)
    assert page.read_text() == f"# Before\n<!-- tables: begin -->\n{tables.EMPTY}\n<!-- tables: end -->\nafter\n"
    assert not tables.write(tmp_path, page)
    folder(tmp_path, [record(0, 0.5)])
    assert tables.write(tmp_path, page)
    assert "50.00" in page.read_text()


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("nothing here")
    with pytest.raises(InputError, match="once each"):
        tables.write(tmp_path, tmp_path / "page.md")


def test_the_documentation_is_up_to_date() -> None:
    """Committed tables are those of the committed records."""
    root = Path(__file__).parents[2]
    text = (root / "docs" / "results.md").read_text()
    assert tables.markdown(tables.read_records(root / "results")) in text


def test_runs_of_one_name_and_other_settings_are_told_apart() -> None:
    """Two values of a weight under one preset are two rows, and neither has the figures of both."""
    from goodformer.config.presets import configure

    def weighted(seed: int, ood_test: float, *overrides: str) -> dict[str, Any]:
        config = configure({"name": "good-motif"}, "goodformer", seed=seed, overrides=overrides)
        return record(seed, ood_test, method="goodformer", model="goodformer", config=config.to_dict())

    usual = [weighted(0, 0.5), weighted(1, 0.7)]
    rows = tables.markdown([*usual, weighted(0, 0.9, "method.variance_weight=100.0")]).splitlines()
    assert [line for line in rows if "| default |" in line and "60.00 ±14.14" in line]
    assert [line for line in rows if "| default, variance_weight=100.0 |" in line and "| 90.00 |" in line]
    others = [weighted(seed, 0.9, "method.variance_weight=100.0") for seed in range(3)]  # the usual are no majority
    rows = tables.markdown([*others, *usual]).splitlines()
    assert [line for line in rows if "| default |" in line and "60.00 ±14.14" in line]
    assert [line for line in rows if "| default, variance_weight=100.0 |" in line and "| 90.00 ±0.00 |" in line]


def trained(seed: int, *overrides: str, **more: Any) -> dict[str, Any]:
    """The record of GOODFormer with some settings."""
    from goodformer.config.presets import configure

    config = configure(more.pop("data", {"name": "good-motif"}), "goodformer", seed=seed, overrides=overrides)
    return record(seed, 0.5, method="goodformer", model="goodformer", config=config.to_dict(), **more)


def shown(*records: dict[str, Any]) -> list[tuple[str, str]]:
    """The preset and the number of seeds of every row."""
    lines = [line.strip("| ").split(" | ") for line in tables.markdown(records).splitlines() if "| ood_val |" in line]
    return [(cells[2], cells[-1]) for cells in lines]


def test_a_setting_named_like_a_column_tells_rows_apart() -> None:
    from goodformer.config.presets import configure

    usual = configure({"name": "good-motif"}).method["budget"]
    other = next(name for name in ("kl", "size") if name != usual)
    rows = shown(trained(0), trained(1), trained(0, f"method.budget={other}"))
    assert rows == [("default", "2"), (f"default, budget={other}", "1")]


@pytest.mark.parametrize("path", ["model.dim", "method.variance_weight", "training.batch_size", "dataset.seed"])
def test_a_change_in_any_part_is_another_row(path: str) -> None:
    assert [row[1] for row in shown(trained(0), trained(0, f"{path}=24"))] == ["1", "1"]


def test_a_setting_of_one_part_does_not_hide_that_of_another() -> None:
    """GSAT and GOODFormer's model both have a temperature; the part says which is meant."""
    from goodformer.config.presets import configure

    def hot(*overrides: str) -> dict[str, Any]:
        config = configure({"name": "good-motif"}, "gsat", "goodformer", overrides=overrides)
        return record(0, 0.5, method="gsat", model="goodformer", config=config.to_dict())

    usual = configure({"name": "good-motif"}, "gsat", "goodformer").model["temperature"]
    other = next(name for name in ("exact", "none") if name != usual)
    rows = shown(hot(), hot(f"model.temperature={other}"), hot("method.temperature=3.0"))
    assert rows == [
        ("default", "1"),
        (f"default, model.temperature={other}", "1"),
        ("default, method.temperature=3.0", "1"),
    ]


def test_settings_that_cannot_be_read_any_more_are_told_apart() -> None:
    old = [trained(seed) for seed in (0, 1, 0)]
    for one, value in zip(old, (1, 1, 2), strict=True):
        one["config"]["method"]["gone"] = value
    names = shown(*old, trained(0))
    assert [row[1] for row in names] == ["2", "1", "1"]
    assert len({row[0] for row in names}) == 3
    assert names[2][0] == "default"


def test_runs_on_tables_of_ones_own_are_told_apart() -> None:
    def own(seed: int, file: str, target: str) -> dict[str, Any]:
        data = {"name": "table", "path": file, "target": [target]}
        return record(seed, 0.5, dataset="table", config={**trained(seed)["config"], "dataset": data})

    rows = shown(own(0, "a.csv", "toxic"), own(1, "a.csv", "toxic"), own(0, "b.csv", "toxic"), own(0, "a.csv", "ld50"))
    assert [row[1] for row in rows] == ["2", "1", "1"]


def test_data_that_the_heading_names_have_tables_of_their_own() -> None:
    data = [{"name": "drugood", "measurement": name} for name in ("ic50", "ec50")]
    text = tables.markdown([trained(0, data=one, dataset="drugood", domain="assay") for one in data])
    assert text.count("###") == 2
    assert "measurement ic50" in text
    assert "measurement ec50" in text


def test_rows_alike_do_not_stand_beside_the_papers_figure() -> None:
    from goodformer.report.rows import row

    config = row("erm alike", "good-motif").configure({"name": "good-motif"})
    line = tables.markdown([record(0, 0.5, config=config.to_dict())]).splitlines()[-1]
    assert "| default, aggregation=" in line
    assert "63.80" not in line


def test_what_the_heading_tells_of_the_data_is_no_other_setting() -> None:
    from goodformer.config.presets import configure

    data = {"name": "sp-motif", "bias": 0.9, "larger": False}
    config = configure(data, "erm", budget="compare").to_dict()
    (line,) = tables.markdown([record(0, 0.5, budget="compare", config=config)]).splitlines()[-1:]
    assert "| erm | gin | default | compare |" in line


def test_an_ablation_does_not_stand_beside_the_whole_method() -> None:
    rows = [
        record(0, 0.5, method="goodformer", model="goodformer", preset=name) for name in ("paper", "without-entropy")
    ]
    lines = tables.markdown([{**row, "id": row["preset"]} for row in rows]).splitlines()
    assert "81.97 ±16.74" in lines[-2]
    assert "40.40 ±3.22" in lines[-1]
