"""outlier: connections of a network that are unlike the others (Kallas et al., appendix A.1; Otey et al.'s Reloaded).

Each worker counts the attributes of its connections, and flags connections that are unusual by the model of the last
request as candidates. A request, at the end of each slice of event time, joins the counts to the model of all connections so
far: candidates that are unusual by that model too are reported, and the workers go on with it. Candidates are flagged by the
joined model of the last request, not by what one worker has seen since, so they do not depend on how connections were dealt out.

A connection's score is how many of its attributes are unusual: a protocol, service or flag that not one in `RARE` has; a
duration or number of bytes more than `DEVIATIONS` standard deviations from the mean, on a logarithmic scale in sixteenths
of a bit. Counts and sums are integers, so the order of additions does not matter.

A connection is identified by its `row`, which must be unique, because candidates are kept by it: of two connections with one
row, a worker that has both would keep the second, and two workers with one each would keep one of them at the join.
`headrace run` numbers the rows of its file; a caller of `program` has to number them through all streams.
"""

import headrace as hr
from headrace.apps.app import TIME, App, Option
from headrace.apps.dealing import ROW, Deal
from headrace.reference import synchronization_apps as reference
from headrace.reference.synchronization_apps import DEVIATIONS, LEAST_SCORE, RARE
from headrace.stream import Program
from headrace.stream.streams import unit_of
from headrace.windows import Duration, parse_duration

MOST = (1 << 63) - 1
TEXTS = {"protocol": "string", "service": "string", "flag": "string"}
NUMBERS = {"duration": "int64", "src_bytes": "int64", "dst_bytes": "int64"}
RARITIES, SUMS = len(TEXTS), 1 + 2 * len(NUMBERS)
"""Of a value, how many have it as protocol, service, flag. Of all connections, how many there are, and for each number the
sums of its magnitudes and of their squares."""


def magnitude(x):
    """Sixteenths of the bits of a number: 16 for 1, 32 for 2, 40 for 3, 48 for 4; below zero the same with its sign."""
    if x == 0:
        return 0
    size = x if x > 0 else -max(x, -MOST)
    bits = 0
    step = 32
    while step > 0:
        if size >> (bits + step) > 0:
            bits += step
        step //= 2
    scaled = 16 * bits + (size >> (bits - 4) if bits > 4 else size << (4 - bits))
    return scaled if x > 0 else -scaled


def is_rare(counts, value, attribute, n):
    """1 if not one in `RARE` of n connections has the value, else 0."""
    count = counts[value][attribute] if value in counts else 0
    return 1 if count * RARE < n else 0


def is_far(sums, value, attribute):
    """1 if a magnitude is far from the mean of all, else 0."""
    n = float(sums[0])
    total = float(sums[1 + 2 * attribute])
    off = n * float(value) - total
    spread = max(0.0, n * float(sums[2 + 2 * attribute]) - total * total)
    return 1 if off * off > DEVIATIONS * DEVIATIONS * spread else 0


def score_of(counts, sums, protocol, service, flag, duration, src_bytes, dst_bytes):
    """How many attributes are unusual."""
    n = sums[0]
    rare = is_rare(counts, protocol, 0, n) + is_rare(counts, service, 1, n) + is_rare(counts, flag, 2, n)
    return rare + is_far(sums, duration, 0) + is_far(sums, src_bytes, 1) + is_far(sums, dst_bytes, 2)


def add_number(sums, attribute, value):
    """Count a magnitude."""
    sums[1 + 2 * attribute] += value
    sums[2 + 2 * attribute] += value * value


def connect(state, e, emit):
    """A connection: count it; and remember it, if it is unusual or there is no model yet."""
    duration = magnitude(e.duration)
    src_bytes = magnitude(e.src_bytes)
    dst_bytes = magnitude(e.dst_bytes)
    score = LEAST_SCORE
    if state.known_sums[0] > 0:
        score = score_of(state.known, state.known_sums, e.protocol, e.service, e.flag, duration, src_bytes, dst_bytes)
    if score >= LEAST_SCORE:
        state.candidates[e.row].protocol = e.protocol
        state.candidates[e.row].service = e.service
        state.candidates[e.row].flag = e.flag
        state.candidates[e.row].duration = e.duration
        state.candidates[e.row].src_bytes = e.src_bytes
        state.candidates[e.row].dst_bytes = e.dst_bytes
    state.new[e.protocol][0] += 1
    state.new[e.service][1] += 1
    state.new[e.flag][2] += 1
    state.new_sums[0] += 1
    add_number(state.new_sums, 0, duration)
    add_number(state.new_sums, 1, src_bytes)
    add_number(state.new_sums, 2, dst_bytes)


def request(state, e, emit):
    """The end of a slice: all that was counted is the model, and tells which candidates are outliers."""
    for value, counts in state.new.items():
        for attribute in range(RARITIES):
            state.known[value][attribute] += counts[attribute]
    state.new.clear()
    for at in range(SUMS):
        state.known_sums[at] += state.new_sums[at]
        state.new_sums[at] = 0
    for row, one in state.candidates.items():
        score = score_of(
            state.known, state.known_sums, one.protocol, one.service, one.flag,
            magnitude(one.duration), magnitude(one.src_bytes), magnitude(one.dst_bytes),
        )  # fmt: skip
        if score >= LEAST_SCORE:
            emit(
                row=row, protocol=one.protocol, service=one.service, flag=one.flag, duration=one.duration,
                src_bytes=one.src_bytes, dst_bytes=one.dst_bytes, score=score,
            )  # fmt: skip
    state.candidates.clear()


def split(state, left, right, tags_left, tags_right):
    """The model goes to both; what was counted since to one of them, to where a request may come."""
    for value, counts in state.known.items():
        for attribute in range(RARITIES):
            left.known[value][attribute] = counts[attribute]
            right.known[value][attribute] = counts[attribute]
    is_right = "request" in tags_right
    for at in range(SUMS):
        left.known_sums[at] = state.known_sums[at]
        right.known_sums[at] = state.known_sums[at]
        if is_right:
            right.new_sums[at] = state.new_sums[at]
        else:
            left.new_sums[at] = state.new_sums[at]
    if is_right:
        right.new = state.new
        right.candidates = state.candidates
    else:
        left.new = state.new
        left.candidates = state.candidates


def merge(into, other):
    """Add what was counted; the model with more connections is the later one."""
    if other.known_sums[0] > into.known_sums[0]:
        into.known = other.known
        for at in range(SUMS):
            into.known_sums[at] = other.known_sums[at]
    for value, counts in other.new.items():
        for attribute in range(RARITIES):
            into.new[value][attribute] += counts[attribute]
    for at in range(SUMS):
        into.new_sums[at] += other.new_sums[at]
    for row, one in other.candidates.items():
        into.candidates[row].protocol = one.protocol
        into.candidates[row].service = one.service
        into.candidates[row].flag = one.flag
        into.candidates[row].duration = one.duration
        into.candidates[row].src_bytes = one.src_bytes
        into.candidates[row].dst_bytes = one.dst_bytes


def program(slice: Duration = "10min") -> Program:
    """Make the program for requests at the ends of slices of this length; no two connections may have the same `row`."""
    counts = hr.map_of("string", hr.array("int64", len(TEXTS)))
    return hr.program(
        name="outlier",
        tags={"connection": {"row": "int64"} | TEXTS | NUMBERS, "request": hr.every(slice)},
        depends=[("connection", "request"), ("request", "request")],
        state={
            "known": counts,
            "known_sums": hr.array("int64", SUMS),
            "new": counts,
            "new_sums": hr.array("int64", SUMS),
            "candidates": hr.map_of("int64", hr.record(**TEXTS, **NUMBERS)),
        },
        emits={"row": "int64"} | TEXTS | NUMBERS | {"score": "int64"},
        update={"connection": connect, "request": request},
        fork=split,
        join=merge,
    )


def build(deal: Deal, connections: hr.Stream, slice: Duration) -> hr.Stream:
    return program(parse_duration(slice, unit_of(connections), "--slice")).over({"connection": deal(connections)})


APP = App(
    name="outlier",
    help=(
        "find unusual connections; gives ts of the request, row (its number in the file), the other columns, score (how many"
        " of them are unusual, at least 2)"
    ),
    left=(TIME, *((name, "text") for name in TEXTS), *((name, "integer") for name in NUMBERS)),
    build=build,
    reference=reference.outlier,
    options=[Option("slice", "10min", str, "event time between two reports of outliers (default 10min)")],
    tags=("connection",),
    row_column=ROW,
)
