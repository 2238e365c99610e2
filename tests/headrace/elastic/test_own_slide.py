"""f_S replaced: functions that take tuples out of what windows keep, and windows that purge nothing by themselves.

Property    what `output` sees of the tuples is what the functions left, whatever the threads, modes and changes; nodes
            of tuples taken out come back at once, and strings of those that stay beyond their window are known
Oracle      `headrace.reference.operator`, where ``state.tuples`` is a list of Python's
Cannot see  the pool of nodes under every schedule: tests/headrace/memory/test_stored.py

One key, windows of size 4 and advance 2, one instance per key, tuples at 1, 3 and 5; f_S keeps odd places for one
advance more than the default f_S would, and x5 makes the instance slide::

    time        -2 -1  0  1  2  3  4  5
    tuples               x     x     x
    l = -1       [-----------)               x1
    l =  0             [-----------)         x1 x3
    l =  1                   [-----------    x1 x3 x5   the default: x3 x5
"""

import random
import warnings

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import headrace as hr
from headrace import reference
from headrace.errors import FunctionError, HeadraceError, OverflowInputError, ParameterError
from headrace.ingress.keys_kernel import FREE
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.windows import Window
from support.drawn import schedules, sources, stream, windows
from support.kernel_text import change_kernels
from support.workloads import bits, examples

QUICK = settings(
    deadline=None,
    max_examples=examples(15),
    phases=[Phase.explicit, Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=list(HealthCheck),
)
CHANGES = {"threads": 3, "max_threads": 4, "reconfigure": [(i * 100, 1 + (i * 7) % 4) for i in range(1, 10)]}


def rows_of(query, **options):
    return [bits(list(row.values())) for row in query.to_arrow(**options).to_pylist()]


def expected(result):
    return [bits([row.ts, row.key, *row.values.values()]) for row in result]


# ------------------------------------------------- what stays, by conditions of all sorts


def shorten(state, t, emit):
    """At most four tuples, none that is doubled by t: the last, the first or one between."""
    state.seen += 1
    state.tuples = [u for u in state.tuples if u.x is None or t.x is None or u.x != t.x]
    if len(state.tuples) > 3:
        first = 0
        for u in state.tuples:
            first = u.ts
            break
        state.tuples = [u for u in state.tuples if u.ts > first if u.ts < t.ts]


def forget(key, state, left):
    """Tuples that are `maybe` stay for nine units more, one at an even place of time goes a unit too early."""
    state.tuples = [t for t in state.tuples if t.ts > left - (t.ts % 2 == 1) or (t.maybe is not None and t.ts >= left - 9)]
    state.slid = len(state.tuples)


def show(key, state, emit):
    digest = state.seen + state.slid
    for t in state.tuples:
        digest = (31 * digest + 7 * t.ts + t.input + (5 if t.x is None else t.x)) % 1_000_003
    emit(n=len(state.tuples), digest=digest)


FIELDS = {"seen": "int64", "slid": "int64"}
EMITS = {"n": "int64", "digest": "int64"}
ALWAYS = {"state": FIELDS, "update": shorten, "output": show, "keep_tuples": True}
OPERATORS = {
    "update takes out, multi": ("multi", ALWAYS),
    "update takes out, slide too": ("single", {**ALWAYS, "slide": forget}),
    "slide alone": ("single", {**ALWAYS, "slide": forget, "purge": False}),
    "nothing leaves but by update": ("single", {**ALWAYS, "purge": False}),
}


@pytest.mark.logic
@pytest.mark.parametrize("mode", ["vsn", "sn"])
@pytest.mark.parametrize("name", OPERATORS)
def test_oracle_what_functions_leave(name, mode):
    instances, functions = OPERATORS[name]
    operator = hr.operator(emits=EMITS, **functions)

    @QUICK
    @given(sources(2), sources(1), windows(3), schedules())
    def check(first, second, window, schedule):
        result = reference.operator(
            [first, second], window, reference.each("ks"), instances=instances, **functions
        )
        streams = [stream(drawn).key_by(tag=hr.each("ks")) for drawn in (first, second)]
        query = hr.inputs(*streams).window(window.size, window.advance, instances=instances).apply(operator)
        assert rows_of(query, mode=mode, **schedule) == expected(result)

    check()


# --------------------------------------- strings that stay, and nodes that come back


def passing(count=3_000, seed=4):
    """Rows of six keys; every word is new, and one of twenty is to stay for longer than its window."""
    draw = random.Random(seed)
    return [
        (i // 4, {"k": f"key {draw.randrange(6)}", "w": f"word {i} of many", "stays": draw.random() < 0.05})
        for i in range(count)
    ]


ROWS = passing()
LENGTH, ADVANCE, LASTS = 40, 20, 400
"""Words that stay do so for ten windows; those of three windows would be known by themselves."""


def keep_some(key, state, left):
    state.tuples = [t for t in state.tuples if t.ts >= left or (t.stays and t.ts >= left - 400)]


def words(key, state, emit):
    oldest = ""
    digest = 0
    for t in state.tuples:
        if oldest == "" or t.w < oldest:
            oldest = t.w
        digest = (31 * digest + t.ts) % 1_000_003
    emit(n=len(state.tuples), digest=digest, word=oldest)


WORDS = {"n": "int64", "digest": "int64", "word": "string"}
MOST = 600
"""Tuples that may be kept, of 3,000: 160 lie in a window, and 80 stay."""


def assert_words(mode="vsn", rows=ROWS, **options):
    functions = {"output": words, "slide": keep_some, "keep_tuples": True, "purge": False}
    result = reference.operator(
        [[rows]], Window(LENGTH, ADVANCE), reference.column("k"), instances="single", **functions
    )
    assert max(row.values["n"] for row in result) > 30  # some do stay
    table = pa.Table.from_pylist([{"ts": ts, **row} for ts, row in rows])
    operator = hr.operator(emits=WORDS, max_tuples=MOST, **functions)
    keyed = hr.stream(table, event_time="ts", batch_rows=100).key_by("k")
    query = keyed.window(LENGTH, ADVANCE, instances="single").apply(operator)
    assert rows_of(query, mode=mode, max_keys=1_000, **options) == expected(result)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.campaign)])
def test_agree_strings_of_tuples_that_stay_are_known_and_nodes_come_back(mode):
    assert_words(mode, **CHANGES)


def the_last_node_stays_the_last(text):
    return replaced(text, "        s.list_last[p] = before\n", "        pass\n")


def those_taken_out_are_counted(text):
    return replaced(text, "    s.list_count[p] -= 1\n", "")


def one_taken_out_takes_those_before(text):
    return replaced(text, "        s.following[before] = s.following[node]\n", "        s.list_first[p] = s.following[node]\n")


def nodes_are_lost(text):
    assert "give_chain(s.below, s.pool, node_" in text
    return text.replace("give_chain(s.below, s.pool, node_", "max(0, node_")


def purged_all_the_same(text):
    return replaced(text, "left = to_time(s, (window + 1) * l[ADVANCE])\n", "left = to_time(s, (window + 1) * l[ADVANCE])\n"
                    "    purge_tuples(s, p, left)\n")  # fmt: skip


def replaced(text, old, new):
    if text.count(old) != 1:
        pytest.fail(f"{old!r} occurs {text.count(old)} times: the mistake is out of date")
    return text.replace(old, new)


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("mistake", "failure"),
    [
        (those_taken_out_are_counted, "assert "),
        (one_taken_out_takes_those_before, "assert "),
        (nodes_are_lost, f"more than max_tuples={MOST} tuples"),
        (purged_all_the_same, "assert "),
        (None, None),
    ],
)
def test_planted_mistakes_in_lists_are_seen(mistake, failure, monkeypatch):
    if mistake is None:
        assert_words(rows=ROWS[:1_200])
        return
    change_kernels(monkeypatch, mistake)
    with pytest.raises((AssertionError, HeadraceError), match=failure):
        assert_words(rows=ROWS[:1_200])


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("is_planted", [True, False])
def test_planted_the_last_node_stays_the_last(is_planted, monkeypatch):
    """`update` takes out the last one, and its own tuple goes behind it."""
    rows = [(ts, {"ks": [], "k": 0, "x": x, "f": 0.0}) for ts, x in enumerate([1, 2, 3, 3, 4, 4, 5])]
    result = reference.operator([[rows]], Window(30, 10), reference.column("k"), **ALWAYS)
    operator = hr.operator(emits=EMITS, **ALWAYS)

    def check():
        assert rows_of(stream([rows]).key_by("k").window(30, 10).apply(operator)) == expected(result)

    if not is_planted:
        check()
        return
    change_kernels(monkeypatch, the_last_node_stays_the_last)
    with pytest.raises(AssertionError, match="assert "):
        check()


def assert_known_as_long_as_they_stay():
    """When strings are let go: what the run's threads do then, done by hand behind its end."""
    rows = [{"ts": ts, "k": "a", "stays": ts == 5, "w": f"word {ts}"} for ts in range(0, 300, 5)]
    operator = hr.operator(emits=WORDS, output=words, slide=keep_some, keep_tuples=True, purge=False)
    keyed = hr.stream(pa.Table.from_pylist(rows), event_time="ts", batch_rows=10).key_by("k")
    run = keyed.window(LENGTH, ADVANCE, instances="single").apply(operator).start()
    run.wait()
    (section,) = run._execution.sections.values()
    (texts,) = section.compiled.texts_of(0).values()
    ids = texts.encode(pa.array([row["w"] for row in rows]))
    section.compiled.release(290)
    texts.recycle(texts.horizon)
    known = {row["ts"] for row, each in zip(rows, ids, strict=True) if texts.last_use([each]) != FREE}
    assert {*range(290 - LENGTH + 5, 300, 5)} <= known, "strings of tuples in windows"
    assert 5 in known, "strings of tuples that stay"
    assert len(known) < len(rows), "strings that nothing has"


@pytest.mark.logic
def test_example_strings_of_tuples_that_stay_are_known():
    assert_known_as_long_as_they_stay()


@pytest.mark.slow
@pytest.mark.interpreted
def test_planted_strings_of_tuples_that_stay_are_forgotten(monkeypatch):
    def recycle(self, horizon):
        self.held[1:] = -(2**63)
        return unplanted(self, horizon)

    unplanted = OrderedTexts.recycle
    monkeypatch.setattr(OrderedTexts, "recycle", recycle)
    with pytest.raises(AssertionError, match="strings of tuples that stay"):
        assert_known_as_long_as_they_stay()


@pytest.mark.logic
def test_example_what_never_leaves_fills_the_room():
    operator = hr.operator(emits=WORDS, output=words, keep_tuples=True, purge=False, max_tuples=MOST, name="all")
    table = pa.Table.from_pylist([{"ts": ts, **row} for ts, row in ROWS])
    query = hr.stream(table, event_time="ts").key_by("k").window(LENGTH, ADVANCE, instances="single").apply(operator)
    with pytest.raises(OverflowInputError, match=f"all: .* more than max_tuples={MOST} tuples"):
        query.to_arrow()


# ----------------------------------------------------------------- refusals


def other_tuples(key, state, emit):
    state.tuples = [t.x for t in state.tuples if t.x > 1]


def all_of_them(key, state, emit):
    state.tuples = [t for t in state.tuples]  # noqa: C416


def of_a_list(key, state, emit):
    state.tuples = []


def two_at_once(key, state, emit):
    n = state.tuples = [t for t in state.tuples if t.x > 1]
    emit(n=n)


def within_a_loop(key, state, emit):
    for t in state.tuples:
        if t.x > 1:
            state.tuples = [u for u in state.tuples if u.x != t.x]


def behind_it(key, state, emit):
    state.tuples = [t for t in state.tuples if t.x > 1]
    emit(n=t.x)  # noqa: F821


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (other_tuples, "a window can only drop some of its tuples"),
        (all_of_them, "a window can only drop some of its tuples"),
        (of_a_list, "a window can only drop some of its tuples"),
        (two_at_once, "a window can only drop some of its tuples"),
        (within_a_loop, "inside a loop over state.tuples; write it after the loop"),
        (behind_it, "'t'"),
    ],
)
def test_example_what_cannot_be_taken_out(function, message):
    with pytest.raises(FunctionError, match=message):
        stream([[]]).key_by("k").window(5).apply(hr.operator(emits={"n": "int64"}, output=function)).to_arrow()


def test_example_tuples_that_are_not_kept():
    def last(key, state, emit):
        emit(n=len(state.tuples) + state.m)

    def misspelt(key, state, emit):
        emit(n=state.tupels)

    query = stream([[]]).key_by("k").window(5)
    with pytest.raises(FunctionError, match=r"state.tuples: windows keep no tuples .* give hr.operator\(..., keep_tuples=True\)"):
        query.apply(hr.operator(emits={"n": "int64"}, state={"m": "int64"}, output=last)).to_arrow()
    with pytest.raises(FunctionError, match="no field 'tupels'; did you mean state.tuples. it has m ") as caught:
        query.apply(hr.operator(emits={"n": "int64"}, state={"m": "int64"}, output=misspelt)).to_arrow()
    assert caught.value.line == misspelt.__code__.co_firstlineno + 1


def test_example_emit_in_the_place_of_another_parameter():
    def show_state(state, emit):
        emit(n=state.m)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it does call emit
        operator = hr.operator(emits={"n": "int64"}, state={"m": "int64"}, output=show_state)
    with pytest.raises(FunctionError, match=r"takes \(state, emit\): it is called with \(key, state, emit\)"):
        stream([[]]).key_by("k").window(5).apply(operator).to_arrow()


def test_example_purge_is_of_kept_tuples_that_slide():
    with pytest.raises(ParameterError, match="purge=False: only kept tuples are purged"):
        hr.operator(state={"n": "int64"}, output=show, purge=False)
    with pytest.raises(ParameterError, match="purge=1: give True or False"):
        hr.operator(output=show, purge=1)
    with pytest.raises(ParameterError, match="purge=False: windows slide only with one instance per key"):
        stream([[]]).key_by("k").window(5).apply(hr.operator(emits=EMITS, output=words, purge=False))
