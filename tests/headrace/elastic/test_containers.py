"""Lists, sets, maps and arrays in the state of custom operators, and in what they emit.

Property    functions find in their containers what plain Python would, and results have them as Arrow lists and maps,
            whatever the threads, gates, modes and planned reconfigurations; blocks come back when a window ends, and
            move with their key under shared nothing; `max_state` ends a run with an error that says so
Oracle      `headrace.reference.operator` with the containers of `headrace.reference.containers`
Cannot see  what functions may do with containers (tests/headrace/codegen), nor the kernels' own invariants
            (tests/headrace/memory/test_containers.py)

A window instance at place p has heads, four words each, and its key's bucket owns the blocks they name::

    state_words[4 p : 4 p + 4]  ->  arena[FIRST : FIRST + COUNT]         a list
    state_counts[4 p : 4 p + 4] ->  arena[FIRST : FIRST + 2 COUNT]       a map: key, value, key, value
    state_recent[3 p : 3 p + 3]                                          an array, in its own place
"""

import random
import threading
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.egress import containers
from headrace.elastic.custom import compiled as compiled_custom
from headrace.errors import FunctionError, OverflowInputError
from headrace.ingress.keys_kernel import FREE
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.memory.arena import used_bytes
from headrace.windows import Window
from planted_mistakes import fails
from support.drawn import schedules, stream, windows
from support.drawn import sources as drawn_sources
from support.workloads import HANG_S, bits, eventually, examples

QUICK = settings(
    deadline=None,
    max_examples=examples(20),
    phases=[Phase.explicit, Phase.generate],  # shrinking a failure would take minutes
    suppress_health_check=list(HealthCheck),
)
MODES = [pytest.param("log", mode, marks=pytest.mark.logic) for mode in ("vsn", "sn")]
"""What gates do with strings is in `test_texts`; compiled are those that slide."""

WORDS = ["", "a", "b", "B", "ab", "é", "z" * 11, "z" * 11 + "a"]
SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "ks": pa.list_(pa.string()),
        "k": pa.string(),
        "w": pa.string(),
        "x": pa.int64(),
        "y": pa.float64(),
    }
)
ROWS = st.tuples(
    st.integers(-20, 20),
    st.fixed_dictionaries(
        {
            "ks": st.lists(st.sampled_from(WORDS), max_size=4),
            "k": st.sampled_from(WORDS),
            "w": st.none() | st.sampled_from(WORDS),
            "x": st.integers(-2, 40),
            "y": st.sampled_from([0.5, -0.0, 0.0, 1e300, float("nan"), float("inf")]),
        }
    ),
)


sources = partial(drawn_sources, rows=ROWS)


def rows_of(query, **options):
    return [bits(plain(list(row.values()))) for row in query.to_arrow(**options).to_pylist()]


def expected(result):
    return [bits(plain([row.ts, row.key, *row.values.values()])) for row in result]


def plain(value):
    """Lists, tuples and dicts as one flat tuple, so that floats in them are compared by their bits."""
    if isinstance(value, dict):
        return [part for name, held in value.items() for part in (name, *plain([held]))]
    if isinstance(value, list | tuple):
        return [part for held in value for part in (plain(held) if isinstance(held, list | tuple | dict) else [held])] + [
            f"of {len(value)}"
        ]
    return [value]


# ------------------------------------------------------------- every container


def gathers(state, t, emit):
    state.n += 1
    state.recent[state.n % 3] = t.x
    state.numbers.add(t.y)
    if t.w is not None:
        state.words.append(t.w)
        if len(state.words) > 6:
            state.words.pop(0)
        state.counts[t.w] = state.counts.get(t.w, 0) + t.x
        if state.counts[t.w] > 70:
            emit(words=state.words, counts=state.counts, seen=state.seen, recent=state.recent, n=state.n)
            state.counts.pop(t.w)
    elif t.x in state.seen:
        state.seen.discard(t.x)
    state.seen.add(t.x + state.n % 2)
    state.totals[t.x % 5].n += 1
    state.totals[t.x % 5].y += t.y


def tells(key, state, emit):
    total = 0
    for number, record in state.totals.items():
        total = 7 * total + number + record.n
    best = key
    for word in state.counts:
        if word > best:
            best = word
    state.words.append(best)
    for number in state.numbers:
        if number == 0.5:
            total += 1000
    emit(words=state.words, counts=state.counts, seen=state.seen, recent=state.recent, n=total)


STATE = {
    "n": "int64",
    "words": hr.list_of("string"),
    "counts": hr.map_of("string", "int64"),
    "seen": hr.set_of("int64"),
    "numbers": hr.set_of("float64"),
    "recent": hr.array("int64", 3),
    "totals": hr.map_of("int64", hr.record(n="int64", y="float64")),
}
EMITS = {
    "words": hr.list_of("string"),
    "counts": hr.map_of("string", "int64"),
    "seen": hr.set_of("int64"),
    "recent": hr.array("int64", 3),
    "n": "int64",
}
GATHERS = hr.operator(state=STATE, emits=EMITS, update=gathers, output=tells)


def of_gathers(rows, window):
    return rows.key_by(tag=hr.each("ks")).window(window.size, window.advance).apply(GATHERS)


def reference_of_gathers(drawn, window):
    return reference.operator([*[drawn]], window, reference.each("ks"), state=STATE, update=gathers, output=tells)


@pytest.mark.slow
@pytest.mark.parametrize(("gate", "mode"), MODES, ids=lambda value: value)
def test_oracle_overlapping_windows(gate, mode):
    @QUICK
    @given(sources(), windows(3), schedules())
    def check(drawn, window, schedule):
        query = of_gathers(stream(drawn, SCHEMA), window)
        assert rows_of(query, gate=gate, mode=mode, **schedule) == expected(reference_of_gathers(drawn, window))

    check()


def lasts(state, t, emit):
    """The first word of a key and its last ones, and what came first with each, for as long as the key has tuples."""
    if t.w is not None:
        state.words.append(t.w)
        if len(state.first) > 12:
            state.first.clear()
        if t.w not in state.first:
            state.first[t.w] = t.k
    state.pairs[t.x][0] = state.pairs[t.x][1]
    state.pairs[t.x][1] = t.k
    if len(state.words) > 8:
        first = state.words[0]
        state.words = state.words[-4:]
        state.words.insert(0, first)


def slides(key, state, left):
    if len(state.words) > 2:
        state.words.pop(1)
    if left % 3 == 0:
        state.first.pop("a", "")


def shows(key, state, emit):
    emit(words=state.words, first=state.first, pairs=state.pairs, sorted=sorted(state.words))


LAST_STATE = {
    "words": hr.list_of("string"),
    "first": hr.map_of("string", "string"),
    "pairs": hr.map_of("int64", hr.array("string", 2)),
}
LASTS = hr.operator(
    state=LAST_STATE,
    emits={
        "words": hr.list_of("string"),
        "first": hr.map_of("string", "string"),
        "pairs": hr.map_of("int64", hr.array("string", 2)),
        "sorted": hr.list_of("string"),
    },
    update=lasts,
    output=shows,
    slide=slides,
)


def of_lasts(rows, window):
    return rows.key_by("k").window(window.size, window.advance, instances="single").apply(LASTS)


def reference_of_lasts(drawn, window):
    return reference.operator(
        [drawn], window, reference.column("k"), instances="single",
        state=LAST_STATE, update=lasts, output=shows, slide=slides,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.logic)])
def test_oracle_one_instance_per_key_slides(mode):
    @QUICK
    @given(sources(), windows(4), schedules())
    def check(drawn, window, schedule):
        query = of_lasts(stream(drawn, SCHEMA), window)
        assert rows_of(query, mode=mode, **schedule) == expected(reference_of_lasts(drawn, window))

    check()


# ------------------------------------------------------------------- memory


def passing(count, words, seed=6):
    """Rows of many keys that pass and few that stay, in the order of time."""
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        key = f"key {draw.randrange(8)}" if draw.random() < 0.6 else f"passing {i // 5}"
        word = f"word {i}" if draw.random() < words else f"usual {draw.randrange(9)}"
        rows.append((i // 6, {"ks": [key], "k": key, "w": word, "x": draw.randrange(40), "y": 0.5}))
    return rows


@pytest.fixture
def states(monkeypatch):
    """The states that custom operators allocate."""
    made = []
    allocate = compiled_custom.CompiledCustom.allocate

    def noted(self, instances, capacity):
        made.append(allocate(self, instances, capacity))
        return made[-1]

    monkeypatch.setattr(compiled_custom.CompiledCustom, "allocate", noted)
    return made


CHANGES = {"threads": 2, "max_threads": 4, "reconfigure": [(i * 150, 1 + (i * 7) % 4) for i in range(1, 20)]}


def assert_passing(operator, rows, mode, schedule, **options):
    window = Window(12, 5)
    query, result = {
        "gathers": (of_gathers, reference_of_gathers),
        "lasts": (of_lasts, reference_of_lasts),
    }[operator]
    table = pa.Table.from_pylist([{"ts": ts, **row} for ts, row in rows], SCHEMA)
    given = hr.stream(table, event_time="ts", batch_rows=150)
    assert rows_of(query(given, window), mode=mode, **schedule, **options) == expected(result([rows], window)), "other rows"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.campaign)])
@pytest.mark.parametrize("operator", [pytest.param("gathers", marks=pytest.mark.logic), "lasts"])
def test_agree_blocks_come_back_and_move(operator, mode, states):
    """Every key that passes leaves nothing behind, and what moved is where its key is."""
    rows = passing(3_000, 0.2)
    assert_passing(operator, rows, mode, CHANGES)
    assert states
    for state in states:
        lasting = 8 * int(state.temporaries.reshape(-1, 4)[:, 1][state.temporaries.reshape(-1, 4)[:, 0] != 0].size)
        assert used_bytes(state.arena_free, state.arena) <= 512 * (lasting + 1)
        assert not state.state_words[: 4 * 3 * 4096].reshape(-1, 4)[:, :3].any()
    # What was handed out is what the fullest moment took, not what passed.
    assert sum(int(state.arena[0]) for state in states) * 8 < 8 << 20


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.campaign)])
def test_agree_ids_are_used_again_while_containers_hold_strings(mode):
    assert_passing("lasts", passing(3_000, 0.9), mode, CHANGES, max_keys=700)


@pytest.mark.slow
def test_agree_long_lists_pass_through_a_short_ring():
    """One value of a result is longer than the ring of words, and many results fill it."""
    rows = [(i // 30_000, {"ks": [f"key {i % 3}"], "k": "a", "w": None, "x": i, "y": 0.0}) for i in range(90_000)]
    table = pa.Table.from_pylist([{"ts": ts, **row} for ts, row in rows], SCHEMA)
    query = hr.stream(table, event_time="ts").key_by(tag=hr.each("ks")).window(3).apply(ALL_OF)
    one, three = (query.to_arrow(threads=threads) for threads in (1, 3))
    assert three.equals(one)
    for row in one.to_pylist():
        numbers = list(range(int(row["tag"][-1]), 90_000, 3))
        assert row["all"] == numbers


@pytest.mark.slow
def test_example_what_lists_take_is_part_of_the_state():
    """It is there while the window is open, and given back with it."""
    filled, over = threading.Event(), threading.Event()

    def batches():
        yield pa.record_batch({"ts": [1] * 50_000, "ks": [["a"]] * 50_000, "x": list(range(50_000))})
        assert filled.wait(HANG_S)
        yield pa.record_batch({"ts": [100], "ks": [["b"]], "x": [1]})
        assert over.wait(HANG_S)

    schema = pa.schema({"ts": pa.int64(), "ks": pa.list_(pa.string()), "x": pa.int64()})
    source = pa.RecordBatchReader.from_batches(schema, batches())
    query = hr.stream(source, event_time="ts").key_by(tag=hr.each("ks")).window(3).apply(ALL_OF)
    with query.start(threads=2) as run:

        def state_bytes():
            return run.metrics().operators["gives"].state_bytes

        eventually(lambda: state_bytes() > 8 * 50_000)
        filled.set()
        eventually(lambda: state_bytes() < 8 * 50_000)
        over.set()
        run.wait()


def puts(state, t, emit):
    state.all.append(t.x)


def gives(key, state, emit):
    emit(all=state.all)
    emit(all=state.all)


ALL_OF = hr.operator(
    state={"all": hr.list_of("int64")}, emits={"all": hr.list_of("int64")}, update=puts, output=gives
)


# ----------------------------------------------------------------- failures


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "mode"), [(1, "vsn"), (3, "vsn"), pytest.param(2, "sn", marks=pytest.mark.logic)])
def test_example_max_state_is_hit_in_the_middle(threads, mode):
    rows = [(7, {"ks": ["a"] if i % 2 else ["b"], "k": "a", "w": None, "x": 3 * i, "y": 0.5}) for i in range(4_000)]
    query = of_lasts(stream([rows], SCHEMA), Window(12, 5))
    with pytest.raises(OverflowInputError, match=r"event time 7 take more than max_state=65536 bytes; pass a larger"):
        query.to_arrow(threads=threads, mode=mode, max_state=1 << 16)


def breaks(state, t, emit):
    state.words.append(t.w)
    state.counts[t.w] = len(state.words)
    emit(n=10 // (len(state.words) - 4))  # fails in update


def breaks_at_expiry(key, state, emit):
    emit(n=state.counts[key])  # fails in output


BREAKS = hr.operator(
    state={"words": hr.list_of("string"), "counts": hr.map_of("string", "int64")},
    emits={"n": "int64"},
    update=breaks,
    output=breaks_at_expiry,
)


@pytest.mark.logic
def test_example_a_failure_is_explained_on_the_containers_it_found():
    """The list has four words when the fourth call fails, and had three when it was called."""

    def failing(count):
        rows = pa.table({"ts": list(range(count)), "k": ["a"] * count, "w": [f"é{i}" for i in range(count)]})
        return hr.stream(rows, event_time="ts").key_by("k").window(10).apply(BREAKS)

    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        failing(6).to_arrow()
    assert caught.value.line == breaks.__code__.co_firstlineno + 3
    assert caught.value.tuple["w"] == "é3"
    with pytest.raises(FunctionError, match="KeyError: 'a'") as caught:
        failing(2).to_arrow()
    assert caught.value.tuple == {
        "ts": 10, "key": "a", "state.words": ["é0", "é1"], "state.counts": {"é0": 1, "é1": 2},
    }  # fmt: skip


# ---------------------------------------------------------- planted mistakes


def text_with(old, new):
    def plant(monkeypatch):
        generate = compiled_custom.generate

        def planted(shape):
            text = generate(shape)
            assert old in text
            return text.replace(old, new)

        monkeypatch.setattr(compiled_custom, "generate", planted)

    return plant


def blocks_are_given_back_twice(monkeypatch):
    """The head stays as it was, so the next two to come to the place get the same block."""
    text_with(
        "from headrace.memory.arena import release",
        "from headrace.memory.arena import CLASS, CLASS_MASK, give_block\n\n\n"
        "@kernel\ndef release(free, arena, lists, heads, at):\n"
        "    if heads[at] != 0:\n"
        "        give_block(free, arena, lists, heads[at + CLASS] & CLASS_MASK, heads[at])\n",
    )(monkeypatch)


def containers_are_shared_after_a_transfer(monkeypatch):
    from headrace.elastic.shared_nothing import transfer

    shared = "for w in range(4):\n    to_{heads}[4 * p + w] = from_{heads}[4 * p + w]"
    monkeypatch.setattr(transfer, "_CONTAINER", shared + "\n# {kernel}{width}")


def what_states_hold_is_not_asked(monkeypatch):
    def recycle(self, horizon):
        self.held[1:] = -(2**63)
        return planted_recycle(self, horizon)

    planted_recycle = OrderedTexts.recycle
    monkeypatch.setattr(OrderedTexts, "recycle", recycle)


def few_rows(count, key):
    return [(ts, {"ks": [], "k": key(ts), "w": f"word {ts}", "x": ts % 3, "y": 0.5}) for ts in range(count)]


def assert_nothing_left(states):
    assert_passing("lasts", few_rows(16, lambda ts: f"key {ts}"), "vsn", {"threads": 1})
    assert not any(state.state_words[: 4 * 3 * 4096].reshape(-1, 4)[:, :3].any() for state in states), "containers that are left"


def assert_moved(_):
    """Half of the rows come after the change, and half of the containers have moved before."""
    changes = {"threads": 1, "max_threads": 2, "reconfigure": [(16, 2)]}
    assert_passing("lasts", few_rows(32, lambda ts: f"key {ts % 8}"), "sn", changes)


def assert_known_as_long_as_held(_):
    """When strings are let go: what the run's threads do then, done by hand behind its end."""
    rows = few_rows(100, lambda _: "key")
    table = pa.Table.from_pylist([{"ts": ts, **row} for ts, row in rows], SCHEMA)
    run = of_lasts(hr.stream(table, event_time="ts", batch_rows=10), Window(12, 5)).start(threads=1)
    run.wait()
    (section,) = run._execution.sections.values()
    (texts,) = {id(texts): texts for texts in section.compiled.texts_of(0).values()}.values()
    ids = texts.encode(table["w"].combine_chunks())
    section.compiled.release(100)
    texts.recycle(texts.horizon)
    known = [ts for ts, each in enumerate(ids) if texts.last_use([each]) != FREE]
    assert {*range(100 - 12 + 1, 100)} <= {*known}, "strings of tuples in windows"
    assert 0 in known, "strings that states hold"
    assert len(known) < 100, "strings that nothing has"


CHECKS = [assert_nothing_left, assert_moved, assert_known_as_long_as_held]


@pytest.mark.logic
@pytest.mark.parametrize("check", CHECKS)
def test_example_what_planted_mistakes_break(check, states):
    check(states)


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("mistake", "check", "expected"),
    [
        (blocks_are_given_back_twice, assert_nothing_left, "AssertionError: containers that are left"),
        (containers_are_shared_after_a_transfer, assert_moved, "AssertionError: other rows"),
        (what_states_hold_is_not_asked, assert_known_as_long_as_held, "AssertionError: strings that states hold"),
    ],
)
def test_planted_mistakes_are_seen(mistake, check, expected, monkeypatch, states):
    """On few rows: code that uses what two containers share may never come to an end."""
    mistake(monkeypatch)
    with fails(expected):
        check(states)


# --------------------------------------------- words as columns and as objects


def words_of(*values):
    return np.concatenate([np.atleast_1d(np.asarray(value)).view(np.int64) for value in values])


@pytest.mark.parametrize(
    ("kind", "words", "arrow", "python"),
    [
        (hr.list_of("bool"), words_of(np.array([1, 0])), [[True, False]], [True, False]),
        (hr.list_of("float32"), words_of(np.array([0.5, np.inf])), [[0.5, np.inf]], [0.5, np.inf]),
        (hr.list_of("string"), np.array([1, 0]), [["cart", ""]], ["cart", ""]),
        (hr.set_of("int32"), np.array([-1, 4]), [[-1, 4]], {-1, 4}),
        (hr.array("float64", 2), words_of(np.array([0.5, -0.0])), [[0.5, -0.0]], [0.5, -0.0]),
        (hr.list_of("duration[s]"), np.array([60]), None, [60]),
        (hr.map_of("string", "float64"), words_of(np.array([1]), np.array([0.5])), [[("cart", 0.5)]], {"cart": 0.5}),
        (
            hr.map_of("int64", hr.array("string", 2)),
            np.array([5, 1, 0, 7, 0, 1]),
            [[(5, ["cart", ""]), (7, ["", "cart"])]],
            {5: ["cart", ""], 7: ["", "cart"]},
        ),
    ],
    ids=repr,
)
def test_example_words_mean_what_their_kind_says(kind, words, arrow, python):
    texts = OrderedTexts(10)
    texts.keep(["", "cart"])
    column = containers.as_column(words, np.array([0, words.size]), kind, texts)
    assert column.type.equals(kind.arrow)
    if arrow is not None:
        assert column.to_pylist() == arrow
    assert containers.as_object(words, kind, texts) == python


def test_example_records_are_structs_and_have_fields():
    kind = hr.map_of("int64", hr.record(n="int64", word="string", share="float64"))
    texts = OrderedTexts(10)
    texts.keep(["", "cart"])
    words = words_of(np.array([3, 2, 1]), np.array([0.25]))
    column = containers.as_column(words, np.array([0, 4, 4]), kind, texts)
    assert column.type.equals(kind.arrow)
    assert column.to_pylist() == [[(3, {"n": 2, "word": "cart", "share": 0.25})], []]
    record = containers.as_object(words, kind, texts)[3]
    assert (record.n, record.word, record.share) == (2, "cart", 0.25)
