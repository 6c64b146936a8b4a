"""The table of explanations whose reason is known: from records alone, and on its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goodformer.report.records import known_records
from goodformer.report.table import NOT_RUN, insert
from lab import rules


def test_means_need_all_rules_and_gradients_score_erm() -> None:
    plan = rules.planned()
    ids = {row.name: [one.ids[row.name, 0] for one in plan.comparisons] for row in plan.first.rows}
    found: dict[str, dict[str, Any]] = {
        one: {"ood_test": 0.9 + 0.01 * place, "edge_auc": None} for place, one in enumerate(ids["erm"])
    }
    found |= {one: {"ood_test": 0.8, "edge_auc": 0.7, "node_auc": 0.6} for one in ids["gsat"]}
    found |= {one: {"ood_test": 0.5, "edge_auc": 0.5, "node_auc": 0.5} for one in ids["forest"][1:]}
    scored = {one: {"edge_auc": 0.4, "node_auc": 0.3} for one in ids["erm"]}

    shown = {row[0].text: [cell.text for cell in row[1:]] for row in rules.table(plan, found, scored).rows}
    assert shown["ERM, integrated gradients"] == ["0.920", "0.900", "0.400", "0.400", "0.300", "0.300"]
    assert shown["GSAT"] == ["0.800", "0.800", "0.700", "0.700", "0.600", "0.600"]
    assert shown["forest"] == [NOT_RUN] * 6  # one rule is missing


def test_the_page_shows_the_records(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(Path("docs/explanation.md").read_text(encoding="utf-8"), encoding="utf-8")
    plan = rules.planned()
    made = rules.table(plan, known_records([rules.RUNS], plan.runs), rules.gradients(rules.GRADIENTS))
    assert not insert(page, rules.MARKER, made.markdown())
