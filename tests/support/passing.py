"""Queries whose operators pass results on by the gate, beside the same through a collector."""

import threading

import pytest

from headrace.errors import ParameterError
from support.books import check_end
from support.workloads import HANG_S, Steered, eventually

GATE = {"passing": "gate", "channel": "shared"}
"""One gate that all instances read; test_routed.py is about the other channels."""


def both_ways(query, **options):
    """Compare the results through the gate with those through a collector on one thread, and return them."""
    through = query.to_arrow(**GATE, **options)
    collected = query.to_arrow(passing="collector", threads=1)
    assert through.schema == collected.schema
    assert through.equals(collected), f"{through.num_rows} rows through the gate, {collected.num_rows} collected"
    return through


def options_of(draw, until, small_gates=False):
    """Threads, changes of them at tuples before `until`, to which all operators come, and gates that may hold a few records."""
    changes = sorted(draw.randrange(until) for _ in range(draw.randrange(4)))
    wished = [draw.choice([1, 2, 4, [0, 3], [2]]) for _ in changes]
    options = {"threads": draw.randint(1, 4), "max_threads": 4, "reconfigure": list(zip(changes, wished, strict=True))}
    return options | ({"capacity": draw.choice([1, 2, 64, None])} if small_gates else {})


def check_is_passed(query, rows):
    """Check that "lower" gets what "upper" makes of so many rows by the gate, and that each result is counted once."""
    with query.start(threads=2, **GATE) as run:
        assert run.wait(HANG_S)
        metrics = run.metrics()
        check_end(metrics, rows=rows)
        assert metrics.operators["upper"].results == metrics.operators["lower"].added + metrics.operators["lower"].filtered
        assert run["lower"].takes.startswith("gate: ")


def check_is_collected(query, name, why):
    """Check that an operator gets its input through a collector, says why, and cannot be made to get it by the gate."""
    with query.start(passing="auto") as run:
        assert run.wait(HANG_S)
        assert run[name].takes.startswith("collector: ") and why in run[name].takes, run[name].takes
    with pytest.raises(ParameterError, match=why):
        query.to_arrow(passing={name: "gate"})


def check_stops_in_the_middle(make_query, table, full):
    """Stop a run whose operator "upper" passes results on; where `full`, nobody takes results, and all before them is full.

    `make_query` makes the query of a source that has a table of 50,000 rows.
    """
    goes_on, taken = threading.Event(), threading.Event()

    def sink(batch):
        taken.set()
        if full:
            goes_on.wait(HANG_S)

    source = Steered(table, [1_000] * 50)
    with make_query(source).start(sink=sink, threads=2, max_threads=2, **GATE, capacity=64) as run:
        source.let_all() if full else source.let(20)
        assert taken.wait(HANG_S)
        eventually(lambda: run.metrics().operators["upper"].results > 1_000)
        goes_on.set()
        run.stop()
    assert run.metrics().state in ("stopped", "finished")
