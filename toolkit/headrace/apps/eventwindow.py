"""eventwindow: the sum of values between two barriers (Kallas et al., section 4.1).

Values are independent of each other and can be summed anywhere; a barrier depends on all of them. Sums have 96 bits, in
two fields: whether a window's sum leaves the range of int64 must not depend on the order of additions.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.dealing import STREAM, Deal
from headrace.reference import synchronization_apps as reference

HALF = 32
LOW = (1 << HALF) - 1


def add(state, e, emit):
    """A value: its high and its low half are added to those of the sum."""
    state.high += e.x >> HALF
    state.low += e.x & LOW


def close(state, e, emit):
    """A barrier: tell the sum, and begin again."""
    high = state.high + (state.low >> HALF)
    if high < -(1 << 31) or high >= 1 << 31:
        raise OverflowError("the sum of a window is beyond int64")
    emit(sum=(high << HALF) + (state.low & LOW))
    state.high = 0
    state.low = 0


def split(state, left, right, tags_left, tags_right):
    """What was summed goes to where a barrier may come; else one side keeps it."""
    if "barrier" in tags_right:
        right.high = state.high
        right.low = state.low
    else:
        left.high = state.high
        left.low = state.low


def merge(into, other):
    """Add both sums."""
    into.high += other.high
    into.low += other.low


PROGRAM = hr.program(
    name="eventwindow",
    tags={"value": {"x": "int64"}, "barrier": {}},
    depends=[("barrier", "barrier"), ("barrier", "value")],
    state={"high": "int64", "low": "int64"},
    emits={"sum": "int64"},
    update={"value": add, "barrier": close},
    fork=split,
    join=merge,
)


def build(deal: Deal, values: hr.Stream, barriers: hr.Stream) -> hr.Stream:
    return PROGRAM.over({"value": deal(values), "barrier": barriers})


APP = App(
    name="eventwindow",
    help="sum values between two barriers",
    left=(TIME, ("x", "integer"), (STREAM, "integer")),
    may_lack=(STREAM,),
    right=(TIME,),
    has_right=True,
    build=build,
    reference=reference.eventwindow,
    tags=("value",),
)
