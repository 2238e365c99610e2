"""The state of a join with an index, and its kernels that depend on the join's shape, for `index_kernel`."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from headrace.codegen.text import indent
from headrace.elastic.join import index_kernel
from headrace.elastic.join.conditions import (
    VIEWS,
    Value,
    column_view,
    exact_parts,
    in_order,
    load_text,
    user_call,
)
from headrace.elastic.join.index_kernel import (
    BLOCK_ROWS,
    BUCKET_COLUMNS,
    CELL_COLUMNS,
    ENTRY_WORDS,
    FIRST_PLACE,
    HEADER_WORDS,
    LEAST_CELLS,
    LEFT,
    PLACE_MASK,
    PLACES,
    REGION_SIZES,
    REGIONS,
    RIGHT,
    SIDES,
)
from headrace.elastic.join.join_kernel import GROUP
from headrace.elastic.join.shape import Band, JoinShape, Side, Term
from headrace.memory.atomics import CELL
from headrace.memory.cells import CACHE_LINE, padded_cells, reserved
from headrace.memory.seeded import draw_seed
from headrace.references import BUCKETS

MOST_BLOCKS = 1 << 25
MOST_CELLS = 1 << 26
"""Places for the cells of a side, all buckets together; their numbers are int32."""
MOST_TERMS = 2
SPAN = 5
"""The most cells that a tuple touches in one dimension: two for 2w in cells of 2w, two for rounding, and one to spare."""
FACTORS = (0x609FD4D5, 0x48F086D3)
"""Odd, below 2**31 (the R2 sequence), such that cells less than SPAN apart are in different buckets (tested)."""

STATE = ("left_cells", "right_cells", "left_buckets", "right_buckets", "left_pool", "right_pool", "pools", "taken", "own")
"""Fields of the state, besides those of every join; see `index_kernel`."""

_SEED = draw_seed()
"""One seed per process, so that all instances of a run find a value in the same cell."""
_ODD = np.array(draw_seed()[1::2], np.uint64).view(np.int64)
"""Factors for the coordinates of a cell; random as well."""
_LEAST_WIDTH = 1e-290
_OWN_WORDS = 64
assert _OWN_WORDS >= REGIONS + SIDES * REGION_SIZES
_HEADER_BYTES = 8 * HEADER_WORDS
_ENTRY_BYTES = 8 * ENTRY_WORDS

_CONSTANTS = """
from headrace.elastic.failures import INDEX_FULL
from headrace.memory.wrapped import wrapped_product, wrapped_sum
from headrace.workers.worker_kernel import fail

MOST_BLOCKS = {most_blocks}
MOST_CELLS = {most_cells}
LEFT_BYTES = {left_bytes}
RIGHT_BYTES = {right_bytes}
FIRST_FACTOR = {first_factor}
SECOND_FACTOR = {second_factor}

"""

_BY_CELL = '''
@kernel
def bucket_of(first, second, _):
    """Return the bucket of a cell."""
    return mixed(first, second)

'''

_BY_KEY = '''
@kernel
def bucket_of(_, second, key_bucket):
    """Return the bucket of a cell. It must not depend on the order of arrival: ids do, their buckets do not."""
    return mixed(key_bucket, second)

'''

_EQUAL_ONLY = '''
@kernel
def spread(first, second, buffer):
    """Return the number that chooses a cell within its bucket, made of the values that must be equal."""
    return buffer.cells[0, TWIST]

'''

_WITH_BANDS = '''
@kernel
def spread(first, second, buffer):
    """Return the number that chooses a cell within its bucket, made of the values that must be equal and the coordinates."""
    factors = buffer.factors
    summed = wrapped_sum(wrapped_product(first, factors[0]), wrapped_product(second, factors[1]))
    summed = wrapped_sum(summed, buffer.cells[0, TWIST])
    return wrapped_product(summed ^ (summed >> 32), MIXER) >> SPREAD_SHIFT & (MOST_CELLS - 1)

'''

_CELLS = '''
@kernel
def cells_{side}(k, buffer):
    """Find the cells that a tuple of this side touches, and the one that stores it. False: it matches nothing."""
    cells = buffer.cells
{cells}
    return True

'''

_EXPIRE = '''
@kernel
def expire_{side}(me, s, slot, horizon):
    """Free the blocks at the front of a cell whose tuples are all out of the window."""
    cells, own, place = s.{side}_cells, s.own, slot >> BUCKET_BITS
    pool = s.pools[{constant}]
    word = cells[place]
    first = word >> CELL_SHIFT
    if first == 0:
        return
    last = word & LAST_MASK
    given = 0
    while first != 0:
        head = view_i64(pool + first * {constant}_BYTES, HEADER_WORDS)
        if head[LAST_TS] > horizon:
            break
        following = head[LINK] >> COUNT_BITS
        head[LINK] = own[me, {constant}]
        own[me, {constant}] = first
        first = following
        given += 1
    if given != 0:
        s.{side}_buckets[slot & BUCKET_MASK, BLOCKS] -= given
        cells[place] = (first << CELL_SHIFT) | last if first != 0 else 0

'''

_INSERT = '''
@kernel
def append_{side}(me, c, s, buffer, k, slot, ref, ts):
    """Store a tuple at the end of a cell. -1 if there is no room for one more block: the run fails; 1 if it is crowded."""
    cells, place = s.{side}_cells, slot >> BUCKET_BITS
    pool = s.pools[{constant}]
    word = cells[place]
    first = word >> CELL_SHIFT
    last = word & LAST_MASK
    count, crowded = 0, 0
    if first != 0:
        count = view_i64(pool + last * {constant}_BYTES, HEADER_WORDS)[LINK]  # the last block has no next
    if first == 0 or count == BLOCK_ROWS:
        block = take_block(me, s, {constant})
        if block == 0:
            fail(c, INDEX_FULL, me, ref, ts, 0, 0)
            return -1
        s.{side}_buckets[slot & BUCKET_MASK, BLOCKS] += 1
        crowded = 1 if is_crowded(s.{side}_buckets, slot & BUCKET_MASK) else 0
        if first == 0:
            first = block
        else:
            view_i64(pool + last * {constant}_BYTES, HEADER_WORDS)[LINK] = block << COUNT_BITS | BLOCK_ROWS
        last = block
        cells[place] = (first << CELL_SHIFT) | last
        count = 0
    base = pool + last * {constant}_BYTES
{writes}
    entries = view_i64(base + {entries}, ENTRY_WORDS * BLOCK_ROWS)
    entries[ENTRY_WORDS * count + ENTRY_REF] = ref
    entries[ENTRY_WORDS * count + ENTRY_TS] = ts
    head = view_i64(base, HEADER_WORDS)
    head[LINK] = count + 1
    head[LAST_TS] = ts if count == 0 else max(ts, head[LAST_TS])
    return crowded


@kernel
def insert_{side}(me, c, s, buffer, k, slot, ref, ts, horizon):
    """Store a tuple in its cell; returns what `append_{side}` does."""
    expire_{side}(me, s, slot, horizon)
    note(me, c, slot, 0)
    return append_{side}(me, c, s, buffer, k, slot, ref, ts)

'''

_SPLIT = '''
@kernel
def split_{side}(me, c, s, buffer, bucket, horizon):
    """Add a cell to a bucket and move into it those tuples of an older cell that belong there; expired tuples are dropped."""
    buckets, cells, own = s.{side}_buckets, s.{side}_cells, s.own
    pool = s.pools[{constant}]
    added = np.int64(buckets[bucket, PLACES])
    if added > buckets[bucket, PLACE_MASK] and not move_region(me, s, {constant}, cells, buckets, bucket, 2 * added):
        return 0
    start = buckets[bucket, FIRST_PLACE]
    older = start + (added & (buckets[bucket, PLACE_MASK] >> 1))
    block = cells[older] >> CELL_SHIFT
    cells[older] = 0
    cells[start + added] = 0
    buckets[bucket, PLACES] = added + 1
    while block != 0:
        base = pool + block * {constant}_BYTES
        head = view_i64(base, HEADER_WORDS)
        entries = view_i64(base + {entries}, ENTRY_WORDS * BLOCK_ROWS)
        for i in range(head[LINK] & COUNT_MASK):
            ref, ts = entries[ENTRY_WORDS * i + ENTRY_REF], entries[ENTRY_WORDS * i + ENTRY_TS]
            if ts > horizon:
{reads}
                cells_{side}(SPARE, buffer)
                slot = slot_of(buckets, bucket, buffer.cells[0, OWN_CELL], buffer.cells[1, OWN_CELL], buffer)
                if append_{side}(me, c, s, buffer, SPARE, slot, ref, ts) < 0:
                    return -1
        following = head[LINK] >> COUNT_BITS
        head[LINK] = own[me, {constant}]
        own[me, {constant}] = block
        buckets[bucket, BLOCKS] -= 1
        block = following
    return 0


@kernel
def merge_{side}(me, s, bucket):
    """Remove a bucket's last cell: its tuples are appended to those of the cell it was split from."""
    buckets, cells = s.{side}_buckets, s.{side}_cells
    half = np.int64(buckets[bucket, PLACE_MASK] + 1) >> 1
    if buckets[bucket, PLACES] == half:
        if not move_region(me, s, {constant}, cells, buckets, bucket, half):
            return
        half >>= 1
    last = buckets[bucket, FIRST_PLACE] + buckets[bucket, PLACES] - 1
    older = last - half
    word, more = cells[older], cells[last]
    if word == 0:
        cells[older] = more
    elif more != 0:
        head = view_i64(s.pools[{constant}] + (word & LAST_MASK) * {constant}_BYTES, HEADER_WORDS)
        head[LINK] |= (more >> CELL_SHIFT) << COUNT_BITS
        cells[older] = (word & ~LAST_MASK) | (more & LAST_MASK)
    buckets[bucket, PLACES] -= 1

'''

_PROBE = '''
@kernel
def probe_{side}(me, c, o, x, s, l, buffer, k, position, at, ref, ts):
    """Compare a tuple with the stored {side} tuples of the cells it touches and this instance owns."""
    cells = s.{side}_cells
    pool = s.pools[{constant}]
    slots = buffer.slots
    oldest = ts - l[SIZE]
{setup}
    for q in range(buffer.found[k]):
        slot = slots[k, q]
        block = cells[slot >> BUCKET_BITS] >> CELL_SHIFT
        compared = 0
        while block != 0:
            base = pool + block * {constant}_BYTES
            link = view_i64(base, HEADER_WORDS)[LINK]
            count = link & COUNT_MASK
            block = link >> COUNT_BITS
            prefetch(view_i64(pool + block * {constant}_BYTES, LINE_WORDS), 0)
{views}
            found = False
            for i in range(BLOCK_ROWS):
                found = found | ({condition})
            compared += count
            if found:
                entries = view_i64(base + {entries}, ENTRY_WORDS * BLOCK_ROWS)
                for i in range(count):
                    if {condition}:
                        other = entries[ENTRY_WORDS * i + ENTRY_REF]
                        other_ts = entries[ENTRY_WORDS * i + ENTRY_TS]
                        if other_ts > oldest{user_condition}:
                            if emit(me, o, s, l, position, at, ref, ts, other, other_ts, {prober_is_right}) < 0:
                                return -1
        note(me, c, slot, compared)
        c.meter[me, COMPARISONS] += compared
    return 0

'''

_TWISTED = "cells[0, TWIST] = twist({bits}, cells[0, TWIST], buffer.seed)"

_HOLDS = '''
@kernel
def holds_{side}(x, l, ref, other{parameters}):
    """Evaluate the user's predicate, and note the pair in case it fails."""
    l[LATER] = ref
    l[EARLIER] = other
    source, entry, at = locate(other, {width})
    return {call}

'''


def choose_terms(on_keys: bool, bands: list[tuple[Band, int | float]]) -> tuple[Term, ...]:
    """Choose the dimensions of the index: keys, then values that must be equal, then bands, in the order written."""
    terms = [Term("keys")] if on_keys else []
    terms += [Term("equal", number) for number, (_, width) in enumerate(bands) if width == 0]
    terms += [Term("band", number) for number, (_, width) in enumerate(bands) if 0 < width < float("inf")]
    return tuple(terms[:MOST_TERMS])


def index_scratch(shape: JoinShape, widths: list[int | float]) -> dict[str, np.ndarray]:
    """Allocate the scratch memory that an index needs beside that of every join."""
    fields: dict[str, np.ndarray] = {
        "sides": np.zeros(GROUP, np.int64),
        "own_slot": np.zeros(GROUP, np.int64),
        "found": np.zeros(GROUP, np.int64),
        "slots": np.zeros((GROUP, SPAN**MOST_TERMS), np.int64),
        "float_bits": np.zeros(1, np.float64),
        "cells": np.zeros((MOST_TERMS, CELL_COLUMNS), np.int64),
        "seed": np.array(_SEED, np.uint64),
        "factors": _ODD.copy(),
    }
    for number, term in enumerate(shape.index):
        if term.kind == "band":
            width = max(float(widths[term.band]), _LEAST_WIDTH)
            # A cell of whole numbers holds 2w + 1 of them, as many as a probe's range.
            size = 2 * width + (1.0 if shape.bands[term.band].dtype.startswith("int") else 0.0)
            fields[_reach(number)] = np.array([width, 1.0 / size])  # REACH, INVERSE
    return fields


def _reach(dimension: int) -> str:
    """Field for the reach of a probe in a dimension, and the inverse of a cell's size."""
    return f"reach_{dimension}"


def allocate_index(shape: JoinShape, instances: int) -> dict[str, np.ndarray]:
    """Allocate the state that an index needs beside that of every join."""
    pools = [reserved(MOST_BLOCKS * _Layout(shape, side).size // 8, np.int64, huge_pages=True) for side in shape.sides]
    # Place 0 means none.
    starts = np.arange(1, BUCKETS + 1) * LEAST_CELLS
    buckets = np.zeros((SIDES, BUCKETS, BUCKET_COLUMNS), np.int32)
    buckets[:, :, FIRST_PLACE], buckets[:, :, PLACES], buckets[:, :, PLACE_MASK] = starts, LEAST_CELLS, LEAST_CELLS - 1
    taken = padded_cells(2 * SIDES)
    for side in (LEFT, RIGHT):
        taken[(SIDES + side) * CELL] = (BUCKETS + 1) * LEAST_CELLS
    arrays = (
        reserved(MOST_CELLS, np.int64, huge_pages=True),
        reserved(MOST_CELLS, np.int64, huge_pages=True),
        buckets[LEFT],
        buckets[RIGHT],
        *pools,
        np.array([pool.ctypes.data for pool in pools]),
        taken,
        np.zeros((instances, _OWN_WORDS), np.int64),
    )
    return dict(zip(STATE, arrays, strict=True))


class _Layout:
    """Byte offsets in a block: the header and the compared columns, then pairs of (reference, event time)."""

    def __init__(self, shape: JoinShape, side: Side):
        at = self.keys = _HEADER_BYTES
        if shape.on_keys:
            at += 4 * BLOCK_ROWS
        self.column: dict[int, int] = {}
        for column in sorted({band.column(side) for band in shape.bands}):
            self.column[column] = at
            at += max(4, np.dtype(side.dtypes[column]).itemsize) * BLOCK_ROWS
        self.entries = -(-at // CACHE_LINE) * CACHE_LINE
        self.size = self.entries + _ENTRY_BYTES * BLOCK_ROWS


def pieces(shape: JoinShape) -> tuple[ModuleType, str]:
    """Return the kernels of a join with an index, and the text of those that depend on its shape."""
    left, right = shape.sides
    text = _CONSTANTS.format(
        most_blocks=MOST_BLOCKS,
        most_cells=MOST_CELLS,
        left_bytes=_Layout(shape, left).size,
        right_bytes=_Layout(shape, right).size,
        first_factor=FACTORS[0],
        second_factor=FACTORS[1],
    )
    text += _BY_KEY if shape.on_keys else _BY_CELL
    text += _WITH_BANDS if any(term.kind == "band" for term in shape.index) else _EQUAL_ONLY
    for side, other in ((left, right), (right, left)):
        text += load_text(side, []) + _CELLS.format(side=side.name, cells=indent(_cell_lines(shape, side), 1))
        text += _stored_text(shape, side) + _probe_text(shape, side, other)
    return index_kernel, text


def _stored_text(shape: JoinShape, side: Side) -> str:
    """Write the kernels that store tuples of `side` and expire them."""
    layout = _Layout(shape, side)
    writes, reads = [], []
    if shape.on_keys:
        stored = f"view_i32(base + {layout.keys}, BLOCK_ROWS)"
        writes.append(f"{stored}[count] = buffer.{side.keys}[k]")
        reads.append(f"buffer.{side.keys}[SPARE] = {stored}[i]")
    for column, at in layout.column.items():
        stored = f"{VIEWS[side.dtypes[column]]}(base + {at}, BLOCK_ROWS)"
        writes.append(f"{stored}[count] = buffer.{side.values(column)}[k]")
        reads.append(f"buffer.{side.values(column)}[SPARE] = {stored}[i]")
    names = {"side": side.name, "constant": side.constant, "entries": layout.entries}
    text = _EXPIRE.format(**names) + _INSERT.format(writes=indent(writes, 1), **names)
    return text + _SPLIT.format(reads=indent(reads, 4), **names)


def _probe_text(shape: JoinShape, side: Side, other: Side) -> str:
    """Write the kernels that compare arriving tuples of `other` with the stored ones of `side`."""
    layout = _Layout(shape, side)
    views, setup = [], []
    if shape.on_keys:
        views.append(f"keys = view_i32(base + {layout.keys}, BLOCK_ROWS)")
        setup.append(f"key = buffer.{other.keys}[k]")
    views += [f"column_{i} = {VIEWS[side.dtypes[i]]}(base + {at}, BLOCK_ROWS)" for i, at in layout.column.items()]
    setup += [f"probe_{column} = buffer.{other.values(column)}[k]" for column in range(len(other.dtypes))]

    def probing(i: int) -> str:
        return f"probe_{i}"

    parts = exact_parts(shape, in_order(side, lambda i: f"column_{i}[i]", probing), in_order(side, "keys[i]", "key"))
    user, holds = "", ""
    if shape.user is not None:
        values = [*shape.user.memory, *(probing(i) for i in shape.user.columns(other))]
        user = f" and holds_{side.name}({', '.join(['x', 'l', 'ref', 'other', *values])})"
        holds = _holds_text(shape, side, probing, values)
    return holds + _PROBE.format(
        side=side.name,
        constant=side.constant,
        entries=layout.entries,
        setup=indent(setup or ["pass"], 1),
        views=indent(views, 3),
        condition=" & ".join(f"({part})" for part in parts),
        user_condition=user,
        prober_is_right=int(other.name == "right"),
    )


def _holds_text(shape: JoinShape, side: Side, probing: Value, values: list[str]) -> str:
    """Write the call of the user's predicate on a stored tuple of `side`, read from its source, and a probing tuple."""

    def stored(i: int) -> str:
        return f"{column_view(side, i)}[at]"

    return _HOLDS.format(
        side=side.name,
        width=side.width,
        parameters="".join(f", {value}" for value in values),
        call=user_call(shape, in_order(side, stored, probing)),
    )


def _cell_lines(shape: JoinShape, side: Side) -> list[str]:
    """Write the statements that find a tuple's cells: those it touches in each dimension, its own, and the bucket of its key."""
    lines = ["cells[0, TWIST] = 0"]
    for number, term in enumerate(shape.index):
        if term.kind == "keys":
            key = f"np.int64(buffer.{side.keys}[k])"
            lines += [f"one_cell(cells, {number}, fold({key}))", f"cells[0, KEY_BUCKET] = {key} & BUCKET_MASK"]
            lines.append(_TWISTED.format(bits=key))
            continue
        band = shape.bands[term.band]
        is_float = band.dtype.startswith("float")
        value = f"buffer.{side.values(band.column(side))}[k]"
        if is_float:
            # NaN equals nothing; NaN and infinities are within no distance of anything.
            is_hopeless = "value != value" if term.kind == "equal" else "not (value - value == 0.0)"
            lines += [f"value = np.float64({value})", f"if {is_hopeless}:", "    return False"]
        if term.kind == "equal" and is_float:
            lines += [
                "buffer.float_bits[0] = value + 0.0",  # -0.0 becomes 0.0
                "bits = buffer.float_bits.view(np.int64)[0]",
            ]
        elif term.kind == "equal":
            lines.append(f"bits = np.int64({value})")
        else:
            number_as_float = "value" if is_float else f"np.float64({value})"
            reach = f"buffer.{_reach(number)}"
            lines.append(f"cells_around(cells, {number}, {number_as_float}, {reach}[REACH], {reach}[INVERSE])")
        if term.kind == "equal":
            lines += [f"one_cell(cells, {number}, fold(bits))", _TWISTED.format(bits="bits")]
    return lines


__all__ = ["STATE", "allocate_index", "choose_terms", "index_scratch", "pieces"]
