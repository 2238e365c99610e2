"""Tuples that windows keep (Table I's defaults): equal to the reference.

Property    `output` sees the tuples of its window in input order, whatever the
            threads, gates, modes and reconfigurations, and the nodes come back
            when a window expires or slides on
Oracle      `headrace.reference.operator` with its default f_U and f_S
Cannot see  the pool of nodes under every schedule: tests/headrace/memory/test_stored.py

One key, windows of size 4 and advance 2, tuples at 1 and 3. WT=multi stores a
tuple once for each window, WT=single once, and purges it when the window has
moved on::

    time        -2 -1  0  1  2  3  4  5
    tuples               x     x
    l = -1       [-----------)               multi: x1 of its own     single: x1
    l =  0             [-----------)         multi: x1 x3 of its own  slides: x1 x3
    l =  1                   [-----------    multi: x3 of its own     slides: x3
"""

import inspect
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import headrace as hr
from headrace import reference
from headrace.control.mapping import Mapping
from headrace.memory import stored
from headrace.references import BUCKETS
from headrace.windows import Window
from support.drawn import schedules, sources, stream, table, windows
from support.workloads import Steered, bits, eventually, examples, processed

QUICK = settings(
    deadline=None,
    max_examples=examples(15),
    phases=[Phase.explicit, Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=list(HealthCheck),
)


def rows_of(query, **options):
    return [bits(list(row.values())) for row in query.to_arrow(**options).to_pylist()]


def expected(result):
    return [bits([row.ts, row.key, *row.values.values()]) for row in result]


def everything(key, state, emit):
    """Order, nulls, which input, nested loops, break, continue and else."""
    digest = 0
    lowest = 1.5
    for t in state.tuples:
        digest = (31 * digest + 7 * t.ts + t.input) % 1_000_003
        if t.f < lowest:
            lowest = t.f
        if t.x is None:
            continue
        digest += 6 // (t.x - 50)  # fails
        for u in state.tuples:
            if u.x is not None and u.ts > t.ts and u.x == t.x:
                emit(n=u.x, digest=u.ts - t.ts, lowest=u.f, last=u.maybe is not None and u.maybe)
                break
        else:
            digest += 1
    emit(n=len(state.tuples), digest=digest, lowest=lowest, last=False)


EMITS = {"n": "int64", "digest": "int64", "lowest": "float64", "last": "bool"}
EVERYTHING = hr.operator(emits=EMITS, output=everything)


def both_inputs(first, second, window, instances):
    streams = [stream(drawn).key_by(tag=hr.each("ks")) for drawn in (first, second)]
    return hr.inputs(*streams).window(window.size, window.advance, instances=instances).apply(EVERYTHING)


@pytest.mark.parametrize(
    ("gate", "mode"),
    [pytest.param(*way, marks=pytest.mark.logic) for way in (("log", "vsn"), ("scalegate", "vsn"), ("log", "sn"))],
    ids=str,
)
def test_oracle_overlapping_windows_of_two_inputs(gate, mode):
    @QUICK
    @given(sources(2), sources(1), windows(3), schedules())
    def check(first, second, window, schedule):
        result = reference.operator([first, second], window, reference.each("ks"), output=everything)
        query = both_inputs(first, second, window, "multi")
        assert rows_of(query, gate=gate, mode=mode, **schedule) == expected(result)

    check()


def of_number(key, state, emit):
    """Reads the key; the kept tuples are those of the window it slid to."""
    total = 0
    for t in state.tuples:
        if t.maybe is None or t.maybe:
            total = 3 * total + t.ts + key
    emit(total=total, n=len(state.tuples))


OF_NUMBER = hr.operator(emits={"total": "int64", "n": "int64"}, output=of_number)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.logic)])
def test_oracle_one_instance_per_key_purges(mode):
    @QUICK
    @given(sources(), windows(4), schedules())
    def check(drawn, window, schedule):
        result = reference.operator(
            [drawn], window, reference.column("k"), instances="single", output=of_number
        )
        query = stream(drawn).key_by("k").window(window.size, window.advance, instances="single")
        assert rows_of(query.apply(OF_NUMBER), mode=mode, **schedule) == expected(result)

    check()


def long_rows(count, keys=40):
    rng = random.Random(9)
    return [
        (ts, {"ks": [], "k": rng.randrange(keys), "x": None, "f": 0.0, "maybe": rng.random() < 0.5})
        for ts in sorted(rng.randrange(count // 10) for _ in range(count))
    ]


@pytest.mark.slow
def test_agree_a_long_input_keeps_its_memory_and_moves_all_keys():
    """Scattered mappings, live: every change moves most keys, and the lists with them."""
    rows = table(long_rows(60_000))
    source = Steered(rows, [6_000] * 9)
    draw = random.Random(2)

    def query(given):
        keyed = hr.stream(given, event_time="ts").key_by("k")
        return keyed.window(200, 60, instances="single").apply(OF_NUMBER)

    one = query(rows).to_arrow(threads=1)
    with query(source).start(threads=2, max_threads=4) as run:
        for count in range(6_000, 60_000, 6_000):
            source.let()
            eventually(processed(run, count), 180)
            members = sorted(draw.sample(range(4), draw.randint(1, 4)))
            mapping = Mapping([draw.choice(members) for _ in range(BUCKETS)])
            assert run.reconfigure(threads=members, mapping=mapping).wait(180)
        source.let_all()
        assert run.wait(180)
        used = int(run._operators[run.operators[-1]].section.state.pool[stored.USED])
        assert run.to_arrow().equals(one)
    # 2,000 tuples lie in a window; those of the next windows come before all of them are given back.
    assert used < 6_000 + 4 * stored.CHAIN


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", "sn"])
def test_example_too_many_tuples_say_so(mode):
    operator = hr.operator(emits=OF_NUMBER.emits, output=of_number, max_tuples=100, name="few")
    query = stream([long_rows(2_000)]).key_by("k").window(800, 200, instances="single")
    with pytest.raises(hr.errors.OverflowInputError, match="few: .* more than max_tuples=100 tuples"):
        query.apply(operator).to_arrow(threads=2, mode=mode)


@pytest.mark.logic
def test_example_a_failing_output_shows_the_window():
    drawn = [(ts, {"ks": ["a"], "k": 0, "x": 50 if ts == 2 else 1, "f": 0.0}) for ts in range(4)]
    with pytest.raises(hr.errors.FunctionError, match="ZeroDivisionError") as caught:
        both_inputs([drawn], [[]], Window(30, 10), "multi").to_arrow(threads=2)
    lines, first = inspect.getsourcelines(everything)
    assert caught.value.line == first + next(i for i, line in enumerate(lines) if "# fails" in line)
    assert caught.value.tuple == {"ts": 10, "key": "a", "state.tuples": "4 of them"}


def note(state, t, emit):
    """The tuples before it, and what was summed up of them, strings among the state too."""
    older = 0
    for u in state.tuples:
        older = 7 * older + u.ts
        if u.x is not None and t.x is not None and u.x == t.x:
            emit(total=older, n=len(state.tuples))
    state.digest = (state.digest + older) % 1_000_003
    state.last = "even" if t.k % 2 == 0 else "odd"


def of_both(key, state, emit):
    total = state.digest + (1 if state.last == "odd" else 2)
    for t in state.tuples:
        total = 3 * total + t.ts + 60 // (t.k - 10)  # fails
    emit(total=total, n=len(state.tuples))


STATE = {"digest": "int64", "last": "string"}
BOTH = hr.operator(state=STATE, emits={"total": "int64", "n": "int64"}, update=note, output=of_both, keep_tuples=True)


@pytest.mark.logic
@pytest.mark.parametrize("mode", ["vsn", "sn"])
@pytest.mark.parametrize("instances", ["multi", "single"])
def test_oracle_update_and_state_beside_kept_tuples(mode, instances):
    @QUICK
    @given(sources(2), windows(3), schedules())
    def check(drawn, window, schedule):
        drawn = [[row for row in source if row[1]["k"] != 10] for source in drawn]
        functions = {"state": STATE, "update": note, "output": of_both, "keep_tuples": True}
        result = reference.operator([drawn], window, reference.column("k"), instances=instances, **functions)
        query = stream(drawn).key_by("k").window(window.size, window.advance, instances=instances)
        assert rows_of(query.apply(BOTH), mode=mode, **schedule) == expected(result)

    check()


@pytest.mark.logic
def test_example_a_failing_output_shows_state_and_tuples():
    drawn = [(ts, {"ks": [], "k": 10, "x": ts, "f": 0.0}) for ts in range(3)]
    with pytest.raises(hr.errors.FunctionError, match="ZeroDivisionError") as caught:
        stream([drawn]).key_by("k").window(30, 10).apply(BOTH).to_arrow(threads=2)
    shown = {"ts": 10, "key": 10, "state.digest": 0, "state.last": "'even'", "state.tuples": "3 of them"}
    assert caught.value.tuple.keys() == shown.keys() and caught.value.tuple["state.tuples"] == "3 of them"


# ----------------------------------------------------------------- refusals


def after_the_loop(key, state, emit):
    last = 0
    for t in state.tuples:
        last = t.ts
    emit(n=t.x + last)


def handed_on(key, state, emit):
    for t in state.tuples:
        emit(n=of_tuple(t))


def of_tuple(t):
    return t.x


def indexed(key, state, emit):
    emit(n=state.tuples[0].x)


def changed(key, state, emit):
    for t in state.tuples:
        t.x = 1


def twice(key, state, emit):
    for t in state.tuples:
        for t in state.tuples:
            emit(n=t.x)


def unknown(key, state, emit):
    for t in state.tuples:
        emit(n=t.nothing)


def text(key, state, emit):
    for t in state.tuples:
        emit(n=t.ks)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (after_the_loop, "'t' may have no value here"),
        (handed_on, "'t' is a stored tuple: give of_tuple its values"),
        (indexed, "state.tuples can only be used as"),
        (changed, "a stored tuple cannot be changed"),
        (twice, "'t' is used for another tuple already"),
        (unknown, "a stored tuple has no field 'nothing'"),
        (text, "which a compiled function cannot read"),
    ],
)
def test_example_what_cannot_be_done_with_kept_tuples(function, message):
    with pytest.raises(hr.errors.FunctionError, match=message):
        stream([[]]).key_by("k").window(5).apply(
            hr.operator(emits={"n": "int64"}, output=function)
        ).to_arrow()


def test_example_state_and_kept_tuples_exclude_each_other():
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, output=indexed)
    with pytest.raises(hr.errors.FunctionError, match="state.tuples: windows keep no tuples beside state= .* keep_tuples=True"):
        stream([[]]).key_by("k").window(5).apply(operator).to_arrow()
    with pytest.raises(hr.errors.ParameterError, match="slide=: windows without state= only keep"):
        hr.operator(output=of_number, slide=lambda key, state, left: None)
    with pytest.raises(hr.errors.ParameterError, match="state={'tuples': ...}: functions read kept tuples as state.tuples"):
        hr.operator(state={"tuples": "int64"}, output=of_number, keep_tuples=True)
    with pytest.raises(hr.errors.ParameterError, match="keep_tuples=1: give True or False"):
        hr.operator(output=of_number, keep_tuples=1)
    with pytest.raises(hr.errors.ParameterError, match="max_tuples=0"):
        hr.operator(output=of_number, max_tuples=0)
