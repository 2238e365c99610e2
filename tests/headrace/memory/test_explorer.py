"""The explorer itself: it shows every outcome that x86's store buffers allow, and none that they forbid.

Property    the outcomes of small programs under each memory model are exactly
            the listed ones; reduction runs fewer schedules and shows the same
            outcomes; a schedule that fails is found again by `replay`
Oracle      the tables of Owens, Sarkar and Sewell, "A better x86 memory model:
            x86-TSO" (2009); `machine`, the abstract machine of that paper: every
            store, flush and fence a step of its own, all states, no reduction
Planted     a buffer that is not emptied, not first in first out, or not read by
            its own thread
Cannot see  whether x86 is what that paper says: tests/litmus

A program is written ``x=1 a=y | y=1 b=x``: one thread a part, stores of numbers,
loads into named registers, ``mfence``, ``x<-1`` an atomic exchange.
"""

# ruff: noqa: F821  (the names are the explored kernels')

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interleave import (
    SC,
    TSO,
    FailingSchedule,
    Kernels,
    exhaustive,
    find_failure,
    models,
    replay,
    sampled,
    strategies,
    unpacked,
)
from interleave.buffered import Buffered

CELLS = "xyzw"


def parsed(text):
    """Threads of (kind, cell, value or register)."""
    threads = []
    for part in text.split("|"):
        steps = []
        for word in part.split():
            if word == "mfence":
                steps.append(("fence", 0, 0))
            elif "<-" in word:
                cell, value = word.split("<-")
                steps.append(("exchange", CELLS.index(cell), int(value)))
            else:
                to, what = word.split("=")
                steps.append(("store", CELLS.index(to), int(what)) if what.isdigit() else ("load", CELLS.index(what), to))
        threads.append(steps)
    return threads


# -- the same program three times ----------------------------------------------------------------------


def perform(steps, memory, registers):
    for kind, cell, what in steps:
        if kind == "store":
            store_relaxed(memory, cell, what)
        elif kind == "load":
            value = load_relaxed(memory, cell)
            registers.append((what, value))
        elif kind == "exchange":
            exchange(memory, cell, what)
        else:
            fence()


def perform_plainly(steps, memory, registers):
    """Stores are plain writes to a shared array: the explorer's other way into the buffer."""
    for kind, cell, what in steps:
        if kind == "store":
            memory[cell] = what
        elif kind == "load":
            value = load_relaxed(memory, cell)
            registers.append((what, value))
        elif kind == "exchange":
            exchange(memory, cell, what)
        else:
            fence()


def outcome(registers, memory):
    """Registers by name, and the cells at the end."""
    found = sorted(pair for own in registers for pair in own)
    return " ".join(f"{name}={value}" for name, value in found), tuple(memory)


def explored(text, memory=TSO, reduced=True, program=perform):
    """The outcomes that the explorer shows, and in how many schedules."""
    threads = parsed(text)
    k = Kernels(programs=[program], shared=("memory",))
    outcomes = set()

    def build():
        cells = [0] * len(CELLS)
        registers = [[] for _ in threads]
        running = [getattr(k, program.__name__)(steps, cells, own) for steps, own in zip(threads, registers, strict=True)]
        return running, lambda: outcomes.add(outcome(registers, cells))

    runs = exhaustive("litmus", build, memory=memory, reduced=reduced)
    return outcomes, runs


def machine(text, has_buffers=True):
    """The outcomes of the abstract machine: all its states, one by one."""
    threads = parsed(text)
    start = ((0,) * len(threads), ((),) * len(threads), (0,) * len(CELLS), ((),) * len(threads))
    todo, met, outcomes = [start], {start}, set()

    def put(row, i, value):
        return (*row[:i], value, *row[i + 1 :])

    while todo:
        at, buffers, memory, registers = todo.pop()
        following = []
        for t, steps in enumerate(threads):
            buffer = buffers[t]
            if buffer:
                (cell, value), *rest = buffer
                following.append((at, put(buffers, t, tuple(rest)), put(memory, cell, value), registers))
            if at[t] == len(steps):
                continue
            kind, cell, what = steps[at[t]]
            on = put(at, t, at[t] + 1)
            if kind == "load":
                value = next((v for c, v in reversed(buffer) if c == cell), memory[cell])
                following.append((on, buffers, memory, put(registers, t, (*registers[t], (what, value)))))
            elif kind == "store" and has_buffers:
                following.append((on, put(buffers, t, (*buffer, (cell, what))), memory, registers))
            elif not buffer:
                memory_then = memory if kind == "fence" else put(memory, cell, what)
                following.append((on, buffers, memory_then, registers))
        if not following:
            outcomes.add(outcome(registers, memory))
        for state in following:
            if state not in met:
                met.add(state)
                todo.append(state)
    return outcomes


# -- the table -----------------------------------------------------------------------------------------

ACCEPTABLE, FORBIDDEN = "acceptable", "forbidden"
"""What a test may show, and what it must not."""

LITMUS = {
    # name: program, the outcome that one asks about, under SC, under TSO
    "SB": ("x=1 a=y | y=1 b=x", "a=0 b=0", FORBIDDEN, ACCEPTABLE),
    "SB with fences": ("x=1 mfence a=y | y=1 mfence b=x", "a=0 b=0", FORBIDDEN, FORBIDDEN),
    "SB with one fence": ("x=1 mfence a=y | y=1 b=x", "a=0 b=0", FORBIDDEN, ACCEPTABLE),
    "SB with exchanges": ("x<-1 a=y | y<-1 b=x", "a=0 b=0", FORBIDDEN, FORBIDDEN),
    "SB, own stores seen": ("x=1 a=x b=y | y=1 c=y d=x", "a=1 b=0 c=1 d=0", FORBIDDEN, ACCEPTABLE),
    "SB, own stores lost": ("x=1 a=x b=y | y=1 c=y d=x", "a=0 b=0 c=0 d=0", FORBIDDEN, FORBIDDEN),
    "MP": ("x=1 y=1 | a=y b=x", "a=1 b=0", FORBIDDEN, FORBIDDEN),
    "LB": ("a=x y=1 | b=y x=1", "a=1 b=1", FORBIDDEN, FORBIDDEN),
    "2+2W": ("x=1 y=2 | y=1 x=2", "x=1 y=1", FORBIDDEN, FORBIDDEN),
    "R": ("x=1 y=1 | y=2 a=x", "a=0 y=2", FORBIDDEN, ACCEPTABLE),
    "R with a fence": ("x=1 y=1 | y=2 mfence a=x", "a=0 y=2", FORBIDDEN, FORBIDDEN),
    "S": ("x=2 y=1 | a=y x=1", "a=1 x=2", FORBIDDEN, FORBIDDEN),
    "IRIW": ("x=1 | y=1 | a=x b=y | c=y d=x", "a=1 b=0 c=1 d=0", FORBIDDEN, FORBIDDEN),
    "WRC": ("x=1 | a=x y=1 | b=y c=x", "a=1 b=1 c=0", FORBIDDEN, FORBIDDEN),
    "n6": ("x=1 a=x b=y | y=1 x=2", "a=1 b=0 x=1", FORBIDDEN, ACCEPTABLE),
    "n5": ("x=1 a=x | x=2 b=x", "a=2 b=1", FORBIDDEN, FORBIDDEN),
}


def shows(outcomes, wanted):
    """Whether some outcome has these registers and cells."""
    pairs = wanted.split()
    return any(
        set(pairs) <= {*registers.split(), *(f"{name}={value}" for name, value in zip(CELLS, cells, strict=True))}
        for registers, cells in outcomes
    )


@pytest.mark.parametrize("name", LITMUS)
def test_example_litmus(name):
    program, wanted, under_sc, under_tso = LITMUS[name]
    assert shows(explored(program, SC)[0], wanted) == (under_sc == ACCEPTABLE)
    assert shows(explored(program)[0], wanted) == (under_tso == ACCEPTABLE)


@pytest.mark.parametrize("name", LITMUS)
def test_oracle_outcomes_with_and_without_reduction(name):
    program = LITMUS[name][0]
    wanted = machine(program)
    reduced, few = explored(program)
    whole, many = explored(program, reduced=False)
    assert reduced == wanted
    assert whole == wanted
    assert few <= many
    assert explored(program, SC)[0] == machine(program, has_buffers=False)


def test_example_reduction_reduces():
    program = LITMUS["IRIW"][0]
    assert explored(program)[1] * 5 < explored(program, reduced=False)[1]


STEPS = st.one_of(
    st.tuples(st.sampled_from("xy"), st.integers(1, 2)).map("{0[0]}={0[1]}".format),
    st.sampled_from("xy").map("r={}".format),
    st.sampled_from(["mfence", "x<-3"]),
)
PROGRAMS = st.one_of(
    st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=2, max_size=2),
    st.lists(st.lists(STEPS, min_size=1, max_size=3), min_size=3, max_size=3),
)


def named(threads):
    """Each load into a register of its own."""
    number = count()
    return " | ".join(" ".join(s.replace("r=", f"r{next(number)}=") for s in steps) for steps in threads)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(PROGRAMS)
def test_oracle_drawn_programs(threads):
    program = named(threads)
    wanted = machine(program)
    assert explored(program)[0] == wanted
    plainly = explored(program, program=perform_plainly)[0]
    assert plainly == wanted  # one write a statement here, so that a run is one store


@settings(max_examples=20, deadline=None)
@given(PROGRAMS)
def test_oracle_sampled_schedules_show_nothing_else(threads):
    program = named(threads)
    k, steps, met = Kernels(programs=[perform]), parsed(program), set()

    def build():
        cells, registers = [0] * len(CELLS), [[] for _ in steps]
        running = [k.perform(own, cells, notes) for own, notes in zip(steps, registers, strict=True)]
        return running, lambda: met.add(outcome(registers, cells))

    sampled("litmus", build, 200, memory=TSO, length=12)
    assert met <= machine(program)


# -- mistakes in the explorer --------------------------------------------------------------------------


def test_planted_a_fence_that_does_nothing(monkeypatch):
    monkeypatch.setitem(models.ATOMICS[TSO], "_fence", lambda _: None)
    with pytest.raises(AssertionError, match="a=0 b=0"):
        assert explored(LITMUS["SB with fences"][0])[0] == machine(LITMUS["SB with fences"][0])


def test_planted_a_buffer_that_gives_its_newest_store_first(monkeypatch):
    def newest_first(self, thread):
        if self.looking != thread:
            self.look(thread)
        self.buffers[thread].insert(0, self.buffers[thread].pop())
        before(self, thread)

    before = Buffered._flush
    monkeypatch.setattr(Buffered, "_flush", newest_first)
    with pytest.raises(AssertionError, match="a=1 b=0"):
        assert explored(LITMUS["MP"][0])[0] == machine(LITMUS["MP"][0])


def test_planted_a_thread_that_does_not_see_its_own_buffer(monkeypatch):
    monkeypatch.setattr(Buffered, "_note", lambda *_: None)
    monkeypatch.setattr(strategies, "commute", lambda *_: False)
    monkeypatch.setitem(models.ATOMICS[TSO], "_store", blind_store)
    with pytest.raises(AssertionError, match="a=0"):
        assert explored("x=1 a=x")[0] == machine("x=1 a=x")


def blind_store(array, index, value):
    models.running.buffer.append([array, index, value, True, False])  # as if memory and buffer were swapped back


def test_planted_steps_that_are_said_to_commute_and_do_not(monkeypatch):
    monkeypatch.setattr(strategies, "commute", lambda *_: True)
    with pytest.raises(AssertionError, match="outcomes that are not explored"):
        assert explored(LITMUS["SB"][0])[0] >= machine(LITMUS["SB"][0]), "outcomes that are not explored"


# -- failures ------------------------------------------------------------------------------------------


def disagreeing():
    """SB, with an assertion that it does not hold."""
    k = Kernels(programs=[perform])
    threads = parsed(LITMUS["SB"][0])

    def build():
        cells, registers = [0] * len(CELLS), [[], []]
        running = [k.perform(steps, cells, own) for steps, own in zip(threads, registers, strict=True)]

        def check():
            assert registers != [[("a", 0)], [("b", 0)]], "both old"

        return running, check

    return build


def test_example_a_failing_schedule_is_replayed():
    build = disagreeing()
    exhaustive("litmus", build)
    failure = find_failure("litmus", build, "both old", memory=TSO)
    assert failure.reason.startswith("litmus (planted): both old")
    text = str(failure).split("unpacked('")[1].split("'")[0]
    assert unpacked(text) == failure.trace
    with pytest.raises(AssertionError, match="both old"):
        replay(build, failure.trace, TSO)


def test_example_another_failure_is_not_the_one_looked_for():
    with pytest.raises(AssertionError, match="expected 'deadlock', and the planted bug failed with"):
        find_failure("litmus", disagreeing(), "deadlock", memory=TSO)


def test_example_an_error_of_another_kind_is_named():
    def build():
        k = Kernels(programs=[perform])
        return [k.perform([("store", 99, 1), ("load", 99, "a")], [0], [])], lambda: None

    with pytest.raises(FailingSchedule, match="IndexError"):
        exhaustive("litmus", build)


def test_example_a_bug_that_is_not_found_is_said():
    with pytest.raises(AssertionError, match="the planted bug survived"):
        find_failure("litmus", disagreeing(), "both old", count=100)


def sleep_until_changed(event):
    futex_wait(event, 0, 0, 0)


def change(event, woken):
    fetch_add(event, 0, 1)
    futex_wake(event, 0, woken)


@pytest.mark.parametrize("memory", [SC, TSO])
def test_example_a_wake_reaches_as_many_as_it_says(memory):
    k = Kernels(programs=[sleep_until_changed, change])

    def waking(count):
        def build():
            event = [0]
            return [k.sleep_until_changed(event), k.sleep_until_changed(event), k.change(event, count)], lambda: None

        return build

    assert exhaustive("litmus", waking(2), memory=memory) > 1
    with pytest.raises(FailingSchedule, match=r"deadlock: threads \[\] wait, \[[01]\] sleep for ever"):
        exhaustive("litmus", waking(1), memory=memory)
