"""Transactions that take a while: one thread has work for many seconds, the sources do not."""

import numpy as np
import pyarrow as pa

import headrace as hr

ROWS = 2_000_000
AT = np.arange(ROWS)
EVENTS = pa.table({"ts": AT, "a": AT * 7_919 % 1_000, "b": AT * 104_729 % 1_000})
COUNTS = hr.table("counts", columns={"n": "int64"}, rows=1_000)


def worked(n):
    """Some microseconds of work that no compiler can leave out."""
    for _ in range(5_000):
        n = (n * 1_103_515_245 + 12_345) % 2_147_483_647
    return n


def add(e, t):
    """Change two rows, each from its own value."""
    COUNTS[e.a].n = worked(COUNTS[e.a].n)
    COUNTS[e.b].n = worked(COUNTS[e.b].n + 1)


def heavy(events):
    """The stream of these transactions."""
    return hr.stream(events, event_time="ts").transact(add)
