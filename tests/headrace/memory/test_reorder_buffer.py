"""The reorder buffer of ordered pipelines, as the paper prints it and as it must be: a model for the explorer.

Property    whatever numbers the workers send, and in whichever order they run,
            all outputs leave in the order of their numbers and none is left in
            the buffer
Oracle      the numbers themselves
Source      Prasaad et al., "Scaling Ordered Stream Processing on Shared-Memory
            Multicores", Figure 4. The paper argues for sequential consistency.
            Slot and flag are Dekker's pattern: a worker stores its output, then
            looks at the flag; the holder clears the flag, then looks at the
            slot. Each side needs a fence between the two, or one that is
            nobody's sends neither
Planted     the clear as a plain store (as printed, `flag.clear()` with release),
            and a plain look at the flag before it is taken: right under SC,
            wrong under TSO
Cannot see  a downstream operator that is full: every output is taken here
"""

# ruff: noqa: F821  (the names are the explored programs')

import pytest

from interleave import SC, TSO, Kernels, exhaustive, find_failure, sampled

NEXT, FLAG = 0, 1
EMPTY = 0


def try_add(state, slots, number):
    """Put output `number`, from 1, into its slot, if that is free for it."""
    n = load_acquire(state, NEXT)
    if n < number <= n + len(slots):
        store_release(slots, number % len(slots), number)
        return True
    return False


def is_free(state):
    return True


def glance(state):
    """Whether the flag looks free: an attempt to spare the exchange."""
    return load_relaxed(state, FLAG) == 0


def clear(state):
    exchange(state, FLAG, 0)


def clear_and_fence(state):
    store_release(state, FLAG, 0)
    fence()


def clear_plainly(state):
    store_release(state, FLAG, 0)


def send_pending(state, slots, sent):
    while is_free(state) and exchange(state, FLAG, 1) == 0:
        while True:
            slot = (load_acquire(state, NEXT) + 1) % len(slots)
            output = load_acquire(slots, slot)
            if output == EMPTY:
                break
            sent.append(output)
            store_release(slots, slot, EMPTY)
            fetch_add(state, NEXT, 1)
        clear(state)
        if load_acquire(slots, slot) == EMPTY:
            return


def work(state, slots, sent, numbers):
    for number in numbers:
        while not try_add(state, slots, number):
            send_pending(state, slots, sent)
            pause()
        send_pending(state, slots, sent)


def case(size, shares, **replacing):
    """Workers with these numbers each; `replacing` are programs in the place of those above."""
    k = Kernels(programs=[try_add, is_free, clear, send_pending, work], replacing=replacing)
    count = sum(map(len, shares))

    def build():
        state, slots, sent = [0, 0], [EMPTY] * size, []

        def check():
            assert sent == list(range(1, count + 1)), f"sent {sent} of {count}, left {slots}"
            assert state == [count, 0]

        return [k.work(state, slots, sent, share) for share in shares], check

    return build


SMALL = [(1, ((1,), (2,))), (2, ((1,), (2,))), (2, ((2,), (1,)))]
LARGE = [(2, ((1, 3, 5), (2, 4, 6))), (2, ((2, 3), (1, 5), (4, 6))), (1, ((1, 2), (3,), (4,)))]


@pytest.mark.parametrize(("size", "shares"), SMALL)
@pytest.mark.parametrize("by", [clear, clear_and_fence])
def test_interleave_every_schedule(size, shares, by):
    assert exhaustive("reorder buffer", case(size, shares, clear=by), preemptions=4) > 50
    most = 2 if size == 1 else None  # a worker that retries makes many schedules
    assert exhaustive("reorder buffer", case(size, shares, clear=by), memory=TSO, preemptions=most) > 50


@pytest.mark.parametrize(("size", "shares"), LARGE)
def test_interleave_larger_cases(size, shares):
    sampled("reorder buffer", case(size, shares), 2_000)


@pytest.mark.parametrize("mistake", [{"clear": clear_plainly}, {"is_free": glance}], ids=["plain clear", "plain glance"])
def test_interleave_catches_under_tso_what_is_right_under_sc(mistake):
    size, shares = 2, ((1,), (2,))
    exhaustive("reorder buffer", case(size, shares, **mistake), memory=SC, preemptions=6)
    find_failure("reorder buffer", case(size, shares, **mistake), r"sent \[1\] of 2, left \[2, 0\]", memory=TSO)


def test_interleave_a_glance_behind_a_fence_is_right():
    """The look at the flag may come first once the output is visible."""

    def glance(state):
        fence()
        return load_relaxed(state, FLAG) == 0

    assert exhaustive("reorder buffer", case(2, ((1,), (2,)), is_free=glance), memory=TSO) > 50
