"""Random ordered pipelines: one to six stages of every kind, over rows that every stage can read and emits.

A row has a ``key`` and a ``v``, neither null, and so has what each stage emits: so any stage may follow any other. The
stages vary: one gives none, one, three or fifty outputs of a tuple, keeps numbers or containers, forgets keys, emits
times of its own, or gives many outputs at its end.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

import headrace as hr
from support.pipelines import Shape

EMITS = {"key": "int64", "v": "int64"}


def is_odd(t):
    return t.v % 2 == 1


def is_whatever(t):
    return t.v >= 0


def is_nothing(t):
    return t.v < 0


def moved(t, emit):
    emit(key=t.key + t.v % 3, v=(t.v * 7 + t.ts) % 1_000)


def later(t, emit):
    emit(ts=t.ts + 5, key=t.key, v=t.v)


def upside_down(t, emit):
    emit(ts=1_000 - t.ts, key=t.v % 5, v=t.key % 100 + 100)


def up_to_three(t, emit):
    for i in range(t.v % 4):
        emit(key=t.key - i, v=t.v + i)


def fifty(t, emit):
    for i in range(50):
        emit(key=t.key + i % 6, v=(t.v + i) % 1_000)


def one_in_twenty(t, emit):
    if t.v % 20 == 0:
        emit(key=t.key, v=t.v)


def before(state, t, emit):
    if state.n > 0:
        emit(key=t.key, v=(state.v * 31 + t.v) % 1_000)
    state.n += 1
    state.v = t.v


def met(state, t, emit):
    state.seen.add(t.v % 9)
    state.counts[t.v % 4] = state.counts.get(t.v % 4, 0) + 1
    state.last.append(t.v)
    if len(state.last) > 3:
        state.last.pop(0)
    for one in state.seen:
        if one % 4 == t.v % 4:
            emit(key=one, v=(state.counts[t.v % 4] * 100 + state.last[0]) % 1_000)


def totalled(state, t, emit):
    state.total = (state.total * 3 + t.v + t.key) % 1_000
    state.n += 1
    if state.n % 3 != 1:
        emit(key=state.n % 7, v=state.total)


def chained(state, t, emit):
    state.all.append(t.v)
    emit(key=t.key, v=(state.all[len(state.all) // 2] + len(state.all)) % 1_000)


def tell(state, emit):
    emit(ts=5_000, key=state.n, v=state.total)


def tell_all(state, emit):
    for i in range(len(state.all)):
        emit(ts=6_000 + i, key=i, v=state.all[i])


STATES = {
    "before": {"n": "int64", "v": "int64"},
    "met": {"seen": hr.set_of("int64"), "counts": hr.map_of("int64", "int64"), "last": hr.list_of("int64")},
    "totalled": {"total": 5, "n": "int64"},
    "chained": {"all": hr.list_of("int64")},
}
ENDS = {"totalled": tell, "chained": tell_all}


def chain(draw: random.Random) -> Shape:
    """Draw a pipeline."""
    stages, goes_back, is_wide = [], False, False
    for _ in range(draw.randint(1, 6)):
        kind = draw.choice(["filter", "map", "flat_map", "flat_map", "partitioned", "partitioned", "stateful", "stateful"])
        if kind == "filter":
            stages.append((kind, draw.choice([is_odd, is_whatever, is_whatever, is_nothing]), {}))
            continue
        given = {"emits": EMITS}
        if kind == "map":
            function = draw.choice([moved, moved, later, upside_down])
            goes_back |= function is upside_down
        elif kind == "flat_map":
            function = draw.choice([up_to_three, one_in_twenty, *([] if is_wide else [fifty, fifty])])
            is_wide |= function is fifty
        else:
            function = draw.choice([before, met] if kind == "partitioned" else [totalled, chained])
            given["state"] = STATES[function.__name__]
        if kind == "partitioned":
            given |= {"by": draw.choice(["key", "v"]), "buckets": draw.choice([1, 2, 7, 100])}
            if not goes_back and draw.random() < 0.3:
                given["forget"] = draw.choice([0, 3, 20])
        if kind == "stateful" and draw.random() < 0.7:
            given["end"] = ENDS[function.__name__]
            goes_back = True  # the next stage's end may give times before those of this one's
        stages.append((kind, function, given))
    return Shape(tuple(stages))


def rows(draw: random.Random, count: int) -> pa.Table:
    """So many rows, of one key or of many."""
    rng = np.random.default_rng(draw.getrandbits(32))
    keys = draw.choice([1, 3, 40])
    return pa.table(
        {
            "ts": np.cumsum(rng.integers(0, 3, count)),
            "key": rng.integers(-keys, keys, count) // draw.choice([1, 2]),
            "v": rng.integers(0, 1_000, count),
        }
    )
