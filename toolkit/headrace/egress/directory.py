"""Results as a growing directory of Parquet files, which others may follow while the run writes it.

A file appears under its name complete or not at all, and never changes after
that. Names are numbered in the order of the results, so reading the files in the
order of their names gives the result. ``_SUCCESS`` appears when the run has come to its
end and there will be no more files. ``spark.readStream`` can follow such a directory (it skips names that
begin with a dot), and so can anything else that lists it.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.arguments import is_number, is_whole_number, path_of
from headrace.egress.sinks import check_parquet_types, reason_of
from headrace.errors import OutputError, ParameterError

ROWS_PER_FILE = 1 << 20
SUCCESS = "_SUCCESS"
DIGITS = 9
"""Of the number of a file, with zeros before it, so that names sort in the order of the results."""


class DirectorySink:
    """Write results to numbered Parquet files, for ``start(sink=hr.parquet_directory(path))``.

    Parameters
    ----------
    path : path
        A directory that is empty or does not exist yet.
    every_s : float
        Results wait no longer than this for their file.
    rows_per_file : int
        A file is written as soon as there are this many rows for it, and has no more.
    """

    def __init__(self, path: str | os.PathLike[str], every_s: float = 1.0, rows_per_file: int = ROWS_PER_FILE):
        if not is_number(every_s) or not every_s > 0:
            raise ParameterError(f"every_s={every_s!r}: give seconds, above 0")
        if not is_whole_number(rows_per_file) or rows_per_file < 1:
            raise ParameterError(f"rows_per_file={rows_per_file!r}: give a whole number from 1")
        self.path, self.every_s, self.rows_per_file = path_of("parquet_directory", path), every_s, rows_per_file
        self.files = 0
        self._schema: pa.Schema | None = None
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._timer: threading.Thread | None = None
        self._error: Exception | None = None

    def __repr__(self) -> str:
        return f"hr.parquet_directory({str(self.path)!r})"

    def open(self, schema: pa.Schema) -> None:
        self._schema = schema
        check_parquet_types(schema)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            is_empty = not any(self.path.iterdir())
        except OSError as error:
            raise OutputError(
                f"output {str(self.path)!r} cannot be written ({error.strerror or error}); give another directory"
            ) from None
        if not is_empty:
            raise OutputError(f"output {str(self.path)!r} is not empty; give a directory that is, or a new one")
        self._timer = threading.Thread(target=self._keep_up, name="headrace-directory", daemon=True)
        self._timer.start()

    def write(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            if self._error is not None:
                raise self._error
            self._held.append(batch)
            self._rows += batch.num_rows
            while self._rows >= self.rows_per_file:
                self._write(self.rows_per_file)

    def close(self) -> None:
        self.complete()
        self.publish()

    def complete(self) -> None:
        """Write the remaining rows as the last file."""
        self._end()
        with self._lock:
            if self._error is not None:
                raise self._error
            self._write()

    def publish(self) -> None:
        """Write `_SUCCESS`: there will be no more files."""
        with self._lock:
            self._put(SUCCESS, lambda file: None)

    def abort(self) -> None:
        """Leave the published files, which are final. There will be no `_SUCCESS`."""
        self._end()

    def _end(self) -> None:
        self._over.set()
        if self._timer is not None and self._timer is not threading.current_thread():
            self._timer.join()

    def _keep_up(self) -> None:
        while not self._over.wait(self.every_s):
            with self._lock:
                try:
                    self._write()
                except Exception as error:
                    self._error = error  # the next write raises it
                    return

    def _temporary(self, name: str) -> Path:
        """Return a name that cannot be guessed: others may write to the directory, and could put links at names they know."""
        return self.path / f".{name}.{uuid.uuid4().hex}"

    def _write(self, most: int | None = None) -> None:
        """Write the rows held, or the first `most` of them, as the next file. The caller holds the lock."""
        if not self._rows:
            return
        table = pa.Table.from_batches(self._held, self._schema)
        self._put(f"part-{self.files:0{DIGITS}d}.parquet", lambda file: pq.write_table(table.slice(0, most), file))
        self.files += 1
        rest = table.slice(self._rows if most is None else most)
        self._held, self._rows = rest.to_batches(), rest.num_rows

    def _put(self, name: str, write: Callable[[BinaryIO], object]) -> None:
        """Make a file, which appears under its name when complete; if that fails, nothing of it is left. The caller locks."""
        temporary = self._temporary(name)
        try:
            with open(temporary, "xb") as file:
                write(file)
            os.replace(temporary, self.path / name)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise OutputError(
                f"output {str(self.path / name)!r} cannot be written ({reason_of(error)}); make room there: the files before it"
                f" are complete and stay"
            ) from error


def parquet_directory(
    path: str | os.PathLike[str], every_s: float = 1.0, rows_per_file: int = ROWS_PER_FILE
) -> DirectorySink:
    """Write results to a directory of Parquet files that grows while the run goes on, for ``start(sink=...)``.

    A file appears under its name when it is complete, so a streaming query can follow the directory.

    Parameters
    ----------
    path : str
        A directory that is empty or does not exist yet.
    every_s : float
        A file is closed after at most this many seconds.
    rows_per_file : int
        Most rows of a file, which is closed when it has them.

    Examples
    --------
    >>> query.start(sink=hr.parquet_directory("counts"))  # doctest: +SKIP
    >>> spark.readStream.schema(schema).parquet("counts")  # doctest: +SKIP
    """
    return DirectorySink(path, every_s, rows_per_file)
