"""Reconfiguring transactions: a configuration is written down and requested; the next punctuation puts it into force.

The executors have one request at a time (`runtime.changes` ensures that). The
leader of the next punctuation installs it; where input is idle, that executor sleeps
at the gate, and is woken.
"""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.callers import depth_of_caller
from headrace.changes import Capabilities, Control
from headrace.control.mapping import Mapping as Buckets
from headrace.errors import ParameterError, ReconfigurationError, UnsafeResultsWarning
from headrace.gates.membership_kernel import wake_readers
from headrace.kernel import compile_now
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.references import BUCKETS
from headrace.runtime.configuration_rows import ConfigurationRows
from headrace.runtime.steerable import checked_threads
from headrace.transactions import words
from headrace.transactions.arrays import ExecutorArrays
from headrace.transactions.configuration import SCHEMES, SHARINGS, Configuration, write_configuration
from headrace.transactions.phases_kernel import ask_for, ask_pause, end_pause, watch, watch_pause
from headrace.workers.worker_kernel import SEEN_AT, STOP

_RETRY_S = 100e-6
_WATCH_NS = 50_000_000


def warn_unsafe() -> None:
    """Warn, at the caller's line, that the results are wrong from now on."""
    warnings.warn(
        "scheme='none' takes no locks and keeps no order: THE RESULTS ARE WRONG, and so are the tables;"
        " headrace.errors.UnsafeResultsWarning is the category to filter if that is what you want to see",
        UnsafeResultsWarning,
        stacklevel=depth_of_caller(),
    )


def not_safe(how: str) -> ParameterError:
    """Make the error for ``scheme="none"`` without the consent to wrong results; `how` is the way to give it."""
    return ParameterError(
        f"scheme='none' takes no locks and keeps no order, so its results are wrong; {how} unsafe=True if that is what you want"
        " to see"
    )


class Reconfiguration(ConfigurationRows):
    """What can be changed at a transactional operator: a `headrace.runtime.steerable.Steerable`.

    Parameters
    ----------
    arrays : ExecutorArrays
        Configuration rows 0 to `planned` are in use already.
    gate : LogArrays
    max_threads : int
    initial : Configuration
        Row 0.
    planned : sequence of (event count, Configuration)
        Rows 1, 2, ...
    schemes : sequence of str
        Which ones may be requested.
    can_split : bool
        As of `family_of`.
    """

    def __init__(
        self,
        arrays: ExecutorArrays,
        gate: Any,
        max_threads: int,
        initial: Configuration,
        planned: Sequence[tuple[int, Configuration]] = (),
        schemes: Sequence[str] = SCHEMES,
        can_split: bool = False,
    ):
        super().__init__(arrays, words.CONFIG, words.CHANGE, CELL, initial, planned)
        self.max_threads = max_threads
        self.capabilities = Capabilities(
            {
                "threads": Control("count", "active executors", 1, max_threads),
                "mapping": Control("mapping", "which executor owns which records"),
                "scheme": Control("choice", "how transactions are kept in order", choices=tuple(schemes)),
                "sharing": Control(
                    "choice", "whose work an executor may take", choices=SHARINGS, only_with=("scheme", ("chains",))
                ),
                "punctuation": Control("count", "events of a batch", 1, arrays.refs.size, scale="log"),
            }
        )
        self._gate, self._can_split = gate, can_split

    def resolve(self, requested: Mapping[str, Any], newest: Configuration) -> Configuration:
        """Complete a request from the newest configuration known; see `resolve`."""
        if requested.get("scheme") == "none" and "none" not in self.capabilities["scheme"].choices:
            raise not_safe("give start")
        for name in ("scheme", "sharing", "punctuation"):
            if requested.get(name) is not None:
                self.capabilities[name].check(name, requested[name])
        if requested.get("scheme") == "none":
            warn_unsafe()
        return resolve(requested, newest, self.max_threads)

    def describe(self, configuration: Configuration) -> dict[str, Any]:
        """Control -> value."""
        return {
            "threads": configuration.threads,
            "members": tuple(range(configuration.threads)),
            "mapping": configuration.mapping,
            "scheme": configuration.scheme,
            "sharing": configuration.sharing,
            "punctuation": configuration.punctuation,
        }

    def effects(self, before: Configuration, after: Configuration) -> dict[str, int]:
        """How many buckets of records change their owner; tables are shared, nothing is moved."""
        return {
            "buckets_moved": before.mapping.differing(after.mapping),
            "transferred_bytes": 0,
            "transferred_ns": 0,
        }

    def place(self, target: Configuration) -> int | None:
        """Request a configuration from the executors. Returns its row; None: they have yet to take the previous request."""
        arrays = self._arrays
        if read_cell(arrays.words, words.REQUEST) != 0:
            return None
        row = self._put(target)
        ask_for(arrays, row)
        wake_readers(self._gate)
        return row

    def _write(self, row: int, configuration: Configuration) -> None:
        write_configuration(self._arrays, row, configuration, self._can_split)

    def _position_of(self, at: int) -> int:
        return int(self._arrays.installed[at, SEEN_AT])

    def await_completion(self, timeout_ns: int) -> None:
        """Sleep until the next change is complete, or the run stops."""
        watch(self._arrays, self._changes_seen + 1, timeout_ns)

    def compile(self) -> None:
        """Compile what Python calls while the stream runs."""
        arrays = self._arrays
        compile_now(wake_readers, (self._gate,))
        compile_now(ask_for, (arrays, 0))
        compile_now(watch, (arrays, 0, 0))
        compile_now(ask_pause, (arrays,))
        compile_now(end_pause, (arrays, 0))
        compile_now(watch_pause, (arrays, 0, 0))


@functools.lru_cache(256)
def in_turn(threads: int) -> Buckets:
    """Give executors buckets in turn: neighbouring records, as hot ones often are, have different owners.

    Examples
    --------
    >>> in_turn(3).owners[:5].tolist()
    [0, 1, 2, 0, 1]
    """
    return Buckets(np.arange(BUCKETS) % threads)


def resolve(requested: Mapping[str, Any], newest: Configuration, max_threads: int) -> Configuration:
    """Complete a request from the newest configuration known.

    If the number of threads changes, they share the buckets in turn, unless a mapping is given.

    Raises
    ------
    ReconfigurationError
        Nothing is asked for, threads out of range, or a mapping to an executor that is not active.

    Examples
    --------
    >>> now = Configuration(2, "chains", "nothing", 500, Buckets.even(2))
    >>> resolve({"threads": 4, "punctuation": 100}, now, max_threads=8)
    Configuration(threads=4, scheme='chains', sharing='nothing', punctuation=100, mapping=Mapping({0: 256, 1: 256, 2: 256, 3: 256} buckets))
    """  # noqa: E501
    given = {name: value for name, value in requested.items() if value is not None}
    if not given:
        raise ReconfigurationError("reconfigure(): give threads=, mapping=, scheme=, sharing= or punctuation=")
    threads = checked_threads(given.get("threads", newest.threads), max_threads)
    mapping = given.get("mapping")
    if mapping is None:
        mapping = newest.mapping if threads == newest.threads else in_turn(int(threads))
    elif not isinstance(mapping, Buckets):
        mapping = Buckets(mapping)
    absent = [executor for executor in mapping.instances if executor >= threads]
    if absent:
        raise ReconfigurationError(
            f"mapping: executor {absent[0]} owns buckets but is not active (active: 0 to {threads - 1});"
            f" pass threads= as well, or map its buckets elsewhere"
        )
    return Configuration(
        int(threads),
        given.get("scheme", newest.scheme),
        given.get("sharing", newest.sharing),
        int(given.get("punctuation", newest.punctuation)),
        mapping,
    )


@contextlib.contextmanager
def at_punctuation(arrays: ExecutorArrays, gate: Any) -> Iterator[int | None]:
    """Stop the executors between two batches; they go on when the block ends. Idle input does not delay it.

    Yields
    ------
    int or None
        Events executed so far, whose writes the tables hold. A run that is over yields at once. None: it
        was stopped, or failed, in the middle of a batch.
    """
    while (ticket := ask_pause(arrays)) == 0:  # another thread's pause
        if _is_over(arrays):
            break
        time.sleep(_RETRY_S)
    try:
        wake_readers(gate)
        while ticket and read_cell(arrays.words, words.PAUSED) != ticket and not _is_over(arrays):
            watch_pause(arrays, ticket, _WATCH_NS)
        is_whole = read_cell(arrays.words, words.OVER) or (
            not read_cell(arrays.words, STOP) and read_cell(arrays.words, words.PAUSED) == ticket
        )
        yield int(read_cell(arrays.words, words.SEEN)) if is_whole else None
    finally:
        if ticket:
            end_pause(arrays, ticket)


def _is_over(arrays: ExecutorArrays) -> bool:
    return bool(read_cell(arrays.words, words.OVER) or read_cell(arrays.words, STOP))


__all__ = ["Reconfiguration", "at_punctuation", "in_turn", "resolve"]
