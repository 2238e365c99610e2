"""The program of `headrace bench dgs`: values of streams, summed between barriers; what a value costs is a column."""

from __future__ import annotations

import headrace as hr
from headrace_bench.costly import worked

STREAMS = 2


def add(state, e, emit):
    state.sum += worked(e.x, e.rounds)


def close(state, e, emit):
    emit(sum=state.sum)
    state.sum = 0


def split(state, left, right, tags_left, tags_right):
    if "barrier" in tags_right:
        right.sum = state.sum
    else:
        left.sum = state.sum


def merge(into, other):
    into.sum += other.sum


WINDOW = hr.program(
    tags={"value": {"x": "int64", "rounds": "int64"}, "barrier": {}},
    depends=[("barrier", "barrier"), ("barrier", "value")],
    state={"sum": "int64"},
    emits={"sum": "int64"},
    update={"value": add, "barrier": close},
    fork=split,
    join=merge,
)


__all__ = ["STREAMS", "WINDOW"]
