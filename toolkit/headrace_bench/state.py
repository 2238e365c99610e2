"""What user functions do to containers: nanoseconds of one operation, beside Numba's typed containers and Python's.

The kernels are measured first alone, then within a run (`state_in_engine`), on one thread, in turns with the same loop over
Numba's own containers, compiled under the same policy. The note gives Python's own figure, from fewer operations. All three must
give the same result. Times of the kernels are the thread's processor time: other work on the machine can evict the thread's cache
lines, but its time is not counted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numba import typed, types

from headrace.ingress.ordered_texts import OrderedTexts
from headrace.memory.arena import HEAD, allocate_arena, used_bytes
from headrace.memory.bundle import named
from headrace_bench import state_in_engine
from headrace_bench import state_kernel as loops
from headrace_bench.rows import Row, median, repeated

KEYS = 1_000
KEPT = 5
LIVE = 1_000
ARENA_WORDS = 1 << 24
AT = 2 * HEAD


@dataclass
class Case:
    """One operation in three implementations, which must return the same number."""

    name: str
    goal: float | None
    operations: int
    ours: Callable[[], int]
    typed: Callable[[], int]
    python: Callable[[], int]
    typed_name: str
    python_operations: int
    alive: Any = None
    """Objects whose addresses the kernels hold; this keeps them alive."""


def _memory() -> Any:
    """An arena and the heads of some containers, as an operator's state has them."""
    free, arena = allocate_arena(1, ARENA_WORDS)
    heads, none = np.zeros(4 * HEAD, np.int64), np.zeros(1, np.int64)
    return named(free=free, arena=arena, heads=heads, none=none)


def _typed_dict() -> Any:
    return typed.Dict.empty(types.int64, types.int64)


def _counting(name: str, keys: np.ndarray, times: int, goal: float | None) -> Case:
    s, counts = _memory(), _typed_dict()
    some = keys[:100_000].tolist()
    expected = len(np.unique(keys))

    def python() -> int:
        counted: dict[int, int] = {}
        for key in some:
            counted[key] = counted.get(key, 0) + 1
        return expected + len(counted) - len(set(some))

    return Case(
        name, goal, keys.size * times,
        lambda: loops.count_ours(s, AT, keys, times),
        lambda: loops.count_typed(counts, keys, times),
        python, "typed.Dict", len(some),
    )  # fmt: skip


def _adding(name: str, values: np.ndarray, times: int, goal: float | None) -> Case:
    s = _memory()
    some = values[:100_000].tolist()
    expected = len(np.unique(values))

    def python() -> int:
        held = set()
        for value in some:
            held.add(value)
        return expected + len(held) - len(set(some))

    return Case(
        name, goal, values.size * times,
        lambda: loops.add_ours(s, AT, values, times),
        lambda: loops.add_set(values, times),
        python, "Numba's set", len(some),
    )  # fmt: skip


def _filling(name: str, values: np.ndarray, times: int) -> Case:
    s = _memory()
    some = values.tolist()

    def python() -> int:
        held = set()
        for value in some:
            held.add(value)
        return len(held) * times

    return Case(
        name, None, values.size * times,
        lambda: loops.fill_ours(s, AT, values, times),
        lambda: loops.fill_set(values, times),
        python, "Numba's set", len(some),
    )  # fmt: skip


def _coming_and_going(keys: np.ndarray) -> Case:
    some = keys[:100_000].tolist()

    def ours() -> int:
        s = _memory()
        found = loops.come_and_go_ours(s, AT, keys, LIVE)
        assert used_bytes(s.free, s.arena) <= 16 * 8 * LIVE
        return found

    def python() -> int:
        counts = {}
        for i, key in enumerate(some):
            counts[key] = 0
            if i >= LIVE:
                del counts[some[i - LIVE]]
        return len(counts)

    return Case(
        f"{keys.size:,} keys that come and go, {LIVE:,} at a time", None, keys.size,
        ours, lambda: loops.come_and_go_typed(_typed_dict(), keys, LIVE), python, "typed.Dict", len(some),
    )  # fmt: skip


def _items(times: int) -> Case:
    keys = np.random.default_rng(3).permutation(KEYS)
    s, counts = _memory(), _typed_dict()
    loops.count_ours(s, AT, keys, 3)
    loops.count_typed(counts, keys, 3)
    plain = {int(key): 3 for key in keys}

    def python() -> int:
        total = 0
        for key, value in plain.items():
            total += key ^ value
        return total * times

    return Case(
        f"for k, v in d.items(), {KEYS:,} entries", None, KEYS * times,
        lambda: loops.sum_in_order_ours(s, AT, times),
        lambda: loops.sum_typed(counts, times),
        python, "typed.Dict", KEYS,
    )  # fmt: skip


def _appending(times: int) -> Case:
    values = np.arange(KEYS)
    s, held = _memory(), typed.List.empty_list(types.int64)
    some = values.tolist()

    def python() -> int:
        kept: list[int] = []
        for value in some:
            kept.append(value)  # noqa: PERF402
        return len(kept) * times

    return Case(
        f"append, {KEYS:,} to an empty list", 3.0, KEYS * times,
        lambda: loops.append_ours(s, AT, values, times),
        lambda: loops.append_typed(held, values, times),
        python, "typed.List", KEYS,
    )  # fmt: skip


def _last(count: int) -> Case:
    values = np.arange(count)
    s, held = _memory(), typed.List.empty_list(types.int64)
    some = values[:100_000].tolist()

    def python() -> int:
        kept: deque[int] = deque()
        for value in some:
            kept.append(value)
            if len(kept) > KEPT:
                kept.popleft()
        return len(kept)

    return Case(
        f"append and pop(0), the last {KEPT}", None, count,
        lambda: loops.last_ours(s, AT, values, KEPT),
        lambda: loops.last_typed(held, values, KEPT),
        python, "typed.List", len(some),
    )  # fmt: skip


def _comparing(name: str, start: str, times: int, goal: float | None) -> Case:
    rng = np.random.default_rng(4)
    texts = [f"{start}{number:x}" for number in rng.integers(1 << 40, 1 << 44, KEYS)]
    dictionary = OrderedTexts(2 * KEYS)
    ids = dictionary.encode(pa.array(texts)).astype(np.int64)
    left, right = rng.integers(0, KEYS, KEYS), rng.integers(0, KEYS, KEYS)
    held = typed.List(texts)
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))

    def python() -> int:
        less = 0
        for i, j in pairs:
            less += texts[i] < texts[j]
        return less * times

    prefixes, addresses, lengths = dictionary.arrays
    s = named(prefixes=prefixes, addresses=addresses, lengths=lengths)
    left_ids, right_ids = ids[left], ids[right]
    return Case(
        name, goal, KEYS * times,
        lambda: loops.compare_ours(s, left_ids, right_ids, times),
        lambda: loops.compare_typed(held, left, right, times),
        python, "typed.List of str", KEYS, dictionary,
    )  # fmt: skip


def cases(tiny: bool) -> list[Case]:
    """Make all cases; tiny ones only show that they run."""
    times, count = (2, 5_000) if tiny else (2_000, 1_000_000)
    rng = np.random.default_rng(1)
    small = rng.permutation(KEYS)
    wide = rng.integers(-(2**63), 2**63 - 1, KEYS)
    many = rng.permutation(np.arange(count, dtype=np.int64) * 7919)
    return [
        _counting(f"d[k] += 1, {KEYS:,} small int keys", small, times, 15.0),
        _counting(f"d[k] += 1, {KEYS:,} random int64 keys", wide, times, 15.0),
        _counting(f"d[k] += 1, {count:,} keys spread over a wide range", many, 2, None),
        _coming_and_going(many),
        _items(times),
        _adding(f"set.add, {KEYS:,} small ints", small, times, 12.0),
        _adding(f"set.add, {KEYS:,} random int64", wide, times, 12.0),
        _filling(f"set.add, {KEYS:,} random int64 to an empty set", wide, times),
        _appending(times),
        _last(count),
        _comparing("a < b, short strings", "", times, 2.0),
        _comparing("a < b, strings with a common prefix", "https://example.org/", times, None),
    ]


def _time(case: Case, repetitions: int) -> Row:
    seconds: dict[str, list[float]] = {"ours": [], "typed": [], "python": []}
    ways = {"ours": case.ours, "typed": case.typed, "python": case.python}
    for counts in repeated(repetitions):
        results = set()
        for name, way in ways.items():
            begin = time.thread_time()
            results.add(way())
            if counts:
                seconds[name].append(time.thread_time() - begin)
        assert len(results) == 1, (case.name, results)
    ours, beside = (median(seconds[name]) / case.operations * 1e9 for name in ("ours", "typed"))
    plain = median(seconds["python"]) / case.python_operations * 1e9
    return Row(
        "state", case.name, ours, "ns", "lower", case.goal,
        baseline=beside, baseline_name=case.typed_name, note=f"Python {plain:.3g} ns",
    )  # fmt: skip


def measure(full: bool, tiny: bool = False) -> list[Row]:
    """Nanoseconds of one operation; the baseline is the same loop over Numba's containers."""
    repetitions = 1 if tiny else 31 if full else 9
    return [_time(case, repetitions) for case in cases(tiny)] + state_in_engine.measure(full, tiny)
