"""The log of results up to each checkpoint of a run: one file, which only grows.

A checkpoint records how many bytes of the file belong to it, and their checksum. Anything after these bytes came out later
and does not belong to it: a run that resumes truncates the file there before it writes on. So results and state
are committed together, by the rename of one file (`folder`).

The file is a sequence of Arrow streams, one for each checkpoint that has results.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from headrace.checkpoints.folder import cannot_write
from headrace.errors import CheckpointError

NAME = "results.arrows"
_PIECE = 1 << 20


@dataclass(frozen=True)
class Mark:
    """The position in the log up to which results belong to a checkpoint.

    Parameters
    ----------
    rows, bytes : int
    sha256 : str
        Checksum of these bytes.
    """

    rows: int = 0
    bytes: int = 0
    sha256: str = hashlib.sha256().hexdigest()

    def as_values(self) -> dict[str, Any]:
        """Return the mark as a dict for JSON."""
        return asdict(self)


class ResultsLog:
    """Writes the log.

    Parameters
    ----------
    folder : path
    schema : pa.Schema
        Schema of the results.
    """

    def __init__(self, folder: Path, schema: pa.Schema):
        self.path, self._schema = folder / NAME, schema
        self._digest = hashlib.sha256()
        self._rows = self._bytes = 0
        self._file: BinaryIO | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def begin(self, after: Mark | None = None, of: Path | None = None) -> None:
        """Begin the file; or go on after the results of a checkpoint, from this folder or from that of another run."""
        try:
            if after is not None and of is not None and after.bytes and not os.path.samefile(of, self.path.parent):
                shutil.copyfile(of / NAME, self.path)
            goes_on = after is not None and after.bytes > 0
            self._file = open(self.path, "r+b" if goes_on else "wb")  # noqa: SIM115 - `end` closes it
            if after is not None and goes_on:
                for piece in _pieces(self._file, after.bytes):
                    self._digest.update(piece)
                self._file.truncate(after.bytes)
                self._rows, self._bytes = after.rows, after.bytes
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Add results, which are not yet on disk when this returns."""
        try:
            if self._writer is None:
                self._writer = pa.ipc.new_stream(pa.PythonFile(_Counted(self), "w"), self._schema)
            self._writer.write_batch(batch)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._rows += batch.num_rows

    def mark(self) -> Mark:
        """Return the present end of the log."""
        try:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
        except OSError as error:
            raise cannot_write(self.path, error) from error
        return Mark(self._rows, self._bytes, self._digest.hexdigest())

    def flush(self) -> None:
        """Make sure that everything written so far is on disk."""
        assert self._file is not None
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def end(self) -> None:
        """Close the file; an error is ignored, since only results up to the last mark count."""
        if self._file is not None:
            with suppress(OSError):  # a full disk, which was reported before
                self._file.close()
            self._file = None

    def _put(self, data: Any) -> int:
        assert self._file is not None
        self._file.write(data)
        self._digest.update(data)
        self._bytes += len(data)
        return len(data)


class _Counted:
    """The file object that Arrow writes to; it counts what is written."""

    closed = False

    def __init__(self, log: ResultsLog):
        self._log, self._at = log, 0

    def write(self, data: Any) -> int:
        self._at += len(data)
        return self._log._put(data)

    def tell(self) -> int:
        return self._at

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def read_results(folder: Path, upto: Mark, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the results that a checkpoint refers to, after verifying that all are there.

    Raises
    ------
    CheckpointError
        They are missing or damaged, or have other columns.
    """
    path = folder / NAME
    if not upto.bytes:
        return
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            for piece in _pieces(file, upto.bytes):
                digest.update(piece)
    except OSError as error:
        raise CheckpointError(f"results {str(path)!r} of a checkpoint cannot be read ({error.strerror}); {_FIX}") from None
    if digest.hexdigest() != upto.sha256:
        raise CheckpointError(
            f"results {str(path)!r} of a checkpoint are damaged: the first {upto.bytes:,} bytes are not those written; {_FIX}"
        )
    with pa.OSFile(str(path), "rb") as file:
        while file.tell() < upto.bytes:
            stream = pa.ipc.open_stream(file)
            if not stream.schema.equals(schema):
                raise CheckpointError(
                    f"results {str(path)!r} have the columns {', '.join(stream.schema.names)}, and this run gives"
                    f" {', '.join(schema.names)}; resume the query that was started"
                )
            yield from stream


def _pieces(file: BinaryIO, count: int) -> Iterator[bytes]:
    while count and (piece := file.read(min(_PIECE, count))):
        count -= len(piece)
        yield piece


_FIX = "resume from an older checkpoint, if it needs fewer of them, or start without resume to begin again"

__all__ = ["Mark", "ResultsLog", "read_results"]
