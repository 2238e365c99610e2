"""Kernels that are written for the merged log, and put on other kernels by the name of their module.

A kernel can call the kernels of one gate only, and each gate has kernels of the
same names. So what works on any gate is written once, with imports from
`merged_log_kernel`; for another gate, or whatever else has such kernels (an
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
"""The gate whose kernels the text of what works on any gate imports."""
_SHARED = (source_kernel, reader_kernel)
"""What sources do on any gate, and what readers do."""


def check_gate(gate: object) -> None:
    """Raise `ParameterError` if there is no such gate."""
    if gate not in GATES:
        raise ParameterError(f'gate={gate!r}: give "log" or "scalegate"')


def gate_kernels(gate: str) -> ModuleType:
    """Return the kernel module of a gate."""
    check_gate(gate)
    return importlib.import_module(GATES[gate])


def instead_of(kernels: str) -> dict[str, str]:
    """Return what a file of kernels that is written for the merged log is to import instead, for `included`.

    Parameters
    ----------
    kernels : str
        Dotted name of a module with the kernels of a gate.
    """
    return {WRITTEN_FOR: kernels, **{shared.__name__: _put_on(shared, kernels).__name__ for shared in _SHARED}}


def put_on(module: ModuleType, gate: str) -> ModuleType:
    """Return a file of kernels that is written for the merged log, for a gate: itself, or a generated module."""
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
        With `add`, `heartbeat`, `close_source`, and each of them with a wait for room.
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
