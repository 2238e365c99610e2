"""MVLK: each write of a record makes a version of its row; a later event reads the version that it must see.

In the order of events, each event looks up the last write before it of each record that it touches: it draws. It waits for
that version and for nothing else: a write waits for no reads, since a version does not change when later ones are written.

    record r    row in its table <- W1 <- W4 <- W5        R2 and R3 read W1's version, also when W5's is there

A version begins as a copy of the one before, so a transaction that is rejected, or does not write after all, publishes
what it found. A transaction works on its versions as on the table's rows (`place_of`). When the batch is over, the last version
of each record becomes the row, and the others are garbage, which the next batch overwrites.

State       TURN        as in `locks_kernel`
            tails[r]    the last write of the record that has drawn: its number in the run (`first_number`), so nothing
                        is cleared. Other schemes leave smaller numbers in this word (written by the holder of the turn)
            link[o]     the write before operation o on its record, or NOBODY; once the event may run, the word where the
                        row that it sees begins (then its executor's)
            version of o   in `table_rows`, behind the tables: a stamp and the row. The stamp is the batch in which it was
                        published, so nothing is cleared; before all versions lies NEVER, where NOBODY's stamp would be
Invariants  I1  events draw in their order: the holder of the turn is alone (I1 of `locks_kernel`)
            I2  links go to earlier events, and executors run theirs in rising order, so the earliest remaining event
                waits for none (I2 there): no deadlock
            I3  a version is written only by the event of its operation, before it is published; a table's row is not
                written while events run. So an event may read a row or a version that it sees at any time
            I4  when all have drawn, a record that is written has the number of its last write in `tails`
            I5  every record that a transaction opens is in its event's key set: an event whose keys could not be
                named runs alone in its batch, without versions
Ordering    L1 links drawn, L2 store_release TURN; L0 load_acquire TURN
            W1 copy and write the version, W2 store_release its stamp; R1 load_acquire the stamp, R2 read the version
            G1 the last version becomes the row: after the barrier at which all events of the batch are over, so the
            row has no reader left; before the barrier at which the next batch begins (W1 to R2 of `phases_kernel`)
Progress    As in `locks_kernel`. All events of a batch have versions of their own: memory limits the size of key sets.
Source      TStream, section II-C ("MVLK"), after Wang et al.: a counter lwm of each record says how far its versions
            are; sections IV-C and IV-D: versions are garbage when the batch is over. Differs: a waiting event knows its
            version beforehand, so a read waits for the write before it instead of all that are not later; the draw is
            that of our LOCK, in blocks.
Checked     tests/headrace/transactions/test_interleave.py, test_interleave_parts.py, test_executors.py
"""

from headrace.kernel import kernel
from headrace.memory.atomics import load_relaxed, store_release
from headrace.transactions.flow_kernel import LAST_WRITE, NOBODY
from headrace.transactions.key_sets_kernel import SEARCHED, find_in_index, index_set
from headrace.transactions.locks_kernel import begin_block
from headrace.transactions.phases_kernel import await_value
from headrace.transactions.words import (
    CAUSE,
    EXPECTED,
    EXPECTED_END,
    FIRST_RECORD,
    LAST,
    NEXT,
    RECORD_WORDS,
    ROW_SIZE,
    ROWS_AT,
    SEEN,
    STOP_SEEN,
    TURN,
    VERSIONS,
)


@kernel
def take_versioned(me, c, l, executed):
    """Take the next event, once all versions that it must see exist; OUT_OF_EVENTS, or STOP_SEEN."""
    if l[NEXT] >= l[LAST]:
        begun = begin_block(me, c, l, executed)  # L0
        if begun < 0:
            return begun
        for i in range(l[NEXT], l[LAST]):
            draw_links(c, i)
        store_release(c.words, TURN, l[LAST])  # L2
    i = l[NEXT]
    l[NEXT] += 1
    if not await_versions(me, c, l, i):
        return STOP_SEEN
    return i


@kernel
def first_number(c):
    """A number for the batch's first operation, above all numbers of earlier batches."""
    return (load_relaxed(c.words, SEEN) + 1) * c.sets.size


@kernel
def draw_links(c, i):
    """L1: draw which write comes before each operation of event `i`."""
    first = first_number(c)
    for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
        t = (c.sets[o] >> 1) * RECORD_WORDS + LAST_WRITE
        before = c.tails[t] - first
        c.link[o] = before if 0 <= before < c.sets.size else NOBODY
        if c.sets[o] & 1:
            c.tails[t] = first + o


@kernel
def versions_in(c):
    """Where versions lie, first and size: that of operation `o` begins at first + o * size with its stamp, then the row."""
    last = c.table_places.shape[0] - 1
    return c.table_places[last, ROWS_AT], c.table_places[last, ROW_SIZE]


@kernel
def table_of(c, record):
    """The number of a record's table."""
    table = 0
    while c.table_places[table + 1, FIRST_RECORD] <= record:
        table += 1
    return table


@kernel
def row_at(c, table, record):
    """The word where the row of a record begins in its table."""
    return c.table_places[table, ROWS_AT] + (record - c.table_places[table, FIRST_RECORD]) * c.table_places[table, ROW_SIZE]


@kernel
def copy_row(c, to, start, size):
    """Copy a row. Most rows are short, and a loop takes time to begin."""
    c.table_rows[to] = c.table_rows[start]
    if size > 1:
        for k in range(1, size):
            c.table_rows[to + k] = c.table_rows[start + k]


@kernel
def await_versions(me, c, l, i):
    """R1: wait for each version that event `i` must see, and begin its own ones. False when the run stops first."""
    batch = load_relaxed(c.words, SEEN) + 1
    versions, size = versions_in(c)
    begun = 0
    for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
        before, record = c.link[o], c.sets[o] >> 1
        table = table_of(c, record)
        row, stamp = row_at(c, table, record), versions + before * size
        if not await_value(me, c, c.table_rows, stamp, batch):  # R1
            return False
        place = stamp + 1 if before != NOBODY else row
        if c.sets[o] & 1:
            own = versions + o * size + 1
            copy_row(c, own, place, c.table_places[table, ROW_SIZE])  # W1
            begun += 1
            place = own
        c.link[o] = place
    c.meter[me, VERSIONS] += begun
    l[EXPECTED] = c.set_at[i]
    l[EXPECTED_END] = c.set_at[i] + c.set_size[i]
    if c.set_size[i] > SEARCHED:
        index_set(c, me, i)
    return True


@kernel
def place_of(me, c, l, record):
    """The word where the row of a record begins as the current event sees it: its own version, or an earlier one."""
    o = l[EXPECTED]  # rows are opened mostly in the order in which they were named
    if o == l[EXPECTED_END] or c.sets[o] >> 1 != record:
        o = c.set_at[l[CAUSE]]
        if l[EXPECTED_END] - o > SEARCHED:
            o = find_in_index(c, me, record)
        while c.sets[o] >> 1 != record:  # I5: it is there
            o += 1
    l[EXPECTED] = o + 1
    return c.link[o]


@kernel
def publish_versions(c, i):
    """W2: event `i` is over: publish its versions."""
    batch = load_relaxed(c.words, SEEN) + 1
    versions, size = versions_in(c)
    for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
        if c.sets[o] & 1:
            store_release(c.table_rows, versions + o * size, batch)  # W2


@kernel
def write_back(c, first, last):
    """G1: copy into the tables the last versions that events `first` to `last - 1` wrote."""
    versions, size = versions_in(c)
    number = first_number(c)
    for i in range(first, last):
        for o in range(c.set_at[i], c.set_at[i] + c.set_size[i]):
            if c.sets[o] & 1:
                record, own = c.sets[o] >> 1, versions + o * size + 1
                table = table_of(c, record)
                row, last_write = row_at(c, table, record), c.tails[record * RECORD_WORDS + LAST_WRITE]
                # A version that is not the last is copied to itself: a branch here would be mispredicted often.
                copy_row(c, row if last_write == number + o else own, own, c.table_places[table, ROW_SIZE])


__all__ = ["place_of", "publish_versions", "take_versioned", "write_back"]
