"""Verdicts against records made by hand, on both sides of every rule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from goodformer.config.run import RunConfig
from goodformer.errors import InputError
from goodformer.report import verdict_page, verdicts
from goodformer.report.metrics import SELECTION_NAMES
from goodformer.report.paper import read_list
from goodformer.report.records import Record
from goodformer.report.verdicts import (
    DATA,
    DEPENDS,
    NOT_DECIDED,
    NOT_REPRODUCED,
    NOT_TESTED,
    REPRODUCED,
    RULES,
    SENSITIVITY,
    Claim,
    Evidence,
    Finding,
)
from tests.report.test_reproduce import BASIS, ROOT, made, record

THEIRS, PUBLISHED_CODE = "goodformer:paper", "goodformer:as_published"


def evidence(*records: dict[str, Any], **more: Any) -> Evidence:
    """Records by id."""
    return Evidence({RunConfig.from_dict(line["config"]).id: line for line in records}, **more)


def same(**values: float) -> dict[str, dict[str, float]]:
    """The values of a record at the epoch of every selection rule."""
    return dict.fromkeys(SELECTION_NAMES, values)


def three(row: str, values: Sequence[float], budget: str = "full", **more: Any) -> list[dict[str, Any]]:
    """Records of a row, one per value, which every selection rule reports."""
    return [
        made(row, seed, budget=budget, ood_test=value, **{"by_rule": same(ood_test=value), **more})
        for seed, value in enumerate(values)
    ]


def finding(claim: Claim, version: str = "paper") -> Finding:
    return next(one for one in claim.findings if one.version == version)


def number(*records: dict[str, Any], metric: str = "ood_test") -> Claim:
    return verdicts.number(evidence(*records), {"metric": metric}, "Motif basis")


def order(*records: dict[str, Any], rivals: Sequence[str] = ("gps", "exphormer")) -> Finding:
    return finding(verdicts.order(evidence(*records), {}, "Motif basis", rivals))


# ------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(0.6524, REPRODUCED), (0.6522, NOT_DECIDED), (0.30, NOT_REPRODUCED), (0.99, REPRODUCED)],  # 81.97 - 16.74 = 65.23
)
def test_a_number_is_compared_with_the_papers_mean_and_deviation(value: float, verdict: str) -> None:
    found = finding(number(*three(THEIRS, [value] * 3)))
    shown = ", ".join(f"{100 * value:.2f} ±0.00 ({rule})" for rule in SELECTION_NAMES.values())
    assert (found.verdict, found.measured.partition("; ")[0]) == (verdict, shown)
    assert found.runs == "full (2,000 graphs, 50 epochs), 3 of 3 seeds"


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        ({"ood_val": 0.30, "id_val": 0.66, "last": 0.33}, DEPENDS),
        ({"ood_val": 0.70, "id_val": 0.66, "last": 0.33}, DEPENDS),
        ({"ood_val": 0.60, "id_val": 0.66, "last": 0.53}, NOT_DECIDED),  # the paper's scatter is larger than the gap
        ({"ood_val": 0.70, "id_val": 0.66, "last": 0.69}, REPRODUCED),
        ({"ood_val": 0.30, "id_val": 0.35, "last": 0.33}, NOT_REPRODUCED),
    ],
)
def test_no_number_hinges_on_the_selection_rule(rules: dict[str, float], verdict: str) -> None:
    by_rule = {rule: {"ood_test": value} for rule, value in rules.items()}
    found = finding(number(*three(THEIRS, [rules["ood_val"]] * 3, by_rule=by_rule)))
    assert found.verdict == verdict
    shown = [f"{100 * rules[rule]:.2f} ±0.00 ({name})" for rule, name in SELECTION_NAMES.items()]
    assert found.measured.partition("; ")[0] == ", ".join(shown)


def test_a_number_needs_all_selection_rules() -> None:
    last = [{**same(ood_test=0.9), "last": {"ood_test": value}} for value in (0.9, 0.9, None)]
    records = [made(THEIRS, seed, budget="full", ood_test=0.9, by_rule=rules) for seed, rules in enumerate(last)]
    assert finding(number(*records)).words == "not tested (2 of 3 selection rules recorded)"


def test_a_shortfall_counts_only_beyond_the_scatter_of_the_runs() -> None:
    """The paper has 81.97 ±16.74 of three runs."""
    assert finding(number(*three(THEIRS, [0.30, 0.31, 0.32]))).verdict == NOT_REPRODUCED
    found = finding(number(*three(THEIRS, [0.30, 0.60, 0.90])))
    assert found.verdict == NOT_DECIDED
    assert "difference to the paper -21.97 [" in found.measured


def test_a_shortfall_must_count_under_every_selection_rule() -> None:
    scattered = [0.30, 0.60, 0.90]
    records = [
        made(THEIRS, seed, budget="full", ood_test=0.3, by_rule={**same(ood_test=0.3), "last": {"ood_test": value}})
        for seed, value in enumerate(scattered)
    ]
    assert finding(number(*records)).verdict == NOT_DECIDED


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([], "no run"),
        (three(THEIRS, [0.9] * 2), "2 of 3 seeds"),
        (three(THEIRS, [0.9] * 3, "medium"), "budget medium"),
        (three(THEIRS, [0.9] * 3, "short"), "budget short"),
        (three(THEIRS, [0.9] * 3, "compare"), "budget compare"),
    ],
)
def test_less_than_the_papers_budget_tests_nothing(records: list[dict[str, Any]], reason: str) -> None:
    found = finding(number(*records))
    assert (found.verdict, found.reason) == (NOT_TESTED, reason)
    assert found.measured == ("90.00 ±0.00" if records else "not run")


def test_the_largest_budget_is_shown() -> None:
    found = finding(number(*three(THEIRS, [0.3] * 3, "compare"), *three(THEIRS, [0.4], "short")))
    assert (found.measured, found.reason) == ("40.00", "budget short")


def test_ours_decides_nothing() -> None:
    """Our preset is shown apart, and the published code's has a verdict of its own."""
    claim = number(*three("goodformer", [0.9] * 3), *three(PUBLISHED_CODE, [0.3] * 3))
    assert finding(claim).words == "not tested (no run)"
    assert finding(claim, "as_published").verdict == NOT_REPRODUCED
    assert (claim.ours.measured, claim.ours.verdict) == ("90.00 ±0.00", NOT_TESTED)


def test_precision_is_judged_by_the_mask_and_shown_by_the_logits_too() -> None:
    values = {"precision_at_10": 0.4, "precision_at_10_logits": 0.9, "by_rule": same(precision_at_10=0.4)}
    records = [made(THEIRS, seed, budget="full", **values) for seed in range(3)]
    found = finding(number(*records, metric="precision_at_10"))
    assert found.verdict == NOT_REPRODUCED  # 0.698 - 0.069 = 0.629
    assert found.measured.startswith("0.400 ±0.000 (OOD validation), ")
    assert found.measured.endswith("; by logits 0.900 ±0.000")


def test_a_number_that_the_paper_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match=r"paper\.yaml has no precision_at_10"):
        verdicts.number(evidence(), {"metric": "precision_at_10"}, "Motif size")


# ------------------------------------------------------------------------------------------ orders and ranges


def test_an_order_needs_all_rows_and_fails_by_one() -> None:
    ours, low = three(THEIRS, [0.6, 0.8, 0.7]), three("gps", [0.5] * 3)
    assert order(*ours, *low, *three("exphormer", [0.69] * 3)).verdict == REPRODUCED
    assert order(*ours, *low, *three("exphormer", [0.7] * 3)).verdict == NOT_DECIDED
    assert order(*ours, *low, *three("exphormer", [0.8] * 3)).verdict == NOT_DECIDED  # p = 0.23
    assert order(*ours, *low, *three("exphormer", [0.99] * 3)).verdict == NOT_REPRODUCED
    assert order(*ours, *three("exphormer", [0.99] * 3)).verdict == NOT_REPRODUCED  # GraphGPS is not needed any more
    assert order(*ours, *three("exphormer", [0.8] * 3)).verdict == NOT_TESTED
    diverged = three("exphormer", [0.99] * 3)
    for lost in diverged[1:]:
        lost["ood_test"] = None
    assert order(*ours, *low, *diverged).verdict == NOT_TESTED  # one value does not refute
    half = order(*ours, *low)
    assert half.words == "not tested (1 of 2 other rows incomplete)"
    assert half.measured == "70.00 ±10.00, above 1 of 1 recorded rows"
    one = order(*ours, *low, *three("exphormer", [0.9]))  # one seed does not refute
    assert one.verdict == NOT_TESTED
    assert "not above Exphormer" in one.measured
    assert one.runs.endswith("other rows at least 1")


def test_an_order_compares_rows_of_one_budget() -> None:
    found = order(*three(THEIRS, [0.9] * 3), *three("gps", [0.5] * 3, "short"), *three("exphormer", [0.5] * 3, "short"))
    assert found.words == "not tested (no run)"
    found = order(*three(THEIRS, [0.4] * 3, "short"), *three("gps", [0.5] * 3, "short"))
    assert found.words == "not tested (budget short)"
    assert "not above GraphGPS" in found.measured


def test_a_variant_stands_against_the_full_model() -> None:
    records = [*three(THEIRS, [0.6] * 3), *three("goodformer:without-encoder", [0.5] * 3)]
    claim = verdicts.order(evidence(*records), {"presets": ["paper"]}, "Motif basis", ["goodformer:without-encoder"])
    assert claim.reports == "81.97 ±16.74 against 52.32 ±12.56"
    (found,) = claim.findings
    assert (found.measured, found.verdict) == ("60.00 ±0.00 against 50.00 ±0.00", REPRODUCED)


def test_a_range_needs_three_of_four_values() -> None:
    setting, values = SENSITIVITY["lambda"]
    from goodformer.report.rows import row

    def records(numbers: Sequence[float]) -> list[Record]:
        one = row(THEIRS, "good-motif")
        pairs = zip(values, numbers, strict=True)
        changed = [((f"method.{setting}={value:g}",), number) for value, number in pairs]
        return [
            record(one.configure(BASIS, "full", seed, change), ood_test=number)
            for change, number in changed
            for seed in range(3)
        ]

    def verdict(numbers: Sequence[float], seeds: int = 3) -> str:
        found = evidence(*records(numbers), *three("ciga", [0.5] * seeds))  # type: ignore[arg-type]
        claims = verdicts.wide_range(found, {"above": "ciga", "presets": ["paper"]}, "Motif basis")
        return next(claims).findings[0].verdict

    assert verdict([0.6, 0.6, 0.6, 0.4]) == REPRODUCED
    assert verdict([0.6, 0.6, 0.5, 0.4]) == NOT_DECIDED  # equal means: the interval contains 0
    assert verdict([0.6, 0.6, 0.6, 0.6], seeds=2) == NOT_TESTED
    assert verdict([0.6, 0.6, 0.4, 0.4]) == NOT_REPRODUCED


# ------------------------------------------------------------------------------------------ time, theory, speed


def timed(seconds: float, runs: tuple[int, int]) -> Claim:
    """The claim on training time, with some runs of GOODFormer and of GraphGPS, which takes one second."""
    pairs = zip((THEIRS, "gps"), (seconds, 1.0), runs, strict=True)
    records = [made(row, seed, processor_seconds_per_epoch=x) for row, x, count in pairs for seed in range(count)]
    return verdicts.ratio(evidence(*records), {"metric": "training", "to": "gps"}, "Motif basis")


@pytest.mark.parametrize(("seconds", "verdict"), [(3.0, REPRODUCED), (3.1, NOT_REPRODUCED)])  # 28.6 / 9.5 = 3.01
def test_time_is_compared_as_a_ratio_under_any_budget(seconds: float, verdict: str) -> None:
    claim = timed(seconds, (3, 3))
    assert finding(claim).verdict == verdict
    assert finding(claim).runs == "compare, 3 runs against 3 of GraphGPS"
    assert finding(claim).measured.startswith(f"{seconds:.1f} x")
    assert claim.reports.startswith("3.0 x")


@pytest.mark.parametrize("runs", [(1, 1), (2, 3), (3, 2)])
def test_time_needs_three_runs_of_both_methods(runs: tuple[int, int]) -> None:
    found = finding(timed(1.0, runs))
    assert found.verdict == NOT_TESTED
    assert found.measured.startswith("1.0 x")
    assert f"{runs[0]} run" in found.runs
    assert found.runs.endswith(f"against {runs[1]} of GraphGPS")


def theory(**more: Any) -> dict[str, Any]:
    """A record of lab.theory in which all holds."""
    cell = {"broken": {"none": 0.0, "exact": 0.0}, "largest": {"none": 0.5}, "accuracy": {"none": 0.5, "exact": 0.6}}
    cells = [{**cell, "nodes": 15}, {**cell, "nodes": 325, "largest": {"none": 0.2}}]
    found: dict[str, Any] = {
        "dispersion": [{"nodes": n, "gap": 0.1, "gap_bound": 9 / n} for n in (10, 20)],
        "temperature": [{"rises": True, "published_ratio": [1.0, 1.005]}],
        "runs": [{"preset": "paper", "budget": "full", "cells": cells} for _ in range(3)],
    }
    return found | more


def checked(check: str, record: dict[str, Any]) -> Claim:
    return verdicts.theory(Evidence({}, record), {"check": check, "presets": ["paper"]})


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("bound", {"dispersion": [{"nodes": n, "gap": 1.0, "gap_bound": 9 / n} for n in (10, 20)]}),
        ("bound", {"dispersion": [{"nodes": n, "gap": 0.1, "gap_bound": n} for n in (10, 20)]}),
        ("entropy", {"temperature": [{"rises": False, "published_ratio": [1.0]}]}),
        ("derivative", {"temperature": [{"rises": True, "published_ratio": [1.0, 1.02]}]}),
    ],
)
def test_statements_about_any_logits_hold_everywhere_or_not_at_all(check: str, fault: dict[str, Any]) -> None:
    assert checked(check, theory()).findings[0].verdict == REPRODUCED
    assert checked(check, theory(**fault)).findings[0].verdict == NOT_REPRODUCED


def test_statements_about_trained_models_need_three_runs_of_the_papers_preset() -> None:
    runs = theory()["runs"]
    flat = [{**run, "cells": [{**cell, "largest": {"none": 0.5}} for cell in run["cells"]]} for run in runs]
    assert checked("dispersion", theory()).findings[0].verdict == REPRODUCED
    assert checked("dispersion", theory(runs=flat)).findings[0].verdict == NOT_REPRODUCED
    assert checked("temperature", theory()).findings[0].measured == "+10.00 points of accuracy over all bases and sizes"
    assert checked("temperature", theory(runs=runs[:2])).findings[0].words == "not tested (2 of 3 full runs)"
    ours = checked("dispersion", theory(runs=[{**run, "preset": "default"} for run in runs]))
    assert ours.findings[0].words == "not tested (measured with ours only)"
    assert ours.ours.measured == "largest weight over all bases 0.500 at 15 nodes, 0.200 at 325"


# ------------------------------------------------------------------------------------------ the page


def test_every_claim_names_known_data_and_numbers_of_the_paper() -> None:
    found = verdicts.groups(Evidence({}))
    assert sum(len(group.claims) for group in found) > 50
    assert all(finding.verdict == NOT_TESTED for group in found for claim in group.claims for finding in claim.findings)
    entries = [claim for group in read_list("claims.yaml") for claim in group["claims"]]
    assert {data for claim in entries for data in claim.get("data", ())} <= set(DATA)


def test_the_page_prints_the_rules_and_no_cell_breaks_its_table(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in three(THEIRS, [0.9] * 3)))
    (tmp_path / "theory.json").write_text(json.dumps(theory()))
    text = verdict_page.page([tmp_path])
    assert all(rule in text for rule in RULES.values())
    rows = [line for line in text.splitlines() if line.startswith("|")]
    tables = text.split("\n\n")
    for table in (part.splitlines() for part in tables if part.startswith("|")):
        assert len({line.count("|") for line in table}) == 1, table[0]
    assert any("90.00 ±0.00" in row and "**reproduced**" in row for row in rows)


def test_other_graphs_than_the_papers_are_named_as_a_cause() -> None:
    scaffold = {"name": "good-hiv", "domain": "scaffold"}
    text = verdict_page.causes(evidence(made("erm", 0, scaffold, train_graphs=24_600)))
    assert "24,600 training graphs on HIV scaffold instead of 24,682" in text
    assert "HIV size" not in text  # no record says how many there are
    assert verdict_page.causes(evidence()).count("\n- ") == len(verdict_page.CAUSES) - 1
    page = verdict_page.page([ROOT / "results"])
    for fact in ("24,672 training graphs", "26,162 training graphs", "instead of 26,169", "generated here"):
        assert fact in page


def test_our_numbers_have_no_number_of_the_paper_beside_them(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in three("goodformer", [0.9] * 3)))
    text = verdict_page.ours_table(verdicts.groups(Evidence.read([tmp_path]))).markdown()
    assert "GOODFormer (ours) | 90.00 ±0.00" in text
    assert "81.97" not in text


def test_epochs_are_shown_seed_by_seed() -> None:
    curves = {"ood_test": [0.4, 0.6], "precision_at_10": [0.1, 0.2], "precision_at_10_logits": [0.3, None]}
    records = [made(THEIRS, seed, budget="full", curves=curves, selected_epoch=2) for seed in (0, 2)]
    paper, published_code = verdict_page.epoch_tables(evidence(*records))
    lines = paper.splitlines()
    assert lines[0] == "### GOODFormer (paper)"
    assert lines[2].split(" | ")[1:4] == ["accuracy, seed 0", "mask, seed 0", "logits, seed 0"]
    assert lines[4] == "| 1 | 40.00 | 0.100 | 0.300 | 40.00 | 0.100 | 0.300 |"
    assert lines[5] == "| 2 | 60.00 * | 0.200 | - | 60.00 * | 0.200 | - |"
    assert "No full run" in published_code


def test_the_page_is_what_the_records_say() -> None:
    """Committed verdicts are those of the committed records under today's settings; ``make docs`` updates them."""
    text = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8")
    assert verdict_page.page([ROOT / "results"]) in text


def test_a_missing_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no page"):
        verdict_page.write([ROOT / "results"], tmp_path / "verdicts.md")
