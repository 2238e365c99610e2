"""20,000 transactions of each of the nastiest shapes, in whole runs, compiled, under every scheme on several threads.

Property    rows, rejections and tables are those of the serial definition, also while scheme, threads, punctuation and
            sharing change
Oracle      `headrace.reference.transactions`, which runs the same functions in plain Python
Cannot see  schedules that real threads do not meet: test_interleave.py; other functions: test_lowering.py draws them
"""

import os
import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import NotSupportedError
from headrace.reference import transactions as reference
from headrace.transactions.configuration import SHARINGS
from planted_mistakes import planted
from support.campaign import rarely
from support.nasty_shapes import (
    EMITS,
    ROWS,
    SCHEMES,
    cannot,
    carry_on,
    follow,
    gather,
    look_or_put,
    move,
    spread,
)
from support.transacted import in_a_run, in_engine, in_python, plain
from support.workloads import HANG_S, Steered

N = 20_000
RUNS = int(os.environ.get("HEADRACE_CHANGES", "1"))
"""Of each shape, while its configuration changes."""


def table(a, c, x=None, y=None, ks=None, seed=0):
    """Events by functions of their number and of a generator."""
    rng = random.Random(seed)
    x, y, ks = (x or (lambda i, r: r.randrange(30))), (y or (lambda i, r: 0)), (ks or (lambda i, r: []))
    made = {name: [make(i, rng) for i in range(N)] for name, make in {"a": a, "c": c, "x": x, "y": y}.items()}
    lists = pa.array([ks(i, rng) for i in range(N)], pa.list_(pa.int64()))
    return pa.table({"ts": [i // 3 for i in range(N)], **made, "ks": lists})


def anywhere(i, r):
    return r.randrange(ROWS)


def share(of):
    return lambda i, r: int(r.random() < of)


def keys(most, length):
    return lambda i, r: [r.randrange(most) for _ in range(r.randrange(length + 1))]


SHAPES = {
    "two keys anywhere": (move, lambda: table(anywhere, anywhere)),
    "all on one key": (move, lambda: table(lambda i, r: 7, lambda i, r: 7)),
    "all to one key": (move, lambda: table(anywhere, lambda i, r: 7)),
    "all from one key": (move, lambda: table(lambda i, r: 7, anywhere, x=lambda i, r: r.randrange(3))),
    "alternating chains": (
        move,
        lambda: table(lambda i, r: i % 2, lambda i, r: (i + 1) % 2, x=lambda i, r: r.randrange(900)),
    ),
    "rings": (move, lambda: table(lambda i, r: i % 5, lambda i, r: (i + 1) % 5, x=lambda i, r: r.randrange(900))),
    "self-transfers": (
        move,
        lambda: table(lambda i, r: i % 50, lambda i, r: i % 50, x=lambda i, r: r.randrange(2_000)),
    ),
    "1 % rejected": (move, lambda: table(anywhere, anywhere, y=share(0.01))),
    "half rejected": (move, lambda: table(anywhere, anywhere, y=share(0.5))),
    "all rejected": (move, lambda: table(lambda i, r: i % 40, anywhere, y=lambda i, r: 1)),
    "a chain longer than a punctuation": (carry_on, lambda: table(lambda i, r: i % ROWS, lambda i, r: (i + 1) % ROWS)),
    "two chains that meet": (carry_on, lambda: table(lambda i, r: i % 2 * 4, lambda i, r: 4 * (i % 7 == 0) + i % 3)),
    "keys twice": (spread, lambda: table(anywhere, anywhere, ks=keys(4, 6))),
    "keys twice, rejected in the middle": (spread, lambda: table(anywhere, anywhere, y=share(0.5), ks=keys(12, 6))),
    "operations on few rows": (look_or_put, lambda: table(anywhere, anywhere, y=share(0.5), ks=keys(3, 6))),
    "operations anywhere": (look_or_put, lambda: table(anywhere, anywhere, y=share(0.2), ks=keys(ROWS, 10))),
    "containers of few rows": (gather, lambda: table(lambda i, r: i % 3, lambda i, r: r.randrange(3), y=share(0.3))),
    "containers anywhere": (gather, lambda: table(anywhere, anywhere, y=share(0.3))),
    "pointers": (follow, lambda: table(anywhere, anywhere, y=share(0.5))),
    "pointers of few rows": (follow, lambda: table(lambda i, r: i % 4, anywhere, y=share(0.5))),
}
REJECTED = {
    "two keys anywhere": (0, 0), "a chain longer than a punctuation": (0, 0),
    "1 % rejected": (100, 400), "half rejected": (9_000, 11_500), "all rejected": (N, N), "all from one key": (10_000, N),
    "alternating chains": (1_000, N), "self-transfers": (5_000, N), "keys twice, rejected in the middle": (2_000, N),
    "containers of few rows": (5_000, 7_000),
}  # fmt: skip
"""How many there must be, or the shape is not what it is called."""


def by_definition(shape):
    """The events of a shape, their rows, and the content of the tables at the end."""
    function, make = SHAPES[shape]
    events = make()
    wanted, tables = in_python([function], events, EMITS)
    least, most = REJECTED.get(shape, (0, N))
    assert least <= sum(row["rejected"] for row in wanted) <= most
    return events, wanted, {name: plain(rows) for name, rows in tables.items()}


@pytest.fixture(scope="module", params=SHAPES)
def serial(request):
    """A shape with what its events must lead to: pytest runs all tests of one shape before those of the next."""
    return request.param, *by_definition(request.param)


def check(shape, events, wanted, tables, schemes=SCHEMES):
    function, _ = SHAPES[shape]
    ledger = hr.stream(events, event_time="ts").transact(function, emits=EMITS)
    for number, scheme in enumerate(schemes):
        if not cannot(scheme, function):
            threads, punctuation = 2 + number % 2, (500, 37, 3_000)[number % 3]
            rows, found = in_a_run(ledger, [function], scheme=scheme, threads=threads, punctuation=punctuation)
            assert rows == wanted, f"{shape}, {scheme}: other rows"
            assert {name: plain(rows) for name, rows in found.items()} == tables, f"{shape}, {scheme}: other tables"


@pytest.mark.slow
def test_oracle_nasty_shapes_by_every_scheme(serial):
    check(*serial)


def drawn(rng, function):
    """A scheme that can run it, threads, sharing and punctuation."""
    asked = {
        "scheme": rng.choice([scheme for scheme in SCHEMES if not cannot(scheme, function)]),
        "threads": rng.choice([1, 2, 2, 3, 4, 8]),
        "sharing": rng.choice(SHARINGS),
        "punctuation": rng.choice([1, 7, 60, 500, 5_000, 100_000]),
    }
    if RUNS == 1 and asked["threads"] > 2:
        # Many threads that meet for every few of 20,000 events take ten seconds, and minutes where other processes have the
        # cores: test_drawn_changes.py has fewer events.
        asked["punctuation"] = max(asked["punctuation"], 60)
    return asked


@pytest.mark.slow
def test_agree_changes_while_it_runs(serial):
    """HEADRACE_CHANGES=100 for as many runs of each shape."""
    shape, events, wanted, tables = serial
    function, rng, made = SHAPES[shape][0], random.Random(shape), 0
    for _ in range(RUNS):
        first = drawn(rng, function)
        source = Steered(events, [events.num_rows - 100])  # the last ones come when all has been changed
        ledger = hr.stream(source, event_time="ts").transact(function, emits=EMITS)
        with ledger.start(max_threads=8, rate=100_000, max_delay="1ms", **first) as run:
            source.let()
            for _ in range(rng.randrange(2, 6)):
                made += run.reconfigure(**drawn(rng, function)).wait(HANG_S).outcome == "done"
            run.rate = None
            source.let_all()
            assert run.wait(HANG_S), f"{shape}, begun with {first}: it hangs"
            assert run.to_arrow().to_pylist() == wanted, f"{shape}, begun with {first}: other rows"
            for name, rows in tables.items():
                found = plain(run.tables[name].to_arrow().to_pylist())
                assert found == rows, f"{shape}, begun with {first}: {name}"
    assert made > 1, "nothing was changed"


@pytest.mark.slow
def test_bad_input_what_cannot_be_is_refused():
    """And so the shapes above that are passed over are those."""
    few = SHAPES["containers anywhere"][1]().slice(0, 10)
    with pytest.raises(NotSupportedError, match="of which it keeps none"):
        in_engine([gather], few, EMITS, scheme="speculative")
    for scheme in ("chains", "lock", "mvlk", "partition"):
        with pytest.raises(hr.errors.FunctionError, match="speculative"):
            in_engine([follow], few, EMITS, scheme=scheme)


def half_undone(self):
    """One row is put back, the others stay as they are."""
    for key, row in [*self._before.items()][:1]:
        self._rows[key] = row
    self._before.clear()


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["keys twice, rejected in the middle", *rarely("half rejected", "pointers")])
def test_planted_mistakes_of_what_a_rejected_one_leaves_are_found(shape, monkeypatch):
    """Half of a rejected transaction stays: planted in the definition, so that the engine's right answer is the other one."""
    monkeypatch.setattr(reference.Table, "undo", half_undone)
    with pytest.raises(AssertionError, match="other rows"):
        check(shape, *by_definition(shape), ("serial",))


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    ["alternating chains", "operations on few rows", *rarely("a chain longer than a punctuation", "all on one key")],
)
def test_planted_mistakes_of_the_order_are_found(shape):
    """Two neighbours change places."""
    mistake = "merge(sources), key=lambda event: event.payload['i'] ^ 1"
    function, make = SHAPES[shape]
    events = make()
    numbered = events.append_column("i", pa.array(range(N)))
    right = in_python([function], numbered, EMITS)
    with planted(reference, "in merge(sources)", f"in sorted({mistake})"):
        wrong = in_python([function], numbered, EMITS)
    assert isinstance(wrong[0][0], dict) and right != wrong
