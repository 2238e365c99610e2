"""An ordered pipeline over rows that are already in its gate: workers without ingress and without a collector.

All rows are encoded, stored and added to the gate before the clock starts, and the result ring has room for all results.
So only the workers run. They are parked until the clock starts, and the clock stops when the first worker finds everything
done. The results are hashed afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import ParameterError
from headrace.gates.merged_log import power_of_two_at_least
from headrace.memory.atomics import CELL
from headrace.memory.cells import publish_cell, read_cell, read_cells, touch
from headrace.ordering import words
from headrace.ordering.measuring import records_at
from headrace.ordering.options import OrderedOptions
from headrace.ordering.pool_kernel import HANDED_OUT
from headrace.ordering.section import OUTPUT_CAPACITY, OrderedSection
from headrace.workers import worker_kernel
from headrace_bench.alone import Alone, fill_gate, store_rows
from headrace_bench.executed import hash_of

GATE_RESERVE = 1 << 14
"""Capacity of the gate beyond the number of rows."""
TIMEOUT_S = 300.0
MARKERS = (0.2, 0.8)
"""Shares of a run's rows between which the paper measures: without start-up, and without running dry."""
_FEWEST = 5
"""Least number of samples between these from which a rate is computed."""
_LOOK_S = 1e-3
"""Time between two checks for the end; a worker has recorded when it came."""


class Pipelined(Alone):
    """One run of an ordered pipeline whose rows are in the gate when it starts.

    Parameters
    ----------
    stream : Stream
        Has one source, and ends in the pipeline.
    table : pa.Table
        Its rows, which give at most `results` results.
    results : int
        Number of results there is room for.
    **options
        As for `start`.

    Raises
    ------
    ParameterError
        Raised by `run` if there are more results.

    Attributes
    ----------
    seconds : float
        From the moment at which the workers are released to the last result.
    samples : list of (int, int)
        Monotonic time in ns, and rows that the first stage had passed on by then.
    content : str
        Hash of the results.
    columns : list of np.ndarray
        Columns of the results: event times, then the values emitted by the last stage, as 64-bit words.
    decisions, fallbacks : int
        How often a worker chose a stage, and how often the chosen stage had nothing to do.
    busy_ns : int
        The working time of all workers.
    stage_ns : dict of str to int
        Working time in each stage.
    serial_share : float
        The share of the time in all stages that is spent in stages which only one worker at a time may run.
    bucket_tuples : dict of str to int64[buckets]
        Tuples of each bucket of each partitioned stage.
    """

    def __init__(self, stream: Any, table: pa.Table, results: int = OUTPUT_CAPACITY, **options: Any):
        query = stream.plan()
        node = query.output
        self.samples: list[tuple[int, int]] = []
        super().__init__()
        settings = OrderedOptions(None, **{"max_threads": options.get("threads", 1), **options})
        self.room = power_of_two_at_least(results)
        branches = query.branches[node.name]
        self.section = section = OrderedSection(node, branches, settings, table.num_rows + GATE_RESERVE, self.room)
        (inlet,) = section.inlets
        ts = store_rows(inlet, table)
        self.rows = len(ts)
        for worker in range(section.max_threads):
            publish_cell(section.arrays.reading, worker * CELL, 0)  # parked until `run`
        section.prepare((), self, is_last=True)
        c = section.arrays
        for array in (c.arena[: c.arena[HANDED_OUT]], c.slots, c.tickets, c.queue):
            touch(array)
        fill_gate(section, ts)

    # -- a run

    def run(self) -> Pipelined:
        """Run all rows through, check that none is missing, hash the results, and end all threads."""
        section = self.section
        c, workers = section.arrays, range(section.active)
        section.set_spins(worker_kernel.spins_for(section.active))
        try:
            for task in section.tasks()[: section.max_threads]:
                self._pool.start(task.name, task.body)
            self._await(lambda: all(c.meter[me, worker_kernel.SINCE] for me in workers))
            time.sleep(_LOOK_S)  # workers report that they park a moment before they sleep
            begin = time.monotonic_ns()
            for me in workers:
                publish_cell(c.reading, me * CELL, 1)
                worker_kernel.unpark(c, me)
            self._await(lambda: self._sampled(begin) == len(workers))
            time.sleep(_LOOK_S)  # a worker reports that it is done a moment before it reports since when
            self.seconds = (min(self._ends(begin)) - begin) / 1e9
        finally:
            self.end(section)
        self._look()
        return self

    def _sampled(self, begin: int) -> int:
        """Record the progress of the first stage. Returns how many workers have seen the end."""
        self.samples.append((time.monotonic_ns(), records_at(self.section, 0)[0]))
        return len(self._ends(begin)) if read_cell(self.section.arrays.words, words.OVER) else 0

    def _ends(self, begin: int) -> list[int]:
        """When workers saw the end, for those that have; a worker that has not woken up yet was parked before `begin`."""
        meter = self.section.arrays.meter
        is_done = (meter[:, worker_kernel.STATE] == worker_kernel.PARKED_NS) & (meter[:, worker_kernel.SINCE] > begin)
        return meter[is_done, worker_kernel.SINCE].tolist()

    def _await(self, is_so: Any) -> None:
        limit = time.monotonic() + TIMEOUT_S
        while not is_so():
            error = self._errors[0] if self._errors else self.section.failure()
            if error is not None:
                raise error
            if read_cell(self.section.arrays.words, words.BLOCKED):
                raise ParameterError(f"more than {self.room} results, and nobody takes them: give fewer rows, or results=")
            assert time.monotonic() < limit, f"the workers did not come to an end within {TIMEOUT_S:.0f} s"
            time.sleep(_LOOK_S)

    def _look(self) -> None:
        """Check that no row is missing, hash the results, and read the meters."""
        section, out, c = self.section, self.section.out, self.section.arrays
        names = [one.stage.name for one in section.compiled.bound.stages]
        for number, name in enumerate(names):
            drained, _, tail = records_at(section, number)
            assert drained == tail, f"{tail - drained} tuples are still in {name}"
        assert records_at(section, 0)[0] == self.rows, "rows were lost"
        results = read_cell(out.head, 0)
        self.columns = [out.b[0, :results].copy(), *(column[:results].copy() for column in c.out)]
        self.content = hash_of([out.primary[0, :results], *self.columns], [])
        meter = read_cells(c.meter, 1)
        self.decisions, self.fallbacks = (int(meter[:, k].sum()) for k in (words.DECISIONS, words.FALLBACKS))
        self.busy_ns = int(meter[:, worker_kernel.BUSY_NS].sum())
        self.stage_ns = dict(zip(names, c.work[:, :, words.SPENT_NS].sum(axis=0).tolist(), strict=True))
        is_serial = [one.stage.kind == "stateful" for one in section.compiled.bound.stages]
        spent = np.array(list(self.stage_ns.values()))
        self.serial_share = float(spent[is_serial].sum() / max(1, spent.sum()))
        buckets = zip(names, c.form[:, words.BUCKETS].tolist(), c.form[:, words.BUCKET_COUNT].tolist(), strict=True)
        self.bucket_tuples = {name: c.bucket_tail[first : first + count].copy() for name, first, count in buckets if count}

    @property
    def per_second(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds

    @property
    def steady_per_second(self) -> float:
        """Rows per second from the 20th to the 80th percentile of the rows; of the whole run if that part is too short.

        Rows are counted when the first stage passes them on; `capacity` bounds how many wait after it.
        """
        inside = markers(self.samples, self.rows)
        if len(inside) < _FEWEST:
            return self.per_second
        (begin, first), (end, last) = inside[0], inside[-1]
        return (last - first) / (end - begin) * 1e9


def markers(samples: Sequence[tuple[int, int]], rows: int) -> list[tuple[int, int]]:
    """Select the samples (when, rows passed) between the 20th and the 80th percentile of the rows.

    Examples
    --------
    >>> markers([(0, 0), (1, 30), (2, 50), (3, 90)], rows=100)
    [(1, 30), (2, 50)]
    """
    low, high = (share * rows for share in MARKERS)
    return [(when, passed) for when, passed in samples if low <= passed <= high]


def check_against(expected: Sequence[dict[str, Any]], schema: pa.Schema, columns: Sequence[np.ndarray], what: str) -> None:
    """Raise `AssertionError` if a column of a run differs in any bit from the reference's."""
    for field, column in zip(schema, columns, strict=True):
        kind = np.float64 if pa.types.is_floating(field.type) else np.int64
        wanted = np.array([row[field.name] for row in expected], kind).view(np.int64)
        assert np.array_equal(column, wanted), f"{what}: {field.name} is not what the reference has"


__all__ = ["Pipelined", "check_against", "markers"]
