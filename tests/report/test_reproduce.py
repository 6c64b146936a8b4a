"""Tables and figures of the paper against figures computed by hand, and commands that run what is missing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.lines import Line2D

from goodformer.config.presets import configure, presets
from goodformer.config.run import RunConfig
from goodformer.data import load_benchmark
from goodformer.engine import inference
from goodformer.registry import InputError
from goodformer.report import artefacts, compare, headline, reproduce, tables
from goodformer.report.artefacts import ARTEFACTS, Artefact, Block, Column, artefact, compared, narrowed
from goodformer.report.pace import Paces, duration
from goodformer.report.rows import row

ROOT = Path(__file__).parents[2]
BASIS = {"name": "good-motif", "domain": "basis"}
SIZE = {"name": "good-motif", "domain": "size"}


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
    return reproduce.report(one, narrowed(one.blocks(budget), **part), found)


def cells(block: dict[str, Any]) -> dict[str, list[str]]:
    """The plain text of every row by its title."""
    _, rows = reproduce.sheet(block).grid()
    return {row[0]: row[1:] for row in rows}


# ------------------------------------------------------------------------------------------ declarations


@pytest.mark.parametrize("one", ARTEFACTS.values(), ids=lambda one: one.name)
def test_every_artefact_has_settings_that_are_accepted(one: Artefact) -> None:
    for budget in one.budgets:
        for block in one.blocks(budget, 1):
            assert block.configs
            assert {column.comparison.budget for column in block.columns} == {budget}
            rows = [row.name for row in block.rows]
            assert len(rows) == len(set(rows))


def test_every_table_and_figure_of_experiments_in_the_paper_is_there() -> None:
    tables_ = {"main", "precision", "ablation", "runtime", "shift-level", "predictor"}
    assert set(ARTEFACTS) == {f"table-{name}" for name in tables_} | {"figure-subgraphs", "figure-sensitivity"}
    with pytest.raises(InputError, match="did you mean table-main"):
        artefact("table-man")


def test_the_main_table_has_the_rows_and_columns_of_the_paper() -> None:
    for budget in ("full", "compare"):
        block = artefact("table-main").blocks(budget)[0]
        assert len(block.columns) == 7
        assert len(block.rows) == 16
        beside = [any(cell["beside"] for cell in column) for column in _columns(report("table-main", [], budget))]
        assert beside == [True] * 4 + [budget == "full"] * 3  # the last three are other data than the paper's


def _columns(made_of: dict[str, Any]) -> list[tuple[dict[str, Any], ...]]:
    return list(zip(*(row["cells"] for row in made_of["blocks"][0]["rows"]), strict=True))


def test_data_that_no_budget_cuts_are_trained_as_recorded() -> None:
    columns = {column.head: column.comparison for column in artefact("table-main").blocks("compare")[0].columns}
    epochs = {head: plan.configs["erm", 0].training.epochs for head, plan in columns.items()}
    assert list(epochs.values()) == [4, 4, 3, 3, 3, 8, 8]
    assert columns["DrugOOD EC50"].configs["erm", 0].dataset["measurement"] == "ec50"


def test_no_change_of_the_default_escapes_its_table() -> None:
    names = {row.preset for row in artefact("table-ablation").blocks("compare")[1].rows}
    assert names == {"default", *(name for name in presets("goodformer") if name.startswith("default-"))}
    default = configure(BASIS)
    assert all(configure(BASIS, preset=name).id != default.id for name in names - {"default"})


def test_sensitivity_changes_one_weight_at_a_time() -> None:
    base = {name: configure(BASIS, preset=name, budget="compare") for name in ("default", "paper")}
    for block in artefact("figure-sensitivity").blocks()[:3]:
        for column in block.columns:
            setting, value = column.comparison.overrides[-1].removeprefix("method.").split("=")
            for config in column.comparison.configs.values():
                usual = base[config.preset]
                assert config.method == {**usual.method, setting: float(value)}
                assert (config.model, config.training, config.dataset) == (usual.model, usual.training, usual.dataset)


# ------------------------------------------------------------------------------------------ cells


def test_figures_by_hand() -> None:
    records = [
        made("gsat", seed, precision_at_10=value, edge_auc=0.5, ood_test=0.5) for seed, value in enumerate((0.2, 0.4))
    ]
    records += [made("dir", seed, precision_at_10=0.25 * (1 + seed), edge_auc=None) for seed in range(3)]
    (block,) = report("table-precision", records)["blocks"]
    shown = cells(block)
    heads = reproduce.sheet(block).heads
    assert heads[1:5] == ["Motif basis Precision@10", "paper", "Motif basis edge AUC", "Motif size Precision@10"]
    assert shown["GSAT"][:4] == [
        "0.300 ±0.141 (2 of 3 seeds)",
        "0.396 ±0.077",
        "0.500 ±0.000 (2 of 3 seeds)",
        "not run",
    ]
    assert shown["DIR"][:3] == ["0.500 ±0.250", "0.203 ±0.041", "-"]
    assert shown["CIGA"][:2] == ["not run", "0.247 ±0.024"]
    assert shown["GREA"][:2] == ["not run", "-"]
    assert "**0.500**" not in reproduce.markdown({"blocks": [block], "gap": None})  # nothing of as many seeds beside it


def test_only_whole_rows_above_chance_are_marked() -> None:
    def marked(values: dict[str, list[float]]) -> list[str]:
        records = [made(row, seed, ood_test=value) for row, found in values.items() for seed, value in enumerate(found)]
        block = report("table-main", records, methods="erm,irm,vrex", datasets="good-motif")["blocks"][0]
        return [row[0].text for row in reproduce.sheet(block).rows if row[1].place == 1]

    assert marked({"erm": [0.5] * 3, "irm": [0.4] * 3, "vrex": [0.9]}) == ["ERM"]
    assert marked({"erm": [0.5] * 3, "irm": [0.9] * 2}) == []
    assert marked({"erm": [0.33, 0.34, 0.35], "irm": [0.3] * 3}) == []
    assert marked({"erm": [0.33, 0.34, 0.35], "irm": [0.4] * 3}) == ["IRM"]


def test_a_preset_does_not_win_by_the_papers_own_figure() -> None:
    rows = "erm,goodformer,goodformer:paper,goodformer:as_published"
    block = report("table-main", [], methods=rows, datasets="good-motif")["blocks"][0]
    marked = {row[0].text: row[2].place for row in reproduce.sheet(block).rows}
    assert marked == {"ERM": 2, "GOODFormer": 1, "GOODFormer (paper)": 0, "GOODFormer (as_published)": 0}
    assert {row[2].text for row in reproduce.sheet(block).rows[1:]} == {"81.97"}


def test_one_seed_has_no_deviation() -> None:
    one = artefact("table-main")
    told = [reproduce.note(reproduce.report(one, one.blocks("compare", seeds), {})["blocks"][0]) for seeds in (1, 2)]
    assert "One seed, no standard deviation; epoch chosen" in told[0]
    assert "Mean ± standard deviation over 2 seeds; epoch chosen" in told[1]


def test_no_budget_is_shown_for_another() -> None:
    records = [made("erm", seed, ood_test=0.5) for seed in range(3)]
    full, reduced = (cells(report("table-main", records, budget)["blocks"][0])["ERM"] for budget in ("full", "compare"))
    assert full[:2] == ["not run", "63.80 ±10.36"]
    assert reduced[:2] == ["50.00 ±0.00", "63.80 ±10.36"]


def test_records_of_other_settings_do_not_count() -> None:
    config = row("erm", "good-motif").configure(BASIS, "compare", 0, ["training.batch_size=16"])
    assert cells(report("table-main", [record(config, ood_test=0.5)])["blocks"][0])["ERM"][0] == "not run"


def test_the_tables_beside_ours_are_the_papers() -> None:
    ablation = cells(report("table-ablation", [])["blocks"][0])
    assert ablation["GOODFormer (gil-generator)"][1::2] == ["48.08 ±4.20", "79.63 ±7.08", "68.19 ±1.92", "61.30 ±0.69"]
    predictor = cells(report("table-predictor", [])["blocks"][0])
    assert predictor["GOODFormer (mlp-predictor)"][1::2] == ["70.66 ±9.36", "79.36 ±5.16", "68.34 ±4.43", "59.70 ±3.06"]
    shift = cells(report("table-shift-level", [])["blocks"][0])
    assert shift["Exphormer"][1::2] == ["40.17 ±6.07", "47.98 ±4.39", "60.35 ±5.80"]


def test_concept_shift_stands_beside_the_leaderboard() -> None:
    blocks = report("table-main", [], "full")["blocks"]
    concept = next(block for block in blocks if "concept" in block["title"])
    assert reproduce.sheet(concept).heads[1:] == ["Motif basis, concept", "GOOD", "Motif size, concept", "GOOD"]
    assert cells(concept)["DIR"] == ["-", "82.96 ±4.47", "-", "54.96 ±9.32"]
    assert cells(concept)["GOODFormer"] == ["not run", "-", "not run", "-"]


def test_time_is_told_for_the_full_data_and_in_units_of_graphgps() -> None:
    records = [made("gps", 0, processor_seconds_per_epoch=2.0), made("graphormer", 0, processor_seconds_per_epoch=3.0)]
    records[0]["inference"] = {"graphs": 300, "processor_seconds": 0.5}
    (block,) = report("table-runtime", records, methods="graphormer,gps")["blocks"]
    # 2 s for 2,000 graphs are 18 s for 18,000; 0.5 s for 300 are 5 s for 3,000.
    assert cells(block)["GraphGPS"][:4] == ["18.0 (1.0 x) (1 of 3 seeds)", "9.5 (1.0 x)", "5.0 (1.0 x)", "1.7 (1.0 x)"]
    assert cells(block)["Graphormer"][:3] == ["27.0 (1.5 x) (1 of 3 seeds)", "7.7 (0.8 x)", "not run"]


def test_time_without_the_row_that_is_its_unit_is_told_in_seconds_alone() -> None:
    records = [made("graphormer", seed, processor_seconds_per_epoch=3.0) for seed in range(3)]
    (block,) = report("table-runtime", records, methods="graphormer")["blocks"]
    assert cells(block)["Graphormer"][0] == "27.0 ±0.0"


def test_other_rules_come_from_the_same_records() -> None:
    rules = {"id_val": {"ood_test": 0.7}, "last": {"ood_test": None}}
    records = [made("goodformer", seed, budget="full", ood_test=0.9, by_rule=rules) for seed in range(3)]
    block = report("table-main", records, "full")["blocks"][-1]
    assert cells(block)["GOODFormer"][:3] == ["90.00 ±0.00", "70.00 ±0.00", "-"]
    assert "epoch chosen as each column says. The same runs" in reproduce.note(block)


def test_a_figure_that_some_runs_do_not_tell_says_of_how_many_it_is() -> None:
    """Runs that measured the test splits at the chosen epoch only know that of another rule where it chose the same."""
    last = (0.5, None, None)
    records = [
        made("goodformer", seed, budget="full", ood_test=0.9, by_rule={"last": {"ood_test": value}})
        for seed, value in enumerate(last)
    ]
    block = report("table-main", records, "full")["blocks"][-1]
    assert cells(block)["GOODFormer"][:3] == ["90.00 ±0.00", "-", "50.00 (1 of 3 seeds)"]


def test_the_note_says_what_the_columns_are_of() -> None:
    note = reproduce.note(report("table-predictor", [])["blocks"][0])
    assert note.startswith(
        "Motif basis, Motif size: 2,000 training graphs, 4 epochs; HIV scaffold: 24,682 training graphs"
    )
    assert "over 3 seeds; epoch chosen on shifted validation graphs (ood_val)" in note
    full = reproduce.note(report("table-main", [], "full", datasets="good-motif")["blocks"][0])
    assert full.startswith("18,000 training graphs, epochs as each method has them.")


def test_latex_and_json() -> None:
    made_of = report("table-predictor", [made("goodformer:paper", 0, ood_test=0.5)])
    json.dumps(made_of, allow_nan=False)
    text = reproduce.latex(made_of)
    assert r"GOODFormer (paper) & 50.00 (1 of 3 seeds) & 81.97{\scriptsize$\pm$16.74}" in text
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
    for block in one.blocks("compare", 2):
        configs = list(block.configs.values())
        found = {config.id: record(config, ood_test=0.5) for config in configs if config.method["name"] != "goodformer"}
        paces = Paces(found.values())
        trained = set().union(*(asked(gap["command"]) for gap in reproduce.gaps(block, found, paces)), set())
        assert trained == {config.id for config in configs} - set(found)


def test_columns_of_the_same_runs_have_one_command() -> None:
    for methods in (None, "goodformer"):
        (block,) = report("table-precision", [], methods=methods)["blocks"]
        assert [command.split()[5] for command in reproduce.missing(block)] == ["basis", "size"]


def test_a_whole_artefact_counts_a_run_once() -> None:
    one = artefact("table-runtime")
    blocks = one.blocks("compare")
    gap = reproduce.report(one, blocks, {}, ["--budget", "compare"])["gap"]
    assert gap == {
        "command": "goodformer reproduce table-runtime --budget compare --run",
        "runs": 18,
        "seconds": None,
        "unknown": 18,
        "times": 6,
    }
    everything = {key: record(config) for block in blocks for key, config in block.configs.items()}
    report = reproduce.report(one, blocks, everything)
    command = "goodformer reproduce table-runtime --budget compare --times-only --export results/table-runtime.jsonl"
    assert [reproduce.missing(block) for block in report["blocks"]] == [
        [f"{command}  # 6 inference times, no estimate"]
    ]
    chosen = ["--seeds", "1", "--methods", "gps,goodformer"]
    (block,) = reproduce.report(one, narrowed(blocks, methods="gps,goodformer"), everything, chosen)["blocks"]
    (gap,) = block["gaps"]
    assert gap["times"] == 2
    assert gap["command"] == command.replace("--times", "--seeds 1 --methods gps,goodformer --times")
    assert (report["gap"]["runs"], report["gap"]["times"]) == (0, 6)
    assert reproduce.coverage(one, everything) == {
        "full": {"runs": (0, 18), "inference times": (0, 6)},
        "compare": {"runs": (18, 18), "inference times": (0, 6)},
    }
    timed = {key: {**line, "inference": {"graphs": 1, "processor_seconds": 1.0}} for key, line in everything.items()}
    assert reproduce.coverage(one, timed)["compare"]["inference times"] == (6, 6)
    assert reproduce.report(one, blocks, timed)["gap"] is None


def test_estimates_by_hand() -> None:
    paces = Paces([made("gps", 0), made("gps", 1, processor_seconds_per_epoch=6.0)])
    full = row("gps", "good-motif").configure(BASIS)
    # 4 and 6 s for 2,000 graphs: 2.5 ms a graph, times 18,000 graphs, times 50 epochs.
    assert paces.seconds(full) == pytest.approx(0.0025 * 18_000 * 50)
    assert paces.seconds(row("exphormer", "good-motif").configure(BASIS)) is None


def test_other_data_are_estimated_by_what_erm_costs_there() -> None:
    hiv = {"name": "good-hiv", "domain": "scaffold"}
    erm = made("erm", 0, hiv, train_graphs=24_000, processor_seconds_per_epoch=72.0)  # 3 ms a graph
    paces = Paces(
        [made("erm", 0, processor_seconds_per_epoch=4.0), made("gsat", 0, processor_seconds_per_epoch=20.0), erm]
    )
    config = row("gsat", "good-hiv").configure(hiv, overrides=["training.epochs=2"])
    assert config.model["name"] == "gin-vn"
    assert paces.seconds(config) == pytest.approx(5 * 0.003 * 24_000 * 2)
    assert paces.seconds(row("gps", "good-hiv").configure(hiv)) is None


def test_training_graphs_come_from_settings_records_or_the_paper() -> None:
    paces = Paces([])
    assert paces.graphs(configure(BASIS).dataset) == 18_000
    assert paces.graphs(configure({**BASIS, "shift": "concept"}).dataset) == 12_600
    assert paces.graphs(configure({"name": "sp-motif"}).dataset) == 9_000
    assert paces.graphs(configure({"name": "good-hiv", "domain": "size"}).dataset) == 26_169


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "5 s"), (120, "2 min"), (3600, "60 min"), (2 * 3600 + 300, "2 h 5 min"), (50 * 3600, "2 d 2 h")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_part_of_an_artefact() -> None:
    blocks = narrowed(artefact("table-ablation").blocks("compare"), "good-motif", "goodformer:without-entropy")
    assert [[column.head for column in block.columns] for block in blocks] == [["Motif basis", "Motif size"]]
    assert [row.name for row in blocks[0].rows] == ["goodformer:without-entropy"]
    with pytest.raises(InputError, match="accepted: sp-motif"):
        narrowed(artefact("table-shift-level").blocks(), "good-hiv")


# ------------------------------------------------------------------------------------------ records


def tiny(budget: str, seeds: int) -> list[Block]:
    """One run of a second."""
    overrides = ("training.epochs=1", "model.dim=8")
    comparison = compared({**BASIS, "graphs": 150}, "gps", budget, seeds, overrides)
    return [Block("Tiny", (Column("OOD", comparison), Column("inference", comparison, artefacts.INFERENCE)))]


def test_predicting_is_timed_recorded_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    blocks = tiny("compare", 1)
    measured = reproduce.measure(blocks, {})
    assert [line["graphs"] for line in measured] == [15]
    assert measured[0]["processor_seconds"] > 0
    assert measured[0]["weights"] == "untrained"
    path = tmp_path / "made.jsonl"
    reproduce.export(blocks, tmp_path / "runs", path, measured)
    reproduce.export(blocks, tmp_path / "runs", path, measured)
    found = reproduce.known(blocks, [tmp_path])
    assert reproduce.measure(blocks, found) == []
    assert [len(path_.read_text().splitlines()) for path_ in sorted(tmp_path.glob("*.jsonl"))] == [1]
    (key,) = blocks[0].configs
    assert not reproduce.trained(found, key)
    assert tables.read_records(tmp_path) == []
    reproduce.beside(path).write_text('{"id": "1"}\n')
    with pytest.raises(InputError, match="something else"):
        reproduce.export(blocks, tmp_path / "runs", path, measured)


def test_inference_does_not_touch_the_random_numbers_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path))
    before = torch.get_rng_state()
    inference.measure(next(iter(tiny("compare", 1)[0].configs.values())), rounds=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_weights_of_a_finished_run_predict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GOODFormer solves for its temperature, which takes as many steps as its logits need."""
    from goodformer.config.run import Hardware
    from goodformer.engine.run import train
    from goodformer.engine.store import Run

    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    (config,) = tiny("compare", 1)[0].configs.values()
    assert inference.measure(config, tmp_path, rounds=1)["weights"] == "untrained"
    run = train(config, tmp_path, Hardware(progress=False))
    seen: list[Any] = []

    def note(method: Any, *_: Any) -> float:
        seen.append(method)
        return 1.0

    monkeypatch.setattr(inference, "_round", note)
    assert inference.measure(config, tmp_path, rounds=1)["weights"] == "best"
    trained = Run(run.folder).predictor("best").method.state_dict()
    assert all(bool((value == trained[name]).all()) for name, value in seen[0].state_dict().items())


def test_the_page_is_what_the_records_say() -> None:
    """Committed tables are those of the committed records under today's settings; ``make docs`` mends it."""
    text = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    assert reproduce.page([ROOT / "results"], ROOT / "docs" / "images") in text
    assert headline.table([ROOT / "results"]) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_ceiling_is_the_share_of_labels_that_noise_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path))
    settings = {**BASIS, "graphs": 600}
    graphs = load_benchmark(**settings).splits["test"]
    kept = sum(int(graph.motif) == int(graph.y) for graph in (graphs[place] for place in range(len(graphs))))
    assert 0 < kept < len(graphs)
    assert headline.ceiling(settings) == pytest.approx(100 * kept / len(graphs))
    assert headline.ceiling({"name": "sp-motif", "graphs": 150}) == 100


def test_the_short_table_holds_ours_the_same_network_under_erm_and_the_papers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headline, "ceiling", lambda dataset: 93.0 if dataset["domain"] == "basis" else 0.0)
    plan = compare.plan(headline.BENCHMARKS["GOOD-Motif basis"], f"{headline.OURS},{artefacts.ERM_ALIKE}", 2, "full")
    lines = [
        {
            "id": config.id,
            "config": config.to_dict(),
            "ood_test": 0.9 + seed / 100,
            "by_rule": {"last": {"ood_test": 0.8}},
            "precision_at_10": 0.95,
            "edge_auc": 0.99,
        }
        for (row, seed), config in plan.configs.items()
        if row == headline.OURS or seed == 0
    ]
    sources = [tmp_path / f"seed-{seed}.jsonl" for seed in range(2)]  # all are read, not the first one only
    for seed, source in enumerate(sources):
        own = [json.dumps(line) + "\n" for line in lines if line["config"]["seed"] == seed]
        source.write_text("".join(own), encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text("<!-- headline: begin -->\n<!-- headline: end -->\n", encoding="utf-8")
    assert reproduce.write(sources, page)
    assert not reproduce.write(sources, page)
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| GOOD")]
    assert rows == [
        "| GOOD-Motif basis | 90.50 ±0.71 | 80.00 ±0.00 | 93.00 | 0.950 ±0.000 | 0.990 ±0.000 | 90.00 (1 of 3 seeds) "
        "| 81.97 ±16.74 | 2 |"
    ]


@pytest.mark.parametrize("wanted", ["last", "precision_at_10", "edge_auc"])
def test_the_short_table_says_of_how_many_seeds_each_figure_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    """Runs that measured the test splits at the chosen epoch only do not tell the last one's figure."""
    monkeypatch.setattr(headline, "ceiling", lambda _: 100.0)
    heads = {"last": "last epoch", "precision_at_10": "Precision@10", "edge_auc": "edge AUC"}

    def line(seed: int, told: bool) -> dict[str, Any]:
        value: dict[str, Any] = {name: 0.5 if told or name != wanted else None for name in heads}
        last = {"by_rule": {"last": {"ood_test": value.pop("last")}}}
        return made("goodformer", seed, budget="full", ood_test=0.5, **last, **value)

    def cell(records: list[dict[str, Any]], head: str) -> str:
        path = tmp_path / "records.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
        *_, row = headline.table([path]).splitlines()
        return row.split(" | ")[headline.HEAD.index(head)]

    figure = "50.00" if wanted == "last" else "0.500"
    assert cell([line(0, True), line(1, False), line(2, False)], heads[wanted]) == f"{figure} (1 of 3 seeds)"
    assert cell([line(0, False)], heads[wanted]) == "-"
    assert cell([line(0, True)], heads[wanted]) == figure  # the last column says that it is of one seed
    erm = [made(artefacts.ERM_ALIKE, seed, budget="full", ood_test=0.5) for seed in range(3)]
    assert cell([line(0, True), *erm], "ERM, same inputs") == "50.00 ±0.00 (3 of 3 seeds)"


# ------------------------------------------------------------------------------------------ pictures


Values = Callable[[RunConfig], float | None]


def sensitivity(values: Values, methods: str | None = None) -> dict[str, Any]:
    one = artefact("figure-sensitivity")
    blocks = narrowed(one.blocks(), methods=methods)
    configs = {key: config for block in blocks for key, config in block.configs.items()}
    told = {key: values(config) for key, config in configs.items()}
    found = {key: record(configs[key], ood_test=value) for key, value in told.items() if value is not None}
    return reproduce.report(one, blocks, found)


def points(line: Line2D) -> tuple[list[float], list[float]]:
    """Where a line goes, across and up."""
    across, up = (np.asarray(values, dtype=float).tolist() for values in (line.get_xdata(), line.get_ydata()))
    return across, up


def test_sensitivity_draws_every_point_that_is_there() -> None:
    from goodformer.draw import artefacts as reproduce_picture

    def value(config: RunConfig) -> float | None:
        if config.method["name"] != "goodformer":
            return 0.4
        return None if config.method["variance_weight"] == 100.0 else 0.5 + config.method["encoder_weight"] / 100

    figure = reproduce_picture.sensitivity(sensitivity(value))
    assert len(figure.axes) == 6
    level = [points(line)[1] for line in figure.axes[0].get_lines() if line.get_label() in ("CIGA", "Exphormer")]
    assert level == [[40.0, 40.0]] * 2
    assert points(figure.axes[0].get_lines()[0])[0] == [0.1, 1.0, 10.0]  # 100 is not run
    assert points(figure.axes[2].get_lines()[0])[1] == pytest.approx([50.01, 50.1, 51.0, 60.0])
    assert "4 of 48 points not run" in figure.get_supxlabel()


def test_sensitivity_without_any_record_says_so() -> None:
    from goodformer.draw import artefacts as reproduce_picture

    with pytest.raises(InputError, match="no record of a point to draw"):
        reproduce_picture.sensitivity(sensitivity(lambda _: None))


def test_sensitivity_of_some_rows_alone() -> None:
    from goodformer.draw import artefacts as reproduce_picture

    figure = reproduce_picture.sensitivity(sensitivity(lambda _: 0.5, "goodformer"))
    assert len(figure.axes) == 6
    labels = [line.get_label() for line in figure.axes[0].get_lines()]
    assert not {"CIGA", "Exphormer"} & set(labels)
    with pytest.raises(InputError, match="name some of goodformer, goodformer:paper"):
        reproduce_picture.sensitivity(sensitivity(lambda _: 0.5, "ciga"))


def test_subgraphs_need_runs() -> None:
    from goodformer.draw import artefacts as reproduce_picture

    with pytest.raises(InputError, match="--run"):
        reproduce_picture.subgraphs({})
