"""The source text of a program's kernels: what its functions need beside the workers' loop.

Fields of the bundle ``s``::

    arena, arena_f, arena_h   what states are kept in (`memory.arena`): words, and the same memory as
                              float64 and as float32
    arena_free                its free lists, by owner: nodes, then workers
    nodes                     how many nodes there may be
    places                    by node, the first word of its state
    types                     by node, the number of its state's type
    tags_below, parts_below   by node, which tags, and which parts of them, the node and those below have
    column_at                 by input, where in its store the columns of all tags are
    temporaries               heads of containers that last for one call
    text_..., text_literals   as in custom operators, where there are strings
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from headrace.codegen.bindings import TEMPORARIES
from headrace.codegen.kinds import MapOf, SetOf, width_of
from headrace.codegen.placed import beginning, cell, ending, is_grown, offsets, word_kinds, words_of
from headrace.codegen.state import StateField
from headrace.codegen.text import indent
from headrace.memory.arena import CLASSES, HEAD
from headrace.synchronization.binding import Bound, BoundTag
from headrace.synchronization.entries import IMPORTS, entries_text, run_entry_text
from headrace.synchronization.pieces import columns_text, rows_text
from headrace.synchronization.words import FIRST_RESULT_VALUE

_IMPORTS = """
from headrace.codegen.modules import compiled as kernel
from headrace.codegen.modules import compiled_within
from headrace.egress.rings import reserve_slot
from headrace.ingress.store import CHUNK, TS
from headrace.ingress.store_kernel import entry_of, place_of, validity_at, values_at
from headrace.memory.arena import release
from headrace.memory.atomics import view_f64, view_i64, view_u8
from headrace.memory.local_words import local_f32, local_f64, local_i64
from headrace.references import SOURCE_SHIFT
from headrace.synchronization.parts_kernel import part_of_text, part_of_word
from headrace.memory.arena import COUNT as ENTRIES
from headrace.synchronization.words import COPIED, SPARED
from headrace.synchronization.words import RESULT_ARRIVED, RESULT_NUMBER, RESULT_PLACE, RESULT_TS
from headrace.synchronization.words import ARRIVED, COUNT, OUT_HEAD, POSITION, SOURCE, PIECE, PIECE_WORDS, WIDTH
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
@compiled_within
def give(me, o, l, out, i, row, ts{parameters}):
    slot = reserve_slot(o, me, l[OUT_HEAD])
    if slot < 0:
        return
    out[RESULT_TS][slot] = ts
    out[RESULT_PLACE][slot] = (i << SOURCE_SHIFT) | row
    out[RESULT_NUMBER][slot] = l[COUNT]
    out[RESULT_ARRIVED][slot] = l[ARRIVED]
{values}
    l[OUT_HEAD] += 1
    l[COUNT] += 1

"""

_STATES = """
@kernel
def begin_state{of}(s, k):
{beginning}
    return


@kernel
def end_state{of}(s, owner, k):
{ending}
    return


@kernel
def state_bytes_of{of}(s, k):
    return np.int64({bytes})

"""

_RUN = """
@kernel
def run_{number}(me, c, o, x, s, l, n, i, pieces):
{quickly}    k, owner = s.places[n], n * {classes}
    a, a_f, a_h = s.arena, s.arena_f, s.arena_h
{out}{rows}    return np.int64(0)

"""

_IN_LOCALS = """
@kernel
def run_in_locals_{number}(me, c, o, x, s, l, n, i, pieces):
    # The state's numbers are kept in registers and written after the last row, so a row that fails leaves nothing behind.
    place, k, owner = s.places[n], 0, n * {classes}
    a, a_f, a_h = {arrays}
{load}
{rows}{store}
    return np.int64(0)

"""

_QUICKLY = """    is_done = True
    try:
        run_in_locals_{number}(me, c, o, x, s, l, n, i, pieces)
    except Exception:
        is_done = False  # run again, row by row on the state, to fail at the same row and leave the same state
    if is_done:
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
    together = state_bytes_of(s, k)
    user_fork(me, c, s, l, k, owner, k_left, owner_left, k_right, owner_right, left, right)
    copied = state_bytes_of(s, k)  # without what was handed over as a whole
    c.work[n, COPIED] += copied
    c.work[n, SPARED] += together - copied
    end_state(s, owner, k)
    return np.int64(0)


@kernel
def join_states(me, c, s, l, n, left, right):
    k, owner = s.places[n], n * {classes}
    k_left, k_other, owner_other = s.places[left], s.places[right], right * {classes}
    together = state_bytes_of(s, k_left) + state_bytes_of(s, k_other)
    for word in range({words}):
        s.arena[k + word] = s.arena[k_left + word]
        s.arena[k_left + word] = 0
    user_join(me, c, s, l, k, owner, k_other, owner_other)
    copied = state_bytes_of(s, k_other)
    c.work[n, COPIED] += copied
    c.work[n, SPARED] += together - copied
    end_state(s, owner_other, k_other)
    return np.int64(0)

"""

_TYPED_FORKS = """
@kernel
def fork_states(me, c, s, l, n, left, right):
    k, owner = s.places[n], n * {classes}
    k_left, owner_left = s.places[left], left * {classes}
    k_right, owner_right = s.places[right], right * {classes}
    of, of_left, of_right = s.types[n], s.types[left], s.types[right]
{forks}
    return np.int64(0)


@kernel
def join_states(me, c, s, l, n, left, right):
    k, owner = s.places[n], n * {classes}
    k_left, owner_left = s.places[left], left * {classes}
    k_right, owner_right = s.places[right], right * {classes}
    of, of_left, of_right = s.types[n], s.types[left], s.types[right]
{joins}
    return np.int64(0)

"""

_TYPED_FORK = """if of == {0} and of_left == {1} and of_right == {2}:
    begin_state_{1}(s, k_left)
    begin_state_{2}(s, k_right)
    c.work[n, COPIED] += state_bytes_of_{0}(s, k)
    user_fork_{number}(me, c, s, l, k, owner, k_left, owner_left, k_right, owner_right, left, right)
    end_state_{0}(s, owner, k)
    return np.int64(0)"""

_TYPED_JOIN = """if of == {0} and of_left == {1} and of_right == {2}:
    begin_state_{0}(s, k)
    c.work[n, COPIED] += state_bytes_of_{1}(s, k_left) + state_bytes_of_{2}(s, k_right)
    user_join_{number}(me, c, s, l, k, owner, k_left, owner_left, k_right, owner_right)
    end_state_{1}(s, owner_left, k_left)
    end_state_{2}(s, owner_right, k_right)
    return np.int64(0)"""

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
def update_rows(me, c, o, x, s, l, n, tag, i, pieces):
    l[SOURCE] = i
{calls}
    return np.int64(0)

"""


def generate(bound: Bound) -> str:
    """Write the program's part of the module, which `build` takes."""
    program = bound.program
    types = list(program.types.values())
    is_typed = len(types) > 1
    text = _IMPORTS + (IMPORTS if bound.by_entry else "") + (_PART_OF_ID if bound.has_texts else "")
    kinds = [str(kind) for kind in bound.emits.values()]
    stored = [_stored(kind, at) for at, kind in enumerate(kinds)]
    rings = _rings_text(kinds)
    text += _GIVE.format(
        parameters="".join(f", e_{at}" for at in range(len(bound.emits))), values=indent(stored, 1)
    )
    for of, fields in enumerate(types):
        text += _STATES.format(
            of=f"_{of}" if is_typed else "",
            beginning=indent(beginning(fields) or ["pass"], 1),
            ending=indent(ending(fields) if words_of(fields) else ["pass"], 1),
            bytes=_bytes_text(fields),
        )
    calls = []
    for number, one in enumerate(bound.tags):
        if one.tag.name in bound.by_entry:
            calls.append(f"if tag == {len(bound.tags) + number}:")
            calls.append(f"    return run_entry_{number}(me, c, o, x, s, l, n, i, pieces)")
        for of in one.updates:
            name = f"{number}_{of}" if is_typed else f"{number}"
            text += _run_text(name, one, of, types[of], bound.columns_at(number), rings)
            calls.append(f"if tag == {number} and s.types[n] == {of}:" if is_typed else f"if tag == {number}:")
            calls.append(f"    return run_{name}(me, c, o, x, s, l, n, i, pieces)")
    for one in bound.forks:
        text += "".join("\n" + each.preamble + each.source + "\n\n" for each in (one.fork, one.join))
    if bound.by_entry:
        text += entries_text(bound, TEMPORARIES * HEAD)
        for number, one in enumerate(bound.tags):
            if one.tag.name in bound.by_entry:
                text += run_entry_text(bound, number, one, columns_text(one, bound.columns_at(number)), rings)
    return text + _forks_text(bound) + _DISPATCH.format(calls=indent(calls, 1))


def _forks_text(bound: Bound) -> str:
    """Write fork and join of a node, for all types of its state and of its children's."""
    if not bound.forks:
        return _NO_FORK
    types = list(bound.program.types.values())
    if len(types) == 1:
        return _FORK.format(classes=CLASSES, words=words_of(types[0]))
    forks, joins = (
        "\n".join(text.format(*one.types, number=number) for number, one in enumerate(bound.forks))
        for text in (_TYPED_FORK, _TYPED_JOIN)
    )
    return _TYPED_FORKS.format(classes=CLASSES, forks=indent(forks, 1), joins=indent(joins, 1))


def _run_text(
    name: str, one: BoundTag, of: int, state: Mapping[str, StateField], first_column: int, rings: str
) -> str:
    """Write an update, and the loop over rows of its tag; where possible, also one that keeps the state in locals."""
    update = one.updates[of]
    parts = {"number": name, "classes": CLASSES}
    call, columns = f"user_{name}({', '.join(update.parameters)})", columns_text(one, first_column)
    text = "\n" + update.preamble + update.source + "\n\n"
    fields = one.in_numbers.get(of, ())
    if fields:
        text += _IN_LOCALS.format(
            **parts, **_locals_text(state, fields, update.writes.get("state", ())),
            rows=rows_text(columns, call, says_which=False),
        )  # fmt: skip
    quickly = _QUICKLY.format(number=name) if fields else ""
    out = rings if "out" in update.parameters else ""
    return text + _RUN.format(**parts, quickly=quickly, out=out, rows=rows_text(columns, call))


def _rings_text(kinds: Iterable[str]) -> str:
    """The columns of results in a worker's ring, those common to all rings first.

    They are looked up once a call, and `give` is inlined in the text: LLVM would look up for each result what is not certain
    to be needed, and finds `give` too large to inline. A page view takes 14 ns this way instead of 23, and 16 ns without
    the first measure.
    """
    columns = [f"c.out{'_f' if kind.startswith('float') else ''}[{at}, me]" for at, kind in enumerate(kinds)]
    return f"    out = ({', '.join(['o.primary[me]', 'o.a[me]', 'o.b[me]', 'o.at[me]', *columns])})\n"


def _locals_text(state: Mapping[str, StateField], fields: Iterable[str], written: Collection[str]) -> dict[str, str]:
    """The arrays that hold the numbers of a state, and the statements that load them into locals and store them back."""
    at, kinds, count = offsets(state), word_kinds(state), words_of(state)
    found = {kinds[name] for name in fields}
    arrays = [
        f"local_i64({count})" if "int64" in found else "s.arena",
        f"local_f64({count})" if "float64" in found else "s.arena_f",
        f"local_f32({2 * count})" if "float32" in found else "s.arena_h",
    ]
    pairs = {name: (cell(kinds[name], f"k + {at[name]}", "a"), cell(kinds[name], f"place + {at[name]}")) for name in fields}
    load = [f"{here} = {there}" for here, there in pairs.values()]
    store = [f"{there} = {here}" for name, (here, there) in pairs.items() if name in written]
    return {
        "arrays": ", ".join(arrays),
        "load": indent(load, 1),
        "store": indent(store or ["pass"], 1),
    }


def _bytes_text(fields: Mapping[str, StateField]) -> str:
    """The text for the bytes of a state, including its containers."""
    held = [
        f"{width_of(one.kind) + isinstance(one.kind, MapOf | SetOf)} * s.arena[k + {offsets(fields)[name]} + ENTRIES]"
        for name, one in fields.items()
        if is_grown(one.kind)
    ]
    return f"8 * ({' + '.join([str(words_of(fields)), *held])})"


def _stored(kind: str, at: int) -> str:
    """Write a value into the result at `slot`; see `_rings_text`."""
    value = f"np.float64(np.float32(e_{at}))" if kind == "float32" else f"1 if e_{at} else 0" if kind == "bool" else f"e_{at}"
    return f"out[{FIRST_RESULT_VALUE + at}][slot] = {value}"


__all__ = ["STATE_FULL", "generate"]
