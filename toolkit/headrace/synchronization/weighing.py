"""Rates and costs of a running program, from its counters: the input of the optimizers by rates.

Rates are those of the last seconds. The cost of an event is the worker time of the leaves that own its tag, divided by the
events they processed; time in which a worker looks for events in vain is not counted. Of several intervals the least is taken,
since events that come one by one cost more each.
An interval lasts until there were enough events to take a cost from, however slowly they come.
An inner node's time is that of its joins, of its own events, and of those that it processes while its state stays joined.
The latter are taken to cost what those of leaves do, but no more than half of that time. A fork is taken to cost what a join
does, and a turn in which the state stayed joined counts as one of each. Turns are part of the measured updates. How long threads
wait for each other at a join is not measured: the model's default stands for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.synchronization.plans import Plan
from headrace.synchronization.prediction import Costs
from headrace.synchronization.tags import ImplementationTag

LEAST_EVENTS, LEAST_JOINS = 500, 20
"""Least events, and least joins, in an interval from which a cost is taken."""


class Weighing:
    """Estimates of rates and costs; fed with one snapshot after another.

    Parameters
    ----------
    tags : sequence of ImplementationTag
        All there are, in the order in which snapshots count them.
    span_s : float
        Over which rates are taken.
    """

    def __init__(self, tags: Sequence[ImplementationTag], span_s: float):
        self.tags, self.span_s = list(tags), span_s
        self._looks: deque[tuple[float, np.ndarray]] = deque()
        self._since: dict[str | None, tuple[Plan, Mapping[str, Any]]] = {}
        """The snapshot with which an interval began, by the tag whose cost is taken from it; None: that of a join."""
        self._update: dict[str, float] = {}
        self._above: dict[str, float] = {}
        self._join: float | None = None

    def add(self, at_s: float, plan: Plan, values: Mapping[str, Any]) -> None:
        """Take a snapshot.

        Parameters
        ----------
        at_s : float
        plan : Plan
            In force.
        values : mapping
            ``tag_events``; and by node ``events``, ``node_time``, ``node_joins`` and ``node_stays``.
        """
        counts = np.asarray(values["tag_events"], np.int64)
        while len(self._looks) > 1 and at_s - self._looks[1][0] >= self.span_s:
            self._looks.popleft()
        self._looks.append((at_s, counts))
        self._learn_updates(plan, values)
        self._learn_joins(plan, values)

    def _grown(self, of: str | None, plan: Plan, now: Mapping[str, Any]) -> dict[str, dict[str, float]] | None:
        """What nodes did in the interval so far; None where it begins with this snapshot."""
        names = [one.name for one in plan.nodes]
        planned, then = self._since.get(of, (None, now))
        # The plan may have changed between the two readings.
        if planned == plan and all(name in counts["events"] for name in names for counts in (now, then)):
            grown = {
                what: {name: now[what][name] - then[what][name] for name in names}
                for what in ("events", "node_time", "node_joins", "node_stays")
            }
            if min(min(each.values()) for each in grown.values()) >= 0:
                return grown
        self._since[of] = plan, now
        return None

    def _learn_updates(self, plan: Plan, now: Mapping[str, Any]) -> None:
        owners: dict[str, list[str]] = {}
        for one in plan.leaves:
            for tag in {tag.tag for tag in one.node.tags}:
                owners.setdefault(tag, []).append(one.name)
        for tag, leaves in owners.items():
            grown = self._grown(tag, plan, now)
            if grown is None:
                continue
            events = sum(grown["events"][name] for name in leaves)
            if events >= LEAST_EVENTS:
                cost = 1e3 * sum(grown["node_time"][name] for name in leaves) / events
                self._update[tag] = min(cost, self._update.get(tag, cost))
                self._since[tag] = plan, now

    def _learn_joins(self, plan: Plan, now: Mapping[str, Any]) -> None:
        inner = [one for one in plan.nodes if one.leaf < 0]
        grown = self._grown(None, plan, now)
        if grown is None:
            return
        events = sum(grown["events"][one.name] for one in inner)
        joins = sum(grown[what][one.name] for one in inner for what in ("node_joins", "node_stays"))
        if joins >= LEAST_JOINS:
            self._since[None] = plan, now
            spent = 1e3 * sum(grown["node_time"][one.name] for one in inner)
            update = min(self._mean(), spent / events / 2) if events else 0.0
            for one in inner:
                self._above |= {tag.tag: min(update, self._above.get(tag.tag, update)) for tag in one.node.tags}
            left = (spent - events * update) / joins
            self._join = left if self._join is None else min(left, self._join)

    def _mean(self) -> float:
        return sum(self._update.values()) / len(self._update) if self._update else float(Costs().update)  # type: ignore[arg-type]

    @property
    def seconds(self) -> float:
        """Between the first and the last snapshot that count."""
        return self._looks[-1][0] - self._looks[0][0] if self._looks else 0.0

    @property
    def rates(self) -> dict[ImplementationTag, float]:
        """Events per second of each implementation tag; 0 of all before there are two snapshots."""
        if self.seconds <= 0:
            return dict.fromkeys(self.tags, 0.0)
        grown = (self._looks[-1][1] - self._looks[0][1]) / self.seconds
        return dict(zip(self.tags, grown.tolist(), strict=True))

    @property
    def costs(self) -> Costs:
        """The measured costs of functions, turns included; the model's defaults where nothing was measured."""
        names = dict.fromkeys(tag.tag for tag in self.tags)
        join = Costs().join if self._join is None else self._join
        known = self._above | self._update
        return Costs({name: known.get(name, self._mean()) for name in names}, join, join, turn=0.0)


__all__ = ["Weighing"]
