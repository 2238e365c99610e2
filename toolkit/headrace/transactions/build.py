"""Put a program's kernels and the executors' loop together into one compiled module, one for each family of schemes."""

from __future__ import annotations

from types import ModuleType

from headrace.codegen.included import included
from headrace.codegen.modules import load_module
from headrace.errors import ParameterError
from headrace.gates.variants import put_on
from headrace.transactions import accept_kernel, executor_kernel, operations_kernel, whole_kernel

_FAMILY_KERNELS = {"whole": whole_kernel, "operations": operations_kernel}


def assemble(program_text: str, gate: str, family: str) -> str:
    """Return the module's source: the loop, the family's way through a batch, the program.

    Parameters
    ----------
    program_text : str
        Defines what `executor_kernel` and the family's file ask for, with its imports.
    gate : {"log", "scalegate"}
    family : str
        As `control.family_of` names it.
    """
    if family not in _FAMILY_KERNELS:
        raise ParameterError(f"family={family!r}: there is {', '.join(map(repr, _FAMILY_KERNELS))}")
    instead = {accept_kernel.__name__: put_on(accept_kernel, gate).__name__}
    texts = [included(executor_kernel, instead), included(_FAMILY_KERNELS[family]), program_text.strip() + "\n"]
    return "\n\n".join(texts)


def build(program_text: str, gate: str, family: str, name: str, debug: bool = False) -> ModuleType:
    """Compile (or find in the cache) the module whose `run_executor` is the executor.

    Parameters
    ----------
    program_text, gate, family
        As of `assemble`.
    name : str
        For readers of profiles.
    debug : bool
        Check bounds.
    """
    return load_module(assemble(program_text, gate, family), name, debug=debug, entry="run_executor")


__all__ = ["assemble", "build"]
