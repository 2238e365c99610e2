"""Reading the counters that workers write, and the spans of time that they spent in one state.

Ordering    T1 and T2 of `worker_kernel`: SPANS is read, the ring is copied, SPANS is read again. Left out are the slots
            written meanwhile, and the one that is written next: a load of the copy that is executed after the second reading,
            as machines with weak memory may do, is late by far less than the 20 us that the span in that slot lasts at least
            Each counter is read with acquire, in order; together they are no snapshot
Checked     tests/headrace/workers/test_spans.py
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire
from headrace.memory.cells import read_cell
from headrace.metrics.by_worker import STATES
from headrace.workers import worker_kernel
from headrace.workers.worker_kernel import SINCE, SPAN_END, SPAN_WORDS, SPANS, SPANS_KEPT, STATE

_FIRST_SPAN = worker_kernel.METER_WORDS - SPANS_KEPT * SPAN_WORDS


class Span(NamedTuple):
    """A span in which a worker was in one state, of at least 20 us (`worker_kernel.LEAST_SPAN_NS`)."""

    worker: int
    state: str
    begin_ns: int
    end_ns: int


def counters(meter: np.ndarray) -> np.ndarray:
    """Copy the workers' counters: int64[workers, 16]."""
    out = np.empty((len(meter), _FIRST_SPAN), np.int64)
    copy_counters(meter, out)
    return out


def times(meter: np.ndarray, until_ns: int) -> np.ndarray:
    """Copy the workers' counters, with the time of each worker's present state booked up to a time; 0: now."""
    meter = counters(meter)
    until_ns = until_ns or time.monotonic_ns()  # read after the copy, so later than all that is booked in it
    rows = np.arange(len(meter))
    meter[rows, meter[:, worker_kernel.STATE]] += np.maximum(0, until_ns - meter[:, worker_kernel.SINCE])
    return meter


@kernel(keep_gil=True)
def copy_counters(meter, out):
    """Copy the first words of each worker, each read with acquire, in order."""
    for worker in range(out.shape[0]):
        words = meter[worker]
        for i in range(out.shape[1]):
            out[worker, i] = load_acquire(words, i)


def spans(meter: np.ndarray, since_ns: int = 0, until_ns: int = 0) -> list[Span]:
    """Return the workers' latest spans, including the present one: by worker, oldest first.

    Parameters
    ----------
    meter : int64[workers, METER_WORDS]
    since_ns, until_ns : int
        Monotonic times. Spans that ended before the first are left out; the present spans end at the second; 0: now.

    Examples
    --------
    >>> meter = np.zeros((1, worker_kernel.METER_WORDS), np.int64)
    >>> meter[0, [STATE, SINCE]] = 1, 1_000
    >>> spans(meter, until_ns=50_000)
    [Span(worker=0, state='process', begin_ns=1000, end_ns=50000)]
    """
    found: list[Span] = []
    for worker, words in enumerate(meter):
        state, begin = int(words[STATE]), int(words[SINCE])
        before = read_cell(words, SPANS)
        ring = words[_FIRST_SPAN:].reshape(SPANS_KEPT, SPAN_WORDS).copy()
        after = read_cell(words, SPANS)
        # The slot that is written next may be half written.
        first = max(0, after + 1 - SPANS_KEPT)
        kept = [ring[number % SPANS_KEPT].tolist() for number in range(first, before)]
        found += [Span(worker, STATES[s], b, e) for s, b, e in kept if e > since_ns]
        if begin > 0 and (not kept or begin >= kept[-1][SPAN_END]):
            found.append(Span(worker, STATES[state], begin, max(begin, until_ns or time.monotonic_ns())))
    return found
