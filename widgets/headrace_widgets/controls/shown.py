"""Telling whether the dashboard or the user has set a widget."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Shown:
    """Distinguishes a value that the dashboard shows from one that the user sets: both call a widget's observers."""

    def __init__(self):
        self._by: int | None = None

    @contextmanager
    def now(self) -> Iterator[None]:
        """A context in which values that this thread sets do not count as set by the user."""
        self._by = threading.get_ident()
        try:
            yield
        finally:
            self._by = None

    @property
    def is_now(self) -> bool:
        return self._by == threading.get_ident()
