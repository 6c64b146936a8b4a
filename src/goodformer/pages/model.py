"""The page of a fitted model: verdict first, then metrics, shift, uncertainty, errors and training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from goodformer.config.presets import member_name, member_table
from goodformer.config.run import LABELS
from goodformer.data import load_benchmark
from goodformer.data.benchmarks.table import LabelledFile
from goodformer.data.cards import domain_name, domains_of
from goodformer.data.graphs import GraphSet
from goodformer.data.readers.collection import Collection
from goodformer.data.readers.values import counted
from goodformer.data.splits.domains import NO_RING
from goodformer.data.splits.parts import places_of
from goodformer.data.splits.split import Split
from goodformer.engine import bootstrap
from goodformer.engine.blend import member_run
from goodformer.engine.selection import describe_selection
from goodformer.engine.store import Run
from goodformer.errors import InputError
from goodformer.fitted import FittedModel, describe_refit
from goodformer.pages import PAGE, charts, evidence, groups, page, statistics
from goodformer.pages.charts import Series
from goodformer.pages.evidence import GraphRows
from goodformer.pages.groups import SCAFFOLD
from goodformer.pages.page import PART_COLOURS, figure
from goodformer.spec import METRIC_NAMES, SPLIT_NAMES, split_names
from goodformer.uncertainty.calibration import calibration_error

HELD_OUT = ("test", "val", "id_test")
"""Parts that the model was not fitted to, the most telling first."""
MOST_POINTS = 400
"""Points of a part in a chart of single rows."""
DRIFTING = 4
"""Properties whose distributions are drawn."""
Evidence = Mapping[str, Any]


def fit_page(
    folder: Path,
    model: FittedModel,
    table: LabelledFile,
    splits: Mapping[str, GraphSet],
    report: Mapping[str, Any],
    run: Run,
    others: Mapping[str, Run],
) -> Path:
    """Gather the evidence of a fit, keep it beside the model and write the page.

    Args:
        folder: Folder of the fitted model.
        model: The model.
        table: The data it was fitted to.
        splits: The labelled graphs of the same data.
        report: Content of ``report.json``.
        run: The run that was trained.
        others: The runs of the baselines by name.
    """
    parts = {}
    for name, places in places_of(table.split, table.collection, table.labels.y).items():
        own = table.collection.subset(places)
        rows = [table.rows.place(int(row)) for row in own.rows]
        parts[name] = GraphRows(splits[name], rows, own.molecules, groups_of(own, table.split))
    logits = {name: found for name, one in others.items() if (found := evidence.kept_logits(one))}
    taught_by = (run.summary or {}).get("cross_fitted")
    crossed = {name: one for name, one in evidence.kept_logits(run).items() if name == taught_by}
    by = table.split.by if table.collection.molecules is None else SCAFFOLD
    found = evidence.gather(
        model,
        parts,
        about_run(run, report),
        logits,
        names=table.split.part_names,
        grouped="size" if table.split.given and by != SCAFFOLD else by,
        distance=report["distance"]["parts"],
        crossed=crossed,
    )
    evidence.save(folder, found)
    return write(found, folder / PAGE)


def groups_of(own: Collection, split: Split) -> list[str] | None:
    """Return the scaffold of each molecule, or the domain of each other graph; None if domains have no names."""
    if own.molecules is not None:
        return [scaffold or NO_RING for scaffold in own.molecules.scaffolds()]
    return [split.names[number] for number in split.domain[own.rows].tolist()] if split.names else None


def model_page(folder: Path, out: Path | None = None, overwrite: bool = False) -> Path:
    """Write the page of a fitted model from its evidence; by default into its folder."""
    place = page.check_page(out or folder / PAGE, overwrite)
    return write(evidence.load(folder), place)


def run_page(run: Run, out: Path | None = None, weights: str = "best", overwrite: bool = False) -> Path:
    """Write the page of a run, whose data set is loaded again; by default into its folder."""
    place = page.check_page(out or run.folder / PAGE, overwrite)
    if (summary := run.summary) is None:
        raise InputError(f"run {run.folder} is not finished; train it first.")
    model, bench = FittedModel.of_run(run, weights), load_benchmark(**run.config.dataset)
    model.fit_uncertainty(bench.splits["train"], bench.splits["id_val"])
    parts = {
        name: GraphRows(
            graphs,
            [f"{SPLIT_NAMES[name]} {place}" for place in range(len(graphs))],
            groups=[domain_name(bench, domain) for domain in domains_of(graphs).tolist()],
        )
        for name, graphs in bench.splits.items()
    }
    facts = {"file": run.config.dataset["name"], "split": bench.domain, "notes": list(filter(None, [bench.notes]))}
    found = evidence.gather(model, parts, about_run(run, {**summary, **facts}), grouped=bench.domain)
    return write(found, place)


def about_run(run: Run, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page says about a run besides its evidence."""
    summary = run.summary or {}
    names = split_names(report["split"], report.get("given", ()))
    copied = (
        "file",
        "split",
        "given",
        "method",
        "model",
        "metric",
        "seed",
        "selected_epoch",
        "epochs",
        "rows",
        "unreadable",
    )
    settings = run.config.to_dict()
    return {
        **{name: report.get(name) for name in copied},
        "cross_fitted": names.get(summary.get("cross_fitted") or "", ""),
        "refitted": report.get("refitted") or 0,
        "retrained": report.get("retrained") or False,
        "commit": summary.get("commit"),
        "versions": summary.get("versions") or {},
        "machine": {name: value for name, value in (summary.get("machine") or {}).items() if value is not None},
        "parameters": summary.get("parameters"),
        "seconds": summary.get("wall_seconds"),
        "chosen": describe_selection(report["selection"], report["splits"], report["metric"], names),
        "best": (report.get("baseline") or {}).get("best"),
        "distance": (report.get("distance") or {}).get("sentence") or "",
        "problems": (report.get("problems") or [])[:20],
        "notes": list(report.get("notes") or ()),
        "run": run.folder.name,
        **curves(run),
        "members": member_table(members, names) if (members := summary.get("members")) else None,
        "members_title": f"{METRIC_NAMES[report['metric']]} of the members, combined on {names['val']}",
        "settings": {
            f"{part}.{name}": value if isinstance(value, str | int | float | bool | None) else str(value)
            for part, some in settings.items()
            if part not in LABELS and isinstance(some, Mapping)
            for name, value in some.items()
        },
    }


def curves(run: Run) -> dict[str, Any]:
    """Return the curves of a run and its selected epoch; of a blend, the curves of one of its members."""
    summary = run.summary or {}
    members = [
        (f"{member_name(one)}, seed {one['seed']}", member_run(run, one["run"])) for one in summary.get("members", ())
    ]
    name, shown = next(((name, own) for name, own in members if len(own.epochs) > 1), ("", run))
    return {
        "curves": evidence.curves(shown),
        "curves_of": name,
        "marked": (shown.summary or {}).get("selected_epoch"),
    }


def write(found: Evidence, path: Path) -> Path:
    """Write the page of evidence."""
    return page.write(path, "model.html", **context(found))


def context(found: Evidence) -> dict[str, Any]:
    """Return what the template of a model page shows."""
    about, targets = found["about"], found["targets"]
    held = [name for name in HELD_OUT if name in found["parts"]]
    return {
        "title": f"{about['method']} fitted to {about['file']}",
        "about": about,
        "refit": describe_refit(about),
        "verdict": verdict(found),
        "tiles": tiles(found),
        "metrics": [metric_rows(found, reported) for reported in (True, False)],
        "baselines": _baselines(found),
        "shift": shift_rows(found),
        "shift_charts": shift_charts(found),
        "targets": [
            {"name": target["name"], "charts": target_charts(found, place)} for place, target in enumerate(targets)
        ],
        "coverage": [
            {"part": found["names"][name], **row} for name in found["coverage"] for row in found["coverage"][name]
        ],
        "groups": groups.breakdown(found),
        "widths": found["widths"],
        "held_names": {name: found["names"][name] for name in ("val", "test")},
        "several": len(targets) > 1,
        "measured": not any(target["classes"] for target in targets),
        "errors": [card(found, item) for item in found["shown"]["errors"]],
        "novel": [card(found, item) for item in found["shown"]["novel"]],
        "source": next((item["source"] for some in found["shown"].values() for item in some), "own"),
        "training": training_charts(found),
        "totals": {found["names"][name]: count for name, count in found["totals"].items()},
        "sampled": [
            f"{len(found['parts'][name]['row']):,} of {total:,} {found['names'][name]} rows"
            for name, total in found["totals"].items()
            if total > len(found["parts"][name]["row"])
        ],
        "held": held,
        "molecular": found["similarity"] != "distance",
    }


def headline(found: Evidence, part: str) -> Mapping[str, Any]:
    """Return the entry of the reported metric on a part, averaged over targets."""
    entry: Mapping[str, Any] = found["metrics"][part][0]
    return entry


def verdict(found: Evidence) -> dict[str, str]:
    """Return one sentence on what the model reaches on shifted data, beside the baseline that validation prefers."""
    about, metric = found["about"], bootstrap.NAMES[found["task"]["metric"]]
    known = [name for name in HELD_OUT if name in found["metrics"] and headline(found, name)["value"] is not None]
    if not known:
        return {"kind": "warn", "text": f"{metric} is not defined on any held-out part: each has a single class."}
    part, own = known[0], headline(found, known[0])
    where, few = found["names"][part], own["rows"] < bootstrap.FEWEST
    certainty = f"95 % interval {page.number(own['low'])} to {page.number(own['high'])}"
    certainty = f"unreliable: {counted(own['rows'], 'row')}" if few else certainty
    text = f"On {where}, {about['method']} reaches {metric} {page.number(own['value'])} ({certainty})."
    name = about.get("best") if about.get("best") in own["others"] else next(iter(own["others"]), None)
    if name is None:
        return {"kind": "", "text": f"{text} No baseline was fitted to the same rows."}
    other = own["others"][name]
    gap = other["difference"]
    compared = len(own["others"]) > 1 and "val" in found["metrics"] and headline(found, "val")["value"] is not None
    which = f"baseline {name}, the best on {found['names']['val']}," if compared else f"baseline {name}"
    text += f" The {which} reaches {page.number(other['value'])}."
    if gap["value"] is None or gap["low"] is None:
        return {"kind": "warn", "text": text}
    ends = f"{gap['value']:+.3f}, 95 % interval {gap['low']:+.3f} to {gap['high']:+.3f}"
    better, worse = gap["low"] > 0, gap["high"] < 0
    if found["task"]["metric"] in bootstrap.IN_UNITS:  # smaller is better
        better, worse = worse, better
    if better:
        return {"kind": "good", "text": f"{text} The model is better than the baseline ({ends})."}
    if worse:
        return {"kind": "bad", "text": f"{text} The baseline is better than the model ({ends}); prefer the baseline."}
    return {"kind": "warn", "text": f"{text} These rows do not separate the two ({ends})."}


def tiles(found: Evidence) -> list[dict[str, str]]:
    """Return the few numbers that a reader looks for first."""
    metric = bootstrap.NAMES[found["task"]["metric"]]
    made = []
    for part in ("test", "id_test"):
        if part in found["metrics"]:
            entry = headline(found, part)
            made.append(
                {
                    "value": page.number(entry["value"]),
                    "name": f"{metric} on {found['names'][part]}",
                    "more": page.span(entry),
                }
            )
    if "test" in found["metrics"]:
        for name, other in headline(found, "test")["others"].items():
            made.append(
                {
                    "value": page.number(other["value"]),
                    "name": f"baseline {name} on {found['names']['test']}",
                    "more": page.span(other),
                }
            )
    for part in ("test", "id_test"):
        outside = found["parts"].get(part, {}).get("outside")
        if outside:
            share = sum(map(bool, outside)) / len(outside)
            name = f"of {found['names'][part]} outside the domain"
            made.append({"value": page.percent(share), "name": name, "more": ""})
    covered = next((row for row in found["coverage"].get("test", ()) if row["level"] == 0.9), None)
    if covered and covered["coverage"] is not None:
        measured = not any(target["classes"] for target in found["targets"])
        what, size = ("intervals", "width") if measured else ("sets", "size")
        more = f"mean {size} {page.number(covered['size'], 2)}"
        made.append(
            {
                "value": page.percent(covered["coverage"]),
                "name": f"coverage of 90 % {what} on {found['names']['test']}",
                "more": more,
            }
        )
    return made


def _baselines(found: Evidence) -> list[str]:
    return list(dict.fromkeys(name for some in found["metrics"].values() for row in some for name in row["others"]))


def metric_rows(found: Evidence, reported: bool) -> list[dict[str, Any]]:
    """Return one row per part, target and metric, the most telling part first: of the reported metric or of others."""
    return [
        {**row, "part": found["names"][part], "target": row["target"] or "mean"}
        for part in (*HELD_OUT, "id_val", "train")
        for row in found["metrics"].get(part, ())
        if (row["metric"] == found["task"]["metric"]) == reported
    ]


# Shift ----------------------------------------------------------------------------------------------------------------


def shift_rows(found: Evidence) -> list[dict[str, Any]]:
    """Return one row per part: how well it is separated from training, and by what."""
    rows = []
    for part, one in found["separation"].items():
        table = found["parts"][part]
        outside = table["outside"]
        first = one["drift"][0] if one["drift"] else None
        rows.append(
            {
                "part": found["names"][part],
                "rows": len(table["row"]),
                "auroc": one["auroc"],
                "nearest": one["nearest"],
                "outside": sum(map(bool, outside)) / len(outside) if outside else None,
                "drifting": sum(row["drifts"] for row in one["drift"]),
                "first": None if first is None else first["name"],
                "before": None if first is None else first["before"],
                "now": None if first is None else first["now"],
            }
        )
    return rows


def _series(found: Evidence, values: Any, parts: Sequence[str]) -> list[Series]:
    """Return one series per part of what ``values`` reads from its columns."""
    made = []
    for name in parts:
        if name in found["parts"]:
            known = [value for value in values(found["parts"][name]) or () if value is not None]
            if known:
                made.append(Series(found["names"][name], PART_COLOURS[name], known))
    return made


def _legend(series: Sequence[Series]) -> list[tuple[str, str]]:
    return [(one.name, one.colour) for one in series]


def shift_charts(found: Evidence) -> list[dict[str, Any]]:
    """Return charts of what differs between training and held-out rows."""
    part = next((name for name in HELD_OUT if name in found["separation"]), None)
    if part is None:
        return []
    drift, made = found["separation"][part]["drift"], []
    rows = [(row["name"], row["ks"], PART_COLOURS[part] if row["drifts"] else "s8") for row in drift[:12]]
    note = "Kolmogorov-Smirnov distance: 0 = same distribution, 1 = separate. Grey: within chance."
    bars = charts.bars(rows, "distance from training", span=(0, 1))
    made.append(figure(f"What differs: {found['names'][part]} against training", bars, note=note))
    for row in drift[:DRIFTING]:
        name = row["name"]
        series = _series(found, lambda table, name=name: table["described"].get(name), ("train", "id_test", part))
        whole = all(float(value).is_integer() for one in series for value in one.x)
        made.append(figure(name, charts.histogram(series, name, whole), _legend(series)))
    series = _series(found, lambda table: table["nearest"], ("id_test", "val", "test"))
    across = f"{found['similarity']} to the nearest training row"
    if series:
        made.append(figure("Nearest training row", charts.histogram(series, across), _legend(series)))
    series = _series(found, lambda table: table["domain_score"], ("id_test", "val", "test"))
    if series:
        note = "Share of known rows that are less unusual; flat from 0 to 1 for rows like training."
        made.append(figure("Domain score", charts.histogram(series, "domain score"), _legend(series), note))
    return made


# Uncertainty and errors -----------------------------------------------------------------------------------------------


def target_charts(found: Evidence, place: int) -> list[dict[str, Any]]:
    """Return charts of one target: calibration, and error over the distance from training."""
    target, series, notes = found["targets"][place], [], []
    if not target["classes"]:
        return number_charts(found, place)
    binary = len(target["classes"]) == 2
    for name in ("id_test", "val", "test"):
        if name in found["parts"]:
            p, happened = outcomes(found["parts"][name], place, binary)
            bins = statistics.calibration(p, happened)
            if bins:
                labels = [
                    f"{found['names'][name]}: {one['p']:.2f} said, {one['share']:.2f} seen, {one['rows']} rows"
                    for one in bins
                ]
                x, y = [one["p"] for one in bins], [one["share"] for one in bins]
                low, high = [one["low"] for one in bins], [one["high"] for one in bins]
                series.append(Series(found["names"][name], PART_COLOURS[name], x, y, low, high, labels))
                gap = calibration_error(torch.tensor(p), torch.tensor(happened))
                notes.append(f"{found['names'][name]} {page.number(gap)}")
    said = f"predicted probability of {target['classes'][1]}" if binary else "probability of the predicted class"
    seen = f"observed share of {target['classes'][1]}" if binary else "share of right predictions"
    made = []
    if series:
        chart = charts.lines(series, said, seen, span=(0, 1), diagonal=True)
        made.append(
            figure("Calibration", chart, _legend(series), f"Mean gap (expected calibration error): {', '.join(notes)}.")
        )
        shares = [
            Series(
                found["names"][name],
                PART_COLOURS[name],
                outcomes(found["parts"][name], place, binary, labelled=False)[0],
            )
            for name in ("train", "id_test", "test")
            if name in found["parts"]
        ]
        made.append(figure("Predictions", charts.histogram(shares, said), _legend(shares)))
    return [*made, *distance_chart(found, place)]


def number_charts(found: Evidence, place: int) -> list[dict[str, Any]]:
    """Return charts of a measured target: predicted against measured values, and error over the distance."""
    name, points, shares = found["targets"][place]["name"], [], []
    for part in ("id_test", "val", "test"):
        if part in found["parts"]:
            table = found["parts"][part]
            pairs = [
                (label, said)
                for label, said in zip(table["label"][place], table["predicted"][place], strict=True)
                if label is not None and said is not None
            ][:MOST_POINTS]
            points.append(
                Series(found["names"][part], PART_COLOURS[part], [x for x, _ in pairs], [y for _, y in pairs])
            )
    for part in ("train", "id_test", "test"):
        if part in found["parts"]:
            said = [value for value in found["parts"][part]["predicted"][place] if value is not None]
            shares.append(Series(found["names"][part], PART_COLOURS[part], said))
    scatter = charts.scatter(points, "measured", "predicted", diagonal=True)
    return [
        figure("Predicted against measured", scatter, _legend(points)),
        figure("Predictions", charts.histogram(shares, f"predicted {name}"), _legend(shares)),
        *distance_chart(found, place),
    ]


def distance_chart(found: Evidence, place: int) -> list[dict[str, Any]]:
    """Return a chart of the error of one target over the distance from training; none if no distance is known."""
    classes, distance, error = found["targets"][place]["classes"], [], []
    for name in HELD_OUT:
        table = found["parts"].get(name, {})
        if table.get("nearest"):
            for near, label, said in zip(
                table["nearest"], table["label"][place], table["predicted"][place], strict=True
            ):
                if near is not None and label is not None and said is not None:
                    distance.append(near)
                    error.append(float(label != said) if classes else abs(label - said))
    bins = statistics.error_by(distance, error)
    if not bins:
        return []
    what = "share of wrong predictions" if classes else "mean absolute error"
    words = [
        f"{one['from']:.2f} to {one['to']:.2f}: {what} {page.number(one['error'])}, {one['rows']} rows" for one in bins
    ]
    x, y, low, high = ([one[name] for one in bins] for name in ("middle", "error", "low", "high"))
    line = Series("held-out rows", "s1", x, y, low, high, words)
    across = f"{found['similarity']} to the nearest training row"
    chart = charts.lines([line], across, what, percent=bool(classes))
    return [figure("Error by distance from training", chart, note="All held-out rows in groups of equal size.")]


def outcomes(
    table: Mapping[str, Any], place: int, binary: bool, labelled: bool = True
) -> tuple[list[float], list[float]]:
    """Return probabilities and whether they came true: of the second class, or of the predicted one among several."""
    p, happened = [], []
    kinds, labels, predicted = table["p"][place], table["label"][place], table["predicted"][place]
    for row, label in enumerate(labels):
        if label is None and labelled:
            continue
        code = 1 if binary else int(predicted[row])
        if kinds[code][row] is not None:
            p.append(kinds[code][row])
            happened.append(float(label == code))
    return p, happened


def card(found: Evidence, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a drawn row: what was said, what is true, how far it is from training, and its nearest neighbours."""
    targets = found["targets"]
    answers: list[dict[str, Any]] = []
    for place, target in enumerate(targets):
        label, said = item["label"][place], item["predicted"][place]
        wrong = bool(target["classes"]) and label is not None and label != said
        if len(targets) > 1 and not wrong and len(answers) > 3:
            continue
        if target["classes"]:
            sure = f"({page.number(item['p'][place][int(said)], 2)})"
        else:
            low, high = item["ends"][place] if item["ends"] else (None, None)
            sure = page.span({"low": low, "high": high})
        answers.append(
            {
                "target": target["name"],
                "label": page.class_word(target, label),
                "predicted": page.class_word(target, said),
                "sure": sure,
                "kind": "bad" if wrong else "good" if target["classes"] else "",
            }
        )
    return {
        "title": item["row"] if isinstance(item["row"], str) else f"row {item['row']}",
        "part": found["names"][item["part"]],
        "drawing": page.drawing(item),
        "verdict": item.get("verdict") or "not measured",  # unknown in evidence of earlier versions
        "smiles": item["smiles"],
        "answers": answers,
        "domain_score": item["domain_score"],
        "outside": item["outside"],
        "neighbours": [
            {
                "title": one["row"] if isinstance(one["row"], str) else f"row {one['row']}",
                "label": ", ".join(
                    page.class_word(target, code)
                    for target, code in zip(targets, one["label"], strict=True)
                    if code is not None
                ),
                "closeness": one["closeness"],
                "drawing": page.drawing(one, 200, 150),
            }
            for one in item["neighbours"]
        ],
    }


def training_charts(found: Evidence) -> list[dict[str, Any]]:
    """Return charts of metric and loss over the epochs, with the selected epoch marked."""
    made = []
    for metric, by_part in found["about"]["curves"].items():
        series = []
        for name, values in by_part.items():
            if any(value is not None for value in values) and name != "id_val":
                y = [math.nan if value is None else value for value in values]
                series.append(Series(found["names"][name], PART_COLOURS[name], list(range(1, len(y) + 1)), y))
        if series and len(series[0].x) > 1:
            title = bootstrap.NAMES.get(metric, metric)
            mark = found["about"]["marked"]
            chart = charts.lines(series, "epoch", title, mark=mark, points=len(series[0].x) <= 40, whole=True)
            made.append(figure(title, chart, _legend(series), f"Dotted line: selected epoch {mark}."))
    return made
