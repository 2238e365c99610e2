"""What every data set is: a schema, and rows that can be generated again and again."""

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace_datasets.parameters import instead, whole_number

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

TIME = pa.timestamp("us", tz="UTC")
"""The type of the column `ts` in every data set."""

PARQUET_ROWS = 131_072
"""Rows in a row group of a written file: a few megabytes, and several groups for parallel readers."""


@dataclass(frozen=True)
class Dataset:
    """Rows with an event time column `ts`, sorted by it.

    Attributes
    ----------
    name : str
        The call that makes it, such as ``tweets(n=1000, seed=7, rate=30.0)``.
    schema : pyarrow.Schema
        Columns and their types.

    Examples
    --------
    >>> from headrace_datasets import joins
    >>> left = joins(n=1_000, seed=7, side="left")
    >>> left.to_arrow().num_rows
    1000
    >>> [batch.num_rows for batch in left.batches(400)]
    [400, 400, 200]
    >>> list(left.to_pandas().columns)
    ['ts', 'x', 'y']
    """

    name: str
    schema: pa.Schema
    _blocks: Callable[[], Iterator[pa.RecordBatch]] = field(repr=False)
    is_replayable: ClassVar[bool] = True
    """Tells readers of `__arrow_c_stream__` that each call starts from the first row, so that a query can run again."""

    def batches(self, size: int = 65_536) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows, `size` at a time; only the last batch may be shorter.

        Each call starts from the first row. Memory is bounded by the batch and one block of the generator.
        """
        return _regrouped(self._blocks(), whole_number("size", size, minimum=1))

    def repeated(self, size: int = 65_536) -> Iterator[pa.RecordBatch]:
        """Iterate without end: all rows, then the same rows with later event times, and so on; for streams to watch.

        The rows are generated once and kept in memory, so that later rounds cost next to nothing. Each round begins a
        millisecond after the end of the one before.

        Raises
        ------
        ValueError
            `size` below 1, or no rows to repeat.
        """
        size, rows = whole_number("size", size, minimum=1), self.to_arrow()
        if not rows.num_rows:
            raise ValueError(f"repeated(): {self.name} has no rows; give n of at least 1")
        return _regrouped(_rounds(rows), size)

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        return pa.Table.from_batches(self._blocks(), self.schema)

    def to_pandas(self) -> "pd.DataFrame":
        """Return all rows as a pandas frame with `ts` as a column: ``headrace.stream(frame, event_time="ts")`` reads it."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Give all rows to a reader of Arrow streams, such as ``headrace.stream(tweets(), event_time="ts")``."""
        return pa.RecordBatchReader.from_batches(self.schema, self._blocks()).__arrow_c_stream__(requested_schema)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked for by Python, or by a notebook
            raise AttributeError(f"a Dataset has no {name!r}", name=name)
        methods = [one for one, what in vars(type(self)).items() if callable(what)]
        there = [one for one in ("name", "schema", *methods) if not one.startswith("_")]
        raise AttributeError(f"a Dataset has no {name!r}; {instead(name, there, 'its parts', '.{}')}", name=name)

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Write all rows to one Parquet file with bounded memory, and return its path.

        The file appears under its name only once it is complete.

        Parameters
        ----------
        path : str or path

        Raises
        ------
        ValueError
            `path` is no path. What the operating system refuses raises `OSError`.
        """
        if not isinstance(path, str | os.PathLike):
            raise ValueError(
                f"path is {path!r}, of type {type(path).__name__}; give the name of the file to write"
            )
        target = Path(path)
        part = target.with_name(target.name + ".part")
        try:
            with pq.ParquetWriter(part, self.schema) as writer:
                for batch in self.batches(PARQUET_ROWS):
                    writer.write_batch(batch)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return target

    def to_spark(self, spark: "SparkSession") -> "DataFrame":
        """Return all rows as a DataFrame of the session `spark`, in order.

        The rows pass through this process's memory. For more rows than fit, write them with `to_parquet` and
        let Spark read the file.

        Parameters
        ----------
        spark : pyspark.sql.SparkSession

        Raises
        ------
        ValueError
            `spark` is no session.
        """
        if not hasattr(spark, "createDataFrame"):
            raise ValueError(f"spark is {spark!r}; give a SparkSession, such as headrace.spark.session()")
        return spark.createDataFrame(self.to_arrow())


def _rounds(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Repeat a table without end, each time with event times that are later by its span."""
    at = rows.schema.get_field_index("ts")
    ts = rows["ts"].cast(pa.int64())
    span = ts[-1].as_py() - ts[0].as_py() + 1_000
    for number in itertools.count():
        later = pc.add(ts, number * span).cast(TIME)
        yield from rows.set_column(at, rows.schema.field(at), later).to_batches()


def _regrouped(blocks: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Cut and glue `blocks` into batches of `size` rows."""
    parts: list[pa.RecordBatch] = []
    missing = size
    for block in blocks:
        start = 0
        while block.num_rows - start >= missing:
            parts.append(block.slice(start, missing))
            start += missing
            yield _glued(parts)
            parts, missing = [], size
        if start < block.num_rows:
            parts.append(block.slice(start))
            missing -= block.num_rows - start
    if parts:
        yield _glued(parts)


def _glued(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]  # pyarrow 18 has no concat_batches
