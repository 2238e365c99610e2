"""Sharing a stream that can be read only once: each operator gets every batch and watermark, and none runs far ahead.

The taker that needs the next batch reads it for all, while the others take the batches they have, so no thread is needed.

State       WAITING per taker: batches that were read and that it has not taken
Invariants  I1  a taker gets every batch once, in order; all takers get the same objects
            I2  no taker has more than `MOST_AHEAD` batches waiting: takers that are further ahead wait for it
Waiting     On one condition, notified after each batch that is read or taken, at the end and by `stop`.
Progress    Takers whose paths meet again do not deadlock as long as the same batches move event time on all paths: the gate
            where they meet can take what each has passed on. A path that delays event time (a window)
            needs the batches of its whole delay, but at most `MOST_AHEAD` are held.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import deque
from collections.abc import Iterator

from headrace.ingress.readers import Item, Reader

MOST_AHEAD = 64
"""Batches by which one taker may be ahead of another."""


class SharedStream:
    """Lets several takers each read all of one stream.

    Parameters
    ----------
    reader : Reader
        Of a stream that has no other reader.
    takers : int
    """

    def __init__(self, reader: Reader, takers: int):
        self._reader, self._waiting = reader, [deque[Item]() for _ in range(takers)]
        self._changed = threading.Condition()
        self._batches: Iterator[Item] | None = None
        self._is_read = self._is_over = False
        self._error: BaseException | None = None

    def taker(self, number: int) -> Reader:
        """Return the reader of one taker, counted from 0."""
        given = self._reader
        # Waiting batches have been validated.
        return dataclasses.replace(
            given, batches=lambda: self._take(number), is_validated=False, reopen=None, stop=self.stop, is_started=False
        )

    def stop(self) -> None:
        """End the stream for all takers."""
        if self._reader.stop is not None:
            self._reader.stop()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _take(self, number: int) -> Iterator[Item]:
        own = self._waiting[number]
        while True:
            with self._changed:
                self._changed.wait_for(lambda: own or self._is_over or self._may_read())
                if not own and self._error is not None:
                    raise self._error
                if not own and self._is_over:
                    return
                batch = own.popleft() if own else None
                self._is_read |= batch is None
                self._changed.notify_all()
            if batch is None:
                self._read()
            else:
                yield batch

    def _may_read(self) -> bool:
        return not self._is_read and all(len(waiting) < MOST_AHEAD for waiting in self._waiting)

    def _read(self) -> None:
        """Read one batch for all takers."""
        batch, error = None, None
        try:
            if self._batches is None:
                self._batches = iter(self._reader)
            batch = next(self._batches, None)
        except BaseException as raised:
            error = raised
        with self._changed:
            if batch is None:
                self._is_over, self._error = True, error
            else:
                for waiting in self._waiting:
                    waiting.append(batch)
            self._is_read = False
            self._changed.notify_all()


__all__ = ["SharedStream"]
