"""The tuple buffer all instances of an operator share: merge-sorted once, read by everybody.

`MergedLog` (the default) and `ScaleGate` (the papers' lock-free skip list) have
one API, that of STRETCH's Table II, and pass one test suite. Both deliver every
record of every source to every reader exactly once, to all readers in the one
order (ts, source, position), as soon as no earlier record can still come.

A handle here is for Python callers, tests and teaching; compiled workers call
the kernels beside it (`merged_log_kernel`, `scalegate_kernel`) on its `arrays`.
"""

from headrace.gates.merged_log import MergedLog
from headrace.gates.scalegate import ScaleGate
from headrace.gates.tuple_buffer import Record, TupleBuffer

__all__ = ["MergedLog", "Record", "ScaleGate", "TupleBuffer"]
