"""What objects say of themselves: a line, and a table in a notebook.

Property    a stream names its columns, key, window, sources and operators, a run its state, threads and rows; neither waits,
            takes a lock, raises or starts anything: while running, at the end, after a failure, after a stop, in a
            forked child, of an object half made. What comes from data or names is escaped in HTML
Oracle      by hand
Cannot see  how it looks in a browser
"""

import os
import threading

import pyarrow as pa
import pytest

import headrace as hr
from headrace.changes import Change
from headrace.control.decisions import Decision
from headrace.elastic.specs import AggregateSpec, ForwardSpec, JoinSpec
from headrace.metrics.snapshot import Metrics
from headrace.newest import Record
from headrace.summary import duration_text
from support.workloads import HANG_S, Steered, eventually

TABLE = pa.table({"ts": [1, 2, 12], "kind": ["a", "b", "a"], "tags": [["x"], [], ["y"]]})
POSTS = hr.stream(TABLE, event_time="ts", time_unit="s", name="posts")
COUNTS = POSTS.key_by("kind").window("10s").aggregate("counts", n=hr.count())


def update(state, t, emit):
    state.n += 1


def output(key, state, emit):
    emit(n=state.n)


def test_a_stream():
    assert repr(POSTS) == "<Stream columns ts: int64, kind: string, tags: list<item: string>; event time ts in s; from posts>"
    assert repr(COUNTS) == (
        "<Stream columns ts: int64, kind: string, n: int64; event time ts in s; from posts;"
        " operator counts (key kind, window 10s, n=count())>"
    )


def test_each_stage():
    keyed = POSTS.key_by("kind", tag=hr.each("tags"))
    assert repr(keyed).startswith("<KeyedStream key kind, tag = each(tags); columns ts: int64,")
    sliding = keyed.window("1min", "30s", instances="single")
    assert repr(sliding).startswith("<WindowedStream window 1min every 30s, one instance per key; key kind, tag = each(tags); ")
    both = hr.inputs(POSTS.key_by("kind"), hr.stream(TABLE, "ts", time_unit="s").key_by("kind"))
    assert repr(both) == "<KeyedInputs inputs 2; key kind; event time ts in s; from posts, source 2 (Table)>"
    assert repr(both.window(5)).startswith("<WindowedInputs window 5s; inputs 2; key kind; ")


def test_operators():
    def close(left, right):
        return left.x < right.x

    other = hr.stream(TABLE.rename_columns(["ts", "sort", "labels"]), event_time="ts", time_unit="s")
    joined = POSTS.select("ts", "kind").join(other, within="1h", on=("kind", "sort"), where=hr.equal("kind", "sort"))
    assert "operator join (pairs within 1h where kind = sort and equal('kind', 'sort'))" in repr(joined)
    custom = hr.operator(state={"n": "int64"}, emits={"n": "int64"}, update=update, output=output)
    assert "window 10s, custom update and output)" in repr(POSTS.key_by("kind").window(10).apply(custom))
    assert repr(ForwardSpec()) == "<ForwardSpec every tuple, in merged order>"
    assert repr(JoinSpec(5, close, (), ("", ""))) == "<JoinSpec pairs within 5 where a function>"
    spec = COUNTS.plan().output.spec
    assert isinstance(spec, AggregateSpec) and repr(spec) == "<AggregateSpec key kind, window 10, n=count()>"


def test_a_chain_and_a_union_name_each_part_once():
    both = POSTS.union(POSTS.filter(hr.col("kind") == "a"))
    counts = both.key_by("kind").window(10).aggregate("counts", n=hr.count())
    total = counts.window(100).aggregate("total", n=hr.sum("n"))
    assert repr(total).count("posts") == 1
    assert repr(total).index("counts (") < repr(total).index("total (")


def test_much_is_cut_short():
    wide = hr.stream(pa.table({"ts": [1]} | {f"c{i}": [1] for i in range(10_000)}), event_time="ts")
    assert "c6: int64 and 9,993 more" in repr(wide) and len(repr(wide)) < 400
    deep = POSTS
    for _ in range(3_000):  # beyond Python's limit of recursion
        deep = deep.filter(hr.col("kind") == "a")
    assert repr(deep) == repr(POSTS)


def test_a_notebook_shows_a_table_that_escapes():
    evil = hr.stream(TABLE, event_time="ts", name="<script>alert(1)</script>")
    shown = evil._repr_html_()
    assert shown.startswith("<table") and "<script>" not in shown and "&lt;script&gt;" in shown
    assert "color" not in shown  # the page's own: light and dark
    assert "<th" in COUNTS._repr_html_() and "counts (key kind, window 10s, n=count())" in COUNTS._repr_html_()


def test_a_run_from_beginning_to_end():
    steered = Steered(TABLE.select(["ts", "kind"]))
    query = hr.stream(iter(steered), event_time="ts", name="posts").key_by("kind").window(10)
    with query.aggregate("counts", n=hr.count()).start(threads=2, max_threads=4) as run:
        steered.let()
        eventually(lambda: run.metrics().tuples_in == 3)
        assert repr(run).startswith(f"<QueryRun number {run.number}; state running; operator counts (2 of 4 threads; key kind, ")
        assert "; rows 3 read, " in repr(run) and repr(run).endswith("; from posts>")
        of_operator = f"<OperatorHandle name counts; run {run.number}, running; in force 2 of 4 threads; "
        assert repr(run["counts"]).startswith(of_operator)
        steered.let_all()
        run.wait()
    assert "state finished; " in repr(run) and "rows 3 read, 3 results" in repr(run)
    assert "<th" in run._repr_html_() and "3 read, 3 results" in run._repr_html_()
    assert "samples, one every 0.1 s" in repr(run.history) and "of 0 decisions" in repr(run.decisions)


def test_a_run_that_failed_or_was_stopped():
    def breaks_off():
        yield pa.record_batch({"ts": [1], "kind": ["a"]})
        raise KeyError("no such <file>")

    with hr.stream(breaks_off(), event_time="ts").forward().start() as run:
        eventually(lambda: run.state == "failed")
    assert "state failed: RunFailedError: reading source 1 (generator) failed: KeyError: 'no such <file>'" in repr(run)
    assert "no such &lt;file&gt;" in run._repr_html_()
    with COUNTS.start(rate=0.01) as run:
        run.stop()
    assert "state stopped: stop() was called" in repr(run) and "stopped" in repr(run["counts"])


def test_a_change_says_what_became_of_it():
    change = Change("counts", {"threads": 1}, {"threads": 4}, "done", 0, 0, 1_500_000, planned_at=1_000, reason="a burst")
    assert repr(change) == "<Change of counts: threads 1 → 4; done in 1.50 ms; planned at 1,000; reason: a burst>"
    assert repr([Change("counts", {"batch": 1}, {"batch": 2}, "failed")]) == "[<Change of counts: batch 1 → 2; failed>]"


def test_a_long_run_knows_its_newest_changes_and_how_many_there_were():
    with COUNTS.start(rate=0.01, threads=1, max_threads=2) as run:
        operator, log = run["counts"]._operator, run.decisions
        operator.changes.record, log._entries = Record(3), Record(2)
        for threads in (2, 1, 2, 1, 1):
            run.reconfigure(threads=threads).wait(HANG_S)
        assert [one.outcome for one in run.changes] == ["done", "done", "no change"] and run.changes.left_out == 2
        assert (run["counts"].changes, run["counts"].changes.left_out) == (run.changes, 2)
        assert "changes 4 done" in repr(run["counts"])
        for at_s in (1.0, 2.0, 3.0):
            log.add(Decision("held", at_s, 0, "counts", "Threshold", "busy"))
        assert [one.at_s for one in log] == [2.0, 3.0] and log.left_out == 1
        assert repr(log) == "<DecisionLog of 2 decisions, after 1 that were forgotten; print() shows them>"
        run.stop()


def test_metrics_say_what_is_not_as_it_should_be():
    failed = Metrics("failed", 2.0, 1_000, 3, dropped=7)
    assert repr(failed) == "Metrics('failed', after 2.00 s, tuples_in=1,000, tuples_out=3, dropped=7)"


def test_nobody_waits_for_a_lock():
    with COUNTS.start(rate=0.01, controller=hr.controllers.Threshold()) as run:
        execution, loop = run._execution, run["counts"].control_loop
        locks = [execution._lock, execution.history._lock, run["counts"]._operator.changes._lock, loop._lock]
        locks += [run._controls._lock, run.decisions._lock]
        held, let_go, said = threading.Event(), threading.Event(), []

        def hold():
            for lock in locks:
                lock.acquire()
            held.set()
            let_go.wait()
            for lock in locks:
                lock.release()

        def say():
            said.extend([repr(run), run._repr_html_(), repr(run["counts"]), repr(loop), repr(run.decisions)])
            said.append(repr(execution.history))

        holder, speaker = threading.Thread(target=hold, daemon=True), threading.Thread(target=say, daemon=True)
        holder.start()
        held.wait()
        speaker.start()
        speaker.join(HANG_S)
        let_go.set()
        holder.join()
        assert len(said) == 6 and "Threshold at 'counts', attached, looks every 0.2 s" in said[3]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_in_a_forked_child():
    with COUNTS.start(rate=0.01) as run:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, f"{run!r}\n{run['counts']!r}\n{run._repr_html_()}\n{COUNTS!r}".encode())
            os._exit(0)
        os.close(write)
        with open(read) as said:
            lines = said.read().splitlines()
        assert os.waitpid(child, 0)[1] == 0
    assert f"it is a run of process {os.getpid()}, and its threads do not exist in this one" in lines[0]
    assert "do not exist in this one" in lines[1] and "do not exist in this one" in lines[2]
    assert lines[3] == repr(COUNTS)


@pytest.mark.parametrize("of", [COUNTS, COUNTS.start, POSTS.key_by("kind"), POSTS.window(5)])
def test_an_object_half_made(of):
    kind = type(of() if callable(of) else of)
    half = kind.__new__(kind)
    assert "cannot be described" in repr(half) and "cannot be described" in half._repr_html_()


@pytest.mark.parametrize(
    ("count", "unit", "text"),
    [(0, "s", "0s"), (1, "ns", "1ns"), (1500, "ms", "1500ms"), (3_600_000, "ms", "1h"), (48, "h", "2d"), (7, "x", "7")],
)
def test_durations(count, unit, text):
    assert duration_text(count, unit) == text
