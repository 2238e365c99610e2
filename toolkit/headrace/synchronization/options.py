"""What `start` may be told about programs, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headrace.errors import ParameterError
from headrace.names import instead
from headrace.runtime.options import RunOptions, check_named, pool_size, read_changes, whole
from headrace.synchronization.control import Configuration
from headrace.synchronization.plans import MOST_LEAVES, Plan

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
        self._planned = [(at, wish["threads"]) for at, wish in read_changes(reconfigure, ("threads",), '{"threads": 4}')]
        counts = [*self._threads.values(), *(count for _, count in self._planned)]
        self.max_threads = pool_size(max_threads, counts)
        for count in counts:
            whole("threads", count, 1, self.max_threads)
        if not isinstance(plan, Plan) and plan not in PLANS:
            raise ParameterError(f"plan={plan!r}: give a plan of Program.plan(), or {instead(plan, PLANS, 'the kinds')}")
        self.plan = plan
        self.leaves = min(self.max_threads, MOST_LEAVES) if leaves is None else whole("leaves", leaves, 1, MOST_LEAVES)
        self.heartbeat = whole("heartbeat", heartbeat, 1, MOST_HEARTBEAT)
        self.max_state = whole("max_state", max_state, 1 << 12, 1 << 44)

    def check_operators(self, operators: Sequence[str]) -> None:
        """Raise `ParameterError` if an option names an operator that is not there."""
        check_named("threads", self._threads, operators)

    def initial(self, operator: str, plan: Plan) -> Configuration:
        """Configuration 0 of an operator."""
        return Configuration(int(self._threads.get(operator, self._threads.get(None, 1))), plan)

    def planned(self, plan: Plan) -> list[tuple[int, Configuration]]:
        """(row, configuration), rising."""
        return [(at, Configuration(int(count), plan)) for at, count in self._planned]
