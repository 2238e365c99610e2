"""Streams that Hypothesis draws for custom operators: rows of every plain kind, sources, windows and planned changes."""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import strategies as st

import headrace as hr
from headrace.windows import Window

SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "ks": pa.list_(pa.string()),
        "k": pa.int64(),
        "x": pa.int64(),
        "y": pa.float64(),
        "f": pa.float32(),
        "b": pa.bool_(),
        "maybe": pa.bool_(),
    }
)
ROWS = st.tuples(
    st.integers(-20, 20),
    st.fixed_dictionaries(
        {
            "ks": st.lists(st.sampled_from(["", "a", "b", "B", "é", "ab", "z"]), max_size=4),
            "k": st.sampled_from([-3, -1, 0, 2, 10, 2**40]),
            "x": st.none() | st.integers(-5, 9),
            "y": st.sampled_from([0.5, -0.0, 1e300, math.inf, 0.1]),
            "f": st.sampled_from([0.5, -0.0, 2.0**100, math.inf]),
            "b": st.booleans(),
            "maybe": st.none() | st.booleans(),
        }
    ),
)
"""(event time, payload)."""


@st.composite
def sources(draw, most=3, rows=ROWS, longest=25):
    """Some sources, each in the order of event time."""
    drawn = draw(st.lists(st.lists(rows, max_size=longest), min_size=1, max_size=most))
    return [sorted(source, key=lambda row: row[0]) for source in drawn]


@st.composite
def schedules(draw):
    """Threads at the start, and planned changes (tuple count, threads)."""
    counts = st.integers(1, 8)
    places = sorted(draw(st.lists(st.integers(0, 40), max_size=3)))
    return {
        "threads": draw(counts),
        "max_threads": 8,
        "reconfigure": [(place, draw(counts)) for place in places],
    }


def windows(slots):
    """Windows of which at most `slots` hold a tuple: one compiled shape."""
    return st.integers(1, 6).flatmap(
        lambda advance: st.integers(max(advance, (slots - 1) * advance + 1), slots * advance).map(
            lambda size: Window(size, advance)
        )
    )


def table(source, schema=SCHEMA):
    return pa.Table.from_pylist([{"ts": ts, **payload} for ts, payload in source], schema)


def stream(drawn, schema=SCHEMA):
    return hr.stream([table(source, schema) for source in drawn], event_time="ts")
