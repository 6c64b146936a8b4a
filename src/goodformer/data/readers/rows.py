"""Files of rows, read and written in blocks so that they may be larger than memory.

The only file that imports pyarrow. Rows are counted from 0 in objects and from 1 in messages, without the header.
"""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol, Self

from goodformer import files
from goodformer.data.readers import excel, json_rows, sdf, tu_folder
from goodformer.data.readers.collection import (
    Collection,
    Columns,
    check_molecular,
    from_smiles,
    joined,
    known_column,
    same_column,
)
from goodformer.data.readers.json_lines import read_lines
from goodformer.data.readers.source import PACKED, encoding_note, form_of, open_bytes, reading
from goodformer.data.readers.text import (
    DELIMITERS,
    SMI,
    TABLES,
    chunks,
    names_note,
    notes_on_text,
    smi_parts,
    table_parts,
    unique_names,
)
from goodformer.data.readers.values import plain_of, text_of
from goodformer.errors import InputError
from goodformer.limits import check_limit
from goodformer.spec import FeatureSpec

PICKLED = (".pt", ".pth", ".pkl", ".pickle", ".ckpt")
SPREADSHEETS = (".xlsb", ".xls", ".ods")
PARQUET = ".parquet"
WHOLE = 2**20
"""Rows per block when a whole file is read, so that its molecules are cached together."""
MOST_WAITING = 64
"""Blocks of a Parquet file that wait until all columns have a type; an empty column then becomes text."""
HELD: Mapping[str, set[type]] = {"bool": {bool}, "int64": {int}, "double": {int, float}}
"""Kinds of values that a column of a Parquet type holds; text holds all."""


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file.

    Attributes:
        first: Number of the first row in the file, counted from 0.
        columns: Every column of the file: text, or numbers and booleans if the format has them (Parquet, JSON lines);
            None for empty fields.
        collection: Graphs of these rows, with the row numbers of the whole file and the count of the block.
    """

    first: int
    columns: Columns
    collection: Collection

    def __len__(self) -> int:
        return self.collection.count


def read_blocks(
    path: str | Path,
    smiles: str = "smiles",
    size: int = 1024,
    features: FeatureSpec | None = None,
    standardise: str = "none",
    skip: int = 0,
) -> Iterator[Block]:
    """Yield the rows of a file and their graphs in blocks of ``size`` rows.

    Tables (``.csv``, ``.tsv``, ``.txt``, ``.parquet``, ``.xlsx``) hold one SMILES per row; ``.smi`` one SMILES and a
    name per line; ``.sdf`` one molecule per record, whose properties are the columns; ``.jsonl`` one graph per line
    (see `goodformer.data.readers.json_lines`) or one molecule under the key that ``smiles`` names. A folder in TU
    format is read whole; its graph labels are the column ``label``. Text files may be packed (``.csv.gz``).

    If the first line of a table contains the wanted column only when split at another separator (comma, semicolon or
    tab), that separator is used. Text is UTF-8, UTF-16 with a byte-order mark, or Windows-1252. Unnamed and repeated
    columns are renamed. `reading_notes` says all of this.

    Args:
        path: The file or folder.
        smiles: Name of the column with SMILES; upper or lower case does not matter if only one column fits.
        size: Rows per block.
        features: Expected node and edge features; inferred from each block by default.
        standardise: How molecules are standardised, see `goodformer.data.molecule.STANDARDS`.
        skip: Blocks up to this row are passed over without making their graphs.

    Raises:
        InputError: The file is missing, unsupported or invalid; the message names the row. Molecules that RDKit
            rejects and lines that are not JSON or not valid graphs are no errors; their rows are in ``rejected``.
    """
    place = Path(path)
    if place.is_dir():
        return _tu_blocks(place, size, features, skip)
    read = _reader(place)
    if not place.is_file():
        raise InputError(f"file {path} not found; give a table, an SDF or JSON lines file, or a TU folder.")
    return read(place, smiles, size, features, standardise, skip)


def read_collection(path: str | Path, smiles: str = "smiles", standardise: str = "none") -> tuple[Collection, Columns]:
    """Return all graphs of a file and all its columns; see `read_blocks`."""
    return join(read_blocks(path, smiles, WHOLE, standardise=standardise), str(path))


def read_columns(path: str | Path, size: int = WHOLE) -> Columns:
    """Return all columns of a table or of a JSON lines file; no graph is made."""
    place, form = Path(path), form_of(path)
    if not place.is_file():
        raise InputError(f"file {path} not found; give a table (.csv, .tsv, .parquet, .xlsx) or JSON lines (.jsonl).")
    if form == PARQUET:
        parts = _parquet_parts(place, size)
    elif form in excel.WORKBOOKS:
        parts = excel.sheet_parts(place, size)
    elif form in TABLES:
        parts = table_parts(place, size, "")
    elif form == ".jsonl":
        known = json_rows.survey(place, "")
        parts = (json_rows.columns(lines, known) for lines in chunks(read_lines(place, strict=False), size))
    else:
        raise InputError(f"{path} is not a table; give a .csv, .tsv, .parquet, .xlsx or .jsonl file.")
    columns: Columns = {}
    for part in parts:
        for name, values in part.items():
            columns.setdefault(name, []).extend(values)
    return columns


def join(blocks: Iterable[Block], where: str = "the source") -> tuple[Collection, Columns]:
    """Join consecutive blocks into one collection and its columns; ``where`` names the source in messages."""
    parts: list[Collection] = []
    columns: Columns = {}
    for block in blocks:
        for name, values in block.columns.items():
            columns.setdefault(name, []).extend(values)
        parts.append(block.collection)
        check_limit("rows", sum(part.count for part in parts), where)
    if not parts:
        raise InputError(f"{where} contains no rows; give at least one.")
    return joined(parts), columns


Read = Callable[[Path, str, int, FeatureSpec | None, str, int], Iterator[Block]]


def _reader(path: Path) -> Read:
    """Return the function that reads files of that suffix."""
    suffix, packed = form_of(path), path.name.lower().endswith(PACKED)
    if suffix in PICKLED:
        raise InputError(
            f"{path} is a pickle, which can run arbitrary code when loaded and is not supported; if you trust it, load "
            "it in Python and pass the list of graphs to goodformer.data.readers.collection.collect."
        )
    if suffix in SPREADSHEETS:
        raise InputError(
            f"{path} is a spreadsheet, which is not supported; save the sheet as CSV (File, Save As, CSV UTF-8) and "
            "give that file."
        )
    readers: dict[str, Read] = {
        **dict.fromkeys((*TABLES, SMI, PARQUET, *excel.WORKBOOKS), _table_blocks),
        ".sdf": _sdf_blocks,
        ".jsonl": _json_blocks,
    }
    if packed and suffix in (PARQUET, *excel.WORKBOOKS):
        raise InputError(f"{path} is packed twice: {suffix} files are compressed already; unpack it with gunzip.")
    if suffix not in readers:
        known = ", ".join(readers)
        raise InputError(f"{path} has an unsupported format ({suffix or 'no suffix'}); give {known} or a TU folder.")
    return readers[suffix]


def _table_blocks(
    path: Path, smiles: str, size: int, features: FeatureSpec | None, standardise: str, skip: int
) -> Iterator[Block]:
    """Yield the rows of a table; its first part is empty, so that a missing column shows even without rows."""
    check_molecular(features, f"{path} holds molecules")
    first = 0
    for columns in read_rows(path, smiles, size):
        where = str(path) if same_column(smiles, columns) else named(path)
        column = known_column(smiles, columns, where, True)
        texts = columns[column]
        if texts and first + len(texts) <= skip:
            first += len(texts)
            continue
        block = molecule_block(columns, first, column, features, standardise)
        if len(block):
            yield block
        first += len(block)


def read_rows(path: Path, smiles: str, size: int) -> Iterator[Columns]:
    """Yield the columns of a table, ``size`` rows at a time after an empty part; no graphs are made."""
    form = form_of(path)
    if form == PARQUET:
        return _parquet_parts(path, size)
    if form in excel.WORKBOOKS:
        return excel.sheet_parts(path, size)
    return (smi_parts if form == SMI else table_parts)(path, size, smiles)


def molecule_block(
    columns: Columns, first: int, smiles: str, features: FeatureSpec | None, standardise: str = "none"
) -> Block:
    """Return rows of a table with the graphs of their SMILES; ``first`` is the number of the first row."""
    texts = [text_of(value) for value in columns[smiles]]
    return Block(first, columns, from_smiles(texts, features, first, standardise))


def named(path: str | Path) -> str:
    """Return the name of a file for a sentence; of a workbook with several sheets also the one that is read."""
    sheet = excel.only_first(Path(path)) if form_of(path) in excel.WORKBOOKS else ""
    return f"{path}{sheet}"


def reading_notes(path: str | Path, smiles: str = "smiles") -> list[str]:
    """Return sentences on how a file is read, where that is unusual: separator, encoding, sheets, renamed columns."""
    place, form = Path(path), form_of(path)
    if not place.is_file():
        return []
    if form in (*TABLES, SMI):
        return notes_on_text(place, smiles)
    if form in excel.WORKBOOKS:
        return excel.notes_on_workbook(place)
    note = ""
    if form == PARQUET:
        note = names_note(_parquet_names(place), place)
    elif form == ".jsonl":
        note = encoding_note(place)
    return [note] if note else []


# Parquet --------------------------------------------------------------------------------------------------------------


def _parquet_parts(path: Path, size: int) -> Iterator[Columns]:
    """Yield the columns of a Parquet file, ``size`` rows at a time after an empty part."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        with pq.ParquetFile(path) as file:
            header = unique_names(file.schema_arrow.names, path)
            yield {name: [] for name in header}
            for batch in file.iter_batches(batch_size=size):
                yield {name: _values(batch.column(place)) for place, name in enumerate(header)}
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise _not_parquet(path, error) from None


def _not_parquet(path: Path, error: Exception) -> InputError:
    """Return the error for a file that pyarrow cannot read."""
    reason = str(error).partition("\n")[0].rstrip(".")[:200]
    return InputError(f"cannot read {path} as Parquet ({reason}); write the file again.")


def _parquet_names(path: Path) -> list[str]:
    """Return the names of the columns as they are."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        names: list[str] = pq.read_schema(path).names
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _not_parquet(path, error) from None
    return names


def _values(column: Any) -> list[Any]:
    """Return the values of one column; dates and everything that is not a number become text."""
    import pyarrow as pa  # type: ignore[import-untyped]

    if pa.types.is_temporal(column.type):
        column = column.cast(pa.string())  # Python has no nanoseconds
    try:
        return [plain_of(value) for value in column.to_pylist()]
    except UnicodeDecodeError:  # Parquet does not check its text
        return [plain_of(value) for value in column.cast(pa.large_binary()).to_pylist()]


def parquet_types(path: Path) -> dict[str, str]:
    """Return the type that each column of a Parquet file has in a file that `RowWriter` writes."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    schema = pq.read_schema(path)
    kinds = {"bool": pa.types.is_boolean, "int64": pa.types.is_integer, "double": pa.types.is_floating}
    names = unique_names(schema.names, path)
    return {
        name: next((kind for kind, fits in kinds.items() if fits(field.type)), "string")
        for name, field in zip(names, schema, strict=True)
    }


def retype_empty(path: Path, types: Mapping[str, str]) -> None:
    """Give columns of a Parquet file that have no value, and so no type of their own, the types that are known."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    table = pq.read_table(path)
    for place, field in enumerate(table.schema):
        wanted = pa.type_for_alias(types.get(field.name, "string"))
        if table.column(place).null_count == len(table) and field.type != wanted:
            table = table.set_column(place, pa.field(field.name, wanted), pa.nulls(len(table), wanted))
    pq.write_table(table, path)


# Molecules and graphs -------------------------------------------------------------------------------------------------


def _sdf_blocks(
    path: Path, smiles: str, size: int, features: FeatureSpec | None, standardise: str, skip: int
) -> Iterator[Block]:
    """Yield the records of an SDF file; their titles are a column, too."""
    check_molecular(features, f"{path} contains molecules")
    names = sdf.property_names(path)
    first = 0
    for records in chunks(sdf.read_records(path), size):
        if first + len(records) <= skip:
            first += len(records)
            continue
        columns: Columns = {sdf.TITLE: [record.title or None for record in records]}
        columns |= {name: [record.properties.get(name) for record in records] for name in names}
        yield Block(first, columns, sdf.collection(records, first, standardise))
        first += len(records)


def _json_blocks(
    path: Path, smiles: str, size: int, features: FeatureSpec | None, standardise: str, skip: int
) -> Iterator[Block]:
    """Yield the graphs or molecules of a JSON lines file with the columns of all lines."""
    known = json_rows.survey(path, smiles)
    first = 0
    for lines in chunks(read_lines(path, strict=False), size):
        if first + len(lines) <= skip:
            first += len(lines)
            continue
        collection = json_rows.collection(lines, known, features, first, standardise)
        yield Block(first, json_rows.columns(lines, known), collection)
        first += len(lines)


def _tu_blocks(path: Path, size: int, features: FeatureSpec | None, skip: int) -> Iterator[Block]:
    """Yield the graphs of a TU folder, which is read whole."""
    whole, columns = tu_folder.read(path, features)
    for first in range(skip, whole.count, size):
        rows = range(first, min(first + size, whole.count))
        part = Collection(whole.graphs.subset(rows), whole.features, whole.rows[first : rows.stop], len(rows))
        yield Block(first, {name: values[first : rows.stop] for name, values in columns.items()}, part)


def rough_count(path: str | Path) -> int | None:
    """Return about how many rows a file has, quickly: by its lines or records; None if that is not known."""
    place, form = Path(path), form_of(path)
    if not place.is_file() or form in excel.WORKBOOKS:
        return None
    if form == PARQUET:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        try:
            return int(pq.read_metadata(place).num_rows)
        except (pa.ArrowException, OSError):
            return None
    mark = b"$$$$" if form == ".sdf" else b"\n"
    with reading(place), open_bytes(place) as file:
        found = sum(part.count(mark) for part in iter(lambda: file.read(2**20), b""))
    return max(found - (form in TABLES), 0)


# Writing --------------------------------------------------------------------------------------------------------------


class _Format(Protocol):
    """Writes blocks of columns into an open file."""

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None: ...

    def close(self) -> None: ...


class AppendableFormat(_Format, Protocol):
    """Writes blocks of columns into a file that can be continued."""

    def position(self) -> int:
        """Return the size of the file in bytes after all rows so far."""
        ...


APPENDED = (*DELIMITERS, ".jsonl")
"""Formats whose files can be continued."""


def appended(path: Path, columns: list[str], suffix: str, at: int = 0) -> AppendableFormat:
    """Open a file of rows, and continue it after byte ``at``; formats that cannot be continued become JSON lines."""
    if suffix in DELIMITERS:
        return _TextFormat(path, columns, suffix, at)
    return _JsonFormat(path, columns, ".jsonl", at)


def written_columns(path: Path) -> list[str] | None:
    """Return the column names of a file as `RowWriter` writes it, without reading its rows; None if it is another file.

    JSON files without rows have no names.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == PARQUET:
            return _parquet_names(path)
        with path.open(encoding="utf-8", newline="") as file:
            if suffix in DELIMITERS:
                return next(csv.reader(file, delimiter=DELIMITERS[suffix]), None)
            first = file.readline().strip()
            row = json.loads(file.readline().strip().removesuffix(",") if first == "[" else first)
    except (InputError, OSError, ValueError, RecursionError, csv.Error):
        return None
    return list(row) if isinstance(row, dict) or row == [] else None


class RowWriter:
    """Writer of rows in blocks; the suffix decides the format (.csv, .tsv, .parquet, .json or .jsonl).

    Numbers stay numbers if the format has them. None and numbers that are not finite become an empty field or null. The
    file appears only when the writer closes without an error.

    Args:
        path: The file.
        columns: Names of its columns.
        kinds: The `value_kinds` of every column, for Parquet; by default its first values decide.

    Example:
        with RowWriter("out.csv", ["name", "score"]) as writer:
            writer.write({"name": ["a", "b"], "score": [0.5, None]})
    """

    def __init__(self, path: str | Path, columns: Sequence[str], kinds: Mapping[str, set[type]] | None = None) -> None:
        self.path, self.columns = Path(path), list(columns)
        formats: dict[str, Callable[[Path, list[str], str], _Format]] = {
            **dict.fromkeys(DELIMITERS, _TextFormat),
            PARQUET: partial(_ParquetFormat, kinds=kinds),
            ".json": _JsonFormat,
            ".jsonl": _JsonFormat,
        }
        suffix = self.path.suffix.lower()
        if suffix not in formats:
            raise InputError(f"cannot write {path}: unsupported suffix; use {', '.join(formats)}.")
        self._open = lambda part: formats[suffix](part, self.columns, suffix)

    def __enter__(self) -> Self:
        with files.writing(self.path), ExitStack() as opened:
            part = opened.enter_context(files.placed(self.path))
            self._format: _Format = opened.enter_context(closing(self._open(part)))
            self._opened = opened.pop_all()
        return self

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Add rows, given as one list per column."""
        if set(columns) != set(self.columns) or len({len(values) for values in columns.values()}) > 1:
            raise ValueError(f"expected columns of equal length named {self.columns}")
        with files.writing(self.path):
            self._format.write({name: columns[name] for name in self.columns})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with files.writing(self.path):
            self._opened.__exit__(kind, error, trace)


class _TextFormat:
    """CSV or TSV."""

    def __init__(self, path: Path, columns: list[str], suffix: str, at: int = 0) -> None:
        delimiter = DELIMITERS[suffix]
        self._file = _opened_at(path, at)
        self._plain = csv.writer(self._file, delimiter=delimiter, lineterminator="\n")
        self._quoted = csv.writer(self._file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
        if not at:
            self._add(columns)

    def position(self) -> int:
        self._file.flush()
        return os.fstat(self._file.fileno()).st_size

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        for row in zip(*(map(_finite, values) for values in columns.values()), strict=True):
            self._add(row)

    def _add(self, row: Sequence[Any]) -> None:
        # Python before 3.13 does not quote a lone carriage return, which readers take as the end of the line.
        alone = any(isinstance(value, str) and "\r" in value for value in row)
        (self._quoted if alone else self._plain).writerow(row)

    def close(self) -> None:
        self._file.close()


class _JsonFormat:
    """One array of objects, or one object per line."""

    def __init__(self, path: Path, columns: list[str], suffix: str, at: int = 0) -> None:
        self._lines = suffix == ".jsonl"
        self._file = _opened_at(path, at)
        self._before = ("\n" if at else "") if self._lines else "[\n"

    def position(self) -> int:
        self._file.flush()
        return os.fstat(self._file.fileno()).st_size

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, map(_finite, values), strict=True))
            self._file.write(self._before + json.dumps(row, ensure_ascii=False, allow_nan=False))
            self._before = "\n" if self._lines else ",\n"

    def close(self) -> None:
        end = "" if self._before == "" else "\n"
        self._file.write(end if self._lines else ("[]\n" if self._before == "[\n" else "\n]\n"))
        self._file.close()


class _ParquetFormat:
    """Parquet with one row group per block. Unless kinds are given, the first values of a column decide its type."""

    def __init__(
        self, path: Path, columns: list[str], suffix: str, kinds: Mapping[str, set[type]] | None = None
    ) -> None:
        self._path, self._columns, self._given = path, columns, kinds is not None
        self._kinds = {name: set((kinds or {}).get(name, ())) for name in columns}
        self._waiting: list[Mapping[str, Sequence[Any]]] = []
        self._writer: Any = None
        path.open("wb").close()

    def write(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self._waiting.append(columns)
        if self._writer is None and not self._given:
            for name in self._columns:
                self._kinds[name] |= value_kinds(columns[name])
        # Blocks wait until every column has a value that shows its type, up to a limit.
        ready = self._writer is not None or self._given or all(self._kinds.values())
        if ready or len(self._waiting) > MOST_WAITING:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        if self._writer is None:
            schema = pa.schema([(name, _parquet_type(kinds)) for name, kinds in self._kinds.items()])
            self._writer = pq.ParquetWriter(self._path, schema)
        for block in self._waiting:
            arrays = [_array(block[field.name], field) for field in self._writer.schema]
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._writer.schema))
        self._waiting = []

    def close(self) -> None:
        self._flush()
        self._writer.close()


def value_kinds(values: Iterable[Any]) -> set[type]:
    """Return which of bool, int, float and str the values are that are not None; integers beyond 64 bits are str."""

    def kind(value: Any) -> type:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return str
        return type(value) if type(value) in (bool, int, float) else str

    return {kind(value) for value in values if value is not None}


def _parquet_type(kinds: set[type]) -> Any:
    """Return the type of a column that has values of these kinds."""
    import pyarrow as pa  # type: ignore[import-untyped]

    fitting = (name for name, held in HELD.items() if kinds and kinds <= held)
    return pa.type_for_alias(next(fitting, "string"))


def _opened_at(path: Path, at: int) -> IO[str]:
    """Open a text file for writing, new or continued after byte ``at``."""
    if not at:
        return path.open("w", encoding="utf-8", newline="")
    os.truncate(path, at)
    return path.open("a", encoding="utf-8", newline="")


def _array(values: Sequence[Any], field: Any) -> Any:
    """Return a column as an array of its type."""
    import pyarrow as pa  # type: ignore[import-untyped]

    if pa.types.is_string(field.type):
        return pa.array(
            [value if value is None or isinstance(value, str) else str(value) for value in values], pa.string()
        )
    if not value_kinds(values) <= HELD[str(field.type)]:
        raise InputError(f"column {field.name!r} changes its type from {field.type}; write a .csv file.")
    convert = float if pa.types.is_floating(field.type) else lambda value: value  # pyarrow refuses large integers
    return pa.array([None if value is None else _finite(convert(value)) for value in values], field.type)


def _finite(value: Any) -> Any:
    """Return the value, or None if it is a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
