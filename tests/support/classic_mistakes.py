"""Mistakes planted in the text of what changes a run: in the Python part, in records that travel, in the workers' loop."""

import inspect
import time
from types import ModuleType

import pytest

from headrace.elastic import configuration, reconfiguration, section
from headrace.runtime import changes
from headrace.runtime.gate_inlet import GateInlet
from support.kernel_text import change_kernels


def replaced(text, replacements):
    for old, new in replacements:
        if text.count(old) != 1:  # no assertion: the tests expect assertion errors
            pytest.fail(f"{old!r} occurs {text.count(old)} times: the mistake is out of date")
        text = text.replace(old, new)
    return text


PLACES = {
    changes: "headrace.runtime.run.Changes",
    reconfiguration: "headrace.elastic.section.Reconfiguration",
    configuration: "headrace.elastic.reconfiguration.resolve",
}
"""The files in which a mistake may be planted, and where their definitions are used."""


def with_mistakes(replacements):
    """Return the changed texts, by module."""
    texts = {module: inspect.getsource(module) for module in PLACES}
    for old, new in replacements:
        holding = [module for module, text in texts.items() if old in text]
        if len(holding) != 1 or texts[holding[0]].count(old) != 1:  # no assertion: the tests expect assertion errors
            pytest.fail(f"{old!r} is in {len(holding)} files, or there several times: the mistake is out of date")
        texts[holding[0]] = texts[holding[0]].replace(old, new)
    return {module: text for module, text in texts.items() if text != inspect.getsource(module)}


def plant_in_changes(monkeypatch, replacements):
    """Run with mistakes in these files; records that a mistake puts into `travelling` go with their source."""
    for module, text in with_mistakes(replacements).items():
        planted = ModuleType(module.__name__)
        exec(compile(text, "<planted>", "exec"), vars(planted))  # our own file
        if module is configuration:
            planted.Configuration = configuration.Configuration  # one class: otherwise no two would be equal
        monkeypatch.setattr(PLACES[module], getattr(planted, PLACES[module].rsplit(".", 1)[1]))
    made = []
    planted_class = section.Reconfiguration

    class Noted(planted_class):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(section, "Reconfiguration", Noted)
    whole = GateInlet.hold

    def hold(inlet, piece):
        """Deliver the records that travel with this source."""
        for steerable in made:
            for source, row in getattr(steerable, "travelling", [])[:]:
                if source == inlet.number and steerable._gate is inlet._source.gate:
                    steerable.travelling.remove((source, row))
                    while steerable._kernels.control(steerable._gate, row) == 0:
                        time.sleep(20e-6)
        whole(inlet, piece)

    monkeypatch.setattr(GateInlet, "hold", hold)


def plant_in_loop(monkeypatch, replacements):
    """Run with mistakes in the text of the loop, or in what it calls."""
    change_kernels(monkeypatch, lambda text: replaced(text, replacements))
