"""A filter of comparisons, and columns chosen, between two operators of which one passes its results on to the other's gate.

Property    results are those of the reference and, bit for bit, those of `passing="collector"`, for bools, drawn comparisons and
            what `&`, `|` and `~` make of them, extreme numbers, nulls, NaN and -0.0, any threads and changes of them at both
            operators, rings that are full again and again; books hold while it runs and at its end; what is not certain to mean
            what it means to Arrow goes through a collector and says why
Oracle      `headrace.reference`, one aggregate behind the other with the filter in between; the run through a collector
Planted     here: NaN that stands for a null compared as a number; counts of what is left out; in test_passing_interleave.py:
            the room of a ring with gaps, time where all is left out; in test_routed.py: rows taken for a run that are none
Cannot see  memory weaker than x86's; each comparison of each type: test_kept_rows.py
"""

import datetime
import math
import operator
import random
import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import reference
from headrace.elastic import build, passing, section
from headrace.errors import OverflowInputError, ParameterError
from headrace.ingress.store import CHUNK
from headrace.windows import Window
from support.books import changed_and_watched, check_end
from support.passing import options_of
from support.typed_cases import check_rows, payloads, rows_of, stream
from support.workloads import HANG_S, Steered, eventually, examples

GATE = {"passing": "gate"}
FIRST, SECOND = Window(6, 3), Window(24, 12)
WHOLE = (0, 1, 2, -1, 3, -(2**63), 2**63 - 1)
FLOATS = (0.0, -0.0, 1.5, -2.0, math.nan, math.inf, -math.inf, 2.0**53, 1.0, 2.0**63, 5e-324)
BESIDE_FLOATS = (*FLOATS, 0, 1, 2**53 + 1, -(2**63), 2**63 - 1)
"""Whole numbers beside floats are floats, rounded: 2**53 + 1 equals 2.0**53."""
UPPER = {
    "n": ("count", None), "known": ("count", "v"), "least": ("min", "v"), "last": ("last", "v"), "lowest": ("min", "f"),
    "latest": ("last", "f"), "moved": ("last", "b"), "small": ("max", "w"),
}  # fmt: skip
LOWER = {
    "rows": ("count", None), "n": ("sum", "n"), "least": ("min", "least"), "first": ("first", "last"), "x": ("last", "latest"),
    "values": ("count", "lowest"), "list": ("collect_list", "last"),
}  # fmt: skip
TOTALS = {"rows": ("count", None), "n": ("sum", "n"), "most": ("max", "last"), "values": ("count_distinct", "latest")}
COMPARISONS = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def drawn_table(draw, rows=60):
    return pa.table({
        "ts": pa.array(sorted(draw.randrange(-12, 60) for _ in range(rows)), pa.int64()),
        "g": [draw.randrange(4) for _ in range(rows)],
        "v": pa.array([draw.choice([None, *WHOLE]) for _ in range(rows)], pa.int64()),
        "f": pa.array([draw.choice([None, *FLOATS]) for _ in range(rows)], pa.float64(), from_pandas=False),
        "b": pa.array([draw.choice([None, False, True]) for _ in range(rows)]),
        "w": pa.array([draw.choice([None, -128, 0, 1, 127]) for _ in range(rows)], pa.int8()),
    })  # fmt: skip


def made(wanted):
    return {name: getattr(hr, kind)(*([] if column is None else [column])) for name, (kind, column) in wanted.items()}


def upper(given):
    if isinstance(given, pa.Table) and "b" not in given.schema.names:
        given = given.append_column("b", pa.array([True] * len(given))).append_column("w", pa.array([1] * len(given), pa.int8()))
    stream = given if isinstance(given, hr.Stream) else hr.stream(given, event_time="ts")
    least = {"skipped": hr.min("f", ignore_nan=True)}
    return stream.key_by("g").window(FIRST.size, FIRST.advance).aggregate("upper", **made(UPPER), **least)


def per_key(stream, key="g", wanted=LOWER):
    return stream.key_by(key).window(SECOND.size, SECOND.advance).aggregate("lower", **made(wanted))


def totals(stream):
    return stream.window(SECOND.size, SECOND.advance).aggregate("lower", **made(TOTALS))


def drawn_conditions(draw):
    """Some comparisons: (column, operator, constant)."""
    columns = {"n": (1, 2, 3), "known": (0, 1, 2), "least": WHOLE, "last": WHOLE}
    columns |= dict.fromkeys(("lowest", "latest", "skipped"), BESIDE_FLOATS)
    columns |= {"moved": (False, True), "small": (-128, 0, 1, 300)}
    names = [draw.choice(list(columns)) for _ in range(draw.choice([1, 1, 2, 3]))]
    return [(name, draw.choice(["<=", ">=", "!=", *COMPARISONS]), draw.choice(columns[name])) for name in names]


def filtered(draw, above, conditions):
    """Together by & or one behind the other, with the constant on either side; a bool also by itself."""
    parts = [
        (hr.col(name) if constant else ~hr.col(name)) if (name, op) == ("moved", "==")
        else COMPARISONS[op](hr.col(name), constant) if draw.random() < 0.7
        else COMPARISONS[TURNED[op]](hr.lit(constant), hr.col(name))
        for name, op, constant in conditions
    ]  # fmt: skip
    last = parts.pop()
    while parts and draw.random() < 0.5:
        last = last & parts.pop()
    for part in parts:
        above = above.filter(part)
    return above.filter(last)


def is_kept(values, conditions):
    for name, op, constant in conditions:
        value = values[name]
        if value is None:
            return False
        if not COMPARISONS[op](value, float(constant) if isinstance(value, float) else constant):
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        (hr.col("n") > 4) | (hr.col("least") == hr.col("last")),
        ~((hr.col("known") >= 1) & (hr.col("lowest") < hr.col("latest"))),
        hr.col("least").is_null() | hr.col("skipped").is_not_null() & ~hr.col("n").is_in([1, 3]),
        ~hr.col("moved") & (hr.col("small") > 0) | hr.col("moved") & (hr.col("small") <= 0),
    ],
    ids=["alternatives", "a negation", "nulls", "bools"],
)  # fmt: skip
def test_agree_trees_of_comparisons(condition):
    """Nulls, NaN and equal columns, where the operator before keeps them."""
    query = per_key(upper(drawn_table(random.Random(3), 150)).filter(condition).filter(hr.col("n") < 9))
    with query.start(**GATE, threads=3, max_threads=4) as run:
        assert run.wait(HANG_S)
        counts = run.metrics().operators["lower"]
    assert counts.added > 5 and counts.filtered > 5
    assert bits(run.to_arrow()) == bits(query.to_arrow(passing="collector"))


def kept_rows(tables, conditions):
    """Results of the upper operator that pass, as the lower one gets them, and how many there are in all."""
    found = reference.aggregate(payloads(tables), FIRST, reference.column("g"), UPPER)
    least = reference.aggregate(payloads(tables), FIRST, reference.column("g"), {"skipped": ("min", "f")}, ignore_nan=True)
    rows = [(a.ts, {"g": a.key, **a.values, **b.values}) for a, b in zip(found, least, strict=True)]
    return [row for row in rows if is_kept(row[1], conditions)], len(rows)


def expected(kept, wanted, keys):
    wanted = {name: ("distinct" if kind == "count_distinct" else kind, of) for name, (kind, of) in wanted.items()}
    rows = reference.aggregate([kept], SECOND, *keys, wanted)
    return [{"ts": row.ts, **({"g": row.key} if keys[0] is not reference.no_key else {}), **row.values} for row in rows]


def bits(table):
    return table.schema, repr(rows_of(table))


@pytest.mark.logic
@pytest.mark.parametrize(
    ("below", "wanted", "keys"),
    [(per_key, LOWER, reference.column("g")), (totals, TOTALS, reference.no_key)], ids=["per_key", "totals"],
)  # fmt: skip
def test_oracle_drawn_comparisons(below, wanted, keys):
    some = 0
    for seed in range(examples(15)):
        draw = random.Random(seed)
        tables = [drawn_table(draw) for _ in range(draw.randint(1, 2))]
        conditions = drawn_conditions(draw)
        kept, all_ = kept_rows(tables, conditions)
        some += 0 < len(kept) < all_
        query = below(filtered(draw, upper(stream(draw, tables)), conditions))
        with query.start(**GATE, **options_of(draw, 40)) as run:
            assert run.wait(HANG_S)
            counts = run.metrics().operators["lower"]
        check_rows(run.to_arrow(), expected(kept, wanted, [keys]), {"rows": pa.int64()})
        assert (counts.added, counts.filtered) == (len(kept), all_ - len(kept)), conditions
        check_end(run.metrics())
        if seed < 4:
            assert bits(run.to_arrow()) == bits(query.to_arrow(passing="collector")), conditions
    assert some > examples(15) // 3


# -- many rows, and changes ----------------------------------------------------------------------------


def above(source):
    """As in test_passing.py, so that it is compiled once for both."""
    stream = hr.stream(source, event_time="ts").key_by("k").window(20)
    return stream.aggregate("upper", n=hr.count(), total=hr.sum("v"), least=hr.min("v"), known=hr.count("f"), last=hr.last("f"))


def below(stream):
    return stream.key_by("k").window(300, 100).aggregate("lower", n=hr.sum("n"), rows=hr.count(), first=hr.first("total"))


def many(rows=200_000, seed=1, keys=2_000, span=2_000):
    rng = np.random.default_rng(seed)
    v = rng.integers(-5, 6, rows)
    return pa.table({
        "ts": np.sort(rng.integers(0, span, rows)), "k": np.char.add("k", rng.integers(0, keys, rows).astype(str)),
        "v": pa.array(v, mask=v == 5), "f": rng.choice([0.5, math.nan, -0.0, 2.0], rows),
    })  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("threads", "condition"),
    [(1, hr.col("n") > 1), ({"upper": 3, "lower": 2}, (hr.col("total") > 0) & (hr.col("last") == 0.0)), (2, hr.col("n") > 99)],
    ids=["some", "two conditions", "none"],
)  # fmt: skip
def test_agree_rings_are_full_again_and_again(monkeypatch, threads, condition):
    """Of the results each ring has room for 16,384: rows are written over as soon as it is known that they were read."""
    monkeypatch.setattr(section, "OUTPUT_CAPACITY", CHUNK)
    query = below(above(many()).filter(condition))
    with query.start(**GATE, threads=threads, max_threads=4) as run:
        assert run.wait(HANG_S)
        last = run.metrics()
    check_end(last, rows=200_000)
    before, behind = last.operators["upper"], last.operators["lower"]
    assert before.results > 7 * CHUNK and behind.added + behind.filtered == before.results
    assert bits(run.to_arrow()) == bits(query.to_arrow(passing="collector", threads=2))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in (1, 2))])
@pytest.mark.slow
def test_agree_while_both_operators_are_reconfigured(monkeypatch, seed):
    """Instances of both come and go all the time; `books` looks on."""
    monkeypatch.setattr(section, "OUTPUT_CAPACITY", CHUNK)
    draw = random.Random(seed)
    given = [many(40_000, seed, 500, 8_000), many(40_000, seed + 100, 500, 8_000)]
    inputs = [Steered(each, [100] * 400) for each in given]

    def query(tables):
        return below(above(tables).filter((hr.col("least") < 3) & (hr.col("last") >= 0.0)))

    with query(inputs).start(threads=2, max_threads=4, **GATE) as run:
        last = changed_and_watched(run, inputs, draw)
    check_end(last, rows=80_000)
    assert last.operators["lower"].filtered > 1_000 and last.operators["lower"].added > 1_000
    assert bits(run.to_arrow()) == bits(query(given).to_arrow(passing="collector"))


def test_stop_in_the_middle(monkeypatch):
    """Nobody takes results, and all that is before them is full."""
    monkeypatch.setattr(section, "OUTPUT_CAPACITY", CHUNK)
    goes_on, taken = threading.Event(), threading.Event()

    def sink(batch):
        taken.set()
        goes_on.wait(HANG_S)

    source = Steered(many(), [2_000] * 100)
    query = below(above(source).filter(hr.col("total") > 0))
    with query.start(sink=sink, threads=2, max_threads=2, **GATE, capacity=64) as run:
        source.let_all()
        assert taken.wait(HANG_S)
        eventually(lambda: run.metrics().operators["lower"].filtered > 1_000)
        goes_on.set()
        run.stop()
    last = run.metrics()
    assert last.state in ("stopped", "finished")
    assert all(one.balance.holds for one in last.operators.values()), [str(one.balance) for one in last.operators.values()]


@pytest.mark.logic
def test_example_keys_of_rows_left_out_count_where_the_gate_is_asked_for_and_only_there():
    """Behind a collector the lower operator would never hear of them, and the limit is enough."""
    ts = np.arange(600)
    given = pa.table({"ts": ts, "g": ts, "v": ts, "f": np.where(ts % 100, 0.0, 1.0)})
    passing = upper(given).filter(hr.col("latest") > 0.0)
    query = passing.key_by("g").window(600).aggregate("lower", n=hr.sum("n"))
    of_all = passing.window(600).aggregate("lower", n=hr.sum("n"))
    with pytest.raises(OverflowInputError, match="max_keys"):
        query.to_arrow(**GATE, max_keys=100)
    why = "collector: keys of rows that a filter drops would still take memory after it, and count for max_keys"
    for wanted, way in ((query, why), (of_all, "gate: ")):
        with wanted.start(max_keys=100) as run:
            assert run.wait(HANG_S)
            assert run["lower"].takes.startswith(way), run["lower"].takes
        assert sum(run.to_arrow()["n"].to_pylist()) == 12


class Moving:
    """Counts of two instances: one has given 100 rows and noted 90 of them; at each look the other one has left out 50 more."""

    kept = 90

    def __init__(self):
        self._looks = 0

    def _other(self):
        self._looks += 1
        return 50 * self._looks

    @property
    def rows(self):
        return 100 + self._other()

    @property
    def left_out(self):
        return self._other()


def test_example_what_is_left_out_between_two_looks_is_not_taken_from_what_was_given():
    """Readers have passed 100 rows by now: no fewer may be said to be added, or about to be."""
    books = passing.PassedBooks(Moving())
    assert books.adding + books.added >= 100


@pytest.mark.parametrize("rows_follow", [False, True])
def test_example_rows_are_no_run_where_some_are_left_out_between_them(monkeypatch, rows_follow):
    """Of another instance as many rows may be there as were left out: what that does to a run is in test_routed.py."""
    used, made = [], build.build

    def noted(text, gate, name, debug, sharing):
        used.append(sharing)
        return made(text, gate, name, debug, sharing)

    monkeypatch.setattr(build, "build", noted)
    query = above(many(10))
    query = below(query if rows_follow else query.filter(hr.col("n") > 1))
    query.start(**GATE).stop()
    assert [f"ROWS_FOLLOW = {follow}\n" in used[1] for follow in (False, True)] == [not rows_follow, rows_follow]


@pytest.mark.logic
def test_example_hot_keys_are_of_rows_that_pass():
    given = pa.table({"ts": [0] * 20, "g": [1] * 12 + [2] * 4 + [3, 4, 5, 6], "v": [0] * 20, "f": [0.0] * 20})
    with per_key(upper(given).filter(hr.col("n") == 1)).start(threads=2, **GATE) as run:
        assert run.wait(HANG_S)
        assert set(run["lower"].hot_keys(9)["g"]) == {3, 4, 5, 6}


# -- what goes which way -------------------------------------------------------------------------------


def renamed(above):
    """Another column is called as one was before; a comparison means the column of that name where it is."""
    some = above.filter(hr.col("n") > 1).select("ts", "last", h="g", n="known", least="last", lowest="latest", latest="lowest")
    return per_key(some.filter(hr.col("n") < 3), "h")


@pytest.mark.logic
def test_agree_columns_of_other_names():
    for seed in range(examples(9)):
        draw = random.Random(seed)
        query = renamed(upper(stream(draw, [drawn_table(draw)])))
        assert bits(query.to_arrow(**GATE, **options_of(draw, 40))) == bits(query.to_arrow(passing="collector"))
    only = per_key(upper(drawn_table(draw)).select("ts", *UPPER, h="g"), "h")
    for channel in ("shared", "reader"):
        assert bits(only.to_arrow(**GATE, channel=channel, threads=2)) == bits(only.to_arrow(passing="collector"))


@pytest.mark.logic
def test_agree_a_key_of_one_column_twice():
    draw = random.Random(1)
    twice = upper(drawn_table(draw)).filter(hr.col("n") > 1).select("ts", *UPPER, h="g", i="g", m="n")
    query = twice.key_by("h", "i").window(24).aggregate("lower", n=hr.sum("n"), m=hr.max("m"), first=hr.first("last"))
    assert bits(query.to_arrow(**GATE, **options_of(draw, 40))) == bits(query.to_arrow(passing="collector"))


@pytest.mark.logic
def test_agree_results_of_every_kind_that_is_compared():
    """Whatever they are computed by, in int64 or in float64, or are null."""
    draw = random.Random(2)
    small = pa.array([draw.choice([None, 1, 2, 3]) for _ in range(60)], pa.int64())
    given = drawn_table(draw).append_column("i", small).append_column("t", pa.array([draw.choice("abc") for _ in range(60)]))
    kinds = {"total": hr.sum("i"), "middle": hr.median("i"), "often": hr.mode("f"), "whole": hr.mode("i"), "first": hr.first("i")}
    kinds |= {"q": hr.quantile("f", 0.9, ignore_nan=True), "texts": hr.count_distinct("t"), "most": hr.max("f", ignore_nan=True)}
    above = hr.stream(given, event_time="ts").key_by("g").window(3).aggregate("upper", **kinds, added=hr.sum("f"), n=hr.count())
    results = above.to_arrow()
    for column in (*kinds, "added"):
        condition = hr.col(column) >= (1.0 if above.schema.field(column).type == pa.float64() else 2)
        kept = sum(condition.filter(batch).num_rows for batch in results.to_batches())
        query = per_key(above.filter(condition), wanted={"rows": ("count", None), "list": ("collect_list", "total")})
        with query.start(**GATE, threads=2) as run:
            assert run.wait(HANG_S)
            counts = run.metrics().operators["lower"]
        assert (counts.added, counts.filtered) == (kept, results.num_rows - kept), condition
        assert 0 < kept < results.num_rows, condition


@pytest.mark.logic
def test_example_by_itself_a_filter_goes_through_the_gate_where_no_key_is_behind():
    above = upper(drawn_table(random.Random(1))).filter((hr.col("n") > 1) & (hr.col("latest") <= 2))
    for below, options in ((per_key, GATE), (totals, {})):
        with below(above).start(threads=2, max_threads=16, **options) as run:
            assert run.wait(HANG_S)
            takes = run["lower"].takes
            assert takes.startswith("gate: each instance of 'upper' passes its results on; one channel for all: "), takes
    with pytest.raises(ParameterError, match="a filter after 'upper' drops results"):
        per_key(above).start(**GATE, channel="reader")


COL = hr.col
COLLECTED = {
    "or": (lambda s: s.filter((COL("n") > 1) | (COL("unsigned") < 9)), "compares uint64; whole numbers in int64, floats"),
    "not": (lambda s: s.filter(~(COL("n") + 1 > 1)), "is no comparison of a column with a constant or another column"),
    "null": (lambda s: s.filter((COL("least") + 1).is_not_null()), "is no comparison of a column with a constant"),
    "in with null": (lambda s: s.filter(COL("n").is_in([1, None])), "compares int64 with a constant of another type"),
    "in floats": (lambda s: s.filter(COL("latest").is_in([1.0])), "is no comparison of a column of whole numbers with some"),
    "in none": (lambda s: s.filter(~COL("n").is_in([])), "is no comparison of a column of whole numbers with some"),
    "in bools": (lambda s: s.filter(COL("truth").is_in([True])), "is no comparison of a column of whole numbers with some"),
    "computed": (lambda s: s.filter(COL("n") + 1 > 1), "is no comparison of a column with a constant"),
    "two columns": (lambda s: s.filter(COL("n") > COL("latest")), "compares int64 with double"),
    "two constants": (lambda s: s.filter(hr.lit(1) < hr.lit(2)), "is no comparison of a column with a constant"),
    "a part of it": (lambda s: s.filter((COL("n") > 1) & (COL("n") != COL("mean"))), r"col\('n'\) != col\('mean'\) compares"),
    "a constant": (lambda s: s.filter((COL("n") > 1) | True), "True is no comparison"),
    "too many alternatives": (
        lambda s: s.filter(COL("n").is_in(range(9))).filter(COL("least").is_in(range(9))), "more than 64 comparisons",
    ),
    "whole numbers beside a float": (lambda s: s.filter(COL("n") > 1.0), "compares int64 with a constant of another type"),
    "beyond int64": (lambda s: s.filter(COL("n") < 2**63), "compares int64 with a constant of another type"),
    "floats beside that": (lambda s: s.filter(COL("latest") < 2**63), "compares double with a constant of another type"),
    "two widths": (lambda s: s.filter(COL("narrow") > COL("n")), "compares int16 with int64"),
    "unsigned": (lambda s: s.filter(COL("unsigned") > 1), "compares uint64; whole numbers in int64, floats, bools and times"),
    "a time of another unit": (lambda s: s.filter(COL("ms") > hr.lit(NOON)), r"timestamp\[ms\] with a constant of another type"),
    "a time of another zone": (lambda s: s.filter(COL("rome") > NOON.replace(tzinfo=UTC)), "with a constant of another type"),
    "a day": (lambda s: s.filter(COL("time") > hr.lit(NOON.date())), r"timestamp\[us\] with a constant of another type"),
    "a truth that is computed": (lambda s: s.filter(COL("truth") == (COL("n") > 1)), "is no comparison of a column with"),
    "a key": (lambda s: s.filter(COL("g") > 1), "column 'g' is not a number or time"),
    "the event time": (lambda s: s.filter(COL("ts") > 1), "column 'ts' is not a number or time"),
    "a mean": (lambda s: s.filter(COL("mean") > 1.0), "column 'mean' is not a number or time"),
    "select computes": (lambda s: s.select("ts", "g", n=COL("n") + 1), r"select\(\) computes 'n'"),
    "a function": (lambda s: s.filter(lambda t: t.n > 1), "a function computes, or chooses"),
    "a map": (lambda s: s.map(lambda t: t.n + 1, more="int64"), "a function computes, or chooses"),
}  # fmt: skip
NOON, UTC = datetime.datetime(2020, 1, 1, 12), datetime.UTC
MIDDLE = datetime.datetime(1970, 1, 1, microsecond=50)
"""Of the times of `of_types`."""


def of_types():
    """Results of more types."""
    some = pa.table({
        "ts": range(100), "g": [i % 5 for i in range(100)], "v": range(100), "f": [0.5] * 100,
        "narrow": pa.array([i % 7 for i in range(100)], pa.int16()), "single": pa.array([0.5] * 100, pa.float32()),
        "unsigned": pa.array(range(100), pa.uint64()), "time": pa.array(range(100), pa.timestamp("us")),
        "truth": [i % 2 == 0 for i in range(100)],
        "ms": pa.array(range(100), pa.timestamp("ms")), "rome": pa.array(range(100), pa.timestamp("us", "Europe/Rome")),
    })  # fmt: skip
    more = {name: hr.last(name) for name in ("narrow", "single", "unsigned", "time", "truth", "ms", "rome")}
    more |= {"n": hr.count(), "known": hr.count("v"), "latest": hr.last("f"), "least": hr.min("v"), "mean": hr.mean("v")}
    return hr.stream(some, event_time="ts").key_by("g").window(6).aggregate("upper", **more)


@pytest.mark.slow
def test_agree_nulls_of_columns_of_any_type():
    """Whether a result is null is known where its value is, also of a type that is not compared."""
    some = pa.table({
        "ts": range(100), "g": [i % 5 for i in range(100)], "narrow": pa.array([None, 1] * 50, pa.int16()),
        "single": pa.array([None, None, 0.5, math.nan] * 25, pa.float32(), from_pandas=False),
        "time": pa.array([None] * 60 + list(range(40)), pa.timestamp("us")), "truth": [None, None, None, True] * 25,
    })  # fmt: skip
    names = some.schema.names[2:]
    above = hr.stream(some, event_time="ts").key_by("g").window(6).aggregate("upper", **{name: hr.max(name) for name in names})
    for name in names:
        for condition in (COL(name).is_null(), ~COL(name).is_null()):
            query = above.filter(condition).window(24).aggregate("lower", rows=hr.count())
            assert bits(query.to_arrow(**GATE, threads=2)) == bits(query.to_arrow(passing="collector")), condition


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        COL("truth"), ~COL("truth"), (COL("narrow") > 3) & COL("narrow").is_in([4, 300]), COL("single") < 0.5,
        COL("time") >= hr.lit(MIDDLE), (COL("time") < MIDDLE.isoformat()) | COL("truth"), COL("rome") < MIDDLE,
    ],
    ids=str,
)  # fmt: skip
def test_agree_comparisons_of_columns_of_any_type(condition):
    query = of_types().filter(condition).window(24).aggregate("lower", rows=hr.count(), n=hr.sum("n"), most=hr.max("least"))
    with query.start(**GATE, threads=2) as run:
        assert run.wait(HANG_S)
        counts = run.metrics().operators["lower"]
    assert counts.filtered > 5 and (counts.added > 5 or "single" in repr(condition)), condition
    assert bits(run.to_arrow()) == bits(query.to_arrow(passing="collector"))


@pytest.mark.parametrize("what", COLLECTED)
def test_example_what_goes_through_a_collector_says_why(what):
    steps, why = COLLECTED[what]
    query = steps(of_types()).key_by("g").window(24).aggregate("lower", n=hr.sum("n"))
    with pytest.raises(ParameterError, match=why):
        query.start(**GATE)


@pytest.mark.logic
def test_example_by_itself_what_is_not_certain_is_collected():
    query = of_types().filter((COL("n") + 1 > 1) | (COL("n") < 0)).key_by("g").window(24).aggregate("lower", n=hr.sum("n"))
    with query.start() as run:
        assert run.wait(HANG_S)
        why = "there are steps between the two, which take record batches: (col('n') + 1) > 1 is no comparison"
        assert run["lower"].takes.startswith(f"collector: {why}"), run["lower"].takes


@pytest.mark.logic
@pytest.mark.parametrize("kind", [pa.int32(), pa.timestamp("ns")], ids=str)
def test_example_a_time_that_its_type_has_not_is_an_error_also_of_what_is_left_out(kind):
    """Through a collector the upper operator's result is made a column first, which fails: so there it goes."""
    late = pa.table({"ts": pa.array([0, 2**31 - 3], pa.int64()).cast(kind), "g": [1, 1], "v": [1, 1], "f": [1.0, 1.0]})
    sizes = (10, 20) if kind == pa.int32() else ("10us", "20us")
    above = hr.stream(late, event_time="ts").key_by("g").window(sizes[0]).aggregate("upper", n=hr.count(), most=hr.max("v"))
    query = above.filter(hr.col("n") > 9).key_by("g").window(sizes[1]).aggregate("lower", n=hr.sum("n"))
    with pytest.raises(ParameterError, match="is an error even in what it leaves out"):
        query.start(**GATE)


# -- planted mistakes ----------------------------------------------------------------------------------


@pytest.mark.logic
def test_planted_a_null_that_stands_for_nan_is_found(monkeypatch):
    given = pa.table({"ts": [0, 1, 7], "g": [1, 1, 1], "v": [1, 1, 1], "f": [math.nan, math.nan, 2.0]})
    query = totals(upper(given).filter(hr.col("skipped") != 0.0))
    rows = query.to_arrow(passing="collector").to_pylist()
    assert query.to_arrow(**GATE).to_pylist() == rows
    monkeypatch.setattr(passing, "_why_null", lambda field: (field.known, ""))
    assert query.to_arrow(**GATE).to_pylist() != rows


@pytest.mark.logic
@pytest.mark.parametrize("count", ["kept", "left_out"])
def test_planted_a_wrong_count_of_what_is_left_out_is_found(monkeypatch, count):
    query = totals(upper(drawn_table(random.Random(3))).filter(hr.col("n") > 1))
    with query.start(**GATE) as run:
        assert run.wait(HANG_S)
        check_end(run.metrics())
        whole = getattr(passing.Passed, count).fget
        monkeypatch.setattr(passing.Passed, count, property(lambda passed: whole(passed) + 1))
        with pytest.raises(AssertionError, match="lower: "):
            check_end(run.metrics())
