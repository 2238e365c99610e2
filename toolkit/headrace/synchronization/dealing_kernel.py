"""Deals out the events that wait in mailboxes to the mailboxes of another plan, while everything is at rest.

Consecutive rows that go into one mailbox become one run there, whatever runs they were in: a mailbox has room for a limited
number of runs, and the runs of several mailboxes may come together in one. Such a run counts as published when the first of
those runs was. Dealing takes microseconds for each input, and milliseconds for an input with the most events that may wait;
the GIL is kept meanwhile (`holding`).
"""

from headrace.ingress.store import CHUNK, TS
from headrace.ingress.store_kernel import entry_of, place_of, values_at
from headrace.kernel import kernel
from headrace.memory.atomics import view_i64
from headrace.synchronization.mailbox_kernel import queue_cell, run_of, ts_of
from headrace.synchronization.words import (
    AT,
    COUNTED,
    END,
    END_QUEUE,
    FIRST,
    FIRST_QUEUE,
    FIRST_TS,
    HEAD,
    PENDING,
    PUBLISHED,
    RUN_WORDS,
    TAIL,
    WIDTH,
)

QUEUE = RUN_WORDS
"""The column of a dealt run that says into which mailbox it goes; it follows the run's words."""
DEALT_WORDS = RUN_WORDS + 1


@kernel(keep_gil=True)
def runs_waiting(c, i):
    """How many runs of an input are unprocessed, or only partly processed."""
    count = 0
    for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):
        count += c.queue[queue_cell(q, PENDING)] - c.queue[queue_cell(q, HEAD)]
    return count


@kernel(keep_gil=True)
def copy_waiting(c, x, i, runs):
    """Copy the waiting runs of an input, mailbox by mailbox; of the first run of each, only the unprocessed rows.

    Parameters
    ----------
    c : PlanArrays
    x : int64[inputs, n]
        Directories of the stores.
    i : int
    runs : int64[runs_waiting, RUN_WORDS]
        Written.
    """
    at = 0
    for q in range(c.given[i, FIRST_QUEUE], c.given[i, END_QUEUE]):
        begin = c.queue[queue_cell(q, AT)]
        for number in range(c.queue[queue_cell(q, HEAD)], c.queue[queue_cell(q, PENDING)]):
            for word in range(RUN_WORDS):
                runs[at, word] = c.runs[run_of(q, number) + word]
            if begin > 0:
                runs[at, FIRST] += begin
                runs[at, FIRST_TS] = ts_of(c, x, i, runs[at, FIRST])
                begin = 0
            at += 1


@kernel(keep_gil=True)
def deal(c, x, i, runs, routes, tag_column, dealt):
    """Deal out the rows of an input's runs.

    Parameters
    ----------
    c, x, i
        As of `copy_waiting`.
    runs : int64[n, RUN_WORDS]
        In the order of rows.
    routes : int64[tags]
        The new mailbox of each of the input's implementation tags.
    tag_column : int
        Where the store has the tags of rows; -1: there is one tag.
    dealt : int64[k, DEALT_WORDS]
        Written. At most one entry for each row; with a single tag, one for each piece of a run within a chunk.

    Returns
    -------
    int
        How many runs there are now.
    """
    count = 0
    for r in range(runs.shape[0]):
        row, end = runs[r, FIRST], runs[r, END]
        while row < end:
            entry, at = entry_of(row, c.given[i, WIDTH]), place_of(row)
            stop = min(end, row + CHUNK - at)
            times = view_i64(x[i, entry + TS], CHUNK)
            tags = view_i64(x[i, entry + (values_at(tag_column) if tag_column >= 0 else TS)], CHUNK)
            while row < stop:
                q = routes[tags[at] if tag_column >= 0 else 0]
                until = row + 1 if tag_column >= 0 else stop
                if count > 0 and dealt[count - 1, QUEUE] == q and dealt[count - 1, END] == row:
                    dealt[count - 1, END] = until
                else:
                    dealt[count, FIRST], dealt[count, END], dealt[count, FIRST_TS] = row, until, times[at]
                    dealt[count, PUBLISHED], dealt[count, QUEUE] = runs[r, PUBLISHED], q
                    count += 1
                at += until - row
                row = until
    return count


@kernel(keep_gil=True)
def put(c, dealt):
    """Put dealt runs into their mailboxes, which were empty and have room."""
    for k in range(dealt.shape[0]):
        q = dealt[k, QUEUE]
        number = c.queue[queue_cell(q, PENDING)]
        for word in range(RUN_WORDS):
            c.runs[run_of(q, number) + word] = dealt[k, word]
        c.queue[queue_cell(q, COUNTED)] += dealt[k, END] - dealt[k, FIRST]
        c.queue[queue_cell(q, PENDING)] = number + 1
        c.queue[queue_cell(q, TAIL)] = number + 1


__all__ = ["DEALT_WORDS", "QUEUE", "copy_waiting", "deal", "put", "runs_waiting"]
