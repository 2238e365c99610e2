"""A better plan when rates change: the optimizer's for measured rates and costs, if it gains enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.arguments import check_seconds, is_number, is_whole_number
from headrace.control.observation import Observation
from headrace.control.policy import Policy
from headrace.control.requests import Request
from headrace.errors import NotSupportedError, ParameterError
from headrace.names import instead
from headrace.synchronization.drawing import rate_text
from headrace.synchronization.optimizing import make_plan, streams_in
from headrace.synchronization.plan_json import MOST_LEAVES
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.plans import Plan, implementation_tags
from headrace.synchronization.prediction import Model
from headrace.synchronization.tags import ImplementationTag
from headrace.synchronization.weighing import Weighing

WAYS = ("rates", "latency")


@dataclass
class AdaptivePlan(Policy):
    """Move a program to another plan if that is predicted to take more events, at the rates and costs measured lately.

    At each observation the plan in force and the optimizer's plan are compared by one model (`Program.plan`), with the
    events per second of each implementation tag and the nanoseconds that updates, joins and forks took. The other plan is
    requested if it has been better by `gain` at every observation for `after_s`; after a change there is no request for
    `cooldown_s`.

    Parameters
    ----------
    by : {"rates", "latency"}
        Aim at more events per second, or at less delay at the present rates.
    leaves : int, optional
        Most leaves of a plan; by default `max_threads` of the run.
    gain : float
        Fraction by which the other plan must be better.
    span_s : float
        Seconds over which rates are measured.
    after_s : float
        Seconds for which the other plan must have been better.
    cooldown_s : float
        Rest after a change, whatever asked for it.

    Raises
    ------
    NotSupportedError
        By `start`, `run.control` and `decide`: the operator has no plan.

    Examples
    --------
    >>> AdaptivePlan(leaves=4, gain=0.2).leaves
    4
    """

    needs: ClassVar[str] = "plan"

    by: str = "rates"
    leaves: int | None = None
    gain: float = 0.1
    span_s: float = 1.0
    after_s: float = 1.0
    cooldown_s: float = 2.0
    _weighing: Weighing | None = field(default=None, init=False, repr=False)
    _plan: Plan | None = field(default=None, init=False, repr=False)
    _better_since_s: float = field(default=math.nan, init=False, repr=False)
    _rest_until_s: float = field(default=-math.inf, init=False, repr=False)

    def __post_init__(self):
        if self.by not in WAYS:
            raise ParameterError(f"AdaptivePlan(by={self.by!r}): {instead(self.by, WAYS, 'the ways')}")
        if self.leaves is not None and not (is_whole_number(self.leaves) and 1 <= self.leaves <= MOST_LEAVES):
            raise ParameterError(f"AdaptivePlan(leaves={self.leaves!r}): give a whole number from 1 to {MOST_LEAVES}")
        if not is_number(self.gain) or not 0 < self.gain < math.inf:
            raise ParameterError(f"AdaptivePlan(gain={self.gain!r}): give a fraction above 0, as in 0.1 for a tenth better")
        check_seconds("span_s", self.span_s, 0.01)
        check_seconds("after_s", self.after_s)
        check_seconds("cooldown_s", self.cooldown_s)

    def decide(self, observation: Observation) -> Request | None:
        """Request the optimizer's plan once it has been better for long enough; else None.

        Parameters
        ----------
        observation : Observation
            Of the interval that has just ended.

        Raises
        ------
        NotSupportedError
            The operator has no plan.
        """
        plan = observation.configuration.get("plan")
        if not isinstance(plan, Plan) or plan.program is None:
            raise NotSupportedError(
                "AdaptivePlan chooses the plan of a program, and this operator has none; attach it to the operator of a program"
            )
        at_s = observation.at_s
        streams = streams_in(plan)
        if self._weighing is None:
            self._weighing = Weighing(implementation_tags(plan.program, streams), self.span_s)
        self._weighing.add(at_s, plan, observation.counted)
        if observation.is_changing or (self._plan is not None and plan != self._plan):
            self._rest_until_s = at_s + self.cooldown_s
        self._plan = plan
        if at_s < self._rest_until_s or self._weighing.seconds < self.span_s * (1 - 1e-9):
            self._better_since_s = math.nan
            return None
        request = self._better(plan, plan.program, streams, observation)
        if request is None:
            self._better_since_s = math.nan
        elif math.isnan(self._better_since_s):
            self._better_since_s = at_s
        if request is None or at_s - self._better_since_s < self.after_s - 1e-9:
            return None
        # The answer comes a moment later: until then, nothing more is requested.
        self._better_since_s, self._rest_until_s = math.nan, at_s + self.cooldown_s
        return request

    def _better(self, plan: Plan, program, streams: dict[str, int], observation: Observation) -> Request | None:
        """A request for the optimizer's plan, if that is better by `gain`."""
        assert self._weighing is not None
        rates, costs, threads = self._weighing.rates, self._weighing.costs, observation.threads
        if not any(rates.values()):
            return None
        leaves = observation.max_threads if self.leaves is None else self.leaves
        other = make_plan(program, streams, min(leaves, MOST_LEAVES), rates, self.by, costs, threads)
        if other == plan:
            return None
        model = Model(rates, costs, threads)
        now, then = (self._worth(model, one) for one in (plan, other))
        if not then > now * (1 + self.gain):
            return None
        text = self._worth_text
        above = sum(rates[tag] for one in plan.nodes if one.leaf < 0 for tag in one.node.tags)
        return Request(
            controls={"plan": other},
            reason=(
                f"at {_rates_text(rates)}, {plan.word} {text(now)} and {other.word} {text(then)} are predicted;"
                f" {rate_text(above)} make leaves wait now"
            ),
            metric="predicted_events_per_s" if self.by == "rates" else "predicted_delays_per_s",
            value=now,
            threshold=then / (1 + self.gain),
            predicted={"joins_per_s": sum(_joins(root, rates)[0] for root in other.roots)},
        )

    def _worth(self, model: Model, plan: Plan) -> float:
        """The figure to be maximized: events per second; or, by latency, one over the delay in seconds."""
        if self.by == "rates":
            return model.events_per_second(plan.roots) or math.inf
        delay_ns = model.delay_ns(plan.roots)
        return 1e9 / delay_ns if delay_ns else math.inf

    def _worth_text(self, worth: float) -> str:
        if self.by == "rates":
            return rate_text(worth)
        return f"{1e6 / worth:.3g} us of delay" if worth else "unbounded delay"


def _rates_text(rates: Mapping[ImplementationTag, float]) -> str:
    """Events per second of each tag, all its parts and streams together."""
    by_name: dict[str, float] = {}
    for tag, rate in rates.items():
        by_name[tag.tag] = by_name.get(tag.tag, 0.0) + rate
    return ", ".join(f"{name} {rate_text(rate)}" for name, rate in by_name.items())


def _joins(node: PlanNode, rates: Mapping[ImplementationTag, float]) -> tuple[float, int]:
    """Joins per second of a node and the nodes below, if each event makes all of them join; and how many of these join."""
    if not node.children:
        return 0.0, 0
    below = [_joins(child, rates) for child in node.children]
    inner = 1 + sum(count for _, count in below)
    return sum(joins for joins, _ in below) + inner * sum(rates[tag] for tag in node.tags), inner


__all__ = ["AdaptivePlan"]
