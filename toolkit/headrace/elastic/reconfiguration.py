"""Reconfigure the elastic engine: place a configuration as a control record in the input gate; the workers do the rest.

A configuration is a row of the tables that the workers read (`arrays`). The
control record names the row; its position in the gate's order is the boundary
for all instances. The last of them to arrive installs the row (`epochs.install`),
and records the workers' load so far.

Source      STRETCH, section 7 and Algorithms 5 and 6.
Checked     tests/headrace/elastic
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from headrace.changes import Capabilities, Control
from headrace.elastic import epochs, words
from headrace.elastic.arrays import InstanceArrays
from headrace.elastic.configuration import Configuration, resolve, write_configuration
from headrace.elastic.spread import Spread
from headrace.kernel import compile_now
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.runtime.configuration_rows import ConfigurationRows
from headrace.workers.worker_kernel import BEFORE


class Reconfiguration(ConfigurationRows):
    """Changes of an operator of the elastic engine: a `headrace.runtime.steerable.Steerable`.

    Parameters
    ----------
    arrays : InstanceArrays
        Configuration rows 0 to `planned` are in use already.
    gate : LogArrays or ScaleGateArrays
        Where control records are placed: the input gate, or that of the operator before (`routed`).
    gate_kernels : module
        The gate's kernels: `merged_log_kernel` or `scalegate_kernel`.
    max_threads : int
    initial : Configuration
        Row 0.
    planned : sequence of (tuple count, Configuration)
        Rows 1, 2, ...
    transfer_of : callable, optional
        Gives the size of the state moved at an epoch, and the time that took: (bytes, ns).
    """

    def __init__(
        self,
        arrays: InstanceArrays,
        gate: Any,
        gate_kernels: ModuleType,
        max_threads: int,
        initial: Configuration,
        planned: Sequence[tuple[int, Configuration]],
        transfer_of: Callable[[int], tuple[int, int]] | None = None,
    ):
        super().__init__(arrays, words.CONFIG, words.EPOCH, CELL, initial, planned)
        self.max_threads = max_threads
        self.capabilities = Capabilities(
            {
                "threads": Control("count", "active instances", 1, max_threads),
                "mapping": Control("mapping", "which instance owns which keys"),
            }
        )
        self._gate, self._kernels = gate, gate_kernels
        self._written: tuple[int, Configuration] | None = None
        """A row that is written, but whose control record has found no room yet."""
        self._transfer_of = transfer_of
        self._spread = Spread()
        self._spread_lock = threading.RLock()
        self._loads_seen = 0

    def compile(self) -> None:
        """Compile the kernel that places a change."""
        compile_now(self._kernels.control, (self._gate, 0))

    def resolve(self, requested: Mapping[str, Any], newest: Configuration) -> Configuration:
        """Complete a request (``threads``, ``mapping``) with what the newest known configuration has."""
        return resolve(requested.get("threads"), requested.get("mapping"), newest, self.max_threads)

    def describe(self, configuration: Configuration) -> dict[str, Any]:
        """The value of each control."""
        members = configuration.members
        return {"threads": len(members), "members": members, "mapping": configuration.mapping}

    def effects(self, before: Configuration, after: Configuration) -> dict[str, int]:
        """How many key buckets change owner; what is transferred is known only once the change is complete."""
        moved = before.mapping.differing(after.mapping)
        return {"buckets_moved": moved, "transferred_bytes": 0, "transferred_ns": 0}

    def place(self, target: Configuration) -> int | None:
        """Put a control record for a configuration into the gate. Returns its row; None if there is no room now."""
        if self._written is None or self._written[1] is not target:
            self._note_loads()  # before the row of an older configuration is overwritten
            self._written = self._put(target), target
        row = self._written[0]
        if not self._place(row):
            return None
        self._written = None
        return row

    def _place(self, row: int) -> bool:
        """Put the control record of a row into the gate, if there is room now."""
        return self._kernels.control(self._gate, row) != 0

    def _write(self, row: int, configuration: Configuration) -> None:
        write_configuration(self._arrays, row, configuration)

    def _moved_at(self, change: int) -> dict[str, int]:
        """The state that shared-nothing instances transferred at an epoch."""
        moved, ns = self._transfer_of(change) if self._transfer_of else (0, 0)
        return {"transferred_bytes": moved, "transferred_ns": ns}

    def await_completion(self, timeout_ns: int) -> None:
        """Sleep until the next epoch is complete, an instance finishes, the run stops, or `timeout_ns` have passed."""
        epochs.watch(self._arrays, self._changes_seen + 1, timeout_ns)

    # -- how evenly load is shared

    def imbalance(self, load: np.ndarray) -> tuple[float, float]:
        """Coefficient of variation and max/mean of the load so far, int64[workers]; see `Spread`."""
        with self._spread_lock:
            self._note_loads()
            return self._spread.with_present(load, self.current.members)

    def _note_loads(self) -> None:
        """Add the load at each epoch so far to the spread."""
        arrays = self._arrays
        with self._spread_lock:
            while read_cell(arrays.words, words.EPOCH) > self._loads_seen:
                self._loads_seen += 1
                ring = self._loads_seen % arrays.met_at.size
                members = np.flatnonzero(arrays.member[int(arrays.installed[ring, BEFORE])])
                self._spread.close(arrays.load_at[ring].copy(), members)
