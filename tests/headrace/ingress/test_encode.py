"""The encoder against plain Python, and every input it refuses.

Property    Event times, key sets, value columns and payload of the encoded
            batches, joined together, are those of the rows, however the input
            is sliced, chunked and typed.
Oracle      Sets and lists made from to_pylist().
Cannot see  What the operators make of them.
"""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import (
    DisorderError,
    EventTimeError,
    KeyNullError,
    OverflowInputError,
    ParameterError,
    SchemaError,
    UnsupportedTypeError,
)
from headrace.ingress.encode import Encoder
from headrace.ingress.key_sources import KeySource, make_dictionary


def each(column):
    return KeySource((column,), "each")


def value(column):
    return KeySource((column,))


def run(table, keys=(), event_time="ts", **options):
    """Encode a table; return the encoder, the batches, and the rows' keys as lists of values."""
    table = table if isinstance(table, pa.Table) else pa.table(table)
    encoder = Encoder(table.schema, event_time, keys, **options)
    batches = [encoded for batch in table.to_batches() for encoded in encoder.encode(batch)]
    rows = []
    for encoded in batches:
        if not keys:
            continue
        columns = [column.to_pylist() for column in encoder.dictionary.decode(encoded.keys)]
        named = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        offsets = range(len(encoded) + 1) if encoded.offsets is None else encoded.offsets
        rows += [named[offsets[i] : offsets[i + 1]] for i in range(len(encoded))]
    return encoder, batches, rows


words = st.sampled_from(["a", "b", "a longer word", ""])
row = st.tuples(
    st.integers(0, 3),
    st.none() | words,
    st.none() | st.lists(st.none() | words, max_size=5),
    st.none() | st.lists(st.none() | st.integers(-2, 2), max_size=3),
)


def unique(keys):
    return list(dict.fromkeys(keys))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(row, max_size=30), st.integers(1, 7), st.integers(0, 3), st.data())
def test_oracle_key_sets(rows, max_rows, skip, data):
    times = np.cumsum([r[0] for r in rows]).tolist()
    list_type = data.draw(st.sampled_from([pa.list_(pa.string()), pa.large_list(pa.large_string())]))
    table = pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "s": pa.array([r[1] for r in rows], pa.string()),
            "l": pa.array([r[2] for r in rows], list_type),
            "n": pa.array([r[3] for r in rows], pa.list_(pa.int32())),
        }
    ).slice(skip)
    rows = rows[skip:]
    kept = {
        "s": [[] if r[1] is None else [r[1]] for r in rows],
        "l": [unique(k for k in r[2] or [] if k is not None) for r in rows],
        "n": [unique(k for k in r[3] or [] if k is not None) for r in rows],
    }
    sources = {"s": value("s"), "l": each("l"), "n": each("n")}
    chosen = data.draw(st.permutations("sln").map(lambda names: names[: data.draw(st.integers(1, 3))]))
    _, batches, found = run(
        table,
        [sources[name] for name in chosen],
        nulls="drop",
        max_rows=max_rows,
        max_batch_keys=9,
        carry=("s",),
    )
    expected = []
    for i in range(len(rows)):
        product = [()]
        for name in chosen:
            product = [(*left, right) for left in product for right in kept[name][i]]
        expected.append([keys[0] for keys in product] if len(chosen) == 1 else product)
    assert found == expected
    assert [t for b in batches for t in b.ts.tolist()] == times[skip:]
    assert [s for b in batches for s in b.payload["s"].to_pylist()] == [r[1] for r in rows]
    first = 0
    for b in batches:
        assert b.first_row == first and 0 < len(b) <= max_rows
        assert b.offsets.dtype == np.int32 and b.keys.dtype == np.int32
        first += len(b)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(["a", "b", "#c", "#c", "#", "#"]), max_size=8), max_size=6),
    st.none() | st.integers(1, 9),
)
def test_oracle_texts(rows, distance):
    table = {
        "ts": pa.array(range(len(rows)), pa.int64()),
        "text": pa.array([" ".join(r) for r in rows], pa.string()),
    }
    _, _, found = run(table, [KeySource(("text",), "words")])
    assert found == [unique(r) for r in rows]
    _, _, found = run(table, [KeySource(("text",), "hashtags")])
    assert found == [unique(w[1:] for w in r if len(w) > 1) for r in rows]
    _, _, found = run(table, [KeySource(("text",), "pairs", distance)])
    reach = distance or 99
    assert found == [
        unique((r[i], r[j]) for i in range(len(r)) for j in range(i + 1, len(r)) if j - i <= reach)
        for r in rows
    ]


def test_example_single_keys_have_no_offsets():
    table = {"ts": [1, 1, 2], "a": ["x", "y", "x"], "b": [1, 2, 1]}
    for keys in ([value("a")], [value("b")], [value("a"), value("b")]):
        encoder, (batch,), rows = run(table, keys)
        assert encoder.is_single and batch.offsets is None and batch.keys.size == 3
        assert rows[0] == rows[2] != rows[1]
    _, (batch,), _ = run(table)
    assert batch.offsets is None and batch.keys.tolist() == [0, 0, 0]


def test_example_any_of_two_columns():
    table = {"ts": [1, 2, 3], "origin": ["JFK", "EWR", None], "dest": ["LAX", "EWR", "SFO"]}
    _, _, rows = run(table, [KeySource(("origin", "dest"), "any")], nulls="drop")
    assert rows == [["JFK", "LAX"], ["EWR"], ["SFO"]]
    with pytest.raises(SchemaError, match="cast them to one"):
        run({"ts": [1], "a": ["x"], "b": [1]}, [KeySource(("a", "b"), "any")])


def test_example_ids_are_touched_with_the_time_of_their_row():
    encoder, _, _ = run({"ts": [1, 5, 9], "k": [["a", "b"], ["b"], []]}, [each("k")])
    assert [encoder.dictionary.recycle(ts) for ts in (1, 2, 5, 6)] == [0, 1, 0, 1]


def test_example_no_overlap_of_row_numbers_after_a_split_by_keys():
    texts = [" ".join(f"w{i}" for i in range(100))] * 10
    encoder, batches, rows = run(
        {"ts": range(10), "t": texts}, [KeySource(("t",), "pairs")], max_batch_keys=10_000
    )
    assert len(batches) > 1 and [len(r) for r in rows] == [4950] * 10
    assert encoder.counters.rows == 10 and encoder.counters.keys == 49500


@pytest.mark.parametrize(
    ("how", "distance", "row", "rows"),
    [
        ("each", None, [1, 2, 3], 33),  # as many as make 100 keys
        ("words", None, "aaaaa bbbbb ccccc", 33),  # as many words of five letters
        ("pairs", 1, "aaaaa bbbbb ccccc", 33),
        ("pairs", None, "aaaaa bbbbb ccccc", 25),  # bound by all pairs of nine words of one letter
    ],
)
def test_example_batches_have_as_many_keys_as_texts_usually_have(how, distance, row, rows):
    keys = [KeySource(("k",), how, distance)]
    _, batches, _ = run({"ts": range(100), "k": [row] * 100}, keys, usual_batch_keys=100)
    assert [len(batch) for batch in batches] == [rows] * (100 // rows) + [100 % rows] * (100 % rows > 0)


VALUES = [
    (pa.int8(), [1, -2, 3], np.int64, np.int32),
    (pa.int16(), [1, -2, 3], np.int64, np.int32),
    (pa.int32(), [1, -(2**31), 3], np.int64, np.int32),
    (pa.int64(), [1, -(2**63), 3], np.int64, np.int64),
    (pa.uint8(), [1, 255, 3], np.int64, np.int32),
    (pa.uint16(), [1, 65535, 3], np.int64, np.int32),
    (pa.uint32(), [1, 2**32 - 1, 3], np.int64, np.int64),
    (pa.uint64(), [1, 2**63 - 1, 3], np.int64, np.int64),
    (pa.float16(), [1.0, 0.5, -2.0], np.float64, np.float32),
    (pa.float32(), [1.0, 0.5, -2.0], np.float64, np.float32),
    (pa.float64(), [1.0, 0.1, -2.0], np.float64, np.float64),
    (pa.bool_(), [True, False, True], np.uint8, np.uint8),
    (pa.timestamp("s"), [1, 2, 3], np.int64, np.int64),
    (pa.date32(), [1, 2, 3], np.int64, np.int32),
]


@pytest.mark.parametrize(
    ("kind", "items", "wide", "narrow"), VALUES, ids=lambda v: str(v) if isinstance(v, pa.DataType) else ""
)
def test_example_value_columns(kind, items, wide, narrow):
    column = pa.array([None, *items, None, *items], kind)
    table = pa.table({"ts": range(8), "x": column})
    for start, valid in (
        (0, [0, 1, 1, 1, 0, 1, 1, 1]),
        (1, [1, 1, 1, 0, 1, 1, 1]),
        (5, None),
        (1, [1, 1, 1, 0, 1, 1, 1]),
    ):
        part = table.slice(start)
        for options, dtype in (({"values": ("x",)}, wide), ({"narrow_values": ("x",)}, narrow)):
            _, (batch,), _ = run(part, **options)
            values, found_valid = batch.columns["x"]
            assert values.dtype == dtype and values.flags.c_contiguous and values.flags.aligned
            assert (found_valid is None) if valid is None else found_valid.tolist() == valid
            expected = [None, *items, None, *items][start:]
            assert values.tolist() == [0 if item is None else item for item in expected]


def test_example_misaligned_and_read_only_memory():
    raw = np.zeros(8 * 4 + 1, np.uint8)
    raw[1:].view(np.uint8)[:] = np.arange(4, dtype=np.int64).view(np.uint8)
    raw.flags.writeable = False
    buffer = pa.py_buffer(raw).slice(1)
    column = pa.Array.from_buffers(pa.int64(), 4, [None, buffer])
    _, (batch,), _ = run({"ts": column, "x": column}, values=("x",))
    assert batch.ts.flags.aligned and batch.ts.tolist() == batch.columns["x"][0].tolist() == [0, 1, 2, 3]


def test_example_arrays_outlive_the_batch():
    table = pa.table({"ts": np.arange(1000), "x": np.arange(1000)})
    _, (batch,), _ = run(table, values=("x",))
    del table
    junk = [np.full(1000, 7) for _ in range(50)]
    assert batch.columns["x"][0].sum() == batch.ts.sum() == 499_500 and junk


TIMES = [
    (pa.timestamp("us"), [0, 1, 2], [0, 1, 2]),
    (pa.timestamp("s", "America/New_York"), [-5, 0, 3], [-5_000_000, 0, 3_000_000]),
    (pa.timestamp("ms"), [-1, 0, 3], [-1000, 0, 3000]),
    (pa.timestamp("ns", "UTC"), [-1000, 0, 5000], [-1, 0, 5]),
    (pa.int64(), [-(2**61), 0, 2**61], [-(2**61), 0, 2**61]),
    (pa.int32(), [-3, -3, 9], [-3, -3, 9]),
    (pa.uint64(), [0, 3, 9], [0, 3, 9]),
]


@pytest.mark.parametrize(("kind", "given_times", "expected"), TIMES, ids=str)
def test_example_event_times(kind, given_times, expected):
    encoder, (batch,), _ = run({"ts": pa.array(given_times, kind)})
    assert batch.ts.tolist() == expected and batch.ts.dtype == np.int64
    assert encoder.unit == ("us" if pa.types.is_timestamp(kind) else "ms")


BAD_TIMES = [
    (pa.array([1, None, 3]), EventTimeError, "'ts' is null at row 1"),
    (pa.array([1.0, np.nan]), EventTimeError, "'ts' has type double.*NaN.*cast it to int64"),
    (pa.array(np.array(["2020-01-01", "NaT"], "M8[us]")), EventTimeError, "null at row 1"),
    (pa.array([0, -(2**63)]).view(pa.timestamp("us")), EventTimeError, "NaT at row 1"),
    (pa.array([0, -(2**63)]).view(pa.timestamp("ns")), EventTimeError, "NaT at row 1"),
    (pa.array([0, 1500], pa.timestamp("ns")), EventTimeError, "00:00:00.000001 and 500 ns at row 1, no whole microsecond"),
    (pa.array([0, 2**60], pa.timestamp("s")), OverflowInputError, "row 1: beyond int64"),
    (pa.array([0, 2**62]), OverflowInputError, "is 4611686018427387904 at row 1.*below 2..62"),
    (pa.array([-(2**62), 0]), OverflowInputError, "row 0"),
    (pa.array([0, 2**63], pa.uint64()), OverflowInputError, "row 1"),
    (pa.array(["2020-01-01"]), EventTimeError, "string: cast it to timestamp"),
    (pa.array([datetime.date(2020, 1, 1)]), EventTimeError, "date32.*: cast it to timestamp"),
    (pa.array([decimal.Decimal(1)]), EventTimeError, "cast it to int64"),
    (pa.array([[1]]), EventTimeError, "give a timestamp or integer"),
    (
        pa.array([1, 5, 4, 3]),
        DisorderError,
        r"row 2: 4 comes after 5; sort the input \(sort=True\), or .*lateness=",
    ),
]


@pytest.mark.parametrize(("column", "error", "text"), BAD_TIMES, ids=lambda v: str(v)[:40])
def test_example_bad_event_times(column, error, text):
    with pytest.raises(error, match=text):
        run({"ts": column})


def test_example_disorder_between_batches_names_the_row_of_the_source():
    table = pa.table({"ts": pa.chunked_array([[1, 7], [6, 8]])})
    with pytest.raises(DisorderError, match=r"^event_time column 'ts', row 2: 6 comes after 7"):
        run(table)


def test_example_window_size_counts_for_the_range():
    run({"ts": [2**62 - 11]}, window_size=10)
    with pytest.raises(OverflowInputError, match=r"window size \(11\)"):
        run({"ts": [2**62 - 11]}, window_size=11)


def test_example_bad_keys():
    cases = [
        ({"ts": [1, 2], "k": ["a", None]}, [value("k")], KeyNullError, "'k' is null at row 1.*nulls='drop'"),
        ({"ts": [1, 2], "k": [["a"], ["b", None]]}, [each("k")], KeyNullError, "null element at row 1"),
        ({"ts": [1, 2], "k": [["a"], None]}, [each("k")], KeyNullError, "is null at row 1"),
        ({"ts": [1], "k": [None]}, [KeySource(("k",), "words")], SchemaError, "not string"),
        (
            {"ts": [1], "k": pa.array([None], pa.string())},
            [KeySource(("k",), "words")],
            KeyNullError,
            "row 0",
        ),
        ({"ts": [1], "k": [["a"]]}, [value("k")], SchemaError, "write hr.each"),
        ({"ts": [1], "k": ["a"]}, [each("k")], SchemaError, "not a list"),
        ({"ts": [1], "k": ["a"]}, [value("q")], SchemaError, "'q' does not exist: the columns are ts, k"),
        ({"ts": [1], "k": [decimal.Decimal(1)]}, [value("k")], UnsupportedTypeError, "cast it"),
        ({"ts": [1], "k": [{"a": 1}]}, [value("k")], UnsupportedTypeError, "select the fields"),
        ({"ts": [1], "k": [[["a"]]]}, [each("k")], UnsupportedTypeError, "explode"),
        (
            {"ts": [1, 1], "k": pa.array([1, 2**63], pa.uint64())},
            [value("k")],
            OverflowInputError,
            "above the range",
        ),
    ]
    for table, keys, error, text in cases:
        with pytest.raises(error, match=text):
            run(table, keys)


def test_example_bad_values():
    for column, text in [
        (pa.array([decimal.Decimal("0.5")]), "decimal128.*write 0.5D"),
        (pa.array(["a"]), "string.*carried column"),
        (pa.array([None]), "only nulls"),
        (pa.array([b"a"], pa.binary(1)), "cast it to int64"),
    ]:
        with pytest.raises(UnsupportedTypeError, match=text):
            run({"ts": [1], "x": column}, values=("x",))
    with pytest.raises(OverflowInputError, match="column 'x', row 1: 18446744073709551615"):
        run({"ts": [1, 2], "x": pa.array([1, 2**64 - 1], pa.uint64())}, values=("x",))
    with pytest.raises(SchemaError, match="'ts' does not exist: the columns are x"):
        run({"x": [1]})
    with pytest.raises(SchemaError, match="occurs 2 times"):
        run(pa.table([pa.array([1]), pa.array([1])], names=["ts", "ts"]))


def test_example_a_row_with_too_many_keys():
    table = {"ts": [1, 2], "k": [["a"], list("abcdef")], "n": [[1], [1, 2, 3]], "t": ["a", "b c d e f g"]}
    for keys in (
        [each("k")],
        [each("k"), each("n")],
        [KeySource(("t",), "words")],
        [KeySource(("t",), "pairs")],
    ):
        with pytest.raises(OverflowInputError, match=r"row 1 has .* keys, more than the 5 that a row may have: split it"):
            run(table, keys, max_tuple_keys=5)


def test_example_policies_and_counters():
    encoder, batches, rows = run(
        {"ts": [1, 2, 3], "k": [["a", None], None, ["b"]]}, [each("k")], nulls="drop"
    )
    assert rows == [["a"], [], ["b"]] and encoder.counters.null_keys == 2
    encoder, batches, rows = run({"ts": [1, 2], "k": ["a", None]}, [value("k")], nulls="drop")
    assert rows == [["a"], []] and not encoder.is_single and batches[0].offsets.tolist() == [0, 1, 1]
    for wrong in ({"nulls": "ignore"}, {"max_rows": 0}, {"max_batch_keys": 0}, {"usual_batch_keys": 0}):
        with pytest.raises(ParameterError):
            run({"ts": [1]}, **wrong)
    for wrong in ({"how": "all"}, {"columns": ("a", "b")}, {"how": "pairs", "distance": 0}):
        with pytest.raises(ParameterError):
            KeySource(**{"columns": ("a",), **wrong})


def test_example_a_later_batch_of_another_schema():
    encoder = Encoder(
        pa.schema({"ts": pa.int64(), "x": pa.int64(), "unused": pa.int8()}), "ts", values=("x",)
    )
    (batch,) = encoder.encode(pa.record_batch({"x": [5], "ts": [1], "more": ["a"]}))
    assert batch.columns["x"][0].tolist() == [5]
    with pytest.raises(SchemaError, match="'x' has type double in a later batch"):
        list(encoder.encode(pa.record_batch({"x": [5.0], "ts": [1]})))


def test_example_sources_share_a_dictionary():
    keys = [value("k")]
    left = pa.record_batch({"ts": [1], "k": pa.array(["a"])})
    right = pa.record_batch({"ts": [1], "k": pa.array(["a"], pa.large_string())})
    dictionary = make_dictionary(left.schema, keys)
    ids = [next(Encoder(b.schema, "ts", keys, dictionary).encode(b)).keys.tolist() for b in (left, right)]
    assert ids[0] == ids[1]


def test_example_empty_input():
    _, batches, rows = run(
        pa.table({"ts": pa.array([], pa.int64()), "k": pa.array([], pa.string())}), [value("k")]
    )
    assert batches == [] and rows == []
