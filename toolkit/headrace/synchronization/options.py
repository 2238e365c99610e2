"""Options of `start` for programs, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from headrace.arguments import whole
from headrace.errors import ParameterError
from headrace.names import instead
from headrace.runtime.options import (
    DEFAULT_MAX_STATE,
    RunOptions,
    check_named,
    checked_max_state,
    pool_size,
    read_changes,
)
from headrace.synchronization.configuration import Configuration, Planned
from headrace.synchronization.plans import MOST_LEAVES, Plan

PLANS = ("auto", "chain", "flat")
ORDERS = ("events", "none")
DEFAULT_HEARTBEAT = 1024
MOST_HEARTBEAT = 1 << 16
NO_HEARTBEATS = "off"


def given_plan(given: Any, ways: Sequence[str]) -> Plan | str:
    """Read what a user gives as a plan: a plan, its JSON, or the name of a way to make one."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        return Plan.from_json(given)
    if not isinstance(given, Plan) and given not in ways:
        raise ParameterError(
            f"plan={given!r:.60}: {instead(given, ways, 'the ways')}; or give a plan, as of Program.plan(), or its JSON"
        )
    return given


class ProgramOptions:
    """Checked options of `start` for programs; `run` has those of every engine.

    Parameters
    ----------
    threads : int
        Workers that run leaves; there may be more than cores.
    max_threads : int
        All workers.
    plan : Plan, its JSON, or {"auto", "chain", "flat"}
        Which node processes which tags: a plan of `Program.plan`, or one made for the inputs: by Appendix B's optimizer, with
        one leaf at each inner node, or a balanced tree whose inner nodes but the root have no tags.
    leaves : int
        Most leaves of a plan that is made here; by default `max_threads`.
    heartbeat : int or "off"
        Events of an input between two reports of its progress to the others. With "off" events alone show how far an input is:
        its watermarks, and rows that a step filters out, do not. What may depend on an input that gives no event then waits
        for its next one, or for its end.
    reconfigure : sequence of (row, threads or dict)
        Changes before rows of the merged input, all inputs in the order of events: ``(1000, 4)``, ``(1000, {"plan": plan})``.
        A change comes when it is certain which row that is: once no input can bring an earlier one.
    order : {"events", "none"}
        Outputs come in the order of their events, each once no earlier one can come; or each at once, in any order, so
        that a silent input holds back only what depends on it.
    max_state : int
        Most bytes for states.
    """

    lacks: ClassVar[Mapping[str, str]] = {
        "mode": "leaves have states of their own, which the program forks and joins",
        "gate": "inputs of a program are not merged: each leaf has a mailbox for every one",
        "mapping": "which keys belong to which leaf is said by the plan",
        "capacity": "a mailbox has room for 262,144 events of each input",
        **dict.fromkeys(("scheme", "sharing", "punctuation", "unsafe", "chains"), "a program has no tables, and no transactions"),
        **dict.fromkeys(("schedule", "queues", "reorder", "time_slice"), "a program has no stages: its plan says who does what"),
    }

    def __init__(
        self,
        run: RunOptions | None = None,
        threads: Any = 1,
        max_threads: int | None = None,
        plan: Plan | str = "auto",
        leaves: int | None = None,
        heartbeat: int | str = DEFAULT_HEARTBEAT,
        reconfigure: Sequence[tuple[int, Any]] = (),
        order: str = "events",
        max_state: int = DEFAULT_MAX_STATE,
    ):
        self._threads = threads if isinstance(threads, dict) else {None: threads}
        self.debug = run is not None and run.debug
        self._planned = [
            (at, requested | {"plan": given_plan(requested["plan"], PLANS)} if "plan" in requested else requested)
            for at, requested in read_changes(reconfigure, ("threads", "plan"), '{"threads": 4}')
        ]
        counts = [*self._threads.values(), *(requested["threads"] for _, requested in self._planned if "threads" in requested)]
        self.max_threads = pool_size(max_threads, counts)
        for count in counts:
            whole("threads", count, 1, self.max_threads)
        self.plan = given_plan(plan, PLANS)
        if order not in ORDERS:
            raise ParameterError(f"order={order!r}: {instead(order, ORDERS, 'the orders')}")
        self.is_ordered = order == "events"
        self.leaves = min(self.max_threads, MOST_LEAVES) if leaves is None else whole("leaves", leaves, 1, MOST_LEAVES)
        self.has_heartbeats = not isinstance(heartbeat, str) or heartbeat != NO_HEARTBEATS
        given = heartbeat if self.has_heartbeats else MOST_HEARTBEAT
        self.heartbeat = whole("heartbeat", given, 1, MOST_HEARTBEAT, f", or {NO_HEARTBEATS!r}")
        self.max_state = checked_max_state(max_state)

    def check_operators(self, operators: Sequence[str]) -> None:
        """Raise `ParameterError` if an option names an operator that does not exist."""
        check_named("threads", self._threads, operators)

    def initial(self, operator: str, plan: Plan) -> Configuration:
        """Configuration 0 of an operator."""
        return Configuration(int(self._threads.get(operator, self._threads.get(None, 1))), plan)

    def planned(self, initial: Configuration, plan_of: Callable[[Plan | str], Plan]) -> list[Planned]:
        """Planned changes, each complete if nothing else changes before it; `plan_of` makes and checks a plan."""
        found, last = [], initial
        for at, requested in self._planned:
            plan = plan_of(requested["plan"]) if "plan" in requested else last.plan
            last = Configuration(int(requested.get("threads", last.threads)), plan)
            found.append(Planned(at, last, "plan" in requested, "threads" in requested))
        return found
