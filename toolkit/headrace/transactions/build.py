"""A program's kernels and the executors' loop, which calls them by address: the loop is compiled once for all programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.codegen.called import address_of, opaque
from headrace.codegen.included import included
from headrace.codegen.modules import load_module
from headrace.errors import ParameterError
from headrace.gates.variants import GATES, WRITTEN_FOR
from headrace.kernel import compile_now
from headrace.transactions import executor_kernel, operations_kernel, whole_kernel
from headrace.transactions.words import PROGRAM

_FAMILY_KERNELS = {"whole": whole_kernel, "operations": operations_kernel}

# What the loop calls -> parameters, and what the entry does with the program's kernel.
_BEGINS = ("executor_begins", "me, c, s, l", "executor_begins(me, c, s, l)\nreturn np.int64(0)")
_GIVES = ("give_event", "me, c, o, x, s, l, i, slot", "give_event(me, c, o, x, s, l, i, slot)\nreturn np.int64(0)")
_ENTRIES = {
    "whole": (
        _BEGINS,
        _GIVES,
        ("prepare_events", "me, c, x, s, l, first, last", "return prepare_events(me, c, x, s, l, first, last)"),
        ("run_event", "me, c, x, s, l, i", "run_event(me, c, x, s, l, i)\nreturn np.int64(0)"),
    ),
    "operations": (
        _BEGINS,
        _GIVES,
        ("prepare_operations", "me, c, x, s, l, first, last", "return prepare_operations(me, c, x, s, l, first, last)"),
        (
            "run_operations",
            "me, c, x, s, l, first, last, executed",
            """
for k in range(first, last):
    o = c.entries[k]
    i = c.event_of[o]
    if i >= executed:
        break
    l[CAUSE] = i
    run_operation(me, c, x, s, l, i, c.link[o])
return np.int64(0)""",
        ),
        (
            "finish_events",
            "me, c, x, s, l, first, last",
            """
for i in range(first, last):
    l[CAUSE] = i
    finish_event(me, c, x, s, l, i)
return np.int64(0)""",
        ),
    ),
}

_ENTRY = """
@kernel
def entry_{name}({parameters}):
{body}
"""

_STUB = """
@kernel
def {name}({parameters}):
    return call(l[{word}], ({parameters}))
"""


class Built:
    """A program's entries, and the loop of a family of schemes.

    Parameters
    ----------
    program_text : str
        Defines what `executor_kernel` and the family's file ask for, with its imports.
    gate : {"log", "scalegate"}
    family : str
        As `control.family_of` names it.
    name : str
        For readers of profiles.
    debug : bool
        Check bounds.
    """

    def __init__(self, program_text: str, gate: str, family: str, name: str, debug: bool = False):
        if family not in _FAMILY_KERNELS:
            raise ParameterError(f"family={family!r}: there is {', '.join(map(repr, _FAMILY_KERNELS))}")
        self._entries = _ENTRIES[family]
        entries = tuple(f"entry_{name}" for name, _, _ in self._entries)
        self.program = load_module(program_source(program_text, family), name, debug=debug, entry=entries)
        """The module of the program's kernels."""
        self._loop = load_module(loop_source(gate, family), f"executor_{family}", entry="run_executor")
        self._addresses: np.ndarray | None = None

    def compile(self, arguments: tuple) -> None:
        """Compile for these arguments of `run_executor`, without running."""
        me, g, c, o, x, s, l = arguments
        given = {"me": me, "c": c, "o": o, "x": x, "s": s, "l": l}
        addresses = []
        for name, parameters, _ in self._entries:
            values = tuple(given.get(parameter, 0) for parameter in parameters.split(", "))
            addresses.append(address_of(getattr(self.program, f"entry_{name}"), values))
        self._addresses = np.array(addresses, np.int64)
        compile_now(self._loop.run_executor, (me, g, c, o, x, opaque(s), l))

    def run_executor(self, me: int, g: Any, c: Any, o: Any, x: np.ndarray, s: Any, l: np.ndarray) -> int:
        """Run an executor: see `executor_kernel.run_executor`."""
        assert self._addresses is not None
        l[PROGRAM : PROGRAM + len(self._addresses)] = self._addresses
        return self._loop.run_executor(me, g, c, o, x, opaque(s), l)


def program_source(text: str, family: str) -> str:
    """Return the source of a program's module."""
    source = ["import numpy as np\nfrom headrace.transactions.words import CAUSE", text.strip()]
    for name, parameters, body in _ENTRIES[family]:
        lines = "\n".join("    " + line for line in body.strip("\n").split("\n"))
        source.append(_ENTRY.format(name=name, parameters=parameters, body=lines))
    return "\n\n".join(source)


def loop_source(gate: str, family: str) -> str:
    """Return the source of the loop: the same for every program."""
    stubs = ["from headrace.codegen.called import call"]
    for word, (name, parameters, _) in enumerate(_ENTRIES[family], start=PROGRAM):
        stubs.append(_STUB.format(name=name, parameters=parameters, word=word))
    loop = included(executor_kernel, {WRITTEN_FOR: GATES[gate]})
    return f"{loop}\n\n{included(_FAMILY_KERNELS[family])}\n\n{chr(10).join(stubs)}"


__all__ = ["Built", "loop_source", "program_source"]
