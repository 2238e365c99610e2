"""What the engines ask of a source of batches and of a sink for results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa


class Source(Protocol):
    """Gives record batches of one schema, in order, and stops when told to."""

    schema: pa.Schema

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...

    def close(self) -> None:
        """Release what the source holds. May be called from another thread, and twice."""


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


@runtime_checkable
class Run(Protocol):
    """A started program of any engine. A control an engine lacks raises `NotSupportedError`."""

    @property
    def threads(self) -> int: ...

    @property
    def capabilities(self) -> frozenset[str]:
        """What `reconfigure` and the dashboard may ask for: "threads", "mapping"."""
        ...

    @property
    def state(self) -> str:
        """running, finished, failed or stopped."""
        ...

    def reconfigure(self, threads: int | None = None, mapping: Any = None) -> Any: ...

    def metrics(self) -> Any: ...

    def wait(self, timeout: float | None = None) -> bool: ...

    def stop(self) -> None: ...
