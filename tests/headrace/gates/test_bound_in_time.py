"""The bound of a gate in time: what waits in it is what the slowest reader takes so long for, at what its tuples cost now.

Property    a change that is asked for begins behind what is in the gate, so that is never much: while nobody knows what a
            tuple costs, where one costs milliseconds, where tuples become dearer, while membership changes
Oracle      the bound, and what readers say that their tuples cost
Cannot see  whether they do cost that: `tests/headrace_bench/test_time_work.py` has tuples that do
"""

import numpy as np
import pytest

from headrace.gates import MergedLog, membership_kernel
from headrace.gates.merged_log_kernel import SCANS
from support.both_gates import both, drain


@both
def test_example_a_bound_in_time(Gate):
    """1 ms of work at 20 us a record is 50 records; a few, while nothing is known of a reader."""
    gate = Gate(sources=1, readers=1, capacity=4096, bound_ns=1_000_000)
    ts = np.arange(1, 5000)
    assert gate.add(ts, 0) == membership_kernel.FIRST_BOUND
    gate.arrays.cost[0] = 20_000
    drain(gate, 0)
    assert 16 <= gate.add(ts[4096:4400], 0) <= 50


@both
@pytest.mark.parametrize(("cost", "most"), [(900_000, 16), (4_000_000, 4), (10**9, 1)])
def test_example_the_fewest_tuples_of_a_gate_take_no_long_time(Gate, cost, most):
    """There are always 16, but for tuples that cost milliseconds each: a change that is asked for begins behind them."""
    gate = Gate(sources=1, readers=1, capacity=4096, bound_ns=1_000_000)
    first = gate.add(np.arange(200), 0)
    gate.arrays.cost[0] = cost
    drain(gate, 0)
    assert gate.add(np.arange(first, first + 200), 0) == most


@pytest.mark.slow
@both
def test_example_no_more_wait_than_were_read(Gate):
    """Each may meet all before it, so those that wait become dearer: what those cost that are read now says too little."""
    gate = Gate(sources=1, readers=1, capacity=4096, bound_ns=1_000_000)
    read = 0
    while read < 2_000:
        taken = gate.add(np.arange(read, read + 4_096), 0)
        assert taken <= 1 + max(membership_kernel.FIRST_BOUND, read), "the head of a skip list counts as one that was read"
        gate.arrays.cost[0] = 100
        drain(gate, 0)
        read += taken
    assert gate.add(np.arange(read, read + 4_096), 0) >= 1_000


def test_example_tuples_that_become_dearer():
    """There is room left by the bound of cheap ones; they come one by one, and soon there is none."""
    gate = MergedLog(sources=1, readers=1, capacity=4096, bound_ns=1_000_000)
    ts = np.arange(20_000)
    done = 0
    while done < 8_000:
        done += gate.add(ts[done:], 0)
        gate.arrays.cost[0] = 100
        drain(gate, 0)
    assert gate.add(ts[done : done + 500], 0) == 500
    gate.arrays.cost[0] = 1_000_000
    before = done = done + 500
    while taken := gate.add(int(ts[done]), 0):
        done += taken
    assert done - before <= 4096 // SCANS
    drain(gate, 0)
    assert gate.add(ts[done:], 0) == 16


@both
def test_example_a_change_of_readers_keeps_the_bound_in_time(Gate):
    """While membership changes nobody can tell the slowest reader: the bound is the last one known, not the capacity."""
    gate = Gate(sources=1, readers=1, capacity=4096, bound_ns=1_000_000)
    kernels, g = gate._kernels, gate.arrays
    ts = np.arange(1, 20_000)
    done = gate.add(ts, 0)
    g.cost[0] = 20_000  # 50 tuples are a millisecond
    drain(gate, 0)
    while (taken := gate.add(ts[done : done + 4], 0)) > 0:
        done += taken
    drain(gate, 0)
    assert kernels.open_membership(g)
    before = done
    while (taken := gate.add(ts[done : done + 100], 0)) > 0:
        done += taken
    kernels.close_membership(g)
    assert done - before <= 50
    drain(gate, 0)
    assert 16 <= gate.add(ts[done : done + 100], 0) <= 50
