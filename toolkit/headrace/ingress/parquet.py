"""Reading Parquet files as record batches that are bounded in bytes, however much a few kilobytes of the file stand for.

A dictionary page holds a long text once for any number of rows, and pages can be compressed
a thousandfold. So before a row group is decoded, the longest entry of each
dictionary of texts is found (by reading one row). Where a batch of such rows
could pass `BATCH_BYTES`, the column is read as codes, cut, and only then decoded,
piece by piece. The larger the columns are uncompressed, according to the file, the fewer
rows a batch has.

A reader that only looks up texts takes the codes as they are (`codes=`), where the dictionary of a row
group is small: reading costs 4 ns a row instead of 20, and each entry is looked up once a
group.

(Always reading codes would cost 180 ns a row instead of 28 for 100,000 names, as Arrow builds the
dictionary again for each batch. Finding the longest entry costs 0.1 us an entry, once a row group.)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.ingress import columns
from headrace.ingress.batch_bytes import BATCH_BYTES, longest, pieces

LEAST_CODED = 1 << 14
"""Minimum number of values in a column chunk for which it is worth finding out the size of its dictionary."""
LEAST_CODED_TO_ENTRIES = 8
"""Rows that a batch must have for each entry of a column's dictionary if the column is to be read in codes."""
MOST_CODE_BYTES = 4
"""Maximum bytes that a page uses for a row: for its code, and for what the page says about it."""


def batches(
    source: Any,
    file: pq.ParquetFile,
    schema: pa.Schema,
    batch_rows: int,
    most_bytes: int = BATCH_BYTES,
    codes: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, some columns of them.

    Parameters
    ----------
    source : path or file
        From which the file is opened again, to read it in another way.
    file : pq.ParquetFile
    schema : pa.Schema
        The columns wanted, in their order, with the types that the file gives them.
    batch_rows, most_bytes : int
        Bounds of a batch; a single row may take more bytes.
    codes : sequence of str
        Columns that may be given as dictionary codes instead of texts, in batches where that costs less.
    """
    groups: list[int] = []
    coded: tuple[tuple[str, ...], tuple[str, ...]] = (), ()
    rows = 0
    for group in range(file.metadata.num_row_groups):
        found = (
            _leaves_to_code(source, file, schema, group, batch_rows, most_bytes),
            _columns_in_codes(source, file, schema, group, batch_rows, codes),
        )
        # Small groups are read together, so that their batches are not small.
        if groups and (found != coded or rows >= batch_rows):
            yield from _read(source, file, schema, groups, *coded, batch_rows, most_bytes)
            groups, rows = [], 0
        groups.append(group)
        coded = found
        rows += file.metadata.row_group(group).num_rows
    if groups:
        yield from _read(source, file, schema, groups, *coded, batch_rows, most_bytes)


def _read(source, file, schema, groups, coded, in_codes, batch_rows, most_bytes) -> Iterator[pa.RecordBatch]:
    chunks = [chunk for group in groups for chunk in _chunks(file, schema, group)]
    rows = max(1, sum(file.metadata.row_group(group).num_rows for group in groups))
    row_bytes = sum(chunk.total_uncompressed_size for chunk in chunks) // rows
    batch_rows = max(1, min(batch_rows, most_bytes // max(1, row_bytes)))
    reader = _opened(source, file, [*coded, *in_codes]) if coded or in_codes else file
    try:
        for batch in reader.iter_batches(batch_rows, row_groups=groups, columns=schema.names):
            given = pa.schema([
                field.with_type(batch.schema.field(field.name).type) if field.name in in_codes else field for field in schema
            ])
            for piece in pieces(batch, batch_rows, most_bytes) if coded else (batch,):
                # Arrow returns columns in the file's order.
                decoded = [_decoded(piece.column(field.name), field.type) for field in given]
                yield pa.RecordBatch.from_arrays(decoded, schema=given)
    finally:
        if reader is not file:
            reader.close()


def _opened(source: Any, file: pq.ParquetFile, coded: Sequence[str]) -> pq.ParquetFile:
    return pq.ParquetFile(
        source, metadata=file.metadata, read_dictionary=list(coded), page_checksum_verification=True
    )


def dataset_batches(
    dataset: Any, schema: pa.Schema, batch_rows: int, check: Callable[[str, pa.Schema, Container[str]], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a dataset, some columns of them, as `batches` does if its files are Parquet.

    Before any row, `check` is called with the path and schema of each file, and the columns that its path says instead.
    """
    import pyarrow.dataset as ds  # imports pandas as well: not at import time

    fragments = list(dataset.get_fragments()) if isinstance(dataset, ds.FileSystemDataset) else []
    coded: set[str] = set()
    rows, size = 0, 0
    for fragment in fragments:
        if not isinstance(fragment, ds.ParquetFileFragment):
            continue
        with fragment.filesystem.open_input_file(fragment.path) as source, pq.ParquetFile(source) as file:
            if check is not None:
                check(fragment.path, file.schema_arrow, ds.get_partition_keys(fragment.partition_expression))
            for group in range(file.metadata.num_row_groups):
                coded.update(_leaves_to_code(source, file, schema, group, batch_rows, BATCH_BYTES))
                rows += file.metadata.row_group(group).num_rows
                size += sum(chunk.total_uncompressed_size for chunk in _chunks(file, schema, group))
    batch_rows = max(1, min(batch_rows, BATCH_BYTES // max(1, size // max(1, rows))))
    if not coded:
        yield from dataset.to_batches(columns=schema.names, batch_size=batch_rows)
        return
    names = [name for name in schema.names if name in coded and columns.is_string(schema.field(name).type)]
    read = dataset.schema
    for name in names:
        at = read.get_field_index(name)
        kind = pa.string() if pa.types.is_string_view(read.field(at).type) else read.field(at).type
        read = read.set(at, read.field(at).with_type(pa.dictionary(pa.int32(), kind)))
    layout = ds.ParquetFileFormat(dictionary_columns=names)
    again = [layout.make_fragment(f.path, f.filesystem, f.partition_expression) for f in fragments]
    dataset = ds.FileSystemDataset(again, read, layout, fragments[0].filesystem)
    for batch in dataset.to_batches(
        columns=schema.names, batch_size=batch_rows, batch_readahead=1, fragment_readahead=1
    ):
        for piece in pieces(batch, batch_rows):
            decoded = [_decoded(piece.column(field.name), field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(decoded, schema=schema)


def _decoded(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type.equals(kind):
        return array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return pc.cast(array, kind)


def _chunks(file: pq.ParquetFile, schema: pa.Schema, group: int) -> list[pq.ColumnChunkMetaData]:
    """Return the chunks of a row group that hold these columns, or parts of them."""
    names = schema.names
    chunks = (file.metadata.row_group(group).column(i) for i in range(file.metadata.num_columns))
    return [chunk for chunk in chunks if any(_is_of(chunk.path_in_schema, name) for name in names)]


def _is_of(path: str, name: str) -> bool:
    return path == name or path.startswith(f"{name}.")


def _leaves_to_code(source, file, schema, group, batch_rows, most_bytes) -> tuple[str, ...]:
    """Return the leaf columns whose longest dictionary entry, repeated in each row, could make a batch too large."""
    chunks = [
        chunk
        for chunk in _chunks(file, schema, group)
        if chunk.has_dictionary_page
        and chunk.physical_type == "BYTE_ARRAY"
        and chunk.total_uncompressed_size * batch_rows > most_bytes
        and chunk.num_values > 1
    ]
    if not chunks:
        return ()
    paths = [chunk.path_in_schema for chunk in chunks]
    names = [name for name in schema.names if any(_is_of(path, name) for path in paths)]
    first = _first_row(source, file, group, paths, names)
    found = []
    for name in names:
        repeated = _longest_entry(None if first is None else first.column(name))
        if repeated is None or repeated * batch_rows > most_bytes:
            found += [path for path in paths if _is_of(path, name)]
    return tuple(found)


def _first_row(source, file, group, coded, names) -> pa.RecordBatch | None:
    """Read columns of the first row of a row group, `coded` ones with their dictionaries; None if it has no row."""
    with _opened(source, file, coded) as reader:
        return next(iter(reader.iter_batches(1, row_groups=[group], columns=names)), None)


def _columns_in_codes(source, file, schema, group, batch_rows, names) -> tuple[str, ...]:
    """Return the columns of a row group whose dictionaries are so small that building them for each batch costs little."""
    if not names:
        return ()
    chunks = {
        chunk.path_in_schema: chunk
        for chunk in _chunks(file, schema, group)
        if chunk.path_in_schema in names
        and chunk.has_dictionary_page
        and chunk.physical_type == "BYTE_ARRAY"
        and chunk.num_values >= LEAST_CODED
    }
    if not chunks:
        return ()
    first = _first_row(source, file, group, list(chunks), list(chunks))
    assert first is not None  # there are at least `LEAST_CODED` values
    found = []
    for name, chunk in chunks.items():
        codes = first.column(name)
        entries, text_bytes = len(codes.dictionary), codes.dictionary.nbytes
        is_small = entries * LEAST_CODED_TO_ENTRIES <= min(batch_rows, chunk.num_values)
        # A writer whose dictionary became too large has written the remaining texts themselves.
        is_all = chunk.total_uncompressed_size <= text_bytes + MOST_CODE_BYTES * chunk.num_values
        if is_small and is_all and codes.type.value_type.equals(schema.field(name).type):
            found.append(name)
    return tuple(found)


def _longest_entry(array: pa.Array | None) -> int | None:
    """Return the bytes of the longest dictionary entry in an array; None if no entry was read, as when first lists are empty."""
    if array is None:
        return None
    if pa.types.is_dictionary(array.type):
        return longest(array.dictionary) if len(array.dictionary) else None
    if pa.types.is_struct(array.type):
        parts = [_longest_entry(array.field(i)) for i in range(array.type.num_fields)]
    elif hasattr(array, "values") and isinstance(array.values, pa.Array):
        parts = [_longest_entry(array.values)]
    else:
        return 0
    return None if None in parts else max((part for part in parts if part is not None), default=0)
