"""Reading anything that holds a table, as Arrow record batches in order.

`open_input` takes a Parquet or Arrow IPC path, an Arrow table, batch, reader or
dataset, a pandas frame, whatever has ``__arrow_c_stream__`` (polars, DuckDB,
a Spark DataFrame), or an iterable of record batches. The schema is known
before the first batch. Every batch is validated fully, bad offsets and invalid
UTF-8 included, before a kernel sees it, and is bounded in rows and in bytes.

An iterable may give watermarks (`headrace.progress.Watermark`) among its batches; they
are passed on at their position.

A package that knows more about a library's frames registers a function that opens them (`register`),
as `headrace.spark` does for Spark's.
A source that opens itself has a method `open_reader`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.errors import InputError, NotSupportedError, SchemaError, UnsupportedTypeError
from headrace.expressions.rows import check_movable, concat_batches, empty_batch, take
from headrace.ingress import folders, parquet
from headrace.ingress.aligning import align
from headrace.ingress.batch_bytes import pieces
from headrace.ingress.input_errors import display_name, first_line, no_file_at, translated_errors
from headrace.ingress.validation import Validator
from headrace.names import instead
from headrace.progress import Watermark

DEFAULT_BATCH_ROWS = 1 << 17
MOST_BATCH_ROWS = 2**31 - 1

Item = pa.RecordBatch | Watermark
"""What a reader yields."""

_openers: dict[str, Callable[..., Reader]] = {}
_MAGIC_PARQUET, _MAGIC_ARROW = b"PAR1", b"ARROW1"
_MAGIC_STREAM = b"\xff\xff\xff\xff"


@dataclass
class Reader:
    """Record batches of one source.

    Parameters
    ----------
    schema : pa.Schema
        Of every batch.
    name : str
        For error texts, metrics and plots: a path, the user's name for it, or ``source 1 (generator)``.
    rows : int or None
        Number of rows, where it is known without reading them.
    batches : callable
        Starts a pass over the batches, and watermarks among them; a stream allows only one pass.
    is_replayable : bool
        Whether there may be a second pass.
    is_validated, batch_rows
        As in `open_input`.
    reopen : callable, optional
        Opens the same source with other columns and another name; see `select`.
    stop : callable, optional
        Ends a source that waits for more; called when the run ends.
    delay_us : callable, optional
        Called with a column's name: how late the source says its rows may be, in
        microseconds, or None.
    files : tuple of str
        Paths of the files, where it is read from files while the query runs.
    row_name : callable
        Called with the number of a row as read: the user's name for it in what the reader was opened from.
    coded : callable, optional
        Called with names of columns: starts a pass in which these may come as dictionary codes; see `with_codes`.
    """

    schema: pa.Schema
    name: str
    rows: int | None
    batches: Callable[[], Iterable[Item]]
    is_replayable: bool = True
    is_validated: bool = True
    batch_rows: int = DEFAULT_BATCH_ROWS
    reopen: Callable[[Sequence[str], str], Reader] | None = None
    stop: Callable[[], None] | None = None
    delay_us: Callable[[str], int | None] | None = None
    files: tuple[str, ...] = ()
    row_name: Callable[[int], str] = str
    is_started: bool = False
    coded: Callable[[Sequence[str]], Iterable[Item]] | None = None

    def with_codes(self, columns: Sequence[str]) -> Reader:
        """Return a reader of the same rows that may give texts of these columns as dictionary codes, whatever the schema says.

        It does so where that costs less: in batches whose dictionary is small.
        """
        if self.coded is None or not columns:
            return self
        return replace(self, batches=partial(self.coded, tuple(columns)), coded=None)

    def select(self, columns: Sequence[str], name: str = "") -> Reader:
        """Return a reader of some of the columns: the others are not read, decoded or validated.

        Its errors call the source by `name`, where one is given.

        Examples
        --------
        >>> open_input(pa.table({"ts": [1], "x": [2]})).select(["x"]).schema.names
        ['x']
        """
        name = name or self.name
        if list(columns) == self.schema.names and name == self.name:
            return self
        if self.reopen is not None:
            return self.reopen(columns, name)
        self.name = name  # the selection reads through this reader
        selected = open_stream(self.schema, self._begin, columns, name, self.is_replayable, self.rows)
        selected.is_validated, selected.batch_rows = self.is_validated, self.batch_rows
        selected.stop, selected.delay_us, selected.files = self.stop, self.delay_us, self.files
        selected.row_name = self.row_name
        return selected

    def __iter__(self) -> Iterator[Item]:
        return self._read(self._begin())

    def rows_alone(self, why: str) -> Iterator[pa.RecordBatch]:
        """Read batches; a watermark among them is an `InputError`, and `why` says so."""
        return _rows_alone(self, self.name, why)

    def _begin(self) -> Iterable[Item]:
        """Start a pass over the unchecked batches; a stream allows only one, which the first selection to ask gets."""
        if self.is_started and not self.is_replayable:
            raise InputError(f"{display_name(self.name)} is a stream and was read already: open it again")
        self.is_started = True
        with translated_errors(self.name):
            return self.batches()

    def _read(self, batches: Iterable[Item]) -> Iterator[Item]:
        with translated_errors(self.name):
            for item in _validated(batches, self.name) if self.is_validated else batches:
                if isinstance(item, Watermark):
                    yield item
                else:
                    yield from pieces(item, self.batch_rows)


def _validated(batches: Iterable[Item], name: str) -> Iterator[Item]:
    validator, row = Validator(), 0
    for batch in batches:
        if isinstance(batch, Watermark):
            yield batch
            continue
        try:
            validator.check(batch)
        except pa.ArrowInvalid as error:
            raise InputError(
                f"{display_name(name)}, rows from {row}: not valid Arrow data ({first_line(error)}); write it again"
            ) from None
        row += batch.num_rows
        yield batch


def _rows_alone(items: Iterable[Item], name: str, why: str) -> Iterator[pa.RecordBatch]:
    for item in items:
        if isinstance(item, Watermark):
            raise InputError(f"{display_name(name)} gives {item!r} among its batches: {why}")
        yield item


def open_input(
    source: Any,
    columns: Sequence[str] | None = None,
    sort_by: str | None = None,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    name: str = "",
    validate: bool = True,
    schema: pa.Schema | None = None,
) -> Reader:
    """Return a reader of a table, whatever holds it.

    Parameters
    ----------
    source : path, Arrow object, pandas frame, frame with ``__arrow_c_stream__``, or iterable of batches
    columns : sequence of str, optional
        Only these, in this order.
    sort_by : str, optional
        Sort by this column, equal ones in their order. Anything but a Spark
        DataFrame is held in memory for that.
    batch_rows : int
        The most rows of a batch.
    name : str
        For error texts and metrics; by default the path.
    validate : bool
        Check every batch fully.
    schema : pa.Schema, optional
        Of an iterable of batches that may be empty.

    Raises
    ------
    InputError
        One line: no such file, not Parquet, corrupt, no such column.

    Examples
    --------
    >>> reader = open_input(pa.table({"ts": [2, 1], "x": [3, 4]}), columns=["ts"], sort_by="ts")
    >>> reader.rows, [batch.to_pydict() for batch in reader]
    (2, [{'ts': [1, 2]}])
    """
    if isinstance(source, Reader):
        return source
    name = name or name_of(source)
    if hasattr(type(source), "open_reader"):  # ask the type: a Spark column answers to any name
        if sort_by is not None:
            raise NotSupportedError(
                f"{display_name(name)} has no end, so it cannot be sorted as a whole: pass lateness= instead of sort=True"
            )
        return source.open_reader(columns, batch_rows, name, validate)
    root = type(source).__module__.partition(".")[0]
    if root in _openers:
        return _openers[root](
            source, columns=columns, sort_by=sort_by, batch_rows=batch_rows, name=name, validate=validate
        )
    needed = columns
    if columns is not None and sort_by is not None and sort_by not in columns:
        needed = [*columns, sort_by]
    with translated_errors(name):
        reader = _open(source, needed, batch_rows, name, schema)
    reader.is_validated, reader.batch_rows = validate, batch_rows
    if sort_by is not None:
        reader = _sorted(reader, sort_by)
        reader = reader if columns is None else reader.select(columns)
    if reader.is_replayable:
        reader.reopen = lambda chosen, called: open_input(source, chosen, sort_by, batch_rows, called, validate, schema)
    return reader


def register(package: str, opener: Callable[..., Reader]) -> None:
    """Register a function of a higher-level package that opens objects of another package's types.

    Parameters
    ----------
    package : str
        Root of the name of the module that defines the type, such as ``"pyspark"``.
    opener : callable
        Called as ``opener(source, columns=, sort_by=, batch_rows=, name=, validate=)``, with the
        meaning they have in `open_input`. A later one for the same package replaces it.
    """
    _openers[package] = opener


def name_of(source: Any) -> str:
    """Return the name of a source to which the user gave none: its path, or the kind of object it is.

    Examples
    --------
    >>> name_of("trades.parquet"), name_of(iter([]))
    ('trades.parquet', 'source (list_iterator)')
    """
    if isinstance(source, Reader):
        return source.name
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return f"source ({getattr(type(source), 'kind_in_words', type(source).__name__)})"


def _open(source: Any, columns, batch_rows: int, name: str, schema: pa.Schema | None) -> Reader:
    if isinstance(source, (str, os.PathLike)):
        if not os.fspath(source):
            raise InputError(f"the path {source!r} is empty; give the path of a file or of a folder")
        return _open_path(Path(source), columns, batch_rows, name)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    row_name: Callable[[int], str] = str
    if _is_pandas(source):
        row_name = _labelled(source.index)
        if not source.columns.is_unique:
            twice = source.columns[source.columns.duplicated()][0]
            raise SchemaError(f"{display_name(name)}: several columns are called {twice!r}; rename the others")
        try:
            source = pa.Table.from_pandas(source, preserve_index=False)
        except (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:  # sparse columns, objects of several types
            said = first_line(Exception(": ".join(str(part) for part in reversed(error.args))))  # which column is said last
            raise InputError(f"{display_name(name)} cannot be read: {said}; give its values another type") from None
        source = source.replace_schema_metadata(None)
    if isinstance(source, pa.Table):
        table = select(source, columns, name)
        reader = Reader(table.schema, name, table.num_rows, lambda: table.to_batches(max_chunksize=batch_rows))
        reader.row_name = row_name
        return reader
    if type(source).__module__ == "pyarrow._dataset":
        return _open_dataset(source, source.count_rows(), columns, batch_rows, name)
    if not isinstance(source, pa.RecordBatchReader) and hasattr(source, "__arrow_c_stream__"):
        first = _first_pass(source, name)
        if getattr(type(source), "is_replayable", False):  # declared; other objects may not begin anew
            return open_stream(first.schema, lambda: pa.RecordBatchReader.from_stream(source), columns, name, True)
        source = first
    if isinstance(source, pa.RecordBatchReader):
        return open_stream(source.schema, lambda: source, columns, name)
    if isinstance(source, Iterable) and not isinstance(source, (dict, set, bytes)):
        return _open_iterable(source, columns, name, schema)
    made = ""
    if isinstance(source, dict):  # of columns, or one of several rows
        has_columns = all(isinstance(value, Iterable) and not isinstance(value, str | bytes) for value in source.values())
        made = f"; make one of it by pyarrow.{'table(columns)' if has_columns else 'Table.from_pylist(rows)'}"
    made = ", and of a query or a run its results, .to_arrow()" if hasattr(source, "to_arrow") else made
    raise InputError(
        f"{display_name(name)}: give a Parquet path, an Arrow table, a pandas frame, a DataFrame, or record batches{made}"
    )


def _first_pass(source: Any, name: str) -> pa.RecordBatchReader:
    """Begin a pass over an object with Arrow's C stream interface, which may also deliver a single column."""
    try:
        return pa.RecordBatchReader.from_stream(source)
    except pa.ArrowInvalid as error:
        if "non-struct" not in str(error):
            raise
        raise InputError(f"{display_name(name)} is a single column: give a table that has times as well") from None


def _is_pandas(source: Any) -> bool:
    return type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns")


def _labelled(index: Any) -> Callable[[int], str]:
    """Return a function that names rows of a pandas frame: by number, and by label where that differs."""
    if type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1:
        return str
    return lambda row: f"{row} (index {index[row : row + 1].tolist()[0]!r})"


def check_no_index(source: Any, column: str) -> None:
    """Raise `SchemaError` where the event time of a pandas frame is its index, which is not read."""
    if not _is_pandas(source) or column in source.columns:
        return
    index = source.index
    if column in index.names or type(index).__name__ == "DatetimeIndex":
        rename = "" if column in index.names else f".rename_axis({column!r})"
        raise SchemaError(
            f"event_time column {column!r} does not exist: the frame's times are in its index, which is not read;"
            f" give frame{rename}.reset_index()"
        )


def open_stream(
    schema: pa.Schema,
    batches: Callable[[], Iterable[Item]],
    columns: Sequence[str] | None,
    name: str,
    is_replayable: bool = False,
    rows: int | None = None,
) -> Reader:
    """Return a reader of batches, and watermarks, that come one after the other from `batches`."""
    chosen = select_fields(schema, columns, name)
    if columns is None:
        return Reader(chosen, name, rows, batches, is_replayable)
    indices = [schema.get_field_index(column) for column in columns]

    def selected() -> Iterator[Item]:
        for item in batches():
            yield item if isinstance(item, Watermark) else item.select(indices)

    return Reader(chosen, name, rows, selected, is_replayable)


def select(table: pa.Table, columns: Sequence[str] | None, name: str) -> pa.Table:
    """Return a table of these columns, or raise `SchemaError` with the columns that exist."""
    if columns is None:
        return table
    for column in columns:
        found = table.schema.get_all_field_indices(column)
        if len(found) != 1:
            problem = f"occurs {len(found)} times" if found else "does not exist"
            raise SchemaError(
                f"column {column!r} {problem} in {display_name(name)}:"
                f" {instead(column, table.schema.names, 'the columns', '{}')}"
            )
    return table.select(list(columns))


def select_fields(schema: pa.Schema, columns: Sequence[str] | None, name: str) -> pa.Schema:
    """Return the schema that `select` gives a table of."""
    return select(pa.Table.from_batches([empty_batch(schema)]), columns, name).schema


def _open_path(path: Path, columns, batch_rows: int, name: str) -> Reader:
    if path.is_dir():
        return _open_dataset(*folders.open_folder(path, name), columns, batch_rows, name, is_folder=True)
    if not path.exists():
        raise InputError(f"{display_name(name)}: there is no such file; {_how_to_find(name)}")
    if what := no_file_at(path):  # a pipe is read once, from its beginning; reading Parquet begins at the end
        raise InputError(f"{display_name(name)} is {what}; give the path of a file")
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(_MAGIC_ARROW):
        with pa.memory_map(os.fspath(path)) as file:
            opened = pa.ipc.open_file(file)
            table = select(opened.read_all(), columns, name)
        batches_of = partial(table.to_batches, max_chunksize=batch_rows)  # pages of a mapped file are read only then
        return Reader(table.schema, name, table.num_rows, batches_of, files=(os.fspath(path),))
    if not head:
        raise InputError(f"{display_name(name)} is empty; write it again, or check the path")
    if head.startswith(_MAGIC_STREAM):  # it may end after any batch, so nobody can tell whether it is whole
        raise InputError(
            f"{display_name(name)} is an Arrow stream, not an Arrow file: write it by pyarrow.ipc.new_file, or give"
            f" pyarrow.ipc.open_stream({str(path)!r}) in Python"
        )
    if not head.startswith(_MAGIC_PARQUET):
        raise InputError(f"{display_name(name)} is neither a Parquet nor an Arrow file: {_how_to_read(path)}")
    with pq.ParquetFile(path) as file:
        schema, rows = file.schema_arrow.remove_metadata(), file.metadata.num_rows
    chosen = select_fields(schema, columns, name)

    def batches(codes: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        select_fields(chosen, chosen.names, name)  # Arrow finds columns by name, so no name may occur twice
        # Opened once, so that no part of another file is read that takes its place meanwhile.
        with pa.OSFile(os.fspath(path)) as opened, pq.ParquetFile(opened, page_checksum_verification=True) as file:
            check_same_types(file.schema_arrow, chosen, name)
            yield from parquet.batches(opened, file, chosen, batch_rows, codes=codes)

    return Reader(chosen, name, rows, batches, files=(os.fspath(path),), coded=batches)


def check_same_types(schema: pa.Schema, wanted: pa.Schema, name: str) -> None:
    """Raise `InputError` where a file has other columns than when the query was made, because it was replaced since."""
    for field in wanted:
        at = schema.get_field_index(field.name)
        if at < 0 or not schema.field(at).type.equals(field.type):
            now = "is not there any more" if at < 0 else f"is {schema.field(at).type} now, and was {field.type}"
            raise InputError(
                f"{display_name(name)} was replaced: its column {field.name!r} {now}; make the query again, and give new data a"
                f" new name"
            )


def _how_to_find(name: str) -> str:
    """Return advice on a path at which nothing is."""
    if "://" in name:
        return f"give a path, not an address, or pyarrow.dataset.dataset({name!r})"
    if name.startswith("~"):
        return f"give os.path.expanduser({name!r})"
    if any(sign in name for sign in "*?["):
        return f"give a folder, or pyarrow.dataset.dataset(sorted(glob.glob({name!r})))"
    return "check the path"


def _how_to_read(path: Path) -> str:
    """Return advice on a file that cannot be read here."""
    plain = path.with_suffix("") if path.suffix.lower() in (".gz", ".bz2", ".xz", ".zip", ".zst") else path  # pandas unpacks it
    kind = plain.suffix.lower().removesuffix("l")  # .jsonl
    readers = {".csv": "pandas.read_csv({!r}, parse_dates=[...])", ".json": "pandas.read_json({!r}, lines=True)"}
    if kind not in readers:
        return "convert it, or check the path"
    return f"convert it to Parquet, or give {readers[kind].format(str(path))} in Python"


def _open_dataset(dataset: Any, rows: int, columns, batch_rows: int, name: str, is_folder: bool = False) -> Reader:
    chosen = select_fields(dataset.schema, columns, name).remove_metadata()
    # Whoever makes a dataset says what its columns are; those of a folder are the columns of its first file.
    check = partial(folders.check_file, wanted=chosen, name=name) if is_folder else None

    def batches() -> Iterable[pa.RecordBatch]:
        try:
            yield from parquet.dataset_batches(dataset, chosen, batch_rows, check)
        except pa.ArrowInvalid:
            folders.check_values(dataset, chosen, name)
            raise

    return Reader(chosen, name, rows, batches, files=tuple(getattr(dataset, "files", ())))


def _open_iterable(source: Iterable, columns, name: str, schema: pa.Schema | None) -> Reader:
    is_replayable = not isinstance(source, Iterator)
    iterator = iter(source)
    first: list[Any] = []
    if schema is None:
        for item in iterator:
            first.append(item)
            if not isinstance(item, Watermark):
                break
        else:
            raise InputError(
                f"{display_name(name)} has no batch, so nothing says its columns: give an empty batch, as in [table.slice(0, 0)]"
            )
        schema = _batches_of(first[-1], name)[0].schema

    def batches() -> Iterator[Item]:
        for item in source if is_replayable else itertools.chain(first, iterator):
            if isinstance(item, Watermark):
                yield item
                continue
            for batch in _batches_of(item, reader.name):
                yield batch if batch.schema.equals(schema) else align(batch, schema, display_name(reader.name))

    reader = open_stream(schema, batches, columns, name, is_replayable)
    return reader


def _batches_of(item: Any, name: str) -> list[pa.RecordBatch]:
    if isinstance(item, pa.RecordBatch):
        return [item]
    if isinstance(item, pa.Table):
        return item.to_batches() or [
            empty_batch(item.schema)
        ]
    found = type(item).__name__
    made = ", such as pyarrow.RecordBatch.from_pylist([{...}, ...]) makes" if isinstance(item, dict) else ""
    raise InputError(
        f"{display_name(name)} yields {found}: it must yield Arrow record batches{made}, and may yield hr.Watermark among them"
    )


def _sorted(reader: Reader, column: str) -> Reader:
    """Return a reader of the same rows, stably sorted."""
    kind = select_fields(reader.schema, [column], reader.name).field(0).type
    check_movable(reader.schema, "sort=True")
    inner, moved_from = reader.batches, pa.array([], pa.uint64())

    def batches() -> Iterable[pa.RecordBatch]:
        nonlocal moved_from
        # Before the sort, which trusts the offsets.
        checked = _validated(inner(), reader.name) if reader.is_validated else inner()
        alone = _rows_alone(checked, reader.name, "sort=True reads all rows before it gives one; pass lateness= instead")
        table = pa.Table.from_batches(alone, reader.schema)
        try:
            # Arrow's sort is stable; combine_chunks keeps `take` from walking chunks for each row.
            order = moved_from = pc.sort_indices(table.column(column))
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
            raise UnsupportedTypeError(
                f"column {column!r} has type {kind}: it cannot be sorted by; cast it"
            ) from None
        try:
            table = table.combine_chunks()
        except pa.ArrowException:  # columns that Arrow cannot concatenate
            table = pa.Table.from_batches([concat_batches(table.to_batches())])
        arrays = [take(values, order) for values in table.columns]
        return pa.Table.from_arrays(arrays, schema=table.schema).to_batches(max_chunksize=reader.batch_rows)

    return Reader(
        reader.schema,
        reader.name,
        reader.rows,
        batches,
        reader.is_replayable,
        False,
        reader.batch_rows,
        files=reader.files,
        row_name=lambda row: reader.row_name(moved_from[row].as_py()),
    )
