"""Runs to watch and to control, and what a page that is opened now would get from a dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ipywidgets as w
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
from headrace_widgets import Dashboard

ROWS = 200_000
TABLE = pa.table({"ts": pa.array(range(ROWS)), "k": pa.array([f"k{i % 97}" for i in range(ROWS)])})


def batches(times: int = 1, rows: int = 500) -> Iterator[pa.RecordBatch]:
    """The table so many times over, in batches of so many rows, with event time going on."""
    for number in range(times):
        ts = pc.add(TABLE["ts"], number * ROWS)
        yield from TABLE.set_column(0, "ts", ts).to_batches(rows)


def start(source: Any = None, **options: Any) -> Any:
    """Count 97 keys, by default on one thread and at full speed; with a rate, the run does not end within a test."""
    source = batches(100 if options.get("rate") else 1) if source is None else source
    stream = hr.stream(source, event_time="ts")
    counts = stream.key_by("k").window(1_000).aggregate(n=hr.count())
    return counts.start(**{"threads": 1, "max_threads": 4, "sink": hr.discard()} | options)


def two_steps() -> Any:
    """A run of two operators that does not end within a test."""
    stream = hr.stream(batches(100), event_time="ts").key_by("k").window(1_000)
    query = (
        stream.aggregate("first", n=hr.count()).key_by("k").window(1_000).aggregate("second", n=hr.sum("n"))
    )
    return query.start(threads=1, max_threads=3, rate=2_000, sink=hr.discard())


def rows(dashboard: Dashboard) -> int:
    """How many rows the plots show."""
    return len(shown(dashboard, "t")) if dashboard.plots.widget.frame else 0


def shown(dashboard: Dashboard, column: str) -> np.ndarray:
    """A column of the time plots, as a page that is opened now gets it."""
    state = dashboard.plots.widget.get_state()
    columns = state["columns"]["series"]
    block = np.frombuffer(state["frame"]["blocks"]["series"], np.float32).reshape(len(columns), -1)
    return block[columns.index(column)]


def ask(dashboard: Any) -> None:
    """Ask whether the kernel listens, as a page that shows the dashboard does."""
    dashboard.connection._handle_custom_msg({"kind": "ask"}, [])


def problem(dashboard: Dashboard) -> str:
    """The problem that the dashboard shows."""
    return dashboard.messages.problem.value


def controls_of(widget: w.Widget) -> set[w.Widget]:
    """All widgets that can be clicked, moved or typed into."""
    if isinstance(widget, w.Box):
        return {one for child in widget.children for one in controls_of(child)}
    return (
        {widget}
        if isinstance(widget, (w.Button, w.ValueWidget)) and not isinstance(widget, w.HTML)
        else set()
    )
