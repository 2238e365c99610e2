"""Sinks, which take a query's results."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa


class Sink(Protocol):
    """Takes results in order, called by one thread."""

    def open(self, schema: pa.Schema) -> None:
        """Called once, before the first batch."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take the next rows. May block: that is back-pressure."""

    def close(self) -> None:
        """Make the rows final: all were written. Other results of the run may go on, and fail."""

    def abort(self) -> None:
        """Leave nothing that looks complete: the run failed or was stopped."""


@runtime_checkable
class PublishedSink(Sink, Protocol):
    """A sink that makes its rows final in two steps, so that several results of a run appear together or not at all.

    A run calls `complete` and `publish` instead of `close`; a user's own sink may have them, too.
    """

    def complete(self) -> None:
        """Do what may fail: all rows were written. `abort` may follow."""

    def publish(self) -> None:
        """Make the rows visible: all results of the run are complete."""
