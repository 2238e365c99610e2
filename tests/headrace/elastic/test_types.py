"""Every Arrow type and layout, through every operator, key, aggregate and join condition.

Property    what comes in valid gives the reference's rows, in the right type and
            bit for bit, or is refused by name before the run; nothing crashes.
            Types: integers, floats, dates, times, timestamps, durations, bool,
            decimals, texts, bytes, lists, structs, maps, run ends, null;
            layouts: large, views, fixed size, dictionaries with null and unused
            entries, each sliced, chunked, empty, all null.
Oracle      `support.typed_cases`: `headrace.reference` over Python values, and
            lists of what is supported; by hand for the examples.
Planted     times taken for microseconds; Arrow's cast of list views; raw
            comparison of units; a difference for equality; a carry lost.
Cannot see  types that pyarrow cannot make; text columns beyond 2 GiB.

`pytest -m campaign` draws other cases, in processes of their own that may crash,
for HEADRACE_TYPES_SECONDS (an hour unless told), and reports those that fail.
"""

from __future__ import annotations

import datetime
import math
import os
import random
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace as hr
from headrace.elastic.aggregate import fold
from headrace.elastic.join.compiled import CompiledJoin
from headrace.errors import KeyNullError, OutputError, OverflowInputError, SchemaError, UnsupportedTypeError
from headrace.expressions import rows
from headrace.ingress import columns, comparison
from headrace.ingress.comparison import Comparison, compare_equal
from headrace.ingress.encode import Encoder
from headrace.ingress.key_sources import KeySource
from planted_mistakes import planted
from support import typed_cases
from support.typed_cases import CASES, EVERY_TYPE, KEPT, Wrong
from support.workloads import examples

TESTS = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=() if case == "key" else pytest.mark.logic) for case in sorted({*CASES} - {"sums"})]
)
def test_oracle_every_type(case):
    for kind in EVERY_TYPE[case]:
        for seed in range(examples(2)):
            try:
                typed_cases.check(case, kind, seed, few=True)
            except Exception as error:
                error.add_note(f"case {case!r} of {kind}, seed {seed}")
                raise


@pytest.mark.campaign
def test_campaign_of_types():
    """Batches of drawn cases, each batch a process: one that crashes is reported with the case it was at."""
    seconds = float(os.environ.get("HEADRACE_TYPES_SECONDS", "3600"))
    until, seed, failures, cases = time.monotonic() + seconds, random.SystemRandom().randrange(2**40), [], 0
    while time.monotonic() < until and len(failures) < 20:
        command = [sys.executable, "-X", "faulthandler", "-m", "support.typed_cases", "--from", str(seed), "400"]
        done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=3600, check=False)
        said = done.stdout.splitlines()
        cases += len(said)
        seed += max(1, len(said))  # after the one that failed
        if done.returncode:
            failures.append(f"{said[-1] if said else command}: exit {done.returncode}\n{done.stderr[-3000:]}")
    print(f"{cases:,} cases of types, {len(failures)} failed")
    assert not failures, "\n\n".join(failures)


# -- aggregates keep the type of their column


def kept(values, ts=None):
    """All aggregates of the cases above, which are compiled: of values, in windows of 10."""
    every = typed_cases.everything(values.type)
    count = len(values)
    nothing = pa.nulls(count, typed_cases.added(values.type))
    table = pa.table({"ts": ts or list(range(count)), "g": [0] * count, "v": values, "w": nothing})
    made = {name: getattr(hr, function)(*([column] if column else [])) for name, (function, column) in every.items()}
    return hr.stream(table, event_time="ts").key_by("g", nulls="drop").window(10).aggregate(**made).to_arrow()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Rome"])
def test_example_timestamps_come_back_in_their_unit(unit, zone):
    kind = pa.timestamp(unit, zone)
    result = kept(pa.array([5_000, 7_000, 6_000], kind))
    assert [result.schema.field(name).type for name in KEPT] == [kind] * 4
    assert [result[name].cast(pa.int64()).to_pylist() for name in KEPT] == [
        [5_000], [7_000], [5_000], [6_000],
    ]  # fmt: skip


def test_example_times_that_are_all_null_give_null():
    """Window [0, 10) has no value, [10, 20) has one."""
    result = kept(pa.array([None, None, 7], pa.timestamp("us")), [0, 1, 10])
    seven = datetime.datetime(1970, 1, 1, 0, 0, 0, 7)
    assert [result[name].to_pylist() for name in KEPT] == [[None, seven]] * 4


@pytest.mark.parametrize(
    "kind, values",
    [
        (pa.date32(), [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1)]),
        (pa.time64("us"), [datetime.time(2), datetime.time(1)]),
        (pa.duration("s"), [datetime.timedelta(2), datetime.timedelta(1)]),
        (pa.bool_(), [True, False]),
        (pa.int8(), [2, -1]),
        (pa.uint32(), [2**32 - 1, 1]),
        pytest.param(pa.float32(), [2.5, 1.5], marks=pytest.mark.logic),
    ],
    ids=str,
)
def test_example_values_keep_their_type(kind, values):
    result = kept(pa.array([values[0], None, values[1]], kind))
    assert [result.schema.field(name).type for name in KEPT] == [kind] * 4
    assert [result[name].to_pylist() for name in KEPT] == [[values[1]], [values[0]], [values[0]], [values[1]]]


@pytest.mark.logic
def test_example_what_is_only_counted_may_have_any_type():
    """And as many different texts as it likes: nobody needs to know them apart."""
    one = pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, None]), pa.array(["a", None, "b"])])
    coded = pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["x", None]).dictionary_encode())
    values = {
        "union": one, "ends": pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array(["x", None])),
        "coded ends": coded, "listed": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([None, [1]])),
        "part": pa.RunEndEncodedArray.from_arrays(pa.array([2, 4, 9], pa.int16()), pa.array([[], None, []])).slice(1, 3),
        "large": pa.array([2**64 - 1, None, 0], pa.uint64()), "money": pa.array([Decimal("1.5"), None, None]),
        "text": ["a", "b", None], "lists": [[], None, [None]], "coded": pa.array(["a", None, "a"]).dictionary_encode(),
    }  # fmt: skip
    stream = hr.stream(pa.table({"ts": [0, 1, 2], **values}), event_time="ts").window(10)
    result = stream.aggregate(**{name: hr.count(name) for name in values}).to_arrow(max_keys=1)
    wanted = {"union": 1, "ends": 1, "coded ends": 1, "listed": 1, "part": 1, "large": 2, "money": 1, "text": 2}
    assert result.drop("ts").to_pylist() == [wanted | {"lists": 2, "coded": 2}]


def test_example_decimals_are_refused_where_the_query_is_written():
    stream = hr.stream(pa.table({"ts": [0], "v": [Decimal("1.5")]}), event_time="ts")
    with pytest.raises(UnsupportedTypeError, match=r"min\('v'\): column 'v' has type decimal128.*cast it to double"):
        stream.window(10).aggregate(least=hr.min("v"))


# -- sums and means of times


@pytest.mark.parametrize("kind", [pa.duration("ms"), pa.dictionary(pa.int8(), pa.duration("s"))], ids=str)
def test_example_a_sum_of_durations_is_a_duration(kind):
    plain = typed_cases.flat(kind)
    values = pa.array([5, None, -7], plain)
    table = pa.table({"ts": [0, 1, 2], "v": values.dictionary_encode().cast(kind) if plain != kind else values})
    result = hr.stream(table, event_time="ts").window(10).aggregate(total=hr.sum("v")).to_arrow()
    assert result.schema.field("total").type == plain
    assert result["total"].cast(pa.int64()).to_pylist() == [-2]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.time32("s"), pa.timestamp("us", "UTC")], ids=str)
def test_example_points_in_time_have_no_sum(kind):
    stream = hr.stream(pa.table({"ts": [0], "when": pa.array([0], kind)}), event_time="ts").window(10)
    with pytest.raises(UnsupportedTypeError, match=r"sum\('when'\): the column is .*hr.mean and hr.median.*durations") as refused:
        stream.aggregate(total=hr.sum("when"))
    assert str(kind) in str(refused.value)


MEANS_OF_TIMES = {
    "halves go away from zero": ([1, 2], 2),
    "also below it": ([-1, -2], -2),
    "less than a half": ([1, 1, 2], 1),
    "less than a half, below zero": ([-1, -1, -2], -1),
    "sums beyond int64": ([2**63 - 1, 2**63 - 2], 2**63 - 1),
    "sums beyond int64, below zero": ([-(2**62), -(2**62), -(2**62), 1], -3 * 2**60),
    "nulls are passed over": ([5, None], 5),
    "nothing else": ([None], None),
}


@pytest.mark.parametrize("values, mean", MEANS_OF_TIMES.values(), ids=MEANS_OF_TIMES)
def test_example_means_of_times_are_times(values, mean):
    found = kept(pa.array(values, pa.duration("us")))["average"]
    assert found.type == pa.duration("us") and found.cast(pa.int64()).to_pylist() == [mean]


@pytest.mark.slow
def test_example_a_mean_of_days_is_a_day():
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 4)]
    for kind in (pa.date32(), pa.date64()):
        assert kept(pa.array(days, kind))["average"].to_pylist() == [datetime.date(2020, 1, 3)]


# -- means of integers are exact


MEANS = [
    [2**63 - 1] * 3,
    [-(2**63)] * 5,
    [2**63 - 1, 2**63 - 1, -(2**63), 1],
    [2**53 + 1, 0],
    [2**53, 1, 1],
    [-(2**63), 2**63 - 1],
    [2**62, 2**62, 2**62, -1],
    [3, 4],
    [1, 2, None],
]


@pytest.mark.parametrize("values", MEANS, ids=str)
def test_oracle_means_of_integers(values):
    """Sums far beyond int64, and quotients where rounding twice would show."""
    present = [v for v in values if v is not None]
    assert kept(pa.array(values, pa.int64()))["average"].to_pylist() == [sum(present) / len(present)], "another mean"


# -- lists of every layout as keys


def test_example_a_list_view_is_a_key():
    """Arrow's own cast to `large_list` gives it a wrong last offset, which was read unchecked."""
    table = pa.table({"ts": [0, 1, 2], "k": pa.array([["a", "b"], ["a"], []], pa.list_view(pa.string()))})
    result = hr.stream(table, event_time="ts").key_by(x=hr.each("k"), nulls="drop").window(10).aggregate(n=hr.count()).to_arrow()
    assert result.to_pydict() == {"ts": [10, 10], "x": ["a", "b"], "n": [2, 1]}


def test_property_what_a_cast_returns_is_validated(monkeypatch):
    broken = pa.Array.from_buffers(
        pa.large_string(), 1, [None, pa.py_buffer(np.array([0, 9], np.int64)), pa.py_buffer(b"a" * 10)]
    )
    bad = pa.Array.from_buffers(pa.large_string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int64)), pa.py_buffer(b"\xff")])
    for returned, is_bad in ((broken, False), (bad, True)):
        monkeypatch.setattr(rows.pc, "cast", lambda array, kind, returned=returned: returned)
        if is_bad:
            with pytest.raises(hr.HeadraceError, match="cast from string_view to large_string gives invalid data"):
                columns.string_spans(pa.array(["a"], pa.string_view()))
        else:
            columns.string_spans(pa.array(["a"], pa.string_view()))


def test_example_a_null_entry_of_a_dictionary_is_a_null_key():
    """At the row where it is, by the column's name."""
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    batch = pa.record_batch({"ts": [0, 1, 2], "k": codes})
    keys = (KeySource(("k",)),)
    with pytest.raises(KeyNullError, match="'k' is null at row 1"):
        list(Encoder(batch.schema, "ts", keys).encode(batch))
    (encoded,) = Encoder(batch.schema, "ts", keys, nulls="drop").encode(batch)
    assert encoded.offsets.tolist() == [0, 1, 1, 2]


# -- joins


def joins(left, right, **condition):
    sides = []
    for name, values in (("a", left), ("b", right)):
        table = pa.table({"ts": pa.array(range(len(values)), pa.int64()), name: values})
        sides.append(hr.stream(table, event_time="ts"))
    return sides[0].join(sides[1], within=100, **condition).to_arrow().num_rows


EQUALITIES = [{"on": ("a", "b")}, {"where": hr.equal("a", "b")}, {"where": hr.equal("a", "b"), "index": False}]


@pytest.mark.logic
@pytest.mark.parametrize(
    "condition, kind",
    [(EQUALITIES[0], pa.float32()), (EQUALITIES[1], pa.float64()), (EQUALITIES[2], pa.float32())],
    ids=str,
)
def test_example_infinity_equals_itself_and_nan_nothing(condition, kind):
    values = pa.array([math.inf, -math.inf, math.nan, 0.0], kind)
    assert joins(values, pa.array([math.inf, math.nan, -0.0, 1.0], kind), **condition) == 2


@pytest.mark.logic
def test_example_infinity_is_within_no_distance():
    values = pa.array([math.inf, 1.0])
    assert joins(values, values, where=hr.band("a", "b", 0.5)) == 1


def instants(values, unit):
    return pa.array(values, pa.timestamp(unit))


@pytest.mark.logic
@pytest.mark.parametrize("condition", EQUALITIES[:2], ids=str)
def test_example_units_are_brought_together(condition):
    assert joins(instants([1], "s"), instants([1000], "ms"), **condition) == 1
    assert joins(instants([5], "s"), instants([5], "ms"), **condition) == 0
    # Neither rounded nor out of range: 1.5 s is no whole second, 292,000,000,000 years are no nanoseconds.
    assert joins(instants([1, 2**62], "s"), instants([1_500_000_000, 2**62, None], "ns"), nulls="drop", **condition) == 0
    assert joins(pa.array([1], pa.date32()), pa.array([86_400_000], pa.date64()), **condition) == 1
    assert joins(instants([-1], "s"), pa.array([-1000], pa.timestamp("ms", "UTC")), **condition) == 1


REFUSED = [
    (pa.array([1], pa.date32()), instants([1], "us"), "a date is never equal to a timestamp"),
    (pa.array([True]), pa.array([1]), "a truth value is never equal to a number"),
    (pa.array(["1"]), pa.array([1]), "a text is never equal to a number"),
    (pa.array([1], pa.duration("s")), pa.array([1]), "a duration is never equal to a number"),
    (pa.array(["a"]), pa.array([b"a"]), "a text is never equal to a bytes"),
    (pa.array([Decimal(1)]), pa.array([Decimal(1)]), "column 'a' has type decimal128.*cast it to double"),
]


@pytest.mark.parametrize("left, right, words", REFUSED, ids=[words for *_, words in REFUSED])
@pytest.mark.parametrize("condition", EQUALITIES[:2], ids=str)
def test_example_columns_of_different_kinds_are_refused(left, right, words, condition):
    with pytest.raises(SchemaError, match=words):
        joins(left, right, **condition)


def test_example_the_pair_that_differs_is_named():
    sides = [
        hr.stream(pa.table({"ts": [0], "a" + side: ["x"], "b" + side: column}), event_time="ts")
        for side, column in (("l", pa.array(["x"])), ("r", pa.array([1])))
    ]
    with pytest.raises(SchemaError, match=r"join\(on=\('bl', 'br'\)\): columns 'bl' and 'br' have types string and int64"):
        sides[0].join(sides[1], 5, on=[("al", "ar"), ("bl", "br")])


def test_example_a_band_has_one_unit():
    with pytest.raises(SchemaError, match=r"timestamp\[s\] and timestamp\[ms\] differ, so the width has no unit"):
        joins(instants([1], "s"), instants([1], "ms"), where=hr.band("a", "b", 1))


def test_example_one_column_is_compared_with_integers_and_floats():
    """2**53 + 1 has no float64: the comparison with a float must not round the one with an integer."""
    big = 2**53 + 1
    left = hr.stream(pa.table({"ts": [0], "x": [big]}), event_time="ts")
    right = hr.stream(pa.table({"ts": [0], "i": [big], "f": [float(big)]}), event_time="ts")
    (node,) = (joined := left.join(right, 5, hr.equal("x", "i") & hr.equal("x", "f")).plan()).operators
    program = CompiledJoin(node, joined.branches[node.name], SimpleNamespace(mode="vsn", max_keys=10, debug=False))
    assert program.columns_of(0) == {"x": np.int64, "x / 1 as float64": np.float64}
    assert [(band.left, band.dtype) for band in program.shape.bands] == [(0, "int64"), (1, "float64")]


@pytest.mark.logic
def test_example_integers_beyond_int64_are_named():
    values = pa.array([1, 2**63], pa.uint64())
    with pytest.raises(OverflowInputError, match="column 'a', row 1: 9223372036854775808 is above the range of int64"):
        joins(values, pa.array([1]), on=("a", "b"))


# -- rows that are carried along


def test_example_dictionaries_that_do_not_fit_together_are_named():
    """128 entries of int8 in each of two batches are 200 together, in results that need all of them."""
    batches = []
    for part in range(2):
        texts = pa.array([f"{part} {i}" for i in range(100)])
        codes = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), texts)
        batches.append(pa.record_batch({"ts": pa.array([0] * 100, pa.int64()), "v": codes}))
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    tables = [table.append_column("x", pa.array([1] * 100)) for table in tables]
    right = hr.stream(pa.table({"ts": [0], "a": [1]}), event_time="ts")
    query = hr.stream(tables, event_time="ts").join(right, 5, on=("x", "a"))
    with pytest.raises(OutputError, match="column 'v' of dictionary<.*cannot be put together.*wider indices"):
        query.to_arrow()


def test_example_run_ends_are_refused_only_where_they_are_used():
    table = pa.table({"ts": [0, 1], "k": ["a", "a"], "v": pc.run_end_encode(pa.array([1, 1]))})
    stream = hr.stream(table, event_time="ts")
    assert stream.key_by("k", nulls="drop").window(10).aggregate(n=hr.count()).to_arrow()["n"].to_pylist() == [2]
    with pytest.raises(UnsupportedTypeError, match="'v' has type run_end_encoded.*run_end_decode"):
        stream.forward().to_arrow()


def test_example_parquet_names_a_column_it_cannot_hold(tmp_path):
    table = pa.table({"ts": [0], "v": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(OutputError, match="column 'v' of month_day_nano_interval cannot be written to Parquet"):
        hr.stream(table, event_time="ts").forward().to_arrow(sink=hr.parquet(tmp_path / "out.parquet"))


# -- planted mistakes


def finds(case, kinds, words, seeds=range(6)):
    """One of these cases gives something else, in these words."""
    with pytest.raises(Wrong, match=f"(?s){words}"):
        for kind in kinds:
            for seed in seeds:
                typed_cases.check(case, kind, seed, few=True)


@pytest.mark.interpreted
def test_planted_values_are_taken_for_microseconds(monkeypatch):
    right = columns.from_values

    def restored(values, kind, is_null=None):
        if pa.types.is_timestamp(kind):
            return right(values, pa.timestamp("us", kind.tz), is_null).cast(kind, safe=False)
        return right(values, kind, is_null)

    monkeypatch.setattr("headrace.elastic.aggregate.results.from_values", restored)
    finds("values", [pa.timestamp("ms")], "row .* must be")


def test_planted_nulls_are_not_told(monkeypatch):
    plain = lambda values, kind, is_null=None: columns.from_values(values, kind)  # noqa: E731
    monkeypatch.setattr("headrace.elastic.aggregate.results.from_values", plain)
    finds("values", [pa.date32()], "row .* must be")


def test_planted_units_are_compared_raw(monkeypatch):
    def raw(*arguments):
        return Comparison(compare_equal(*arguments).dtype)

    monkeypatch.setattr("headrace.elastic.join.compiled.compare_equal", raw)
    finds("equal", [pa.timestamp("s")], "must be")


def test_planted_a_rest_is_rounded_away():
    from headrace.ingress import encode

    with planted(encode, "is_whole = quotients * divisor == values", "is_whole = values == values"):
        finds("equal", [pa.timestamp("s"), pa.duration("ms")], "rows, must be", range(20))


def test_planted_views_lie_in_order():
    with planted(columns, "take(values, places)", "take(values, np.sort(places))"):
        finds("each", [pa.string(), pa.int64()], "must be", range(30))


@pytest.mark.slow
def test_planted_a_carry_is_lost(monkeypatch):
    right = fold._block

    def block(*arguments):
        return [line.replace("+= over_", "+= 0 & over_") for line in right(*arguments)]

    monkeypatch.setattr(fold, "_block", block)
    with pytest.raises(AssertionError, match="another mean"):
        test_oracle_means_of_integers(MEANS[0])


def test_planted_kinds_are_all_one(monkeypatch):
    monkeypatch.setattr(comparison, "_family", lambda kind: "number")
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_example_columns_of_different_kinds_are_refused(*REFUSED[1], EQUALITIES[0])
