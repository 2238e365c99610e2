"""The arrays of a small ordered pipeline, for the schedule explorer, and what each kind of stage does to a value.

A stage is (kind, outputs of a value); a stage with state first adds ten times its state to the value.
"""

from collections import namedtuple

from headrace.ordering.arrays import PipelineArrays
from headrace.ordering.words import (
    FIRST_COLUMN,
    HYBRID,
    NONBLOCKING,
    PARTITIONED,
    STAGE_CELLS,
    STATEFUL,
    STATELESS,
    WORD_COUNT,
)
from headrace.progress import MIN_TIME
from interleave import copied

NEVER = 2**63 - 1
STRIDE = FIRST_COLUMN + 1
Shared = namedtuple("Shared", PipelineArrays._fields)
CONSTANTS = {"YIELD_EVERY": 1 << 30, "bucket_of": lambda key, buckets: key % buckets}
"""Constants of the kernels: a spinning worker never yields its core, and keys of both buckets occur."""


def arrays(
    k, kinds, *, batch=1, queues=HYBRID, reorder=NONBLOCKING, workers=2, first=8, room=2, results=16, memory=4000
):
    """The arrays that the workers of a pipeline share, and its result ring, before any step.

    Parameters
    ----------
    k : Kernels
    kinds : list of int
        Of each stage.
    batch, queues, reorder, workers : int
        As for `start`; all workers are active, and may run each stage.
    first, room, results : int
        Records that the first ring, the others and the result ring hold.
    memory : int
        Words for the rings and for waiting tuples.
    """
    form, words, slots, queue = [], 0, 0, 0  # `words` are counted after the first word of the arena
    for number, kind in enumerate(kinds):
        capacity = first if number == 0 else room
        row = [0] * 16
        row[k.KIND], row[k.RING], row[k.STRIDE], row[k.MASK], row[k.SLOTS] = kind, 1 + words, STRIDE, capacity - 1, slots
        row[k.OUT_STRIDE], row[k.QUEUES], row[k.REORDER] = STRIDE, queues, reorder
        row[k.MOST] = 1 if kind == STATEFUL else 2 if kind == PARTITIONED else workers
        row[k.BUCKETS], row[k.BUCKET_COUNT], row[k.KEY], row[k.QUEUE] = 2 * number, 2, FIRST_COLUMN, queue
        form.append(row)
        words, slots, queue = words + capacity * STRIDE, slots + capacity, queue + 2 * capacity
    shared = Shared(
        words=[0] * WORD_COUNT * 2, event=[0] * 200, meter=[[0] * 16 for _ in range(workers)], failure=[0] * 16,
        reading=[1] * workers, stage=[0] * (STAGE_CELLS * len(kinds)), form=form,
        slots=[0] * (slots * 8), arena=[words, *[0] * (memory - 1)], arena_f=[], pool=[0] * 40, bucket=[0] * (32 * len(kinds)),
        bucket_tail=[0] * (2 * len(kinds)), tickets=[0] * slots, queue=[0] * max(1, queue), bounds=[0], out=[[0] * results],
        work=[[[0] * 8 for _ in kinds] for _ in range(workers)], known=[[1, *[0] * 15] for _ in [*kinds, None]],
        tuning=[0, 0, 0, 1, NEVER, 0, 0, 0], rows=[[workers, 0, batch]], fixed=[[-1] * workers],
        plan_at=[NEVER], met_at=[0], done_at=[0], installed=[[0, 0]],
    )  # fmt: skip
    out = k.OutArrays(
        words=[0] * 16, event=[0] * 64, head=[0], tail=[0], mark=[-1], mark_ts=[MIN_TIME],
        primary=[[0] * results], a=[[0] * results], b=[[0] * results], c=[[0] * results], at=[[0] * results],
        meter=shared.meter, membership=[0], list_words=[[]], list_head=[], list_tail=[],
    )  # fmt: skip
    return shared, out


def fresh(k, shared, out):
    """Copies of both for one execution, whose stages have not had a record yet."""
    c, o = copied(shared), copied(out)
    c = c._replace(work=[[row[:] for row in each] for each in shared.work])  # `copied` handles only two dimensions
    for stage in range(len(c.form)):
        c.stage[stage * STAGE_CELLS + k.END_AT] = NEVER
        c.stage[stage * STAGE_CELLS + k.PROGRESS] = MIN_TIME
    return c, o


def expected_rows(values, stages, at_end=()):
    """Run the stages one after another; `at_end` is what a stateful one gives when its input is over."""
    for kind, outputs in stages:
        sums, after = {}, []
        for value in values:
            key = value % 2 if kind == PARTITIONED else 0
            if kind != STATELESS:
                before = sums.get(key, 0)
                sums[key] = before * 3 + value
                value = value + 10 * before
            after += outputs(value)
        values = after + (list(at_end) if kind == STATEFUL else [])
    return values


# -- outputs of a value --------------------------------------------------------------------------------


def once(value):
    return [value]


def twice(value):
    return [value, value + 1]


def thrice(value):
    return [value, value + 1, value + 2]


def odd(value):
    return [value] if value % 2 else []
