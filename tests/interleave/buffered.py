"""One execution under TSO: as under SC, with a store buffer for each thread, and which of its steps commute."""

from __future__ import annotations

from typing import Any

from interleave import models
from interleave.execution import Execution
from interleave.kernels import Kernels
from interleave.models import PAUSE, SLEEP


def _name_arrays(value: Any, of: dict[int, list], arrays: dict[int, int]) -> None:
    """Number the lists reachable from `value`, in the same order in every execution."""
    if isinstance(value, list):
        if id(value) in of:
            return
        of[id(value)] = value
        arrays.setdefault(id(value), len(arrays))
    elif isinstance(value, tuple):
        value = list(value)
    elif hasattr(value, "__dict__") and not callable(value) and not isinstance(value, Kernels):
        value = list(vars(value).values())
    else:
        return
    for part in value:
        if not isinstance(part, (int, str)):
            _name_arrays(part, of, arrays)


class Buffered(Execution):
    """An execution under TSO: thread t's buffer is the runnable `count` + t while it is not empty.

    `recording`: keep the footprint of the last step, for `Reduced`.
    """

    __slots__ = (
        "arrays",
        "buffer",
        "buffers",
        "common",
        "footprint",
        "looking",
        "recording",
        "updated",
        "wrote_plainly",
    )

    def __init__(self, build, trace: list[int] | None, recording: bool = False):
        models.run(self)
        self.buffer = None
        self.common: set[int] = set()
        self.arrays: dict[int, int] = {}
        self.looking = -1
        self.recording = recording
        self.updated: list = []
        self.wrote_plainly = False
        self.footprint: Any = None
        threads, self.check = build()
        self.threads, self.count = threads, len(threads)
        self.resume = [thread.__next__ for thread in threads]
        self.buffers: list[list] = [[] for _ in threads]
        self.trace = trace
        self.steps = 0
        self.paused = []
        self.asleep = {}
        self.pending = [None] * len(threads)
        self.writes = 0
        self.own = [0] * len(threads)
        self.seen = [0] * len(threads)
        if recording:
            self._find_arrays()
        self.runnable = list(range(len(threads)))
        for thread in range(len(threads)):
            self.step(thread)

    def _find_arrays(self) -> None:
        met: set[int] = set()
        for thread in self.threads:
            found: dict[int, list] = {}
            _name_arrays(list(thread.gi_frame.f_locals.values()), found, self.arrays)
            self.common |= met & found.keys()
            met |= found.keys()

    # -- memory

    def look(self, thread: int) -> None:
        """Make memory what `thread` sees; -1: what memory holds."""
        if self.looking >= 0:
            for entry in reversed(self.buffers[self.looking]):
                array, index = entry[0], entry[1]
                array[index], entry[2] = entry[2], array[index]
        if thread >= 0:
            for entry in self.buffers[thread]:
                array, index = entry[0], entry[1]
                array[index], entry[2] = entry[2], array[index]
        self.looking = thread

    def drain(self) -> None:
        """Empty the running thread's buffer."""
        if self.recording:
            self.updated += self.buffer
        self.buffer.clear()
        if self.count + self.looking in self.runnable:
            self.runnable.remove(self.count + self.looking)
        self._wrote(self.looking)

    def update(self, array: list, index: int) -> None:
        """A read-modify-write is about to happen."""
        if self.buffer is None:  # a test is building its state
            return
        if self.buffer:
            self.drain()
        else:
            self._wrote(self.looking)
        if self.recording:
            self.updated.append([array, index, 0, True, False])

    def _flush(self, thread: int) -> None:
        """Make the oldest store of `thread`, or its oldest run of plain writes, visible."""
        if self.looking != thread:
            self.look(-1)
        buffer = self.buffers[thread]
        count = next((i for i, entry in enumerate(buffer) if entry[3]), len(buffer) - 1) + 1
        if self.looking != thread:
            for array, index, value, _, _ in buffer[:count]:
                array[index] = value
        if self.recording:
            self._note(thread, buffer[:count], (), not buffer[count - 1][3], False)
        del buffer[:count]
        if not buffer:
            self.runnable.remove(self.count + thread)
        self._wrote(thread)

    # -- steps

    def step(self, thread: int) -> None:
        self.steps += 1
        if self.trace is not None:
            self.trace.append(thread)
        if thread >= self.count:
            self._flush(thread - self.count)
            return
        if self.looking != thread:
            self.look(thread)
        self.buffer = buffer = self.buffers[thread]
        reads = self.pending[thread]
        commutes = True
        try:
            what = self.resume[thread]()
            while type(what) is tuple and len(what) == 3:
                count, event, index = what
                commutes = False
                if count == SLEEP:
                    self.runnable.remove(thread)
                    self.asleep[thread] = (event, index)
                    break
                self._wake(count, event, index)
                what = self.resume[thread]()
        except StopIteration:
            self.runnable.remove(thread)
            what = None
        if buffer and self.count + thread not in self.runnable:
            self.runnable.append(self.count + thread)
        self.pending[thread] = what if type(what) is tuple else None
        if what is PAUSE:
            commutes = False
            self._pauses(thread)
        if self.recording:
            cells = (reads,) if reads and len(reads) == 2 else ()
            self._note(thread, self.updated, cells, not commutes, True)
            self.updated = []
            self.wrote_plainly = False

    def go(self, thread: int, most: int) -> bool:
        runnable = self.runnable
        while most > 0 and thread in runnable:
            self.step(thread)
            most -= 1
        return thread in runnable

    def _note(self, thread: int, written, read, is_loud: bool, is_thread: bool) -> None:
        arrays = self.arrays
        writes = {(arrays[id(e[0])], e[1]) for e in written if id(e[0]) in arrays}
        reads = {(arrays[id(array)], index) for array, index in read if id(array) in arrays}
        plain = any(e[4] for e in written) or (is_thread and self.wrote_plainly)
        self.footprint = (thread, is_thread, writes, reads | writes, plain, is_loud)


def commute(a, b) -> bool:
    """Whether two steps lead to the same state in either order, and neither prevents the other: R4."""
    thread, is_thread, writes, touches, plain, loud = a
    other, other_is_thread, other_writes, other_touches, other_plain, other_loud = b
    if loud or other_loud:
        return False
    if thread == other:  # one is the buffer's: it commutes with any step that does not empty the buffer
        return not (writes if is_thread else other_writes)
    if (plain and other_is_thread) or (other_plain and is_thread):
        return False
    return not (writes & other_touches or other_writes & touches)
