"""Programs whose entries a loop calls by address.

Method      one loop, several programs of its shape, run in turns and from threads
Oracle      the same functions called directly
Cannot see  what an indirect call costs
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

from headrace.codegen import called
from headrace.codegen.called import Entry, Looped, entries_text, names_of, stubs_text
from headrace.codegen.modules import load_module
from headrace.kernel import JIT
from headrace.memory.bundle import named
from planted_mistakes import fails, planted

PLACE = 3
ENTRIES = (
    Entry("step", "s, l, i", "return np.int64(step(s, i))"),
    Entry("end", "s, l", "end(s)\nreturn np.int64(0)"),
)
LOOP = """
from headrace.kernel import kernel


@kernel
def run(s, l, n):
    for i in range(n):
        l[0] += step(s, l, i)
    end(s, l)
    return l[0]


"""
PROGRAM = """
import numpy as np
from headrace.kernel import kernel


@kernel
def step(s, i):
    if i == {fails_at}:
        raise ValueError("step")
    s.seen[i] = i * {factor}
    return s.seen[i]


@kernel
def end(s):
    s.ended[0] += 1


"""

def looped(factor, fails_at=-1):
    program = load_module(PROGRAM.format(factor=factor, fails_at=fails_at) + entries_text(ENTRIES), entry=names_of(ENTRIES))
    loop = load_module(LOOP + stubs_text(ENTRIES, PLACE), "loop", entry="run")
    return Looped(program, loop.run, ENTRIES, PLACE, "s, l, n", ("s",))


def state(n, is_wide=False):
    seen, ended = np.zeros(n, np.int64), np.zeros(1, np.int64)
    return named(more=np.ones(3), seen=seen, ended=ended) if is_wide else named(seen=seen, ended=ended)


def private():
    return np.zeros(PLACE + len(ENTRIES), np.int64)


def check_runs(n=20):
    for factor, is_wide in ((2, False), (3, True), (2, True)):
        program, s = looped(factor), state(n, is_wide)
        assert program.run(s, private(), n) == factor * sum(range(n))
        assert s.seen.tolist() == [factor * i for i in range(n)] and s.ended[0] == 1


def test_example_programs_of_one_loop():
    check_runs()


@pytest.mark.skipif(not JIT, reason="without the compiler there is nothing to be compiled once")
def test_example_the_loop_is_compiled_once():
    one, other = looped(5), looped(7)
    for program, is_wide in ((one, False), (other, True)):
        program.run(state(4, is_wide), private(), 4)
    assert one._run is other._run and len(one._run.overloads) == 1


def test_example_an_exception_passes_through_the_loop():
    program, s, l = looped(2, fails_at=3), state(5), private()
    with pytest.raises(ValueError, match="step"):
        program.run(s, l, 5)
    assert s.seen.tolist() == [0, 2, 4, 0, 0] and s.ended[0] == 0
    assert looped(2).run(state(5), private(), 5) == 20


def test_example_two_programs_at_a_time():
    got = {}

    def body(factor):
        program = looped(factor)
        got[factor] = [program.run(state(1_000), private(), 1_000) for _ in range(50)]

    threads = [threading.Thread(target=body, args=(factor,), daemon=True) for factor in (2, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {factor: [factor * sum(range(1_000))] * 50 for factor in (2, 11)}


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("word=place + i", "word=place + 1 - i"),
        ("self._place : self._place + len", "self._place - 1 : self._place - 1 + len"),
    ],
)
@pytest.mark.interpreted
def test_planted_mistakes_are_found(right, wrong):
    """An address that is not one ends the process, compiled."""
    with planted(called, right, wrong), fails(r"TypeError: entry_end\(\) takes 2 positional arguments but 3 were given"):
        check_runs()
