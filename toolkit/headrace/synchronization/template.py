"""The text of a program's kernels: what its functions need beside the workers' loop.

Fields of the bundle ``s``::

    arena, arena_f, arena_h   what states are kept in (`memory.arena`): words, and the same memory as
                              float64 and as float32
    arena_free                its free lists, by owner: nodes, then workers
    nodes                     how many nodes there may be
    places                    by node, the first word of its state
    tags_below, parts_below   by node, which tags, and which parts of them, the nodes from it on down have
    column_at                 by input, where in its store the columns of all tags are
    temporaries               heads of containers that last for one call
    text_..., text_literals   as in custom operators, where there are strings
"""

from __future__ import annotations

from headrace.codegen.placed import beginning, ending, words_of
from headrace.codegen.text import indent
from headrace.memory.arena import CLASSES
from headrace.synchronization.binding import Bound, BoundTag

_IMPORTS = """
from headrace.codegen.modules import compiled as kernel
from headrace.egress.rings import reserve_slot
from headrace.ingress.store import CHUNK, TS
from headrace.ingress.store_kernel import entry_of, place_of, validity_at, values_at
from headrace.memory.arena import release
from headrace.memory.atomics import view_f64, view_i64, view_u8
from headrace.references import SOURCE_SHIFT
from headrace.synchronization.parts_kernel import part_of_text, part_of_word
from headrace.synchronization.words import ARRIVED, COUNT, OUT_HEAD, POSITION, SOURCE, WIDTH
from headrace.workers.worker_kernel import stopped

import numpy as np

"""

STATE_FULL = "the states of a program"
"""What a MemoryError of a kernel says if it is about state."""

_PART_OF_ID = """
@kernel
def part_of_id(s, text, parts):
    return part_of_text(view_u8(s.text_addresses[text], s.text_lengths[text]), 0, s.text_lengths[text], parts)

"""

_GIVE = """
@kernel
def give(me, c, o, l, i, row, ts{parameters}):
    slot = reserve_slot(o, me, l[OUT_HEAD])
    if slot < 0:
        return
    o.primary[me, slot] = ts
    o.a[me, slot] = (i << SOURCE_SHIFT) | row
    o.b[me, slot] = l[COUNT]
    o.at[me, slot] = l[ARRIVED]
{values}
    l[OUT_HEAD] += 1
    l[COUNT] += 1

"""

_STATES = """
@kernel
def begin_state(s, k):
{beginning}
    return


@kernel
def end_state(s, owner, k):
{ending}
    return

"""

_RUN = """
@kernel
def run_{number}(me, c, o, x, s, l, n, i, first, last):
    k, owner = s.places[n], n * {classes}
    row = first
    while row < last:
        entry, at = entry_of(row, c.given[i, WIDTH]), place_of(row)
        end = min(last, row + CHUNK - at)
        times = view_i64(x[i, entry + TS], CHUNK)
{columns}
        while row < end:
            ts = times[at]
            l[POSITION] = row
            l[COUNT] = 0
            user_{number}({arguments})
            row += 1
            at += 1
    return np.int64(0)

"""

_FORK = """
@kernel
def fork_states(me, c, s, l, n, left, right):
    k, owner = s.places[n], n * {classes}
    k_left, owner_left = s.places[left], left * {classes}
    k_right, owner_right = s.places[right], right * {classes}
    begin_state(s, k_left)
    begin_state(s, k_right)
    user_fork(me, c, s, l, k, owner, k_left, owner_left, k_right, owner_right, left, right)
    end_state(s, owner, k)
    return np.int64(0)


@kernel
def join_states(me, c, s, l, n, left, right):
    k, owner = s.places[n], n * {classes}
    k_left, k_other, owner_other = s.places[left], s.places[right], right * {classes}
    for word in range({words}):
        s.arena[k + word] = s.arena[k_left + word]
        s.arena[k_left + word] = 0
    user_join(me, c, s, l, k, owner, k_other, owner_other)
    end_state(s, owner_other, k_other)
    return np.int64(0)

"""

_NO_FORK = """
@kernel
def fork_states(me, c, s, l, n, left, right):
    return np.int64(0)


@kernel
def join_states(me, c, s, l, n, left, right):
    return np.int64(0)

"""

_DISPATCH = """
@kernel
def update_rows(me, c, o, x, s, l, n, tag, i, first, last):
    l[SOURCE] = i
{calls}
    return np.int64(0)

"""


def generate(bound: Bound) -> str:
    """Write the program's part of the module: what `build` takes."""
    program = bound.program
    words = words_of(program.state)
    text = _IMPORTS + (_PART_OF_ID if bound.has_texts else "")
    stored = [_stored(name, str(kind), at) for at, (name, kind) in enumerate(program.emits.items())]
    text += _GIVE.format(
        parameters="".join(f", e_{name}" for name in program.emits), values=indent("\n".join(stored), 1).rstrip("\n")
    )
    text += _STATES.format(
        beginning=indent("\n".join(beginning(program.state)) or "pass", 1).rstrip("\n"),
        ending=indent("\n".join(ending(program.state)) if words else "pass", 1).rstrip("\n"),
    )
    calls = []
    for number, one in enumerate(bound.tags):
        text += _run_text(number, one, bound.columns_at(number))
        calls += [f"if tag == {number}:", f"    return run_{number}(me, c, o, x, s, l, n, i, first, last)"]
    for one in (bound.fork, bound.join):
        text += "" if one is None else "\n" + one.preamble + one.source + "\n\n"
    text += _NO_FORK if bound.fork is None else _FORK.format(classes=CLASSES, words=words)
    return text + _DISPATCH.format(calls=indent("\n".join(calls), 1).rstrip("\n"))


def _run_text(number: int, one: BoundTag, first_column: int) -> str:
    lines = []
    for index, column in enumerate(one.columns):
        place = f"s.column_at[i, {first_column + index}]"
        view = {"float64": "view_f64", "uint8": "view_u8"}.get(column.dtype, "view_i64")
        lines.append(f"c_{column.name} = {view}(x[i, entry + values_at({place})], CHUNK)")
        lines.append(f"m_{column.name} = x[i, entry + validity_at({place})]")
    return "\n" + one.update.preamble + one.update.source + "\n\n" + _RUN.format(
        number=number,
        classes=CLASSES,
        columns=indent("\n".join(lines), 2).rstrip("\n"),
        arguments=", ".join(one.update.parameters),
    )


def _stored(name: str, kind: str, at: int) -> str:
    """Write a value into the result at `slot`."""
    if kind == "float32":
        return f"c.out_f[{at}, me, slot] = np.float64(np.float32(e_{name}))"
    if kind.startswith("float"):
        return f"c.out_f[{at}, me, slot] = e_{name}"
    return f"c.out[{at}, me, slot] = 1 if e_{name} else 0" if kind == "bool" else f"c.out[{at}, me, slot] = e_{name}"


__all__ = ["STATE_FULL", "generate"]
