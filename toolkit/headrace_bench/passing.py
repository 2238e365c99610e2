"""Results from one operator to the next: through a collector, or from each instance directly into the next gate.

Whole queries of two and three aggregates and custom operators, from a table to a table, run both ways in turns
(`start(passing=...)`). Before anything is timed, their results are compared byte by byte. The output of a query goes through a
collector either way, so the last operator of each gives few rows, unless the case says otherwise. For operators with a key,
two kinds of gate are also compared, in turns: a channel for each instance, into which results are routed, and one gate that
all instances read (`start(channel=...)`).

What keeps some pair counts below 1.5 times as fast is what one thread each does either way. On 29 November 2026, with two
threads on two cores, sums by pair of 60,000 texts took 125 ms by the gate and 193 by the collector, which by itself took 75 ms
of processor time between the operators. In both, the source's reader took 39 ms to make pairs and to encode them as keys, the
last collector 31 and 41 ms for its 302,000 rows, and the calling thread 20 and 23 ms; the four instances of both operators
took 27 and 31 ms together. (Of four runs by each way, the fastest.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace.summary import counted
from headrace_bench.rows import Row, median

WAYS = {"gate": {"passing": "gate", "channel": "shared"}, "collector": {"passing": "collector"}}
CHANNELS = {"a channel each": {"channel": "reader"}, "one for all": {"channel": "shared"}}
GOAL = 1.5
"""Speedup over passing through the collector, for pair count on two threads."""
SPAN = 2_000_000
WORDS = 2_000


def numbers(rows: int, keys: int, seed: int = 1) -> pa.Table:
    """Rows of a key and a number, ordered by event time over one span."""
    rng = np.random.default_rng(seed)
    ts, keys_of_rows = np.sort(rng.integers(0, SPAN, rows)), rng.integers(0, keys, rows)
    return pa.table({"ts": ts, "k": keys_of_rows, "v": rng.integers(0, 100, rows)})


def grouped(rows: int, keys: int) -> pa.Table:
    """The same rows with a group of keys, and a float."""
    table = numbers(rows, keys)
    table = table.append_column("group", pa.array(table["k"].to_numpy() % 100))
    return table.append_column("f", pa.array(table["v"].to_numpy() / 3))


def named(rows: int, keys: int) -> pa.Table:
    """The same rows, whose keys are names; ten of them begin with the same eight bytes."""
    table = numbers(rows, keys)
    names = pa.array([f"no. {key:05d}" for key in range(keys)])
    return table.set_column(1, "k", pc.take(names, table["k"]))


def texts(rows: int, seed: int = 1) -> pa.Table:
    """Texts of eight words with Zipf frequencies (exponent 1.3), one text per time unit."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{number}" for number in range(WORDS)])
    chosen = words[np.minimum(rng.zipf(1.3, (rows, 8)) - 1, WORDS - 1)]
    return pa.table({"ts": np.arange(rows), "t": [" ".join(text) for text in chosen]})


def _wide(table: pa.Table) -> Any:
    first = hr.stream(table, event_time="ts").key_by("k")
    return first.window(SPAN // 10, SPAN // 100).aggregate("first", n=hr.count(), s=hr.sum("v"))


def wide_same_key(table: pa.Table) -> Any:
    """Large sliding windows, whose results are aggregated in windows by the same key."""
    return _wide(table).key_by("k").window(SPAN // 5, SPAN // 10).aggregate("second", n=hr.sum("n"), most=hr.max("s"))


def wide_totals(table: pa.Table) -> Any:
    """The same large windows, whose results are totalled over all keys."""
    return _wide(table).window(SPAN // 10).aggregate("second", n=hr.sum("n"), most=hr.max("s"))


def wide_two_takers(table: pa.Table) -> Any:
    """The same large windows, whose results two aggregates take: one by the same key, and one over all keys."""
    first = _wide(table)
    second = first.key_by("k").window(SPAN // 5, SPAN // 10).aggregate("second", n=hr.sum("n"), most=hr.max("s"))
    third = first.window(SPAN // 10).aggregate("third", n=hr.sum("n"), most=hr.max("s"))
    return hr.together(second=second, third=third)


def wide_latest(table: pa.Table) -> Any:
    """The same large windows, of whose results the last of each time shows, by their order of content."""
    return _wide(table).window(SPAN // 10).aggregate("second", first=hr.first("n"), last=hr.last("s"))


def wide_by_group(table: pa.Table) -> Any:
    """Large windows by group and key, whose means are added up by group: a sum of floats shows the order of its values."""
    stream = hr.stream(table, event_time="ts").key_by("group", "k").window(SPAN // 10, SPAN // 100)
    first = stream.aggregate("first", n=hr.count(), f=hr.max("f"))
    return first.key_by("group").window(SPAN // 10).aggregate("second", f=hr.sum("f"), last=hr.last("n"))


def _latest(state, t):
    state.n += 1
    state.last = t.v


def _report(key, state, emit):
    emit(n=state.n, last=state.last)


def custom_totals(table: pa.Table) -> Any:
    """Large windows of a custom operator, whose results are totalled over all keys."""
    counts = hr.operator(
        state={"n": "int64", "last": "int64"}, emits={"n": "int64", "last": "int64"}, update=_latest, output=_report
    )
    first = hr.stream(table, event_time="ts").key_by("k").window(SPAN // 10, SPAN // 100).apply(counts, "first")
    return first.window(SPAN // 10).aggregate("second", n=hr.max("n"), most=hr.max("last"), rows=hr.count())


def _most(state, t):
    state.n += t.n
    state.most = max(state.most, t.s)


def _give_most(key, state, emit):
    emit(n=state.n, most=state.most)


def wide_custom(table: pa.Table) -> Any:
    """The same large windows of aggregates, whose results a custom operator takes by the same key."""
    most = hr.operator(
        state={"n": "int64", "most": "int64"}, emits={"n": "int64", "most": "int64"}, update=_most, output=_give_most
    )
    return _wide(table).key_by("k").window(SPAN // 5, SPAN // 10).apply(most, "second")


def three(table: pa.Table) -> Any:
    """Three aggregates, the last over all keys."""
    first = hr.stream(table, event_time="ts").key_by("k").window(SPAN // 100, SPAN // 200)
    second = first.aggregate("first", n=hr.count(), s=hr.sum("v")).key_by("k").window(SPAN // 20, SPAN // 40)
    third = second.aggregate("second", n=hr.sum("n"), most=hr.max("s")).window(SPAN // 20)
    return third.aggregate("third", n=hr.sum("n"), most=hr.max("most"), keys=hr.count())


def _pairs(table: pa.Table) -> Any:
    pairs = hr.stream(table, event_time="ts").key_by(hr.pairs("t", distance=3))
    return pairs.window(1_000).aggregate("pairs", n=hr.count())


def pair_count(table: pa.Table) -> Any:
    """Pairs of near words, counted in short windows and summed by pair in longer ones."""
    pairs = _pairs(table)
    return pairs.key_by(*pairs.schema.names[1:3]).window(20_000, 10_000).aggregate("sums", n=hr.sum("n"), most=hr.max("n"))


def pair_totals(table: pa.Table) -> Any:
    """The same pair counts, totalled over all pairs."""
    return _pairs(table).window(1_000).aggregate("totals", n=hr.sum("n"), most=hr.max("n"), pairs=hr.count())


def pair_words(table: pa.Table) -> Any:
    """The same pair counts, summed by the first word: the second key has only some of the first key's columns."""
    pairs = _pairs(table)
    word = pairs.schema.names[1]
    return pairs.key_by(word).window(20_000, 10_000).aggregate("words", n=hr.sum("n"), most=hr.max("n"), pairs=hr.count())


def frequent_pairs(table: pa.Table) -> Any:
    """The same pair counts, summed over pairs that occurred more than once: there is a filter between the operators."""
    pairs = _pairs(table)
    again = pairs.filter(hr.col("n") > 1).key_by(*pairs.schema.names[1:3])
    return again.window(20_000, 10_000).aggregate("sums", n=hr.sum("n"), most=hr.max("n"))


def _row(name: str, query: Any, threads: int, repetitions: int, ways: dict[str, dict[str, str]]) -> Row:
    """Seconds from table to table by the first way, beside the second."""
    tables = [query.to_arrow(threads=threads, **way) for way in ways.values()]
    assert tables[0] == tables[1], f"{name}: other results"
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repetitions):
        for way, options in ways.items():
            begin = time.perf_counter()
            query.to_arrow(threads=threads, **options)
            seconds[way].append(time.perf_counter() - begin)
    (_, taken), (other, baseline) = ((way, median(times)) for way, times in seconds.items())
    case = f"{name}, {counted(threads, 'thread')}"
    return Row("passing", case, taken, "s", "lower", baseline=baseline, baseline_name=other)


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Seconds of queries of several operators, for both ways of passing results between them."""
    rows, tweets, keys, repetitions = (6_000_000, 200_000, 100_000, 9) if full else (2_000_000, 60_000, 100_000, 5)
    if tiny:
        rows, tweets, keys, repetitions = 4_000, 2_000, 200, 1
    cases: list[tuple[str, Callable, pa.Table]] = [
        ("large windows, the same key", wide_same_key, numbers(rows, keys)),
        ("large windows, totals", wide_totals, numbers(rows, keys)),
        ("large windows, two takers", wide_two_takers, numbers(rows, keys)),
        ("large windows, first and last of all", wide_latest, numbers(rows, keys)),
        ("large windows by name, first and last of all", wide_latest, named(rows, keys)),
        ("large windows, sums of floats by group", wide_by_group, grouped(rows, keys)),
        ("large windows, a custom operator behind them", wide_custom, numbers(rows, keys)),
        ("large windows of a custom operator, totals", custom_totals, numbers(rows, keys)),
        ("three aggregates", three, numbers(rows, keys // 5)),
        ("pair count, sums by pair", pair_count, texts(tweets)),
        ("pair count, sums by word", pair_words, texts(tweets)),
        ("pair count, totals", pair_totals, texts(tweets)),
        ("frequent pairs, sums by pair", frequent_pairs, texts(tweets)),
    ]
    rows_of = [_row(name, query(table), threads, repetitions, WAYS) for name, query, table in cases for threads in (1, 2)]
    for row in rows_of:
        if row.case.startswith("pair count") and row.case.endswith("2 threads"):
            row.goal, row.goal_is_ratio = 1 / GOAL, True
    rows_of += [
        _row(f"{name}, a channel each", query(table), threads, repetitions, CHANNELS)
        for name, query, table in cases if query in (wide_same_key, pair_count) for threads in (1, 2, 4)
    ]  # fmt: skip
    return rows_of
