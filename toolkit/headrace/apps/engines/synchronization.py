"""Programs on the command line: their plan, and checkpoints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.apps.app import App
from headrace.apps.asked import Asked
from headrace.apps.engines.engine import Engine
from headrace.apps.flag import Flag, whole
from headrace.checkpoints.folder import Folder
from headrace.errors import ParameterError
from headrace.synchronization.options import (
    DEFAULT_HEARTBEAT,
    MOST_HEARTBEAT,
    NO_HEARTBEATS,
    PLANS,
    ProgramOptions,
)
from headrace.synchronization.plans import MOST_LEAVES, Plan

DEFAULT_EVERY = 100_000
MOST_EVERY = 10**15
_IS_NONE = "is not a program of dependency-guided synchronization, so it"
_TAKES_NONE = f"{_IS_NONE} takes no checkpoints"


def read_heartbeat(text: str) -> int | str:
    """Read a number of events, or that there are no heartbeats."""
    if text == NO_HEARTBEATS:
        return text
    try:
        return whole("events", MOST_HEARTBEAT)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or {NO_HEARTBEATS}") from None


class Programs(Engine):
    """The engine of dependency-guided synchronization. Its inputs stay whole: their rows are dealt out to streams."""

    name = "synchronization"
    runs, title = "programs", "synchronization plans"
    flags = (
        Flag(
            "plan", "who processes what: auto (default), chain, flat, or the file of a plan as JSON",
            metavar="auto|chain|flat|FILE.json",
        ),
        Flag(
            "leaves", f"most leaves of a plan that is made here, up to {MOST_LEAVES} (default: --max-threads)",
            whole("leaves", MOST_LEAVES), metavar="N",
        ),
        Flag(
            "heartbeat", f"events between two heartbeats of an input (default {DEFAULT_HEARTBEAT}), or off: its events alone show"
            " how far it is", read_heartbeat, metavar="N|off",
        ),
        Flag(
            "checkpoint", "keep checkpoints, and the results up to each, in a folder", metavar="DIR",
            is_option=False, refusal=_TAKES_NONE,
        ),
        Flag(
            "every", f"events between two checkpoints (default {DEFAULT_EVERY})", whole("events", MOST_EVERY), metavar="N",
            is_option=False, refusal=_TAKES_NONE,
        ),
        Flag(
            "resume", "go on from the newest checkpoint in a folder; the result is that of an uninterrupted run, even if"
            " the run had ended; with --every, further checkpoints are kept there", metavar="DIR",
            is_option=False, refusal=_TAKES_NONE,
        ),
    )  # fmt: skip
    refusal = f"{_IS_NONE} has no plan"
    lacking, lacks = "runs by a plan: ", ProgramOptions.lacks
    sources = "streams of the left input, unless its column `stream` says them"
    as_flags = (
        ("resume='", "--resume '"),
        ("checkpoint='", "--checkpoint '"),
        ("give the one that a run had as checkpoint=", "give the folder that a run had as --checkpoint"),
        ("without resume", "without --resume"),
    )

    def __init__(self, app: App, asked: Asked, max_threads: int):
        super().__init__(app, asked, max_threads)
        self._plan: str | Plan = PLANS[0]

    def check(self) -> None:
        every = self.given("every")
        if every is not None and self.given("checkpoint") is None and self.given("resume") is None:
            raise ParameterError(f"--every {every}: where are checkpoints to be kept? Give --checkpoint DIR")

    @property
    def files_read(self) -> list[str]:
        plan = self.given("plan")
        return [plan] if plan and plan not in PLANS else []

    def check_paths(self, others: Sequence[str]) -> None:
        for flag in ("checkpoint", "resume"):
            if self.given(flag) == "":
                raise ParameterError(f"--{flag} '': an empty path; give the path of a folder")

    def read_files(self) -> None:
        self._plan = read_plan(self.given("plan"))

    @property
    def _leaves(self) -> int:
        leaves = self.given("leaves")
        return min(self.max_threads, MOST_LEAVES) if leaves is None else leaves

    def dealing(self) -> Any:
        from headrace.apps.dealing import Dealing

        return Dealing(self.app, self.asked.sources, self._leaves, self._plan if isinstance(self._plan, Plan) else None)

    def start_options(self) -> dict[str, Any]:
        return {**super().start_options(), "plan": self._plan, "leaves": self._leaves, **self._checkpoint_options()}

    def _checkpoint_options(self) -> dict[str, Any]:
        """Return the checkpoint options of `start`: a run that died before its first checkpoint begins again."""
        folder, resume, every = self.given("checkpoint"), self.given("resume"), self.given("every")
        if folder is None and resume is not None and every is not None:
            folder = (os.path.dirname(resume) or ".") if os.path.isfile(resume) else resume
        if resume is not None and os.path.isdir(resume) and not Folder(resume).numbers():
            said = (
                f"--resume {resume}: the run before was over, or killed, before its first checkpoint, so all is read from the"
                f" beginning; the result is the same"
            )
            print(f"headrace: {said}", file=sys.stderr, flush=True)
            resume = None
        given: dict[str, Any] = {} if resume is None else {"resume": resume}
        if folder is not None:
            given |= {"checkpoint": folder, "checkpoint_every": every or DEFAULT_EVERY}
        return given

    def figures(self, run: Any, operator: Any, seconds: float) -> dict[str, Any]:
        found = {
            "plan": self.given("plan") or PLANS[0],
            "leaves": len(run.plan.leaves),
            "heartbeat": self.given("heartbeat") or DEFAULT_HEARTBEAT,
            "joins": operator.joins,
        }
        if self.given("checkpoint") is not None or self.given("resume") is not None:
            found["checkpoints"] = run.checkpoints.left_out + len(run.checkpoints)
        return found


def read_plan(text: str | None) -> str | Plan:
    """Read ``--plan``: the name of a kind of plan, or a file with a plan."""
    if text is None or text in PLANS:
        return text or PLANS[0]
    try:
        content = Path(text).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ParameterError(
            f"--plan {text!r} cannot be read ({said}); give a file that has a plan as JSON, or one of {', '.join(PLANS)}"
        ) from None
    try:
        return Plan.from_json(content)
    except ParameterError as error:
        raise ParameterError(f"--plan {text!r}: {error}") from None
