"""Which buckets of keys an instance's load comes from: sampled, so that it costs next to nothing.

Load is what the operator counts (key updates, or comparisons of a join), and that
count is exact. Its division among buckets is sampled: when an instance has
processed a batch, and its last sample is at least `LOAD_EVERY_NS` old, it goes over
the keys of a few tuples of the batch, from a place that varies, and divides the
load counted since the last sample among the buckets of the keys it owns. An
instance with little to do thus samples all of its tuples; a busy one spends about
a thousandth of its time on this.

A join that compares all pairs, and forwarding, go through the buckets in turn, so
their load is spread over the buckets an instance owns. A join with an index counts
the load of each bucket itself (`join.index_kernel`): nothing is left to divide.

Invariants  I1  LOADED is the load that a worker has given to buckets: never more
                than the load counted
            I2  at a barrier and at the end of input LOADED is all of that load, so no
                instance gives load to a bucket that it did not own
Source      STRETCH, section 8.4 (loads that mappings are balanced by).
Checked     tests/headrace/elastic/test_loads.py, tests/headrace/metrics/test_books.py
"""

from __future__ import annotations

import numpy as np

from headrace.elastic.words import LOAD_HOW, LOAD_METER, LOAD_WIDTH, LOADED, LOADED_AT
from headrace.ingress.store import KEYS
from headrace.ingress.store_kernel import keys_between, locate
from headrace.kernel import kernel
from headrace.memory.atomics import view_i32
from headrace.references import BUCKETS, SOURCE_SHIFT

# How a tuple's load is found: by its key, by each of its keys, or spread evenly.
ONE_KEY, SEVERAL_KEYS, EVENLY = range(3)

LOAD_EVERY_NS = 500_000
LOAD_KEYS = 256
"""The most keys in one sample."""


@kernel
def note_load(me, g, c, x, config, row, start, count, now):
    """Divide the load since the last sample among the buckets of the keys of some of these tuples.

    Parameters
    ----------
    config : int
        Configuration in force.
    row, start, count : int
        The tuples just processed: ``out_*[row, start:start+count]`` of the gate.
    now : int
        Monotonic time, ns.
    """
    c.meter[me, LOADED_AT] = now
    due = c.meter[me, c.layout[0, LOAD_METER]] - c.meter[me, LOADED]
    if due <= 0:
        return
    if c.layout[0, LOAD_HOW] == EVENLY:
        spread_load(me, c, config, due)
        return
    tuples = min(count, LOAD_KEYS)
    first = start + (now >> 3) % (count - tuples + 1)
    owned = add_load(me, g, c, x, config, row, first, tuples, now, 0, 0)
    if owned > 0:
        share = due // owned
        add_load(me, g, c, x, config, row, first, tuples, now, share, due - share * owned)
        c.meter[me, LOADED] += due


@kernel
def add_load(me, g, c, x, config, row, first, tuples, now, share, rest):
    """Add `share` to the bucket of each key owned, and 1 more for each of the first `rest`. Returns the number of such keys."""
    owner = c.owner[config]
    owned = 0
    left = LOAD_KEYS
    for i in range(first, first + tuples):
        ref = g.out_ref[row, i]
        source, entry, begin = locate(ref, c.layout[ref >> SOURCE_SHIFT, LOAD_WIDTH])
        end = begin + 1
        if c.layout[source, LOAD_HOW] == SEVERAL_KEYS:
            begin, end = keys_between(x, source, entry, begin, end)
            if end - begin > left:
                begin += (now >> 3) % (end - begin - left + 1)
                end = begin + left
        keys = view_i32(x[source, entry + KEYS], end)
        for k in range(begin, end):
            bucket = keys[k] & (BUCKETS - 1)
            if owner[bucket] == me:
                c.load[me, bucket] += share + (1 if owned < rest else 0)
                owned += 1
        left -= end - begin
        if left <= 0:
            break
    return owned


@kernel
def spread_load(me, c, config, due):
    """Divide `due` equally among the buckets owned; the remainder goes to the buckets after those that got the last remainder."""
    owner = c.owner[config]
    owned = 0
    for bucket in range(BUCKETS):
        if owner[bucket] == me:
            owned += 1
    if owned == 0:
        return
    share = due // owned
    rest = due - share * owned
    turn = -(c.meter[me, LOADED] % owned)  # 0 at the bucket after the last one that got 1 more
    for bucket in range(BUCKETS):
        if owner[bucket] == me:
            c.load[me, bucket] += share + (1 if turn % owned < rest else 0)
            turn += 1
    c.meter[me, LOADED] += due


@kernel
def settle_load(me, c, config):
    """Divide the load not yet given among the buckets owned, in proportion to what they have (I2)."""
    due = c.meter[me, c.layout[0, LOAD_METER]] - c.meter[me, LOADED]
    if due <= 0:
        return
    owner = c.owner[config]
    total = 0
    last = -1
    for bucket in range(BUCKETS):
        if owner[bucket] == me and c.load[me, bucket] > 0:
            total += c.load[me, bucket]
            last = bucket
    if c.layout[0, LOAD_HOW] == EVENLY or total == 0:
        spread_load(me, c, config, due)
        return
    left = due
    for bucket in range(BUCKETS):
        if owner[bucket] == me and c.load[me, bucket] > 0:
            part = np.int64(due * (c.load[me, bucket] / total))
            c.load[me, bucket] += part
            left -= part
    c.load[me, last] += left
    c.meter[me, LOADED] += due
