"""Pairs of items, counted and ranked for each hour or day: the last two stages of queries 1 and 2 of TPCx-BB.

Both queries want the most frequent pairs of a window. A ranking cannot be partitioned: whether a pair is among the first
depends on the counts of all others. The counting can be, by the smaller item of a pair; the last stage then has
little to do. Within a window a count only rises, so a pair that fell out of the first `top` comes back only with
a tuple of its own: it is enough to keep those `top`, in order, and nearly every tuple ends at one comparison with the
last of them.

A window is over when a row of a later one has come, even one that makes no pair. So the operator that makes the pairs sends,
for the first row of a key in a window, a tuple in which an item is paired with itself: it has the count 0, and only
announces that its window has begun. The first row of all in a window is also the first of its key.
"""

from __future__ import annotations

import headrace as hr
from headrace.ordering.stages import DEFAULT_BUCKETS
from headrace.stream.streams import OrderedStream


def ranked(pairs: OrderedStream, width: int, top: int, buckets: int = DEFAULT_BUCKETS) -> OrderedStream:
    """Append both stages to pairs ``a <= b``: PS count, SF rank."""

    def count(state, t, emit):
        window = t.ts // width
        if window != state.window:
            state.window = window
            state.counts.clear()
        if t.a == t.b:
            emit(a=t.a, b=t.b, count=0)
        else:
            state.counts[t.b] = state.counts.get(t.b, 0) + 1
            emit(a=t.a, b=t.b, count=state.counts[t.b])

    def rank(state, t, emit):
        window = t.ts // width
        if state.is_open and window != state.window:
            over = (state.window + 1) * width
            for i in range(len(state.count)):
                emit(ts=over, rank=i + 1, a=state.a[i], b=state.b[i], count=state.count[i])
            state.a.clear()
            state.b.clear()
            state.count.clear()
        state.is_open = True
        state.window = window
        if t.count == 0:
            return
        size = len(state.count)
        if size == top and not is_behind(state.count[size - 1], state.a[size - 1], state.b[size - 1], t.count, t.a, t.b):
            return
        # Its rank now, and its rank with a count one lower.
        new = size
        while new > 0 and is_behind(state.count[new - 1], state.a[new - 1], state.b[new - 1], t.count, t.a, t.b):
            new -= 1
        old = new
        while old < size and (state.a[old] != t.a or state.b[old] != t.b):
            old += 1
        if old == size and size == top:
            old -= 1
        if old < size:
            state.a.pop(old)
            state.b.pop(old)
            state.count.pop(old)
        state.a.insert(new, t.a)
        state.b.insert(new, t.b)
        state.count.insert(new, t.count)

    def last_window(state, emit):
        if state.is_open:
            over = (state.window + 1) * width
            for i in range(len(state.count)):
                emit(ts=over, rank=i + 1, a=state.a[i], b=state.b[i], count=state.count[i])

    integers = hr.list_of("int64")
    return pairs.partitioned(
        count,
        by="a",
        state={"window": "int64", "counts": hr.map_of("int64", "int64")},
        emits={"a": "int64", "b": "int64", "count": "int64"},
        buckets=buckets,
        forget=width,
    ).stateful(
        rank,
        state={"is_open": "bool", "window": "int64", "a": integers, "b": integers, "count": integers},
        emits={"rank": "int64", "a": "int64", "b": "int64", "count": "int64"},
        end=last_window,
    )


def is_behind(count, a, b, new_count, new_a, new_b):
    """Whether a pair is ranked behind another one: by count, the larger first, then by items."""
    return count < new_count or (count == new_count and (a > new_a or (a == new_a and b > new_b)))
