"""The contestants of headrace, and the plain loop."""

from __future__ import annotations

import importlib.metadata

import headrace as hr
from headrace_bench.digest import Folded
from headrace_bench.peers.contest import Answer, Contestant, Latency
from headrace_bench.peers.workloads import Work
from headrace_bench.resident import Resident
from headrace_bench.taken import Watch


class Loop(Contestant):
    """The least code that computes the result: one compiled loop over arrays, on one thread, without any streaming."""

    def __init__(self):
        super().__init__(f"plain loop (numba {importlib.metadata.version('numba')})", 1, "loop", "arrays, encoded")

    def load(self, work: Work) -> None:
        self._work = work

    def run(self) -> Answer:
        watch = Watch()
        seconds, digest, rows = self._work.loop()
        return Answer(seconds, digest, rows, watch.taken().cpu_s)


class Ours(Contestant):
    """What a user calls: `hr.stream` of the Arrow table, started with a sink that folds results as they arrive.

    The clock runs from the call to the end of the run, so it includes starting the run and reading, checking and encoding the
    table.

    Parameters
    ----------
    threads : int
    mode : {"vsn", "sn"}
    index : bool
        Whether a join may use an index; without one it compares all pairs.
    """

    def __init__(self, threads: int, mode: str = "vsn", index: bool = True):
        super().__init__(_name(mode, index), threads, "ours", "the Arrow table")
        self.mode, self._options = mode, {"mode": mode}
        self._of_query = {} if index else {"index": False}

    def load(self, work: Work) -> None:
        self._work = work

    def run(self) -> Answer:
        return self._run()[0]

    def latency(self, per_second: int) -> tuple[Answer, Latency]:
        answer, operator = self._run(rate=per_second)
        return answer, Latency(operator.latency_ms["p50"], operator.latency_ms["p99"])

    def _run(self, **options):
        work = self._work
        folded = Folded(work.columns, work.is_ordered)
        watch = Watch()
        stream = work.query(*(hr.stream(table, event_time="ts") for table in work.tables), **self._of_query)
        with stream.start(threads=self.threads, **self._options, sink=folded.write, **options) as run:
            run.wait()
        taken = watch.taken()
        (operator,) = run.metrics().operators.values()
        return Answer(taken.seconds, folded.digest, folded.rows, taken.cpu_s), operator


class Planned(Contestant):
    """Ours for programs, with as many leaves and streams as threads; the clock runs as for `Ours`."""

    def __init__(self, threads: int):
        super().__init__(f"headrace {hr.__version__} plan", threads, "ours", "the Arrow table")

    def load(self, work: Work) -> None:
        self._work = work

    def run(self) -> Answer:
        work, threads = self._work, self.threads
        folded = Folded(work.columns, work.is_ordered)
        watch = Watch()
        query = work.query(*(hr.stream(table, event_time="ts") for table in work.tables), streams=threads)
        with query.start(threads=threads, max_threads=threads, leaves=threads, sink=folded.write) as run:
            run.wait()
        taken = watch.taken()
        return Answer(taken.seconds, folded.digest, folded.rows, taken.cpu_s)


class Ordered(Ours):
    """As `Ours`, for an ordered pipeline, whose workers share all stages."""

    def __init__(self, threads: int):
        super().__init__(threads)
        self.name, self._options = f"headrace {hr.__version__} ordered pipeline", {}


class Transacted(Ours):
    """As `Ours`, for transactions under one scheme."""

    def __init__(self, threads: int, scheme: str):
        super().__init__(threads)
        self.name, self._options = f"headrace {hr.__version__} {scheme}", {"scheme": scheme}


class Engine(Contestant):
    """The engine alone (gate, instances and collector), on rows that were encoded and stored beforehand.

    No user has such rows. The difference from `Ours` is the cost of ingress.
    """

    def __init__(self, threads: int, mode: str = "vsn"):
        super().__init__(f"{_name(mode)}, engine alone", threads, "engine", "columns, encoded and stored")
        self.mode = mode
        self._first: Resident | None = None

    def load(self, work: Work) -> None:
        self._work = work
        self._stream = work.query(*(hr.stream(table, event_time="ts") for table in work.tables))
        self._first = self._resident(self._folded())
        self._first.close()

    def _folded(self) -> Folded:
        return Folded(self._work.columns, self._work.is_ordered)

    def _resident(self, folded: Folded) -> Resident:
        return Resident(
            self._stream, self._work.tables, self.threads, like=self._first, collect=folded, mode=self.mode
        )

    def run(self) -> Answer:
        folded = self._folded()
        run = self._resident(folded)
        watch = Watch()
        seconds = run.run()
        return Answer(seconds, folded.digest, folded.rows, watch.taken().cpu_s)

    def end(self) -> None:
        self._first = None


def _name(mode: str, index: bool = True) -> str:
    return f"headrace {hr.__version__} {mode.upper()}{'' if index else ' all pairs'}"
