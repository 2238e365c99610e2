"""Run a test's threads under the schedules of a strategy, count them, and say how to run a failing one again."""

from __future__ import annotations

import os
import re
from collections import Counter

from interleave import models
from interleave.buffered import Buffered
from interleave.execution import Execution
from interleave.models import SC, TSO
from interleave.strategies import Exhaustive, Lazy, Priority, Random, Reduced, packed

EXPLORED: Counter[str] = Counter()
"""Complete schedules so far, by structure."""

LEAST = 1_000_000
_IN_ANY_WHOLE_RUN = {"event count", "log", "scalegate", "stack"}


def are_too_few(explored: Counter[str]) -> bool:
    """Whether a run of the whole suite explored fewer schedules than promised."""
    return set(explored) >= _IN_ANY_WHOLE_RUN and explored.total() < LEAST


SCALE = float(os.environ.get("HEADRACE_SCHEDULES", "1"))
"""Campaign: the number of schedules is multiplied by this."""
_LENGTH = 120
"""Steps of a schedule within which its priorities change."""


class FailingSchedule(AssertionError):
    """A schedule under which the kernels do something wrong.

    Attributes
    ----------
    reason : str
        What failed, without the schedule: the error's type and text.
    trace : list of int
        The thread that took each step: an argument for `replay`.
    """

    def __init__(self, reason: str, schedule: str, trace: list[int]):
        super().__init__(f"{reason}\n  {schedule}")
        self.reason = reason
        self.trace = trace


def _explore(structure: str, build, strategy, limit: int, longest: int, memory: str) -> int:
    with models.under(memory):
        return _explored(structure, build, strategy, limit, longest)


def _execution(build, trace: list[int] | None, strategy) -> Execution:
    if models.current == SC:
        return Execution(build, trace)
    return Buffered(build, trace, isinstance(strategy, Reduced))


def _explored(structure: str, build, strategy, limit: int, longest: int) -> int:
    complete = 0
    tried = 0
    while complete < limit:
        tried += 1
        x = _execution(build, None, strategy)
        try:
            if strategy.run(x, longest):
                x.finish()
                complete += 1
        except Exception as error:
            trace: list[int] = []
            again = _execution(build, trace, strategy)
            try:
                if strategy.run(again, longest):
                    again.finish()
            except Exception:
                pass
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            raise FailingSchedule(
                f"{structure}: {kind}{error}",
                f"schedule {tried}: {strategy}\n  replay(build, unpacked({packed(trace)!r}), {models.current!r})",
                trace,
            ) from error
        if not strategy.following():
            break
        if tried > 4 * limit + 1000:
            raise AssertionError(f"{structure}: only {complete} of {tried} executions come to an end")
    EXPLORED[structure if models.current == SC else f"{structure} {models.current}"] += complete
    return complete


def _bounded(preemptions: int | None, memory: str) -> Exhaustive:
    return (Exhaustive if memory == SC else Lazy)(preemptions)


def exhaustive(
    structure: str,
    build,
    *,
    preemptions: int | None = None,
    limit: int = 1_000_000,
    longest: int = 3000,
    memory: str = SC,
    reduced: bool = True,
) -> int:
    """Run every schedule, or every one with at most `preemptions` preemptions. Returns how many there are.

    Parameters
    ----------
    structure : str
        Name for the count.
    build : callable
        ``() -> (list of generators, check)``: a fresh state; `check` is called at the end.
    limit : int
        Fail at this many schedules, so that a part is never taken for the whole.
    memory : str
        `SC` or `TSO`.
    reduced : bool
        Leave out repetitions (R4): under TSO and without a bound on preemptions.
    """
    reduces = memory == TSO and preemptions is None and reduced
    strategy = Reduced() if reduces else _bounded(preemptions, memory)
    count = _explore(structure, build, strategy, limit, longest, memory)
    assert count < limit, f"{structure}: more than {limit} schedules; the case is too large to be exhaustive"
    return count


def sampled(
    structure: str, build, count: int, *, seed: int = 0, longest: int = 3000, length: int = _LENGTH, memory: str = ""
) -> int:
    """Run `count` schedules, half of them random, half by random priorities.

    Without a `memory`, a fifth of them under TSO: each may also be one of SC's, if its buffers are emptied early.
    """
    if memory == "":
        buffered = count // 5
        rest = {"seed": seed, "longest": longest, "length": length}
        done = sampled(structure, build, count - buffered, **rest, memory=SC)
        return done + sampled(structure, build, buffered, **rest, memory=TSO)
    draws = _draws(int(count * SCALE), seed, length)
    return sum(_explore(structure, build, strategy, most, longest, memory) for strategy, most in draws.items())


def _draws(count: int, seed: int = 0, length: int = _LENGTH) -> dict[Random, int]:
    """How many of `count` schedules each strategy draws."""
    by_priority: dict[Random, int] = {Priority(seed, changes, length): count // 8 for changes in (1, 2, 3, 5)}
    return {Random(seed): count - sum(by_priority.values()), **by_priority}


def replay(build, trace: list[int], memory: str = SC) -> None:
    """Run one schedule again, e.g. under a debugger."""
    with models.under(memory):
        x = _execution(build, [], None)
        for thread in trace[len(x.trace) :]:
            if thread in x.runnable:
                x.go(thread, 1)
        x.finish()


def find_failure(
    structure: str,
    build,
    expected: str,
    *,
    count: int = 20_000,
    preemptions: int = 2,
    longest: int = 3000,
    length: int = _LENGTH,
    memory: str = SC,
) -> FailingSchedule:
    """Look for a failing schedule, which a planted bug must cause.

    Parameters
    ----------
    expected : str
        Regular expression: what must fail. Any other failure raises an error.
    """
    name = f"{structure} (planted)"
    # One strategy finds at once what another never meets: they take turns, each time for twice as long.
    left: dict[Exhaustive | Random, int] = {
        _bounded(1, memory): 1000,
        **_draws(int(count * SCALE), length=length),
        _bounded(preemptions, memory): count,
    }
    turn = 25
    try:
        while left:
            for strategy, most in tuple(left.items()):
                now = min(most, 4 * turn if type(strategy) is Random else turn)
                done = _explore(name, build, strategy, now, longest, memory)
                left[strategy] -= done
                if done < now or done == most:
                    del left[strategy]
            turn *= 2
    except FailingSchedule as failure:
        if re.search(expected, failure.reason) is None:
            raise AssertionError(f"expected {expected!r}, and the planted bug failed with:\n{failure}") from failure
        return failure
    finally:
        for explored in (name, f"{name} {TSO}"):
            EXPLORED.pop(explored, None)
    raise AssertionError(f"{structure}: the planted bug survived")
