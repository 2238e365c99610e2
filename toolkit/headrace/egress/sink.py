"""What takes a query's results."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Sink(Protocol):
    """Takes results in order, from one thread."""

    def open(self, schema: pa.Schema) -> None:
        """Called once, before the first batch."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take the next rows. May block: that is back-pressure."""

    def close(self) -> None:
        """All rows were written: make them final."""

    def abort(self) -> None:
        """The run failed or was stopped: leave nothing that looks complete."""
