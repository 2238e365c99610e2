"""Policies that decide when an operator is reconfigured; attach one with `run.control(controller)`.

    Threshold            keeps the load of the threads between bounds        STRETCH, section 8.4
    ProactiveJoin        by the predicted load of pending and coming tuples  STRETCH, section 8.5
    ProactiveOperations  by the measured cost of operations, for transactions
    LoadBalancer         changes only the key mapping, when loads are uneven
    Schedule             asks for given configurations at given times
    AdaptiveScheme       changes the scheme of transactions, by trying schemes
    AdaptivePlan         changes the synchronization plan, by measured rates and costs

A controller of your own is a function, or an object with `decide`, that takes
an `Observation` and returns a `Request` or None::

    from headrace.controllers import Request

    def by_latency(observation):
        if observation.latency_p99_ms > 20 and observation.threads < observation.max_threads:
            return Request(threads=observation.threads + 1, reason="the slowest results are too slow")

Its requests are kept within bounds. An exception detaches it: the run goes
on, and `run.decisions` says why. `Damping` keeps it from flapping.
"""

from headrace.control.control_loop import ControlLoop
from headrace.control.controllers.load_balancer import LoadBalancer
from headrace.control.controllers.operations import ProactiveOperations
from headrace.control.controllers.proactive import ProactiveJoin
from headrace.control.controllers.schedule import Schedule
from headrace.control.controllers.threshold import Threshold
from headrace.control.cost_model import CostModel, Prediction
from headrace.control.damping import Damping
from headrace.control.decisions import Decision, DecisionLog
from headrace.control.observation import Observation
from headrace.control.quality import Quality
from headrace.control.requests import Controller, Request
from headrace.names import missing_from_module
from headrace.synchronization.adaptive import AdaptivePlan
from headrace.transactions.adaptive import AdaptiveScheme

__all__ = [
    "AdaptivePlan",
    "AdaptiveScheme",
    "ControlLoop",
    "Controller",
    "CostModel",
    "Damping",
    "Decision",
    "DecisionLog",
    "LoadBalancer",
    "Observation",
    "Prediction",
    "ProactiveJoin",
    "ProactiveOperations",
    "Quality",
    "Request",
    "Schedule",
    "Threshold",
]


def __getattr__(name: str) -> object:
    raise missing_from_module(__name__, name, __all__)
