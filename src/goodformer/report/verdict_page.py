"""The page of verdicts: what of the paper reproduces and what does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from goodformer.errors import InputError
from goodformer.report.artefacts import BASIS, FULL, HIV, compared
from goodformer.report.paper import training_graphs
from goodformer.report.records import Record
from goodformer.report.rows import VERSIONS
from goodformer.report.table import ABSENT, NOT_RUN, Table, insert
from goodformer.report.verdicts import JUDGED, OURS, RULES, VERDICTS, Evidence, Group, groups, measured, row_of

APART = (
    "Our GOODFormer is another method: it differs from the paper's in its inputs (cycle walks), adversary, mask budget "
    "and weight averaging, and its entropy loss is off. Its figures reproduce nothing and have no verdict. Under the "
    "budget full it is trained for its own five epochs."
)
CAUSES = (
    "Both versions are our own implementations, and an error of ours can be the cause.",
    "GOOD-Motif is generated here by the published recipe, and SP-Motif as described by its authors: other graphs of "
    "the same distribution than those of the paper.",
    "The paper does not state all settings; where it is silent, ours come from the published code or are our choice.",
)
"""Why a number can differ from the paper's; `causes` adds the data sets with other graphs."""
EPOCHS = (
    "Every epoch of the full runs of the paper's presets on Motif basis, seed by seed: OOD test accuracy in %, "
    "Precision@10 by the mask and by its logits. A mask that saturates ties edges, which then share their places; the "
    "logits still rank them. The reported epoch is chosen on OOD validation, as in the published code, and marked "
    "with *."
)
CURVES = {
    "accuracy": ("ood_test", 100, 2),
    "mask": ("precision_at_10", 1, 3),
    "logits": ("precision_at_10_logits", 1, 3),
}
"""Columns of the tables of epochs: the entry of ``curves``, its scale and its digits."""


def page(sources: Sequence[Path]) -> str:
    """Return the page of verdicts in Markdown."""
    evidence = Evidence.read(sources)
    found = groups(evidence)
    rules = "\n".join(f"- {rule}" for rule in RULES.values())
    parts = ["## Rules", rules, "## Why a number can differ from the paper's", causes(evidence)]
    parts += ["## Summary", summary(found).markdown()]
    for one in found:
        parts += [f"## {one.title}", f"{one.place}. {one.says}", *claims(one)]
    parts += [f"## {VERSIONS[OURS]}, separately", APART, ours_table(found).markdown(), "## Epoch by epoch", EPOCHS]
    return "\n\n".join([*parts, *epoch_tables(evidence)])


def causes(evidence: Evidence) -> str:
    """Return a list of reasons other than the method itself, with the training graphs of GOOD-HIV from its records."""
    sizes = {}
    for title, dataset in HIV.items():
        settings = compared(dataset, "erm", FULL, 1).settings
        runs = (record for record in evidence.records.values() if record.get("config", {}).get("dataset") == settings)
        graphs = next((record["train_graphs"] for record in runs if record.get("train_graphs")), None)
        if graphs is not None:
            sizes[title] = f"{graphs:,} training graphs on {title} instead of {training_graphs(settings):,}"
    lines = list(CAUSES)
    if sizes:
        reason = "RDKit 2026.9.1 rejects seven molecules, which also moves a border between splits by scaffold"
        lines.append(f"GOOD-HIV has {' and '.join(sizes.values())}: {reason}.")
    return "\n".join(f"- {line}" for line in lines)


def summary(found: Sequence[Group]) -> Table:
    """Return how many claims of each group have each verdict, per version of GOODFormer."""
    rows = []
    for one in found:
        for version in dict.fromkeys(finding.version for claim in one.claims for finding in claim.findings):
            counts = Counter(
                finding.verdict for claim in one.claims for finding in claim.findings if finding.version == version
            )
            rows.append([one.title, _version(version), *(counts[verdict] for verdict in VERDICTS)])
    return Table.of(["claims", "checked with", *VERDICTS], rows)


def in_short(sources: Sequence[Path]) -> str:
    """Return one sentence with the number of claims that have each verdict, of training and of theory."""
    found = [finding for one in groups(Evidence.read(sources)) for claim in one.claims for finding in claim.findings]
    kinds = {
        "results of training": Counter(one.verdict for one in found if one.version in VERSIONS),
        "statements about any logits": Counter(one.verdict for one in found if one.version not in VERSIONS),
    }
    known = [
        f"of the {what}, {', '.join(f'{counts[verdict]} {verdict}' for verdict in VERDICTS if counts[verdict])}"
        for what, counts in kinds.items()
        if counts
    ]
    return f"Checks of the paper's claims so far: {'; '.join(known)}. Most lack full runs."


def _version(name: str) -> str:
    return VERSIONS.get(name, "any logits")


def claims(one: Group) -> list[str]:
    """Return a table of the claims that something was measured for, one row per version, and a list of the others."""
    begun = [claim for claim in one.claims if any(finding.measured != NOT_RUN for finding in claim.findings)]
    rows = [
        [claim.about, claim.reports, _version(finding.version), finding.measured, finding.runs, finding.words]
        for claim in begun
        for finding in claim.findings
    ]
    heads = ["claim", "paper", "checked with", "measured", "budget and seeds", "verdict"]
    parts = [Table.of(heads, rows).markdown()] if rows else []
    silent: dict[str, list[str]] = {}
    for claim in one.claims:
        if claim not in begun:
            silent.setdefault(claim.findings[0].words, []).append(f"- {claim.about} (paper: {claim.reports})")
    for words, lines in silent.items():
        parts += [f"{words[0].upper()}{words[1:]}:", "\n".join(lines)]
    return parts


def ours_table(found: Sequence[Group]) -> Table:
    """Return the same measurements of our GOODFormer, without the paper's numbers and without verdicts."""
    rows = [
        [claim.about.replace("GOODFormer", VERSIONS[OURS]), claim.ours.measured, claim.ours.runs]
        for one in found
        for claim in one.claims
        if claim.ours.measured != NOT_RUN
    ]
    return Table.of(["measurement", "measured", "budget and seeds"], rows)


def epoch_tables(evidence: Evidence) -> list[str]:
    """Return, for each of the paper's presets, its full runs on Motif basis epoch by epoch."""
    made = []
    for preset in JUDGED:
        title, one = VERSIONS[preset], measured(evidence, BASIS, row_of(preset), FULL)
        curves = {record["config"]["seed"]: record for record in one.records if record.get("curves")}
        if not curves:
            made.append(f"### {title}\n\nNo full run with its epochs is recorded yet.")
            continue
        heads = [f"{name}, seed {seed}" for seed in curves for name in CURVES]
        last = max(len(record["curves"]["ood_test"]) for record in curves.values())
        rows = [
            [str(epoch), *(cell for record in curves.values() for cell in _epoch_cells(record, epoch))]
            for epoch in range(1, last + 1)
        ]
        made.append(Table.of(["epoch", *heads], rows, title).markdown())
    return made


def _epoch_cells(record: Record, epoch: int) -> Iterator[str]:
    """Yield the cells of an epoch; the accuracy of the reported one is marked."""
    for name, (key, scale, digits) in CURVES.items():
        values = record["curves"].get(key, [])
        value = values[epoch - 1] if epoch <= len(values) else None
        mark = " *" if name == "accuracy" and epoch == record.get("selected_epoch") else ""
        yield ABSENT if value is None else f"{scale * value:.{digits}f}{mark}"


def write(sources: Sequence[Path], target: Path) -> bool:
    """Write the verdicts between the markers of a page; return whether it changed."""
    if not target.is_file():
        raise InputError(f"there is no page {target}; give docs/verdicts.md of a checkout of the project.")
    return insert(target, "verdicts", page(sources))
