"""What speculation brings, and what it costs where it cannot help: `headrace bench speculative`.

Transactions of four operations of 200 ns each run on two threads and are compared with `serial`; only the executors run
(`executed`). There are three cases: rows drawn from 10,000, so that two transactions of a batch seldom conflict; the same four
rows for all, so that all conflict; and chains of lookups, where each row names the next row to read, so that no other scheme
can run them on two threads. The first case also runs with operations that cost nothing, which leaves what speculation itself
costs: under ``taskset -c 0``, without the transfer of cache lines between two cores. Rows and tables of each timed run must be
those of `serial`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import headrace as hr
from headrace_bench.costly import RECORDS, worked
from headrace_bench.executed import Executed
from headrace_bench.machine import patience_for
from headrace_bench.rows import Row, median, repeated
from headrace_bench.transacting import PUNCTUATION, rounds_of

COST_NS = 200


def four(events: hr.Stream) -> hr.Stream:
    """Each event writes four rows."""
    table = hr.table("rows", columns={"value": "int64"}, rows=RECORDS)

    def add(e, t):
        table[e.a].value += worked(1, e.rounds)
        table[e.b].value += worked(2, e.rounds)
        table[e.c].value += worked(3, e.rounds)
        table[e.d].value += worked(4, e.rounds)

    return events.transact(add)


def lookups(events: hr.Stream) -> hr.Stream:
    """Each event reads three rows, each of which names the next row, and writes the fourth."""
    keys = np.arange(RECORDS)
    given = pa.table({"id": keys, "next": np.random.default_rng(1).permutation(RECORDS), "value": np.zeros_like(keys)})
    accounts = hr.table("accounts", data=given, key="id")

    def follow(e, t):
        key = e.a
        for _ in range(3):
            key = worked(accounts[key].next, e.rounds)
        accounts[key].value += worked(1, e.rounds)
        t.emit(at=key)

    return events.transact(follow, emits={"at": "int64"})


def _keys(n: int) -> np.ndarray:
    return np.random.default_rng(2).integers(0, RECORDS, (n, 4))


def _same(n: int) -> np.ndarray:
    return np.tile(np.arange(4), (n, 1))


class Case(NamedTuple):
    """Transactions of one kind."""

    build: Callable[[hr.Stream], hr.Stream]
    keys: Callable[[int], np.ndarray]
    """Keys of n events."""
    goal: float | None
    """The goal, as a multiple of the rate of `serial`."""
    cost_ns: int = COST_NS


CASES = {
    "independent": Case(four, _keys, 1.5),
    "independent, trivial operations": Case(four, _keys, None, 0),
    "all conflict": Case(four, _same, 0.6),
    "lookups of keys just read": Case(lookups, _keys, 1.3),
}


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """M events/s of each case, `serial` and on two threads."""
    n, repetitions = (2_000, 1) if tiny else (100_000, 11) if full else (40_000, 7)
    rows = []
    for name, case in CASES.items():
        keys, rounds = case.keys(n), 0 if tiny else rounds_of(case.cost_ns)
        table = pa.table({"ts": np.arange(n), **dict(zip("abcd", keys.T, strict=True)), "rounds": np.full(n, rounds)})
        stream = case.build(hr.stream(table, event_time="ts"))
        first: Executed | None = None
        rates: dict[str, list[float]] = {"serial": [], "speculative": []}
        patience = patience_for(repetitions)
        for counts in repeated(repetitions):
            for scheme, threads in (("serial", 1), ("speculative", 2)):
                run = Executed(stream, table, like=first, scheme=scheme, threads=threads, punctuation=PUNCTUATION)
                first = first or run
                patience.await_near(threads)
                run.run()
                assert run.content == first.content, f"{name}, {scheme}: not what serial made"
                if counts:
                    rates[scheme].append(run.per_second / 1e6)
        serial = median(rates["serial"])
        rows.append(Row("speculative", f"{name}, serial", serial, "M events/s"))
        rows.append(
            Row("speculative", f"{name}, 2 threads", median(rates["speculative"]), "M events/s", baseline=serial,
                baseline_name="serial", goal=case.goal, goal_is_ratio=True)
        )  # fmt: skip
    return rows
