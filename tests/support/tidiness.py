"""What a run must not leave behind."""

from __future__ import annotations

import threading


def threads_of_ours() -> list[str]:
    """Names of the threads that runs of this process have started and that are still alive."""
    return [t.name for t in threading.enumerate() if t.name.startswith("headrace-")]
