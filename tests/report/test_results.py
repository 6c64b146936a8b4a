"""The results page: one table per benchmark, from records alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from goodformer.config.presets import configure
from goodformer.report import results
from goodformer.report.records import read_records
from goodformer.report.rows import row
from goodformer.report.table import Cell, Table


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


def cells(table: Table, head: str) -> dict[str, Cell]:
    """The cells under a heading by the label of their row."""
    return dict(zip((cell.text for cell in table.column("method")), table.column(head), strict=True))


def only(records: list[dict[str, Any]]) -> Table:
    (table,) = results.tables(records)
    return table


def test_every_metric_stands_under_its_own_heading() -> None:
    """All values differ, so that two columns cannot be exchanged."""
    more = {"id_test": 0.91, "ood_val": 0.82, "precision_at_10": 0.37, "edge_auc": 0.46}
    table = only([record(0, 0.5, **more), record(1, 0.7, **more), record(0, 0.93, method="dir", seconds_per_epoch=5.0)])
    assert table.title == "good-motif / basis / covariate, 600 training graphs"
    shown = {head: cells(table, head)["erm"].plain() for head in table.heads[1:]}
    assert shown == {
        "OOD test": "60.00 ±14.14",
        "paper": "63.80 ±10.36",
        "ID test": "91.00 ±0.00",
        "OOD validation": "82.00 ±0.00",
        "Precision@10": "0.370 ±0.000",
        "edge AUC": "0.460 ±0.000",
        "s/epoch (x ERM)": "2.0 (1.00 x)",
        "seeds": "2",
    }
    assert cells(table, "OOD test")["dir"].plain() == "93.00"
    assert cells(table, "s/epoch (x ERM)")["dir"].plain() == "5.0 (2.50 x)"
    assert table.note == "Budget full, 3 epochs, epoch chosen on OOD validation."


def test_seconds_are_the_mean_over_seeds() -> None:
    table = only([record(seed, 0.5, seconds_per_epoch=seconds) for seed, seconds in enumerate((1.0, 2.0, 6.0))])
    assert cells(table, "s/epoch (x ERM)")["erm"].value == pytest.approx(3.0)


def test_what_differs_between_rows_is_a_column_and_what_nobody_has_is_none() -> None:
    table = only([record(0, 0.5), record(0, 0.6, method="dir", epochs=9, selection="last", budget="short")])
    assert [cell.plain() for cell in table.column("epochs")] == ["9", "3"]
    assert [cell.plain() for cell in table.column("budget")] == ["short", "full"]
    assert [cell.plain() for cell in table.column("epoch chosen on")] == ["last epoch", "OOD validation"]
    assert table.note == ""
    assert not {"Precision@10", "edge AUC"} & set(table.heads)


def test_a_model_that_is_not_the_usual_one_is_named() -> None:
    table = only([record(0, 0.5), record(0, 0.6, model="gps"), record(0, 0.7, preset="paper", method="goodformer")])
    assert [cell.text for cell in table.column("method")] == ["goodformer on gin, paper", "erm on gps", "erm"]


@pytest.mark.parametrize(("metric", "order"), [("accuracy", ["dir", "erm", "vrex"]), ("rmse", ["erm", "dir", "vrex"])])
def test_the_best_row_comes_first_and_those_without_result_last(metric: str, order: list[str]) -> None:
    unknown = record(0, None, method="vrex", metric=metric)
    table = only([unknown, record(0, 0.5, metric=metric), record(0, 0.6, method="dir", metric=metric)])
    assert [cell.text for cell in table.column("method")] == order


def test_larger_benchmarks_come_first() -> None:
    titles = [
        table.title for table in results.tables([record(0, 0.5, train_graphs=size) for size in (90, 18000, 2000)])
    ]
    assert [title.split(", ")[1].split()[0] for title in titles] == ["18000", "2000", "90"]


def test_splits_with_several_seeds_are_one_row() -> None:
    runs = [trained(0, f"dataset.seed={seed}", ood_test=0.5 + seed / 10) for seed in range(3)]
    assert shown(*runs) == [("GOODFormer (ours)", "1")]  # one training seed
    assert [cell.plain() for cell in only(runs).column("splits")] == ["3"]


def test_runs_that_stopped_early_are_one_row_and_splits_of_other_sizes_one_table() -> None:
    data = {"name": "bace", "split": "scaffold"}
    runs = [
        trained(
            0,
            f"dataset.seed={seed}",
            data=data,
            dataset="bace",
            epochs=epochs,
            train_graphs=900 + seed,
            metric="rocauc",
        )
        for seed, epochs in enumerate((3, 5))
    ]
    longest = runs[0]["config"]["training"]["epochs"]
    table = only(runs)
    assert table.title.endswith("900-901 training graphs, ROC-AUC, %")
    assert len(table.rows) == 1
    assert f"{longest} epochs" in table.note


def test_cost_is_in_cpu_seconds_if_every_record_has_them() -> None:
    cheap = [record(0, 0.5, processor_seconds_per_epoch=1.0), record(0, 0.5, method="dir", seconds_per_epoch=9.0)]
    assert cells(only(cheap), "s/epoch (x ERM)")["dir"].plain() == "9.0 (4.50 x)"
    cheap[1]["processor_seconds_per_epoch"] = 3.0
    assert cells(only(cheap), "s/epoch (x ERM)")["dir"].plain() == "3.0 (3.00 x)"


def test_the_page_is_rewritten_between_its_markers_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Before\n<!-- tables: begin -->\nold\n<!-- tables: end -->\nafter\n")
    assert results.write(tmp_path, page)
    assert page.read_text() == f"# Before\n<!-- tables: begin -->\n{results.EMPTY}\n<!-- tables: end -->\nafter\n"
    assert not results.write(tmp_path, page)
    (tmp_path / "a.jsonl").write_text(json.dumps(record(0, 0.5)) + "\n")
    assert results.write(tmp_path, page)
    assert "50.00" in page.read_text()


def test_the_documentation_is_up_to_date() -> None:
    """Committed tables are those of the committed records."""
    root = Path(__file__).parents[2]
    text = (root / "docs" / "results.md").read_text()
    assert results.markdown(read_records(root / "results")) in text


def trained(seed: int, *overrides: str, **more: Any) -> dict[str, Any]:
    """The record of GOODFormer with some settings."""
    config = configure(more.pop("data", {"name": "good-motif"}), "goodformer", seed=seed, overrides=overrides)
    return record(
        seed, more.pop("ood_test", 0.5), method="goodformer", model="goodformer", config=config.to_dict(), **more
    )


def shown(*records: dict[str, Any]) -> list[tuple[str, str]]:
    """The label and the number of seeds of every row."""
    table = only(list(records))
    return [
        (label.text, seeds.text) for label, seeds in zip(table.column("method"), table.column("seeds"), strict=True)
    ]


def test_runs_with_other_settings_than_their_preset_are_rows_of_their_own() -> None:
    """Whichever are more: two values of a weight under one preset are never averaged."""
    usual = [trained(0, ood_test=0.5), trained(1, ood_test=0.7)]
    others = [trained(seed, "method.variance_weight=100.0", ood_test=0.9) for seed in range(3)]
    for some in ([*usual, others[0]], [*others, *usual]):
        ood = cells(only(some), "OOD test")
        assert ood["GOODFormer (ours)"].plain() == "60.00 ±14.14"
        assert ood["GOODFormer (ours), variance_weight=100.0"].text == "90.00"


def test_a_setting_named_like_a_column_tells_rows_apart() -> None:
    usual = configure({"name": "good-motif"}).method["budget"]
    other = next(name for name in ("kl", "size") if name != usual)
    rows = shown(trained(0), trained(1), trained(0, f"method.budget={other}"))
    assert rows == [("GOODFormer (ours)", "2"), (f"GOODFormer (ours), budget={other}", "1")]


@pytest.mark.parametrize("path", ["model.dim", "method.variance_weight", "training.batch_size"])
def test_a_change_in_any_part_is_another_row(path: str) -> None:
    assert [row[1] for row in shown(trained(0), trained(0, f"{path}=24"))] == ["1", "1"]


def test_a_setting_of_one_part_does_not_hide_that_of_another() -> None:
    """GSAT and GOODFormer's model both have a temperature; the part says which is meant."""

    def hot(*overrides: str) -> dict[str, Any]:
        config = configure({"name": "good-motif"}, "gsat", "goodformer", overrides=overrides)
        return record(0, 0.5, method="gsat", model="goodformer", config=config.to_dict())

    usual = configure({"name": "good-motif"}, "gsat", "goodformer").model["temperature"]
    other = next(name for name in ("exact", "none") if name != usual)
    rows = shown(hot(), hot(f"model.temperature={other}"), hot("method.temperature=3.0"))
    assert rows == [
        ("gsat on goodformer", "1"),
        (f"gsat on goodformer, model.temperature={other}", "1"),
        ("gsat on goodformer, method.temperature=3.0", "1"),
    ]


def test_settings_that_cannot_be_read_any_more_are_told_apart() -> None:
    old = [trained(seed) for seed in (0, 1, 0)]
    for one, value in zip(old, (1, 1, 2), strict=True):
        one["config"]["method"]["gone"] = value
    names = shown(*old, trained(0))
    assert [row[1] for row in names] == ["2", "1", "1"]
    assert len({row[0] for row in names}) == 3
    assert names[2][0] == "GOODFormer (ours)"


def test_runs_on_tables_of_ones_own_are_told_apart() -> None:
    def own(seed: int, file: str, target: str) -> dict[str, Any]:
        data = {"name": "table", "path": file, "target": [target]}
        return record(seed, 0.5, dataset="table", config={**trained(seed)["config"], "dataset": data})

    rows = shown(own(0, "a.csv", "toxic"), own(1, "a.csv", "toxic"), own(0, "b.csv", "toxic"), own(0, "a.csv", "ld50"))
    assert [row[1] for row in rows] == ["2", "1", "1"]


def test_data_that_the_title_names_have_tables_of_their_own() -> None:
    data = [{"name": "drugood", "measurement": name} for name in ("ic50", "ec50")]
    made = results.tables([trained(0, data=one, dataset="drugood", domain="assay") for one in data])
    assert [table.title.partition("measurement ")[2][:4] for table in made] == ["ec50", "ic50"]


def test_rows_alike_are_not_the_papers() -> None:
    config = row("erm alike", "good-motif").configure({"name": "good-motif"})
    table = only([record(0, 0.5, config=config.to_dict())])
    assert table.rows[0][0].text.startswith("erm, aggregation=")
    assert "paper" not in table.heads


def test_the_unit_of_cost_is_erm_with_its_own_inputs() -> None:
    def erm(name: str, seconds: float, *overrides: str) -> dict[str, Any]:
        config = row(name, "good-motif").configure({"name": "good-motif"}, overrides=overrides)
        return record(0, 0.5, config=config.to_dict(), seconds_per_epoch=seconds)

    alike, changed, plain = erm("erm alike", 4.0), erm("erm", 2.0, "training.batch_size=16"), erm("erm", 1.0)
    ours = trained(0, seconds_per_epoch=8.0)

    def cost(*records: dict[str, Any]) -> str:
        return cells(only([*records, ours]), "s/epoch (x ERM)")["GOODFormer (ours)"].plain()

    assert cost(alike, changed, plain) == "8.0 (8.00 x)"
    assert cost(alike, changed) == "8.0 (4.00 x)"
    assert cost(alike) == "8.0"


def test_settings_of_the_data_that_name_a_benchmark_are_no_change() -> None:
    data = {"name": "sp-motif", "bias": 0.9, "larger": False}
    config = configure(data, "erm", budget="compare").to_dict()
    assert shown(record(0, 0.5, budget="compare", config=config)) == [("erm", "1")]


def test_the_note_holds_the_test_graphs_of_generated_data() -> None:
    config = configure({"name": "good-motif"}, "erm", budget="compare").to_dict()
    assert "333 OOD test graphs" in only([record(0, 0.5, budget="compare", config=config)]).note
    assert "test graphs" not in only([record(0, 0.5)]).note  # the record does not say how they were generated


def test_an_ablation_has_its_own_published_number() -> None:
    table = only(
        [record(0, 0.5, method="goodformer", model="goodformer", preset=name) for name in ("paper", "without-entropy")]
    )
    assert [cell.plain() for cell in table.column("paper")] == ["81.97 ±16.74", "40.40 ±3.22"]
