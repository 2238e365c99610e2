"""What `start` may be told about programs, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headrace.control.mapping import MOST_INSTANCES, is_whole
from headrace.errors import ParameterError
from headrace.names import instead
from headrace.progress import END_OF_TIME
from headrace.runtime.options import RunOptions, check_named
from headrace.synchronization.control import Configuration
from headrace.synchronization.plans import Plan

PLANS = ("auto", "chain", "flat")
DEFAULT_HEARTBEAT = 1024
MOST_HEARTBEAT = 1 << 16
DEFAULT_MAX_STATE = 1 << 35


class ProgramOptions:
    """Checked options of `start` for programs; `run` are those of every engine.

    Parameters
    ----------
    threads : int
        Workers that run leaves; more than there are cores is allowed.
    max_threads : int
        Workers there are.
    plan : Plan, or {"auto", "chain", "flat"}
        Who processes which tags: a plan of `Program.plan`, or one made for the inputs: by Appendix B's optimizer, with one
        leaf at each inner node, or a balanced tree whose inner nodes but the root have no tags.
    leaves : int
        The most that a plan which is made here may have; `max_threads` by default.
    heartbeat : int
        Events of an input between two moments at which the others hear how far it is.
    reconfigure : sequence of (row, threads)
        Changes before rows of the first input: ``(1000, 4)``.
    max_state : int
        Bytes that states may take.
    """

    lacks: ClassVar[Mapping[str, str]] = {
        "mode": "leaves have states of their own, which the program forks and joins",
        "gate": "inputs of a program are not merged: each leaf has a mailbox for every one",
        "mapping": "which keys belong to which leaf is said by the plan",
        "capacity": "a mailbox has room for 65,536 events of each input",
    }

    def __init__(
        self,
        run: RunOptions | None = None,
        threads: Any = 1,
        max_threads: int | None = None,
        plan: Plan | str = "auto",
        leaves: int | None = None,
        heartbeat: int = DEFAULT_HEARTBEAT,
        reconfigure: Sequence[tuple[int, Any]] = (),
        max_state: int = DEFAULT_MAX_STATE,
    ):
        self._threads = threads if isinstance(threads, dict) else {None: threads}
        self.debug = run is not None and run.debug
        changes = _changes(reconfigure)
        if max_threads is None:
            wanted = [*self._threads.values(), *(count for _, count in changes)]
            max_threads = max([os.cpu_count() or 1, *(int(t) for t in wanted if is_whole(t))])
        self.max_threads = _whole("max_threads", max_threads, 1, MOST_INSTANCES)
        for count in self._threads.values():
            _whole("threads", count, 1, self.max_threads)
        if not isinstance(plan, Plan) and plan not in PLANS:
            raise ParameterError(f"plan={plan!r}: give a plan of Program.plan(), or {instead(plan, PLANS, 'the kinds')}")
        self.plan = plan
        self.leaves = self.max_threads if leaves is None else _whole("leaves", leaves, 1, 64)
        self.heartbeat = _whole("heartbeat", heartbeat, 1, MOST_HEARTBEAT)
        self.max_state = _whole("max_state", max_state, 1 << 12, 1 << 44)
        last = 0
        for at, count in changes:
            if not is_whole(at) or not last <= at < END_OF_TIME:
                raise ParameterError(f"reconfigure=[({at!r}, {count!r})]: give row counts as whole numbers, rising from {last}")
            _whole("threads", count, 1, self.max_threads)
            last = int(at)
        self._planned = changes

    def check_operators(self, operators: Sequence[str]) -> None:
        """Raise `ParameterError` if an option names an operator that is not there."""
        check_named("threads", self._threads, operators)

    def initial(self, operator: str, plan: Plan) -> Configuration:
        """Configuration 0 of an operator."""
        return Configuration(int(self._threads.get(operator, self._threads.get(None, 1))), plan)

    def planned(self, plan: Plan) -> list[tuple[int, Configuration]]:
        """(row, configuration), rising."""
        return [(int(at), Configuration(int(count), plan)) for at, count in self._planned]


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if not is_whole(value) or not least <= value <= most:
        raise ParameterError(f"{name}={value!r}: give a whole number from {least:,} to {most:,}")
    return int(value)


def _changes(reconfigure: Any) -> list[tuple[int, Any]]:
    try:
        return [(at, wish["threads"] if isinstance(wish, Mapping) else wish) for at, wish in reconfigure]
    except (TypeError, ValueError, KeyError):
        raise ParameterError(
            f"reconfigure={reconfigure!r}: give a list of (row, threads), such as [(1000, 4)]"
        ) from None
