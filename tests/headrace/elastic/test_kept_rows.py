"""Which results a filter between two operators keeps: those for which Arrow says that its condition is true.

Property    every comparison of a column with a constant or another column, of each type and however an operator keeps it, and
            what `&`, `|` and `~` make of comparisons and bools, keep the rows that `headrace.expressions` keeps, nulls, NaN and
            the ends of each type included
Oracle      `headrace.expressions`, which is Arrow
Planted     all comparisons taken for one alternative; a bool taken for a number
Cannot see  whole queries: test_passing_filter.py
"""

import datetime
import itertools
import math
import operator
import random

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.kept_rows_kernel import BEGINS, KINDS, is_kept
from headrace.elastic.passed_steps import between
from headrace.ingress.columns import from_values
from headrace.plan.steps import FilterStep
from support.typed_columns import TIMES
from support.workloads import examples

WHOLE = (0, 1, 2, -1, 3, -(2**63), 2**63 - 1)
FLOATS = (0.0, -0.0, 1.5, -2.0, math.nan, math.inf, -math.inf, 2.0**53, 1.0, 2.0**63, 5e-324)
BESIDE_FLOATS = (*FLOATS, 0, 1, 2**53 + 1, -(2**63), 2**63 - 1)
"""Whole numbers beside floats are floats, rounded: 2**53 + 1 equals 2.0**53."""
COMPARISONS = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def ends_of(kind):
    """Numbers of a type of whole numbers, with its least and its greatest."""
    low, high = np.iinfo(kind.to_pandas_dtype()).min, np.iinfo(kind.to_pandas_dtype()).max
    return [0, 1, 2, 100, int(low), int(high), int(high) - 1]


NOON = datetime.datetime(2020, 1, 1, 12)
ROME = datetime.timezone(datetime.timedelta(hours=1))
MICROSECONDS = (0, -1, 1_577_880_000_000_000, 1_577_880_000_000_001, 1_577_876_400_000_000, 2**62)
"""Noon of that day, what comes next, and an hour before, too."""
NANOSECONDS = [1_000 * t + 1 for t in MICROSECONDS[:5]] + [1_000 * MICROSECONDS[2]]
MOMENTS = (NOON, NOON.replace(tzinfo=datetime.UTC), NOON.replace(tzinfo=ROME), NOON.replace(year=1970), "2020-01-01 12:00")
NARROW = [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()]
SINGLE = [float(np.float32(x)) for x in (0.0, -0.0, 0.1, 1.5, math.nan, math.inf, -math.inf, 2.0**24, 1e-45)]
COMPARED = [
    ("int64", pa.int64(), WHOLE, WHOLE, "int64"), ("float64", pa.float64(), FLOATS, BESIDE_FLOATS, "float64"),
    *((str(kind), kind, ends_of(kind), (*ends_of(kind), *WHOLE), "int64") for kind in NARROW),
    ("int32 of a custom operator", pa.int32(), ends_of(pa.int32()), (*ends_of(pa.int32()), *WHOLE), "int32"),
    *((f"float32 as {kept}", pa.float32(), SINGLE, (*BESIDE_FLOATS, 0.1, 2**24 + 1), kept) for kept in ("float64", "float32")),
    *((f"bool as {kept}", pa.bool_(), (False, True), (False, True), kept) for kept in ("int64", "uint8")),
    *((f"us {zone}", pa.timestamp("us", zone), MICROSECONDS, MOMENTS, "int64") for zone in (None, "UTC", "Europe/Rome")),
    *((f"ns {zone}", pa.timestamp("ns", zone), NANOSECONDS, MOMENTS, "int64")
      for zone in (None, "UTC")),
    ("days", pa.date32(), (0, 18262, 18263, -1), (NOON.date(), NOON.date().replace(year=1970)), "int64"),
]  # fmt: skip
"""Name, type, values, constants, and the dtype of the array where an operator keeps them."""


@pytest.mark.parametrize(("kind", "values", "constants", "kept"), [case[1:] for case in COMPARED], ids=[c[0] for c in COMPARED])
def test_oracle_a_comparison_is_that_of_arrow(kind, values, constants, kept):
    """Every pair of a value, or none, and a constant on either side."""
    numbers, valid = np.array([*values, 0], kept), np.ones((1, len(values) + 1), np.uint8)
    valid[0, -1] = 0
    batch = pa.record_batch({"x": from_values(numbers.astype("f8" if "float" in kept else "i8"), kind, valid[0] == 0)})
    certain = 0
    for constant, op in itertools.product(constants, COMPARISONS):
        column = hr.col("x")
        for condition in (COMPARISONS[op](column, constant), COMPARISONS[op](hr.lit(constant), column)):
            known = between([FilterStep(condition)], batch.schema)
            if known.why_not:
                assert pa.types.is_timestamp(kind) and "a constant of another type" in known.why_not, condition
                continue
            (one,) = known.conditions
            certain += 1
            words = np.array([[numbers.ctypes.data, 0, KINDS[kept], one.holds, one.constant, 0, -1, 1]])
            found = [bool(is_kept(words, valid, row)) for row in range(numbers.size)]
            assert found == condition.mask(batch).fill_null(False).to_pylist(), condition
    assert certain >= 12 * min(3, len(constants)), certain


@pytest.mark.parametrize("kind", [*NARROW, pa.float32(), pa.bool_(), *TIMES], ids=str)
def test_oracle_two_columns_of_one_type_are_compared_as_arrow_does(kind):
    """Every pair of values, nulls included; kept as an aggregate keeps them."""
    kept = np.float64 if pa.types.is_floating(kind) else np.int64
    if pa.types.is_temporal(kind):
        values = [0, 86_400_000, 172_800_000]
    else:
        values = SINGLE if kept == np.float64 else [0, 1] if pa.types.is_boolean(kind) else ends_of(kind)
    pairs = list(itertools.product([*values, None], repeat=2))
    numbers = [np.array([0 if pair[side] is None else pair[side] for pair in pairs], kept) for side in (0, 1)]
    valid = np.array([[pair[side] is not None for pair in pairs] for side in (0, 1)], np.uint8)
    batch = pa.record_batch([from_values(numbers[side], kind, valid[side] == 0) for side in (0, 1)], ["x", "y"])
    for op, compared in COMPARISONS.items():
        condition = compared(hr.col("x"), hr.col("y"))
        (one,) = between([FilterStep(condition)], batch.schema).conditions
        assert (one.column, one.other) == ("x", "y")
        word = [numbers[0].ctypes.data, 0, KINDS[np.dtype(kept).name], one.holds, 0, numbers[1].ctypes.data, 1, 1]
        found = [bool(is_kept(np.array([word]), valid, row)) for row in range(len(pairs))]
        assert found == condition.mask(batch).fill_null(False).to_pylist(), op


OF_TREES = {
    "i": (None, 0, 1, -(2**63)), "j": (None, 0, 2, -(2**63)), "x": (None, 0.0, 1.5, math.nan), "y": (None, -0.0, math.nan),
    "b": (None, False, True), "c": (None, False, True),
}  # fmt: skip
"""Columns of drawn conditions, and their values: a batch has every combination."""


def drawn_tree(draw, depth):
    """A condition of comparisons, in any form."""
    if depth and draw.random() < 0.7:
        left, right = (drawn_tree(draw, depth - 1) for _ in range(2))
        return draw.choice([lambda: left & right, lambda: left | right, lambda: ~left])()
    name = draw.choice(list(OF_TREES))
    column, is_whole = hr.col(name), name in "ij"
    if name in "bc" and draw.random() < 0.5:
        return column
    other = hr.col({"i": "j", "j": "i", "x": "y", "y": "x", "b": "c", "c": "b"}[name])
    compared = COMPARISONS[draw.choice(list(COMPARISONS))]
    constant = draw.choice([value for value in OF_TREES[name] if value is not None])
    forms = [
        lambda: compared(column, other), lambda: compared(column, column), lambda: compared(column, constant),
        lambda: compared(hr.lit(constant), column), column.is_null, column.is_not_null,
    ]  # fmt: skip
    return draw.choice([*forms, lambda: column.is_in([0, draw.randrange(3)])] if is_whole else forms)()


def test_oracle_a_tree_of_comparisons_is_that_of_arrow():
    """Drawn trees, for every combination of values and nulls; all comparisons taken for one alternative give other rows."""
    rows = list(itertools.product(*OF_TREES.values()))
    kinds = dict(zip(OF_TREES, [pa.int64()] * 2 + [pa.float64()] * 2 + [pa.bool_()] * 2, strict=True))
    batch = pa.record_batch({
        name: pa.array([row[i] for row in rows], kind, from_pandas=False) for i, (name, kind) in enumerate(kinds.items())
    })  # fmt: skip
    dtypes = {name: {pa.int64(): "int64", pa.bool_(): "uint8"}.get(kind, "float64") for name, kind in kinds.items()}
    numbers = {name: np.array([0 if row[i] is None else row[i] for row in rows], dtypes[name]) for i, name in enumerate(kinds)}
    valid = np.array([[row[i] is not None for row in rows] for i in range(len(kinds))], np.uint8)
    places, planted = list(kinds), 0
    for seed in range(examples(150)):
        condition = drawn_tree(random.Random(seed), 3)
        known = between([FilterStep(condition)], batch.schema)
        assert known.conditions and not known.why_not, condition
        words = np.array([
            [numbers[c.column].ctypes.data, places.index(c.column), KINDS[dtypes[c.column]], c.holds, c.constant,
             numbers[c.other].ctypes.data if c.other else 0, places.index(c.other) if c.other else -1, c.begins]
            for c in known.conditions
        ])  # fmt: skip
        found = [bool(is_kept(words, valid, row)) for row in range(len(rows))]
        assert found == condition.mask(batch).fill_null(False).to_pylist(), condition
        words[1:, BEGINS] = 0
        planted += found != [bool(is_kept(words, valid, row)) for row in range(len(rows))]
    assert planted > 10


def test_planted_a_bool_taken_for_a_number_is_found():
    """A byte other than 0 is true, whichever it is."""
    known = between([FilterStep(hr.col("b"))], pa.schema({"b": pa.bool_()})).conditions[0]
    data, valid = np.array([0, 1, 2, 255], np.uint8), np.ones((1, 4), np.uint8)
    word = np.array([[data.ctypes.data, -1, KINDS["uint8"], known.holds, known.constant, 0, -1, 1]])
    assert [bool(is_kept(word, valid, row)) for row in range(4)] == [False, True, True, True]
    wide = np.array([0, 1, 2, 255])
    word[0, :3] = wide.ctypes.data, -1, KINDS["int64"]
    assert [bool(is_kept(word, valid, row)) for row in range(4)] != [False, True, True, True]
