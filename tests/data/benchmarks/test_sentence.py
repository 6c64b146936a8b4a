"""GOOD-SST2 and GOOD-Twitter: from small files of the published formats, and from the real ones where they are."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from goodformer.data import load_benchmark
from goodformer.data.acquire import obtain
from goodformer.data.benchmark import Benchmark
from goodformer.data.benchmarks import sentence
from goodformer.data.benchmarks.parse import load_model, parse
from goodformer.data.benchmarks.sentence import (
    Corpus,
    Sentences,
    read_array,
    read_ready_made,
    read_sst2,
    read_texts,
    read_twitter,
)
from goodformer.errors import InputError
from goodformer.spec import SPLITS
from tests.data.benchmarks.test_parse import real_model, tiny_model

ROWS = 400


def made_texts(seed: int = 0) -> tuple[list[str], list[int]]:
    """Sentences of 1 to 12 known and unknown words, whose class is whether the first word is good."""
    numbers = np.random.default_rng(seed)
    words = np.array(["good", "bad", "film", "plot", "the", "very", "odd"])
    texts = [" ".join(numbers.choice(words, size=numbers.integers(1, 13))) for _ in range(ROWS)]
    return texts, [int(text.startswith("good")) for text in texts]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small files of both corpora, whose checksums are not asked for, and the tiny model."""
    for name in ("SST2", "TWITTER"):
        corpus = getattr(sentence, name)
        monkeypatch.setattr(
            sentence, name, replace(corpus, sources=tuple(replace(source, sha256=None) for source in corpus.sources))
        )
    monkeypatch.setenv("GOODFORMER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GOODFORMER_TEXT_MODEL", str(tiny_model(tmp_path / "tiny")))
    texts, labels = made_texts()
    write_sst2(tmp_path / "data" / "sst2", texts, labels)
    thirds = [(label + len(text)) % 3 for text, label in zip(texts, labels, strict=True)]
    write_twitter(tmp_path / "data" / "twitter", texts, thirds)
    return tmp_path / "data"


def write_sst2(folder: Path, texts: list[str], labels: list[int]) -> None:
    """Three files, the first with carriage returns and the others with another header, as the real ones are."""
    folder.mkdir(parents=True)
    rows = [f"{label}\t{text}" for text, label in zip(texts, labels, strict=True)]
    for name, part, end in (("train", rows[:300], "\r\n"), ("dev", rows[300:350], "\n"), ("test", rows[350:], "\n")):
        header = "label\tsentence" if name == "train" else "label\tcontent"
        (folder / f"{name}.tsv").write_bytes("".join(f"{row}{end}" for row in [header, *part]).encode())


def write_twitter(folder: Path, texts: list[str], labels: list[int]) -> None:
    """Two files of three lines a tweet without a line feed at the end, as the real ones are."""
    folder.mkdir(parents=True)
    rows = [f"{text.replace('film', '$T$')} $T$\nfilm\n{label - 1}" for text, label in zip(texts, labels, strict=True)]
    (folder / "train.raw").write_text("\n".join(rows[:300]))
    (folder / "test.raw").write_text("\n".join(rows[300:]))


def good_cut(lengths: list[int]) -> dict[int, str]:
    """The part each length belongs to by GOOD's rule, sentence after sentence: half, three quarters, next length."""
    ordered, part, found = sorted(lengths), 0, {}
    marks = [int(0.5 * len(ordered)), int(0.75 * len(ordered)), len(ordered) + 1]
    for place, length in enumerate(ordered):
        if place >= marks[part] and length not in found:
            part += 1
        found.setdefault(length, ("train", "val", "test")[part])
    return found


def keys(benchmark: Benchmark, split: str) -> list[bytes]:
    """What tells the graphs of one split apart: features, edges and label."""
    return [
        data.x.numpy().tobytes() + data.edge_index.numpy().tobytes() + data.y.numpy().tobytes()
        for data in benchmark.splits[split]
    ]


# The benchmark ------------------------------------------------------------------------------------------------------


def test_every_sentence_is_in_the_part_of_its_length(files: Path) -> None:
    benchmark = load_benchmark("good-sst2", vectors="en_tiny")
    texts, _ = made_texts()
    part_of = good_cut([len(text.split()) for text in texts])
    counts = Counter(part_of[len(text.split())] for text in texts)
    inside = int(0.15 * counts["train"])
    sizes = {split: len(graphs) for split, graphs in benchmark.splits.items()}
    assert sizes == {
        "train": counts["train"] - 2 * inside,
        "id_val": inside,
        "id_test": inside,
        "val": counts["val"],
        "test": counts["test"],
    }
    for split, graphs in benchmark.splits.items():
        assert torch.equal(graphs.graph["domain"], graphs.sizes)
        assert {part_of[length] for length in graphs.sizes.tolist()} == {
            split.replace("id_val", "train").replace("id_test", "train")
        }
    assert (benchmark.task.kind, benchmark.task.outputs, benchmark.task.metric) == ("multiclass", 2, "accuracy")
    assert len(benchmark.features.node.sizes) == 6


@pytest.mark.parametrize("shift", ["covariate", "concept", "none"])
def test_graphs_and_labels_are_those_of_the_text(files: Path, shift: str) -> None:
    benchmark = load_benchmark("good-sst2", vectors="en_tiny", shift=shift)
    texts, labels = made_texts()
    graphs = parse(texts, "en_tiny").with_vectors()
    expected = Counter(
        data.x.numpy().tobytes() + data.edge_index.numpy().tobytes() + np.int64(label).tobytes()
        for data, label in zip(graphs, labels, strict=True)
    )
    assert Counter(key for split in SPLITS for key in keys(benchmark, split)) == expected


def test_environments_are_the_training_lengths_from_zero(files: Path) -> None:
    benchmark = load_benchmark("good-sst2", vectors="en_tiny")
    lengths = sorted({*(n for split in SPLITS[:3] for n in benchmark.splits[split].sizes.tolist())})
    assert benchmark.num_envs == len(lengths)
    for split in SPLITS[:3]:
        graphs = benchmark.splits[split]
        assert [lengths[env] for env in graphs.graph["env"].tolist()] == graphs.sizes.tolist()


def test_under_a_concept_shift_the_tie_of_length_and_class_turns_round(files: Path) -> None:
    benchmark = load_benchmark("good-sst2", vectors="en_tiny", shift="concept")
    middle = float(np.median([len(text.split()) for text in made_texts()[0]]))
    agreement = {
        split: float(((graphs.sizes <= middle) == (graphs.graph["y"] == 1)).float().mean())
        for split, graphs in benchmark.splits.items()
    }
    assert agreement["train"] > 0.6
    assert agreement["test"] < 0.4
    assert benchmark.num_envs == 3


def test_twitter_puts_the_target_in_and_counts_classes_from_zero(files: Path) -> None:
    benchmark = load_benchmark("good-twitter", vectors="en_tiny")
    texts, labels = made_texts()
    graphs = parse([f"{text} film" for text in texts], "en_tiny").with_vectors()
    expected = Counter(
        data.x.numpy().tobytes() + data.edge_index.numpy().tobytes() + np.int64((label + len(text)) % 3).tobytes()
        for data, text, label in zip(graphs, texts, labels, strict=True)
    )
    assert Counter(key for split in SPLITS for key in keys(benchmark, split)) == expected
    assert benchmark.task.outputs == 3


def test_a_sample_is_seeded_and_part_of_the_whole(files: Path) -> None:
    build: Callable[..., Benchmark] = lambda **more: load_benchmark("good-sst2", vectors="en_tiny", **more)  # noqa: E731
    everything = Counter(key for split in SPLITS for key in keys(build(), split))
    sample, again, other = build(graphs=150), build(graphs=150), build(graphs=150, seed=1)
    chosen = Counter(key for split in SPLITS for key in keys(sample, split))
    assert chosen.total() == 150
    assert chosen <= everything
    assert [keys(sample, split) for split in SPLITS] == [keys(again, split) for split in SPLITS]
    assert chosen != Counter(key for split in SPLITS for key in keys(other, split))
    assert sum(len(graphs) for graphs in build(graphs=ROWS + 100).splits.values()) == ROWS
    assert "sample of 150 sentences" in sample.notes


def test_recipe_knows_the_text_and_the_model_but_not_the_folders(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_benchmark("good-sst2", vectors="en_tiny").recipe
    monkeypatch.setenv("GOODFORMER_TEXT_MODEL", str(tiny_model(tmp_path / "elsewhere")))
    assert load_benchmark("good-sst2", vectors="en_tiny").recipe == recipe
    assert str(tmp_path) not in str(recipe)
    path = files / "sst2" / "dev.tsv"
    path.write_bytes(path.read_bytes().replace(b"odd", b"queer"))
    assert load_benchmark("good-sst2", vectors="en_tiny").recipe != recipe


def test_notes_name_what_differs_from_the_publication(files: Path) -> None:
    assert "24,744 / 17,206 / 17,490" in load_benchmark("good-sst2", vectors="en_tiny").notes
    assert "BERT" in load_benchmark("good-twitter", vectors="en_tiny").notes
    without = load_benchmark("good-twitter", vectors="en_tiny", shift="none")
    assert "halved" in without.notes
    assert "at most ten environments" in without.notes
    assert without.num_envs <= 10


# Text files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_sst2, "label\tsentence\n1\tgood\n2\tbad\n", r"bad\.txt, line 3: '2\\tbad' is not 0 or 1"),
        (read_sst2, "label\tsentence\n1 good\n", r"line 2: '1 good' is not 0 or 1, a tab"),
        (read_sst2, "label\tsentence\n1\tgood\n\n0\tbad\n", r"line 3: ''"),
        (read_sst2, "label\tsentence\n1\t \n", r"line 2"),
        (read_sst2, "", r"bad\.txt is empty"),
        (read_twitter, "love $T$\nfilm\n1\nhate $T$\nplot", r"line 5: the last tweet has 2 line"),
        (read_twitter, "love $T$\nfilm\n1\nhate it\nplot\n-1\n", r"line 4: 'hate it' has no \$T\$"),
        (read_twitter, "love $T$\n\n1\n", r"line 1: .*no target"),
        (read_twitter, "love $T$\nfilm\n2\n", r"line 3: label '2' is not -1, 0 or 1"),
    ],
)
def test_a_bad_line_is_named_with_file_and_number(
    tmp_path: Path, read: Callable[[Path], object], content: str, message: str
) -> None:
    (tmp_path / "bad.txt").write_text(content)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "bad.txt")


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"0\tfine\n1\tcaf\xe9\n")
    with pytest.raises(InputError, match=r"bad\.txt, line 2 is not UTF-8"):
        read_sst2(tmp_path / "bad.txt")


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    (tmp_path / "odd.txt").write_bytes("1\tone\u2028two\x85three\r\n0\tfour".encode())
    assert read_sst2(tmp_path / "odd.txt") == (["one\u2028two\x85three", "four"], [1, 0])


# Ready-made graphs --------------------------------------------------------------------------------------------------


def write_ready(
    folder: Path, name: str, trees: list[nx.Graph], labels: list[int], protocol: int = 4
) -> dict[str, Path]:
    """The published files of some trees with random features, one direction of every edge."""
    folder.mkdir(parents=True, exist_ok=True)
    first = np.cumsum([0, *(len(tree) for tree in trees)])
    edges = [f"{first[row] + v} {first[row] + u}" for row, tree in enumerate(trees) for u, v in tree.edges]
    nodes = [str(row + 1) for row, tree in enumerate(trees) for _ in tree]
    x = np.random.default_rng(0).normal(size=(len(nodes), 5)).astype(np.float32)
    paths = {kind: folder / f"{name}_{kind}.{end}" for kind, end in sentence.READY_FILES.items()}
    paths["edge_index"].write_text("\n".join(edges) + "\n")
    paths["node_indicator"].write_text("\n".join(nodes) + "\n")
    paths["graph_labels"].write_text("\n".join(map(str, labels)) + "\n")
    paths["node_features"].write_bytes(pickle.dumps(x, protocol=protocol))
    return paths


def ready_trees(count: int) -> tuple[list[nx.Graph], list[int]]:
    """Random trees of 1 to 12 nodes and their classes."""
    numbers = np.random.default_rng(0)
    sizes = numbers.integers(1, 13, size=count).tolist()
    trees = [nx.random_labeled_tree(size, seed=size) if size > 1 else nx.empty_graph(1) for size in sizes]
    return trees, [(row // 3) % 2 for row in range(count)]


@pytest.mark.parametrize("protocol", range(6))
def test_ready_made_graphs_are_read_back(tmp_path: Path, protocol: int) -> None:
    trees, labels = ready_trees(20)
    paths = write_ready(tmp_path, "Graph-SST2", trees, labels, protocol)
    graphs = read_ready_made(paths, 2)
    assert graphs.graph["y"].tolist() == labels
    assert torch.equal(graphs.node["x"], torch.from_numpy(pickle.loads(paths["node_features"].read_bytes())))
    for data, tree in zip(graphs, trees, strict=True):
        assert data.num_nodes == len(tree)
        assert sorted(map(tuple, data.edge_index.T.tolist())) == sorted(tree.to_directed().edges)


def test_both_directions_or_commas_in_the_file_make_no_difference(tmp_path: Path) -> None:
    paths = write_ready(tmp_path, "Graph-SST2", *ready_trees(20))
    once = read_ready_made(paths, 2)
    pairs = [line.split() for line in paths["edge_index"].read_text().splitlines()]
    paths["edge_index"].write_text("\r\n".join(f"{u}, {v}\r\n{v}, {u}" for u, v in pairs))
    twice = read_ready_made(paths, 2)
    assert all(torch.equal(once.tensors()[name], twice.tensors()[name]) for name in once.tensors())


def test_loops_of_ready_made_graphs_are_left_out(tmp_path: Path) -> None:
    paths = write_ready(tmp_path, "Graph-SST2", *ready_trees(20))
    plain = read_ready_made(paths, 2)
    paths["edge_index"].write_text("0 0\n1 1\n" + paths["edge_index"].read_text())
    again = read_ready_made(paths, 2)
    assert torch.equal(plain.edge["index"], again.edge["index"])
    assert torch.equal(plain.edge_ptr, again.edge_ptr)


def test_vectors_called_bert_are_the_ready_made_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_DATA", str(tmp_path))
    trees, labels = ready_trees(300)
    write_ready(tmp_path / "Graph-SST2" / "raw", "Graph-SST2", trees, labels)
    benchmark = load_benchmark("good-sst2", vectors="bert")
    part_of = good_cut([len(tree) for tree in trees])
    expected = Counter(part_of[len(tree)] for tree in trees)
    found = Counter({name: len(benchmark.splits[name]) for name in ("val", "test")})
    assert found == Counter({name: expected[name] for name in ("val", "test")})
    whole = read_ready_made({k: obtain(s) for k, s in sentence.ready_sources("Graph-SST2").items()}, 2)
    everything = Counter((data.x.numpy().tobytes(), int(data.y)) for data in whole)
    assert everything == Counter(
        (data.x.numpy().tobytes(), int(data.y)) for split in SPLITS for data in benchmark.splits[split]
    )
    sample = load_benchmark("good-sst2", vectors="bert", graphs=120)
    assert sum(map(len, sample.splits.values())) == 120
    assert all(
        (data.x.numpy().tobytes(), int(data.y)) in everything for split in SPLITS for data in sample.splits[split]
    )


def test_missing_ready_made_graphs_say_where_to_put_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOODFORMER_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"drive\.google\.com.*Graph-Twitter/raw/Graph-Twitter_edge_index\.txt into"):
        load_benchmark("good-twitter", vectors="bert")


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("edge_index", "0 1\n1 two\n", r"_edge_index\.txt line 2 .*1 two"),
        ("edge_index", "0 1\n2\n", r"line 2 .*2 integers"),
        ("edge_index", "0 1\n1 3\n", r"line 2 joins nodes 1 and 3"),
        ("edge_index", "0 99\n", r"line 1 joins nodes 0 and 99"),
        ("edge_index", "0 99999999999999999999\n", r"too large"),
        ("node_indicator", "1\n1\n1\n3\n3\n", r"_node_indicator\.txt line 4 "),
        ("node_indicator", "2\n2\n2\n3\n3\n", r"line 1 "),
        ("node_indicator", "1\n1\n2\n1\n2\n", r"line 4 "),
        ("graph_labels", "0\n", r"has 1 lines but there are 2 graphs"),
        ("graph_labels", "0\n2\n", r"_graph_labels\.txt line 2 has class 2; use 0 to 1"),
        ("graph_labels", "0\n1.5\n", r"line 2 is '1\.5'"),
    ],
)
def test_a_ready_made_file_that_does_not_fit_is_named(tmp_path: Path, kind: str, content: str, message: str) -> None:
    paths = write_ready(tmp_path, "G", [nx.path_graph(3), nx.path_graph(2)], [0, 1])
    paths[kind].write_text(content)
    with pytest.raises(InputError, match=message):
        read_ready_made(paths, 2)


def test_features_of_another_number_of_nodes_are_refused(tmp_path: Path) -> None:
    paths = write_ready(tmp_path, "G", [nx.path_graph(3), nx.path_graph(2)], [0, 1])
    paths["node_features"].write_bytes(pickle.dumps(np.zeros((4, 2))))
    with pytest.raises(InputError, match=r"shape \(4, 2\); 5 nodes need one row each"):
        read_ready_made(paths, 2)


class Trap:
    """Unpickled the usual way, this writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.system, (f"touch {self.path}",))


@pytest.mark.parametrize("wrap", [lambda trap: trap, lambda trap: np.array([trap], dtype=object)])
def test_a_pickle_that_would_run_something_is_refused_and_runs_nothing(
    tmp_path: Path, wrap: Callable[[Trap], object]
) -> None:
    path, mark = tmp_path / "x.pkl", tmp_path / "mark"
    path.write_bytes(pickle.dumps(wrap(Trap(mark))))
    with pytest.raises(InputError, match=r"x\.pkl is not a pickled array of numbers \(it asks for posix\.system\)"):
        read_array(path)
    assert not mark.exists()
    pickle.loads(path.read_bytes())
    assert mark.exists(), "the trap is none"


@pytest.mark.parametrize("value", [[1, 2], {"x": 1}, np.array(["a"]), np.array([None]), "text"])
def test_a_pickle_of_something_else_is_refused(tmp_path: Path, value: object) -> None:
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(value))
    with pytest.raises(InputError, match="get the published file"):
        read_array(tmp_path / "x.pkl")


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"junk", pickle.dumps(np.zeros(9))[:-20]])
def test_a_damaged_pickle_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.pkl").write_bytes(content)
    with pytest.raises(InputError, match="is not a pickled array"):
        read_array(tmp_path / "x.pkl")


def test_arrays_pickled_by_an_older_numpy_are_read(tmp_path: Path) -> None:
    """Before version 2 numpy's modules had other names."""
    x = np.arange(6, dtype=np.float64).reshape(2, 3)
    old = pickle.dumps(x, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert b"numpy.core.multiarray" in old
    (tmp_path / "x.pkl").write_bytes(old)
    assert np.array_equal(read_array(tmp_path / "x.pkl"), x)


# Real files ---------------------------------------------------------------------------------------------------------


def real_texts(corpus: Corpus) -> tuple[list[str], list[int]]:
    """The real sentences, or the test is skipped."""
    folder = os.environ.get("GOODFORMER_DATA")
    if not folder or not (Path(folder) / corpus.sources[0].file).is_file():
        pytest.skip(f"GOODFORMER_DATA names no folder with {corpus.sources[0].file}")
    return read_texts(corpus)


def test_the_real_files_have_the_published_numbers_of_sentences() -> None:
    texts, labels = real_texts(sentence.SST2)
    assert (len(texts), Counter(labels)) == (70_042, Counter({0: 29_780 + 428 + 912, 1: 37_569 + 444 + 909}))
    texts, labels = real_texts(sentence.TWITTER)
    assert (len(texts), Counter(labels)) == (6_940, Counter({0: 1_560 + 173, 1: 3_127 + 346, 2: 1_561 + 173}))
    assert not any("$T$" in text for text in texts)


def test_real_tweets_are_split_almost_as_published() -> None:
    texts, labels = real_texts(sentence.TWITTER)
    nlp = load_model(real_model())
    lengths = np.array([len(nlp.make_doc(text)) for text in texts])
    sentences = Sentences(np.array(labels), lengths, lambda rows: parse(["x"]).with_vectors(), {})
    counts = sentence._split(sentences, "covariate", 0).counts()
    assert counts == {"train": 2_589, "id_val": 554, "id_test": 554, "val": 1_784, "test": 1_459}
    published = dict(zip(("train", "val", "test"), sentence.TWITTER.published, strict=True))
    assert all(abs(counts[split] - count) <= 2 for split, count in published.items())


def test_a_sample_of_the_real_tweets_loads() -> None:
    real_texts(sentence.TWITTER)
    benchmark = load_benchmark("good-twitter", vectors=real_model(), graphs=300)
    assert sum(map(len, benchmark.splits.values())) == 300
    for graphs in benchmark.splits.values():
        assert graphs.node["x"].shape[1] == 300
        assert torch.equal(graphs.edge_ptr.diff(), 2 * (graphs.sizes - 1))
        assert float((graphs.node["x"].abs().sum(1) > 0).float().mean()) > 0.9
