"""Programs that go on from a checkpoint.

Property    from any checkpoint, under any plan, threads, leaves, heartbeat and dealing of rows to streams: the results of one
            event after another, none missing and none twice; checkpoints of what was resumed are as good; they come after
            the same numbers of events, however inputs are read
Oracle      `headrace.reference.synchronization`, and runs without checkpoints
Cannot see  processes that die: tests/headrace/cli/test_killed.py; files: tests/headrace/checkpoints
"""

import errno
import random
import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace.checkpoints.folder import Folder, read_checkpoint
from headrace.errors import (
    ArgumentError,
    CheckpointError,
    FunctionError,
    NotSupportedError,
    OutputError,
    ParameterError,
    RunStoppedError,
)
from headrace.newest import Record
from headrace.reference import synchronization as reference
from headrace.synchronization import resuming
from headrace.synchronization.cuts import checksum_of
from headrace.synchronization.plans import implementation_tags
from planted_mistakes import planted
from support import event_window
from support.campaign import rarely
from support.program_results import as_promised
from support.random_programs import STREAMS, TAGS, random_events, random_plan, random_program, table_of

HANG_S = 120
WINDOW = hr.program(**event_window.WINDOW)


def options_of(rng, program, streams=STREAMS):
    tags = implementation_tags(program, dict.fromkeys(TAGS, streams))
    way = rng.choice(["random"] * 3 + ["auto", "chain", "flat"])
    return {
        "plan": random_plan(rng, program, tags) if way == "random" else way, "threads": rng.randint(1, 4), "max_threads": 4,
        "heartbeat": rng.choice([1, 7, 1024]), "leaves": rng.choice([1, 2, 5, 9]),
    }  # fmt: skip


def random_case(rng):
    program = random_program(rng)
    if rng.random() < 0.5:
        rows = random_events(rng, program, rng.choice([60, 300, 600]), TAGS)
        given = [[(row["ts"], row["tag"], row) for row in rows]]
        inputs = {TAGS: hr.streams(table_of(rows), STREAMS, by="s", tag="tag")}
        return program, inputs, len(rows), reference.run(program, given)
    inputs, given = {}, []
    for tag in TAGS:
        rows = random_events(rng, program, rng.choice([0, 50, 250]), [tag])
        inputs[tag] = hr.streams(table_of(rows), STREAMS, by="s")
        given.append((tag, [(row["ts"], row) for row in rows]))
    return program, inputs, sum(len(rows) for _, rows in given), reference.run(program, given)


def finished(run):
    with run:
        assert run.wait(HANG_S)
        assert run.metrics().operators["program"].balance.faults == ()
        return run.to_arrow().to_pylist()


def check_goes_on(rng, folder):
    """A few runs of a random program, each from a checkpoint of the one before."""
    program, inputs, total, expected = random_case(rng)
    every = rng.choice([15, 60, 150])
    run = program.start(inputs, checkpoint=folder / "0", checkpoint_every=every, **options_of(rng, program))
    assert finished(run) == expected
    assert [one.events for one in run.checkpoints] == [*range(every, total + 1, every)]
    for number in range(1, 4):
        if not run.checkpoints:
            break
        found, every = rng.choice(run.checkpoints[-2:]), rng.choice([15, 60, 150])
        run = program.resume(
            found, inputs, checkpoint=folder / str(number), checkpoint_every=every, **options_of(rng, program)
        )
        assert finished(run) == expected
        assert [one.events for one in run.checkpoints] == [*range(found.events + every, total + 1, every)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, 4, *rarely(3, 5, 6, 7)])
def test_oracle_random_programs_go_on_under_random_plans(tmp_path, seed):
    rng = random.Random(seed)
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_goes_on(rng, folder)


# -- a window of which one input holds the other up


class Gated:
    """A table that comes in two parts, the second when it is let go."""

    def __init__(self, table, first):
        self._table, self._first, self.is_open = table, first, threading.Event()

    @property
    def stream(self):
        return hr.stream(pa.RecordBatchReader.from_batches(self._table.schema, self._batches()), event_time="ts")

    def _batches(self):
        yield from self._table.slice(0, self._first).to_batches()
        assert self.is_open.wait(HANG_S)
        yield from self._table.slice(self._first).to_batches()


VALUES = [pa.table({"ts": range(0, 4_000, 2), "x": range(2_000)}), pa.table({"ts": range(1, 4_001, 2), "x": [1] * 2_000})]
BARRIERS = pa.table({"ts": range(100, 4_100, 100)})
PLAIN = {"value": VALUES, "barrier": BARRIERS}


def expected_sums():
    events = [
        (row["ts"], number, place, row.get("x"))
        for number, table in enumerate([*VALUES, BARRIERS])
        for place, row in enumerate(table.to_pylist())
    ]
    total, found = 0, []
    for ts, _, _, x in sorted(events, key=lambda event: event[:3]):
        if x is None:
            found.append({"ts": ts, "sum": total})
        total = 0 if x is None else total + x
    return found


def cut_in_the_middle(folder, **options):
    """A checkpoint when one stream of values and the barriers have been read to their end, the other stream to a quarter.

    ::

        values     0 . . . . . 998 1000|. . . . . . . 3998      processed | waiting
        values      1 . . . . . 999 -                           not read any further
        barriers      100 ... 900 |1000 . . . . . . . 4000
    """
    second = Gated(VALUES[1], 500)
    inputs = {"value": [VALUES[0], second.stream], "barrier": BARRIERS}
    with WINDOW.start(inputs, threads=2, leaves=2, checkpoint=folder, **options) as run:
        # Some results are out: those are in a file beside the checkpoint.
        while run.metrics().operators["program"].processed < 501 + 500 + 9 or not run.metrics().tuples_out:
            assert not run.wait(0.01)
        found = run.checkpoint(HANG_S)
        second.is_open.set()
        assert run.wait(HANG_S)
        assert as_promised(options, run.to_arrow().to_pylist()) == expected_sums()
    return found


def test_example_a_checkpoint_knows_which_rows_of_each_input_are_processed(tmp_path):
    found = cut_in_the_middle(tmp_path / "kept")
    cut = read_checkpoint(found)[1].part("cut")
    read = [one["read"] for one in cut.values["inputs"]]
    waiting = [int((cut.arrays[f"rest {number}"][:, 1] - cut.arrays[f"rest {number}"][:, 0]).sum()) for number in range(3)]
    assert (read, waiting, found.events) == ([2_000, 500, 40], [1_499, 0, 31], 1_010)
    assert found.results + len(cut.arrays["held 0"]) == 9
    assert repr(found) == f"<Checkpoint 1: {found.events:,} events, {found.results} results, in {str(found.path)!r}>"


def check_resumed(found, **options):
    assert as_promised(options, finished(WINDOW.resume(found, PLAIN, **options))) == expected_sums(), "other sums"


def test_property_it_goes_on_under_another_plan(tmp_path):
    found = cut_in_the_middle(tmp_path / "kept")
    for options in (
        {}, {"threads": 3, "leaves": 5, "plan": "chain", "heartbeat": 1}, {"plan": "flat", "leaves": 4, "threads": 1},
        {"reconfigure": [(100, 2), (3_000, 1)]},
    ):  # fmt: skip
        check_resumed(found, **options)
    dealt = pa.concat_tables(VALUES).sort_by("ts")
    with pytest.raises(CheckpointError, match="of inputs that bring value; value; barrier, and this is value; barrier"):
        WINDOW.resume(found, {"value": hr.streams(dealt, 3), "barrier": BARRIERS})


def test_example_rows_may_be_dealt_to_other_streams(tmp_path):
    values = pa.concat_tables(VALUES).sort_by("ts")
    run = WINDOW.start({"value": hr.streams(values, 3), "barrier": BARRIERS}, checkpoint=tmp_path / "k", checkpoint_every=900)
    rows = finished(run)
    resumed = WINDOW.resume(run.checkpoints[-1], {"value": hr.streams(values, 2), "barrier": BARRIERS}, leaves=2)
    assert finished(resumed) == rows


@pytest.mark.parametrize("mistake", [
    ("rest = _runs(waiting)", "rest = _runs(waiting[:0])"),  # up to one row of each input, whatever its tags have done
    ("found[max(0, begin - first) : end - first] = False", "pass"),
    ("found = np.arange(first, stop) < self.read", "found = np.arange(first, stop) < self.read - 1"),  # the last one again
    ("found = np.arange(first, stop) < self.read", "found = np.arange(first, stop) < self.read + 1"),
], ids=["one frontier", "rest forgotten", "repeated", "lost"])  # fmt: skip
def test_a_wrong_frontier_is_found(tmp_path, mistake):
    with planted(resuming, *mistake), pytest.raises(AssertionError, match="other sums"):
        check_resumed(cut_in_the_middle(tmp_path / "kept"))


def test_a_state_that_is_not_restored_is_found(tmp_path, monkeypatch):
    found = cut_in_the_middle(tmp_path / "kept")
    monkeypatch.setattr("headrace.synchronization.cuts.restore_state", lambda *_: None)
    with pytest.raises(AssertionError, match="other sums"):
        check_resumed(found)


def test_results_that_were_held_back_and_are_forgotten_are_found(tmp_path, monkeypatch):
    """Of tags that are independent, one runs ahead: its results wait, and belong to the checkpoint."""
    program = hr.program(
        tags={"value": {"x": "int64"}, "barrier": {}}, depends=[("barrier", "barrier")], state={"sum": "int64"},
        emits={"sum": "int64"}, update={"value": tell, "barrier": nothing}, fork=nothing_to_split, join=nothing_to_join,
    )  # fmt: skip
    barriers = Gated(BARRIERS, 3)
    with program.start({"value": VALUES[0], "barrier": barriers.stream}, leaves=2, threads=2, checkpoint=tmp_path / "k") as run:
        while run.metrics().operators["program"].processed < 2_000:
            assert not run.wait(0.01)
        found = run.checkpoint(HANG_S)
        assert found.results < 1_000
        barriers.is_open.set()
        assert run.wait(HANG_S)
        rows = run.to_arrow().to_pylist()
    inputs = {"value": VALUES[0], "barrier": BARRIERS}
    assert finished(program.resume(found, inputs)) == rows and len(rows) == 2_000
    monkeypatch.setattr("headrace.synchronization.section.ProgramSection.hold_back", lambda *_: None)
    assert len(finished(program.resume(found, inputs))) < 2_000


def tell(state, e, emit):
    emit(sum=e.x)


def nothing(state, e, emit):
    state.sum = 0


def nothing_to_split(state, left, right, tags_left, tags_right):
    left.sum = 0


def nothing_to_join(into, other):
    into.sum += other.sum


# -- strings and containers


def first_seen(state, e, emit):
    state.seen.add(e.word)
    state.counts[e.word] = state.counts.get(e.word, 0) + 1
    state.last.append(e.word)
    if len(state.last) > 3:
        state.last.pop(0)
    emit(word=state.last[0], count=state.counts[e.word], different=len(state.seen), previous=state.previous)
    state.previous = e.word


WORDS = hr.program(
    tags={"word": {"word": "string"}}, depends=[("word", "word")],
    state={
        "seen": hr.set_of("string"), "counts": hr.map_of("string", "int64"), "last": hr.list_of("string"), "previous": "string"
    },
    emits={"word": "string", "count": "int64", "different": "int64", "previous": "string"}, update={"word": first_seen},
)  # fmt: skip


@pytest.mark.slow
def test_property_strings_and_containers_go_on(tmp_path):
    rng = random.Random(1)
    words = [f"w{rng.randrange(90)}é" for _ in range(3_000)]
    inputs = {"word": pa.table({"ts": range(3_000), "word": words})}
    run = WORDS.start(inputs, checkpoint=tmp_path / "kept", checkpoint_every=700)
    rows = finished(run)
    assert [one.events for one in run.checkpoints] == [700, 1_400, 2_100, 2_800]
    for one in run.checkpoints[-2:]:
        assert finished(WORDS.resume(one, inputs)) == rows
    other = pa.table({"ts": range(3_000), "word": [*words[:5], "another", *words[6:]]})
    with pytest.raises(CheckpointError, match="its first .* rows are not those that were read before the checkpoint"):
        finished(WORDS.resume(run.checkpoints[-1], {"word": other}))


# -- when they are taken, and what a user is told


def test_example_a_predicate_of_the_state_says_when(tmp_path):
    seen = []

    def when(state):
        seen.append(state.sum)
        return state.sum > 40_000

    run = WINDOW.start(PLAIN, checkpoint=tmp_path / "kept", checkpoint_every=50, checkpoint_when=when)
    assert finished(run) == expected_sums()
    assert 0 < len(run.checkpoints) == sum(one > 40_000 for one in seen) < len(seen)
    check_resumed(tmp_path / "kept")
    with pytest.raises(FunctionError, match="checkpoint_when: AttributeError: .*'total'.*test_checkpoints.py"):
        finished(WINDOW.start(
            PLAIN, checkpoint=tmp_path / "none", checkpoint_every=50, checkpoint_when=lambda state: state.total > 0,
        ))  # fmt: skip


def test_property_a_checkpoint_comes_after_so_many_events(tmp_path):
    for every, last in ((300, 1_800), (500, 2_000)):  # also if these are all
        values = {"value": VALUES[0], "barrier": BARRIERS.slice(0, 0)}
        run = WINDOW.start(values, checkpoint=tmp_path / str(every), checkpoint_every=every)
        finished(run)
        assert [one.events for one in run.checkpoints] == [*range(every, last + 1, every)]


def counted_in(run):
    return run.metrics().operators["program"].values["added"]


@pytest.mark.parametrize("first", [0, 100])
@pytest.mark.parametrize("every", [1, 900])
def test_property_an_input_that_is_silent_costs_no_checkpoint(tmp_path, first, every):
    """The others are read to their end meanwhile; when it goes on, more events than `every` could be processed at once.

    ::

        values     0 . . . . . . . . . . . . . . 3998      waiting
        values      1 . . 199 -          201 . . 299       fewer rows than a checkpoint needs
        barriers      100 . . . . . . . . . . .  4000      waiting
    """
    second = Gated(VALUES[1].slice(0, 150), first)
    inputs = {"value": [VALUES[0].slice(0, 1_000), second.stream], "barrier": BARRIERS}
    with WINDOW.start(inputs, threads=2, leaves=2, checkpoint=tmp_path / "kept", checkpoint_every=every) as run:
        while counted_in(run) < 1_000 + len(BARRIERS) + first:
            assert not run.wait(0.01), "the run ended"
        second.is_open.set()
        assert run.wait(HANG_S)
        assert [one.events for one in run.checkpoints] == [*range(every, 1_000 + len(BARRIERS) + 150 + 1, every)]


def test_liveness_inputs_that_are_longer_than_mailboxes_do_not_wait_for_each_other(tmp_path):
    count = 150_000
    values = [pa.table({"ts": range(side, 2 * count, 2), "x": [1] * count}) for side in range(2)]
    inputs = {"value": values, "barrier": pa.table({"ts": range(10_000, 2 * count, 20_000)})}
    run = WINDOW.start(inputs, threads=2, leaves=2, checkpoint=tmp_path / "kept", checkpoint_every=60_000)
    assert [row["sum"] for row in finished(run)] == [10_001, *[20_000] * 14]
    assert len(run.checkpoints) == 5


def test_example_a_long_run_lists_its_newest_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(Record.__init__, "__defaults__", (2,))  # in place of 10,000
    run = WINDOW.start(PLAIN, checkpoint=tmp_path / "kept", checkpoint_every=50)
    assert finished(run) == expected_sums()
    assert [one.number for one in run.checkpoints] == [run.checkpoints.left_out + 1, run.checkpoints.left_out + 2]
    assert run.checkpoints[-1].events == 50 * run.checkpoints[-1].number and run.checkpoints.left_out > 0


def test_example_the_results_before_need_not_come_again(tmp_path):
    found = cut_in_the_middle(tmp_path / "kept")
    rest = finished(WINDOW.resume(found, PLAIN, replay=False))
    assert rest == expected_sums()[found.results :]


def test_example_rows_that_are_read_again_are_not_paced(tmp_path):
    values = {"value": VALUES[0].slice(0, 520), "barrier": BARRIERS.slice(0, 1)}
    run = WINDOW.start(values, checkpoint=tmp_path / "k", checkpoint_every=500)
    rows = finished(run)
    resumed = WINDOW.resume(run.checkpoints[-1], values, rate=1_000)
    assert finished(resumed) == rows
    feeds = [source.feed for source in resumed._execution.sources]
    assert sum(feed._known for feed in feeds) == run.checkpoints[-1].events == 500
    assert sum(feed.books.added for feed in feeds) == 521
    for source in resumed._execution.sources:  # another rate counts from what was paced, too
        source.play(hr.rates.constant(1e-3))
        paced = source.feed.books.added - source.feed._known
        assert source.feed.player.due(paced, np.zeros(9, np.int64), 0) == (1, 0.0) and source.metrics(None).behind == 0


def test_what_the_clock_decides_is_refused(tmp_path):
    idle = hr.stream(VALUES[0], event_time="ts", idle_after="1s")
    with pytest.raises(ParameterError, match="idle_after=1.0 s lets the clock decide which rows are late"):
        WINDOW.start({"value": idle, "barrier": BARRIERS}, checkpoint=tmp_path / "kept")


def test_property_plans_may_change_and_checkpoints_be_taken_all_the_time(tmp_path):
    streams = {"value": 2, "barrier": 1}
    plans = [WINDOW.plan(streams, leaves=leaves, by=by) for leaves, by in ((1, "appendix"), (3, "chain"), (4, "flat"))]
    barriers = Gated(BARRIERS, 20)
    inputs = {"value": VALUES, "barrier": barriers.stream}
    with WINDOW.start(inputs, threads=2, checkpoint=tmp_path / "kept", checkpoint_every=100, max_threads=4) as run:
        for plan in plans * 5:
            change = run.reconfigure(plan=plan)
            found = run.checkpoint(HANG_S)
            assert change.wait(HANG_S)
        barriers.is_open.set()
        assert run.wait(HANG_S)
        assert run.to_arrow().to_pylist() == expected_sums()
        assert [one.outcome for one in run.changes] == ["done"] * 15  # each came into force before the next was asked for
        assert len({one.after["plan"] for one in run.changes}) == 3
    assert found is not None
    check_resumed(tmp_path / "kept")


def test_a_disk_that_is_full_ends_the_run_and_leaves_what_was_there(tmp_path, monkeypatch):
    fill = Folder._fill

    def full(self, file, contents):
        if contents.values["number"] == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        fill(self, file, contents)

    monkeypatch.setattr(Folder, "_fill", full)
    with pytest.raises(OutputError, match=r"checkpoint-00000003' cannot be written \(No space left on device\); make room"):
        finished(WINDOW.start(PLAIN, checkpoint=tmp_path / "kept", checkpoint_every=500))
    assert Folder(tmp_path / "kept").numbers() == [1, 2]
    monkeypatch.undo()
    check_resumed(tmp_path / "kept", checkpoint=tmp_path / "kept", checkpoint_every=500)
    assert Folder(tmp_path / "kept").numbers()[-1] >= 3


def test_what_cannot_be_resumed_is_refused(tmp_path):
    found = cut_in_the_middle(tmp_path / "kept")
    other = hr.program(**event_window.WINDOW | {"update": {"value": nothing_added, "barrier": event_window.close}})
    with pytest.raises(CheckpointError, match="is of a program with checksum .*; resume what was started"):
        other.resume(found, PLAIN)
    changed = [VALUES[0].set_column(1, "x", pa.array([*range(1_999), 7])), VALUES[1]]
    with pytest.raises(CheckpointError, match="its first 2,000 rows are not those that were read before the checkpoint"):
        finished(WINDOW.resume(found, {"value": changed, "barrier": BARRIERS}))
    with pytest.raises(CheckpointError, match="it has 100 rows, and 2,000 were read before the checkpoint"):
        finished(WINDOW.resume(found, {"value": [VALUES[0].slice(0, 100), VALUES[1]], "barrier": BARRIERS}))
    found.path.write_bytes(found.path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="is damaged"):
        WINDOW.resume(found, PLAIN)
    with pytest.raises(CheckpointError, match="there is no such folder"):
        WINDOW.resume(tmp_path / "nowhere", PLAIN)


def test_results_that_came_in_any_order_are_not_given_as_ordered_ones(tmp_path):
    found = cut_in_the_middle(tmp_path / "kept", order="none")
    with pytest.raises(CheckpointError, match="gave results in any order; resume it with order='none'"):
        WINDOW.resume(found, PLAIN)
    check_resumed(found, order="none")
    check_resumed(cut_in_the_middle(tmp_path / "ordered"), order="none")


def test_a_folder_is_given_back_by_a_run_that_could_not_begin(tmp_path):
    found = cut_in_the_middle(tmp_path / "kept")
    results = tmp_path / "kept" / "results.arrows"
    data = results.read_bytes()
    results.write_bytes(b"\0" + data[1:])
    with pytest.raises(CheckpointError, match="of a checkpoint are damaged"):
        WINDOW.resume(found, PLAIN, checkpoint=tmp_path / "kept")
    results.write_bytes(data)
    check_resumed(found, checkpoint=tmp_path / "kept")


def test_a_run_goes_on_in_its_folder_by_whatever_path(tmp_path, monkeypatch):
    cut_in_the_middle(tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    check_resumed(tmp_path / "kept", checkpoint="kept", checkpoint_every=500)


def nothing_added(state, e, emit):
    state.sum += 0


def test_what_makes_two_programs_the_same_is_what_is_written_in_them():
    again = hr.program(**event_window.WINDOW)
    assert checksum_of(again) == checksum_of(WINDOW)
    other = hr.program(**event_window.WINDOW | {"state": {"sum": 1}})
    assert len({checksum_of(one) for one in (WINDOW, other, WORDS)}) == 3


def test_wrong_options_say_what_to_give(tmp_path):
    for options, said in (
        ({"checkpoint": 3}, "checkpoint=3: give the path of a folder"),
        ({"checkpoint_every": 3}, "where are checkpoints to be kept"),
        ({"checkpoint": tmp_path, "checkpoint_every": 0}, "checkpoint_every=0: give a whole number"),
        ({"checkpoint": tmp_path, "checkpoint_when": print}, "how often is it called"),
        ({"checkpoint": tmp_path, "checkpoint_every": 3, "checkpoint_when": "x"}, "give a function of the state"),
    ):
        with pytest.raises(ParameterError, match=said):
            WINDOW.start(PLAIN, **options)
    with pytest.raises(ArgumentError, match="checkpoint"):
        WINDOW.start(PLAIN, checkpoints=tmp_path)
    with pytest.raises(ParameterError, match=r"resume\(None\): give the folder"):  # a run from the beginning is none that goes on
        WINDOW.resume(None, PLAIN)


def test_where_there_are_none_it_is_said_why(tmp_path):
    table = pa.table({"ts": [1, 2, 61], "k": ["a", "a", "b"]})
    counts = hr.stream(table, event_time="ts").key_by("k").window(60).aggregate(n=hr.count())
    with pytest.raises(NotSupportedError, match="checkpoint=.*only programs"):
        counts.start(checkpoint=tmp_path / "kept")
    with pytest.raises(NotSupportedError, match="only programs"):  # no table in between would help
        counts.window(120).aggregate("all", n=hr.sum("n")).start(checkpoint=tmp_path / "kept")
    gated = Gated(BARRIERS, 1)
    sums = WINDOW.over({"value": VALUES, "barrier": gated.stream})
    with sums.start() as run:
        assert "checkpoint" not in run.capabilities.absent
        with pytest.raises(ParameterError, match="Give checkpoint= a folder when you start the run"):
            run.checkpoint()
        gated.is_open.set()
        assert run.wait(HANG_S) and run.checkpoints == []
        with pytest.raises(RunStoppedError, match=r"checkpoint\(\): the run is over"):
            run.checkpoint()
    gated = Gated(BARRIERS, 1)
    two = WINDOW.over({"value": VALUES, "barrier": gated.stream}).window("1s").aggregate(n=hr.count())
    with two.start() as run:
        assert "several operators" in run.capabilities.absent["checkpoint"]
        with pytest.raises(NotSupportedError, match="a query of several operators takes no checkpoints"):
            run.checkpoint()
        gated.is_open.set()
        assert run.wait(HANG_S)
