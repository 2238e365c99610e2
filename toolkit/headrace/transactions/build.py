"""An operator's kernels and the executors' loop, which calls them by address: the loop is compiled once for all operators."""

from __future__ import annotations

from headrace.codegen.called import Entry, Looped, entries_text, names_of, stubs_text
from headrace.codegen.included import included
from headrace.codegen.modules import load_module
from headrace.errors import ParameterError
from headrace.transactions import (
    executor_kernel,
    operations_kernel,
    speculative_kernel,
    whole_kernel,
)
from headrace.transactions.words import ENTRIES_AT

FAMILY_KERNELS = {"whole": whole_kernel, "operations": operations_kernel, "speculative": speculative_kernel}

_BEGINS = Entry("executor_begins", "me, c, s, l", "executor_begins(me, c, s, l)\nreturn np.int64(0)")
_GIVE_EVENTS = """
for k in range(count):
    give_event(me, c, o, x, s, l, i + k, slot + k)
return np.int64(0)
"""
_GIVES = Entry("give_events", "me, c, o, x, s, l, i, slot, count", _GIVE_EVENTS)
_FINISH_EVENTS = """
for i in range(first, last):
    l[CAUSE] = i
    finish_event(me, c, x, s, l, i)
return np.int64(0)
"""
_RUNS = Entry("run_event", "me, c, x, s, l, i", "run_event(me, c, x, s, l, i)\nreturn np.int64(0)")
_RUN_EVENTS = """
for i in range(first, last):
    l[CAUSE] = i
    run_event(me, c, x, s, l, i)
return np.int64(0)
"""
_WRITE_VERSIONS = "write_versions(me, c, s, stop)\nreturn np.int64(0)"
_SLICE = "me, c, x, s, l, first, last"
ENTRIES = {
    "whole": (
        _BEGINS,
        _GIVES,
        Entry("prepare_events", _SLICE, f"return np.int64(prepare_events({_SLICE}))"),
        _RUNS,
        Entry("run_events", _SLICE, _RUN_EVENTS),
    ),
    "operations": (
        _BEGINS,
        _GIVES,
        Entry("prepare_operations", _SLICE, f"return np.int64(prepare_operations({_SLICE}))"),
        Entry(
            "run_operations", f"{_SLICE}, executed", f"run_operations({_SLICE}, executed)\nreturn np.int64(0)"
        ),
        Entry("finish_events", _SLICE, _FINISH_EVENTS),
    ),
    "speculative": (
        _BEGINS,
        _GIVES,
        Entry("attempt", "me, c, x, s, l, i", "return np.int64(attempt(me, c, x, s, l, i))"),
        _RUNS,
        Entry("write_versions", "me, c, s, l, stop", _WRITE_VERSIONS),
    ),
}


class Built(Looped):
    """An operator's entries, and the loop of a family of schemes: ``run(me, g, c, o, x, s, l)`` is `run_executor`.

    Parameters
    ----------
    operator_text : str
        Defines what `executor_kernel` and the family's file ask for, with its imports.
    family : str
        As `configuration.family_of` names it.
    name : str
        For readers of profiles.
    debug : bool
        Check bounds.
    """

    def __init__(self, operator_text: str, family: str, name: str, debug: bool = False):
        if family not in FAMILY_KERNELS:
            raise ParameterError(f"family={family!r}: there is {', '.join(map(repr, FAMILY_KERNELS))}")
        entries = ENTRIES[family]
        generated = load_module(operator_source(operator_text, family), name, debug=debug, entry=names_of(entries))
        loop = load_module(loop_source(family), f"executor_{family}", entry="run_executor")
        super().__init__(generated, loop.run_executor, entries, ENTRIES_AT, "me, g, c, o, x, s, l", ("s",))


def operator_source(text: str, family: str) -> str:
    """Return the source of an operator's module."""
    return "\n\n".join([text.strip(), "from headrace.transactions.words import CAUSE", entries_text(ENTRIES[family])])


def loop_source(family: str) -> str:
    """Return the source of the loop: the same for every operator."""
    return "\n\n".join([included(executor_kernel), included(FAMILY_KERNELS[family]), stubs_text(ENTRIES[family], ENTRIES_AT)])


__all__ = ["ENTRIES", "FAMILY_KERNELS", "Built", "loop_source", "operator_source"]
