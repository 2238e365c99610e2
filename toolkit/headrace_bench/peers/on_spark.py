"""Spark Structured Streaming over a folder of Parquet files, in a process of its own."""

from __future__ import annotations

import importlib.metadata
import sys

from headrace.errors import NotSupportedError
from headrace.spark.java import find_java
from headrace_bench.peers.contest import Answer, Latency, NotRun
from headrace_bench.peers.process import InProcess, PeerProcess
from headrace_bench.peers.workloads import PARTS, Work

WORKLOADS = ("aggregate", "word count", "pair count", "band join")


def require_java() -> None:
    """Raise `NotRun` if Spark cannot start for lack of Java."""
    try:
        find_java()
    except NotSupportedError as error:
        raise NotRun(f"needs Java: {error}") from error


def start_process(threads: int, partitions: int) -> PeerProcess:
    """Start a session with `threads` cores and `partitions` partitions of state."""
    module = "headrace_bench.peers.spark_script"
    return PeerProcess([sys.executable, "-m", module, str(threads), str(partitions)])


class SparkBatch(InProcess):
    """One SQL query over all rows, for a result that needs an order: a streaming query cannot sort its rows."""

    is_slow = True

    def __init__(self, threads: int):
        version = importlib.metadata.version("pyspark")
        super().__init__(f"Spark {version} SQL (batch)", threads, "batch", "Parquet files, reading included")

    def install(self, work: Work) -> None:
        if work.name != "sessions":
            raise NotRun("Structured Streaming runs it")
        require_java()

    def start(self) -> None:
        self._process = start_process(self.threads, self.threads)

    def run(self) -> Answer:
        result = self._work.folder / f"spark-batch-{self.threads}.parquet"
        return self._written(result, "query", self._work.name, result)


class Spark(InProcess):
    """Streaming in micro-batches of a quarter of the input each; state on the heap, as many partitions as cores."""

    is_slow = True

    def __init__(self, threads: int):
        version = importlib.metadata.version("pyspark")
        given = f"Parquet files, {PARTS} micro-batches, reading included"
        super().__init__(f"Spark {version} Structured Streaming", threads, "streaming", given)

    def install(self, work: Work) -> None:
        if work.name not in WORKLOADS:
            raise NotRun("a streaming query does not order rows")
        require_java()

    def start(self) -> None:
        self._process = start_process(self.threads, self.threads)

    def run(self) -> Answer:
        return self._run_once(self._work.folder / f"spark-{self.threads}.parquet")

    def latency(self, per_second: int) -> tuple[Answer, Latency]:
        raise NotRun("results appear a micro-batch at a time, so the latency is the batch interval that one chooses")
