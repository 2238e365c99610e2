"""The registry of the runs alive in this process: stopped at exit, replaced on re-run, unusable after fork."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from contextlib import ExitStack
from typing import Any

from headrace.errors import RunStoppedError

_lock = threading.Lock()
_runs: weakref.WeakSet[Any] = weakref.WeakSet()
_by_key: dict[object, weakref.ref[Any]] = {}


def make_way(key: object) -> None:
    """Stop the live run of a key (a name, a notebook cell) that another run replaces, which frees what it writes to."""
    with _lock:
        reference = _by_key.pop(key, None)
    previous = None if reference is None else reference()
    if previous is not None:
        previous.replace()


def register(run: Any, key: object = None) -> None:
    """Register a run, under its key if it has one."""
    with _lock:
        for gone in [other for other, reference in _by_key.items() if reference() is None]:
            del _by_key[gone]
        if key is not None:
            _by_key[key] = weakref.ref(run)
        _runs.add(run)


def runs() -> list[Any]:
    """Return the runs of this process that have not ended, oldest first.

    Examples
    --------
    >>> import headrace as hr
    >>> hr.runs()
    []
    """
    with _lock:
        return sorted((run for run in _runs if run.state == "running"), key=lambda run: run.number)


def stop_all() -> None:
    """Stop every run of this process that has not ended; results not yet released are lost.

    Raises
    ------
    RunStoppedError
        Threads of a run did not stop; all other runs have been stopped.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> def endless():
    ...     while True:
    ...         yield pa.record_batch({"ts": [1]})
    >>> run = hr.stream(endless(), event_time="ts").window(10).aggregate(n=hr.count()).start()
    >>> hr.stop_all()
    >>> run.state
    'stopped'
    """
    with ExitStack() as stopping:  # in reverse order: the first run last
        for run in runs():
            stopping.callback(run.stop)


def cell_key() -> object:
    """Identify the notebook cell and line that start a run; None outside notebooks."""
    if "IPython" not in sys.modules:
        return None
    frame = sys._getframe().f_back
    while frame is not None:
        filename = frame.f_code.co_filename
        if "ipykernel" in filename or filename.startswith("<ipython-input"):
            return filename, frame.f_lineno
        frame = frame.f_back
    return None


def check_process(pid: int) -> None:
    """Refuse to use a run in a forked child: its threads exist only in the parent."""
    if os.getpid() != pid:
        raise RunStoppedError(
            f"this run belongs to process {pid} and its threads do not exist in process {os.getpid()};"
            " start the run after the fork"
        )


def _forget_all() -> None:
    # In a forked child: the lock may be held by a thread that does not exist there.
    global _lock
    _lock = threading.Lock()
    _runs.clear()
    _by_key.clear()


atexit.register(stop_all)
os.register_at_fork(after_in_child=_forget_all)
