"""A merged log into which records come as they come: nothing is lost, and watermarks are true.

Property    every reader gets the tuples of all sources, those of each in its order; behind a watermark no tuple is
            earlier, and none is further ahead of it than the lead; the last record is the end, and comes once; all
            readers get the same; nobody waits for ever
Oracle      the properties themselves (`gate_cases.check_as_they_come`)
Schedules   as of test_interleave.py, under both memory models
Planted     each names the failure it must cause
Cannot see  memory weaker than x86's: tests/litmus runs real threads
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate_cases import ARRIVAL, as_they_come_case, check_as_they_come, load
from headrace.errors import ParameterError
from headrace.gates import MergedLog
from interleave import TSO, exhaustive, find_failure, sampled
from support.campaign import rarely


def drain(gate, reader):
    records = []
    while (record := gate.get(reader)) is not None:
        records.append((record.ts, record.ref))
    return records


def close_all(gate, sources):
    for source in range(sources):
        assert gate.close(source)


def test_example_a_source_ahead_of_the_others():
    """Lead 10: source 0 may be nine ahead of what source 1 has come to::

        source 0   1 5 9 10 20
        source 1   0 ............ 12
        watermark    0              10, as 10 is what waits first    20
    """
    gate = MergedLog(2, 1, 64, lead=10)
    assert gate.add([1, 5, 9, 10, 20], 0) == 5
    assert drain(gate, 0) == [], "nobody knows how far source 1 is"
    assert gate.add([0], 1) == 1
    records = drain(gate, 0)
    assert [ts for ts, ref in records if ref >= 0] in ([0, 1, 5, 9], [1, 5, 9, 0])
    assert [ts for ts, ref in records if ref < 0] == [0]
    assert gate.add([12], 1) == 1
    records = drain(gate, 0)
    assert sorted(ts for ts, ref in records if ref >= 0) == [10, 12, 20]
    assert [ts for ts, ref in records if ref < 0] == [10, 12]
    close_all(gate, 2)
    assert [ref for _, ref in drain(gate, 0)] == [-1]


def test_example_heartbeats_of_a_source_are_its_own():
    gate = MergedLog(2, 1, 64, lead=10)
    gate.add([3], 0)
    gate.heartbeat(1, 5)
    assert drain(gate, 0) == [(3, -1), (3, 0)], "source 1 is at 5, and 5 is nothing that readers get"
    gate.heartbeat(0, 9)
    assert drain(gate, 0) == [(5, -1)]


def test_example_one_source_is_in_order_by_itself():
    with pytest.raises(ParameterError, match="lead = 5: one source"):
        MergedLog(1, 1, 64, lead=5)
    with pytest.raises(ParameterError, match="lead = -1"):
        MergedLog(2, 1, 64, lead=-1)


@given(
    streams=st.lists(st.lists(st.integers(-30, 30), max_size=20).map(sorted), min_size=2, max_size=4),
    lead=st.sampled_from([1, 2, 7, 100]),
    capacity=st.sampled_from([1, 2, 8, 64]),
    seed=st.integers(0, 2**32),
)
def test_oracle_what_readers_get(streams, lead, capacity, seed):
    """One thread does what sources and two readers do, in a drawn order."""
    draw = random.Random(seed)
    gate = MergedLog(len(streams), 2, capacity, lead=lead)
    done, closed = [0] * len(streams), [False] * len(streams)
    outs: list[list[tuple[int, int]]] = [[], []]
    while not all(closed):
        s = draw.randrange(len(streams))
        count = draw.randint(1, 5)
        if done[s] < len(streams[s]):
            done[s] += gate.add(streams[s][done[s] : done[s] + count], s)
        elif not closed[s]:
            closed[s] = gate.close(s)
        for reader, out in enumerate(outs):
            for _ in range(draw.randint(0, 3)):
                if (record := gate.get(reader)) is not None:
                    out.append((record.ts, record.ref))
    idle = 0
    while idle < 2:  # each makes room for what the other has to read
        more = [drain(gate, reader) for reader in range(2)]
        idle = 0 if any(more) else idle + 1
        for out, records in zip(outs, more, strict=True):
            out += records
    for out in outs:
        check_as_they_come(out, streams, lead)
    assert outs[0] == outs[1]


# -- every schedule of small cases ---------------------------------------------------------------------


many = pytest.mark.parametrize("times", [1, *rarely(3)])
"""The schedules that are sampled, so often."""


@pytest.mark.slow
@many
@pytest.mark.parametrize("lead", [1, 3])
def test_interleave_two_sources(lead, times):
    case = as_they_come_case(load("log"), [[1, 2], [2, 4]], 1, lead)
    assert exhaustive("log", case, preemptions=1) > 500
    assert exhaustive("log", case, preemptions=1, memory=TSO) > 500
    sampled("log", case, times * 800)


@pytest.mark.slow
@many
def test_interleave_two_readers_with_controls(times):
    sampled("log", as_they_come_case(load("log"), [[1, 3], [2, 2]], 2, 2, epochs=(1,)), times * 1_200)


@pytest.mark.slow
@many
def test_interleave_every_record_waits_for_room(times):
    sampled("log", as_they_come_case(load("log"), [[1, 3, 3, 4], [2, 2]], 2, 2, tight=True), times * 500, longest=20_000)


def test_interleave_an_idle_source_with_heartbeats():
    sampled("log", as_they_come_case(load("log"), [[1, 4], [2, 3], [2]], 1, 2, beats=(1,)), 1_500)


# -- planted bugs --------------------------------------------------------------------------------------

STREAMS = [[1, 3, 6], [2, 2, 5]]
LEAD = 3
PUT = """        to = end & (g.out_ts.shape[1] - 1)
        g.out_ts[0, to] = min(watermark, END_OF_TIME)
"""
BUGS = {
    "a promise that is read after the data": (
        ("if at[s] < until[s] else promised[s]", "if at[s] < until[s] else load_acquire(g.mark, s * CELL)"),
        "behind the watermark",
    ),
    "a watermark that does not see what waits": (
        ("g.ring_ts[s, at[s] & (capacity - 1)] if at[s] < until[s] else promised[s]", "promised[s]"),
        "behind the watermark|of source . got",  # the end, before anything
    ),
    "no bound on how far ahead": ((" or ring_ts[s, slot] >= until_ts:  # U2", ":"), "ahead of the watermark"),
    "a watermark that is published before it is written": (
        (PUT, f"        store_release(g.words, END, end + 1)\n{PUT}"),
        "behind|ahead|after|of source . got|of .* ahead",
    ),
    "a watermark that is written over": (
        ("        end += 1\n    if end > first", "    if end > first"),
        "deadlock|after|behind|ahead",
    ),
}


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_interleave_catches(bug):
    planted, expected = BUGS[bug]
    find_failure("log", as_they_come_case(load("log", (ARRIVAL, *planted)), STREAMS, 1, LEAD), expected, count=20_000)
    sampled("log", as_they_come_case(load("log"), STREAMS, 1, LEAD), 300, longest=20_000)


def test_interleave_catches_a_heartbeat_of_one_source_as_that_of_all():
    streams = [[1, 4], [2, 3], [3]]
    planted = (ARRIVAL, "if ref != HEARTBEAT:  # U3", "if True:")
    case = as_they_come_case(load("log", planted), streams, 1, LEAD, beats=(2,))
    find_failure("log", case, "behind the watermark|after", count=20_000)
    sampled("log", as_they_come_case(load("log"), streams, 1, LEAD, beats=(2,)), 300, longest=20_000)
