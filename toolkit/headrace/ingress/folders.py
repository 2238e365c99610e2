"""Folders of Parquet files: what is in them, and whether every file can be read as the first one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import InputError, SchemaError
from headrace.ingress.aligning import are_alike
from headrace.ingress.input_errors import display_name, first_line

_MAGIC = b"PAR1"
_IGNORED = ("_", ".")
"""What begins so is no data, as Spark and Arrow agree."""


def open_folder(path: Path, name: str) -> tuple[Any, int]:
    """Return the files of a folder as a dataset, and its rows; folders in it may say columns, as Spark's ``day=3`` does.

    Raises
    ------
    InputError
        It has no file, or one that is not Parquet.
    """
    import pyarrow.dataset as ds  # imports pandas as well: not at import time

    for file in itertools.islice(_files(path), 1):  # before Arrow lists all of them, which in "/" takes long
        _check_format(file, name)
    try:
        dataset = ds.dataset(path, format="parquet", partitioning="hive")
        rows = dataset.count_rows()
    except (pa.ArrowInvalid, OSError):
        for file in _files(path):
            _check_format(file, name)
        raise
    if not dataset.files:
        raise InputError(f"{display_name(name)} is a folder that has no Parquet files; check the path")
    return dataset, rows


def _files(folder: Path) -> Iterator[str]:
    """Yield the paths of data files, those of inner folders last."""

    def fail(error: OSError) -> None:
        raise error

    for inner, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(one for one in folders if not one.startswith(_IGNORED))
        paths = (os.path.join(inner, one) for one in sorted(files) if not one.startswith(_IGNORED))
        yield from (one for one in paths if os.path.isfile(one))


def _check_format(path: str, name: str) -> None:
    """Raise `InputError` if a file is not Parquet."""
    with open(path, "rb") as file:
        head = file.read(len(_MAGIC))
    if head != _MAGIC:
        raise InputError(
            f"{display_name(name)} is a folder with {path!r} in it, which is no Parquet file: give a folder of Parquet files"
            f" alone; files whose names begin with _ or . are passed over"
        )


def check_file(path: str, schema: pa.Schema, named: Container[str], *, wanted: pa.Schema, name: str) -> None:
    """Raise `SchemaError` for a file of a folder that Arrow would read as something else than it has.

    Arrow fills a column that is missing with nulls, and reads texts as numbers.

    Parameters
    ----------
    path : str
        Of the file.
    schema : pa.Schema
        Its columns.
    named : container of str
        Columns that are in no file: the names of folders say them.
    wanted : pa.Schema
        The columns to be read, as in the first file.
    name : str
        Name of the folder in error texts.
    """
    for field in wanted:
        if field.name in named:
            continue
        if field.name not in schema.names:
            raise SchemaError(
                f"{display_name(name)}: column {field.name!r} is missing in {path!r}: add it, or leave it out with select()"
            )
        kind = schema.field(schema.get_field_index(field.name)).type
        if not are_alike(kind, field.type):
            raise SchemaError(
                f"{display_name(name)}: column {field.name!r} is {kind} in {path!r}, {field.type} in the first file: cast it"
            )


def check_values(dataset: Any, wanted: pa.Schema, name: str) -> None:
    """Raise `SchemaError` if a file has values that cannot be cast to the columns to be read: which file, which column.

    For a pass over the dataset that failed, as Arrow says neither.
    """
    for fragment in dataset.get_fragments():
        own = fragment.physical_schema
        for field in wanted:
            kind = own.field(field.name).type if own.names.count(field.name) == 1 else field.type
            if kind.equals(field.type):
                continue
            try:
                for batch in fragment.to_batches(schema=own, columns=[field.name]):
                    pc.cast(batch.column(0), field.type)
            except pa.ArrowInvalid as error:
                raise SchemaError(
                    f"{display_name(name)}: column {field.name!r} is {kind} in {fragment.path!r}, but read as {field.type}, as in"
                    f" the first file, which cannot hold it ({first_line(error)}): cast it in one of them"
                ) from error


__all__ = ["check_file", "check_values", "open_folder"]
