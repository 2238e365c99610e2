"""A section of one operator whose sources are merged by a gate: rows are stored, and all workers read them in one order."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from headrace.gates import gate_modules
from headrace.gates.membership_kernel import (
    DATA_EVENT,
    LOST_WAKEUPS,
    READERS_WAITING,
    SOURCES_WAITING,
    SPACE_EVENT,
)
from headrace.gates.variants import source_kernels
from headrace.ingress.encode import Encoder
from headrace.ingress.store import Store
from headrace.kernel import compile_now
from headrace.memory.cells import read_cell
from headrace.memory.event_count import signal
from headrace.plan.nodes import Branch
from headrace.progress import END_OF_TIME
from headrace.runtime.collected_section import CollectedSection
from headrace.runtime.gate_inlet import GateInlet, GateSource
from headrace.workers import worker_kernel


class GatedSection(CollectedSection, Protocol):
    """A section of one operator: a gate, workers, result rings, a collector."""

    gate: Any
    """LogArrays or ScaleGateArrays."""
    kernels: ModuleType
    """Kernels of this gate."""
    sources: ModuleType
    """`source_kernel` of this gate."""
    inlets: Any
    """The `GateInlet` of each source, as made by `_inlet`."""

    def _progress(self) -> object:
        """A value that changes as long as the engine makes progress with what it was given."""
        ...

    def _open_gate(self, gate: str, sources: int, readers: int, capacity: int, bound_ns: int = 0, **of_a_log: int) -> None:
        """Allocate a gate of this kind, with the parameters of its `allocate`. Only a merged log takes a `lead` or `ranks`."""
        handle, self.kernels = gate_modules(gate)
        self.sources = source_kernels(gate)
        given = {name: value for name, value in of_a_log.items() if value}
        self.gate = handle.allocate(sources, readers, capacity, bound_ns=bound_ns, **given)

    def _inlet(
        self,
        number: int,
        branch: Branch,
        store: Store,
        note_keys: Callable[[np.ndarray], None] = lambda ids: None,
        **encoded: Any,
    ) -> GateInlet:
        """Make the inlet of a source; `encoded` are parameters of its `Encoder`."""

        def make_encoder(await_keys: Callable[[list[int]], bool]) -> Encoder:
            return Encoder(
                schema=branch.schema, event_time=branch.event_time, time_unit=branch.time_unit, source=branch.source,
                await_keys=await_keys, **encoded,
            )  # fmt: skip

        source = GateSource(self.gate, self.sources, number, self.arrays.words[worker_kernel.STOP :])
        return GateInlet(branch, source, store, make_encoder, self._progress, note_keys, lambda: self._run.is_giving())

    @property
    def stores(self) -> list[Store]:
        """Where the rows of each source are kept."""
        return [inlet.store for inlet in self.inlets]

    def compile_handles(self) -> None:
        super().compile_handles()
        for inlet in self.inlets:
            inlet.compile()
        compile_now(signal, (self.gate.words, 0, self.gate.event, 0))

    def release(self, watermark: int) -> None:
        """Free rows whose results are out."""
        for store in self.stores:
            store.release(watermark + 1 if watermark < END_OF_TIME else watermark)

    def stop(self) -> None:
        super().stop()
        signal(self.gate.words, READERS_WAITING, self.gate.event, DATA_EVENT)
        signal(self.gate.words, SOURCES_WAITING, self.gate.event, SPACE_EVENT)

    # -- what is measured

    def is_saturated(self) -> bool:
        """Whether its sources wait for room at present."""
        return read_cell(self.gate.words, SOURCES_WAITING) != 0

    def lost_wakeups(self) -> int:
        """Sleeps ended by the time-out although a wake-up was due; see `source_kernel` and `rings`."""
        return super().lost_wakeups() + read_cell(self.gate.words, LOST_WAKEUPS)


__all__ = ["GatedSection"]
