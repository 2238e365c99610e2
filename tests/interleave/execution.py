"""One execution under sequential consistency: which threads can go on, wait, sleep."""

from __future__ import annotations

from interleave.models import PAUSE, SLEEP, WRITE


class _Stuck(AssertionError):
    pass


class Execution:
    """The threads of one execution, and which of them can go on. Numbers from `count` on are steps of buffers."""

    __slots__ = (
        "asleep",
        "check",
        "count",
        "own",
        "paused",
        "pending",
        "resume",
        "runnable",
        "seen",
        "steps",
        "threads",
        "trace",
        "writes",
    )

    def __init__(self, build, trace: list[int] | None):
        self.threads, self.check = build()
        self.count = len(self.threads)
        self.resume = [thread.__next__ for thread in self.threads]
        self.trace = trace
        self.steps = 0
        self.paused: list[int] = []
        self.asleep: dict[int, tuple[int, int]] = {}
        self.pending = [False] * len(self.threads)
        self.writes = 0
        self.own = [0] * len(self.threads)
        self.seen = [0] * len(self.threads)
        self.runnable = list(range(len(self.threads)))
        for thread in tuple(self.runnable):  # up to its first access, before which it touches nothing shared
            self.go(thread, 1)

    def go(self, thread: int, most: int) -> bool:
        """Let a thread take up to `most` steps. False if it ends or must wait before that."""
        writing = self.pending[thread]
        trace = self.trace
        left = most
        for what in self.threads[thread]:
            if trace is not None:
                trace.append(thread)
            if writing:
                self._wrote(thread)
            writing = what is WRITE
            if what is PAUSE:
                if self._pauses(thread):
                    self.pending[thread] = False
                    self.steps += most - left + 1
                    return False
            elif what is not None and not writing:
                count, event, index = what
                if count == SLEEP:
                    self.pending[thread] = False
                    self.runnable.remove(thread)
                    self.asleep[thread] = (event, index)
                    self.steps += most - left + 1
                    return False
                self._wake(count, event, index)
                if trace is not None:
                    trace.pop()  # a wake is part of the step before it
                continue
            left -= 1
            if left == 0:
                self.pending[thread] = writing
                self.steps += most
                return True
        if trace is not None:
            trace.append(thread)
        if writing:
            self._wrote(thread)
        self.runnable.remove(thread)
        self.steps += most - left + 1
        return False

    def _wake(self, count: int, event: int, index: int) -> None:
        """Wake at most `count` of the threads that sleep on this word, the longest sleepers first."""
        for other in [t for t, key in self.asleep.items() if key == (event, index)][:count]:
            del self.asleep[other]
            self.runnable.append(other)

    def _wrote(self, thread: int) -> None:
        """Record that `thread` has written: paused threads look again."""
        self.writes += 1
        self.own[thread] += 1
        if self.paused:
            for other in self.paused:
                self.seen[other] = self.writes - self.own[other]
            self.runnable += self.paused
            self.paused.clear()

    def _pauses(self, thread: int) -> bool:
        """Whether no other thread has written since `thread` last looked: then it waits for a write."""
        written = self.writes - self.own[thread]
        if written != self.seen[thread]:
            self.seen[thread] = written
            return False
        self.runnable.remove(thread)
        self.paused.append(thread)
        return True

    def step(self, thread: int) -> None:
        """Let a thread take one step: like `go` with one step, but faster."""
        if self.trace is not None:
            self.go(thread, 1)
            return
        self.steps += 1
        pending = self.pending
        try:
            what = self.resume[thread]()
            while type(what) is tuple:
                count, event, index = what
                if count == SLEEP:
                    self.runnable.remove(thread)
                    self.asleep[thread] = (event, index)
                    break
                self._wake(count, event, index)
                what = self.resume[thread]()
        except StopIteration:
            self.runnable.remove(thread)
            what = None
        if pending[thread]:
            self._wrote(thread)
        if what is WRITE:
            pending[thread] = True
        else:
            pending[thread] = False
            if what is PAUSE:
                self._pauses(thread)

    def finish(self) -> None:
        if self.paused or self.asleep:
            raise _Stuck(f"deadlock: threads {sorted(self.paused)} wait, {sorted(self.asleep)} sleep for ever")
        self.check()
