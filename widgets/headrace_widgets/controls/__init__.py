"""The settings that a user can change: one file for each kind of control that a run offers, and the rate of its input."""

from __future__ import annotations

import html

import ipywidgets as w

from headrace_widgets.controls.choice import ChoiceControl
from headrace_widgets.controls.count import CountControl
from headrace_widgets.controls.number import NumberControl
from headrace_widgets.controls.plan import PlanControl
from headrace_widgets.controls.setting import Setting
from headrace_widgets.messages import Messages
from headrace_widgets.target import Target

KINDS = {"count": CountControl, "choice": ChoiceControl, "number": NumberControl, "plan": PlanControl}
ELSEWHERE = ("mapping",)
"""Kinds of controls that have their own panel."""


def make_controls(target: Target, messages: Messages) -> dict[str, Setting]:
    """Make the controls that the operator has, by name, in its order."""
    return {
        name: (NumberControl if control.scale == "log" else KINDS[control.kind])(target, name, control, messages)
        for name, control in target.controls.items()
        if control.kind in KINDS
    }


def absent_controls(target: Target) -> w.HTML:
    """Return a folded list with a line for each control that the operator lacks, with the reason."""
    why = dict(target.controls.absent)
    for name, control in target.controls.items():
        if control.kind not in (*KINDS, *ELSEWHERE):
            why[name] = f"{control.title}; by a call only: {target.code}.reconfigure({name}=...)"
    if not why:
        return w.HTML()
    names = html.escape(", ".join(why))
    lines = "".join(f"<li><b>{html.escape(name)}</b>: {html.escape(text)}</li>" for name, text in why.items())
    text = f'<details class="headrace-absent"><summary>No control here for {names}</summary><ul>{lines}</ul></details>'
    return w.HTML(text).add_class("headrace-lacks")
