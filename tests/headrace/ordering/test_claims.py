"""How many tuples a worker claims at a time: no more than are done in a time slice.

Method: one real worker, whose stage's cost is written before there are tuples; those of one claim have one time at which they
were begun. The time slice is so long that one visit takes all tuples, so the cost stays what it was.
Cannot see: which cost is measured (test_runs.py), how several workers share what waits (test_oracle.py).
"""

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.ordering import words
from support.workloads import Steered

ROWS = 64
HOUR_NS = 3_600 * 10**9


def claims(cost_ns, batch=256):
    """How many claims a worker makes of the rows."""
    source = Steered(pa.table({"ts": range(ROWS)}), [ROWS])
    run = hr.stream(source, event_time="ts").ordered().map(lambda t, emit: emit(v=t.ts), emits={"v": "int64"}).start(
        threads=1, batch=batch, time_slice="1h"
    )
    with run:
        (section,) = run._execution.sections.values()
        section.arrays.known[:, words.COST] = cost_ns * words.COST_UNIT
        source.let_all()
        assert run.wait(180)
        assert run.to_arrow()["v"].to_pylist() == list(range(ROWS))
    return len(np.unique(section.out.c[0, :ROWS]))


@pytest.mark.parametrize(
    ("cost_ns", "expected"),
    [(0, ROWS), (HOUR_NS, ROWS), (2 * HOUR_NS, ROWS), (HOUR_NS // 4, ROWS // 4), (HOUR_NS // 16, ROWS // 16), (100, 1)],
)
def test_oracle_claims(cost_ns, expected):
    assert claims(cost_ns) == expected


def test_example_a_batch_is_the_most():
    assert claims(100, batch=8) == ROWS // 8
