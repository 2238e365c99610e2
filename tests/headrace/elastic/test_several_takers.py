"""Results that several operators take, passed on to the gate of each: the bytes that the collector gives.

Property    results of all outputs are those of `passing="collector"`, for any threads, planned changes, gates of any size and
            changes of all operators; books hold while it runs and at its end; a key lives as long as a window of any operator has
            it; what cannot be passed on is not, and says why
Oracle      the run through collectors, which test_oracle.py and test_passing_content.py compare with `headrace.reference`
Planted     here: keys that one taker alone lets go; in test_several_takers_interleave.py: rows, waiting
Cannot see  schedules between instances and gates: test_several_takers_interleave.py
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic.outlets import meeting
from headrace.elastic.section import ElasticSection
from headrace.errors import AggregateOverflowError, ParameterError
from support.books import check_end, watched
from support.passing import options_of
from support.workloads import HANG_S, Steered, eventually, examples, given_meanwhile

GATE = {"passing": "gate"}
WAY = "gate: each instance of 'upper' passes its results on, to "


def table(rows=400, seed=1, keys=20, span=1_500):
    draw = random.Random(seed)
    return pa.table({
        "ts": sorted(draw.randrange(span) for _ in range(rows)), "k": [draw.randrange(keys) for _ in range(rows)],
        "g": [draw.randrange(3) for _ in range(rows)], "v": [draw.choice([None, *range(9)]) for _ in range(rows)],
    })  # fmt: skip


def upper(source, size=20):
    return hr.stream(source, event_time="ts").key_by("k", "g").window(size).aggregate("upper", n=hr.count(), v=hr.max("v"))


def same_key(above, size=300):
    renamed = above.select("ts", "k", "g", m=hr.col("n"))
    return renamed.key_by("k", "g").window(size, 100).aggregate("same", n=hr.sum("m"), last=hr.last("m"))


def by_group(above):
    return above.key_by("g").window(100).aggregate("group", n=hr.sum("n"), most=hr.max("v"))


def of_all(above):
    return above.window(60).aggregate("all", n=hr.sum("n"), rows=hr.count())


def in_order(above):
    """Its results show the order of results of one time, so all gates merge by content."""
    return above.window(60, 30).aggregate("order", first=hr.first("n"), list=hr.collect_list("v"))


TAKERS = {"same": same_key, "group": by_group, "all": of_all, "order": in_order}


def together(above, names):
    return hr.together(**{name: TAKERS[name](above) for name in names})


def results(run):
    return {name: result.to_arrow() for name, result in run.results.items()}


def check_agrees(query, **options):
    """Compare all results through the gates with those through collectors on one thread."""
    with query.start(**GATE, **options) as run:
        assert run.wait(HANG_S)
        found = results(run)
        check_end(run.metrics())
        ways = [run[name].takes for name in list(run.metrics().operators)[1:]]
        assert all(way.startswith("gate: ") for way in ways), ways
    collected = query.to_arrow(passing="collector", threads=1)
    assert found.keys() == collected.keys()
    for name, result in collected.items():
        assert result.equals(found[name]), f"{name}: {found[name].num_rows} rows by the gate, {result.num_rows} collected"
    return found


@pytest.mark.logic
def test_agree_any_takers():
    for seed in range(examples(9)):
        draw = random.Random(seed)
        names = draw.sample(sorted(TAKERS), draw.randint(2, 4))
        found = check_agrees(together(upper(table(seed=seed)), names), **options_of(draw, 300, small_gates=True))
        assert min(result.num_rows for result in found.values()) > 10


@pytest.mark.slow
def test_agree_compiled_and_each_result_counted_once():
    with together(upper(table()), ["same", "all"]).start(threads=2, **GATE) as run:
        assert run.wait(HANG_S)
        metrics = run.metrics()
        assert [run[name].takes.split(";")[0] for name in ("same", "all")] == [WAY + "2 operators"] * 2
        assert "several operators take the results" in run["same"].takes
    check_end(metrics, rows=400)
    above = metrics.operators["upper"]
    assert above.results == metrics.operators["same"].added == metrics.operators["all"].added > 100
    assert int(above.values["latency"].sum()) == above.results
    threads = [name for name in metrics.cpu_ns if "collector" in name or "relay" in name]
    assert sorted(threads) == ["all-collector", "same-collector"], threads
    check_agrees(together(upper(table()), ["same", "all"]), threads=3)


@pytest.mark.logic
def test_agree_lines_that_branch_again():
    above = upper(table())
    first, second = same_key(above), by_group(above)
    again = first.key_by("k", "g").window(600).aggregate("again", n=hr.sum("n"), last=hr.last("last"))
    totals = first.window(600).aggregate("totals", n=hr.max("n"))
    check_agrees(hr.together(again=again, totals=totals, group=second), threads=2)


def _rises(state, t, emit):
    state.n += 1
    if t.v is not None and t.v > state.most:
        state.most = t.v
        emit(n=state.n, v=t.v)


RISES = hr.operator(
    state={"n": "int64", "most": -1}, emits={"n": "int64", "v": "int64"}, update=_rises, name="upper"
)


@pytest.mark.logic
def test_agree_results_ahead_of_the_watermark():
    """What `update` emits carries the end of its window, and gates take it as it comes."""
    for seed in range(examples(6)):
        draw = random.Random(seed)
        above = hr.stream(table(seed=seed), event_time="ts").key_by("k", "g").window(50).apply(RISES)
        options = options_of(draw, 300, small_gates=True) | {"threads": draw.randint(2, 4)}
        check_agrees(together(above, ["group", "all"]), **options)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.campaign)])
def test_agree_while_all_operators_are_reconfigured(seed):
    draw = random.Random(seed)
    given = table(20_000, seed, span=40_000)
    source = Steered(given, [50] * 400)
    with together(upper(source), ["same", "all"]).start(threads=2, max_threads=4, **GATE) as run:
        with given_meanwhile([source], draw):
            for _ in range(8):
                for name in ("upper", "same", "all"):
                    change = run[name].reconfigure(threads=draw.choice([1, 2, 4, [0, 3], [2], [1, 3]]))
                    assert change.wait(HANG_S).outcome in ("done", "unneeded", "no change")
        last = watched(run, draw)
    check_end(last, rows=20_000)
    assert results(run) == together(upper(given), ["same", "all"]).to_arrow(passing="collector")


# -- keys ----------------------------------------------------------------------------------------------


def let_go_meanwhile(monkeypatch, expire):
    """Of two operators of the same key, one needs none for long; batches come once it has let go what it had of the last one."""
    from headrace.ingress import keys

    monkeypatch.setattr(keys, "_LEAST_RECYCLED", 4)
    given = pa.table({"ts": range(2_000), "k": range(2_000), "g": [1] * 2_000, "v": [1] * 2_000})
    source = Steered(given, [500] * 4)
    told = {"all": 0, "same": 0}

    def noted(section, name, horizon):
        expire(section, name, horizon)
        told[name] = horizon

    monkeypatch.setattr(ElasticSection, "_expire", noted)

    def query(source):
        above = upper(source)
        return hr.together(all=above.key_by("k", "g").window(20).aggregate("all", n=hr.sum("n")), same=same_key(above, 1_000))

    with query(source).start(threads=2, **GATE) as run:
        for batch in range(1, 4):
            source.let()
            eventually(lambda: told["all"] >= 500 * batch - 100)  # noqa: B023
        source.let_all()
        assert run.wait(HANG_S)
    found = results(run)
    collected = query(given).to_arrow(passing="collector")
    assert found["all"].equals(collected["all"])
    assert found["same"].equals(collected["same"]), "another operator's keys were let go"


@pytest.mark.logic
def test_agree_a_key_lives_as_long_as_any_window_has_it(monkeypatch):
    let_go_meanwhile(monkeypatch, ElasticSection._expire)


@pytest.mark.interpreted
def test_planted_keys_that_one_taker_alone_lets_go_are_found(monkeypatch):
    with pytest.raises(AssertionError, match="another operator's keys"):
        let_go_meanwhile(monkeypatch, lambda section, name, horizon: section.dictionary.recycle(horizon))


# -- what goes which way -------------------------------------------------------------------------------


def check_are_collected(query, why, names):
    with query.start(passing="auto") as run:
        assert run.wait(HANG_S)
        for name in names:
            assert run[name].takes.startswith("collector: ") and why in run[name].takes, run[name].takes
        found = results(run)
    assert found == query.to_arrow(passing="collector")
    with pytest.raises(ParameterError, match=why):
        query.to_arrow(passing=dict.fromkeys(names, "gate"))


@pytest.mark.logic
def test_example_one_that_cannot_sends_all_through_the_collector():
    above = upper(table())
    counts = above.key_by("n").window(60).aggregate("counts", rows=hr.count())
    query = hr.together(all=of_all(above), counts=counts)
    check_are_collected(query, "those for 'counts' go through a collector: its key is not", ["all"])


@pytest.mark.logic
def test_example_a_filter_sends_all_through_the_collector():
    above = upper(table())
    query = hr.together(group=by_group(above), all=of_all(above.filter(hr.col("n") > 1)))
    check_are_collected(query, "a filter is between the two", ["group", "all"])


@pytest.mark.logic
def test_example_paths_that_meet_again_go_through_the_collector():
    above = upper(table())
    joined = same_key(above).join(by_group(above), within=100, on="g", prefixes=("", "b_"), name="pairs")
    with joined.start(passing="auto") as run:
        assert run.wait(HANG_S)
        for name in ("same", "group"):
            assert "are also connected by other operators" in run[name].takes, run[name].takes
    assert run.to_arrow().num_rows > 10


def test_example_what_connects_two_takers():
    above, other = upper(table()), hr.stream(table(), event_time="ts")
    first, second = same_key(above), by_group(above)

    def joined(left, right, name):
        return left.join(right, within=100, on="g", prefixes=("", "r_"), name=name)

    def of(**streams):
        return meeting(hr.together(**streams).plan(), "upper", ["same", "group"])

    assert of(same=first, group=second) is None
    assert of(pairs=joined(first, other, "pairs"), group=second) is None
    assert of(pairs=joined(first, second, "pairs")) == ("same", "group")
    assert of(left=joined(first, other, "left"), right=joined(second, other, "right")) == ("same", "group")


@pytest.mark.logic
def test_example_a_taker_that_is_told_to_be_collected():
    query = together(upper(table()), ["same", "all"])
    with query.start(passing={"same": "collector"}) as run:
        assert run.wait(HANG_S)
        assert 'those for \'same\' go through a collector: passing="collector"' in run["all"].takes
        assert run["same"].takes == "collector"
    with pytest.raises(ParameterError, match="those for 'same' go through a collector"):
        query.to_arrow(passing={"same": "collector", "all": "gate"})
    with pytest.raises(ParameterError, match="several operators take the results of 'upper'"):
        query.to_arrow(channel={"same": "reader"})


# -- ends ----------------------------------------------------------------------------------------------


@pytest.mark.logic
def test_failure_of_one_ends_all():
    huge = pa.table({"ts": [0, 1, 50, 51], "k": [1] * 4, "g": [1] * 4, "v": [2**62] * 4})
    above = upper(huge)
    sums = above.window(1_000).aggregate("sums", total=hr.sum("v"))
    with pytest.raises(AggregateOverflowError, match="total"):
        hr.together(all=of_all(above), sums=sums).to_arrow(**GATE, threads=2)


@pytest.mark.slow
def test_stop_while_one_holds_all():
    """Nobody takes the results of one operator: the one before stops, since a gate is full, and the other one waits for it."""
    import threading

    goes_on, taken = threading.Event(), threading.Event()

    def held(batch):
        taken.set()
        goes_on.wait(HANG_S)

    source = Steered(table(20_000, span=400_000), [1_000] * 20)
    query = together(upper(source), ["same", "all"])
    sinks = {"same": held, "all": lambda batch: None}
    with query.start(sink=sinks, threads=2, max_threads=2, capacity=64, **GATE) as run:
        source.let_all()
        assert taken.wait(HANG_S)
        eventually(lambda: run.metrics().operators["upper"].results > 1_000)
        goes_on.set()
        run.stop()
    assert run.metrics().state in ("stopped", "finished")
