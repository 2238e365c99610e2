"""What a run says by itself: rows dropped as late, and controllers that failed.

Property    one warning a run, at the user's line, with the numbers and the parameter to change; none where nothing was
            dropped, where the user has a run that keeps the late rows, and where the user filters it; a controller that
            fails is reported when it does, once
Oracle      the rows written down here, of which it is known how many are late
Cannot see  which rows are late: see tests/headrace/ingress
"""

import warnings

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import ControllerWarning, LateRowError, LateRowsWarning
from support.workloads import eventually

LATE = pa.table({"ts": [5, 20, 3, 21, 4], "k": ["a"] * 5})  # 3 and 4 are more than 10 behind 20 and 21
IN_TIME = pa.table({"ts": [5, 20, 11, 21, 12], "k": ["a"] * 5})


def counts(table=LATE, **options):
    options = {"lateness": 10, "late": "drop", "time_unit": "s", "name": "posts"} | options
    return hr.stream(table, event_time="ts", **options).key_by("k").window(10).aggregate("n", n=hr.count())


def of_late_rows(caught):
    return [w for w in caught if w.category is LateRowsWarning]


@pytest.mark.parametrize("call", [lambda q: q.to_arrow(), lambda q: q.to_pandas(), lambda q: q.to_arrow(threads=2, mode="sn")])
def test_late_rows_are_reported_once(recwarn, call):
    call(counts())
    (warning,) = of_late_rows(recwarn)
    text = str(warning.message)
    assert "2 of 5 rows were late and dropped (2 from input 'posts' with lateness=10s)" in text
    assert "larger lateness=" in text and 'late="side"' in text and "\n" not in text
    assert "idle_after" not in text
    assert warning.filename == __file__


@pytest.mark.spark
def test_late_rows_on_the_way_to_spark(recwarn, spark):
    counts().to_spark(spark)
    (warning,) = of_late_rows(recwarn)
    assert warning.filename == __file__


def test_a_run_reports_them_once_whatever_is_asked_of_it(recwarn):
    with counts().start() as run:
        run.wait()
        run.wait()
        run.to_arrow()
        run.to_pandas()
        run.snapshot()
    (warning,) = of_late_rows(recwarn)
    assert str(warning.message).startswith(f"run {run.number}: 2 of 5 rows")


def test_every_run_reports_its_own_even_from_the_same_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            counts().to_arrow()
    assert len(of_late_rows(caught)) == 3


def test_a_run_into_a_sink_reports_them(recwarn):
    with counts().start(sink=hr.discard()) as run:
        run.wait()
    assert len(of_late_rows(recwarn)) == 1


def test_several_sources_are_named(recwarn):
    posts = hr.stream([LATE, IN_TIME, LATE], "ts", lateness=10, late="drop", name=["one", "two", "three"])
    posts.to_arrow()
    (warning,) = of_late_rows(recwarn)
    text = str(warning.message)
    assert "4 of 10 rows" in text and "2 from input 'one'" in text and "2 from input 'three'" in text and "two" not in text


@pytest.mark.parametrize("call", [lambda q: q.to_arrow(), lambda q: q.to_pandas(), lambda q: hr.together(n=q).to_arrow()])
def test_late_rows_that_no_run_keeps_are_reported(recwarn, call):
    call(counts(late="side"))
    (warning,) = of_late_rows(recwarn)
    text = str(warning.message)
    assert "2 of 5 rows were late and set aside (2 from input 'posts' with lateness=10s), and this call cannot return" in text
    assert "use start(), wait() and then run.late" in text and "larger lateness=" in text
    assert warning.filename == __file__


@pytest.mark.spark
def test_late_rows_that_no_run_keeps_on_the_way_to_spark(recwarn, spark):
    counts(late="side").to_spark(spark)
    assert len(of_late_rows(recwarn)) == 1


def test_rows_dropped_and_rows_set_aside_are_both_reported(recwarn):
    dropping, keeping = (
        hr.stream(LATE, "ts", time_unit="s", lateness=10, late=late, name=late) for late in ("drop", "side")
    )
    dropping.union(keeping).to_arrow()
    dropped, set_aside = sorted(str(warning.message) for warning in of_late_rows(recwarn))
    assert "late and dropped (2 from input 'drop'" in dropped and "late and set aside (2 from input 'side'" in set_aside


@pytest.mark.parametrize(("table", "late"), [(IN_TIME, "drop"), (IN_TIME, "error"), (IN_TIME, "side")])
def test_nothing_to_report(recwarn, table, late):
    counts(table, late=late).to_arrow()
    assert not of_late_rows(recwarn)


def test_a_run_that_keeps_them_reports_nothing(recwarn):
    with counts(late="side").start() as run:
        run.wait()
        run.to_arrow()
        assert run.late.num_rows == 2
    assert not of_late_rows(recwarn)


def test_the_users_filter_decides():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", LateRowsWarning)
        counts().to_arrow()
    assert not of_late_rows(caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LateRowsWarning)
        with pytest.raises(LateRowsWarning, match="2 of 5 rows"):
            counts().to_arrow()
    with pytest.raises(LateRowError):
        counts(late="error").to_arrow()


def test_a_controller_that_fails_is_reported_when_it_does(recwarn):
    def faulty(observation):
        raise KeyError("no such metric")  # here

    table = pa.table({"ts": range(1_000_000), "k": ["a"] * 1_000_000})
    with counts(table).start(rate=1_000, controller=faulty, control_every=0.01) as run:
        eventually(lambda: [w for w in recwarn if w.category is ControllerWarning])
        assert run.state == "running"
        eventually(lambda: not run["n"].control_loop.is_attached)
    (warning,) = [w for w in recwarn if w.category is ControllerWarning]
    assert "controller faulty at 'n': the controller failed and was detached, the run goes on: KeyError" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, faulty.__code__.co_firstlineno + 1)
    assert [d.kind for d in run.decisions if d.kind == "error"] == ["error"]
