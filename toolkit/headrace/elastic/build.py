"""Build an operator's kernels, and the instance loop that calls them by address, compiled once for all operators."""

from __future__ import annotations

from headrace.codegen.called import Entry, Looped, entries_text, names_of, stubs_text
from headrace.codegen.included import imports_of, included
from headrace.codegen.modules import load_module
from headrace.elastic import instance_loop, local_days_kernel
from headrace.elastic.instance_loop import ENTRIES_AT
from headrace.gates import reader_kernel
from headrace.gates.variants import GATES, WRITTEN_FOR

READS_ALL = """
# The rows that an instance reads of a source are consecutive.
ROWS_FOLLOW = True

"""

READS_SOME = """
# The rows that an instance reads of a source have gaps between them.
ROWS_FOLLOW = False

"""

SHARES_STATE = '''
# The instances share the state.
process_batch = process


@kernel
def transfer(me, c, s, config, next_config, epoch):
    """Last arriver: state that changes owner stays where it is."""
    return


'''

_SHARES_LOG = SHARES_STATE + '''
from headrace.elastic.instance_loop import SEEN


@kernel
def tuples_before(g, l, row, start):
    """Count the tuples of the merged input before a record: this instance read them all."""
    return l[SEEN]
'''

SHARING = READS_ALL + _SHARES_LOG
SHARING_WITH_GAPS = READS_SOME + _SHARES_LOG
"""For a log that some rows of the input do not enter."""

_RECORDS = "me, g, c, o, x, s, l, buffer"
_ENTRIES = (
    Entry("promise", "l", "return np.int64(promise(l))"),
    Entry("hand_over", "l, s, me, joiner", "hand_over(s, me, joiner)\nreturn np.int64(0)"),
    Entry("begin", "c, l, s, buffer", "begin(c, l, s, buffer)\nreturn np.int64(0)"),
    Entry("tuples_before", "g, l, row, start", "return np.int64(tuples_before(g, l, row, start))"),
    Entry("process_batch", f"{_RECORDS}, row, start, count", f"return np.int64(process_batch({_RECORDS}, row, start, count))"),
    Entry("advance_time", f"{_RECORDS}, ts", f"return np.int64(advance_time({_RECORDS}, ts))"),
    Entry("finish", _RECORDS, f"return np.int64(finish({_RECORDS}))"),
    Entry(
        "transfer", "l, me, c, s, config, next_config, epoch",
        "transfer(me, c, s, config, next_config, epoch)\nreturn np.int64(0)",
    ),
)  # fmt: skip


PLAIN_UNITS = '''
@kernel
def to_units(s, t):
    return t


@kernel
def to_time(s, units):
    return units


'''


def units_text(is_local: bool) -> str:
    """Return the kernels that convert event times to the units of windows: the stream's unit, or days of a time zone."""
    return included(local_days_kernel) if is_local else PLAIN_UNITS


class Instance(Looped):
    """The compiled entries of an operator and the loop that calls them; ``run(me, g, c, o, x, s, l, buffer)`` is `run_instance`.

    Parameters
    ----------
    operator_text : str
        Defines `promise`, `hand_over`, `begin`, `process`, `advance_time` and `finish`, with its imports.
    gate : str
        Name of the module whose kernels read the input.
    name : str
        Name of the generated module, as profiles show it.
    sharing : str
        Defines `process_batch`, `tuples_before`, `transfer` and ROWS_FOLLOW.
    debug : bool
        Check array bounds.
    """

    def __init__(self, operator_text: str, gate: str, name: str, sharing: str = SHARING, debug: bool = False):
        loop_text, text = sources(operator_text, gate, sharing)
        generated = load_module(text, name, debug=debug, entry=names_of(_ENTRIES))
        loop = load_module(loop_text, "instance", debug=debug, entry="run_instance")
        super().__init__(generated, loop.run_instance, _ENTRIES, ENTRIES_AT, _RECORDS, ("s", "buffer"))


def sources(operator_text: str, gate: str, sharing: str) -> tuple[str, str]:
    """Return the sources of the loop and of an operator's module."""
    text = "\n\n".join([_names_of_the_loop(gate), operator_text.strip(), sharing, entries_text(_ENTRIES)])
    return loop_source(gate), text


def _names_of_the_loop(gate: str) -> str:
    """Write imports of the names that the loop imports and of its constants: operators' texts use them."""
    imports, imported = imports_of(instance_loop, {WRITTEN_FOR: gate})
    constants = [name for name in vars(instance_loop) if name.isupper() and name not in imported]
    return f"{imports}\nfrom {instance_loop.__name__} import {', '.join(constants)}"


def loop_source(gate: str) -> str:
    """Return the source of the loop that reads a gate by the kernels of a module: the same for every operator."""
    waiting = included(reader_kernel, {WRITTEN_FOR: gate})
    loop = included(instance_loop, {WRITTEN_FOR: gate, reader_kernel.__name__: ""})
    return "\n\n".join([waiting, loop, stubs_text(_ENTRIES, ENTRIES_AT)])


def build(operator_text: str, gate: str, name: str, debug: bool = False, sharing: str = SHARING) -> Instance:
    """Return the `Instance` of an operator that reads a gate; by default its instances share their state.

    Parameters
    ----------
    operator_text : str
        As for `Instance`.
    gate : {"log", "scalegate"}
    name : str
        As for `Instance`.
    debug : bool
        Check array bounds.
    sharing : str
        As for `Instance`.
    """
    return Instance(operator_text, GATES[gate], name, sharing, debug)
