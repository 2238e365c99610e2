"""A second engine, as small as one can be: two stages served by one pool of workers, written against the public hook.

``hr.stream(frame, event_time="ts").through(TwoStages("x"))`` doubles a column (stage "double", any number of workers at
once) and gives its running sum (stage "total", one at a time, in order). A task is a batch of rows, whose size is the
engine's own control, "batch". No shared code knows of this engine.
"""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from headrace.changes import Capabilities, Control
from headrace.errors import FunctionError
from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.measures import ADDED, BUSY, PROCESSED, RESULTS, Measure
from headrace.metrics.snapshot import OperatorMetrics
from headrace.plan.nodes import StreamType
from headrace.runtime.feeding import Stopped
from headrace.runtime.immediate import Immediate
from headrace.runtime.inlets import Books
from headrace.runtime.sections import Section, Task

WORKERS, ROOM = 3, 4096
CAN = Capabilities(
    {"batch": Control("count", "rows of a task", 1, ROOM)},
    {"threads": f"the pool has {WORKERS} workers", "mapping": "no key has an owner"},
)
MEASURES = (
    *(ADDED, PROCESSED, RESULTS, BUSY),
    Measure("wait", "ns", "From the moment a row came until its task was taken.", "histogram"),
    Measure("backlog", "tuples", "Rows that wait, at each stage.", by="stage"),
)


class TwoStagesOptions:
    def __init__(self, run=None, batch: int = 100):
        self.batch = CAN["batch"].check("batch", batch)

    def check_operators(self, names):
        """Nothing to check: no option is given by operator."""


@dataclass(frozen=True)
class TwoStages:
    """The specification: which column. A value equal to `poison` fails, as a user function would."""

    column: str
    poison: int | None = None
    name = "two stages"
    has_sides = False
    options = TwoStagesOptions

    def result_type(self, inputs):
        (given,) = inputs
        fields = [given.schema.field(given.event_time), pa.field("total", pa.int64())]
        return StreamType(pa.schema(fields), given.event_time, given.unit)

    def section(self, node, branches, options):
        return TwoStagesSection(self, node, branches, options.batch)


class StagesInlet:
    """Rows of one source, in order of arrival."""

    def __init__(self, section, branch):
        self.branch, self.books, self._section = branch, Books(), section
        self.columns_used, self.codable, self.retention, self.mark = [branch.event_time, section.spec.column], (), 0, -(2**62)

    def encode(self, batch, ts=None):
        ts, x = (batch.column(name).cast(pa.int64()).to_numpy() for name in self.columns_used)
        yield np.rec.fromarrays([ts, x], names="ts,x")

    def hold(self, piece):
        self._held = piece

    def offer(self, ts, start, stop, patient):
        return self._section.take(ts[start:stop], self._held.x[start:stop], patient)

    def promise(self, ts, patient):
        self.mark = max(self.mark, ts)
        return True

    def close(self, patient):
        self._section.end("_is_open", False)
        return True


class TwoStagesSection(Section):
    operators, active = ("double", "total"), WORKERS

    def __init__(self, spec, node, branches, batch):
        self.spec, self._schema = spec, node.schema
        self.inlets = [StagesInlet(self, branch) for branch in branches]
        self._steerable = {name: Immediate(CAN, {"threads": WORKERS, "batch": batch}) for name in self.operators}
        self._changed = threading.Condition()
        self._first, self._second = [], {}  # tasks (number, ts, x, arrival time); those of the second stage by number
        self._made = self._next = self._sum = self.results = 0
        self._is_open, self._over, self._total_is_taken = True, False, False
        self._given, self._done = dict.fromkeys(self.operators, 0), dict.fromkeys(self.operators, 0)
        self._busy = {name: [0] * WORKERS for name in self.operators}
        self._wait = {name: LatencyHistogram() for name in self.operators}

    def take(self, ts, x, patient):
        """Make a task of the first of these rows. Returns how many there was room for."""
        with self._changed:
            room = ROOM - (self._given["double"] - self._done["total"])
            count = min(len(ts), room, self._steerable["double"].current["batch"])
            if count <= 0:
                self._changed.wait(2e-3 if patient else 0)
                return 0
            self._first.append((self._made, ts[:count], x[:count], time.monotonic_ns()))
            self._made, self._given["double"] = self._made + 1, self._given["double"] + count
            self._changed.notify_all()
            return count

    def end(self, what, value):
        with self._changed:
            setattr(self, what, value)
            self._changed.notify_all()

    def _await_task(self):
        """Take the next task, the last stage's first. None once there will be no more."""
        with self._changed:
            while not self._over:
                if not self._total_is_taken and self._next in self._second:
                    self._total_is_taken = True
                    return "total", self._second.pop(self._next)
                if self._first:
                    return "double", self._first.pop(0)
                if not self._is_open and self._next == self._made:
                    return None
                self._changed.wait(0.02)
        return None

    def _work(self, me):
        while (found := self._await_task()) is not None:
            name, (number, ts, x, came) = found
            began = time.monotonic_ns()
            self._wait[name].add(np.array([began - came]))
            if name == "total":
                x = self._sum + np.cumsum(x)
                self._give(ts, x)
            elif self.spec.poison is not None and self.spec.poison in x:
                raise FunctionError("ValueError: poison", "double", __file__, 1, {"x": self.spec.poison})
            with self._changed:
                self._done[name] += len(ts)
                self._busy[name][me] += time.monotonic_ns() - began
                if name == "double":
                    self._second[number] = (number, ts, 2 * x, time.monotonic_ns())
                    self._given["total"] += len(ts)
                else:
                    self._sum, self._next, self._total_is_taken = int(x[-1]), self._next + 1, False
                self._changed.notify_all()
        with self._changed:
            is_end, self._over = not self._over, True
        if is_end:
            [consumer.close() for consumer in self._consumers]
            self._run.section_finished(self)

    def _give(self, ts, sums):
        columns = [pa.array(ts).cast(self._schema.field(0).type), pa.array(sums)]
        self.results += len(ts)
        with suppress(Stopped):
            for consumer in self._consumers:
                consumer.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    # -- what a run needs from a section

    def prepare(self, consumers, run, is_last):
        self._consumers, self._run = consumers, run

    def tasks(self):
        return [Task(f"stages-{me}", partial(self._work, me)) for me in range(WORKERS)]

    def steerable(self, operator):
        return self._steerable[operator]

    def metrics(self, operator, moment):
        given, done = self._given[operator], self._done[operator]
        values = {
            "added": given, "processed": done, "results": done, "busy_ns": list(self._busy[operator]),
            "wait": self._wait[operator].counts(), "backlog": [self._given[n] - self._done[n] for n in self.operators],
        }  # fmt: skip
        return OperatorMetrics(operator, WORKERS, WORKERS, list(range(WORKERS)), moment.seconds, None, MEASURES, values)

    def work_ns(self, operator):
        return sum(self._busy[operator])

    def extras(self):
        return {"sum": self._sum}

    def stop(self):
        self.end("_over", True)
