"""Results passed on in order of content, where the next operator's results show the order of tuples of equal event time.

Property    rows, types and order are what the reference gives, and what the collector gives, byte by byte: for keys that are
            strings, numbers or times of any type, first and last values, lists, sums of floats and functions of a user behind
            another key or none; for any threads, batches, changes of both operators and sizes of the gate; unless the gate is
            asked for, a sum of numbers of either sign overflows if and only if the collector's does
Oracle      `headrace.reference`, one operator behind the other; where instances come and go by the clock, the collector's run
Planted     here: results of a window that an instance gives in order of key ids; a gate that takes ties by instance; strings of
            which only the first eight bytes are compared; sums of either sign that are taken as they come
Cannot see  the schedules between instances and the merge: test_passing_content_interleave.py
"""

import random

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import reference
from headrace.elastic import ways
from headrace.elastic.aggregate import rank_sort_kernel, template
from headrace.elastic.aggregate.rank_sort_kernel import sort_by_ranks
from headrace.elastic.section import OUTPUT_CAPACITY
from headrace.errors import HeadraceError, ParameterError
from headrace.gates import content_kernel
from headrace.ingress.key_ranks import KeyRanks
from headrace.ingress.keys import KeyDictionary, key_kind
from headrace.ingress.sorting_kernel import BYTE, BYTES
from headrace.windows import Window
from support.books import changed_and_watched, check_end
from support.passing import (
    GATE,
    both_ways,
    check_is_collected,
    check_is_passed,
    check_stops_in_the_middle,
    options_of,
)
from support.typed_cases import check_rows, payloads, stream
from support.workloads import HANG_S, Steered, examples

STRINGS = ["", "\0", "a", "a\0", "b", "seven b", "eight by", "eight by\0", "eight bytes", "eight bytes and more", "é", "日本"]
"""Some begin with the same eight bytes, or are equal but for NULs at the end."""
KINDS = {
    "int64": (pa.int64(), [-(2**63), -(2**40), -7, -1, 0, 1, 300, 2**40, 2**63 - 1]),
    "int16": (pa.int16(), range(-9, 9)),
    "uint32": (pa.uint32(), [0, 1, 2, 2**31, 2**32 - 1]),
    "bool": (pa.bool_(), [False, True]),
    "timestamp": (pa.timestamp("ms", "Europe/Rome"), [-(10**12), 0, 5, 10**12]),
    "date": (pa.date32(), [-400, 0, 1, 20_000]),
    "float64": (pa.float64(), [float("-inf"), -2.5, -0.0, 0.0, 1e-300, 1.5, float("inf"), float("nan")]),
    "float32": (pa.float32(), [-2.5, 0.0, 0.5, float("nan")]),
    "string": (pa.string(), STRINGS),
    "binary": (pa.binary(), [text.encode() + b"\xff" * (i % 2) for i, text in enumerate(STRINGS)]),
}
ROUNDED = (0.0, -0.0, 1.5, 0.1, 1e16, -1e16)
"""Floats whose sum is another one in another order."""


def table(kind="int64", rows=60, seed=1, span=24, values=None):
    draw = random.Random(seed)
    of_type, given = KINDS[kind]
    given = list(values or given)
    return pa.table({
        "ts": sorted(draw.randrange(-span // 2, span // 2) for _ in range(rows)),
        "k": pa.array([draw.choice(given) for _ in range(rows)], of_type),
        "v": pa.array([draw.choice([None, *range(-9, 9)]) for _ in range(rows)], pa.int64()),
        "f": [draw.choice(ROUNDED) for _ in range(rows)],
    })  # fmt: skip


def upper(source, size=6, advance=3, **options):
    given = source if isinstance(source, hr.Stream) else hr.stream(source, event_time="ts", **options)
    return given.key_by("k").window(size, advance).aggregate("upper", n=hr.count(), v=hr.sum("v"), f=hr.last("f"))


LOWER = {
    "rows": hr.count(), "first": hr.first("v"), "last": hr.last("n"), "total": hr.sum("f"), "mean": hr.mean("f"),
    "all": hr.collect_list("n"), "least": hr.min("f"),
}  # fmt: skip
"""What depends on the order of tuples of one time, and a count."""


def lower(above, size=24, advance=12):
    return above.window(size, advance).aggregate("lower", **LOWER)


def expected(tables, size=24, advance=12):
    first = {"n": ("count", None), "v": ("sum", "v"), "f": ("last", "f")}
    found = reference.aggregate(payloads(tables), Window(6, 3), reference.column("k"), first)
    again = [(row.ts, {"k": row.key, **row.values}) for row in found]
    last = {
        "rows": ("count", None), "first": ("first", "v"), "last": ("last", "n"), "total": ("sum", "f"), "mean": ("mean", "f"),
        "all": ("collect_list", "n"), "least": ("min", "f"),
    }  # fmt: skip
    return [{"ts": r.ts, **r.values} for r in reference.aggregate([again], Window(size, advance), aggregates=last)]


@pytest.mark.logic
@pytest.mark.parametrize("kind", KINDS)
def test_oracle_what_shows_the_order_of_ties(kind):
    for seed in range(examples(4)):
        draw = random.Random(seed)
        tables = [table(kind, seed=seed), table(kind, seed=seed + 10)][: draw.randint(1, 2)]
        query = lower(upper(stream(draw, tables)))
        check_rows(query.to_arrow(**GATE, **options_of(draw, 90, small_gates=True)), expected(tables), {"rows": pa.int64()})


BEHIND_SOME = [("house",), ("plug",), ("plug", "house"), ("name", "house"), ()]


def plugs(seed, rows=60):
    draw = random.Random(seed)
    return pa.table({
        "ts": sorted(draw.randrange(24) for _ in range(rows)),
        "house": pa.array([draw.randrange(-2, 2) for _ in range(rows)], pa.int16()),
        "room": [draw.choice([0.5, -1.0, float("-inf"), -(2.0**70)]) for _ in range(rows)],
        "name": [draw.choice(STRINGS[:1] + STRINGS[-5:]) for _ in range(rows)],
        "plug": pa.array([draw.choice([-(2**63), 5, 2**63 - 1]) for _ in range(rows)], pa.int64()),
        "v": [draw.randrange(-9, 9) for _ in range(rows)],
    })  # fmt: skip


@pytest.mark.logic
@pytest.mark.parametrize("key", BEHIND_SOME, ids="-".join)
def test_oracle_keys_of_several_columns_and_others_behind_them(key):
    asked = {"first": ("first", "v"), "all": ("collect_list", "v"), "last": ("last", "n")}
    for seed in range(examples(4)):
        draw = random.Random(seed)
        tables = [plugs(seed), plugs(seed + 10)][: draw.randint(1, 2)]
        columns = ("house", "name", "room", "plug")
        above = stream(draw, tables).key_by(*columns).window(6, 3).aggregate("upper", n=hr.count(), v=hr.sum("v"))
        query = (above.key_by(*key) if key else above).window(24, 12).aggregate(
            "lower", first=hr.first("v"), all=hr.collect_list("v"), last=hr.last("n")
        )
        parts = reference.columns(*map(reference.column, columns))
        found = reference.aggregate(payloads(tables), Window(6, 3), parts, {"n": ("count", None), "v": ("sum", "v")})
        again = [(row.ts, {**dict(zip(columns, row.key, strict=True)), **row.values}) for row in found]
        behind = reference.columns(*map(reference.column, key)) if len(key) > 1 else reference.column(*key) if key else None
        rows = reference.aggregate([again], Window(24, 12), *([behind] if behind else []), aggregates=asked)
        keys = [dict(zip(key, row.key if len(key) > 1 else (row.key,), strict=True)) if key else {} for row in rows]
        wanted = [{"ts": row.ts, **part, **row.values} for row, part in zip(rows, keys, strict=True)]
        check_rows(query.to_arrow(**GATE, **options_of(draw, 90, small_gates=True)), wanted, {})


@pytest.mark.logic
def test_agree_windows_with_more_keys_than_few():
    """Keys come in no order, and windows have up to a thousand of them, close together or not."""
    draw = random.Random(1)
    for step, offset in ((1, -1_000), (2**40 + 7, -(2**55))):
        keys = [offset + step * number for number in range(2_000)]
        rows = [draw.choice(keys) for _ in range(5_000)]
        given = pa.table({"ts": sorted(draw.randrange(36) for _ in rows), "k": rows, "v": rows, "f": [k / 3 for k in rows]})
        assert both_ways(lower(upper(given, 12, 6)), threads=3).num_rows > 3


@pytest.mark.slow
def test_agree_more_results_of_one_time_than_a_ring_holds():
    """Each instance has more of them than its ring has room for, and cannot promise their time before all are written."""
    n = 3 * OUTPUT_CAPACITY
    keys = np.random.default_rng(1).permutation(n)
    many = pa.table({"ts": [0] * n, "k": keys, "v": keys, "f": keys / 3})
    found = both_ways(upper(many).window(24).aggregate("lower", first=hr.first("v"), last=hr.last("v"), f=hr.sum("f")), threads=2)
    assert found["first"].to_pylist() == [0] and found["last"].to_pylist() == [n - 1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.campaign)])
def test_agree_while_both_operators_are_reconfigured(seed):
    """Instances of both come and go all the time, while there are ties; `books` looks on."""
    draw = random.Random(seed)
    given = [table(rows=20_000, seed=seed + more, span=8_000, values=range(-20, 20)) for more in (0, 100)]
    inputs = [Steered(each, [50] * 400) for each in given]
    with lower(upper(inputs)).start(threads=2, max_threads=4, **GATE) as run:
        last = changed_and_watched(run, inputs, draw)
    check_end(last, rows=40_000)
    assert run.to_arrow().equals(lower(upper(given)).to_arrow(passing="collector"))


@pytest.mark.slow
def test_agree_late_rows_are_dropped_before():
    late = table(rows=2_000, span=800, values=range(-20, 20)).take(np.arange(2_000).reshape(-1, 4)[:, ::-1].ravel())
    query = lower(upper(late, late="drop", lateness=5))
    both_ways(query, threads=3)


def note(state, t, emit):
    state.n = 3 * state.n + t.n
    emit(n=state.n, last=t.f)


def report(key, state, emit):
    emit(n=state.n, last=0.5)


ON_TUPLE = hr.operator(state={"n": "int64"}, emits={"n": "int64", "last": "float64"}, update=note, output=report, name="lower")
BEHIND = {
    "a function, no key": lambda s: s.window(12).apply(ON_TUPLE),
    "a function that emits for each tuple, the same key": lambda s: s.key_by("k").window(12, 6).apply(ON_TUPLE),
    "filter and select": lambda s: s.filter((hr.col("n") > 1) & (hr.col("f") >= 0))
    .select("ts", last="f", many="n").window(12).aggregate("lower", last=hr.last("last"), all=hr.collect_list("many")),
}  # fmt: skip


@pytest.mark.logic
@pytest.mark.parametrize("behind", BEHIND)
def test_agree_with_the_collector(behind):
    query = BEHIND[behind](upper(table(rows=400, span=100)))
    assert both_ways(query, threads=3).num_rows > 3
    both_ways(query, threads=1)
    both_ways(query, threads=2, max_threads=4, reconfigure=[(0, [3]), (70, [0, 1]), (200, 4), (201, [2])], capacity=2)
    check_is_passed(query, rows=400)


@pytest.mark.logic
def test_agree_three_in_a_row():
    """The second operator takes results by instance, and gives its own by content."""
    above = upper(table(rows=600, span=200, values=range(-20, 20)))
    middle = above.key_by("k").window(12).aggregate("middle", n=hr.sum("n"), f=hr.sum("f"), v=hr.last("v"))
    query = lower(middle)
    assert both_ways(query, threads=3).num_rows > 3
    with query.start(threads=2, **GATE) as run:
        assert run.wait(HANG_S)
        assert "in order of their keys" in run["lower"].takes and "in order" not in run["middle"].takes


@pytest.mark.slow
@pytest.mark.parametrize("named", [False, True])
def test_agree_a_recycled_key_has_the_rank_of_what_it_is_now(named, monkeypatch):
    from headrace.ingress import keys

    monkeypatch.setattr(keys, "_LEAST_RECYCLED", 16)
    draw = random.Random(1)
    ts = list(range(0, 60_000, 3))
    given = [draw.randrange(t // 300 % 7 * 10**6 - 50, t // 300 % 7 * 10**6) for t in ts]
    given = [f"the key {k:09d}" for k in given] if named else given
    parts = pa.table({"ts": ts, "k": given, "v": ts, "f": [0.5] * len(ts)})
    both_ways(lower(upper(parts, 30, 30), 300, 100), threads=2, max_keys=900)


@pytest.mark.slow
@pytest.mark.parametrize("full", [False, True])
def test_stop_in_the_middle(full):
    make = lambda source: upper(source, 20, 20).window(20).aggregate("lower", last=hr.last("n"))  # noqa: E731
    check_stops_in_the_middle(make, table(rows=50_000, span=200_000, values=range(2_000)), full)


def above_of(key, **options):
    given = table(rows=200).append_column("t", pa.array(["a", "b"] * 100))
    given = given.set_column(0, "ts", pa.array(given["ts"].to_pylist(), pa.timestamp("s", "UTC")))
    stream = hr.stream(given, event_time="ts").key_by(*key).window(*options.pop("window", ("6s",)), **options)
    return stream.aggregate("upper", n=hr.count())


@pytest.mark.logic
@pytest.mark.parametrize(
    ("above", "why"),
    [
        (lambda: above_of(("t",), window=("2d", "1d"), zone="Europe/Rome"), "local days"),
        (lambda: above_of(("k",), window=("2d", "1d"), zone="Europe/Rome"), "local days"),
    ],
)  # fmt: skip
def test_example_what_goes_through_a_collector_says_why(above, why):
    check_is_collected(above().window("60s").aggregate("lower", n=hr.last("n")), "lower", why)


@pytest.mark.logic
def test_example_channels_of_their_own_are_refused():
    query = upper(table()).key_by("k").window(12).apply(ON_TUPLE)
    with pytest.raises(ParameterError, match="no channels of their own"):
        query.to_arrow(channel={"lower": "reader"})


@pytest.mark.logic
def test_agree_behind_one_result_of_a_window():
    """The operator before has no key, so it gives no two results of one time."""
    query = hr.stream(table(rows=200, span=100), event_time="ts").window(6, 3).aggregate("upper", f=hr.last("f"), v=hr.sum("v"))
    query = query.window(24).aggregate("lower", f=hr.sum("f"), all=hr.collect_list("v"), v=hr.sum("v"))
    assert both_ways(query, threads=2).num_rows > 3
    with query.start(threads=2) as run:
        assert run["lower"].takes.startswith("gate: ") and "in order" not in run["lower"].takes


def sort(ids, ranks, layout):
    """The ids as instances sort them, by int64[ranks, ids]."""
    found = np.stack([np.append(ids, 0), np.zeros(ids.size + 1)]).astype(np.int32)
    scratch, counts = np.empty((2, ids.size + 1), np.uint64), np.empty((BYTES, BYTE), np.int64)
    sort_by_ranks(ids.size, found, scratch, ranks, np.array(layout), counts)
    return found[0, : ids.size]


@pytest.mark.logic
@pytest.mark.parametrize("count", [0, 1, 2, 31, 32, 33, 1_000])
def test_oracle_the_sort_of_keys(count):
    rng = np.random.default_rng(count)
    for low, high in ((-3, 3), (-(10**6), 10**6), (-(2**63), 2**63 - 1)):
        ranks = rng.integers(low, high, 2_000, endpoint=True)
        both = np.stack([rng.integers(-2, 2, 2_000), ranks])
        ids = rng.choice(2_000, count, replace=False).astype(np.int32)
        found = sort(ids, both, (0, 0))
        assert sorted(found.tolist()) == sorted(ids.tolist())
        assert both.T[found].tolist() == sorted(both.T[ids].tolist())


@pytest.mark.logic
@pytest.mark.parametrize("kind", KINDS)
def test_example_ranks_order_as_keys_do(kind):
    values = table(kind, 300)["k"].combine_chunks()
    dictionary = KeyDictionary((key_kind(values.type),))
    ranks = KeyRanks(dictionary, dictionary.id_limit + 2**16)
    dictionary.encode(values[:100])
    ids = np.unique(dictionary.encode(values))
    ranks.note(ids[::2])
    ranks.note(ids)
    assert sort(ids, ranks.by_id, ranks.layout).tolist() == ids[dictionary.argsort(ids)].tolist()


def names(draw, count):
    """Distinct strings of up to 20 letters, many of which begin alike."""
    return list({draw.choice(["", "eight by", "the same beginning "]) + "".join(draw.choices("ab\0", k=draw.randrange(9))): 0
                 for _ in range(count)})  # fmt: skip


@pytest.mark.logic
def test_oracle_the_sort_of_strings():
    for seed in range(examples(10)):
        draw = random.Random(seed)
        columns = [[draw.choice(names(draw, 60)) for _ in range(draw.randrange(2, 200))] for _ in range(2)]
        columns = [column[: min(map(len, columns))] for column in columns]
        numbers = [draw.randrange(-2, 2) for _ in columns[0]]
        dictionary = KeyDictionary(("string", "int", "string"))
        ids = np.unique(dictionary.encode(*map(pa.array, (columns[0], numbers, columns[1]))))
        ranks = KeyRanks(dictionary, 2**16)
        ranks.note(ids)
        found = [column.to_pylist() for column in dictionary.decode(sort(ids, ranks.by_id, ranks.layout))]
        rows = list(zip(*found, strict=True))
        assert rows == sorted(set(zip(columns[0], numbers, columns[1], strict=True))), seed


@pytest.mark.logic
def test_example_strings_go_with_their_keys():
    dictionary = KeyDictionary(("string",), buckets=1)
    ranks = KeyRanks(dictionary, 2**16)
    first = dictionary.encode(pa.array(["the first string", "the second string"]))
    ranks.note(first)
    dictionary.touch(first, np.array([1, 5]))
    (pages,) = ranks._texts.values()
    held = pages.nbytes
    assert dictionary.recycle(5) == 1 and pages.is_noted(first).tolist() == [False, True] and pages.nbytes == held
    again = dictionary.encode(pa.array(["zebras are animals"]))
    assert again.tolist() == first[:1].tolist()
    ranks.note(again)
    assert sort(first, ranks.by_id, ranks.layout).tolist() == [first[1], again[0]]
    dictionary.touch(again, np.array([6]))
    assert dictionary.recycle(7) == 2 and pages.nbytes == 0


# -- planted -------------------------------------------------------------------------------------------


def three_keys():
    """Results of one time, which the first keys seen do not order."""
    parts = pa.table({"ts": [0, 0, 0, 0], "k": [3, 1, 2, 0], "v": [3, 1, 2, 0], "f": [1.0] * 4})
    return upper(parts, 6, 6).window(60).aggregate("lower", all=hr.collect_list("v"))


@pytest.mark.logic
def test_planted_results_in_order_of_key_ids_are_found(monkeypatch):
    assert three_keys().to_arrow(**GATE, threads=2)["all"].to_pylist() == [[0, 1, 2, 3]]
    monkeypatch.setattr(template, "_BY_RANK", template._BY_ID)
    assert three_keys().to_arrow(**GATE, threads=2)["all"].to_pylist() != [[0, 1, 2, 3]]


@pytest.mark.logic
@pytest.mark.parametrize("module", [content_kernel, rank_sort_kernel], ids=["merged", "sorted"])
def test_planted_strings_that_begin_alike_taken_as_equal_are_found(module, monkeypatch):
    def outcome():
        order = [7, 2, 9, 4, 0, 5, 1, 8, 3, 6]
        parts = pa.table({"ts": [0] * 10, "k": [f"begins alike {i}" for i in order], "v": order, "f": [1.0] * 10})
        query = upper(parts, 6, 6).window(60).aggregate("lower", all=hr.collect_list("v"))
        return query.to_arrow(**GATE, threads=3)["all"].to_pylist()

    assert outcome() == [list(range(10))]
    monkeypatch.setattr(module, "order_behind_prefix", lambda *strings: 0)
    assert outcome() != [list(range(10))]


@pytest.mark.logic
def test_planted_ties_taken_for_none_are_found(monkeypatch):
    monkeypatch.setattr(ways, "_order_shown", lambda compiled, above, middle: "")
    assert three_keys().to_arrow(**GATE, threads=3)["all"].to_pylist() != [[0, 1, 2, 3]]


def outcome(query, **options):
    """Its results, or that a sum leaves int64."""
    try:
        return query.to_arrow(**options)
    except HeadraceError as error:
        assert "int64" in str(error), error
        return "a sum leaves int64"


def sums_that_may_overflow(seed, keys=4):
    """At each time some large numbers of either sign, whose partial sums leave int64 in some orders and not in others."""
    draw = random.Random(seed)
    order = draw.sample(range(keys), keys)
    large = [draw.choice([2**62, -(2**62), 3, -3]) for _ in order]
    parts = pa.table({"ts": [0] * keys, "k": order, "v": large, "f": [1.0] * keys})
    return upper(parts, 6, 6).window(60).aggregate("lower", all=hr.sum("v"), n=hr.count())


def same_outcomes(seeds):
    """How many sums overflowed, if those of the default and of the collector are the same."""
    overflowed = 0
    for seed in range(seeds):
        query = sums_that_may_overflow(seed)
        collected = outcome(query, passing="collector", threads=1)
        assert outcome(query, threads=3) == collected, f"another outcome than the collector's, seed {seed}"
        overflowed += isinstance(collected, str)
    return overflowed


@pytest.mark.logic
def test_agree_a_sum_of_either_sign_overflows_where_the_collectors_does():
    assert 3 <= same_outcomes(20) <= 17
    with sums_that_may_overflow(0).start(threads=2) as run:
        assert "could leave int64 in one order of tuples of equal event time" in run["lower"].takes
    with sums_that_may_overflow(0).start(threads=2, **GATE) as run:
        assert "in order of" not in run["lower"].takes


@pytest.mark.logic
def test_planted_sums_taken_as_they_come_are_found(monkeypatch):
    monkeypatch.setattr(ways, "_why_may_overflow", lambda compiled, above, middle: "")
    with pytest.raises(AssertionError, match="another outcome than the collector's"):
        same_outcomes(60)
