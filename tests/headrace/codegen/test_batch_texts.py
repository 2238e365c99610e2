"""Strings in map, filter and flat_map.

Property    functions over a batch see, compare and give strings as plain Python does: all layouts and lengths, nulls,
            code points beyond 16 bits, strings that another step computed
Oracle      the same functions, called by the interpreter on rows as objects
Cannot see  strings in the state of operators (tests/headrace/elastic/test_texts.py)
"""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.codegen.batch_texts import BatchTexts
from headrace.codegen.stateless import Filter, FlatMap, Map, StatelessChain, loop
from headrace.errors import FunctionError, ParameterError

SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int64(), "name": pa.string(), "word": pa.large_string()})
LAYOUTS = [pa.large_string(), pa.string_view(), pa.dictionary(pa.int16(), pa.string())]


def is_known(t):
    return t.name is not None and t.name


def label(t, emit):
    if t.name in ("a", "é") or t.name >= "zz":
        emit(label=t.name, size=len(t.name))
    if t.word is None:
        emit(label="", size=-1)
    elif t.name < t.word:
        emit(label=min(t.name, "m"), size=len(t.word))
    else:
        emit(label=t.word, size=0)


def again(t):
    return t.label if t.size != 1 and t.label != "other" else "other"


STEPS = [
    Filter(is_known),
    FlatMap(label, {"label": "string", "size": "int64"}),
    Map(again, {"again": "string"}),
    Filter(lambda t: len(t.again) < 3 and t.again != "b"),
]


def plain(batch):
    found = []
    for row in batch.to_pylist():
        if not is_known(SimpleNamespace(**row)):
            continue
        made = []
        label(SimpleNamespace(**row), lambda made=made, **columns: made.append(columns))
        for columns in made:
            whole = row | columns
            whole["again"] = again(SimpleNamespace(**whole))
            if len(whole["again"]) < 3 and whole["again"] != "b":
                found.append(whole)
    return found


@pytest.fixture(scope="module")
def chain():
    return StatelessChain(STEPS, SCHEMA, "ts")


SOME = ["a", "b", "é", "zz", "zzz", "m", "", "other"]
TEXTS = st.one_of(st.sampled_from(SOME), st.text(max_size=4), st.text("az\0", max_size=12))
ROWS = st.tuples(st.integers(0, 5), st.integers(0, 5), st.none() | TEXTS, st.none() | TEXTS)


def batch_of(rows, schema=SCHEMA):
    columns = list(zip(*rows, strict=True)) if rows else [[]] * len(schema)
    return pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, max_size=8))
def test_oracle_fused_equals_plain(chain, rows):
    assert chain.apply(batch_of(rows)).to_pylist() == plain(batch_of(rows))


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_agree_layouts_and_slices(layout):
    schema = SCHEMA.set(2, pa.field("name", layout))
    rows = [(i, i % 3, [None, "a", "é", "zz", "b", "zzz"][i % 6], ["m", None, "x"][i % 3]) for i in range(60)]
    whole = batch_of(rows, schema)
    chain = StatelessChain(STEPS, schema, "ts")
    assert chain.apply(whole).to_pylist() == plain(whole)
    pieces = [row for at in range(0, 60, 7) for row in chain.apply(whole.slice(at, 7)).to_pylist()]
    assert pieces == plain(whole)


@given(st.lists(st.none() | TEXTS, max_size=9), st.lists(TEXTS, max_size=3), st.booleans())
def test_property_ids_are_equal_and_ordered_as_the_strings_are(column, literals, is_ordered):
    known = BatchTexts([pa.array(column, pa.string())], ["", *literals], is_ordered)
    ranks, points, given_ids = known.arrays
    of_column = ["" if text is None else text for text in column]
    assert known.decode(known.ids[0]).to_pylist() == of_column and known.decode(given_ids).to_pylist() == ["", *literals]
    texts, ids = [*of_column, "", *literals], [*known.ids[0].tolist(), *given_ids.tolist()]
    assert [len(text) for text in texts] == points[ids].tolist()
    for a, text in zip(ids, texts, strict=True):
        for b, other in zip(ids, texts, strict=True):
            assert (a == b) == (text == other)
            assert not is_ordered or (ranks[a] < ranks[b]) == (text < other)


def test_example_strings_are_sorted_only_where_asked_for():
    rows = batch_of([(0, 1, "b", "a"), (1, 2, "a", "b")])
    asks = StatelessChain([Filter(lambda t: t.name < "b")], SCHEMA, "ts")
    does_not = StatelessChain([Filter(lambda t: t.name != "b")], SCHEMA, "ts")
    (loop,), (other,) = asks._parts, does_not._parts
    assert loop.compile(False).is_ordered and not other.compile(False).is_ordered
    assert asks.apply(rows).column("ts").to_pylist() == does_not.apply(rows).column("ts").to_pylist() == [1]
    numbers = StatelessChain([Filter(lambda t: t.x > 1)], SCHEMA, "ts")
    assert not numbers._parts[0].compile(False).literals, "no string is looked at for numbers"


@pytest.mark.slow
def test_example_through_an_operator():
    """What a function computes is a column like any other: a key, an aggregate's."""
    table = pa.table({"ts": [0, 1, 2, 3], "kind": ["view", "cart", "buy", "view"], "user": ["u", "v", "u", "w"]})

    def stage(t, emit):
        emit(stage="wants" if t.kind in ("cart", "buy") else "looks")

    query = hr.stream(table, event_time="ts").filter(lambda t: t.user < "w").map(stage, stage="string")
    counts = query.key_by("stage").window(10).aggregate(n=hr.count(), last=hr.max("user"))
    assert counts.to_arrow().to_pylist() == [
        {"ts": 10, "stage": "looks", "n": 1, "last": "u"},
        {"ts": 10, "stage": "wants", "n": 2, "last": "v"},
    ]


def test_example_times_are_kept_as_they_are_declared():
    schema = pa.schema({"ts": pa.int64(), "when": pa.timestamp("ms")})
    chain = StatelessChain([Map(lambda t: t.when + 1, {"next": "timestamp[ms]"})], schema, "ts")
    batch = pa.record_batch([pa.array([0]), pa.array([5], pa.timestamp("ms"))], schema=schema)
    assert chain.apply(batch).column("next").equals(pa.array([6], pa.timestamp("ms")))


def test_example_a_failure_shows_the_strings():
    chain = StatelessChain([Map(lambda t: t.x // len(t.name), {"y": "int64"})], SCHEMA, "ts")
    with pytest.raises(FunctionError, match="ZeroDivisionError") as caught:
        chain.apply(batch_of([(0, 1, "a", "b"), (1, 2, "", "c")]))
    assert caught.value.tuple == {"ts": 1, "x": 2, "name": "", "word": "c"}


@pytest.mark.parametrize(
    ("step", "error", "words"),
    [
        (Filter(lambda t: t.name + "x" == "ax"), FunctionError, r"t.name is a string, which can be compared, kept and emitted"),
        (Filter(lambda t: t.name[0] == "a"), FunctionError, "a part of a string"),
        (Filter(lambda t: "a" in t.name), FunctionError, "looks into a string"),
        (Filter(lambda t: t.name == t.x), FunctionError, "a string and a number are compared, and never equal"),
        (Filter(lambda t: t.name.startswith("a")), FunctionError, "startswith"),
        (Map(lambda t: f"{t.x}", {"y": "string"}), FunctionError, "strings cannot be put together here"),
        (Map(lambda t: t.name + "!", {"y": "string"}), FunctionError, r"t.name \+ '!': t.name is a string, .*do it before"),
        (Map(lambda t: t.x, {"y": "string"}), FunctionError, "t.x is a number: what is returned takes a string"),
        (Map(lambda t: t.name, {"y": "int64"}), FunctionError, "t.name is a string, in what is returned: return a number"),
        (FlatMap(lambda t, emit: emit(y=t.name), {"y": "int64"}), FunctionError, "t.name is a string.* takes a number"),
        (Map(lambda t: t.name, {"y": "text"}), ParameterError, "y='text': did you mean 'string'[?] the kinds are int64, .*"),
    ],
)
def test_bad_text_work(step, error, words):
    with pytest.raises(error, match=words):
        StatelessChain([step], SCHEMA, "ts")


@pytest.mark.interpreted
@pytest.mark.parametrize("mistake", ["ids do not order", "nulls are literals", "literals of another batch"])
def test_planted_mistake_is_found(monkeypatch, mistake):
    rows = batch_of([(0, 1, "m", "zz"), (1, 2, "a", "n"), (2, 0, None, "b"), (3, 0, "zzz", "a"), (4, 1, "é", None)])
    assert StatelessChain(STEPS, SCHEMA, "ts").apply(rows).to_pylist() == plain(rows)
    if mistake == "ids do not order":
        monkeypatch.setattr(loop._Variant, "is_ordered", False)
    elif mistake == "nulls are literals":
        monkeypatch.setattr(loop, "validity_of", lambda column: np.ones(len(column), np.uint8))
    else:
        first = BatchTexts([], ["", "other", "zz", "m", "é", "a", "b"], True).arrays[2]
        made = BatchTexts.__init__

        def stale(self, columns, literals, is_ordered):
            made(self, columns, literals, is_ordered)
            self.arrays[2] = first[: len(literals)]

        monkeypatch.setattr(BatchTexts, "__init__", stale)
    assert StatelessChain(STEPS, SCHEMA, "ts").apply(rows).to_pylist() != plain(rows)
