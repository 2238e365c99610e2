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

import numpy as np

from headrace.codegen.text import indent
from headrace.memory.cells import reserved
from headrace.operators import distinct
from headrace.operators.aggregate_shape import AggregateColumn, AggregateShape, Layout
from headrace.operators.fold import fold_text, is_kept_xor, none_of
from headrace.operators.membership import BUCKETS

_HEADER = """
from headrace.gates.store import CHUNK, CHUNK_SHIFT, DIRECTORY_CHUNKS
from headrace.memory.atomics import view_f64, view_i32, view_i64, view_u8
from headrace.operators.membership import COUNT_OVERFLOW, IDS, SUM_OVERFLOW, UPDATES, fail
from headrace.operators.output import reserve_slots
from headrace.operators.distinct import DISTINCT_FULL, add_value, float_bits, forget_window
from headrace.operators.ownership import (
    BUCKET_MASK, LANES, owns, places_in_range, places_in_table, select_range, select_table,
)
{imports}from headrace.gates.merged_log_kernel import ROW_MASK, SOURCE_SHIFT

SLOTS = {slots}
WIDTH_COLUMNS = {width}
SIZE, ADVANCE = FREE, FREE + 1
NO_LEAST, NO_GREATEST = 2**63 - 1, -(2**63)


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
def find_windows(n, first, place, low, width, buffer):
    # Which of the owned buckets have a window instance there, without a branch.
    found = 0
    for bucket in range(low, low + width):
        buffer[found] = bucket
        found += n[(first + bucket) * SLOTS + place] != 0
    return found


@kernel
def find_scattered(n, first, place, owner, me, buffer):
    # The same for a mapping that is not contiguous.
    found = 0
    for bucket in range(BUCKET_MASK + 1):
        buffer[found] = bucket
        found += (n[(first + bucket) * SLOTS + place] != 0) & (owner[bucket] == me)
    return found


@kernel
def emit(me, o, s, l, buckets, first, place, boundary):
    done = 0
    while done < buckets.size:
        room = reserve_slots(o, me, l[HEAD], buckets.size - done)
        if room < 0:
            return -1
        slot = l[HEAD] & (o.primary.shape[1] - 1)
        primary, at = o.primary[me, slot : slot + room], o.at[me, slot : slot + room]
        keys = o.a[me, slot : slot + room]
        arrival = l[ARRIVAL]
{views}
        for i in range(room):
            key = first + buckets[done + i]
            p = key * SLOTS + place
            primary[i] = boundary
            at[i] = arrival
            keys[i] = key
{emit}
        l[HEAD] += room
        done += room
    return 0


@kernel
def expire_window(me, c, o, s, l, buffer, window):
    place = window % SLOTS
    boundary = window * l[ADVANCE] + l[SIZE]
    if l[SEEN] - s[{opened}][place] >= 4294967296:
        fail(c, COUNT_OVERFLOW, me, 0, boundary, 0, 0)
        return -1
    for row in range(load_acquire(c.words, IDS)):
        first = row * (BUCKET_MASK + 1)
        if l[SCATTERED] == 0:
            found = find_windows(s[0], first, place, l[LOW], l[WIDTH], buffer)
        else:
            found = find_scattered(s[0], first, place, c.owner[l[IN_FORCE]], me, buffer)
        if emit(me, o, s, l, buffer[:found], first, place, boundary) < 0:
            return -1
{forget}
    return 0


@kernel
def advance_time(me, g, c, o, x, s, l, buffer, ts):
    window = l[NEXT_WINDOW]
    expired = (ts - l[SIZE]) // l[ADVANCE]
    last = min(l[LAST_WINDOW], expired)
    while window <= last:
        if expire_window(me, c, o, s, l, buffer, window) < 0:
            return -1
        window += 1
    l[NEXT_WINDOW] = max(l[NEXT_WINDOW], expired + 1)
    l[WATERMARK] = ts
    return 0


@kernel
def finish(me, g, c, o, x, s, l, buffer):
    while l[NEXT_WINDOW] <= l[LAST_WINDOW]:
        if expire_window(me, c, o, s, l, buffer, l[NEXT_WINDOW]) < 0:
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
    piece = buffer.size - LANES
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

def generate(shape: AggregateShape) -> str:
    """Write the operator's part of the kernel module."""
    layout = Layout(shape)
    width = 3 + 2 * shape.value_columns
    emit = []
    for number, (aggregate, state, out) in enumerate(
        zip(shape.aggregates, layout.value, layout.out_value, strict=True)
    ):
        if aggregate.kind == "count" and aggregate.column is None:
            emit.append(f"out_{out}[i] = s[0][p]")
        elif aggregate.kind == "count":
            emit.append(f"out_{out}[i] = s[0][p] - s[{layout.nulls[aggregate.column]}][p]")
        elif is_kept_xor(aggregate):
            emit += [f"out_{out}[i] = s[{state}][p] ^ {none_of(aggregate.kind)}", f"s[{state}][p] = 0"]
        else:
            emit += [f"out_{out}[i] = s[{state}][p]", f"s[{state}][p] = 0"]
        if number in layout.high:
            emit += [f"out_{layout.out_high[number]}[i] = s[{layout.high[number]}][p]", f"s[{layout.high[number]}][p] = 0"]
    for column in layout.columns:
        nulls = layout.nulls[column]
        emit += [f"out_{layout.out_nonnull[column]}[i] = s[0][p] - s[{nulls}][p]", f"s[{nulls}][p] = 0"]
    emit.append("s[0][p] = 0")
    outputs = [*layout.out_value, *layout.out_high.values(), *layout.out_nonnull.values()]
    views = [f"out_{out} = s[{out}][me, slot : slot + room]" for out in outputs]
    text = _HEADER.format(
        slots=shape.slots,
        imports="from headrace.operators.text_order import text_less\n" if layout.texts else "",
        width=width,
        views=indent("\n".join(views), 2).rstrip(),
        emit=indent("\n".join(emit), 3).rstrip(),
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
        text += fold_text(shape, layout)
    return text + _PROCESS.format(opened=layout.opened)


def _forget_text(layout: Layout) -> str:
    """Statements that empty the sets of the buckets owned, after their window was emitted."""
    if not layout.distinct:
        return ""
    return indent(
        f"""
for bucket in range(BUCKET_MASK + 1):
    if owns(bucket, l[LOW], l[WIDTH], l[SCATTERED] != 0, c.owner[l[IN_FORCE]], me):
        forget_window({layout.sets_text}, SLOTS, {len(layout.distinct)}, bucket, place)
""",
        1,
    ).rstrip()


def state_places(shape: AggregateShape) -> tuple[int, int | None, int]:
    """Where in `s` the times windows opened, the sets of distinct values (or None), and their number are."""
    layout = Layout(shape)
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
    layout = Layout(shape)
    places = (max_keys // BUCKETS + 1) * BUCKETS * shape.slots
    state = [reserved(places, dtype, huge_pages=True) for dtype in layout.state]
    output = [
        reserved(instances * capacity, dtype).reshape(instances, capacity) for dtype in layout.output
    ]
    sets = distinct.allocate(len(layout.distinct), shape.slots) if layout.distinct else ()
    compared = [array for arrays in texts for array in arrays]
    return (*state, np.zeros(shape.slots, np.int64), *sets, *compared, *output)


def output_columns(shape: AggregateShape) -> Sequence[tuple[AggregateColumn, int, int | None, int | None]]:
    """For each aggregate: where in `s` its result, its count of non-null values and a sum's high half are."""
    layout = Layout(shape)
    return [
        (a, out, None if a.column is None else layout.out_nonnull[a.column], layout.out_high.get(number))
        for number, (a, out) in enumerate(zip(shape.aggregates, layout.out_value, strict=True))
    ]


def bytes_per_place(shape: AggregateShape) -> int:
    """Bytes of state of one window instance."""
    return sum(np.dtype(dtype).itemsize for dtype in Layout(shape).state)
