"""Reconfiguring while the stream runs changes nothing in the result.

Property    any schedule of reconfigurations, planned at tuple counts or asked
            for while the run goes on, gives the bits of one thread and of the
            reference
Oracle      `headrace.reference`, through `support.workloads`
Schedules   by seed: a failing one is named by shape and seed. 200 and more
            here; HEADRACE_SCHEDULE_RUNS=10000 makes it the campaign
Cannot see  which interleavings the machine took; tests/headrace/control/
            test_planted_bugs.py shows that these schedules find real mistakes
"""

import os
import random

import pytest

import headrace as hr
from support.workloads import (
    SHAPE_CASES,
    SHAPES,
    Steered,
    Workload,
    draw_workload,
    eventually,
    examples,
    processed,
    steer,
)

RUNS = int(os.environ.get("HEADRACE_SCHEDULE_RUNS", "300"))
PER_SHAPE = -(-RUNS // len(SHAPES))
MAX_THREADS = 8


def members(draw: random.Random):
    """A wish for threads: a number, or the instances themselves."""
    if draw.random() < 0.7:
        return draw.randint(1, draw.choice([2, MAX_THREADS]))
    return sorted(draw.sample(range(MAX_THREADS), draw.randint(1, 4)))


def scattered(draw: random.Random, instances: list[int]) -> hr.Mapping:
    """A mapping that is not contiguous, some of the instances owning nothing now and then."""
    own = draw.sample(instances, draw.randint(1, len(instances)))
    return hr.Mapping([draw.choice(own) for _ in range(1024)])


def planned_schedule(draw: random.Random, rows: int):
    """Rising tuple counts, several at one place and some beyond the end."""
    places = sorted(draw.choice([0, rows, rows + 5, draw.randint(0, rows + 1)]) for _ in range(draw.randint(1, 6)))
    if draw.random() < 0.3:
        places = [places[0]] * len(places)
    return [(at, members(draw)) for at in places]


def run_planned(workload: Workload, draw: random.Random) -> None:
    schedule = planned_schedule(draw, workload.rows)
    with workload.query(batch_rows=draw.choice([1, 7, 1 << 16])).start(
        threads=members(draw),
        max_threads=MAX_THREADS,
        reconfigure=schedule,
        capacity=draw.choice([1, 16, 1 << 14]),
        **workload.options,
    ) as run:
        assert run.wait(180)
        assert [change.planned_at for change in run.changes] == [at for at, _ in schedule], (str(workload), schedule)
        assert all(change.outcome == "done" for change in run.changes)
        workload.assert_right(run.to_arrow())


def run_live(workload: Workload, draw: random.Random) -> None:
    """Batches come one by one; between them the test asks for changes, and sometimes waits for one."""
    inputs = [
        Steered(table, [draw.randint(1, 20) for _ in range(draw.randint(0, 6))]) for table in workload.tables()
    ]
    turns = [source for source in inputs for _ in range(source.batches)]
    draw.shuffle(turns)
    schedule = planned_schedule(draw, workload.rows) if draw.random() < 0.3 else []
    with workload.query(inputs).start(
        threads=members(draw), max_threads=MAX_THREADS, reconfigure=schedule, **workload.options
    ) as run:
        changes = []
        for source in turns:
            for _ in range(draw.choice([0, 0, 1, 2, 5])):
                wish = members(draw)
                if draw.random() < 0.3:
                    instances = list(range(wish)) if isinstance(wish, int) else wish
                    changes.append(run.reconfigure(threads=wish, mapping=scattered(draw, instances)))
                else:
                    changes.append(run.reconfigure(threads=wish))
            if changes and draw.random() < 0.3:
                changes[-1].wait(180)
                assert changes[-1].is_settled
            source.let()
        assert run.wait(180)
        for change in changes:
            assert change.wait(180).outcome in ("done", "no change", "superseded", "unneeded"), change
            if change.outcome == "done":
                assert change.requested_ns <= change.started_ns <= change.completed_ns, change
        workload.assert_right(run.to_arrow())


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPE_CASES, ids=str)
def test_agree_planned(shape):
    for seed in range(examples(PER_SHAPE // 2)):
        run_planned(draw_workload(shape, seed), random.Random(f"planned {seed}"))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPE_CASES, ids=str)
def test_agree_live(shape):
    for seed in range(examples(PER_SHAPE - PER_SHAPE // 2)):
        run_live(draw_workload(shape, 10_000 + seed), random.Random(f"live {seed}"))


def test_agree_fast_changes_under_load():
    """Thousands of rows at full speed while another thread changes 1 -> 2 -> 8 -> ... as fast as it can."""
    draw = random.Random(11)
    shape = SHAPES[1]
    workload = draw_workload(shape, 4, most_rows=60)
    rows = [dict(row) for _ in range(60) for row in workload.sources[0] or draw_workload(shape, 5).sources[0]]
    for at, row in enumerate(rows):
        row["ts"] = at // 3
    workload = Workload(shape, 4, [rows], workload.window, "tags")
    done = runs = 0
    while runs < 4 or done < 20:  # a slow machine makes fewer changes in a run
        runs += 1
        assert runs <= 40, f"{done} changes in 40 runs: too few to say anything"
        with workload.query(batch_rows=64).start(threads=1, max_threads=MAX_THREADS, rate=20_000.0) as run:
            while run.state == "running":
                change = steer(run, threads=members(draw))
                done += change is not None and change.wait(180).outcome == "done"
            assert run.wait(180)
            workload.assert_right(run.to_arrow())


@pytest.mark.slow
def test_agree_three_operators_reconfigured_independently():
    """counts per key -> the largest of them per number of windows -> forward; each with its own epochs."""
    table = draw_workload(SHAPES[0], 3, most_rows=60).tables()[0].slice(0, 0)
    draw = random.Random(17)
    rows = [row for seed in range(40) for row in (draw_workload(SHAPES[0], seed).sources or [[]])[0]]
    for at, row in enumerate(rows):
        row["ts"] = at // 2
    table = Workload(SHAPES[0], 0, [rows], None, "text").tables()[0]

    def query(source):
        counts = hr.stream(source, event_time="ts").key_by("k").window(10, 5).aggregate("counts", n=hr.count())
        tops = counts.key_by("n").window(20).aggregate("tops", keys=hr.count())
        return tops.forward("last")

    expected = query(table).to_arrow(threads=1).to_pylist()
    assert len(expected) > 20
    for seed in range(15):
        draw = random.Random(seed)
        source = Steered(table, [draw.randint(1, 60) for _ in range(12)])
        with query(source).start(
            threads={"counts": draw.randint(1, 4), "tops": draw.randint(1, 4), "last": draw.randint(1, 4)},
            max_threads=4,
        ) as run:
            assert run.operators == ("counts", "tops", "last")
            for _ in range(source.batches):
                name = draw.choice(run.operators)
                run[name].reconfigure(threads=draw.randint(1, 4))
                source.let()
                if draw.random() < 0.3:
                    eventually(processed(run, 1, "counts"))
            assert run.wait(180)
            assert run.to_arrow().to_pylist() == expected
            assert {change.operator for change in run.changes} <= set(run.operators)


def test_agree_fan_out_to_two_consumers():
    """One operator feeds two, whose results meet again; the buffers are much smaller than what passes."""
    table = pa_table(600)

    def query(source):
        counts = hr.stream(source, event_time="ts").key_by("k").window(10, 5).aggregate("counts", n=hr.count())
        few = counts.filter(hr.col("n") < 3)
        many = counts.filter(hr.col("n") >= 3)
        return few.union(many).forward()

    expected = query(table).to_arrow(threads=1).to_pylist()
    for threads in (1, 3):
        with query(table).start(threads=threads, max_threads=4, capacity=16) as run:
            for wish in (2, 4, 1):
                steer(run["counts"], threads=wish)
                steer(run["forward"], threads=5 - wish)
            assert run.wait(180), "a batch that goes to two inputs of one operator must not wait for itself"
            assert run.to_arrow().to_pylist() == expected


def pa_table(count: int):
    import pyarrow as pa

    draw = random.Random(23)
    return pa.table({"ts": [i // 30 for i in range(count)], "k": [draw.randrange(40) for _ in range(count)]})
