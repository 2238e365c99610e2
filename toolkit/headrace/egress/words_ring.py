"""Lists of no fixed length in result records: a ring of int64 words for each worker, beside its ring of records.

A record has one value column of *positions* for each such column of the results,
and one of counts: its list is that many words from that position on. A position
says whose ring it is in and how many words were written there before, so it
stays valid after the words have left the ring.

The collector takes words as they come, whether or not their record is
published, so a writer that waits for room waits only for the collector's next
turn, and a list may be longer than the ring. The words it has taken wait with the
records for their release (`list_words`).

State       LIST_HEAD[r] words written, LIST_TAIL[r] words taken
Invariants  I1  0 <= LIST_HEAD[r] - LIST_TAIL[r] <= words of the ring
            I2  only instance r stores LIST_HEAD[r]; only the collector stores
                LIST_TAIL[r]
            I3  word n of r is at n % size while LIST_TAIL[r] <= n < LIST_HEAD[r]
Ordering    P1 write words, P2 store_release LIST_HEAD, then W2 of `rings`
            C2 of `rings`, P3 load_acquire LIST_HEAD, P4 read words
                    P2 is before W2 and C2 before P3: a record comes with its words
            P5 store_release LIST_TAIL, P0 load_acquire LIST_TAIL
                    a place is written again only once it is read
            P2, `signal` (a fence); C4 of `rings` (a fence), then it loads
            LIST_HEAD: a collector that goes to sleep has seen the words, or is
            woken. The same holds for P5 and a writer that waits for room
Progress    A full ring waits for the collector (back-pressure), polling STOP.
Checked     tests/headrace/egress/test_words_ring.py
"""

from __future__ import annotations

import numpy as np

from headrace.egress.rings import DRAINED_EVENT, INSTANCES_WAITING, await_room
from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, load_relaxed, store_release, view_i64
from headrace.memory.event_count import signal

CAPACITY = 1 << 17
"""Words of a ring, a power of two."""

INSTANCE_SHIFT = 48
WORD_MASK = (1 << INSTANCE_SHIFT) - 1


@kernel
def write_words(o, me, source, first, count, step):
    """Write a list; called before the record that it belongs to is published.

    Parameters
    ----------
    o : OutArrays
        With rings for lists.
    me : int
        The instance.
    source : int64[]
        The list is `count` of its words: the one at `first`, and every `step`-th one after it.

    Returns
    -------
    position : int
        To be stored in the record; -1 when stopped.
    """
    capacity = o.list_words.shape[1]
    head = load_relaxed(o.list_head, me * CELL)
    position = (np.int64(me) << INSTANCE_SHIFT) | head
    done = 0
    while done < count:
        room = capacity - (head - load_acquire(o.list_tail, me * CELL))  # P0
        if room == 0:
            if not await_room(o, me, o.list_head, o.list_tail, head, capacity):
                return np.int64(-1)
            continue
        slot = head & (capacity - 1)
        piece = min(count - done, room, capacity - slot)
        at = first + done * step
        for i in range(piece):
            o.list_words[me, slot + i] = source[at + i * step]  # P1
        done += piece
        head += piece
    store_release(o.list_head, me * CELL, head)  # P2
    return position


@kernel
def words_taken(o, me, tail):
    """Note that the collector has taken every word before `tail` of instance `me`, and wake instances that wait."""
    store_release(o.list_tail, me * CELL, tail)  # P5
    signal(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT)


@kernel
def copy_lists(addresses, sizes, firsts, positions, offsets, out):
    """Copy lists into one array, one after the other.

    Parameters
    ----------
    addresses, sizes, firsts : int64[instances]
        For each instance: address and count of the words that were taken, and the number of the first of them.
    positions : int64[n]
        Of lists whose words were taken.
    offsets : int64[n + 1]
        Where each list begins in `out`, and where the last one ends.
    out : int64[]
    """
    for i in range(positions.size):
        r = positions[i] >> INSTANCE_SHIFT
        words = view_i64(addresses[r], sizes[r])
        start = (positions[i] & WORD_MASK) - firsts[r] - offsets[i]
        for at in range(offsets[i], offsets[i + 1]):
            out[at] = words[start + at]


__all__ = ["CAPACITY", "INSTANCE_SHIFT", "WORD_MASK", "copy_lists", "words_taken", "write_words"]
