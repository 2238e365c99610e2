"""A peer in its own process, which takes requests as lines of text.

Each request is one line of words; the answer is the next line that begins with
`@`: ``@ok SECONDS DIGEST ROWS`` (or other figures), or ``@error WHAT``. All
other output is the peer's own and is kept for error messages only.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from headrace_bench.peers.contest import Answer, Contestant, NotRun
from headrace_bench.peers.workloads import Work

START_S = 120.0
ANSWER_S = 300.0
END_S = 30.0


class PeerProcess:
    """Start a peer and wait until it says ``@ok``.

    Parameters
    ----------
    command : sequence of str
    environment : mapping
        Variables added to this process's environment.

    Attributes
    ----------
    start_s : float
        From the process's start to its first answer, which includes the start of an interpreter, virtual machine, session
        or cluster.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None):
        begin = time.perf_counter()
        self._said: collections.deque[str] = collections.deque(maxlen=200)
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, **(environment or {})},
                start_new_session=True,  # Ctrl-C reaches this process only; the peer ends when its input does
            )
        except OSError as error:
            raise NotRun(f"{command[0]} cannot be started ({error.strerror})") from error
        threading.Thread(target=self._listen, name="bench-peer", daemon=True).start()
        try:
            self._answer(START_S)
        except BaseException:
            self.close()
            raise
        self.start_s = time.perf_counter() - begin

    def _listen(self) -> None:
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in self._process.stdout:
                if line.startswith("@"):
                    self._answers.put(line[1:].strip())
                elif line.strip():
                    self._said.append(line.strip())
        self._answers.put(None)

    def ask(self, *words: object, timeout_s: float = ANSWER_S) -> list[str]:
        """Send a request, wait for the answer, and return its words.

        Raises
        ------
        RuntimeError
            If the peer reports an error, has ended, or does not answer in time (it is then killed).
        """
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise RuntimeError(f"it has ended: {self._last()}") from error
        return self._answer(timeout_s)

    def _answer(self, timeout_s: float) -> list[str]:
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self._process.kill()
            self.close()
            raise RuntimeError(f"no answer within {timeout_s:.0f} s: {self._last()}") from None
        if answer is None:
            raise RuntimeError(f"it ended with status {self._process.wait()}: {self._last()}")
        state, _, rest = answer.partition(" ")
        if state != "ok":
            raise RuntimeError(rest or self._last())
        return rest.split()

    def _last(self) -> str:
        """The most informative line of the peer's own output."""
        telling = [line for line in self._said if "Exception" in line or "Error" in line]
        return (telling or list(self._said) or ["it said nothing"])[-1]

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class InProcess(Contestant):
    """A contestant whose peer is a `PeerProcess`; `start` starts it."""

    _process: PeerProcess | None = None
    _work: Work

    def _asked(self, *words: object) -> list[str]:
        assert self._process is not None
        return self._process.ask(*words)

    def load(self, work: Work) -> None:
        self._work = work
        self._asked("load", *work.parquet)

    def _written(self, result: Path, *words: object) -> Answer:
        """Send a command that writes a result into a file; the peer answers with seconds of wall and of processor time."""
        seconds, cpu_s = self._asked(*words)
        found = pq.read_table(result)
        return Answer(float(seconds), self._work.digest_of(found), found.num_rows, float(cpu_s))

    def _run_once(self, result: Path) -> Answer:
        """Run what was loaded; its rows go into `result`."""
        size = [self._work.size] if self._work.size else []
        return self._written(result, "run", self._work.name.replace(" ", "_"), result, *size)

    def end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
