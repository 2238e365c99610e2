"""The life of a run as its user sees it: waiting for it, ending it, and errors about a run that is over."""

from __future__ import annotations

import time
import warnings
from typing import Self

from headrace.arguments import timeout_of
from headrace.callers import depth_of_caller
from headrace.errors import HeadraceError, LateRowsWarning, RunFailedError, RunStoppedError
from headrace.runtime import registry
from headrace.runtime.late import late_rows_text
from headrace.runtime.run import STOPPED, Execution
from headrace.runtime.second_errors import told_beside
from headrace.runtime.sources import with_most_late
from headrace.summary import Summarised

POLL_S = 0.1
"""Seconds between two checks by a waiting caller."""


class RunLife(Summarised):
    """A run that can be waited for and stopped."""

    def __init__(self, execution: Execution):
        self._execution = execution
        self._warned: set[str] = set()  # policies for late rows

    @property
    def number(self) -> int:
        """Number of this run in the process, counted from 1; warnings and `repr` name it."""
        return self._execution.number

    @property
    def state(self) -> str:
        """"running", "finished" (its input ended), "failed" or "stopped"."""
        return self._execution.state

    def stop(self) -> None:
        """End the run now; results not yet released are lost. It may be called repeatedly."""
        self._execution.stop()

    def replace(self) -> None:
        """End the run because another run of the same name, or of the same notebook cell, takes its place."""
        self._execution.stop("a newer run of its name, or of its notebook cell, took its place")

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the input.

        Parameters
        ----------
        timeout : float, optional
            Seconds at most.

        Returns
        -------
        bool
            False if `timeout` seconds passed first.

        Raises
        ------
        HeadraceError
            The error that made the run fail.
        RunStoppedError
            The run was stopped, so it will not reach the end of its input; or a sink or source of this run waits for it
            without a timeout.
        """
        registry.check_process(self._execution.pid)
        timeout = timeout_of(timeout)
        if timeout is None:
            self._execution.check_can_wait()
        end = None if timeout is None else time.monotonic() + timeout
        try:
            while not self._execution.over.wait(POLL_S if end is None else max(0.0, min(POLL_S, end - time.monotonic()))):
                if end is not None and time.monotonic() >= end:
                    return False
        except KeyboardInterrupt as error:
            for text in self._execution.unfinished():
                error.add_note(f"headrace: {text}")
            raise
        self._check_not_cut_short("wait()")
        self._warn_of_late_rows()
        return True

    def _warn_of_late_rows(self, policy: str = "drop") -> None:
        """Warn once of the late rows that are missing from the results of a run that is over."""
        text = late_rows_text(with_most_late(self._execution.sources), policy)
        if text and policy not in self._warned:
            self._warned.add(policy)
            warnings.warn(f"run {self.number}: {text}", LateRowsWarning, stacklevel=depth_of_caller())

    def _raise_failure(self) -> None:
        error = self._execution.error
        if error is None:
            return
        if isinstance(error, (HeadraceError, KeyboardInterrupt)):
            raise error
        raise RunFailedError(f"the run failed: {type(error).__name__}: {error}") from error

    def _check_not_cut_short(self, call: str) -> None:
        """Raise what made the run fail, or `RunStoppedError` if it was stopped before the end of its input."""
        self._raise_failure()
        if self.state == "stopped":
            complete = self._execution.complete_results
            raise RunStoppedError(
                f"{call}: the run was stopped before the end of its input: {self._execution.ended_by};"
                f" run.snapshot() gives the results that had come out{complete and '; ' + complete}"
            )

    def _check_goes_on(self, call: str) -> None:
        """Raise what made the run fail, or `RunStoppedError` if it is over."""
        registry.check_process(self._execution.pid)
        self._raise_failure()
        if self.state != "running":
            by = self._execution.ended_by or "its input has ended"
            raise RunStoppedError(f"{call}: the run is over: {by}; start it again, or do this while it runs")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        with told_beside(error):
            self._execution.stop("its `with` block ended" if error is None else STOPPED)

    # -- what other parts of a run ask for

    def _check_complete(self, call: str) -> None:
        """Raise what made the run fail, or `RunStoppedError` unless it has come to the end of its input."""
        registry.check_process(self._execution.pid)
        self._check_not_cut_short(call)
        if self.state != "finished":
            raise RunStoppedError(f"the run is {self.state}: call wait() first, results are complete only then")
        self._warn_of_late_rows()


def wait_for_results(run: RunLife) -> None:
    """Wait for the end of a run that its user never sees: rows that it sets aside as late are then out of reach, too."""
    run.wait()
    run._warn_of_late_rows("side")
