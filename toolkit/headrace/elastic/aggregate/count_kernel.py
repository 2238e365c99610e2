"""Folding for aggregates that only count tuples: select the keys that an instance owns, and count them.

Included in the modules of such aggregates (`template`), which supply

    DIRECTORY_WIDTH     of the store
    SEVERAL_KEYS        whether a tuple may have any number of keys; else it has one
    count_keys          add 1 to every window of each of these keys
"""

# ruff: noqa: F821  (the names above)

from headrace.elastic.instance_loop import IN_FORCE, LOW, SCATTERED, WIDTH
from headrace.elastic.ownership import LANES, select_range, select_table
from headrace.elastic.words import UPDATES
from headrace.ingress.store import KEYS
from headrace.ingress.store_kernel import keys_between, locate
from headrace.kernel import kernel
from headrace.memory.atomics import view_i32
from headrace.references import BUCKETS


@kernel
def update_run(me, c, x, s, l, buffer, ref, rows, earliest, latest):
    """Fold `rows` tuples of one chunk, from `ref` on, into the windows from `earliest` to `latest`."""
    source, entry, k = locate(ref, DIRECTORY_WIDTH)
    end = k + rows
    if SEVERAL_KEYS:
        k, end = keys_between(x, source, entry, k, end)
    keys = view_i32(x[source, entry + KEYS], end)
    windows = latest - earliest + 1
    if l[WIDTH] == BUCKETS and l[SCATTERED] == 0:  # this instance owns all keys
        count_keys(s.counts, keys[k:end], earliest, latest)
        c.meter[me, UPDATES] += (end - k) * windows
        return 0
    piece = buffer.size - LANES
    while k < end:
        until = min(end, k + piece)
        if l[SCATTERED] == 0:
            used = select_range(keys, k, until, buffer, l[LOW], l[WIDTH])
        else:
            used = select_table(keys, k, until, buffer, c.owner[l[IN_FORCE]], me)
        count_keys(s.counts, buffer[:used], earliest, latest)
        c.meter[me, UPDATES] += used * windows
        k = until
    return 0
