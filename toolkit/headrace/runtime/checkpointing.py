"""Checkpoints of a run, and resuming from one.

Order       C1 everything comes to rest; C2 the section's state and frontier, and the position of the results, are copied;
            C3 the run goes on; C4 the results are on disk; C5 the checkpoint is on disk (`checkpoints.folder`)
                    a checkpoint refers to the results up to C2, whatever results came out between C2 and C4
Progress    With `checkpoint_every`, the section processes that many events, and then comes to rest by itself, however its
            inputs come and whatever else could be processed, the end of the input included. So checkpoints come after the
            same numbers of events in every run, and none is left out. Nobody waits for an input that is silent, or begins
            late: what does not depend on it is processed, and counts.
            The next checkpoint waits for C5 of this one: a disk slower than the stream slows the stream down.
Failure     A write error ends the run: going on without checkpoints is not what was asked for.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from headrace.checkpoints.file_format import Contents
from headrace.checkpoints.folder import Folder, read_checkpoint
from headrace.checkpoints.results_log import Mark, ResultsLog, read_results
from headrace.errors import CheckpointError, FunctionError, NotSupportedError, ParameterError
from headrace.newest import Record
from headrace.plan.nodes import Output, SourceNode
from headrace.runtime.feeding import Stopped
from headrace.runtime.inlets import Inlet
from headrace.runtime.options import RunOptions
from headrace.runtime.sections import Checkpointed, Section

_LOOK_S = 50e-6
_POLL_S = 0.1


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk; also a path, for ``resume=``.

    Attributes
    ----------
    path : Path
    number : int
        Counted from 1.
    events : int
        Events processed up to it.
    results : int
        Result rows emitted up to it.
    """

    path: Path
    number: int
    events: int
    results: int

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"<Checkpoint {self.number}: {self.events:,} events, {self.results:,} results, in {str(self.path)!r}>"


class Running(Protocol):
    """What checkpointing asks of a run."""

    over: threading.Event

    def fail(self, error: BaseException) -> None: ...


def lacks_checkpoints(sections: Mapping[str, Section], outputs: Sequence[Output]) -> str:
    """Why a query takes no checkpoints; "" if it does."""
    each = list(sections.values())
    if all(section.checkpointed() is None for section in each):
        return each[0].lacks_checkpoints
    if len(each) > 1:
        return "a query of several operators takes no checkpoints: give the results of one to the other as a table"
    return "a run with several results takes no checkpoints: start one for each" if len(outputs) > 1 else ""


class Checkpointing:
    """What a run does for checkpoints.

    Parameters
    ----------
    sections : dict of Section
    outputs : sequence of Output
    options : RunOptions

    Raises
    ------
    NotSupportedError
        The query takes no checkpoints.
    CheckpointError
        The checkpoint to resume from is damaged, or of another program.
    OutputError
        Checkpoints cannot be written to their folder.
    """

    def __init__(self, sections: Mapping[str, Section], outputs: Sequence[Output], options: RunOptions):
        if why := lacks_checkpoints(sections, outputs):
            name, value = ("resume", options.resume) if options.resume is not None else ("checkpoint", options.checkpoint)
            raise NotSupportedError(f"{name}={str(value)!r}: {why}; leave it out")
        (section,) = sections.values()
        target = section.checkpointed()
        assert target is not None
        self._target: Checkpointed = target
        for inlet in section.inlets:
            _check_source(inlet)
        self._options, self._schema = options, outputs[0].schema
        self._requests: list[threading.Event] = []
        self._number, self._mark, self._resumed = 0, Mark(), None
        self.made = Record[Checkpoint]()
        """Checkpoints of this run."""
        self._is_followed, self._ended = False, threading.Event()
        self._folder: Folder | None = None
        self._log: ResultsLog | None = None
        if options.resume is not None:
            self._resume(options.resume)
        target.begin()
        if options.checkpoint is not None:
            try:
                self._begin(options.checkpoint)
            except BaseException:
                self.end()  # otherwise the folder would belong to a run that never starts
                raise

    def _resume(self, given: Any) -> None:
        path, contents = read_checkpoint(given)
        own, found = self._target.identity, contents.values["identity"]
        for what, value in own.items():
            if found.get(what) != value:
                raise CheckpointError(
                    f"resume={os.fspath(given)!r}: checkpoint {str(path)!r} is of {what} {found.get(what)}, and this is"
                    f" {value}; resume what was started, or start it without resume"
                )
        self._resumed, self._number = path, contents.values["number"]
        self._mark = Mark(**contents.values["results"])
        self._target.restore(contents.part("cut"))

    def _begin(self, given: Any) -> None:
        self._folder = Folder(given)
        before = None if self._resumed is None else self._resumed.parent
        goes_on = before is not None and os.path.realpath(before) == os.path.realpath(given)
        self._folder.begin(goes_on)
        self._log = ResultsLog(self._folder.path, self._schema)
        if before is None:
            self._log.begin()
            return
        if goes_on:
            self._folder.forget_after(self._number)
        # Check that the results to be kept are whole before anything is written after them.
        for _ in read_results(before, self._mark, self._schema):
            pass
        self._log.begin(self._mark, before)

    @property
    def keep(self) -> Callable[[pa.RecordBatch], None] | None:
        """The function that writes results to the log; None where no checkpoints are taken."""
        return None if self._log is None else self._log.write

    def replay(self, write: Callable[[pa.RecordBatch], None]) -> None:
        """Give the results from before the resumed checkpoint once more, if that is wanted (``replay=``)."""
        if self._resumed is not None and self._options.replay:
            for batch in read_results(self._resumed.parent, self._mark, self._schema):
                write(batch)

    def end(self) -> None:
        """Close the files."""
        if self._log is not None:
            self._log.end()
        if self._folder is not None:
            self._folder.end()

    # -- taking them

    @property
    def is_taking(self) -> bool:
        """Whether checkpoints are taken at all."""
        return self._folder is not None

    @property
    def newest(self) -> Checkpoint:
        """The last checkpoint taken."""
        return self.made.newest()[-1]

    def request(self) -> threading.Event:
        """Ask for a checkpoint; the event is set when it is on disk and the last of `made`."""
        done = threading.Event()
        self._requests.append(done)
        self._target.wake()
        return done

    def follow(self, run: Running) -> None:
        """Body of the thread that takes checkpoints; it closes the files when the run is over."""
        try:
            self._take_them(run)
        except BaseException as error:  # reported before the files are closed, because other threads write to them
            run.fail(error)
        finally:
            run.over.wait()
            self.end()
            self._ended.set()

    def await_end(self, seconds: float) -> None:
        """Wait until a checkpoint being written is complete and the folder is released."""
        if self.is_taking and self._is_followed:
            self._ended.wait(seconds)

    def _take_them(self, run: Running) -> None:
        while not run.over.is_set() and not self._target.is_over:
            if self._target.await_due(_POLL_S) or self._requests:
                with suppress(Stopped):
                    self._take(run)

    def _come_to_rest(self, run: Running) -> bool:
        """Bring everything to rest; False if the run or its input is over."""
        while not self._target.ask():
            if run.over.is_set() or self._target.is_over:
                return False
            time.sleep(_LOOK_S)
        return True

    def start_counting(self) -> None:
        """From now on a checkpoint, which `follow` takes, is due after `checkpoint_every` events."""
        if self.is_taking:
            self._is_followed = True
            self._target.allow(self._options.checkpoint_every)

    def _take(self, run: Running) -> None:
        target, requests = self._target, list(self._requests)
        found: tuple[Contents, Mark] | None = None
        try:
            if not self._come_to_rest(run):  # C1
                return
            with target.at_rest():
                if requests or self._is_wanted():
                    found = self._contents()  # C2
                target.allow(self._options.checkpoint_every)
        finally:
            target.let_go()  # C3
        if found is not None:  # also if the run has ended meanwhile
            self._write(*found)
        for done in requests:
            self._requests.remove(done)
            done.set()

    def _is_wanted(self) -> bool:
        """Whether the user's predicate `checkpoint_when` says that the state is worth a checkpoint."""
        when = self._options.checkpoint_when
        if when is None:
            return True
        state = self._target.state()
        try:
            return bool(when(state))
        except Exception as error:
            inside = None if error.__traceback__ is None else error.__traceback__.tb_next
            file, line = ("", 0) if inside is None else (inside.tb_frame.f_code.co_filename, inside.tb_lineno)
            name = getattr(when, "__name__", "checkpoint_when")
            raise FunctionError(f"checkpoint_when: {type(error).__name__}: {error}", name, file, line) from error

    def _contents(self) -> tuple[Contents, Mark]:
        assert self._log is not None
        cut, mark = self._target.cut(), self._log.mark()
        found = Contents({"number": self._number + 1, "identity": dict(self._target.identity), "results": mark.as_values()})
        found.put("cut", cut)
        return found, mark

    def _write(self, contents: Contents, mark: Mark) -> None:
        assert self._log is not None and self._folder is not None
        self._log.flush()  # C4
        path = self._folder.write(self._number + 1, contents)  # C5
        self._number += 1
        self.made.add(Checkpoint(path, self._number, contents.part("cut").values["events"], mark.rows))


def _check_source(inlet: Inlet) -> None:
    """Raise `ParameterError` for an input whose late rows could differ if it were read again."""
    origin = inlet.branch.origin
    if isinstance(origin, SourceNode) and origin.idle_after is not None:
        raise ParameterError(
            f"{inlet.branch.source}: idle_after={origin.idle_after} s lets the clock decide which rows are late, which a run that"
            f" goes on from a checkpoint could not repeat; leave it out, or take no checkpoints"
        )


__all__ = ["Checkpoint", "Checkpointing", "lacks_checkpoints"]
