"""One test for each classic mistake of reconfiguring a stream that runs.

Property    a request takes effect exactly once, at one position, and nothing
            in the result shows it; requests end with the outcome documented
Oracle      the same query on one thread, or by hand
Planted     each mistake, at the end: a few lines of the engine's own text are
            changed, and the test named after the mistake fails
Cannot see  rare interleavings; `test_schedules` and the interleavings of the
            kernels' own text are for these
"""

import functools
import inspect
import random
import threading

import numba
import pyarrow as pa
import pytest

import headrace as hr
from headrace.elastic import arrays, words
from headrace.elastic.shared_nothing import template
from headrace.errors import FunctionError, RunStoppedError
from headrace.gates import merged_log_kernel
from support import workloads
from support.classic_mistakes import plant_in_changes, plant_in_loop, replaced
from support.workloads import SHAPES, Steered, draw_workload, eventually, is_stuck, processed

KEYS = [f"key {i}" for i in range(40)]


def table(count=200, step=1, keys=KEYS, seed=1):
    draw = random.Random(seed)
    return pa.table({"ts": [i * step for i in range(count)], "k": [draw.choice(keys) for _ in range(count)]})


def counts(source, size=10, advance=5):
    return hr.stream(source, event_time="ts").key_by("k").window(size, advance).aggregate("counts", n=hr.count())


def result_of(query, **options):
    return query.to_arrow(**options).to_pylist()


def test_six_requests_before_any_tuple():
    """The first may be applied at once; of the rest the last one wins, and no tuple is needed."""
    source = Steered(table())
    with counts(source).start(threads=1, max_threads=8) as run:
        changes = [run.reconfigure(threads=n) for n in (2, 3, 4, 5, 6, 7)]
        assert changes[-1].wait(workloads.HANG_S).outcome == "done"
        assert run.threads == 7
        for change in changes:
            assert change.outcome in ("done", "superseded")
        epochs = [change.epoch for change in changes if change.outcome == "done"]
        assert epochs == list(range(1, len(epochs) + 1))
        source.let_all()
        assert run.wait(180)
        assert run.to_arrow().to_pylist() == result_of(counts(table()))


def test_old_request_does_not_win_through_a_slow_source():
    """Source 1 gives nothing while two requests are made; what it brings later changes nothing."""
    fast, slow = Steered(table(seed=1), [100]), Steered(table(seed=2), [100])
    with counts([fast, slow]).start(threads=1, max_threads=8) as run:
        first = run.reconfigure(threads=2)
        fast.let()
        second = run.reconfigure(threads=3)
        fast.let()
        second.wait(workloads.HANG_S)
        assert (second.outcome, run.threads) == ("done", 3)
        slow.let_all()
        fast.let_all()
        assert run.wait(180)
        assert first.outcome in ("done", "superseded")
        assert run.threads == 3 and first.epoch < second.epoch
        assert run.to_arrow().to_pylist() == result_of(counts([table(seed=1), table(seed=2)]))


def test_three_sources_make_one_epoch_of_each_request():
    sources = [Steered(table(seed=s), [40, 40, 40]) for s in range(3)]
    with counts(sources).start(threads=1, max_threads=4) as run:
        changes = []
        for threads in (3, 1, 4):
            for source in sources:
                source.let()
            changes.append(run.reconfigure(threads=threads).wait(workloads.HANG_S))
        assert [(change.outcome, change.epoch) for change in changes] == [("done", 1), ("done", 2), ("done", 3)]
        for source in sources:
            source.let_all()
        assert run.wait(180)
        assert [change.epoch for change in run.changes] == [1, 2, 3]
        assert run.to_arrow().to_pylist() == result_of(counts([table(seed=s) for s in range(3)]))


@pytest.mark.logic
def test_control_record_behind_its_own_heartbeat():
    """A filter that drops everything moves time by heartbeats alone; the request comes after one."""
    source = Steered(table(), [50, 50, 50])
    query = counts_of_nothing(source)
    with query.start(threads=1, max_threads=4) as run:
        for last, threads in ((49, 2), (99, 1), (149, 3)):
            source.let()
            eventually(functools.partial(has_reached, run, last))
            assert run.reconfigure(threads=threads).wait(workloads.HANG_S).outcome == "done"
        source.let_all()
        assert run.wait(180)
        assert run.to_arrow().num_rows == 0 and len(run.changes) == 3


def has_reached(run, ts):
    return run.metrics().operators[run.operators[0]].watermark >= ts


def counts_of_nothing(source):
    stream = hr.stream(source, event_time="ts").filter(hr.col("ts") < 0)
    return stream.key_by("k").window(10, 5).aggregate(n=hr.count())


def test_all_sources_idle():
    """Three sources that never gave a tuple: requests complete all the same."""
    sources = [Steered(table(seed=s)) for s in range(3)]
    with counts(sources).start(threads=1, max_threads=8) as run:
        for threads in (8, 1, [3, 5], 2):
            assert run.reconfigure(threads=threads).wait(workloads.HANG_S).outcome == "done"
        for source in sources:
            source.let_all()
        assert run.wait(180)
        assert run.to_arrow().to_pylist() == result_of(counts([table(seed=s) for s in range(3)]))


def test_control_record_behind_a_full_log():
    """A sink that does not take anything fills rings and log; the request is taken at once and applied later."""
    rows = 200_000
    source = pa.table({"ts": range(rows), "v": range(rows)})
    opened, seen = threading.Event(), []

    def sink(batch):
        assert opened.wait(180)
        seen.append(batch.column(1).to_numpy())

    with hr.stream(source, event_time="ts").forward().start(threads=2, max_threads=4, capacity=64, sink=sink) as run:
        eventually(lambda: is_stuck(run), 180)
        rescue = threading.Timer(workloads.HANG_S, opened.set)  # a request that waits for room would wait for ever
        rescue.daemon = True
        rescue.start()
        change = run.reconfigure(threads=4)
        rescue.cancel()
        assert not opened.is_set() and change.started_ns > 0 and not change.is_settled
        opened.set()
        assert change.wait(workloads.HANG_S).outcome == "done"
        assert run.wait(180)
    assert [int(v) for part in seen for v in part] == list(range(rows))


@pytest.mark.logic
def test_windows_that_expire_at_the_trigger():
    """The key moves at the very tuple that lets its windows expire; downstream there is state (errata, Lemma 3)::

        time        0    5    10   15   20   25
        windows     [---------)
                         [---------)
        tuples       xxx xx                   T
    """
    rows = [(ts, k) for ts in (1, 2, 7) for k in KEYS] + [(25, k) for k in KEYS] + [(60, KEYS[0])]
    source = pa.table({"ts": [ts for ts, _ in rows], "k": [k for _, k in rows]})

    def query():
        return counts(source).key_by("n").window(20, 10).aggregate("tops", keys=hr.count())

    expected = result_of(query())
    trigger = 3 * len(KEYS)
    for at in (trigger - 1, trigger, trigger + 1, trigger + 7):
        for first, then in (([0], [1]), ([0], [0, 1]), ([0, 1, 2], [2]), ([1, 2], [1, 3])):
            got = result_of(query(), threads=first, max_threads=4, reconfigure=[(at, then), (at, first), (at, then)])
            assert got == expected, (at, first, then)


@pytest.mark.logic
def test_moved_key_that_occurs_only_in_the_trigger_tuple():
    rows = [(i, "often") for i in range(20)]
    for at in range(21):
        source = rows[:at] + [(at, "once")] + [(ts + 1, k) for ts, k in rows[at:]]
        source = pa.table({"ts": [ts for ts, _ in source], "k": [k for _, k in source]})
        # All keys move from instance 0 to 1, and back, before this one tuple.
        for plan in ([(at, [1])], [(at, [1]), (at + 1, [0])]):
            got = result_of(counts(source, 4, 4), threads=[0], max_threads=2, reconfigure=plan)
            assert [row["n"] for row in got if row["k"] == "once"] == [1], (at, plan)


def update(state, t, emit):
    state.n += 1
    if state.n % 2 == 0:
        emit(n=state.n)


def output(key, state, emit):
    emit(n=-state.n)


HALVES = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=update, output=output)


@pytest.mark.logic
def test_emissions_of_a_leaver_that_are_held_back():
    """Windows overlap, so an emission waits for its boundary; its instance leaves before that::

        time       0    5    10   15   20
        windows    [--------------)            emissions of tuples 2, 4 carry 15
                        [--------------)
        tuples      xx xx |leave
    """
    source = table(120, keys=KEYS[:6])
    query = hr.stream(source, event_time="ts").key_by("k").window(15, 5).apply(HALVES)
    expected = result_of(query)
    assert any(row["n"] > 0 for row in expected)
    for at in range(1, 120, 7):
        got = result_of(query, threads=4, max_threads=4, reconfigure=[(at, 1), (at + 2, [3]), (at + 4, [0, 2])])
        assert got == expected, at


def test_rapid_changes_with_empty_outputs():
    """1 -> 2 -> 1 -> 2 ... at every tuple, and no result to wake anybody."""
    source = pa.table({"ts": range(100), "tags": pa.array([[]] * 100, pa.list_(pa.string()))})
    query = hr.stream(source, event_time="ts").key_by(tag=hr.each("tags")).window(3).aggregate(n=hr.count())
    plan = [(at // 2, 1 + at % 2) for at in range(240)]
    with query.start(threads=1, max_threads=2, reconfigure=plan) as run:
        assert run.wait(180)
        assert run.to_arrow().num_rows == 0
        assert [(c.planned_at, c.to_threads, c.outcome) for c in run.changes] == [(*p, "done") for p in plan]


def test_every_planned_change_is_applied_and_recorded():
    """More than any ring holds, most of them beyond the last tuple."""
    plan = [(at, 1 + at % 3) for at in range(1_000)]
    with counts(table(30)).start(threads=1, max_threads=3, reconfigure=plan) as run:
        assert run.wait(180)
        assert [(c.planned_at, c.to_threads, c.epoch) for c in run.changes] == [(*p, i + 1) for i, p in enumerate(plan)]
        assert run.to_arrow().to_pylist() == result_of(counts(table(30)))


@pytest.mark.parametrize("mode", ["vsn", pytest.param("sn", marks=pytest.mark.logic)])
def test_silent_instances_do_not_hold_the_output(mode):
    """All keys on one of eight instances: what it finds comes out while the stream goes on."""
    source = Steered(table(100), [50, 50])
    seen = []
    query = counts(source)
    everything = hr.Mapping([3] * 1024)
    with query.start(threads=8, max_threads=8, mapping=everything, mode=mode, sink=seen.append) as run:
        source.let()
        # Tuples up to 49: windows that end at 45 and before are over.
        eventually(lambda: seen and seen[-1].column("ts")[-1].as_py() == 45)
        assert run["counts"].mapping == everything
        source.let_all()
        assert run.wait(180)
        assert [load > 0 for load in run.metrics().operators["counts"].load] == [i == 3 for i in range(8)]
    assert pa.Table.from_batches(seen).to_pylist() == result_of(counts(table(100)))


def test_mapping_only():
    source = Steered(table(), [60, 60, 60])
    with counts(source).start(threads=2, max_threads=2) as run:
        for owners in ([1] * 1024, [i % 2 for i in range(1024)], [0] * 1024):
            source.let()
            change = run.reconfigure(mapping=hr.Mapping(owners)).wait(workloads.HANG_S)
            assert (change.outcome, change.from_threads, change.to_threads) == ("done", 2, 2)
            assert change.buckets_moved >= 512
            assert run.mapping == hr.Mapping(owners)
        source.let_all()
        assert run.wait(180)
        assert run.to_arrow().to_pylist() == result_of(counts(table()))


def test_swap_of_the_same_size():
    """{1, 2} -> {1, 3}: as many as before, yet a change."""
    source = Steered(table(), [100])
    with counts(source).start(threads=[1, 2], max_threads=4) as run:
        source.let()
        eventually(processed(run, 100))
        before = run.metrics().operators["counts"].load
        assert before[0] == before[3] == 0 and min(before[1], before[2]) > 0
        change = run.reconfigure(threads=[1, 3]).wait(workloads.HANG_S)
        assert (change.outcome, change.from_threads, change.to_threads) == ("done", 2, 2)
        source.let_all()
        assert run.wait(180)
        after = run.metrics().operators["counts"].load
        assert after[2] == before[2] and after[3] > 0
        assert run.to_arrow().to_pylist() == result_of(counts(table()))


def test_request_for_what_is():
    with counts(Steered(table())).start(threads=[1, 2], max_threads=4) as run:
        change = run.reconfigure(threads=[2, 1])
        assert (change.outcome, change.is_settled, change.ms) == ("no change", True, 0.0)


def test_request_after_the_last_tuple():
    """Before the end of input it is applied at once, after it refused."""
    source = Steered(table(50))
    with counts(source).start(threads=1, max_threads=4) as run:
        source.let()
        eventually(processed(run, 50))
        assert run.reconfigure(threads=3).wait(workloads.HANG_S).outcome == "done"
        source.let_all()
        assert run.wait(180)
        with pytest.raises(RunStoppedError, match="its input has ended"):
            run.reconfigure(threads=2)
        # One that was on its way when the run ended is settled all the same.
        late = run._execution.operators["counts"].changes.request(threads=2)
        assert late.outcome == "unneeded"
        assert run.to_arrow().to_pylist() == result_of(counts(table(50)))


def dividing(state, t, emit):
    state.n += 100 // t.v


FRAGILE = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=dividing, output=output)


@pytest.mark.logic
def test_update_that_fails_at_the_trigger():
    """The boundary is met, then the first tuple behind it fails: nobody waits at a barrier for ever.

    In the first plan the tuple is a joiner's; the others go on to the next boundary, where it does not come.
    """
    values = [1] * 40 + [0] + [1] * 40
    source = pa.table({"ts": range(81), "k": [(i - 1) % 7 for i in range(81)], "v": values})
    query = hr.stream(source, event_time="ts").key_by("k").window(10, 5).apply(FRAGILE)
    for plan in ([(40, 4), (41, 2)], [(40, 2)], [(40, 4), (40, 1), (40, 3)], [(40, [3]), (41, 2), (41, 1)]):
        with query.start(threads=1, max_threads=4, reconfigure=plan) as run:
            with pytest.raises(FunctionError, match="dividing") as caught:
                run.wait(180)
            assert caught.value.tuple["ts"] == 40
            assert run.state == "failed"
            with pytest.raises(FunctionError, match="dividing"):
                run.reconfigure(threads=2)
    assert result_of(counts(table(50))), "the engine goes on"


@pytest.mark.slow
def test_shared_nothing_instances_that_own_nothing_get_watermarks():
    """Silent instances of every stage get time, so that the next operator's windows end while the stream goes on."""
    source = Steered(table(200), [100])
    seen = []
    nobody_else = hr.Mapping([5] * 1024)
    query = counts(source).key_by("n").window(20).aggregate("tops", keys=hr.count())
    with query.start(threads=8, max_threads=8, mapping=nobody_else, mode="sn", sink=seen.append) as run:
        source.let()
        eventually(lambda: seen)
        source.let_all()
        assert run.wait(180)
    expected = counts(table(200)).key_by("n").window(20).aggregate("tops", keys=hr.count())
    assert pa.Table.from_batches(seen).to_pylist() == result_of(expected)


@pytest.mark.logic
def test_random_schedules_at_every_single_tuple():
    """One planned change before each tuple in turn, on a small workload: no position is special."""
    for shape in (SHAPES[1], SHAPES[4]):
        workload = draw_workload(shape, 77, most_rows=25, most_sources=2, span=30)
        for at in range(workload.rows + 2):
            got = workload.query().to_arrow(threads=[0, 2], max_threads=4, reconfigure=[(at, [1, 2])])
            workload.assert_right(got)


# ------------------------------------------------- the mistakes made, and noticed
#
# More of those in what workers do at the barrier are planted in `test_planted_bugs` and `test_barrier`.

PLACE = """\
        if not self._place(row):
            return None
"""
RECORD = """\
            change = self._change(
                found.before, found.after, requested_ns=found.begun_ns, started_ns=found.begun_ns,
                planned_at=found.planned_at, reason="planned",
            )  # fmt: skip
"""
# Not kept back while another is in flight, and sent along with one of two sources: of two requests, the older
# with source 1.
TRAVELLING = (
    (PLACE, '        self.__dict__.setdefault("travelling", []).append((self._spare % 2, row))\n'),
    ("elif self._in_flight is not None:", "elif False:"),
    (RECORD, "            change = self.record.newest()[0]\n"),
)

MISTAKES = {
    "of the requests that wait, the first one wins": (
        test_six_requests_before_any_tuple, "'superseded' == 'done'",
        (
            """                    self._pending[0].settle("superseded")
                self._pending = (change, target)
""",
            """                    change.settle("superseded")
                else:
                    self._pending = (change, target)
""",
        ),
    ),
    "a request that waited is forgotten": (
        test_six_requests_before_any_tuple, r"'pending' (== 'done'|in \('done', 'superseded'\))",  # the last one, or another
        ("                self._launch(pending, target)\n", "                pass\n"),
    ),
    "each request travels with a source": (test_old_request_does_not_win_through_a_slow_source, r"\(2 == 3\)", *TRAVELLING),
    "a request needs a tuple to travel with": (test_all_sources_idle, "'in flight' == 'done'", *TRAVELLING),
    "each source brings a record of its own": (
        test_three_sources_make_one_epoch_of_each_request, r"\('done', 4\)",
        (
            PLACE,
            """\
        for _ in range(self._gate.head[::CELL].size):
            while self._kernels.control(self._gate, row) == 0:
                threading.Event().wait(20e-6)
""",
        ),
    ),
    "a mapping alone is no change": (
        test_mapping_only, "'no change', 2, 2",
        (
            "    return Configuration(members, mapping)\n",
            "    return current if members == current.members else Configuration(members, mapping)\n",
        ),
    ),
    "sizes are compared, not members": (
        test_swap_of_the_same_size, "'no change', 2, 2",
        ("elif target == newest:", "elif len(target.members) == len(newest.members):"),
    ),
    "what is so already is done again": (
        test_request_for_what_is, "'in flight'",
        ("elif target == newest:", "elif False:"),
    ),
    "a request after the end waits for ever": (
        test_request_after_the_last_tuple, "'in flight' == 'unneeded'",
        ("            if self._ended is not None:\n", "            if False:\n"),
    ),
    "planned changes behind the last tuple are not recorded": (
        test_every_planned_change_is_applied_and_recorded, r"\[\] == \[",
        (RECORD, "            return\n"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistake_is_noticed(monkeypatch, hangs_are_short, mistake):
    check, expected, *replacements = MISTAKES[mistake]
    plant_in_changes(monkeypatch, replacements)
    with pytest.raises(AssertionError, match=expected):
        for _ in range(20):  # two requests may be so far apart that neither waits
            check()


RECORD_MISTAKES = {
    "a record is dropped as old news, as a heartbeat would be": (
        test_control_record_behind_its_own_heartbeat, "'(failed|in flight)' == 'done'",
        (
            "    end = load_relaxed(g.words, END)\n",
            """\
    end = load_relaxed(g.words, END)
    if load_relaxed(g.mark, 0) >= load_relaxed(g.words, LAST_TS):
        store_release(g.words, FLAG, 0)
        return 1
""",
        ),
    ),
    "a record needs the room of a tuple": (
        test_control_record_behind_a_full_log, "not True",
        ("    if end - smallest >= g.out_ts.shape[1]:\n", "    if _room(g, end) == 0:\n"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", RECORD_MISTAKES)
def test_planted_mistake_in_control_records_is_noticed(monkeypatch, hangs_are_short, mistake):
    check, expected, *replacements = RECORD_MISTAKES[mistake]
    text = replaced(inspect.getsource(merged_log_kernel.control).removeprefix("@kernel\n"), replacements)
    space = dict(vars(merged_log_kernel))
    exec(compile(text, "<planted>", "exec"), space)  # our own file
    monkeypatch.setattr(merged_log_kernel, "control", numba.njit(nogil=True)(space["control"]))
    with pytest.raises(AssertionError, match=expected):
        check()


PUBLISH = "publish(o, me, l[HEAD], promise(l), l[WATERMARK])\n"
AT_BATCH = f"\n        {PUBLISH}        c.meter[me, PASSED]"
JOINED = "            acknowledge(c, me, activation - 1)\n"
AT_BARRIER = "        if not await_epoch(c, epoch):  # B5\n            return False\n"
DEAF = """\
        while not await_epoch(c, epoch):
            ticket = prepare(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT)
            sleep(c.words, BARRIER_WAITING, c.event, BARRIER_EVENT, ticket, 20_000_000)
"""

LOOP_MISTAKES = {
    "an instance that has written nothing promises nothing either": (
        functools.partial(test_silent_instances_do_not_hold_the_output, "vsn"), "still not so",
        (AT_BATCH, AT_BATCH.replace("publish(", "if l[HEAD] > 0: publish(")),
    ),
    "a joiner takes windows for expired that end at its trigger": (
        test_windows_that_expire_at_the_trigger, r"assert \[",
        (
            "store_relaxed(c.start_watermark, r * CELL, l[WATERMARK])",
            "store_relaxed(c.start_watermark, r * CELL, l[WATERMARK] + 20)",
        ),
    ),
    "a joiner takes the tuple that triggered for done": (
        test_moved_key_that_occurs_only_in_the_trigger_tuple, r"assert \[",
        (
            "            if process_batch(me, g, c, o, x, s, l, buffer, row, start, n) < 0:\n",
            """\
            done = 1 if activation > 1 and l[SEEN] == load_relaxed(c.start_seen, me * CELL) else 0
            if n > done and process_batch(me, g, c, o, x, s, l, buffer, row, start + done, n - done) < 0:
""",
        ),
    ),
    "emissions wait in their instance until time passes, and leave with it": (
        test_emissions_of_a_leaver_that_are_held_back, r"assert \[",
        (f"            {PUBLISH}            if not meet(", "            if not meet("),
        (AT_BATCH, AT_BATCH.replace("publish(", "if n == 0: publish(")),
    ),
}


def be_impatient(monkeypatch):
    """What a mistake keeps from happening need not be waited for long."""
    patient = eventually
    monkeypatch.setitem(globals(), "eventually", lambda condition, seconds=2: patient(condition, 2))


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("mistake", LOOP_MISTAKES)
def test_planted_mistake_in_the_loop_is_noticed(monkeypatch, hangs_are_short, mistake):
    check, expected, *replacements = LOOP_MISTAKES[mistake]
    plant_in_loop(monkeypatch, replacements)
    be_impatient(monkeypatch)
    with pytest.raises(AssertionError, match=expected):
        check()


@pytest.mark.slow
def test_planted_wait_at_the_barrier_for_one_that_failed_is_noticed(monkeypatch, hangs_are_short):
    """An instance that waits at the barrier does not look whether the run has stopped."""
    # A joiner begins when another one waits at the next boundary: then there is one that does, whatever the timing.
    slowly = "while activation > 1 and load_acquire(c.words, BARRIER) == 0 and not stopped(c):\n                pause()\n"
    plant_in_loop(monkeypatch, [(AT_BARRIER, DEAF), (JOINED, f"{JOINED}            {slowly}")])
    monkeypatch.setattr("headrace.runtime.run.STOP_SECONDS", 1.0)
    allocate, found = arrays.allocate, []

    def noted(*sizes):
        found.append(allocate(*sizes))
        return found[-1]

    monkeypatch.setattr(arrays, "allocate", noted)
    try:
        with pytest.raises(RunStoppedError, match="did not stop"):
            test_update_that_fails_at_the_trigger()
    finally:
        for each in found:  # what they wait for: no thread is to outlive this test
            each.words[words.EPOCH] += 1
        eventually(lambda: not any(thread.name.startswith("headrace-operator-") for thread in threading.enumerate()))


@pytest.mark.slow
def test_planted_router_that_keeps_time_from_a_member_without_keys_is_noticed(monkeypatch, hangs_are_short):
    load = template.load_module
    mistake = ("if member[r] != 0 and (t.last_ts", "if member[r] != 0 and t.end[r] > 0 and (t.last_ts")

    def planted(text, name, **options):
        return load(replaced(text, [mistake]) if name == "router" else text, name, **options)

    monkeypatch.setattr(template, "load_module", planted)
    be_impatient(monkeypatch)
    with pytest.raises(AssertionError, match="still not so"):
        test_shared_nothing_instances_that_own_nothing_get_watermarks()
