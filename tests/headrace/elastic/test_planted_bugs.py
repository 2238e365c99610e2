"""The schedules find what they are for: bugs planted in the instance loop, each one killed.

A bug is a replacement in the text of the generated operator module, so the
engine that runs is the real one but for this line. `hunt` runs schedules until
one of them fails: a wrong result, a lost or doubled epoch, or a run that does
not end. Each bug names which. The same schedules pass without the bug, and with
delays alone planted where the order of two steps matters. Bugs of logic run
without the compiler; races need threads that run at once.
"""

import random

import pytest

from headrace.errors import HeadraceError
from headrace.windows import Window
from support.kernel_text import change_kernels
from support.workloads import SHAPES, Workload, draw_workload

SHAPE = SHAPES[1]
RUNS = 60
SECONDS = 60.0
"""A hang limit; `STUCK` where not to end is the failure that is looked for."""

STUCK = 4.0
HANGS = "the run does not end"
ROWS = r"row \d+ is .*, must be|\d+ rows, must be \d+"
LOST_EPOCHS = "the epochs are"

_IMPORTED = "from headrace.memory.event_count import"
DELAYS = {
    "before the joiner reads": ("                join_reader(g, r, position, epoch + 1)", "before"),
    "before the configuration": ("        store_release(c.words, CONFIG, next_config)", "before"),
    "before the epoch": ("        store_release(c.words, EPOCH, epoch)  # B4", "before"),
    "before a leaver looks": ("                    if load_acquire(g.reading, me * CELL) != activation:", "before"),
}


def delayed(text: str, *places: str) -> str:
    """Sleep for a moment at these places, so that threads that may overtake do."""
    text = text.replace(_IMPORTED, "from headrace.memory.atomics import nanosleep\n" + _IMPORTED, 1)
    for place in places:
        line, _ = DELAYS[place]
        if text.count(line) != 1:
            pytest.fail(f"{line!r} is not in the loop any more")
        indent = line[: len(line) - len(line.lstrip())]
        text = text.replace(line, f"{indent}nanosleep(300_000)\n{line}")
    return text


BUGS = {
    "a joiner promises nothing": (
        "                start_mark(o, r, promise(l), l[WATERMARK])\n",
        "",
        f"{ROWS}|{HANGS}|{LOST_EPOCHS}",  # depends on which threads are awake at that moment
    ),
    "a joiner starts behind the tuple that triggered": (
        "join_reader(g, r, position, epoch + 1)",
        "join_reader(g, r, position + 1, epoch + 1)",
        HANGS,
    ),
    "a joiner has seen one tuple too many": (
        "store_relaxed(c.start_seen, r * CELL, l[SEEN])",
        "store_relaxed(c.start_seen, r * CELL, l[SEEN] + 1)",
        f"the run failed|{HANGS}",
    ),
    "a joiner does not know the time": (
        "store_relaxed(c.start_watermark, r * CELL, l[WATERMARK])",
        "store_relaxed(c.start_watermark, r * CELL, l[WATERMARK] + 5)",
        ROWS,
    ),
    "a joiner repeats a planned change": (
        "store_relaxed(c.start_planned, r * CELL, planned)",
        "store_relaxed(c.start_planned, r * CELL, max(0, planned - 1))",
        HANGS,
    ),
    "a joiner does not begin": (
        "            begin(c, l, s, buffer)\n            planned = load_relaxed(c.start_planned, me * CELL)",
        "            planned = load_relaxed(c.start_planned, me * CELL)",
        ROWS,
    ),
    "a leaver still holds the output": (
        "                leave_reader(g, r)\n                start_mark(o, r, END_OF_TIME, END_OF_TIME)",
        "                leave_reader(g, r)",
        HANGS,
    ),
    "the barrier waits for the new members": (
        "if before == members(c, config) - 1:",
        "if before == members(c, next_config) - 1:",
        HANGS,
    ),
    "sizes are compared, not sets": (
        "            will = c.member[next_config, r] != 0\n",
        "            will = c.member[next_config, r] != 0\n"
        "            if members(c, config) == members(c, next_config):\n"
        "                will = was\n",
        f"{LOST_EPOCHS}|{HANGS}",
    ),
    "a member that stays keeps the old mapping": (
        "    take_configuration(c, l, me)\n    acknowledge(c, me, epoch)",
        "    acknowledge(c, me, epoch)",
        HANGS,
    ),
    "the first bucket of a share is forgotten": (
        "    for bucket in range(low, low + width):\n        buffer[found]",
        "    for bucket in range(low + 1, low + width):\n        buffer[found]",
        ROWS,
    ),
    "a window expires one advance late": (
        "    expired = (to_units(s, ts) - l[SIZE]) // l[ADVANCE]\n",
        "    expired = (to_units(s, ts) - l[SIZE]) // l[ADVANCE] - 1\n",
        ROWS,
    ),
    "the promise is ahead of the windows": (
        "def promise(l):\n    return l[WATERMARK]",
        "def promise(l):\n    return l[WATERMARK] + l[SIZE]",
        ROWS,
    ),
}

RACES = {
    # What these leave out matters only to a worker that is awake at the wrong moment: hence the delays.
    "a joiner does not wait for the epoch it joins": (
        "            if not await_epoch(c, activation - 1):\n                break\n",
        "",
        ("before the configuration", "before the epoch"),
        f"{LOST_EPOCHS}|{HANGS}|{ROWS}",
    ),
    "at the end a leaver takes its own return for having stayed": (
        "                    if load_acquire(g.reading, me * CELL) != activation:",
        "                    if load_acquire(g.reading, me * CELL) == 0:",
        ("before a leaver looks",),
        HANGS,
    ),
}


def workload_of(seed: int) -> Workload:
    """Small, dense in time, every key moving about."""
    drawn = draw_workload(SHAPE, seed, most_rows=40, most_sources=2)
    draw = random.Random(seed)
    sources = [drawn.sources[0] or draw_workload(SHAPE, 3).sources[0], *drawn.sources[1:]]
    for source in sources:
        at = 0
        for row in source:
            at += draw.choice([0, 0, 1, 1, 2, 9])
            row["ts"] = at
    return Workload(SHAPE, seed, sources, Window(draw.choice([7, 8]), 4), "tags")


def schedule_of(draw: random.Random, rows: int) -> list:
    choice = [1, 2, [1], [0, 2], [1, 2], [1, 3], 4]
    places = sorted(draw.randint(0, rows + 3) for _ in range(draw.randint(2, 8)))
    if draw.random() < 0.4:
        places = [places[0]] * len(places)
    return [(at, draw.choice(choice)) for at in places]


def run_schedule(seed: int, seconds: float = SECONDS) -> None:
    """One run with planned changes; raises if anything about it is wrong."""
    draw = random.Random(seed)
    workload = workload_of(seed)
    schedule = schedule_of(draw, workload.rows)
    with workload.query(batch_rows=draw.choice([3, 1 << 16])).start(
        threads=draw.choice([1, 2, [1, 2]]), max_threads=4, reconfigure=schedule
    ) as run:
        assert run.wait(seconds), HANGS
        epochs = [change.epoch for change in run.changes]
        assert epochs == list(range(1, len(schedule) + 1)), f"the epochs are {epochs}"
        workload.assert_right(run.to_arrow())


def hunt(runs: int = RUNS, seconds: float = SECONDS) -> None:
    for seed in range(runs):
        run_schedule(seed, seconds)


def assert_found(expected: str, runs: int = RUNS) -> None:
    """Hunt, and find the failure that is expected: no other one, nor none."""
    with pytest.raises((AssertionError, HeadraceError), match=expected):
        hunt(runs, STUCK if HANGS in expected else SECONDS)


def replaced(text: str, old: str, new: str) -> str:
    if text.count(old) != 1:  # no assertion: a hunt that fails is what is expected here
        pytest.fail(f"{old!r} occurs {text.count(old)} times: the bug is out of date")
    return text.replace(old, new)


@pytest.mark.slow
def test_agree_without_a_bug():
    hunt()


@pytest.mark.slow
def test_agree_with_delays_alone(monkeypatch):
    """A pause between adding the joiner to the output and to the input, and at every other turn of the barrier."""
    change_kernels(monkeypatch, lambda text: delayed(text, *DELAYS))
    hunt()


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(monkeypatch, bug):
    old, new, expected = BUGS[bug]
    change_kernels(monkeypatch, lambda text: replaced(text, old, new))
    assert_found(expected)


@pytest.mark.slow
@pytest.mark.parametrize("bug", RACES)
def test_planted_race_is_found(monkeypatch, bug):
    old, new, places, expected = RACES[bug]
    change_kernels(monkeypatch, lambda text: replaced(delayed(text, *places), old, new))
    assert_found(expected, 4 * RUNS)
