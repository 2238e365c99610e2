"""Which row of the input an error is about, though a step, lateness or a sort has moved it since.

Looked for only once there is an error, so that a row that is right costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.plan.nodes import Step


def row_before(steps: Sequence[Step], batch: pa.RecordBatch, row: int) -> int:
    """Return of which row of a batch the steps make row `row` of their result.

    It is the last one of the fewest rows that give a result so long: steps look at rows one by one, in
    their order, so the first rows of a batch give the first rows of its result.

    Examples
    --------
    >>> from headrace.expressions import col
    >>> from headrace.plan.steps import FilterStep
    >>> batch = pa.record_batch({"x": [5, 0, 6, 0, 7]})
    >>> row_before([FilterStep(col("x") > 0)], batch, 2)
    4
    """
    few, enough = 0, batch.num_rows
    while enough - few > 1:
        middle = (few + enough) // 2
        result = batch.slice(0, middle)
        for step in steps:
            result = step.apply(result)
        few, enough = (few, middle) if result.num_rows > row else (middle, enough)
    return few
