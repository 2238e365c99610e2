"""The tuple buffer that all instances of an operator share: merge-sorted once, read by all.

`MergedLog` (the default) and `ScaleGate` (the papers' lock-free skip list) have
one API, that of STRETCH's Table II, and pass one test suite. Both deliver every
record of every source to every reader exactly once, in the same
order (ts, source, position) for all readers, as soon as no earlier record can come.

For readers that depend on the watermark but not on the order, a
`MergedLog` with a lead delivers records as they arrive (`arrival_kernel`).

`ReaderChannels` is the other way to share work in one order, Viper's: a channel
for each reader, into which senders route what that reader owns.

The handles are for Python callers, tests and teaching; compiled workers call the
kernels beside them on their `arrays`.

======================  =========================================================
``tuple_buffer``        the handle that both gates share: Table II's six methods
``merged_log``          the merged log, ``merged_log_kernel`` and its cells, ``log_words``
``merging_kernel``      merges several rings into one: in the merged log, and in channels
``arrival_kernel``      puts records into the log as they arrive, if no reader needs the order
``content_kernel``      puts records of equal time into the log in order of their content
``scalegate``           the ScaleGate, and ``scalegate_kernel``
``skip_list_kernel``    its skip list: nodes, and when one may be reused
``membership_kernel``   cells that both gates have, and scans of the readers while these may change
``source_kernel``       what sources do on either gate, and how they wait
``reader_kernel``       how readers wait on either gate
``variants``            these two, and other such files, by the name of the gate
``allocation``          the arrays that both gates have
``channels``            `ReaderChannels`, and ``channels_kernel``
``reader_queues``       channels between operators of a query, where readers and ownership
                        change (``reader_queues_kernel``)
======================  =========================================================
"""

from types import ModuleType

from headrace.gates import merged_log, scalegate
from headrace.gates.channels import ReaderChannels
from headrace.gates.merged_log import MergedLog
from headrace.gates.scalegate import ScaleGate
from headrace.gates.tuple_buffer import Record, TupleBuffer
from headrace.gates.variants import gate_kernels


def gate_modules(gate: str) -> tuple[ModuleType, ModuleType]:
    """Return the module of a gate's handle, with `allocate`, and that of its kernels.

    Parameters
    ----------
    gate : {"log", "scalegate"}
    """
    kernels = gate_kernels(gate)
    return (merged_log if gate == "log" else scalegate), kernels


__all__ = ["MergedLog", "ReaderChannels", "Record", "ScaleGate", "TupleBuffer", "gate_modules"]
