"""Operator 15: every tuple once, in merged order. Instances take turns by position.

Position p belongs to bucket p % 1024, so the mapping divides tuples as it
divides keys. The position is the only state. More tuples with the last event
time may follow and are emitted with it, so the watermark is one unit below it.
"""

from headrace.egress.rings import reserve_slot
from headrace.elastic.instance_loop import HEAD, IN_FORCE, LOW, SCATTERED, SEEN, WATERMARK, WIDTH
from headrace.elastic.ownership import owns
from headrace.elastic.words import UPDATES
from headrace.kernel import kernel


@kernel
def promise(l):
    return l[SEEN] - 1


@kernel
def hand_over(s, me, joiner):
    return


@kernel
def begin(c, l, s, buffer):
    return


@kernel
def advance_time(me, g, c, o, x, s, l, buffer, ts):
    l[WATERMARK] = ts - 1
    return 0


@kernel
def finish(me, g, c, o, x, s, l, buffer):
    return 0


@kernel
def process(me, g, c, o, x, s, l, buffer, row, start, count):
    refs = g.out_ref[row, start : start + count]
    owner = c.owner[l[IN_FORCE]]
    taken = 0
    for i in range(count):
        position = l[SEEN] + i
        if owns(position, l[LOW], l[WIDTH], l[SCATTERED] != 0, owner, me):
            slot = reserve_slot(o, me, l[HEAD])
            if slot < 0:
                return -1
            o.primary[me, slot] = position
            o.a[me, slot] = refs[i]
            o.at[me, slot] = g.out_at[row, start + i]
            l[HEAD] += 1
            taken += 1
    c.meter[me, UPDATES] += taken
    l[WATERMARK] = g.out_ts[row, start + count - 1] - 1
    return 0
