"""Joins against the sequential definition.

Property    the engine's rows are the reference's, in its order, bit for bit, for
            any predicate kind, column type, number of sources and threads, and
            any planned reconfiguration.
Oracle      `headrace.reference.join`, evaluated on the same Python values.
Not seen    speed; predicates that read strings (test_join_texts.py).
"""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.errors import FunctionError, KeyNullError, ParameterError, SchemaError
from support.workloads import examples, scattered, worked

SETTINGS = settings(max_examples=examples(16), deadline=None, derandomize=True)


def rows_of(table: pa.Table) -> list[tuple[int, dict]]:
    return [(row["ts"], {k: v for k, v in row.items() if k != "ts"}) for row in table.to_pylist()]


def expected(lefts, rights, within, predicate) -> list[dict]:
    matches = reference.join([rows_of(t) for t in lefts], [rows_of(t) for t in rights], within, predicate)
    return [{"ts": m.ts, **m.left, **m.right} for m in matches]


def stream(tables):
    return hr.stream(list(tables), event_time="ts")


@st.composite
def sides(draw, columns, max_rows=60):
    """One or two sources: sorted times with many ties and gaps, negative ones too; columns from small ranges."""
    tables = []
    for _ in range(draw(st.integers(1, 2))):
        n = draw(st.integers(0, max_rows))
        gaps = draw(st.lists(st.sampled_from([0, 0, 1, 2, 7]), min_size=n, max_size=n))
        data = {"ts": pa.array(np.cumsum(gaps) - 40, pa.int64())}
        for name, (kind, values) in columns.items():
            data[name] = pa.array(draw(st.lists(values, min_size=n, max_size=n)), kind)
        tables.append(pa.table(data))
    return tables


@st.composite
def schedules(draw):
    times = sorted(draw(st.lists(st.integers(0, 130), max_size=4)))
    return [(t, draw(st.integers(1, 8))) for t in times]


def check(query, rows, threads, schedule, **options):
    # Planned changes are to even mappings, under which instance 0 owns all these rows: they move all of them.
    start = scattered(random.Random(len(rows) + threads), threads)
    table = query.to_arrow(reconfigure=schedule, **start, **options)
    assert table.num_rows == len(rows)
    for got, want in zip(table.to_pylist(), rows, strict=True):
        assert got == pytest.approx(want, abs=0, nan_ok=True) or got == want


SMALL = st.integers(0, 12)
FLOATS = st.sampled_from([0.0, 0.5, 1.0, 1.0000001, 1.5, 2.0, 3.25, -0.0, math.inf, math.nan])
NARROW_LEFT = {"x": (pa.int32(), SMALL), "y": (pa.float32(), FLOATS)}
NARROW_RIGHT = {"a": (pa.int32(), SMALL), "b": (pa.float32(), FLOATS)}


NULLABLE = {
    "id": (pa.string(), st.sampled_from(["a", "b", None])),
    "n": (pa.int32(), st.sampled_from([1, 2, None])),
}


def close(x, a, width):
    return x is not None and a is not None and abs(float(x) - float(a)) <= width


class TestBand:
    @pytest.mark.slow
    @SETTINGS
    @given(
        sides(NARROW_LEFT),
        sides(NARROW_RIGHT),
        st.sampled_from([1, 5, 30, 1000]),
        st.integers(1, 8),
        schedules(),
        st.booleans(),
    )
    def test_oracle_narrow_bands(self, lefts, rights, within, threads, schedule, index):
        where = hr.band("x", "a", 1) & hr.band("y", "b", 0.5)
        query = stream(lefts).join(stream(rights), within, where, index=index)
        rows = expected(
            lefts, rights, within, lambda l, r: close(l["x"], r["a"], 1) and close(l["y"], r["b"], 0.5)
        )
        check(query, rows, threads, schedule)

    @SETTINGS
    @given(
        sides({"x": (pa.int64(), st.sampled_from([0, 5, 2**62, -(2**62), 2**63 - 1, -(2**63), None]))}),
        sides({"a": (pa.int64(), st.sampled_from([0, 7, 2**62 + 3, -(2**62), 2**63 - 1, -(2**63), None]))}),
        st.integers(1, 8),
        schedules(),
    )
    def test_oracle_wide_band_with_nulls_and_extremes(self, lefts, rights, threads, schedule):
        query = stream(lefts).join(stream(rights), 20, hr.band("x", "a", 3), index=False)
        rows = expected(
            lefts, rights, 20,
            lambda l, r: l["x"] is not None and r["a"] is not None and abs(l["x"] - r["a"]) <= 3,
        )  # fmt: skip
        check(query, rows, threads, schedule)

    def test_example_the_distance_in_time_is_strict(self):
        #   left  0
        #   right       9  10      within 10: 9 - 0 < 10 matches, 10 - 0 does not
        left, right = pa.table({"ts": [0], "x": [1]}), pa.table({"ts": [9, 10], "a": [1, 1]})
        query = stream([left]).join(stream([right]), 10, hr.band("x", "a", 0), index=False)
        assert query.to_arrow().to_pylist() == [{"ts": 10, "x": 1, "a": 1}]

    @pytest.mark.slow
    @SETTINGS
    @given(
        sides({"x": (pa.int32(), SMALL), "f": (pa.float32(), FLOATS), "d": (pa.float64(), FLOATS)}, 30),
        sides({"a": (pa.int32(), SMALL), "g": (pa.float32(), FLOATS), "e": (pa.float64(), FLOATS)}, 30),
        st.sampled_from([0, 1, 7, 2**30]),
        st.sampled_from([0.0, 0.5, 1e-7, 3.0]),
        st.sampled_from([0.0, 0.5, 2.5, math.inf]),
    )
    def test_oracle_any_widths_of_one_shape(self, lefts, rights, whole, narrow, wide):
        where = hr.band("x", "a", whole) & hr.band("f", "g", narrow) & hr.band("d", "e", wide)
        rows = expected(
            lefts, rights, 20,
            lambda l, r: close(l["x"], r["a"], whole) and close(l["f"], r["g"], narrow) and close(l["d"], r["e"], wide),
        )  # fmt: skip
        check(stream(lefts).join(stream(rights), 20, where, index=False), rows, 2, [])

    @pytest.mark.slow
    def test_example_another_width_is_no_other_kernel(self):
        left, right = one_shape([0, 10, 20], [0, 10, 20]), one_shape([0], [0], there=True)
        modules = []
        for width in (0, 10, 19, 20):
            with three_bands(left, right, width, width + 0.5).start() as run:
                assert run.wait(180)
                assert run.to_arrow().num_rows == 1 + (width >= 10) + (width >= 20)
                modules.append(run._operators["join"].section.module.generated)
        assert len({module.__name__ for module in modules}) == 1

    def test_example_int32_bounds_do_not_wrap(self):
        low, high = -(2**31), 2**31 - 1
        left, right = one_shape([low, high], [0, 0]), one_shape([high, low], [0, 0], there=True)
        joined = three_bands(left, right, 10, 0).to_arrow().select(["ts", "x", "a"])
        assert joined.to_pylist() == [{"ts": 11, "x": high, "a": high}, {"ts": 12, "x": low, "a": low}]

    @pytest.mark.logic
    @pytest.mark.parametrize(("whole", "narrow"), [(2**31, 3.5e38), (2**40, 3.5e38), (2**40, 3.3e38), (2**40, 3.45e38)])
    def test_example_a_width_beyond_the_narrow_type(self, whole, narrow):
        ends = [-(2**31), 2**31 - 1], [-1.7e38, 1.7e38]
        left, right = (one_shape(*([end[i]] for end in ends), there=i == 1) for i in (0, 1))
        far = [float(np.float64(one[1]) - np.float64(one[0])) for one in (ends[0], np.array(ends[1], np.float32))]
        assert three_bands(left, right, whole, narrow).to_arrow().num_rows == int(far[0] <= whole and far[1] <= narrow)


def one_shape(whole, narrow, there=False) -> pa.Table:
    """A side of the join that `test_oracle_any_widths_of_one_shape` compiles."""
    x, f, d = "age" if there else "xfd"
    ts = pa.array([10 * there + i for i in range(len(whole))], pa.int64())
    return pa.table({"ts": ts, x: pa.array(whole, pa.int32()), f: pa.array(narrow, pa.float32()), d: [0.0] * len(whole)})


def three_bands(left, right, whole, narrow):
    where = hr.band("x", "a", whole) & hr.band("f", "g", narrow) & hr.band("d", "e", 0.0)
    return stream([left]).join(stream([right]), 20, where, index=False)


class TestEquality:
    @pytest.mark.logic
    @SETTINGS
    @given(
        sides({"id": (pa.string(), st.sampled_from(["a", "b", "é", ""])), "v": (pa.int64(), SMALL)}, 40),
        sides({"id": (pa.string(), st.sampled_from(["a", "b", "é", "zz"])), "w": (pa.int64(), SMALL)}, 40),
        st.integers(1, 8),
        schedules(),
        st.booleans(),
    )
    def test_oracle_strings(self, lefts, rights, threads, schedule, index):
        query = stream(lefts).join(stream(rights), 15, on="id", prefixes=("l_", "r_"), index=index)
        rows = [
            {
                "ts": m.ts,
                **{f"l_{k}": v for k, v in m.left.items()},
                **{f"r_{k}": v for k, v in m.right.items()},
            }
            for m in reference.join(
                [rows_of(t) for t in lefts], [rows_of(t) for t in rights], 15, lambda l, r: l["id"] == r["id"]
            )
        ]
        check(query, rows, threads, schedule)

    @pytest.mark.logic
    @SETTINGS
    @given(
        sides(NULLABLE, 40),
        sides(NULLABLE, 40),
        st.integers(1, 8),
        schedules(),
        st.sampled_from(["vsn", "sn"]),
    )
    def test_oracle_null_keys_are_dropped_and_counted(self, lefts, rights, threads, schedule, mode):
        """A null in either column, the string's or the number's, is a null key: two of them are not equal."""
        query = stream(lefts).join(stream(rights), 15, on=["id", "n"], prefixes=("l_", "r_"), nulls="drop")
        key = reference.columns(reference.column("id"), reference.column("n"))
        matches = reference.join(
            [rows_of(t) for t in lefts], [rows_of(t) for t in rights], 15, keys=(key, key), null_keys="drop"
        )
        rows = [
            {
                "ts": m.ts,
                **{f"l_{k}": v for k, v in m.left.items()},
                **{f"r_{k}": v for k, v in m.right.items()},
            }
            for m in matches
        ]
        nulls = sum(None in (row["id"], row["n"]) for t in [*lefts, *rights] for row in t.to_pylist())
        start = scattered(random.Random(nulls), threads)
        with query.start(reconfigure=schedule, mode=mode, **start) as run:
            assert run.wait(180)
            assert run.to_arrow().to_pylist() == rows
            assert run.metrics().operators["join"].null_keys == nulls

    @pytest.mark.logic
    @pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.float32()])
    @pytest.mark.parametrize("side", [0, 1])
    def test_example_null_keys_are_an_error(self, kind, side):
        tables = [pa.table({"ts": [5], "id": pa.array([1], pa.int64()).cast(kind)}) for _ in range(2)]
        tables[side] = pa.table({"ts": [5, 6], "id": pa.array([1, None], pa.int64()).cast(kind)})
        query = stream(tables[:1]).join(stream(tables[1:]), 15, on="id", prefixes=("l_", "r_"))
        with pytest.raises(KeyNullError, match="key column 'id' is null at row 1: .* nulls='drop'"):
            query.to_arrow()

    @pytest.mark.logic
    def test_example_a_condition_is_no_key(self):
        """Of numbers: a null there makes the condition false, as in any predicate."""
        left = pa.table({"ts": [0, 1], "x": pa.array([1, None], pa.int64())})
        right = pa.table({"ts": [2, 3], "a": pa.array([None, 1], pa.int64())})
        query = stream([left]).join(stream([right]), 10, hr.equal("x", "a"))
        assert query.to_arrow().to_pylist() == [{"ts": 4, "x": 1, "a": 1}]


COMMON = {"id": (pa.string(), st.sampled_from(["a", "b", None])), "n": (pa.int64(), SMALL)}


class TestCommonColumns:
    @pytest.mark.logic
    @SETTINGS
    @given(
        sides(COMMON | {"x": (pa.int64(), SMALL)}, 40),
        sides(COMMON | {"a": (pa.int64(), SMALL)}, 40),
        st.integers(1, 4),
        schedules(),
        st.sampled_from([["id"], ["n", ("x", "a")]]),
    )
    def test_oracle_a_common_column_is_there_once(self, lefts, rights, threads, schedule, on):
        """The same pairs as with prefixes; of what is equal, the left one's value."""
        here, there = stream(lefts), stream(rights)
        if "n" not in on:
            there = there.select("ts", "id", "a")
        if "id" not in on:
            there = there.select("ts", "n", "a")
        common = [name for name in on if isinstance(name, str)]
        both = here.join(there, 15, on=on, prefixes=("l_", "r_"), nulls="drop").to_arrow()
        wanted = both.drop_columns([f"r_{name}" for name in common])
        wanted = wanted.rename_columns([name.removeprefix("l_").removeprefix("r_") for name in wanted.column_names])
        query = here.join(there, 15, on=on, nulls="drop")
        assert query.schema == wanted.schema
        check(query, wanted.to_pylist(), threads, schedule)

    @pytest.mark.slow
    def test_example_the_left_value_and_type_stay(self):
        left = pa.table({"ts": [1, 2], "id": pa.array([1, 2], pa.duration("s"))})
        right = pa.table({"ts": [3], "id": pa.array([2000], pa.duration("ms"))})
        joined = stream([left]).join(stream([right]), 10, on="id").to_arrow()
        assert joined.equals(pa.table({"ts": [4], "id": pa.array([2], pa.duration("s"))}))

    @pytest.mark.slow
    def test_example_what_an_event_time_equals_stays(self):
        """The result has another event time than the left tuple: nothing would be left of the key."""
        left, right = pa.table({"ts": [5], "x": [1]}), pa.table({"when": [7], "ts": [5], "a": [2]})
        there = hr.stream(right, event_time="when")
        with pytest.raises(SchemaError, match="'ts' is on both sides"):
            stream([left]).join(there, 10, on="ts")
        joined = stream([left]).join(there, 10, on="ts", prefixes=("", "r_"))
        assert joined.to_arrow().to_pylist() == [{"ts": 8, "x": 1, "r_ts": 5, "r_a": 2}]

    def test_bad_other_columns_of_one_name(self):
        left = stream([pa.table({"ts": [0], "id": [1], "x": [2]})])
        right = stream([pa.table({"ts": [0], "id": [1], "x": [3]})])
        with pytest.raises(SchemaError, match=r"'x' is on both sides: pass prefixes=\('', 'right_'\).*, other='x'\)$"):
            left.join(right, 5, on="id")
        assert left.join(right, 5, on="id", prefixes=("", "right_")).schema.names == ["ts", "id", "x", "right_id", "right_x"]
        assert left.join(right.select("ts", "id", other="x"), 5, on="id").schema.names == ["ts", "id", "x", "other"]
        with pytest.raises(SchemaError, match="'id' is on both sides: if both are to be equal, on='id' keeps one; else pass"):
            left.join(right.select("ts", "id"), 5, hr.equal("id", "id"))


class TestUserPredicate:
    @pytest.mark.logic
    @SETTINGS
    @given(sides(NARROW_LEFT), sides(NARROW_RIGHT), st.integers(1, 8), schedules())
    def test_oracle_a_function(self, lefts, rights, threads, schedule):
        query = stream(lefts).join(stream(rights), 30, lambda l, r: l.x < r.a and r.b > l.y)
        rows = expected(lefts, rights, 30, lambda l, r: l["x"] < r["a"] and r["b"] > l["y"])
        check(query, rows, threads, schedule)

    @pytest.mark.slow
    def test_example_a_function_that_divides(self):
        left = pa.table({"ts": [0, 1], "x": [10, 20]})
        right = pa.table({"ts": [2, 3], "a": [5, 10]})
        query = stream([left]).join(stream([right]), 10, lambda l, r: l.x // r.a == 2)
        assert query.to_arrow(threads=3).to_pylist() == [
            {"ts": 3, "x": 10, "a": 5},
            {"ts": 4, "x": 20, "a": 10},
        ]

    @pytest.mark.parametrize(
        ("where", "text"),
        [(lambda l, r: l.x is None or l.x == r.a, "l.x is None"), (lambda l, r: r.a is not None, "r.a is not None")],
    )
    def test_example_a_null_cannot_be_asked_for(self, where, text):
        left, right = pa.table({"ts": [0], "x": [10]}), pa.table({"ts": [2], "a": [0]})
        with pytest.raises(FunctionError, match=f"{text}: a tuple with a null in a column that a join condition reads matches"):
            stream([left]).join(stream([right]), 10, where).start()

    def test_example_a_function_that_fails_names_line_and_tuples(self):
        left = pa.table({"ts": [0], "x": [10]})
        right = pa.table({"ts": [2], "a": [0]})
        query = stream([left]).join(stream([right]), 10, lambda l, r: l.x // r.a == 2)
        with pytest.raises(FunctionError, match="division") as caught:
            query.to_arrow(threads=2)
        assert caught.value.tuple == {"l.x": 10, "r.a": 0}
        assert caught.value.file.endswith("test_join.py") and caught.value.line > 0


class TestSelfJoin:
    @pytest.mark.logic
    @SETTINGS
    @given(sides({"x": (pa.int32(), SMALL)}, 30), st.integers(1, 8), schedules())
    def test_oracle_self_join(self, tables, threads, schedule):
        source = stream(tables)
        query = source.join(source, 12, hr.band("x", "x", 1))
        rows = [
            {"ts": m.ts, "l_x": m.left["x"], "r_x": m.right["x"]}
            for m in reference.self_join(
                [rows_of(t) for t in tables], 12, lambda l, r: abs(l["x"] - r["x"]) <= 1
            )
        ]
        check(query, rows, threads, schedule)


@pytest.mark.parametrize("threads", [2, 5, 8])
def test_agree_few_rows_meet_all_instances(threads):
    """The mapping these tests begin with gives every instance its share of sixty rows a side."""
    draw = random.Random(threads)
    left, right = (
        pa.table(
            {
                "ts": pa.array(sorted(draw.randrange(40) for _ in range(60)), pa.int64()),
                x: pa.array([draw.randrange(13) for _ in range(60)], pa.int32()),
                y: pa.array([draw.choice([0.0, 0.5, 2.0]) for _ in range(60)], pa.float32()),
            }
        )
        for x, y in ("xy", "ab")
    )
    where = hr.band("x", "a", 1) & hr.band("y", "b", 0.5)
    query = stream([left]).join(stream([right]), 30, where, index=False)
    rows = expected([left], [right], 30, lambda l, r: close(l["x"], r["a"], 1) and close(l["y"], r["b"], 0.5))
    with query.start(**scattered(draw, threads)) as run:
        assert run.wait(180)
        assert worked(run, "join") == threads
        assert run.to_arrow().to_pylist() == rows
    with query.start(threads=threads, max_threads=8) as run:
        assert run.wait(180)
        assert worked(run, "join") == 1, "an even mapping would do"
        assert run.to_arrow().to_pylist() == rows


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.slow
def test_agree_long_windows_over_many_chunks(index):
    """Windows longer than a chunk of the store, with reconfigurations and freed chunks."""
    rng = np.random.default_rng(5)
    n = 50_000

    def side(x, seed):
        r = np.random.default_rng(seed)
        return pa.table(
            {"ts": np.sort(r.integers(0, 10 * n, n)), x: r.integers(0, 30_000, n)}
        )

    left, right = side("x", 1), side("a", 2)
    query = stream([left]).join(stream([right]), 200_000, hr.band("x", "a", 0), index=index)
    one = query.to_arrow(threads=1)
    places, threads = np.sort(rng.integers(0, 2 * n, 12)), rng.integers(1, 9, 12)
    schedule = [(int(p), int(t)) for p, t in zip(places, threads, strict=True)]
    assert one.num_rows > 10_000
    assert query.to_arrow(threads=3, max_threads=8, reconfigure=schedule).equals(one)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda l, r: l.join(r, 10), ParameterError, "where="),
        (lambda l, r: l.join(r, 0, hr.band("x", "a", 1)), ParameterError, "within=0"),
        (lambda l, r: l.join(r, 10, hr.band("nope", "a", 1)), SchemaError, "'nope'"),
        (lambda l, r: l.join(r, 10, on=("x", "nope")), SchemaError, "'nope'"),
        (lambda l, r: l.join(r.select("ts", x="a"), 10, hr.band("x", "x", 1)), SchemaError, "prefixes="),
        (lambda l, r: l.join(r, 10, where=7), ParameterError, "where=7"),
        (lambda l, r: l.join(r, 10, on=("x", "a"), index="x"), ParameterError, "index='x'"),
        (lambda l, r: l.join(r, 10, on=("x", "a"), nulls="keep"), ParameterError, "nulls='keep'"),
    ],
)
def test_bad_joins_name_the_fault(call, error, words):
    left = stream([pa.table({"ts": [0], "x": [1]})])
    right = stream([pa.table({"ts": [0], "a": [1]})])
    with pytest.raises(error, match=words):
        call(left, right)
