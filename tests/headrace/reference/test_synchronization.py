"""The sequential meaning of a program, and wire diagrams.

Property    both definitions give the same outputs for a consistent program; a diagram of an inconsistent one need not
Oracle      by hand; for diagrams, `run`
Cannot see  programs of users (tests/headrace/synchronization), and what a plan of workers does
"""

import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DisorderError, ParameterError
from headrace.reference.synchronization import (
    Parallel,
    Sequence,
    Update,
    drawn,
    drawn_sides,
    evaluate,
    merged,
    planned,
    run,
)


def add(state, e, emit):
    state.sum += e.x
    if e.x == 0:
        emit(sum=-1)
        emit(sum=-2)


def close(state, e, emit):
    emit(sum=state.sum)
    state.sum = 0


def split(state, left, right, tags_left, tags_right):
    if any(tag[0] == "barrier" for tag in tags_right):
        right.sum = state.sum
    else:
        left.sum = state.sum


def merge(into, other):
    into.sum += other.sum


WINDOW = SimpleNamespace(
    state={"sum": "int64"}, emits={"sum": "int64"}, update={"value": add, "barrier": close}, fork=split, join=merge
)
VALUES, BARRIER = [("value", stream) for stream in range(3)], ("barrier", 0)
TAGS = [*VALUES, BARRIER]


def depends(a, b):
    return "barrier" in (a[0], b[0])


def inputs(steps):
    """Inputs of (stream, x, time since the one before); stream 3 is that of barriers."""
    rows, ts = [[] for _ in TAGS], 0
    for stream, x, later in steps:
        ts += later
        rows[stream].append((ts, {} if stream == 3 else {"x": x}))
    return list(zip(TAGS, rows, strict=True))


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2), st.integers(0, 2)), max_size=12)


def test_example_order_of_events():
    # at 5: inputs as they were given, and positions in them
    rows = [(5, "value", {"x": 1}), (5, "barrier", {}), (5, "value", {"x": 2})]
    events = merged([rows, ("value", [(4, {"x": 3}), (5, {"x": 4})])])
    assert [(event.ts, event.tag, event.payload.get("x")) for event in events] == [
        (4, "value", 3), (5, "value", 1), (5, "barrier", None), (5, "value", 2), (5, "value", 4),
    ]  # fmt: skip
    assert run(WINDOW, [rows, ("value", [(4, {"x": 3})])]) == [{"ts": 5, "sum": 4}]


def test_example_a_source_goes_back():
    with pytest.raises(DisorderError):
        run(WINDOW, [("value", [(2, {"x": 1}), (1, {"x": 1})])])


def test_example_an_output_has_the_time_of_its_event():
    def late(state, e, emit):
        emit(ts=e.ts + 1, sum=0)

    with pytest.raises(ParameterError, match="has the event time of its event"):
        run(SimpleNamespace(**{**vars(WINDOW), "update": {"value": late}}), [("value", [(2, {"x": 1})])])


def test_example_what_a_field_is_at_first():
    field = SimpleNamespace(kind="float64", first=2.5), SimpleNamespace(kind="string", first="")

    def tell(state, e, emit):
        emit(x=state.x, text=state.text)

    told = SimpleNamespace(state=dict(zip(("x", "text"), field, strict=True)), emits=["x", "text"], update={"a": tell})
    assert run(told, [("a", [(0, {})])]) == [{"ts": 0, "x": 2.5, "text": ""}]


def test_example_states_share_nothing():
    """Replicas of a container are containers of their own."""

    def keep(state, e, emit):
        state.seen.append(e.x)
        emit(n=len(state.seen))

    def replicate(state, left, right, tags_left, tags_right):
        left.seen = state.seen
        right.seen = left.seen

    program = SimpleNamespace(
        state={"seen": type("ListOf", (), {"kind": "int64"})()}, emits=["n"], update={"a": keep}, fork=replicate,
        join=lambda into, other: None,
    )  # fmt: skip
    one, two = (Update(position, event) for position, event in enumerate(merged([("a", [(0, {"x": 1}), (1, {"x": 2})])])))
    assert [row["n"] for row in evaluate(program, Parallel({"a"}, {"a"}, one, two))] == [1, 1]


def check_valid(diagram, tags):
    """Definition 2.2: each wire has what it may process; parallel wires are of independent tags."""
    if isinstance(diagram, Update):
        assert diagram.event.tag in tags
    elif isinstance(diagram, Sequence):
        for part in diagram.parts:
            check_valid(part, tags)
    else:
        left, right = diagram.left_tags, diagram.right_tags
        assert not any(depends(a, b) or a == b for a in left for b in right)
        assert {*left, *right} <= set(tags)
        check_valid(diagram.left, left)
        check_valid(diagram.right, right)


@given(STEPS, st.integers(0, 2**32))
def test_oracle_random_diagrams(steps, seed):
    given = inputs(steps)
    diagram = drawn(merged(given), TAGS, depends, random.Random(seed))
    check_valid(diagram, TAGS)
    assert evaluate(WINDOW, diagram) == run(WINDOW, given)


def leaf(*tags):
    return SimpleNamespace(tags=tags, children=())


PLANS = [
    leaf(*TAGS),
    SimpleNamespace(tags=[BARRIER], children=(leaf(VALUES[0]), leaf(*VALUES[1:]))),
    SimpleNamespace(tags=[BARRIER, VALUES[2]], children=(leaf(VALUES[1], VALUES[0]), leaf())),
    SimpleNamespace(
        tags=[BARRIER], children=(leaf(VALUES[0]), SimpleNamespace(tags=[], children=(leaf(VALUES[1]), leaf(VALUES[2]))))
    ),
    SimpleNamespace(tags=[], children=(leaf(), leaf(*TAGS))),
]


@pytest.mark.parametrize("plan", PLANS)
@given(steps=STEPS)
def test_oracle_plans(plan, steps):
    given = inputs(steps)
    diagram = planned(merged(given), plan)
    check_valid(diagram, TAGS)
    assert evaluate(WINDOW, diagram) == run(WINDOW, given)


def test_example_a_plan_forks_and_joins():
    events = merged(inputs([(0, 1, 0), (1, 2, 0), (3, 0, 1), (0, 4, 1)]))
    one, two, barrier, after = (Update(position, event) for position, event in enumerate(events))
    sides = frozenset(VALUES[:1]), frozenset(VALUES[1:])
    assert planned(events, PLANS[1]) == Sequence(
        (
            Parallel(*sides, Sequence((one,)), Sequence((two,))),
            barrier,
            Parallel(*sides, Sequence((after,)), Sequence(())),
        )
    )


def test_example_sides_are_drawn_of_all_kinds():
    kinds = set()
    for seed in range(300):
        left, right = drawn_sides(TAGS, depends, random.Random(seed))
        kinds.add((bool(left), bool(right), BARRIER in left, BARRIER in right))
    assert kinds == {
        (False, False, False, False), (True, False, False, False), (False, True, False, False), (True, True, False, False),
        (True, False, True, False), (False, True, False, True),
    }  # fmt: skip


def test_example_a_wrong_fork_shows_in_a_diagram():
    """What the diagrams are for: the sequential meaning of this program is right."""
    wrong = SimpleNamespace(**{**vars(WINDOW), "fork": lambda state, left, right, *tags: setattr(left, "sum", state.sum)})
    given = inputs([(0, 1, 0), (3, 0, 1)])
    one, barrier = (Update(position, event) for position, event in enumerate(merged(given)))
    diagram = Sequence((one, Parallel((), (BARRIER,), Sequence(()), barrier)))
    assert evaluate(WINDOW, diagram) == run(WINDOW, given) == run(wrong, given) == [{"ts": 1, "sum": 1}]
    assert evaluate(wrong, diagram) == [{"ts": 1, "sum": 0}]
