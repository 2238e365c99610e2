"""Hot rows: of successive operations that overwrite a row, or add to it, only the last is done; adding, it adds their sum.

Successive means that no other operation on the row comes between.
An executor looks at the operations of its slice of the batch as it notes them,
and keeps the last one of each record. An operation that a later one overwrites is
left out: it gets no place in the chain of its row, so the chain is shorter.

    row r    W1 W2 R3 W4 W5 W6      is run as      W2 R3 W6
    row q    +1 +1 R3 +2 +5 -1      is run as      +2 R3 +6

Where too few operations are left out, looking costs more than it saves: the
executor then stops looking for some batches, and tries again.

State       known[me]   KNOWN_STAMP and KNOWN_OPERATION by record: the last one of the slice
            sets[o]     its record; bit 0: it overwrites the record, or what it adds is in `added`
            link[o]     LEFT_OUT, where operation o is left out
            link_2[o]   the operation that is left out because of o, or -1
            added[o]    of an operation that adds (`adding`): the sum of what it and those left out because of it add; by
                        site and column
            filling[me] COMBINING: the stamp of the slice, 0 if it is not looked through; COMBINED: operations left out so
                        far; LEFT_BEFORE: COMBINED when the slice began; REST: slices not to look through
Invariants  I1  an operation and the one that overwrites it come from the same place in the
                text, so they write the same columns; they are of the same slice; and no
                operation on their record lies between them
            I2  what is left out can neither fail nor be asked for (`overwriting`), or is already computed (`adding`, I5)
            I3  no operation is left out because of one whose event is not executed: the
                operations noted in a slice are executed all or none, since an executor stops noting at
                the first event that does not fit, and only complete events are looked through
            I4  the operations of an event stay where they are, even those left out: each
                is found by its distance from the first one
            I5  added[o] is the row's value after o minus its value before the first operation that o stands for. Each of
                these adds MOST_ADDED at most, and a slice has fewer than 2**30: so no sum leaves int64, nor does a row
                that is_roomy. For any other row the sums show, from the first one on, at which event it leaves int64
Checked     tests/headrace/transactions/test_combining.py
"""

from headrace.kernel import kernel
from headrace.transactions.key_sets_kernel import (
    FIRST_OPERATION,
    KNOWN_OPERATION,
    KNOWN_STAMP,
    KNOWN_WORDS,
    SET_AT,
    SET_STAMP,
)
from headrace.transactions.words import COMBINED, COMBINING, LEFT_BEFORE, MOST_SITES, REST

LEFT_OUT = -1
MOST_ADDED = (1 << 31) - 1
"""A larger number is added by itself."""
MOST = (1 << 63) - 1
ROOMY = 1 << 62
PAYS = 4
"""At least one in so many operations must be left out for looking to be worth it."""
BATCHES_WITHOUT = 15


@kernel
def begin_combining(c, me, is_worth_it):
    """The slice of a batch begins."""
    c.filling[me, LEFT_BEFORE] = c.filling[me, COMBINED]
    if not is_worth_it or c.filling[me, REST] > 0:
        c.filling[me, REST] = max(0, c.filling[me, REST] - 1)
        c.filling[me, COMBINING] = 0
        return
    c.filling[me, SET_STAMP] += 1  # no set has had it
    c.filling[me, COMBINING] = c.filling[me, SET_STAMP]


@kernel
def combine(c, me, o):
    """Look at operation `o` of a complete event. Returns the operation that it makes needless, which is left out, or -1."""
    stamp = c.filling[me, COMBINING]
    mask = c.known.shape[1] // KNOWN_WORDS - 1
    record = c.sets[o] >> 1
    slot = record & mask
    while c.known[me, KNOWN_WORDS * slot + KNOWN_STAMP] == stamp:
        if c.sets[c.known[me, KNOWN_WORDS * slot + KNOWN_OPERATION]] >> 1 == record:
            break
        slot = (slot + 1) & mask
    left_out = -1
    if c.known[me, KNOWN_WORDS * slot + KNOWN_STAMP] == stamp:
        before = c.known[me, KNOWN_WORDS * slot + KNOWN_OPERATION]
        both = c.sets[before] & c.sets[o] & 1
        if both != 0 and (c.link[before] ^ c.link[o]) & MOST_SITES - 1 == 0:  # I1
            c.link[before] = LEFT_OUT
            c.filling[me, COMBINED] += 1
            left_out = before
    c.link_2[o] = left_out
    c.known[me, KNOWN_WORDS * slot + KNOWN_STAMP] = stamp
    c.known[me, KNOWN_WORDS * slot + KNOWN_OPERATION] = o
    return left_out


@kernel
def is_small(added):
    """Whether a number may be added up with others."""
    return -MOST_ADDED <= added <= MOST_ADDED


@kernel
def is_roomy(value):
    """Whether a row's value stays within int64 whatever a slice of a batch adds."""
    return -ROOMY <= value <= ROOMY


@kernel
def leaves_int64(value, added):
    """Whether a sum is outside int64."""
    return value > MOST - added if added > 0 else value < -MOST - 1 - added


@kernel
def event_before(c, i, o):
    """The event of operation `o`: event `i`, or one before it in its slice (I4)."""
    while c.set_at[i] > o:
        i -= 1
    return i


@kernel
def end_combining(c, me):
    """End a complete slice: decide whether the next ones are looked through."""
    if c.filling[me, COMBINING] != 0:
        noted = c.filling[me, SET_AT] - c.filling[me, FIRST_OPERATION]
        if PAYS * (c.filling[me, COMBINED] - c.filling[me, LEFT_BEFORE]) < noted:
            c.filling[me, REST] = BATCHES_WITHOUT


__all__ = [
    "LEFT_OUT",
    "begin_combining",
    "combine",
    "end_combining",
    "event_before",
    "is_roomy",
    "is_small",
    "leaves_int64",
]
