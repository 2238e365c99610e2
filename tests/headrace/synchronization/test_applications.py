"""The programs of the applications, in plain Python.

Property    a program gives what its application says: in one order of events, in any wire diagram of its tags, and in those of
            the plans that optimizers make
Oracle      `headrace.reference.synchronization_apps`, which knows of no program
Cannot see  that the functions compile, and the command line
"""

import dataclasses
import functools
import math
import random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.apps import eventwindow, keycounter, modelfraud, outlier, pageview, smarthome
from headrace.reference import synchronization_apps as apps
from headrace.reference.synchronization import drawn, evaluate, merged, planned, run, ticked
from headrace.synchronization.definition import dependent
from headrace.synchronization.tags import ImplementationTag, part_of

KEY = st.integers(-1, 1)
VALUE = st.integers(-1, 1) | st.sampled_from([-1_000, 999, 1_000, 2_001]) | st.integers(-(2**63), 2**63 - 1)
STREAM = st.integers(0, 1)
DIAGRAMS = 6
"""Of each input."""
LATER = st.integers(0, 2)


def timed(draw, rows, later=LATER):
    """Rows with event times that do not go back."""
    ts, timed_rows = draw(st.integers(-5, 5)), []
    for row in draw(st.lists(rows, max_size=12)):
        ts += draw(later)
        timed_rows.append((ts, row))
    return timed_rows


def tag_of(program, name, payload, stream=0):
    """The implementation tag of an event."""
    tag = program.tags[name]
    return ImplementationTag(name, 0 if tag.by is None else part_of(payload[tag.by], tag.parts), stream)


def as_input(program, name, rows):
    """One input whose rows say their tag: by name, key and stream."""
    return [(ts, tag_of(program, name, row, row.get("stream", 0)), row) for ts, row in rows]


@st.composite
def windows(draw, program=eventwindow.PROGRAM):
    left = timed(draw, st.fixed_dictionaries({"x": VALUE, "stream": STREAM}))
    right = timed(draw, st.just({}))
    return program, [as_input(program, "value", left), as_input(program, "barrier", right)], apps.eventwindow, ([left], [right])


@st.composite
def views(draw, program=pageview.PROGRAM):
    left = timed(draw, st.fixed_dictionaries({"page": KEY, "user": VALUE, "stream": STREAM}))
    right = timed(draw, st.fixed_dictionaries({"page": KEY, "info": VALUE}))
    return program, [as_input(program, "view", left), as_input(program, "update", right)], apps.pageview, ([left], [right])


@st.composite
def frauds(draw, program=modelfraud.PROGRAM):
    left = timed(draw, st.fixed_dictionaries({"value": VALUE, "stream": STREAM}))
    right = timed(draw, st.fixed_dictionaries({"value": VALUE}))
    return program, [as_input(program, "transaction", left), as_input(program, "rule", right)], apps.modelfraud, ([left], [right])


@st.composite
def counters(draw, program=keycounter.PROGRAM):
    rows = timed(draw, st.fixed_dictionaries({"key": KEY, "kind": st.sampled_from(["inc", "inc", "reset"]), "stream": STREAM}))
    return program, [[(ts, tag_of(program, e["kind"], e, e["stream"]), e) for ts, e in rows]], apps.keycounter, ([rows],)


DAY_MS, HOUR_MS = 86_400_000, 3_600_000
IDS = st.sampled_from([-1, 0, 2**31 - 1, 2**63 - 1])
LOADS = st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 1e17, -4.0, math.nan, math.inf])
BY_HOUSE, OUTLIERS = smarthome.program("8h"), outlier.program(8 * HOUR_MS)
ENDS = st.sampled_from([0, 0, 1, 8 * HOUR_MS, 8 * HOUR_MS - 1, DAY_MS, 400 * DAY_MS])


def with_ticks(program, inputs):
    """Beside the inputs, what event time brings."""
    return ticked(inputs, {tag_of(program, name, {}): tag.every for name, tag in program.periodic.items()})


@st.composite
def loads(draw, program=BY_HOUSE):
    columns = {**dict.fromkeys(("house", "household", "plug"), IDS), "load": LOADS, "stream": STREAM}
    rows = timed(draw, st.fixed_dictionaries(columns), ENDS)
    inputs = with_ticks(program, [as_input(program, "load", rows)])
    return program, inputs, functools.partial(apps.smarthome, slice="8h"), ([rows],)


@st.composite
def connections(draw, program=OUTLIERS):
    few, sizes = st.sampled_from(["a", "b", ""]), st.sampled_from([0, 1, 5, -1, 2**63 - 1, -(2**63)])
    columns = {**dict.fromkeys(outlier.TEXTS, few), **dict.fromkeys(outlier.NUMBERS, sizes), "stream": STREAM}
    rows = [(ts, e | {"row": row}) for row, (ts, e) in enumerate(timed(draw, st.fixed_dictionaries(columns), ENDS))]
    inputs = with_ticks(program, [as_input(program, "connection", rows)])
    return program, inputs, functools.partial(apps.outlier, slice=8 * HOUR_MS), ([rows],)


def outcome(compute, *arguments):
    """What comes of it: rows, or that integers overflow."""
    try:
        return compute(*arguments)
    except OverflowError:
        return "overflow"


def same(rows, others):
    """Whether these are the same rows; NaN is NaN, and -0.0 is not 0.0."""
    return repr(rows) == repr(others)


CASES = {"eventwindow": windows(), "pageview": views(), "modelfraud": frauds(), "keycounter": counters()} | {
    "outlier": connections(),
    "smarthome": loads(),
}


@pytest.mark.parametrize("cases", CASES.values(), ids=CASES)
@settings(max_examples=25)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_oracle_programs_and_their_diagrams(cases, data, seed):
    program, inputs, application, sources = data.draw(cases)
    expected = outcome(application, *sources)
    assert same(outcome(run, program, inputs), expected)
    events = merged(inputs)
    any_key = {"key": 0, "page": 0, "house": 0}
    tags = sorted({event.tag for event in events} | {tag_of(program, name, any_key) for name in program.tags})
    for one in range(DIAGRAMS):
        diagram = drawn(events, tags, lambda a, b: dependent(program, a, b), random.Random(seed + one))
        assert same(outcome(evaluate, program, diagram, program.seen), expected)


def in_one_part(program):
    """The program with all keys in one part, so that plans take the streams of a key apart."""
    tags = {name: dataclasses.replace(tag, parts=1) for name, tag in program.tags.items()}
    return dataclasses.replace(program, tags=tags)


PLANNED = {
    **CASES,
    "pageview in one part": views(in_one_part(pageview.PROGRAM)),
    "keycounter in one part": counters(in_one_part(keycounter.PROGRAM)),
}


def above(left, right):
    """A node that owns nothing, above two roots."""
    return SimpleNamespace(tags=(), children=(left, right))


@pytest.mark.parametrize("cases", PLANNED.values(), ids=PLANNED)
@settings(max_examples=20)
@given(data=st.data(), by=st.sampled_from(["appendix", "chain", "flat"]), leaves=st.integers(1, 5))
def test_oracle_plans_give_what_the_application_says(cases, data, by, leaves):
    program, inputs, application, sources = data.draw(cases)
    plan = program.plan(dict.fromkeys(program.tags, 2), leaves=leaves, by=by)
    diagram = planned(merged(inputs), functools.reduce(above, plan.roots))
    assert same(outcome(evaluate, program, diagram, program.seen), outcome(application, *sources))
