"""The way into an operator: from a source's thread, or from the operator before it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headrace.engine.player import Player
from headrace.gates.store import Store
from headrace.ingress.encode import EncodedBatch, Encoder
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell, read_cells
from headrace.operators import membership
from headrace.query import Branch

if TYPE_CHECKING:
    from headrace.engine.operator import Operator

_KEYS_WAIT_S = 1.0
"""Keys expire so soon after the last tuple was processed, if they do: results are collected every few milliseconds."""
_PACE_WAIT_S = 0.02
_PACE_S = 500e-6
"""A paced source sleeps at least so long: waking for each of 42,000 tuples/s takes a quarter of a core."""


class Stopped(Exception):
    """Ends a helper thread of a run that is stopping."""


class Port:
    """One source of an operator's gate: steps, encoding, the store, back-pressure."""

    def __init__(self, operator: Operator, source: int, branch: Branch):
        self._operator, self.source, self.branch = operator, source, branch
        program = operator.program
        self._steps = [step.for_run(operator.control.words, operator.options.debug) for step in branch.steps]
        self.encoder = Encoder(
            schema=branch.schema,
            event_time=branch.event_time,
            keys=program.keys_of(branch.side),
            dictionary=operator.dictionary,
            values=program.values_of(branch.side),
            narrow_values=program.narrow_values_of(branch.side),
            forms=program.forms_of(branch.side),
            texts=program.texts,
            carry=program.carried_of(branch.side),
            time_unit=branch.time_unit,
            window_size=max(program.retention, program.window_size),
            nulls=program.nulls,
            equal_columns=program.equal_columns_of(branch.side),
            no_key=-1 - branch.side,  # a left tuple without a key equals no right one without
            source=branch.source,
            time_value=program.time_value,
            await_keys=self._await_keys,
        )
        self.store = Store(
            program.columns_of(branch.side), program.multi_key_of(branch.side), operator.directories[source]
        )
        self._stop_word = operator.control.words[membership.STOP :]
        self.added = 0
        self.adding = 0  # at most so many more are in the gate already
        self.filtered = 0
        self.gained = 0
        self.giver: Any = None
        """What gives it rows, and counts them: the source's threads, or the collector of the operator before."""
        self.first_ts: int | None = None
        self.player = Player(None)
        self._reached: int | None = None

    # -- as the consumer of an upstream operator

    def write(self, batch: pa.RecordBatch) -> None:
        """Take an ordered batch; blocks while the gate is full."""
        for encoded in self.encode(batch):
            self.feed(encoded)

    def progress(self, watermark: int) -> None:
        """Nothing with ts <= `watermark` will follow."""
        self.heartbeat(watermark + 1)

    def close(self) -> None:
        """End of this source."""
        operator = self._operator
        self._reached = self.mark
        while not operator.sources.close_or_wait(operator.gate, self.source, self._stop_word):
            self._go_on()

    # -- pieces

    def encode(self, batch: pa.RecordBatch, ts: np.ndarray | None = None) -> Iterable[EncodedBatch]:
        """Apply the branch's steps and encode."""
        rows = batch.num_rows
        for step in self._steps:
            batch = step.apply(batch)
        if self._steps:
            # flat_map may give more than it takes
            self.filtered += max(0, rows - batch.num_rows)
            self.gained += max(0, batch.num_rows - rows)
            ts = None
        return self.encoder.encode(batch, ts)

    def feed(self, encoded: EncodedBatch) -> None:
        """Store rows and add them to the gate; blocks while it is full."""
        operator = self._operator
        operator.note_ids()
        operator.program.note_keys(encoded.keys)
        first = self.store.append(
            encoded.ts, encoded.keys, encoded.offsets, encoded.columns, encoded.payload
        )
        count, done = len(encoded), 0
        if self.first_ts is None and count:
            self.first_ts = int(encoded.ts[0])
        self.player.begin()
        while done < count:
            until = self._allowed(encoded.ts, done)
            self.adding = until - done
            taken = operator.sources.add_or_wait(
                operator.gate, self.source, encoded.ts, done, until - done, first + done, self._stop_word
            )
            done += taken
            self.added += taken
            self.adding = 0
            if taken == 0:
                self._go_on()

    def _allowed(self, ts: np.ndarray, done: int) -> int:
        """Pace: how far into the batch the schedule has come; waits for at least one tuple."""
        while True:
            due, wait_s = self.player.due(self.added, ts, done)
            if due > 0:
                return done + due
            self._go_on()
            time.sleep(min(_PACE_WAIT_S, max(_PACE_S, wait_s)))

    @property
    def arrived(self) -> int | None:
        """Rows its giver has given; None without one."""
        return None if self.giver is None else self.giver.rows

    def late_rows(self, policy: str) -> int:
        """Rows of its source that were late and met with this policy."""
        node = getattr(self.giver, "node", None)
        return self.giver.late_rows if node is not None and node.late == policy else 0

    @property
    def is_closed(self) -> bool:
        """The source has ended."""
        return self._reached is not None

    @property
    def behind(self) -> int:
        """Tuples that the schedule says should have been added by now and that wait for room."""
        return self.player.behind(self.added)

    def heartbeat(self, ts: int) -> None:
        """Promise that no later tuple is earlier than `ts`."""
        operator = self._operator
        while not operator.sources.heartbeat_or_wait(operator.gate, self.source, ts, self._stop_word):
            self._go_on()

    def _go_on(self) -> None:
        if self._operator.is_stopped:
            raise Stopped

    def _await_keys(self, horizons: list[int]) -> bool:
        """Wait until keys may have expired; False if all that was encoded has been processed and none did."""
        operator, progress = self._operator, None
        since = time.monotonic()
        while not operator.is_stopped:
            if [dictionary.horizon for dictionary in self.encoder.dictionaries] != horizons:
                return True
            now = [port.added for port in operator.ports], read_cells(operator.control.meter, 1)[:, membership.PASSED].tolist()
            if now != progress or self.added < self.encoder.counters.rows:
                progress, since = now, time.monotonic()
            elif time.monotonic() - since > _KEYS_WAIT_S:
                return False
            time.sleep(_PACE_S)
        raise Stopped

    @property
    def reached(self) -> int:
        """The promise of this source; after its end the last one before that."""
        return self.mark if self._reached is None else self._reached

    @property
    def mark(self) -> int:
        """The promise of this source."""
        return read_cell(self._operator.gate.mark, self.source * CELL)
