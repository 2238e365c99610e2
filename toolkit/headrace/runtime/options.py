"""Options of `start` for a run of any engine, checked; an engine checks its own options in its package."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace.arguments import check_seconds, is_number, is_whole_number, whole
from headrace.control.control_loop import DEFAULT_INTERVAL_S, LEAST_INTERVAL_S, deciders_of
from headrace.control.mapping import MOST_INSTANCES
from headrace.cores import usable_cores
from headrace.errors import ArgumentError, ParameterError
from headrace.metrics.history import DEFAULT_EVERY_S
from headrace.names import instead, no_argument
from headrace.plan.nodes import Branch, SourceNode
from headrace.progress import END_OF_TIME
from headrace.rates import RateSchedule, schedule_of
from headrace.runtime.step_threads import AUTO

PassedTime = Sequence[tuple[str, int, int, int]]
"""What the clock decided in a run: (operator, source, rows of the source before, event time it was advanced to)."""

LEAST_STATE, DEFAULT_MAX_STATE, MOST_STATE = 1 << 12, 1 << 35, 1 << 44
"""``max_state`` of every engine: bytes of address space; memory is taken only when it is written."""
_MEANT = {
    "parallelism": "threads", "workers": "threads", "cores": "threads", "num_threads": "threads",
    "max_workers": "max_threads", "output": "sink", "speed": "rate",
}  # fmt: skip
"""What other tools call an option -> its name here."""
_SINK_METHODS = ("open", "write", "close", "abort")


class RunOptions:
    """Checked options of `start` that every engine's run has."""

    def __init__(
        self,
        sink: Any = None,
        rate: float | RateSchedule | None = None,
        passed_time: PassedTime | None = None,
        debug: bool = False,
        name: str | None = None,
        sample_every: float | None = DEFAULT_EVERY_S,
        controller: Any = None,
        control_every: float = DEFAULT_INTERVAL_S,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        checkpoint_when: Callable[[Any], bool] | None = None,
        resume: str | os.PathLike[str] | None = None,
        replay: bool = True,
        step_threads: int | str = 1,
        pin: bool = False,
    ):
        # A thread cannot wait longer than `TIMEOUT_MAX`.
        if sample_every is not None and not (is_number(sample_every) and 0 < sample_every <= threading.TIMEOUT_MAX):
            raise ParameterError(f"sample_every={sample_every!r}: give seconds, above 0, or None for no history")
        for one in sink.values() if isinstance(sink, dict) else (sink,):
            _check_sink(one)
        self.sample_every = sample_every
        self.controllers = _controllers(controller)
        self.control_every = control_every
        check_seconds("control_every", control_every, LEAST_INTERVAL_S)
        self.sink, self.debug, self.name = sink, debug, name
        self.rate = schedule_of(rate)
        self.step_threads = step_threads
        if step_threads != AUTO:
            self.step_threads = whole("step_threads", step_threads, 1, MOST_INSTANCES, f'; or "{AUTO}"')
        self.pins = _pinned(pin)
        self.passed_time = None if passed_time is None else _checked_entries(passed_time)
        for option, path in (("checkpoint", checkpoint), ("resume", resume)):
            if path is not None and (not isinstance(path, str | os.PathLike) or not os.fspath(path)):
                raise ParameterError(f"{option}={path!r}: give the path of a folder")
        self.checkpoint, self.resume, self.replay = checkpoint, resume, bool(replay)
        self.checkpoint_every, self.checkpoint_when = checkpoint_every, checkpoint_when
        self._check_checkpoints()

    def _check_checkpoints(self) -> None:
        every, when = self.checkpoint_every, self.checkpoint_when
        for option, value in (("checkpoint_every", every), ("checkpoint_when", when)):
            if value is not None and self.checkpoint is None:
                raise ParameterError(f"{option}={value!r}: where are checkpoints to be kept? Give checkpoint= a folder")
        if every is not None:
            whole("checkpoint_every", every, 1, END_OF_TIME)
        if when is not None and not callable(when):
            raise ParameterError(f"checkpoint_when={when!r}: give a function of the state that returns a bool")
        if when is not None and every is None:
            raise ParameterError(f"checkpoint_when={when!r}: how often is it called? Give checkpoint_every=, a number of events")

    def check_results(self, results: Sequence[str]) -> None:
        """Raise `ParameterError` if `sink` names a result that does not exist, or is one sink for several results."""
        if isinstance(self.sink, dict):
            for name in self.sink:
                if name not in results:
                    raise ParameterError(f"sink={{{name!r}: ...}}: {instead(name, results, 'the results', '{}')}")
        elif self.sink is not None and len(results) > 1:
            raise ParameterError(
                f"sink={self.sink!r}: there are {len(results)} results; give a sink for each, sink={{{results[0]!r}: ...}}"
            )

    def check_step_threads(self, branches: Iterable[Branch]) -> None:
        """Raise `ParameterError` if `step_threads` asks for threads, and no steps of the query can use them.

        Steps of a source with `idle_after` count, although its reader applies them: with other inputs threads can.
        """
        if self.step_threads in (1, AUTO) or any(isinstance(one.origin, SourceNode) and one.steps for one in branches):
            return
        raise ParameterError(
            f"step_threads={self.step_threads}: only steps (filter, select, map, flat_map, hr.keys) between a source and the"
            f" first operator after it have threads of their own, and this query has none there; leave it out"
        )

    def check_operators(self, operators: Sequence[str], fed: Sequence[str]) -> None:
        """Raise `ParameterError` if an option names an operator that does not exist, or must name one and does not.

        Parameters
        ----------
        operators : sequence of str
            Operators that can be steered.
        fed : sequence of str
            Nodes of the query, which have inputs; the section of one may have several operators.
        """
        check_named("controller", self.controllers, operators)
        if None in self.controllers and len(operators) > 1:
            raise ParameterError(
                f"controller={self.controllers[None]!r}: which operator? A controller steers one of"
                f" {', '.join(operators)}; write controller={{{operators[-1]!r}: ...}}"
            )
        for entry in self.passed_time or ():
            if entry[0] not in fed:
                raise ParameterError(f"passed_time=[{entry!r}]: {instead(entry[0], fed, 'the operators', '{}')}")


def _check_sink(sink: Any) -> None:
    if not (sink is None or callable(sink) or all(hasattr(sink, name) for name in _SINK_METHODS)):
        raise ParameterError(
            f"sink={sink!r}: give hr.discard(), hr.parquet(path), hr.parquet_directory(path), a function of record"
            f" batches, an object with {', '.join(_SINK_METHODS)}, or leave it out to collect the results"
        )


def check_named(option: str, named: Iterable[str | None], operators: Sequence[str]) -> None:
    """Raise `ParameterError` if an option is given for an operator that does not exist; None stands for all."""
    for name in named:
        if name is not None and name not in operators:
            raise ParameterError(f"{option}={{{name!r}: ...}}: {instead(name, operators, 'the operators', '{}')}")


def read_changes(reconfigure: Any, controls: Sequence[str], example: str) -> list[tuple[int, dict[str, Any]]]:
    """Read ``reconfigure=``: changes before rows, by rising row, each a number of threads or control -> value.

    Parameters
    ----------
    reconfigure : sequence of (row, threads or dict)
    controls : sequence of str
        Controls that may change; their values are checked by the section, which knows them.
    example : str
        A dict as a user would write it.

    Raises
    ------
    ParameterError
        It is no such sequence, the rows do not rise, or there is no such control.

    Examples
    --------
    >>> read_changes([(1000, 4), (2000, {"batch": 8})], ("threads", "batch"), '{"batch": 8}')
    [(1000, {'threads': 4}), (2000, {'batch': 8})]
    """
    try:
        pairs = [(at, given) for at, given in reconfigure]
    except (TypeError, ValueError):
        raise ParameterError(
            f"reconfigure={reconfigure!r}: give a list of (row, threads), such as [(1000, 4)], or of (row, dict), such as"
            f" [(1000, {example})]"
        ) from None
    changes: list[tuple[int, dict[str, Any]]] = []
    last = 0
    for at, given in pairs:
        label = f"reconfigure=[({at!r}, {given!r})]"
        if not is_whole_number(at) or not last <= at < END_OF_TIME:
            raise ParameterError(f"{label}: give rows as whole numbers, rising from {last} and below 2**62")
        requested = dict(given) if isinstance(given, Mapping) else {"threads": given}
        for name in requested:
            if name not in controls:
                raise ParameterError(f"{label}: {instead(name, controls, 'the controls')}")
        last = int(at)
        changes.append((last, requested))
    return changes


def checked_max_state(max_state: Any) -> int:
    """Return ``max_state`` of any engine, in bytes, or raise `ParameterError`."""
    return whole("max_state", max_state, LEAST_STATE, MOST_STATE)


def largest_count(counts: Iterable[Any]) -> Any:
    """Return the largest number of threads among these, as given; anything that is no number is checked elsewhere."""
    return max(counts, key=lambda count: int(count) if is_whole_number(count) else 0, default=1)


def pool_size(max_threads: Any, counts: Iterable[Any]) -> int:
    """Return the size of the pool: by default one thread for each core, or the largest number named anywhere."""
    if max_threads is None:
        max_threads = max([usable_cores(), *(int(count) for count in counts if is_whole_number(count))])
    return whole("max_threads", max_threads, 1, MOST_INSTANCES)


def checked_options(
    engines: Sequence[Callable[..., Any]], options: Mapping[str, Any]
) -> tuple[RunOptions, dict[Callable[..., Any], Any]]:
    """Check the options given to `start`.

    Parameters
    ----------
    engines : sequence of callable
        Callables that check the options of each engine in the query; called with ``run``, the `RunOptions`, and the options
        that it names. Its optional attribute `lacks` has options of other engines: name -> why this one does not have it.
    options : dict

    Returns
    -------
    RunOptions
    dict
        Engine -> what its callable returned.

    Raises
    ------
    ParameterError
        An option has a wrong value.
    ArgumentError
        There is no such option; the text has the closest name.
    """
    shared = list(inspect.signature(RunOptions).parameters)
    own = {engine: [name for name in inspect.signature(engine).parameters if name != "run"] for engine in engines}
    names = list(dict.fromkeys([*(name for mine in own.values() for name in mine), *shared]))
    for name, value in options.items():
        if name not in names:
            for engine in own:
                if why := getattr(engine, "lacks", {}).get(name):
                    raise ArgumentError(f"{name}={value!r}: {why}; leave it out")
            raise no_argument(f"{name}={value!r}", name, names, _MEANT)
    run = RunOptions(**{name: value for name, value in options.items() if name in shared})
    checked = {}
    for engine, mine in own.items():
        checked[engine] = engine(run, **{name: value for name, value in options.items() if name in mine})
    return run, checked


def _checked_entries(entries: Any) -> list[tuple[str, int, int, int]]:
    if not isinstance(entries, Iterable):
        raise ParameterError(f"passed_time={entries!r}: give the run.passed_time of the recorded run")
    if forgotten := getattr(entries, "left_out", 0):
        raise ParameterError(
            f"passed_time: the recorded run let time pass {forgotten:,} times before the {len(list(entries)):,} that it kept, so"
            f" it cannot be replayed; replay a shorter one"
        )
    return [_checked_entry(entry) for entry in entries]


def _checked_entry(entry: Any) -> tuple[str, int, int, int]:
    kinds = [type(part) for part in entry] if isinstance(entry, (list, tuple)) else []
    is_one = kinds == [str, int, int, int] and entry[1] >= 0 and entry[2] >= 0
    if not is_one or max(map(abs, entry[1:])) >= 2**63:
        raise ParameterError(f"passed_time=[{entry!r}]: give the run.passed_time of the recorded run")
    return tuple(entry)


def _controllers(controller: Any) -> dict[str | None, Any]:
    """Return controllers by operator; None stands for the only operator."""
    if controller is None:
        return {}
    named: dict[str | None, Any] = dict(controller) if isinstance(controller, dict) else {None: controller}
    for one in named.values():
        deciders_of("controller", one)
    return named


def _pinned(pin: Any) -> bool:
    """Return `pin`, checked; `ParameterError` where the system cannot pin a thread to a core."""
    if not isinstance(pin, bool):
        raise ParameterError(f"pin={pin!r}: give True or False")
    if pin and not hasattr(os, "sched_setaffinity"):
        raise ParameterError("pin=True: this system does not let a thread be kept on a core; leave it out")
    return pin
