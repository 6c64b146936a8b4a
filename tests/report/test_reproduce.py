"""Tables of the paper against numbers computed by hand, and the commands for missing runs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from goodformer.config.presets import configure, presets
from goodformer.config.run import RunConfig
from goodformer.data.benchmarks.sizes import generated_sizes
from goodformer.engine.store import Run
from goodformer.errors import InputError
from goodformer.report import compare, reproduce
from goodformer.report.artefacts import (
    ARTEFACTS,
    PRESET_NOTE,
    Artefact,
    Column,
    TablePlan,
    artefact,
    compared,
    narrowed,
)
from goodformer.report.metrics import METRICS
from goodformer.report.pace import Paces
from goodformer.report.records import INFERENCE, read_records
from goodformer.report.rows import row

COMPONENT_PRESETS = ("without-temperature", "without-interventions", "without-encoder", "entropy-loss")
ROOT = Path(__file__).parents[2]
BASIS = {"name": "good-motif", "domain": "basis"}


def record(config: RunConfig, **more: Any) -> dict[str, Any]:
    """The summary of a run, as far as artefacts look at it."""
    known = {"train_graphs": 2000, "metric": "accuracy", "processor_seconds_per_epoch": 4.0}
    return {"id": config.id, "config": config.to_dict(), **known, **more}


def made(name: str, seed: int, dataset: dict[str, Any] = BASIS, budget: str = "compare", **more: Any) -> dict[str, Any]:
    """The record of a row."""
    return record(row(name, dataset["name"]).configure(dataset, budget, seed), **more)


def report(name: str, records: list[dict[str, Any]], budget: str = "compare", **part: Any) -> dict[str, Any]:
    """An artefact made of some records."""
    one = artefact(name)
    found = {RunConfig.from_dict(line["config"]).id: line for line in records}
    return reproduce.report(one, narrowed(one.plans(budget), **part), found)


def cells(table: dict[str, Any]) -> dict[str, list[str]]:
    """The plain text of every row by its title."""
    return {row[0].text: [cell.plain() for cell in row[1:]] for row in reproduce.table(table).rows}


# ------------------------------------------------------------------------------------------ declarations


@pytest.mark.parametrize("one", ARTEFACTS.values(), ids=lambda one: one.name)
def test_every_artefact_has_settings_that_are_accepted(one: Artefact) -> None:
    for budget in one.budgets:
        for table in one.plans(budget, 1):
            assert table.configs
            assert {column.comparison.budget for column in table.columns} == {budget}
            rows = [row.name for row in table.rows]
            assert len(rows) == len(set(rows))


def test_every_table_and_figure_of_experiments_in_the_paper_is_there() -> None:
    tables_ = {"main", "precision", "ablation", "runtime", "shift-level", "predictor"}
    theirs = {name for name, one in ARTEFACTS.items() if one.place}
    assert theirs == {f"table-{name}" for name in tables_} | {"figure-subgraphs", "figure-sensitivity"}
    assert set(ARTEFACTS) - theirs == {"table-components", "table-changes", "table-real"}
    with pytest.raises(InputError, match="did you mean table-main"):
        artefact("table-man")


def test_runs_on_real_data_end_by_one_rule_and_are_shown_by_another() -> None:
    (table,) = artefact("table-real").plans()
    for config in table.configs.values():
        assert (config.training.patience, config.training.selection) == (5, "id_val")
        assert config.training.epochs == 30
    shown = report("table-real", [])["tables"][0]
    assert {column["selection"] for column in shown["columns"]} == {"ood_val"}
    by_rule = {"ood_val": {"ood_test": 0.7}, "id_val": {"ood_test": 0.6}}
    assert METRICS["by_ood_val"].value({"ood_test": 0.6, "by_rule": by_rule}) == pytest.approx(70)


def test_the_main_table_has_the_rows_and_columns_of_the_paper() -> None:
    for budget in ("full", "compare"):
        table = artefact("table-main").plans(budget)[0]
        assert len(table.columns) == 7
        assert len(table.rows) == 16
        beside = [any(cell["beside"] for cell in column) for column in _columns(report("table-main", [], budget))]
        assert beside == [True] * 4 + [budget == "full"] * 3  # the last three are other data than the paper's


def _columns(made_of: dict[str, Any]) -> list[tuple[dict[str, Any], ...]]:
    return list(zip(*(row["cells"] for row in made_of["tables"][0]["rows"]), strict=True))


def test_data_that_no_budget_cuts_are_trained_as_recorded() -> None:
    columns = {column.head: column.comparison for column in artefact("table-main").plans("compare")[0].columns}
    epochs = {head: plan.configs["erm", 0].training.epochs for head, plan in columns.items()}
    assert list(epochs.values()) == [4, 4, 3, 3, 3, 8, 8]
    assert columns["DrugOOD EC50"].configs["erm", 0].dataset["measurement"] == "ec50"


def test_no_change_of_the_default_escapes_its_table() -> None:
    names = {row.preset for row in artefact("table-changes").plans("compare")[0].rows}
    assert names == {"default", *(name for name in presets("goodformer") if name.startswith("default-"))}
    default = configure(BASIS)
    assert all(configure(BASIS, preset=name).id != default.id for name in names - {"default"})


def test_sensitivity_changes_one_weight_at_a_time() -> None:
    base = {name: configure(BASIS, preset=name, budget="compare") for name in ("default", "paper")}
    for table in artefact("figure-sensitivity").plans()[:3]:
        for column in table.columns:
            setting, value = column.comparison.overrides[-1].removeprefix("method.").split("=")
            for config in column.comparison.configs.values():
                usual = base[config.preset]
                assert config.method == {**usual.method, setting: float(value)}
                assert (config.model, config.training, config.dataset) == (usual.model, usual.training, usual.dataset)


# ------------------------------------------------------------------------------------------ cells


def test_every_metric_stands_under_its_own_heading() -> None:
    records = [
        made("gsat", seed, precision_at_10=value, edge_auc=0.5, ood_test=0.5) for seed, value in enumerate((0.2, 0.4))
    ]
    records += [made("dir", seed, precision_at_10=0.25 * (1 + seed), edge_auc=None) for seed in range(3)]
    (table,) = report("table-precision", records)["tables"]
    shown = cells(table)
    heads = reproduce.table(table).heads
    assert heads[1:5] == ["Motif basis Precision@10", "paper", "Motif basis, by logits", "Motif basis edge AUC"]
    assert shown["GSAT"][:5] == [
        "0.300 ±0.141 (2 of 3 seeds)",
        "0.396 ±0.077",
        "-",
        "0.500 ±0.000 (2 of 3 seeds)",
        "not run",
    ]
    assert shown["DIR"][:3] == ["0.500 ±0.250", "0.203 ±0.041", "-"]
    assert shown["CIGA"][:2] == ["not run", "0.247 ±0.024"]
    assert shown["GREA"][:2] == ["not run", "-"]
    assert "**0.500**" not in reproduce.markdown({"tables": [table], "gap": None})  # nothing of as many seeds beside it


def test_the_note_holds_the_size_of_the_data_that_was_trained_on() -> None:
    records = [made("erm", 0, ood_test=0.5, train_graphs=1777)]
    table = report("table-main", records, methods="erm", datasets="good-motif")["tables"][0]
    note = reproduce.table(table).note
    assert "Motif basis: 1,777 training and 333 OOD test graphs, 4 epochs" in note
    assert "over 3 seeds; epoch chosen on OOD validation" in note


def test_only_whole_rows_above_chance_are_marked() -> None:
    def marked(values: dict[str, list[float]]) -> list[str]:
        records = [made(row, seed, ood_test=value) for row, found in values.items() for seed, value in enumerate(found)]
        table = report("table-main", records, methods="erm,irm,vrex", datasets="good-motif")["tables"][0]
        return [row[0].text for row in reproduce.table(table).rows if row[1].rank == 1]

    low = {"vrex": [0.35] * 3}
    assert marked({"erm": [0.5] * 3, "irm": [0.4] * 3, **low}) == ["ERM"]
    assert marked({"erm": [0.5] * 3, "irm": [0.4] * 3}) == []  # VREx is not run
    assert marked({"erm": [0.5] * 3, "irm": [0.4] * 3, "vrex": [0.9]}) == []
    assert marked({"erm": [0.5], "irm": [0.4], "vrex": [0.9]}) == []
    assert marked({"erm": [0.5] * 3, "irm": [0.9] * 2, **low}) == []
    low = {"vrex": [0.2] * 3}
    assert marked({"erm": [0.33, 0.34, 0.35], "irm": [0.3] * 3, **low}) == []
    assert marked({"erm": [0.33, 0.34, 0.35], "irm": [0.4] * 3, **low}) == ["IRM"]


@pytest.mark.parametrize(("last", "marked"), [(0.45, ["ERM"]), (0.55, [])])
def test_the_best_row_is_marked_only_if_every_selection_rule_agrees(last: float, marked: list[str]) -> None:
    """IRM is worse than ERM at the chosen epoch, and at the last one better in the second case."""
    at_last = {"erm": 0.5, "irm": last}
    records = [
        made(row, seed, ood_test=value, by_rule={"last": {"ood_test": at_last[row]}})
        for row, value in (("erm", 0.5), ("irm", 0.4))
        for seed in range(3)
    ]
    table = report("table-main", records, methods="erm,irm", datasets="good-motif")["tables"][0]
    assert [row[0].text for row in reproduce.table(table).rows if row[1].rank == 1] == marked


def test_nothing_is_marked_beside_rows_with_other_inputs_or_epochs() -> None:
    def marked(names: str, budget: str, table: int = 0) -> list[str]:
        rows = names.split(",")
        records = [
            made(name, seed, budget=budget, ood_test=0.5 + rows.index(name) / 10) for name in rows for seed in range(3)
        ]
        shown = report("table-main", records, budget, methods=names, datasets="good-motif")["tables"][table]
        return [row[0].text for row in reproduce.table(shown).rows if row[1].rank == 1]

    assert marked("erm,gsat", "short") == ["GSAT"]
    assert marked("erm,gps", "short") == []  # GraphGPS reads Laplacian encodings
    assert marked("gsat,goodformer", "short") == []  # ours reads cycle walks
    assert marked("gsat alike,goodformer", "short", table=1) == ["GOODFormer (ours)"]
    assert marked("erm,cal-plus", "full") == []  # 200 epochs against 400


def test_the_papers_number_stands_beside_the_papers_preset_alone() -> None:
    rows = "all,goodformer:paper,goodformer:as_published"
    table = report("table-main", [], methods=rows, datasets="good-motif")["tables"][0]
    shown = {row[0].text: (row[2].text, row[2].rank) for row in reproduce.table(table).rows}
    assert {title: cell for title, cell in shown.items() if title == "iMoLD" or title.startswith("GOOD")} == {
        "iMoLD": ("71.02", 2),
        "GOODFormer (paper)": ("81.97", 1),
        "GOODFormer (published code)": ("-", 0),
        "GOODFormer (ours)": ("-", 0),
    }


def test_the_papers_numbers_are_ranked_only_if_none_is_left_out() -> None:
    def marked(name: str, budget: str = "compare", table: int = 0, **part: Any) -> list[str]:
        shown = reproduce.table(report(name, [], budget, **part)["tables"][table])
        return [row[0].text for row in shown.rows if any(cell.rank == 1 for cell in row)]

    for name in ("table-main", "table-precision", "table-ablation", "table-predictor", "table-shift-level"):
        assert "GOODFormer (paper)" in marked(name)
    assert marked("figure-subgraphs") == []  # GOODFormer of the paper is not drawn
    assert marked("table-main", methods="erm,irm,gsat") == []
    assert marked("table-ablation", methods="goodformer:paper,goodformer:without-entropy") == []
    assert marked("table-main", "full", table=2) == []  # the leaderboard has more rows than are quoted


@pytest.mark.parametrize(("spread", "rank"), [(0.001, 1), (0.2, 0)])
def test_the_best_of_our_rows_is_marked_only_beyond_the_scatter_of_the_seeds(spread: float, rank: int) -> None:
    names = ("goodformer", "erm on goodformer alike")
    records = [
        made(name, seed, budget="full", ood_test=mean + spread * (seed - 1), train_graphs=18000, epochs=5)
        for name, mean in zip(names, (0.9, 0.8), strict=True)
        for seed in range(3)
    ]
    table = report("table-main", records, "full", datasets="good-motif/basis", methods=",".join(names))["tables"][1]
    first = {row[0].text: row[1].rank for row in reproduce.table(table).rows}
    assert table["title"] == "Same inputs"
    assert first["GOODFormer (ours)"] == rank


def test_the_note_on_ours_is_what_the_settings_say() -> None:
    ours, theirs = configure(BASIS), configure(BASIS, preset="paper")
    for fact in ("inputs (cycle walks)", "adversary", "mask budget", "weight averaging", "entropy loss is off"):
        assert fact in PRESET_NOTE
    assert (ours.model["inputs"], theirs.model["inputs"]) == (["cycle_walks:6"], [])
    assert (ours.method["variant_path"], theirs.method["variant_path"]) == ("reversed", "detached")
    assert ours.method["budget_weight"] > theirs.method["budget_weight"] == 0
    assert (ours.training.average, theirs.training.average) == ("ema", "none")
    assert ours.method["entropy_weight"] == 0 < theirs.method["entropy_weight"]


def test_components_are_compared_seed_by_seed() -> None:
    without = "goodformer:default-without-encoder"
    ours, theirs = (0.90, 0.92, 0.94), (0.85, 0.88, 0.88)  # differences 5, 4 and 6 points: 5 ± 4.303 / sqrt(3)
    records = [
        made(name, seed, budget="short", ood_test=value, precision_at_10=precision)
        for name, values, precision in (("goodformer", ours, 0.9), (without, theirs, 0.9))
        for seed, value in enumerate(values)
    ]
    (table,) = report("table-components", records, "short")["tables"]
    lines = {line.partition(".")[0].partition(":")[0]: line for line in reproduce.contrasts(table)}
    assert "Motif basis: changes accuracy by +5.00 [+2.52, +7.48], 3 seeds" in lines["Subgraph encoder"]
    assert "Precision@10: adds nothing measurable here (+0.000 [+0.000, +0.000], 3 seeds)" in lines["Subgraph encoder"]
    assert "Motif size: not run" in lines["Subgraph encoder"]
    assert lines["Test-time temperature"] == "Test-time temperature: not run."
    made_of = report("table-components", records, "short")
    for text in (reproduce.text(made_of), reproduce.markdown(made_of), reproduce.latex(made_of)):
        assert "changes accuracy by +5.00" in text


def test_one_seed_measures_no_component() -> None:
    records = [
        made(name, 0, budget="short", ood_test=value)
        for name, value in (("goodformer", 0.9), ("goodformer:default-entropy-loss", 0.8))
    ]
    (table,) = report("table-components", records, "short")["tables"]
    assert "not measured, -10.00 with one seed has no interval" in reproduce.contrasts(table)[-1]


def test_components_train_what_their_names_say() -> None:
    rows = {row.preset for row in artefact("table-components").plans()[0].rows}
    assert rows == {"default", *(f"default-{part}" for part in COMPONENT_PRESETS)}
    assert artefact("table-components").plans()[0].columns[0].comparison.budget == "short"


def test_no_budget_is_shown_for_another() -> None:
    records = [made("erm", seed, ood_test=0.5) for seed in range(3)]
    full, reduced = (cells(report("table-main", records, budget)["tables"][0])["ERM"] for budget in ("full", "compare"))
    assert full[:2] == ["not run", "63.80 ±10.36"]
    assert reduced[:2] == ["50.00 ±0.00", "63.80 ±10.36"]


def test_records_of_other_settings_do_not_count() -> None:
    config = row("erm", "good-motif").configure(BASIS, "compare", 0, ["training.batch_size=16"])
    assert cells(report("table-main", [record(config, ood_test=0.5)])["tables"][0])["ERM"][0] == "not run"


def test_the_tables_beside_ours_are_the_papers() -> None:
    ablation = cells(report("table-ablation", [])["tables"][0])
    assert ablation["GOODFormer (paper), gil generator"][1::2] == [
        "48.08 ±4.20",
        "79.63 ±7.08",
        "68.19 ±1.92",
        "61.30 ±0.69",
    ]
    predictor = cells(report("table-predictor", [])["tables"][0])
    assert predictor["GOODFormer (paper), mlp predictor"][1::2] == [
        "70.66 ±9.36",
        "79.36 ±5.16",
        "68.34 ±4.43",
        "59.70 ±3.06",
    ]
    shift = cells(report("table-shift-level", [])["tables"][0])
    assert shift["Exphormer"][1::2] == ["40.17 ±6.07", "47.98 ±4.39", "60.35 ±5.80"]


def test_concept_shift_stands_beside_the_leaderboard() -> None:
    tables = report("table-main", [], "full")["tables"]
    concept = next(table for table in tables if "concept" in table["title"])
    assert reproduce.table(concept).heads[1:] == ["Motif basis, concept", "GOOD", "Motif size, concept", "GOOD"]
    assert cells(concept)["DIR"] == ["-", "82.96 ±4.47", "-", "54.96 ±9.32"]
    assert cells(concept)["GOODFormer (ours)"] == ["not run", "-", "not run", "-"]


def test_time_is_scaled_to_the_full_data_and_relative_to_graphgps() -> None:
    records = [made("gps", 0, processor_seconds_per_epoch=2.0), made("graphormer", 0, processor_seconds_per_epoch=3.0)]
    records[0]["inference"] = {"graphs": 300, "processor_seconds": 0.5}
    (table,) = report("table-runtime", records, methods="graphormer,gps")["tables"]
    # 2 s for 2,000 graphs are 18 s for 18,000; 0.5 s for 300 are 5 s for 3,000.
    few = "(1.0 x) (1 of 3 seeds)"
    assert cells(table)["GraphGPS"][:4] == [f"18.0 {few}", "9.5 (1.0 x)", f"5.0 {few}", "1.7 (1.0 x)"]
    assert cells(table)["Graphormer"][:3] == ["27.0 (1.5 x) (1 of 3 seeds)", "7.7 (0.8 x)", "not run"]


def test_time_without_the_row_that_is_its_unit_is_in_seconds_alone() -> None:
    records = [made("graphormer", seed, processor_seconds_per_epoch=3.0) for seed in range(3)]
    (table,) = report("table-runtime", records, methods="graphormer")["tables"]
    assert cells(table)["Graphormer"][0] == "27.0 ±0.0"


def test_other_rules_come_from_the_same_records() -> None:
    rules = {"id_val": {"ood_test": 0.7}, "last": {"ood_test": None}}
    records = [made("goodformer", seed, budget="full", ood_test=0.9, by_rule=rules) for seed in range(3)]
    table = report("table-main", records, "full")["tables"][-1]
    assert cells(table)["GOODFormer (ours)"][:3] == ["90.00 ±0.00", "70.00 ±0.00", "-"]
    heads = [column["head"] for column in table["columns"][:3]]
    assert [head.partition(", ")[2] for head in heads] == ["by OOD validation", "by ID validation", "last epoch"]


def test_an_average_over_fewer_seeds_states_their_number() -> None:
    """Runs that measured the test splits at the chosen epoch only lack them at the epoch of another rule."""
    last = (0.5, None, None)
    records = [
        made("goodformer", seed, budget="full", ood_test=0.9, by_rule={"last": {"ood_test": value}})
        for seed, value in enumerate(last)
    ]
    table = report("table-main", records, "full")["tables"][-1]
    assert cells(table)["GOODFormer (ours)"][:3] == ["90.00 ±0.00", "-", "50.00 (1 of 3 seeds)"]


def test_the_note_holds_sizes_epochs_seeds_and_the_rule() -> None:
    note = reproduce.note(report("table-predictor", [])["tables"][0])
    for fact in (
        "Motif basis, Motif size: 2,000 training and 333 OOD test graphs, 4 epochs",
        "HIV scaffold: 24,682 training graphs, 3 epochs",  # the budget cuts no test graphs here
    ):
        assert fact in note
    assert "over 3 seeds; epoch chosen on OOD validation" in note
    assert "18,000 training and 3,000 OOD test graphs" in reproduce.note(
        report("table-main", [], "full", datasets="good-motif")["tables"][0]
    )
    one = artefact("table-main")
    single = reproduce.note(reproduce.report(one, one.plans("compare", 1), {})["tables"][0])
    assert "One seed" in single


def test_latex_and_json() -> None:
    made_of = report("table-predictor", [made("goodformer:paper", 0, ood_test=0.5)])
    json.dumps(made_of, allow_nan=False)
    text = reproduce.latex(made_of)
    assert r"GOODFormer (paper) & 50.00 (1 of 3 seeds) & \textbf{81.97}{\scriptsize$\pm$16.74}" in text
    assert "% not run: goodformer compare --dataset good-motif" in text


# ------------------------------------------------------------------------------------------ gaps


def asked(command: str) -> set[str]:
    """Ids of the runs that a command of a gap would train."""
    words = shlex.split(command)
    assert words[:2] == ["goodformer", "compare"]
    options: dict[str, list[str]] = {}
    for name, value in zip(words[2::2], words[3::2], strict=True):
        options.setdefault(name, []).append(value)
    given = {key: options[f"--{key}"][0] for key in ("domain", "shift") if f"--{key}" in options}
    plan = compare.plan(
        {"name": options["--dataset"][0], **given},
        options["--methods"][0],
        int(options["--seeds"][0]),
        options["--budget"][0],
        options.get("--set", []),
    )
    return {config.id for config in plan.configs.values()}


@pytest.mark.parametrize("one", ARTEFACTS.values(), ids=lambda one: one.name)
def test_the_commands_train_what_is_missing_and_no_more(one: Artefact) -> None:
    for table in one.plans("compare", 2):
        configs = list(table.configs.values())
        found = {config.id: record(config, ood_test=0.5) for config in configs if config.method["name"] != "goodformer"}
        paces = Paces(found.values())
        trained = set().union(*(asked(gap["command"]) for gap in reproduce.gaps(table, found, paces)), set())
        assert trained == {config.id for config in configs} - set(found)


def test_columns_of_the_same_runs_have_one_command() -> None:
    for methods in (None, "goodformer"):
        (table,) = report("table-precision", [], methods=methods)["tables"]
        assert [command.split()[5] for command in reproduce.missing(table)] == ["basis", "size"]


def test_a_whole_artefact_counts_a_run_once() -> None:
    one = artefact("table-runtime")
    tables = one.plans("compare")
    gap = reproduce.report(one, tables, {}, ["--budget", "compare"])["gap"]
    assert gap == {
        "command": "goodformer reproduce table-runtime --budget compare --run",
        "runs": 18,
        "seconds": None,
        "unknown": 18,
        "times": 18,
    }
    everything = {key: record(config) for table in tables for key, config in table.configs.items()}
    report = reproduce.report(one, tables, everything)
    command = "goodformer reproduce table-runtime --budget compare --times-only --export results/table-runtime.jsonl"
    assert [reproduce.missing(table) for table in report["tables"]] == [
        [f"{command}  # 18 inference times, no estimate"]
    ]
    chosen = ["--seeds", "1", "--methods", "gps,goodformer"]
    (table,) = reproduce.report(one, narrowed(tables, methods="gps,goodformer"), everything, chosen)["tables"]
    (gap,) = table["gaps"]
    assert gap["times"] == 6
    assert gap["command"] == command.replace("--times", "--seeds 1 --methods gps,goodformer --times")
    assert (report["gap"]["runs"], report["gap"]["times"]) == (0, 18)
    assert reproduce.coverage(one, tables, everything) == {"runs": (18, 18), "inference times": (0, 18)}
    timed = {key: {**line, "inference": {"graphs": 1, "processor_seconds": 1.0}} for key, line in everything.items()}
    assert reproduce.coverage(one, tables, timed)["inference times"] == (18, 18)
    assert reproduce.report(one, tables, timed)["gap"] is None


def test_a_part_of_an_artefact() -> None:
    tables = narrowed(artefact("table-ablation").plans("compare"), "good-motif", "goodformer:without-entropy")
    assert [[column.head for column in table.columns] for table in tables] == [["Motif basis", "Motif size"]]
    assert [row.name for row in tables[0].rows] == ["goodformer:without-entropy"]
    for words, heads in (
        ("good-motif/basis", ["Motif basis"]),
        ("good-motif/size,good-hiv/scaffold", ["Motif size", "HIV scaffold"]),
    ):
        main = narrowed(artefact("table-main").plans("full"), words, "goodformer:paper")[0]
        assert [column.head for column in main.columns] == heads
    (concept,) = narrowed(artefact("table-main").plans("full"), "good-motif/basis/concept")
    assert concept.title == "Same inputs, concept shift"
    levels = narrowed(artefact("table-shift-level").plans("short"), "sp-motif/0.5,sp-motif/0.9")[0]
    assert [column.comparison.dataset["bias"] for column in levels.columns] == [0.5, 0.9]
    with pytest.raises(InputError, match="accepted: sp-motif"):
        narrowed(artefact("table-shift-level").plans(), "good-hiv")


# ------------------------------------------------------------------------------------------ records


def test_inference_times_are_recorded_apart_and_read(tmp_path: Path) -> None:
    comparison = compared({**BASIS, "graphs": 150}, "gps", "compare", 1)
    plans = [TablePlan("Tiny", (Column("OOD", comparison), Column("inference", comparison, INFERENCE)))]
    (config,) = reproduce.untimed(plans, {})
    measured = [
        {"kind": INFERENCE, "id": config.id, "config": config.to_dict(), "graphs": 15, "processor_seconds": 0.5}
    ]
    path = tmp_path / "made.jsonl"
    for _ in range(2):
        reproduce.export(plans, tmp_path / "runs", path, measured)
    assert [(one.name, len(one.read_text().splitlines())) for one in tmp_path.glob("*.jsonl")] == [
        ("made-inference.jsonl", 1)
    ]
    found = reproduce.known_records(plans, [tmp_path])
    assert reproduce.untimed(plans, found) == []
    assert reproduce.untrained(plans, found) == [config]
    assert read_records(tmp_path) == []
    (tmp_path / "made-inference.jsonl").write_text('{"id": "1"}\n')
    with pytest.raises(InputError, match=r"made-inference\.jsonl"):
        reproduce.export(plans, tmp_path / "runs", path, measured)


def sensitivity(values: dict[float, float], reference: bool = True) -> list[dict[str, Any]]:
    """Records of all points of the figure; the value depends on the weight of the variance."""
    configs = reproduce.configs_of(artefact("figure-sensitivity").plans()).values()
    wanted = [config for config in configs if reference or config.method["name"] == "goodformer"]
    return [record(one, ood_test=values.get(one.method.get("variance_weight", 0.0), 1 / 3)) for one in wanted]


def test_points_at_chance_are_counted() -> None:
    """The 95 % interval of guessing on 333 graphs is 33.33 ± 5.06."""
    assert "nothing about sensitivity follows" in report("figure-sensitivity", sensitivity({}))["remark"]
    assert "nothing about" in report("figure-sensitivity", sensitivity({100.0: 0.38}))["remark"]
    assert report("figure-sensitivity", sensitivity({100.0: 0.39}))["remark"].startswith("22 of 24 points")
    above = dict.fromkeys((0.1, 1.0, 10.0, 100.0), 0.9)
    assert report("figure-sensitivity", sensitivity(above))["remark"] == ""


def test_a_picture_with_a_row_that_is_not_run_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "figure-sensitivity.png").touch()
    for reference in (False, True):
        lines = sensitivity({}, reference)
        (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        page = reproduce.page([tmp_path], tmp_path / "images")
        assert ("(images/figure-sensitivity.png)" in page) == reference
        assert ("of CIGA (Motif basis; Motif size), Exphormer (Motif basis; Motif size)." in page) != reference
        assert "DIR (Precision@10)" in page  # the other figure
        assert "nothing about sensitivity follows" in page


def test_no_picture_of_an_artefact_is_kept_without_being_shown() -> None:
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    pictures = [path.name for name in ARTEFACTS for path in (ROOT / "docs" / "images").glob(f"{name}.*")]
    assert all(f"(images/{name})" in text for name in pictures)


def test_the_figure_of_the_paper_has_no_row_of_ours() -> None:
    names = {row.name for table in artefact("figure-sensitivity").plans() for row in table.rows}
    assert names == {"goodformer:paper", "ciga", "exphormer"}


def test_our_column_of_the_drawn_subgraphs_is_named_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "finished", True)
    titles = list(reproduce.drawn_runs(artefact("figure-subgraphs").plans(), tmp_path))
    assert titles == ["DIR", "GSAT", "CIGA", "GOODFormer (ours)"]


def test_the_page_is_what_the_records_say() -> None:
    """Committed tables are those of the committed records under today's settings; ``make docs`` updates them."""
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    assert reproduce.page([ROOT / "results"], ROOT / "docs" / "images") in text


def test_the_documented_test_graphs_of_budgets_are_those_of_their_settings() -> None:
    lines = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8").splitlines()
    for budget in ("compare", "quick", "quickstart", "short", "medium", "full"):
        sizes = [
            generated_sizes(configure({"name": name}, budget=budget).dataset) for name in ("good-motif", "sp-motif")
        ]
        (cells_,) = [line.split("|") for line in lines if line.startswith(f"| `{budget}`")]
        assert cells_[3].strip().endswith(" / ".join(f"{one['test']:,}" for one in sizes if one))
