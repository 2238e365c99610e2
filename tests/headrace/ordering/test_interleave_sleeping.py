"""Sleeping and waking of an ordered pipeline's workers under many interleavings of their own text: nobody is left asleep.

Property    whatever is put into the gate comes out, in order, without a time-out: none ends a sleep here, so a lost
            wake-up is a deadlock, which names the sleepers. A worker that is needed beside one at work is woken as well. At
            the end all active workers wait for STOP; at any time STOP ends all of them. What strings states hold is looked
            at while no worker is at work
Oracle      the stages one after another (`support.pipeline_arrays`)
Schedules   of `pipeline_kernel`, `ingest_kernel` and all they call, as they are (`interleave`): one to three workers, one or
            two sources at a gate of a few records (`source_kernel`, `merged_log_kernel`), a collector (`egress.rings`), rings
            of two records, a result ring of one or two; workers that become fewer or more meanwhile. All with one preemption
            of one worker, under both memory models; else sampled, a fifth with store buffers
Planted     each is found, nearly all as a deadlock; what `event_count` itself may do wrong:
            tests/headrace/memory/test_event_count.py
Cannot see  that a worker is woken late, or for nothing; looks before it sleeps (WORK_YIELDS, SPIN are 0); memory weaker
            than x86's; schedules other than LP: no choice of a stage lets anybody sleep; what a function raises
"""

# ruff: noqa: F821  (the names are the explored kernels')

from types import SimpleNamespace

import pytest

from gate_cases import log_state
from headrace.ordering.words import (
    BY_PARTITION,
    FIRST_COLUMN,
    HYBRID,
    LOCKED,
    LP,
    NONBLOCKING,
    OUT_AT,
    PARTITIONED,
    REF,
    SHARED,
    STATEFUL,
    STATELESS,
)
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import ROW_MASK
from interleave import SC, TSO, Kernels, copied, exhaustive, find_failure, sampled
from support.campaign import rarely
from support.pipeline_arrays import CONSTANTS, NEVER, STRIDE, arrays, expected_rows, fresh, odd, once, twice

PIPELINE = "headrace.ordering.pipeline_kernel"
INGEST = "headrace.ordering.ingest_kernel"
WORK = "headrace.ordering.work_kernel"
BUFFER = "headrace.ordering.buffer_kernel"
WORKER = "headrace.workers.worker_kernel"
CHANGES = "headrace.workers.changes_kernel"
GATE = "headrace.gates.merged_log_kernel"
SOURCE = "headrace.gates.source_kernel"
RINGS = "headrace.egress.rings"
EVENT_COUNT = "headrace.memory.event_count"

TOGETHER, MET_AT = 6, 7
"""Words of `tuning` that no kernel reads; word 5 counts the records begun at stage MET_AT."""

ONE_BY_ONE = (
    WORK,
    "    run_stage(me, c, s, l)\n",
    "    for serial in range(first, first + count):\n        read_record(me, c, s, stage, serial)\n"
    "        if stage == c.tuning[7]:\n            fetch_add(c.tuning, 5, 1)\n"
    "            while load_acquire(c.tuning, 5) < c.tuning[6]:\n                pause()\n"
    "        cut()\n        write_record(me, c, s, l, stage, serial)\n",
)
"""What a record becomes is written some time after it was read, and where a case asks for that after others were begun."""

LOOK_AGAIN = (
    PIPELINE,
    "        yield_core()  # what there is to do is in the hands of others, as all buckets with work may be\n",
    "        m = c.meter[me]\n        m[15] = m[15] + 1 if m[DECISIONS] == m[14] + 1 else 0\n        m[14] = m[DECISIONS]\n"
    "        cut()\n        if m[15] > 8:\n            pause()\n",
)
"""A worker that finds work after all goes on; one that finds none time and again waits until others have written."""


def feed(g, c, source, times, first_row, begun):
    """A source: add rows, and when so many were begun the end, as there is room for them or until all is stopped."""
    done = 0
    while done < len(times) and load_acquire(c.words, STOP) == 0:
        done += add_or_wait(g, source, times, done, len(times) - done, first_row + done, c.words)
    while load_acquire(c.tuning, 5) < begun and load_acquire(c.words, STOP) == 0:
        pause()
    while load_acquire(c.words, STOP) == 0 and close_or_wait(g, source, c.words) == 0:
        pass


def collect(g, c, o, s, at_rest):
    """The collector: take rows, and when all are out, and so many workers wait for STOP, stop everybody."""
    tail = 0
    bound = MIN_TIME
    while bound < END_OF_TIME:
        bound, _ = await_release(o, END_OF_TIME, 0)
        if load_acquire(o.words, OUT_STOP) != 0:
            return
        head = load_acquire(o.head, 0)
        while tail < head:
            s.rows.append(c.out[0][tail & (len(o.primary[0]) - 1)])
            tail += 1
            drained(o, 0, tail)
    while load_acquire(c.words, BARRIER_WAITING) < at_rest and load_acquire(c.words, STOP) == 0:
        pause()
    stop_all(g, c, o)


def stop_all(g, c, o):
    """What `GatedSection.stop` does."""
    stop_workers(c)
    stop_output(o)
    signal(g.words, READERS_WAITING, g.event, DATA_EVENT)
    signal(g.words, SOURCES_WAITING, g.event, SPACE_EVENT)


def ask(c):
    """Somebody asks what strings the states hold."""
    store_release(c.words, TEXTS_ASKED, 1)


def kernels(*planted):
    holder = {}

    def read_record(me, c, s, stage, serial):
        value = c.arena[holder["k"].record_of(c, stage, serial) + FIRST_COLUMN]
        kind = c.form[stage][holder["k"].KIND]
        key = (stage, value % 2 if kind == PARTITIONED else 0)
        before = s.sums.get(key, 0)
        if kind != STATELESS:
            s.sums[key] = before * 3 + value
            value = value + 10 * before
        s.held[me] = value
        s.at_work.append(me)

    def write_record(me, c, s, l, stage, serial):
        for output in s.outputs[stage](s.held[me]):
            at = l[OUT_AT]
            assert at + STRIDE <= l[holder["k"].OUT_LIMIT]
            c.arena[at : at + STRIDE] = [0] * FIRST_COLUMN + [output]
            l[OUT_AT] = at + STRIDE
        s.at_work.remove(me)

    def hold_texts(c, s, l, ts):
        assert not s.at_work, f"states are looked at, and {s.at_work} are at work"
        s.told.append(ts)

    def fill_rows(me, c, x, s, l, first, last):
        for serial in range(first, last):
            record = holder["k"].record_of(c, 0, serial)
            c.arena[record + FIRST_COLUMN] = s.values[c.arena[record + REF] & ROW_MASK]

    given = {
        "read_record": read_record, "write_record": write_record, "fill_rows": fill_rows, "end_stage": lambda *_: 0,
        "hold_texts": hold_texts, "choose_own": lambda *_: -1, "fetch_states": lambda *_: 0,
    }  # fmt: skip
    holder["k"] = Kernels(
        INGEST, WORK, PIPELINE, SOURCE, RINGS, programs=[feed, stop_all, collect, ask],
        planted=[ONE_BY_ONE, LOOK_AGAIN, *planted], given=given,
        constants={**CONSTANTS, "LEAST_CLASS": 5, "KEPT_CLASS": 5, "WORK_YIELDS": 0},
        shared=("queue", "slots", "tickets", "arena", "ring_ts", "ring_ref", "out_ts", "out_ref"),
    )  # fmt: skip
    return holder["k"]


def case(
    k, values, stages, *, sources=1, workers=2, first=2, room=2, results=2, batch=1, queues=HYBRID, reorder=NONBLOCKING,
    log=8, bound=4, plan=(), together=(0, 0), fed=False, asks=False, at_rest=True, stop=False,
):  # fmt: skip
    """Workers, sources, the collector.

    Parameters
    ----------
    plan : sequence of (at, threads)
        At the first one, which is at 0, so many workers are active.
    together : (stage, count)
        None of the first so many records at that stage is done before all of them are begun.
    fed : bool
        The whole input is in the gate.
    asks : bool
        At any time somebody asks what strings the states hold.
    at_rest : bool
        STOP comes when all active workers wait for it; else as soon as everything is out.
    stop : bool
        It comes at any time.
    """
    plan = plan or [(0, workers)]
    kinds = [kind for kind, _ in stages]
    sizes = {"workers": workers, "first": first, "room": room, "results": results, "memory": 600}
    shared, out = arrays(k, kinds, batch=batch, queues=queues, reorder=reorder, **sizes)
    shared = shared._replace(
        rows=[[threads, LP, batch] for _, threads in plan],
        plan_at=[*(at for at, _ in plan[1:]), NEVER],
        reading=[int(me < plan[0][1]) for me in range(workers)],
    )  # fmt: skip
    shared.tuning[TOGETHER], shared.tuning[MET_AT] = together[1], together[0]
    gate = log_state(k, sources, 1, ring=2, log=log, bound=bound)
    rows = expected_rows(values, stages)
    per_source = -(-len(values) // sources)

    def build():
        g = copied(gate)
        c, o = fresh(k, shared, out)
        outputs = [outputs for _, outputs in stages]
        s = SimpleNamespace(rows=[], held={}, sums={}, at_work=[], told=[], outputs=outputs, values=values)
        times = [*range(len(values))]
        threads = [k.run_worker(me, g, c, o, [], s, [0] * 400) for me in range(workers)]
        for source in range(sources):
            own = times[source * per_source : (source + 1) * per_source]
            feeding = k.feed(g, c, source, own, own[0] if own else 0, 0 if fed else together[1])
            if fed:
                for _ in feeding:
                    pass
            else:
                threads.append(feeding)
        threads.append(k.collect(g, c, o, s, plan[-1][1] if at_rest else 0))
        if stop:
            threads.append(k.stop_all(g, c, o))
        if asks:
            threads.append(k.ask(c))

        def check():
            assert s.rows == rows[: len(s.rows)] if stop else s.rows == rows, f"rows {s.rows}, wanted {rows}"
            assert stop or o.mark == [END_OF_TIME]
            assert len(s.told) == c.words[k.TEXTS_TOLD]

        return threads, check

    return build


ONE = [(STATELESS, once)]
ALONE = [(STATEFUL, once)]
TWO = [(STATELESS, twice), (STATELESS, once)]
LAST_ALONE = [(STATELESS, twice), (STATEFUL, once)]
KEYED = [(STATELESS, once), (PARTITIONED, odd)]
MANY = [(STATELESS, twice), (STATELESS, twice), (STATELESS, once)]
CHAINS = {"one stage": ONE, "a stateful one": ALONE, "stateful behind": LAST_ALONE, "partitioned": KEYED, "many outputs": MANY}
FEWER, MORE = [(0, 2), (1, 1)], [(0, 1), (1, 2)]


def explore(build, count):
    sampled("pipeline asleep", build, count, longest=20_000, length=400)


# -- every schedule, and many ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("memory", [SC, TSO])
def test_interleave_one_worker_in_every_schedule_of_one_preemption(memory):
    k = kernels()
    for values, room in ([1], 2), ([1, 3], 1):
        build = case(k, values, ONE, workers=1, first=room, results=1)
        assert exhaustive("pipeline asleep", build, preemptions=1, longest=20_000, memory=memory) > 1500


@pytest.mark.parametrize("count", [200, *rarely(2000)])
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("reorder", [NONBLOCKING, LOCKED], ids=["nonblocking", "lock"])
def test_interleave_nobody_is_left_asleep(reorder, chain, count):
    k = kernels()
    for results in (1, 2):
        explore(case(k, [1, 3, 2], CHAINS[chain], reorder=reorder, results=results), count)
    explore(case(k, [1, 3, 2], CHAINS[chain], reorder=reorder, workers=1), count // 2)


@pytest.mark.parametrize("count", [150, *rarely(1500)])
@pytest.mark.parametrize("queues", [HYBRID, BY_PARTITION, SHARED], ids=["hybrid", "partitioned", "shared"])
def test_interleave_two_sources(queues, count):
    """A gate that workers merge while they look into it; one record fits between a source and them."""
    k = kernels()
    explore(case(k, [1, 3, 2, 5], KEYED, sources=2, queues=queues, bound=1), count)
    explore(case(k, [1, 3, 2, 5], [(PARTITIONED, once)], sources=2, queues=queues, batch=2, results=1), count)


@pytest.mark.parametrize("count", [400, *rarely(4000)])
@pytest.mark.parametrize("reorder", [NONBLOCKING, LOCKED], ids=["nonblocking", "lock"])
def test_interleave_a_worker_that_is_needed_is_woken(reorder, count):
    """Two records can only be run together: a worker that has one waits until another has the other one."""
    k = kernels()
    explore(case(k, [1, 3], ONE, reorder=reorder, together=(0, 2)), count)
    explore(case(k, [1, 3, 2], ONE, reorder=reorder, together=(0, 2), first=4, log=4, bound=2), count)
    explore(case(k, [1], TWO, reorder=reorder, together=(1, 2)), count)
    explore(case(k, [1, 3, 2, 4], TWO, reorder=reorder, together=(1, 2), workers=3, results=1), count // 2)


@pytest.mark.slow
@pytest.mark.parametrize("count", [300, *rarely(4000)])
@pytest.mark.parametrize("plan", [FEWER, MORE], ids=["fewer", "more"])
def test_interleave_workers_park_and_are_unparked(plan, count):
    k = kernels()
    for reorder in (NONBLOCKING, LOCKED):
        explore(case(k, [1, 3, 2], ALONE, reorder=reorder, plan=plan), count)
        explore(case(k, [1, 3, 2], LAST_ALONE, reorder=reorder, plan=plan), count)
    explore(case(k, [1, 3, 2], MANY, plan=plan, first=4), count // 2)
    explore(case(k, [1, 3, 2], MANY, workers=3, plan=[(0, 3), (1, 1), (2, 2)], results=1), count // 4)


@pytest.mark.parametrize("count", [150, *rarely(3000)])
@pytest.mark.parametrize("reorder", [NONBLOCKING, LOCKED], ids=["nonblocking", "lock"])
def test_interleave_states_are_looked_at_while_nobody_is_at_work(reorder, count):
    """Meanwhile no records are taken in: a worker that finds some in the gate waits for those on their way."""
    k = kernels()
    explore(case(k, [1, 3, 2], TWO, reorder=reorder, asks=True), count)
    explore(case(k, [1, 3, 2], LAST_ALONE, reorder=reorder, results=1, asks=True), count)


@pytest.mark.parametrize("count", [400, *rarely(4000)])
def test_interleave_stop_ends_everybody(count):
    k = kernels()
    for reorder in (NONBLOCKING, LOCKED):
        explore(case(k, [1, 3, 2], LAST_ALONE, reorder=reorder, results=1, stop=True), count)
    explore(case(k, [1, 3, 2], ONE, plan=MORE, bound=1, stop=True), count)


# -- planted mistakes ----------------------------------------------------------------------------------

ASLEEP = "deadlock"
AT_WORK = "states are looked at"
LOOKS = (
    "    ticket = prepare(g.words, READERS_WAITING, g.event, DATA_EVENT)  # S0\n"
    "    if has_work(g, c) or stopped(c) or load_acquire(c.reading, me * CELL) == 0 or is_over_or_full(c):\n"
)
ROOM = "        if room_behind(c, o, last) > 0 or stopped(c):\n"
STEPS = "    if stage >= 0 and work(me, c, o, s, l, stage, batch) > 0:\n        c.meter[me, SLICES] += 1\n        wake(g, c)\n"
ADMITTED = "    room = c.form[0, MASK] + 1 - (first - load_acquire(c.stage, cell(0, NEXT)))\n"
SEEN = "    store_release(c.stage, cell(0, TAIL), serial)  # T1\n"
PLANTED = {
    # edits; values, chain, what else the case is given; "fails": what happens if it is not that nobody goes on
    "a sleeper says so after it has looked": (
        [(PIPELINE, LOOKS, LOOKS[LOOKS.index("    if ") :].replace("    if ", "    busy = ").replace(":\n", "\n")
          + LOOKS[: LOOKS.index("    if ")] + "    if busy:\n")],
        [1, 3], ONE, {"workers": 1},
    ),
    "a sleeper for room says so after it has looked": (
        [(PIPELINE, ROOM, ROOM.replace("room_behind(c, o, last) > 0 or ", ""))], [1, 3, 2], ONE, {"results": 1, "workers": 1},
    ),
    "STOP is not looked at again": (
        [(PIPELINE, LOOKS, LOOKS.replace("or stopped(c) ", ""))], [1, 3], ONE, {"stop": True},
    ),
    "STOP is not looked at again where there is no room": (
        [(PIPELINE, ROOM, ROOM.replace(" or stopped(c)", ""))], [1, 3, 2], ONE, {"results": 1, "stop": True},
    ),
    "the end is not looked for again": (
        [(PIPELINE, LOOKS, LOOKS.replace(" or is_over_or_full(c)", ""))], [1], ONE, {},
    ),
    "the worker that gives out the last row tells nobody": (
        [(PIPELINE, "            signal(g.words, READERS_WAITING, g.event, DATA_EVENT)  # who sleeps there shall see it\n", "")],
        [1], ONE, {},
    ),
    "a source wakes before what it adds can be seen": (
        [(GATE, "            _append_direct(g, ts, start, count, first_ref, step, now_ns())\n",
          "            wake_readers(g)\n            _append_direct(g, ts, start, count, first_ref, step, now_ns())\n"),
         (GATE, "        if count > 0:\n            wake_readers(g)\n        return count\n", "        return count\n")],
        [1, 3], ONE, {"workers": 1},
    ),
    "the collector wakes before there is room": (
        [(RINGS, "    store_release(o.tail, me * CELL, tail)\n    signal(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT)\n",
          "    signal(o.words, INSTANCES_WAITING, o.event, DRAINED_EVENT)\n    store_release(o.tail, me * CELL, tail)\n")],
        [1, 3, 2], ONE, {"results": 1, "workers": 1},
    ),
    "a worker that makes a stage schedulable wakes nobody": (
        [(PIPELINE, STEPS, STEPS.replace("        wake(g, c)\n", ""))], [1], TWO, {"together": (1, 2)},
    ),
    "a drain that made room is not followed by another one": (
        [(PIPELINE, "    if sweep(c, o):\n        wake(g, c)\n        return True\n", "    sweep(c, o)\n")],
        [1, 3, 2], MANY, {"results": 1, "workers": 1},
    ),
    "nobody says that the result ring is full": (
        [(BUFFER, "    return stage + 1 == c.form.shape[0] and load_relaxed(c.words, BLOCKED) == 0\n", "    return False\n")],
        [1], ONE, {"results": 1},
    ),
    "the first stage is not looked at again behind the gate": (
        [(PIPELINE, "    return is_schedulable(c, 0)  # S2\n", "    return False\n")], [1, 3], ONE, {"together": (0, 2)},
    ),
    "records have left the gate before they are in the first ring": (
        [(INGEST, SEEN, "    store_release(c.words, PLACE, place)\n    for _ in range(20):\n        cut()\n" + SEEN)],
        [1, 3], ONE, {"together": (0, 2), "first": 4},
    ),
    "the input is over before its last records are in the first ring": (
        [(INGEST, SEEN, "    if ended:\n        store_release(c.words, INPUT_OVER, 1)\n" + SEEN)],
        [1, 3], ONE, {"together": (0, 2), "first": 4, "fed": True},
    ),
    "a worker that parks drains no further": (
        [(PIPELINE, "    for _ in range(c.form.shape[0] + 1):\n        if not sweep(c, o):  # L1\n            break\n", "")],
        [1, 3, 2], LAST_ALONE, {"plan": FEWER, "reorder": LOCKED},
    ),
    "a worker that parks tells nobody": (
        [(PIPELINE, "    signal(g.words, READERS_WAITING, g.event, DATA_EVENT)  # L2\n", "")], [1, 3, 2], ALONE, {"plan": FEWER},
    ),
    "a worker is unparked before it is active": (
        [(CHANGES, "            store_release(c.reading, worker * CELL, change + 1 if is_active else 0)\n"
          "            if is_active:\n                unpark(c, worker)\n",
          "            if is_active:\n                unpark(c, worker)\n"
          "            store_release(c.reading, worker * CELL, change + 1 if is_active else 0)\n")],
        [1], ONE, {"plan": MORE, "first": 4, "fed": True},
    ),
    "a worker that becomes active is not unparked": (
        [(CHANGES, "            if is_active:\n                unpark(c, worker)\n", "")], [1, 3], ONE, {"plan": MORE},
    ),
    "unparking changes nothing that a parking worker compares": (
        [(WORKER, "    fetch_add(c.event, PARK_EVENT + worker * EVENT_CELL, 1)\n", "")], [1, 3], ONE, {"plan": MORE},
    ),
    "STOP unparks one only": (
        [(WORKER, "    for r in range(c.meter.shape[0]):\n        unpark(c, r)\n", "    unpark(c, 0)\n")],
        [1], ONE, {"plan": [(0, 1)], "at_rest": False},
    ),
    "STOP wakes one only": (
        [(EVENT_COUNT, "        futex_wake(event, index, 1 << 30)\n", "        futex_wake(event, index, 1)\n")],
        [1], ONE, {"stop": True},
    ),
    "states are looked at with records on their way": (
        [(INGEST, "    if is_in_flight(c):\n        return False\n", "")], [1, 3, 2], TWO, {"asks": True, "fails": AT_WORK},
    ),
    "a record is taken in for which the first ring has no slot": (
        [(INGEST, ADMITTED, ADMITTED.replace("+ 1 -", "+ 2 -"))], [1, 3, 2, 5], ONE, {},
    ),
    "a slot of the first ring is free when its record is claimed": (
        [(INGEST, ADMITTED, ADMITTED.replace("NEXT", "HEAD"))], [1, 3, 2, 5], KEYED, {},
    ),
    "a waker looks for sleepers before what it has stored can be seen": (
        [(EVENT_COUNT, "    fence()  # P2\n", "")], [1, 3], ONE, {"workers": 1, "memory": TSO},
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", PLANTED)
def test_interleave_planted_mistake_is_found(mistake):
    planted, values, chain, given = PLANTED[mistake]
    looked_for = {"fails": ASLEEP, "memory": SC} | given
    expected, memory = looked_for.pop("fails"), looked_for.pop("memory")
    build = case(kernels(*planted), values, chain, **looked_for)
    find_failure("pipeline asleep", build, expected, count=8000, preemptions=1, longest=20_000, length=400, memory=memory)
