"""Polars: one lazy query over a frame in memory, in its own environment; an upper bound for streaming systems."""

from __future__ import annotations

from pathlib import Path

from headrace_bench.peers.contest import Answer, NotRun
from headrace_bench.peers.environment import environment
from headrace_bench.peers.process import InProcess, PeerProcess
from headrace_bench.peers.workloads import Work

VERSION = "2.1.0"
SCRIPT = Path(__file__).with_name("polars_script.py")
WORKLOADS = ("aggregate", "word count", "pair count", "forward", "band join")


class Polars(InProcess):
    """Polars as a batch system: the whole input is present before it begins. Each number of threads has its own process."""

    def __init__(self, threads: int, may_install: bool = True):
        super().__init__(f"Polars {VERSION} (batch)", threads, "batch", "a data frame of the same rows, in memory")
        self._may_install = may_install

    def install(self, work: Work) -> None:
        if work.name not in WORKLOADS:
            raise NotRun("no query is written for it")
        packages = [f"polars=={VERSION}", f"polars-runtime-32=={VERSION}"]
        self._python = environment("polars", packages, self._may_install)

    def start(self) -> None:
        self._process = PeerProcess(
            [str(self._python), str(SCRIPT)], {"POLARS_MAX_THREADS": str(self.threads)}
        )

    def run(self) -> Answer:
        return self._run_once(self._work.folder / f"polars-{self.threads}.parquet")
