"""Short time slices: a thread that has something to do gets a core soon, although others compute.

With more threads than cores, the scheduler lets each run for a time slice, 1.4 to 2.8 ms by default and rounded up to the next
timer interrupt (every 4 ms on many systems). A worker that holds what others wait for, or the collector, may wait so long for its
core, which dominates the latency of a pipeline at half load. Linux 6.12 and later lets a thread ask for a slice of its own; a
thread with a shorter one may interrupt others when it wakes up. Each thread's share of the cores stays what it was.

Workers of pipelines ask for this. Workers of the elastic engine do not: nothing waits for a result of theirs but the collector,
and with short slices a word count on two threads processed 0.64 and 0.79 times as many words.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

SLICE_NS = 100_000
"""The shortest slice that Linux grants."""
_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""Numbers of the system calls sched_setattr and sched_getattr."""
_POLICIES = tuple(getattr(os, name, None) for name in ("SCHED_OTHER", "SCHED_BATCH"))


class _Attributes(ctypes.Structure):
    """`struct sched_attr`."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def shorten_time_slice() -> bool:
    """Ask for time slices of `SLICE_NS` for the calling thread.

    Returns
    -------
    bool
        Whether the system grants them. It does not before Linux 6.12, on other systems, in some containers, and for threads with
        a scheduling policy other than the usual ones, which keep what they have.
    """
    if sys.platform != "linux" or platform.machine() not in _CALLS:
        return False
    set_attributes, get_attributes = _CALLS[platform.machine()]
    call = ctypes.CDLL(None).syscall
    found = _Attributes()
    size = ctypes.sizeof(found)

    def read() -> bool:
        return call(get_attributes, 0, ctypes.byref(found), size, 0) == 0

    if not read() or found.policy not in _POLICIES:
        return False
    found.size, found.flags, found.runtime = size, 0, SLICE_NS
    return call(set_attributes, 0, ctypes.byref(found), 0) == 0 and read() and found.runtime == SLICE_NS


__all__ = ["SLICE_NS", "shorten_time_slice"]
