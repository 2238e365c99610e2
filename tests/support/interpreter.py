"""Tests that run with the compiler switched off, in one further process for all of them.

A planted mistake of logic needs no machine code: it is wrong in plain Python as well, and compiling a module
for each costs some seconds. A test marked ``interpreted`` runs in a process of this kind; its outcome is
passed on. What needs threads that run at once (a race) stays compiled.

The process is this file run as a program: it is told one test a line, and answers with one line of JSON.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import select
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
SECONDS = 600
"""A hang limit."""


class Interpreter:
    """The process; it starts at the first test and ends with the session."""

    def __init__(self):
        self._process: subprocess.Popen | None = None

    def run(self, test: str) -> tuple[bool, str]:
        """Run one test, named by its node id. Whether it passed, and what pytest said."""
        if self._process is None:
            environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
            environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                env=environment,
                cwd=TESTS.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(test + "\n")
        process.stdin.flush()
        line = process.stdout.readline() if select.select([process.stdout], [], [], SECONDS)[0] else ""
        if not line:
            self.close()
            return False, "the process without the compiler ended, or gave no answer in time"
        return tuple(json.loads(line))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _serve() -> None:
    import pytest

    without = [word for plugin in ("cacheprovider", "xdist", "nbmake") for word in ("-p", f"no:{plugin}")]
    answers, sys.stdout = sys.stdout, sys.stderr
    for test in sys.stdin:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = pytest.main([test.rstrip("\n"), "-q", "-x", "-m", "", *without])  # whoever asks has chosen
        gc.collect()
        gc.freeze()  # pytest collects all garbage several times a test: what stays is not looked through again
        print(json.dumps([status == 0, said.getvalue()]), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
