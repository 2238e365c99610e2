"""List columns of numbers, from Arrow into the store and to a kernel.

Property    Through addresses, sizes, nulls and validity in the store every row's list is the one it was given,
            whatever the layout, slices, batches and chunks; its memory lives until its rows are released, no longer.
Oracle      Arrow's own Python values.
Cannot see  What an operator does with lists; the validation of memory that is not Arrow's (`test_validation`).
"""

import gc
import inspect
import weakref

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import OverflowInputError, SchemaError, UnsupportedTypeError
from headrace.ingress import lists, store_kernel
from headrace.ingress import store as store_module
from headrace.ingress.encode import Encoder
from headrace.ingress.lists import element_dtype, names_of, number_lists
from headrace.ingress.store import CHUNK, Store, allocate_directories, directory_width
from headrace.kernel import kernel
from headrace.memory.atomics import view_f64, view_i64, view_u8
from headrace.references import tuple_reference
from planted_mistakes import assert_found

WIDTH = directory_width(3)


@kernel
def read_lists(x, refs, width, sizes, nulls, valid, elements):
    """Copy the lists of rows out as an operator finds them; returns the number of elements."""
    count = 0
    for i in range(refs.size):
        source, entry, at = store_kernel.locate(refs[i], width)
        address = view_i64(x[source, entry + store_kernel.values_at(0)], CHUNK)[at]
        sizes[i] = view_i64(x[source, entry + store_kernel.values_at(1)], CHUNK)[at]
        nulls[i] = view_i64(x[source, entry + store_kernel.values_at(2)], CHUNK)[at]
        mask = x[source, entry + store_kernel.validity_at(0)]
        valid[i] = 1 if mask == 0 else view_u8(mask, CHUNK)[at]
        own = view_i64(address, sizes[i])
        for k in range(sizes[i]):
            elements[count + k] = own[k]
        count += sizes[i]
    return count


@kernel
def sum_of(address, size):
    """Add the elements of a list of floats."""
    total = 0.0
    elements = view_f64(address, size)
    for k in range(size):
        total += elements[k]
    return total


def stored(table, name="x", **options):
    """Encode a table and append it to a store, in its own batches."""
    encoder = Encoder(table.schema, "ts", lists=(name,), **options)
    directories = allocate_directories(1, 3)
    dtypes = dict.fromkeys(names_of(name), np.dtype(np.int64))
    store = Store(dtypes, False, directories[0])
    for batch in table.to_batches():
        for piece in encoder.encode(batch):
            store.append(piece.ts, piece.keys, piece.offsets, piece.columns, piece.payload, piece.elements)
    return directories, store


def found_in(directories, rows, kind):
    """Every row's list by the kernel: (valid, number of nulls, elements), as it is to be read."""
    refs = np.array([tuple_reference(0, row) for row in rows], np.int64)
    sizes, nulls, valid = (np.zeros(len(rows), np.int64) for _ in range(3))
    elements = np.zeros(1 << 20, np.int64)
    count = read_lists(directories, refs, WIDTH, sizes, nulls, valid, elements)
    numbers = elements[:count].view(element_dtype(kind))
    parts = np.split(numbers, np.cumsum(sizes)[:-1]) if len(rows) else []
    return [
        (bool(is_there), int(missing), part.tolist())
        for is_there, missing, part in zip(valid, nulls, parts, strict=True)
    ]


def expected_of(values):
    """What must be found of lists in Python."""
    return [
        (one is not None, 0 if one is None else one.count(None), [0 if value is None else value for value in one or []])
        for one in values
    ]


LAYOUTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
    "fixed": lambda kind: pa.list_(kind, 2),
}
ELEMENTS = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**63 - 1)),
    "float64": (pa.float64(), st.floats(allow_nan=False)),
    "float32": (pa.float32(), st.floats(allow_nan=False, width=32)),
    "bool": (pa.bool_(), st.booleans()),
    "null": (pa.null(), st.none()),
}


@st.composite
def columns_of_lists(draw):
    """A list column of any layout and element type, sliced: two copies of the drawn rows, or from the middle."""
    kind, element = ELEMENTS[draw(st.sampled_from(sorted(ELEMENTS)))]
    layout = draw(st.sampled_from(sorted(LAYOUTS)))
    length = {"min_size": 2, "max_size": 2} if layout == "fixed" else {"max_size": 4}
    may_be_null = draw(st.sampled_from(["lists", "elements", "both", "neither"]))
    values = st.none() | element if may_be_null in ("elements", "both") else element
    one = st.lists(values, **length)
    rows = draw(st.lists(st.none() | one if may_be_null in ("lists", "both") else one, max_size=12))
    array = pa.array(rows, LAYOUTS[layout](kind))
    return array.slice(draw(st.integers(0, 3)), draw(st.integers(0, 12)))


CASES = st.tuples(columns_of_lists(), st.integers(1, 5))


def check_column(case):
    array, max_rows = case
    table = pa.table({"ts": np.arange(len(array)), "x": array})
    directories, store = stored(table, max_rows=max_rows)
    rows = range(store.rows)
    assert store.rows == len(array)
    found, expected = found_in(directories, rows, array.type), expected_of(array.to_pylist())
    assert found == expected, "the lists"


@settings(max_examples=50)
@given(CASES)
def test_oracle_lists_of_any_layout(case):
    check_column(case)


def spanning():
    """Null lists that span elements, lists that share elements, elements that have undefined values under nulls."""
    values = pa.array([1, 2, None, 4, 5, None, 7, 8], pa.int64())
    offsets, mask = pa.array([0, 2, 4, 4, 8], pa.int32()), pa.array([False, True, False, False])
    yield pa.ListArray.from_arrays(offsets, values, mask=mask)
    yield pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), values, mask=mask)
    yield pa.FixedSizeListArray.from_arrays(values, 2, mask=mask)
    starts, sizes = pa.array([6, 0, 2, 1], pa.int32()), pa.array([2, 3, 0, 5], pa.int32())
    yield pa.ListViewArray.from_arrays(starts, sizes, values, mask=mask)
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1, 0, 2, 2, 0], pa.int8()), pa.array([7, 8, None]))
    yield pa.ListArray.from_arrays(offsets, coded, mask=mask)


def test_oracle_lists_that_span_share_and_hide_elements():
    for whole in spanning():
        for array in (whole, whole.slice(1), whole.slice(2, 1), whole.slice(0, 0)):
            check_column((array, 100))


def test_agree_over_chunk_borders():
    rng = np.random.default_rng(5)
    n = CHUNK + 3_000
    sizes = rng.integers(0, 4, n)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    values = pa.array(rng.integers(-9, 9, offsets[-1]), mask=rng.random(offsets[-1]) < 0.1)
    array = pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(rng.random(n) < 0.1))
    table = pa.table({"ts": np.arange(n), "x": pa.chunked_array([array.slice(0, 777), array.slice(777)])})
    directories, store = stored(table, max_rows=5_000)
    assert found_in(directories, range(store.rows), array.type) == expected_of(array.to_pylist())


def test_example_floats_are_read_as_floats():
    found = number_lists(pa.array([[0.5, None, -2.25], [1.0]], pa.list_(pa.float32())), "x")
    sums = [sum_of(address, size) for address, size in zip(found.addresses, found.sizes, strict=True)]
    assert sums == [-1.75, 1.0] and found.nulls.tolist() == [1, 0]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.timestamp("us")], ids=str)
def test_example_arrows_own_buffer_is_not_copied(kind):
    values = pa.array(range(100), pa.int64()).cast(kind) if kind != pa.float64() else pa.array(np.arange(100.0))
    begin = values.buffers()[1].address
    offsets = pa.array([0, 10, 10, 60, 100], pa.int32())
    for array in (
        pa.ListArray.from_arrays(offsets, values),
        pa.ListArray.from_arrays(offsets, values, mask=pa.array([False, True, False, False])),
        pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), values),
        pa.FixedSizeListArray.from_arrays(values, 25),
    ):
        for part in (array, array.slice(2)):
            first = 8 * (part.value_lengths().cast(pa.int64()).fill_null(0)).to_numpy()
            found = number_lists(part, "x")
            ends = found.addresses + first
            assert ends[-1] == begin + 800 and (ends[:-1] == found.addresses[1:]).all()


class Owner:
    """Memory that Arrow is lent, of which it can be seen when it is given back."""

    def __init__(self, count):
        self.values = np.arange(count)
        self.__array_interface__ = self.values.__array_interface__


def lent(count):
    """Return lists of one element over memory of our own, and a reference to that which dies with it."""
    owner = Owner(count)
    array = np.asarray(owner)
    elements = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(array)])
    offsets = pa.array(np.arange(count + 1), pa.int32())
    return pa.ListArray.from_arrays(offsets, elements), weakref.ref(owner)


def test_memory_lives_until_its_rows_are_released_and_no_longer():
    one, first = lent(50)
    other, second = lent(50)
    table = pa.table({"ts": np.arange(100), "x": pa.chunked_array([one, other])})
    kind = one.type
    directories, store = stored(table)
    del table, one, other
    gc.collect()
    expected = [(True, 0, [value]) for value in range(50)]
    assert first() is not None and second() is not None, "given back too early"
    store.release(49)  # the last row of the first batch may still be read
    gc.collect()
    assert first() is not None, "given back too early"
    assert found_in(directories, range(100), kind) == expected * 2
    store.release(50)
    gc.collect()
    assert second() is not None, "given back too early"
    assert first() is None, "kept too long"
    assert found_in(directories, range(50, 100), kind) == expected
    store.release(100)
    gc.collect()
    assert second() is None, "kept too long"


@pytest.mark.parametrize(
    ("text", "mistake", "found"),
    [
        ("self._elements[0][0] < horizon", "self._elements[0][0] <= horizon", "too early"),
        pytest.param(
            "self._elements[0][0] < horizon", "self._elements[0][0] < horizon - 1", "too long", marks=pytest.mark.campaign
        ),
        pytest.param("self._elements.popleft()", "break", "too long", marks=pytest.mark.campaign),
        ("if elements and count:", "if False:", "too early"),
    ],
)
def test_planted_mistakes_of_release_are_found(text, mistake, found, monkeypatch):
    source = inspect.getsource(store_module)
    assert source.count(text) == 1
    space = {"__name__": "planted"}
    exec(compile(source.replace(text, mistake), "<planted>", "exec"), space)  # our own file
    monkeypatch.setitem(globals(), "Store", space["Store"])
    with pytest.raises(AssertionError, match=found):
        test_memory_lives_until_its_rows_are_released_and_no_longer()


def test_memory_of_copies_is_released_too():
    before = pa.total_allocated_bytes()
    array = pa.array([[i] for i in range(1_000)], pa.list_(pa.int32()))
    found = weakref.ref(number_lists(array, "x").elements)
    assert found() is None  # an array of its own, not Arrow's
    _, store = stored(pa.table({"ts": np.arange(1_000), "x": array}))
    del array
    gc.collect()
    store.release(1_000)
    gc.collect()
    assert pa.total_allocated_bytes() <= before
    assert not store._elements


@pytest.mark.parametrize(
    ("column", "error", "text"),
    [
        (pa.array([["a"]]), UnsupportedTypeError, "column 'x' has type list<.*string>.*ids instead of texts.*hr.each"),
        (pa.array([1]), UnsupportedTypeError, "column 'x' has type int64, which is not a list: cast it to list<int64>"),
        (pa.array([None]), UnsupportedTypeError, "'x' has type null, which is not a list: cast it to list<int64>"),
        (pa.array([[[1]]]), UnsupportedTypeError, "'x'.*cannot read the elements: flatten it"),
        (pa.array([[{"a": 1}]]), UnsupportedTypeError, "'x'.*cannot read the elements: cast"),
        (
            pa.array([[1], [], None, [2, 2**63]], pa.list_(pa.uint64())),
            OverflowInputError,
            "'x' has the element 9223372036854775808 at row 3, above the range of int64; cast",
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_example_what_kernels_cannot_read_is_refused(column, error, text):
    with pytest.raises(error, match=text):
        stored(pa.table({"ts": np.arange(len(column)), "x": column}))


def test_example_names_that_meet_are_refused():
    schema = pa.schema({"ts": pa.int64(), "x": pa.list_(pa.int64()), "x.size": pa.int64()})
    with pytest.raises(SchemaError, match=r"list column 'x': kernels read a column 'x.size' beside it.*rename"):
        Encoder(schema, "ts", values=("x.size",), lists=("x",))
    with pytest.raises(SchemaError, match="'y' does not exist: the columns are ts, x, x.size"):
        Encoder(schema, "ts", lists=("y",))
    assert Encoder(schema, "ts", lists=("x",)).columns_used == ["ts", "x"]


def test_example_an_element_too_large_under_a_null_is_none():
    bits = pa.py_buffer(b"\x01")
    elements = pa.Array.from_buffers(pa.uint64(), 2, [bits, pa.py_buffer(np.array([5, 2**64 - 1], np.uint64))])
    array = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), elements)
    found = number_lists(array, "x")
    assert found.elements.tolist() == [5, 0] and found.nulls.tolist() == [1]


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("+ 8 * offsets[:-1]", "+ 8 * offsets[1:]"),
        ("columns.validity(elements) == 0)", "columns.validity(elements))"),
        ('side="right") - 1', 'side="left")'),
        ("nulls, columns.validity(array), numbers", "nulls, None, numbers"),
    ],
)
def test_planted_mistakes_are_found(text, mistake):
    assert_found(lists, text, mistake, check_column, CASES, "AssertionError: the lists")
