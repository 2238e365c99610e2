"""How many events per second a plan can take: the model by which optimizers compare plans.

A leaf is busy with its own events, and with a turn for each *run* of them: it looks at its mailboxes, and again where an event
comes in between on which they depend (`Dependence.runs`). An event of a node above a leaf stops all leaves below that node, until
they have joined, level by level, and forked again. The first of them waits for the last, and states and mailboxes go from
core to core. So, in nanoseconds of work for each second of stream::

    busy(leaf) = rate x update + runs x turn
    busy(node) = max(busy(left), busy(right)) + rate x (update + height x (join + fork) + wait) + runs x turn

with `height` the levels below the node: joins of one level run at the same time. One thread alone does not wait. The work of
all nodes together, with each join and fork and the waits of all threads that have a leaf there, has to fit into the threads
there are. A plan is saturated at this rate of events per second::

    sum of rates / max(busy(root), work / threads)

The delay of an event that stops others is the time to join everything below, the wait, and its update; that of a leaf's event is
its update. Both grow as a plan approaches saturation, as in a queue::

    delay(node) = (height x join + wait + update) / (1 - busy(root))

The model is there to put plans in the right order. What it predicts is mostly too high: it leaves out the threads that feed
mailboxes and put results in order, which need cores too, memory, and that different leaves are the busiest between different
joins (it takes the mean). It also leaves out that a state may stay joined where joins would cost more: then throughput does not
fall as low as predicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from headrace.arguments import is_number
from headrace.errors import ParameterError
from headrace.names import instead
from headrace.synchronization.definition import Definition
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.tags import ImplementationTag


@dataclass(frozen=True)
class Costs:
    """What one call of each function takes, in nanoseconds.

    Attributes
    ----------
    update : float, or mapping of str to float
        For all tags, or for each.
    fork, join : float
        Including the time to hand the state over.
    turn : float
        To look at the mailboxes for a run of events; 0 if `update` includes it.
    wait : float
        Of threads for each other at a join, cache lines that move between their cores included.

    Notes
    -----
    The defaults are those of small states on two cores that share a cache: orders of magnitude. Measured ones are better.
    """

    update: float | Mapping[str, float] = 10.0
    fork: float = 60.0
    join: float = 60.0
    turn: float = 150.0
    wait: float = 880.0

    def of(self, tag: ImplementationTag) -> float:
        """The nanoseconds of an update by an event of this tag."""
        return self.update if isinstance(self.update, int | float) else self.update[tag.tag]


NAMES = tuple(each.name for each in fields(Costs))


def read_costs(program: Definition, given: Any) -> Costs:
    """Read costs as a user gives them: None, `Costs`, or a dict of some of its fields.

    Raises
    ------
    ParameterError
        Naming the cost and what should be there.
    """
    if isinstance(given, Costs):
        return given
    form = 'give a dict of nanoseconds, as in {"update": 20, "fork": 100, "join": 100}'
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(f"costs={given!r}: {form}")
    read: dict[str, Any] = {}
    for name, value in (given or {}).items():
        if name not in NAMES:
            raise ParameterError(f"costs: there is no {name!r}; {instead(name, NAMES, 'the costs')}")
        if name == "update" and isinstance(value, Mapping):
            for tag in value:
                if tag not in program.tags:
                    raise ParameterError(f"costs: update: there is no tag {tag!r}; {instead(tag, program.tags, 'the tags')}")
            known = {tag: _nanoseconds(f"update: {tag}", one) for tag, one in value.items()}
            most = max(known.values(), default=Costs.update)  # of tags that are left out
            read[name] = {tag: known.get(tag, most) for tag in program.tags}
        else:
            read[name] = _nanoseconds(name, value)
    return Costs(**read)


def _nanoseconds(label: str, given: Any) -> float:
    if not is_number(given) or not 0 <= given < math.inf:
        raise ParameterError(f"costs: {label}={given!r}: give nanoseconds, a number from 0 on")
    return float(given)


class Load(NamedTuple):
    """The work of a tree of workers for one second of stream.

    Attributes
    ----------
    busy : float
        Nanoseconds, with all nodes at work that can be at the same time.
    height : int
        Levels of joins.
    work : float
        Nanoseconds of all nodes together.
    forks : int
        Nodes that fork.
    """

    busy: float
    height: int
    work: float
    forks: int


class Model:
    """The cost model of plans for one program and one set of rates.

    Parameters
    ----------
    rates : mapping of ImplementationTag to float
        Events per second.
    costs : Costs
    threads : int
        That run the leaves.
    runs : mapping of ImplementationTag to float, optional
        Runs of events per second (`Dependence.runs`). By default updates include their turns.

    Examples
    --------
    >>> value, barrier = ImplementationTag("value", 0, 0), ImplementationTag("barrier", 0, 0)
    >>> model = Model({value: 1e6, barrier: 1.0}, Costs(update=100.0), threads=1)
    >>> round(model.events_per_second([PlanNode([value, barrier])]))
    10000000
    """

    def __init__(
        self,
        rates: Mapping[ImplementationTag, float],
        costs: Costs,
        threads: int,
        runs: Mapping[ImplementationTag, float] | None = None,
    ):
        self.rates, self.threads = rates, threads
        self.costs = costs
        self._updates = {tag: rate * costs.of(tag) + (runs[tag] * costs.turn if runs else 0) for tag, rate in rates.items()}
        self._round_trip = costs.fork + costs.join
        self._wait = costs.wait if threads > 1 else 0.0

    def updates(self, tags: Iterable[ImplementationTag]) -> float:
        """Nanoseconds that the events of some tags take, with their turns."""
        return sum(self._updates[tag] for tag in tags)

    def leaf(self, tags: Iterable[ImplementationTag]) -> Load:
        """The load of a leaf."""
        busy = self.updates(tags)
        return Load(busy, 0, busy, 0)

    def above(self, tags: Sequence[ImplementationTag], left: Load, right: Load) -> Load:
        """The load of a node and those below it."""
        own, rate = self.updates(tags), sum(self.rates[tag] for tag in tags)
        height, forks = 1 + max(left.height, right.height), 1 + left.forks + right.forks
        busy = max(left.busy, right.busy) + own + rate * (height * self._round_trip + self._wait)
        waits = min(self.threads, forks + 1) * self._wait
        return Load(busy, height, left.work + right.work + own + rate * (forks * self._round_trip + waits), forks)

    def of(self, node: PlanNode) -> Load:
        """The load of a tree."""
        if not node.children:
            return self.leaf(node.tags)
        left, right = map(self.of, node.children)
        return self.above(node.tags, left, right)

    def seconds(self, busy: float, work: float) -> float:
        """How long a second of stream takes, in nanoseconds."""
        return max(busy, work / self.threads)

    def events_per_second(self, roots: Sequence[PlanNode]) -> float | None:
        """Return the rate of all events at which a plan is saturated; None where nothing costs anything."""
        loads = [self.of(root) for root in roots]
        spent = self.seconds(max(load.busy for load in loads), sum(load.work for load in loads))
        return sum(self.rates.values()) / spent * 1e9 if spent else None

    def delay_ns(self, roots: Sequence[PlanNode]) -> float:
        """The mean delay of events at the node where it is longest; infinite where a plan cannot keep up.

        Examples
        --------
        >>> value, barrier = ImplementationTag("value", 0, 0), ImplementationTag("barrier", 0, 0)
        >>> model = Model({value: 5e6, barrier: 1.0}, Costs(update=100.0), threads=1)
        >>> round(model.delay_ns([PlanNode([value, barrier])]))
        200
        """
        loads = [self.of(root) for root in roots]
        busy = self.seconds(max(load.busy for load in loads), sum(load.work for load in loads)) / 1e9
        return math.inf if busy >= 1 else max(map(self._longest, roots)) / (1 - busy)

    def _longest(self, node: PlanNode) -> float:
        """The longest time, in nanoseconds, that an event of a node or of one below it takes if it need not wait."""
        own = max((self.costs.of(tag) for tag in node.tags if self.rates[tag]), default=-math.inf)
        below = [self._longest(child) for child in node.children]
        joined = self.of(node).height * self.costs.join + self._wait if node.children else 0.0
        return max([own + joined, *below, 0.0])
