"""smarthome: loads of smart plugs, predicted from the last slice and from earlier days (Kallas et al., appendix A.2).

The DEBS challenge of 2014: averages of houses, households and plugs. Houses are independent of each other, so each worker
has some of them; a house's rows are summed in their order, so the rows of one house wait for each other. At the
end of a slice everything is joined, compared with the averages of earlier days, and reported.

The data of a key are kept under a number made of its ids, which differs between keys except in rare cases, when
the next free number is taken. Keys are sorted by their ids once a slice.
"""

import math

import headrace as hr
from headrace.apps.app import TIME, App, Option
from headrace.apps.dealing import Deal
from headrace.errors import ParameterError
from headrace.reference import synchronization_apps as reference
from headrace.stream import Program
from headrace.stream.streams import unit_of
from headrace.windows import DEFAULT_TIME_UNIT, Duration, parse_duration

PARTS = 64
LEVELS = 3
P, Q = (1 << 31) - 1, (1 << 31) - 19
"""Primes: what is left by both tells nearly all int64 apart."""
A, B = 1_103_515_245, 1_664_525

SUMS = hr.map_of(
    "int64",
    hr.record(of="int64", house="int64", household="int64", plug="int64", total="float64", count="int64"),
)
"""Of loads in the slice, where `of` is the level; of averages it is the level, and `LEVELS` for each slice of the day before.
Ids below the level are 0."""


def number_of(of, house, household, plug):
    """The number that a key ought to have, below 2**62."""
    p = of % P
    q = of % Q
    p = (p * A + house % P) % P
    q = (q * B + house % Q) % Q
    p = (p * A + household % P) % P
    q = (q * B + household % Q) % Q
    p = (p * A + plug % P) % P
    q = (q * B + plug % Q) % Q
    return (p << 31) + q


def place_in(sums, of, house, household, plug):
    """The number that a key has, or gets."""
    at = number_of(of, house, household, plug)
    while at in sums and not (
        sums[at].house == house and sums[at].household == household and sums[at].plug == plug and sums[at].of == of
    ):
        at += 1
    return at


def add_to(sums, of, house, household, plug, total, count):
    """Add to the sum of a key."""
    at = place_in(sums, of, house, household, plug)
    if at not in sums:
        sums[at].of = of
        sums[at].house = house
        sums[at].household = household
        sums[at].plug = plug
    sums[at].total += total
    sums[at].count += count


def load(state, e, emit):
    """A reading: it counts for its house, for its household and for its plug."""
    for level in range(LEVELS):
        household = e.household if level > 0 else 0
        plug = e.plug if level > 1 else 0
        add_to(state.loads, level, e.house, household, plug, e.load, 1)


def bring_in_order(state):
    """Sort the keys of the slice by level, house, household and plug: by the last first, and equal ones stay as they are."""
    state.ordered.clear()
    for at in state.loads:
        state.ordered.append(at)
    for by in range(4):
        state.following.clear()
        for i in range(len(state.ordered)):
            at = state.ordered[i]
            if by == 0:
                value = state.loads[at].plug
            elif by == 1:
                value = state.loads[at].household
            elif by == 2:
                value = state.loads[at].house
            else:
                value = state.loads[at].of
            if value in state.chains:
                state.following[state.chains[value].last] = i
            else:
                state.chains[value].first = i
            state.chains[value].last = i
            state.following.append(-1)
        state.before = state.ordered
        state.ordered.clear()
        for chain in state.chains.values():
            i = chain.first
            while i >= 0:
                state.ordered.append(state.before[i])
                i = state.following[i]
        state.chains.clear()
    state.before.clear()
    state.following.clear()


def split(state, left, right, tags_left, tags_right):
    """Loads go where those of their house may come; the averages, which an end of a slice alone needs, stay in one piece."""
    if "end" in tags_right:
        right.averages = state.averages
        right.loads = state.loads
    else:
        left.averages = state.averages
        for one in state.loads.values():
            if ("load", one.house) in tags_right:
                add_to(right.loads, one.of, one.house, one.household, one.plug, one.total, one.count)
            else:
                add_to(left.loads, one.of, one.house, one.household, one.plug, one.total, one.count)


def merge(into, other):
    """Each key has been on one side only, and so have the averages."""
    for one in other.loads.values():
        add_to(into.loads, one.of, one.house, one.household, one.plug, one.total, one.count)
    if len(into.averages) == 0:
        into.averages = other.averages


def program(slice: Duration = "1h", unit: str = DEFAULT_TIME_UNIT) -> Program:
    """Make the program for slices of a length, and event times of a unit."""
    width, day = parse_duration(slice, unit, "--slice"), parse_duration("1d", unit)
    if width == 0 or day % width:
        raise ParameterError(f"--slice {slice} does not divide a day; give one that divides a day, such as 1h or 15min")

    def end(state, e, emit):
        # Read from e.every and not a constant, so that one compiled program serves slices of any length.
        slots = day // e.every
        slot = (e.ts // e.every - 1) % slots
        later = (slot + 2) % slots
        bring_in_order(state)
        for k in range(len(state.ordered)):
            at = state.ordered[k]
            level = state.loads[at].of
            house = state.loads[at].house
            household = state.loads[at].household
            plug = state.loads[at].plug
            average = state.loads[at].total / state.loads[at].count
            prediction = average
            known = place_in(state.averages, level + LEVELS * later, house, household, plug)
            if known in state.averages:
                prediction = (average + state.averages[known].total / state.averages[known].count) / 2
            if prediction != prediction:
                prediction = math.nan
            if level == 0:
                emit(level="house", house=house, prediction=prediction)
            elif level == 1:
                emit(level="household", house=house, household=household, prediction=prediction)
            else:
                emit(level="plug", house=house, household=household, plug=plug, prediction=prediction)
            add_to(state.averages, level + LEVELS * slot, house, household, plug, average, 1)
        state.ordered.clear()
        state.loads.clear()

    ids = {"house": "int64", "household": "int64", "plug": "int64"}
    return hr.program(
        name="smarthome",
        tags={hr.tag("load", by="house", parts=PARTS): ids | {"load": "float64"}, "end": hr.every(width)},
        depends=[("load", "load"), ("load", "end"), ("end", "end")],
        state={
            "loads": SUMS,
            "averages": SUMS,
            # Used only within the end of a slice.
            "ordered": hr.list_of("int64"),
            "before": hr.list_of("int64"),
            "following": hr.list_of("int64"),
            "chains": hr.map_of("int64", hr.record(first="int64", last="int64")),
        },
        emits={"level": "string"} | ids | {"prediction": "float64"},
        update={"load": load, "end": end},
        fork=split,
        join=merge,
    )


def build(deal: Deal, loads: hr.Stream, slice: Duration) -> hr.Stream:
    return program(slice, unit_of(loads)).over({"load": deal(loads)})


APP = App(
    name="smarthome",
    help="predict the loads of houses, households and plugs, slice by slice",
    left=(TIME, ("house", "integer"), ("household", "integer"), ("plug", "integer"), ("load", "number")),
    build=build,
    reference=reference.smarthome,
    options=[Option("slice", "1h", str, "slices that a day is cut into (default 1h)")],
    tags=("load",),
)
