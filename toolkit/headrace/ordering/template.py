"""The source text of a pipeline's kernels: what one chain of functions needs beside the workers' loop.

Fields of the bundle ``s``::

    arena, arena_f, arena_h   what states are kept in (`memory.arena`): words, and the same memory as
                              float64 and as float32
    arena_free                its free lists, by owner: buckets of all partitioned stages, then stages,
                              then workers
    owners                    the first free list of each stage, then of the workers: a field, not a constant, so that
                              another number of buckets needs no compilation
    key_heads                 a map for each bucket: key -> words of its state and, where keys are forgotten, when it
                              was last seen; key_limits: a bucket with this many keys is searched for keys to forget
    forget_after              by stage, event time for which a key is remembered
    stage_state               by stage, where a stateful one has its state in the arena
    temporaries               heads of containers that last for one call
    text_..., text_literals   as in custom operators, where there are strings; text_held: `held_texts`
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.codegen.functions import GeneratedFunction
from headrace.codegen.placed import beginning, ending
from headrace.codegen.text import indent
from headrace.ingress.store import directory_width
from headrace.memory.arena import CLASSES, HEAD
from headrace.ordering.binding import Bound, BoundStage, Column
from headrace.ordering.held_texts import hold_text
from headrace.ordering.words import FIRST_COLUMN

_IMPORTS = """
from headrace.codegen.modules import compiled as kernel
from headrace.ingress.store import CHUNK
from headrace.ingress.store_kernel import locate, validity_at, values_at
from headrace.memory.arena import COUNT as MAP_COUNT
from headrace.memory.atomics import view_f64, view_i64, view_u8
from headrace.memory.arena import release
from headrace.memory.maps_kernel import VALUE, fetch_entry, fetch_index, entry, map_put, map_remove
from headrace.memory.atomics import load_relaxed, prefetch, prefetch_for_write
from headrace.memory.held_texts_kernel import hold_entries, hold_text, hold_words
from headrace.memory.words import copy_words
from headrace.ordering.buffer_kernel import A_PLACE, cell, grow_output, label_of, record_of
from headrace.ordering.schedule_kernel import cost, is_schedulable, selectivity, workers_at, worklist
from headrace.ordering.words import (
    AT, BEGUN, BUCKET_COUNT, BUCKET_WORDS, BUCKETS, CHOOSING, FIRST, LAST, MOST, NULL_KEY, NULLS, ORIGIN, OUT_AT, OUT_BLOCK,
    OUT_LIMIT, POSITION, REF, STAGE, TICKET_BITS, TS,
)
from headrace.ordering.work_kernel import NO_MEMORY
from headrace.workers.worker_kernel import fail, stopped

"""

LEAST_LOOKED_FOR = 64
"""The least number of keys at which a bucket is searched for keys to forget."""
STATE_FULL = "the state of a pipeline"
"""The text of a kernel's MemoryError about state."""

_EMIT = """
@kernel
def give_{number}(c, l, r, ts{parameters}):
    at = l[OUT_AT]
    if at + {stride} > l[OUT_LIMIT]:
        at = grow_output(c, l, {stride})
        if at < 0:
            raise MemoryError(NO_MEMORY)
    at &= A_PLACE
    c.arena[at + TS] = ts
    c.arena[at + ORIGIN] = c.arena[r + ORIGIN]
    c.arena[at + AT] = c.arena[r + AT]
    c.arena[at + BEGUN] = c.arena[r + BEGUN]
    c.arena[at + REF] = c.arena[r + REF]
    c.arena[at + NULLS] = 0
{values}
    l[OUT_AT] = at + {stride}

"""

_KEEP = """
@kernel
def keep_{number}(c, l, r):
    at = l[OUT_AT]
    if at + {stride} > l[OUT_LIMIT]:
        at = grow_output(c, l, {stride})
        if at < 0:
            raise MemoryError(NO_MEMORY)
    at &= A_PLACE
    copy_words(c.arena, at, c.arena, r, {stride})
    l[OUT_AT] = at + {stride}

"""

_STATE = """
@kernel
def state_{number}(s, bucket, key):
    heads = bucket * {head}
    count = s.key_heads[heads + MAP_COUNT]
    place = map_put(s.arena_free, s.arena, bucket * {classes}, s.key_heads, heads, key, {words})
    if place < 0:
        raise MemoryError({full!r})
    k = place + VALUE
    if s.key_heads[heads + MAP_COUNT] != count:
        begin_{number}(s, k)
    return k

"""

_FORGETFUL = """
@kernel
def clear_{number}(s, owner, k):
{ending}


@kernel
def forget_{number}(s, bucket, ts):
    # Runs when the bucket has twice as many keys as the last run left, which makes a constant amount of work for each new key.
    heads, owner = bucket * {head}, bucket * {classes}
    if s.key_heads[heads + MAP_COUNT] < s.key_limits[bucket]:
        return
    for i in range(s.key_heads[heads + MAP_COUNT] - 1, -1, -1):
        place = entry(s.key_heads, heads, i, {words})
        if ts - s.arena[place + {words}] > s.forget_after[{number}]:
            clear_{number}(s, owner, place + VALUE)
            map_remove(s.arena_free, s.arena, owner, s.key_heads, heads, s.arena[place], {words})
    s.key_limits[bucket] = max(LEAST_LOOKED_FOR, 2 * s.key_heads[heads + MAP_COUNT])


@kernel
def recent_state_{number}(s, bucket, key, ts):
    heads = bucket * {head}
    forget_{number}(s, bucket, ts)
    count = s.key_heads[heads + MAP_COUNT]
    k = state_{number}(s, bucket, key)
    seen = k + {state_words}
    if s.key_heads[heads + MAP_COUNT] == count and ts - s.arena[seen] > s.forget_after[{number}]:
        clear_{number}(s, bucket * {classes}, k)
        begin_{number}(s, k)
    s.arena[seen] = ts
    return k

"""

_BEGIN = """
@kernel
def begin_{number}(s, k):
{values}
    return

"""

_RUN = """
@kernel
def run_stage_{number}(me, c, s, l, first, last):
    owner = s.owners[{number}] * {classes}
    k = {state}
    for position in range(first, last):
        if stopped(c):  # S1 of `work_kernel`: the rest of a batch of slow calls is left out
            return np.int64(0)
        l[POSITION] = position
        r = record_of(c, {number}, position)
        ts = c.arena[r + TS]
        nulls = c.arena[r + NULLS]
{columns}
{call}
    return np.int64(0)

"""

_OF_KEY = """
bucket = c.tickets[label_of(c, {number}, position)] >> TICKET_BITS
owner = bucket * {classes}
k = {find}_{number}(s, bucket, c.arena[r + {key}]{time})
"""

_FETCH = """
@kernel
def fetch_{number}(c, s, l, first, last):
    for position in range(first, last):
        bucket = load_relaxed(c.tickets, label_of(c, {number}, position)) >> TICKET_BITS
        prefetch_for_write(c.bucket, bucket * BUCKET_WORDS)
        prefetch(s.key_heads, bucket * {head})
        r = record_of(c, {number}, position)
        prefetch(c.arena, r)
        prefetch(c.arena, r + {last_word})
    for position in range(first, last):
        bucket = load_relaxed(c.tickets, label_of(c, {number}, position)) >> TICKET_BITS
        key = c.arena[record_of(c, {number}, position) + {key}]
        fetch_index(s.arena, s.key_heads, bucket * {head}, key, {words})
    for position in range(first, last):
        bucket = load_relaxed(c.tickets, label_of(c, {number}, position)) >> TICKET_BITS
        key = c.arena[record_of(c, {number}, position) + {key}]
        fetch_entry(s.arena, s.key_heads, bucket * {head}, key, {words})

"""

_KEY_NEEDED = """
if nulls & {bit} != 0:
    fail(c, NULL_KEY, me, c.arena[r + REF], ts, 0, {number})
    return np.int64(0)
"""

_ONE = """
before = l[OUT_AT] - l[OUT_BLOCK]
{call}
if l[OUT_AT] - l[OUT_BLOCK] - before != {stride} and not stopped(c):
    raise ValueError({not_once!r})
"""
NOT_ONCE = "map() takes a function that emits once for each tuple, and for this one it did not: flat_map() takes any number"
"""The text of a kernel's ValueError about that."""

_FILL = """
@kernel
def fill_rows(me, c, x, s, l, first, last):
    for position in range(first, last):
        r = record_of(c, 0, position)
        source, entry, at = locate(c.arena[r + REF], {width})
        nulls = 0
{columns}
        c.arena[r + NULLS] = nulls
    return np.int64(0)

"""

_FILLED = """
address = x[source, entry + validity_at({index})]
if address != 0 and view_u8(address, CHUNK)[at] == 0:
    nulls |= {bit}
    c.arena[r + {word}] = 0
else:
    c.{ring}[r + {word}] = {view}(x[source, entry + values_at({index})], CHUNK)[at]
"""

_DISPATCH = """
@kernel
def {name}(me, c, s, l, stage, {parameters}):
{calls}
    return np.int64(0)

"""


_POLICY = """
@kernel
def choose_own(me, c, s, l):
    found = -1
    most = 0.0
    for stage in range(c.form.shape[0]):
        if is_schedulable(c, stage):
            l[CHOOSING] = stage + 1
            urgency = user_policy(me, c, s, l, stage)
            if found < 0 or urgency > most:
                found = stage
                most = urgency
    l[CHOOSING] = 0
    return np.int64(found)

"""

_NO_POLICY = """
@kernel
def choose_own(me, c, s, l):
    return np.int64(-1)

"""


def generate(bound: Bound, value_columns: Sequence[str], policy: GeneratedFunction | None = None) -> str:
    """Write the pipeline's part of the module, which `build` takes.

    Parameters
    ----------
    bound : Bound
    value_columns : sequence of str
        Of the store, in order.
    policy : GeneratedFunction, optional
        The user's own schedule.
    """
    text = _IMPORTS + f"import numpy as np\n\nLEAST_LOOKED_FOR = {LEAST_LOOKED_FOR}\n"
    text += _fill_text(bound.stages[0], value_columns)
    text += _NO_POLICY if policy is None else policy.preamble + policy.source + "\n\n" + _POLICY
    runs, ends, fetches = [], [], []
    for number, one in enumerate(bound.stages):
        text += _stage_text(number, one)
        runs += [f"if stage == {number}:", f"    return run_stage_{number}(me, c, s, l, first, last)"]
        if one.stage.kind == "partitioned":
            fetches += [f"if stage == {number}:", f"    fetch_{number}(c, s, l, first, last)"]
        if one.end is not None:
            text += "\n" + one.end.preamble + one.end.source + "\n\n"
            ends += [
                f"if stage == {number}:",
                f"    r = record_of(c, {number}, position)",
                f"    end_{number}(me, c, s, l, r, s.stage_state[{number}], s.owners[{number}] * {CLASSES}, c.arena[r + TS])",
            ]
    text += hold_text(bound)
    text += _DISPATCH.format(name="run_stage", parameters="first, last", calls=indent(runs, 1))
    text += _DISPATCH.format(name="fetch_states", parameters="first, last", calls=indent(fetches or ["pass"], 1))
    return text + _DISPATCH.format(
        name="end_stage", parameters="position", calls=indent(ends or ["pass"], 1)
    )


def _word(column: Column, index: int) -> str:
    """A column of the record at `r`."""
    place = f"r + {FIRST_COLUMN + index}"
    if column.is_float:
        return f"c.arena_f[{place}]"
    return f"c.arena[{place}] != 0" if column.kind == "bool" else f"c.arena[{place}]"


def _stage_text(number: int, one: BoundStage) -> str:
    stage = one.stage
    out_stride = FIRST_COLUMN + len(one.emitted)
    text = ""
    if stage.kind == "filter":
        text += _KEEP.format(number=number, stride=out_stride)
    else:
        names = [f"e_{column.name}" for column in one.emitted]
        values = [_stored(column, index) for index, column in enumerate(one.emitted)]
        text += _EMIT.format(
            number=number, parameters="".join(f", {name}" for name in names), stride=out_stride,
            values=indent(values, 1),
        )  # fmt: skip
    if stage.is_kept:
        text += _BEGIN.format(number=number, values=indent(beginning(one.stage.state) or ["pass"], 1))
    if stage.kind == "partitioned":
        text += _STATE.format(number=number, head=HEAD, classes=CLASSES, words=one.entry_words, full=STATE_FULL)
        text += _FETCH.format(
            number=number, head=HEAD, last_word=FIRST_COLUMN + len(one.columns) - 1, key=one.key, words=one.entry_words
        )
        if stage.forget is not None:
            text += _forgetful_text(number, one)
    text += "\n" + one.function.preamble + one.function.source + "\n\n"
    lines = []
    for index, column in enumerate(one.columns):
        lines.append(f"c_{column.name} = {_word(column, index)}")
        lines.append(f"n_{column.name} = {f'nulls & {1 << index} == 0' if one.nullable else 'True'}")
    return text + _RUN.format(
        number=number,
        classes=CLASSES,
        state=f"s.stage_state[{number}]" if stage.kind == "stateful" else "np.int64(0)",
        columns=indent(lines or ["pass"], 2),
        call=indent(_call_text(number, one, out_stride), 2),
    )


def _forgetful_text(number: int, one: BoundStage) -> str:
    """Write how keys are forgotten: the memory of their containers is given back first."""
    return _FORGETFUL.format(
        number=number, head=HEAD, classes=CLASSES, words=one.entry_words, state_words=one.state_words,
        ending=indent(ending(one.stage.state), 1),
    )  # fmt: skip


def _call_text(number: int, one: BoundStage, out_stride: int) -> str:
    call = f"user_{number}({', '.join(one.function.parameters)})"
    if one.stage.kind == "filter":
        return f"if {call}:\n    keep_{number}(c, l, r)"
    if one.stage.kind == "map":
        return _ONE.format(call=call, stride=out_stride, not_once=NOT_ONCE).strip("\n")
    if one.stage.kind == "partitioned":
        find, time = ("state", "") if one.stage.forget is None else ("recent_state", ", ts")
        text = _OF_KEY.format(number=number, classes=CLASSES, key=one.key, find=find, time=time).strip("\n") + "\n" + call
        if one.nullable:
            text = _KEY_NEEDED.format(number=number, bit=1 << (one.key - FIRST_COLUMN)).strip("\n") + "\n" + text
        return text
    return call


def _stored(column: Column, index: int) -> str:
    """Write a value into the output at `at`."""
    place, value = f"at + {FIRST_COLUMN + index}", f"e_{column.name}"
    if column.kind == "float32":
        return f"c.arena_f[{place}] = np.float64(np.float32({value}))"
    if column.is_float:
        return f"c.arena_f[{place}] = {value}"
    return f"c.arena[{place}] = 1 if {value} else 0" if column.kind == "bool" else f"c.arena[{place}] = {value}"


def _fill_text(first: BoundStage, value_columns: Sequence[str]) -> str:
    lines = []
    for index, column in enumerate(first.columns):
        lines.append(_FILLED.format(
            index=value_columns.index(column.column), bit=1 << index, word=FIRST_COLUMN + index,
            ring="arena_f" if column.is_float else "arena",
            view={"float64": "view_f64", "uint8": "view_u8"}.get(column.dtype, "view_i64"),
        ).strip("\n"))  # fmt: skip
    return _FILL.format(width=directory_width(len(value_columns)), columns=indent(lines or ["pass"], 2))


__all__ = ["STATE_FULL", "generate"]
