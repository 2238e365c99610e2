"""From records to rows, for each kind of operator: order by content, types, nulls, gathered columns.

Oracle      Python's own order of the values, and rows written by hand.
Cannot see  whether instances write the right records: the operators' tests.
"""

import datetime
import math
import random

import numpy as np
import pyarrow as pa
import pytest

from headrace.egress.records import Records
from headrace.elastic.aggregate.results import AggregateResults
from headrace.elastic.aggregate.shape import AggregateColumn, Output
from headrace.elastic.custom.results import CustomResults
from headrace.elastic.custom.shape import CustomShape
from headrace.elastic.forward import ForwardResults
from headrace.elastic.join.results import JoinResults
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.store import Store, allocate_directories
from headrace.references import SOURCE_SHIFT

WORDS = ["b", "", "a", "é", "ab", "a" * 12 + "b", "a" * 12 + "a", "\uffff", "\U00010000"]


def records(primary, a=None, b=None, c=None, values=()):
    count = len(primary)
    columns = [np.zeros(count, np.int64) if x is None else np.asarray(x, np.int64) for x in (a, b, c, None)]
    return Records(np.asarray(primary, np.int64), *columns, [np.asarray(v) for v in values])


@pytest.fixture
def words():
    dictionary = KeyDictionary(("string",))
    return dictionary, dictionary.encode(pa.array(WORDS)).astype(np.int64)


@pytest.mark.parametrize("times", [[5], [5, 7, -3]])
def test_oracle_aggregates_are_ordered_by_time_and_key(words, times):
    dictionary, ids = words
    draw = random.Random(len(times))
    rows = [(ts, i) for ts in times for i in range(len(WORDS))]
    draw.shuffle(rows)
    schema = pa.schema({"ts": pa.int64(), "word": pa.string(), "n": pa.int64()})
    finisher = AggregateResults(schema, dictionary, 1, [Output(AggregateColumn("count"), 0)])
    drained = records([ts for ts, _ in rows], a=[ids[i] for _, i in rows], values=[[i for _, i in rows]])
    batch = finisher.finish(drained)
    assert [tuple(row.values()) for row in batch.to_pylist()] == sorted((ts, WORDS[i], i) for ts, i in rows)
    # No key: as they come, they are of one time each.
    plain = AggregateResults(pa.schema({"ts": pa.int64(), "n": pa.int64()}), None, 0, finisher._outputs)
    assert plain.finish(records([3, 1, 2], values=[[30, 10, 20]])).to_pydict() == {"ts": [1, 2, 3], "n": [10, 20, 30]}


@pytest.mark.parametrize("times", [[5], [5, 7]])
@pytest.mark.parametrize("keys", [["b", "a", "c"], [3, 1, 2], [False, True, None]])
def test_property_a_result_stays_when_its_records_are_overwritten(times, keys):
    """Records lie in arrays that are used again."""
    column = pa.array([key for key in keys if key is not None])
    dictionary = KeyDictionary(("string" if isinstance(keys[0], str) else "int",))
    dictionary.types[0] = column.type
    ids = np.resize(dictionary.encode(column).astype(np.int64), 6)
    schema = pa.schema({"ts": pa.int64(), "key": column.type, "n": pa.int64()})
    finisher = AggregateResults(schema, dictionary, 1, [Output(AggregateColumn("count"), 0)])
    drained = records(np.resize(times, 6), a=ids, values=[np.arange(6)])
    batch = finisher.finish(drained)
    before = batch.to_pylist()
    for array in (drained.primary, drained.a, *drained.values):
        array[:] = -9
    assert batch.to_pylist() == before


def test_example_aggregates_of_nothing_are_null():
    """Counts, then a mean, a largest, a NaN to be ignored, a time, a text; the second row saw no value."""
    texts = KeyDictionary(("string",))
    text = int(texts.encode(pa.array(["seen"]))[0])
    schema = pa.schema(
        {
            "ts": pa.timestamp("us", tz="UTC"),
            "n": pa.int64(),
            "mean": pa.float64(),
            "top": pa.int64(),
            "least": pa.float64(),
            "first": pa.timestamp("us"),
            "text": pa.large_string(),
        }
    )
    outputs = [
        Output(AggregateColumn("count"), 0),
        Output(AggregateColumn("mean", 0), 1, 5, high=7),
        Output(AggregateColumn("max", 0), 2, 5),
        Output(AggregateColumn("min", 1, "float64", ignore_nan=True), 3, 5),
        Output(AggregateColumn("first", 2), 4, 5),
        Output(AggregateColumn("last", 3, is_text=True), 6, 5),
    ]
    finisher = AggregateResults(schema, None, 0, outputs, [None] * 5 + [texts])
    batch = finisher.finish(
        records(
            [1_000_000, 2_000_000],
            values=[[4, 1], [9, 7], [5, 7], [math.nan, 7.0], [3, 7], [2, 0], [text, 0], [0, 0]],
        )
    )
    utc = datetime.UTC
    assert batch.to_pylist() == [
        {
            "ts": datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=utc),
            "n": 4,
            "mean": 4.5,
            "top": 5,
            "least": None,
            "first": datetime.datetime(1970, 1, 1, 0, 0, 0, 3),
            "text": "seen",
        },
        {"ts": datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=utc), "n": 1} | dict.fromkeys(schema.names[2:]),
    ]
    assert batch.schema == schema


def test_oracle_custom_results_are_ordered_by_boundary_cause_key_and_emission(words):
    dictionary, ids = words
    draw = random.Random(1)
    rows = [(draw.randrange(3), draw.randrange(4), draw.randrange(len(WORDS)), n) for n in range(300)]
    schema = pa.schema({"ts": pa.int64(), "word": pa.string(), "n": pa.int64(), "late": pa.bool_()})
    shape = CustomShape((), (("n", "int64"), ("late", "bool")), (), 1, False, None, None, None)
    finisher = CustomResults(schema, dictionary, 1, shape)
    columns = list(zip(*rows, strict=True))
    late = np.array([n % 2 for n in columns[3]], np.uint8)
    drained = records(
        [7] * len(rows),
        a=ids[list(columns[2])],
        b=columns[1],
        c=columns[3],
        values=[columns[0], columns[3], late],
    )
    batch = finisher.finish(drained)
    wanted = sorted(rows, key=lambda row: (row[0], row[1], WORDS[row[2]], row[3]))
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (boundary, WORDS[word], n, n % 2 == 1) for boundary, _, word, n in wanted
    ]


def two_stores():
    """Source s, row i, in batches of three: text "s:i" and number 10 s + i."""
    directories = allocate_directories(2, 0)
    made = []
    for source in range(2):
        store = Store({}, False, directories[source])
        for first in range(0, 9, 3):
            rows = range(first, first + 3)
            payload = pa.record_batch(
                {"t": [f"{source}:{i}" for i in rows], "n": [10 * source + i for i in rows]}
            )
            store.append(np.array(rows), np.zeros(3, np.int32), None, {}, payload)
        made.append(store)
    return made


def ref(source, row):
    return source << SOURCE_SHIFT | row


def test_example_forwarded_rows_follow_their_positions():
    schema = pa.schema({"t": pa.string(), "n": pa.int64()})
    finisher = ForwardResults(schema, two_stores())
    drained = records([12, 3, 7], a=[ref(0, 5), ref(1, 1), ref(0, 0)])
    batch = finisher.finish(drained)
    assert batch.schema == schema and batch.column("t").to_pylist() == ["1:1", "0:0", "0:5"]


def test_example_joined_rows_have_the_left_tuple_first_and_one_unit_later():
    """`a` is the later tuple. Order: position of the later one, then time and place of the earlier one."""
    schema = pa.schema({"ts": pa.int64(), "t": pa.string(), "n": pa.int64()})
    finisher = JoinResults(schema, two_stores(), (["t"], ["n"]))
    later = [ref(1, 4), ref(0, 7), ref(1, 4), ref(1, 4)]
    earlier = [ref(0, 2), ref(1, 6), ref(0, 1), ref(0, 3)]
    drained = records(
        [9, 13, 9, 9], a=later, b=earlier, c=[20, 50, 20, 10], values=[[40, 70, 40, 40], [1, 0, 1, 1]]
    )
    batch = finisher.finish(drained)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (41, "0:3", 14),
        (41, "0:1", 14),
        (41, "0:2", 14),
        (71, "0:7", 16),
    ]
