"""Controls that take effect at once, without waiting for a position in the stream: a batch size, a schedule.

For a section of your own: the controls of the engines here all change at a boundary of the stream. The second engine of
`tests/headrace/runtime/test_second_engine.py` shows the use.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from headrace.changes import Capabilities
from headrace.runtime.steerable import Completion

_LOOK_S = 1e-3


class Immediate:
    """A `Steerable` whose configuration is a dict, replaced as a whole: workers read `current` when they need it.

    Parameters
    ----------
    capabilities : Capabilities
        Values are checked against these.
    configuration : dict
        Control -> value at the start; "threads" must be among the controls.
    """

    planned_left = 0
    is_completing = False

    def __init__(self, capabilities: Capabilities, configuration: Mapping[str, Any]):
        self.capabilities = capabilities
        self.current: dict[str, Any] = dict(configuration)
        self._unseen: deque[Completion] = deque()
        self._placed = 0

    def resolve(self, requested: Mapping[str, Any], newest: dict[str, Any]) -> dict[str, Any]:
        """Complete a request to a full configuration, from the newest one known."""
        return newest | {name: self.capabilities[name].check(name, value) for name, value in requested.items()}

    def describe(self, configuration: dict[str, Any]) -> dict[str, Any]:
        """The configuration itself."""
        return dict(configuration)

    def effects(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, int]:
        """No effects that can be given in numbers."""
        return {}

    def place(self, target: dict[str, Any]) -> int:
        """Put the configuration into force."""
        now = time.monotonic_ns()
        self._placed += 1
        self._unseen.append(Completion(self._placed, self.current, target, now, now, self._placed))
        self.current = target
        return self._placed

    def completed(self) -> Completion | None:
        """The next change that was not returned before."""
        return self._unseen.popleft() if self._unseen else None

    def await_completion(self, timeout_ns: int) -> None:
        """Wait for a moment: changes are complete at once."""
        time.sleep(_LOOK_S)
