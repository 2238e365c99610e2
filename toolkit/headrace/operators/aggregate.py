"""Aggregate, A and A+: windows over keys, kept as dense shared arrays.

A key id and a window slot give the place of a window instance:
``id * slots + window % slots``, so all live windows of a key lie together. The
arrays are shared by all instances; an instance touches only keys it owns, and
ownership changes only at an epoch's barrier. An instance with count 0 does not
exist; expiring one writes its result to the output gate and resets the count.

This module writes the Python text of the kernels for one shape of aggregate.

Source      STRETCH, section 2.1 (A), Definition 5 (A+), Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headrace.memory.cells import reserved
from headrace.operators import distinct
from headrace.operators.membership import BUCKETS


@dataclass(frozen=True)
class AggregateColumn:
    """One aggregate as the kernel computes it.

    Parameters
    ----------
    kind : str
        count, sum, min, max, mean, first, last, count_distinct.
    column : int or None
        Index of the value column in the store; None for `count()` of tuples.
    dtype : str
        int64 or float64, of the value column.
    ignore_nan : bool
        min and max skip NaN.
    is_text : bool
        The values are ids of strings.
    """

    kind: str
    column: int | None = None
    dtype: str = "int64"
    ignore_nan: bool = False
    is_text: bool = False


@dataclass(frozen=True)
class AggregateShape:
    """What the generated text depends on; window sizes are not part of it."""

    aggregates: tuple[AggregateColumn, ...]
    slots: int
    multi_key: bool
    value_columns: int


def slots_of(size: int, advance: int) -> int:
    """Windows a tuple can fall into: ceil(WS / WA)."""
    return -(-size // advance)


def indent(text: str, levels: int) -> str:
    """Indent lines by `levels` of four spaces."""
    return "".join("    " * levels + line + "\n" for line in text.strip("\n").split("\n"))


def compared_texts(shape: AggregateShape) -> list[int]:
    """Columns of strings that have a min or max."""
    return sorted({a.column for a in shape.aggregates if a.is_text and a.kind in ("min", "max") and a.column is not None})


class _Layout:
    """State and output arrays in the order of the kernel's tuple `s`."""

    def __init__(self, shape: AggregateShape):
        self.state: list[str] = ["uint32"]  # s[0]: tuples in the window instance
        self.columns = sorted({a.column for a in shape.aggregates if a.column is not None})
        self.nonnull = {column: self._add("uint32") for column in self.columns}
        self.value = [
            self._add("int64" if a.kind == "count_distinct" else a.dtype) if a.kind != "count" else -1
            for a in shape.aggregates
        ]
        self.opened = len(self.state)  # int64[slots]: tuples seen when the window opened
        # Sets of distinct values: three arrays of `distinct`.
        self.sets = self.opened + 1
        self.distinct = [i for i, a in enumerate(shape.aggregates) if a.kind == "count_distinct"]
        # What strings are compared by: three arrays for each column of strings that has a min or max.
        first = self.sets + (3 if self.distinct else 0)
        self.texts = {column: first + 3 * i for i, column in enumerate(compared_texts(shape))}
        first += 3 * len(self.texts)
        self.output: list[str] = []
        self.out_value = []
        for aggregate in shape.aggregates:
            self.out_value.append(first + len(self.output))
            self.output.append("int64" if aggregate.kind in ("count", "count_distinct") else aggregate.dtype)
        self.out_nonnull = {}
        for column in self.columns:
            self.out_nonnull[column] = first + len(self.output)
            self.output.append("int64")

    def _add(self, dtype: str) -> int:
        self.state.append(dtype)
        return len(self.state) - 1


def _update_text(shape: AggregateShape, layout: _Layout) -> str:
    """Statements that fold row `r` of the chunk into place `p`."""
    lines = ["s[0][p] += 1"]
    for column in layout.columns:
        nonnull = layout.nonnull[column]
        body = [f"first = s[{nonnull}][p] == 0", f"s[{nonnull}][p] += 1"]
        for number, (aggregate, at) in enumerate(zip(shape.aggregates, layout.value, strict=True)):
            if aggregate.column != column or at < 0:
                continue
            value = f"column_{column}[r]"
            if aggregate.kind in ("sum", "mean") and aggregate.dtype == "int64":
                body += [
                    f"value = {value}",
                    f"total = s[{at}][p] + value",
                    f"if ((total ^ s[{at}][p]) & (total ^ value)) < 0:",
                    "    overflow = True",
                    f"s[{at}][p] = total",
                ]
            elif aggregate.kind in ("sum", "mean"):
                body += [f"s[{at}][p] += {value}"]
            elif aggregate.kind in ("min", "max"):
                body += _extreme_text(aggregate, at, value, layout)
            elif aggregate.kind == "first":
                body += ["if first:", f"    s[{at}][p] = {value}"]
            elif aggregate.kind == "last":
                body += [f"s[{at}][p] = {value}"]
            elif aggregate.kind == "count_distinct":
                body += _distinct_text(layout, layout.distinct.index(number), aggregate, at, value)
        lines.append(f"if not masked_{column} or valid_{column}[r] != 0:")
        lines += ["    " + line for line in body]
    return "\n".join(lines)


def _distinct_text(layout: _Layout, number: int, aggregate: AggregateColumn, at: int, value: str) -> list[str]:
    if aggregate.dtype == "float64":
        value = f"float_bits({value}, bits_{aggregate.column}[r])"
    return [
        f"new = add_value({_sets(layout)}, SLOTS, {number}, key, window % SLOTS, {value})",
        "if new < 0:",
        "    full = True",
        "else:",
        f"    s[{at}][p] += new",
    ]


def _sets(layout: _Layout) -> str:
    return ", ".join(f"s[{layout.sets + i}]" for i in range(3))


def _extreme_text(aggregate: AggregateColumn, at: int, value: str, layout: _Layout) -> list[str]:
    if aggregate.is_text:
        assert aggregate.column is not None
        by = ", ".join(f"s[{layout.texts[aggregate.column] + i}]" for i in range(3))
        pair = (value, f"s[{at}][p]") if aggregate.kind == "min" else (f"s[{at}][p]", value)
        return [f"if first or text_less({by}, {pair[0]}, {pair[1]}):", f"    s[{at}][p] = {value}"]
    sign = "<" if aggregate.kind == "min" else ">"
    better = f"{value} {sign} s[{at}][p]"
    if aggregate.dtype == "float64":
        if aggregate.ignore_nan:  # NaN only while nothing else was met
            better = f"{better} or s[{at}][p] != s[{at}][p]"
        else:
            better = f"{better} or {value} != {value}"
    return [f"if first or {better}:", f"    s[{at}][p] = {value}"]


def _bind_columns(layout: _Layout) -> str:
    lines = []
    for column in layout.columns:
        lines.append(f"valid_address = x[source, base + {3 + 2 * column + 1}]")
        lines.append(f"masked_{column} = valid_address != 0")
        lines.append(
            f"valid_{column} = view_u8(valid_address if masked_{column} else x[source, base], CHUNK)"
        )
    return "\n".join(lines) or "pass"


_HEADER = """
from headrace.gates.store import CHUNK, CHUNK_SHIFT, DIRECTORY_CHUNKS
from headrace.memory.atomics import view_f64, view_i32, view_i64, view_u8
from headrace.operators.membership import COUNT_OVERFLOW, IDS, SUM_OVERFLOW, UPDATES, fail
from headrace.operators.output import reserve_slot
from headrace.operators.distinct import DISTINCT_FULL, add_value, float_bits, forget_window
from headrace.operators.ownership import BUCKET_MASK, owns, select_range, select_table
{imports}from headrace.gates.merged_log_kernel import ROW_MASK, SOURCE_SHIFT

SLOTS = {slots}
WIDTH_COLUMNS = {width}
SIZE, ADVANCE = FREE, FREE + 1


@kernel
def promise(l):
    return l[WATERMARK]


@kernel
def hand_over(s, me, joiner):
    return


@kernel
def begin(c, l, s, buffer):
    l[NEXT_WINDOW] = (l[WATERMARK] - l[SIZE]) // l[ADVANCE] + 1
    l[LAST_WINDOW] = l[WATERMARK] // l[ADVANCE]


@kernel
def emit(me, o, s, l, key, p, boundary):
    slot = reserve_slot(o, me, l[HEAD])
    if slot < 0:
        return -1
    o.primary[me, slot] = boundary
    o.a[me, slot] = key
    o.at[me, slot] = l[ARRIVAL]
{emit}
    l[HEAD] += 1
    return 0


@kernel
def expire_window(me, c, o, s, l, window):
    place = window % SLOTS
    boundary = window * l[ADVANCE] + l[SIZE]
    rows = load_acquire(c.words, IDS)
    n = s[0]
    if l[SEEN] - s[{opened}][place] >= 4294967296:
        fail(c, COUNT_OVERFLOW, me, 0, boundary, 0, 0)
        return -1
    if l[SCATTERED] == 0:
        for row in range(rows):
            first = (row * (BUCKET_MASK + 1) + l[LOW]) * SLOTS + place
            for b in range(l[WIDTH]):
                p = first + b * SLOTS
                if n[p] != 0:
                    if emit(me, o, s, l, row * (BUCKET_MASK + 1) + l[LOW] + b, p, boundary) < 0:
                        return -1
    else:
        owner = c.owner[l[IN_FORCE]]
        for key in range(rows * (BUCKET_MASK + 1)):
            p = key * SLOTS + place
            if n[p] != 0 and owner[key & BUCKET_MASK] == me:
                if emit(me, o, s, l, key, p, boundary) < 0:
                    return -1
{forget}
    return 0


@kernel
def advance_time(me, g, c, o, x, s, l, buffer, ts):
    window = l[NEXT_WINDOW]
    expired = (ts - l[SIZE]) // l[ADVANCE]
    last = min(l[LAST_WINDOW], expired)
    while window <= last:
        if expire_window(me, c, o, s, l, window) < 0:
            return -1
        window += 1
    l[NEXT_WINDOW] = max(l[NEXT_WINDOW], expired + 1)
    l[WATERMARK] = ts
    return 0


@kernel
def finish(me, g, c, o, x, s, l, buffer):
    while l[NEXT_WINDOW] <= l[LAST_WINDOW]:
        if expire_window(me, c, o, s, l, l[NEXT_WINDOW]) < 0:
            return -1
        l[NEXT_WINDOW] += 1
    return 0

"""

_PROCESS = """
@kernel
def process(me, g, c, o, x, s, l, buffer, row, start, count):
    ts = g.out_ts[row, start : start + count]
    refs = g.out_ref[row, start : start + count]
    i = 0
    while i < count:
        t = ts[i]
        latest = t // l[ADVANCE]
        earliest = (t - l[SIZE]) // l[ADVANCE] + 1
        if earliest > l[NEXT_WINDOW]:
            l[ARRIVAL] = g.out_at[row, start + i]
            if advance_time(me, g, c, o, x, s, l, buffer, t) < 0:
                return -1
        while l[LAST_WINDOW] < latest:
            # The first tuple of a window; every instance writes the same number.
            l[LAST_WINDOW] = max(l[LAST_WINDOW] + 1, earliest)
            s[{opened}][l[LAST_WINDOW] % SLOTS] = l[SEEN] + i
        # Tuples before `turn` fall into the same windows.
        turn = min((latest + 1) * l[ADVANCE], earliest * l[ADVANCE] + l[SIZE])
        ref = refs[i]
        until = count
        if not (
            ts[count - 1] < turn
            and refs[count - 1] - ref == count - 1 - i
            and refs[count - 1] >> CHUNK_SHIFT == ref >> CHUNK_SHIFT
        ):
            until = i + 1
            stop = min(count, i + CHUNK - (ref & (CHUNK - 1)))
            while until < stop and ts[until] < turn and refs[until] - ref == until - i:
                until += 1
        status = update_run(me, c, x, s, l, buffer, ref, until - i, earliest, latest)
        if status < 0:
            fail(c, SUM_OVERFLOW if status == -1 else DISTINCT_FULL, me, ref, t, 0, 0)
            return -1
        i = until
    l[WATERMARK] = ts[count - 1]
    return 0

"""

_COUNT_ONLY = """
@kernel
def update_run(me, c, x, s, l, buffer, ref, rows, earliest, latest):
    source = ref >> SOURCE_SHIFT
    first_row = ref & ROW_MASK
    base = ((first_row >> CHUNK_SHIFT) & (DIRECTORY_CHUNKS - 1)) * WIDTH_COLUMNS
    at = first_row & (CHUNK - 1)
{range}
    n = s[0]
    if l[WIDTH] == BUCKET_MASK + 1 and l[SCATTERED] == 0:
        count_keys(n, keys[a:e], earliest, latest)
        c.meter[me, UPDATES] += (e - a) * (latest - earliest + 1)
        return 0
    piece = buffer.size - 16
    while a < e:
        until = min(e, a + piece)
        if l[SCATTERED] == 0:
            used = select_range(keys, a, until, buffer, l[LOW], l[WIDTH])
        else:
            used = select_table(keys, a, until, buffer, c.owner[l[IN_FORCE]], me)
        count_keys(n, buffer[:used], earliest, latest)
        c.meter[me, UPDATES] += used * (latest - earliest + 1)
        a = until
    return 0


@kernel
def count_keys(n, keys, earliest, latest):
    if latest - earliest + 1 == SLOTS:
        for i in range(keys.size):
            p = np.int64(keys[i]) * SLOTS
{all_slots}
    else:
        for i in range(keys.size):
            p = np.int64(keys[i]) * SLOTS
            for window in range(earliest, latest + 1):
                n[p + window % SLOTS] += 1

"""

_FOLD = """
@kernel
def update_run(me, c, x, s, l, buffer, ref, rows, earliest, latest):
    source = ref >> SOURCE_SHIFT
    first_row = ref & ROW_MASK
    base = ((first_row >> CHUNK_SHIFT) & (DIRECTORY_CHUNKS - 1)) * WIDTH_COLUMNS
    at = first_row & (CHUNK - 1)
{bind}
    low = l[LOW]
    width = l[WIDTH]
    scattered = l[SCATTERED] != 0
    owner = c.owner[l[IN_FORCE]]
    overflow = False
    full = False
    updates = 0
{keys}
    for r in range(at, at + rows):
        for q in range({first}, {last}):
            key = np.int64(keys[q])
            if owns(key, low, width, scattered, owner, me):
                updates += 1
                for window in range(earliest, latest + 1):
                    p = key * SLOTS + window % SLOTS
{update}
    c.meter[me, UPDATES] += updates * (latest - earliest + 1)
    if full:
        return -2
    return -1 if overflow else 0

"""


def generate(shape: AggregateShape) -> str:
    """Write the operator's part of the kernel module."""
    layout = _Layout(shape)
    width = 3 + 2 * shape.value_columns
    emit = []
    for aggregate, state, out in zip(shape.aggregates, layout.value, layout.out_value, strict=True):
        if aggregate.kind == "count" and aggregate.column is None:
            emit.append(f"s[{out}][me, slot] = s[0][p]")
        elif aggregate.kind == "count":
            emit.append(f"s[{out}][me, slot] = s[{layout.nonnull[aggregate.column]}][p]")
        else:
            emit += [f"s[{out}][me, slot] = s[{state}][p]", f"s[{state}][p] = 0"]
    for column in layout.columns:
        nonnull = layout.nonnull[column]
        emit += [f"s[{layout.out_nonnull[column]}][me, slot] = s[{nonnull}][p]", f"s[{nonnull}][p] = 0"]
    emit.append("s[0][p] = 0")
    text = _HEADER.format(
        slots=shape.slots,
        imports="from headrace.operators.text_order import text_less\n" if layout.texts else "",
        width=width,
        emit=indent("\n".join(emit), 1).rstrip(),
        opened=layout.opened,
        forget=_forget_text(layout),
    )
    if not layout.columns:
        if shape.multi_key:
            key_range = (
                "offsets = view_i32(x[source, base + 1], CHUNK + 1)\n"
                "a = np.int64(offsets[at])\ne = np.int64(offsets[at + rows])\n"
                "keys = view_i32(x[source, base + 2], e)"
            )
        else:
            key_range = "a = at\ne = at + rows\nkeys = view_i32(x[source, base + 2], e)"
        if shape.slots <= 4:
            every = "\n".join(f"n[p + {j}] += 1" for j in range(shape.slots))
        else:
            every = "for j in range(SLOTS):\n    n[p + j] += 1"
        text += _COUNT_ONLY.format(range=indent(key_range, 1), all_slots=indent(every, 3))
    else:
        bind = _bind_columns(layout)
        for column in layout.columns:
            dtype = next(a.dtype for a in shape.aggregates if a.column == column)
            view = "view_i64" if dtype == "int64" else "view_f64"
            bind += f"\ncolumn_{column} = {view}(x[source, base + {3 + 2 * column}], CHUNK)"
            if dtype == "float64" and layout.distinct:
                bind += f"\nbits_{column} = view_i64(x[source, base + {3 + 2 * column}], CHUNK)"
        if shape.multi_key:
            keys = (
                "offsets = view_i32(x[source, base + 1], CHUNK + 1)\n"
                "keys = view_i32(x[source, base + 2], offsets[at + rows])"
            )
            first, last = "offsets[r]", "offsets[r + 1]"
        else:
            keys = "keys = view_i32(x[source, base + 2], CHUNK)"
            first, last = "r", "r + 1"
        text += _FOLD.format(
            bind=indent(bind, 1),
            keys=indent(keys, 1),
            first=first,
            last=last,
            update=indent(_update_text(shape, layout), 5).rstrip("\n"),
        )
    return text + _PROCESS.format(opened=layout.opened)


def _forget_text(layout: _Layout) -> str:
    """Statements that empty the sets of the buckets owned, after their window was emitted."""
    if not layout.distinct:
        return ""
    return indent(
        f"""
for bucket in range(BUCKET_MASK + 1):
    if owns(bucket, l[LOW], l[WIDTH], l[SCATTERED] != 0, c.owner[l[IN_FORCE]], me):
        forget_window({_sets(layout)}, SLOTS, {len(layout.distinct)}, bucket, place)
""",
        1,
    ).rstrip()


def state_places(shape: AggregateShape) -> tuple[int, int | None, int]:
    """Where in `s` the times windows opened, the sets of distinct values (or None), and their number are."""
    layout = _Layout(shape)
    return layout.opened, layout.sets if layout.distinct else None, len(layout.distinct)


def allocate_state(
    shape: AggregateShape,
    max_keys: int,
    instances: int,
    capacity: int,
    texts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]] = (),
) -> tuple[np.ndarray, ...]:
    """Allocate the tuple `s`: state by key and slot, then the output's value columns.

    `texts` are the arrays of `text_order` for each column of `compared_texts`.
    """
    layout = _Layout(shape)
    places = (max_keys // BUCKETS + 1) * BUCKETS * shape.slots
    state = [reserved(places, dtype) for dtype in layout.state]
    output = [
        reserved(instances * capacity, dtype).reshape(instances, capacity) for dtype in layout.output
    ]
    sets = distinct.allocate(len(layout.distinct), shape.slots) if layout.distinct else ()
    compared = [array for arrays in texts for array in arrays]
    return (*state, np.zeros(shape.slots, np.int64), *sets, *compared, *output)


def output_columns(shape: AggregateShape) -> Sequence[tuple[AggregateColumn, int, int | None]]:
    """For each aggregate: where in `s` its result and its count of non-null values are."""
    layout = _Layout(shape)
    return [
        (a, out, None if a.column is None else layout.out_nonnull[a.column])
        for a, out in zip(shape.aggregates, layout.out_value, strict=True)
    ]


def bytes_per_place(shape: AggregateShape) -> int:
    """Bytes of state of one window instance."""
    return sum(np.dtype(dtype).itemsize for dtype in _Layout(shape).state)
