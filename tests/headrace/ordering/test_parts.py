"""Parts of a pipeline alone: which range a key is in, where ranges come from, what is learned of a stage's cost.

Oracle: NumPy's search, plain arithmetic. Cannot see: workers that learn at once, whose stores may cover each other.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import ParameterError, SchemaError
from headrace.memory.atomics import CELL
from headrace.ordering import arrays, words
from headrace.ordering.buffer_kernel import range_of
from headrace.ordering.pool_kernel import LEAST_CLASS, take_block
from headrace.ordering.work_kernel import learn_cost
from support.pipelines import SHAPES, gap, some_rows

GAP = {"state": {"seen": "bool", "last": "int64", "total": "int64"}, "emits": {"gap": "int64"}}


def arrays_of(capacity=4, **given):
    """What workers share, of a pipeline with a partitioned stage, its second."""
    table = some_rows(np.random.default_rng(0), 1, 1)
    stream = hr.stream(table, event_time="ts").ordered().flat_map(pair, emits={"key": "int64", "v": "int64"})
    node = stream.partitioned(gap_of, by="key", **GAP, **given).plan().output
    (bound,) = {id(each): each for each in node.spec.bound.values()}.values()
    return arrays.allocate(bound, 1, capacity, 4)


def test_property_blocks_of_outputs_share_no_line():
    """Wherever the rings before them end: of this pipeline's, of two records each, in the middle of a line."""
    c = arrays_of(capacity=2)
    assert 2 * int(c.form[:, words.STRIDE].sum()) % CELL
    blocks = [take_block(c, size_class) for size_class in (LEAST_CLASS, 7, LEAST_CLASS, 5, LEAST_CLASS)]
    assert all(block % CELL == 0 for block in blocks) and len({*blocks}) == 5


def pair(t, emit):
    emit(key=t.ts, v=t.ts)


def gap_of(state, t, emit):
    emit(gap=t.ts - state.last)
    state.last = t.ts


@pytest.mark.parametrize("ranges", [[5], [-3, 0, 4], [-(2**63), 7, 2**63 - 1], list(range(-50, 50, 3))])
def test_oracle_the_range_of_a_key(ranges):
    c = arrays_of(ranges=ranges)
    first, count = int(c.form[1, words.RANGES]) - 1, int(c.form[1, words.BUCKET_COUNT])
    assert count == len(ranges) + 1 and c.form[0, words.RANGES] == 0
    keys = {key + d for key in ranges for d in (-1, 0, 1) if abs(key + d) < 2**63} | {0, -(2**63), 2**63 - 1}
    for key in sorted(keys):
        assert range_of(c, first, count, key) == np.searchsorted(ranges, key, side="right"), key


def test_example_ranges_of_a_sample():
    """A fourth of the keys each; a key with more than its share has a range of its own, and others are fewer."""
    keys = np.random.default_rng(3).integers(-1000, 1000, 4000)
    boundaries = hr.ranges_of(keys, 4)
    shares = np.bincount(np.searchsorted(boundaries, keys, side="right")) / len(keys)
    assert len(boundaries) == 3 and all(abs(shares - 0.25) < 0.01)
    assert hr.ranges_of([1] * 90 + [2] * 5 + [3] * 5, 10) == [2]
    assert hr.ranges_of([2, 2, 2, 2, 9], 2) == [9]
    for sample in (pa.array(keys), pa.chunked_array([keys, [None]]), pd.Series(keys), pd.Series([*keys, None]), keys.tolist()):
        assert hr.ranges_of(sample, 4) == boundaries


@pytest.mark.parametrize(
    ("sample", "ranges", "message"),
    [
        ([1, 2], 1, "from 2 to"),
        ([], 4, "0 values"),
        ([None], 4, "give integers"),
        (["a"], 4, "string"),
        (7, 4, "keys of a sample"),
        ([5, 5], 4, "all keys of the sample are 5"),
    ],
)
def test_a_sample_that_gives_no_ranges_is_refused(sample, ranges, message):
    with pytest.raises(ParameterError, match=message):
        hr.ranges_of(sample, ranges)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ranges": [3, 3]}, r"3, \.\.\.\] after 3"),
        ({"ranges": [3, 2.5]}, "integers that rise"),
        ({"ranges": []}, "0 boundaries"),
        ({"ranges": 100}, r"hr\.ranges_of"),
        ({"ranges": [2**63]}, "integers that rise"),
        ({"ranges": [3], "buckets": 2}, "leave one of them out"),
    ],
)
def test_boundaries_that_are_none_are_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        arrays_of(**given)


def test_only_integers_have_ranges():
    stream = hr.stream(pa.table({"ts": [1], "name": ["a"]}), event_time="ts").ordered()
    with pytest.raises(SchemaError, match="only integers have ranges"):
        stream.partitioned(gap_of, by="name", ranges=[1], **GAP)


@pytest.mark.parametrize("queues", ["hybrid", "partitioned", "shared"])
def test_oracle_ranges_change_no_result(queues):
    table = some_rows(np.random.default_rng(11), 3000, 50)
    hashed, ranges = SHAPES["figure 1"].stages, {"ranges": [-1, 3, 20]}
    stages = tuple(
        (kind, function, {name: each for name, each in given.items() if name != "buckets"} | (ranges if function is gap else {}))
        for kind, function, given in hashed
    )
    stream = type(SHAPES["figure 1"])(stages).on(hr.stream(table, event_time="ts"))
    assert stream.to_arrow(threads=3, queues=queues, capacity=16, batch=4).to_pylist() == SHAPES["figure 1"].expected([table])


def test_example_explain_says_ranges(capsys):
    stream = hr.stream(some_rows(np.random.default_rng(0), 1, 1), event_time="ts").ordered()
    stream.flat_map(pair, emits={"key": "int64", "v": "int64"}).partitioned(gap_of, by="key", ranges=[10, 20], **GAP).explain()
    assert "one worker at a time in each of 3 ranges of key" in capsys.readouterr().out


def test_a_visit_counts_for_as_much_as_it_has_tuples():
    """A visit for one tuple is mostly claim and clock: twenty of them hardly change what 2,000 tuples have taught."""
    c = arrays_of()

    def cost():
        return c.known[1, words.COST] / words.COST_UNIT

    learn_cost(c, 1, 64_000, 640)
    assert cost() == 100
    for _ in range(20):
        learn_cost(c, 1, 64_000, 640)
        learn_cost(c, 1, 1_000, 1)
    assert 100 <= cost() < 110
    for _ in range(20):
        learn_cost(c, 1, 640_000, 640)
    assert cost() > 900, "what changes is learned all the same"
    learn_cost(c, 0, 500, 0)
    assert c.known[0, words.COST] == 0, "a worker that claimed records which others ran has learned nothing"
