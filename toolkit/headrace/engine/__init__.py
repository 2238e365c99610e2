"""Compiles a query's operators, starts their threads, and gives the `Run` a user holds.

Threads of a run: per external source one that reads and encodes and one that
feeds the gate (`sources`); per operator `max_threads` workers, parked unless
active, one collector, and one that follows reconfigurations once there is one.
"""

from headrace.engine.handle import QueryRun, start
from headrace.engine.operator import Operator, compile_now
from headrace.engine.options import Options, gate_modules
from headrace.engine.run import AbandonedRunWarning

__all__ = ["AbandonedRunWarning", "Operator", "Options", "QueryRun", "compile_now", "gate_modules", "start"]
