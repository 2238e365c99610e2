"""A join with an index in the shared state: an arriving tuple meets only the stored ones in its cells.

Included in the module of such a join (`indexed`), which supplies its sizes and, for
each side

    load_left           fetch what is compared of a tuple; false if it matches nothing
    cells_left          note which cells a tuple touches; false if it matches nothing
    insert_left         store a left tuple in its cell
    probe_left          compare a right tuple with the left ones in the cells it touches
    expire_left         take back blocks of a cell
    number_of           which slot a cell has

A band |x - a| <= w is a key after all: cut the axis into cells a little wider
than 2w, and a tuple can match only what is stored in the two cells (three or
four with rounding) that [x - w, x + w] touches. Equal values are the case of
one cell. Two conditions, where there are two, make a grid. So the join is what
J+ is for any keys: a stored tuple has one key, its cell; a probing tuple has the
set of the cells it touches (f_MK); the instance that owns a cell stores its
tuples and makes the comparisons in it, and a reconfiguration moves none of them.

Cells are numbered by a hash that is linear in both coordinates, so that the cells
one tuple touches are always different ones; far cells that share a number, a slot,
are merely compared in vain. The slot's low bits are the bucket that the mapping
gives to an instance. Values that must be equal change the other bits by a hash with
a seed (`twist`): whoever chooses values can have them share a bucket, and not a slot.
A cell holds a list of blocks of `BLOCK_ROWS` tuples, oldest
first: the columns that conditions need, side by side for one vector comparison,
and the references. Whole blocks are given back once their last tuple is out of
the window, when the cell is next stored into, or by a hand that goes round.

State       in `s`, besides that of `join_kernel`, for each side
            left_cells[slot]    first block << 32 | last block of a cell; 0: none
            pools[LEFT]         address of left_pool, the blocks; number 1 is the first
            taken[LEFT]         (cells) blocks ever taken
            own[r, LEFT]        of worker r: the first of the blocks it has to give
            own[r, HAND]        where its hand is
Invariants  I1  a cell and its blocks are read and written by the owner of the
                cell's bucket only. Owners change at the barrier, which orders
                all that was written before it (`epochs`, B1 to B5), so
                none of it is atomic but `taken`
            I2  blocks of a cell are in the order of the input, so the times of
                a list never fall, and whole blocks expire from its front
            I3  a reference is followed only for a tuple in the window: another
                one's chunk may be gone
            I4  the cells of a tuple have different slots: no pair is met twice

Tried       (one thread, windows of 100,000 tuples a side, a busy machine) without
            asking for a group's blocks before they are used: 1.2 us a tuple
            instead of 0.7. Blocks of 16: 14.3 comparisons a tuple instead of
            12.4, and no faster. Asking ahead for what the hand will look at: no
            difference that could be told from noise.
Source      f_MK and the cells' ownership are STRETCH's O+; its join (Operator
            10) compares all pairs. Cells for bands: the grid of main-memory
            epsilon joins.
Checked     tests/headrace/elastic/test_indexed_join.py
"""

# ruff: noqa: F821  (the names above)

import numpy as np

from headrace.elastic.epochs import LOADED, UPDATES
from headrace.elastic.instance_loop import IN_FORCE
from headrace.elastic.join.join_kernel import LEFT, NEITHER, RIGHT, SIZE, forget
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, fetch_add, prefetch, view_i64
from headrace.memory.seeded import Seed, seeded
from headrace.references import BUCKET_MASK, ROW_MASK, SOURCE_SHIFT

BLOCK_ROWS = 8
"""A cell of a fine grid holds few tuples: small blocks keep it in few cache lines."""

SLOT_BITS = 16
SLOTS = 1 << SLOT_BITS
"""Cells that are told apart."""

COORDINATE_BITS = 31
LOW_BITS = (1 << COORDINATE_BITS) - 1
SLOT_SHIFT = COORDINATE_BITS - SLOT_BITS

LINK, LAST_TS = range(2)
"""Words of a block's header; LINK: next block << COUNT_BITS | tuples in this one."""
COUNT_BITS = 8
COUNT_MASK = (1 << COUNT_BITS) - 1
CELL_SHIFT = 32
"""Of a cell's word: the first block is above it, the last one below."""
LAST_MASK = (1 << CELL_SHIFT) - 1

HAND = 2
"""Column of `own`, after those of the sides."""
LINE_WORDS = 8

FIRST_CELL, LAST_CELL, OWN_CELL, KEY_BUCKET, TWIST = range(5)
"""Columns of `buffer.cells`, with a row for each dimension: cells touched from first to last, the tuple's own."""

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
def mixed(first, second):
    """A number for a cell: linear, so that cells less than `SPAN` apart have different ones."""
    return (((first & LOW_BITS) * FIRST_FACTOR + (second & LOW_BITS) * SECOND_FACTOR) & LOW_BITS) >> SLOT_SHIFT


@kernel
def twist(bits, words):
    """What a value that must be equal changes in the slots of a tuple: bits above those of the bucket."""
    seed = Seed(words[0], words[1], words[2], words[3])
    return np.int64(seeded(np.uint64(np.int64(bits)), seed) & np.uint64((SLOTS - 1) & ~BUCKET_MASK))


@kernel
def one_cell(cells, dimension, cell):
    """A tuple touches its own cell only."""
    cells[dimension, FIRST_CELL], cells[dimension, LAST_CELL], cells[dimension, OWN_CELL] = cell, cell, cell


@kernel
def cells_around(cells, dimension, value, reach, inverse):
    """A tuple touches every cell within `reach` of its value, as floats with their rounding tell."""
    slack = (abs(value) + reach) * SLACK
    cells[dimension, FIRST_CELL] = cell_of(value - reach - slack, inverse)
    cells[dimension, LAST_CELL] = cell_of(value + reach + slack, inverse)
    cells[dimension, OWN_CELL] = cell_of(value, inverse)


@kernel
def find_slots(me, owner, k, buffer):
    """Note the slots of a tuple's cells that this instance owns: those to probe, and the one to store it in."""
    cells, slots = buffer.cells, buffer.slots
    found = 0
    for first in range(cells[0, FIRST_CELL], cells[0, LAST_CELL] + 1):
        for second in range(cells[1, FIRST_CELL], cells[1, LAST_CELL] + 1):
            slot = number_of(first, second, cells[0, KEY_BUCKET]) ^ cells[0, TWIST]
            if owner[slot & BUCKET_MASK] == me:
                found += 1
                slots[k, found] = slot
    slots[k, 0] = found
    slot = number_of(cells[0, OWN_CELL], cells[1, OWN_CELL], cells[0, KEY_BUCKET]) ^ cells[0, TWIST]
    buffer.own_slot[k] = slot if owner[slot & BUCKET_MASK] == me else -1


@kernel
def take_block(me, s, side):
    """A block for this worker; 0 if there are no more."""
    block = s.own[me, side]
    if block != 0:
        s.own[me, side] = view_i64(s.pools[side] + block * (LEFT_BYTES if side == LEFT else RIGHT_BYTES), 2)[LINK]
        return block
    block = fetch_add(s.taken, side * CELL, 1) + 1
    return block if block < MOST_BLOCKS else 0


@kernel
def fetch_blocks(cells, slot, pool, size, both):
    """Ask for a cell's first block, and for its last."""
    word = cells[slot]
    block = word >> CELL_SHIFT
    if block != 0:
        head = view_i64(pool + block * size, 2 * LINE_WORDS)
        prefetch(head, 0)
        prefetch(head, LINE_WORDS)
        last = word & LAST_MASK
        if both and last != block:
            head = view_i64(pool + last * size, 2 * LINE_WORDS)
            prefetch(head, 0)
            prefetch(head, LINE_WORDS)


@kernel
def note(me, c, slot, work):
    """Book what a cell cost, for its bucket at once: nothing is left to sample."""
    c.load[me, slot & BUCKET_MASK] += work + 1
    c.meter[me, UPDATES] += work + 1
    c.meter[me, LOADED] += work + 1


@kernel
def process_group(me, g, c, o, x, s, l, buffer, row, start, first_position, n):
    ts = g.out_ts[row, start : start + n]
    refs = g.out_ref[row, start : start + n]
    ats = g.out_at[row, start : start + n]
    owner = c.owner[l[IN_FORCE]]
    sides, own_slot, slots = buffer.sides, buffer.own_slot, buffer.slots
    horizon = ts[0] - l[SIZE]
    forget(me, x, s, horizon)
    # First all that is needed is asked for, then it is used: one wait for memory instead of hundreds.
    for k in range(n):
        sides[k] = NEITHER
        if s.sides[refs[k] >> SOURCE_SHIFT] == LEFT:
            if load_left(x, refs[k], k, buffer) and cells_left(k, buffer):
                sides[k] = LEFT
        elif load_right(x, refs[k], k, buffer) and cells_right(k, buffer):
            sides[k] = RIGHT
        if sides[k] != NEITHER:
            find_slots(me, owner, k, buffer)
            own, others = (s.left_cells, s.right_cells) if sides[k] == LEFT else (s.right_cells, s.left_cells)
            for q in range(1, slots[k, 0] + 1):
                prefetch(others, slots[k, q])
            if own_slot[k] >= 0:
                prefetch(own, own_slot[k])
    for k in range(n):
        if sides[k] != NEITHER:
            for q in range(1, slots[k, 0] + 1):
                if sides[k] == LEFT:
                    fetch_blocks(s.right_cells, slots[k, q], s.pools[RIGHT], RIGHT_BYTES, False)
                else:
                    fetch_blocks(s.left_cells, slots[k, q], s.pools[LEFT], LEFT_BYTES, False)
            if own_slot[k] >= 0:
                if sides[k] == LEFT:
                    fetch_blocks(s.left_cells, own_slot[k], s.pools[LEFT], LEFT_BYTES, True)
                else:
                    fetch_blocks(s.right_cells, own_slot[k], s.pools[RIGHT], RIGHT_BYTES, True)
    for k in range(n):
        ref = refs[k]
        if sides[k] == LEFT:
            if probe_right(me, c, o, x, s, l, buffer, k, first_position + k, ats[k], ref, ts[k]) < 0:
                return -1
            if own_slot[k] >= 0 and insert_left(me, c, s, buffer, k, own_slot[k], ref, ts[k], horizon) < 0:
                return -1
        elif sides[k] == RIGHT:
            if probe_left(me, c, o, x, s, l, buffer, k, first_position + k, ats[k], ref, ts[k]) < 0:
                return -1
            if own_slot[k] >= 0 and insert_right(me, c, s, buffer, k, own_slot[k], ref, ts[k], horizon) < 0:
                return -1
        s.high[me, ref >> SOURCE_SHIFT] = (ref & ROW_MASK) + 1
    sweep(me, s, owner, n // 4 + 1, horizon)
    return 0


@kernel
def sweep(me, s, owner, count, horizon):
    """Go on through the cells: one that is never stored into again must not keep its tuples."""
    hand = s.own[me, HAND]
    for _ in range(count):
        if owner[hand & BUCKET_MASK] == me:
            expire_left(me, s, hand, horizon)
            expire_right(me, s, hand, horizon)
        hand = (hand + 1) & (SLOTS - 1)
    s.own[me, HAND] = hand
