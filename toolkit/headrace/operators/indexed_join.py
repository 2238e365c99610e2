"""Join with an index in the shared state: an arriving tuple meets only the stored ones in its cells.

A band |x - a| <= w is a key after all: cut the axis into cells a little wider
than 2w, and a tuple can match only what is stored in the two cells (three or
four with rounding) that [x - w, x + w] touches. Equal values are the case of
one cell. Two conditions, where there are two, make a grid. So the join is what
J+ is for any keys: a stored tuple has one key, its cell; a probing tuple has the
set of the cells it touches (f_MK); the instance that owns a cell stores its
tuples and makes the comparisons in it, and a reconfiguration moves none of them.

Cells are numbered by a hash that is linear in both coordinates, so that the cells
one tuple touches are always different ones; far cells that share a number are
merely compared in vain. The number's low bits are the bucket that the mapping
gives to an instance. A cell holds a list of blocks of `BLOCK_ROWS` tuples, oldest
first: the columns that conditions need, side by side for one vector comparison,
and the references. Whole blocks are given back once their last tuple is out of
the window, when the cell is next stored into, or by a hand that goes round.

State       besides that of `join_shape`: HEADS of each side, first and last
            block of each cell (0: none); the blocks; NEXT_BLOCK, blocks ever
            taken; per worker the blocks it has to give, and its HAND
Invariants  I1  a cell and its blocks are read and written by the owner of the
                cell's bucket only. Owners change at the barrier, which orders
                all that was written before it (`membership`, B1 to B5), so
                none of it is atomic but NEXT_BLOCK
            I2  blocks of a cell are in the order of the input, so the times of
                a list never fall, and whole blocks expire from its front
            I3  a reference is followed only for a tuple in the window: another
                one's chunk may be gone
            I4  the cells of a tuple have different numbers: no pair is met twice

Tried       (one thread, windows of 100,000 tuples a side, a busy machine) without
            asking for a group's blocks before they are used: 1.2 us a tuple
            instead of 0.7. Blocks of 16: 14.3 comparisons a tuple instead of
            12.4, and no faster. Asking ahead for what the hand will look at: no
            difference that could be told from noise.
Source      f_MK and the cells' ownership are STRETCH's O+; its join (Operator
            10) compares all pairs. Cells for bands: the grid of main-memory
            epsilon joins.
Checked     tests/headrace/operators/test_indexed_join.py
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headrace.codegen.text import indent
from headrace.memory.cells import CACHE_LINE, padded_cells, reserved
from headrace.operators.join_shape import (
    FIRST_INDEX,
    GROUP,
    VIEWS,
    Band,
    JoinShape,
    Side,
    Term,
    common_text,
    exact,
    load_tuple,
    numbered_fields,
    probe_buffers,
    sides_of,
)

SLOT_BITS = 16
SLOTS = 1 << SLOT_BITS
"""Cells that are told apart."""
BLOCK_ROWS = 8
"""A cell of a fine grid holds few tuples: small blocks keep it in few cache lines."""
MOST_BLOCKS = 1 << 25
MOST_TERMS = 2
SPAN = 5
"""Cells a tuple touches in one dimension, at most: 2w in cells of 2w, rounding on both sides, and one to spare."""
FACTORS = (0x609FD4D5, 0x48F086D3)
"""Odd, below 2**31 (the R2 sequence), such that cells less than SPAN apart have different numbers (tested)."""
INDEX_FULL = 90

_LEAST_WIDTH = 1e-290


def choose_terms(on_keys: bool, bands: list[tuple[Band, int | float]]) -> tuple[Term, ...]:
    """What to find stored tuples by: keys, then values that must be equal, then bands, as they were written."""
    terms = [Term("keys")] if on_keys else []
    terms += [Term("equal", number) for number, (_, width) in enumerate(bands) if width == 0]
    terms += [Term("band", number) for number, (_, width) in enumerate(bands) if 0 < width < float("inf")]
    return tuple(terms[:MOST_TERMS])


def index_scratch(shape: JoinShape, widths: list[int | float]) -> list[np.ndarray]:
    """Scratch memory beyond that of every join: sides, own slots, slots to probe, bits of floats, widths."""
    cells = np.zeros((MOST_TERMS, 4), np.int64)
    measures = np.zeros((MOST_TERMS, 2), np.float64)
    for number, term in enumerate(shape.index):
        if term.kind == "band":
            width = max(float(widths[term.band]), _LEAST_WIDTH)
            # A cell of whole numbers holds 2w + 1 of them: the range of one probe.
            size = 2 * width + (1.0 if shape.bands[term.band].dtype.startswith("int") else 0.0)
            measures[number] = width, 1.0 / size
    return [
        np.zeros(GROUP, np.int64),
        np.zeros(GROUP, np.int64),
        np.zeros((GROUP, SPAN**MOST_TERMS + 1), np.int64),
        np.zeros(1, np.float64),
        cells,
        measures,
    ]


def allocate_index(shape: JoinShape, instances: int) -> tuple[np.ndarray, ...]:
    """HEADS and blocks of the left and of the right side, shared words, words of each worker."""
    pools = [reserved(MOST_BLOCKS * _Layout(shape, side).size // 8, np.int64, huge_pages=True) for side in sides_of(shape)]
    words = padded_cells(4)
    for side, pool in enumerate(pools):
        words[_POOL[side] * 16] = pool.ctypes.data
    return (
        reserved(SLOTS, np.int64, huge_pages=True),
        reserved(SLOTS, np.int64, huge_pages=True),
        *pools,
        words,
        np.zeros((instances, 16), np.int64),
    )


def block_bytes(shape: JoinShape) -> tuple[int, int]:
    """Bytes of a block of either side."""
    left, right = sides_of(shape)
    return _Layout(shape, left).size, _Layout(shape, right).size


_POOL = (2, 3)
"""Cells of the shared words that hold where the pools are."""


class _Layout:
    """Where things are in a block, in bytes: header and compared columns first, then (reference, event time)s."""

    def __init__(self, shape: JoinShape, side: Side):
        is_left = side.name == "left"
        at = self.keys = _HEADER_BYTES
        if shape.on_keys:
            at += 4 * BLOCK_ROWS
        self.column: dict[int, int] = {}
        for column in sorted({band.left if is_left else band.right for band in shape.bands}):
            self.column[column] = at
            at += max(4, np.dtype(side.dtypes[column]).itemsize) * BLOCK_ROWS
        self.references = -(-at // CACHE_LINE) * CACHE_LINE
        self.size = self.references + 16 * BLOCK_ROWS


_HEADER_BYTES = 16

_CONSTANTS = '''
from headrace.memory.atomics import CELL, fetch_add, prefetch
from headrace.operators.membership import LOADED, fail

SLOTS = {slots}
SLOT_SHIFT = {slot_shift}
LOW_BITS = {low_bits}
BLOCK_ROWS = {block_rows}
MOST_BLOCKS = {most_blocks}
INDEX_FULL = {index_full}
LINK, LAST_TS = range(2)  # words of a block's header; LINK: next block << COUNT_BITS | tuples in this one
COUNT_BITS = 8
COUNT_MASK = 255
LEFT, RIGHT = 1, 2
HAND = 2
FARTHEST = 2.0**50
SLACK = 2.0**-50


@kernel
def begin(c, l, s, buffer):
    pass


@kernel
def cell_of(value, inverse):
    """Which cell holds a value. It never falls while the value grows; very far ones share a cell."""
    return np.int64(np.floor(min(max((value + 0.5) * inverse, -FARTHEST), FARTHEST)))


@kernel
def fold(bits):
    """For what is equal or not: no bit without effect."""
    return (bits ^ (bits >> 31) ^ (bits >> 47)) & LOW_BITS


@kernel
def take_block(me, s, side):
    """A block for this worker; 0 if there are no more."""
    free = s[8]
    block = free[me, side]
    if block != 0:
        free[me, side] = view_i64(s[7][({pool} + side) * CELL] + block * ({left_bytes} if side == 0 else {right_bytes}), 2)[LINK]
        return block
    block = fetch_add(s[7], side * CELL, 1) + 1
    return block if block < MOST_BLOCKS else 0

'''

_HOLDS = '''
@kernel
def holds_{side}(x, l, ref, other{parameters}):
    """The user's predicate, with the pair on record."""
    l[LATER] = ref
    l[EARLIER] = other
    source = other >> SOURCE_SHIFT
    row = other & ROW_MASK
    place = entry(row, {width})
    at = row & (CHUNK - 1)
    return user_predicate({arguments})

'''

_SIDE = '''
@kernel
def expire_{side}(me, s, slot, horizon):
    """Take back the blocks at the front of a cell whose tuples are all out of the window."""
    heads, free = s[{heads}], s[8]
    pool = s[7][{pool} * CELL]
    word = heads[slot]
    first = word >> 32
    if first == 0:
        return
    last = word & 0xFFFFFFFF
    while first != 0:
        head = view_i64(pool + first * {bytes}, 2)
        if head[LAST_TS] > horizon:
            break
        following = head[LINK] >> COUNT_BITS
        head[LINK] = free[me, {number}]
        free[me, {number}] = first
        first = following
    heads[slot] = (first << 32) | last if first != 0 else 0


@kernel
def insert_{side}(me, c, s, buffer, k, slot, ref, ts, horizon):
    """Store a tuple in its cell. -1 if there is no room for one more block: the run fails."""
    expire_{side}(me, s, slot, horizon)
    heads = s[{heads}]
    pool = s[7][{pool} * CELL]
    word = heads[slot]
    first = word >> 32
    last = word & 0xFFFFFFFF
    count = 0
    if first != 0:
        count = view_i64(pool + last * {bytes}, 2)[LINK]  # the last one has no next
    if first == 0 or count == BLOCK_ROWS:
        block = take_block(me, s, {number})
        if block == 0:
            fail(c, INDEX_FULL, me, ref, ts, 0, 0)
            return -1
        if first == 0:
            first = block
        else:
            view_i64(pool + last * {bytes}, 2)[LINK] = block << COUNT_BITS | BLOCK_ROWS
        last = block
        heads[slot] = (first << 32) | last
        count = 0
    base = pool + last * {bytes}
{writes}
    entries = view_i64(base + {references}, 2 * BLOCK_ROWS)
    entries[2 * count] = ref
    entries[2 * count + 1] = ts
    head = view_i64(base, 2)
    head[LINK] = count + 1
    head[LAST_TS] = ts
    note(me, c, slot, 0)
    return 0


@kernel
def cells_{side}(k, buffer):
    """Which cells a tuple of this side touches, and the one it is stored in. False: it matches nothing."""
    cells = buffer[{cells}]
{cell_lines}
    return True


@kernel
def probe_{side}(me, c, o, x, s, l, buffer, k, seq, at_ns, ref, ts):
    """Compare a tuple with the stored {side} ones in the cells it touches, where they are this instance's."""
    heads = s[{heads}]
    pool = s[7][{pool} * CELL]
    slots = buffer[{slots}]
    oldest = ts - l[SIZE]
{setup}
    for q in range(1, slots[k, 0] + 1):
        slot = slots[k, q]
        block = heads[slot] >> 32
        compared = 0
        while block != 0:
            base = pool + block * {bytes}
            link = view_i64(base, 2)[LINK]
            count = link & COUNT_MASK
            block = link >> COUNT_BITS
            prefetch(view_i64(pool + block * {bytes}, 8), 0)
{block_views}
            found = False
            for i in range(BLOCK_ROWS):
                found = found | ({condition})
            compared += count
            if found:
                entries = view_i64(base + {references}, 2 * BLOCK_ROWS)
                for i in range(count):
                    if {condition}:
                        other = entries[2 * i]
                        other_ts = entries[2 * i + 1]
                        if other_ts > oldest{user_condition}:
                            if emit(me, o, s, l, seq, at_ns, ref, ts, other, other_ts, {probe_is_right}) < 0:
                                return -1
        note(me, c, slot, compared)
        c.meter[me, COMPARISONS] += compared
    return 0

'''

_BY_CELL = '''@kernel
def number_of(first, second, _):
    """Which slot a cell has."""
    return mixed(first, second)
'''

_BY_KEY = '''@kernel
def number_of(first, second, key_bucket):
    """Which slot a cell has. Ids depend on the order of arrival, their buckets do not: buckets of cells must not."""
    return (mixed(first, second) & ~BUCKET_MASK) | (mixed(key_bucket, second) & BUCKET_MASK)
'''

_PROCESS = '''
@kernel
def note(me, c, slot, work):
    """Book what a cell cost, for its bucket at once: nothing is left to sample."""
    c.load[me, slot & BUCKET_MASK] += work + 1
    c.meter[me, UPDATES] += work + 1
    c.meter[me, LOADED] += work + 1


@kernel
def mixed(first, second):
    return (((first & LOW_BITS) * {factor_0} + (second & LOW_BITS) * {factor_1}) & LOW_BITS) >> SLOT_SHIFT


{number_of}
@kernel
def find_slots(me, owner, k, buffer):
    """Note the slots of a tuple's cells that this instance owns: those to probe, and the one to store it in."""
    cells, slots = buffer[{cells}], buffer[{slots}]
    found = 0
    for first in range(cells[0, 0], cells[0, 1] + 1):
        for second in range(cells[1, 0], cells[1, 1] + 1):
            slot = number_of(first, second, cells[0, 3])
            if owner[slot & BUCKET_MASK] == me:
                found += 1
                slots[k, found] = slot
    slots[k, 0] = found
    slot = number_of(cells[0, 2], cells[1, 2], cells[0, 3])
    buffer[{own}][k] = slot if owner[slot & BUCKET_MASK] == me else -1


@kernel
def fetch_blocks(heads, slot, pool, size, both):
    """Ask for a cell's first block, and for its last."""
    word = heads[slot]
    block = word >> 32
    if block != 0:
        head = view_i64(pool + block * size, 16)
        prefetch(head, 0)
        prefetch(head, 8)
        last = word & 0xFFFFFFFF
        if both and last != block:
            head = view_i64(pool + last * size, 16)
            prefetch(head, 0)
            prefetch(head, 8)


@kernel
def process_group(me, g, c, o, x, s, l, buffer, row, start, first_seq, n):
    sides, merged = s[0], s[2]
    ts = g.out_ts[row, start : start + n]
    refs = g.out_ref[row, start : start + n]
    ats = g.out_at[row, start : start + n]
    owner = c.owner[l[IN_FORCE]]
    kinds, own, slots = buffer[{kinds}], buffer[{own}], buffer[{slots}]
    horizon = ts[0] - l[SIZE]
    forget(me, x, s, horizon)
    # First all that is needed is asked for, then it is used: one wait for memory instead of hundreds.
    for k in range(n):
        kinds[k] = 0
        if sides[refs[k] >> SOURCE_SHIFT] == 0:
            if load_left(x, refs[k], k, buffer) and cells_left(k, buffer):
                kinds[k] = LEFT
        elif load_right(x, refs[k], k, buffer) and cells_right(k, buffer):
            kinds[k] = RIGHT
        if kinds[k] != 0:
            find_slots(me, owner, k, buffer)
            mine, others = (s[3], s[4]) if kinds[k] == LEFT else (s[4], s[3])
            for q in range(1, slots[k, 0] + 1):
                prefetch(others, slots[k, q])
            if own[k] >= 0:
                prefetch(mine, own[k])
    for k in range(n):
        if kinds[k] != 0:
            for q in range(1, slots[k, 0] + 1):
                if kinds[k] == LEFT:
                    fetch_blocks(s[4], slots[k, q], s[7][{pool_right} * CELL], {right_bytes}, False)
                else:
                    fetch_blocks(s[3], slots[k, q], s[7][{pool_left} * CELL], {left_bytes}, False)
            if own[k] >= 0:
                if kinds[k] == LEFT:
                    fetch_blocks(s[3], own[k], s[7][{pool_left} * CELL], {left_bytes}, True)
                else:
                    fetch_blocks(s[4], own[k], s[7][{pool_right} * CELL], {right_bytes}, True)
    for k in range(n):
        ref = refs[k]
        if kinds[k] == LEFT:
            if probe_right(me, c, o, x, s, l, buffer, k, first_seq + k, ats[k], ref, ts[k]) < 0:
                return -1
            if own[k] >= 0 and insert_left(me, c, s, buffer, k, own[k], ref, ts[k], horizon) < 0:
                return -1
        elif kinds[k] == RIGHT:
            if probe_left(me, c, o, x, s, l, buffer, k, first_seq + k, ats[k], ref, ts[k]) < 0:
                return -1
            if own[k] >= 0 and insert_right(me, c, s, buffer, k, own[k], ref, ts[k], horizon) < 0:
                return -1
        merged[me, ref >> SOURCE_SHIFT] = (ref & ROW_MASK) + 1
    sweep(me, s, owner, n // 4 + 1, horizon)
    return 0


@kernel
def sweep(me, s, owner, count, horizon):
    """Go on through the cells: one that is never stored into again must not keep its tuples."""
    hand = s[8][me, HAND]
    for _ in range(count):
        if owner[hand & BUCKET_MASK] == me:
            expire_left(me, s, hand, horizon)
            expire_right(me, s, hand, horizon)
        hand = (hand + 1) & (SLOTS - 1)
    s[8][me, HAND] = hand

'''


def generate(shape: JoinShape) -> str:
    """Write the operator's part of the kernel module; `shape` has an index."""
    left, right = sides_of(shape)
    places = _places(shape)
    sizes = {"left_bytes": _Layout(shape, left).size, "right_bytes": _Layout(shape, right).size}
    text = common_text(shape) + _CONSTANTS.format(
        slots=SLOTS,
        slot_shift=31 - SLOT_BITS,
        low_bits=2**31 - 1,
        block_rows=BLOCK_ROWS,
        most_blocks=MOST_BLOCKS,
        index_full=INDEX_FULL,
        pool=_POOL[0],
        **sizes,
    )
    text += load_tuple(left, []) + load_tuple(right, [])
    text += _side_text(shape, left, right, places) + _side_text(shape, right, left, places)
    text += _PROCESS.format(
        number_of=_BY_KEY if shape.on_keys else _BY_CELL,
        factor_0=FACTORS[0],
        factor_1=FACTORS[1],
        pool_left=_POOL[0],
        pool_right=_POOL[1],
        **places,
        **sizes,
    )
    return numbered_fields(text)


def _places(shape: JoinShape) -> dict[str, int]:
    """Numbers of the arrays of `index_scratch`."""
    first = len(probe_buffers(shape)) + 2 * len(shape.bands)
    names = ("kinds", "own", "slots", "bits", "cells", "measures")
    return {name: first + number for number, name in enumerate(names)}


def _side_text(shape: JoinShape, side: Side, other: Side, places: dict[str, int]) -> str:
    """Write the kernels that store tuples of `side`, and compare them with tuples of `other` that arrive."""
    layout = _Layout(shape, side)
    number = 0 if side.name == "left" else 1
    writes = []
    views, setup = [], []
    if shape.on_keys:
        writes.append(f"view_i32(base + {layout.keys}, BLOCK_ROWS)[count] = buffer[{side.first_buffer - 1}][k]")
        views.append(f"keys = view_i32(base + {layout.keys}, BLOCK_ROWS)")
        setup.append(f"key = buffer[{other.first_buffer - 1}][k]")
    for column, at in layout.column.items():
        view = VIEWS[side.dtypes[column]]
        writes.append(f"{view}(base + {at}, BLOCK_ROWS)[count] = buffer[{side.buffer_of(column)}][k]")
        views.append(f"column_{column} = {view}(base + {at}, BLOCK_ROWS)")
    setup += [f"probe_{column} = buffer[{other.buffer_of(column)}][k]" for column in range(len(other.dtypes))]
    stored, probing = (lambda i: f"column_{i}[i]"), (lambda i: f"probe_{i}")
    bare = replace(shape, user=None)
    is_left = number == 0
    condition = (
        exact(bare, stored, probing, "keys[i]", "key")
        if is_left
        else exact(bare, probing, stored, "key", "keys[i]")
    ).replace(") and (", ") & (")
    user, holds = "", ""
    if shape.user is not None:
        values = [probing(i) for i in _used(shape, other)]
        user = f" and holds_{side.name}({', '.join(['x', 'l', 'ref', 'other', *values])})"

        def read(i: int) -> str:
            return f"{VIEWS[side.dtypes[i]]}(x[source, place + {3 + 2 * i}], CHUNK)[at]"

        lefts, rights = (read, probing) if is_left else (probing, read)
        arguments = [lefts(i) for i in shape.user.left] + [rights(i) for i in shape.user.right]
        holds = _HOLDS.format(
            side=side.name,
            width=f"{side.name.upper()}_WIDTH",
            parameters="".join(f", {value}" for value in values),
            arguments=", ".join(arguments),
        )
    return holds + _SIDE.format(
        side=side.name,
        number=number,
        heads=FIRST_INDEX + number,
        pool=_POOL[number],
        bytes=layout.size,
        references=layout.references,
        writes=indent("\n".join(writes), 1).rstrip("\n"),
        cell_lines=indent("\n".join(_cell_lines(shape, side, places)), 1).rstrip("\n"),
        setup=indent("\n".join(setup) or "pass", 1).rstrip("\n"),
        block_views=indent("\n".join(views), 3).rstrip("\n"),
        condition=condition,
        user_condition=user,
        probe_is_right=1 if is_left else 0,
        cells=places["cells"],
        slots=places["slots"],
    )


def _used(shape: JoinShape, side: Side) -> tuple[int, ...]:
    """Columns of a side that the user's predicate reads."""
    if shape.user is None:
        return ()
    return shape.user.left if side.name == "left" else shape.user.right


def _cell_lines(shape: JoinShape, side: Side, places: dict[str, int]) -> list[str]:
    """Write cells[term] = first and last cell touched, the tuple's own, and the bucket of its key."""
    lines = []
    for number, term in enumerate(shape.index):
        row = f"cells[{number}, 0], cells[{number}, 1], cells[{number}, 2]"
        if term.kind == "keys":
            key = f"np.int64(buffer[{side.first_buffer - 1}][k])"
            lines += [f"cell = fold({key})", f"{row} = cell, cell, cell", f"cells[0, 3] = {key} & BUCKET_MASK"]
            continue
        band = shape.bands[term.band]
        is_float = band.dtype.startswith("float")
        value = f"buffer[{side.buffer_of(band.left if side.name == 'left' else band.right)}][k]"
        if is_float:
            # NaN is equal to nothing; NaN and what is infinite are within no distance of anything.
            is_hopeless = "value != value" if term.kind == "equal" else "not (value - value == 0.0)"
            lines += [f"value = np.float64({value})", f"if {is_hopeless}:", "    return False"]
        if term.kind == "equal" and is_float:
            bits = f"buffer[{places['bits']}]"
            lines += [
                f"{bits}[0] = value + 0.0",  # -0.0 becomes 0.0
                f"cell = fold({bits}.view(np.int64)[0])",
                f"{row} = cell, cell, cell",
            ]
        elif term.kind == "equal":
            lines += [f"cell = fold(np.int64({value}))", f"{row} = cell, cell, cell"]
        else:
            if not is_float:
                lines.append(f"value = np.float64({value})")
            measures = f"buffer[{places['measures']}]"
            lines += [
                f"reach = {measures}[{number}, 0]",
                f"inverse = {measures}[{number}, 1]",
                "slack = (abs(value) + reach) * SLACK",
                f"cells[{number}, 0] = cell_of(value - reach - slack, inverse)",
                f"cells[{number}, 1] = cell_of(value + reach + slack, inverse)",
                f"cells[{number}, 2] = cell_of(value, inverse)",
            ]
    return lines
