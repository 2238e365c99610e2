"""Load kernels written for the merged log on another gate, by the name of its kernel module.

A kernel can call the kernels of one gate only, and each gate has kernels of the
same names. So code that works on any gate is written once, with imports from
`merged_log_kernel`. For another gate, or anything else with such kernels (an
instance's queues), its text is loaded again with imports from there.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from headrace.codegen.included import included
from headrace.codegen.modules import load_module
from headrace.errors import ParameterError
from headrace.gates import reader_kernel, source_kernel

GATES = {"log": "headrace.gates.merged_log_kernel", "scalegate": "headrace.gates.scalegate_kernel"}
"""Kernel module by the name a user gives."""

WRITTEN_FOR = GATES["log"]
"""The gate whose kernels are imported in the text of kernels that work on any gate."""
_SHARED = (source_kernel, reader_kernel)
"""The kernels of sources and of readers on any gate."""


def check_gate(gate: object) -> None:
    """Raise `ParameterError` if there is no such gate."""
    if gate not in GATES:
        raise ParameterError(f'gate={gate!r}: give "log" or "scalegate"')


def gate_kernels(gate: str) -> ModuleType:
    """Return the kernel module of a gate."""
    check_gate(gate)
    return importlib.import_module(GATES[gate])


def instead_of(kernels: str) -> dict[str, str]:
    """Return the replacements of imports, for `included`, that put a file written for the merged log on other kernels.

    Parameters
    ----------
    kernels : str
        Dotted name of a module with the kernels of a gate.
    """
    return {WRITTEN_FOR: kernels, **{shared.__name__: _put_on(shared, kernels).__name__ for shared in _SHARED}}


def put_on(module: ModuleType, gate: str) -> ModuleType:
    """Return a kernel module written for the merged log in its form for a gate: itself, or a generated module."""
    check_gate(gate)
    if GATES[gate] == WRITTEN_FOR:
        return module
    return load_module(included(module, instead_of(GATES[gate])), _name(module, GATES[gate]))


def source_kernels(gate: str) -> ModuleType:
    """Return `source_kernel` for a gate.

    Parameters
    ----------
    gate : {"log", "scalegate"}

    Returns
    -------
    ModuleType
        It has `add`, `heartbeat`, `close_source`, and a variant of each that waits for room.
    """
    check_gate(gate)
    return _put_on(source_kernel, GATES[gate])


def _put_on(shared: ModuleType, kernels: str) -> ModuleType:
    if kernels == WRITTEN_FOR:
        return shared
    return load_module(included(shared, {WRITTEN_FOR: kernels}), _name(shared, kernels))


def _name(module: ModuleType, kernels: str) -> str:
    role, whose = (name.rpartition(".")[2].removesuffix("_kernel") for name in (module.__name__, kernels))
    return f"{role} {whose}"


__all__ = [
    "GATES",
    "WRITTEN_FOR",
    "check_gate",
    "gate_kernels",
    "instead_of",
    "put_on",
    "source_kernels",
]
