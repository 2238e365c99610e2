"""Hot rows: of operations that overwrite a row, where no other one comes between, the last one is done and no other.

An executor looks through the operations of its slice of the batch as it notes them,
and keeps by record which was the last one. What a later one overwrites is left out:
it gets no place in the chain of its row, which is shorter by so much.

    row r    W1 W2 R3 W4 W5 W6      is run as      W2 R3 W6

Where too few operations are left out the looking costs more than it spares: then the
executor does without for some batches, and tries again.

State       known[me]   (stamp, operation) by record: the last one of the slice
            sets[o]     its record, and in bit 0 whether it overwrites it
            link[o]     LEFT_OUT, where operation o is
            filling[me] COMBINING: the stamp of the slice, 0 if it is not looked through; COMBINED: operations left out so
                        far; LEFT_BEFORE: when the slice began; REST: slices to do without
Invariants  I1  the operation that overwrites another one is of the same place in the
                text, so it writes the same columns; is of the same slice; and no operation on
                their record lies between them
            I2  what is left out can neither fail nor be asked for (`overwriting`)
            I3  operations of an event that is not executed leave nothing out that is: those
                of a slice are executed or not as one, for an executor stops noting at the
                first event that does not fit, and only complete events are looked through
            I4  `operations` of an event stay where they are: others are found by their
                distance from the first one
Checked     tests/headrace/transactions/test_combining.py
"""

from headrace.kernel import kernel
from headrace.transactions.key_sets_kernel import FIRST_OPERATION, SET_AT, SET_STAMP
from headrace.transactions.words import COMBINED, COMBINING, LEFT_BEFORE, MOST_SITES, REST

LEFT_OUT = -1
PAYS = 4
"""One in so many operations has to be left out, or it is not worth looking."""
BATCHES_WITHOUT = 15


@kernel
def begin_combining(c, me, is_worth_it):
    """The slice of a batch begins."""
    c.filling[me, LEFT_BEFORE] = c.filling[me, COMBINED]
    if not is_worth_it or c.filling[me, REST] > 0:
        c.filling[me, REST] = max(0, c.filling[me, REST] - 1)
        c.filling[me, COMBINING] = 0
        return
    c.filling[me, SET_STAMP] += 1  # no set had it
    c.filling[me, COMBINING] = c.filling[me, SET_STAMP]


@kernel
def combine(c, me, begin):
    """Leave out what operations `begin` and up overwrite: all of one event, which is complete."""
    stamp = c.filling[me, COMBINING]
    if stamp == 0:
        return
    mask = c.known.shape[1] // 2 - 1
    for o in range(begin, c.filling[me, SET_AT]):
        record = c.sets[o] >> 1
        slot = record & mask
        while c.known[me, 2 * slot] == stamp and c.sets[c.known[me, 2 * slot + 1]] >> 1 != record:
            slot = (slot + 1) & mask
        if c.known[me, 2 * slot] == stamp:
            before = c.known[me, 2 * slot + 1]
            both = c.sets[before] & c.sets[o] & 1
            if both != 0 and (c.link[before] ^ c.link[o]) & MOST_SITES - 1 == 0:  # I1
                c.link[before] = LEFT_OUT
                c.filling[me, COMBINED] += 1
        c.known[me, 2 * slot] = stamp
        c.known[me, 2 * slot + 1] = o


@kernel
def end_combining(c, me):
    """The slice is complete: whether the next ones are looked through."""
    if c.filling[me, COMBINING] != 0:
        noted = c.filling[me, SET_AT] - c.filling[me, FIRST_OPERATION]
        if PAYS * (c.filling[me, COMBINED] - c.filling[me, LEFT_BEFORE]) < noted:
            c.filling[me, REST] = BATCHES_WITHOUT


__all__ = ["LEFT_OUT", "begin_combining", "combine", "end_combining"]
