"""Finding which row of the input an error is about, though a step, lateness or a sort has moved it since.

The search is made only once there is an error, so that correct rows cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.plan.nodes import Step


def row_before(steps: Sequence[Step], batch: pa.RecordBatch, row: int) -> int:
    """Return which row of a batch the steps turned into row `row` of their result.

    Steps process rows one by one, in order, so the first rows of a batch give the first rows of its result. The row
    wanted is the last one of the shortest prefix of the batch whose result contains row `row`.

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
