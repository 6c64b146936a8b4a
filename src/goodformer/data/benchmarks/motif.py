"""Generated benchmarks: a motif decides the label, and the rest of the graph shifts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import networkx as nx
import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from goodformer.data.benchmark import HALVED, Benchmark
from goodformer.data.benchmarks.sizes import good_sizes, sp_sizes
from goodformer.data.cache import cached
from goodformer.data.graphs import GraphSet
from goodformer.data.random import Draws
from goodformer.spec import SPLITS, Features, FeatureSpec, Task

Ints = npt.NDArray[np.int64]

VERSION = 1
"""Increased when the generated graphs change, so that cached ones are rebuilt."""

GOOD_BASES = ("wheel", "tree", "ladder", "star", "path")
HOUSE = ((0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (1, 4))
CYCLE = ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4))
GOOD_CRANE = ((1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 3))
SP_CRANE = (*CYCLE, (0, 2), (0, 3))
MOTIF_NODES = 5
RATIOS = (0.99, 0.97, 0.95, 0.3, 0.0)
"""Probability that the motif decides the domain under a concept shift: three training environments, val, test."""
LABEL_NOISE = 0.1


@dataclass(frozen=True)
class Templates:
    """Small graphs laid end to end, to be copied into larger ones.

    Attributes:
        nodes: Number of nodes of each template (T,).
        edge_ptr: First edge of each template, and the number of edges (T + 1,).
        edges: Edges (2, E), the smaller node first.
    """

    nodes: Ints
    edge_ptr: Ints
    edges: Ints

    @classmethod
    def of(cls, graphs: Sequence[nx.Graph]) -> Templates:
        """Return templates of networkx graphs whose nodes are 0, 1, 2, ..."""
        edges = [np.sort(np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2), axis=1) for graph in graphs]
        nodes = np.array([graph.number_of_nodes() for graph in graphs], dtype=np.int64)
        return cls(nodes, np.append(0, np.cumsum([len(part) for part in edges])), np.concatenate(edges).T)

    def copies(self, which: Ints) -> tuple[Ints, Ints]:
        """Return the edges (2, E) of the templates ``which`` (B,), and the copy of each edge (E,)."""
        counts = np.diff(self.edge_ptr)[which]
        copy = np.repeat(np.arange(len(which)), counts)
        within = np.arange(len(copy)) - (np.cumsum(counts) - counts)[copy]
        return self.edges[:, self.edge_ptr[which][copy] + within], copy


@dataclass(frozen=True)
class Plan:
    """The parts of each of B graphs.

    Attributes:
        template: Base template (B,).
        motif: Motif (B,).
        y: Label (B,).
        env: Environment (B,).
        domain: The attribute that shifts (B,).
    """

    template: Ints
    motif: Ints
    y: Ints
    env: Ints
    domain: Ints


def good_motif(
    *,
    domain: Annotated[
        Literal["basis", "size"], Field(description="What shifts: the base graph, or its size.")
    ] = "basis",
    shift: Annotated[
        Literal["covariate", "concept", "none"],
        Field(description="Kind of shift: unseen domains, a changed correlation of domain and motif, or none."),
    ] = "covariate",
    graphs: Annotated[
        int, Field(ge=100, le=10_000_000, description="Total number of graphs in all five splits.")
    ] = 30_000,
    seed: Annotated[int, Field(ge=0, description="Seed of the generator; each seed gives different graphs.")] = 0,
) -> Benchmark:
    """GOOD-Motif: a motif joined to a base graph; the motif decides the label, the base shifts.

    Splits:
        covariate: training has 60 % of the graphs, the other splits 10 % each. concept: training 42 %, ID validation
        and ID test 9 % each, OOD validation and OOD test 20 % each. none: as covariate; GOOD has one validation and
        one test split of 20 % here, and each is halved into an ID and an OOD split of the same distribution.
    Input:
        x = 1 for every node, so only the structure matters. Base nodes come first, the five motif nodes last. Bases are
        wheel, binary tree, ladder, star and path. One edge joins motif node 0 to a random base node; in addition,
        int(5 % of the edges) random non-adjacent pairs are joined, except pairs inside the motif.
    Label:
        The motif: 0 house, 1 five-cycle, 2 crane (K2,3). With probability 0.1 the label is drawn at random from all
        three, so the best possible accuracy is 93.33 % on average. ``edge_truth`` marks the edges between motif nodes;
        ``motif`` is the label before noise.
    Task: 3 classes, accuracy.
    Domain:
        basis: the kind of base, an index into `GOOD_BASES`; widths are 5 to 15. Covariate: wheel, tree, ladder in
        training, star in OOD validation, path in OOD test. size: the nominal width, to which -5 to 5 is added, with
        all five bases. Covariate: 6, 10, 15 in training, 30 in OOD validation, 70 in OOD test. Concept: three domains
        (wheel, tree, ladder; widths 10, 40, 70). A graph has the domain with the index of its motif with probability
        .99, .97, .95 in the three training environments, .3 in OOD validation and 0 in OOD test, otherwise a random
        one. None: all five domains in every split. ``env``: 0, 1, 2 in equal numbers in training, ID validation and ID
        test; 3 in OOD validation, 4 in OOD test. Always 0 without shift.
    Source:
        Generated by this package as described by Gui et al., GOOD: A Graph Out-of-Distribution Benchmark, NeurIPS 2022.
    Licence:
        Generated by this package's code: MIT.

    Statistics (basis, covariate, 30,000 graphs): 18,000 / 3,000 / 3,000 / 3,000 / 3,000 graphs, mean nodes
    17 / 17 / 17 / 16 / 15, largest 35 / 35 / 35 / 21 / 20. size: mean nodes 17 / 17 / 17 / 39 / 88, largest
    45 / 45 / 45 / 75 / 155.
    """
    settings = {"domain": domain, "shift": shift, "graphs": graphs, "seed": seed}
    recipe = {"name": "good-motif", **settings, "version": VERSION}
    splits = _stored(recipe, lambda: _good_splits(domain, shift, graphs, seed))
    check_sizes(splits, good_sizes(shift, graphs))
    for split, made in splits.items():
        check_graphs(made, split, motif_edges=(6, 5, 6), label_noise=LABEL_NOISE)
    if shift == "covariate":
        check_disjoint(splits)
    notes = "Generated as described by GOOD, not read from its archive: different graphs of the same distribution."
    if shift == "none":
        notes += f" {HALVED}"
    envs = 1 if shift == "none" else 3
    names = GOOD_BASES if domain == "basis" else ()
    return Benchmark("good-motif", domain, shift, splits, Task(), FeatureSpec(), envs, notes, recipe, names)


def sp_motif(
    *,
    bias: Annotated[
        float,
        Field(ge=0, le=1, description="Probability that a training graph has the base of its motif."),
    ] = 0.9,
    larger: Annotated[bool, Field(description="Whether OOD test graphs have larger bases (a second shift).")] = True,
    graphs: Annotated[int, Field(ge=100, le=10_000_000, description="Number of training graphs.")] = 9_000,
    seed: Annotated[int, Field(ge=0, description="Seed of the generator; each seed gives different graphs.")] = 0,
) -> Benchmark:
    """SP-Motif (Spurious-Motif): base and motif are correlated in training but not in OOD test, where bases are larger.

    Splits:
        training 9,000, OOD validation 3,000, OOD test 6,000 (or in proportion to ``graphs``). ID validation and ID
        test, 3,000 each, are additions: further graphs of the training distribution.
    Input:
        x = 4 uniform random numbers per node (noise). Base nodes come first, the five motif nodes last; one edge
        joins motif node 0 to a random base node.
    Label:
        The motif: 0 five-cycle, 1 house, 2 crane (five-cycle with the chords 0-2 and 0-3). No label noise.
        ``edge_truth`` marks the edges between motif nodes.
    Task: 3 classes, accuracy.
    Domain:
        The kind of base: 0 tree (2 or 3 children, height 0-2), 1 ladder (width 8-11), 2 wheel (15-19 nodes). In
        training the base with the motif's index has probability ``bias``, each other (1 - bias) / 2; in OOD
        validation and OOD test all are equally likely. OOD test bases are larger: height 3-5, width 30-49, 60-79 nodes;
        with ``larger`` false they are as in training, so only the correlation of base and motif shifts. ``env`` is the
        base, too.
    Source:
        Generated by this package as described by Wu et al., Discovering Invariant Rationales for Graph Neural Networks,
        ICLR 2022.
    Licence:
        Generated by this package's code: MIT.

    Statistics (bias 0.9, 9,000 training graphs): 9,000 / 3,000 / 3,000 / 3,000 / 6,000 graphs, mean nodes
    19 / 19 / 19 / 19 / 90, largest 27 / 27 / 27 / 27 / 369.
    """
    recipe = {"name": "sp-motif", "bias": bias, "graphs": graphs, "seed": seed, "version": VERSION}
    recipe |= {} if larger else {"larger": False}
    splits = _stored(recipe, lambda: _sp_splits(bias, larger, graphs, seed))
    check_sizes(splits, sp_sizes(graphs))
    for split, made in splits.items():
        check_graphs(made, split, motif_edges=(5, 6, 7), label_noise=0.0)
    notes = "Generated as described by DIR; ID validation and ID test are additions from the training distribution."
    features, shift = FeatureSpec(node=Features.continuous(4)), f"bias={bias:g}{'' if larger else ', equal sizes'}"
    return Benchmark("sp-motif", "base", shift, splits, Task(), features, 3, notes, recipe, SP_BASES)


def _stored(recipe: dict[str, Any], build: Callable[[], dict[str, GraphSet]]) -> dict[str, GraphSet]:
    """Return the splits that ``build`` makes, from the cache if possible."""

    def flat() -> dict[str, torch.Tensor]:
        made = {f"{split}/{name}": value for split, part in build().items() for name, value in part.tensors().items()}
        # No graph has 32,768 nodes, and small files are read faster.
        return {name: value.short() if name.endswith("edge/index") else value for name, value in made.items()}

    parts: dict[str, dict[str, torch.Tensor]] = {split: {} for split in SPLITS}
    for key, value in cached(recipe, flat).items():
        split, _, name = key.partition("/")
        parts[split][name] = value.long() if name == "edge/index" else value
    return {split: GraphSet.from_tensors(part) for split, part in parts.items()}


# GOOD-Motif ---------------------------------------------------------------------------------------------------------


def _good_splits(domain: str, shift: str, graphs: int, seed: int) -> dict[str, GraphSet]:
    """Return all splits of GOOD-Motif, each from its own random stream."""
    bases, motifs = _good_bases(), Templates.of([nx.Graph(motif) for motif in (HOUSE, CYCLE, GOOD_CRANE)])
    made = {}
    for split, count in good_sizes(shift, graphs).items():
        draws = Draws(seed, f"good-motif/{domain}/{shift}/{split}")
        plan = _good_plan(draws, domain, shift, split, count)
        made[split] = assemble(draws, plan, bases, motifs, noise=True)
    return made


GOOD_WIDTHS = 75
"""The largest width of a base: 70 + 5."""


def _good_bases() -> Templates:
    """Return every base of GOOD-Motif in every width: base b of width w is template b * GOOD_WIDTHS + w - 1."""
    makers: tuple[Callable[[int], nx.Graph], ...] = (
        nx.wheel_graph,
        lambda width: nx.balanced_tree(2, max(1, int(math.log2(width)) - 1)),
        nx.ladder_graph,
        nx.star_graph,
        nx.path_graph,
    )
    return Templates.of([make(width) for make in makers for width in range(1, GOOD_WIDTHS + 1)])


def _good_plan(draws: Draws, domain: str, shift: str, split: str, count: int) -> Plan:
    """Draw the parts of each graph of one split."""
    motif = draws.below(3, count)
    env = _good_envs(shift, split, count)
    level = _good_levels(draws, shift, env, motif)  # (B,), index of the domain
    if domain == "basis":
        base, nominal = level, np.full(count, 10)
    else:
        widths = (10, 40, 70) if shift == "concept" else (6, 10, 15, 30, 70)
        base, nominal = draws.below(len(GOOD_BASES), count), np.array(widths)[level]
    width = nominal + draws.below(11, count) - 5
    redrawn = draws.uniform(count) < LABEL_NOISE
    y = np.where(redrawn, draws.below(3, count), motif)
    return Plan(base * GOOD_WIDTHS + width - 1, motif, y, env, base if domain == "basis" else nominal)


def _good_envs(shift: str, split: str, count: int) -> Ints:
    """Return environments in equal numbers; val and test have one of their own each."""
    if shift == "none":
        return np.zeros(count, dtype=np.int64)
    if split in ("val", "test"):
        return np.full(count, 3 if split == "val" else 4)
    return np.arange(count) % 3


def _good_levels(draws: Draws, shift: str, env: Ints, motif: Ints) -> Ints:
    """Return the index of each graph's domain: its environment, one correlated with its motif, or any."""
    if shift == "covariate":
        return env
    if shift == "none":
        return draws.below(5, len(env))
    tied = draws.uniform(len(env)) < np.array(RATIOS)[env]
    return np.where(tied, motif, draws.below(3, len(env)))


# SP-Motif -----------------------------------------------------------------------------------------------------------

SP_BASES = ("tree", "ladder", "wheel")
SP_TREES = tuple((children, height) for height in range(6) for children in (2, 3))


def _sp_bases() -> tuple[Templates, dict[str, list[list[int]]]]:
    """Return templates of all bases, and for each split which of them are its trees, ladders and wheels."""
    trees = [nx.balanced_tree(children, height) for children, height in SP_TREES]
    ladders = {width: nx.ladder_graph(width) for width in (*range(8, 12), *range(30, 50))}
    wheels = {nodes: nx.wheel_graph(nodes) for nodes in (*range(15, 20), *range(60, 80))}
    first_ladder, first_wheel = len(trees), len(trees) + len(ladders)
    small = [[*range(6)], [first_ladder + i for i in range(4)], [first_wheel + i for i in range(5)]]
    large = [[*range(6, 12)], [first_ladder + 4 + i for i in range(20)], [first_wheel + 5 + i for i in range(20)]]
    choice = {split: large if split == "test" else small for split in SPLITS}
    return Templates.of([*trees, *ladders.values(), *wheels.values()]), choice


def _sp_splits(bias: float, larger: bool, graphs: int, seed: int) -> dict[str, GraphSet]:
    """Return all splits of SP-Motif, each from its own random stream."""
    bases, choice = _sp_bases()
    motifs = Templates.of([nx.Graph(motif) for motif in (CYCLE, HOUSE, SP_CRANE)])
    made = {}
    for split, count in sp_sizes(graphs).items():
        draws = Draws(seed, f"sp-motif/{split}")
        plan = _sp_plan(draws, 1 / 3 if split in ("val", "test") else bias, choice[split if larger else "train"], count)
        graphs_made = assemble(draws, plan, bases, motifs, noise=False)
        x = draws.uniform(4 * int(graphs_made.node_ptr[-1])).astype(np.float32).reshape(-1, 4)  # (N, 4)
        made[split] = graphs_made.with_node("x", torch.from_numpy(x))
    return made


def _sp_plan(draws: Draws, bias: float, choice: list[list[int]], count: int) -> Plan:
    """Draw the parts of each graph of one split; every third graph has the same motif."""
    motif = np.arange(count) % 3
    other = (motif + 1 + draws.below(2, count)) % 3
    base = np.where(draws.uniform(count) < bias, motif, other)
    options = np.array([len(templates) for templates in choice])[base]
    first = np.array([templates[0] for templates in choice])[base]
    return Plan(first + draws.below(options), motif, motif, base, base)


# Both ---------------------------------------------------------------------------------------------------------------


def assemble(draws: Draws, plan: Plan, bases: Templates, motifs: Templates, noise: bool) -> GraphSet:
    """Build the planned graphs from base, motif, joining edge and optional noise, without a loop over graphs."""
    base_nodes = bases.nodes[plan.template]  # (B,)
    pairs = Pairs.of(base_nodes + MOTIF_NODES)
    (base_u, base_v), base_graph = bases.copies(plan.template)
    (motif_u, motif_v), motif_graph = motifs.copies(plan.motif)
    shift = base_nodes[motif_graph]
    every = np.arange(len(base_nodes))
    keys = np.concatenate(
        [
            pairs.key(base_graph, base_u, base_v),
            pairs.key(motif_graph, motif_u + shift, motif_v + shift),
            pairs.key(every, draws.below(base_nodes), base_nodes),
        ]
    )
    keys.sort()
    if noise:
        keys = np.concatenate([keys, noise_edges(draws, keys, pairs, base_nodes)])
    return _graph_set(plan, pairs, keys, base_nodes)


@dataclass(frozen=True)
class Pairs:
    """Numbers of the ordered pairs of nodes within each graph, so that edges are sorted integers.

    Attributes:
        sizes: Number of nodes of each graph (B,).
        first: Number of the first pair of each graph, and of all pairs (B + 1,).
    """

    sizes: Ints
    first: Ints

    @classmethod
    def of(cls, sizes: Ints) -> Pairs:
        """Return the numbers for graphs of the given sizes."""
        return cls(sizes, np.append(0, np.cumsum(sizes * sizes)))

    def key(self, graph: Ints, u: Ints, v: Ints) -> Ints:
        """Return the numbers of the pairs (u, v)."""
        return self.first[graph] + u * self.sizes[graph] + v

    def graph(self, keys: Ints) -> Ints:
        """Return the graph of each of the sorted numbers."""
        return np.repeat(np.arange(len(self.sizes)), np.diff(np.searchsorted(keys, self.first)))

    def ends(self, keys: Ints, graph: Ints) -> tuple[Ints, Ints]:
        """Return the two nodes of each pair."""
        u, v = np.divmod(keys - self.first[graph], self.sizes[graph])
        return u, v


def noise_edges(draws: Draws, keys: Ints, pairs: Pairs, base_nodes: Ints) -> Ints:
    """Draw pairs to join at random: int(5 %) of each graph's edges, among pairs that are not adjacent yet.

    A draw inside the motif counts but adds no edge. In every round, each graph with draws left makes one; a node with
    itself or an adjacent pair is drawn again in the next round.
    """
    left = np.diff(np.searchsorted(keys, pairs.first)) // 20  # (B,)
    added = np.empty(0, dtype=np.int64)
    graph = np.flatnonzero(left)
    while len(graph):
        one, other = draws.below(pairs.sizes[graph]), draws.below(pairs.sizes[graph])
        low, high = np.minimum(one, other), np.maximum(one, other)
        drawn = pairs.key(graph, low, high)
        free = (low < high) & ~_contains(keys, drawn) & ~_contains(added, drawn)
        added = np.sort(np.concatenate([added, drawn[free & (low < base_nodes[graph])]]))
        left[graph[free]] -= 1
        graph = graph[left[graph] > 0]
    return added


def _contains(ordered: Ints, values: Ints) -> npt.NDArray[np.bool_]:
    """Return which values are among the sorted ones."""
    at = np.searchsorted(ordered, values)
    found = np.zeros(len(values), dtype=bool)
    inside = at < len(ordered)
    found[inside] = ordered[at[inside]] == values[inside]
    return found


def _graph_set(plan: Plan, pairs: Pairs, keys: Ints, base_nodes: Ints) -> GraphSet:
    """Return graphs whose edges are the given pairs in both directions, ordered by source and target."""
    keys = np.sort(keys)
    graph = pairs.graph(keys)
    u, v = pairs.ends(keys, graph)
    both = np.sort(np.concatenate([keys, pairs.key(graph, v, u)]))
    graph = pairs.graph(both)
    u, v = pairs.ends(both, graph)
    nodes = np.append(0, np.cumsum(pairs.sizes))
    tensor = torch.from_numpy
    return GraphSet(
        {"x": torch.ones(int(nodes[-1]), 1)},
        {"index": tensor(np.stack([u, v])), "truth": tensor(np.minimum(u, v) >= base_nodes[graph])},
        {name: tensor(getattr(plan, name).astype(np.int64)) for name in ("y", "env", "domain", "motif")},
        tensor(nodes),
        tensor(np.searchsorted(both, pairs.first)),
    )


def check_graphs(graphs: GraphSet, split: str, motif_edges: Sequence[int], label_noise: float) -> None:
    """Raise an error unless every graph is connected and has its motif's edges, and label noise is as expected."""
    motif, y = graphs.graph["motif"], graphs.graph["y"]
    truth = torch.zeros(len(graphs), dtype=torch.long).index_add_(0, graphs.edge_graph, graphs.edge["truth"].long())
    if not torch.equal(truth, 2 * torch.tensor(motif_edges)[motif]):
        raise RuntimeError(f"split {split}: a graph's true edges are not those of its motif.")
    u, v = graphs.edge_index.numpy()
    links = coo_array((np.ones(len(u), dtype=bool), (u, v)), shape=(int(graphs.node_ptr[-1]),) * 2)
    if connected_components(links, directed=False, return_labels=False) != len(graphs):
        raise RuntimeError(f"split {split}: a graph is not connected.")
    rate, wrong = label_noise * 2 / 3, int((motif != y).sum())
    allowed = 6 * math.sqrt(len(y) * rate * (1 - rate)) + 3 * (rate > 0)
    if abs(wrong - rate * len(y)) > allowed:
        raise RuntimeError(f"split {split}: {wrong} of {len(y)} labels are wrong, expected {rate:.2%}.")


def check_sizes(splits: dict[str, GraphSet], expected: dict[str, int]) -> None:
    """Raise an error unless every split has the expected number of graphs."""
    found = {split: len(graphs) for split, graphs in splits.items()}
    if found != expected:
        raise RuntimeError(f"the splits have {found} graphs, expected {expected}.")


def check_disjoint(splits: dict[str, GraphSet]) -> None:
    """Raise an error unless val and test have their own domains, and ID splits only those of training."""
    seen = {split: set(graphs.graph["domain"].tolist()) for split, graphs in splits.items()}
    apart = seen["train"].isdisjoint(seen["val"] | seen["test"]) and seen["val"].isdisjoint(seen["test"])
    if not apart or not (seen["id_val"] | seen["id_test"]) <= seen["train"]:
        raise RuntimeError(f"the domains of the splits are not as they should be: {seen}.")
