"""A transactional operator over events that are already in its gate: executors without ingress and without a collector.

All events are encoded, stored and added to the gate before the clock starts, and the rings have room for all results.
So only the executors run, from the punctuation that releases them to the one that finds the end of the input. The rows and
tables that they produced are hashed afterwards.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.egress import rings
from headrace.errors import ParameterError
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell, read_cells, touch
from headrace.transactions import arrays, words
from headrace.transactions.build import Built
from headrace.transactions.measures import BREAKDOWN
from headrace.transactions.options import TransactionOptions
from headrace.transactions.phases_kernel import ask_pause, end_pause, watch_pause
from headrace.transactions.results import RING_MASK
from headrace.transactions.skip_chains_kernel import LEVELS
from headrace.workers import worker_kernel
from headrace_bench.alone import Alone, fill_gate, store_rows

MOST_EVENTS = 240_000
"""Number of events that the gate and the rings hold without being emptied."""
TIMEOUT_S = 300.0
_NO_PAUSE = -1
"""A ticket that no pause has: with it, `watch_pause` sleeps until the input has ended, the run stops, or its time is up.

The executors' word keeps the ticket of the last pause. With that ticket `watch_pause` would return at once, and `run` would
spin on a core that the executors need.
"""


class Executed(Alone):
    """One run of a transactional operator whose events are in the gate when it starts.

    Parameters
    ----------
    stream : Stream
        Has one source, and ends in the operator.
    table : pa.Table
        Its events, at most `MOST_EVENTS`.
    like : Executed, optional
        A run of the same stream and table: its stores are used, and nothing is encoded again.
    built : callable
        Makes the executors' loop.
    **options
        As for `start`.

    Attributes
    ----------
    seconds : float
        From the first punctuation to the last.
    content : str
        Hash of rows and tables.
    breakdown : dict of str to float
        The share of each part of `measures.BREAKDOWN` in the time of all executors.
    rejected : int
    """

    def __init__(self, stream: Any, table: pa.Table, *, like: Executed | None = None, built: Any = Built, **options: Any):
        if table.num_rows > MOST_EVENTS:
            raise ParameterError(f"{table.num_rows} events: give at most {MOST_EVENTS}")
        query = stream.plan()
        node = query.output
        self.rows = table.num_rows
        super().__init__()
        settings = TransactionOptions(None, unsafe=True, **{"max_threads": options.get("threads", 1), **options})
        self.operator = operator = node.spec.section(node, query.branches[node.name], settings)
        operator.built = built
        capacity = 1 << max(8, (table.num_rows - 1).bit_length())
        operator.out = rings.allocate(operator.max_threads, capacity, operator.arrays.meter)
        operator.state = operator.compiled.allocate(capacity, operator.arrays.sets.size)
        arrays.activate(operator.arrays, operator.out)
        if like is None:
            (inlet,) = operator.inlets
            self.ts, self._store = store_rows(inlet, table), inlet.store
        else:
            self.ts = like.ts
            operator.directories = like.operator.directories
            self._store = like._store  # keeps alive what the directories point into
        self._touch()
        operator.prepare((), self, is_last=True)
        fill_gate(operator, self.ts)

    def _touch(self) -> None:
        """Touch the pages that the executors write, so that no run, some milliseconds long, has to fault them in."""
        out, c = self.operator.out, self.operator.arrays
        columns = [getattr(self.operator.state, name) for name in self.operator.compiled.result_fields]
        for ring in (out.primary, out.a, out.b, out.at, *columns):
            touch(ring)
        batch = max(1, int(c.rows[0, words.PUNCTUATION]))
        for array in (c.refs, c.tss, c.ats, c.places, c.set_at, c.set_size, c.pending, c.order):
            touch(array[:batch])
        for array in (c.locks, c.tails, c.heads, c.links[: LEVELS * c.heads.size]):
            touch(array)
        threads = int(c.rows[0, words.THREADS])
        for me in range(threads):
            touch(c.fingers[me])
        parts = [(array, 16) for array in (c.sets, c.event_of, c.link, c.link_2, c.entries)]
        parts += [(c.nodes, 64), (c.links[LEVELS * c.heads.size :], 16 * LEVELS)]
        for array, count in parts:
            for me in range(threads):  # each thread has its own part
                touch(array[array.size * me // threads :][: count * batch])

    # -- a run

    def run(self) -> Executed:
        """Execute all events, check that none is missing, hash the results, and end all threads."""
        c = self.operator.arrays
        self.operator.set_spins(worker_kernel.spins_for(self.operator.active))
        try:
            ticket = ask_pause(c)
            for task in self.operator.tasks()[: self.operator.max_threads]:
                self._pool.start(task.name, task.body)
            self._await(lambda: read_cell(c.words, words.PAUSED) == ticket, ticket)
            begin = time.perf_counter()
            end_pause(c, ticket)
            self._await(lambda: bool(read_cell(c.words, words.OVER)), _NO_PAUSE)
            self.seconds = time.perf_counter() - begin
        finally:
            self.end(self.operator)
        self._look()
        return self

    def _await(self, is_so: Callable[[], bool], ticket: int) -> None:
        limit = time.monotonic() + TIMEOUT_S
        while not is_so():
            watch_pause(self.operator.arrays, ticket, 50_000_000)
            error = self._errors[0] if self._errors else self.operator.failure()
            if error is not None:
                raise error
            assert time.monotonic() < limit, f"the executors did not come to an end within {TIMEOUT_S:.0f} s"

    def _look(self) -> None:
        """Check and hash the results of the events, and read the meters."""
        out, state, compiled = self.operator.out, self.operator.state, self.operator.compiled
        assert read_cell(self.operator.arrays.words, words.SEEN) == self.rows, "events were lost"
        heads = [read_cell(out.head, r * CELL) for r in range(self.operator.max_threads)]
        assert sum(heads) == self.rows, f"{sum(heads)} rows of {self.rows} events"
        order = np.argsort(_joined(out.primary, heads))
        mask = _joined(getattr(state, RING_MASK), heads)[order]
        columns = [_joined(out.b, heads)[order], mask]
        for number, name in enumerate(compiled.result_fields[1:]):
            values = _joined(getattr(state, name), heads)[order]
            columns.append(np.where(mask >> (number + 2) & 1, values, 0))
        self.rejected = int((mask & 1).sum())
        memory = compiled.memory
        self.content = hash_of(columns, map(memory.content, memory.tables))
        meter = read_cells(self.operator.arrays.meter, 1)
        busy, lock = meter[:, worker_kernel.BUSY_NS].sum(), meter[:, words.LOCK_NS].sum()
        barrier, other = meter[:, worker_kernel.BARRIER_NS].sum(), (meter[:, words.PREPARE_NS] + meter[:, words.POST_NS]).sum()
        whole = max(1, busy + barrier)
        parts = (max(0, busy - lock - other), barrier, lock, other)
        self.breakdown = {part.label: float(ns / whole) for part, ns in zip(BREAKDOWN, parts, strict=True)}

    @property
    def per_second(self) -> float:
        """Events a second."""
        return self.rows / self.seconds


def _joined(rings_of: np.ndarray, heads: Sequence[int]) -> np.ndarray:
    """Concatenate what the executors have written."""
    return np.concatenate([rings_of[r, :head] for r, head in enumerate(heads)])


def hash_of(columns: Sequence[np.ndarray], tables: Iterable[pa.Table]) -> str:
    """A hash of the columns of the rows and of the tables."""
    found = hashlib.blake2b(digest_size=16)
    for column in columns:
        found.update(np.ascontiguousarray(column).tobytes())
    for table in tables:
        for column in table.columns:
            whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            if pa.types.is_list(whole.type):
                found.update(np.diff(whole.offsets.to_numpy()).tobytes())
                whole = whole.flatten()
            found.update(whole.to_numpy(zero_copy_only=False).tobytes())
    return found.hexdigest()


__all__ = ["MOST_EVENTS", "Executed", "hash_of"]
