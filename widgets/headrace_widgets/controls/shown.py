"""Who has set a widget: the dashboard, or the user."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Shown:
    """Tells a value that the dashboard shows from one that the user sets: both call a widget's observers."""

    def __init__(self):
        self._by: int | None = None

    @contextmanager
    def now(self) -> Iterator[None]:
        """What this thread sets meanwhile was not set by the user."""
        self._by = threading.get_ident()
        try:
            yield
        finally:
            self._by = None

    @property
    def is_now(self) -> bool:
        return self._by == threading.get_ident()
