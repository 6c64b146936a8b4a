"""Benchmarks of sentences as graphs with shifting sentence length: GOOD-SST2 and GOOD-Twitter.

Letters: R sentences, N nodes, E edges.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from goodformer.data.acquire import PublicFile, obtain
from goodformer.data.benchmark import HALVED, Benchmark
from goodformer.data.benchmarks.parse import DEFAULT_MODEL, identity, parse
from goodformer.data.digest import digest
from goodformer.data.graphs import GraphSet, both_ways
from goodformer.data.random import Draws
from goodformer.data.readers.tu_folder import read_edges, read_owners, whole_numbers
from goodformer.data.splits.split import Split, concept, covariate, mixed
from goodformer.errors import InputError
from goodformer.spec import SPLITS, Features, FeatureSpec, Task

Ints = npt.NDArray[np.int64]

VERSION = 2
"""Increased when these benchmarks change, so that cached encodings are rebuilt."""

READY = "bert"
"""Value of ``vectors`` for the ready-made graphs."""

OUTSIDE = (0.25, 0.25)
"""Intended shares of val and test under a covariate shift."""
INSIDE = 0.15
"""Share of the sentences of training lengths that become id_val, and again id_test."""

SST2_COPY = (
    "https://raw.githubusercontent.com/awake020/pytorch_Bert_sst2/54e22ca58a656750f474ec61ebccaf5ff596de96/SST-2"
)
SST2_ABOUT = "SST-2 (Socher et al. 2013, as in GLUE), copy of github.com/awake020/pytorch_Bert_sst2, licence unknown"
TWITTER_COPY = (
    "https://raw.githubusercontent.com/songyouwei/ABSA-PyTorch/8c94cf748b6046deee07dab2b86043792b005f00"
    "/datasets/acl-14-short-data"
)
TWITTER_ABOUT = "Twitter sentiment (Dong et al. 2014), copy of github.com/songyouwei/ABSA-PyTorch, MIT"
READY_ABOUT = (
    "https://drive.google.com/drive/folders/1dt0aGMBvCEUYzaG00TYu1D03GPO7305z "
    "(ready-made sentence graphs of Yuan et al. 2022, offered by github.com/divelab/DIG, licence unknown)"
)
READY_FILES = {
    "edge_index": "txt",
    "node_indicator": "txt",
    "graph_labels": "txt",
    "node_features": "pkl",
}
"""Files of the ready-made graphs that are read, and their suffixes; sentence_tokens and split_indices are not."""


@dataclass(frozen=True)
class Corpus:
    """One collection of sentences.

    Attributes:
        name: Name of the benchmark.
        ready: Name of its ready-made graphs.
        sources: Files of its text.
        read: Reads sentences and classes out of one of them.
        classes: Number of classes.
        published: Sizes of train, val and test under a covariate shift as published.
    """

    name: str
    ready: str
    sources: tuple[PublicFile, ...]
    read: Callable[[Path], tuple[list[str], list[int]]]
    classes: int
    published: tuple[int, int, int]


@dataclass(frozen=True)
class Sentences:
    """Sentences with known graphs, before they are split.

    Attributes:
        y: Class of each (R,).
        sizes: Number of nodes of each (R,).
        take: The graphs at given rows, with node features.
        made_of: What decides them, as JSON values.
    """

    y: Ints
    sizes: Ints
    take: Callable[[Ints], GraphSet]
    made_of: dict[str, Any]


Length = Annotated[Literal["length"], Field(description="What shifts: the number of tokens of the sentence.")]
Shift = Annotated[
    Literal["covariate", "concept", "none"],
    Field(description="Kind of shift: unseen lengths, a changed correlation of length and label, or none."),
]
Vectors = Annotated[
    str,
    Field(
        min_length=1,
        description="A spaCy model with parser and word vectors, or bert for the published graphs.",
    ),
]
Graphs = Annotated[int | None, Field(ge=100, description="Number of sentences drawn at random; all by default.")]
Seed = Annotated[int, Field(ge=0, description="Seed of the sample, ID validation and ID test.")]


def good_sst2(
    *,
    domain: Length = "length",
    shift: Shift = "covariate",
    vectors: Vectors = DEFAULT_MODEL,
    graphs: Graphs = None,
    seed: Seed = 0,
) -> Benchmark:
    """GOOD-SST2: phrases and sentences from film reviews; training on short ones, testing on long ones.

    Splits:
        covariate: sentences in the order of their length, cut at 50 % and 75 % moved to the next length (train up to
        7 tokens, val 8 to 14, test from 15 on); id_val and id_test are 15 % of the short ones each. concept:
        lengths of the shorter half go with one class in training and with the other in test. none: 60 % in train,
        10 % in each other split.
    Input:
        One node per token, with its word vector as x (300 numbers of en_core_web_md, zeros if there is none);
        one undirected edge per dependency; further roots of a text are joined to the first. With vectors = bert, the
        published graphs are read instead (768 numbers per node).
    Label:
        0 negative, 1 positive.
    Task: 2 classes, accuracy.
    Domain:
        The number of tokens. ``env``: neighbouring training lengths merged into at most ten environments of similar
        size, numbered from 0; under a concept shift the three groups of training sentences of different bias.
    Source:
        Text: SST-2 of Socher et al., Recursive Deep Models for Semantic Compositionality over a Sentiment Treebank,
        EMNLP 2013, all 70,042 rows of train, dev and test. Published graphs: Graph-SST2 of Yuan et al., Explainability
        in Graph Neural Networks, TPAMI 2022. Splits after Gui et al., GOOD, NeurIPS 2022.
    Licence:
        Text and published graphs: unknown; ask their authors before sharing them. Model en_core_web_md: MIT.

    Statistics (covariate, en_core_web_md): 24,729 / 5,299 / 5,299 / 17,214 / 17,501 graphs; published: training
    24,744, OOD validation 17,206, OOD test 17,490.
    """
    return _benchmark(SST2, domain, shift, vectors, graphs, seed)


def good_twitter(
    *,
    domain: Length = "length",
    shift: Shift = "covariate",
    vectors: Vectors = DEFAULT_MODEL,
    graphs: Graphs = None,
    seed: Seed = 0,
) -> Benchmark:
    """GOOD-Twitter: tweets with an opinion about a target; training on short ones, testing on long ones.

    Splits:
        covariate: tweets in the order of their length, cut at 50 % and 75 % moved to the next length (train up to
        22 tokens, val 23 to 27, test from 28 on); id_val and id_test are 15 % of the short ones each. concept and none:
        as `good_sst2`.
    Input:
        As `good_sst2`; the placeholder $T$ in the text is replaced by the target of the opinion.
    Label:
        0 negative, 1 neutral, 2 positive.
    Task: 3 classes, accuracy.
    Domain:
        The number of tokens. ``env``: as `good_sst2`.
    Source:
        Text: Dong et al., Adaptive Recursive Neural Network for Target-dependent Twitter Sentiment Classification,
        ACL 2014, all 6,940 tweets of train and test. Published graphs: Graph-Twitter of Yuan et al., Explainability in
        Graph Neural Networks, TPAMI 2022. Splits after Gui et al., GOOD, NeurIPS 2022.
    Licence:
        Text: a copy in a repository under MIT; the licence of the tweets and of the published graphs is unknown.
        Model en_core_web_md: MIT.

    Statistics (covariate, en_core_web_md): 2,589 / 554 / 554 / 1,784 / 1,459 graphs; published: training 2,590,
    OOD validation 1,785, OOD test 1,457.
    """
    return _benchmark(TWITTER, domain, shift, vectors, graphs, seed)


# The benchmark ------------------------------------------------------------------------------------------------------


def _benchmark(corpus: Corpus, domain: str, shift: str, vectors: str, graphs: int | None, seed: int) -> Benchmark:
    """Return the sentences of a corpus as graphs, split by length."""
    sentences = _ready(corpus, graphs, seed) if vectors == READY else _from_text(corpus, vectors, graphs, seed)
    split = _split(sentences, shift, seed)
    env, envs = split.envs()
    splits = {}
    for name in SPLITS:
        rows = split.rows(name)
        part = sentences.take(rows.numpy())
        part.graph |= {"y": torch.from_numpy(sentences.y)[rows], "env": env[rows], "domain": split.domain[rows]}
        splits[name] = part
    settings = {"domain": domain, "shift": shift, "vectors": vectors, "graphs": graphs, "seed": seed}
    recipe = {"name": corpus.name, **settings, **sentences.made_of, "version": VERSION}
    features = FeatureSpec(node=Features.continuous(splits["train"].node["x"].shape[1]))
    task = Task("multiclass", corpus.classes, "accuracy")
    notes = _notes(corpus, split, shift, vectors, graphs)
    return Benchmark(corpus.name, domain, shift, splits, task, features, envs, notes, recipe)


def _split(sentences: Sentences, shift: str, seed: int) -> Split:
    """Split the sentences; a domain is a length."""
    length = sentences.sizes
    if shift == "concept":
        return concept(length, sentences.y, "length", seed=seed)
    if shift == "none":
        return mixed(length, "length", seed=seed)
    whole = covariate(length, "length", seed=seed, outside=OUTSIDE, inside=(0, 0))
    # GOOD takes a share of the short sentences, whose number the lengths decide; `covariate` takes one of all.
    share = int(INSIDE * len(whole.rows("train"))) / len(whole)
    return covariate(length, "length", seed=seed, outside=OUTSIDE, inside=(share, share))


def _notes(corpus: Corpus, split: Split, shift: str, vectors: str, graphs: int | None) -> str:
    """Return how the data differ from the published ones."""
    if vectors == READY:
        notes = ["The published graphs; ID validation and ID test contain other graphs than in GOOD's archive."]
    else:
        notes = [
            f"Graphs built from the text with spaCy's {vectors} (parser and word vectors); the published ones have a "
            "biaffine parser's trees and BERT vectors, so results are not comparable."
        ]
    if shift == "covariate" and graphs is None:
        counts = split.counts()
        sizes = " / ".join(f"{counts[name]:,}" for name in ("train", "val", "test"))
        notes.append(
            f"Training, OOD validation and OOD test have {sizes} graphs, published: "
            f"{' / '.join(map('{:,}'.format, corpus.published))}."
        )
    if shift != "concept":
        notes.append("Neighbouring training lengths are merged into at most ten environments.")
    if shift == "none":
        notes.append(HALVED)
    if graphs is not None:
        notes.append(f"A random sample of {len(split):,} sentences.")
    return " ".join(notes)


def _sample(corpus: Corpus, rows: int, graphs: int | None, seed: int) -> Ints:
    """Return the rows that are used, ascending."""
    if graphs is None or graphs >= rows:
        return np.arange(rows)
    return np.sort(Draws(seed, f"{corpus.name}/sample").uniform(rows).argsort(kind="stable")[:graphs])


# From text ----------------------------------------------------------------------------------------------------------


def _from_text(corpus: Corpus, vectors: str, graphs: int | None, seed: int) -> Sentences:
    """Return the parsed sentences of a corpus."""
    texts, labels = read_texts(corpus)
    rows = _sample(corpus, len(texts), graphs, seed)
    chosen = [texts[row] for row in rows.tolist()]
    trees = parse(chosen, vectors)
    digest = hashlib.sha256("\n".join(chosen).encode()).hexdigest()
    y = np.array(labels, dtype=np.int64)[rows]
    return Sentences(y, trees.graphs.sizes.numpy(), trees.with_vectors, {"text": digest, "model": identity(vectors)})


def read_texts(corpus: Corpus) -> tuple[list[str], list[int]]:
    """Return all sentences of a corpus and their classes."""
    texts: list[str] = []
    labels: list[int] = []
    for source in corpus.sources:
        some, theirs = corpus.read(obtain(source))
        texts += some
        labels += theirs
    return texts, labels


def read_sst2(path: Path) -> tuple[list[str], list[int]]:
    """Read a file with a header and one ``label TAB sentence`` per line."""
    texts, labels = [], []
    for number, line in enumerate(_lines(path), start=1):
        label, _, text = line.partition("\t")
        if number == 1 and label == "label":
            continue
        if label not in ("0", "1") or not text.strip():
            raise InputError(f"{path}, line {number}: {line[:60]!r} is not 0 or 1, a tab and a sentence; correct it.")
        texts.append(text)
        labels.append(int(label))
    return texts, labels


def read_twitter(path: Path) -> tuple[list[str], list[int]]:
    """Read a file with three lines per tweet: text with $T$, what $T$ stands for, and -1 to 1."""
    lines, texts, labels = _lines(path), [], []
    if len(lines) % 3:
        raise InputError(f"{path}, line {len(lines)}: the last tweet has {len(lines) % 3} line(s); write three.")
    for first in range(0, len(lines), 3):
        text, target, label = (line.strip() for line in lines[first : first + 3])
        if "$T$" not in text or not target:
            raise InputError(f"{path}, line {first + 1}: {text[:60]!r} has no $T$ or no target below it; correct it.")
        if label not in ("-1", "0", "1"):
            raise InputError(f"{path}, line {first + 3}: label {label[:60]!r} is not -1, 0 or 1; correct it.")
        texts.append(text.replace("$T$", target))
        labels.append(int(label) + 1)
    return texts, labels


def _lines(path: Path) -> list[str]:
    """Return the lines of a text file; only a line feed ends a line, and the last may lack it."""
    lines = path.read_bytes().split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not lines:
        raise InputError(f"{path} is empty; download it again.")
    texts = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(line.decode("utf-8").rstrip("\r"))
        except UnicodeDecodeError:
            raise InputError(f"{path}, line {number} is not UTF-8; save the file as UTF-8.") from None
    return texts


# Ready-made graphs --------------------------------------------------------------------------------------------------


def _ready(corpus: Corpus, graphs: int | None, seed: int) -> Sentences:
    """Return the ready-made graphs of a corpus."""
    files = {kind: obtain(source) for kind, source in ready_sources(corpus.ready).items()}
    whole = read_ready_made(files, corpus.classes)
    rows = _sample(corpus, len(whole), graphs, seed)
    y = whole.graph.pop("y").numpy()[rows]

    def take(part: Ints) -> GraphSet:
        return whole.subset(torch.from_numpy(rows[part]))

    return Sentences(
        y, whole.sizes.numpy()[rows], take, {"files": {kind: digest(path) for kind, path in files.items()}}
    )


def ready_sources(name: str) -> dict[str, PublicFile]:
    """Return the files of the ready-made graphs; they are in a shared folder and must be downloaded by hand."""
    files = {kind: f"{name}/raw/{name}_{kind}.{ending}" for kind, ending in READY_FILES.items()}
    return {kind: PublicFile(file, "", None, READY_ABOUT) for kind, file in files.items()}


def read_ready_made(files: Mapping[str, Path], classes: int) -> GraphSet:
    """Read graphs in the published format: all nodes and edges of all graphs in a row.

    Args:
        files: ``node_indicator`` (N lines: the number of the node's graph, from 1, ascending), ``graph_labels``
            (R lines), ``edge_index`` (one pair of node numbers per line, from 0 over all graphs, in one or both
            directions) and ``node_features`` (a pickled numpy array (N, D)).
        classes: Number of classes.

    Raises:
        InputError: A file does not fit; the sentence names it and the line.
    """
    graph = read_owners(files["node_indicator"])  # (N,)
    path, graphs = files["graph_labels"], int(graph[-1]) + 1
    y = whole_numbers(path, 1)[:, 0]  # (R,)
    if len(y) != graphs:
        raise InputError(f"{path} has {len(y)} lines but there are {graphs} graphs; give one label per graph.")
    if len(wrong := np.flatnonzero((y < 0) | (y >= classes))):
        line = int(wrong[0])
        raise InputError(f"{path} line {line + 1} has class {y[line]}; use 0 to {classes - 1}.")
    edges = read_edges(files["edge_index"], graph, first=0).T  # (2, e)
    x = read_array(files["node_features"])
    if x.ndim != 2 or len(x) != len(graph):
        raise InputError(f"{files['node_features']} has the shape {x.shape}; {len(graph)} nodes need one row each.")
    (u, v), _ = both_ways(edges, len(graph))  # (E,), (E,)
    ptr = np.searchsorted(graph, np.arange(graphs + 1))
    tensor = torch.from_numpy
    return GraphSet(
        {"x": tensor(x).float()},
        {"index": tensor(np.stack([u, v]) - ptr[graph[u]])},
        {"y": tensor(y)},
        tensor(ptr),
        tensor(np.searchsorted(u, ptr)),
    )


ARRAY_PARTS = {
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}
"""Everything a pickled array of numbers may refer to."""


class _ArrayUnpickler(pickle.Unpickler):
    """Reader of pickled numpy arrays that rejects everything else before it is looked up."""

    def find_class(self, module: str, name: str) -> Any:
        current = module.replace("numpy.core", "numpy._core")
        if (current, name) not in ARRAY_PARTS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(current, name)


def read_array(path: Path) -> npt.NDArray[Any]:
    """Read a pickled numpy array of numbers without running code from the file."""
    try:
        with path.open("rb") as file:
            value = _ArrayUnpickler(file).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError, MemoryError) as error:
        raise InputError(f"{path} is not a pickled array of numbers ({error}); get the published file.") from None
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiu":
        raise InputError(f"{path} contains a {type(value).__name__} instead of numbers; get the published file.")
    return value


SST2 = Corpus(
    name="good-sst2",
    ready="Graph-SST2",
    sources=(
        PublicFile(
            "sst2/train.tsv",
            f"{SST2_COPY}/train.tsv",
            "e981ceb4fe6c9acd1c79851d0d091b9e78103f1f2a399ca83dda27915d41c56c",
            SST2_ABOUT,
        ),
        PublicFile(
            "sst2/dev.tsv",
            f"{SST2_COPY}/dev.tsv",
            "84207e6be5873fb18db798cc6faec86871f5a426554650ff64a1c34e87665f6f",
            SST2_ABOUT,
        ),
        PublicFile(
            "sst2/test.tsv",
            f"{SST2_COPY}/test.tsv",
            "fcd46f967b7b8efd8b5398481dadf873886298d092195167af907fd532e81e1c",
            SST2_ABOUT,
        ),
    ),
    read=read_sst2,
    classes=2,
    published=(24_744, 17_206, 17_490),
)

TWITTER = Corpus(
    name="good-twitter",
    ready="Graph-Twitter",
    sources=(
        PublicFile(
            "twitter/train.raw",
            f"{TWITTER_COPY}/train.raw",
            "d33db1cf553ec0b65c4b503e736f10cb1a810d451ae466f5244724a61c935a8e",
            TWITTER_ABOUT,
        ),
        PublicFile(
            "twitter/test.raw",
            f"{TWITTER_COPY}/test.raw",
            "bd93efaf67adc9c06c1f220a4f1e1a1122b5716573e9d62088cab64b1aa465b5",
            TWITTER_ABOUT,
        ),
    ),
    read=read_twitter,
    classes=3,
    published=(2_590, 1_785, 1_457),
)
