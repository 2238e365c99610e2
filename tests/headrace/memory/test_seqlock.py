"""A seqlock: what a scan calls whole was there at one moment.

Property    two cells that only change together are never read apart by a scan that
            is whole; of two threads that want to change them one is turned away; one that
            scans for long enough gets a whole scan
Schedules   of the file's own text (`interleave`), under both memory models: two
            changes of two cells, and a scan meanwhile
Planted     a scan that does not look at VERSION again, or not whether it is odd;
            a change that begins while another one lasts
Cannot see  memory weaker than x86's: test_weak_memory.py has a model
"""

# ruff: noqa: F821  (the names are the explored kernels')

import pytest

from interleave import TSO, Kernels, exhaustive, find_failure

SEQLOCK = "headrace.memory.seqlock"


# -- programs ----------------------------------------------------------------------------------------


def write_both(words, cells):
    """Add 1 to both cells, once nobody else does."""
    while not begin_change(words, 0):
        pause()
    store_release(cells, 0, load_acquire(cells, 0) + 1)
    store_release(cells, 1, load_acquire(cells, 1) + 1)
    end_change(words, 0)


def read_both(words, cells, seen):
    """Scan until a scan is whole."""
    while True:
        before = begin_scan(words, 0)
        first = load_acquire(cells, 0)
        second = load_acquire(cells, 1)
        if is_whole(words, 0, before):
            seen.append((first, second))
            return
        pause()


def case(*planted):
    k = Kernels(SEQLOCK, programs=[write_both, read_both], planted=[(SEQLOCK, *bug) for bug in planted])

    def build():
        words, cells, seen = [0], [0, 0], []
        threads = [k.write_both(words, cells), k.write_both(words, cells), k.read_both(words, cells, seen)]

        def check():
            assert words == [4], f"VERSION is {words[0]}"
            assert cells == [2, 2], f"a change is lost: {cells}"
            assert seen[0][0] == seen[0][1], f"half a change: {seen[0]}"

        return threads, check

    return build


def test_interleave_a_whole_scan_is_of_one_moment():
    assert exhaustive("seqlock", case(), preemptions=2) > 500
    assert exhaustive("seqlock", case(), preemptions=1, memory=TSO) > 50


PLANTED = {
    "a scan does not look again": ("    return before & 1 == 0 and load_acquire(words, version) == before\n",
        "    return before & 1 == 0\n", "half a change"),
    "a scan begins within a change": ("    return before & 1 == 0 and load_acquire(words, version) == before\n",
        "    return load_acquire(words, version) == before\n", "half a change"),
    "a change begins while another one lasts": ("    return before & 1 == 0 and compare_exchange(",
        "    return compare_exchange(", "a change is lost|half a change"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    old, new, expected = PLANTED[mistake]
    find_failure("seqlock", case((old, new)), expected, count=3_000)
