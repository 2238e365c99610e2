"""Putting a configuration into force where no state moves: at once, for each worker at its next unit of work.

For engines whose workers read the configuration before each unit of work. The arrays that they share have, beside those
that `worker_kernel` names, the fields ``rows`` (a row is a configuration, its first word the number of threads), ``reading``
(a cell for each worker, 0: parked), ``met_at``, ``done_at``, ``installed``; their cells in ``words`` are these.

Invariants  I1  only the holder of CHANGING writes CONFIG, CHANGE, `installed`, `reading`
            I2  workers 0 to THREADS - 1 of the row in force are active; there is at least one
Ordering    C1 exchange CHANGING 0 -> 1, C2 store `reading` and CONFIG, C3 store_release CHANGE,
            C4 exchange CHANGING -> 0; a worker that is activated is unparked after C2
Checked     tests/headrace/ordering (test_interleave_sleeping.py: workers become active, or park), tests/headrace/synchronization
"""

from headrace.kernel import kernel
from headrace.memory.atomics import CELL, exchange, load_relaxed, now_ns, pause, store_release, yield_core
from headrace.workers.worker_kernel import AFTER, BEFORE, THREADS, WORKER_WORDS, unpark

# Cells of `words`; an engine's own follow.
CONFIG = (WORKER_WORDS + 0) * CELL  # row in force
CHANGE = (WORKER_WORDS + 1) * CELL  # changes so far
CHANGING = (WORKER_WORDS + 2) * CELL  # a thread installs one
CHANGE_WORDS = WORKER_WORDS + 3


@kernel
def install(c, row):
    """Put a row of `rows` into force."""
    spins = 0
    while exchange(c.words, CHANGING, 1) != 0:  # C1
        spins += 1
        if spins % 100 == 0:
            yield_core()
        pause()
    change = load_relaxed(c.words, CHANGE) + 1
    at = change % c.met_at.size
    c.installed[at, BEFORE] = load_relaxed(c.words, CONFIG)
    c.installed[at, AFTER] = row
    c.met_at[at] = now_ns()
    store_release(c.words, CONFIG, row)
    for worker in range(c.meter.shape[0]):
        is_active = worker < c.rows[row, THREADS]
        if is_active != (load_relaxed(c.reading, worker * CELL) != 0):
            store_release(c.reading, worker * CELL, change + 1 if is_active else 0)
            if is_active:
                unpark(c, worker)
    c.done_at[at] = now_ns()
    store_release(c.words, CHANGE, change)  # C3
    exchange(c.words, CHANGING, 0)  # C4


__all__ = ["CHANGE", "CHANGE_WORDS", "CHANGING", "CONFIG", "install"]
