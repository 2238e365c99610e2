"""The custom operator O+: user functions over windows of keys, kept as dense shared arrays.

Fields of a window instance lie where an aggregate's do: ``id * slots + window %
slots``; with one instance per key (WT=single) there is one slot, because every
instance that exists is then at the earliest window that has not expired. An
instance touches only keys it owns, and ownership changes only at an epoch's
barrier, so nothing is atomic and nothing is transferred.

What `update` emits carries the right boundary of its window. Where windows
overlap (multi, WS > WA) a later tuple may emit for an earlier boundary, so a
result is held back until its boundary has passed: the promise is the watermark.
Elsewhere boundaries never fall, so a result is released as soon as the
position of its tuple has: the promise counts *ticks*, the tuples and heartbeats
read so far, which every instance numbers alike. In both cases results are
ordered by (boundary, cause, key, emission); the cause is the tick of the tuple,
and comes last for what `output` emits.

Without `update` and state, a window instance keeps its tuples (`stored`): the
state fields are then its list, FIRST, LAST and how many, and the columns that
`output` reads are copied into the nodes.

This module writes the Python text of the kernels for one set of functions, a `custom_shape.CustomShape`.

Invariants  I1  TICKS of all members are equal at a barrier; a joiner gets the
                last arriver's (`hand_over`)
            I2  the words CAUSE_* and the snapshot describe the call in progress
Source      STRETCH section 4.2, Table I, Algorithm 2, with the corrections of
            `headrace.reference.operators`.
Checked     tests/headrace/operators/test_custom.py
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.codegen.text import indent
from headrace.memory.cells import padded_cells, reserved
from headrace.operators import stored
from headrace.operators.custom_shape import (
    BELOW,
    FIELDS,
    FOLLOWING,
    LATEST,
    OWN,
    POOL,
    PRESENT,
    SIDES,
    TICK_OF,
    CustomShape,
    Function,
    Input,
    field_places,
    first_output,
    node_places,
)
from headrace.operators.membership import BUCKETS

UPDATE, OUTPUT, SLIDE = 1, 2, 3
"""Stages: which user function was being called."""

# Private words after the loop's own: offsets from FREE.
WORDS = (
    "SIZE",
    "ADVANCE",
    "TICKS",
    "HALTED",
    "CAUSE_REF",
    "CAUSE_KEY",
    "CAUSE_BOUNDARY",
    "STAGE",
    "SNAPSHOT",
)
SIZE, ADVANCE, TICKS, HALTED, CAUSE_REF, CAUSE_KEY, CAUSE_BOUNDARY, STAGE, SNAPSHOT = range(len(WORDS))

CALL = "me, c, o, s, l, key, p, boundary, cause"
"""What every generated user function gets first."""

EMIT = "emit_row(me, o, s, l, key, boundary, cause, {values})"
"""What an emission becomes."""


_HEADER = """
from headrace.gates.store import CHUNK, CHUNK_SHIFT, DIRECTORY_CHUNKS
from headrace.memory.atomics import view_f64, view_i32, view_i64, view_u8
from headrace.operators.membership import IDS, UPDATES
from headrace.operators.output import reserve_slot
from headrace.operators.ownership import BUCKET_MASK, owns
from headrace.gates.merged_log_kernel import ROW_MASK, SOURCE_SHIFT

SLOTS = {slots}
IS_SINGLE = {is_single}
{words}
LAST = np.iinfo(np.int64).max


@kernel
def promise(l):
    return {promise}


@kernel
def hand_over(s, me, joiner):
    s[{tick}][joiner * CELL] = s[{tick}][me * CELL]


@kernel
def begin(c, l, s, buffer):
    l[NEXT_WINDOW] = (l[WATERMARK] - l[SIZE]) // l[ADVANCE] + 1
    l[LAST_WINDOW] = l[WATERMARK] // l[ADVANCE]
    l[TICKS] = s[{tick}][l[ME] * CELL]


@kernel
def count_ticks(s, l, me, count):
    l[TICKS] += count
    s[{tick}][me * CELL] = l[TICKS]


@kernel
def emit_row(me, o, s, l, key, boundary, cause{emit_parameters}):
    # Once halted nothing is written: the ring is full and the run has stopped.
    if l[HALTED] != 0:
        return
    slot = reserve_slot(o, me, l[HEAD])
    if slot < 0:
        l[HALTED] = 1
        return
    o.primary[me, slot] = {primary}
    o.a[me, slot] = key
    o.b[me, slot] = cause if cause & 1 == 1 else LAST
    o.c[me, slot] = l[HEAD]
    o.at[me, slot] = l[ARRIVAL]
{emit}
    l[HEAD] += 1

"""

_STORE = """
from headrace.operators.membership import fail
from headrace.operators.stored import STORED_FULL, give_chain, purge, take_node


@kernel
def store_tuple(me, s, p{parameters}):
    # f_U: put a node at the end of the list of window instance p. False if there is none left.
    node = take_node(s[{following}], s[{below}], s[{pool}], s[{own}], me)
    if node == 0:
        return False
{values}
    if s[{count}][p] == 0:
        s[{first}][p] = node
    else:
        s[{following}][s[{last}][p]] = node
    s[{last}][p] = node
    s[{count}][p] += 1
    return True


@kernel
def purge_tuples(s, p, left):
    # f_S: the tuples before `left` are no longer in the window.
    first, count = purge(s[{following}], s[{below}], s[{pool}], s[{ts}], s[{first}][p], left)
    s[{first}][p] = first
    s[{count}][p] -= count


@kernel
def forget_tuples(s, p):
    # The window instance ends.
    if s[{count}][p] != 0:
        give_chain(s[{below}], s[{pool}], s[{first}][p])

"""

_EXPIRE = """
@kernel
def close_window(me, c, o, s, l, key, p, window, boundary, cause):
    # 1 if the instance slides on, 0 if it ends, -1 to give up.
{close}
    return -1 if l[HALTED] != 0 else np.int64(s[0][p])


@kernel
def expire_window(me, c, o, s, l, window, cause):
    # How many instances slide on, or -1 to give up.
    kept = 0
    place = window % SLOTS
    boundary = window * l[ADVANCE] + l[SIZE]
    rows = load_acquire(c.words, IDS)
    present = s[0]
    if l[SCATTERED] == 0:
        for row in range(rows):
            first = row * (BUCKET_MASK + 1) + l[LOW]
            for b in range(l[WIDTH]):
                key = first + b
                p = key * SLOTS + place
                if present[p] != 0:
                    kept += close_window(me, c, o, s, l, key, p, window, boundary, cause)
                    if l[HALTED] != 0:
                        return -1
    else:
        owner = c.owner[l[IN_FORCE]]
        for key in range(rows * (BUCKET_MASK + 1)):
            p = key * SLOTS + place
            if present[p] != 0 and owner[key & BUCKET_MASK] == me:
                kept += close_window(me, c, o, s, l, key, p, window, boundary, cause)
                if l[HALTED] != 0:
                    return -1
    return kept


@kernel
def expire_until(me, c, o, s, l, last, cause):
    window = l[NEXT_WINDOW]
    while window <= last:
        kept = expire_window(me, c, o, s, l, window, cause)
        if kept < 0:
            return -1
        window += 1
        if IS_SINGLE and kept == 0:
            break  # all instances are at the same window: there is none left
    return 0


@kernel
def expire(me, c, o, s, l, ts, cause):
    expired = (ts - l[SIZE]) // l[ADVANCE]
    if expire_until(me, c, o, s, l, min(l[LAST_WINDOW], expired), cause) < 0:
        return -1
    l[NEXT_WINDOW] = max(l[NEXT_WINDOW], expired + 1)
    return 0


@kernel
def advance_time(me, g, c, o, x, s, l, buffer, ts):
    if expire(me, c, o, s, l, ts, 2 * l[TICKS]) < 0:
        return -1
    count_ticks(s, l, me, 1)
    l[WATERMARK] = ts
    return 0


@kernel
def finish(me, g, c, o, x, s, l, buffer):
    return expire_until(me, c, o, s, l, l[LAST_WINDOW], 2 * l[TICKS])

"""

_RUN = """
@kernel
def update_run_{number}(me, c, o, x, s, l, ats, tick, ref, rows, earliest, latest):
    source = ref >> SOURCE_SHIFT
    first_row = ref & ROW_MASK
    base = ((first_row >> CHUNK_SHIFT) & (DIRECTORY_CHUNKS - 1)) * {width}
    at = first_row & (CHUNK - 1)
    row_ts = view_i64(x[source, base], CHUNK)
    first_ref = ref - at
{bind}
    low = l[LOW]
    width = l[WIDTH]
    scattered = l[SCATTERED] != 0
    owner = c.owner[l[IN_FORCE]]
    updates = 0
{keys}
    for r in range(at, at + rows):
        ts = row_ts[r]
{load}
        for q in range({first}, {last}):
            key = np.int64(keys[q])
            if owns(key, low, width, scattered, owner, me):
                updates += 1
                for window in range(earliest, {until}):
                    p = key * SLOTS + window % SLOTS
                    if s[{present}][p] == 0:
                        s[{present}][p] = 1
{create}
{update}
    c.meter[me, UPDATES] += updates * ({until} - earliest)
    return 0

"""

_PROCESS = """
@kernel
def process(me, g, c, o, x, s, l, buffer, row, start, count):
    ts = g.out_ts[row, start : start + count]
    refs = g.out_ref[row, start : start + count]
    ats = g.out_at[row, start : start + count]
    sides = s[{sides}]
    i = 0
    while i < count:
        t = ts[i]
        latest = t // l[ADVANCE]
        earliest = (t - l[SIZE]) // l[ADVANCE] + 1
        if earliest > l[NEXT_WINDOW]:
            l[ARRIVAL] = ats[i]
            if expire(me, c, o, s, l, t, 2 * (l[TICKS] + i)) < 0:
                return -1
        l[LAST_WINDOW] = max(l[LAST_WINDOW], latest)
        # Tuples before `turn` fall into the same windows.
        turn = min((latest + 1) * l[ADVANCE], earliest * l[ADVANCE] + l[SIZE])
        ref = refs[i]
        until = i + 1
        stop = min(count, i + CHUNK - (ref & (CHUNK - 1)))
        while until < stop and ts[until] < turn and refs[until] - ref == until - i:
            until += 1
        tick = l[TICKS] + i
        done = 0
{dispatch}
        if done < 0:
            return -1
        i = until
    count_ticks(s, l, me, count)
    l[WATERMARK] = ts[count - 1]
    return 0

"""


def _record(shape: CustomShape, function: Function, stage: int) -> list[str]:
    """Statements that note the call about to be made (I2), for `explain_exception`."""
    lines = [
        "l[CAUSE_KEY] = key",
        "l[CAUSE_BOUNDARY] = boundary",
        f"l[STAGE] = {stage}",
    ]
    places = field_places(shape)
    for i, (name, kind, _) in enumerate(shape.state):
        if name in function.saves:
            view = "l.view(np.float64)" if kind.startswith("float") else "l"
            lines.append(f"{view}[SNAPSHOT + {i}] = s[{places[name]}][p]")
    return lines


def _store_text(shape: CustomShape) -> str:
    """Kernels that keep tuples, where they are kept."""
    if shape.stored is None:
        return ""
    places = node_places(shape.stored)
    return _STORE.format(
        parameters="".join(f", {name}" for name in places),
        values=indent("\n".join(f"s[{at}][node] = {name}" for name, at in places.items()), 1).rstrip("\n"),
        following=FOLLOWING,
        below=BELOW,
        pool=POOL,
        own=OWN,
        ts=places["ts"],
        **field_places(shape),
    )


def _update_text(shape: CustomShape, number: int) -> str:
    if shape.stored is not None:
        values = {"ts": "ts", "input": str(number)}
        given = ", ".join(values.get(name, name) for name in node_places(shape.stored))
        return (
            f"if not store_tuple(me, s, p, {given}):\n"
            "    fail(c, STORED_FULL, me, first_ref + r, ts, 0, 0)\n"
            "    return -1"
        )
    if shape.update is None:
        return "pass"
    lines = ["boundary = window * l[ADVANCE] + l[SIZE]", "cause = 2 * (tick + r - at) + 1"]
    lines += ["l[CAUSE_REF] = first_ref + r", *_record(shape, shape.update, UPDATE)]
    values = [f"{part}_{c.parameter}" for c in shape.inputs[number].columns for part in ("c", "n")]
    lines.append(f"user_update({', '.join([CALL, 'ts', str(number), *values])})")
    if shape.update.may_emit:
        lines += ["if l[HALTED] != 0:", "    return -1"]
    return "\n".join(lines)


def _close_text(shape: CustomShape) -> str:
    lines = []
    if shape.output is not None:
        lines += [*_record(shape, shape.output, OUTPUT), f"user_output({CALL})"]
    end = [f"s[{PRESENT}][p] = 0"] if shape.stored is None else ["forget_tuples(s, p)", f"s[{PRESENT}][p] = 0"]
    if not shape.is_single:
        return "\n".join(lines + end)
    lines += ["left = (window + 1) * l[ADVANCE]", f"if s[{LATEST}][p] >= left:"]
    if shape.stored is not None:
        lines.append("    purge_tuples(s, p, left)")
    elif shape.slide is not None:
        lines += ["    " + line for line in _record(shape, shape.slide, SLIDE)]
        lines.append(f"    user_slide({CALL}, left)")
    else:
        lines.append("    pass")
    lines += ["else:", *("    " + line for line in end)]
    return "\n".join(lines)


def _bind_text(given: Input) -> tuple[str, str]:
    """Views of the columns for a run of rows, and the loads for one row."""
    bind, load = [], []
    for column in given.columns:
        name = column.parameter
        if column.index is None:
            zero = {"int64": "np.int64(0)", "float64": "0.0", "bool": "False"}[column.kind]
            load += [f"c_{name} = {zero}", f"n_{name} = False"]
            continue
        entry = 3 + 2 * column.index
        view = {"int64": "view_i64", "float64": "view_f64", "uint8": "view_u8"}[column.dtype]
        bind += [
            f"values_{name} = {view}(x[source, base + {entry}], CHUNK)",
            f"mask_address_{name} = x[source, base + {entry + 1}]",
            f"masked_{name} = mask_address_{name} != 0",
            f"mask_{name} = view_u8(mask_address_{name} if masked_{name} else x[source, base], CHUNK)",
        ]
        value = f"values_{name}[r]"
        if column.kind == "bool":
            value = f"{value} != 0"
        elif column.kind != column.dtype:
            value = f"np.{column.kind}({value})"
        load += [f"c_{name} = {value}", f"n_{name} = not masked_{name} or mask_{name}[r] != 0"]
    return "\n".join(bind) or "pass", "\n".join(load) or "pass"


def _run_text(shape: CustomShape, number: int) -> str:
    given = shape.inputs[number]
    bind, load = _bind_text(given)
    if shape.update is not None and shape.update.may_emit:
        load += "\nl[ARRIVAL] = ats[r - at]"
    if given.multi_key:
        keys = (
            "offsets = view_i32(x[source, base + 1], CHUNK + 1)\n"
            "keys = view_i32(x[source, base + 2], offsets[at + rows])"
        )
        first, last = "offsets[r]", "offsets[r + 1]"
    else:
        keys = "keys = view_i32(x[source, base + 2], CHUNK)"
        first, last = "r", "r + 1"
    places = field_places(shape)
    create = [f"s[{places[name]}][p] = {value}" for name, value in _first_values(shape)]
    update = _update_text(shape, number)
    if shape.is_single:
        update = f"s[{LATEST}][p] = ts\n" + update
    return _RUN.format(
        number=number,
        width=3 + 2 * given.value_columns,
        bind=indent(bind, 1).rstrip("\n"),
        keys=indent(keys, 1).rstrip("\n"),
        load=indent(load, 2).rstrip("\n"),
        first=first,
        last=last,
        until="earliest + 1" if shape.is_single else "latest + 1",
        present=PRESENT,
        create=indent("\n".join(create) or "pass", 6).rstrip("\n"),
        update=indent(update, 5).rstrip("\n"),
    )


def _first_values(shape: CustomShape) -> list[tuple[str, str]]:
    values = []
    for name, kind, first in shape.state:
        text = repr(first)
        if kind == "bool":
            text = "1" if first else "0"
        elif isinstance(first, float) and not np.isfinite(first):
            text = "np.nan" if first != first else "np.inf" if first > 0 else "-np.inf"
        values.append((name, text))
    return values


def generate(shape: CustomShape) -> str:
    """Write the operator's part of the kernel module."""
    first = first_output(shape)
    emitted = [f"s[{first}][me, slot] = boundary"]
    emitted += [f"s[{first + 1 + i}][me, slot] = e_{name}" for i, (name, _) in enumerate(shape.emits)]
    text = _HEADER.format(
        slots=1 if shape.is_single else shape.slots,
        is_single=shape.is_single,
        words="\n".join(f"{name} = FREE + {i}" for i, name in enumerate(WORDS)),
        promise="l[WATERMARK]" if shape.is_held_back else "2 * l[TICKS] - 1",
        primary="boundary" if shape.is_held_back else "cause",
        tick=TICK_OF,
        emit_parameters="".join(f", e_{name}" for name, _ in shape.emits),
        emit=indent("\n".join(emitted), 1).rstrip("\n"),
    )
    for function in (shape.update, shape.output, shape.slide):
        if function is not None:
            text += "\n" + function.text + "\n\n"
    text += _store_text(shape)
    text += _EXPIRE.format(close=indent(_close_text(shape), 1).rstrip("\n"))
    dispatch = []
    for number in range(len(shape.inputs)):
        text += _run_text(shape, number)
        condition = "if True" if len(shape.inputs) == 1 else f"if sides[ref >> SOURCE_SHIFT] == {number}"
        dispatch += [
            f"{condition}:",
            f"    done = update_run_{number}(",
            "        me, c, o, x, s, l, ats[i:until], tick, ref, until - i, earliest, latest",
            "    )",
        ]
    return text + _PROCESS.format(sides=SIDES, dispatch=indent("\n".join(dispatch), 2).rstrip("\n"))


def allocate_state(
    shape: CustomShape,
    sides: Sequence[int],
    key_values: Sequence[np.ndarray],
    max_keys: int,
    instances: int,
    capacity: int,
    max_tuples: int = 0,
) -> tuple[np.ndarray, ...]:
    """Allocate the tuple `s`.

    Parameters
    ----------
    sides : sequence of int
        Input of each source.
    key_values : sequence of ndarray
        By key id, one for each of `shape.key_arrays`.
    max_keys : int
        Key ids are below it.
    instances, capacity : int
        Of the output rings.
    max_tuples : int
        Most tuples kept at once, where they are.
    """
    keys = (max_keys // BUCKETS + 1) * BUCKETS
    places = keys * (1 if shape.is_single else shape.slots)
    fields = [reserved(places, FIELDS[kind]) for _, kind, _ in shape.state]
    kept: list[np.ndarray] = []
    if shape.stored is not None:
        nodes = stored.nodes_of(max_tuples, instances) + 1
        kept = [*stored.allocate(max_tuples, instances)]
        kept += [reserved(nodes, dtype) for _, dtype in shape.stored.arrays()]
    results = ["int64", *(FIELDS[kind] for _, kind in shape.emits)]
    return (
        reserved(places, np.uint8),
        padded_cells(instances),
        np.array(sides, np.int64),
        reserved(keys if shape.is_single else 1, np.int64),
        *fields,
        *kept,
        *key_values,
        *(reserved(instances * capacity, dtype).reshape(instances, capacity) for dtype in results),
    )


def bytes_per_place(shape: CustomShape) -> int:
    """Bytes of state of one window instance."""
    fields = sum(np.dtype(FIELDS[kind]).itemsize for _, kind, _ in shape.state)
    return 1 + fields + (8 if shape.is_single else 0)


__all__ = [
    "CALL",
    "allocate_state",
    "bytes_per_place",
    "generate",
]
