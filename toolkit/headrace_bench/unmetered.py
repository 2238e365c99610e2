"""Executors of transactions that do not read the clock: they are faster by the cost of the time breakdown.

The loop is built from the engine's own files. Each file that books time, and each that calls such a file, is loaded a second
time with those lines removed. If the number of these lines in a file changes, an assertion fails (`_without_clock`).
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from types import ModuleType

from headrace.codegen.called import Looped, names_of, stubs_text
from headrace.codegen.included import included
from headrace.codegen.modules import load_module
from headrace.transactions import build, executor_kernel, phases_kernel, schemes_kernel
from headrace.workers import worker_kernel

_BEGUN = re.compile(r"^ *begun = now_ns\(\)\n", re.MULTILINE)
_BOOKED = re.compile(r"^ *c\.meter\[me, (?:PREPARE|LOCK|POST)_NS\] \+= now_ns\(\) - begun\n", re.MULTILINE)
_TURN = re.compile(r"(def turn\(meter, me, state\):\n    \"\"\".*?\"\"\"\n)(?:    .*\n)+")
_SPANS = {executor_kernel: 2, phases_kernel: 1, schemes_kernel: 1}
"""Files that book time outside `turn` -> number of places."""
_CALLS = re.compile(r"^from (headrace\.(?:transactions|workers)\.\w+_kernel) import", re.MULTILINE)


class Unmetered(Looped):
    """As `headrace.transactions.build.Built`, but without reading the clock."""

    def __init__(self, operator_text: str, family: str, name: str, debug: bool = False):
        entries = build.ENTRIES[family]
        generated = load_module(build.operator_source(operator_text, family), name, debug=debug, entry=names_of(entries))
        texts = [_text(executor_kernel), _text(build.FAMILY_KERNELS[family]), stubs_text(entries, build.ENTRIES_AT)]
        loop = load_module("\n\n".join(texts), f"unmetered_{family}", entry="run_executor")
        super().__init__(generated, loop.run_executor, entries, build.ENTRIES_AT, "me, g, c, o, x, s, l", ("s",))


def _text(module: ModuleType) -> str:
    """The text of a file without the clock, which calls other files without it."""
    called = {importlib.import_module(name) for name in _CALLS.findall(inspect.getsource(module))}
    instead = {each.__name__: _loaded(each).__name__ for each in called if _has_clock(each)}
    return _without_clock(module, included(module, instead))


@functools.cache
def _loaded(module: ModuleType) -> ModuleType:
    return load_module(_text(module), f"unmetered_{module.__name__.rpartition('.')[2]}")


@functools.cache
def _has_clock(module: ModuleType) -> bool:
    """Whether a module books time, or calls one that does."""
    called = _CALLS.findall(inspect.getsource(module))
    return module is worker_kernel or module in _SPANS or any(_has_clock(importlib.import_module(name)) for name in called)


def _without_clock(module: ModuleType, text: str) -> str:
    if module is worker_kernel:
        text, count = _TURN.subn(r"\1    return 0\n", text)
        assert count == 1, "where is `turn`?"
    if module in _SPANS:
        text, begun = _BEGUN.subn("", text)
        text, booked = _BOOKED.subn("", text)
        assert begun == booked == _SPANS[module], f"{module.__name__} books time {booked} times"
    return text


__all__ = ["Unmetered"]
