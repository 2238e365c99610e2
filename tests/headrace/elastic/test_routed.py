"""Results that an operator's instances route to the next one's owner of the key: the bytes that the collector gives.

Property    as of test_passing.py, with `channel="reader"`: for any threads, mappings and changes of them at both operators;
            operators that may not have such channels have none, and say why
Oracle      the run through collectors; `headrace.reference` for the long one
Planted     here: rows taken for a run that are none; in test_routed_interleave.py: queues, heartbeats, changes
Cannot see  what a change costs: `headrace bench passing`
"""

import random
import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace import reference
from headrace.elastic import build, routed
from headrace.elastic.windows_kernel import end_of_run
from headrace.errors import ParameterError
from headrace.references import tuple_reference
from headrace.windows import Window
from support.books import check_end, watched
from support.typed_cases import payloads
from support.workloads import HANG_S, Steered, eventually, given_meanwhile

READER = {"passing": "gate", "channel": "reader"}


def table(rows=4_000, seed=1, keys=50, span=20_000):
    draw = random.Random(seed)
    ts = sorted(draw.randrange(span) for _ in range(rows))
    return pa.table({
        "ts": ts,
        "k": [f"k{draw.randrange(keys)}" for _ in ts],
        "v": pa.array([draw.choice([None, *range(-9, 9)]) for _ in ts], pa.int64()),
    })  # fmt: skip


def upper(source, size=20, advance=None):
    stream = hr.stream(source, event_time="ts").key_by("k").window(size, advance)
    return stream.aggregate("upper", n=hr.count(), total=hr.sum("v"), last=hr.last("v"))


def lower(stream, size=300, advance=100):
    wanted = {"n": hr.sum("n"), "rows": hr.count(), "first": hr.first("total"), "list": hr.collect_list("total")}
    return stream.key_by("k").window(size, advance).aggregate("lower", **wanted, lasts=hr.count("last"))


def expected(tables):
    """One behind the other, as the reference has them."""
    upper = {"n": ("count", None), "total": ("sum", "v"), "last": ("last", "v")}
    lower = {
        "n": ("sum", "n"), "rows": ("count", None), "first": ("first", "total"), "list": ("collect_list", "total"),
        "lasts": ("count", "last"),
    }  # fmt: skip
    found = reference.aggregate(payloads(tables), Window(20, 20), reference.column("k"), upper)
    again = [(row.ts, {"k": row.key, **row.values}) for row in found]
    rows = reference.aggregate([again], Window(300, 100), reference.column("k"), lower)
    return [(row.ts, row.key, *row.values.values()) for row in rows]


@pytest.mark.logic
@pytest.mark.parametrize("threads", [1, {"upper": 3, "lower": 2}, {"upper": [1, 3], "lower": [0, 2, 3]}], ids=str)
def test_agree_with_the_collector(threads):
    query = lower(upper(table(500, keys=7, span=2_000)))
    routed = query.to_arrow(**READER, threads=threads, max_threads=4)
    assert routed.equals(query.to_arrow(passing="collector"))
    assert routed.num_rows > 100 and routed["lasts"].null_count == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.campaign)])
def test_agree_while_both_operators_are_reconfigured(seed):
    """Instances of both come and go all the time, and keys change their owners; `books` looks on."""
    draw = random.Random(seed)
    given = [table(20_000, seed, span=40_000), table(20_000, seed + 100, span=40_000)]
    inputs = [Steered(each, [50] * 400) for each in given]
    capacity = draw.choice([None, 1_000])  # fuller ones count a lost wake-up if a thread loses its core before its signal
    with lower(upper(inputs)).start(threads=2, max_threads=4, capacity=capacity, **READER) as run:
        with given_meanwhile(inputs, draw):
            for _ in range(12):
                for name in ("upper", "lower", "lower"):
                    members = draw.choice([[0], [0, 1], [0, 1, 2, 3], [0, 3], [2], [1, 3]])
                    owners = {"mapping": [draw.choice(members) for _ in range(1024)]} if draw.random() < 0.5 else {}
                    change = run[name].reconfigure(threads=members, **owners)
                    assert change.wait(HANG_S).outcome in ("done", "unneeded", "no change")
        last = watched(run, draw)
    check_end(last, rows=40_000)
    assert [tuple(row.values()) for row in run.to_arrow().to_pylist()] == expected(given)


@pytest.mark.parametrize(("rows_follow", "end"), [(False, 1), (True, 3)])
def test_planted_rows_taken_for_a_run(rows_follow, end):
    """Of two senders' rows in turns the first and the last may be as far apart as if all were one's own: no run of them."""
    refs = np.array([tuple_reference(0, 5), tuple_reference(1, 9), tuple_reference(0, 7)])
    assert end_of_run(np.array([1, 1, 1]), refs, 0, 10, rows_follow) == end
    assert f"ROWS_FOLLOW = {rows_follow}\n" in (build.SHARING if rows_follow else routed._SHARING)


SHARED = {
    "no key": (lambda s: s.window(60).aggregate("lower", n=hr.sum("n")), {}, "it has no key"),
    "a plan": (lower, {"reconfigure": [(10, 1)]}, "planned at a count"),
    "asked for": (lower, {"channel": "shared"}, 'channel="shared"'),
    "few instances": (lower, {"max_threads": 15}, "fewer than 16 instances"),
}


@pytest.mark.logic
@pytest.mark.parametrize("what", SHARED)
def test_example_what_reads_one_gate_says_why(what):
    make, options, why = SHARED[what]
    query = make(upper(table(200)))
    with query.start(**{"threads": 2} | options) as run:
        assert run.wait(HANG_S)
        assert run["lower"].takes.startswith("gate: ") and why in run["lower"].takes, run["lower"].takes
    if what in ("no key", "a plan"):
        with pytest.raises(ParameterError, match=why):
            query.start(**options, channel="reader")


@pytest.mark.logic
def test_example_of_three_the_last_reads_one_gate():
    stream = upper(table(500, span=2_000)).key_by("k").window(300).aggregate("lower", n=hr.sum("n"))
    query = stream.key_by("k").window(1_000).aggregate("last", n=hr.sum("n"))
    with query.start(threads=2, max_threads=16) as run:
        assert run.wait(HANG_S)
        assert run["lower"].takes.startswith("channels: ") and "'lower' reads such channels" in run["last"].takes
    assert run.to_arrow().equals(query.to_arrow(passing="collector"))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"channel": "any"}, "'reader', 'shared', 'auto'"),
        ({"channel": {"none": "reader"}}, "'none'"),
        ({"channel": "reader", "passing": "collector"}, 'passing="collector"'),
        ({"channel": {"lower": "reader"}, "mode": "sn"}, "merged log"),
    ],
)
def test_bad_options(options, text):
    with pytest.raises(ParameterError, match=text):
        lower(upper(table(10))).start(**options)


@pytest.mark.parametrize(("option", "way"), [("channel", "reader"), ("passing", "gate")])
def test_bad_options_of_an_operator_that_reads_a_source(option, way):
    """Given without a name, where another operator is behind, either is meant for that one: see `READER`."""
    why = f"{option}=\"{way}\": the input of 'upper' comes from a source, and this is a way between two operators"
    with pytest.raises(ParameterError, match=why):
        lower(upper(table(10))).start(**{option: {"upper": way}})
    with pytest.raises(ParameterError, match=why):
        upper(table(10)).start(**{option: way})


@pytest.mark.slow
def test_stop_while_a_change_waits_for_silent_senders():
    """Nobody takes results, so both are full: the change cannot be put into force, and the run stops all the same."""
    goes_on, taken = threading.Event(), threading.Event()

    def sink(batch):
        taken.set()
        goes_on.wait(HANG_S)

    source = Steered(table(50_000, keys=2_000, span=200_000), [1_000] * 50)
    query = lower(upper(source), 60, 20)
    with query.start(sink=sink, threads=2, max_threads=2, capacity=64, **READER) as run:
        source.let_all()
        assert taken.wait(HANG_S)
        eventually(lambda: run.metrics().operators["upper"].results > 1_000)
        run["lower"].reconfigure(threads=1)
        goes_on.set()
        run.stop()
    assert run.metrics().state in ("stopped", "finished")


@pytest.mark.slow
def test_measures_of_what_is_routed():
    with lower(upper(table())).start(threads=2, **READER) as run:
        assert run.wait(HANG_S)
        metrics = run.metrics()
        hot = run["lower"].hot_keys(3)
    check_end(metrics, rows=4_000)
    above, below = metrics.operators["upper"], metrics.operators["lower"]
    assert above.results == below.added == below.processed > 1_000
    assert int(above.values["latency"].sum()) == above.results
    assert len(hot) == 3 and (hot["share"] > 0).all()
    assert below.values["lost_wakeups"] == 0
