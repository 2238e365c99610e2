"""Spark Structured Streaming over a folder of Parquet files, in a process of its own."""

from __future__ import annotations

import importlib.metadata
import sys

import pyarrow.parquet as pq

from headrace.errors import NotSupportedError
from headrace.spark.java import find_java
from headrace_bench.peers.contest import Answer, Contestant, Latency, NotRun
from headrace_bench.peers.process import PeerProcess
from headrace_bench.peers.workloads import PARTS, Work

WORKLOADS = ("aggregate", "word count", "pair count", "band join")


def require_java() -> None:
    """Raise `NotRun` where Spark cannot start."""
    try:
        find_java()
    except NotSupportedError as error:
        raise NotRun(f"needs Java: {error}") from error


def start_process(threads: int, partitions: int) -> PeerProcess:
    """Start a session with so many cores and partitions of state."""
    module = "headrace_bench.peers.spark_script"
    return PeerProcess([sys.executable, "-m", module, str(threads), str(partitions)])


class SparkBatch(Contestant):
    """One SQL query over all rows, for what a streaming query cannot do: put rows in order."""

    is_slow = True

    def __init__(self, threads: int):
        version = importlib.metadata.version("pyspark")
        super().__init__(f"Spark {version} SQL (batch)", threads, "batch", "Parquet files, reading included")
        self._process: PeerProcess | None = None

    def install(self, work: Work) -> None:
        if work.name != "sessions":
            raise NotRun("Structured Streaming runs it")
        require_java()

    def start(self) -> None:
        self._process = start_process(self.threads, self.threads)

    def load(self, work: Work) -> None:
        self._work = work
        self._process.ask("load", *work.parquet)

    def run(self) -> Answer:
        result = self._work.folder / f"spark-batch-{self.threads}.parquet"
        seconds, cpu_s = self._process.ask("query", self._work.name, result)
        found = pq.read_table(result)
        return Answer(float(seconds), self._work.digest_of(found), found.num_rows, float(cpu_s))

    def end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


class Spark(Contestant):
    """Micro-batches of a quarter of the input each; state on the heap, as many partitions as cores."""

    is_slow = True

    def __init__(self, threads: int):
        version = importlib.metadata.version("pyspark")
        given = f"Parquet files, {PARTS} micro-batches, reading included"
        super().__init__(f"Spark {version} Structured Streaming", threads, "streaming", given)
        self._process: PeerProcess | None = None

    def install(self, work: Work) -> None:
        if work.name not in WORKLOADS:
            raise NotRun("a streaming query puts no rows in order")
        require_java()

    def start(self) -> None:
        self._process = start_process(self.threads, self.threads)

    def load(self, work: Work) -> None:
        self._work = work
        self._process.ask("load", *work.parquet)

    def run(self) -> Answer:
        result = self._work.folder / f"spark-{self.threads}.parquet"
        seconds, cpu_s = self._process.ask(
            "run", self._work.name.replace(" ", "_"), result, *([self._work.size] if self._work.size else [])
        )
        found = pq.read_table(result)
        return Answer(float(seconds), self._work.digest_of(found), found.num_rows, float(cpu_s))

    def latency(self, per_second: int) -> tuple[Answer, Latency]:
        raise NotRun("its results come with whole micro-batches, so the latency is the batch one chooses")

    def end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
