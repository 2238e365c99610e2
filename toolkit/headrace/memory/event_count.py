"""An event count: sleep until another thread signals that something may have changed.

State       EVENT   int32 word, incremented by every signal that found sleepers
            WAITERS int64 cell, threads that are about to sleep or sleep
Ordering    sleeper  S1 WAITERS += 1, S2 read EVENT, S3 fence, S4 re-check the
                     condition, S5 futex_wait while EVENT is what S2 read
            signaller P1 publish the condition, P2 fence, P3 read WAITERS,
                     P4 if any: EVENT += 1, wake
            Either S1 or P1 comes first, in the order that the two fences make. If
            it is S1, P3 sees the waiter and P4 changes EVENT, so S5 returns or does
            not sleep. If it is P1, S4 sees the condition.
Progress    A sleeper also wakes after `timeout_ns`; a lost wake-up would cost
            time, never correctness.
Checked     tests/headrace/memory/test_event_count.py, tests/litmus
"""

from headrace.kernel import kernel
from headrace.memory.atomics import fence, fetch_add, futex_wait, futex_wake, load_acquire, load_relaxed

LOST_NS = 1_000_000_000
"""A thread that lost its core between P1 and P4 has it back by then: a sleeper not woken this long after its time-out never will
be."""


@kernel
def prepare(words, waiters, event, index):
    """S1 to S3. Returns the ticket for `sleep`; re-check the condition before that."""
    fetch_add(words, waiters, 1)  # S1
    ticket = load_acquire(event, index)  # S2
    fence()  # S3
    return ticket


@kernel
def doze(event, index, ticket, timeout_ns):
    """S5, without leaving: `cancel` does that. True if it timed out and no thread has signalled.

    If the condition holds then, and still no thread has signalled, a wake-up was
    lost: a thread that published it after S1 would have seen this sleeper.
    """
    futex_wait(event, index, ticket, timeout_ns)  # S5
    return load_acquire(event, index) == ticket


@kernel
def sleep(words, waiters, event, index, ticket, timeout_ns):
    """S5, then leave."""
    doze(event, index, ticket, timeout_ns)
    fetch_add(words, waiters, -1)


@kernel
def cancel(words, waiters):
    """Leave without sleeping: S4 found the condition true."""
    fetch_add(words, waiters, -1)


@kernel
def signal(words, waiters, event, index):
    """P2 to P4, after the caller published the condition."""
    fence()  # P2
    if load_relaxed(words, waiters) != 0:  # P3
        fetch_add(event, index, 1)  # P4
        futex_wake(event, index, 1 << 30)
