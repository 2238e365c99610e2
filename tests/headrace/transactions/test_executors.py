"""The executors' loop with its real gate, rings and threads, against one event after another.

Property    under every scheme but `none`, for any threads, sharing, punctuation,
            and changes of all of them while events run: each event runs once, and
            results, rejections, their order and the tables are those of the serial
            loop; changes come at their rows; a pause shows the tables as of its
            position
Oracle      `support.executors.Events.serial`: a plain loop
Cannot see  what the compiler does with a user's functions: the program is written
            by hand. Schedules that real threads do not meet: test_interleave.py
"""

import random
import threading
import time

import numpy as np
import pytest

from headrace.control.mapping import Mapping
from headrace.errors import ParameterError, ReconfigurationError
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell
from headrace.progress import END_OF_TIME
from headrace.transactions import words
from headrace.transactions.build import Built
from headrace.transactions.configuration import SHARINGS
from headrace.transactions.reconfiguration import Reconfiguration, at_punctuation, in_turn
from headrace.workers import worker_kernel
from support.campaign import rarely
from support.executors import HANG_S, LOOK, MIX, PUT, TRANSFER, Events, Executors, configuration, draw

SCHEMES = ("serial", "lock", "mvlk", "partition", "chains")
schemes = pytest.mark.parametrize("scheme", SCHEMES)


def wait_for(condition, run):
    until = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < until, run.state()
        time.sleep(1e-4)


def drawn_configuration(rng, scheme=None, most=8):
    threads = rng.choice([1, 2, 2, 3, 4, most])
    owners = np.array([rng.randrange(threads) for _ in range(1024)]) if rng.random() < 0.3 else None
    return configuration(
        threads, scheme or rng.choice(SCHEMES), rng.choice(SHARINGS), rng.choice([1, 2, 7, 60, 500, 5000]),
        None if owners is None else Mapping(owners),
    )  # fmt: skip


def drawn_events(rng, n):
    return draw(
        rng.randrange(1 << 30), n, rng.choice([2, 3, 20, 2000]), longest=rng.choice([2, 4, 12]),
        kinds=rng.choice([(TRANSFER,), (TRANSFER, LOOK), (LOOK, MIX), (TRANSFER, LOOK, MIX)]),
        hot=rng.choice([0, 0.1, 0.9]), same=rng.choice([0, 0.2]), balance=rng.choice([0, 50, 1000]),
    )  # fmt: skip


# -- against the oracle ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("cases", [10, *rarely(50)])
@schemes
def test_oracle_random_cases(scheme, cases):
    rng = random.Random(scheme)
    for _ in range(cases):
        asked = drawn_configuration(rng, scheme)
        n = rng.choice([0, 1, 5, 300, 1500]) if asked.punctuation > 2 else rng.choice([0, 1, 5, 100])
        Executors(drawn_events(rng, n), asked, operations=rng.choice([0, 0, 40])).run().check()


SHAPES = {
    "two keys": {"records": 10_000, "kinds": (TRANSFER,)},
    "two records": {"records": 2, "kinds": (TRANSFER, MIX)},
    "to oneself": {"records": 50, "kinds": (TRANSFER,), "same": 1.0},
    "nothing is rejected": {"records": 50, "kinds": (TRANSFER,), "balance": 10**9},
    "half is rejected": {"records": 5000, "kinds": (TRANSFER,), "balance": 50},
    "all is rejected": {"records": 50, "kinds": (TRANSFER,), "balance": -(10**9)},
    "one hot key": {"records": 1000, "hot": 0.9},
    "keys twice, and many": {"records": 9, "longest": 24},
    "readers of one record": {"records": 3, "kinds": (LOOK, LOOK, LOOK, LOOK, MIX), "longest": 2},
}


@pytest.mark.slow
@schemes
@pytest.mark.parametrize("shape", SHAPES)
def test_oracle_nasty_shapes(scheme, shape):
    n = 20_000 if shape != "keys twice, and many" else 5_000
    threads = {"serial": 2, "lock": 3, "mvlk": 3, "partition": 2, "chains": 4}[scheme]
    Executors(draw(11, n, **SHAPES[shape]), configuration(threads, scheme, "everything", 500)).run().check()


@pytest.mark.parametrize("cases", [8, *rarely(40)])
@pytest.mark.parametrize("sharing", SHARINGS)
def test_oracle_operations(sharing, cases):
    """Operations that depend on none are run in chains."""
    rng = random.Random(sharing)
    for _ in range(cases):
        asked = drawn_configuration(rng, "chains")
        asked = configuration(asked.threads, "chains", sharing, asked.punctuation, asked.mapping)
        n = rng.choice([0, 1, 5, 300, 1500]) if asked.punctuation > 2 else rng.choice([0, 1, 5, 100])
        events = draw(
            rng.randrange(1 << 30), n, rng.choice([2, 20, 3000]), longest=12, kinds=rng.choice([(PUT,), (LOOK, PUT)]),
            hot=rng.choice([0, 0.1, 0.9]),
        )  # fmt: skip
        Executors(events, asked, operations=rng.choice([0, 0, 40]), can_split=True).run().check()


def test_agree_the_family_changes_while_events_run():
    """Chains of operations and whole transactions by turns, with other threads each time."""
    rng = random.Random(8)
    for n in (0, 40, 2000):
        at = sorted(rng.randrange(n + 3) for _ in range(12))
        planned = [(row, drawn_configuration(rng, rng.choice(["chains", "lock"]))) for row in at]
        events = draw(n, n, 50, longest=6, kinds=(LOOK, PUT))
        Executors(events, drawn_configuration(rng, "chains"), planned=planned, can_split=True).run().check()


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_agree_sharing(sharing, threads):
    Executors(draw(5, 3000, 40), configuration(threads, "chains", sharing, 700)).run().check()


# -- changes -----------------------------------------------------------------------------------------


def test_agree_planned_changes_come_at_their_rows():
    rng = random.Random(3)
    for n in (0, 50, 1000):
        rows = sorted([0, 0, n // 3, n // 3, n // 2, n, n + 5])
        planned = [(row, drawn_configuration(rng)) for row in rows]
        run = Executors(drawn_events(rng, n), drawn_configuration(rng), planned=planned).run()
        run.check()
        assert [tuple(run.c.installed[k + 1]) for k in range(len(rows))] == [
            (k, k + 1, min(at, n)) for k, at in enumerate(rows)
        ]
        assert all(run.c.done_at[(k + 1) * CELL] > 0 for k in range(len(rows)))


@pytest.mark.parametrize("seed", range(3))
def test_agree_requests_while_events_run(seed):
    """Changes of everything, as fast as they are taken; what each asks for comes into force, in this order."""
    rng = random.Random(seed)
    run = Executors(draw(seed, 6000, 60, hot=0.05), drawn_configuration(rng))
    steered = Reconfiguration(run.c, run.gate, 8, run.initial)
    run.start()
    asked = []
    try:
        feeder = threading.Thread(target=lambda: (run.feed(), run.close()), daemon=True)
        feeder.start()
        while feeder.is_alive() and len(asked) < 200:
            target = drawn_configuration(rng)
            if steered.place(target) is not None:
                asked.append(target)
                wait_for(lambda: not read_cell(run.c.words, words.REQUEST) or read_cell(run.c.words, words.OVER), run)
        feeder.join()
        run.wait()
        found = []
        while (change := steered.completed()) is not None:
            found.append(change.after)
        assert found == asked[: len(found)] and len(found) >= len(asked) - 1
        assert not steered.is_completing
    finally:
        run.stop()
    run.join()
    run.check()


def test_example_a_request_beside_idle_input():
    run = Executors(draw(1, 100, 20), configuration(1, "chains", "nothing", 10))
    steered = Reconfiguration(run.c, run.gate, 8, run.initial)
    run.start()
    try:
        run.feed(0, 50)
        wait_for(lambda: read_cell(run.c.words, words.SEEN) == 50, run)
        for threads in (4, 2, 8, 1):
            assert steered.place(configuration(threads, "lock", "everything", 20)) is not None
            while (change := steered.completed()) is None:
                steered.await_completion(10**9)
            assert change.after.threads == threads == steered.current.threads
            assert [int(r) for r in np.flatnonzero(run.c.reading[::CELL])] == list(range(threads))
        run.feed(50)
        run.close()
        run.wait()
    finally:
        run.stop()
    run.join()
    run.check()


def test_example_what_cannot_be_asked_for():
    run = Executors(draw(1, 0, 2), configuration(2))
    steered = Reconfiguration(run.c, run.gate, 4, run.initial, schemes=("chains", "serial"))
    for wish, said in [
        ({}, "give threads="),
        ({"threads": 9}, "max_threads=4"),
        ({"threads": "two"}, "give a whole number"),
        ({"threads": True}, "give a whole number"),
        ({"mapping": Mapping.even(3)}, "executor 2 owns buckets but is not active"),
    ]:
        with pytest.raises(ReconfigurationError, match=said):
            steered.resolve(wish, run.initial)
    for wish in ({"scheme": "none"}, {"sharing": "all"}, {"punctuation": 0}, {"punctuation": 1 << 40}):
        with pytest.raises(ParameterError, match="give"):
            steered.resolve(wish, run.initial)
    assert steered.resolve({"threads": 3}, run.initial).mapping == in_turn(3)
    assert steered.resolve({"scheme": "chains"}, run.initial).mapping is run.initial.mapping


# -- pauses ------------------------------------------------------------------------------------------


@schemes
def test_agree_a_pause_shows_the_tables_as_of_its_position(scheme):
    events = draw(9, 4000, 30, longest=3)
    run = Executors(events, configuration(3, scheme, "everything", 50))
    run.start()
    seen = []
    try:
        feeder = threading.Thread(target=lambda: (run.feed(), run.close()), daemon=True)
        with at_punctuation(run.c, run.gate) as position:  # idle
            assert position == 0
        feeder.start()
        while feeder.is_alive() and len(seen) < 20:
            with at_punctuation(run.c, run.gate) as position:
                before = run.values.copy()
                time.sleep(1e-4)
                assert (before == run.values).all()
            seen.append((position, before))
        feeder.join()
        run.wait()
        with at_punctuation(run.c, run.gate) as position:  # over
            assert position == len(events)
    finally:
        run.stop()
    run.join()
    run.check()
    for position, values in seen:
        columns = (events.ts, events.kind, events.size, events.keys, events.amount)
        first = Events(*(column[:position] for column in columns), events.values)
        assert values.tolist() == first.serial()[2]


# -- ends, limits, time ------------------------------------------------------------------------------


@schemes
def test_example_a_batch_that_is_not_full_runs_after_a_moment(scheme):
    run = Executors(draw(4, 10, 5), configuration(2, scheme, "nothing", 1000), max_delay_ns=1_000_000)
    run.start()
    try:
        run.feed(0, 3)
        wait_for(lambda: run.collect() or len(run.rows) == 3, run)
        run.feed(3)
        run.beat(2000)  # moves time on behind what is there
        wait_for(lambda: run.out.mark_ts[0] == run.out.mark_ts[CELL] == 1999, run)
        run.beat(3000)  # with nothing before it
        wait_for(lambda: run.out.mark_ts[0] == run.out.mark_ts[CELL] == 2999, run)
        assert run.out.mark[0] == run.out.mark[CELL] == 9
        assert run.out.mark[2 * CELL] == END_OF_TIME
        run.close()
        run.wait()
    finally:
        run.stop()
    run.join()
    run.check()


def test_example_a_gate_and_rings_that_are_smaller_than_a_batch():
    run = Executors(draw(4, 3000, 50), configuration(3, "chains", "everything", 4000), gate_capacity=64, ring=16)
    run.run().check()


@schemes
def test_example_more_keys_than_there_is_room_for_are_batches_of_fewer_events(scheme):
    events = draw(4, 400, 500, longest=30, kinds=(LOOK, MIX))
    Executors(events, configuration(3, scheme, punctuation=100), operations=30).run().check()


def test_example_one_transaction_with_more_keys_than_there_is_room_for_stops_the_run():
    run = Executors(draw(4, 400, 500, longest=30, kinds=(LOOK,)), configuration(3, "lock", punctuation=100), operations=12)
    run.start()
    try:
        run.feed()
        wait_for(lambda: read_cell(run.c.words, worker_kernel.FAILED) == 2, run)
    finally:
        run.stop()
    run.join()
    assert run.c.failure[worker_kernel.FAILURE_CODE] == words.TOO_MANY_OPERATIONS
    failed = int(run.c.failure[worker_kernel.FAILURE_REF])
    assert run.events.size[failed] > 12 and failed == read_cell(run.c.words, words.SEEN)


@schemes
def test_example_stop_in_the_middle(scheme):
    run = Executors(draw(4, 2000, 3), configuration(3, scheme, "everything", 500), work=20_000)
    run.start()
    run.feed()
    wait_for(lambda: read_cell(run.c.words, words.COUNT) > 0, run)
    began = time.monotonic()
    run.stop()
    with at_punctuation(run.c, run.gate) as position:
        assert position is None
    if scheme in ("lock", "mvlk", "partition"):  # an executor that waits for another transaction looks at STOP
        run.join()
        assert time.monotonic() - began < HANG_S


def test_example_time_is_booked():
    waited_ns = runs = 0
    while waited_ns == 0:  # on a machine with other work to do, the two may take turns for all of a run
        runs += 1
        assert runs <= 50, "two executors never waited for each other's locks"
        run = Executors(draw(4, 2000, 3), configuration(2, "lock", "everything", 500), work=2_000).run()
        meter = run.c.meter
        assert meter[:2, words.EVENTS].sum() == 2000 and meter[0, words.BATCHES] == 4
        assert meter[:2, words.NOTED].sum() > 2000
        assert (meter[:2, words.LOCK_NS] + meter[:2, words.PREPARE_NS] <= meter[:2, worker_kernel.BUSY_NS]).all()
        waited_ns = meter[:2, words.LOCK_NS].sum()


@pytest.mark.parametrize(("threads", "punctuation", "scheme"), [(2, 5, "mvlk"), (2, 5, "lock"), (2, 1, "mvlk"), (1, 5, "mvlk")])
def test_example_versions_are_counted(threads, punctuation, scheme):
    """One for each record that a transaction writes; none where an event has nobody beside it."""
    keys = np.array([[0, 1], [0, 2], [3, 3], [0, 4], [0, 0]])
    kind = np.array([PUT, LOOK, PUT, PUT, TRANSFER])
    events = Events(np.arange(5), kind, np.full(5, 2), keys, np.zeros(5, np.int64), np.zeros(9, np.int64))
    run = Executors(events, configuration(threads, scheme, punctuation=punctuation)).run()
    run.check()
    made = 2 + 0 + 1 + 2 + 1 if (threads, punctuation, scheme) == (2, 5, "mvlk") else 0
    assert run.c.meter[:, words.VERSIONS].sum() == made


def test_example_records_by_how_many_operations_a_batch_has_on_them():
    keys = np.array([[0, 1], [0, 2], [0, 3], [0, 4], [0, 5]])
    events = Events(np.arange(5), np.full(5, LOOK), np.full(5, 2), keys, np.zeros(5, np.int64), np.zeros(9, np.int64))
    run = Executors(events, configuration(2, "chains", punctuation=5)).run()
    run.check()
    assert run.c.lengths.sum(0)[:5].tolist() == [0, 5, 0, 1, 0]  # five records of one, one of 4 to 7


def test_example_a_family_that_is_not_there():
    with pytest.raises(ParameterError, match="family='half'"):
        Built("", "half", "nothing")
