"""map, filter and flat_map: user functions fused into one compiled loop over a batch.

Each step is a function that passes its tuple to the next one; the last one stores
it. LLVM inlines the chain, so between the steps a tuple is held in a few registers:

    run -> step_0 (filter) -> step_1 (flat_map) -> user_1 -> emit = step_2 (store)

Functions see numbers, bools and strings (`batch_texts`), timestamps and durations as
integers in the unit of their column, and the event time in the unit of the
engine: microseconds for a timestamp column.
Everything else is carried by reference: the loop writes, beside the computed
columns, the row each result comes from, and Arrow takes these rows. Conditions
made of `hr.col` are evaluated by Arrow between the loops, in the order written,
so that a function never sees a row that an earlier condition removed.

============  ======================================================================
``steps``     `Filter`, `Map`, `FlatMap`
``chain``     `StatelessChain`: steps applied to batches
``loop``      functions that follow each other, compiled and run as one loop
``template``  the text of that loop
``columns``   columns as arrays, and back
``failures``  why a function failed
============  ======================================================================
"""

from headrace.codegen.stateless.chain import StatelessChain
from headrace.codegen.stateless.steps import Filter, FlatMap, Map

__all__ = ["Filter", "FlatMap", "Map", "StatelessChain"]
