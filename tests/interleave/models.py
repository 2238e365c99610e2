"""The memory models: what an atomic, a fence, a futex call and a plain write do under each.

The text of a kernel calls these by their names with an underscore (`ATOMICS`).
While a program runs under TSO, `running` is its execution, and `running.buffer`
is the running thread's buffer, or None while a test builds its state. An entry
is [array, index, value, whether a step of the buffer ends with it, whether it is
a plain write].
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SC, TSO = "SC", "TSO"
"""The memory models."""

WRITE, PAUSE = 1, 2
"""What a generator yields before it writes, and where it only waits; None before it reads."""

SLEEP = -1
"""What it yields before a futex's word and index when it sleeps there; when it wakes sleepers, it yields how many instead."""

current = SC
"""The model under which a schedule is being run."""
running: Any = None
"""The execution that is being run, if it has buffers."""


@contextmanager
def under(memory: str) -> Iterator[None]:
    """Run schedules under this model."""
    global current
    current = memory
    try:
        yield
    finally:
        current = SC


def run(execution: Any) -> None:
    """Let stores go into the buffers of this execution."""
    global running
    running = execution


# -- sequential consistency


def _fetch_add(_, array, index, value):
    old = array[index]
    array[index] = old + value
    return old


def _exchange(_, array, index, value):
    old = array[index]
    array[index] = value
    return old


def _compare_exchange(_, array, index, expected, desired):
    if array[index] != expected:
        return False
    array[index] = desired
    return True


def _futex_wait(event, index, expected, timeout_ns):
    yield None
    if event[index] == expected:  # compared and put to sleep in one step, as the kernel does
        yield (SLEEP, id(event), index)
    return 0


def _futex_wake(event, index, count):
    yield WRITE
    yield (count, id(event), index)
    return 0


# -- total store order


def _store(array, index, value):
    """Put an atomic store into the buffer: a step of its own."""
    buffer = running.buffer
    if buffer is not None:
        if buffer:
            buffer[-1][3] = True
        buffer.append([array, index, array[index], True, False])
    array[index] = value


def _store_shared(value, array, index):
    """Put a plain write to a shared array into the buffer: one step with the plain writes beside it."""
    buffer = running.buffer
    if buffer is not None:
        buffer.append([array, index, array[index], False, True])
    array[index] = value


def _store_own(value, array, index):
    """Put any other plain write into the buffer: it becomes visible with the entry before it, or at once."""
    buffer = running.buffer
    if buffer:
        last = buffer[-1]
        buffer.append([array, index, array[index], last[3], id(array) in running.common])
        last[3] = False
    elif buffer is not None and id(array) in running.common:
        running.wrote_plainly = True
    array[index] = value


def _end_step():
    """Begin a run of plain writes to shared arrays."""
    buffer = running.buffer
    if buffer:
        buffer[-1][3] = True


def _holds() -> bool:
    return bool(running.buffer)


def _fence(_=None):
    if running.buffer:
        running.drain()


def _fetch_add_drained(_, array, index, value):
    running.update(array, index)
    old = array[index]
    array[index] = old + value
    return old


def _exchange_drained(_, array, index, value):
    running.update(array, index)
    old = array[index]
    array[index] = value
    return old


def _compare_exchange_drained(_, array, index, expected, desired):
    running.update(array, index)
    if array[index] != expected:
        return False
    array[index] = desired
    return True


def _futex_wait_drained(event, index, expected, timeout_ns):
    yield WRITE
    _fence()
    if event[index] == expected:
        yield (SLEEP, id(event), index)
    return 0


def _futex_wake_drained(event, index, count):
    yield WRITE
    _fence()
    yield (count, id(event), index)
    return 0


ATOMICS: dict[str, dict[str, Any]] = {
    SC: {
        "_fetch_add": _fetch_add,
        "_exchange": _exchange,
        "_compare_exchange": _compare_exchange,
        "_futex_wait": _futex_wait,
        "_futex_wake": _futex_wake,
    },
    TSO: {
        "_fence": _fence,
        "_holds": _holds,
        "_fetch_add": _fetch_add_drained,
        "_exchange": _exchange_drained,
        "_compare_exchange": _compare_exchange_drained,
        "_futex_wait": _futex_wait_drained,
        "_futex_wake": _futex_wake_drained,
        "_store": _store,
        "_store_shared": _store_shared,
        "_store_own": _store_own,
        "_end_step": _end_step,
    },
}
