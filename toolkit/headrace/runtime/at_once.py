"""Reconfiguring an engine whose workers read the configuration before each unit of work: it is in force once installed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.kernel import compile_now
from headrace.runtime.configuration_rows import ConfigurationRows
from headrace.workers.changes_kernel import CHANGE, CONFIG, install

_LOOK_S = 1e-3


class AtOnce(ConfigurationRows):
    """The part of `headrace.runtime.steerable.Steerable` that such engines share; each adds which changes it accepts.

    Parameters
    ----------
    arrays : bundle
        With the fields that `headrace.workers.changes_kernel` names. Rows 0 to ``len(planned)`` are in use already.
    initial : configuration
        Row 0.
    planned : sequence of (row of the input, configuration)
        Rows 1, 2, ...
    """

    def __init__(self, arrays: Any, initial: Any, planned: Sequence[tuple[int, Any]]):
        super().__init__(arrays, CONFIG, CHANGE, 1, initial, planned)

    def effects(self, before: Any, after: Any) -> dict[str, int]:
        """Nothing moves: states stay where they are."""
        return {"transferred_bytes": 0, "transferred_ns": 0}

    def place(self, target: Any) -> int | None:
        """Put the configuration into force. Returns its row."""
        row = self._put(target)
        install(self._arrays, row)
        return row

    def await_completion(self, timeout_ns: int) -> None:
        """Wait for a moment: requests are complete at once, and planned changes complete when their row is reached."""
        time.sleep(min(timeout_ns / 1e9, _LOOK_S))

    def compile(self) -> None:
        """Compile the functions that Python calls while the stream runs."""
        compile_now(install, (self._arrays, 0))


__all__ = ["AtOnce"]
