"""What an instance does with its ring of results in the interleavings, whichever way results are taken."""

# ruff: noqa: F821  (the names are the explored kernels')

from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import HEARTBEAT, ROW_MASK, SOURCE_SHIFT


def write(o, me, primaries, head):
    """Write results one by one, each promised at once. Returns how many there are, with the `head` before; -1 if stopped."""
    for p in primaries:
        slot = reserve_slot(o, me, head)
        if slot < 0:
            return -1
        o.primary[me, slot] = p
        head += 1
        publish(o, me, head, p, p)
    return head


def change_instances(o, before, after, promised):
    """Let instances that join begin at a promised time, and those that leave hold nobody back."""
    for r in range(len(o.head)):
        if r in after and r not in before:
            start_mark(o, r, promised, promised)
        elif r in before and r not in after:
            start_mark(o, r, END_OF_TIME, END_OF_TIME)


def end_epoch(o, me, words, sets, e, head, promises):
    """Promise the end of epoch e: its members meet at a barrier, and the last one to arrive changes which they are."""
    if e == len(sets) - 1:
        publish(o, me, head, END_OF_TIME, END_OF_TIME)
    else:
        publish(o, me, head, promises[e], promises[e])
        if fetch_add(words, 0, 1) == len(sets[e]) - 1:
            store_release(words, 0, 0)
            change_instances(o, sets[e], sets[e + 1], promises[e])
            store_release(words, 1, e + 1)


def write_ahead(o, me, primaries, head, ahead):
    """Write results one by one, each so far ahead of the watermark. Returns how many there are, with the `head` before."""
    for p in primaries:
        slot = reserve_slot(o, me, head)
        o.primary[me, slot] = p
        head += 1
        publish(o, me, head, 0, p - ahead)
    return head


def instance(o, me, words, sets, rows, promises, ahead):
    """A worker of the upstream operator, as in the engine: members meet at barriers, the last one changes which they are.

    sets[e] are the members of epoch e, rows[e][r] what r writes then; words = [arrived, epoch, whether a row was read].
    """
    head = 0
    for e in range(len(sets)):
        while load_acquire(words, 1) < e:
            pause()
        if me in sets[e]:
            head = write_ahead(o, me, rows[e][me], head, ahead)
            end_epoch(o, me, words, sets, e, head, promises)


def take(o, g, reader, got, wrong, words, in_order):
    """An instance of the next operator: read its gate to the end, and note what must not be."""
    position = 0
    reached = MIN_TIME
    row_of = lane(g, reader)
    while True:
        start, count = peek(g, reader, position, 2)
        if count == 0:
            await_records(g, reader, position, 0, GO_ON)
            continue
        for i in range(count):
            cut()
            ts = g.out_ts[row_of][start + i]
            ref = g.out_ref[row_of][start + i]
            if ref == HEARTBEAT:
                reached = max(reached, ts)
                if len(got) == 1 and ts < max(got[0] + [MIN_TIME]):  # one source writes the log as it is
                    wrong.append(("back", ts))
            else:
                source = ref >> SOURCE_SHIFT
                found = o.primary[source][ref & ROW_MASK]
                got[source].append(found)
                store_release(words, 2, 1)
                if found != ts:
                    wrong.append(("overwritten", found, ts))
                if ts < reached:
                    wrong.append(("late", ts, reached))
                if in_order and ts < max(sum(got, [MIN_TIME])):
                    wrong.append(("out of order", ts))
        position += count
        advance(g, reader, position)
        if reached == END_OF_TIME:
            return


def write_together(o, me, primaries, most):
    """An instance that publishes several results at once, as windows give them; what a full ring wants goes before."""
    head = 0
    for p in primaries:
        slot = reserve_slot(o, me, head)
        o.primary[me, slot] = p
        head += 1
        if head % most == 0:
            publish(o, me, head, p, p)
    publish(o, me, head, END_OF_TIME, END_OF_TIME)
