"""keycounter: a counter for each key, reported and reset (Kallas et al., Figure 1).

Keys are independent of each other, and so are the increments of one key: each worker counts its own. A reset of a key
waits only for the increments of that key.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.dealing import Deal
from headrace.reference import synchronization_apps as reference

PARTS = 64


def increment(state, e, emit):
    """One more of its key."""
    state.counts[e.key] = state.counts.get(e.key, 0) + 1


def reset(state, e, emit):
    """Tell how many there were, and begin again."""
    emit(key=e.key, count=state.counts.get(e.key, 0))
    state.counts.pop(e.key, 0)


def split(state, left, right, tags_left, tags_right):
    """A count goes to where its key may be reset; else one side keeps it."""
    for key, count in state.counts.items():
        if ("reset", key) in tags_right:
            right.counts[key] = count
        else:
            left.counts[key] = count


def merge(into, other):
    """Add the counts of each key."""
    for key, count in other.counts.items():
        into.counts[key] = into.counts.get(key, 0) + count


PROGRAM = hr.program(
    name="keycounter",
    tags={
        hr.tag("inc", by="key", parts=PARTS): {"key": "int64"},
        hr.tag("reset", by="key", parts=PARTS): {"key": "int64"},
    },
    depends=[("inc", "reset"), ("reset", "reset")],
    state={"counts": hr.map_of("int64", "int64", by="key")},
    emits={"key": "int64", "count": "int64"},
    update={"inc": increment, "reset": reset},
    fork=split,
    join=merge,
)


def build(deal: Deal, events: hr.Stream) -> hr.Stream:
    return PROGRAM.over({("inc", "reset"): deal(events, tag="kind")})


APP = App(
    name="keycounter",
    help="count the events of each key between its resets",
    left=(TIME, ("key", "integer"), ("kind", "text")),
    build=build,
    reference=reference.keycounter,
    tags=("inc", "reset"),
)
