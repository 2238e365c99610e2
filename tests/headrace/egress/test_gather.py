"""Payload columns of results, gathered from the batches of their sources.

Oracle      the rows one by one, from lists
Mistakes    the hint of another source; a batch's first row taken for the one before; the offset of a slice;
            nulls of a later batch. Each was planted and seen to fail
Cannot see  that the batches are still there: `test_memory` does
"""

import datetime
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.egress.gather import Gatherer
from headrace.ingress.store import Store, allocate_directories
from headrace.references import SOURCE_SHIFT

BATCHES = ((8, 1, 3, 12), (5,), (), (1, 1, 40))
PLACES = [(s, row) for s, counts in enumerate(BATCHES) for row in range(sum(counts))]
COLUMNS = {
    "int64": pa.int64(), "int32": pa.int32(), "int16": pa.int16(), "uint8": pa.uint8(), "float64": pa.float64(),
    "float32": pa.float32(), "bool": pa.bool_(), "date": pa.date32(), "time": pa.timestamp("us", "UTC"),
    "decimal": pa.decimal128(9, 2), "text": pa.string(), "kind": pa.dictionary(pa.int8(), pa.string()),
    "list": pa.list_(pa.int64()), "null sometimes": pa.int64(), "null at times": pa.float32(),
}  # fmt: skip


def value(name, source, row):
    number = 50 * source + row
    if name in ("null sometimes", "null at times") and row > 8 and number % 3 == 0:
        return None
    made = {
        "bool": number % 3 == 0, "text": f"{source}:{row}", "kind": "ab"[number % 2], "list": [number] * (row % 3),
        "date": datetime.date(2020, 1, 1) + datetime.timedelta(number), "decimal": number,
        "time": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(0, number, 1),
    }  # fmt: skip
    return made.get(name, number)


def batch_of(source, first, count):
    rows = range(first, first + count)
    columns = {n: pa.array([value(n, source, row) for row in rows], kind) for n, kind in COLUMNS.items()}
    return pa.record_batch(columns, pa.schema(list(COLUMNS.items())))


@pytest.fixture(scope="module")
def stores():
    """The sources; every other batch is a slice of a longer one."""
    made = []
    for source, counts in enumerate(BATCHES):
        store = Store({}, False, allocate_directories(1, 0)[0])
        first = 0
        for i, count in enumerate(counts):
            payload = batch_of(source, max(first - i, 0), count + min(first, i) + 2).slice(min(first, i), count)
            store.append(np.arange(first, first + count), np.zeros(count, np.int32), None, {}, payload)
            first += count
        made.append(store)
    return made


def refs(places):
    return np.array([source << SOURCE_SHIFT | row for source, row in places], np.int64)


def assert_gathered(stores, places):
    names = random.Random(len(places)).sample(list(COLUMNS), len(COLUMNS))
    taken = Gatherer(stores).take(refs(places), names)
    batch = pa.RecordBatch.from_arrays(taken, names=names)
    wanted = {n: pa.array([value(n, *place) for place in places], COLUMNS[n]) for n in names}
    batch.validate(full=True)
    assert batch.schema.names == names and batch.to_pydict() == {n: wanted[n].to_pylist() for n in names}
    assert [column.type for column in batch.columns] == [COLUMNS[n] for n in names]


SPANS = st.tuples(st.integers(0, len(PLACES)), st.integers(0, len(PLACES))).map(
    lambda ends: PLACES[min(ends) : max(ends)]
)
ANY = st.lists(st.sampled_from(PLACES), min_size=1, max_size=2 * len(PLACES))


@settings(deadline=None)
@given(places=st.one_of(SPANS, SPANS.map(lambda places: places[::-1]), ANY).filter(bool))
def test_oracle_any_rows_in_any_order(stores, places):
    assert_gathered(stores, places)


def test_oracle_many_rows_of_two_sources_in_turns(stores):
    """As a merge of sources gives them: in each source one row after the other."""
    draw = random.Random(5)
    left = {s: iter(range(sum(BATCHES[s]))) for s in (0, 3)}
    places = []
    while left:
        source = draw.choice(list(left))
        row = next(left[source], None)
        if row is None:
            del left[source]
        else:
            places.append((source, row))
    assert_gathered(stores, places)


def test_oracle_batches_that_come_and_go():
    """What was looked up once is looked up again when a batch was added, released, or both."""
    store = Store({}, False, allocate_directories(1, 0)[0])
    draw, gatherer, first, kept = random.Random(7), Gatherer([store]), 0, []
    for _ in range(200):
        if not kept or draw.random() < 0.6:
            rows = range(first, first + draw.randint(1, 5))
            first += len(rows)
            store.append(np.array(rows), np.zeros(len(rows), np.int32), None, {}, pa.record_batch({"n": list(rows)}))
            kept.append(rows)
        if len(kept) > 3:
            kept = kept[draw.randint(1, 2) :]
            store.release(kept[0][0])
        wanted = [draw.choice(draw.choice(kept)) for _ in range(4)]
        assert gatherer.take(np.array(wanted), ["n"])[0].to_pylist() == wanted


def test_example_many_neighbours_are_not_copied_and_few_keep_no_batch():
    made = Store({}, False, allocate_directories(1, 0)[0])
    payload = pa.record_batch({"n": np.arange(1000)})
    made.append(np.arange(1000), np.zeros(1000, np.int32), None, {}, payload)

    def shares(first, last):
        (column,) = Gatherer([made]).take(np.arange(first, last), ["n"])
        assert column.to_pylist() == list(range(first, last))
        return column.buffers()[1].address + 8 * column.offset == payload.column(0).buffers()[1].address + 8 * first

    assert shares(100, 900)
    assert not shares(100, 101)


def test_example_kernels_compile_beforehand(stores):
    Gatherer(stores).compile()
