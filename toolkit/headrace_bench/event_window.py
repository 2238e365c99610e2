"""The program of `headrace bench dgs`: values of streams, summed between barriers; the cost of a value is a column."""

from __future__ import annotations

from typing import Any

import headrace as hr
from headrace_bench.transacting import rounds_of

STREAMS = 2
STEPS = 6
"""Steps of a round."""


def worked(value, rounds):
    """Make six dependent steps a round, as `costly.worked` makes them one by one; `value` is returned unchanged.

    In a loop of unknown length, a user's function checks at each iteration whether the run is to stop. Where an iteration
    is a step of three instructions, that check is a quarter of it, and the processor no longer overlaps two events: the
    benchmark would measure the check, not the plans.
    """
    x = (value & 0xFFFFFFFF) | 1
    for _ in range(rounds):
        for _ in range(6):
            x ^= (x & 0x7FFFF) << 13
            x ^= x >> 17
            x ^= (x & 0x7FFFFFF) << 5
    return value if x != 0 else value + 1


def rounds_for(cost_ns):
    """How many rounds take the given time."""
    return max(1, round(rounds_of(cost_ns) / STEPS)) if cost_ns else 0


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


def add_alone(state, e, emit):
    state.sum += e.x


SAME: dict[str, Any] = {
    "depends": [("barrier", "barrier"), ("barrier", "value")],
    "state": {"sum": "int64"},
    "emits": {"sum": "int64"},
    "fork": split,
    "join": merge,
}
"""Arguments that all programs of the event window share."""
COSTLY: dict[str, Any] = {
    "tags": {"value": {"x": "int64", "rounds": "int64"}, "barrier": {}}, "update": {"value": add, "barrier": close},
}  # fmt: skip
ADDED: dict[str, Any] = {"tags": {"value": {"x": "int64"}, "barrier": {}}, "update": {"value": add_alone, "barrier": close}}
ALWAYS_FORKED: dict[str, Any] = SAME | {"state": {"sum": "int64", "unused": "float64"}}
"""Arguments with which every barrier joins and forks: a state with a float never stays joined."""
WINDOW, WINDOW_FORKED = hr.program(**COSTLY, **SAME), hr.program(**COSTLY, **ALWAYS_FORKED)
TRIVIAL, TRIVIAL_FORKED = hr.program(**ADDED, **SAME), hr.program(**ADDED, **ALWAYS_FORKED)
"""Programs in which a value is only added."""


__all__ = [
    "SAME", "STREAMS", "TRIVIAL", "TRIVIAL_FORKED", "WINDOW", "WINDOW_FORKED", "close", "rounds_for", "worked",
]  # fmt: skip
