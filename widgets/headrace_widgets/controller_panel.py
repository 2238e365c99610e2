"""The panel of controllers: choose one, set its parameters, start and stop it, and read the reasons for its decisions."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets as w

from headrace_widgets.controls.count import whole
from headrace_widgets.feed import Feed
from headrace_widgets.messages import Messages, number
from headrace_widgets.target import Target

BUILT_IN = {
    "Threshold": "threads", "ProactiveJoin": "threads", "ProactiveOperations": "threads", "LoadBalancer": "mapping",
    "Schedule": "threads",
}  # fmt: skip
"""Controllers of `headrace.controllers`, and the control that each needs."""
DAMPING_S = ("up_after_s", "down_after_s", "cooldown_s")
DAMPING = (*DAMPING_S, "max_step")
MOST_DECISIONS = 6
WORDS = {
    "upper": "more threads above (load)",
    "target": "load aimed at",
    "lower": "fewer threads below (load)",
    "horizon_s": "looks ahead (s)",
    "drain_s": "drains a backlog in (s)",
    "memory_s": "halves what it learned in (s)",
    "up_after_s": "adds threads after (s)",
    "down_after_s": "takes threads after (s)",
    "cooldown_s": "rests after a change (s)",
    "max_step": "threads at once (0: any)",
    "steps": "seconds: threads",
}
"""Controllers' parameters -> their labels; other parameters are labelled with the words of their names."""


class ControllerPanel:
    """Steers one operator by policy. A manual change elsewhere always takes precedence for a while.

    Parameters
    ----------
    target : Target
    feed : Feed
        Gives the clock.
    messages : Messages
    own : mapping of name to controller
        The user's controllers, offered beside the built-in ones.
    """

    def __init__(self, target: Target, feed: Feed, messages: Messages, own: Mapping[str, Any] | None = None):
        self._target, self._feed, self._messages = target, feed, messages
        self.is_there = hasattr(target.run, "control")
        self._own = dict(own or {}) if self.is_there else {}
        self._classes = _built_in(target.controls) if self.is_there else {}
        names = [*self._classes, *self._own]
        self.is_there = bool(names)
        self.choice = w.Dropdown(
            options=names, value=names[0] if names else None, description="Controller",
            tooltip="Policy that changes threads or mapping", layout=w.Layout(width="240px"),
        )  # fmt: skip
        self.parameters: dict[str, w.FloatText | w.Text] = {}
        self._damping: Any = None
        self._is_over = False
        self._fields = w.Box()
        self._fields.add_class("headrace-fields")
        self._fold = w.Accordion([self._fields], titles=("Parameters",), selected_index=None)
        button = w.Layout(width="90px")
        self.start = w.Button(
            description="Start", tooltip="Let the controller steer from now on", layout=button
        )
        self.stop = w.Button(
            description="Stop",
            tooltip="Detach the controller; what it did stays",
            layout=button,
            disabled=True,
        )
        self.words = w.HTML()
        self.loop: Any = None
        self.choice.observe(messages.guard(lambda _: self._offer()), "value")
        self.start.on_click(messages.guard(lambda _: self._start()))
        self.stop.on_click(messages.guard(lambda _: self._stop()))
        row = w.HBox([self.choice, self.start, self.stop], layout=w.Layout(align_items="center"))
        self.widget = w.VBox([row, self._fold, self.words])
        self.widget.add_class("headrace-controller")
        if names:
            self._offer()

    def _offer(self) -> None:
        """Show the parameters of the chosen controller, with their defaults."""
        self.parameters, self._damping = {}, None
        kind = self._classes.get(self.choice.value)
        for one in dataclasses.fields(kind) if kind else ():
            if not one.init:
                continue
            if isinstance(one.default, float):
                self._offer_number(one.name, one.default, f"{one.name} of {self.choice.value}")
            elif one.name == "damping":
                self._damping = one.default_factory()  # pyright: ignore[reportCallIssue]
                for name in DAMPING_S:
                    self._offer_number(name, getattr(self._damping, name), f"{name}: keeps it from flapping")
                most = self._damping.max_step or 0
                self._offer_number("max_step", most, "max_step: most threads that come or go at once; 0: any number")
            elif one.name == "steps":
                self.parameters["steps"] = w.Text(
                    "0: 1, 10: 2", description=WORDS["steps"], tooltip="steps: seconds from its start: threads",
                    continuous_update=False, layout=w.Layout(width="auto"), style={"description_width": "180px"},
                )  # fmt: skip
        self._fields.children = list(self.parameters.values())
        self._fold.layout.display = "" if self.parameters else "none"

    def _offer_number(self, name: str, value: float, tooltip: str) -> None:
        self.parameters[name] = w.FloatText(
            value, description=WORDS.get(name, name.removesuffix("_s").replace("_", " ")), tooltip=tooltip,
            step=1 if name == "max_step" else 0.05, layout=w.Layout(width="auto"), style={"description_width": "180px"},
        )  # fmt: skip

    def _arguments(self) -> dict[str, tuple[Any, str]]:
        """Return the arguments of the chosen controller, as values and as Python."""
        values = {name: field.value for name, field in self.parameters.items()}
        if "steps" in values:
            values["steps"] = steps_of(values["steps"])
        damping = {name: values.pop(name) for name in DAMPING if self._damping is not None}
        given = {name: (value, _code(value)) for name, value in values.items()}
        if damping:
            damping["max_step"] = whole("max_step", damping["max_step"]) or None
        if any(value != getattr(self._damping, name) for name, value in damping.items()):
            text = ", ".join(f"{name}={_code(value)}" for name, value in damping.items() if value is not None)
            given["damping"] = type(self._damping)(**damping), f"hr.controllers.Damping({text})"
        return given

    @property
    def code(self) -> str:
        """Return the line of Python that does the same as Start."""
        name = self.choice.value
        if name in self._own:
            return f"run.control({name}{self._target.argument})"
        given = ", ".join(f"{parameter}={text}" for parameter, (_, text) in self._arguments().items())
        return f"run.control(hr.controllers.{name}({given}){self._target.argument})"

    def _start(self) -> None:
        name = self.choice.value
        self._messages.echo(self.code)
        controller = self._own.get(name)
        if controller is None:
            controller = self._classes[name](**{key: value for key, (value, _) in self._arguments().items()})
        self.loop = self._target.run.control(controller, **self._target.keyword)
        self.update()

    def _stop(self) -> None:
        self._messages.echo(f"run.release({self._target.argument.removeprefix(', ')})")
        self._target.run.release(**self._target.keyword)
        self.loop = None
        self.update()

    def end(self) -> None:
        """The run is over: disable starting a controller."""
        self._is_over = True
        for part in (self.choice, self.start, *self.parameters.values()):
            part.disabled = True
        self.update()

    def update(self) -> None:
        """Show the last decisions, and whether a controller is at work."""
        if not self.is_there:
            return
        decisions = [one for one in self._target.run.decisions if self._target.concerns(one.operator)]
        at_work = bool(decisions) and decisions[-1].kind not in ("released", "error") and not self._is_over
        # A controller that was attached or detached by a call shows as well.
        if self.stop.disabled == at_work:
            self.stop.disabled = not at_work
        lines = [html.escape(str(one).strip()) for one in with_clock(decisions[-MOST_DECISIONS:], self._feed)]
        text = "<br>".join(reversed(lines)) or "No decisions yet."
        text = f'<div class="headrace-decisions" role="log" aria-label="Last decisions">{text}</div>'
        if self.words.value != text:
            self.words.value = text


def with_clock(decisions: Sequence[Any], feed: Feed) -> list[Any]:
    """Return the same, with times since the first tuple, as everywhere else, instead of since the controller was attached."""
    return [dataclasses.replace(one, at_s=feed.seconds_of(one.at_ns)) for one in decisions]


def _code(value: Any) -> str:
    return number(value) if isinstance(value, float) else repr(value)


def steps_of(text: str) -> list[tuple[float, int]]:
    """Return the steps that ``"0: 1, 10: 4"`` means: (seconds, threads).

    Raises
    ------
    ValueError
        Says what is wrong and what form is expected.
    """
    steps = []
    for part in text.split(","):
        at, _, threads = part.partition(":")
        try:
            steps.append((float(at), int(threads)))
        except ValueError:
            raise ValueError(
                f"steps: {part.strip()!r} is not a step; write seconds: threads, for example 0: 1, 10: 4"
            ) from None
    return steps


def _built_in(controls: Mapping[str, Any]) -> dict[str, type]:
    from headrace import (
        controllers,  # a public name of the engine's; only a run that can be controlled needs it
    )

    return {name: getattr(controllers, name) for name, control in BUILT_IN.items() if control in controls}
