"""Put an operator's kernels and the instance loop together into one compiled module."""

from __future__ import annotations

from types import ModuleType

from headrace.codegen.included import included
from headrace.codegen.modules import load_module
from headrace.elastic import instance_loop, local_days_kernel
from headrace.gates import reader_kernel
from headrace.gates.variants import GATES, WRITTEN_FOR

SHARING = '''
# The instances share the state, and each reads every tuple.
process_batch = process


@kernel
def tuples_before(g, l, row, start):
    """How many tuples of the merged input come before a record: all were read here."""
    return l[SEEN]


@kernel
def transfer(me, c, s, config, next_config, epoch):
    """Last arriver: state that changes owner stays where it is."""
    return
'''


PLAIN_UNITS = '''
@kernel
def to_units(s, t):
    return t


@kernel
def to_time(s, units):
    return units


'''


def units_text(is_local: bool) -> str:
    """Return the kernels that say what windows are counted in: the stream's unit, or days of a time zone."""
    return kernels_of(local_days_kernel) if is_local else PLAIN_UNITS


def kernels_of(module: ModuleType) -> str:
    """Return the text of a file of an operator's kernels, for `assemble`; the loop's names are in the module already."""
    return included(module, {instance_loop.__name__: ""})


def assemble(operator_text: str, gate: str, sharing: str = SHARING) -> str:
    """Return the module's source: the loop, the operator, and how instances share.

    Parameters
    ----------
    operator_text : str
        Defines `promise`, `hand_over`, `begin`, `process`, `advance_time` and `finish`, with its imports.
    gate : str
        Name of the module whose kernels the input is read by.
    sharing : str
        Defines `process_batch`, `tuples_before` and `transfer`.
    """
    waiting = included(reader_kernel, {WRITTEN_FOR: gate})
    loop = included(instance_loop, {WRITTEN_FOR: gate, reader_kernel.__name__: ""})
    return f"{waiting}\n\n{loop}\n\n{operator_text.strip()}\n\n{sharing}"


def build(operator_text: str, gate: str, name: str, debug: bool = False) -> ModuleType:
    """Compile (or find in the cache) the module whose `run_instance` is the instance.

    Parameters
    ----------
    operator_text : str
        As of `assemble`.
    gate : {"log", "scalegate"}
    name : str
        For readers of profiles.
    debug : bool
        Check bounds.
    """
    return load_module(assemble(operator_text, GATES[gate]), name, debug=debug, entry="run_instance")
