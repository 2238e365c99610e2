"""Event times back to columns, and the repair of disorder.

Property    `restore_times` is the inverse of `event_times`. What leaves a
            reorder buffer is what a row-by-row simulation releases, whatever
            the batches; nothing is lost.
Oracle      Python's sorted() over the rows that are not late.
Cannot see  Memory held by waiting rows.
"""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import LateRowError, OutputError, OverflowInputError, ParameterError
from headrace.ingress.reorder import Reorder
from headrace.ingress.times import event_times, output_time_type, restore_times, shared_time_type
from headrace.progress import MIN_TIME


@pytest.mark.parametrize(
    "kind", [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "Asia/Tokyo")]
)
def test_example_times_come_back(kind):
    factor = 1000 if kind.unit == "ns" else 1
    column = pa.array([-3 * factor, 0, 7 * factor], kind)
    assert restore_times(event_times(column, "ts"), kind).equals(column)


def test_example_integer_times_come_back():
    for kind in (pa.int64(), pa.int32(), pa.uint32()):
        column = pa.array([1, 2, 3], kind)
        assert restore_times(event_times(column, "ts"), kind).equals(column)
    with pytest.raises(OutputError, match=r"do not fit int8.*wider type"):
        restore_times(np.array([300]), pa.int8())
    with pytest.raises(OutputError, match="do not fit timestamp"):
        restore_times(np.array([500_000]), pa.timestamp("s"))


def test_example_output_types_hold_the_boundaries():
    assert output_time_type(pa.timestamp("s", "UTC"), 60_000_000) == pa.timestamp("s", "UTC")
    assert output_time_type(pa.timestamp("s", "UTC"), 500_000) == pa.timestamp("us", "UTC")
    assert output_time_type(pa.timestamp("ms"), 500_000) == pa.timestamp("ms")
    assert output_time_type(pa.timestamp("ns"), 1) == pa.timestamp("ns")
    assert output_time_type(pa.int32(), 1) == pa.int32()


def test_example_one_type_for_the_times_of_several_inputs():
    s, ms, us, ns = (pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns"))
    paris = pa.timestamp("ms", "Europe/Paris")
    for kinds, shared in (
        ([s, s], s), ([s, ms], ms), ([ms, s], ms), ([ms, us], us), ([s, ns], us), ([ns, us], us), ([ns, ns], ns),
        ([paris, ms], paris), ([s, paris], ms), ([ms, pa.int64()], us), ([pa.int64(), ms], pa.int64()),
        ([pa.int32(), pa.int32()], pa.int32()), ([pa.int32(), pa.int64()], pa.int64()), ([pa.int16(), pa.uint8()], pa.int64()),
    ):
        assert shared_time_type(kinds) == shared, kinds


def simulate(times, lateness):
    highest, late, kept = None, [], []
    for row, ts in enumerate(times):
        if highest is not None and ts < highest - lateness:
            late.append(row)
        else:
            kept.append(row)
        highest = ts if highest is None else max(highest, ts)
    return sorted(kept, key=lambda row: times[row]), late


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-20, 20), max_size=40), st.integers(0, 10), st.lists(st.integers(0, 40), max_size=5)
)
def test_oracle_reorder(times, lateness, cuts):
    reorder = Reorder(lateness, "side")
    bounds = [0, *sorted(min(cut, len(times)) for cut in cuts), len(times)]
    rows, released, watermark = [], [], MIN_TIME
    for start, stop in pairwise(bounds):
        part = np.array(times[start:stop], np.int64)
        batch, ts = reorder.add(pa.record_batch({"row": pa.array(range(start, stop), pa.int64())}), part)
        assert all(watermark <= t <= reorder.watermark for t in ts.tolist())
        watermark = reorder.watermark
        rows += batch["row"].to_pylist()
        released += ts.tolist()
        c = reorder.counters
        assert c.rows == c.released + c.late + reorder.waiting == stop
    batch, ts = reorder.finish()
    rows += batch["row"].to_pylist()
    released += ts.tolist()
    kept, late = simulate(times, lateness)
    assert (rows, reorder.late_table()["row"].to_pylist()) == (kept, late)
    assert released == [times[row] for row in rows] and reorder.waiting == 0


def test_example_late_rows():
    batch = pa.record_batch({"x": ["a", "b", "c"]})
    ts = np.array([10, 20, 13])
    with pytest.raises(
        LateRowError, match="row 2: 13 is 7 behind 20, more than lateness = 5: raise lateness"
    ):
        Reorder(5).add(batch, ts)
    reorder = Reorder(5, "drop")
    assert reorder.add(batch, ts)[0]["x"].to_pylist() == ["a"]
    assert (reorder.counters.late, reorder.late_table().num_rows) == (1, 0)
    with pytest.raises(LateRowError, match="row 3: 14 is 6 behind 20"):
        reorder.late = "error"
        reorder.add(batch.slice(0, 1), np.array([14]))
    with pytest.raises(OverflowInputError, match=r"2 rows wait.*max_waiting = 1"):
        Reorder(100, max_waiting=1).add(batch.slice(0, 2), ts[:2])
    with pytest.raises(OverflowInputError, match=r"below 2..62"):
        Reorder(5).add(batch.slice(0, 1), np.array([2**62]))
    with pytest.raises(ParameterError):
        Reorder(-1)
    with pytest.raises(ParameterError):
        Reorder(1, "ignore")
    assert Reorder(1).finish()[0] is None and Reorder(1).late_table() is None
