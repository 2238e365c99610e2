"""Which records each event's transactions touch, written down before any of them runs.

An executor writes the key sets of its slice of the batch one after another into
its region of `sets`. A region's share of the array is the slice's share of the
batch, so a batch of one event has all of it.

State       filling[me]: where the current set began, its end so far, the region's
            end, whether it was full, the number of the set (a stamp), the executor's
            first operation of the batch; known[me]: KNOWN_STAMP and KNOWN_OPERATION by
            record, for sets that are too large to be searched
Invariants  I1  operations of an event are contiguous, those of a slice too, in the
                order of events: an operation's number rises with its event's
            I2  a record is in a set once; it is written if any mention writes
"""

from headrace.kernel import kernel
from headrace.memory.atomics import load_relaxed
from headrace.transactions.words import COUNT, NOTED

# Columns of `filling`.
SET_BEGIN, SET_AT, SET_END, SET_FULL, SET_STAMP, FIRST_OPERATION = range(6)

KNOWN_STAMP, KNOWN_OPERATION, KNOWN_WORDS = range(3)
"""Words of a record in `known`, and how many it has."""

SEARCHED = 16
"""A set of up to so many records is searched linearly, a larger one is hashed."""


@kernel
def begin_region(c, me, first, last):
    """Begin the region of the key sets of events `first` to `last - 1` of the batch."""
    operations, count = c.sets.size, load_relaxed(c.words, COUNT)
    start = operations * first // count
    c.filling[me, SET_AT] = start
    c.filling[me, FIRST_OPERATION] = start
    c.filling[me, SET_END] = operations * last // count


@kernel
def begin_set(c, me):
    """Begin the key set of an event."""
    c.filling[me, SET_BEGIN] = c.filling[me, SET_AT]
    c.filling[me, SET_FULL] = 0
    c.filling[me, SET_STAMP] += 1


@kernel
def find_noted(c, me, record, at):
    """The operation on `record` in the current set, or -1; if there is none, it is `at` from now on."""
    begin = c.filling[me, SET_BEGIN]
    if at - begin <= SEARCHED:
        for o in range(begin, at):
            if c.sets[o] >> 1 == record:
                return o
        if at - begin < SEARCHED:
            return -1
        for o in range(begin, at):  # from here on the set is hashed
            _find_hashed(c, me, c.sets[o] >> 1, o)
    return _find_hashed(c, me, record, at)


@kernel
def _find_hashed(c, me, record, at):
    stamp = c.filling[me, SET_STAMP]
    mask = c.known.shape[1] // KNOWN_WORDS - 1
    slot = record & mask
    while c.known[me, KNOWN_WORDS * slot + KNOWN_STAMP] == stamp:
        o = c.known[me, KNOWN_WORDS * slot + KNOWN_OPERATION]
        if c.sets[o] >> 1 == record and o != at:
            return o
        slot = (slot + 1) & mask
    c.known[me, KNOWN_WORDS * slot + KNOWN_STAMP] = stamp
    c.known[me, KNOWN_WORDS * slot + KNOWN_OPERATION] = at
    return -1


@kernel
def note(c, me, record, is_write):
    """Note that the event reads or writes a record."""
    at = c.filling[me, SET_AT]
    if at >= c.filling[me, SET_END]:
        c.filling[me, SET_FULL] = 1
        return
    word = record << 1 | (1 if is_write else 0)
    o = find_noted(c, me, record, at)
    if o >= 0:
        c.sets[o] |= word
        return
    c.sets[at] = word
    c.filling[me, SET_AT] = at + 1


@kernel
def end_set(c, me, i):
    """Complete the key set of event `i`. False if it did not fit."""
    begin, at = c.filling[me, SET_BEGIN], c.filling[me, SET_AT]
    if not end_operations(c, me, i):
        return False
    c.set_size[i] = at - begin
    c.pending[i] = 0
    for o in range(begin, at):
        c.event_of[o] = i
    return True


# -- single operations: not merged, and each knows its event


@kernel
def note_operation(c, me, at, end, record, word, overwrites):
    """Note an operation on a record; `word` says which one of which event it is. `overwrites`: see `combining_kernel`.

    It becomes operation `at`, which is SET_AT; the number of the next one is returned. So SET_AT is written for each
    operation, and read for none.
    """
    if at >= end:
        c.filling[me, SET_FULL] = 1
        return at
    c.sets[at] = record << 1 | (1 if overwrites else 0)
    c.link[at] = word
    c.filling[me, SET_AT] = at + 1
    return at + 1


@kernel
def end_operations(c, me, i):
    """Complete the operations of event `i`. False if they did not fit."""
    begin, at = c.filling[me, SET_BEGIN], c.filling[me, SET_AT]
    if c.filling[me, SET_FULL] != 0:
        c.filling[me, SET_AT] = begin
        return False
    c.set_at[i] = begin
    c.meter[me, NOTED] += at - begin
    return True


@kernel
def index_set(c, me, i):
    """Hash the key set of event `i`, whichever executor wrote it, so that executor `me` can look up its operations."""
    c.filling[me, SET_STAMP] += 1
    for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
        _find_hashed(c, me, c.sets[o] >> 1, o)


@kernel
def find_in_index(c, me, record):
    """The operation on `record` of the event for which `index_set` was last called; it must have one."""
    return _find_hashed(c, me, record, -1)


__all__ = [
    "begin_region",
    "begin_set",
    "end_operations",
    "end_set",
    "find_in_index",
    "find_noted",
    "index_set",
    "note",
    "note_operation",
]
