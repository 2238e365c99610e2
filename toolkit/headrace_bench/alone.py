"""Runs the workers of one operator without a run around it: provides what the operator's section expects of a run."""

from __future__ import annotations

from typing import Any

from headrace.memory.cells import padded_cells, publish_cell
from headrace.workers.pool import WorkerPool


class Alone:
    """Stands in for the run of one operator, and owns its worker threads.

    Attributes
    ----------
    stop_word : int64[...]
        0 until `end`: while it is 0, failures of a user's function are explained.
    """

    def __init__(self) -> None:
        self._errors: list[BaseException] = []
        self._pool = WorkerPool(self._errors.append)
        self.stop_word = padded_cells(1)

    @property
    def has_failed(self) -> bool:
        """Whether a thread has raised an exception."""
        return bool(self._errors)

    def end(self, section: Any) -> None:
        """Stop the workers, and wait for them."""
        publish_cell(self.stop_word, 0, 1)
        section.stop()
        self._pool.wait(2.0)

    def fail(self, error: BaseException) -> None:
        """Keep the error."""
        self._errors.append(error)

    def section_finished(self, section: Any) -> None:
        """Nothing to do: the thread that waits for the workers finds out by itself."""


__all__ = ["Alone"]
