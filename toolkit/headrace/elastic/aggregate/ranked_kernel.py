"""The results of a window in order of their keys, for a gate that merges what several instances give by content.

Key ids do not order as keys do; the ranks of keys do (`ingress.key_ranks`). Each instance sorts the keys that it owns and that
have a window instance, and emits these. Included in the module of an aggregate whose results are wanted so (`template`).

Source      STRETCH, section 5 (TB_out: results of equal event time are ordered by content).
Checked     tests/headrace/elastic/test_passing_content.py
"""

# ruff: noqa: F821  (names of `aggregate_kernel`)

import numpy as np

from headrace.elastic.aggregate.rank_sort_kernel import sort_by_ranks
from headrace.elastic.instance_loop import IN_FORCE, LOW, SCATTERED, WIDTH
from headrace.elastic.words import IDS
from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire
from headrace.references import BUCKETS


@kernel
def find_keys(me, c, s, l, rows, place, ids):
    """Write to `ids` the owned keys that have a window instance in `place`; it has room for one more. Returns how many."""
    found = 0
    owner = c.owner[l[IN_FORCE]]
    for row in range(rows):
        first = row * BUCKETS
        if l[SCATTERED] == 0:
            for bucket in range(l[LOW], l[LOW] + l[WIDTH]):
                ids[found] = first + bucket
                found += s.counts[(first + bucket) * SLOTS + place] != 0
        else:
            for bucket in range(BUCKETS):
                ids[found] = first + bucket
                found += (s.counts[(first + bucket) * SLOTS + place] != 0) & (owner[bucket] == me)
    return found


@kernel
def emit_by_rank(me, c, o, s, l, buffer, place, boundary):
    """Emit a window's results for the keys owned, in the order of the keys' ranks."""
    ids = s.sorted_ids[2 * me : 2 * me + 2]
    found = find_keys(me, c, s, l, load_acquire(c.words, IDS), place, ids[0])
    sort_by_ranks(found, ids, s.sorted_words[2 * me : 2 * me + 2], s.ranks, s.rank_layout, s.sorted_counts[me])
    return emit(me, o, s, l, ids[0, :found], np.int64(0), place, boundary)
