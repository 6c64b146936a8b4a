"""Sentences as graphs: one node per word, one edge per dependency.

The only file that imports spaCy, inside functions, so that everything else works without it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from goodformer.data.cache import cached
from goodformer.data.graphs import GraphSet
from goodformer.errors import InputError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

Ints = npt.NDArray[np.int64]

VERSION = 1
"""Increased when the graph of a sentence changes, so that cached ones are rebuilt."""

DEFAULT_MODEL = "en_core_web_md"

FOLDER_VARIABLE = "GOODFORMER_TEXT_MODEL"
"""Environment variable with the folder of a model that is not an installed package."""

NO_SPACY = (
    'reading text needs spaCy, which is not installed; run: pip install "goodformer[text]" '
    f"&& python -m spacy download {DEFAULT_MODEL}."
)

BATCH = 256
"""Sentences parsed together; larger batches are no faster."""

WORTH_KEEPING = 1_000
"""Number of sentences from which parses, which take seconds, are cached on disk."""

NEEDLESS = {
    "attribute_ruler",
    "entity_linker",
    "entity_ruler",
    "lemmatizer",
    "morphologizer",
    "ner",
    "span_ruler",
    "spancat",
    "tagger",
    "textcat",
    "textcat_multilabel",
    "trainable_lemmatizer",
}
"""Pipeline components, by factory, that do not affect heads and vectors."""


@dataclass(frozen=True)
class ParseTrees:
    """Parsed sentences with word numbers instead of vectors, which need a thirtieth of the space.

    Attributes:
        graphs: The sentences; nodes carry ``word`` (N,), a row of the table.
        table: Vectors of the distinct words (V, D), zeros for words without vector.
    """

    graphs: GraphSet
    table: Tensor

    def with_vectors(self, rows: Ints | None = None) -> GraphSet:
        """Return the sentences at ``rows`` (default: all) with word vectors as ``x`` (N, D)."""
        part = self.graphs if rows is None else self.graphs.subset(torch.from_numpy(rows))
        x = self.table.index_select(0, part.node["word"])  # (N, D)
        return GraphSet({"x": x}, part.edge, part.graph, part.node_ptr, part.edge_ptr)


def parse(texts: Sequence[str], model: str = DEFAULT_MODEL) -> ParseTrees:
    """Return one graph per text: its tokens, joined by the dependency parse; from the cache if parsed before.

    Both directions of an edge are stored, ordered by source and target. If a text has several roots (several or broken
    sentences), the further ones are joined to the first, so that every graph is a tree. Any run of white space counts
    as one space.

    Args:
        texts: The texts.
        model: Name of an installed spaCy model with parser and word vectors, or the folder of one; see `find_model`.

    Raises:
        InputError: A text is empty, spaCy or the model is not there, or the model has no parser or no word vectors.
    """
    clean = _checked(texts)
    build = partial(_tensors, clean, model)
    if len(clean) < WORTH_KEEPING:
        stored = build()
    else:
        digest = hashlib.sha256("\n".join(clean).encode()).hexdigest()
        key = {"sentences": digest, "count": len(clean), "model": identity(model), "version": VERSION}
        stored = cached(key, build)
    table = stored.pop("table")
    return ParseTrees(GraphSet.from_tensors({name: value.long() for name, value in stored.items()}), table)


def find_model(name: str) -> Path:
    """Return the folder of a spaCy model.

    Looks for an installed package of that name, then for a folder, then in the environment variable
    GOODFORMER_TEXT_MODEL: the model's own folder, or one that contains it.
    """
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    chosen = os.environ.get(FOLDER_VARIABLE)
    places += [Path(name).expanduser()]
    places += [Path(chosen).expanduser() / Path(name).name, Path(chosen).expanduser()] if chosen else []
    found = next((place for place in places if (place / "meta.json").is_file()), None)
    if found is None and importlib.util.find_spec("spacy") is None:
        raise InputError(NO_SPACY)
    if found is None:
        raise InputError(
            f"spaCy model {name!r} is neither installed nor a folder; run: python -m spacy download {Path(name).name}, "
            f"or set {FOLDER_VARIABLE} to the folder of that model."
        )
    own = _full_name(found)
    if name.isidentifier() and own != name:
        raise InputError(f"{found} holds the spaCy model {own}, not {name}; ask for {own} or give another folder.")
    return found


def identity(name: str) -> dict[str, str]:
    """Return what identifies a model: its full name, version and a digest of its description."""
    path = find_model(name)
    described = (path / "meta.json").read_bytes()
    digest = hashlib.sha256(described).hexdigest()[:16]
    return {"name": _full_name(path), "version": str(json.loads(described).get("version", "")), "meta": digest}


def _full_name(path: Path) -> str:
    """Return language and name of the model in a folder, e.g. ``en_core_web_md``."""
    try:
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        return f"{meta['lang']}_{meta['name']}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a spaCy model (meta.json: {error}); give the folder of a model.") from None


def _checked(texts: Sequence[str]) -> list[str]:
    """Return the texts with single spaces; every text needs a word."""
    if isinstance(texts, str):
        raise InputError("one text was given where several are expected; put it in a list.")
    clean = []
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"text {row} is {text!r}; every text needs at least one word, so fill it in or drop it.")
        clean.append(" ".join(text.split()))
    if not clean:
        raise InputError("the list of texts is empty; give at least one text.")
    return clean


def load_model(name: str) -> Language:
    """Return the spaCy model of that name, checked to have vectors; the last one stays loaded."""
    nlp = _loaded(find_model(name))
    if nlp.vocab.vectors_length == 0:
        raise InputError(f"spaCy model {name} has no word vectors; use one that has, for example {DEFAULT_MODEL}.")
    return nlp


@lru_cache(maxsize=1)
def _loaded(path: Path) -> Language:
    """Load the model in a folder; loading takes seconds, and texts may come in many portions."""
    try:
        import spacy
    except ImportError:
        raise InputError(NO_SPACY) from None
    try:
        # An installed model has its data in a folder below the package's, called by name and version.
        inside = next(path.glob(f"{_full_name(path)}-*/config.cfg"), path / "config.cfg")
        return spacy.load(inside.parent)
    except (OSError, ValueError, LookupError, ImportError) as error:
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise InputError(f"spaCy model {path} cannot be loaded ({reason}); download it again.") from None


def _tensors(texts: list[str], model: str) -> dict[str, Tensor]:
    """Return graphs and word table of the texts in small types."""
    nlp = load_model(model)
    words, offsets, sizes = _annotations(_docs(nlp, texts), texts, model)
    orths, word = np.unique(words, return_inverse=True)
    table = np.array([nlp.vocab.get_vector(orth) for orth in orths.tolist()], dtype=np.float32)  # (V, D)
    edges, edge_ptr = tree_edges(offsets, sizes)
    return {
        "node/word": torch.from_numpy(word.astype(np.int32)),
        "edge/index": torch.from_numpy(edges.astype(np.int16 if sizes.max() < 2**15 else np.int64)),
        "node_ptr": torch.from_numpy(np.append(0, np.cumsum(sizes))),
        "edge_ptr": torch.from_numpy(edge_ptr),
        "table": torch.from_numpy(table),
    }


def _docs(nlp: Language, texts: list[str]) -> Iterator[Doc]:
    """Yield parsed texts, with a progress bar on a terminal."""
    needless = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory in NEEDLESS]
    docs = nlp.pipe(texts, batch_size=BATCH, disable=needless)
    if not sys.stderr.isatty():
        yield from docs
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(docs, total=len(texts), description="Parsing sentences")


def _annotations(docs: Iterable[Doc], texts: list[str], model: str) -> tuple[npt.NDArray[np.uint64], Ints, Ints]:
    """Return word (N,) and distance to the head (N,) of every token, and the number of tokens of each text (B,)."""
    found = []
    for doc, text in zip(docs, texts, strict=True):
        if not doc.has_annotation("DEP"):
            raise InputError(f"spaCy model {model} did not parse {text[:40]!r}; use a model with a dependency parser.")
        found.append(doc.to_array(["ORTH", "HEAD"]))  # (n, 2)
    columns = np.concatenate(found)
    sizes = np.array([len(rows) for rows in found], dtype=np.int64)
    return columns[:, 0], columns[:, 1].view(np.int64), sizes


def tree_edges(offsets: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Return the edges of the dependency trees; further roots are joined to the first of their graph.

    Args:
        offsets: Distance of every token to its head (N,), 0 for a root.
        sizes: Number of tokens of each graph (B,); every graph has a root.

    Returns:
        Both directions of every edge (2, E) in node numbers of its graph, ordered by source and target, and the first
        edge of each graph (B + 1,).
    """
    ptr, graph = np.append(0, np.cumsum(sizes)), np.repeat(np.arange(len(sizes)), sizes)
    node = np.arange(len(offsets))
    head = node + offsets
    roots = np.flatnonzero(offsets == 0)
    _, first = np.unique(graph[roots], return_index=True)
    head[roots] = roots[first][graph[roots]]
    child = np.flatnonzero(head != node)  # (E / 2,)
    u, v = np.concatenate([child, head[child]]), np.concatenate([head[child], child])
    order = np.lexsort((v, u))
    u, v = u[order], v[order]
    return np.stack([u, v]) - ptr[graph[u]], np.searchsorted(u, ptr)
