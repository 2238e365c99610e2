"""Expressions give what a row-by-row reading of them gives, nulls as in SQL.

Oracle      The same expression computed in Python on each row: None propagates,
            & | ~ follow the three-valued tables, // and % are Python's own.
Cannot see  Locale or time-zone data of the machine.
"""

from __future__ import annotations

import datetime
import itertools
import math
import operator
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import expressions as ex
from headrace.errors import (
    InputError,
    OverflowInputError,
    ParameterError,
    SchemaError,
    UnsupportedTypeError,
)
from headrace.expressions import band, col, equal, lit

BATCH = pa.record_batch(
    {
        "n": pa.array([1, -7, None, 40], pa.int64()),
        "small": pa.array([2**31 - 1, -3, 2, None], pa.int32()),
        "f": pa.array([0.5, math.nan, -0.0, None], pa.float64()),
        "flag": pa.array([True, False, None, True]),
        "s": pa.array(["héé", "", None, "#x"]),
        "ts": pa.array([0, 1_000_000, 2_000_000, None], pa.timestamp("us", "UTC")),
    }
)


def values(expression):
    return expression.evaluate(BATCH).to_pylist()


# ------------------------------------------------------------------- examples


def test_example_arithmetic():
    assert values(col("n") + 1) == [2, -6, None, 41]
    assert values(1 - col("n")) == [0, 8, None, -39]
    assert values(-col("n")) == [-1, 7, None, -40]
    assert values(col("n").abs() * 2) == [2, 14, None, 80]
    assert values(col("n") / 2) == [0.5, -3.5, None, 20.0]
    assert values(7 // col("n")) == [7, -1, None, 0]
    assert values(col("n") % 4) == [1, 1, None, 0]
    assert values(lit(7) // 2 + col("n") * 0) == [3, 3, None, 3]
    assert values(lit(1) + 2) == [3, 3, 3, 3]


def test_example_small_integers_do_not_overflow_early():
    assert values(col("small") + 1) == [2**31, -2, 3, None]
    assert (col("small") + col("small")).value_type(BATCH.schema) == pa.int64()


def test_example_large_integers_beside_floats():
    batch = pa.record_batch({"n": [2**60 + 1, 5]})
    assert (col("n") > 0.5).evaluate(batch).to_pylist() == [True, True]
    assert (col("n") == 2.0**60).evaluate(batch).to_pylist() == [True, False]  # rounded to float64
    assert (col("n") + 0.5).evaluate(batch).to_pylist() == [2.0**60, 5.5]
    assert col("n").is_in([0.5, 5.0]).evaluate(batch).to_pylist() == [False, True]
    assert (col("n") == 2**60).evaluate(batch).to_pylist() == [False, False]  # exact among integers


def test_example_an_expression_without_end_is_refused():
    endless = col("n")
    for _ in range(10_000):
        endless = endless + 1
    with pytest.raises(ParameterError, match=r"too many operations within each other: select part of it"):
        endless.value_type(pa.schema({"n": pa.int64()}))


BEYOND = (0, 5, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1)


def test_oracle_integers_beyond_int64_are_compared():
    """With constants and columns of any integers, which none of int64, uint64 and float64 has all of."""
    others = (-(2**63), -1, *BEYOND)
    unsigned = pa.record_batch({"n": pa.array([*BEYOND, None], pa.uint64())})
    compared = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
    for compare, other in itertools.product(compared, others):
        expected = [compare(n, other) for n in BEYOND]
        assert compare(col("n"), other).evaluate(unsigned).to_pylist() == [*expected, None], (compare, other)
        expected = [compare(other, n) for n in BEYOND]
        assert compare(other, col("n")).evaluate(unsigned).to_pylist() == [*expected, None], (compare, other)
    signed = [number for number in others if number < 2**63]
    pairs = list(itertools.product(BEYOND, signed))
    both = pa.record_batch({"n": pa.array([n for n, _ in pairs], pa.uint64()), "m": [m for _, m in pairs]})
    for compare in compared:
        assert compare(col("n"), col("m")).evaluate(both).to_pylist() == [compare(n, m) for n, m in pairs], compare
        assert compare(col("m"), col("n")).evaluate(both).to_pylist() == [compare(m, n) for n, m in pairs], compare
        assert compare(col("m"), 2**63).evaluate(both).to_pylist() == [compare(m, 2**63) for _, m in pairs], compare


def test_oracle_integers_beyond_int64_are_looked_for():
    unsigned = pa.array([*BEYOND, None], pa.uint64())
    signed = pa.array([-(2**63), -1, 5, 2**63 - 1, None], pa.int64())
    for numbers in (unsigned, signed):
        for wanted in ([-1], [2**63], [2**64 - 1, 0, -1], [-(2**63), 2**63 - 1, 5], [np.uint64(2**63)], []):
            expected = [None if n is None else n in wanted for n in numbers.to_pylist()]
            found = col("n").is_in(wanted).evaluate(pa.record_batch({"n": numbers}))
            assert found.to_pylist() == expected, (numbers.type, wanted)


def test_example_integers_beyond_int64_are_named_and_the_advice_works():
    batch = pa.record_batch({"n": pa.array([2**64 - 1, 5, None], pa.uint64()), "m": [2**62, 2**62, 1]})
    with pytest.raises(OverflowInputError, match=r"col\('n'\).*: 18446744073709551615 is above.*add 0.0 to the integer first"):
        (col("n") + 1).evaluate(batch)
    with pytest.raises(OverflowInputError, match=r"overflow; add 0.0 to the integer first"):
        (col("m") * 4).evaluate(batch)
    with pytest.raises(InputError, match=r"cast\('float64'\): \d+ may not be kept exactly; add 0.0 instead"):
        col("n").cast("float64").evaluate(batch)
    assert ((col("n") + 0.0) * 2).evaluate(batch).to_pylist() == [2.0**65, 10.0, None]
    assert ((col("m") + 0.0) * 4).evaluate(batch).to_pylist() == [2.0**64, 2.0**64, 4.0]
    assert (col("n") / 2).evaluate(batch).to_pylist() == [2.0**63, 2.5, None]
    assert ((col("n") + 0.0) // 2).evaluate(batch).to_pylist() == [2.0**63, 2.0, None]
    with pytest.raises(ParameterError, match="9223372036854775808: is beyond int64"):
        col("n") + 2**63


def test_example_comparisons_and_logic():
    assert values(col("n") > 0) == [True, False, None, True]
    assert values((col("n") > 0) & (col("f") > 0)) == [True, False, False, None]
    assert values((col("n") > 0) | (col("f") == 0)) == [True, False, True, True]
    assert values(~col("flag")) == [False, True, None, False]
    assert values(col("f") == col("f")) == [True, False, True, None]  # NaN equals nothing
    assert values(2 < col("n")) == [False, False, None, True]
    assert values(col("s") == "") == [False, True, None, False]


def test_example_nulls():
    assert values(col("n").is_null()) == [False, False, True, False]
    assert values(col("n").is_not_null() & True) == [True, True, False, True]
    assert values(col("f").is_null()) == [False, False, False, True]  # NaN is not null


def test_example_is_in():
    assert values(col("n").is_in([1, 40])) == [True, False, None, True]
    assert values(col("n").is_in([1, None])) == [True, None, None, None]
    assert values(col("n").is_in([])) == [False, False, None, False]
    assert values(col("n").is_in(np.array([1]))) == [True, False, None, False]
    assert values(col("n").is_in([0.5, 40.0])) == [False, False, None, True]
    assert values(col("small").is_in([-3])) == [False, True, False, None]
    assert values(col("f").is_in([math.nan, 0])) == [False, False, True, None]
    assert values(col("s").is_in(["#x"])) == [False, False, None, True]
    assert values(col("ts").is_in(["1970-01-01T00:00:01"])) == [False, True, False, None]


def test_example_length_counts_code_points():
    assert values(col("s").length()) == [3, 0, None, 2]
    assert col("s").length().value_type(BATCH.schema) == pa.int64()


def test_example_cast():
    assert values(col("n").cast("float64")) == [1.0, -7.0, None, 40.0]
    assert values(col("flag").cast("int64") + 1) == [2, 1, None, 2]
    assert values(col("n").cast("string")) == ["1", "-7", None, "40"]


@pytest.mark.parametrize(
    "moment",
    [
        "1970-01-01 00:00:01",
        "1970-01-01T00:00:01+00:00",
        datetime.datetime(1970, 1, 1, 0, 0, 1),
        datetime.datetime(1970, 1, 1, 1, 0, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    ],
)
def test_example_times_without_zone_are_utc(moment):
    assert values(col("ts") >= moment) == [False, True, True, None]
    naive = pa.record_batch({"ts": BATCH.column("ts").cast(pa.timestamp("us"))})
    assert (col("ts") >= moment).evaluate(naive).to_pylist() == [False, True, True, None]


def test_example_filter_keeps_only_true():
    assert (col("n") > 0).filter(BATCH).column("n").to_pylist() == [1, 40]
    assert lit(True).filter(BATCH).num_rows == 4
    assert (col("n") == col("n")).filter(BATCH.slice(2, 1)).num_rows == 0


def test_example_dictionary_columns_and_slices():
    batch = pa.record_batch({"k": pa.array(["a", "b", None, "a"]).dictionary_encode()})
    assert (col("k") == "a").evaluate(batch.slice(1)).to_pylist() == [False, None, True]


def test_example_columns_and_repr():
    expression = (col("a") + col("b")) * 2 > col("a")
    expression = expression & ~col("c").is_null() | (lit(1) < col("d").cast("int64"))
    assert expression.columns == ("a", "b", "c", "d")
    assert repr(col("a").length() >= 3) == "col('a').length() >= 3"
    assert repr(expression).startswith("((((col('a') + col('b')) * 2) > col('a')) & ~col('c').is_null())")
    assert repr(pickle.loads(pickle.dumps(expression))) == repr(expression)
    assert len({col("a"), col("a")}) == 2


def test_example_empty_batch():
    assert (col("n") // 2 > 0).evaluate(BATCH.slice(0, 0)).to_pylist() == []
    assert lit(3).value_type(pa.schema([])) == pa.int64()


@pytest.mark.parametrize("name", ["n", "small", "f"])
def test_oracle_round_and_abs_are_pythons(name):
    batch = pa.record_batch(
        {
            "n": pa.array([7, -7, None, 2**63 - 1], pa.int64()),
            "small": pa.array([-(2**31), 3, None, 0], pa.int32()),
            "f": pa.array([0.5, -1.5, None, 2.5000000000000004], pa.float64()),
        }
    )
    there = batch.column(name).to_pylist()
    for function in (round, abs):
        result = function(col(name)).evaluate(batch)
        assert result.to_pylist() == [None if value is None else function(value) for value in there]
    assert round(col(name)).evaluate(batch).type == pa.int64()
    assert repr(round(col(name))) == f"col({name!r}).round()" and repr(abs(col(name))) == f"col({name!r}).abs()"


# --------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "build",
    [
        lambda: bool(col("n") > 0),
        lambda: 0 < col("n") < 3,
        lambda: (col("n") > 0) and (col("f") > 0),
        lambda: not col("flag"),
        lambda: 3 in col("n"),
        lambda: list(col("n")),
        lambda: col("n") == None,  # noqa: E711
        lambda: col("n") + object(),
        lambda: col("n") + 2**63,
        lambda: col(""),
        lambda: col(3),
        lambda: col("n").is_in("abc"),
        lambda: col("n").is_in(5),
        lambda: col("n").cast("int128"),
        lambda: (col("ts") > "yesterday").evaluate(BATCH),
    ],
)
def test_example_misuse_is_refused_with_a_hint(build):
    with pytest.raises(ParameterError):
        build()


def test_example_truth_value_names_the_operators():
    with pytest.raises(ParameterError, match=r"use & \| ~ instead of and, or, not"):
        bool(col("n") > 0)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: (col("n") + 1) ** 2, r"^\(col\('n'\) \+ 1\) \*\* 2: expressions have no powers; multiply, or"),
        (lambda: 2 ** col("n"), r"^2 \*\* col\('n'\): expressions have no powers; compute it by a function"),
        (lambda: (col("n") + 1) ^ 2, r"^\(col\('n'\) \+ 1\) \^ 2: expressions have no \^; of two .* a != b; a power"),
        (lambda: True ^ col("flag"), r"^True \^ col\('flag'\): expressions have no \^; of two conditions write a != b"),
        (lambda: col("n") << 2, r"^col\('n'\) << 2: expressions have no <<; multiply by"),
        (lambda: col("n") >> 2, r"^col\('n'\) >> 2: expressions have no >>; divide by"),
        (lambda: divmod(col("n"), 2), r"^divmod\(col\('n'\), 2\): expressions have no divmod; use // and %"),
        (lambda: math.sqrt(col("f")), r"^float\(col\('f'\)\): .* no float\(\); write .* by a function, with map"),
        (lambda: int(col("f")), r"^int\(col\('f'\)\): expressions have no int\(\); write \.cast\(\"int64\"\)"),
        (lambda: round(col("f"), 2), r"^round\(col\('f'\), 2\): .* whole numbers, .* round\(t.price, 2\), price2="),
        (lambda: len(col("s")), r"^len\(col\('s'\)\): expressions have no len\(\); write \.length\(\)"),
        (lambda: lit(None), r"^None: is not a constant, .* use .is_null\(\)"),
        (lambda: col("n") == None, r"^None: is not a constant, .* use .is_null\(\)"),  # noqa: E711
    ],
)
def test_example_what_is_no_expression_says_what_to_write(build, text):
    with pytest.raises(ParameterError, match=text):
        build()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("isnull", r"^a Column has no 'isnull'; write \.is_null\(\)"),
        ("lenght", r"did you mean \.length\?"),
        ("sum", r"write key_by\(\.\.\.\)\.window"),
    ],
)
def test_example_a_method_of_other_libraries_says_what_to_write(name, text):
    with pytest.raises(AttributeError, match=text):
        getattr(col("n"), name)


@pytest.mark.parametrize(
    ("expression", "error", "text"),
    [
        (col("m") > 0, SchemaError, "'m' does not exist: the columns are n, small"),
        (col("s") + 1, UnsupportedTypeError, "string"),
        (round(col("s")), UnsupportedTypeError, "string"),
        (round(col("f")), InputError, r"^col\('f'\).round\(\): NaN, or beyond int64, has no whole number; filter"),
        (round(col("n") * 1e18), InputError, "beyond int64"),
        (col("s") > 1, UnsupportedTypeError, "compares string with int64"),
        (col("s") // 2, UnsupportedTypeError, "string"),
        (col("s") / 2, UnsupportedTypeError, "string"),
        (col("n") & True, UnsupportedTypeError, "brackets"),
        (~col("n"), UnsupportedTypeError, "conditions"),
        (col("n").length(), UnsupportedTypeError, "only strings"),
        (col("n").is_in(["a"]), UnsupportedTypeError, "never one of"),
        (col("flag") == 1, UnsupportedTypeError, "bool"),
        (col("n") // 0, InputError, "division by zero"),
        (col("n") % (col("n") - 1), InputError, "division by zero"),
        (col("n") + (2**63 - 1), OverflowInputError, "overflow"),
        (col("n") * 2**62, OverflowInputError, "overflow"),
        ((col("n") * 0 + -(2**63)) // -1, OverflowInputError, "overflow"),
        (col("f").cast("int64"), InputError, "cast"),
        (col("small").cast("string").cast("bool"), InputError, "cast"),
    ],
)
def test_example_evaluation_errors_name_the_expression(expression, error, text):
    with pytest.raises(error, match=text):
        expression.evaluate(BATCH)


def test_example_filter_needs_a_condition():
    with pytest.raises(SchemaError, match="not a condition"):
        (col("n") + 1).filter(BATCH)


def test_example_twice_the_same_column():
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SchemaError, match="2 times"):
        col("a").evaluate(batch)


# --------------------------------------------------------------------- oracle

INTEGERS = st.one_of(st.none(), st.integers(-50, 50), st.sampled_from([-(2**31), 2**31 - 1]))
FLOATS = st.one_of(st.none(), st.floats(width=64))
BOOLS = st.one_of(st.none(), st.booleans())


def strictly(function):
    return lambda a, b: None if a is None or b is None else function(a, b)


def kleene_and(a, b):
    return False if a is False or b is False else None if a is None or b is None else True


def kleene_or(a, b):
    return True if a is True or b is True else None if a is None or b is None else False


def same(a, b):
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(INTEGERS, INTEGERS), min_size=1, max_size=8))
def test_oracle_integers(rows):
    batch = pa.record_batch(
        {"a": pa.array([a for a, _ in rows], pa.int64()), "b": pa.array([b for _, b in rows], pa.int32())}
    )
    for symbol in (operator.add, operator.sub, operator.mul, operator.lt, operator.eq, operator.ge):
        expected = [strictly(symbol)(a, b) for a, b in rows]
        assert symbol(col("a"), col("b")).evaluate(batch).to_pylist() == expected
    for symbol in (operator.floordiv, operator.mod, operator.truediv):
        if any(b == 0 for _, b in rows):
            continue
        expected = [strictly(symbol)(a, b) for a, b in rows]
        assert symbol(col("a"), col("b")).evaluate(batch).to_pylist() == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=8))
def test_oracle_floats(rows):
    batch = pa.record_batch(
        {"a": pa.array([a for a, _ in rows], pa.float64()), "b": pa.array([b for _, b in rows], pa.float64())}
    )
    for symbol in (operator.add, operator.sub, operator.mul, operator.lt, operator.eq, operator.ne):
        expected = [strictly(symbol)(a, b) for a, b in rows]
        got = symbol(col("a"), col("b")).evaluate(batch).to_pylist()
        assert all(map(same, got, expected)), (got, expected)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(BOOLS, BOOLS), min_size=1, max_size=8))
def test_oracle_three_valued_logic(rows):
    batch = pa.record_batch(
        {"a": pa.array([a for a, _ in rows], pa.bool_()), "b": pa.array([b for _, b in rows], pa.bool_())}
    )
    a, b = col("a"), col("b")
    assert (a & b).evaluate(batch).to_pylist() == [kleene_and(*row) for row in rows]
    assert (a | b).evaluate(batch).to_pylist() == [kleene_or(*row) for row in rows]
    assert (~a).evaluate(batch).to_pylist() == [None if x is None else not x for x, _ in rows]
    kept = (a & ~b).filter(batch).to_pylist()
    assert kept == [{"a": x, "b": y} for x, y in rows if x is True and y is False]


# ------------------------------------------------- predicates, aggregates, keys


def test_example_predicates():
    both = band("x", "a", 10) & band("y", "b", np.float32(0.5))
    assert both == ex.AndPredicate((ex.BandPredicate("x", "a", 10), ex.BandPredicate("y", "b", 0.5)))
    assert len((both & equal("id")).parts) == 3
    assert equal("id") == ex.EqualPredicate("id", "id")
    assert equal("l", "r") == ex.EqualPredicate("l", "r")
    assert isinstance(band("x", "a", np.int64(3)).width, int)
    assert band("x", "a", math.inf).width == math.inf
    assert hash(both) == hash(band("x", "a", 10) & band("y", "b", 0.5))


@pytest.mark.parametrize(
    "build",
    [
        lambda: band("x", "a", -1),
        lambda: band("x", "a", math.nan),
        lambda: band("x", "a", True),
        lambda: band("x", "a", "10"),
        lambda: band(1, "a", 10),
        lambda: band("x", "a", 1) and band("y", "b", 1),
        lambda: band("x", "a", 1) & (lambda left, right: True),
        lambda: band("x", "a", 1) | band("y", "b", 1),
        lambda: ~band("x", "a", 1),
        lambda: equal(""),
        lambda: ex.max(col("a") + 1),
        lambda: ex.sum(None),
        lambda: ex.pairs("text", 0),
        lambda: ex.pairs("text", 2.5),
        lambda: ex.pairs("text", True),
    ],
)
def test_example_descriptions_are_validated(build):
    with pytest.raises(ParameterError):
        build()


def test_example_aggregates_and_keys():
    assert ex.count() == ex.Aggregate("count")
    assert ex.max(col("x"), ignore_nan=True) == ex.Aggregate("max", "x", True)
    kinds = [f("x").kind for f in (ex.sum, ex.min, ex.max, ex.mean, ex.first, ex.last, ex.count_distinct)]
    assert kinds == ["sum", "min", "max", "mean", "first", "last", "count_distinct"]
    assert repr(ex.min("x", ignore_nan=True)) == "min('x', ignore_nan=True)"
    assert ex.each("tags") == ex.Each("tags")
    assert ex.pairs("text", 10) == ex.Pairs("text", 10)
    assert ex.pairs("text", math.inf).distance is None
    assert (ex.words("t"), ex.hashtags("t")) == (ex.Words("t"), ex.Hashtags("t"))
