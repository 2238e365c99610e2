"""Put an operator's kernels and the instance loop together into one compiled module."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

from headrace.codegen.modules import load_module
from headrace.codegen.text import in_templates
from headrace.gates.variants import GATES
from headrace.operators import instance_loop

CUT = "# --- cut ---"


def assemble(operator_text: str, gate: str) -> str:
    """Return the module's source: imports, the loop's constants, the operator, the loop.

    Parameters
    ----------
    operator_text : str
        Defines `promise`, `begin`, `process`, `advance_time` and `finish`.
    gate : str
        "log" or "scalegate".

    Notes
    -----
    Templates write the state's arrays as ``s[0]``, ``s[1]``, ...; here they
    become fields of the bundle they are passed as. User functions in it are not touched.
    """
    source = inspect.getsource(instance_loop)
    imports, loop = source.split(CUT)
    imports = imports.split('"""', 2)[2]
    constants, kernels = loop.split("@kernel", 1)
    text = (
        imports.replace("from headrace.kernel import kernel", "from headrace.codegen.modules import compiled as kernel")
        + constants
        + operator_text
        + "\n\n@kernel"
        + kernels
    )

    def adapted(line: str) -> str:
        line = re.sub(r"\bs\[(\d+)\]", r"s.f\1", line)
        return line.replace("gates.merged_log_kernel", f"gates.{GATES[gate]}")

    return in_templates(text, adapted)


def build(operator_text: str, gate: str, name: str, debug: bool = False) -> ModuleType:
    """Compile (or find in the cache) the module whose `run_instance` is the instance."""
    return load_module(assemble(operator_text, gate), name, debug=debug, entry="run_instance")
