"""Results that an operator's instances pass on to the next one's gate: the bytes that the collector gives.

Property    results, types and order are those of `passing="collector"`, for any threads and changes of them at both
            operators; books hold while it runs and at its end; a key means the same in both while either needs it;
            failures and stops end both; what cannot be passed on is not, and says why
Oracle      `headrace.reference` in test_oracle.py and test_schedules.py for one operator; here the run through collectors
Planted     here: ties taken for none; in test_passing_interleave.py: rows, heartbeats, sources that come and go
Cannot see  when ids of keys are recycled: that depends on when results are collected
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic import ways
from headrace.errors import AggregateOverflowError, OverflowInputError, ParameterError
from support.books import changed_and_watched, check_end
from support.passing import GATE, both_ways, check_is_collected, check_stops_in_the_middle
from support.workloads import HANG_S, Steered, eventually

WHOLE = pa.int64()
ROUNDED = (0.0, -0.0, 1.5, 0.1, 1e16)
"""Floats whose sum is another one in another order."""


def table(rows=4_000, seed=1, keys=50, span=20_000, kind=WHOLE, floats=ROUNDED):
    draw = random.Random(seed)
    ts = sorted(draw.randrange(-span // 2, span // 2) for _ in range(rows))
    names = [draw.choice("äbc") + str(draw.randrange(keys)) for _ in ts]
    return pa.table({
        "ts": pa.array(ts, pa.int64()).cast(kind),
        "k": names,
        "v": pa.array([None if name == "ä0" else draw.choice([None, *range(-9, 9)]) for name in names], pa.int64()),
        "f": [draw.choice(floats) for _ in ts],
    })  # fmt: skip


def upper(source, size=20, advance=None, **options):
    stream = hr.stream(source, event_time="ts", **options).key_by("k").window(size, advance)
    return stream.aggregate("upper", n=hr.count(), total=hr.sum("v"), least=hr.min("v"), known=hr.count("f"), last=hr.last("f"))


LOWER = {
    "rows": hr.count(), "n": hr.sum("n"), "total": hr.sum("total"), "least": hr.min("least"), "most": hr.max("total"),
    "mean": hr.mean("least"), "lasts": hr.count("last"), "sets": hr.collect_set("total"), "middle": hr.median("known"),
}  # fmt: skip
IN_ORDER = {
    "first": hr.first("total"), "latest": hr.last("last"), "floats": hr.sum("last"), "list": hr.collect_list("total"),
}  # fmt: skip
"""What depends on the order of tuples, which one key's have by their times."""


def per_key(stream, size=300, advance=100, name="lower"):
    return stream.key_by("k").window(size, advance).aggregate(name, **LOWER, **IN_ORDER)


def of_all(stream, size=60, advance=None):
    return stream.window(size, advance).aggregate("all", **LOWER)


@pytest.mark.logic
@pytest.mark.parametrize(("threads", "kind"), [(3, WHOLE), (1, pa.timestamp("us", "UTC"))], ids=str)
def test_agree_with_the_collector(threads, kind):
    unit = 1 if kind == pa.int64() else "us"
    sizes = [(20, 10), (300, 100)] if unit == 1 else [("20us", "10us"), ("300us", "100us")]
    stream = upper(table(500, keys=5, span=2_000, kind=kind), *sizes[0])
    found = both_ways(per_key(stream, *sizes[1]), threads=threads)
    assert found.num_rows > 200 and found["least"].null_count
    stream = upper(table(500, keys=5, span=2_000, kind=kind, floats=(*ROUNDED, float("nan"))), *sizes[0])
    assert both_ways(of_all(stream, sizes[1][1]), threads=threads).num_rows > 15


@pytest.mark.logic
def test_agree_three_in_a_row_and_keys_of_several_columns():
    words = pa.table({"ts": range(100), "t": [f"a{i % 7} b{i % 5} c{i % 3}" for i in range(100)]})
    pairs = hr.stream(words, event_time="ts").key_by(hr.pairs("t")).window(10).aggregate("pairs", n=hr.count())
    again = pairs.key_by(*pairs.schema.names[1:3]).window(50).aggregate("again", n=hr.sum("n"), times=hr.count())
    totals = again.window(100).aggregate("totals", n=hr.sum("n"), different=hr.count())
    both_ways(again, threads=2)
    with totals.start(threads=2, **GATE) as run:
        assert run.wait(HANG_S)
        check_end(run.metrics(), rows=100)
        assert [run[name].takes.split(":")[0] for name in ("again", "totals")] == ["gate", "gate"]
    assert run.to_arrow().equals(totals.to_arrow(passing="collector"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.campaign)])
def test_agree_while_both_operators_are_reconfigured(seed):
    """Instances of both come and go all the time; `books` looks on."""
    draw = random.Random(seed)
    given = [table(20_000, seed, span=40_000), table(20_000, seed + 100, span=40_000)]
    query = per_key(upper(given))
    inputs = [Steered(each, [50] * 400) for each in given]
    with per_key(upper(inputs)).start(threads=2, max_threads=4, **GATE) as run:
        last = changed_and_watched(run, inputs, draw)
    check_end(last, rows=40_000)
    assert run.to_arrow().equals(query.to_arrow(passing="collector"))


@pytest.mark.logic
def test_agree_planned_changes():
    query = per_key(upper(table(500, span=2_000)))
    changes = [(0, [3]), (1, [0, 1]), (200, 4), (201, [2]), (499, [2, 3]), (10**9, 1)]
    both_ways(query, threads=2, max_threads=4, reconfigure=changes)


def come_and_go():
    """Keys that are gone from the upper operator's windows long before they are from the lower one's."""
    ts = list(range(0, 60_000, 3))
    return pa.table({"ts": ts, "k": [f"k{t // 300 % 40}-{t % 20}" for t in ts], "v": ts, "f": [0.5] * len(ts)})


def forgets_no_key():
    query = per_key(upper(come_and_go()), 30_000, 10_000)
    both_ways(query, threads=2, max_keys=900)


@pytest.mark.slow
def test_agree_a_key_lives_as_long_as_any_window_has_it(monkeypatch):
    from headrace.ingress import keys

    monkeypatch.setattr(keys, "_LEAST_RECYCLED", 16)
    forgets_no_key()


@pytest.mark.slow
def test_agree_each_operator_has_room_for_its_own_keys():
    """At most 100 keys are in the windows above, and 200 in those below; some keys are in both."""
    new = pa.table({"ts": range(3_000), "k": [f"{n}" for n in range(3_000)], "v": range(3_000), "f": [0.5] * 3_000})
    both_ways(per_key(upper(new, 100), 200), threads=2, max_keys=250)


@pytest.mark.slow
def test_example_what_is_said_of_too_many_keys_in_two_operators():
    new = pa.table({"ts": range(3_000), "k": range(3_000), "v": range(3_000), "f": [0.5] * 3_000})
    shared = r"more than 2 \* max_keys = 240 \(of 2 operators that share them\) keys are live"
    with pytest.raises(OverflowInputError, match=shared):
        per_key(upper(new, 100), 200).to_arrow(**GATE, max_keys=120)
    with pytest.raises(OverflowInputError, match="more than max_keys = 120 keys are live"):
        per_key(upper(new, 100), 200).to_arrow(passing="collector", max_keys=120)


@pytest.mark.slow
def test_too_many_keys_are_an_error_in_either():
    many = pa.table({"ts": range(5_000), "k": [str(i) for i in range(5_000)], "v": range(5_000), "f": [1.0] * 5_000})
    with pytest.raises(OverflowInputError, match="max_keys"):
        per_key(upper(many, 10_000), 30_000, 10_000).to_arrow(**GATE, max_keys=1_000)


# -- what goes which way -------------------------------------------------------------------------------


COLLECTED = {
    "steps": (lambda s: s.filter(lambda r: r.n > 0).window(60).aggregate(n=hr.count()), "steps"),
    "another key": (lambda s: s.key_by("n").window(60).aggregate(c=hr.count()), "key is not"),
    "a column that is no result": (lambda s: s.window(60).aggregate(c=hr.count("k")), "column 'k'"),
}


@pytest.mark.logic
@pytest.mark.parametrize("what", COLLECTED)
def test_example_what_goes_through_a_collector_says_why(what):
    make, why = COLLECTED[what]
    query = make(upper(table(200)))
    (name,) = [name for name in query.operators if name != "upper"]
    check_is_collected(query, name, why)


@pytest.mark.logic
def test_planted_ties_taken_for_none_are_found(monkeypatch):
    """Three keys' results of one time: content orders them by name, a gate as they were first seen."""
    parts = pa.table({"ts": [0, 0, 0], "k": ["c", "b", "a"], "v": [1, 2, 3], "f": [1.0] * 3})
    query = upper(parts).window(60).aggregate("all", v=hr.first("total"))
    assert query.to_arrow(passing="auto")["v"].to_pylist() == [3]
    monkeypatch.setattr(ways, "_has_no_ties", lambda program, before, middle: True)
    assert query.to_arrow(passing="auto")["v"].to_pylist() == [1]


@pytest.mark.logic
def test_example_windows_of_local_days_may_end_at_one_time():
    """Samoa left out December 30, 2011: of two days each, those from the 28th and the 29th end where the 31st begins."""
    noons = [f"2011-12-{day}T22:00Z" for day in (28, 29, 30)]  # of the 28th, the 29th and the 31st
    days = pa.array(noons).cast(pa.timestamp("us", "UTC"))
    parts = pa.table({"ts": days, "k": ["a"] * 3, "v": [1, 2, 4]})
    stream = hr.stream(parts, event_time="ts").key_by("k").window("2d", "1d", zone="Pacific/Apia")
    above = stream.aggregate("upper", v=hr.sum("v"))
    times = above.to_arrow()["ts"].to_pylist()
    assert len(set(times)) == len(times) - 1
    below = above.key_by("k").window("30d").aggregate("lower", v=hr.first("v"))
    with below.start(passing="auto") as run:
        assert run.wait(HANG_S)
        assert "first tuple in order" in run["lower"].takes, run["lower"].takes


@pytest.mark.logic
def test_example_results_that_are_wanted_twice_are_collected():
    stream = upper(table(200))
    query = hr.together(upper=stream, totals=of_all(stream))
    with query.start(passing="auto") as run:
        assert run.wait(HANG_S)
        assert "several places" in run["all"].takes, run["all"].takes


@pytest.mark.logic
def test_example_by_itself_no_sum_goes_that_may_leave_int64_in_one_order_only():
    """Of one time, 2**62 twice and its negative: through the collector the order is that of the keys, for any threads."""
    values, stream = [2**62, 2**62, -(2**62)], upper(table(200))
    for names in ("abc", "xyz", "pqr"):
        parts = pa.table({"ts": [0, 0, 0], "k": list(names), "v": values, "f": [1.0] * 3})
        with pytest.raises(AggregateOverflowError, match="total"):
            upper(parts).window(60).aggregate("all", total=hr.sum("total")).to_arrow(threads=3)
    counts = stream.key_by("k").window(60).aggregate("counts", n=hr.sum("n"))
    totals = counts.window(300).aggregate("of", n=hr.sum("n"))
    for query, way in ((of_all(stream), "collector: "), (per_key(stream), "gate: "), (totals, "gate: ")):
        with query.start() as run:
            assert run.wait(HANG_S)
            takes = run[list(run.metrics().operators)[-1]].takes
            assert takes.startswith(way) and ("adds numbers that may be negative" in takes) == (way == "collector: "), takes


@pytest.mark.parametrize(
    ("options", "text"), [({"passing": "any"}, "'collector', 'gate', 'auto'"), ({"passing": {"none": "gate"}}, "'none'")]
)
def test_bad_options(options, text):
    with pytest.raises(ParameterError, match=text):
        of_all(upper(table(10))).start(**options)


# -- ends ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_failure_of_either_ends_both():
    huge = pa.table({"ts": [0, 1, 50, 51], "k": ["a"] * 4, "v": [2**62, 2**62 + 5, 2**62, 1], "f": [1.0] * 4})
    with pytest.raises(AggregateOverflowError, match="total"):
        of_all(upper(huge)).to_arrow(**GATE, threads=2)
    parts = pa.table({"ts": [0, 20, 40], "k": ["a"] * 3, "v": [2**62] * 3, "f": [1.0] * 3})
    with pytest.raises(AggregateOverflowError, match="total"):
        of_all(upper(parts), 1_000).to_arrow(**GATE, threads=2)
    told = []
    for way in ("auto", "collector"):
        with pytest.raises(AggregateOverflowError, match="total") as caught:
            per_key(upper(parts)).to_arrow(passing=way, threads=2)
        told.append(str(caught.value).split(" at a tuple")[0])
    assert told[0] == told[1]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.slow
def test_stop_in_the_middle(full):
    check_stops_in_the_middle(lambda source: of_all(upper(source), 20), table(50_000, keys=2_000, span=200_000), full)


@pytest.mark.slow
def test_example_time_goes_on_where_nothing_is_emitted():
    """The lower operator's window closes by the upper one's promise: no result of it follows."""
    source = Steered(table(2_000, span=4_000), [100] * 20)
    found = []
    with of_all(upper(source, 1_000), 1_000).start(sink=lambda batch: found.append(batch), threads=2, **GATE) as run:
        source.let(19)  # the last thousand is not over: only its time has come so far
        eventually(lambda: sum(batch.num_rows for batch in found) >= 2)
        run.stop()


def test_measures_of_what_is_passed_on():
    query = per_key(upper(table()))
    with query.start(threads=2, **GATE) as run:
        assert run.wait(HANG_S)
        metrics = run.metrics()
        hot = run["lower"].hot_keys(3)
    check_end(metrics, rows=4_000)
    above, below = metrics.operators["upper"], metrics.operators["lower"]
    assert above.results == below.added == below.processed > 1_000
    assert int(above.values["latency"].sum()) == above.results
    assert len(hot) == 3 and (hot["share"] > 0).all()
    names = [name for name in metrics.cpu_ns if "collector" in name]
    assert names == ["lower-collector"], names
