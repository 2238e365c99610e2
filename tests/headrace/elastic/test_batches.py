"""How long an instance works on a batch (`start(batch_ns=)`).

Property    results are the same; a batch is as small as is asked for, or as large as the gate has tuples
Oracle      the run as it is by default
Cannot see  what it brings: `headrace bench q3`
"""

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic import words
from headrace.elastic.batch_kernel import BATCH_RECORDS, LEAST_BATCH
from headrace.errors import ParameterError
from headrace_bench.resident import Resident

ROWS = 20_000


def counts():
    rng = np.random.default_rng(5)
    table = pa.table({"ts": np.sort(rng.integers(0, 2_000, ROWS)), "k": rng.integers(0, 50, ROWS)})
    return table, hr.stream(table, event_time="ts").key_by("k").window(100, 50).aggregate(n=hr.count())


@pytest.mark.parametrize("batch_ns", [1, 50_000_000])
def test_agree_batches_of_any_length(batch_ns):
    _, query = counts()
    assert query.to_arrow(threads=2, batch_ns=batch_ns, bound_ns=50_000_000).equals(query.to_arrow())


def test_example_batches_are_as_small_as_is_asked_for():
    """Of the first batch nobody knows yet what a tuple costs."""
    table, query = counts()
    run = Resident(query, [table], 1, batch_ns=1)
    run.run()
    assert run.meter(words.BATCHES) >= (ROWS - BATCH_RECORDS) / LEAST_BATCH


@pytest.mark.parametrize("batch_ns", [0, -1, 1.5, "1ms", 2**63])
def test_lengths_that_cannot_be(batch_ns):
    with pytest.raises(ParameterError, match="batch_ns="):
        counts()[1].start(batch_ns=batch_ns)


def test_a_gate_that_holds_less():
    with pytest.raises(ParameterError, match="pass a larger bound_ns="):
        counts()[1].start(batch_ns=2_000_000, bound_ns=1_000_000)
    for bound_ns in (None, 0):  # as much as a batch; no bound in time
        with counts()[1].start(batch_ns=2_000_000, bound_ns=bound_ns) as run:
            assert run.wait(180)
