"""What a store gives back of the columns carried by reference.

Oracle      the rows one by one, from a list
Cannot see  that kernels read no row too many: `test_gates` and the oracles of the operators do
"""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.gates.store import Store, allocate_directories

BATCHES = (8, 1, 3, 12)
N = sum(BATCHES)


@pytest.fixture(scope="module")
def store():
    made = Store({}, False, allocate_directories(1, 0)[0])
    first = 0
    for count in BATCHES:
        rows = np.arange(first, first + count)
        payload = pa.record_batch({"t": [f"row {i}" for i in rows], "n": 10 * rows})
        made.append(rows, np.zeros(count, np.int32), None, {}, payload)
        first += count
    return made


SPANS = st.tuples(st.integers(0, N), st.integers(0, N)).map(lambda ends: list(range(min(ends), max(ends))))
ANY = st.lists(st.integers(0, N - 1), max_size=2 * N)


@settings(deadline=None)
@given(rows=st.one_of(SPANS, SPANS.map(lambda rows: rows[::-1]), ANY))
def test_oracle_any_rows_in_any_order(store, rows):
    if not rows:
        return
    taken = store.take(np.array(rows, np.int64))
    assert taken.to_pydict() == {"t": [f"row {i}" for i in rows], "n": [10 * i for i in rows]}


def test_example_many_neighbours_are_not_copied_and_few_keep_no_batch():
    made = Store({}, False, allocate_directories(1, 0)[0])
    payload = pa.record_batch({"n": np.arange(1000)})
    made.append(np.arange(1000), np.zeros(1000, np.int32), None, {}, payload)

    def shares(first, last):
        column = made.take(np.arange(first, last)).column("n").chunk(0)
        return column.buffers()[1].address == payload.column(0).buffers()[1].address

    assert shares(100, 900)
    assert not shares(100, 101)
