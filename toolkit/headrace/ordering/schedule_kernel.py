"""Which stage a worker takes next: the heuristics of section 6, without a central scheduler.

Each worker decides for itself, from figures that others write meanwhile. They may be
a little out of date: the decision is then a little worse, and never wrong, since a stage
that has nothing to claim, or as many workers as it may have, sends the worker back.

A stage is schedulable if its worklist is not empty and it has fewer workers than it
may have: one if it is stateful, one for each bucket if it is partitioned. At a partitioned stage
a single worker may also keep out all others (`goes_alone`, which is not in the paper).

=====  =================================================================================
QST    the first one whose outputs the next stage has use for: fewer than T = C * cs / sum(cs)
       wait there (equation 1). Here cs is the selectivity of all stages up to and including it,
       its outputs for each tuple of the input, and C is how many may wait in all.
       T is at least 1, and at most what the ring holds; the last stage: always
LP     the last one with at least `least` records in its worklist
ET     the one with the most work before it: I * c / (w + 1), equation 2, where I tuples wait there,
       each costs c nanoseconds, and w workers are there
CT     the one with the least normalized throughput in the window: (T + w * s) / (c * cs),
       equation 3, where T was spent there in the window, s is the time slice, and cs the selectivity
       of all stages *before* it: its tuples for each tuple of the input
FIXED  the one to which the worker is allotted; without one, as LP
OWN    the most urgent one according to the user's function (`template`, choose_own)
=====  =================================================================================

Source      Prasaad, Ramalingam and Rajan, sections 6.1 (QST), 6.2 (LP), 6.3 (ET) and 6.4 (CT); section 2.2 has one scheduler
            for all workers
Checked     tests/headrace/ordering/test_schedules.py; a worker alone at a stage: test_interleave.py beside it (sampled)
"""

from headrace.kernel import kernel
from headrace.memory.atomics import load_acquire, load_relaxed, store_relaxed
from headrace.ordering.buffer_kernel import cell
from headrace.ordering.words import (
    A_COUNT,
    COST,
    COST_UNIT,
    CT,
    END_AT,
    ET,
    FIXED,
    HEAD,
    KIND,
    MADE,
    MASK,
    MAY_BE_ALONE,
    MOST,
    OWN,
    QST,
    SCHEDULE,
    STATEFUL,
    TAIL,
    TAKEN,
    WINDOW_NS,
    WORKERS,
)
from headrace.workers.changes_kernel import CONFIG
from headrace.workers.worker_kernel import THREADS

# Columns of `tuning`: parameters of the heuristics, from `start`, and how long a claim may take.
TIME_SLICE, CT_WINDOW, QST_CAPACITY, LP_LEAST, LONGEST_CLAIM = range(5)

SHARING_NS = 60.0
"""How much longer a tuple of a partitioned stage takes where workers share the stage: cache lines of buckets change cores."""


@kernel
def worklist(c, stage):
    """How many records wait to be claimed."""
    tail = load_acquire(c.stage, cell(stage, TAIL))
    if c.form[stage, KIND] != STATEFUL:
        tail = min(tail, load_relaxed(c.stage, cell(stage, END_AT)))
    return tail - load_relaxed(c.stage, cell(stage, HEAD))


@kernel
def is_schedulable(c, stage):
    return worklist(c, stage) > 0 and load_relaxed(c.stage, cell(stage, WORKERS)) < c.form[stage, MOST]


@kernel
def workers_at(c, stage):
    return load_relaxed(c.stage, cell(stage, WORKERS)) & A_COUNT


@kernel
def selectivity(c, stage):
    """Outputs for each record, as seen so far; never 0."""
    return (load_relaxed(c.known[stage], MADE) + 1.0) / (load_relaxed(c.known[stage], TAKEN) + 1.0)


@kernel
def cost(c, stage):
    """Nanoseconds for each record, as seen lately; never 0."""
    return max(1, load_relaxed(c.known[stage], COST)) / COST_UNIT


@kernel
def claim_of(c, stage, batch):
    """Records of a claim: at most a batch, and no more than fit into LONGEST_CLAIM; one while a record's cost is unknown.

    No other worker takes what one has claimed, and everything after it in order waits for it.
    """
    spent = load_relaxed(c.known[stage], COST)
    if spent == 0:
        return 1
    return max(1, min(batch, c.tuning[LONGEST_CLAIM] // max(1, spent // COST_UNIT)))


@kernel
def goes_alone(c, stage):
    """Whether a worker should take all buckets of a partitioned stage at once.

    With a single worker here, the others are busy elsewhere as long as there is other work: a tuple then takes at least
    the time of this stage alone. With several, they share all the work, and also the cost of sharing this stage.
    """
    if c.form[stage, MAY_BE_ALONE] == 0:
        return False
    config = load_relaxed(c.words, CONFIG)
    workers = c.rows[config, THREADS]
    if workers == 1:
        return True
    if c.rows[config, SCHEDULE] == FIXED or c.rows[config, SCHEDULE] == OWN:
        return False  # how many workers a stage has is then up to the user's schedule
    of_all = of_stage = 0.0
    before = 1.0
    for other in range(c.form.shape[0]):
        of_all += before * cost(c, other)
        if other == stage:
            of_stage = before * cost(c, other)
            of_all += before * SHARING_NS
        before *= selectivity(c, other)
    return of_stage * workers <= of_all


@kernel
def choose(me, c, config, now):
    """The stage for worker `me`, or -1 if none is schedulable."""
    schedule = c.rows[config, SCHEDULE]
    if schedule == QST:
        return first_with_use(c)
    if schedule == ET:
        return most_before_it(c)
    if schedule == CT:
        return least_throughput(c, now)
    if schedule == FIXED and c.fixed[config, me] >= 0:
        return c.fixed[config, me] if is_schedulable(c, c.fixed[config, me]) else -1
    return last_ready(c, c.tuning[LP_LEAST])


@kernel
def first_with_use(c):
    """QST."""
    stages = c.form.shape[0]
    of_all = 0.0
    through = 1.0
    for stage in range(stages):
        through *= selectivity(c, stage)
        of_all += through
    share = c.tuning[QST_CAPACITY] / of_all
    through = 1.0
    for stage in range(stages):
        through *= selectivity(c, stage)
        if is_schedulable(c, stage):
            if stage + 1 == stages:
                return stage
            most = min(max(1.0, share * through), c.form[stage + 1, MASK] + 1.0)
            if worklist(c, stage + 1) < most:
                return stage
    return -1


@kernel
def last_ready(c, least):
    """LP."""
    for stage in range(c.form.shape[0] - 1, -1, -1):
        if is_schedulable(c, stage) and worklist(c, stage) >= least:
            return stage
    return -1


@kernel
def most_before_it(c):
    """ET."""
    found = -1
    most = -1.0
    for stage in range(c.form.shape[0]):
        if is_schedulable(c, stage):
            workers = workers_at(c, stage)
            priority = worklist(c, stage) * cost(c, stage) / (workers + 1)
            if priority > most:
                found = stage
                most = priority
    return found


@kernel
def least_throughput(c, now):
    """CT."""
    stages = c.form.shape[0]
    if now - load_relaxed(c.known[stages], WINDOW_NS) > c.tuning[CT_WINDOW]:
        store_relaxed(c.known[stages], WINDOW_NS, now)
        for stage in range(stages):
            store_relaxed(c.known[stage], WINDOW_NS, 0)
    found = -1
    least = 0.0
    before = 1.0
    for stage in range(stages):
        if is_schedulable(c, stage):
            workers = workers_at(c, stage)
            spent = load_relaxed(c.known[stage], WINDOW_NS) + workers * c.tuning[TIME_SLICE]
            throughput = spent / (cost(c, stage) * before)
            if found < 0 or throughput < least:
                found = stage
                least = throughput
        before *= selectivity(c, stage)
    return found


__all__ = [
    "CT_WINDOW",
    "LONGEST_CLAIM",
    "LP_LEAST",
    "QST_CAPACITY",
    "TIME_SLICE",
    "choose",
    "claim_of",
    "cost",
    "goes_alone",
    "is_schedulable",
    "selectivity",
    "workers_at",
    "worklist",
]
