"""A join with an index in the shared state: an arriving tuple is compared only with the stored ones in its cells.

Included in the module of such a join (`indexed`), which supplies its sizes and, for
each side

    load_left           load the values of a tuple that are compared; false if it matches nothing
    cells_left          note which cells a tuple touches; false if it matches nothing
    insert_left         store a left tuple in its cell
    probe_left          compare a right tuple with the left ones in the cells it touches
    expire_left         free the expired blocks of a cell
    split_left          give a bucket one more place for cells; merge_left takes one away
    bucket_of           the bucket of a cell
    spread              the hash that gives a cell its place among those of its bucket

A band |x - a| <= w can be treated as a key: cut the axis into cells a little wider
than 2w, and a tuple can match only what is stored in the two cells (three or
four with rounding) that [x - w, x + w] touches. Equal values are the case of
one cell. Two conditions make a grid. So the join is J+ with cells as keys: a
stored tuple has one key, its cell; a probing tuple has the set of the cells it
touches (f_MK). The instance that owns a cell stores the cell's tuples and makes
the comparisons in it, and a reconfiguration moves none of them.

A cell's bucket, which the mapping assigns to an instance, is a hash that is linear in
both coordinates, so that the cells that one tuple touches are always in different
buckets. The hash is no secret: an attacker can choose values that all share a bucket.
The place of a cell within its bucket is a hash with a secret seed (`spread`): for values
that must be equal `twist`, for coordinates a mixed sum of products with random odd
factors. (The upper bits of that sum would do without mixing, as in the multiply-shift of
Dietzfelbinger et al., but in a regular grid all pairs of cells at the same distance would
then share a place together: with some factors, twice the comparisons.) If distant cells
share a place, the only cost is needless comparisons.

A bucket has `LEAST_CELLS` places for each side, and as many more as its tuples need:
linear hashing splits one place at a time, in turn, once they hold more than `CROWDED`
blocks each on average, and merges them again when they are nearly empty. So each value
shares its place with few others, however many values an attacker directs to its bucket.

A cell holds a list of blocks of `BLOCK_ROWS` tuples, oldest first. A block holds each
column that conditions need, contiguous for one vector comparison, and the references. A
block is freed as a whole once its last tuple is out of the window: when the cell is next
stored into, or by a hand that visits all cells in turn.

State       in `s`, besides that of `join_kernel`, for each side
            left_cells[place]   first block << 32 | last block of a cell; 0: none
            left_buckets[b]     of bucket b: FIRST_PLACE; PLACES, the number it has;
                                PLACE_MASK, the number its region has room for, less 1;
                                BLOCKS, the number its cells hold
            pools[LEFT]         address of left_pool, the blocks; number 1 is the first
            taken[LEFT]         (atomic cells) blocks ever taken; taken[SIDES + LEFT] places
            own[r, LEFT]        of worker r: the first of its free blocks
            own[r, HAND]        where its hand is: bucket, and place in it
            own[r, REGIONS...]  the first of its free regions, by size
Invariants  I1  a cell and its blocks are read and written by the owner of the
                cell's bucket only. Owners change at the barrier, which orders
                all that was written before it (`epochs`, B1 to B5), so
                only `taken` is atomic
            I2  blocks of a cell are in the order of the input, so the times of
                a list never fall, and whole blocks expire from its front. Where
                two cells were merged, a block may lie behind younger ones: it
                stays until they expire, one WS more at most
            I3  a reference is followed only for a tuple in the window: the
                chunk of an older one may have been freed
            I4  the cells that a tuple touches are in different buckets, so no
                pair is compared twice
            I5  room = PLACE_MASK + 1 is a power of two, room / 2 <= PLACES <= room.
                Places are added and removed only between two groups of records,
                so the slots found for a group stay valid

Tried       (one thread, windows of 100,000 tuples a side, a busy machine) no
            prefetch of a group's blocks before they are used: 1.2 us a tuple
            instead of 0.7. Blocks of 16: 14.3 comparisons a tuple instead of
            12.4, and no faster. Prefetching what the hand will visit: no
            difference beyond noise.
Source      f_MK and the cells' ownership are STRETCH's O+; its join (Operator
            10) compares all pairs. Cells for bands: the grid of main-memory
            epsilon joins. Places that grow: linear hashing (Litwin 1980).
Checked     tests/headrace/elastic/test_indexed_join.py
"""

# ruff: noqa: F821  (the names above)

import numpy as np

from headrace.elastic.instance_loop import IN_FORCE
from headrace.elastic.join.join_kernel import GROUP, LEFT, NEITHER, RIGHT, SIZE, forget
from headrace.elastic.words import LOADED, UPDATES
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, fetch_add, prefetch, view_i64
from headrace.memory.seeded import seed_at, seeded_pair
from headrace.references import BUCKET_BITS, BUCKET_MASK, ROW_MASK, SOURCE_SHIFT

BLOCK_ROWS = 8
"""A cell of a fine grid holds few tuples: small blocks keep it in few cache lines."""

LEAST_CELLS = 64
"""The least number of places that a bucket has for the cells of a side: a power of two."""
CROWDED = 2
"""With more blocks per place than this, on average, a bucket gets more places."""
SPARSE = 4
"""With more places per block than this, a bucket gives some back."""
FIRST_PLACE, PLACE_MASK, PLACES, BLOCKS, BUCKET_COLUMNS = range(5)
"""Columns of `left_buckets` and `right_buckets`, and how many there are."""

COORDINATE_BITS = 31
LOW_BITS = (1 << COORDINATE_BITS) - 1
BUCKET_SHIFT = COORDINATE_BITS - 16
SPREAD_SHIFT = 38
"""Keeps 26 of 64 bits: a number below `MOST_CELLS`."""
MIXER = 0x1E3779B97F4A7C15

LINK, LAST_TS, HEADER_WORDS = range(3)
"""Words of a block's header, and how many it has; LINK: next block << COUNT_BITS | tuples in this one."""
COUNT_BITS = 8
COUNT_MASK = (1 << COUNT_BITS) - 1
ENTRY_REF, ENTRY_TS, ENTRY_WORDS = range(3)
"""Words of a tuple in a block, beside its columns, and how many it has."""
CELL_SHIFT = 32
"""In a cell's word the first block is above this bit, and the last block below it."""
LAST_MASK = (1 << CELL_SHIFT) - 1

SIDES = 2
HAND, HAND_CELL, REGIONS = range(SIDES, SIDES + 3)
"""Columns of `own`, after those of the sides."""
REGION_SIZES = 24
"""How many sizes a region may have: `LEAST_CELLS` times 1, 2, 4 and so on."""
LINE_WORDS = 8

SPARE = GROUP
"""The place among the probing tuples into which a split loads a stored tuple, to find its cell again."""

FIRST_CELL, LAST_CELL, OWN_CELL, KEY_BUCKET, TWIST, CELL_COLUMNS = range(6)
"""Columns of `buffer.cells`, and how many there are. A row for each dimension has the first and the last cell touched, and the
tuple's own; the first row also has what belongs to the tuple in all dimensions."""
REACH, INVERSE = range(2)
"""For a band: the reach of a tuple, and the factor that turns a value into the number of its cell."""

FARTHEST = 2.0**50
SLACK = 2.0**-50


@kernel
def begin(c, l, s, buffer):
    pass


@kernel
def cell_of(value, inverse):
    """The cell of a value. It is non-decreasing in the value; values far out share a cell."""
    return np.int64(np.floor(min(max((value + 0.5) * inverse, -FARTHEST), FARTHEST)))


@kernel
def fold(bits):
    """Fold the bits of a value that is compared for equality, so that every bit has an effect."""
    return (bits ^ (bits >> 31) ^ (bits >> 47)) & LOW_BITS


@kernel
def mixed(first, second):
    """The bucket of a cell: linear, so that cells less than `SPAN` apart are in different buckets."""
    return (((first & LOW_BITS) * FIRST_FACTOR + (second & LOW_BITS) * SECOND_FACTOR) & LOW_BITS) >> BUCKET_SHIFT & BUCKET_MASK


@kernel
def twist(bits, before, words):
    """Hash a value that must be equal, with a secret seed, together with `before`, the hash of the values before it."""
    seed = seed_at(words, 0)
    return np.int64(seeded_pair(np.uint64(np.int64(bits)), np.uint64(np.int64(before)), seed) >> np.uint64(1))


@kernel
def place_of_cell(buckets, bucket, hashed):
    """The place of a cell among those of its side, by linear hashing."""
    cell = hashed & buckets[bucket, PLACE_MASK]
    if cell >= buckets[bucket, PLACES]:
        cell &= buckets[bucket, PLACE_MASK] >> 1
    return buckets[bucket, FIRST_PLACE] + cell


@kernel
def slot_of(buckets, bucket, first, second, buffer):
    """A cell's place and its bucket, in one number."""
    return place_of_cell(buckets, bucket, spread(first, second, buffer)) << BUCKET_BITS | bucket


@kernel
def one_cell(cells, dimension, cell):
    """Note that a tuple touches only its own cell in a dimension."""
    cells[dimension, FIRST_CELL], cells[dimension, LAST_CELL], cells[dimension, OWN_CELL] = cell, cell, cell


@kernel
def cells_around(cells, dimension, value, reach, inverse):
    """Note the cells within `reach` of a tuple's value in a dimension, with slack for the rounding of floats."""
    slack = (abs(value) + reach) * SLACK
    cells[dimension, FIRST_CELL] = cell_of(value - reach - slack, inverse)
    cells[dimension, LAST_CELL] = cell_of(value + reach + slack, inverse)
    cells[dimension, OWN_CELL] = cell_of(value, inverse)


@kernel
def find_slots(me, owner, k, own, others, buffer):
    """Note the slots of a tuple's cells that this instance owns: those to probe, and the one to store the tuple in."""
    cells, slots = buffer.cells, buffer.slots
    found = 0
    for first in range(cells[0, FIRST_CELL], cells[0, LAST_CELL] + 1):
        for second in range(cells[1, FIRST_CELL], cells[1, LAST_CELL] + 1):
            bucket = bucket_of(first, second, cells[0, KEY_BUCKET])
            if owner[bucket] == me:
                slots[k, found] = slot_of(others, bucket, first, second, buffer)
                found += 1
    buffer.found[k] = found
    first, second = cells[0, OWN_CELL], cells[1, OWN_CELL]
    bucket = bucket_of(first, second, cells[0, KEY_BUCKET])
    buffer.own_slot[k] = slot_of(own, bucket, first, second, buffer) if owner[bucket] == me else -1


@kernel
def take_block(me, s, side):
    """Take a block for this worker; 0 if there is none left."""
    block = s.own[me, side]
    if block != 0:
        s.own[me, side] = view_i64(s.pools[side] + block * (LEFT_BYTES if side == LEFT else RIGHT_BYTES), HEADER_WORDS)[LINK]
        return block
    block = fetch_add(s.taken, side * CELL, 1) + 1
    return block if block < MOST_BLOCKS else 0


@kernel
def size_number(size):
    """The number of a region's size among the possible sizes, from 0."""
    number = 0
    while LEAST_CELLS << number < size:
        number += 1
    return number


@kernel
def move_region(me, s, side, cells, buckets, bucket, size):
    """Move a bucket to a region with room for `size` places. False if no region is left: the bucket keeps its own."""
    first_free = REGIONS + side * REGION_SIZES
    number = size_number(size)
    start = s.own[me, first_free + number]
    if start != 0:
        s.own[me, first_free + number] = cells[start]
    else:
        start = fetch_add(s.taken, (SIDES + side) * CELL, size)
        if start + size > MOST_CELLS:
            return False
    before = buckets[bucket, FIRST_PLACE]
    for cell in range(buckets[bucket, PLACES]):
        cells[start + cell] = cells[before + cell]
    number = size_number(buckets[bucket, PLACE_MASK] + 1)
    cells[before] = s.own[me, first_free + number]
    s.own[me, first_free + number] = before
    buckets[bucket, FIRST_PLACE] = start
    buckets[bucket, PLACE_MASK] = size - 1
    return True


@kernel
def fetch_blocks(cells, slot, pool, size, both):
    """Prefetch the first block of a cell, and with `both` its last."""
    word = cells[slot >> BUCKET_BITS]
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
    """Count the work done in a cell as load of its bucket: exactly, so there is nothing to sample."""
    c.load[me, slot & BUCKET_MASK] += work + 1
    c.meter[me, UPDATES] += work + 1
    c.meter[me, LOADED] += work + 1


@kernel
def process_group(me, g, c, o, x, s, l, buffer, row, start, first_position, n):
    ts = g.out_ts[row, start : start + n]
    refs = g.out_ref[row, start : start + n]
    ats = g.out_at[row, start : start + n]
    owner = c.owner[l[IN_FORCE]]
    sides, own_slot, found, slots = buffer.sides, buffer.own_slot, buffer.found, buffer.slots
    horizon = ts[0] - l[SIZE]
    forget(me, x, s, horizon)
    # First prefetch what the whole group needs, then use it: one wait for memory instead of hundreds.
    for k in range(n):
        sides[k] = NEITHER
        if s.sides[refs[k] >> SOURCE_SHIFT] == LEFT:
            if load_left(x, refs[k], k, buffer) and cells_left(k, buffer):
                sides[k] = LEFT
        elif load_right(x, refs[k], k, buffer) and cells_right(k, buffer):
            sides[k] = RIGHT
        if sides[k] != NEITHER:
            own, others = (s.left_cells, s.right_cells) if sides[k] == LEFT else (s.right_cells, s.left_cells)
            if sides[k] == LEFT:
                find_slots(me, owner, k, s.left_buckets, s.right_buckets, buffer)
            else:
                find_slots(me, owner, k, s.right_buckets, s.left_buckets, buffer)
            for q in range(found[k]):
                prefetch(others, slots[k, q] >> BUCKET_BITS)
            if own_slot[k] >= 0:
                prefetch(own, own_slot[k] >> BUCKET_BITS)
    for k in range(n):
        if sides[k] != NEITHER:
            for q in range(found[k]):
                if sides[k] == LEFT:
                    fetch_blocks(s.right_cells, slots[k, q], s.pools[RIGHT], RIGHT_BYTES, False)
                else:
                    fetch_blocks(s.left_cells, slots[k, q], s.pools[LEFT], LEFT_BYTES, False)
            if own_slot[k] >= 0:
                if sides[k] == LEFT:
                    fetch_blocks(s.left_cells, own_slot[k], s.pools[LEFT], LEFT_BYTES, True)
                else:
                    fetch_blocks(s.right_cells, own_slot[k], s.pools[RIGHT], RIGHT_BYTES, True)
    crowded = 0
    for k in range(n):
        ref = refs[k]
        if sides[k] == LEFT:
            if probe_right(me, c, o, x, s, l, buffer, k, first_position + k, ats[k], ref, ts[k]) < 0:
                return -1
            if own_slot[k] >= 0:
                outcome = insert_left(me, c, s, buffer, k, own_slot[k], ref, ts[k], horizon)
                if outcome < 0:
                    return -1
                crowded += outcome
        elif sides[k] == RIGHT:
            if probe_left(me, c, o, x, s, l, buffer, k, first_position + k, ats[k], ref, ts[k]) < 0:
                return -1
            if own_slot[k] >= 0:
                outcome = insert_right(me, c, s, buffer, k, own_slot[k], ref, ts[k], horizon)
                if outcome < 0:
                    return -1
                crowded += outcome
        s.high[me, ref >> SOURCE_SHIFT] = (ref & ROW_MASK) + 1
    for k in range(n if crowded != 0 else 0):
        if sides[k] != NEITHER and own_slot[k] >= 0:
            if relieve(me, c, s, buffer, sides[k], own_slot[k] & BUCKET_MASK, horizon) < 0:
                return -1
    sweep(me, s, owner, n // 4 + 1, horizon)
    return 0


@kernel
def relieve(me, c, s, buffer, side, bucket, horizon):
    """Give a crowded bucket more places: up to two per stored tuple, as splitting a list may itself take one more block."""
    for _ in range(2):
        if side == LEFT:
            if is_crowded(s.left_buckets, bucket) and split_left(me, c, s, buffer, bucket, horizon) < 0:
                return -1
        elif is_crowded(s.right_buckets, bucket) and split_right(me, c, s, buffer, bucket, horizon) < 0:
            return -1
    return 0


@kernel
def is_crowded(buckets, bucket):
    """Whether a bucket needs more places."""
    return buckets[bucket, BLOCKS] > CROWDED * buckets[bucket, PLACES]


@kernel
def has_room_to_spare(buckets, bucket):
    """Whether a bucket has many more places than its tuples need."""
    return buckets[bucket, PLACES] > max(LEAST_CELLS, SPARSE * buckets[bucket, BLOCKS])


@kernel
def sweep(me, s, owner, count, horizon):
    """Advance the hand through the cells, so that a cell that is never stored into again does not keep its tuples."""
    bucket, cell = s.own[me, HAND], s.own[me, HAND_CELL]
    left, right = s.left_buckets, s.right_buckets
    for _ in range(count):
        if owner[bucket] == me:
            if cell < left[bucket, PLACES]:
                expire_left(me, s, (left[bucket, FIRST_PLACE] + cell) << BUCKET_BITS | bucket, horizon)
            if cell < right[bucket, PLACES]:
                expire_right(me, s, (right[bucket, FIRST_PLACE] + cell) << BUCKET_BITS | bucket, horizon)
            if has_room_to_spare(left, bucket):
                merge_left(me, s, bucket)
            if has_room_to_spare(right, bucket):
                merge_right(me, s, bucket)
            cell += 1
            if cell < max(left[bucket, PLACES], right[bucket, PLACES]):
                continue
        bucket = (bucket + 1) & BUCKET_MASK
        cell = 0
    s.own[me, HAND], s.own[me, HAND_CELL] = bucket, cell
