"""Command lines that are killed at a named point around a checkpoint, each in a process of its own.

Each is forked from a process in which the applications are compiled already: so each is a real process that dies by
SIGKILL, and none waits for the compiler. `Killer` talks to that process; this file run as a script is that process.

The points are steps of `headrace.checkpoints` and of the command, patched here: nothing in them depends on it.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

POINTS = (
    "results are written",  # between two checkpoints
    "results are half written",
    "the cut is taken",
    "before results are on disk",
    "results are on disk",
    "the checkpoint is begun",
    "the checkpoint is half written",
    "before it is on disk",
    "it is on disk",
    "it has its name",
    "it is committed",
    "the next cut is taken",
    "the end",
)
"""Points at which a process can be killed, in the order of a run."""


def arm(point: str, number: int) -> None:
    """Have this process die at a point of its checkpoint with this number."""
    from headrace.checkpoints.folder import Folder
    from headrace.checkpoints.results_log import ResultsLog
    from headrace.egress.sinks import ParquetSink
    from headrace.runtime.checkpointing import Checkpointing

    seen = {"cuts": 0, "committed": 0}

    def die(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def around(owner: type, name: str, before: Any = None, after: Any = None) -> None:
        step = getattr(owner, name)

        def patched(*arguments: Any) -> Any:
            if before is not None:
                before(*arguments)
            found = step(*arguments)
            if after is not None:
                after(*arguments)
            return found

        setattr(owner, name, patched)

    def at_checkpoint(action: Any, which: int = number) -> Any:
        return lambda *arguments: action(*arguments) if seen["cuts"] == which else None

    def count_cut(*_: Any) -> None:
        seen["cuts"] += 1

    def count_commit(*_: Any) -> None:
        seen["committed"] += 1

    def since_the_last(action: Any) -> Any:
        return lambda *arguments: action(*arguments) if seen["committed"] >= number - 1 else None

    around(Checkpointing, "_contents", before=count_cut)
    around(Folder, "write", after=count_commit)

    def half_results(log: Any, data: Any) -> None:
        log._file.write(bytes(data)[: len(data) // 2])
        log._file.flush()
        die()

    def half_checkpoint(folder: Any, file: Any, contents: Any) -> None:
        from headrace.checkpoints.file_format import pieces

        data = b"".join(bytes(piece) for piece in pieces(contents))
        file.write(data[: len(data) // 2])
        file.flush()
        die()

    {
        "results are written": lambda: around(ResultsLog, "write", after=since_the_last(die)),
        "results are half written": lambda: around(ResultsLog, "_put", before=since_the_last(half_results)),
        "the cut is taken": lambda: around(Checkpointing, "_contents", after=at_checkpoint(die)),
        "before results are on disk": lambda: around(ResultsLog, "flush", before=at_checkpoint(die)),
        "results are on disk": lambda: around(ResultsLog, "flush", after=at_checkpoint(die)),
        "the checkpoint is begun": lambda: around(Folder, "_fill", before=at_checkpoint(die)),
        "the checkpoint is half written": lambda: around(Folder, "_fill", before=at_checkpoint(half_checkpoint)),
        "before it is on disk": lambda: around(Folder, "_flush", before=at_checkpoint(die)),
        "it is on disk": lambda: around(Folder, "_rename", before=at_checkpoint(die)),
        "it has its name": lambda: around(Folder, "_rename", after=at_checkpoint(die)),
        "it is committed": lambda: around(Folder, "write", after=at_checkpoint(die)),
        "the next cut is taken": lambda: around(Checkpointing, "_contents", after=at_checkpoint(die, number + 1)),
        "the end": lambda: around(ParquetSink, "publish", before=die),
    }[point]()


REPLANNED = "another plan is in force"
"""What a process says when a planned change of the plan is made."""


def change_plans(plans: list[str]) -> None:
    """Let every planned change of threads change the plan too, to each of these in turn, which no flag can say."""
    from headrace.synchronization.options import ProgramOptions
    from headrace.synchronization.reconfiguration import Reconfiguration

    begin, make = ProgramOptions.__init__, Reconfiguration._make

    @functools.wraps(begin)  # whose arguments are those that `start` takes
    def with_plans(options: Any, *arguments: Any, **given: Any) -> None:
        changes = [
            (at, {"threads": threads, "plan": plans[number % len(plans)]})
            for number, (at, threads) in enumerate(given.get("reconfigure", ()))
        ]
        begin(options, *arguments, **given | {"reconfigure": changes})

    def made(reconfiguration: Any, index: int) -> None:
        make(reconfiguration, index)
        print(REPLANNED, file=sys.stderr, flush=True)

    ProgramOptions.__init__, Reconfiguration._make = with_plans, made  # type: ignore[method-assign]


def serve() -> None:
    """Take jobs, one a line; answer each with how its process ended and what it said."""
    sys.path[:0] = [str(ROOT / room) for room in ("toolkit", "datasets", "widgets", "tests")]
    from headrace import cli

    for line in sys.stdin:
        job = json.loads(line)
        if not job["forked"]:
            answer = [cli.main(job["arguments"]), ""]
        else:
            answer = forked(cli, job)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def forked(cli: Any, job: dict[str, Any]) -> list[Any]:
    """Do a job in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(writing, 2)
        os.dup2(2, 1)
        status = 99
        try:
            if job["point"]:
                arm(job["point"], job["number"])
            if job["plans"]:
                change_plans(job["plans"])
            status = cli.main(job["arguments"])
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    return [os.waitstatus_to_exitcode(status), said]


class Killer:
    """Runs command lines in processes forked from one in which the applications are compiled already."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, arguments: list[Any], point: str = "", number: int = 2, forked: bool = True, plans: Sequence[str] = ()
    ) -> tuple[int, str]:
        """Return the status, below 0 if it was killed, and its stderr. Not forked: what it compiles stays compiled."""
        job = {"arguments": ["run", *map(str, arguments)], "point": point, "number": number, "forked": forked, "plans": [*plans]}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        status, said = json.loads(self._process.stdout.readline())
        return status, said

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    serve()
