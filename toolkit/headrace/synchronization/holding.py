"""Brings everything to rest, joined at the root: the first step of a change of plan and of a checkpoint.

Order       R1 RESTS := 1: leaves come to rest whatever they may process (`tree_kernel`), and the thread that brings the
            last one to rest joins everything and sets HELD; R2 no input gives rows (its `entrance` is closed, with no thread
            inside), and no thread promises results (PROMISING); R3 the caller's work; R4 PROMISING and the entrances are
            given back;
            R5 `let_go`, and the thread that set HELD forks
                    between R1 and R5 no leaf is READY: no worker processes an event, and none reads what is constant
                    while a plan is in force
Soon        A thread that releases the GIL for a call may wait a time slice of 5 ms to get it back, while all stand still: so a
            call that takes microseconds keeps the GIL.
Alone       One caller at a time brings everything to rest, from the first time that it asks until it lets go.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from headrace.kernel import compile_now, kernel
from headrace.memory.atomics import exchange, pause
from headrace.memory.cells import publish_cell, read_cell
from headrace.memory.event_count import signal
from headrace.progress import NEVER
from headrace.synchronization import words
from headrace.synchronization.arrays import PlanArrays
from headrace.synchronization.mailbox_kernel import call_out
from headrace.synchronization.tree_kernel import await_hold, await_use, let_go

ASK_NS = 1_000_000
"""How long `ask` waits, without the GIL, before the caller has to ask again."""


@kernel(keep_gil=True)
def begin_promising(words_, at):
    """Wait for PROMISING, and take it."""
    while exchange(words_, at, 1) != 0:
        pause()


@kernel(keep_gil=True)
def go_on(c):
    """Call `let_go`, with the GIL kept."""
    let_go(c)


class Holding:
    """Brings a program to rest.

    Parameters
    ----------
    arrays : PlanArrays
    """

    def __init__(self, arrays: PlanArrays):
        self._arrays = arrays
        self._asking = threading.Lock()
        self._who: object = None
        self.lock = threading.Lock()
        """Held while everything is at rest, and while what depends on the plan is measured."""

    def compile(self) -> None:
        """Compile what is called while the stream runs."""
        compile_now(begin_promising, (self._arrays.words, 0))
        compile_now(await_hold, (self._arrays, 0))
        compile_now(await_use, (self._arrays, 0))
        compile_now(call_out, (self._arrays,))
        compile_now(go_on, (self._arrays,))

    @property
    def is_over(self) -> bool:
        """Whether every event is processed: nothing will come to rest any more."""
        return read_cell(self._arrays.words, words.OVER) != 0

    def allow(self, events: int | None) -> None:
        """Let this many events be processed, and then bring everything to rest; None: any number. Called while no worker
        processes any."""
        publish_cell(self._arrays.words, words.QUOTA, NEVER if events is None else events)

    def await_use(self, seconds: float) -> bool:
        """Wait until those are processed, or `wake`, but no longer than that. True if they are."""
        return bool(await_use(self._arrays, int(seconds * 1e9)))

    def wake(self) -> None:
        """Wake the thread in `await_use`."""
        signal(self._arrays.words, words.REST_WAITING, self._arrays.signals, words.REST_EVENT)

    def ask(self, who: object) -> bool:
        """Ask for rest, and wait for a moment; to be called again and again. True once everything is joined for this caller."""
        if self._who is not who:
            if not self._asking.acquire(blocking=False):
                return False
            self._who = who
        return bool(await_hold(self._arrays, ASK_NS))  # R1

    def close(self, inlets: Sequence[Any]) -> None:
        """Have inputs come out and give no rows, until `at_rest` is over, or `open`."""
        for inlet in inlets:
            inlet.entrance.close()
        call_out(self._arrays)

    def open(self, inlets: Sequence[Any]) -> None:
        """Let inputs go on."""
        publish_cell(self._arrays.words, words.CLOSED, 0)
        for inlet in inlets:
            inlet.entrance.open()

    @contextmanager
    def at_rest(self, inlets: Sequence[Any]) -> Iterator[None]:
        """A context in which inputs are at rest as well; for a caller whose `ask` has succeeded."""
        with ExitStack() as held:  # R2
            self.close(inlets)
            held.callback(self.open, inlets)
            for inlet in inlets:
                held.enter_context(inlet.entrance.lock)
            held.enter_context(self.lock)
            begin_promising(self._arrays.words, words.PROMISING)
            try:
                yield
            finally:
                publish_cell(self._arrays.words, words.PROMISING, 0)  # R4

    def let_go(self, who: object) -> None:
        """Go on, if it was this caller that asked."""
        if self._who is who:
            go_on(self._arrays)  # R5
            self._who = None
            self._asking.release()


__all__ = ["Holding"]
