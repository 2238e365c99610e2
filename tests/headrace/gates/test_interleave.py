"""Both gates under every schedule of small cases, under both memory models, and with planted bugs.

Property    every reader gets the tuples of all sources, merged by (ts, source,
            position), each once, then the end; a control record at the same
            position as every other reader; one that joins or leaves in between
            misses nothing and repeats nothing; no thread waits for ever.
Oracle      `sorted` (tests/gate_cases.py).
Schedules   all with at most one preemption of small cases, random and
            priority schedules of the others; the two shortcuts into small
            sizes are the arrays (a log of 2 records, pools of 2 nodes) and the
            constants named in a case.
            A fifth of the sampled schedules run with store buffers. The
            campaign samples three times as many.
Planted     each names the failure it must cause; a missing fence fails with
            store buffers only
Cannot see  memory weaker than x86's: tests/litmus, test_weak_memory.py.
"""

import pytest

from gate_cases import (
    EVENT_COUNT,
    GATES,
    MEMBERSHIP,
    READER,
    SKIP_LIST,
    SOURCE,
    costs_case,
    epochs_case,
    load,
    readers_case,
    sources_case,
    static_case,
)
from interleave import SC, TSO, exhaustive, find_failure, sampled
from support.campaign import rarely

CONSTANTS = {"log": {}, "scalegate": {"NEAR": 1}}
"""With one step along level 0, even small lists go over the shortcuts."""

both = pytest.mark.parametrize("gate", GATES)
many = pytest.mark.parametrize("times", [1, *rarely(3)])
"""The schedules that are sampled, so often."""


def kernels(gate, *planted):
    return load(gate, *planted, **CONSTANTS[gate])


# -- the real text -----------------------------------------------------------------------------------


@pytest.mark.slow
@both
@many
def test_interleave_one_source_one_reader(gate, times):
    case = static_case(gate, kernels(gate), [[1, 2, 2]], 1)
    assert exhaustive(gate, case, preemptions=2) > 1000
    assert exhaustive(gate, case, preemptions=1, memory=TSO) > 50
    sampled(gate, case, times * 1_500)


@pytest.mark.slow
@both
@many
def test_interleave_two_sources_with_ties(gate, times):
    case = static_case(gate, kernels(gate), [[1, 2], [2, 2]], 1)
    assert exhaustive(gate, case, preemptions=1) > 500
    assert exhaustive(gate, case, preemptions=1, memory=TSO) > 500
    sampled(gate, case, times * 1_500)


@pytest.mark.slow
@both
@many
def test_interleave_two_readers(gate, times):
    sampled(gate, static_case(gate, kernels(gate), [[1, 3], [2, 2]], 2), times * 2_000)


@pytest.mark.slow
@both
@many
def test_interleave_every_record_waits_for_room(gate, times):
    sampled(gate, static_case(gate, kernels(gate), [[1, 3, 3, 4], [2, 2]], 2, tight=True), times * 500, longest=20_000)


@pytest.mark.slow
@both
@many
def test_interleave_an_idle_source_with_heartbeats(gate, times):
    case = static_case(gate, kernels(gate), [[1, 4], [2, 3, 3], [2]], 1, beats=(1,))
    sampled(gate, case, times * 1_400)


@pytest.mark.slow
@both
@many
def test_interleave_controls(gate, times):
    sampled(gate, static_case(gate, kernels(gate), [[1, 3], [2]], 2, epochs=(1, 2)), times * 1_400)


@both
@many
def test_interleave_a_control_behind_a_full_gate(gate, times):
    case = static_case(gate, kernels(gate), [[1, 2, 3]], 2, epochs=(1,), tight=True)
    sampled(gate, case, times * 600, longest=20_000)


@pytest.mark.slow
@both
@many
def test_interleave_a_reader_joins_and_leaves(gate, times):
    case = readers_case(gate, kernels(gate), [[1, 3, 4], [2, 2]], [(1, [0], [0, 1]), (3, [0, 1], [0])])
    sampled(gate, case, times * 1_400)


@pytest.mark.slow
@both
@many
def test_interleave_readers_change_places(gate, times):
    changes = [(1, [1], [0, 1]), (2, [0, 1], [0]), (4, [0], [1])]
    case = readers_case(gate, kernels(gate), [[1, 3, 4], [2, 2]], changes, tight=True)
    sampled(gate, case, times * 500, longest=20_000)


@pytest.mark.slow
@both
@many
def test_interleave_a_reader_is_back_before_it_saw_that_it_left(gate, times):
    changes = [(1, [0], [0, 1]), (2, [0, 1], [0]), (3, [0], [0, 1])]
    sampled(gate, readers_case(gate, kernels(gate), [[1, 3, 4, 5], [2]], changes), times * 1_400)


@both
@many
@pytest.mark.parametrize("sets", [([0], [0, 1], [1]), ([1], [0], [1]), ([0, 1], [0], [0, 1])], ids=str)
def test_interleave_epochs_begin_at_controls(gate, sets, times):
    """As in the engine: the members meet at the control record, the last one changes membership."""
    case = epochs_case(gate, kernels(gate), [[1, 3], [2]], sets)
    sampled(gate, case, times * 600, longest=20_000)


@pytest.mark.slow
@both
@many
def test_interleave_epochs_begin_in_a_full_gate(gate, times):
    case = epochs_case(gate, kernels(gate), [[1, 2, 3]], ([0], [0, 1], [1]), tight=True)
    sampled(gate, case, times * 600, longest=20_000)


@both
@many
@pytest.mark.parametrize("costs", [(4,), (4, 1)], ids=str)
def test_interleave_the_bound_in_time_moves_under_a_source_that_waits(gate, costs, times):
    """The reader wakes the source at half of a limit that the source's last try may have changed meanwhile."""
    case = moving_bound(gate, load(gate, **CONSTANTS[gate], LEAST_BOUND=1), costs)
    assert exhaustive(gate, case, preemptions=1) > 10
    sampled(gate, case, times * 400)


@pytest.mark.slow
@both
@many
def test_interleave_a_source_joins_and_leaves(gate, times):
    case = sources_case(gate, kernels(gate), [[1, 3, 5]], [2, 4])
    assert exhaustive(gate, case, preemptions=1) > 500
    sampled(gate, case, times * 1_000)


@pytest.mark.slow
@both
@many
def test_interleave_a_source_joins_below_others(gate, times):
    sampled(gate, sources_case(gate, kernels(gate), [[1, 5], [2, 3]], [2, 4], readers=2), times * 900)


# -- planted bugs ------------------------------------------------------------------------------------


ASLEEP = r"deadlock: threads \[\] wait, \[[\d, ]+\] sleep"
"""A wake-up is lost."""
WRONG = r"got \[.*\], wanted"
"""A record is lost, doubled, torn, or out of its place."""
DISAGREE = "readers disagree"
"""About the place of a record."""


def assert_killed(gate, case, expected, *planted, count=20_000):
    """The bugs, planted in the text, fail in the case, and as expected; the text as it is does not fail."""
    find_failure(gate, case(gate, kernels(gate, *planted)), expected, count=count)
    sampled(gate, case(gate, kernels(gate)), 500, longest=20_000)


def two_sources(gate, k):
    return static_case(gate, k, [[1, 3], [2, 2]], 1)


NO_SLACK = {"log": {"ring": 2, "log": 2, "bound": 2}, "scalegate": {"pool": 2, "bound": 2}}
"""The bound is all there is: a record too many, or one too early, overwrites one that is needed."""


def tight_sources(gate, k):
    return static_case(gate, k, [[1, 2, 4, 5], [2]], 1, **NO_SLACK[gate])


def tight_readers(gate, k):
    return static_case(gate, k, [[1, 2, 3, 4, 5]], 2, limit=1, **NO_SLACK[gate])


def moving_bound(gate, k, costs=(4,)):
    sizes = {"pool": 8} if gate == "scalegate" else {}
    return costs_case(gate, k, [1, 2, 3, 4, 5, 6], 2, costs, 4, bound=4, **sizes)


def with_control(gate, k):
    return static_case(gate, k, [[1, 3], [2]], 2, epochs=(1,))


def rejoining(gate, k):
    return readers_case(gate, k, [[1, 3, 4, 5], [2]], [(1, [0], [0, 1]), (2, [0, 1], [0]), (3, [0], [0, 1])])


def joining_below(gate, k):
    """The joiner has the lower index: a scan may pass its slot before it joins."""
    sizes = NO_SLACK[gate] if gate == "log" else {"tight": True}
    return readers_case(gate, k, [[1, 2, 3, 4, 5, 6]], [(2, [1], [0, 1])], limit=1, **sizes)


WRITE = """    for i in range(count):  # A1
        slot = (head + i) & (capacity - 1)
        g.ring_ts[source, slot] = ts[start + i]
        g.ring_ref[source, slot] = first_ref + i * step
        g.ring_at[source, slot] = at
"""
PUBLISH = """    store_release(g.head, source * CELL, head + count)  # A2
    store_release(g.mark, source * CELL, max(mark, ts[start + count - 1]))  # A3
"""
MARKS = """    for s in range(sources):  # M1
        mark = load_acquire(g.mark, s * CELL)
        if mark < limit_ts:
            limit_ts = mark
            limit_source = s
"""
HEADS = """    for s in range(sources):  # M2
        at[s] = load_relaxed(g.merged, s * CELL)
        until[s] = load_acquire(g.head, s * CELL)
        next_ts[s] = g.ring_ts[s, at[s] & mask] if at[s] < until[s] else NOTHING
        ready += until[s] - at[s]
"""
INSERTS = """    for i in range(count):
        insert("""
PROMISE = "    store_release(g.mark, source * CELL, max(mark, ts[start + count - 1]))  # A3\n"
CURSOR = "    store_release(g.cursor, reader * CELL, position)  # J1\n"
ACTIVATION = "    store_release(g.reading, reader * CELL, activation)  # J2\n"

PUBLISH_BEFORE_WRITE = {
    "log": [(WRITE + PUBLISH, PUBLISH + WRITE)],
    "scalegate": [(INSERTS, PROMISE + INSERTS)],
}
WATERMARK_AFTER_HEAD = {
    "log": [(MARKS + HEADS, HEADS + MARKS)],
    "scalegate": [
        (
            "            limit_source = new_source\n            continue\n",
            """            limit_source = new_source
            if ts > limit_ts or (ts == limit_ts and (after >> shift) > limit_source):
                break
""",
        )
    ],
}
OFF_BY_ONE_IN_THE_BOUND = {
    "log": [("    return max(0, room)\n", "    return max(0, room + 1)\n")],
    "scalegate": [(SKIP_LIST, "min(consumed + limit, oldest + (1 << shift))", "min(consumed, oldest) + limit + 2")],
}
LOST_CONTROL_RECORD = {
    # Written without the flag, so a merge in progress writes over it.
    "log": [
        (
            "    if not _take_flag(g):\n        return 0\n    end = load_relaxed(g.words, END)\n    smallest",
            "    end = load_relaxed(g.words, END)\n    smallest",
        )
    ],
    # Placed where some reader has already been.
    "scalegate": [("        if largest == boundary:\n", "        if True:\n")],
}
EARLY_RECLAMATION = (MEMBERSHIP, "smallest = min(smallest, load_acquire(at", "smallest = max(slowest, load_acquire(at")
MEMBERSHIP_WITHOUT_THE_SEQLOCK = (
    MEMBERSHIP,
    " or not is_whole(g.words, VERSION, before):\n",
    ":\n",
)


@both
def test_interleave_catches_publish_before_write(gate):
    assert_killed(gate, two_sources, WRONG, *PUBLISH_BEFORE_WRITE[gate])


@both
def test_interleave_catches_a_dropped_recheck_before_sleeping(gate):
    """In the engine's own function: it sleeps without looking once more."""
    recheck = "    _, count = peek(g, reader, position, 1)  # W3\n    if count > 0 or load_acquire(stop, 0) != 0:\n"
    dropped = "    if load_acquire(stop, 0) != 0:\n"
    assert_killed(gate, two_sources, ASLEEP, (READER, recheck, dropped))


@both
@pytest.mark.parametrize("call", ["add(g, source, ts, start, count, first_row)", "close_source(g, source)"])
def test_interleave_catches_a_source_that_does_not_try_again_before_it_sleeps(gate, call):
    """The engine's own wait for room, in the order it had: prepare, then sleep. A reader went on in between."""
    again = f"        ticket = announce(g)\n        taken = {call}"
    assert_killed(gate, tight_sources, ASLEEP, (SOURCE, again, "        ticket = announce(g)"))


@both
def test_interleave_catches_a_turn_that_gives_its_first_rows_again(gate):
    again = "count - taken, first_row, stop)"
    assert_killed(gate, moving_bound, WRONG, (SOURCE, "count - taken, first_row + taken, stop)", again))


@both
def test_interleave_catches_a_ticket_drawn_too_late(gate):
    late = "    again = load_acquire(event, index)\n    futex_wait(event, index, again, timeout_ns)"
    assert_killed(gate, two_sources, ASLEEP, (EVENT_COUNT, "    futex_wait(event, index, ticket, timeout_ns)", late))


@both
def test_interleave_catches_a_flag_instead_of_an_activation_id(gate):
    waiting = r"deadlock: threads \[2, 3\] wait"  # both readers, for an epoch that is over
    assert_killed(gate, rejoining, waiting, (ACTIVATION, ACTIVATION.replace("activation)", "1)")))


@both
def test_interleave_catches_the_cursor_after_the_activation(gate):
    assert_killed(gate, rejoining, WRONG, (CURSOR + ACTIVATION, ACTIVATION + CURSOR))


@both
def test_interleave_catches_the_watermark_read_after_the_head(gate):
    assert_killed(gate, two_sources, WRONG, *WATERMARK_AFTER_HEAD[gate])


@both
def test_interleave_catches_an_off_by_one_in_the_bound(gate):
    assert_killed(gate, tight_sources, WRONG, *OFF_BY_ONE_IN_THE_BOUND[gate])


def test_interleave_catches_an_off_by_one_in_the_bound_of_a_ring():
    free = "    free = load_acquire(g.merged, source * CELL) + capacity - head\n    if free < count:"
    assert_killed("log", tight_sources, WRONG, (free, free.replace("- head\n", "- head + 1\n")))


@both
def test_interleave_catches_a_lost_control_record(gate):
    lost = {"log": WRONG, "scalegate": DISAGREE}[gate]
    assert_killed(gate, with_control, lost, *LOST_CONTROL_RECORD[gate])


@both
def test_interleave_catches_early_reclamation(gate):
    lost = {"log": WRONG, "scalegate": ASLEEP}[gate]  # a node in two places of the list cuts off what is behind
    assert_killed(gate, tight_readers, lost, EARLY_RECLAMATION)


def test_interleave_catches_reclamation_of_the_node_a_reader_stands_on():
    kept = "        if stamp == smallest:\n            break  # consumed, but a reader stands on it\n"
    assert_killed("scalegate", tight_readers, ASLEEP, (SKIP_LIST, kept, ""))


@pytest.mark.parametrize("gate", ["log", *rarely("scalegate")])  # one minute
def test_interleave_catches_membership_read_without_the_seqlock(gate):
    lost = {"log": WRONG, "scalegate": ASLEEP}[gate]
    assert_killed(gate, joining_below, lost, MEMBERSHIP_WITHOUT_THE_SEQLOCK, count=100_000)  # one schedule in 20,000


def test_interleave_catches_a_merge_that_nobody_does():
    """The holder of the flag does not look whether somebody found it taken."""
    last = "        if load_relaxed(g.words, AGAIN) == 0:\n            return total"
    assert_killed("log", two_sources, ASLEEP, (last, last.replace("if load_relaxed(g.words, AGAIN) == 0:", "if True:")))


def test_interleave_catches_a_ring_that_drains_unnoticed():
    """The source that waits for room in its ring is never told."""
    told = "            drained |= before <= until[s] - half < at[s]\n"
    assert_killed("log", tight_sources, ASLEEP, (told, ""))


def test_interleave_catches_a_claim_after_the_boundary_is_read():
    claim = "    store_release(g.claim, reader * CELL, position + count)  # C1\n    fence()\n"
    node = "    state[NODE] = node\n    state[FILLED] = position + count\n    return position + count\n"
    assert_killed("scalegate", with_control, DISAGREE, (claim, ""), (node, claim + node))


def test_interleave_catches_an_unconfirmed_boundary_taken_for_final():
    wait = "            if delivered >= confirmed:\n                return position\n"
    assert_killed("scalegate", with_control, DISAGREE, (wait, ""))


def test_interleave_catches_a_shortcut_to_a_node_that_is_not_linked():
    check = """            if load_acquire(g.nodes, found * NODE_WORDS + STAMP) < 0:  # U2
                break
"""

    def case(gate, k):
        return static_case(gate, k, [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]], 1, pool=2, bound=2)

    assert_killed("scalegate", case, ASLEEP, (SKIP_LIST, check, ""))


FENCES = {
    "A3, then whether a reader waits": (
        "log",
        "ts[start + count - 1]))  # A3\n    fence()\n",
        two_sources,
        ASLEEP,
    ),
    "F1": ("log", "            store_release(g.words, AGAIN, 1)  # F1\n            fence()\n", two_sources, ASLEEP),
    "F2": ("log", "        store_release(g.words, FLAG, 0)  # F2\n        fence()\n", two_sources, ASLEEP),
    "R3, then whether a source waits": ("log", "position)  # R3\n    fence()\n", tight_readers, ASLEEP),
    "C1": ("scalegate", "position + count)  # C1\n    fence()\n", with_control, DISAGREE),
    "C2": ("scalegate", "    while True:  # C2\n        fence()\n", with_control, DISAGREE),
    "P2, of the event count": ("scalegate", (EVENT_COUNT, "    fence()  # P2\n"), two_sources, ASLEEP),
}


@pytest.mark.parametrize("name", FENCES)
def test_interleave_catches_a_missing_fence(name):
    """Under SC none is missed; with store buffers each is."""
    gate, text, case, expected = FENCES[name]
    where, old = (GATES[gate], text) if isinstance(text, str) else text
    without = "".join(line for line in old.splitlines(keepends=True) if "fence()" not in line)
    build = case(gate, kernels(gate, (where, old, without)))
    sampled(gate, build, 400, longest=20_000, memory=SC)
    find_failure(gate, build, expected, longest=20_000, memory=TSO)
