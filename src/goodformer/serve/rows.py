"""Rows of a request: SMILES or the text of a file, read in blocks as the command line reads files.

Uploads are written into a temporary folder, which is removed when they have been read.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from goodformer.apply.predict import model_blocks, notes_on
from goodformer.data.molecule import Rejected
from goodformer.data.readers.collection import SMILES_OPTION, from_smiles
from goodformer.data.readers.json_lines import read_lines
from goodformer.data.readers.rows import Block
from goodformer.data.readers.sdf import END
from goodformer.data.readers.source import open_bytes, open_text, reading
from goodformer.data.readers.text import SEPARATORS
from goodformer.errors import InputError
from goodformer.fitted import FittedModel
from goodformer.serve.limits import Limits

FORMS = ("csv", "tsv", "txt", "smi", "sdf", "jsonl")
"""Formats of uploads. Packed formats are left out: a small file could unpack to a huge one."""
FORM_OF = {
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/x-ndjson": "jsonl",
    "application/ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/x-jsonlines": "jsonl",
    "chemical/x-daylight-smiles": "smi",
    "chemical/x-mdl-sdfile": "sdf",
}
"""Formats that a content type names; others, such as text/plain, leave it open."""
LINES, HEAD = 10, 1000
"""Lines of an SDF record per atom, and in addition."""


class RequestRows:
    """Rows of one request, read block by block.

    Args:
        model: The model that reads them.
        given: SMILES, or the content of a file.
        limits: What the request may contain.
        form: Format of the file, one of `FORMS`.
        smiles: Column of the SMILES in a file; by default that of the training file.

    Attributes:
        notes: Sentences on how the rows are read and on the model; complete when the first block has been read.
    """

    def __init__(
        self,
        model: FittedModel,
        given: Sequence[str | None] | bytes,
        limits: Limits,
        form: str = "smi",
        smiles: str | None = None,
    ) -> None:
        self.model, self.given, self.limits, self.form, self.smiles = model, given, limits, form, smiles
        self.notes: list[str] = []

    def blocks(self, size: int) -> Generator[Block]:
        """Yield the rows in blocks; rows with too many atoms are among the rejected ones."""
        read = self._file_blocks(size) if isinstance(self.given, bytes) else self._smiles_blocks(size)
        for block in read:
            check_rows(block.first + len(block), self.limits)
            yield _within(block, self.limits.atoms)

    def _smiles_blocks(self, size: int) -> Iterator[Block]:
        self.notes += notes_on(self.model, "")
        for row, text in enumerate(self.given, 1):
            check_length(len(str(text or "")), f"row {row}", self.limits)
        for first in range(0, len(self.given), size):
            part = [text if isinstance(text, str) else None for text in self.given[first : first + size]]
            collection = from_smiles(part, self.model.features, first, self.model.standardise)
            yield Block(first, {"smiles": list(part)}, collection)

    def _file_blocks(self, size: int) -> Iterator[Block]:
        assert isinstance(self.given, bytes)
        with TemporaryDirectory(prefix="goodformer-") as folder:
            path = Path(folder) / f"upload.{self.form}"
            path.write_bytes(self.given)
            self.given = b""
            try:
                check_file(path, self.limits)
                self.notes += notes_on(self.model, path, self.smiles)
                yield from model_blocks(self.model, path, self.smiles, size)
            except InputError as error:  # the message names the file, but never its folder
                sentence = str(error).replace(f"{path.parent}/", "").replace(SMILES_OPTION, "?smiles=COLUMN")
                raise InputError(sentence) from None


def recognised(content: bytes, smiles: Collection[str]) -> str:
    """Return the format of pasted text: JSON lines, SDF, a table that names one of the SMILES columns, or SMILES."""
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"{"):
        return "jsonl"
    if b"M  END" in content:
        return "sdf"
    first = start.partition(b"\n")[0].decode("utf-8", "replace").strip()
    for separator, form in zip(SEPARATORS, ("csv", "csv", "tsv"), strict=True):
        fields = [field.strip().strip('"') for field in first.split(separator)]
        if len(fields) > 1 and (set(fields) & set(smiles) or "smiles" in map(str.lower, fields)):
            return form
    return "smi"


def check_rows(rows: int, limits: Limits) -> None:
    """Raise an error if a request has too many rows."""
    if rows > limits.rows:
        raise InputError(
            f"the request has more than {limits.rows:,} rows; send fewer at a time, or use goodformer predict."
        )


def check_length(characters: int, where: str, limits: Limits) -> None:
    """Raise an error if a line is too long for a molecule."""
    if characters > limits.characters:
        raise InputError(
            f"{where} has {characters:,} characters, but at most {limits.characters:,} are accepted; leave it out."
        )


def check_file(path: Path, limits: Limits) -> None:
    """Raise an error if a row is so large that reading it would take long, before it is read."""
    if path.suffix == ".jsonl":
        for number, row in read_lines(path, strict=False):
            check_graph(row, f"line {number}", limits)
    elif path.suffix == ".sdf":
        record = lines = 0
        most = LINES * limits.atoms + HEAD
        with open_bytes(path) as file:
            for line in file:
                lines += 1
                if line.startswith(END):
                    record, lines = record + 1, 0
                if lines > most:
                    raise InputError(
                        f"record {record + 1} has more than {most:,} lines; leave out molecules with more than "
                        f"{limits.atoms} atoms."
                    )
    else:
        with reading(path), open_text(path) as text:
            for number, row in enumerate(text, 1):
                check_length(len(row), f"line {number}", limits)


def check_graph(row: Any, where: str, limits: Limits) -> None:
    """Raise an error if a row of JSON describes a graph or molecule that is far too large."""
    if not isinstance(row, dict):
        return
    if "edges" not in row:
        for value in row.values():
            if isinstance(value, str):
                check_length(len(value), where, limits)
        return
    given = [row.get("num_nodes"), len(row["x"]) if isinstance(row.get("x"), list) else None]
    pairs = [pair for pair in row["edges"] if isinstance(pair, list)] if isinstance(row["edges"], list) else []
    ends = [end + 1 for pair in pairs for end in pair if isinstance(end, int)]
    nodes = max([0, *ends, *(number for number in given if isinstance(number, int))])
    if nodes > limits.atoms:
        raise InputError(f"{where} has {nodes:,} nodes, but at most {limits.atoms} are accepted; leave it out.")


def _within(block: Block, atoms: int) -> Block:
    """Return the block with graphs of more than ``atoms`` nodes among the rejected rows."""
    collection = block.collection
    sizes = collection.graphs.sizes
    large = (sizes > atoms).nonzero().flatten().tolist()
    if not large:
        return block
    reason = "has {} atoms or nodes, but at most {} are accepted"
    texts = collection.smiles or [""] * len(collection)
    refused = [
        Rejected(int(collection.rows[place]), texts[place], reason.format(int(sizes[place]), atoms)) for place in large
    ]
    rejected = sorted([*collection.rejected, *refused], key=lambda one: one.row)
    kept = collection.subset((sizes <= atoms).nonzero().flatten())
    return replace(block, collection=replace(kept, rejected=tuple(rejected)))
