"""Several results of one run, and a stream that is read once for several operators.

Property    each result is what the stream gives alone, whatever shares its source and operators, on any threads
Oracle      the same streams, each run by itself on a table
Cannot see  two ways that meet again behind a window: buffers hold what the docstring of `together` says
"""

import inspect
import random
import threading
import time
import warnings
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import (
    InputError,
    NotSupportedError,
    OutputError,
    ParameterError,
    RunFailedError,
    RunStoppedError,
)
from headrace.ingress.readers import open_input
from headrace.runtime import shared_stream
from headrace.runtime.shared_stream import MOST_AHEAD, SharedStream
from support.campaign import rarely
from support.workloads import HANG_S, Steered, eventually


def table(rows=2_000, seed=1):
    rng = random.Random(seed)
    ts = sorted(rng.randint(0, 4 * rows) for _ in range(rows))
    return pa.table({"ts": ts, "user": [f"u{rng.randint(0, 9)}" for _ in ts], "a": [rng.randint(-50, 50) for _ in ts]})


def streams(source):
    """Streams that share a source, and some an operator."""
    posts = hr.stream(source, event_time="ts")
    counts = posts.key_by("user").window(500, 250).aggregate("counts", n=hr.count())
    return {
        "counts": counts,
        "often": counts.filter(hr.col("n") > 3),
        "most": counts.key_by("user").window(2_000).aggregate("most", n=hr.max("n")),
        "negative": posts.filter(hr.col("a") < 0),
    }


def in_batches(given, size=100):
    return pa.RecordBatchReader.from_batches(given.schema, given.to_batches(max_chunksize=size))


@pytest.fixture(scope="module")
def alone():
    return {name: stream.to_arrow() for name, stream in streams(table()).items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *rarely(2, 3), 4, 5])
def test_agree_each_result_is_what_its_stream_gives_alone(alone, seed):
    rng = random.Random(seed)
    held = Steered(table(), [500])  # a change needs a run that goes on
    source = in_batches(table(), rng.choice([1, 7, 100, 5_000])) if seed % 2 else table()
    query = hr.together(**streams(held if seed > 3 else source))
    with query.start(threads=rng.randint(1, 3), max_threads=3) as run:
        if seed > 3:
            run["counts"].reconfigure(threads=rng.randint(1, 3))
            held.let_all()
        assert run.wait(HANG_S)
        assert {name: result.to_arrow() for name, result in run.results.items()} == alone
        assert run.metrics().tuples_out == sum(map(len, alone.values()))
        assert all(operator.balance.faults == () for operator in run.metrics().operators.values())
        assert set(run.operators) == {"counts", "most", "forward"}
        assert {name for name, after in run.edges if after is None} == {"counts", "most", "forward"}
        assert ("counts", "most") in run.edges


def test_each_result_has_a_sink_of_its_own(alone, tmp_path):
    taken = []
    sinks = {"counts": hr.parquet(tmp_path / "counts.parquet"), "negative": taken.append}
    with hr.together(**streams(in_batches(table()))).start(threads=2, sink=sinks) as run:
        assert run.wait(HANG_S)
        assert run.results["most"].to_pandas().equals(alone["most"].to_pandas())
        with pytest.raises(NotSupportedError, match="went to the sink="):
            run.results["counts"].to_arrow()
    assert pq.read_table(tmp_path / "counts.parquet") == alone["counts"]
    assert pa.Table.from_batches(taken) == alone["negative"]


def test_results_so_far_are_prefixes(alone):
    source = Steered(table(), [1_000])
    with hr.together(**streams(source)).start() as run:
        source.let()
        so_far = {name: result.snapshot() for name, result in run.results.items()}
        source.let_all()
        assert run.wait(HANG_S)
        assert run.results["counts"].snapshot() == alone["counts"]
    assert all(so_far[name] == alone[name].slice(0, len(so_far[name])) for name in alone)


def test_a_sink_that_fails_ends_the_run_and_leaves_no_other_file(tmp_path):
    has_failed = threading.Event()

    class Unended:
        """No result can have ended before the sink fails."""

        def __iter__(self):
            yield from table().to_batches(max_chunksize=500)
            has_failed.wait(HANG_S)

    def fail(batch):
        raise OSError("no room")

    sinks = {"counts": hr.parquet(tmp_path / "counts.parquet"), "negative": fail}
    run = hr.together(**streams(Unended())).start(sink=sinks)
    with pytest.raises(RunFailedError, match="the sink .*fail.* failed: OSError: no room"):
        run.wait(HANG_S)
    has_failed.set()
    assert list(tmp_path.iterdir()) == []


class Kept:
    """A user's sink, whose results are final when it is closed."""

    def __init__(self):
        self.rows, self.ends = 0, []

    def open(self, schema): ...

    def write(self, batch):
        self.rows += batch.num_rows

    def close(self):
        self.ends.append("closed")

    def abort(self):
        self.ends.append("aborted")


class InTwoSteps(Kept):
    """One that waits for the other results."""

    def complete(self):
        self.ends.append("completed")

    def publish(self):
        self.ends.append("published")


def of_two_sources(held):
    """Results of a table, and one of a source that a test holds."""
    posts = hr.stream(table(), event_time="ts")
    results = {name: posts.filter(hr.col("a") < limit) for name, limit in (("few", -40), ("some", 0), ("most", 40))}
    return hr.together(**results, all=posts, late=hr.stream(held, event_time="ts").filter(hr.col("a") < 0))


def have_ended(run, *names):
    consumers = run._execution._consumers
    eventually(lambda: all(consumers[name].is_closed for name in names))


@pytest.mark.parametrize("by", ["a failure", "stop()"])
def test_results_that_have_ended_appear_only_if_all_others_do(tmp_path, by):
    def fail(batch):
        raise OSError("no room")

    held, kept, published = Steered(table(), [0]), Kept(), InTwoSteps()
    sinks = {
        "few": hr.parquet(tmp_path / "few.parquet"),
        "some": hr.parquet_directory(tmp_path / "some"),
        "most": kept,
        "all": published,
        "late": fail,
    }
    (tmp_path / "few.parquet").write_text("as it was")
    with of_two_sources(held).start(sink=sinks) as run:
        have_ended(run, "few", "some", "most", "all")
        if by == "stop()":
            run.stop()
            with pytest.raises(RunStoppedError, match="their sinks closed: 'most'; the others are not"):
                run.wait(HANG_S)
            held.let_all()
        else:
            held.let_all()
            with pytest.raises(RunFailedError, match="no room") as caught:
                run.wait(HANG_S)
            assert caught.value.__notes__ == [
                "headrace: these results are complete, and their sinks closed: 'most'; the others are not"
            ]
    assert kept.ends == ["closed"] and published.ends == ["completed", "aborted"] and published.rows == 2_000
    assert (tmp_path / "few.parquet").read_text() == "as it was"
    assert {path.name for path in tmp_path.rglob("*")} == {"few.parquet", "some", "part-000000000.parquet"}


def test_results_appear_together_when_the_last_one_has_ended(tmp_path):
    held, published = Steered(table(), [0]), InTwoSteps()
    files = [tmp_path / f"{name}.parquet" for name in ("few", "late")]
    sinks = {"few": hr.parquet(files[0]), "late": hr.parquet(files[1]), "all": published}
    with of_two_sources(held).start(sink=sinks) as run:
        have_ended(run, "few", "all")
        assert not any(file.exists() for file in files) and published.ends == ["completed"]
        held.let_all()
        assert run.wait(HANG_S)
    assert published.ends == ["completed", "published"]
    assert [pq.read_table(file).num_rows for file in files] == [
        sum(a < limit for a in table()["a"].to_pylist()) for limit in (-40, 0)
    ]


def test_a_result_that_cannot_appear_fails_the_run_and_says_which_ones_have(tmp_path):
    held = Steered(table(), [0])
    sinks = {name: hr.parquet(tmp_path / f"{name}.parquet") for name in ("few", "some", "late")}
    with of_two_sources(held).start(sink=sinks) as run:
        have_ended(run, "few", "some")
        (tmp_path / "some.parquet").mkdir()  # since it was looked whether the file can be written
        held.let_all()
        with pytest.raises(OutputError, match=r"some.parquet' cannot be written \(Is a directory\); give a file") as caught:
            run.wait(HANG_S)
    assert "closed: 'few', 'most', 'all';" in caught.value.__notes__[0]
    assert {path.name for path in tmp_path.iterdir()} == {"few.parquet", "some.parquet"}


def test_bad_sinks_are_refused_by_name(tmp_path):
    query = hr.together(**streams(table()))
    path = tmp_path / "out.parquet"
    for sinks, kind, text in (
        ({"count": hr.discard()}, ParameterError, "'count': ...}: did you mean counts"),
        (hr.discard(), ParameterError, "there are 4 results; give a sink for each"),
        ({"counts": 3}, ParameterError, "sink=3: give hr.discard"),
        ({"counts": hr.parquet(path), "most": hr.parquet(path)}, OutputError, "written by 'counts', too"),
    ):
        with pytest.raises(kind, match=text):
            query.start(sink=sinks)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ParameterError, match="give streams by name"):
        hr.together()
    with pytest.raises(ParameterError, match=r"together\(a=3\)"):
        hr.together(a=3)


def test_one_of_several_results_is_asked_for_by_name():
    with hr.together(**streams(table())).start() as run:
        assert run.wait(HANG_S)
        with pytest.raises(NotSupportedError, match=r"4 results; write run.results\['counts'\].to_arrow\(\) or"):
            run.to_arrow()


def test_the_only_result_is_called_as_its_operator():
    counts = streams(table())["counts"]
    with counts.start() as run:
        assert run.wait(HANG_S)
        assert run.results["counts"].to_arrow() == run.to_arrow()


# -- a stream that is read once


def taken(stream, number, found):
    try:
        found[number] = [batch["ts"][0].as_py() for batch in stream.taker(number)]
    except BaseException as error:
        found[number] = error


def all_taken(stream, takers):
    found = {}
    threads = [threading.Thread(target=taken, args=(stream, number, found), daemon=True) for number in range(takers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)
        assert not thread.is_alive(), "a taker waits for ever"
    return found


def batches(count, fails=False):
    for number in range(count):
        yield pa.record_batch({"ts": [number]})
    if fails:
        raise OSError("the line is dead")


def shared(count, takers, fails=False):
    reader = open_input(batches(count, fails), schema=pa.schema([("ts", pa.int64())]))
    assert not reader.is_replayable
    return SharedStream(reader, takers)


def test_every_taker_gets_every_batch_in_order():
    found = all_taken(shared(1_000, 4), 4)
    assert len(found) == 4 and all(got == list(range(1_000)) for got in found.values())


def test_an_error_comes_to_every_taker():
    found = all_taken(shared(10, 3, fails=True), 3)
    assert all(isinstance(error, InputError) and "the line is dead" in str(error) for error in found.values()), found


def test_no_taker_is_far_ahead_of_another(monkeypatch):
    read, waits, found = [], [], []

    class Noted(threading.Condition):
        def wait(self, timeout=None):
            waits.append(threading.current_thread())
            return super().wait(timeout)

    def counted():
        for batch in batches(10 * MOST_AHEAD):
            read.append(batch)
            yield batch

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Condition", Noted)
        stream = SharedStream(open_input(counted(), schema=pa.schema([("ts", pa.int64())])), 2)
    fast, slow = iter(stream.taker(0)), iter(stream.taker(1))
    for _ in range(MOST_AHEAD):
        next(fast)
    ahead = threading.Thread(target=lambda: found.append(next(fast)), daemon=True)
    ahead.start()
    while not (found or ahead in waits):
        time.sleep(0.001)
    assert len(read) == MOST_AHEAD and not found
    next(slow)
    ahead.join(HANG_S)
    assert found[0]["ts"][0].as_py() == MOST_AHEAD


def test_takers_that_wait_end_when_the_run_stops():
    stream = shared(10 * MOST_AHEAD, 2)
    fast = iter(stream.taker(0))
    for _ in range(MOST_AHEAD):
        next(fast)
    found = {}
    waiting = threading.Thread(target=lambda: found.setdefault("rest", list(fast)), daemon=True)
    waiting.start()
    stream.stop()
    waiting.join(HANG_S)
    assert found["rest"] == []


PLANTED = {
    "only the taker that reads gets the batch": (
        test_every_taker_gets_every_batch_in_order, "assert",
        "                for waiting in self._waiting:\n                    waiting.append(batch)\n",
        "                self._waiting[0].append(batch)\n",
    ),
    "two read at once": (
        test_every_taker_gets_every_batch_in_order, "already executing",
        "not self._is_read and ", "",
    ),
    "the one ahead goes on": (test_no_taker_is_far_ahead_of_another, r"65 == 64", "len(waiting) < MOST_AHEAD", "True"),
    "an error ends like the input": (
        test_an_error_comes_to_every_taker, "assert", "self._is_over, self._error = True, error", "self._is_over = True",
    ),
    "a waiting taker does not hear of the stop": (
        test_takers_that_wait_end_when_the_run_stops, "'rest'",
        "            self._is_over = True\n            self._changed.notify_all()\n", "            self._is_over = True\n",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistake_is_noticed(mistake, monkeypatch):
    check, expected, right, wrong = PLANTED[mistake]
    text = Path(shared_stream.__file__).read_text()
    assert text.count(right) == 1
    planted = ModuleType("planted")
    exec(compile(text.replace(right, wrong), "<planted>", "exec"), vars(planted))  # our own file
    monkeypatch.setitem(globals(), "SharedStream", planted.SharedStream)
    monkeypatch.setitem(globals(), "HANG_S", 5.0)
    with pytest.raises((AssertionError, KeyError), match=expected):
        check(*([monkeypatch] if "monkeypatch" in inspect.signature(check).parameters else []))


@pytest.mark.logic
@pytest.mark.parametrize("late", ["side", "drop"])
def test_example_a_late_row_counts_once_however_many_take_the_stream(late):
    """Three operators take it, and each finds that the row is late."""
    batches = [pa.record_batch({"ts": [1, 5], "k": [1, 2]}), hr.Watermark(6), pa.record_batch({"ts": [2, 7], "k": [3, 4]})]
    stream = hr.stream(iter(batches), event_time="ts", lateness="watermarks", late=late)
    keyed = stream.key_by("k")
    query = hr.together(
        large=keyed.window(10).aggregate(n=hr.count()), small=keyed.window(5).aggregate(n=hr.count()), rows=stream
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with query.start() as run:
            assert run.wait(HANG_S)
    metrics = run.metrics()
    assert (metrics.tuples_in, metrics.dropped + metrics.set_aside, metrics.holds) == (4, 1, True)
    assert {name: result.to_arrow().num_rows for name, result in run.results.items()} == {"large": 3, "small": 3, "rows": 3}
    if late == "side":
        assert run.late.to_pydict() == {"ts": [2], "k": [3]} and not told
    else:
        (warning,) = told
        assert "1 of 4 rows were late and dropped" in str(warning.message)
