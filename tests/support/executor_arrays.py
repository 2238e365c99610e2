"""The arrays of a small case of transaction executors, for the schedule explorer: a log that holds the whole input, words
that say which executors are at work and under which configuration, and rings for the results."""

# ruff: noqa: F821  (the names are the explored kernels')

from collections import namedtuple

from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.transactions.arrays import ExecutorArrays

LOG = 8
"""Slots of the log: more than there are events."""
NEVER = 2**63 - 1
Shared = namedtuple("Shared", ExecutorArrays._fields)
CONSTANTS = {"PHASE_YIELDS": 1, "LEAST_SPINS": 1, "LONG": 3, "BLOCK": 1, "LOOKS": 2}
"""Constants of the kernels, small so that few steps reach what otherwise takes many."""


def end_when_over(c, expected):
    """The collector's part: when all executors have finished, stop all workers."""
    while load_acquire(c.words, FINISHED) < expected:
        pause()
    stop_workers(c)


def take_snapshots(c, every, records, taken):
    """The thread that copies the tables after every so many events."""
    while True:
        while not is_snapshot_due(c):
            if stopped(c) or load_acquire(c.words, OVER) != 0:
                return
            watch_snapshot(c, 0)
        at = load_acquire(c.words, SNAPSHOT_AT)
        copy = []
        for record in range(records):
            copy.append(c.table_rows[record])
            cut()
        taken.append((at, copy))
        end_snapshot(c, at + every)


def gate_of(k, n):
    """A gate with one source, which has added `n` events and the end."""
    assert n < LOG
    gate = k.LogArrays(
        words=[0] * 48, event=[0] * 64, head=[n + 1], mark=[END_OF_TIME + 1], merged=[n + 1],
        feeding=[1], ring_ts=[[0]], ring_ref=[[0]], ring_at=[[0]],
        out_ts=[[*range(n), END_OF_TIME] + [0] * (LOG - n - 1)],
        out_ref=[[*range(n), -1] + [0] * (LOG - n - 1)],
        out_at=[[0] * LOG], cursor=[0], reading=[1], cost=[0], scratch=[[0], [0], [0]], rank=[], rank_layout=[],
    )  # fmt: skip
    gate.words[k.END] = n + 1
    return gate


def arrays(k, n, records, configurations, plan=(), operations=16, workers=2, snapshot_every=0):
    """The gate, the arrays that executors share, and the result rings, before any step.

    Parameters
    ----------
    k : Kernels
    n, records : int
        Events, and rows, each of one word.
    configurations : list of (threads, scheme, sharing, punctuation)
        The first one is in force, the others come according to `plan`.
    plan : sequence of int
        Before which event each comes.
    operations : int
        Room for them.
    workers, snapshot_every : int
    """
    shared = shared_of(k, records, configurations, plan, operations, workers, snapshot_every)
    mark = [-1 if r < configurations[0][0] else END_OF_TIME for r in range(workers)]

    def table(width):
        return [[0] * width for _ in range(workers)]

    out = k.OutArrays(
        words=[0] * 8, event=[0] * 64, head=[0] * workers, tail=[0] * workers, mark=mark,
        mark_ts=[MIN_TIME if m == -1 else m for m in mark],
        primary=table(LOG), a=table(LOG), b=table(LOG), c=table(LOG), at=table(LOG), meter=shared.meter, membership=[0],
        list_words=[[] for _ in range(workers)], list_head=[], list_tail=[],
    )  # fmt: skip
    return gate_of(k, n), shared, out


def shared_of(k, records, configurations, plan=(), operations=16, workers=2, snapshot_every=0):
    """Only the arrays that executors share; arguments as for `arrays`."""
    ring = len(plan) + 2

    def table(width):
        return [[0] * width for _ in range(workers)]

    shared = Shared(
        words=[0] * 48, event=[0] * (64 + 32 * workers), meter=table(16), failure=[0] * 16,
        reading=[int(r < configurations[0][0]) for r in range(workers)],
        refs=[0] * LOG, tss=[0] * LOG, ats=[0] * LOG, places=[0] * LOG,
        set_at=[0] * LOG, set_size=[0] * LOG, pending=[0] * LOG, order=[0] * LOG,
        sets=[0] * operations, event_of=[0] * operations, link=[0] * operations, link_2=[0] * operations,
        entries=[0] * (workers * operations), locks=[0] * (4 * records), tails=[0] * (4 * records),
        table_rows=[1] * records + [NEVER, 0] + [0] * (2 * operations), table_places=[[0, 0, 1], [records, records + 2, 2]],
        heads=[0] * records, nodes=[0], behind=[0] * LOG, links=[], fingers=table(0),
        filling=table(32), known=table(4 * operations), part_at=table(16), base=table(16), stack=table(LOG),
        lengths=table(64), served=[0] * workers, offers=[0] * workers,
        rows=[[threads, scheme, sharing, punctuation, 0, 0, 0, 0] for threads, scheme, sharing, punctuation in configurations],
        owner=[[bucket % c[0] for bucket in range(1024)] for c in configurations],
        plan_at=[*plan, NEVER],
        unsettled=[0] * ring, met_at=[0] * ring, installed=[[0, 0, 0] for _ in range(ring)], done_at=[0] * ring,
    )  # fmt: skip
    shared.words[k.PHASE] = 1
    shared.words[k.SNAPSHOT_AT] = snapshot_every
    return shared
