"""The text of a transactional operator's kernels: what one set of functions needs beside the executors' loop.

Supplies what `executor_kernel`, `whole_kernel` and `operations_kernel` name at their heads. Fields of the bundle ``s``::

    table_...               the tables (`memory.TableMemory`)
    undo[executor, word]    rows as they were before a transaction that may still be rejected
    event_mask_0[i], emitted_x[i]  what function 0 emitted for event i of the batch: bit 0 that it did, bit 1 + n column n
    fate_0[i]               what becomes of function 0 of event i, as operations
    kept_2_0[o]             what operation o, of site 2, saved of its row: the EventBlotter of TStream, section IV-B
    event_rejected[i]       whether any of its transactions was rejected
    row_mask, ring_x        columns of the results, a ring for each executor; bit 0 of the mask: rejected
    text_..., text_literals as in custom operators, where there are strings
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.codegen.functions import GeneratedFunction
from headrace.codegen.included import included
from headrace.codegen.text import indent
from headrace.ingress.store import directory_width
from headrace.transactions import layout, undo_kernel
from headrace.transactions.binding import Bound, Readable, event_field, mask_field
from headrace.transactions.results import ring_field

_IMPORTS = """
from headrace.codegen.modules import compiled as kernel
from headrace.ingress.store import CHUNK
from headrace.ingress.store_kernel import list_f64, list_i64, locate, validity_at, values_at
from headrace.memory.atomics import load_relaxed, view_f64, view_i64, view_u8
from headrace.transactions.key_sets_kernel import SET_AT, SET_BEGIN, begin_set, end_set, note, note_operation
from headrace.transactions.words import CAUSE, COUNT
from headrace.workers.worker_kernel import stopped
from headrace.transactions.index_kernel import FULL, find_direct, find_hashed, insert_hashed, insert_text
from headrace.transactions.multiversion_kernel import (
    begin_execution,
    end_execution,
    is_doomed,
    raised,
    touch_row,
    write_back,
)
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
def touch_{table}(me, c, s, i, slot, is_copied):
    home = s.table_base[{table}] + slot * {stride}
    return touch_row(me, c, s.table_rows, i, s.table_first[{table}] + slot, home, {stride}, is_copied)


@kernel
def note_{table}(me, c, s, l, key, is_write):
    slot = find_{table}(s, key)
    if slot >= 0:
        note(c, me, s.table_first[{table}] + slot, is_write)

"""

_BOTH = """
@kernel
def executor_begins(me, c, s, l):
    return


@kernel
def give_event(me, c, o, x, s, l, i, slot):
    s.row_mask[me, slot] = 2 * ({masks}) + s.event_rejected[i]
{values}

"""

_WHOLE = """
@kernel
def name_event(me, c, x, s, l, i):
    try:
{key_columns}
{keys}
    except Exception:
        return False
    return True


@kernel
def prepare_events(me, c, x, s, l, first, last):
    for i in range(first, last):
        l[CAUSE] = i
        l[FUNCTION] = -1
        begin_set(c, me, i)
        # Keys that cannot be worked out, since what was read would keep the function from it, are not needed by an
        # event that is alone in its batch.
        if not name_event(me, c, x, s, l, i) and load_relaxed(c.words, COUNT) > 1:
            return i
        if not end_set(c, me, i):
            return i
    return last


"""

_RUN = """
@kernel
def run_event(me, c, x, s, l, i):
{columns}
    rejected = 0
{functions}
    s.event_rejected[i] = rejected
{check}

"""

_SPECULATIVE = """
@kernel
def attempt(me, c, x, s, l, i):
    begin_execution(me, c, i)
    try:
        run_event(me, c, x, s, l, i)
    except Exception:
        l[UNDO] = 0
        raised(me, c)
    return end_execution(me, c, s.table_rows, i)


@kernel
def write_versions(me, c, s, stop):
    write_back(me, c, s.table_rows, stop)

"""

_FUNCTION = """
l[FUNCTION] = {number}
{begin}
if user_{number}({call}) != 0:
{undo}
    rejected = 1
"""

_OPERATIONS = """
@kernel
def operation_word(c, me, l, site):
    # Which operation of the event, which turn of its loop, which site.
    turn = l[SITES + site]
    l[SITES + site] = turn + 1
    return (c.filling[me, SET_AT] - c.filling[me, SET_BEGIN]) << 36 | turn << 8 | site


@kernel
def prepare_operations(me, c, x, s, l, first, last):
    for i in range(first, last):
        l[CAUSE] = i
        begin_set(c, me, i)
{name_columns}
{names}
        if not end_set(c, me, i):
            return i
    return last


@kernel
def run_operation(me, c, x, s, l, i, word):
    site = word & 255
    turn = word >> 8 & (1 << 28) - 1
    o = c.set_at[i] + (word >> 36)
    record = c.sets[o] >> 1
{unit_columns}
{units}


@kernel
def finish_event(me, c, x, s, l, i):
    l[CAUSE] = i
    l[NEXT_OPERATION] = c.set_at[i]
{post_columns}
    rejected = 0
{posts}
    s.event_rejected[i] = rejected
{check}

"""

_NAME = """
l[FUNCTION] = {number}
l[FATE] = BY_PARTS
for site in range({first}, {last}):
    l[SITES + site] = 0
before_{number} = c.filling[me, SET_AT]
if name_{number}({call}) != 0:
    c.filling[me, SET_AT] = before_{number}
    l[FATE] = REFUSED
s.fate_{number}[i] = l[FATE]
"""

_UNIT = """
if site == {site}:
    slot = record - s.table_first[{table}]
    l[FUNCTION] = {number}
    {call}
"""

_IN_CHAIN = """
if site == {site}:
    l[FUNCTION] = {number}
{begin}
    if user_{number}({call}) != 0:
{undo}
        s.fate_{number}[i] = REFUSED_IN_CHAIN
"""

_POST = """
l[FUNCTION] = {number}
if s.fate_{number}[i] == BY_PARTS:
{begin}
    rejected |= post_{number}({call})
elif s.fate_{number}[i] == IN_CHAIN:
    l[NEXT_OPERATION] += 1
elif s.fate_{number}[i] == REFUSED_IN_CHAIN:
    l[NEXT_OPERATION] += 1
    rejected = 1
else:
{begin}
    rejected = 1
"""

_CHECK = """
if ({emitted}) > 1:
    raise ValueError("several functions emit for one event, which has one row")
"""


def generate(bound: Bound, emits: Sequence[str], value_columns: Sequence[str], family: str) -> str:
    """Write the program's part of the module: what `build.assemble` takes.

    Parameters
    ----------
    bound : Bound
    emits : sequence of str
        Columns that are emitted.
    value_columns : sequence of str
        Of the store, in order.
    family : {"whole", "operations", "speculative"}
    """
    emitting = [number for number, lowered in enumerate(bound.lowered) if lowered.calls_emit]
    text = _IMPORTS + _WHOLE_LIST + included(undo_kernel)
    for number, table in enumerate(bound.tables):
        text += _TABLE.format(table=number, find=layout.find(table, number, "key"), stride=layout.stride(table))
    masks = [f"s.{mask_field(number)}[i]" for number in emitting]
    given = [f"s.{ring_field(name)}[me, slot] = s.{event_field(name)}[i]" for name in emits]
    text += _BOTH.format(
        masks=" | ".join(masks) or "0",
        values=indent("\n".join(given) or "return", 1).rstrip("\n"),
    )
    check = "pass"
    if len(emitting) > 1:
        check = _CHECK.format(emitted=" + ".join(f"({mask} & 1)" for mask in masks)).strip()
    write = {"operations": _operations_text, "speculative": _speculative_text}.get(family, _whole_text)
    return text + write(bound, value_columns, indent(check, 1).rstrip("\n"))


def _pasted(functions: Sequence[GeneratedFunction]) -> str:
    return "".join("\n" + function.preamble + function.source + "\n\n" for function in functions)


def _whole_text(bound: Bound, value_columns: Sequence[str], check: str) -> str:
    """Transactions that run whole, and what names their keys."""
    keys = bound.keys
    naming = _WHOLE.format(
        key_columns=_columns(bound, keys, value_columns, 2),
        keys=indent("\n".join(f"{f.name}({_arguments(f)})" for f in keys) or "pass", 2).rstrip("\n"),
    )
    return _pasted([*bound.functions, *keys]) + naming + _run_text(bound, value_columns, check)


def _speculative_text(bound: Bound, value_columns: Sequence[str], check: str) -> str:
    """Transactions that run whole, on versions of rows."""
    return _pasted(bound.speculative) + _run_text(bound, value_columns, check) + _SPECULATIVE


def _run_text(bound: Bound, value_columns: Sequence[str], check: str) -> str:
    return _RUN.format(
        columns=_columns(bound, bound.functions, value_columns, 1),
        functions=indent("\n".join(_call(bound, number) for number in range(len(bound.functions))), 1).rstrip("\n"),
        check=check,
    )


def _operations_text(bound: Bound, value_columns: Sequence[str], check: str) -> str:
    """Operations of transactions, and what comes before and after them."""
    taken = bound.operations
    assert taken is not None
    whole = [bound.functions[number] for number in sorted(taken.whole)]
    names, units, posts = [], [], []
    sites = [number for number, _ in taken.sites]
    for number, (name, post) in enumerate(zip(taken.names, taken.posts, strict=True)):
        first = sites.index(number) if number in sites else 0
        last = first + sites.count(number)
        names.append(_NAME.format(number=number, first=first, last=last, call=_arguments(name)))
        begin, _ = _around(bound, number, only_mask=True)
        posts.append(_POST.format(number=number, begin=indent(begin, 1).rstrip("\n"), call=_arguments(post)))
    for site, (number, one) in enumerate(taken.sites):
        if one.is_unit:
            function = taken.units[site]
            table, call = bound.tables.index(one.row.table), f"{function.name}({_arguments(function)})"
            units.append(_UNIT.format(site=site, number=number, table=table, call=call))
        else:
            begin, undo = _around(bound, number)
            units.append(_IN_CHAIN.format(
                site=site, number=number, begin=indent(begin, 1).rstrip("\n"), undo=indent(undo, 2).rstrip("\n"),
                call=_arguments(bound.functions[number]),
            ))  # fmt: skip
    return _pasted([*whole, *taken.names, *taken.units.values(), *taken.posts]) + _OPERATIONS.format(
        name_columns=_columns(bound, taken.names, value_columns, 2),
        names=indent("\n".join(names), 2).rstrip("\n"),
        unit_columns=_columns(bound, [*taken.units.values(), *whole], value_columns, 1),
        units=indent("\n".join(units) or "pass", 1).rstrip("\n"),
        post_columns=_columns(bound, taken.posts, value_columns, 1),
        posts=indent("\n".join(posts), 1).rstrip("\n"),
        check=check,
    )


def _around(bound: Bound, number: int, only_mask: bool = False) -> tuple[str, str]:
    """What comes before a function, and what is undone if it is rejected."""
    lowered = bound.lowered[number]
    begin, undo = [], []
    if lowered.must_undo and not only_mask:
        begin.append("l[UNDO] = 0")
        undo.append("put_back(me, s, l)")
    if lowered.calls_emit:
        begin.append(f"s.{mask_field(number)}[i] = 0")
        undo.append(f"s.{mask_field(number)}[i] = 0")
    return "\n".join(begin) or "pass", "\n".join(undo) or "pass"


def _call(bound: Bound, number: int) -> str:
    begin, undo = _around(bound, number)
    call = _arguments(bound.functions[number])
    return _FUNCTION.format(number=number, begin=begin, undo=indent(undo, 1).rstrip("\n"), call=call).strip("\n")


def _arguments(function: GeneratedFunction) -> str:
    return ", ".join(function.parameters)


def _columns(bound: Bound, functions: Sequence[GeneratedFunction], value_columns: Sequence[str], levels: int) -> str:
    """Write how the columns of event `i` are read; what these functions do not use is left out by the compiler."""
    lines = ["ts = c.tss[i]"]
    if bound.readable and functions:
        lines.append(f"source, entry, at = locate(c.refs[i], {directory_width(len(value_columns))})")
        for name, readable in bound.readable.items():
            lines += _column(name, readable, value_columns)
    return indent("\n".join(lines), levels).rstrip("\n")


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
