"""The ring: examples, every schedule of small cases, planted bugs.

Property    the reader gets what the writer wrote, in order, once.
Oracle      the list of values itself.
Cannot see  memory weaker than x86's: tests/litmus.
"""

# ruff: noqa: F821

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ParameterError
from headrace.memory.ring import Ring
from interleave import TSO, Kernels, exhaustive, find_failure, sampled

RING = "headrace.memory.ring"


def test_example_full_and_empty():
    """Capacity 4::

        write 3 1 4 1 5   -> takes 4     [3 1 4 1]
        read 2            -> 3 1         [    4 1]
        write 5 9         -> takes 2     [5 9 4 1]   5 and 9 went round
        read 9            -> 4 1 5 9
    """
    ring = Ring(4)
    assert ring.write(np.array([3, 1, 4, 1, 5])) == 4
    assert ring.write(np.array([7])) == 0
    assert ring.read(2).tolist() == [3, 1]
    assert ring.write(np.array([5, 9])) == 2
    assert len(ring) == 4
    assert ring.read(9).tolist() == [4, 1, 5, 9]
    assert ring.read(9).tolist() == []


@pytest.mark.parametrize("capacity", [0, -1, 3, 2.0, True, "8", None])
def test_example_capacity_is_a_power_of_two(capacity):
    with pytest.raises(ParameterError, match="capacity = "):
        Ring(capacity)


def test_example_count_is_not_negative():
    with pytest.raises(ParameterError, match="count = -1"):
        Ring(4).read(-1)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=40), st.sampled_from([1, 2, 4, 8]))
def test_oracle_any_sequence_of_calls(calls, capacity):
    ring = Ring(capacity)
    held: list[int] = []
    fresh = 0
    for writing, count in calls:
        if writing:
            taken = ring.write(np.arange(fresh, fresh + count))
            assert taken == min(count, capacity - len(held))
            held += range(fresh, fresh + taken)
            fresh += taken
        else:
            expected, held = held[:count], held[count:]
            assert ring.read(count).tolist() == expected
        assert len(ring) == len(held)


# -- interleavings -----------------------------------------------------------------------------------


def produce(state, slots, values, batch):
    done = 0
    while done < len(values):
        taken = write(state, slots, values, done, min(batch, len(values) - done))
        if taken == 0:
            pause()
        done += taken


def consume(state, slots, out, count, batch):
    values = [0] * batch
    while len(out) < count:
        taken = read(state, slots, values, 0, batch)
        if taken == 0:
            pause()
        out.extend(values[:taken])


def kernels(*planted):
    return Kernels(
        RING, programs=[produce, consume], shared=("slots",), planted=[(RING, *bug) for bug in planted]
    )


def case(k, capacity, count, writing, reading):
    values = list(range(1, count + 1))

    def build():
        state, slots, out = [0, 0], [0] * capacity, []

        def check():
            assert out == values, f"read {out}, written {values}"

        return [k.produce(state, slots, values, writing), k.consume(state, slots, out, count, reading)], check

    return build


@pytest.mark.slow
def test_interleave_every_schedule():
    assert exhaustive("ring", case(kernels(), 1, 2, 1, 1)) > 100_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "capacity, count, writing, reading", [(2, 3, 2, 2), (2, 4, 2, 2), (1, 3, 1, 1)]
)
def test_interleave_every_schedule_of_five_preemptions(capacity, count, writing, reading):
    assert exhaustive("ring", case(kernels(), capacity, count, writing, reading), preemptions=5) > 10_000
    assert exhaustive("ring", case(kernels(), capacity, count, writing, reading), preemptions=2, memory=TSO) > 500


@pytest.mark.slow
def test_interleave_larger_cases():
    for capacity, count, batch in [(1, 6, 2), (2, 8, 3), (4, 12, 3)]:
        assert sampled("ring", case(kernels(), capacity, count, batch, batch), 20_000) >= 20_000


WRITE = "        slots[(head + i) & (slots.size - 1)] = values[start + i]  # W1\n"
PUBLISH = "    if count > 0:\n        store_release(state, HEAD, head + count)  # W2\n"
LOOP = "    for i in range(count):\n"
READ = "    for i in range(count):\n        values[start + i] = slots[(tail + i) & (slots.size - 1)]  # R2\n"
FREE = "    if count > 0:\n        store_release(state, TAIL, tail + count)  # R3\n"


OVERTAKEN = r"read \[1, 2, \d, \d, \d\], written \[1, 2, 3, 4, 5\]"
"""Whoever goes round the ring first meets the other one."""


def assert_killed(old, new, expected=OVERTAKEN):
    find_failure("ring", case(kernels((old, new)), capacity=2, count=5, writing=2, reading=2), expected)


def test_interleave_catches_publish_before_write():
    assert_killed(LOOP + WRITE + PUBLISH, PUBLISH + LOOP + WRITE)


def test_interleave_catches_off_by_one_in_the_bound():
    overwritten = r"read \[3, 2, 3, 4, 5\], written"
    assert_killed("+ slots.size - head  # W0", "+ slots.size - head + 1  # W0", overwritten)


def test_interleave_catches_early_reclamation():
    torn = READ.replace("        values", "        load_relaxed(state, TAIL)\n        values")
    assert_killed(READ + FREE, FREE + torn)


def test_interleave_catches_a_slot_read_before_the_head():
    early = "    early = slots[tail & (slots.size - 1)]\n    ready = load_acquire(state, HEAD) - tail  # R1\n"
    k = kernels(
        ("    ready = load_acquire(state, HEAD) - tail  # R1\n", early),
        ("values[start + i] = slots[(tail + i) & (slots.size - 1)]", "values[start + i] = early"),
    )
    find_failure("ring", case(k, 2, 3, 1, 1), r"read \[.*\], written \[1, 2, 3\]")
