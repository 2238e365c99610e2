"""Where results go: memory (spilling to disk), Parquet, a function, nowhere."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.arguments import path_of
from headrace.egress.part_files import PartFile
from headrace.errors import OutputError
from headrace.expressions.rows import concat_batches
from headrace.ingress.input_errors import first_line, no_file_at

DEFAULT_SPILL_BYTES = 1 << 30
ROW_GROUP = 1 << 17
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class CollectSink:
    """Keep all results; beyond `spill_bytes` in a temporary Arrow file.

    They can be read while more are written, as a batch never changes. The file is unnamed from its first byte on, so that
    no other process can open it by name, and its space is freed when the process ends, in whatever way.
    """

    def __init__(self, spill_bytes: int = DEFAULT_SPILL_BYTES):
        self._limit = spill_bytes
        self._lock = threading.Lock()
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._spilled = 0  # batches in the file
        self._file: int | None = None  # to be read
        self._out: pa.NativeFile | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None
        self.schema: pa.Schema | None = None

    def open(self, schema: pa.Schema) -> None:
        self.schema = schema

    def write(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            self._batches.append(batch)
            self._bytes += batch.nbytes
            if self._bytes > self._limit:
                self._spill()

    def _spill(self) -> None:
        try:
            self._write_held()
        except OSError as error:
            raise OutputError(
                f"results of more than {self._limit:,} bytes are kept in a file in {tempfile.gettempdir()!r}, which cannot be"
                f" written ({reason_of(error)}); make room there, let TMPDIR name another folder, or give the results away as"
                f" they come: start(sink=hr.parquet(path))"
            ) from error

    def _write_held(self) -> None:
        if self._writer is None:
            self._file, name = tempfile.mkstemp(prefix="headrace-", suffix=".arrow")
            try:
                self._out = pa.OSFile(name, "wb")
            finally:
                os.unlink(name)
            # A stream, not a file with an index at its end: it can be read before it is finished.
            self._writer = pa.ipc.new_stream(self._out, self.schema)
        for batch in self._batches:
            self._writer.write_batch(batch)
        self._spilled += len(self._batches)
        self._batches, self._bytes = [], 0

    def close(self) -> None:
        with self._lock:
            if self._writer is not None:
                self._spill()
                self._writer.close()
                self._out.close()

    def abort(self) -> None:
        """Leave the results where they are, in memory or in the file: writing more may be what failed."""
        with self._lock:
            if self._out is not None:
                self._out.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield what has been written so far, in order."""
        with self._lock:
            spilled, rest, file = self._spilled, list(self._batches), self._file
        if spilled:
            # Batches are views of the mapped memory, and keep it alive.
            reader = pa.ipc.open_stream(pa.py_buffer(mmap.mmap(file, 0, access=mmap.ACCESS_READ)))
            for _ in range(spilled):
                yield reader.read_next_batch()
        yield from rest

    def table(self) -> pa.Table:
        """Return what has been written so far."""
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def __del__(self):
        if self._file is not None:
            os.close(self._file)


def reason_of(error: OSError) -> str:
    """Return the system's reason why a file cannot be written, without the text that Arrow puts around it.

    Examples
    --------
    >>> reason_of(OSError(28, "Error writing bytes to file. Detail: [errno 28] No space left on device"))
    'No space left on device'
    """
    return os.strerror(error.errno) if error.errno else first_line(error)


class ParquetSink:
    """Write one Parquet file, which appears under its name only when complete.

    A link is followed. The bytes depend only on the rows, not on how they were
    batched: row groups have a fixed number of rows.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = path_of("parquet", path)
        self._part = PartFile(path)
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def __repr__(self) -> str:
        return f"hr.parquet({str(self.path)!r})"

    def check(self) -> None:
        """Raise `OutputError` now if the file cannot be written."""
        try:
            if kind := no_file_at(self.path):
                raise OSError(f"it is {kind}")
            self._part.create()
            self._part.remove()
        except OSError as error:
            raise OutputError(
                f"output {str(self.path)!r} cannot be written ({error.strerror or error});"
                f" give a file in a directory that exists and is writable"
            ) from None

    def open(self, schema: pa.Schema) -> None:
        self.check()
        self._schema = schema
        check_parquet_types(schema)
        with self._writing():
            self._part.create()
            self._file = self._part.open()
        self._writer = pq.ParquetWriter(self._file, schema, compression="snappy")

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        while self._rows >= ROW_GROUP:
            table = pa.Table.from_batches(self._held, self._schema)
            self._write(table.slice(0, ROW_GROUP))
            rest = table.slice(ROW_GROUP)
            self._held, self._rows = rest.to_batches(), rest.num_rows

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            fix = "make room there, or give a file elsewhere" if error.errno in _NO_ROOM else "give a file elsewhere"
            raise OutputError(f"output {str(self.path)!r} cannot be written ({reason_of(error)}); {fix}") from error

    def _write(self, table: pa.Table) -> None:
        # One chunk, so that chunk borders cannot show in the file.
        try:
            whole = table.combine_chunks()
        except pa.ArrowException:  # what Arrow cannot put together
            whole = pa.Table.from_batches([concat_batches(table.to_batches())])
        with self._writing():
            self._writer.write_table(whole, row_group_size=ROW_GROUP)

    def close(self) -> None:
        self.complete()
        self.publish()

    def complete(self) -> None:
        """Write the remaining rows; the file has no name yet."""
        if self._rows:
            self._write(pa.Table.from_batches(self._held, self._schema))
        with self._writing():
            self._writer.close()
            self._file.close()

    def publish(self) -> None:
        """Give the complete file its name."""
        with self._writing():
            self._part.publish()

    def abort(self) -> None:
        for open_one in (self._writer, self._file):
            with suppress(OSError):  # a full disk, say: what cannot be written is thrown away in any case
                if open_one is not None:
                    open_one.close()
        self._part.remove()


def check_parquet_types(schema: pa.Schema) -> None:
    """Raise `OutputError` for a column that Arrow cannot write. Arrow is asked with values, as it refuses some only then."""
    for field in schema:
        if pa.types.is_primitive(field.type) and not pa.types.is_interval(field.type):
            continue
        try:
            pq.write_table(pa.table([pa.nulls(1, field.type)], names=["x"]), pa.BufferOutputStream())
        except pa.ArrowException as error:
            raise OutputError(
                f"column {field.name!r} of {field.type} cannot be written to Parquet ({first_line(error)});"
                f" cast it, or leave it out with select()"
            ) from None


class DiscardSink:
    """Count results and forget them."""

    def __init__(self):
        self.rows = 0

    def __repr__(self) -> str:
        return "hr.discard()"

    def open(self, schema: pa.Schema) -> None:
        pass

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


class FunctionSink:
    """Call a function with each batch of results, in order, from one thread."""

    def __init__(self, function: Callable[[pa.RecordBatch], object]):
        self.function = function

    def open(self, schema: pa.Schema) -> None:
        pass

    def write(self, batch: pa.RecordBatch) -> None:
        self.function(batch)

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


def parquet(path: str | os.PathLike[str]) -> ParquetSink:
    """Write results to one Parquet file, for ``start(sink=hr.parquet(path))``.

    The file appears under its name at the end of the run; files of several results (`together`) all appear then. A run
    that fails or is stopped leaves no new file, and an existing file of that name as it was. One whose process is killed
    leaves a hidden file beside it, ``.NAME.<digits>.part``, which the next run that writes the same file removes; those that
    a living process writes are locked, and stay.

    Parameters
    ----------
    path : path
        Its folder must exist: `start` raises `OutputError` if it does not, or cannot be written.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> table = pa.table({"ts": [1, 2]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with hr.stream(table, event_time="ts").forward().start(sink=hr.parquet(f"{folder}/out.parquet")) as run:
    ...         done = run.wait()
    ...     pq.read_table(f"{folder}/out.parquet").to_pydict()
    {'ts': [1, 2]}
    """
    return ParquetSink(path)


def discard() -> DiscardSink:
    """Discard results, for ``start(sink=hr.discard())`` in benchmarks and dashboards.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> per_window = hr.stream(pa.table({"ts": [1, 2]}), event_time="ts").window(10).aggregate(n=hr.count())
    >>> with per_window.start(sink=hr.discard()) as run:
    ...     ended = run.wait()
    >>> run.metrics().tuples_out
    1
    """
    return DiscardSink()
