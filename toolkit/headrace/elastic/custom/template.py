"""The kernels of a custom operator, O+: user functions over windows of keys, kept as dense shared arrays.

What all custom operators have in common is in `custom_kernel`, and in `kept_kernel`
where windows keep their tuples. This module writes the rest for one set of functions,
a `shape.CustomShape`: how a result is emitted, and how the functions are called, with
which arguments.

A window instance that keeps its tuples has a list of them beside its state: the
columns that functions read are copied into the nodes after the call of `update`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.codegen.bindings import HELD_FIELD, LITERALS, TEMPORARIES, TEXT_FIELDS
from headrace.codegen.included import included
from headrace.codegen.kinds import Array, Kind, cells_of
from headrace.codegen.text import indent
from headrace.egress.containers import stride_of, text_words
from headrace.elastic import local_days
from headrace.elastic.build import units_text
from headrace.elastic.custom import containers_kernel, custom_kernel, kept_kernel, texts_kernel
from headrace.elastic.custom.shape import (
    ARENA_FIELDS,
    LIST_FIELDS,
    POOL_FIELDS,
    CustomShape,
    Function,
    Input,
    counts_field,
    dtype_of,
    key_field,
    node_field,
    out_field,
    state_field,
)
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.ingress.store import directory_width
from headrace.memory import stored
from headrace.memory.arena import CLASSES, COUNT, HEAD, allocate_arena
from headrace.memory.bundle import named
from headrace.memory.cells import padded_cells, reserved
from headrace.references import BUCKETS

CALL = "me, c, o, s, l, key, p, boundary, cause"
"""The first arguments of every generated user function."""

EMIT = "emit_row(me, o, s, l, key, boundary, cause, {values})"
"""The text that an emission becomes."""

STAGE = "stage(me, o, s, l, {heads}, {at}, {width})"
"""The text that an emitted container becomes; its value is a pair of numbers."""

OWNER = f"(key & {BUCKETS - 1}) * {CLASSES}"
"""Where the free lists of a key's containers begin."""

OWN = f"({BUCKETS} + me) * {CLASSES}"
"""Where the free lists of containers that last for one call begin."""

ARENA = ", ".join(f"s.{name}" for name in ARENA_FIELDS)


def place_of(kind: Kind) -> str:
    """Write where a window instance's part of a state field's array begins."""
    cells = cells_of(kind)
    return "p" if cells == 1 else f"p * {cells}"


_CONSTANTS = """
SLOTS = {slots}
IS_SINGLE = {is_single}
IS_HELD_BACK = {is_held_back}

"""

_EMIT = """
from headrace.egress.rings import reserve_slot


@kernel
def emit_row(me, o, s, l, key, boundary, cause{parameters}):
    # After a halt nothing is written: the ring is full and the run has stopped.
    if l[HALTED] != 0:
        return
    slot = reserve_slot(o, me, l[HEAD])
    if slot < 0:
        l[HALTED] = 1
        return
    o.primary[me, slot] = boundary if IS_HELD_BACK else cause
    o.a[me, slot] = key
    o.b[me, slot] = cause if cause & 1 == 1 else COMES_LAST
    o.c[me, slot] = l[HEAD]
    o.at[me, slot] = l[ARRIVAL]
    s.boundary[me, slot] = boundary
{values}
    l[HEAD] += 1

"""

_STORE = """
@kernel
def store_tuple(me, s, p{parameters}):
    # f_U: keeps the tuple in window instance p. False if there is no room.
    node = append_node(me, s, p)
    if node == 0:
        return False
{values}
    return True

"""

_CLOSE = """
@kernel
def close_window(me, c, o, s, l, key, p, window, boundary, cause):
{close}
    return -1 if l[HALTED] != 0 else np.int64(s.present[p])

"""

_RELEASE = """
from headrace.memory.arena import release

"""

_IMPORTS = """
from headrace.elastic.failures import STORED_FULL
from headrace.elastic.ownership import owns, places_in_range, places_in_table
from headrace.elastic.words import UPDATES
from headrace.ingress.store import CHUNK, KEYS, OFFSETS, TS
from headrace.ingress.store_kernel import keys_between, locate, validity_at, values_at
from headrace.memory.atomics import view_f64, view_i32, view_i64, view_u8
from headrace.references import SOURCE_SHIFT
from headrace.workers.worker_kernel import fail

"""

_RUN = """
@kernel
def update_run_{number}(me, c, o, x, s, l, buffer, ats, tick, ref, rows, earliest, latest):
    source, entry, at = locate(ref, {directory_width})
    row_ts = view_i64(x[source, entry + TS], CHUNK)
    first_ref = ref - at
{columns}
    low = l[LOW]
    width = l[WIDTH]
    scattered = l[SCATTERED] != 0
    owner = c.owner[l[IN_FORCE]]
    updates = 0
{keys}
{rows}
    c.meter[me, UPDATES] += updates * ({until} - earliest)
    return 0

"""

# No branch on the owner of a key: with several instances it would be unpredictable. A batch's rows fit into the buffer.
_ROWS_WITH_ONE_KEY = """
if scattered:
    used = places_in_table(keys, at, at + rows, buffer, owner, me)
else:
    used = places_in_range(keys, at, at + rows, buffer, low, width)
for i in range(used):
    r = np.int64(buffer[i])
    ts = row_ts[r]
    key = np.int64(keys[r])
{values}
{windows}
"""

_ROWS_WITH_SEVERAL_KEYS = """
for r in range(at, at + rows):
    ts = row_ts[r]
{values}
    for q in range(offsets[r], offsets[r + 1]):
        key = np.int64(keys[q])
        if owns(key, low, width, scattered, owner, me):
{windows}
"""

_WINDOWS = """
updates += 1
for window in range(earliest, {until}):
    p = key * SLOTS + window % SLOTS
    if s.present[p] == 0:
        s.present[p] = 1
{create}
{update}
"""

_ONE_INPUT = """
update_run = update_run_0

"""

_INPUTS = """
@kernel
def update_run(me, c, o, x, s, l, buffer, ats, tick, ref, rows, earliest, latest):
    which = s.input_of[ref >> SOURCE_SHIFT]
{inputs}
    return 0

"""

_ONE_KEY = """
keys = view_i32(x[source, entry + KEYS], CHUNK)
"""

_SEVERAL_KEYS = """
offsets = view_i32(x[source, entry + OFFSETS], CHUNK + 1)
keys = view_i32(x[source, entry + KEYS], offsets[at + rows])
"""

# No kernel's name begins with one of these prefixes: a column may have any name.
_COLUMN = """
column_{name} = {view}(x[source, entry + values_at({index})], CHUNK)
address_{name} = x[source, entry + validity_at({index})]
masked_{name} = address_{name} != 0
valid_{name} = view_u8(address_{name} if masked_{name} else x[source, entry + TS], CHUNK)
"""

_VIEWS = {"int64": "view_i64", "float64": "view_f64", "uint8": "view_u8"}
_ABSENT = {"int64": "np.int64(0)", "float64": "0.0", "bool": "False", "string": "np.int64(0)"}


def generate(shape: CustomShape) -> str:
    """Write the operator's part of the kernel module."""
    text = _CONSTANTS.format(
        slots=1 if shape.is_single else shape.slots, is_single=shape.is_single, is_held_back=shape.is_held_back
    )
    text += units_text(shape.is_local) + included(custom_kernel)
    text += _emit_text(shape)
    if shape.stored is not None:
        text += included(kept_kernel) + _store_text(shape)
    for function in (shape.update, shape.output, shape.slide):
        if function is not None:
            text += "\n" + function.text + "\n\n"
    if shape.holds_texts:
        text += included(texts_kernel)
    if shape.containers:
        text += _RELEASE
    text += _CLOSE.format(close=indent(_close_text(shape), 1))
    text += _IMPORTS + "".join(_run_text(shape, number) for number in range(len(shape.inputs)))
    if len(shape.inputs) == 1:
        return text + _ONE_INPUT
    calls = []
    for number in range(len(shape.inputs)):
        call = f"update_run_{number}(me, c, o, x, s, l, buffer, ats, tick, ref, rows, earliest, latest)"
        calls += [f"if which == {number}:", f"    return {call}"]
    return text + _INPUTS.format(inputs=indent(calls, 1))


def _emit_text(shape: CustomShape) -> str:
    """Write the kernel that emits a result, after the one that stages its containers, if it has any."""
    lines, listed = [], dict(shape.lists)
    for name, _ in shape.emits:
        if name in listed:
            lines.append(f"s.{counts_field(name)}[me, slot] = e_{name}[1]")
        value = f"e_{name}[0]" if name in listed else f"e_{name}"
        lines.append(f"s.{out_field(name)}[me, slot] = {value}")
    text = _EMIT.format(
        parameters="".join(f", e_{name}" for name, _ in shape.emits),
        values=indent(lines, 1),
    )
    return included(containers_kernel) + text if listed else text


def _call_text(shape: CustomShape, function: Function, stage: str, call: str) -> list[str]:
    """Write a call of a user's function, with the record of the call (I2) for `explain_exception`."""
    lines = ["l[CAUSE_KEY] = key", "l[CAUSE_BOUNDARY] = boundary", f"l[STAGE] = {stage}"]
    for i, (name, kind, _) in enumerate(shape.state):
        if name not in function.saves or isinstance(kind, Array):
            continue
        if not isinstance(kind, str):
            # Only the number of elements is saved: the call adds new ones after those that were there.
            lines.append(f"l[SNAPSHOT + {i}] = s.{state_field(name)}[{place_of(kind)} + {COUNT}]")
        else:
            value = f"s.{state_field(name)}[p]"
            lines.append(f"l[SNAPSHOT + {i}] = {f'np.float64({value}).view(np.int64)' if kind.startswith('float') else value}")
    return [*lines, call]


def _store_text(shape: CustomShape) -> str:
    """Write the kernel that keeps a tuple."""
    assert shape.stored is not None
    names = [name for name, _ in shape.stored.arrays()]
    return _STORE.format(
        parameters="".join(f", {name}" for name in names),
        values=indent([f"s.{node_field(name)}[node] = {name}" for name in names], 1),
    )


def _update_text(shape: CustomShape, number: int) -> str:
    """Write the statements that update window instance `p` with a tuple."""
    lines = ["s.latest[p] = ts"] if shape.is_single else []
    if shape.update is not None:
        lines += ["boundary = to_time(s, window * l[ADVANCE] + l[SIZE])", "cause = 2 * (tick + r - at) + 1"]
        lines.append("l[CAUSE_REF] = first_ref + r")
        values = [f"{part}_{c.parameter}" for c in shape.inputs[number].columns for part in ("c", "n")]
        call = f"user_update({', '.join([CALL, 'ts', str(number), *values])})"
        lines += _call_text(shape, shape.update, "UPDATE", call)
        if shape.update.may_emit:
            lines += ["if l[HALTED] != 0:", "    return -1"]
    if shape.stored is not None:
        values = {"ts": "ts", "input": str(number)}
        given = ", ".join(values.get(name, name) for name, _ in shape.stored.arrays())
        lines += [
            f"if not store_tuple(me, s, p, {given}):",
            "    fail(c, STORED_FULL, me, first_ref + r, ts, 0, 0)",
            "    return -1",
        ]
    return "\n".join(lines) or "pass"


def _close_text(shape: CustomShape) -> str:
    """Write the statements that close window instance `p` when its window expires."""
    lines = []
    if shape.output is not None:
        lines += _call_text(shape, shape.output, "OUTPUT", f"user_output({CALL})")
    end = ["s.present[p] = 0"] if shape.stored is None else ["forget_tuples(s, p)", "s.present[p] = 0"]
    for name, kind in shape.containers:
        end.append(f"release({ARENA}, {OWNER}, s.{state_field(name)}, {place_of(kind)})")
    if not shape.is_single:
        return "\n".join(lines + end)
    slide = ["pass"]
    if shape.slide is not None:
        slide = _call_text(shape, shape.slide, "SLIDE", f"user_slide({CALL}, left)")
    if shape.stored is not None and shape.purges:
        slide.append("purge_tuples(s, p, left)")
    if shape.holds_texts:
        slide += ["if (window + 1) % windows_of_size(l) == 0:", *("    " + line for line in _hold_text(shape))]
    lines += ["left = to_time(s, (window + 1) * l[ADVANCE])", "if s.latest[p] >= left:"]
    return "\n".join([*lines, *("    " + line for line in slide), "else:", *("    " + line for line in end)])


def _hold_text(shape: CustomShape) -> list[str]:
    """Write the statements by which window instance `p` keeps strings in use.

    They are the strings of its state, and of tuples that outlast their window.
    """
    lines = []
    for name, kind, _ in shape.state:
        field, place = f"s.{state_field(name)}", place_of(kind)
        if kind == "string":
            lines.append(f"hold_text(s.text_held, {field}[{place}], left)")
        elif isinstance(kind, Array) and kind.kind == "string":
            lines.append(f"hold_words(s.text_held, {field}, {place}, 1, {kind.size}, left)")
        elif not isinstance(kind, str | Array):
            lines += [
                f"hold_entries(s.text_held, s.arena, {field}, {place}, {word}, {stride_of(kind)}, left)"
                for word in text_words(kind)
            ]
    for name, kind in [] if shape.stored is None or shape.purges else shape.stored.columns:
        if kind == "string":
            held = f"hold_text(s.text_held, s.{node_field(f'c_{name}')}[node], left)"
            lines += ["node = s.list_first[p]", "while node != 0:", f"    {held}", "    node = s.following[node]"]
    return lines


def _columns_text(given: Input) -> tuple[str, str]:
    """Write the views of a chunk's columns, and for each its value in row `r` and whether that is not null."""
    columns, values = "", []
    for column in given.columns:
        name = column.parameter
        if column.index is None:  # this input lacks it
            values += [f"c_{name} = {_ABSENT[column.kind]}", f"n_{name} = False"]
            continue
        columns += _COLUMN.format(name=name, index=column.index, view=_VIEWS[column.dtype]).rstrip("\n")
        value = f"column_{name}[r]"
        if column.kind == "bool":
            value = f"{value} != 0"
        elif column.kind not in (column.dtype, "string"):
            value = f"np.{column.kind}({value})"
        values += [f"c_{name} = {value}", f"n_{name} = not masked_{name} or valid_{name}[r] != 0"]
    return columns or "pass", "\n".join(values) or "pass"


def _run_text(shape: CustomShape, number: int) -> str:
    """Write the kernel that updates windows with a run of tuples of one input."""
    given = shape.inputs[number]
    columns, values = _columns_text(given)
    if shape.update is not None and shape.update.may_emit:
        values += "\nl[ARRIVAL] = ats[r - at]"
    create = [f"s.{state_field(name)}[p] = {value}" for name, value in _first_values(shape)]
    if shape.stored is not None:
        create += [f"s.{name}[p] = 0" for name in LIST_FIELDS]
    for name, kind, _ in shape.state:
        if isinstance(kind, Array):
            here = place_of(kind)
            create += [f"for word in range({here}, {here} + {kind.size}):", f"    s.{state_field(name)}[word] = 0"]
    until = "earliest + 1" if shape.is_single else "latest + 1"
    windows = _WINDOWS.format(
        until=until,
        create=indent(create or ["pass"], 2),
        update=indent(_update_text(shape, number), 1),
    )
    rows = (_ROWS_WITH_SEVERAL_KEYS if given.multi_key else _ROWS_WITH_ONE_KEY).format(
        values=indent(values, 1),
        windows=indent(windows, 3 if given.multi_key else 1),
    )
    return _RUN.format(
        number=number,
        directory_width=directory_width(given.value_columns),
        columns=indent(columns, 1),
        keys=indent(_SEVERAL_KEYS if given.multi_key else _ONE_KEY, 1),
        rows=indent(rows, 1),
        until=until,
    )


def _first_values(shape: CustomShape) -> list[tuple[str, str]]:
    values = []
    for name, kind, first in shape.state:
        if not isinstance(kind, str):
            continue  # a container is empty where there is no window instance
        text = repr(first)
        if kind == "bool":
            text = "1" if first else "0"
        elif kind == "string":
            text = "0"  # the id of the empty string
        elif isinstance(first, float) and not np.isfinite(first):
            text = "np.nan" if first != first else "np.inf" if first > 0 else "-np.inf"
        values.append((name, text))
    return values


def allocate_state(
    shape: CustomShape,
    sides: Sequence[int],
    key_values: Sequence[np.ndarray],
    max_keys: int,
    instances: int,
    capacity: int,
    max_tuples: int = 0,
    max_state: int = 0,
    zone: str | None = None,
    texts: OrderedTexts | None = None,
    literals: Sequence[str] = (),
):
    """Allocate the bundle `s`, as `shape` describes it.

    Parameters
    ----------
    shape : CustomShape
    sides : sequence of int
        Input of each source.
    key_values : sequence of ndarray
        By key id, one for each of `shape.key_arrays`.
    max_keys : int
        Key ids are below it.
    instances, capacity : int
        Number and capacity of the output rings.
    max_tuples : int
        Most tuples kept at once, if windows keep tuples.
    max_state : int
        Bytes that containers may take, if there are any.
    zone : str, optional
        The time zone, if windows are of its days.
    texts : OrderedTexts, optional
        The dictionary of strings, if the functions use any; `literals` are those they name.
    """
    keys = (max_keys // BUCKETS + 1) * BUCKETS
    places = keys * (1 if shape.is_single else shape.slots)
    fields = {
        "present": reserved(places, np.uint8),
        "tick_of": padded_cells(instances),
        "input_of": np.array(sides, np.int64),
    }
    if shape.is_single:
        fields["latest"] = reserved(keys, np.int64)
    for name, kind, _ in shape.state:
        fields[state_field(name)] = reserved(places * cells_of(kind), dtype_of(kind))
    if shape.stored is not None:
        fields |= {name: reserved(places, np.int64) for name in LIST_FIELDS}
        fields |= zip(POOL_FIELDS, stored.allocate(max_tuples, instances), strict=True)
        nodes = stored.nodes_of(max_tuples, instances) + 1
        fields |= {node_field(name): reserved(nodes, dtype) for name, dtype in shape.stored.arrays()}
    fields |= {key_field(part): values for part, values in enumerate(key_values)}
    fields |= local_days.state_of(zone)
    if texts is not None:
        fields |= zip((*TEXT_FIELDS, HELD_FIELD), (*texts.arrays, texts.points, texts.held), strict=True)
        fields[LITERALS] = texts.keep(literals).astype(np.int64)
    if shape.has_arena:
        fields |= zip(ARENA_FIELDS, allocate_arena(BUCKETS + instances, max_state // 8), strict=True)
        fields["temporaries"] = np.zeros(instances * TEMPORARIES * HEAD, np.int64)
    for name, dtype in shape.results.items():
        fields[name] = reserved(instances * capacity, dtype).reshape(instances, capacity)
    return named(**fields)


def bytes_per_place(shape: CustomShape) -> int:
    """Bytes of state of one window instance."""
    fields = sum(np.dtype(dtype_of(kind)).itemsize * cells_of(kind) for _, kind, _ in shape.state)
    if shape.stored is not None:
        fields += 8 * len(LIST_FIELDS)
    return 1 + fields + (8 if shape.is_single else 0)


__all__ = [
    "CALL",
    "allocate_state",
    "bytes_per_place",
    "generate",
]
