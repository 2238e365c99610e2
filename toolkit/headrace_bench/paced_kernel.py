"""A compiled thread that gives an input's events to their mailboxes when they are due (`paced`)."""

from __future__ import annotations

from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire, nanosleep, now_ns
from headrace.progress import END_OF_TIME
from headrace.synchronization.mailbox_kernel import add, promise

NAP_NS = 50_000
"""With the time to wake up, an input looks for due events some 10,000 times a second. Threads of Python that did this for three
inputs took more than a core."""


@kernel
def feed_due(c, i, ts, queues, begin, per_second, gap, heartbeat, stop):
    """Give all events to their mailboxes at the pace of their event times.

    Parameters
    ----------
    c : PlanArrays
    i : int
        Input.
    ts, queues : int64[n], int32[n]
        As for `mailbox_kernel.add`.
    begin : int
        When the time 0 is due, by `now_ns`.
    per_second : float
        Units of event time in a second.
    gap : float
        Units of event time between two heartbeats, which say how far the event time has come; 0: none.
    heartbeat : int
        Events between two publications.
    stop : int64[...]
        Word 0 is not 0 once the run is over.
    """
    done = due = 0
    last_beat = -1.0
    while done < ts.size and load_acquire(stop, 0) == 0:
        now = (now_ns() - begin) * 1e-9 * per_second
        while due < ts.size and ts[due] <= now:
            due += 1
        if due > done:
            done += add(c, i, ts, queues, done, due - done, done, heartbeat)
        if gap > 0.0 and now // gap > last_beat:
            last_beat = now // gap
            # The promise may reach the input's next event, and no further.
            promise(c, i, min(int(last_beat * gap), ts[done]) if done < ts.size else END_OF_TIME)
        nanosleep(NAP_NS)
    promise(c, i, END_OF_TIME)


__all__ = ["feed_due"]
