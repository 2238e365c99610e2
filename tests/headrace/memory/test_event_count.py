"""The event count under every schedule of small cases and both memory models, and with planted bugs.

Property    a sleeper is woken once what it waits for is there: a lost wake-up
            is a deadlock here, since the timeout never fires.
Oracle      the end of every schedule.
Cannot see  S3, the sleeper's fence: on x86 the read-modify-write S1 is one. It
            is there for C11: tests/litmus/test_event_count.py.
"""

# ruff: noqa: F821

import pytest

from interleave import SC, TSO, Kernels, exhaustive, find_failure, sampled

EVENT_COUNT = "headrace.memory.event_count"


def wait(words, event, wanted):
    """Sleep until cell 1 has reached `wanted`: prepare, look again, sleep."""
    while load_acquire(words, 1) < wanted:
        ticket = prepare(words, 0, event, 0)
        if load_acquire(words, 1) >= wanted:
            cancel(words, 0)
        else:
            sleep(words, 0, event, 0, ticket, 0)


def produce(words, event, count):
    for _ in range(count):
        fetch_add(words, 1, 1)
        signal(words, 0, event, 0)


def publish(words, event, count):
    """The same with a plain store, as a gate publishes: only P2 orders it with P3."""
    for value in range(1, count + 1):
        store_release(words, 1, value)
        signal(words, 0, event, 0)


def kernels(*planted, programs=(wait, produce, publish)):
    return Kernels(EVENT_COUNT, programs=programs, planted=planted)


def case(k, waiters, producers, count):
    def build():
        words, event = [0, 0], [0]

        def check():
            assert words == [0, producers * count]

        threads = [k.wait(words, event, producers * count) for _ in range(waiters)]
        if producers == 1:
            return [*threads, k.publish(words, event, count)], check
        return threads + [k.produce(words, event, count) for _ in range(producers)], check

    return build


@pytest.mark.parametrize("waiters, producers, count", [(1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1)])
def test_interleave_every_schedule(waiters, producers, count):
    bound = None if waiters + producers == 2 and count == 1 else 4
    assert exhaustive("event count", case(kernels(), waiters, producers, count), preemptions=bound) > 50
    assert exhaustive("event count", case(kernels(), waiters, producers, count), memory=TSO) > 10


@pytest.mark.slow
@pytest.mark.parametrize("waiters, producers, count", [(1, 2, 3), (3, 1, 2), (3, 2, 2)])
def test_interleave_larger_cases(waiters, producers, count):
    sampled("event count", case(kernels(), waiters, producers, count), 40_000)


DOZE = "    doze(event, index, ticket, timeout_ns)\n"
LOST = r"deadlock: threads \[\] wait, \[0\] sleep for ever"
"""The sleeper, thread 0, is not woken; the producer has ended."""


def assert_killed(*planted, programs=(wait, publish), memory=SC):
    find_failure("event count", case(kernels(*planted, programs=programs), 1, 1, 1), LOST, memory=memory)


def test_interleave_catches_a_signaller_without_its_fence():
    """P2. Under SC nothing is wrong without it, and every schedule says so."""
    planted = (EVENT_COUNT, "    fence()  # P2\n", "")
    assert exhaustive("event count", case(kernels(planted), 1, 1, 2), preemptions=4) > 50
    assert_killed(planted, memory=TSO)


def test_interleave_catches_a_ticket_drawn_after_the_recheck():
    late = "    again = load_acquire(event, index)\n    futex_wait(event, index, again, timeout_ns)"
    assert_killed((EVENT_COUNT, "    futex_wait(event, index, ticket, timeout_ns)", late))


def test_interleave_catches_an_event_that_does_not_change():
    """The sleeper drew its ticket and has not slept yet: only the changed word keeps it awake."""
    assert_killed((EVENT_COUNT, "        fetch_add(event, index, 1)  # P4\n", ""))


def test_interleave_catches_a_missing_wake():
    assert_killed((EVENT_COUNT, "        futex_wake(event, index, 1 << 30)\n", "        pass\n"))


def test_interleave_catches_a_waiter_that_is_counted_too_late():
    registered = "    fetch_add(words, waiters, 1)  # S1\n    ticket = load_acquire(event, index)  # S2\n"
    assert_killed(
        (EVENT_COUNT, registered, "    ticket = load_acquire(event, index)  # S2\n"),
        (EVENT_COUNT, DOZE, f"    fetch_add(words, waiters, 1)\n{DOZE}"),
    )


def test_interleave_catches_a_dropped_recheck_before_sleeping():
    def wait(words, event, wanted):
        while load_acquire(words, 1) < wanted:
            ticket = prepare(words, 0, event, 0)
            sleep(words, 0, event, 0, ticket, 0)

    assert_killed(programs=(wait, publish))


def test_interleave_catches_a_signal_before_the_condition_is_published():
    def publish(words, event, count):
        for value in range(1, count + 1):
            signal(words, 0, event, 0)
            store_release(words, 1, value)

    assert_killed(programs=(wait, publish))
