"""The first thing to run: ERM and GOODFormer on a reduced GOOD-Motif, compared and drawn, in a few minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goodformer.config.presets import configure
from goodformer.config.run import Hardware, RunConfig
from goodformer.data import load_benchmark
from goodformer.draw.subgraphs import draw_subgraphs
from goodformer.engine.run import train
from goodformer.engine.store import Run
from goodformer.fitted import FittedModel

DATASET = {"name": "good-motif", "domain": "basis", "shift": "covariate"}
BUDGET = "quickstart"
PICTURED = 6
MOTIFS = ("house", "five-cycle", "crane")
CEILING = 1 - 0.1 * 2 / 3
"""One label in ten is drawn anew among three classes: no classifier can be right more often on average."""


@dataclass(frozen=True)
class Contestant:
    """A method on a model, with the epochs and settings it is given here."""

    title: str
    method: str
    model: str
    epochs: int
    overrides: tuple[str, ...] = ()

    def config(self, seed: int) -> RunConfig:
        """The configuration of its run."""
        overrides = [f"training.epochs={self.epochs}", *self.overrides]
        return configure(DATASET, self.method, self.model, budget=BUDGET, seed=seed, overrides=overrides)


CONTESTANTS = (
    Contestant("ERM on GIN (the paper's baseline)", "erm", "gin", epochs=5),
    Contestant("GOODFormer", "goodformer", "goodformer", epochs=3),
)
EXPLAINED = "goodformer"


def run(folder: Path, seed: int = 0, threads: int = 1, progress: bool = True) -> dict[str, Any]:
    """Train what is not trained yet, compare, draw; the report holds table, picture file and summaries."""
    hardware = Hardware(threads=threads, progress=progress)
    runs = {one.method: _train(one, folder, seed, hardware) for one in CONTESTANTS}
    picture = _draw(runs[EXPLAINED], folder / "subgraphs.png")
    summaries = {method: dict(done.summary or {}) for method, done in runs.items()}
    graphs = runs[EXPLAINED].config.dataset["graphs"]
    return {
        "title": f"GOOD-Motif, domain basis, covariate shift, {graphs:,} graphs in all, seed {seed}",
        "columns": ["", "epochs", "ID test", "OOD test", "P@10"],
        "rows": [_row(one, summaries[one.method]) for one in CONTESTANTS] + [_ceiling_row()],
        "note": f"Accuracy in %; OOD test graphs are paths; the epoch is chosen on {_rule(summaries)}. P@10: share of "
        "true motif edges among the ten of highest score.",
        "picture": str(picture),
        "summaries": summaries,
    }


def _train(one: Contestant, folder: Path, seed: int, hardware: Hardware) -> Run:
    """The contestant's finished run."""
    if hardware.progress:
        print(f"\n{one.title}")
    return train(one.config(seed), folder, hardware)


def _row(one: Contestant, summary: dict[str, Any]) -> list[Any]:
    """One line of the table."""
    figures = [_percent(summary.get(key)) for key in ("id_test", "ood_test")]
    return [one.title, str(one.epochs), *figures, summary.get("precision_at_10")]


def _ceiling_row() -> list[Any]:
    """The best that label noise allows."""
    return ["expected ceiling: one label in ten is drawn anew", "", *[_percent(CEILING)] * 2, 1.0]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _rule(summaries: dict[str, dict[str, Any]]) -> str:
    """How the epochs were chosen."""
    words = {"ood_val": "the shifted validation graphs (stars)", "id_val": "validation graphs like those of training"}
    rules = {words.get(str(one.get("selection")), str(one.get("selection"))) for one in summaries.values()}
    return " and ".join(sorted(rules))


def _draw(done: Run, path: Path) -> Path:
    """Test graphs, two of each motif, with what was found in them."""
    test = load_benchmark(**done.config.dataset).splits["test"]
    graphs = [test[index] for index in _one_after_another(test.graph["motif"].tolist())]
    answer = FittedModel.of_run(done, "best").predict(graphs)
    titles = [
        f"{MOTIFS[int(graph.motif)]}, predicted {MOTIFS[int(said)]}"
        for graph, said in zip(graphs, answer.classes, strict=True)
    ]
    return draw_subgraphs(graphs, answer.edge_scores or [], path, titles)


def _one_after_another(motifs: list[int]) -> list[int]:
    """The first graphs of each motif in turn, ``PICTURED`` in all."""
    places = [[index for index, motif in enumerate(motifs) if motif == kind] for kind in range(len(MOTIFS))]
    return [places[turn % len(MOTIFS)][turn // len(MOTIFS)] for turn in range(PICTURED)]
