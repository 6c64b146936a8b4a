"""Measure the margin of verdicts on molecules whose deciding group is known (``molecule-rules``).

    python -m lab.reasons --rules nitro acid-or-ester --methods forest erm goodformer --graphs 1000 --count 80

A good margin gives "decides" for positive molecules, whose group decides; "no single part" for most negatives, which
lack the group; and no other verdict for the same model with random weights. For each margin the table states the share
of molecules with each verdict, and for the marked bonds of positives how many of them belong to the group (precision)
and how many of the group are marked (recall), beside a fixed third of the bonds.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from goodformer.config.presets import configure
from goodformer.data import load_benchmark
from goodformer.data.graphs import GraphSet
from goodformer.engine.run import train
from goodformer.engine.seeds import own_randomness
from goodformer.explain.explanation import edge_scores, measure_fidelity
from goodformer.explain.fidelity import Fidelity
from goodformer.explain.subgraph import Size, Undirected
from goodformer.fitted import FittedModel

MARGINS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


def truth_shares(graphs: GraphSet, scores: list[Tensor], truth: Tensor, k: Size) -> tuple[Tensor, Tensor]:
    """Return precision and recall of the marked bonds of each graph, (B,)."""
    pairs = Undirected.of(graphs)
    values, true = pairs.mean(torch.cat(scores)), pairs.mean(truth.double()) > 0.5
    sizes = pairs.sizes(values, k)
    hits, all_true = (
        torch.zeros(len(graphs)).index_add_(0, pairs.graph, one.float())
        for one in (pairs.best(values, sizes) & true, true)
    )
    return hits / sizes, hits / all_true


def verdict_shares(found: Fidelity, margin: float) -> str:
    """Return the shares of decides, contributes and no single part at a margin."""
    both = (found.random_removed - found.removed >= margin).long() + (found.kept - found.random_kept >= margin).long()
    return " / ".join(f"{float((both == count).double().mean()):.2f}" for count in (2, 1, 0))


def main() -> None:
    """Train the methods, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", nargs="+", default=["nitro", "acid-or-ester"])
    parser.add_argument("--methods", nargs="+", default=["forest", "erm", "goodformer"])
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--count", type=int, default=80)
    parser.add_argument("--runs", default="runs")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("method, rule, molecules: decides / contributes / no single part at margins", *MARGINS)
    for rule in given.rules:
        data = {"name": "molecule-rules", "rule": rule, "graphs": given.graphs}
        benchmark = load_benchmark(**data)
        splits = benchmark.splits
        graphs = GraphSet.concat([splits["val"], splits["test"]]).subset(range(given.count))
        truth = graphs.edge.pop("truth")  # the scores choose how much is marked
        for method in given.methods:
            epochs = [] if method in ("forest", "linear") else [f"training.epochs={given.epochs}"]
            run = train(configure(data, method, overrides=epochs), given.runs, None, benchmark)
            model = FittedModel.of_run(run).fit_uncertainty(splits["train"], splits["id_val"])
            models = {method: model}
            if epochs:
                with own_randomness():
                    torch.manual_seed(0)
                    models[f"{method}, untrained"] = FittedModel(model.file.build(), model.file)
            for name, one in models.items():
                answer = one.predict(graphs)
                scores, _ = edge_scores(one, graphs, answer)
                found, y = measure_fidelity(one, graphs, answer, scores), graphs.graph["y"][:, 0] > 0.5
                right = y == (answer.probabilities[:, 0] > 0.5)
                groups = {"positive": y & right, "negative": ~y & right, "wrong": ~right}
                for kind, rows in groups.items():
                    if rows.any():
                        some = found.subset(rows.nonzero()[:, 0].tolist())
                        verdicts = (verdict_shares(some, margin) for margin in MARGINS)
                        print(f"{name}, {rule}, {int(rows.sum())} {kind}:", "; ".join(verdicts))
                for size, words in ((None, "by the scores"), (1 / 3, "a third")):
                    hits = [float(part[y & right].nanmean()) for part in truth_shares(graphs, scores, truth, size)]
                    print(f"{name}, {rule}, marked {words}: precision {hits[0]:.2f}, recall {hits[1]:.2f}")


if __name__ == "__main__":
    main()
