"""What takes a query's results."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa


class Sink(Protocol):
    """Takes results in order, from one thread."""

    def open(self, schema: pa.Schema) -> None:
        """Called once, before the first batch."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take the next rows. May block: that is back-pressure."""

    def close(self) -> None:
        """All rows were written: make them final. Other results of the run may go on, and fail."""

    def abort(self) -> None:
        """The run failed or was stopped: leave nothing that looks complete."""


@runtime_checkable
class PublishedSink(Sink, Protocol):
    """A sink that makes its rows final in two steps, so that several results of a run appear together or not at all.

    A run calls these instead of `close`; a sink of the user's own may have them, too.
    """

    def complete(self) -> None:
        """All rows were written: do what may fail. `abort` may follow."""

    def publish(self) -> None:
        """All results of the run are complete: let them be seen."""
