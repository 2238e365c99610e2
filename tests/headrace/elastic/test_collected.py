"""Aggregates that collect values: equal to the reference for any input, threads, mode and reconfigurations.

Property    lists, sets, quantiles, the most frequent value and the k best of each window, of numbers, strings and
            times; memory is counted, bounded, and given back when windows end
Oracle      `headrace.reference.aggregate`; DuckDB and pandas on the same rows; for the kernels Python's `sorted`
            and fractions
Planted     in the generated text and in the kernels: values that outlive their window, containers that are shared
            after a transfer or stay behind, an order that is spoilt, ties and halves taken the wrong way
Cannot see  schedules the machine does not happen to take; a column of results with more than 2**31 elements

Few shapes are compiled; the window within a shape is drawn.
"""

import math
import random
import struct
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import reference
from headrace.elastic.aggregate import collected_kernel
from headrace.elastic.aggregate.collected_kernel import (
    keep_best,
    order_best,
    quantile_of_floats,
    quantile_of_integers,
    quantile_of_times,
    rank_floats,
)
from headrace.elastic.shared_nothing import section as shared_nothing
from headrace.errors import OverflowInputError, ParameterError, SchemaError, UnsupportedTypeError
from headrace.memory.arena import COUNT, FIRST, HEAD, allocate_arena, release, used_bytes
from headrace.memory.lists_kernel import ORDER_FLOAT, ORDER_INT, list_append
from headrace.windows import Window
from support.drawn import schedules, sources, windows
from support.kernel_text import change_kernels
from support.typed_columns import NUMBERS, TEXTS, as_plain, column
from support.workloads import Steered, eventually, examples

QUICK = settings(deadline=None, max_examples=examples(25), suppress_health_check=list(HealthCheck))
NO_TEXTS = np.zeros(1, np.int64)
ENDS = [2**63 - 1, -(2**63), 2**62, -(2**62), 0, 1, -1]
FLOATS = [None, 0.0, -0.0, math.nan, float(np.array(0x7FF8000000000123).view(np.float64)), 1.5, 0.1, -math.inf, math.inf, 1e308]
STRINGS = [None, "", "a", "a\0", "ä", "eightlet", "eightlets", "\uffff", "\U00010000", "long enough to be no prefix of anything"]


def exact(value):
    """A value with floats as their bits: NaN is NaN, -0.0 is not 0.0; a list as a tuple."""
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("<d", value)
    return tuple(map(exact, value)) if isinstance(value, (list, tuple)) else value


# -------------------------------------------------------------------------------------------------------- kernels


def block_of(words):
    """An arena with these words in a list: arena, free lists, heads, first word, count."""
    free, arena = allocate_arena(1, 1 << 16)
    heads = np.zeros(HEAD, np.int64)
    for word in words:
        assert list_append(free, arena, 0, heads, 0, word) == 0
    return free, arena, heads, heads[FIRST], heads[COUNT]


def exact_quantile(values, q):
    """In rational numbers, but for the place, which is a product of floats."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    below = math.floor(place)
    part = Fraction(place) - below
    above = ordered[min(below + 1, len(ordered) - 1)]
    return Fraction(ordered[below]) + (Fraction(above) - Fraction(ordered[below])) * part


def away_from_zero(fraction):
    """Rounded to a whole number, half of one away from zero, as DuckDB rounds times."""
    return int((abs(fraction) + Fraction(1, 2)) // 1) * (1 if fraction > 0 else -1)


def drawn_words(draw):
    most = draw.choice([1, 3, 100, 2**62, 2**63 - 1])
    count = draw.choice([1, 2, 5, 40, 400])
    return [draw.choice(ENDS) if draw.random() < 0.1 else draw.randint(-most, most) for _ in range(count)]


def check_quantiles(kernels, seeds):
    for seed in seeds:
        draw = random.Random(seed)
        words = drawn_words(draw)
        _, arena, _, first, count = block_of(words)
        for q in (0.0, 1.0, 0.5, 0.9, draw.random(), draw.random()):
            wanted = exact_quantile(words, q)
            found = kernels["quantile_of_integers"](arena, first, count, q)
            assert exact(float(found)) == exact(reference.values.quantile(words, q)), "another quantile"
            assert math.isclose(found, wanted, rel_tol=1e-15, abs_tol=1e-300 + 4e-16 * max(map(abs, words)))
            if max(map(abs, words)) < 2**40:
                half = abs(wanted) % 1 == Fraction(1, 2)
                found = kernels["quantile_of_times"](arena, first, count, q, 1)
                is_close = not half and abs(abs(wanted) % 1 - Fraction(1, 2)) < Fraction(1, 1000)
                assert found == away_from_zero(wanted) or is_close, "times are rounded otherwise"


@pytest.mark.slow
def test_oracle_quantiles_of_integers():
    check_quantiles({"quantile_of_integers": quantile_of_integers, "quantile_of_times": quantile_of_times}, range(200))


@pytest.mark.interpreted
def test_example_the_middle_of_two_days_is_a_day():
    """Whatever Arrow counts them in: half a day, which it calls invalid, could not even be read again."""
    for days, middle in (([0, 1], 1), ([-1, 0], -1), ([3, 10], 7), ([-10, -3], -7), ([4], 4)):
        for kind in (pa.date32(), pa.date64()):
            table = pa.table({"ts": range(len(days)), "day": pa.array(days, pa.int32()).cast(pa.date32()).cast(kind)})
            result = hr.stream(table, event_time="ts").window(10).aggregate(half=hr.median("day")).to_arrow()
            result.validate(full=True)
            assert result["half"].cast(pa.date32()).cast(pa.int32()).to_pylist() == [middle], (days, kind)


@pytest.mark.slow
def test_oracle_quantiles_of_floats():
    for seed in range(200):
        draw = random.Random(seed)
        pool = [x for x in FLOATS if x is not None] if seed % 2 else [draw.gauss(0, 1) for _ in range(50)]
        values = [draw.choice(pool) for _ in range(draw.choice([1, 2, 5, 40, 400]))]
        _, arena, _, first, count = block_of(np.array(values).view(np.int64))
        numbers = rank_floats(arena, first, count)
        for q in (0.0, 1.0, 0.5, draw.random()):
            for ignore_nan in (False, True):
                found = quantile_of_floats(arena, first, count, numbers, q, ignore_nan)
                wanted = reference.values.apply("quantile", values, ignore_nan, q)
                assert exact(float(found)) == exact(math.nan if wanted is None else wanted)


@pytest.mark.parametrize("order", [lambda i: i, lambda i: -i, lambda i: 0, lambda i: i % 2, lambda i: i * (-1) ** i])
def test_property_selection_is_fast_in_any_order(order):
    """Half a million words in an order that would be bad for a pivot that is not drawn."""
    count = 500_000
    _, arena = allocate_arena(1, 1 << 20)
    arena[100 : 100 + count] = words = np.array([order(i) for i in range(count)])
    assert quantile_of_integers(arena, 100, count, 0.5) == np.median(words)


def check_best(kernels, seeds):
    for seed in seeds:
        draw = random.Random(seed)
        k, count = draw.choice([1, 2, 3, 10, 100]), draw.choice([0, 1, 5, 50, 500])
        is_float = seed % 3 == 0
        pool = [x for x in FLOATS if x is not None] if is_float else range(draw.choice([1, 3, 1000]))
        pairs = [(draw.choice(pool), draw.choice(pool)) for _ in range(count)]
        words = [tuple(int(np.float64(x).view(np.int64)) for x in pair) for pair in pairs] if is_float else pairs
        orders = [ORDER_FLOAT if is_float else ORDER_INT, NO_TEXTS, NO_TEXTS, NO_TEXTS] * 2
        free, arena, heads, _, _ = block_of([])
        for word, by in words:
            assert kernels["keep_best"](free, arena, 0, heads, 0, k, word, by, *orders) == 0
        kernels["order_best"](arena, heads, 0, *orders)
        found = arena[heads[FIRST] : heads[FIRST] + heads[COUNT] : 2].tolist()
        if is_float:
            found = np.array(found, np.int64).view(np.float64).tolist()
        assert exact(found) == exact(reference.values.top(pairs, k) or []), "others are the best"
        release(free, arena, 0, heads, 0)
        assert used_bytes(free, arena) == 0


@pytest.mark.slow
def test_oracle_the_k_best():
    check_best({"keep_best": keep_best, "order_best": order_best}, range(200))


KERNEL_BUGS = {
    "a heap looks at one child only": ("if below + 1 < count and", "if below + 1 < 0 and", check_best, "others are the best"),
    "a heap takes what is not better": ("    if count == k:\n", "    if count == k + 1:\n", check_best, "others are the best"),
    "smaller ties come last": (
        "    if word_less(word, other, order, prefixes, addresses, lengths):\n        return True\n",
        "    if word_less(other, word, order, prefixes, addresses, lengths):\n        return True\n",
        check_best, "others are the best",
    ),
    "the next one is whatever lies behind": (
        "        for at in range(first + below + 2, first + count):\n", "        for at in range(0):\n", check_quantiles,
        "another quantile",
    ),
    "halves of times before zero are rounded up": ("result >= 0", "True", check_quantiles, "times are rounded otherwise"),
    "selection passes over a word": ("            low = more\n", "            low = more + 1\n", check_quantiles,
                                     "another quantile"),
}  # fmt: skip


@pytest.mark.interpreted
@pytest.mark.parametrize("bug", KERNEL_BUGS)
def test_planted_bug_of_a_kernel_is_found(bug):
    old, new, check, expected = KERNEL_BUGS[bug]
    text = Path(collected_kernel.__file__).read_text()
    assert text.count(old) == 1, "the bug is out of date"
    kernels = {"__name__": "planted"}
    exec(compile(text.replace(old, new), "planted", "exec"), kernels)  # our own file, in a test
    with pytest.raises(AssertionError, match=expected):
        check(kernels, range(200))


# ----------------------------------------------------------------------------------------------------- the engine

SCHEMA = pa.schema(
    {"ts": pa.int64(), "ks": pa.list_(pa.string()), "x": pa.int64(), "y": pa.float64(), "s": pa.string()}
)
ROWS = st.tuples(
    st.integers(-20, 20),
    st.fixed_dictionaries(
        {
            "ks": st.lists(st.sampled_from("abcdef"), max_size=3),
            "x": st.none() | st.integers(-3, 3) | st.sampled_from(ENDS),
            "y": st.sampled_from(FLOATS),
            "s": st.sampled_from(STRINGS),
        }
    ),
)
EVERY = {
    "n": hr.count(),
    "xs": hr.collect_list("x"),
    "x_kinds": hr.collect_set("x"),
    "half": hr.median("x"),
    "most": hr.quantile("x", 0.9),
    "usual": hr.mode("x"),
    "least": hr.min("x"),
    "y_kinds": hr.collect_set("y"),
    "y_half": hr.median("y"),
    "words": hr.collect_list("s"),
    "word": hr.mode("s"),
    "different": hr.count_distinct("s"),
    "best": hr.top(3, "s", by="x"),
    "largest": hr.top(2, "y"),
}
EXPECTED = {
    "n": ("count", None),
    "xs": ("collect_list", "x"),
    "x_kinds": ("collect_set", "x"),
    "half": ("quantile", "x", 0.5),
    "most": ("quantile", "x", 0.9),
    "usual": ("mode", "x"),
    "least": ("min", "x"),
    "y_kinds": ("collect_set", "y"),
    "y_half": ("quantile", "y", 0.5),
    "words": ("collect_list", "s"),
    "word": ("mode", "s"),
    "different": ("distinct", "s"),
    "best": ("top", "s", 3, "x"),
    "largest": ("top", "y", 2, "y"),
}


CASES = st.tuples(sources(2, ROWS, longest=30), windows(2), schedules())


def run_case(drawn, window, **options):
    tables = [pa.Table.from_pylist([{"ts": ts, **payload} for ts, payload in source], SCHEMA) for source in drawn]
    query = hr.stream(tables, event_time="ts").key_by(tag=hr.each("ks")).window(window.size, window.advance)
    result = query.aggregate(**EVERY).to_arrow(**options)
    return [exact(list(row.values())) for row in result.to_pylist()]


def wanted_of(drawn, window):
    found = reference.aggregate(drawn, window, reference.each("ks"), EXPECTED)
    return [exact([row.ts, row.key, *row.values.values()]) for row in found]


@pytest.mark.logic
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.campaign)])
def test_oracle_every_aggregate(mode):
    @QUICK
    @given(CASES)
    def check(case):
        drawn, window, schedule = case
        assert run_case(drawn, window, mode=mode, **schedule) == wanted_of(drawn, window)

    check()


def rows_at_random(seed, count, keys=5):
    draw = random.Random(seed)
    return pa.table({
        "ts": pa.array([i // 7 for i in range(count)], pa.int64()),
        "k": pa.array([draw.randrange(keys) for _ in range(count)], pa.int64()),
        "x": pa.array([None if draw.random() < 0.1 else draw.randint(-99, 99) for _ in range(count)], pa.int64()),
        "y": pa.array([None if draw.random() < 0.1 else draw.gauss(0, 100) for _ in range(count)], pa.float64()),
        "s": pa.array([None if draw.random() < 0.1 else draw.choice("abcde") * draw.randrange(12) for _ in range(count)]),
    })  # fmt: skip


BESIDE = {
    "xs": hr.collect_list("x"), "kinds": hr.collect_set("s"), "half": hr.median("y"), "most": hr.quantile("x", 0.9),
    "word": hr.mode("s"), "best": hr.top(3, "s", by="x"), "numbers": hr.collect_set("y"),
    "largest": hr.top(2, "y"), "usual": hr.mode("x"),
}  # fmt: skip


@pytest.mark.slow
def test_oracle_duckdb():
    """The same rows in SQL; of ties it is told which comes first."""
    rows = rows_at_random(4, 20_000)
    query = hr.stream(rows, event_time="ts", batch_rows=3_000).key_by("k").window(500)
    found = [tuple(row.values()) for row in query.aggregate(**BESIDE).to_arrow(threads=2).to_pylist()]
    numbered = rows.append_column("row", pa.array(range(rows.num_rows)))  # noqa: F841  (read by DuckDB)
    wanted = duckdb.execute("""
        with r as (select (ts // 500 + 1) * 500 as ts, * exclude (ts) from numbered),
        c as (select ts, k, s, count(*) n from r where s is not null group by all),
        m as (select ts, k, first(s order by n desc, s) word from c group by all)
        select ts, k, list(x order by row) filter (x is not null),
               list_sort(list(distinct s) filter (s is not null)), median(y), quantile_cont(x, 0.9), any_value(word),
               list(s order by x desc, s)  filter (s is not null and x is not null) [:3],
               list_sort(list(distinct y) filter (y is not null)), list(y order by y desc) filter (y is not null) [:2]
        from r join m using (ts, k) group by ts, k order by ts, k
    """).fetchall()
    assert len(found) == len(wanted) > 20
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine[:4] == theirs[:4] and mine[6:-1] == theirs[6:]  # the last one is pandas'
        assert mine[4:6] == pytest.approx(theirs[4:6], rel=1e-14)


@pytest.mark.slow
def test_oracle_pandas():
    rows = rows_at_random(5, 20_000)
    query = hr.stream(rows, event_time="ts").key_by("k").window(500).aggregate(**BESIDE)
    found = query.to_pandas(threads=2).set_index(["ts", "k"])
    frame = rows.to_pandas()
    groups = frame.assign(ts=(frame.ts // 500 + 1) * 500).groupby(["ts", "k"])
    pd.testing.assert_series_equal(found["half"], groups["y"].median().rename("half"), rtol=1e-14)
    pd.testing.assert_series_equal(found["most"], groups["x"].quantile(0.9).rename("most"), rtol=1e-14)
    assert found["word"].tolist() == groups["s"].agg(lambda s: s.mode()[0]).tolist()
    assert found["usual"].tolist() == groups["x"].agg(lambda x: x.mode()[0]).tolist()


@pytest.mark.slow
def test_agree_other_parameters_compile_nothing():
    rows = rows_at_random(6, 2_000)
    query = hr.stream(rows, event_time="ts").key_by("k").window(500)
    with query.aggregate(**BESIDE).start() as run:
        text = run._operators["aggregate"].section.compiled.text()
    other = BESIDE | {"half": hr.quantile("y", 0.1), "most": hr.median("x"), "best": hr.top(7, "s", by="x")}
    with query.aggregate(**other).start() as run:
        assert run._operators["aggregate"].section.compiled.text() == text
        assert run.wait(180)
        found = run.to_pandas().set_index(["ts", "k"])
    frame = rows.to_pandas()
    groups = frame.assign(ts=(frame.ts // 500 + 1) * 500).groupby(["ts", "k"])
    pd.testing.assert_series_equal(found["half"], groups["y"].quantile(0.1).rename("half"), rtol=1e-14)
    assert {len(best) for best in found["best"]} == {7}


LONG = {"xs": hr.collect_list("x"), "half": hr.median("x")}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.campaign)])
def test_agree_lists_longer_than_their_ring(mode):
    """Without a key: windows that overlap, of 400,000 values each, three times what an instance's ring takes."""
    count = 600_000
    values = np.random.default_rng(5).integers(-(2**62), 2**62, count)
    ts = np.arange(count) // 600
    query = hr.stream(pa.table({"ts": ts, "x": values}), event_time="ts").window(700, 350).aggregate(**LONG)
    result = query.to_arrow(threads=2, mode=mode)
    starts = range(-350, 1000, 350)
    assert result["ts"].to_pylist() == [left + 700 for left in starts]
    for left, found, half in zip(starts, result["xs"], result["half"].to_pylist(), strict=True):
        wanted = values[(ts >= left) & (ts < left + 700)]
        assert np.array_equal(found.values.to_numpy(), wanted)
        assert half == pytest.approx(float(np.median(wanted)), rel=1e-9)


@pytest.mark.slow
def test_property_memory_is_counted_and_given_back():
    """A window of 50,000 values is open, then another one of a few: what state_bytes says follows."""
    ts = [0] * 50_000 + [1_000, 1_001, 3_000]
    table = pa.table({"ts": pa.array(ts, pa.int64()), "x": pa.array(range(len(ts)), pa.int64())})
    source = Steered(table, [50_000, 2])
    with hr.stream(source, event_time="ts").window(700, 350).aggregate(**LONG).start() as run:
        source.let(1)

        def state_bytes():
            return run.metrics().operators["aggregate"].state_bytes

        eventually(lambda: run.metrics().operators["aggregate"].processed >= 50_000)
        # Two windows, each in a block of 65,536 words.
        assert 2 * 8 * 50_000 <= state_bytes() <= 2 * 8 * 65_536 + 100_000
        source.let(1)
        eventually(lambda: run.metrics().operators["aggregate"].results == 2)
        eventually(lambda: state_bytes() < 100_000)  # given back after the results are written
        source.let_all()
        assert run.wait(180)
        assert [len(row) for row in run.to_arrow()["xs"]] == [50_000, 50_000, 2, 2, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.campaign)])
def test_example_values_beyond_max_state(mode):
    """It ends the run in the middle of the stream, and says what to do."""
    table = pa.table({"ts": pa.array(np.arange(50_000) // 100), "x": np.arange(50_000)})
    query = hr.stream(table, event_time="ts").window(700, 350).aggregate(**LONG)
    said = r"xs=collect_list\('x'\), half=median\('x'\).*max_state=100000 bytes.*larger max_state"
    with pytest.raises(OverflowInputError, match=said):
        query.to_arrow(mode=mode, max_state=100_000)
    assert query.to_arrow(mode=mode, max_state=4_000_000).num_rows == 3


@pytest.mark.slow
def test_agree_strings_that_are_recycled():
    """More strings over time than the dictionary keeps: an id means another string later, and not in a list."""
    count = 60_000
    strings = [f"{'same beginning ' * (i % 2)}{i % 50_000}" for i in range(count)]
    numbers = pa.array(range(count), pa.int64())
    rows = pa.table({"ts": numbers, "k": [i % 3 for i in range(count)], "x": numbers, "y": [0.0] * count, "s": strings})
    query = hr.stream(rows, event_time="ts", batch_rows=1024).key_by("k").window(1000).aggregate(**BESIDE)
    with query.start(threads=2) as run:
        assert run.wait(180)
        table = run.to_arrow()
        assert run._operators["aggregate"].section.compiled.texts["s"].size < count // 2
    for row in table.to_pylist():
        own = [i for i in range(row["ts"] - 1000, row["ts"]) if i % 3 == row["k"]]
        assert row["kinds"] == sorted({strings[i] for i in own})
        assert row["word"] == row["kinds"][0]
        assert row["best"] == [strings[i] for i in own[:-4:-1]]


EVERY_TYPE = {
    "all": hr.collect_list("v"), "kinds": hr.collect_set("v"), "usual": hr.mode("v"), "best": hr.top(2, "v"),
    "by": hr.top(3, "row", by="v"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("kind", [*NUMBERS, *TEXTS], ids=str)
def test_oracle_every_type(kind):
    """Values of the type, dictionary-encoded ones too, in every layout; results keep it."""
    draw = random.Random(str(kind))
    for made_of in (kind, pa.dictionary(pa.int16(), kind)):
        rows = 30
        table = pa.table({
            "ts": pa.array(sorted(draw.randrange(40) for _ in range(rows)), pa.int64()),
            "row": pa.array(range(rows), pa.int64()), "v": column(draw, made_of, rows, nulls=0.3),
        })  # fmt: skip
        wanted = dict(EVERY_TYPE) if kind in TEXTS else EVERY_TYPE | {"half": hr.median("v"), "third": hr.quantile("v", 1 / 3)}
        result = hr.stream(table, event_time="ts").window(20).aggregate(**wanted).to_arrow()
        result.validate(full=True)
        types = {"usual": kind, "by": pa.list_(pa.int64()), **dict.fromkeys(("all", "kinds", "best"), pa.list_(kind))}
        if kind not in TEXTS:
            types |= dict.fromkeys(("half", "third"), kind if pa.types.is_temporal(kind) else pa.float64())
        assert {name: result.schema.field(name).type for name in wanted} == types
        ts, values = table["ts"].to_pylist(), as_plain(table["v"])
        for i, end in enumerate(result["ts"].to_pylist()):
            own = [(v, row) for row, v in enumerate(values) if end - 20 <= ts[row] < end]
            expected = {
                "all": [v for v, _ in own if v is not None],
                "kinds": reference.values.apply("collect_set", [v for v, _ in own]),
                "usual": reference.values.apply("mode", [v for v, _ in own]),
                "best": reference.values.top([(v, v) for v, _ in own], 2),
                "by": reference.values.top([(row, v) for v, row in own], 3),
            }
            for name, q in (("half", 0.5), ("third", 1 / 3)):
                if name in wanted and expected["all"]:
                    if pa.types.is_temporal(kind):
                        expected[name] = away_from_zero(exact_quantile(expected["all"], q))
                    else:
                        expected[name] = reference.values.apply("quantile", expected["all"], False, q)
            for name, value in expected.items():
                (found,) = as_plain(result[name].slice(i, 1))
                assert exact(found) == exact(value), f"{name} of {made_of} at {end}"


@pytest.mark.slow
@pytest.mark.interpreted
def test_example_lists_go_on_into_the_next_operator():
    """Which words occur in how many hours, by the sets of each hour."""
    table = pa.table({"ts": [1, 2, 12, 13, 14], "w": ["a", "a", "b", "a", None]})
    hours = hr.stream(table, event_time="ts").window(10).aggregate(words=hr.collect_set("w"))
    counted = hours.key_by(word=hr.each("words")).window(100).aggregate(hours=hr.count())
    assert counted.to_arrow(threads=2).to_pylist() == [
        {"ts": 100, "word": "a", "hours": 2}, {"ts": 100, "word": "b", "hours": 1},
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------ refused

STREAM = hr.stream(pa.table({"ts": [1], "s": ["a"], "b": [b"x"], "x": [1]}), event_time="ts").window(10)


@pytest.mark.parametrize(
    ("build_it", "error", "words"),
    [
        (lambda: hr.quantile("x", 1.5), ParameterError, r"quantile\('x', 1.5\).*from 0 to 1"),
        (lambda: hr.quantile("x", math.nan), ParameterError, "from 0 to 1"),
        (lambda: hr.quantile("x", "0.5"), ParameterError, "from 0 to 1"),
        (lambda: hr.top(0, "x"), ParameterError, r"top\(0, 'x'\).*whole number from 1"),
        (lambda: hr.top(2.5, "x"), ParameterError, r"top\(2.5, 'x'\)"),
        (lambda: hr.top(True, "x"), ParameterError, r"top\(True, 'x'\)"),
        (lambda: hr.top("x", 3), ParameterError, r"top\(3\)"),
        (lambda: hr.collect_list(3), ParameterError, r"collect_list\(3\)"),
        (lambda: STREAM.aggregate(m=hr.median("s")), UnsupportedTypeError, r"median\('s'\).*string.*cast it to a number"),
        (lambda: STREAM.aggregate(t=hr.top(2, "x", by="b")), UnsupportedTypeError, r"top\(2, 'x', by='b'\).*'b' has type binary"),
        (lambda: STREAM.aggregate(t=hr.top(2, "x", by="z")), SchemaError, r"'z'"),
        (lambda: STREAM.aggregate(t=hr.mode("b")), UnsupportedTypeError, r"mode\('b'\)"),
    ],
)  # fmt: skip
def test_example_what_cannot_be_is_refused(build_it, error, words):
    with pytest.raises(error, match=words):
        build_it()


def test_example_how_they_are_written():
    made = (hr.median("x"), hr.quantile("x", 0.9, ignore_nan=True), hr.top(2, "x"), hr.top(2, "s", by="x"), hr.mode("x"))
    assert [repr(aggregate) for aggregate in made] == [
        "median('x')", "quantile('x', 0.9, ignore_nan=True)", "top(2, 'x')", "top(2, 's', by='x')", "mode('x')",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.interpreted
def test_example_ignored_nan():
    table = pa.table({"ts": [1, 2, 3, 11], "y": [math.nan, 2.0, 1.0, math.nan]})
    query = hr.stream(table, event_time="ts").window(10)
    result = query.aggregate(with_it=hr.median("y"), without=hr.median("y", ignore_nan=True)).to_arrow()
    assert exact(result["with_it"].to_pylist()) == ("nan", "nan")
    assert result["without"].to_pylist() == [1.5, None]


# ----------------------------------------------------------------------------------------------------- planted

_RELEASE = "release(s.kept_free, s.kept_arena, owner, s.{}, head)"
_HELD = "block, held = s.values_0[head + FIRST], s.values_0[head + COUNT]"
BUGS = {
    "values outlive their window": ("vsn", _RELEASE.format("values_0"), "0"),
    "different values outlive their window": ("vsn", _RELEASE.format("different_2"), "0"),
    "the best outlive their window": ("vsn", _RELEASE.format("top_12"), "0"),
    "selection comes before the list is written": (
        "vsn", _HELD, _HELD + "; quantile_of_integers(s.kept_arena, block, held, 0.5)",
    ),
    "a null goes by its place's word": (
        "vsn",
        "if (not masked_2 or valid_2[r] != 0) and (not masked_0 or valid_0[r] != 0):",
        "if not masked_2 or valid_2[r] != 0:",
    ),
    "lists say nothing of their length": ("vsn", "out_count_1[i] = words", "out_count_1[i] = words - 1 if words > 1 else words"),
    "containers stay behind": ("sn", "from_values_0, p * HEAD_WORDS", "from_values_0, 0 * HEAD_WORDS"),
    "what moved lies in the old owner's arena": (
        "sn", "view_i64(s.all_kept_arena[new], ARENA_WORDS),", "view_i64(s.all_kept_arena[old], ARENA_WORDS),",
    ),
}  # fmt: skip


def planted_case(seed):
    """Few keys, many values, two windows at once; changes in between."""
    draw = random.Random(seed)

    def row(ts):
        return ts, {
            "ks": draw.sample("abc", draw.randint(1, 2)), "x": draw.choice([None, *range(9)]),
            "y": draw.choice([None, 1.5, 0.25]), "s": draw.choice([None, "a", "bb", "ccc"]),
        }  # fmt: skip

    rows = [row(ts) for ts in sorted(draw.randrange(40) for _ in range(60))]
    changes = sorted(draw.randrange(60) for _ in range(3))
    return [rows], Window(8, 4), {"threads": 2, "max_threads": 3, "reconfigure": [(at, draw.randint(1, 3)) for at in changes]}


def replaced(text, old, new):
    if text.count(old) != 1:  # no assertion: a hunt that fails is what is expected here
        pytest.fail(f"{old!r} occurs {text.count(old)} times: the bug is out of date")
    return text.replace(old, new)


def hunt(mode, runs=8):
    for seed in range(runs):
        drawn, window, schedule = planted_case(seed)
        assert run_case(drawn, window, mode=mode, **schedule) == wanted_of(drawn, window), "rows differ"


@pytest.mark.interpreted
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bug_is_found(bug, monkeypatch):
    mode, old, new = BUGS[bug]
    if mode == "vsn":
        change_kernels(monkeypatch, lambda text: replaced(text, old, new))
    else:
        keyed = shared_nothing.transfer.keyed_transfer
        monkeypatch.setattr(shared_nothing.transfer, "keyed_transfer", lambda state: replaced(keyed(state), old, new))
    with pytest.raises(AssertionError, match="rows differ"):
        hunt(mode)


@pytest.mark.logic
@pytest.mark.parametrize("mode", ["vsn", "sn"])
def test_agree_without_a_bug(mode):
    hunt(mode)
