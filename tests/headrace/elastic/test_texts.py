"""Strings in custom operators: columns, keys, state and results are what plain Python makes of them.

Property    `update`, `output` and `slide` see strings, keep and emit them, whatever the threads, gates, modes and
            planned reconfigurations; the ids behind them come and go with what holds them, and memory does not grow
Oracle      `headrace.reference.operator`, which has no ids
Cannot see  comparison by code point and literals of all kinds: tests/headrace/codegen; order of texts by id:
            test_distinct.py

With one instance per key a state lives on, and its strings with it. Windows of size 4 and advance 2, a string that
came at 1 and is kept::

    time        -2 -1  0  1  2  3  4  5  6  7
    string                x
    l = -1       [-----------)                    came within the window
    l =  0             [-----------)              noted, as of 0: l is a multiple of 4 / 2
    l =  1                   [-----------)
    l =  2                         [-----------   noted again, as of 4
"""

import random
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.elastic import build as elastic_build
from headrace.elastic.custom import compiled as compiled_custom
from headrace.errors import FunctionError, OverflowInputError
from headrace.ingress.key_tables import KeyLimitError
from headrace.ingress.keys_kernel import FREE
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.windows import Window
from support.drawn import schedules, stream, windows
from support.drawn import sources as drawn_sources
from support.workloads import examples

QUICK = settings(
    deadline=None,
    max_examples=examples(25),
    phases=[Phase.explicit, Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=list(HealthCheck),
)
MODES = [("log", "vsn"), *(pytest.param(*way, marks=pytest.mark.logic) for way in (("scalegate", "vsn"), ("log", "sn")))]

WORDS = ["", "a", "b", "B", "ab", "é", "日本", "z" * 11, "z" * 11 + "a", "\U0001f600"]
SCHEMA = pa.schema(
    {"ts": pa.int64(), "ks": pa.list_(pa.string()), "k": pa.string(), "w": pa.large_string(), "x": pa.int64()}
)
ROWS = st.tuples(
    st.integers(-20, 20),
    st.fixed_dictionaries(
        {
            "ks": st.lists(st.sampled_from(WORDS), max_size=4),
            "k": st.sampled_from(WORDS),
            "w": st.none() | st.sampled_from(WORDS),
            "x": st.integers(0, 2),
        }
    ),
)


sources = partial(drawn_sources, rows=ROWS)


def rows_of(query, **options):
    table = query.to_arrow(**options)
    table.validate(full=True)  # a string read after it was forgotten may have a length below zero
    return [tuple(row.values()) for row in table.to_pylist()]


def expected(result, parts=1):
    key = {1: lambda key: (key,), 2: tuple}[parts]
    return [(row.ts, *key(row.key), *row.values.values()) for row in result]


# ------------------------------------------------- columns, state, keys, results


def meets(state, t, emit):
    """Nulls, literals, order and length; columns, keys and fields meet, and what it keeps and emits are strings."""
    state.n += 1
    if t.w is None:
        emit(word=state.last, other="nothing", n=state.n)
    elif t.w == "a" or t.w > t.k:
        state.n += len(t.w)
    elif t.w != state.last:
        state.before = state.last
        state.last = t.w
        emit(word=t.w, other=state.before, n=-1 if t.w == t.k else state.n)


def closes(key, state, emit):
    emit(word=key, other=state.last, n=0)
    if key == state.before:
        emit(word=state.before, other=key, n=1)


STATE = {"n": "int64", "last": "string", "before": "string"}
EMITS = {"word": "string", "other": "string", "n": "int64"}
MEETS = hr.operator(state=STATE, emits=EMITS, update=meets, output=closes)


@pytest.mark.slow
@pytest.mark.parametrize(("gate", "mode"), MODES, ids=lambda value: value)
def test_oracle_overlapping_windows_of_string_keys(gate, mode):
    @QUICK
    @given(sources(), windows(3), schedules())
    def check(drawn, window, schedule):
        result = reference.operator([drawn], window, reference.each("ks"), state=STATE, update=meets, output=closes)
        query = stream(drawn, SCHEMA).key_by(tag=hr.each("ks")).window(window.size, window.advance).apply(MEETS)
        assert rows_of(query, gate=gate, mode=mode, **schedule) == expected(result)

    check()


def remembers(state, t, emit):
    """The first word of the key, which stays as long as the key has tuples, and the last one."""
    if state.n == 0 and t.w is not None:
        state.first = t.w
        state.n = 1
    state.last = t.k
    emit(word=state.first, other=state.last, n=state.n)


def slides(key, state, left):
    if key[0] == state.first:
        state.last = state.first
    else:
        state.n += left


def shows(key, state, emit):
    emit(word=state.first, other=key[0], n=key[1])
    emit(word=state.last, other=state.first, n=state.n)


KEPT_STATE = {"n": "int64", "first": "string", "last": "string"}
REMEMBERS = hr.operator(state=KEPT_STATE, emits=EMITS, update=remembers, output=shows, slide=slides)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.logic)])
def test_oracle_one_instance_per_key_keeps_strings(mode):
    @QUICK
    @given(sources(), windows(4), schedules())
    def check(drawn, window, schedule):
        keys = reference.columns(reference.column("k"), reference.column("x"))
        result = reference.operator(
            [drawn], window, keys, instances="single", state=KEPT_STATE, update=remembers, output=shows, slide=slides
        )
        query = stream(drawn, SCHEMA).key_by("k", "x").window(window.size, window.advance, instances="single")
        assert rows_of(query.apply(REMEMBERS), mode=mode, **schedule) == expected(result, parts=2)

    check()


OTHER_SCHEMA = pa.schema({"ts": pa.int64(), "k": pa.string(), "v": pa.dictionary(pa.int32(), pa.string())})
OTHER_ROWS = st.tuples(
    st.integers(-20, 20), st.fixed_dictionaries({"k": st.sampled_from(WORDS), "v": st.none() | st.sampled_from(WORDS)})
)


def pairs(key, state, emit):
    """Of kept tuples: columns of two inputs, one of them in both, meet by their strings."""
    for t in state.tuples:
        if t.input == 0 and t.w is not None:
            for u in state.tuples:
                if u.v is not None and u.v == t.w:
                    emit(word=t.w, other=u.k, n=u.ts - t.ts)
    emit(word=key, other=key, n=len(state.tuples))


PAIRS = hr.operator(emits=EMITS, output=pairs)


OTHERS = st.lists(OTHER_ROWS, max_size=15).map(lambda rows: sorted(rows, key=lambda row: row[0]))


@pytest.mark.logic
@QUICK
@given(sources(2), OTHERS, windows(2), schedules())
def test_oracle_kept_tuples_of_two_inputs(drawn, other, window, schedule):
    left = [[(ts, {"v": None} | row) for ts, row in source] for source in drawn]
    right = [(ts, {"w": None} | row) for ts, row in other]
    result = reference.operator([left, [right]], window, reference.column("k"), output=pairs)
    streams = [stream(drawn, SCHEMA).key_by("k"), stream([other], OTHER_SCHEMA).key_by("k")]
    query = hr.inputs(*streams).window(window.size, window.advance).apply(PAIRS)
    assert rows_of(query, **schedule) == expected(result)


# ------------------------------------------------------------ ids come and go


def passing(count=5_000, seed=4):
    """Rows of some keys that stay and many that pass; nearly every word is new, some are a key or, later on, null.

    One word is a literal of `meets`, and occurs only at the beginning.
    """
    draw = random.Random(seed)
    keys = [f"key number {i}" for i in range(12)]
    rows = []
    for i in range(count):
        word = draw.choice(keys) if draw.random() < 0.05 else f"word {i} of many"
        if draw.random() < 0.05:
            word = "nothing" if i < 200 else None
        key = draw.choice(keys) if draw.random() < 0.9 else f"passing key {i}"
        rows.append((i // 4, {"ks": [key, f"tag {i // 40}"], "k": key, "w": word, "x": 0}))
    return rows


PASSING = passing()
LIMIT = 1_200
"""Strings that may be live: some of the 5,000 that pass. Those of three windows are held, 480 rows."""
SCHEDULES = [
    {"threads": 1},
    {"threads": 3, "max_threads": 4, "reconfigure": [(i * 300, 1 + (i * 7) % 4) for i in range(1, 16)]},
]


@pytest.fixture
def dictionaries(monkeypatch):
    """The dictionaries of strings that operators make."""
    made = []

    class Recorded(OrderedTexts):
        def __init__(self, limit):
            super().__init__(limit)
            made.append(self)

    monkeypatch.setattr(compiled_custom, "OrderedTexts", Recorded)
    return made


def of_passing(instances, operator):
    rows = pa.Table.from_pylist([{"ts": ts, **row} for ts, row in PASSING], SCHEMA)
    source = hr.stream(rows, event_time="ts", batch_rows=200)
    if instances == "single":
        return source.key_by("k", "x").window(40, 20, instances="single").apply(operator)
    return source.key_by(tag=hr.each("ks")).window(40, 20).apply(operator)


def assert_passing(instances, schedule, mode="vsn"):
    window = Window(40, 20)
    if instances == "single":
        keys = reference.columns(reference.column("k"), reference.column("x"))
        result = reference.operator(
            [[PASSING]], window, keys, instances="single",
            state=KEPT_STATE, update=remembers, output=shows, slide=slides,
        )  # fmt: skip
        got = rows_of(of_passing(instances, REMEMBERS), max_keys=LIMIT, mode=mode, **schedule)
        assert got == expected(result, parts=2)
    else:
        result = reference.operator(
            [[PASSING]], window, reference.each("ks"), state=STATE, update=meets, output=closes
        )
        got = rows_of(of_passing(instances, MEETS), max_keys=LIMIT, mode=mode, **schedule)
        assert got == expected(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instances", "schedule", "mode"),
    [
        *(pytest.param(instances, SCHEDULES[1], "vsn", id=f"{instances}-changes-vsn") for instances in ("multi", "single")),
        pytest.param("multi", SCHEDULES[1], "sn", id="multi-changes-sn"),
        pytest.param("single", SCHEDULES[1], "sn", marks=pytest.mark.campaign, id="single-changes-sn"),
        *(
            pytest.param(instances, SCHEDULES[0], mode, marks=pytest.mark.campaign, id=f"{instances}-1 thread-{mode}")
            for instances in ("multi", "single")
            for mode in ("vsn", "sn")
        ),
    ],
)
def test_agree_ids_are_used_again_while_strings_are_held(instances, schedule, mode, dictionaries):
    """Far more strings pass than may be live: each id stands for several of them, one after the other."""
    assert_passing(instances, schedule, mode)
    (texts,) = dictionaries
    assert texts.id_limit <= LIMIT
    assert len({row["w"] for _, row in PASSING}) > 3 * LIMIT


def names(key, state, emit):
    emit(word=key, n=state.n)


def numbers(state, t, emit):
    state.n += 1


NAMES = hr.operator(state={"n": "int64"}, emits={"word": "string", "n": "int64"}, update=numbers, output=names)


def no_literal_is_kept(monkeypatch):
    monkeypatch.setattr(OrderedTexts, "keep", lambda self, strings: self.encode(pa.array(strings, pa.string())))


def what_states_hold_is_not_asked(monkeypatch):
    def recycle(self, horizon):
        self.held[:] = -(2**63)
        return planted_recycle(self, horizon)

    planted_recycle = OrderedTexts.recycle
    monkeypatch.setattr(OrderedTexts, "recycle", recycle)


def states_are_noted_too_seldom(monkeypatch):
    monkeypatch.setattr(compiled_custom, "_SIZES_HELD", 0)


def windows_have_no_size(monkeypatch):
    def release(self, watermark):
        release_planted(self, watermark + 1_000 * self.window_size)

    release_planted = compiled_custom.CompiledCustom.release
    monkeypatch.setattr(compiled_custom.CompiledCustom, "release", release)


def keys_are_not_touched(monkeypatch):
    def ids_of_keys(self, keys, ts):
        return self._texts.encode(keys)

    monkeypatch.setattr(compiled_custom.CompiledCustom, "_ids_of_keys", ids_of_keys)


def assert_alone():
    rows = pa.table({"ts": [i // 4 for i in range(4_000)], "k": [f"the key {i}" for i in range(4_000)]})
    query = hr.stream(rows, event_time="ts", batch_rows=100).key_by("k").window(20).apply(NAMES)
    result = query.to_arrow(threads=2, max_keys=300)
    assert result.num_rows == 4_000
    assert result.column("word").equals(result.column("k"))


@pytest.mark.logic
def test_agree_keys_alone_are_known_by_strings(dictionaries):
    """Every key is new: `output` reads it, no column is read, and the source waits for room."""
    assert_alone()
    assert dictionaries[0].id_limit <= 300


def assert_known_as_long_as_held(instances, dictionaries):
    """When strings are let go: what the run's threads do then, done by hand behind its end."""
    words = [f"word {ts}" for ts in range(200)]
    words[0] = "nothing"  # a literal of `meets`, and what the state of `remembers` holds all the time
    rows = [{"ts": ts, "ks": ["k"], "k": "k", "w": word, "x": 0} for ts, word in enumerate(words)]
    source = hr.stream(pa.Table.from_pylist(rows, SCHEMA), event_time="ts", batch_rows=10)
    if instances == "single":
        query = source.key_by("k", "x").window(40, 20, instances="single").apply(REMEMBERS)
    else:
        query = source.key_by(tag=hr.each("ks")).window(40, 20).apply(MEETS)
    run = query.start(threads=1)
    run.wait()
    (section,) = run._execution.sections.values()
    (texts,) = dictionaries
    ids = texts.encode(pa.array(words))
    for watermark in (150, 219):  # at the latter the window of the last row is still open
        section.compiled.release(watermark)
        texts.recycle(texts.horizon)
        known = [word for word, each in zip(words, ids, strict=True) if texts.last_use([each]) != FREE]
        assert {*words[watermark - 40 + 1 :]} <= {*known}, "strings of tuples in windows"
        assert "nothing" in known, "strings that states hold" if instances == "single" else "literals"
    assert len(known) < 200, "strings that nothing has"


@pytest.mark.parametrize("instances", ["multi", "single"])
def test_example_strings_are_known_as_long_as_they_are_held(instances, dictionaries):
    assert_known_as_long_as_held(instances, dictionaries)


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("mistake", "instances", "fails"),
    [
        (no_literal_is_kept, "multi", "literals"),
        (what_states_hold_is_not_asked, "single", "strings that states hold"),
        (states_are_noted_too_seldom, "single", "strings that states hold|strings of tuples in windows"),
        (windows_have_no_size, "multi", "strings of tuples in windows"),
        (windows_have_no_size, "single", "strings of tuples in windows"),
    ],
)
def test_planted_mistakes_are_seen(mistake, instances, fails, dictionaries, monkeypatch):
    """Behind the end of a run, where no thread is in the way and nobody reads strings that are not there any more."""
    mistake(monkeypatch)
    with pytest.raises(AssertionError, match=fails):
        assert_known_as_long_as_held(instances, dictionaries)


@pytest.mark.slow
@pytest.mark.interpreted
def test_planted_keys_that_are_not_touched(monkeypatch):
    """Nothing is ever forgotten, until there is no room."""
    keys_are_not_touched(monkeypatch)
    with pytest.raises(KeyLimitError, match="more than max_keys = 300 strings are live at one time"):
        assert_alone()


@pytest.mark.slow
def test_example_more_strings_than_may_be_live():
    rows = pa.table({"ts": [0] * 3_000, "k": ["a"] * 3_000, "w": [f"word {i}" for i in range(3_000)], "x": [0] * 3_000})
    query = hr.stream(rows, event_time="ts").key_by("k", "x").window(40, 20, instances="single").apply(REMEMBERS)
    with pytest.raises(OverflowInputError, match="more than max_keys = 1000 strings are live at one time: raise max_keys"):
        query.to_arrow(max_keys=1_000)


def test_example_an_id_lives_as_long_as_it_is_used_or_held():
    texts = OrderedTexts(100)
    assert texts.keep(["", "cart"]).tolist() == [0, 1]
    ids = texts.encode(pa.array(["a", "cart", "\U0001f600é", "d"]))
    texts.touch(ids, pa.array([1, 2, 3, 4]).to_numpy())
    assert texts.points[ids].tolist() == [1, 4, 2, 1]
    texts.held[ids[0]] = 8
    assert texts.recycle(5) == 2  # neither "a", which a state holds, nor the literal
    (again,) = texts.encode(pa.array(["e"]))
    assert again in ids.tolist()[2:] and texts.held[again] < 0
    assert texts.decode(ids[:2])[0].to_pylist() == ["a", "cart"]
    assert texts.recycle(9) == 1
    assert texts.size == 3


def test_example_strings_that_live_on_keep_little_else():
    """One string of each batch is held, a thousand of a million; the others go, and their bytes."""
    texts = OrderedTexts(100_000)
    for batch in range(100):
        ids = texts.encode(pa.array([f"string {i} of batch {batch}" for i in range(10_000)]))
        texts.touch(ids, np.full(ids.size, batch))
        texts.held[ids[:10]] = 1_000
        texts.recycle(batch)
    assert texts.recycle(100) == 9_990
    assert texts.size == 1_000
    assert texts.nbytes < 4 << 20
    (kept,) = texts.decode(np.flatnonzero(texts.held[: texts.id_limit] == 1_000))
    assert sorted(kept.to_pylist()) == sorted(f"string {i} of batch {b}" for i in range(10) for b in range(100))


def test_example_a_full_dictionary_says_that_strings_fill_it():
    texts = OrderedTexts(2)
    with pytest.raises(KeyLimitError, match="more than max_keys = 2 strings are live"):
        texts.encode(pa.array(["a", "b", "c"]))


# ----------------------------------------------------------------- failures


def fails(state, t, emit):
    state.last = t.w
    state.n += 1
    emit(word=state.last, other=t.k, n=100 // (state.n - 3))


def fails_at_expiry(key, state, emit):
    emit(word=state.last, other=key, n=1 // (state.n - 2))


FAILS = hr.operator(state=STATE, emits=EMITS, update=fails, output=fails_at_expiry)


@pytest.mark.logic
def test_example_a_failure_shows_strings():
    def failing(rows):
        table = pa.table({"ts": list(range(rows)), "k": ["é"] * rows, "w": [f"word {i}" for i in range(rows)]})
        return hr.stream(table, event_time="ts").key_by("k").window(10).apply(FAILS)

    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        failing(4).to_arrow(mode="sn")
    assert caught.value.tuple == {"input": 0, "k": "é", "w": "word 2", "ts": 2, "key": "é"}
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        failing(2).to_arrow(mode="sn")
    assert caught.value.tuple == {"ts": 10, "key": "é", "state.n": 2, "state.last": "word 1", "state.before": ""}


def reads(state, t, emit):
    emit(n=t.w)


def test_example_a_name_is_a_string_in_one_input_and_a_number_in_another():
    operator = hr.operator(emits={"n": "int64"}, update=reads, state={})
    streams = [
        hr.stream(pa.table({"ts": [1], "k": ["a"], "w": pa.array([w])}), event_time="ts").key_by("k") for w in ("a", 1)
    ]
    with pytest.raises(FunctionError, match="a string column of one input and a number of another; rename one"):
        hr.inputs(*streams).window(10).apply(operator)


# ------------------------------------------------------------------ numbers


def counts(state, t, emit):
    state.n += t.x
    emit(n=state.n)


class _EnoughError(Exception):
    pass


def test_example_numbers_alone_bring_no_strings_along(monkeypatch):
    """An operator of numbers has neither the fields nor the text that strings and containers need."""

    def build(text, *rest, **options):
        made.append(text)
        raise _EnoughError

    made = []
    monkeypatch.setattr(elastic_build, "build", build)
    monkeypatch.setattr(compiled_custom, "OrderedTexts", None)
    operator = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=counts)
    for instances in ("multi", "single"):
        rows = stream([[(1, {"ks": [], "k": "a", "w": "b", "x": 3})]], SCHEMA)
        with pytest.raises(_EnoughError):
            rows.key_by("k").window(10, instances=instances).apply(operator).to_arrow()
    assert len(made) == 2
    for word in ("text_", "arena", "stage(", "hold_", "release("):
        assert not any(word in text for text in made), word
