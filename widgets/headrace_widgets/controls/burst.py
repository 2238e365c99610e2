"""The control of a burst: three times the rate for five seconds, then back."""

from __future__ import annotations

from typing import Any

import ipywidgets as w

from headrace_widgets.controls.rate import RateControl
from headrace_widgets.messages import Messages, number
from headrace_widgets.target import Target

TIMES, SECONDS = 3, 5


class BurstControl:
    """A button in the row of the rate, active where the rate is set in tuples per second.

    It requests a single schedule, so that tuples that pile up in the burst are still due after it.
    """

    def __init__(self, target: Target, messages: Messages, rate: RateControl):
        self._target, self._messages, self._rate = target, messages, rate
        self._schedule: Any = None
        self._base = 0.0
        self.button = w.Button(
            description=f"Burst {TIMES}×", tooltip=f"{TIMES} times the rate for {SECONDS} seconds, then back",
            layout=w.Layout(width="auto"),
        )  # fmt: skip
        self.button.on_click(messages.guard(lambda _: self._burst()))
        rate.widget.children = (*rate.widget.children, self.button)
        self.show()

    def _burst(self) -> None:
        # A second click restarts the burst; the rate afterwards is still the one before the first click.
        is_on = self._schedule is not None and self._target.schedule is self._schedule
        playing = self._rate.playing
        if playing is None:
            raise ValueError("a burst needs a rate: the input is played at full speed")
        self._base = self._base if is_on else playing[1]
        steps = f"[({SECONDS}, {number(TIMES * self._base)}), (1, {number(self._base)})]"
        self._messages.echo(f"{self._target.rate_code} = hr.rates.phases({steps})")
        self._schedule = _phases([(SECONDS, TIMES * self._base), (1, self._base)])
        self._target.run.rate = self._schedule

    def show(self) -> None:
        """Enable the button while there is a rate to multiply."""
        playing = self._rate.playing
        disabled = playing is None or playing[0] != "rate" or self._target.run.state != "running"
        if self.button.disabled != disabled:
            self.button.disabled = disabled


def _phases(steps: list[tuple[float, float]]) -> Any:
    from headrace import rates  # a public name of the engine's; only a run that is paced needs it

    return rates.phases(steps)
