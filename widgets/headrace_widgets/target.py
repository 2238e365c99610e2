"""The operator that the controls concern, and how a user would write it."""

from __future__ import annotations

from typing import Any


class Target:
    """One operator of a run, or the run where it has only one.

    Parameters
    ----------
    run : Run
    operator : str or None
        None: the run itself, for engines that have no operators to choose from.
    """

    def __init__(self, run: Any, operator: str | None):
        self.run, self.operator = run, operator
        operators = getattr(run, "operators", ())
        several = operator is not None and len(operators) > 1
        # Of a run's only operator it is the same, found at less cost.
        self._handle = run[operator] if operator in operators else run
        self.code = f"run[{operator!r}]" if several else "run"
        """What stands before `.reconfigure(...)`."""
        self._several = several

    @property
    def argument(self) -> str:
        """What a call of the run that takes `operator=` needs in addition."""
        return f", operator={self.operator!r}" if self._several else ""

    @property
    def keyword(self) -> dict[str, str]:
        """The same, for the call itself."""
        return {"operator": str(self.operator)} if self._several else {}

    @property
    def threads(self) -> int:
        return self._handle.threads

    @property
    def schedule(self) -> Any:
        """The schedule of `headrace.rates` that paces the run; None without one.

        `run.rate` is None both without a schedule and where event times are played: what tells them apart has no
        public name.
        """
        try:
            return self.run._sources[0]._port.player.schedule
        except (AttributeError, IndexError):
            return None

    @property
    def mapping(self) -> Any:
        return self._handle.mapping

    def reconfigure(self, **wish: Any) -> Any:
        """As the run's."""
        return self._handle.reconfigure(**wish)

    def concerns(self, operator: str) -> bool:
        """Whether something said about an operator is about this one."""
        return self.operator is None or operator == self.operator
