"""Kernels that are written for the merged log, and put on another gate by its name."""

from __future__ import annotations

import inspect
from types import ModuleType

from headrace.codegen.modules import load_module
from headrace.gates import source_kernel

GATES = {"log": "merged_log_kernel", "scalegate": "scalegate_kernel"}
"""Kernel module in `headrace.gates`, by the name a user gives."""


def on_gate(text: str, gate: str) -> str:
    """Rewrite the text of kernels for the merged log as a source for `load_module`, for another gate."""
    text = text.replace("from headrace.kernel import kernel", "from headrace.codegen.modules import compiled as kernel")
    if "from headrace.gates.source_kernel import" in text:
        text = text.replace("headrace.gates.source_kernel", source_kernels(gate).__name__)
    return text.replace("headrace.gates.merged_log_kernel", f"headrace.gates.{GATES[gate]}")


def source_kernels(gate: str) -> ModuleType:
    """Return `source_kernel` for a gate.

    Parameters
    ----------
    gate : {"log", "scalegate"}

    Returns
    -------
    ModuleType
        With `add_or_wait`, `heartbeat_or_wait` and `close_or_wait`.
    """
    if gate == "log":
        return source_kernel
    return load_module(on_gate(inspect.getsource(source_kernel), gate), f"source_{gate}")


__all__ = ["GATES", "on_gate", "source_kernels"]
