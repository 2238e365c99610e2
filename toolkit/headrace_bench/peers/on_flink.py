"""Flink: our Java jobs (`flink/*.java`) in a mini cluster, one virtual machine for each configuration.

The jobs are compiled against the jars of the PyPI wheel `apache-flink-libraries`,
in an environment of Flink's own. ``stock`` uses Flink's windows with incremental
aggregation and its heap state. ``expert`` is what an expert would write instead: an
operator with primitive arrays, which gives up checkpoints and rescaling, and is
chained to the source where there is one subtask. Both reuse objects, emit watermarks
only where a pane ends, and have a buffer timeout of 100 ms at full speed and 1 ms paced.
Both encode words by one dictionary for the whole virtual machine.
Flink does not merge in order: forwarding waits for watermarks, in one subtask. So does the output of sessions after their keyed
process function, whose single source keeps the rows of a visitor in order. A transfer of the ledger accesses keys that no
partitioning keeps together, so one subtask has all keys.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

from headrace_bench.peers.contest import Answer, Latency, NotRun
from headrace_bench.peers.environment import cache_folder, environment, find_javac
from headrace_bench.peers.process import InProcess, PeerProcess
from headrace_bench.peers.workloads import Work

VERSION = "2.3.0"
SOURCES = Path(__file__).parent / "flink"
WORKLOADS = {
    "aggregate": "aggregate",
    "word count": "text",
    "pair count": "pairs",
    "forward": "forward",
    "band join": "band",
    "event window": "window",
    "page-view join": "pageview",
    "sessions": "sessions",
    "ledger": "ledger",
    "deposits": "deposits",
}
HEAP = ("-Xms512m", "-Xmx2g", "-XX:+UseParallelGC")
OPENED = ("java.lang", "java.util", "java.time", "java.util.concurrent")
COMPILE_S = 300.0


class Flink(InProcess):
    """One version of the jobs at one parallelism.

    Parameters
    ----------
    threads : int
        Parallelism. With an exchange between source and window each subtask is two threads.
    version : {"stock", "expert"}
    may_install : bool
    """

    warm_ups = 2

    def __init__(self, threads: int, version: str, may_install: bool = True):
        super().__init__(f"Flink {VERSION} {version}", threads, "streaming", "arrays in the JVM")
        self.version = version
        self.is_slow = version == "stock"
        self._may_install = may_install

    def install(self, work: Work) -> None:
        if work.name not in WORKLOADS:
            raise NotRun("no job is written for it")
        if work.name == "sessions" and self.version == "expert":
            raise NotRun("no `expert` job is written for it")
        if work.name == "forward" and self.threads > 1:
            raise NotRun("ordering the input takes one subtask; with both sources that makes three threads")
        if self.threads > 1 and (work.name == "ledger" or (work.name == "deposits" and self.version == "expert")):
            raise NotRun("transactions that reach several keys are ordered by one subtask")
        if work.is_program and self.version == "expert" and self.threads > 1:
            raise NotRun("the sequential version is one subtask")
        self._command = installed(self._may_install)

    def start(self) -> None:
        self._process = PeerProcess(self._command)

    def load(self, work: Work) -> None:
        self._asked("load", WORKLOADS[work.name], work.folder, work.size)

    def run(self) -> Answer:
        return self._run(0)[0]

    def latency(self, per_second: int) -> tuple[Answer, Latency]:
        return self._run(per_second)

    def _run(self, per_second: int) -> tuple[Answer, Latency]:
        words = self._asked("run", self.version, self.threads, per_second)
        seconds, cpu_s, digest, rows, p50, p99 = words
        return Answer(float(seconds), int(digest), int(rows), float(cpu_s)), Latency(float(p50), float(p99))


def installed(may_install: bool) -> list[str]:
    """Ensure that everything is installed and compiled. Returns the command that starts the jobs' process.

    Raises
    ------
    NotRun
        If something needed is missing.
    """
    javac = find_javac()  # first: without it the download would be useless
    return command(javac, environment("flink", [f"apache-flink-libraries=={VERSION}"], may_install))


def start_process(may_install: bool, *arguments: str) -> PeerProcess:
    """Start a mini cluster; the arguments `adaptive` and `tuned` select another scheduler."""
    return PeerProcess([*installed(may_install), *arguments])


def version_of(javac: Path) -> str:
    """The compiler's version, as it prints it."""
    return subprocess.run([javac, "-version"], capture_output=True, text=True, check=True).stdout


def command(javac: Path, python: Path) -> list[str]:
    """Compile the jobs unless that was done before. Returns the command that starts them.

    Raises
    ------
    NotRun
        If the jobs do not compile here.
    """
    (libraries,) = python.parent.parent.glob("lib/python*/site-packages/pyflink/lib")
    sources = sorted(SOURCES.glob("*.java"))
    content = hashlib.sha256(
        version_of(javac).encode() + b"".join(each.read_bytes() for each in sources)
    ).hexdigest()[:16]
    classes = cache_folder() / f"flink-jobs-{VERSION}-{content}"
    if not classes.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder(make=True)) as folder:
            built = Path(folder) / "classes"
            done = subprocess.run(
                [javac, "-nowarn", "-d", built, "-cp", f"{libraries}/*", *sources],
                capture_output=True,
                text=True,
                timeout=COMPILE_S,
            )
            if done.returncode:
                wrong = re.search(r"^.*error: .*$", done.stderr, re.MULTILINE)
                raise NotRun(f"its jobs do not compile: {wrong[0] if wrong else done.stderr[-200:]}")
            try:
                os.replace(built, classes)
            except OSError:
                if not classes.exists():  # otherwise another run was faster
                    raise
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    return [str(javac.with_name("java")), *HEAP, *opened, "-cp", f"{classes}:{libraries}/*", "Peer"]
