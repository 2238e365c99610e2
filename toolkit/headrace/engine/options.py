"""What `start` may be told, checked."""

from __future__ import annotations

import difflib
import inspect
import numbers
import os
import threading
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from headrace.elasticity.control_loop import DEFAULT_INTERVAL_S, LEAST_INTERVAL_S, deciders_of
from headrace.elasticity.damping import check_seconds
from headrace.elasticity.mapping import MOST_INSTANCES, Mapping, is_whole
from headrace.elasticity.reconfiguration import Configuration, check_threads, resolve
from headrace.errors import ParameterError
from headrace.gates import merged_log, merged_log_kernel
from headrace.history import DEFAULT_EVERY_S
from headrace.progress import END_OF_TIME
from headrace.rates import RateSchedule, schedule_of

DEFAULT_CAPACITY = 1 << 14
DEFAULT_BOUND_NS = 1_000_000
DEFAULT_MAX_KEYS = 1 << 24
MOST_CAPACITY = 1 << 26  # beyond, the gates' arrays alone are larger than most machines' memory
MOST_BOUND_NS = 1 << 62
MOST_KEYS = 1 << 30  # ids of keys are 32 bits, and reach up to twice as many

PassedTime = Sequence[tuple[str, int, int, int]]
"""What the clock decided in a run: (operator, source, its rows before, time passed to)."""


def gate_modules(gate: str) -> tuple[ModuleType, ModuleType]:
    """Return the handle module and the kernel module of a gate."""
    if gate == "log":
        return merged_log, merged_log_kernel
    if gate == "scalegate":
        from headrace.gates import scalegate, scalegate_kernel

        return scalegate, scalegate_kernel
    raise ParameterError(f'gate={gate!r}: give "log" or "scalegate"')


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


def _checked_entries(entries: Any) -> list[tuple[str, int, int, int]]:
    if not isinstance(entries, Iterable):
        raise ParameterError(f"passed_time={entries!r}: give what run.passed_time of the recorded run is")
    return [_checked_entry(entry) for entry in entries]


def _checked_entry(entry: Any) -> tuple[str, int, int, int]:
    kinds = [type(part) for part in entry] if isinstance(entry, (list, tuple)) else []
    is_one = kinds == [str, int, int, int] and entry[1] >= 0 and entry[2] >= 0
    if not is_one or max(map(abs, entry[1:])) >= 2**63:
        raise ParameterError(f"passed_time=[{entry!r}]: give what run.passed_time of the recorded run is")
    return tuple(entry)


def _controllers(controller: Any) -> dict[str | None, Any]:
    """Controllers by operator; None stands for the only one."""
    if controller is None:
        return {}
    named: dict[str | None, Any] = dict(controller) if isinstance(controller, dict) else {None: controller}
    for one in named.values():
        deciders_of("controller", one)
    return named


def checked_options(options: dict[str, Any]) -> Options:
    """Check what `start` was told; `ParameterError` with the nearest name for an option there is none of."""
    names = list(inspect.signature(Options).parameters)
    for name, value in options.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            meant = f"did you mean {near[0]}=?" if near else f"the options are {', '.join(names)}"
            raise ParameterError(f"start({name}={value!r}): there is no such option; {meant}")
    return Options(**options)


_SINK_METHODS = ("open", "write", "close", "abort")


class Options:
    """Checked options of `start`."""

    def __init__(
        self,
        threads: Any = 1,
        max_threads: int | None = None,
        mapping: Mapping | None = None,
        reconfigure: Sequence[tuple[int, int]] = (),
        sink: Any = None,
        gate: str = "log",
        mode: str = "vsn",
        capacity: int = DEFAULT_CAPACITY,
        bound_ns: int = DEFAULT_BOUND_NS,
        max_keys: int = DEFAULT_MAX_KEYS,
        rate: float | RateSchedule | None = None,
        passed_time: PassedTime | None = None,
        debug: bool = False,
        name: str | None = None,
        sample_every: float | None = DEFAULT_EVERY_S,
        controller: Any = None,
        control_every: float = DEFAULT_INTERVAL_S,
    ):
        if mode not in ("vsn", "sn"):
            raise ParameterError(f'mode={mode!r}: give "vsn" or "sn"')
        for label, value, least, most in (
            ("capacity", capacity, 1, MOST_CAPACITY),
            ("bound_ns", bound_ns, 0, MOST_BOUND_NS),
            ("max_keys", max_keys, 1, MOST_KEYS),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ParameterError(f"{label}={value!r}: give a whole number from {least} to {most}")
        is_seconds = isinstance(sample_every, numbers.Real) and not isinstance(sample_every, bool)
        # What is longer no thread can wait for.
        if sample_every is not None and not (is_seconds and 0 < sample_every <= threading.TIMEOUT_MAX):
            raise ParameterError(f"sample_every={sample_every!r}: give seconds, above 0, or None for no history")
        if not (sink is None or callable(sink) or all(hasattr(sink, name) for name in _SINK_METHODS)):
            raise ParameterError(
                f"sink={sink!r}: give hr.discard(), hr.parquet(path), hr.parquet_directory(path), a function of record"
                f" batches, an object with {', '.join(_SINK_METHODS)}, or leave it out to collect the results"
            )
        self.sample_every = sample_every
        self.controllers = _controllers(controller)
        self.control_every = control_every
        check_seconds("control_every", control_every, LEAST_INTERVAL_S)
        gate_modules(gate)
        self.gate, self.mode, self.sink, self.debug, self.name = gate, mode, sink, debug, name
        self.capacity, self.bound_ns, self.max_keys = capacity, bound_ns, max_keys
        self.rate = schedule_of(rate)
        self.passed_time = None if passed_time is None else _checked_entries(passed_time)
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
        """Raise `ParameterError` if an option names an operator that is not there, or has to name one."""
        for option, named in (("threads", self._threads), ("controller", self.controllers)):
            for name in named:
                if name is not None and name not in operators:
                    raise ParameterError(f"{option}={{{name!r}: ...}}: the operators are {', '.join(operators)}")
        if None in self.controllers and len(operators) > 1:
            raise ParameterError(
                f"controller={self.controllers[None]!r}: which operator? A controller steers one of"
                f" {', '.join(operators)}; write controller={{{operators[-1]!r}: ...}}"
            )
        for entry in self.passed_time or ():
            if entry[0] not in operators:
                raise ParameterError(f"passed_time=[{entry!r}]: the operators are {', '.join(operators)}")

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
