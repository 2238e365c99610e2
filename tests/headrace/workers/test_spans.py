"""What workers write about themselves: spans of time in one state.

Property    The ring says what a plain list of the same turns says: what is short is left out, spans of one state around it
            are one, and the latest are kept.
Cannot see  a copy taken while the ring is written: `first` in `spans` is argued, not tested.
"""

import inspect
import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.workers import spans, worker_kernel
from headrace.workers.worker_kernel import LEAST_SPAN_NS, METER_WORDS, SINCE, SPANS_KEPT, STATE
from support.workloads import SEEDED

STATES = spans.STATES


def expected(turns):
    """Spans of a list of (state, begin, end), as `spans` gives them."""
    found = []
    for state, begin, end in turns:
        if end - begin < LEAST_SPAN_NS:
            continue
        if found and found[-1][0] == state and begin - found[-1][2] < LEAST_SPAN_NS:
            found[-1][2] = end
        else:
            found.append([state, begin, end])
    return [tuple(span) for span in found][-SPANS_KEPT + 1 :]


def drawn_turns(seed, count):
    draw, now = random.Random(seed), 1_000
    for _ in range(count):
        took = draw.choice([50, LEAST_SPAN_NS - 1, LEAST_SPAN_NS, 200_000])
        yield draw.randrange(len(STATES)), now, now + took
        now += took


def written(turns, keep=worker_kernel._keep_span):
    meter = np.zeros((2, METER_WORDS), np.int64)
    for state, begin, end in turns:
        if end - begin >= LEAST_SPAN_NS:
            keep(meter[1], state, begin, end)
    return meter


def of_ring(meter):
    return [(STATES.index(s.state), s.begin_ns, s.end_ns) for s in spans.spans(meter, until_ns=1)]


@SEEDED
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 5, 300, 3 * SPANS_KEPT]))
def test_property_the_ring_keeps_the_latest_spans(seed, count):
    turns = list(drawn_turns(seed, count))
    assert of_ring(written(turns)) == expected(turns)


def test_example_what_a_worker_does_now_and_what_is_over():
    meter = written([(1, 1_000, 100_000), (2, 100_000, 300_000)])
    meter[1, [STATE, SINCE]] = 3, 300_000
    assert [span.state for span in spans.spans(meter, until_ns=400_000)] == ["process", "wait", "room"]
    assert spans.spans(meter, until_ns=400_000)[-1] == spans.Span(1, "room", 300_000, 400_000)
    assert [span.state for span in spans.spans(meter, since_ns=200_000, until_ns=400_000)] == ["wait", "room"]


def test_example_turning_books_times_and_spans_alike():
    meter = np.zeros((1, METER_WORDS), np.int64)
    for state in (1, 2, 1, 4, 0):
        begun = worker_kernel.turn(meter, 0, state)
        while time.monotonic_ns() - begun < 2 * LEAST_SPAN_NS:
            pass
    worker_kernel.turn(meter, 0, 0)
    found = spans.spans(meter)
    assert [span.state for span in found][:5] == ["process", "wait", "process", "barrier", "parked"]
    booked = spans.counters(meter)[0]
    for number, state in enumerate(STATES[1:], 1):
        assert booked[number] == sum(s.end_ns - s.begin_ns for s in found if s.state == state)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("words[last + SPAN_END] = end\n        return", "return"),
        ("if count > 0 and words[last + SPAN_STATE] == state and", "if count > 0 and"),
        ("at = _COUNTERS + count % SPANS_KEPT", "at = _COUNTERS + count % (SPANS_KEPT - 1)"),
    ],
)
def test_planted_mistake_is_found(text, mistake):
    body = inspect.getsource(worker_kernel._keep_span.py_func)
    assert text in body, f"{text!r}: the mistake is out of date"
    scope = dict(vars(worker_kernel)) | {"kernel": lambda function: function, "store_release": np.ndarray.__setitem__}
    exec(body.replace(text, mistake), scope)
    cases = [list(drawn_turns(seed, 6 * SPANS_KEPT)) for seed in range(3)]
    assert any(of_ring(written(turns, scope["_keep_span"])) != expected(turns) for turns in cases)

