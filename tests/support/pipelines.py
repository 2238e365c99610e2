"""Ordered pipelines for tests: shapes that share their compiled kernels, input and options for them, the reference of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace.reference import ordering as reference

TEXTS = ["", "a", "b", "cart", "züri", "view"]


def whole(t):
    return t.x is not None and t.key is not None


def twice(t, emit):
    emit(key=t.key, v=2 * t.x + 1, y=t.y if t.y is not None else 0.5)


def spread(t, emit):
    for i in range(t.x % 4):
        emit(key=t.key + i, v=t.x * 10 + i)


def many(t, emit):
    for i in range(50):
        emit(v=t.x * 50 + i)


def gap(state, t, emit):
    if state.seen:
        emit(key=t.key, v=t.v, gap=t.ts - state.last)
    state.seen = True
    state.last = t.ts
    state.total += t.v


def running(state, t, emit):
    state.n += 1
    state.total += t.v
    if state.n % 3 != 0:
        emit(key=t.key, n=state.n, total=state.total, mean=state.total / state.n)


def last_of_all(state, emit):
    emit(ts=1_000_000, key=-1, n=state.n, total=state.total, mean=0.0)


def is_large(t):
    return t.gap > 1


def nothing(t):
    return t.v < -(10**15)


def words(state, t, emit):
    state.seen.add(t.x)
    state.counts[t.text] = state.counts.get(t.text, 0) + 1
    state.recent.append(t.text)
    if len(state.recent) > 5:
        state.recent.pop(0)
    if t.flag:
        emit(text=t.text, distinct=len(state.seen), first=state.recent[0], count=state.counts[t.text], flag=not t.flag)


def has_all(t):
    return t.text is not None and t.x is not None and t.flag is not None


def tell(state, emit):
    emit(ts=(state.hour + 1) * 10, sum=state.sum)


def at_once(emit, x):
    emit(sum=x)


def hour_over(state, t, emit):
    hour = t.ts // 10
    if state.open and hour > state.hour:
        tell(state, emit)
        state.sum = 0
    if t.x % 100 == 0:
        at_once(emit, t.x)
    state.open = True
    state.hour = hour
    state.sum += t.x


def last_hour(state, emit):
    if state.open:
        tell(state, emit)


def chained(state, t, emit):
    state.total = (state.total * 31 + t.n) % 1_000_003
    emit(key=state.total % 7, n=state.total)


def chained_text(state, t, emit):
    state.n += t.count
    state.all.append(t.count)
    emit(key=len(state.all), n=state.n)


def labels(t, emit):
    emit(text=t.text, x=t.x, flag=t.flag)
    if t.x % 5 == 0:
        emit(text="every fifth", x=t.x + 1, flag=True)


def is_old(t):
    return t.count > 1


def newest(state, t, emit):
    state.last[t.text] = t.distinct
    state.texts.append(t.first)
    if len(state.texts) > 4:
        state.texts.pop(0)
        total = 0
        for distinct in state.last.values():
            total += distinct
        emit(text=state.texts[0], other=t.text, total=total)


def leftover(state, emit):
    for text in state.texts:
        emit(ts=2_000_000, text=text, other="", total=len(state.last))


def meetings(state, t, emit):
    state.others.add(t.other)
    state.recent[state.n % 3] = t.total
    state.n += 1
    for other in state.others:
        emit(text=t.text, other=other, n=state.n, before=state.recent[state.n % 3])


@dataclass(frozen=True)
class Shape:
    """A chain: (kind, function, arguments) of each stage."""

    stages: tuple[tuple[str, Callable, dict[str, Any]], ...]

    def on(self, stream: hr.Stream) -> hr.Stream:
        """The chain on a stream."""
        chain = stream.ordered()
        for kind, function, given in self.stages:
            chain = getattr(chain, kind)(function, **given)
        return chain

    def expected(self, tables: list[pa.Table]) -> list[dict[str, Any]]:
        """What the reference gives."""
        made = {
            "filter": reference.Filter, "partitioned": reference.Partitioned, "stateful": reference.Stateful,
            "flat_map": reference.FlatMap, "map": lambda function, emits: reference.Map(function, emits, carry=()),
        }  # fmt: skip
        stages = []
        for kind, function, given in self.stages:
            arguments = {name: value for name, value in given.items() if name not in ("buckets", "ranges")}
            stages.append(made[kind](function, **arguments))
        sources = [[(row["ts"], row) for row in table.to_pylist()] for table in tables]
        return reference.ordered(sources, stages)


_PAIR = {"key": "int64", "v": "int64"}
_GAP = {"state": {"seen": "bool", "last": "int64", "total": "int64"}, "emits": {"key": "int64", "v": "int64", "gap": "int64"}}
_RUNNING = {
    "state": {"n": "int64", "total": 0},
    "emits": {"key": "int64", "n": "int64", "total": "int64", "mean": "float64"},
}
_WORDS = {
    "state": {
        "seen": hr.set_of("int64"),
        "counts": hr.map_of("string", "int64"),
        "recent": hr.list_of("string"),
    },
    "emits": {"text": "string", "distinct": "int64", "first": "string", "count": "int64", "flag": "bool"},
}

SHAPES = {
    "figure 1": Shape((
        ("filter", whole, {}),
        ("flat_map", spread, {"emits": _PAIR}),
        ("partitioned", gap, {"by": "key", "buckets": 7, **_GAP}),
        ("filter", is_large, {}),
        ("stateful", running, {**_RUNNING, "end": last_of_all}),
    )),
    "one for all": Shape((("filter", whole, {}), ("stateful", hour_over, {
        "state": {"open": False, "hour": 0, "sum": 0}, "emits": {"sum": "int64"}, "end": last_hour,
    }))),
    "many outputs": Shape((("filter", whole, {}), ("flat_map", many, {"emits": {"v": "int64"}}))),
    "nothing left": Shape((
        ("filter", whole, {}), ("map", twice, {"emits": _PAIR | {"y": "float64"}}), ("filter", nothing, {}),
    )),
    "containers and strings": Shape((("filter", has_all, {}), ("partitioned", words, {"by": "text", "buckets": 3, **_WORDS}))),
    "filters": Shape((("filter", whole, {}), ("filter", has_all, {}))),
    "forgotten keys": Shape((("filter", has_all, {}), ("partitioned", words, {
        "by": "text", "buckets": 3, "forget": 20, **_WORDS,
    }), ("partitioned", chained_text, {
        "by": "distinct", "buckets": 2, "forget": 6, "state": {"n": 7, "all": hr.list_of("int64")},
        "emits": {"key": "int64", "n": "int64"},
    }))),
    "strings through five stages": Shape((
        ("filter", has_all, {}),
        ("flat_map", labels, {"emits": {"text": "string", "x": "int64", "flag": "bool"}}),
        ("partitioned", words, {"by": "text", "buckets": 2, **_WORDS}),
        ("filter", is_old, {}),
        ("stateful", newest, {
            "state": {"last": hr.map_of("string", "int64"), "texts": hr.list_of("string")},
            "emits": {"text": "string", "other": "string", "total": "int64"}, "end": leftover,
        }),
        ("partitioned", meetings, {
            "by": "text", "state": {"others": hr.set_of("string"), "recent": hr.array("int64", 3), "n": "int64"},
            "emits": {"text": "string", "other": "string", "n": "int64", "before": "int64"},
        }),
    )),
    "six stages": Shape((
        ("filter", whole, {}),
        ("map", twice, {"emits": _PAIR | {"y": "float64"}}),
        ("partitioned", gap, {"by": "key", "buckets": 100, **_GAP}),
        ("partitioned", running, {"by": "gap", "buckets": 1, **_RUNNING}),
        ("stateful", chained, {"state": {"total": "int64"}, "emits": {"key": "int64", "n": "int64"}}),
        ("partitioned", chained, {"by": "key", "state": {"total": 5}, "emits": {"key": "int64", "n": "int64"}}),
    )),
}  # fmt: skip
"""Shapes, by what is special about each."""


def some_rows(rng: np.random.Generator, rows: int, keys: int) -> pa.Table:
    """Rows for every shape: rising times with ties, a few nulls."""

    def with_nulls(values: list[Any], kind: pa.DataType, share: float = 0.05) -> pa.Array:
        holes = rng.random(rows) < share
        return pa.array([None if hole else value for value, hole in zip(values, holes, strict=True)], kind)

    return pa.table(
        {
            "ts": pa.array(np.cumsum(rng.integers(0, 3, rows)), pa.int64()),
            "key": with_nulls((rng.integers(0, keys, rows) - keys // 2).tolist(), pa.int64(), 0.02),
            "x": with_nulls(rng.integers(0, 1000, rows).tolist(), pa.int64()),
            "y": with_nulls(rng.random(rows).round(3).tolist(), pa.float64()),
            "text": with_nulls(rng.choice(TEXTS, rows).tolist(), pa.string()),
            "flag": with_nulls((rng.random(rows) < 0.5).tolist(), pa.bool_()),
            "tags": pa.array([["a"]] * rows, pa.list_(pa.string())),
        }
    )


SCHEDULES = ("qst", "lp", "et", "ct")
QUEUES = ("auto", "hybrid", "partitioned", "shared")


def drawn_options(rng: np.random.Generator, count: int = 3000, most_threads: int = 8) -> dict[str, Any]:
    """Options of `start`, from one worker with everything small to many workers; changes before any of so many rows."""
    threads = int(rng.integers(1, most_threads + 1))
    options: dict[str, Any] = {
        "threads": threads,
        "max_threads": most_threads,
        "schedule": str(rng.choice(SCHEDULES)),
        "queues": str(rng.choice(QUEUES)),
        "reorder": str(rng.choice(["nonblocking", "lock"])),
        "batch": int(rng.choice([1, 2, 7, 64, 256])),
        "capacity": int(rng.choice([2, 4, 64, 1024])),
        "time_slice": str(rng.choice(["1us", "200us", "5ms"])),
        "most_behind": [None, 1, 50][rng.integers(3)],
        "least_before": int(rng.choice([1, 30])),
    }
    if rng.random() < 0.5:
        rows = sorted(int(row) for row in rng.integers(0, count, 3))
        options["reconfigure"] = [
            (rows[0], int(rng.integers(1, most_threads + 1))),
            (rows[1], {"schedule": str(rng.choice(SCHEDULES)), "batch": int(rng.integers(1, 257))}),
            (rows[2], {"threads": int(rng.integers(1, most_threads + 1)), "schedule": str(rng.choice(SCHEDULES))}),
        ]
    return options
