"""The source text of a transactional operator's kernels: what one set of functions needs beside the executors' loop.

Supplies what `executor_kernel`, `whole_kernel`, `operations_kernel` and `speculative_kernel` name at their heads. Fields of the
bundle ``s``::

    table_...               the tables (`memory.TableMemory`)
    undo[executor, word]    rows as they were before a transaction that may still be rejected
    event_mask_0[i], emitted_x[i]  what function 0 emitted for event i of the batch: bit 0 that it did, bit 1 + n column n
    fate_0[i]               what becomes of function 0 for event i, run as operations, and the first of these
    added_2_0[o]            what operation o, of site 2, adds to the first of its columns (`combining_kernel`)
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
from headrace.transactions.binding import TURNS, Bound, added_field, event_field, mask_field
from headrace.transactions.event_columns import Readable
from headrace.transactions.results import ring_field

_IMPORTS = """
from headrace.codegen.modules import compiled as kernel
from headrace.ingress.store import CHUNK
from headrace.ingress.store_kernel import locate, validity_at, values_at
from headrace.memory.atomics import load_relaxed, view_f64, view_i64, view_u8
from headrace.transactions.combining_kernel import combine, event_before, is_roomy, is_small, leaves_int64
from headrace.transactions.key_sets_kernel import SET_AT, SET_END, begin_set, end_operations, end_set, note, note_operation
from headrace.transactions.versions_kernel import place_of
from headrace.transactions.words import CAUSE, COMBINING, COUNT, EVENT_SHIFT, MOST_SITES, MOST_TURNS, TURN_SHIFT, VERSIONED
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
def version_{table}(me, c, s, l, slot):
{version}
    return place_{table}(s, slot)


@kernel
def touch_{table}(me, c, s, i, slot, is_copied):
    home = s.table_base[{table}] + slot * {stride}
    return touch_row(me, c, s.table_rows, i, s.table_first[{table}] + slot, home, {stride}, is_copied)


@kernel
def note_{table}(me, c, s, key, is_write):
    slot = find_{table}(s, key)
    if slot >= 0:
        note(c, me, s.table_first[{table}] + slot, is_write)

"""

_VERSION = """
if l[VERSIONED] != 0:
    return place_of(me, c, l, s.table_first[{table}] + slot)
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

# The body of each `try` is a function of its own: inside `try`, Numba ends a basic block after each call, and the time to
# compile grows with the square of their number (2.4 s where this takes 0.3).
_WHOLE = """
@kernel
def name_keys(me, c, x, s, l, i):
{key_columns}
{keys}


@kernel
def name_event(me, c, x, s, l, i):
    try:
        name_keys(me, c, x, s, l, i)
    except Exception:
        return False
    return True


@kernel
def prepare_events(me, c, x, s, l, first, last):
    for i in range(first, last):
        l[CAUSE] = i
        l[FUNCTION] = -1
        begin_set(c, me)
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
    begin_execution(me, c)
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
{adding}
@kernel
def prepare_operations(me, c, x, s, l, first, last):
    for i in range(first, last):
        l[CAUSE] = i
        begin_set(c, me)
{name_columns}
{names}
        if not end_operations(c, me, i):
            return i
{combine}
    return last


@kernel
def run_operations(me, c, x, s, l, first, last, executed):
    event = -1
    for k in range(first, last):
        o = c.entries[k]
        word = c.link[o]
        i = word >> EVENT_SHIFT
        if i != event:
            # The place of an event's columns is looked up once for all its operations in a row.
            if i >= executed:
                break
            event = i
            l[CAUSE] = i
{unit_columns}
        site = word & MOST_SITES - 1
        turn = word >> TURN_SHIFT & MOST_TURNS - 1
        record = c.sets[o] >> 1
{units}


@kernel
def finish_event(me, c, x, s, l, i):
    l[CAUSE] = i
{post_columns}
    rejected = 0
{posts}
    s.event_rejected[i] = rejected
{check}

"""

_COMBINE = """
if c.filling[me, COMBINING] != 0:
    for o in range(c.set_at[i], c.filling[me, SET_AT]):
        {work_out}
        before = combine(c, me, o)
{added}
"""

_WORK_OUT = """
@kernel
def are_worked_out_here(me, c, x, s, l, i, o):
{columns}
    site = c.link[o] & MOST_SITES - 1
    turn = c.link[o] >> TURN_SHIFT & MOST_TURNS - 1
    is_small_enough = False
{sites}
    return is_small_enough


@kernel
def are_worked_out(me, c, x, s, l, i, o):
    try:
        return are_worked_out_here(me, c, x, s, l, i, o)
    except Exception:
        return False


@kernel
def work_out(me, c, x, s, l, i, o):
    # Computes the addend of an operation that adds; if that fails or the addend is large, the chain computes it.
    if are_worked_out(me, c, x, s, l, i, o):
        c.sets[o] |= 1

"""

_ADD = """
@kernel
def refuse_{site}(me, c, s, l, i, o, at):
    # Of the operations that `o` stands for, the first after which the row leaves int64, if any, ends the run.
    wrong = -1
    k = o
    while k >= 0:
        if {leaves}:
            wrong = k
        k = c.link_2[k]
    if wrong < 0:
        return
    l[CAUSE] = event_before(c, i, wrong)
    before = c.link_2[wrong]
    if before >= 0:
        {add_before}
    raise OverflowError("an integer leaves the range of int64")


@kernel
def add_{site}(me, c, s, l, i, o, slot):
    at = place_{table}(s, slot)
    {present}
    if not ({is_roomy}):
        refuse_{site}(me, c, s, l, i, o, at)
    {add}

"""

_NAME = """
l[FUNCTION] = {number}
{turns}
before_{number} = noted = c.filling[me, SET_AT]
noted_end = c.filling[me, SET_END]
s.fate_{number}[i] = before_{number} << FATE_BITS | BY_PARTS
if name_{number}({call}) != 0:
    c.filling[me, SET_AT] = before_{number}
    s.fate_{number}[i] = REFUSED
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
next_operation = s.fate_{number}[i] >> FATE_BITS
fate = s.fate_{number}[i] & (1 << FATE_BITS) - 1
if fate == BY_PARTS:
{begin}
    if post_{number}({call}) != 0:
        rejected = 1
elif fate == REFUSED:
{begin}
    rejected = 1
elif fate == REFUSED_IN_CHAIN:
    rejected = 1
"""

SEVERAL_EMIT = "several functions emit for one event, which has one row"

_CHECK = f"""
if ({{emitted}}) > 1:
    raise ValueError("{SEVERAL_EMIT}")
"""


def generate(bound: Bound, emits: Sequence[str], value_columns: Sequence[str], family: str) -> str:
    """Write the operator's part of the module, which `build.Built` takes.

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
    has_versions = family == "whole" and layout.has_versions(bound.tables)
    for number, table in enumerate(bound.tables):
        version = _VERSION.format(table=number) if has_versions else "pass"
        text += _TABLE.format(
            table=number, find=layout.find(table, number, "key"), stride=layout.stride(table),
            version=indent(version, 1),
        )  # fmt: skip
    masks = [f"s.{mask_field(number)}[i]" for number in emitting]
    given = [f"s.{ring_field(name)}[me, slot] = s.{event_field(name)}[i]" for name in emits]
    text += _BOTH.format(
        masks=" | ".join(masks) or "0",
        values=indent(given or ["return"], 1),
    )
    check = "pass"
    if len(emitting) > 1:
        check = _CHECK.format(emitted=" + ".join(f"({mask} & 1)" for mask in masks)).strip()
    write = {"operations": _operations_text, "speculative": _speculative_text}.get(family, _whole_text)
    return text + write(bound, value_columns, indent(check, 1))


def _pasted(functions: Sequence[GeneratedFunction]) -> str:
    return "".join("\n" + function.preamble + function.source + "\n\n" for function in functions)


def _whole_text(bound: Bound, value_columns: Sequence[str], check: str) -> str:
    """The text of transactions that run whole, and of the functions that name their keys."""
    keys = bound.keys
    naming = _WHOLE.format(
        key_columns=_columns(bound, keys, value_columns, 1),
        keys=indent([f"{f.name}({_arguments(f)})" for f in keys] or ["pass"], 1),
    )
    return _pasted([*bound.functions, *keys]) + naming + _run_text(bound, value_columns, check)


def _speculative_text(bound: Bound, value_columns: Sequence[str], check: str) -> str:
    """The text of transactions that run whole, on versions of rows."""
    return _pasted(bound.speculative) + _run_text(bound, value_columns, check) + _SPECULATIVE


def _run_text(bound: Bound, value_columns: Sequence[str], check: str) -> str:
    return _RUN.format(
        columns=_columns(bound, bound.functions, value_columns, 1),
        functions=indent([_call(bound, number) for number in range(len(bound.functions))], 1),
        check=check,
    )


def _operations_text(bound: Bound, value_columns: Sequence[str], check: str) -> str:
    """The text of operations, and of what comes before and after them."""
    taken = bound.operations
    assert taken is not None
    whole = [bound.functions[number] for number in sorted(taken.whole)]
    names, units, posts = [], [], []
    for number, (name, post) in enumerate(zip(taken.names, taken.posts, strict=True)):
        turns = "\n".join(f"{each} = 0" for each in name.parameters if each.startswith(TURNS))
        names.append(_NAME.format(number=number, turns=turns or "pass", call=_arguments(name)))
        begin, _ = _around(bound, number, only_mask=True)
        posts.append(_POST.format(number=number, begin=indent(begin, 1), call=_arguments(post)))
    for site, (number, one) in enumerate(taken.sites):
        if one.is_unit:
            function = taken.units[site]
            table, call = bound.tables.index(one.row.table), f"{function.name}({_arguments(function)})"
            if site in taken.adding:
                call = f"if c.sets[o] & 1:\n    add_{site}(me, c, s, l, i, o, slot)\nelse:\n    {call}"
            units.append(_UNIT.format(site=site, number=number, table=table, call=indent(call, 1).strip()))
        else:
            begin, undo = _around(bound, number)
            units.append(_IN_CHAIN.format(
                site=site, number=number, begin=indent(begin, 1), undo=indent(undo, 2),
                call=_arguments(bound.functions[number]),
            ))  # fmt: skip
    parts = [*whole, *taken.names, *taken.units.values(), *taken.addends.values(), *taken.posts]
    return _pasted(parts) + _OPERATIONS.format(
        name_columns=_columns(bound, taken.names, value_columns, 2),
        names=indent(names, 2),
        adding=_adding_text(bound, value_columns),
        combine=_combine_text(bound),
        unit_columns=_columns(bound, [*taken.units.values(), *whole], value_columns, 3),
        units=indent(units or ["pass"], 2),
        post_columns=_columns(bound, taken.posts, value_columns, 1),
        posts=indent(posts, 1),
        check=check,
    )


def _combine_text(bound: Bound) -> str:
    """The text that leaves out operations of a complete event."""
    taken = bound.operations
    assert taken is not None
    if not taken.adding and all(each is None for each in taken.overwriting):
        return ""
    added = []
    for site, columns in taken.adding.items():
        cells = [f"s.{added_field(site, number)}" for number in range(len(columns))]
        sums = "\n".join(f"{cell}[o] += {cell}[before]" for cell in cells)
        added.append(f"if before >= 0 and c.link[o] & MOST_SITES - 1 == {site}:\n{indent(sums, 1)}")
    work_out = "work_out(me, c, x, s, l, i, o)" if taken.adding else ""
    text = _COMBINE.format(work_out=work_out, added=indent(added, 2))
    return indent(text, 2)


def _adding_text(bound: Bound, value_columns: Sequence[str]) -> str:
    """The text that computes what operations add, and adds it."""
    taken = bound.operations
    assert taken is not None
    if not taken.adding:
        return ""
    sites, text = [], ""
    for site, columns in taken.adding.items():
        _, one = taken.sites[site]
        table, cells = one.row.table, [f"s.{added_field(site, number)}" for number in range(len(columns))]
        places = [f"s.table_rows[at + {layout.word(table, column)}]" for column in columns]
        function = taken.addends[site]
        small = " and ".join(f"is_small({cell}[o])" for cell in cells)
        sites.append(f"if site == {site}:\n    {function.name}({_arguments(function)})\n    is_small_enough = {small}")
        pairs = list(zip(places, cells, strict=True))
        add, add_before = ("\n".join(f"{place} += {cell}[{o}]" for place, cell in pairs) for o in ("o", "before"))
        text += _ADD.format(
            site=site, table=bound.tables.index(table),
            present="s.table_rows[at] = 1" if table.unknown == "insert" else "pass",
            is_roomy=" and ".join(f"is_roomy({place})" for place in places),
            leaves=" or ".join(f"leaves_int64({place}, {cell}[k])" for place, cell in pairs),
            add=indent(add, 1).strip(), add_before=indent(add_before, 2).strip(),
        )  # fmt: skip
    columns_text = _columns(bound, [*taken.addends.values()], value_columns, 1)
    return text + _WORK_OUT.format(columns=columns_text, sites=indent(sites, 1))


def _around(bound: Bound, number: int, only_mask: bool = False) -> tuple[str, str]:
    """The text before a function, and the text that undoes it if it is rejected."""
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
    return _FUNCTION.format(number=number, begin=begin, undo=indent(undo, 1), call=call).strip("\n")


def _arguments(function: GeneratedFunction) -> str:
    return ", ".join(function.parameters)


def _columns(bound: Bound, functions: Sequence[GeneratedFunction], value_columns: Sequence[str], levels: int) -> str:
    """Write how the columns of event `i` are read; the compiler leaves out those that these functions do not use."""
    lines = ["ts = c.tss[i]"]
    if bound.readable and functions:
        lines.append(f"source, entry, at = locate(c.refs[i], {directory_width(len(value_columns))})")
        for name, readable in bound.readable.items():
            lines += _column(name, readable, value_columns)
    return indent(lines, levels)


def _column(name: str, readable: Readable, value_columns: Sequence[str]) -> list[str]:
    index = value_columns.index(readable.column)
    view = {"float64": "view_f64", "uint8": "view_u8"}.get(readable.dtype, "view_i64")
    lines = [
        f"c_{name} = {'view_i64' if readable.is_list else view}(x[source, entry + values_at({index})], CHUNK)[at]",
        f"valid_{name} = x[source, entry + validity_at({index})]",
        f"n_{name} = valid_{name} == 0 or view_u8(valid_{name}, CHUNK)[at] != 0",
    ]
    if readable.kind == "bool":
        lines[0] += " != 0"
    if readable.is_list:
        for part, suffix in (("z", ".size"), ("h", ".nulls")):
            place = value_columns.index(readable.column + suffix)
            lines.append(f"{part}_{name} = view_i64(x[source, entry + values_at({place})], CHUNK)[at]")
    return lines
