"""Page views and frauds on threads that synchronize by hand, as in section 4.3 of the DGS paper, which uses Flink.

State       ARRIVED counts arrivals of threads at rare events, over all rare events so far; TURN counts processed rare events
Ordering    A1 a thread writes its part of the state; A2 fetch_add ARRIVED; the last to arrive in a turn reads all parts;
            A3 it writes the shared state; A4 store_release TURN; A5 load_acquire TURN; A6 a waiting thread reads that state
                    A1, A2 -> A3: the last to arrive sees every part; A3, A4 -> A5, A6: a thread that has waited sees the new
                    state. No thread arrives for a turn before the previous turn is processed
Progress    A waiting thread spins, then naps: there may be more threads than cores
Differs     one process, and atomic words instead of semaphores behind Java RMI: it does not reproduce Flink's own figures
"""

from headrace.kernel import kernel
from headrace.memory.atomics import (
    CELL,
    fetch_add,
    load_acquire,
    load_relaxed,
    nanosleep,
    pause,
    store_relaxed,
    store_release,
)
from headrace_bench.dgs_kernel import steps

ARRIVED, TURN, MODEL, SUMS = 0, CELL, 2 * CELL, 3 * CELL
"""Indices in `words`; from SUMS on there is a cell for each thread."""
SPINS = 1_000
NAP_NS = 1_000


@kernel
def is_last(words, threads, turn):
    """A2: whether all other threads have arrived, so that this one processes the rare event."""
    return fetch_add(words, ARRIVED, 1) == threads * (turn + 1) - 1


@kernel
def wait_for(words, turn):
    """A5."""
    spins = 0
    while load_acquire(words, TURN) <= turn:
        if spins < SPINS:
            spins += 1
            pause()
        else:
            nanosleep(NAP_NS)


@kernel
def frauds_by_hand(me, threads, words, ends, value, unused, rare, rare_unused, info, rounds, out):
    """Process one thread's transactions; rule ``rare[turn]`` comes before its row ``ends[turn]``. Returns the number of results.

    `unused`, `rare_unused` and `info` are arguments that only `joined_by_hand` needs.
    """
    total, model, count, at = 0, 0, 0, 0
    for turn in range(ends.size + 1):
        end = ends[turn] if turn < ends.size else value.size
        while at < end:
            x = steps(value[at], rounds)
            if x % 1000 == model:
                out[0, count], out[1, count] = 0, x
                count += 1
            total += x
            at += 1
        if turn == ends.size:
            break
        store_relaxed(words, SUMS + me * CELL, total)  # A1
        if is_last(words, threads, turn):
            total = 0
            for other in range(threads):
                total += load_relaxed(words, SUMS + other * CELL)
            out[0, count], out[1, count] = 1, total
            count += 1
            store_relaxed(words, MODEL, (total + rare[turn]) % 1000)  # A3
            store_release(words, TURN, turn + 1)  # A4
        else:
            wait_for(words, turn)
        model, total = load_relaxed(words, MODEL), 0  # A6
    return count


@kernel
def joined_by_hand(me, threads, words, ends, page, user, rare, rare_info, info, rounds, out):
    """Process one thread's views, of all pages; page ``rare[turn]`` changes before its row ``ends[turn]``, and all threads
    synchronize for that, whatever page it is. Returns the number of results."""
    count, at = 0, 0
    for turn in range(ends.size + 1):
        end = ends[turn] if turn < ends.size else page.size
        while at < end:
            out[0, count], out[1, count], out[2, count] = steps(page[at], rounds), user[at], info[page[at]]
            count += 1
            at += 1
        if turn == ends.size:
            break
        if is_last(words, threads, turn):
            out[0, count], out[1, count], out[2, count] = rare[turn], -1, info[rare[turn]]
            count += 1
            info[rare[turn]] = rare_info[turn]  # A3
            store_release(words, TURN, turn + 1)  # A4
        else:
            wait_for(words, turn)
    return count


__all__ = ["SUMS", "frauds_by_hand", "joined_by_hand"]
