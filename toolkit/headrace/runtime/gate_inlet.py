"""An inlet that is a source of a gate: its rows are encoded, stored, and merged with those of other inlets in one order.

For every engine that reads several sources in one order, with one reader or many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.ingress.encode import EncodedBatch, Encoder
from headrace.ingress.key_tables import KeyLimitError
from headrace.ingress.store import Store
from headrace.kernel import compile_now
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.plan.nodes import Branch
from headrace.runtime.feeding import Stopped
from headrace.runtime.inlets import Books

_RETRY_S = 500e-6
_KEYS_LOOKS = 2_000
"""Keys that can expire do so within so many looks, a second, after the last tuple is processed: results are collected every few
milliseconds. Looks count, not the clock: while the whole process is suspended, no key expires."""


@dataclass(frozen=True)
class GateSource:
    """A source of a gate, and its kernels.

    Parameters
    ----------
    gate : LogArrays or ScaleGateArrays
    kernels : module
        `source_kernel` of this gate.
    number : int
    stop_word : int64[...]
        Word 0 is not 0 once no thread may sleep any more.
    """

    gate: Any
    kernels: ModuleType
    number: int
    stop_word: np.ndarray


class GateInlet:
    """One source of a gate: a `headrace.runtime.inlets.Inlet`.

    Parameters
    ----------
    branch : Branch
    source : GateSource
    store : Store
        Where its rows are kept for as long as the engine needs them.
    make_encoder : callable
        ``make_encoder(await_keys)`` returns the `Encoder` of the branch; `await_keys` is its argument of that name.
    progress : callable
        Returns a value that changes as long as the engine makes progress with what it was given.
    note_keys : callable
        Called with encoded keys, int32[n], before rows with them are published.
    is_giving : callable
        Returns whether a sink is taking results at present; keys may expire once it has taken them.
    """

    def __init__(
        self,
        branch: Branch,
        source: GateSource,
        store: Store,
        make_encoder: Callable[[Callable[[list[int]], bool]], Encoder],
        progress: Callable[[], object],
        note_keys: Callable[[np.ndarray], None],
        is_giving: Callable[[], bool] = lambda: False,
    ):
        self.branch, self.number, self.store = branch, source.number, store
        self.books = Books()
        self._source, self._progress, self._note_keys, self._is_giving = source, progress, note_keys, is_giving
        self.encoder = make_encoder(self._await_keys)
        self.columns_used: Sequence[str] = self.encoder.columns_used
        self.codable: Sequence[str] = self.encoder.codable
        self.retention = self.encoder.window_size
        self._first_row = 0
        self.latest_keys = np.empty(0, np.int32)
        """int32[k]: encoded keys of the rows that came last."""

    def compile(self) -> None:
        """Compile the gate's kernels that it calls; they are the same for all sources of a gate."""
        kernels, gate, stop, zero = self._source.kernels, self._source.gate, self._source.stop_word, 0
        times = np.zeros(1, np.int64)
        for function, arguments in (
            (kernels.add, (gate, zero, times, zero, zero, zero)),
            (kernels.add_in_turn, (gate, zero, times, zero, zero, zero, stop)),
            (kernels.heartbeat_or_wait, (gate, zero, zero, stop)),
            (kernels.close_or_wait, (gate, zero, stop)),
        ):
            compile_now(function, arguments)

    def let_go(self) -> None:
        """Cut the references back to it and to its section, once nothing comes in and nothing is measured any more."""
        vars(self.books).clear()
        for name in ("encoder", "_progress", "_note_keys", "_is_giving"):
            vars(self).pop(name, None)

    def encode(self, batch: pa.RecordBatch, ts: np.ndarray | None = None) -> Iterable[EncodedBatch]:
        """Turn rows into columns of numbers."""
        return self.encoder.encode(batch, ts)

    def hold(self, piece: EncodedBatch) -> None:
        """Store rows."""
        while True:
            horizons = [dictionary.horizon for dictionary in self.encoder.dictionaries]
            try:
                self._note_keys(piece.keys)
                break
            except KeyLimitError:  # of the engine's own tables of keys
                if not self._await_horizon(horizons, lambda: False):
                    raise
        self.latest_keys = piece.keys
        self._first_row = self.store.append(
            piece.ts, piece.keys, piece.offsets, piece.columns, piece.payload, piece.elements
        )

    def offer(self, ts: np.ndarray, start: int, stop: int, patient: bool) -> int:
        """Give rows of the held piece to the gate; returns how many it took."""
        s, first, count = self._source, self._first_row + start, stop - start
        if patient:
            return s.kernels.add_in_turn(s.gate, s.number, ts, start, count, first, s.stop_word)
        return s.kernels.add(s.gate, s.number, ts, start, count, first)

    def promise(self, ts: int, patient: bool) -> bool:
        """No later tuple will be earlier than `ts`."""
        s = self._source
        if patient:
            return bool(s.kernels.heartbeat_or_wait(s.gate, s.number, ts, s.stop_word))
        return bool(s.kernels.heartbeat(s.gate, s.number, ts))

    def close(self, patient: bool) -> bool:
        """No tuple will follow."""
        s = self._source
        if patient:
            return bool(s.kernels.close_or_wait(s.gate, s.number, s.stop_word))
        return bool(s.kernels.close_source(s.gate, s.number))

    @property
    def null_keys(self) -> int:
        """Null keys that were ignored."""
        return self.encoder.counters.null_keys

    @property
    def mark(self) -> int:
        """The promise in force."""
        return read_cell(self._source.gate.mark, self.number * CELL)

    def _await_keys(self, horizons: list[int]) -> bool:
        """Wait until keys may have expired; False if all encoded rows were processed and none expired."""
        return self._await_horizon(horizons, lambda: self.books.added < self.encoder.counters.rows)

    def _await_horizon(self, horizons: list[int], will_follow: Callable[[], bool]) -> bool:
        """Wait until a horizon moves; False if the engine makes no more progress and no rows will follow by themselves."""
        progress, looks = None, 0
        while not read_cell(self._source.stop_word, 0):
            if [dictionary.horizon for dictionary in self.encoder.dictionaries] != horizons:
                return True
            now = self._progress()
            if now != progress or will_follow() or self._is_giving():
                progress, looks = now, 0
            elif looks == _KEYS_LOOKS:
                return False
            looks += 1
            time.sleep(_RETRY_S)
        raise Stopped
