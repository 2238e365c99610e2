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


@given(st.integers(20, 500), st.floats(0, 200), st.floats(1, 190), st.sampled_from([300, 5_000]))
def test_oracle_thinned_rows_are_the_first_of_their_slots(most, start, span, limit):
    """What is noted of a row when it is added, and again when older ones go, says the same as looking at all rows."""
    drift = np.random.default_rng(7).uniform(0.08, 0.12, 4_000)
    table = filled([(t, float(i)) for i, t in enumerate(np.cumsum(drift))], limit)
    times = table.between(start, start + span)["t"]
    chosen = np.ones(len(times), bool)
    if len(times) > most:
        length = min(start + span, times[-1]) - max(start, times[0])
        slots = np.floor(times / 2 ** np.ceil(np.log2(length / most)))
        chosen[1:-1] = slots[1:-1] != slots[:-2]
    assert table.between(start, start + span, most)["t"].tolist() == times[chosen].tolist()


def test_example_a_block_of_neighbours_and_of_others():
    table = Table(("t", "a", "b", "c"))
    assert np.isnan(table.values_at(1.0, table.places(["a"]))).all()
    for i in range(5):
        table.append((float(i), 10.0 + i, 20.0 + i, 30.0 + i))
    assert table.block(table.places(["a", "b"]), 3.5, 9).tolist() == [[13, 14], [23, 24]]
    assert table.block(table.places(["c", "a"]), 3.5, 9).tolist() == [[33, 34], [13, 14]]
    assert table.values_at(2.5, table.places(["b", "t"])).tolist() == [22, 2]
    assert (table.newest("c"), len(table)) == (34, 5)
