"""Method: rows are appended to a `Table` and compared with a plain list of them.

What this cannot see: how the plots look when rows are left out.
"""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace_widgets.table import Table


def filled(rows, limit=1_000):
    table = Table(("t", "v"), limit)
    for row in rows:
        table.append(row)
    return table


def test_example_empty():
    table = Table(("t", "v"))
    assert len(table) == 0
    assert table.last == {}
    assert table.row_at(3.0) == {}
    assert math.isnan(table.mean("v", 0, 10))
    assert len(table.between(0, 10)["t"]) == 0


@given(st.integers(1, 3_000), st.integers(8, 400))
def test_oracle_bounded_and_the_newest_half_complete(count, limit):
    table = filled([(float(i), 2.0 * i) for i in range(count)], limit)
    times = table["t"]
    assert len(table) <= limit
    assert times[0] == 0
    assert (np.diff(times) > 0).all()
    assert (table["v"] == 2 * times).all()
    recent = min(count, limit // 2)
    assert times[-recent:].tolist() == [float(i) for i in range(count - recent, count)]


def test_example_a_span_reaches_over_both_edges():
    table = filled([(float(i), float(i)) for i in range(10)])
    assert table.between(2.5, 4.5)["t"].tolist() == [2, 3, 4, 5]
    assert table.row_at(4.5) == {"t": 4, "v": 4}
    assert table.row_at(-1)["t"] == 0
    assert table.mean("v", 2, 4) == 3


@given(st.integers(20, 500), st.floats(0, 200))
def test_oracle_thinned_rows_stay_while_the_span_moves(most, start):
    """A point that is drawn must not jump: of two spans, the rows inside both are the same."""
    drift = np.random.default_rng(7).uniform(0.08, 0.12, 4_000)  # no clock ticks evenly
    table = filled([(t, float(i)) for i, t in enumerate(np.cumsum(drift))], 5_000)
    one, two = (table.between(s, s + 190, most)["t"] for s in (start, start + 0.7))
    assert len(one) <= most + 4
    inside = [{t for t in part if start + 1.5 < t < start + 188} for part in (one, two)]
    assert inside[0] == inside[1]
