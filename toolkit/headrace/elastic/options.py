"""Options of `start` for the elastic engine, checked."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

from headrace.arguments import is_whole_number, whole
from headrace.control.mapping import Mapping
from headrace.elastic.arrays import DEFAULT_BATCH_NS
from headrace.elastic.configuration import Configuration, check_threads, resolve
from headrace.elastic.outlets import CHANNELS, WAYS, lines, meeting, outlets
from headrace.errors import ParameterError
from headrace.gates.variants import check_gate
from headrace.plan.nodes import Branch, OperatorNode, Query
from headrace.runtime.options import (
    DEFAULT_MAX_STATE,
    RunOptions,
    check_named,
    checked_max_state,
    pool_size,
    read_changes,
)

CONTROLS = ("threads", "mapping")
"""What a planned change may say."""

_STEPS = ("filter", "select", "map", "flat_map")

INPUT_ORDERS = ("merged", "arrival")
DEFAULT_CAPACITY = 1 << 14
ONE_SOURCE_CAPACITY = 1 << 17
"""Enough that a thread works for longer than waking it takes. With more sources, or another gate, each source would need this."""
DEFAULT_MAX_KEYS = 1 << 24
MOST_CAPACITY = 1 << 26  # beyond, the gates' arrays alone are larger than most machines' memory
MOST_BOUND_NS = 1 << 62
MOST_KEYS = 1 << 30  # key ids have 32 bits, and there may be twice as many ids as keys


def largest_named(threads: Any) -> int:
    """Return how many threads a pool needs for this `threads`; 0 if `check_threads` will refuse it anyway."""
    if is_whole_number(threads):
        return int(threads)
    if isinstance(threads, (list, tuple, set, range)) and all(map(is_whole_number, threads)):
        return 1 + max(threads, default=-1)
    return 0


class ElasticOptions:
    """Checked options of `start` for the elastic engine; `run` has those of every engine."""

    lacks: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("scheme", "sharing", "punctuation", "unsafe", "chains"), "a window or join has no transactions"),
        **dict.fromkeys(("schedule", "queues", "reorder", "time_slice"), "a window or join has no stages that take turns"),
        **dict.fromkeys(("plan", "leaves", "heartbeat"), "mapping= says who owns which keys, there is no plan of leaves"),
    }

    def __init__(
        self,
        run: RunOptions | None = None,
        threads: Any = 1,
        max_threads: int | None = None,
        mapping: Mapping | None = None,
        reconfigure: Sequence[tuple[int, Any]] = (),
        gate: str = "log",
        mode: str = "vsn",
        input_order: str | dict[str, str] = "merged",
        capacity: int | None = None,
        bound_ns: int | None = None,
        batch_ns: int = DEFAULT_BATCH_NS,
        passing: str | dict[str, str] = "auto",
        channel: str | dict[str, str] = "auto",
        max_keys: int = DEFAULT_MAX_KEYS,
        max_state: int = DEFAULT_MAX_STATE,
    ):
        if mode not in ("vsn", "sn"):
            raise ParameterError(f'mode={mode!r}: give "vsn" or "sn"')
        self._capacity = None if capacity is None else whole("capacity", capacity, 1, MOST_CAPACITY)
        self._bound_ns = None if bound_ns is None else whole("bound_ns", bound_ns, 0, MOST_BOUND_NS)
        self.batch_ns = whole("batch_ns", batch_ns, 1, MOST_BOUND_NS)
        if self._bound_ns and self.batch_ns > max(self._bound_ns, DEFAULT_BATCH_NS):
            raise ParameterError(
                f"batch_ns={self.batch_ns}: a gate never holds more than bound_ns={self._bound_ns} of work, so no batch can be"
                f" that large; pass a larger bound_ns= as well"
            )
        self.max_keys = whole("max_keys", max_keys, 1, MOST_KEYS)
        self.max_state = checked_max_state(max_state)
        check_gate(gate)
        self.debug = run is not None and run.debug
        self.gate, self.mode = gate, mode
        self._input_order = input_order if isinstance(input_order, dict) else {None: input_order}
        for order in self._input_order.values():
            self._check_input_order(order)
        self._passing = passing if isinstance(passing, dict) else {None: passing}
        for way in self._passing.values():
            if way not in WAYS:
                raise ParameterError(f"passing={way!r}: give {', '.join(map(repr, WAYS))}, or a dict of operator name to one")
        self._channel = channel if isinstance(channel, dict) else {None: channel}
        for way in self._channel.values():
            if way not in CHANNELS:
                raise ParameterError(f"channel={way!r}: give {', '.join(map(repr, CHANNELS))}, or a dict of operator name to one")
        self._query: Query | None = None
        self._compiled: dict[str, Any] = {}
        self._outlets: dict[str, list[str]] | None = None
        self._lines: dict[str, int] = {}
        self.sections: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        """Sections made so far, upstream first, by the name of their node."""
        self._threads = threads if isinstance(threads, dict) else {None: threads}
        changes = read_changes(reconfigure, CONTROLS, "{'threads': 2, 'mapping': ...}")
        named = [*self._threads.values(), *(requested.get("threads") for _, requested in changes)]
        self.max_threads = pool_size(max_threads, map(largest_named, named))
        self._mapping = mapping
        self._planned: list[tuple[int, Configuration]] = []
        for at, requested in changes:
            if "threads" not in requested:
                raise ParameterError(
                    f"reconfigure=[({at}, {requested!r})]: say threads= as well, as in {{'threads': 2, 'mapping': ...}}"
                )
            # An even mapping, unless the change has one: the mapping of the change before does not matter.
            configuration = resolve(requested["threads"], requested.get("mapping"), Configuration.even(1), self.max_threads)
            self._planned.append((at, configuration))

    def check_operators(self, operators: Sequence[str]) -> None:
        """Raise `ParameterError` if an option names an operator that does not exist."""
        steps = [name for name in self._threads if name in _STEPS and name not in operators]
        if steps:
            raise ParameterError(
                f"threads={{{steps[0]!r}: ...}}: a step has no instances; give step_threads= for those between sources and the"
                f" first operators; the operators are {', '.join(operators)}"
            )
        check_named("threads", self._threads, operators)
        check_named("input_order", self._input_order, operators)
        check_named("passing", self._passing, operators)
        check_named("channel", self._channel, operators)

    def look_at(self, query: Query) -> None:
        """Note what takes each operator's results."""
        self._query = query
        self._outlets = outlets(query)
        self._lines = lines(query, self._outlets, self._may_pass)

    def _may_pass(self, before: OperatorNode, node: OperatorNode) -> bool:
        """Whether results may go from one to the next without a collector, as far as is known before both are built."""
        if self.mode != "vsn" or self.gate != "log" or self.passing(node.name) == "collector":
            return False
        return getattr(before.spec, "may_pass_on", False) and getattr(node.spec, "may_take", False)

    def line_of(self, operator: str) -> int:
        """Number of operators in one line with this one, itself included: they may share key ids, and each allows `max_keys`."""
        return self._lines.get(operator, 1)

    def takers(self, operator: str) -> list[str]:
        """Names of the operators that take an operator's results, "" for the end of the query; none before `look_at`."""
        return [] if self._outlets is None else self._outlets[operator]

    def compiled(self, node: OperatorNode, branches: list[Branch]) -> Any:
        """What computes an operator in this run, made before its section if another operator's way depends on it."""
        if (section := self.sections.get(node.name)) is not None:
            return section.compiled
        if node.name not in self._compiled:
            self._compiled[node.name] = node.spec.compiled(node, branches, self)
        return self._compiled[node.name]

    def take_compiled(self, node: OperatorNode, branches: list[Branch]) -> Any:
        """The same, for the section that is about to be made."""
        found = self._compiled.pop(node.name, None)
        return node.spec.compiled(node, branches, self) if found is None else found

    def siblings(self, operator: str, before: str) -> list[tuple[OperatorNode, list[Branch]]]:
        """The other operators that take the results of the one before, each with its branches."""
        assert self._query is not None
        names = set(self.takers(before)) - {operator}
        return [(node, self._query.branches[node.name]) for node in self._query.operators if node.name in names]

    def meeting(self, operator: str) -> tuple[str, str] | None:
        """Two of the takers of an operator's results that are connected by others, too: see `outlets.meeting`."""
        assert self._query is not None
        return meeting(self._query, operator, self.takers(operator))

    def passing(self, operator: str) -> str:
        """The way asked for between the operator before and this one: one of `WAYS`."""
        return self._passing.get(operator, self._passing.get(None, "auto"))

    def channel(self, operator: str) -> str:
        """The channel asked for between the operator before and the instances of this one: one of `CHANNELS`."""
        return self._channel.get(operator, self._channel.get(None, "auto"))

    def is_asked(self, option: str, way: str, operator: str) -> bool:
        """Whether `passing` or `channel` asks for a way into this operator: by name, or for a query in which all read sources.

        Where some operators follow others, a way given without a name is meant for those.
        """
        ways = self._passing if option == "passing" else self._channel
        takers = itertools.chain.from_iterable((self._outlets or {}).values())
        return ways.get(operator, None if any(takers) else ways.get(None)) == way

    def _check_input_order(self, order: Any) -> None:
        if order not in INPUT_ORDERS:
            raise ParameterError(f'input_order={order!r}: give "merged" or "arrival", or a dict of operator name to either')
        if order == "arrival" and self.mode == "sn":
            raise ParameterError(
                'input_order="arrival" with mode="sn": instances that share nothing know the progress of'
                ' the others by places in the merged input; leave one of them out'
            )
        if order == "arrival" and self.gate != "log":
            raise ParameterError(
                f'input_order="arrival" with gate={self.gate!r}: a skip list is always sorted; leave one of them out'
            )

    def takes_as_they_come(self, operator: str, sources: int) -> bool:
        """Whether an operator is to take tuples in order of arrival; those of a single source come in event-time order."""
        return sources > 1 and self._input_order.get(operator, self._input_order.get(None, "merged")) == "arrival"

    def capacity_for(self, sources: int) -> int:
        """The most tuples that the gate of an operator with so many sources holds."""
        if self._capacity is not None:
            return self._capacity
        return ONE_SOURCE_CAPACITY if sources == 1 and self.gate == "log" and self.mode == "vsn" else DEFAULT_CAPACITY

    def bound_for(self, usual_ns: int) -> int:
        """The most work in the gate of an operator, in nanoseconds; `usual_ns` where nothing is asked for. 0: no bound."""
        return max(usual_ns, self.batch_ns) if self._bound_ns is None else self._bound_ns

    def initial(self, operator: str) -> Configuration:
        """Configuration 0 of an operator."""
        threads = self._threads.get(operator, self._threads.get(None, 1))
        members = check_threads(threads, self.max_threads)
        if self._mapping is None:
            return Configuration(members, Mapping.even(members))
        return resolve(list(members), self._mapping, Configuration.even(1), self.max_threads)

    def planned(self, operator: str) -> list[tuple[int, Configuration]]:
        """Planned changes: (tuple count, configuration), by rising count."""
        return self._planned
