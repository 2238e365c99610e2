"""What `start` may be told about the elastic engine, checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from headrace.control.mapping import MOST_INSTANCES, Mapping, is_whole
from headrace.elastic.configuration import Configuration, check_threads, resolve
from headrace.errors import ParameterError
from headrace.gates.variants import check_gate
from headrace.progress import END_OF_TIME
from headrace.runtime.options import RunOptions, check_named

DEFAULT_CAPACITY = 1 << 14
DEFAULT_BOUND_NS = 1_000_000
DEFAULT_MAX_KEYS = 1 << 24
DEFAULT_MAX_STATE = 1 << 35  # of addresses; memory is taken when it is written
MOST_CAPACITY = 1 << 26  # beyond, the gates' arrays alone are larger than most machines' memory
MOST_BOUND_NS = 1 << 62
MOST_KEYS = 1 << 30  # ids of keys are 32 bits, and reach up to twice as many
LEAST_STATE, MOST_STATE = 1 << 12, 1 << 44


def largest_named(threads: Any) -> int:
    """Return how many threads a pool needs for this wish; 0 if `check_threads` will refuse it anyway."""
    if is_whole(threads):
        return int(threads)
    if isinstance(threads, (list, tuple, set, range)) and all(map(is_whole, threads)):
        return 1 + max(threads, default=-1)
    return 0


def _pairs(reconfigure: Any) -> list[tuple[Any, Any]]:
    try:
        return [(at, wished) for at, wished in reconfigure]
    except (TypeError, ValueError):
        raise ParameterError(
            f"reconfigure={reconfigure!r}: give a list of (tuple count, threads), such as [(1000, 4)]"
        ) from None


class ElasticOptions:
    """Checked options of `start` for the elastic engine; `run` are those of every engine."""

    def __init__(
        self,
        run: RunOptions | None = None,
        threads: Any = 1,
        max_threads: int | None = None,
        mapping: Mapping | None = None,
        reconfigure: Sequence[tuple[int, int]] = (),
        gate: str = "log",
        mode: str = "vsn",
        capacity: int = DEFAULT_CAPACITY,
        bound_ns: int = DEFAULT_BOUND_NS,
        max_keys: int = DEFAULT_MAX_KEYS,
        max_state: int = DEFAULT_MAX_STATE,
    ):
        if mode not in ("vsn", "sn"):
            raise ParameterError(f'mode={mode!r}: give "vsn" or "sn"')
        for label, value, least, most in (
            ("capacity", capacity, 1, MOST_CAPACITY),
            ("bound_ns", bound_ns, 0, MOST_BOUND_NS),
            ("max_keys", max_keys, 1, MOST_KEYS),
            ("max_state", max_state, LEAST_STATE, MOST_STATE),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ParameterError(f"{label}={value!r}: give a whole number from {least} to {most}")
        check_gate(gate)
        self.debug = run is not None and run.debug
        self.gate, self.mode = gate, mode
        self.capacity, self.bound_ns, self.max_keys, self.max_state = capacity, bound_ns, max_keys, max_state
        self._threads = threads if isinstance(threads, dict) else {None: threads}
        changes = _pairs(reconfigure)
        if max_threads is None:
            wanted = [*self._threads.values(), *(t for _, t in changes)]
            max_threads = max([os.cpu_count() or 1, *(largest_named(t) for t in wanted)])
        if isinstance(max_threads, bool) or not isinstance(max_threads, int) or not 1 <= max_threads <= MOST_INSTANCES:
            raise ParameterError(f"max_threads={max_threads!r}: give a whole number from 1 to {MOST_INSTANCES}")
        self.max_threads = max_threads
        self._mapping = mapping
        self._planned: list[tuple[int, Configuration]] = []
        last = 0
        for at, wished in changes:
            if not is_whole(at) or not last <= at < END_OF_TIME:
                raise ParameterError(
                    f"reconfigure=[({at!r}, {wished!r})]: give tuple counts as whole numbers, rising from {last} and"
                    f" below 2**62"
                )
            members = check_threads(wished, max_threads)
            self._planned.append((int(at), Configuration(members, Mapping.even(members))))
            last = int(at)

    def check_operators(self, operators: Sequence[str]) -> None:
        """Raise `ParameterError` if an option names an operator that is not there."""
        check_named("threads", self._threads, operators)

    def initial(self, operator: str) -> Configuration:
        """Configuration 0 of an operator."""
        threads = self._threads.get(operator, self._threads.get(None, 1))
        members = check_threads(threads, self.max_threads)
        if self._mapping is None:
            return Configuration(members, Mapping.even(members))
        return resolve(list(members), self._mapping, Configuration.even(1), self.max_threads)

    def planned(self, operator: str) -> list[tuple[int, Configuration]]:
        """(tuple count, configuration), rising."""
        return self._planned
