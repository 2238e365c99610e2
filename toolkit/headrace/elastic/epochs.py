"""Which instances are active, what each one owns, and how all switch at one position.

A configuration is a row of tables: the members, and the owner of each bucket.
Reconfiguring means that all members of the old configuration meet at one
position of the gate's order; the last to arrive installs the new one.

State       CONFIG row in force, EPOCH how many times it changed, BARRIER
            arrivals; per worker START_* (where a joiner begins);
            PENDING[e % ring] acknowledgements epoch e waits for;
            TURN changes of the downstream operator's configuration put into force
            here, TURN_BARRIER arrivals at the barrier for the next one
Invariants  I1  between two barriers CONFIG does not change, so each key is
                updated by exactly one instance: operator state needs no atomics
            I2  only the last arriver writes between its arrival and EPOCH += 1
            I3  a worker is active while the gate's READING cell is non-zero;
                its value is the activation id (a flag could not tell a worker
                that left and came back from one that stayed)
Ordering    B1 all state written under the old mapping, B2 fetch_add BARRIER
            (acq_rel), B3 last arriver: joiners' START_* and cursors, membership,
            CONFIG, B4 store_release EPOCH; B5 others load_acquire EPOCH
                    B1 -> B2 -> B4 -> B5: the new owner of a key sees all its state
Progress    Members wait for the slowest one: the barrier is where a
            reconfiguration costs time. Waiting ends on STOP.
Source      STRETCH, Algorithm 4, corrected: the boundary is a position in the
            order and the same for all, joiners start at it, inclusive, and every
            window that ends at or before the watermark there has been expired
            by its old owner (see Lemma 3).
Checked     tests/headrace/elastic
"""

from __future__ import annotations

from headrace.elastic.words import EPOCH, LOAD_METER
from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    fetch_add,
    load_acquire,
    now_ns,
    pause,
    store_relaxed,
    store_release,
)
from headrace.memory.event_count import cancel, prepare, signal, sleep
from headrace.workers.worker_kernel import (
    AFTER,
    BARRIER_EVENT,
    BARRIER_WAITING,
    BEFORE,
    SPIN,
    WAIT_NS,
    WATCH_EVENT,
    WATCHER_WAITING,
    stopped,
)

BEHIND = 1 << 20
"""A control record with BEHIND + n names configuration n of the downstream operator."""


@kernel
def acknowledge(c, me, epoch):
    """Acknowledge that `me` runs in `epoch`, or left at it; the last acknowledgement records when the epoch was complete."""
    store_release(c.acknowledged, me * CELL, epoch)
    cell = (epoch % c.met_at.size) * CELL
    if epoch > 0 and fetch_add(c.pending, cell, -1) == 1:
        store_release(c.done_at, cell, now_ns())
        signal(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)


@kernel
def install(c, config, next_config, epoch):
    """Last arriver: count the acknowledgements that epoch `epoch` needs (I2), and record the load so far."""
    workers = c.member.shape[1]
    concerned = 0
    for r in range(workers):
        c.load_at[epoch % c.met_at.size, r] = c.meter[r, c.layout[0, LOAD_METER]]
        if c.member[config, r] != 0 or c.member[next_config, r] != 0:
            concerned += 1
    cell = (epoch % c.met_at.size) * CELL
    c.reached_at[epoch % c.met_at.size] = now_ns()
    c.installed[epoch % c.met_at.size, BEFORE] = config
    c.installed[epoch % c.met_at.size, AFTER] = next_config
    store_relaxed(c.done_at, cell, 0)
    store_release(c.pending, cell, concerned)


@kernel
def members(c, config):
    count = 0
    for r in range(c.member.shape[1]):
        if c.member[config, r] != 0:
            count += 1
    return count


@kernel
def await_epoch(c, epoch):
    """Wait until `epoch` is in force. False if the run stops first."""
    return await_count(c, EPOCH, epoch)


@kernel
def await_count(c, word, count):
    """Wait until `word` of the workers' words has reached `count`. False if the run stops first."""
    spins = load_acquire(c.words, SPIN)
    for _ in range(spins):
        if load_acquire(c.words, word) >= count:
            return True
        pause()
    while True:
        ticket = prepare(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
        over = stopped(c)  # before the word: a run that ends normally is stopped after its last epoch
        if load_acquire(c.words, word) >= count:
            cancel(c.words, BARRIER_WAITING)
            return True
        if over:
            cancel(c.words, BARRIER_WAITING)
            return False
        sleep(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT, ticket, WAIT_NS)


@kernel
def watch(c, epoch, timeout_ns):
    """Sleep until epoch `epoch` is complete, an instance finishes, the run stops, or `timeout_ns` have passed."""
    cell = (epoch % c.met_at.size) * CELL
    ticket = prepare(c.words, WATCHER_WAITING, c.event, WATCH_EVENT)
    if stopped(c) or (epoch > 0 and load_acquire(c.done_at, cell) != 0):
        cancel(c.words, WATCHER_WAITING)
        return
    sleep(c.words, WATCHER_WAITING, c.event, WATCH_EVENT, ticket, timeout_ns)
