"""A join without an index: each instance compares every tuple with its share of the other side.

Included in the module of such a join (`all_pairs`), which supplies, for each side

    load_left               load what a tuple's comparisons need; false if it matches nothing
    pad_left                pad the number of loaded left tuples to a multiple of `PROBES`
    probe_left              compare the loaded right tuples with the stored left ones
    match_probes            whether two loaded tuples match

Tuple number `row` of a source belongs to bucket row % 1024, so the mapping divides
the stored tuples among the instances, and a reconfiguration moves none of them.
Each instance compares an arriving tuple with the rows it owns in the window of the
other side.

All tuples of one side in a group of records probe the rows stored before the group,
in blocks of `BLOCK` rows, which fit into the first-level cache, `PROBES` tuples a
pass. This quick test is vectorised and in narrow types; it has false positives, but no
false negatives. A block that passes it is tested again, `FINE` rows at a time, and
where these pass, the exact condition is evaluated pair by pair. (At one match in a
thousand pairs, as hedges of trades have, nearly every block holds one.) Pairs within
the group are evaluated exactly, without a quick test.

Source      ScaleJoin; STRETCH, Operator 10. Differs: position modulo 1024 counts
            from 0 in each source, so that no tuple is left out.
Checked     tests/headrace/elastic/test_join.py
"""

# ruff: noqa: F821  (the names above)

from headrace.elastic.instance_loop import IN_FORCE, ME
from headrace.elastic.join.join_kernel import EARLIER, LATER, LEFT, RIGHT, RUNS, SIZE, emit, forget
from headrace.elastic.words import COMPARISONS
from headrace.ingress.hashing import prefetch
from headrace.kernel import kernel
from headrace.references import BUCKET_MASK, BUCKETS, ROW_MASK, SOURCE_SHIFT

BLOCK = 256
FINE = 32
PROBES = 4
LINE_BYTES = 64
FAR_ROWS = 1 << 17
"""Stored rows from which an instance that owns only some of them asks for the next ones."""

RUN_FIRST, RUN_STOP, RUN_WORDS = range(3)
"""Words of a run in `buffer.runs`, and how many it has."""


@kernel
def begin(c, l, s, buffer):
    """Note the runs of buckets that this instance owns, each from its first bucket to the one after its last."""
    runs = buffer.runs
    owner = c.owner[l[IN_FORCE]]
    count = 0
    b = 0
    while b < BUCKETS:
        if owner[b] == l[ME]:
            first = b
            while b < BUCKETS and owner[b] == l[ME]:
                b += 1
            runs[RUN_WORDS * count + RUN_FIRST] = first
            runs[RUN_WORDS * count + RUN_STOP] = b
            count += 1
        else:
            b += 1
    l[RUNS] = count


@kernel
def fetch_ahead(column, first, stop):
    """Ask for rows `first` to `stop` of a stored column.

    Of each thousand rows, an instance reads those of its buckets, and the processor fetches ahead only within what is read in
    one piece. With a million stored rows, two instances on two cores did 0.85 times the comparisons of one that way, and 1.2
    times this way.
    """
    for i in range(first, stop, LINE_BYTES // column.itemsize):
        prefetch(column, i)


@kernel
def process_group(me, g, c, o, x, s, l, buffer, row, start, first_position, n):
    ts = g.out_ts[row, start : start + n]
    refs = g.out_ref[row, start : start + n]
    ats = g.out_at[row, start : start + n]
    oldest = ts[0] - l[SIZE]
    forget(me, x, s, oldest)
    lefts, rights = buffer.lefts, buffer.rights
    left_count = 0
    right_count = 0
    for i in range(n):
        source = refs[i] >> SOURCE_SHIFT
        if s.sides[source] == LEFT:
            if load_left(x, refs[i], left_count, buffer):
                lefts[left_count] = i
                left_count += 1
        elif load_right(x, refs[i], right_count, buffer):
            rights[right_count] = i
            right_count += 1
    pad_left(left_count, buffer)
    pad_right(right_count, buffer)
    for source in range(s.sides.size):
        if s.sides[source] == RIGHT and left_count > 0:
            if probe_right(me, c, o, x, s, l, buffer, source, left_count, ts, refs, ats, first_position) < 0:
                return -1
        elif s.sides[source] == LEFT and right_count > 0:
            if probe_left(me, c, o, x, s, l, buffer, source, right_count, ts, refs, ats, first_position) < 0:
                return -1
    # A pair within the group belongs to the owner of the earlier tuple.
    owner = c.owner[l[IN_FORCE]]
    pairs = 0
    for a in range(left_count):
        i = lefts[a]
        for b in range(right_count):
            j = rights[b]
            earlier = min(i, j)
            if owner[refs[earlier] & BUCKET_MASK] != me:
                continue
            pairs += 1
            l[LATER] = refs[max(i, j)]
            l[EARLIER] = refs[earlier]
            if abs(ts[i] - ts[j]) < l[SIZE] and match_probes(a, b, buffer):
                later = max(i, j)
                if (
                    emit(
                        me, o, s, l, first_position + later, ats[later], refs[later], ts[later],
                        refs[earlier], ts[earlier], 1 if later == j else 0,
                    )
                    < 0
                ):
                    return -1
    c.meter[me, COMPARISONS] += pairs
    for i in range(n):
        s.high[me, refs[i] >> SOURCE_SHIFT] = (refs[i] & ROW_MASK) + 1
    return 0
