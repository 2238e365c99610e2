"""Columns of every Arrow type, drawn from a seed, and what the engine must make of them.

A case is a column: a type, values in Python's terms, and a layout (plain, sliced,
chunked, dictionary-encoded with null and unused entries, views that share
elements, run ends). Values are few, so that keys meet and joins match.

`as_plain` is the oracle's view: ints for what is counted in units (dates, times,
timestamps, durations), floats, texts, bytes, lists; None for null.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TIMES = [
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Rome")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]  # fmt: skip
DURATIONS = [kind for kind in TIMES if pa.types.is_duration(kind)]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary()]
NUMBERS = [*INTEGERS, *FLOATS, *TIMES, pa.bool_()]
SCALARS = [*NUMBERS, *TEXTS, *BYTES]
"""Types that a key may have."""
REFUSED = [
    pa.binary_view(), pa.binary(2), pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(9, 2), pa.decimal256(9, 2),
    pa.null(), pa.month_day_nano_interval(), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64()),
    pa.run_end_encoded(pa.int32(), pa.int64()), pa.run_end_encoded(pa.int16(), pa.string()),
    pa.dictionary(pa.int8(), pa.decimal128(9, 2)), pa.dictionary(pa.int8(), pa.binary_view()),
    pa.dictionary(pa.int8(), pa.dictionary(pa.int8(), pa.string())), pa.dictionary(pa.int8(), pa.list_(pa.int8())),
]  # fmt: skip
"""Types that can neither be keys nor be computed with."""
LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda kind: pa.list_(kind, 2)]
CARRIED_ONLY = [
    pa.list_(pa.list_view(pa.string_view())), pa.struct([("a", pa.string_view()), ("b", pa.list_(pa.date32()))]),
    pa.list_(pa.dictionary(pa.int16(), pa.string())), pa.list_(pa.string_view(), 2),
]  # fmt: skip
INDICES = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64()]


def is_text(kind: pa.DataType) -> bool:
    return kind in TEXTS


def small_value_of(draw: random.Random, kind: pa.DataType):
    """A value as `value_of` draws it, but from few, whose sum is small."""
    if pa.types.is_integer(kind) or (is_counted(kind) and not pa.types.is_date64(kind)):
        return draw.randrange(4)
    if pa.types.is_date64(kind):
        return 86_400_000 * draw.randrange(4)
    return small_value_of(draw, kind.value_type) if pa.types.is_dictionary(kind) else value_of(draw, kind)


def value_of(draw: random.Random, kind: pa.DataType):
    """A value in Python's terms; for times, a count of units."""
    if pa.types.is_boolean(kind):
        return draw.random() < 0.5
    if pa.types.is_integer(kind):
        width, is_signed = kind.bit_width, pa.types.is_signed_integer(kind)
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if is_signed else (0, 2**width - 1)
        return draw.choice([0, 1, 2, low, min(high, 2**63 - 1), 3])
    if pa.types.is_floating(kind):
        return draw.choice([0.0, -0.0, 1.5, -2.0, float("nan"), float("inf"), -float("inf"), 1.0])
    if pa.types.is_date64(kind):
        return 86_400_000 * draw.choice([0, 1, -1, 18_000])
    if pa.types.is_date32(kind):
        return draw.choice([0, 1, -1, 18_000])
    if pa.types.is_time(kind):
        return draw.choice([0, 1, 5, 1000, 86_399])
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return draw.choice([0, 1, -1, 5, 1000, 5000, -5000, 10**6, 10**9, 5 * 10**9, 2**62, -(2**62)])
    if pa.types.is_decimal(kind):
        return Decimal(draw.choice(["0", "1.5", "-2.25"]))
    if kind == pa.month_day_nano_interval():
        return draw.choice([(0, 0, 0), (1, 2, 3)])
    if kind in TEXTS:
        return draw.choice(["", "a", "b", "é", "a" * 13, "longer than twelve bytes", "日本"])
    if pa.types.is_fixed_size_binary(kind):
        return draw.choice([b"ab", b"\x00\xff"])
    if pa.types.is_map(kind):
        return [("k", 1)][: draw.randrange(2)]
    if pa.types.is_struct(kind):
        return {field.name: value_of(draw, field.type) for field in kind}
    if pa.types.is_fixed_size_list(kind):
        return [value_of(draw, kind.value_type) for _ in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return [value_of(draw, kind.value_type) for _ in range(draw.choice([0, 1, 1, 2, 3]))]
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return value_of(draw, kind.value_type)
    return draw.choice([b"", b"a", b"\xff\x00", b"more than twelve bytes"])


def array_of(draw: random.Random, values: list, kind: pa.DataType) -> pa.Array:
    """Values as an array of the type, in one of the layouts it may have."""
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if pa.types.is_dictionary(kind):
        return _encoded(draw, values, kind)
    if pa.types.is_run_end_encoded(kind):
        return _run_ends(values, kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _listed(draw, values, kind)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return _viewed(draw, values, kind)
    if pa.types.is_struct(kind):
        parts = [array_of(draw, [None if v is None else v[f.name] for v in values], f.type) for f in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=pa.array([v is None for v in values], pa.bool_()))
    if is_counted(kind):
        width = f"i{kind.bit_width // 8}"
        # A null may have any value under it.
        data = np.array([draw.choice([0, 7, -1]) if v is None else v for v in values], np.int64).astype(width)
        return pa.Array.from_buffers(kind, len(values), [_bits(draw, values), pa.py_buffer(data)])
    if pa.types.is_float16(kind):
        values = [None if v is None else np.float16(v) for v in values]
    return pa.array(values, kind)


def is_counted(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind)


def _bits(draw, values):
    if None not in values and draw.random() < 0.7:
        return None
    return pa.py_buffer(np.packbits(np.array([v is not None for v in values], bool), bitorder="little").tobytes())


def _encoded(draw, values, kind):
    entries = []
    for value in values:
        if value is not None and not any(same(value, entry) for entry in entries):
            entries.append(value)
    if pa.types.is_floating(kind.value_type) or draw.random() < 0.5:
        entries.append(value_of(draw, kind.value_type))  # an entry without references, or a duplicate
    has_null_entry = draw.random() < 0.3 and not kind.value_type.num_fields
    draw.shuffle(entries)
    if has_null_entry:
        entries.append(None)
    place = [None if v is None else next(i for i, e in enumerate(entries) if e is not None and same(v, e)) for v in values]
    if has_null_entry:
        place = [len(entries) - 1 if p is None and draw.random() < 0.5 else p for p in place]
    dictionary = array_of(draw, entries, kind.value_type)
    return pa.DictionaryArray.from_arrays(pa.array(place, kind.index_type), dictionary, ordered=kind.ordered)


def _run_ends(values, kind):
    ends, kept = [], []
    for i, value in enumerate(values):
        if kept and value is not None and kept[-1] == value:
            ends[-1] = i + 1
        else:
            kept.append(value)
            ends.append(i + 1)
    inner = array_of(random.Random(1), kept, kind.value_type)
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind.run_end_type), inner)


def _listed(draw, values, kind):
    if pa.types.is_fixed_size_list(kind):
        rows = [[None] * kind.list_size if v is None else v for v in values]
        inner = array_of(draw, [x for row in rows for x in row], kind.value_type)
        return pa.Array.from_buffers(kind, len(values), [_bits(draw, values)], children=[inner])
    # A null list may span elements.
    rows = [[value_of(draw, kind.value_type)] * draw.randrange(3) if v is None else v for v in values]
    before = [value_of(draw, kind.value_type)] * draw.randrange(2)
    inner = array_of(draw, before + [x for row in rows for x in row], kind.value_type)
    offsets = len(before) + np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    offsets = pa.py_buffer(offsets.astype(np.int64 if pa.types.is_large_list(kind) else np.int32))
    return pa.Array.from_buffers(kind, len(values), [_bits(draw, values), offsets], children=[inner])


def _viewed(draw, values, kind):
    elements, starts, sizes = [], [], []
    order = list(range(len(values)))
    if draw.random() < 0.6:
        draw.shuffle(order)
    places = {}
    for i in order:
        row = values[i] or []
        text = repr(row)
        if text not in places or draw.random() < 0.5:  # equal lists may share their elements
            places[text] = len(elements)
            elements += row
    for value in values:
        starts.append(places[repr(value or [])])
        sizes.append(len(value or []) if value is not None or not elements else min(1, len(elements) - starts[-1]))
    width = np.int64 if pa.types.is_large_list_view(kind) else np.int32
    buffers = [_bits(draw, values), pa.py_buffer(np.array(starts, width)), pa.py_buffer(np.array(sizes, width))]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[array_of(draw, elements, kind.value_type)])


def same(a, b) -> bool:
    """Whether two values look the same: NaN is NaN, and 0.0 is not -0.0."""
    return repr(a) == repr(b)


def column(
    draw: random.Random, kind: pa.DataType, rows: int, nulls: float | None = None, drawn: Callable = value_of
) -> pa.ChunkedArray:
    """A column of values in one of several layouts: whole, a slice of a longer one, chunks with their own dictionaries."""
    nulls = draw.choice([0.0, 0.0, 0.3, 1.0]) if nulls is None else nulls
    if pa.types.is_null(kind):
        nulls = 1.0
    values = [None if draw.random() < nulls else drawn(draw, kind) for _ in range(rows)]
    parts, at = [], 0
    while at < rows or not parts:
        size = rows - at if draw.random() < 0.6 else draw.randrange(0, rows - at + 1)
        before = [value_of(draw, kind) for _ in range(draw.choice([0, 0, 1, 3, 8]))]
        after = [value_of(draw, kind) for _ in range(draw.choice([0, 0, 2]))]
        array = array_of(draw, [*before, *values[at : at + size], *after], kind)
        parts.append(array.slice(len(before), size))
        at += size
    made = pa.chunked_array(parts, kind)
    made.validate(full=True)
    return made


def as_plain(values: pa.ChunkedArray | pa.Array) -> list:
    """Values in Python's terms; those counted in units as that number."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    return [value for chunk in chunks for value in _plain(chunk)]


def _plain(array: pa.Array) -> list:
    kind = array.type
    if pa.types.is_dictionary(kind):
        entries = _plain(array.dictionary)
        return [None if i is None else entries[i] for i in array.indices.to_pylist()]
    if is_counted(kind):
        width = f"i{kind.bit_width // 8}"
        data = np.frombuffer(array.buffers()[1], width, len(array), array.offset * kind.bit_width // 8) if len(array) else []
        valid = array.is_valid().to_pylist()
        return [int(v) if ok else None for v, ok in zip(data, valid, strict=True)]
    if kind.num_fields and not (pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_run_end_encoded(kind)):
        if not len(array):
            return []
        # One list at a time, through Arrow's own scalars.
        return [None if not row.is_valid else _plain(row.values) for row in array]
    if pa.types.is_float16(kind):
        return [None if v is None else float(v) for v in array.to_pylist()]
    return array.to_pylist()
