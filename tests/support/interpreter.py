"""Tests that run with the compiler switched off, in one further process for all of them.

A planted mistake of logic needs no machine code: it is wrong in plain Python as well, and compiling a module
for each mistake costs some seconds. A test marked ``interpreted`` runs in such a process; its outcome is
passed on. A test that needs threads that run in parallel (a race) stays compiled.

The process is this file run as a program: it reads one test a line, and answers each with one line of JSON. Its
standard error is kept, to say why it ended. A process that does not answer is aborted, so that it reports where its
threads are.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

TESTS = Path(__file__).resolve().parent.parent
SECONDS = 600
"""Limit after which a test counts as hung."""


class Interpreter:
    """The process: it starts with the first test and ends with the session."""

    def __init__(self, seconds: float = SECONDS):
        self._process: subprocess.Popen | None = None
        self._errors: IO[str] | None = None
        self.seconds = seconds

    def run(self, test: str) -> tuple[bool, str]:
        """Run one test, named by its node id. Whether it passed, and what pytest said."""
        if self._process is None:
            environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
            environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
            self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - close() closes it
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                env=environment,
                cwd=TESTS.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(test + "\n")
        process.stdin.flush()
        has_answered = bool(select.select([process.stdout], [], [], self.seconds)[0])
        line = process.stdout.readline() if has_answered else ""
        return tuple(json.loads(line)) if line else (False, self._end_of(process, has_answered))

    def _end_of(self, process: subprocess.Popen, has_ended: bool) -> str:
        """Why there is no answer, in words; the next test gets a new process."""
        if not has_ended:
            process.send_signal(signal.SIGABRT)
        try:
            status = process.wait(180)
        except subprocess.TimeoutExpired:
            status = None
        why = f"ended with status {status}" if has_ended else f"gave no answer within {self.seconds:g} s"
        assert self._errors is not None
        self._errors.seek(0)
        said = self._errors.read()[-20_000:]
        self.close()
        return f"the process without the compiler {why}; the end of what it wrote:\n{said}"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def _serve() -> None:
    import pytest

    without = [word for plugin in ("cacheprovider", "xdist", "nbmake") for word in ("-p", f"no:{plugin}")]
    answers, sys.stdout = sys.stdout, sys.stderr
    for test in sys.stdin:
        faulthandler.enable()
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = pytest.main([test.rstrip("\n"), "-q", "-x", "-m", "", *without])  # the caller has selected the test
        gc.collect()
        gc.freeze()  # pytest collects garbage several times a test: objects that stay are not traversed again
        print(json.dumps([status == 0, said.getvalue()]), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
