"""Results of every type through the next operator's gate.

Property    numbers and times of any type, null or not, and event times of any type, give behind the gate the rows that the
            reference gives, for any threads, changes of them, and batches of the input; texts may be counted before it,
            and what nobody reads may be of any type
Oracle      `headrace.reference`, one aggregate behind the other, by `support.typed_cases`; the run through a collector
Planted     NaN that stands for a null taken for a number
Cannot see  how long it takes
"""

import random

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import reference
from headrace.elastic import passing
from headrace.errors import OutputError
from headrace.windows import Window
from support.passing import GATE, options_of
from support.typed_cases import check_rows, coded, payloads, rows_of, stream
from support.typed_columns import FLOATS, NUMBERS, TIMES, column
from support.workloads import HANG_S

FIRST, SECOND = Window(6, 3), Window(24, 12)
UPPER = {
    "least": ("min", "v"), "most": ("max", "v"), "first": ("first", "v"), "last": ("last", "v"), "often": ("mode", "v"),
    "known": ("count", "v"), "different": ("count_distinct", "v"), "names": ("count_distinct", "s"), "n": ("count", None),
}  # fmt: skip
LOWER = {
    "least": ("min", "least"), "most": ("max", "most"), "first": ("first", "first"), "last": ("last", "last"),
    "often": ("mode", "often"), "values": ("count_distinct", "last"), "known": ("count", "most"), "names": ("sum", "names"),
    "n": ("sum", "n"),
}  # fmt: skip
KEPT = ("least", "most", "first", "last", "often")


def made(wanted):
    return {name: getattr(hr, kind)(*([] if column is None else [column])) for name, (kind, column) in wanted.items()}


def expected(tables, **options):
    """One aggregate behind the other, as the reference has them."""
    upper, lower = (
        {name: ("distinct" if kind == "count_distinct" else kind, of) for name, (kind, of) in wanted.items()}
        for wanted in (UPPER, LOWER)
    )
    found = reference.aggregate(payloads(tables), FIRST, reference.column("g"), upper, **options)
    again = [(row.ts, {"g": row.key, **row.values}) for row in found]
    return reference.aggregate([again], SECOND, reference.column("g"), lower, **options)


def drawn_table(draw, kind, rows=40):
    table = pa.table({
        "ts": pa.array(sorted(draw.randrange(-12, 60) for _ in range(rows)), pa.int64()),
        "row": pa.array(range(rows), pa.int64()),
        "g": [draw.randrange(4) for _ in range(rows)],
        "s": [draw.choice(["a", "b", None]) for _ in range(rows)],
    })  # fmt: skip
    return table.append_column("v", column(draw, kind, rows))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(NUMBERS[:8], id="whole"),
        pytest.param(FLOATS, marks=pytest.mark.logic, id="floats"),  # another compiled shape, and of no other text
        pytest.param([*TIMES, pa.bool_()], id="times"),
    ],
)
def test_oracle_values_of_every_type(kinds):
    for kind in kinds:
        draw = random.Random(str(kind))
        given = coded(draw, kind)
        tables = [drawn_table(draw, given) for _ in range(draw.randint(1, 2))]
        above = stream(draw, tables).key_by("g").window(FIRST.size, FIRST.advance)
        above = above.aggregate("upper", **made(UPPER), longest=hr.max("s"))
        query = above.key_by("g").window(SECOND.size, SECOND.advance).aggregate("lower", **made(LOWER))
        rows = [{"ts": row.ts, "g": row.key, **row.values} for row in expected(tables)]
        check_rows(query.to_arrow(**GATE, **options_of(draw, 60)), rows, dict.fromkeys(KEPT, kind))


def without_nan(table, size=6):
    stream = hr.stream(table, event_time="ts", batch_rows=3).key_by("g").window(size)
    above = stream.aggregate(
        "upper", x=hr.min("v", ignore_nan=True), y=hr.max("v"), z=hr.median("v", ignore_nan=True), n=hr.count("v")
    )
    return above.key_by("g").window(24).aggregate("lower", x=hr.min("x"), y=hr.max("y"), z=hr.count("z"), n=hr.sum("n"))


@pytest.mark.logic
def test_agree_a_null_that_stands_for_nan():
    """A window of nothing but NaN has no least value but NaN, which is left out, so there is none."""
    for seed, kind in enumerate(FLOATS):
        draw = random.Random(seed)
        query = without_nan(drawn_table(draw, kind, 60))
        found = query.to_arrow(**GATE, **options_of(draw, 60))
        assert repr(rows_of(found)) == repr(rows_of(query.to_arrow(passing="collector")))



@pytest.mark.logic
def test_planted_a_null_that_stands_for_nan_is_found(monkeypatch):
    only = pa.table({"ts": [0, 1, 7], "g": [1, 1, 1], "v": [np.nan, np.nan, 2.0]})
    query = without_nan(only)
    assert query.to_arrow(**GATE)["z"].to_pylist() == [1]
    monkeypatch.setattr(passing, "_why_null", lambda field: (field.known, ""))
    assert query.to_arrow(**GATE)["z"].to_pylist() == [2]


UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
EVENT_TIMES = [
    pa.int32(), pa.uint32(), pa.int64(), pa.uint64(),
    *(pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "Europe/Rome")),
]  # fmt: skip


def by_time(kind, times, size, advance):
    """Twice, of event times of a type, where a window of `size` units may be less than the type has."""
    counts = pa.array(times, pa.int64())
    if pa.types.is_timestamp(kind):
        counts = counts.cast(pa.timestamp(kind.unit)).cast(kind)
    table = pa.table({"ts": counts.cast(kind), "g": [i % 3 for i in range(len(times))], "v": range(len(times))})
    first = hr.stream(table, event_time="ts", batch_rows=7).key_by("g").window(size, advance)
    above = first.aggregate("upper", v=hr.max("v"), n=hr.count())
    return above.key_by("g").window(size).aggregate("lower", v=hr.last("v"), n=hr.sum("n"), least=hr.min("n"))


@pytest.mark.logic
def test_oracle_event_times_of_every_type():
    for number, kind in enumerate(EVENT_TIMES):
        draw = random.Random(number)
        is_signed = pa.types.is_timestamp(kind) or pa.types.is_signed_integer(kind)
        unit = {"ns": 1_000}.get(getattr(kind, "unit", ""), 1)
        times = sorted(unit * draw.randrange(-40 if is_signed else 0, 80) for _ in range(50))
        size, advance = 12, 4
        if pa.types.is_timestamp(kind):
            size, advance = (f"{count}{kind.unit if kind.unit != 'ns' else 'us'}" for count in (12, 4))
        query = by_time(kind, times, size, advance)
        found = query.to_arrow(**GATE, **options_of(draw, 60))
        given = [(ts // unit, {"g": i % 3, "v": i}) for i, ts in enumerate(times)]
        first = reference.aggregate([given], Window(12, 4), reference.column("g"), {"v": ("max", "v"), "n": ("count", None)})
        again = [(row.ts, {"g": row.key, **row.values}) for row in first]
        last = {"v": ("last", "v"), "n": ("sum", "n"), "least": ("min", "n")}
        rows = [
            {"ts": row.ts * unit, "g": row.key, **row.values}
            for row in reference.aggregate([again], Window(12, 12), reference.column("g"), last)
        ]
        check_rows(found, rows, {"ts": kind})


@pytest.mark.logic
def test_example_ends_of_windows_that_a_type_of_times_has_not():
    """Half seconds are microseconds in the first result, and so behind it; beyond int32 there is no result either way."""
    query = by_time(pa.timestamp("s"), [0, 1, 1, 5], "500ms", "250ms")
    found = query.to_arrow(**GATE)
    assert found.schema.field("ts").type == pa.timestamp("us")
    assert found.equals(query.to_arrow(passing="collector"))
    late = by_time(pa.int32(), [0, 2**31 - 3], 10, 5)
    for way in (GATE, {"passing": "collector"}):
        with pytest.raises(OutputError, match="do not fit int32"):
            late.to_arrow(**way)


@pytest.mark.logic
def test_example_by_itself_all_of_that_goes_through_the_gate():
    draw = random.Random(1)
    table = drawn_table(draw, pa.date32()).set_column(0, "ts", pa.array(range(40), pa.timestamp("ms")))
    above = hr.stream(table, event_time="ts").key_by("g").window("6ms").aggregate("upper", **made(UPPER), longest=hr.max("s"))
    query = above.key_by("g").window("24ms").aggregate("lower", **made(LOWER))
    with query.start() as run:
        assert run.wait(HANG_S)
        assert run["lower"].takes.startswith("gate: "), run["lower"].takes
    texts = above.key_by("g").window("24ms").aggregate("lower", longest=hr.max("longest"))
    with texts.start() as run:
        assert run.wait(HANG_S)
        assert "'longest' is not a number or time" in run["lower"].takes
