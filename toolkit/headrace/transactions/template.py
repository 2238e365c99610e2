"""The text of a transactional operator's kernels: what one set of functions needs beside the executors' loop.

Supplies to `executor_kernel` what that file names at its head: `prepare_events`, `run_event`, `give_event`,
`executor_begins`. Fields of the bundle ``s``::

    table_...               the tables (`memory.TableMemory`)
    undo[executor, word]    rows as they were before a transaction that may still be rejected
    event_mask[i], event_x[i]   what event i of the batch emitted: the EventBlotter of TStream, section IV-B
    event_rejected[i]       whether any of its transactions was rejected
    ring_mask, ring_x       columns of the results, a ring for each executor; bit 0 of the mask: rejected
    text_..., text_literals as in custom operators, where there are strings
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.codegen.functions import GeneratedFunction
from headrace.codegen.included import included
from headrace.codegen.text import indent
from headrace.ingress.store import directory_width
from headrace.transactions import layout, undo_kernel
from headrace.transactions.binding import KERNEL_WORDS, Bound, Readable

_IMPORTS = """
from headrace.codegen.modules import compiled as kernel
from headrace.ingress.store import CHUNK
from headrace.ingress.store_kernel import list_f64, list_i64, locate, validity_at, values_at
from headrace.memory.atomics import view_f64, view_i64, view_u8
from headrace.transactions.key_sets_kernel import begin_set, end_set, note
from headrace.transactions.words import CAUSE
from headrace.workers.worker_kernel import stopped
from headrace.transactions.index_kernel import find_direct, find_hashed, insert_hashed, insert_text
"""

_WHOLE_LIST = """
@kernel
def whole_list(elements, nulls):
    if nulls != 0:
        raise ValueError("a list has null elements: ask `None in` before it is read")
    return elements

"""

_TABLE = """
@kernel
def find_{table}(s, key):
    return {find}


@kernel
def place_{table}(s, slot):
    return s.table_base[{table}] + slot * {stride}


@kernel
def note_{table}(me, c, s, l, key, is_write):
    slot = find_{table}(s, key)
    if slot >= 0:
        note(c, me, s.table_first[{table}] + slot, is_write)

"""

_EVENTS = """
@kernel
def executor_begins(me, c, s, l):
    return


@kernel
def prepare_events(me, c, x, s, l, first, last):
    for i in range(first, last):
        l[CAUSE] = i
        l[FUNCTION] = -1
        begin_set(c, me, i)
{columns}
{keys}
        if not end_set(c, me, i):
            return i
    return last


@kernel
def run_event(me, c, x, s, l, i):
{all_columns}
    s.event_mask[i] = 0
    rejected = 0
{functions}
    s.event_rejected[i] = rejected


@kernel
def give_event(me, c, o, x, s, l, i, slot):
    s.ring_mask[me, slot] = 2 * s.event_mask[i] + s.event_rejected[i]
{values}
    return

"""

_FUNCTION = """
l[FUNCTION] = {number}
{begin}
if user_{number}({call}) != 0:
{undo}
    rejected = 1
"""


def generate(bound: Bound, emits: Sequence[str], value_columns: Sequence[str]) -> str:
    """Write the program's part of the module: what `build.assemble` takes.

    Parameters
    ----------
    bound : Bound
    emits : sequence of str
        Columns that are emitted.
    value_columns : sequence of str
        Of the store, in order.
    """
    text = _IMPORTS + _WHOLE_LIST + included(undo_kernel)
    for number, table in enumerate(bound.tables):
        text += _TABLE.format(table=number, find=layout.find(table, number, "key"), stride=layout.stride(table))
    for function in bound.generated:
        text += "\n" + function.preamble + function.source + "\n\n"
    text += _EVENTS.format(
        columns=indent(_columns(bound, [f for f in bound.keys if f is not None], value_columns), 2).rstrip("\n"),
        keys=indent(_keys(bound), 2).rstrip("\n"),
        all_columns=indent(_columns(bound, bound.functions, value_columns), 1).rstrip("\n"),
        functions=indent("\n".join(_call(bound, number) for number in range(len(bound.functions))), 1).rstrip("\n"),
        values=indent("\n".join(f"s.ring_{name}[me, slot] = s.event_{name}[i]" for name in emits) or "pass", 1).rstrip("\n"),
    )
    return text


def _call(bound: Bound, number: int) -> str:
    lowered = bound.lowered[number]
    begin, undo = [], []
    if lowered.must_undo:
        begin.append("l[UNDO] = 0")
        undo.append("put_back(me, s, l)")
    if lowered.emits:
        begin.append(f"mask_{number} = s.event_mask[i]")
        undo.append(f"s.event_mask[i] = mask_{number}")
    return _FUNCTION.format(
        number=number,
        begin="\n".join(begin) or "pass",
        undo=indent("\n".join(undo) or "pass", 1).rstrip("\n"),
        call=_arguments(bound.functions[number]),
    ).strip("\n")


def _keys(bound: Bound) -> str:
    return "\n".join(f"{f.name}({_arguments(f)})" for f in bound.keys if f is not None) or "pass"


def _arguments(function: GeneratedFunction) -> str:
    return ", ".join(function.parameters)


def _columns(bound: Bound, functions: Sequence[GeneratedFunction], value_columns: Sequence[str]) -> str:
    """Write how the columns of event `i` are read; those that these functions do not use are zero."""
    lines = ["ts = c.tss[i]"]
    used = {name for function in functions for name in function.parameters if name not in KERNEL_WORDS}
    if used:
        lines += ["ref = c.refs[i]", f"source, entry, at = locate(ref, {directory_width(len(value_columns))})"]
    for name, readable in bound.readable.items():
        lines += _column(name, readable, value_columns)
    return "\n".join(lines)


def _column(name: str, readable: Readable, value_columns: Sequence[str]) -> list[str]:
    index = value_columns.index(readable.column)
    view = {"float64": "view_f64", "uint8": "view_u8"}.get(readable.dtype, "view_i64")
    lines = [
        f"c_{name} = {'view_i64' if readable.kind == 'list' else view}(x[source, entry + values_at({index})], CHUNK)[at]",
        f"valid_{name} = x[source, entry + validity_at({index})]",
        f"n_{name} = valid_{name} == 0 or view_u8(valid_{name}, CHUNK)[at] != 0",
    ]
    if readable.kind == "bool":
        lines[0] += " != 0"
    if readable.kind == "list":
        for part, suffix in (("z", ".size"), ("h", ".nulls")):
            place = value_columns.index(readable.column + suffix)
            lines.append(f"{part}_{name} = view_i64(x[source, entry + values_at({place})], CHUNK)[at]")
    return lines
