"""What the schedules decide: equations 1 to 3 of the paper, sections 6.1 to 6.4, on drawn figures.

Property    the stage that is taken is the one that the schedule's equation says, of those that have something to do and may
            have a worker more; -1 if there is none. A worker keeps others out of a partitioned stage where the rule of
            queues="auto" says so
Oracle      the equations in plain Python, equation 3 with the selectivity of the stages before; that rule in plain Python
Planted     each mistake of an equation is told by a decision that is another one
Cannot see  figures that change while a worker decides: then a decision may be of yesterday, never wrong (`test_oracle`)
"""

from collections import Counter

import numpy as np
import pytest

import headrace as hr
from headrace.memory.atomics import CELL
from headrace.ordering import arrays, schedule_kernel, words
from headrace.ordering.configuration import OWN_POLICY, SCHEDULES, Configuration, write_configuration
from headrace.ordering.options import OrderedOptions
from headrace.ordering.schedule_kernel import SHARING_NS, choose, claim_of, goes_alone
from planted_mistakes import fails, planted
from support.pipelines import SHAPES, some_rows

SLICE, WINDOW, BEHIND, LEAST = 200_000, 10_000_000, 3_000, 20
CAPACITY, WORKERS = 1024, 4
NOW = 50_000_000
NAMES = ["whole", "twice", "gap", "running", "chained", "chained2"]
MOST = [WORKERS, WORKERS, 100, 1, 1, 100]
"""Workers that a stage may have: a filter, a map, 100 buckets, one bucket, a stateful stage, 100 buckets."""
CASES = 400


def arrays_of(schedule, queues=arrays.AUTO):
    """What workers of a pipeline with these six stages share."""
    stream = SHAPES["six stages"].on(hr.stream(some_rows(np.random.default_rng(0), 1, 1), event_time="ts"))
    (bound,) = {id(each): each for each in stream.plan().output.spec.bound.values()}.values()
    c = arrays.allocate(bound, WORKERS, CAPACITY, 64, queues=queues, tuning=(SLICE, WINDOW, BEHIND, LEAST, SLICE))
    assert c.form[:, words.MOST].tolist() == MOST
    write_configuration(c, 0, Configuration(WORKERS, schedule, 64), NAMES)
    return c


def drawn(rng):
    """Figures of each stage: what waits, workers, cost in ns, tuples taken and made, worker time of the window."""
    return [
        {
            "waits": int(rng.choice([0, 1, rng.integers(2, 40), rng.integers(40, CAPACITY + 1), CAPACITY])),
            "workers": int(rng.integers(0, min(most, WORKERS) + 1)),
            "cost": float(rng.choice([0, 10, 10.0 ** rng.uniform(0, 6)])),
            "taken": int(rng.choice([0, 1_000, 1_000_000])),
            "made": int(rng.choice([0, 10, 1_000, 50_000_000])),
            "spent": int(rng.choice([0, rng.integers(1, WINDOW)])),
        }
        for most in MOST
    ]


def write(c, figures, begun):
    for stage, each in enumerate(figures):
        at = c.stage[stage * words.STAGE_CELLS * CELL :]
        at[words.HEAD] = 10_000 * stage
        at[words.TAIL] = 10_000 * stage + each["waits"]
        at[words.WORKERS] = each["workers"]
        c.known[stage, words.COST] = round(each["cost"] * words.COST_UNIT)
        c.known[stage, [words.TAKEN, words.MADE, words.WINDOW_NS]] = each["taken"], each["made"], each["spent"]
    c.known[len(figures), words.WINDOW_NS] = begun


def priorities(schedule, figures, begun):
    """Of each stage, by the paper: the largest is taken, the earliest of several; None: it cannot be."""
    selectivity = [(each["made"] + 1) / (each["taken"] + 1) for each in figures]
    through = np.cumprod(selectivity)  # outputs for each tuple of the input
    before = [1.0, *through[:-1]]
    found = []
    for stage, each in enumerate(figures):
        cost = max(1, round(each["cost"] * words.COST_UNIT)) / words.COST_UNIT
        is_last = stage + 1 == len(figures)
        if each["waits"] == 0 or each["workers"] >= MOST[stage]:
            found.append(None)
        elif schedule == "qst":
            most = min(max(1.0, BEHIND * through[stage] / through.sum()), CAPACITY)  # equation 1
            found.append(-stage if is_last or figures[stage + 1]["waits"] < most else None)
        elif schedule == "lp":
            found.append(stage if each["waits"] >= LEAST else None)
        elif schedule == "et":
            found.append(each["waits"] * cost / (each["workers"] + 1))  # equation 2
        else:
            spent = 0 if NOW - begun > WINDOW else each["spent"]
            found.append(-(spent + each["workers"] * SLICE) / (cost * before[stage]))  # equation 3
    return found


def check_claims():
    c, rng = arrays_of("ct"), np.random.default_rng(3)
    for _ in range(CASES):
        cost, batch = int(rng.choice([1, 3, 100, 999, SLICE // 7, SLICE, 3 * SLICE])), int(rng.integers(1, 257))
        c.known[2, words.COST] = cost * words.COST_UNIT
        assert claim_of(c, 2, batch) == max(1, min(batch, SLICE // cost)), f"claims of {cost} ns a record"
    c.known[2, words.COST] = 1  # less than a nanosecond
    assert claim_of(c, 2, 256) == 256, "claims of cheap records"
    c.known[2, words.COST] = 0
    assert claim_of(c, 2, 256) == 1, "claims of records whose cost is not known yet"


def test_oracle_a_claim_takes_no_longer_than_a_time_slice():
    check_claims()


def check(schedule, cases=CASES):
    rng, chosen = np.random.default_rng(sorted(SCHEDULES).index(schedule)), []
    c = arrays_of(schedule)
    for _ in range(cases):
        figures, begun = drawn(rng), NOW - int(rng.choice([WINDOW // 2, WINDOW, WINDOW + 1, 2 * WINDOW]))
        write(c, figures, begun)
        wanted = priorities(schedule, figures, begun)
        stage = choose(0, c, 0, NOW)
        best = max((each for each in wanted if each is not None), default=None)
        if best is None:
            assert stage == -1, f"stage {stage} cannot be taken: {wanted}"
        else:
            assert stage >= 0 and wanted[stage] is not None, f"stage {stage}: {wanted}"
            assert wanted[stage] == pytest.approx(best, rel=1e-9), f"stage {stage}: {wanted}"
            if schedule in ("qst", "lp"):
                assert stage == wanted.index(best), f"stage {stage}: {wanted}"
        chosen.append(stage)
    return chosen


@pytest.mark.logic
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_oracle_decisions_are_those_of_the_equations(schedule):
    assert set(check(schedule)) >= set(range(len(MOST))), "each stage is taken at times"


@pytest.mark.logic
def test_example_thresholds_of_equation_1():
    """A stage that makes fifty of one may have fifty times as many tuples behind it as the stage before it."""
    c = arrays_of("qst")
    figures = [{"waits": 1, "workers": 0, "cost": 10, "taken": 10**9, "made": 10**9, "spent": 0} for _ in MOST]
    figures[1]["made"] = 50 * 10**9
    for stage in range(2, 6):
        figures[stage]["made"] = 0  # of nothing is left: at least one tuple may wait there
    # For each tuple of the input there are 1, 50, and then next to no outputs: 3,000 / 51 may wait behind the first stage.
    for waits, taken in ((58, 0), (59, 1)):
        figures[1]["waits"] = waits
        write(c, figures, NOW)
        assert choose(0, c, 0, NOW) == taken, waits
    figures[2]["waits"] = CAPACITY  # whatever the share, the ring is full
    write(c, figures, NOW)
    assert choose(0, c, 0, NOW) == 5, "one waits behind each of the others, which is the most; the last one is always taken"


@pytest.mark.logic
def test_example_workers_by_stage():
    """A worker that has a stage chooses that or none; one that has none, the last that has enough to do."""
    c = arrays_of({"gap": 1, "twice": 1})
    figures = [{"waits": 50, "workers": 0, "cost": 10, "taken": 0, "made": 0, "spent": 0} for _ in MOST]
    write(c, figures, NOW)
    assert [int(choose(me, c, 0, NOW)) for me in range(WORKERS)] == [2, 1, 5, 5]
    figures[2]["waits"], figures[5]["waits"] = 0, LEAST - 1
    write(c, figures, NOW)
    assert [int(choose(me, c, 0, NOW)) for me in range(WORKERS)] == [-1, 1, 4, 4]


def test_example_what_may_wait_behind_all_stages():
    """Half of what the rings hold, unless it is said."""
    assert OrderedOptions(capacity=256).tuning(6)[schedule_kernel.QST_CAPACITY] == 6 * 128
    assert OrderedOptions(most_behind=7, window="1ms").tuning(6) == (200_000, 1_000_000, 7, 1, 200_000)


# -- a worker alone at a partitioned stage


PARTITIONED = (2, 3, 5)
ALLOTTED = {"gap": 1}


def is_better_alone(figures, stage, workers):
    """All the time that others have work for, in ns of a tuple of the input, is enough for one worker to do this stage's part."""
    selectivity = [(each["made"] + 1) / (each["taken"] + 1) for each in figures]
    before = [1.0, *np.cumprod(selectivity)[:-1]]
    costs = [max(1, round(each["cost"] * words.COST_UNIT)) / words.COST_UNIT for each in figures]
    of_all = sum(part * cost for part, cost in zip(before, costs, strict=True)) + before[stage] * SHARING_NS
    return before[stage] * costs[stage] <= of_all / workers


def check_alone():
    """Whether each stage is taken alone, of drawn figures; returns how often partitioned ones of several workers are or not."""
    c, rng, found = arrays_of("ct"), np.random.default_rng(8), Counter()
    for _ in range(CASES):
        figures, workers = drawn(rng), int(rng.integers(1, WORKERS + 1))
        schedule = [*SCHEDULES, OWN_POLICY, ALLOTTED][rng.integers(len(SCHEDULES) + 2)]
        is_ours = schedule not in (OWN_POLICY, ALLOTTED)
        write(c, figures, NOW)
        write_configuration(c, 0, Configuration(workers, schedule, 64), NAMES)
        for stage in range(len(MOST)):
            wanted = stage in PARTITIONED and (workers == 1 or (is_ours and is_better_alone(figures, stage, workers)))
            assert bool(goes_alone(c, stage)) == wanted, f"alone at stage {stage}: {figures}, {workers} workers, {schedule}"
            if stage in PARTITIONED and workers > 1 and is_ours:
                found[wanted] += 1
    return found


@pytest.mark.logic
def test_oracle_a_worker_is_alone_where_sharing_takes_longer():
    found = check_alone()
    assert min(found[True], found[False]) > CASES // 10, "both happen"


@pytest.mark.logic
@pytest.mark.parametrize("queues", [kind for kind in arrays.QUEUE_KINDS if kind != arrays.AUTO])
def test_example_nobody_is_alone_unless_it_is_left_to_the_engine(queues):
    c = arrays_of("ct", queues)
    write_configuration(c, 0, Configuration(1, "ct", 64), NAMES)
    assert not any(goes_alone(c, stage) for stage in range(len(MOST)))


@pytest.mark.logic
@pytest.mark.parametrize(("workers", "most"), [(2, 110), (3, 55)])
def test_example_what_a_stage_may_cost_that_is_not_shared(workers, most):
    """The other five take 10 ns each, and sharing would take 60: two workers have 110 + x ns to do, of which one does x."""
    c = arrays_of("ct")
    write_configuration(c, 0, Configuration(workers, "ct", 64), NAMES)
    figures = [{"waits": 1, "workers": 0, "cost": 10, "taken": 10**9, "made": 10**9, "spent": 0} for _ in MOST]
    for cost, alone in ((most, True), (most + 1, False)):
        figures[2]["cost"] = cost
        write(c, figures, NOW)
        assert bool(goes_alone(c, 2)) == alone, cost


PLANTED_ALONE = {
    "sharing costs nothing": ("            of_all += before * SHARING_NS\n", ""),
    "sharing costs as much at every stage": ("of_all += before * SHARING_NS", "of_all += SHARING_NS"),
    "as if there were two workers": ("of_stage * workers <= of_all", "of_stage * 2 <= of_all"),
    "each stage by the tuples that it gets": ("            of_stage = before * cost(", "            of_stage = cost("),
    "the stages after it do not count": (
        "            of_all += before * SHARING_NS\n", "            of_all += before * SHARING_NS\n            break\n",
    ),
    "the rule the other way round": ("of_stage * workers <= of_all", "of_stage * workers > of_all"),
    "a single worker shares with itself": ("    if workers == 1:\n        return True\n", ""),
    "where workers are allotted": ("        return False  # how many workers a stage has is then up to the user's schedule\n",
                                   "        pass\n"),
    "whatever queues were asked for": ("    if c.form[stage, MAY_BE_ALONE] == 0:\n        return False\n", ""),
}  # fmt: skip


@pytest.mark.interpreted
@pytest.mark.parametrize("mistake", PLANTED_ALONE)
def test_planted_mistakes_of_a_worker_alone(mistake):
    with planted(schedule_kernel, *PLANTED_ALONE[mistake]), fails("AssertionError: alone"):
        check_alone()


# -- planted mistakes


PLANTED = {
    "equation 1: the same for all": ("qst", "max(1.0, share * through)", "max(1.0, share)"),
    "equation 1: without the stage's own selectivity": (
        "qst",
        "        through *= selectivity(c, stage)\n        if is_schedulable(c, stage):\n",
        "        before = through\n        through *= selectivity(c, stage)\n        through, before = before, through\n"
        "        if is_schedulable(c, stage):\n",
    ),
    "equation 1: the ring is not full": ("qst", ", c.form[stage + 1, MASK] + 1.0)", ", 1e9)"),
    "the last stage has a threshold": ("qst", "            if stage + 1 == stages:\n                return stage\n", ""),
    "the first that has something": ("lp", "range(c.form.shape[0] - 1, -1, -1)", "range(c.form.shape[0])"),
    "less than enough": ("lp", " and worklist(c, stage) >= least", ""),
    "equation 2: without the workers": ("et", " / (workers + 1)", ""),
    "equation 2: without the cost": ("et", "worklist(c, stage) * cost(c, stage)", "worklist(c, stage)"),
    "equation 3 as printed": ("ct", "(cost(c, stage) * before)", "(cost(c, stage) * before * selectivity(c, stage))"),
    "equation 3: without the workers there": ("ct", " + workers * c.tuning[TIME_SLICE]", ""),
    "a window that never ends": ("ct", "            store_relaxed(c.known[stage], WINDOW_NS, 0)\n", "            pass\n"),
    "more workers than a stage may have": ("et", " and load_relaxed(c.stage, cell(stage, WORKERS)) < c.form[stage, MOST]", ""),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes_of_a_schedule(mistake):
    schedule, text, wrong = PLANTED[mistake]
    with planted(schedule_kernel, text, wrong), fails("AssertionError: stage|IndexError"):
        check(schedule)


PLANTED_CLAIMS = {
    "whatever it takes": ("min(batch, c.tuning[LONGEST_CLAIM] // max(1, spent // COST_UNIT))", "batch"),
    "a whole batch, whatever one may cost": ("        return 1\n", "        return batch\n"),
    "no record that takes longer than a slice": ("max(1, min(batch, c.tuning", "max(0, min(batch, c.tuning"),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("mistake", PLANTED_CLAIMS)
def test_planted_mistakes_of_a_claim(mistake):
    with planted(schedule_kernel, *PLANTED_CLAIMS[mistake]), fails("AssertionError: claims"):
        check_claims()
