"""Which schedule comes next: all of them, all with few preemptions, all but repetitions, random ones."""

from __future__ import annotations

import random
from typing import Any

from interleave.buffered import Buffered, commute
from interleave.execution import Execution

_FOR_EVER = 1 << 60


class Exhaustive:
    """Depth first over the choices; a choice exists where more than one thread may go on."""

    def __init__(self, preemptions: int | None):
        self.preemptions = preemptions
        self.path: list[list[int]] = []

    def run(self, x: Execution, longest: int) -> bool:
        path = self.path
        known = len(path)
        depth = 0
        current = -1
        left = _FOR_EVER if self.preemptions is None else self.preemptions
        runnable = x.runnable
        step = x.step
        while runnable:
            count = len(runnable)
            if count == 1:
                current = runnable[0]
            else:
                going = current in runnable
                if going and left == 0:
                    x.go(current, longest)
                    if x.steps > longest:
                        return False
                    continue
                if depth < known:
                    chosen = path[depth][0]
                else:
                    path.append([0, count])
                    chosen = 0
                depth += 1
                if not going:
                    current = sorted(runnable)[chosen]
                elif chosen:  # 0 is to go on
                    left -= 1
                    current = sorted(t for t in runnable if t != current)[chosen - 1]
            if x.steps > longest:
                return False
            step(current)
        return True

    def following(self) -> bool:
        path = self.path
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return False
        path[-1][0] += 1
        return True

    def __str__(self) -> str:
        return f"exhaustive, choices {packed([c for c, _ in self.path])}"


class Lazy(Exhaustive):
    """The same under TSO. A buffer's step also costs a preemption, unless every thread must wait for one."""

    def run(self, x: Execution, longest: int) -> bool:
        path = self.path
        depth = 0
        current = -1
        left = _FOR_EVER if self.preemptions is None else self.preemptions
        runnable, count = x.runnable, x.count
        while runnable:
            if x.steps > longest:
                return False
            threads = [t for t in runnable if t < count]
            going = current in threads
            if going and left == 0:
                x.go(current, longest)
                continue
            options = [current] if going else sorted(threads)
            if left > 0 or not threads:
                options += sorted(t for t in runnable if t not in options)
            if len(options) == 1:
                who = options[0]
            else:
                if depth == len(path):
                    path.append([0, len(options)])
                who = options[path[depth][0]]
                depth += 1
            if who < count:
                left -= going and who != current
                current = who
            else:
                left -= bool(threads)
            x.step(who)
        return True


class Reduced:
    """Depth first over all schedules under TSO but those that R4 finds to be repetitions."""

    def __init__(self):
        self.path: list[list] = []
        """By step: the threads that may go, the one that goes, those asleep with footprints, the footprints of those explored."""

    def run(self, x: Buffered, longest: int) -> bool:
        path = self.path
        depth = 0
        asleep: dict[int, Any] = {}
        runnable = x.runnable
        while runnable:
            if x.steps > longest:
                return False
            if depth == len(path):
                options = [who for who in sorted(runnable) if who not in asleep]
                if not options:
                    return False  # every continuation was explored before
                path.append([options, 0, asleep, {}])
            options, chosen, asleep, done = path[depth]
            who = options[chosen]
            x.step(who)
            done[who] = mine = x.footprint
            before = {**asleep, **{other: done[other] for other in options[:chosen]}}
            asleep = {other: its for other, its in before.items() if commute(its, mine)}
            depth += 1
        return True

    def following(self) -> bool:
        path = self.path
        while path and path[-1][1] + 1 == len(path[-1][0]):
            path.pop()
        if not path:
            return False
        path[-1][1] += 1
        return True

    def __str__(self) -> str:
        return f"exhaustive, reduced, choices {packed([node[0][node[1]] for node in self.path])}"


class Random:
    """Random threads for random stretches, short or long by seed; buffers more or less lazy."""

    def __init__(self, seed: int):
        self.seed = seed

    def run(self, x: Execution, longest: int) -> bool:
        draw = random.Random(self.seed)
        bits = draw.getrandbits
        stretch = (1, 2, 4, 12)[bits(2)]
        lazy = 0 if type(x) is Execution else bits(2)
        runnable = x.runnable
        count = x.count
        while runnable:
            if x.steps > longest:
                return False
            thread = runnable[0] if len(runnable) == 1 else runnable[bits(16) % len(runnable)]
            if lazy and thread >= count and bits(2) < lazy and min(runnable) < count:
                continue
            x.go(thread, 1 + bits(16) % stretch)
        return True

    def following(self) -> bool:
        self.seed += 1
        return True

    def __str__(self) -> str:
        return f"random, seed {self.seed}"


class Priority(Random):
    """PCT: the thread of the highest priority goes on; at few random steps it falls to the lowest."""

    def __init__(self, seed: int, changes: int, length: int):
        super().__init__(seed)
        self.changes = changes
        self.length = length

    def run(self, x: Execution, longest: int) -> bool:
        draw = random.Random(self.seed)
        order = list(range(x.count if type(x) is Execution else 2 * x.count))
        draw.shuffle(order)
        stops = sorted(draw.randrange(self.length) for _ in range(self.changes))
        runnable = x.runnable
        while runnable:
            thread = next(t for t in order if t in runnable)
            if x.steps > longest:
                return False
            if stops and stops[0] <= x.steps:
                stops.pop(0)
                order.remove(thread)
                order.append(thread)
                continue
            # A thread that spins until one of lower priority helps would never stop: it falls after a while.
            most = stops[0] - x.steps if stops else self.length
            if x.go(thread, most) and not stops:
                order.remove(thread)
                order.append(thread)
        return True

    def __str__(self) -> str:
        return f"PCT, {self.changes} changes over {self.length} steps, seed {self.seed}"


def packed(numbers: list[int]) -> str:
    """Runs of equal numbers as ``number x length``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][0] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return " ".join(f"{number}x{length}" for number, length in runs)


def unpacked(text: str) -> list[int]:
    """What `packed` was given."""
    numbers: list[int] = []
    for run in text.split():
        number, length = run.split("x")
        numbers += [int(number)] * int(length)
    return numbers
