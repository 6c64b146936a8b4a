"""Sentences as graphs: against spaCy's own tokens, heads and vectors, with a tiny real pipeline and the real model."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import spacy
import torch
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc

import goodformer
from goodformer.data.benchmarks import parse as parsing
from goodformer.data.benchmarks.parse import find_model, identity, load_model, parse, tree_edges
from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError

WORDS = ("good", "bad", "film", "plot", "the", "a", "very", "long", "don't")
"""Words the tiny model has vectors for; "don't" is never a token, as spaCy cuts it in two."""

TEXTS = [
    "the film is good .",
    "good",
    "the plot . a very bad film . unheard-of !",
    "I don't know; the very, very long film",
    "two\t spaces \n and a line break",
]


@Language.component("tiny_heads")
def tiny_heads(doc: Doc) -> Doc:
    """A made-up parse: every full stop ends a tree, and a word hangs on an earlier word of its tree."""
    heads, start = [], 0
    for token in doc:
        here = token.i - start
        heads.append(start + (7 * token.i + len(token.text)) % here if here else token.i)
        start = token.i + 1 if token.text == "." else start
    words, spaces = [token.text for token in doc], [bool(token.whitespace_) for token in doc]
    deps = ["ROOT" if head == number else "dep" for number, head in enumerate(heads)]
    return Doc(doc.vocab, words=words, spaces=spaces, heads=heads, deps=deps)


def tiny_model(folder: Path, vectors: bool = True, heads: bool = True, version: str = "1.0") -> Path:
    """A real spaCy pipeline called en_tiny, saved in a folder; every other test of text uses it, too."""
    nlp = spacy.blank("en")
    nlp.meta.update({"name": "tiny", "version": version})
    numbers = np.random.default_rng(0)
    for word in WORDS if vectors else ():
        nlp.vocab.set_vector(word, numbers.normal(size=6).astype(np.float32))
    if heads:
        nlp.add_pipe("tiny_heads")
    folder.parent.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(folder)
    return folder


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Language:
    """The tiny model where the environment variable says, and loaded."""
    folder = tiny_model(tmp_path / "tiny")
    monkeypatch.setenv("GOODFORMER_TEXT_MODEL", str(folder))
    return spacy.load(folder)


def expected_edges(doc: Doc) -> set[frozenset[int]]:
    """Pairs of token and head, and of the first and every further root."""
    roots = [token.i for token in doc if token.head.i == token.i]
    pairs = {frozenset((token.i, token.head.i)) for token in doc if token.head.i != token.i}
    return pairs | {frozenset((roots[0], root)) for root in roots[1:]}


def check_against_docs(graphs: GraphSet, docs: list[Doc]) -> None:
    """Nodes, features and edges are those of the documents, and every graph is a tree."""
    assert len(graphs) == len(docs)
    for data, doc in zip(graphs, docs, strict=True):
        assert torch.equal(data.x, torch.from_numpy(np.stack([token.vector for token in doc])))
        pairs = [tuple(pair) for pair in data.edge_index.T.tolist()]
        assert pairs == sorted(pairs)
        assert len(set(pairs)) == len(pairs)
        assert {frozenset(pair) for pair in pairs} == expected_edges(doc)
        assert {(v, u) for u, v in pairs} == set(pairs)
        graph = nx.Graph(pairs)
        graph.add_nodes_from(range(len(doc)))
        assert nx.is_tree(graph)


# Graphs -------------------------------------------------------------------------------------------------------------


def test_graphs_are_spacys_tokens_heads_and_vectors(tiny: Language) -> None:
    docs = [tiny(" ".join(text.split())) for text in TEXTS]
    graphs = parse(TEXTS, "en_tiny").with_vectors()
    check_against_docs(graphs, docs)
    assert graphs.sizes.tolist() == [5, 1, 12, 11, 6]
    assert graphs.node["x"].dtype == torch.float32
    assert len([token for token in docs[2] if token.head.i == token.i]) == 3


def test_a_word_without_vector_is_zeros(tiny: Language) -> None:
    x = parse(["unheard film", "good"], "en_tiny").with_vectors().node["x"]
    assert x[0].abs().sum() == 0
    assert (x[1:].abs().sum(1) > 0).all()


def test_a_single_word_has_no_edge(tiny: Language) -> None:
    graphs = parse(["good", "bad"], "en_tiny").with_vectors()
    assert graphs.edge["index"].shape == (2, 0)
    assert graphs.edge_ptr.tolist() == [0, 0, 0]


def test_more_texts_than_a_batch_keep_their_order(tiny: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "BATCH", 3)
    texts = [" ".join(["good"] * (1 + number % 5)) for number in range(20)]
    assert parse(texts, "en_tiny").with_vectors().sizes.tolist() == [1 + number % 5 for number in range(20)]


def test_some_rows_with_vectors_are_those_rows(tiny: Language) -> None:
    trees, rows = parse(TEXTS, "en_tiny"), np.array([3, 0])
    whole, part = trees.with_vectors(), trees.with_vectors(rows)
    for position, row in enumerate(rows.tolist()):
        assert torch.equal(part[position].x, whole[row].x)
        assert torch.equal(part[position].edge_index, whole[row].edge_index)
    assert len(trees.table) == len({token.text for text in TEXTS for token in tiny(" ".join(text.split()))})


@st.composite
def forests(draw: st.DrawFn) -> list[list[int]]:
    """Heads of the tokens of some sentences, each with one root or more, before or after the token."""
    sentences = []
    for size in draw(st.lists(st.integers(1, 8), min_size=1, max_size=5)):
        order = draw(st.permutations(range(size)))
        heads = list(range(size))
        for place in range(1, size):
            heads[order[place]] = draw(st.sampled_from([*order[:place], order[place]]))
        sentences.append(heads)
    return sentences


@given(forests())
def test_tree_edges_against_a_plain_loop(sentences: list[list[int]]) -> None:
    offsets = np.array([head - number for heads in sentences for number, head in enumerate(heads)])
    edges, ptr = tree_edges(offsets, np.array([len(heads) for heads in sentences]))
    for position, heads in enumerate(sentences):
        first = next(number for number, head in enumerate(heads) if head == number)
        pairs = {(number, head if head != number else first) for number, head in enumerate(heads)}
        both = sorted({pair for u, v in pairs if u != v for pair in ((u, v), (v, u))})
        assert edges[:, ptr[position] : ptr[position + 1]].T.tolist() == [list(pair) for pair in both]
        assert nx.is_tree(nx.Graph(both) if both else nx.empty_graph(1))
    assert ptr[-1] == edges.shape[1]


# Models -------------------------------------------------------------------------------------------------------------


def test_a_model_is_found_by_name_in_its_own_folder_or_the_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_model(tmp_path / "models" / "en_tiny")
    assert find_model(str(folder)) == folder
    for place in (folder, folder.parent):
        monkeypatch.setenv("GOODFORMER_TEXT_MODEL", str(place))
        assert find_model("en_tiny") == folder


def test_an_installed_model_goes_before_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed model is a package whose data lie one folder deeper."""
    package = tmp_path / "site" / "en_tiny"
    tiny_model(package / "en_tiny-1.0")
    (package / "meta.json").write_bytes((package / "en_tiny-1.0" / "meta.json").read_bytes())
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("GOODFORMER_TEXT_MODEL", str(tmp_path / "nowhere"))
    assert find_model("en_tiny") == package
    assert parse(["a good film"], "en_tiny").with_vectors().sizes.tolist() == [3]


def test_identity_tells_versions_but_not_places_apart(tmp_path: Path) -> None:
    places = [tiny_model(tmp_path / name, version=version) for name, version in (("a", "1"), ("b", "1"), ("c", "2"))]
    one, same, other = (identity(str(place)) for place in places)
    assert one == same
    assert one["name"] == "en_tiny"
    assert one != other


def test_parsed_sentences_are_kept_and_need_no_spacy(
    tiny: Language, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "WORTH_KEEPING", 3)
    monkeypatch.setenv("GOODFORMER_CACHE", str(tmp_path / "cache"))
    made = parse(TEXTS, "en_tiny").with_vectors().tensors()
    elsewhere = tiny_model(tmp_path / "elsewhere")
    monkeypatch.setenv("GOODFORMER_TEXT_MODEL", str(elsewhere))
    monkeypatch.setitem(sys.modules, "spacy", None)
    kept = parse(TEXTS, "en_tiny").with_vectors().tensors()
    assert all(torch.equal(made[name], kept[name]) and made[name].dtype == kept[name].dtype for name in made)
    parsing._loaded.cache_clear()
    with pytest.raises(InputError, match="needs spaCy"):
        parse(TEXTS[::-1], "en_tiny").with_vectors()


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " \n", None, 3])
def test_an_empty_text_is_named_by_its_row(tiny: Language, text: object) -> None:
    with pytest.raises(InputError, match=r"^text 1 is .*needs at least one word"):
        parse(["good", text], "en_tiny").with_vectors()  # type: ignore[list-item]


def test_one_text_alone_or_none_is_refused(tiny: Language) -> None:
    with pytest.raises(InputError, match="put it in a list"):
        parse("good film", "en_tiny").with_vectors()
    with pytest.raises(InputError, match="the list of texts is empty"):
        parse([], "en_tiny").with_vectors()


def test_without_spacy_one_sentence_says_what_to_install(tiny: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError, match=r'pip install "goodformer\[text\]"'):
        parse(["good"], "en_tiny").with_vectors()
    monkeypatch.delenv("GOODFORMER_TEXT_MODEL")
    with pytest.raises(InputError, match=r'pip install "goodformer\[text\]"'):
        find_model("en_tiny")


def test_a_model_that_is_not_there_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOODFORMER_TEXT_MODEL", raising=False)
    with pytest.raises(InputError, match=r"spacy download en_none, or set GOODFORMER_TEXT_MODEL"):
        parse(["good"], "en_none").with_vectors()


def test_another_model_in_the_folder_is_refused(tiny: Language) -> None:
    with pytest.raises(InputError, match=r"holds the spaCy model en_tiny, not en_other"):
        parse(["good"], "en_other").with_vectors()


def test_a_model_without_vectors_or_parser_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no word vectors"):
        parse(["good film"], str(tiny_model(tmp_path / "a", vectors=False))).with_vectors()
    with pytest.raises(InputError, match="did not parse 'good film'; use a model with a dependency parser"):
        parse(["good film"], str(tiny_model(tmp_path / "b", heads=False))).with_vectors()


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "a")
    (folder / "config.cfg").write_text("[nlp]\nlang = 3\n")
    with pytest.raises(InputError, match="cannot be loaded"):
        parse(["good film"], str(folder)).with_vectors()
    (folder / "meta.json").write_text("{")
    with pytest.raises(InputError, match="is not a spaCy model"):
        parse(["good film"], str(folder)).with_vectors()


def test_spacy_is_imported_only_inside_functions() -> None:
    source = Path(goodformer.__file__).parent / "data" / "benchmarks" / "parse.py"
    assert "spacy" in _imported(ast.walk(_tree(source)))
    assert "spacy" not in _imported(_tree(source).body)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imported(nodes: object) -> set[str]:
    names = set()
    for node in nodes:  # type: ignore[attr-defined]
        names |= {alias.name.split(".")[0] for alias in node.names} if isinstance(node, ast.Import) else set()
        names |= {(node.module or "").split(".")[0]} if isinstance(node, ast.ImportFrom) else set()
    return names


# The real model -----------------------------------------------------------------------------------------------------


def real_model() -> str:
    """The name of the real model, or the test is skipped."""
    if not os.environ.get("GOODFORMER_TEXT_MODEL"):
        pytest.skip("GOODFORMER_TEXT_MODEL names no folder of the spaCy model en_core_web_md")
    try:
        find_model("en_core_web_md")
    except InputError as error:
        pytest.skip(str(error))
    return "en_core_web_md"


def test_the_real_model_with_all_its_parts_gives_the_same_graphs() -> None:
    name = real_model()
    texts = [
        "contains no wit , only labored gags",
        "a gob of drivel so sickly sweet , even the eager consumers of moore 's pasteurized ditties will retch it up .",
        "it 's been fun kim , you 're sisters are insane . lol ! go lakers ; -RRB- RT qwzxv : love it",
        "charming",
        "We can't wait to see the next one. It isn't out until May.",
    ]
    nlp = load_model(name)
    docs = [nlp(text) for text in texts]
    assert max(sum(token.head.i == token.i for token in doc) for doc in docs) > 1
    check_against_docs(parse(texts, name).with_vectors(), docs)
