"""Random programs on random plans: the outputs are those of one event after another, bit for bit.

Property    outputs are those of `headrace.reference.synchronization.run`, in their order, for any dependence relation, any
            valid plan (trees and forests of any shape, and those that `plan` makes), states that may stay joined and those
            that are forked behind every join, heartbeats, threads, planned changes of threads and of the plan, one input or
            several, with many ties; the same ones, in any order, with ``order="none"``
Oracle      the sequential specification; a result tells which of the events that it depends on came before it
            (`support.random_programs`), so that one event out of its turn shows
Counted     20 seeds of 26 runs, each with a plan and options of its own: 520; a campaign has 400 seeds
Cannot see  interleavings that did not happen (test_interleave.py)
"""

import os
import random
from collections import Counter

import pytest

import headrace as hr
from headrace.reference import synchronization as reference
from headrace.synchronization.binding import bind
from headrace.synchronization.plans import implementation_tags
from support.program_results import as_promised
from support.random_programs import STREAMS, TAGS, random_events, random_plan, random_program, table_of

SEEDS, PER_SEED = 20, 26
"""Seeds of every day; runs of a seed: as many plans, for a few programs and inputs."""
CAMPAIGN = int(os.environ.get("HEADRACE_PLANS", "400"))
"""Seeds of a campaign."""
HANG_S = 120


def as_one_input(rng, program, count):
    """All tags come from one table, whose columns say tag and stream."""
    rows = random_events(rng, program, count, TAGS)
    given = [(row["ts"], row["tag"], row) for row in rows]
    return {TAGS: hr.streams(table_of(rows), STREAMS, by="s", tag="tag")}, [given]


def as_several_inputs(rng, program, count):
    """Each tag has a table, whose column says the stream."""
    inputs, given = {}, []
    for tag in TAGS:
        rows = random_events(rng, program, rng.choice([0, 1, count // 3, count // 2]), [tag])
        inputs[tag] = hr.streams(table_of(rows), STREAMS, by="s")
        given.append((tag, [(row["ts"], row) for row in rows]))
    return inputs, given


def drawn_options(rng, program):
    tags = implementation_tags(program, dict.fromkeys(TAGS, STREAMS))
    way = rng.choice(["random"] * 6 + ["auto", "chain", "flat"])
    options = {
        "plan": random_plan(rng, program, tags) if way == "random" else way, "threads": rng.randint(1, 4), "max_threads": 4,
        "heartbeat": rng.choice([1, 2, 7, 100, 1024, "off"]),
    }  # fmt: skip
    if way != "random":
        options["leaves"] = rng.choice([1, 2, 5, 9])
    if rng.random() < 0.3:
        wishes = [rng.randint(1, 4), {"plan": random_plan(rng, program, tags)}]
        wishes.append({"threads": rng.randint(1, 4), "plan": random_plan(rng, program, tags)})
        options["reconfigure"] = [(at, rng.choice(wishes)) for at in sorted(rng.randint(0, 200) for _ in range(3))]
    if rng.random() < 0.3:
        options["order"] = "none"
    return options


def drawn_runs(seed, combinations):
    """So many runs: program, inputs, the same as the reference takes them, and options. Several have one program and inputs."""
    rng = random.Random(seed)
    done = 0
    while done < combinations:
        program = random_program(rng)
        inputs, given = rng.choice([as_one_input, as_several_inputs])(rng, program, rng.choice([5, 60, 400, 1500]))
        for _ in range(min(combinations - done, 7)):
            done += 1
            yield program, inputs, given, drawn_options(rng, program)


def run_seed(seed, combinations):
    known = None
    for program, inputs, given, options in drawn_runs(seed, combinations):
        if known is not program:
            known, stream, expected = program, program.over(inputs), reference.run(program, given)
        with stream.start(**options) as run:
            assert run.wait(HANG_S), f"seed {seed}: no end with {options}"
        found = run.to_arrow().to_pylist()
        assert as_promised(options, found) == as_promised(options, expected), f"seed {seed}: {options}"
        metrics = run.metrics().operators["program"]
        assert metrics.balance.faults == () and metrics.lost_wakeups == 0
        assert metrics.stays == 0 or "unused" not in program.state, "a state with a float stayed joined"
        assert len(run.changes) == len(options.get("reconfigure", ()))


def test_example_what_is_drawn():
    """Among the runs of every day, and in good numbers: both kinds of states, each in trees and in forests."""
    counts, programs = Counter(), {}
    for seed in range(SEEDS):
        for program, _, _, options in drawn_runs(seed, PER_SEED):
            wishes = [wish["plan"] for _, wish in options.get("reconfigure", ()) if isinstance(wish, dict)]
            plans = [plan for plan in (options["plan"], *wishes) if isinstance(plan, hr.Plan)]
            state = "forks" if "unused" in program.state else "stays"
            programs[state] = program
            counts[state] += 1
            counts[state, "tree"] += any(len(plan.roots) == 1 and len(plan.leaves) > 1 for plan in plans)
            counts[state, "forest"] += any(len(plan.roots) > 1 for plan in plans)
            counts[state, "forest of trees"] += any(len(plan.leaves) > len(plan.roots) > 1 for plan in plans)
    assert counts["stays"] + counts["forks"] == SEEDS * PER_SEED >= 500
    assert {state: bind(program).may_stay_joined for state, program in programs.items()} == {"stays": True, "forks": False}
    assert len(counts) == 8 and min(counts.values()) >= 20, counts


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_oracle_random_programs_on_random_plans(seed):
    run_seed(seed, PER_SEED)


@pytest.mark.campaign
def test_oracle_random_programs_on_random_plans_for_long():
    for seed in range(1000, 1000 + CAMPAIGN):
        run_seed(seed, PER_SEED)
