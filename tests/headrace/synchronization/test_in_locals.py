"""Updates that change numbers of the state alone: a run of their events goes on in registers, all of it or nothing.

Property    which updates these are; what comes out is what one event after another gives; an event that fails fails on the
            state that the events before it left, as if each had been done by itself
Oracle      the program's functions in plain Python; what that call says of the state: it names both operands
Cannot see  that registers are used: tests/headrace/memory/test_local_words.py
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError
from headrace.ingress.store import CHUNK
from headrace.reference import synchronization as reference
from headrace.synchronization import words
from headrace.synchronization.binding import MOST_LOCAL_WORDS, bind
from headrace_bench.planned import Planned
from support import event_window
from support.event_window import WINDOW

EVENTS = 3_000
MOST = 2**63 - 1


def add_twice(state, e, emit):
    raise_by(state, e.x)
    raise_by(state, e.x)


def raise_by(state, x):
    state.sum += x


def tell(state, e, emit):
    if e.x < 0:
        emit(sum=e.x)
    state.sum += e.x


def tell_by_helper(state, e, emit):
    told(e, emit)
    state.sum += e.x


def told(e, emit):
    emit(sum=e.x)


def keep(state, e, emit):
    state.kept.append(e.x)


def ask_kept(state, e, emit):
    state.sum += len(state.kept)


def keep_last(state, e, emit):
    state.last[0] = e.x


def roll(state, e, emit):
    state.sum += random.randrange(e.x)


def forget(state, e, emit):
    return


ALONE = {
    event_window.add: ("sum",), add_twice: ("sum",), forget: (), tell: None, tell_by_helper: None, keep: None, ask_kept: None,
    keep_last: None, roll: None,
}  # fmt: skip


@pytest.mark.parametrize("update", ALONE, ids=lambda update: update.__name__)
def test_example_which_updates_change_numbers_alone(update):
    state = {"sum": "int64", "kept": hr.list_of("int64"), "last": hr.array("int64", 2)}
    program = hr.program(tags={"value": {"x": "int64"}}, state=state, emits={"sum": "int64"}, update={"value": update})
    assert bind(program).tags[0].in_numbers.get(0) == ALONE[update]


@pytest.mark.parametrize(("more", "expected"), [(0, ("sum",)), (MOST_LOCAL_WORDS - 1, ("sum",)), (MOST_LOCAL_WORDS, None)])
def test_example_a_large_state_is_left_where_it_is(more, expected):
    state = {"sum": "int64"} | ({"wide": hr.array("int64", more)} if more else {})
    program = hr.program(
        tags={"value": {"x": "int64"}}, state=state, emits={"sum": "int64"}, update={"value": event_window.add}
    )
    assert bind(program).tags[0].in_numbers.get(0) == expected


def take(state, e, emit):
    """A word of each kind; some are assigned on some paths only, one in a helper, and one is read alone."""
    if e.i < 0:
        state.small = -1
        return
    state.n += e.i * state.factor
    state.small = e.i % 7
    state.x = state.x * 0.5 + e.f
    state.h += e.f
    state.seen = not state.seen
    note(state, e)


def note(state, e):
    if e.word != "c":
        state.word = e.word
    if e.maybe is not None:
        state.last = e.maybe


def show(state, e, emit):
    emit(
        n=state.n, small=state.small, x=state.x, h=state.h, seen=state.seen, word=state.word, last=state.last,
    )  # fmt: skip
    state.factor += 1
    state.word = ""


KINDS = {
    "n": "int64", "small": "int32", "x": "float64", "h": "float32", "seen": "bool", "word": "string", "last": "int64",
}  # fmt: skip


@pytest.mark.slow
def test_oracle_words_of_every_kind():
    program = hr.program(
        tags={"value": {"i": "int64", "f": "float64", "word": "string", "maybe": "int64"}, "show": {}},
        depends=[("value", "value"), ("value", "show"), ("show", "show")],
        state=KINDS | {"factor": "int64"},
        emits=KINDS,
        update={"value": take, "show": show},
    )
    assert bind(program).tags[0].in_numbers[0] == tuple(sorted(KINDS | {"factor": ""}))
    rng = random.Random(16)
    values = [
        {
            "ts": ts, "i": rng.randint(-1, 50), "f": rng.randint(0, 9) / 2, "word": rng.choice("abcd"),
            "maybe": rng.choice([None, ts]),
        }
        for ts in range(CHUNK + EVENTS)  # columns lie elsewhere behind a chunk, which a call may go beyond
    ]  # fmt: skip
    shown = [{"ts": ts} for ts in range(0, CHUNK + EVENTS, 700)]
    found = program.over({"value": pa.Table.from_pylist(values), "show": pa.Table.from_pylist(shown)}).to_arrow()

    def events(rows):
        return [(row["ts"], {name: value for name, value in row.items() if name != "ts"}) for row in rows]

    assert found.to_pylist() == reference.run(program, [("value", events(values)), ("show", events(shown))])


def test_property_what_does_not_fail_is_not_done_row_by_row():
    """Private words say which row is at work where it is one by one: calls that always failed would cost nothing but time."""
    values, none = pa.table({"ts": range(EVENTS), "x": [2] * EVENTS}), pa.table({"ts": pa.array([], pa.int64())})
    run = Planned(hr.program(**WINDOW), {"value": values, "barrier": none}, threads=1, leaves=1)
    private = run.operator.arguments(0)[-1]
    private[words.POSITION] = -1
    assert run.run().events == EVENTS and private[words.POSITION] == -1


def count_and_add(state, e, emit):
    state.count += 1
    state.sum += e.x


@pytest.mark.parametrize("fails_at", [1, 2, 1_500])
def test_a_sum_that_does_not_fit_fails_on_the_sum_before_it(fails_at):
    """In the middle of a run, whose events before it are done, in its state, as if each had been done by itself."""
    update = {"value": count_and_add, "barrier": event_window.close}
    program = hr.program(**WINDOW | {"state": {"sum": "int64", "count": "int64"}, "update": update})
    x = [2] * EVENTS
    x[0] = MOST - 1 - 2 * (fails_at - 1)
    values = pa.table({"ts": range(EVENTS), "x": x})
    with pytest.raises(FunctionError) as caught:
        program.over({"value": values, "barrier": pa.table({"ts": [EVENTS]})}).to_arrow()
    assert caught.value.tuple == {"ts": fails_at, "x": 2}
    assert f"{MOST - 1} + 2 leaves the range of int64" in str(caught.value)
