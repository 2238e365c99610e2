"""Ordered pipelines give the sequence that one worker would, bit for bit: Definition 5.1 and Theorem 5.2 of the paper.

Method: chains of one to six stages of every kind on random input, under drawn options (threads, schedule, queues, reorder
scheme, batch, capacity of the rings, changes while running), compared with `headrace.reference.ordering`. The options are
data to the kernels, so each chain is compiled once. Of chains that are drawn themselves, no two of them alike, most are
interpreted, and a few compiled.
Cannot see: which interleavings came about (`test_interleave`).
"""

import math
import random
from collections import Counter

import numpy as np
import pytest

import headrace as hr
from headrace.ordering import arrays, section, words
from support import random_chains
from support.campaign import rarely
from support.pipelines import QUEUES, SCHEDULES, SHAPES, drawn_options, some_rows

COMBINATIONS, TAKES = 504, 7
"""Of shape, input and options; of options for each input."""
ROUNDS = 100


def check(shape, tables, *options):
    expected = SHAPES[shape].expected(tables)
    pipeline = SHAPES[shape].on(hr.stream(tables, event_time="ts"))  # reading its functions takes longer than most runs
    for each in options:
        assert pipeline.to_arrow(**each).to_pylist() == expected, each


EVERY_DAY = [shape for shape in SHAPES if shape != "containers and strings"]
"""Its only stage is one of "strings through five stages", and forgets nothing, as "forgotten keys" does."""


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*EVERY_DAY, *rarely("containers and strings")])
def test_oracle_any_options(shape):
    """In all 504 combinations every day, at least 500 of which are promised; the reference is asked once for each input."""
    rng = np.random.default_rng(sorted(SHAPES).index(shape))
    for case in range(math.ceil(COMBINATIONS / len(EVERY_DAY) / TAKES)):
        rows = (2000, 50, 300, 0, 1, 700)[case % 6] // (4 if shape == "many outputs" else 1)
        sources = 2 if case % 5 == 0 else 1
        tables = [some_rows(rng, rows, int(rng.choice([1, 3, 200]))) for _ in range(sources)]
        check(shape, tables, *(drawn_options(rng) for _ in range(TAKES)))


def check_drawn(seed, takes, rows=None):
    """One drawn chain, over so many rows or a few; how many stages it has, and whether anything comes of the rows."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    shape = random_chains.chain(draw)
    is_wide = any(function is random_chains.fifty for _, function, _ in shape.stages)
    few = draw.choice([0, 1, 12]) if is_wide else draw.choice([0, 1, 20, 60])
    table = random_chains.rows(draw, few if rows is None else rows)
    expected = shape.expected([table])
    pipeline = shape.on(hr.stream(table, event_time="ts"))
    for _ in range(takes):
        options = drawn_options(rng, table.num_rows + 1, 4)
        assert pipeline.to_arrow(**options).to_pylist() == expected, (seed, options)
    return len(shape.stages), bool(expected)


@pytest.mark.slow
@pytest.mark.interpreted
def test_oracle_drawn_pipelines():
    seen = Counter(check_drawn(seed, 2) for seed in range(6, 21))  # among them are all lengths
    assert {length for length, has_rows in seen if has_rows} == {1, 2, 3, 4, 5, 6}


COMPILED = {
    39: {"partitioned", "filter"},
    73: {"map", "flat_map", "partitioned"},
    297: {"partitioned", "map", "filter", "stateful"},
}
"""Chains that are compiled, by their seeds: kinds of their stages. In the last one, two stateful stages give rows at the end."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", COMPILED)
def test_oracle_drawn_pipelines_compiled(seed):
    """With threads of their own; few, since each has to be compiled."""
    stages = random_chains.chain(random.Random(seed)).stages
    assert {kind for kind, _, _ in stages} == COMPILED[seed]
    assert sum("end" in given for _, _, given in stages) == (2 if "stateful" in COMPILED[seed] else 0)
    _, has_rows = check_drawn(seed, 20, rows=700)
    assert has_rows


@pytest.mark.campaign
@pytest.mark.interpreted
def test_campaign_drawn_pipelines():
    for seed in range(1_000, 1_500):
        check_drawn(seed, 4)


@pytest.mark.campaign
def test_campaign_drawn_pipelines_compiled():
    for seed in range(2_000, 2_060):
        check_drawn(seed, 10)


@pytest.mark.parametrize("queues", [QUEUES[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in QUEUES[1:])])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_oracle_each_way_of_running(schedule, queues):
    rng = np.random.default_rng(7)
    tables = [some_rows(rng, 2000, 20)]
    for reorder in ("nonblocking", "lock"):
        check("figure 1", tables, {"threads": 4, "schedule": schedule, "queues": queues, "reorder": reorder, "batch": 8})


def test_oracle_allotted_workers():
    tables = [some_rows(np.random.default_rng(3), 3000, 20)]
    check("figure 1", tables, {"threads": 4, "schedule": {"gap": 2, "running": 1}})


def longest_wait(stage):
    return stage.backlog * stage.cost / (stage.workers + 1) if stage.behind < 500 else -1.0


def worst(stage):
    return stage.position * 0.0


def most_work(stage):
    return -stage.selectivity * stage.most - stage.count


@pytest.mark.parametrize("policy", [longest_wait, most_work, *rarely(worst)])
def test_oracle_schedules_of_ones_own(policy):
    tables = [some_rows(np.random.default_rng(3), 3000, 20)]
    changes = [(1000, {"schedule": "lp"}), (2000, {"schedule": "own"})]
    check("figure 1", tables, {"threads": 3, "schedule": policy, "reconfigure": changes})


@pytest.mark.slow
def test_oracle_rings_wrap_many_times(monkeypatch):
    """Every ring a hundred times and more: the gate's, those of all stages with their slots and queues, that of the results."""
    monkeypatch.setattr(section, "GATE_CAPACITY", 1 << 6)
    monkeypatch.setattr(section, "OUTPUT_CAPACITY", 1 << 5)
    tables = [some_rows(np.random.default_rng(5), 10_000, 50)]
    expected = SHAPES["figure 1"].expected(tables)
    assert len(expected) > ROUNDS * section.OUTPUT_CAPACITY and 10_000 > ROUNDS * section.GATE_CAPACITY
    for queues, reorder in [*((kind, "nonblocking") for kind in QUEUES), ("hybrid", "lock"), ("shared", "lock")]:
        for capacity in (2, 32):
            stream = SHAPES["figure 1"].on(hr.stream(tables, event_time="ts"))
            with stream.start(threads=3, capacity=capacity, batch=4, queues=queues, reorder=reorder) as run:
                run.wait()
            assert run.to_arrow().to_pylist() == expected, (queues, reorder, capacity)
            assert min(run["running"].metrics().taken.values()) > ROUNDS * capacity


@pytest.mark.parametrize("queues", QUEUES)
def test_oracle_tickets_turn_over(queues, monkeypatch):
    """Of each bucket just below 2**32 records have come, so that their numbers begin again at 0 while it runs."""
    turns_over, allocated = (1 << words.TICKET_BITS) - 20, arrays.allocate

    def late(*given, **options):
        c = allocated(*given, **options)
        c.bucket_tail[:] = turns_over
        c.bucket[words.SERVED :: words.BUCKET_WORDS] = turns_over
        return c

    monkeypatch.setattr(arrays, "allocate", late)
    table = some_rows(np.random.default_rng(9), 3_000, 12)
    stream = SHAPES["figure 1"].on(hr.stream(table, event_time="ts"))
    for reorder, capacity in (("nonblocking", 16), ("lock", 1024)):
        with stream.start(threads=4, max_threads=4, queues=queues, batch=8, reorder=reorder, capacity=capacity) as run:
            run.wait()
        assert run.to_arrow().to_pylist() == SHAPES["figure 1"].expected([table]), (queues, reorder)
        (section,) = run._execution.sections.values()
        assert section.arrays.bucket_tail.min() > 1 << words.TICKET_BITS, "each bucket has had more"
