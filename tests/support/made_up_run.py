"""A run of an engine that does not exist: what the dashboard may know of a run, and nothing else.

It judges events in batches, in three stages, with a thread of its own. Its measures, its controls and their names
are its own: no other code knows them.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from headrace.changes import Capabilities, Change, Control
from headrace.errors import NotSupportedError
from headrace.metrics.latency import LatencyHistogram
from headrace.metrics.measures import NEEDED, Measure
from headrace.metrics.snapshot import Metrics, OperatorMetrics

STAGES = 3
WORKERS = 2
TICK_S = 0.01

WAIT = Measure("wait", "ns", "From an event's arrival to the end of its batch.", "histogram", label="wait for the batch")
QUEUED = Measure("queued", "events", "Events that wait at each stage.", by="stage", label="queue")
REJECTED = Measure("rejected", "events", "Events that were rejected.", "counter", rate="rejected_per_s")
FILL = Measure("fill", "fraction", "How full the newest batch was.", label="fill")
REASON = Measure("verdict", "words", "Why the newest event was rejected.", "text", label="newest verdict")
SECRET = Measure("secret", "events", "Only in snapshots.", shown="snapshot")
SPENT = tuple(
    Measure(f"{part}_ns", "ns", f"Time spent on {word}.", "counter", by="worker", part_of="time", label=part)
    for part, word in (("judging", "judging"), ("locking", "waiting for locks"))
)
MEASURES = (*NEEDED, WAIT, QUEUED, REJECTED, FILL, REASON, SECRET, *SPENT)

CONTROLS = Capabilities(
    {
        "batch": Control("number", "events in a batch", 1, 4_096),
        "patience": Control("number", "seconds until a batch is closed", 0.5, 2.0),
        "scheme": Control("choice", "how conflicts are resolved", choices=("chains", "locks")),
        "plan": Control("tree", "who judges what"),
    },
    {"threads": "its workers are those of a pool", "mapping": "its state has <no> keys"},
)


class MadeUpRun:
    """A started run.

    Parameters
    ----------
    measures : tuple of Measure
        Those of `MEASURES` that its operators have.
    operators : tuple of str
    """

    def __init__(self, measures: tuple[Measure, ...] = MEASURES, operators: tuple[str, ...] = ("judge",)):
        self.operators, self.capabilities = operators, CONTROLS
        self.state, self.changes = "running", []
        self.__measures = measures
        self.__judges = {name: Judge(name, self) for name in operators}
        self.__ticks, self.__start_ns = 0, time.monotonic_ns()
        self.__histogram, self.__lock = LatencyHistogram(), threading.Lock()
        self.__thread = threading.Thread(target=self.__live, daemon=True)
        self.__thread.start()

    def __live(self) -> None:
        while self.state == "running":
            with self.__lock:
                self.__ticks += 1
                self.__histogram.add(np.array([2_000_000, 8_000_000]))
            time.sleep(TICK_S)

    def metrics(self) -> Metrics:
        """A snapshot; every value grows with the ticks."""
        with self.__lock:
            ticks, counts = self.__ticks, self.__histogram.counts()
        values: dict[str, Any] = {
            "added": 12 * ticks, "processed": 10 * ticks, "results": 5 * ticks, "wait": counts,
            "queued": [10 * (stage + 1) for stage in range(STAGES)], "rejected": ticks, "fill": 0.75,
            "verdict": "too <late>", "secret": 42,
            "judging_ns": [3 * ticks * 1_000_000 for _ in range(WORKERS)],
            "locking_ns": [ticks * 1_000_000 for _ in range(WORKERS)],
        }  # fmt: skip
        now = time.monotonic_ns()
        seconds = (now - self.__start_ns) / 1e9
        values = {measure.name: values[measure.name] for measure in self.__measures}
        operators = {
            name: OperatorMetrics(name, WORKERS, WORKERS, [0, 1], seconds, None, self.__measures, values)
            for name in self.operators
        }
        return Metrics(self.state, seconds, 12 * ticks, 5 * ticks, operators=operators, at_ns=now)

    def __getitem__(self, name: str) -> Judge:
        return self.__judges[name]

    def reconfigure(self, reason: str = "", **controls: Any) -> Change:
        """Reconfigure its first operator."""
        return self[self.operators[0]].reconfigure(reason, **controls)

    def wait(self, timeout: float | None = None) -> bool:
        self.__thread.join(timeout)
        return not self.__thread.is_alive()

    def stop(self) -> None:
        self.state = "stopped"
        self.__thread.join()

    def __enter__(self) -> MadeUpRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Judge:
    """One of its operators."""

    controls = CONTROLS

    def __init__(self, name: str, run: MadeUpRun):
        self.__name, self.__run = name, run
        self.configuration: dict[str, Any] = {"batch": 64, "patience": 1.0, "scheme": "chains", "plan": ("root",)}

    def reconfigure(self, reason: str = "", **controls: Any) -> Change:
        for name, value in controls.items():
            if name not in CONTROLS:
                raise NotSupportedError(f"reconfigure({name}=...): {CONTROLS.absent.get(name, 'there is none')}")
            CONTROLS[name].check(name, value)
        change = Change(self.__name, dict(self.configuration), self.configuration | controls, reason=reason)
        self.configuration = dict(change.after)
        self.__run.changes.append(change)
        change.settle("done", time.monotonic_ns())
        return change


class Public:
    """Lets only public attributes through: code that reaches for a private one fails."""

    __slots__ = ("_Public__it",)

    def __init__(self, it: Any):
        object.__setattr__(self, "_Public__it", it)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and not name.endswith("__"):
            raise AssertionError(f"{name} is private")
        return getattr(self.__it, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise AssertionError(f"{name} is private")
        setattr(self.__it, name, value)

    def __getitem__(self, name: str) -> Public:
        return Public(self.__it[name])


