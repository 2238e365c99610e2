"""Runs the workers of one operator without a run: provides what the operator's section expects of a run, and its input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

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


def store_rows(inlet: Any, table: pa.Table) -> np.ndarray:
    """Encode all rows of a table into an inlet's store. Returns their event times."""
    times = [np.zeros(0, np.int64)]
    for batch in table.to_batches():
        for step in inlet.branch.steps:
            batch = step.apply(batch)
        for piece in inlet.encode(batch):
            inlet.hold(piece)
            times.append(piece.ts)
    return np.concatenate(times)


def fill_gate(section: Any, ts: np.ndarray) -> None:
    """Add all tuples of the operator's only source to its gate, and the end of the input."""
    done = 0
    while done < len(ts):
        taken = section.sources.add(section.gate, 0, ts, done, len(ts) - done, done)
        assert taken > 0, "the gate does not take all tuples"
        done += taken
    assert section.sources.close_source(section.gate, 0), "the gate does not take the end of the input"


__all__ = ["Alone", "fill_gate", "store_rows"]
