"""Disordered and late input of transactions: they run in the order that the source's lateness restores.

Property    rows and tables are those of the events in order of time, equal times in order of arrival; late events are counted
            or set aside and change nothing, for any threads and scheme
Oracle      `headrace.reference.transactions` on the events that `headrace.reference.order.reorder` keeps, in its order
Cannot see  how rows are put in order: tests/headrace/ingress/test_event_times.py
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import LateRowError
from headrace.reference.order import reorder
from support.transacted import in_python, plain

ACCOUNTS = hr.table("accounts", columns={"n": "int64"}, rows=5, first={"n": 20})


def move(e, t):
    if ACCOUNTS[e.j].n < e.d:
        t.reject()
    ACCOUNTS[e.j].n -= e.d
    ACCOUNTS[e.k].n += e.d
    t.emit(left=ACCOUNTS[e.j].n)


def arriving(count=2_000, reach=30):
    """Events with ties, each displaced by up to `reach` of event time."""
    rng = random.Random(5)
    rows = [{"ts": i // 2, "k": rng.randrange(5), "j": rng.randrange(5), "d": rng.randrange(9)} for i in range(count)]
    return sorted(rows, key=lambda row: row["ts"] + rng.random() * reach)


def split(rows, lateness):
    """The rows in time, in order, and the late ones, as arrived."""
    return ([row for _, row in part] for part in reorder([(row["ts"], row) for row in rows], lateness, "side"))


def stream(rows, **given):
    return hr.stream(pa.Table.from_pylist(rows), event_time="ts", **given).transact(move, emits={"left": "int64"})


def check(run, in_time):
    rows, tables = in_python([move], pa.Table.from_pylist(in_time), {"left": "int64"})
    assert plain(run.to_arrow().to_pylist()) == plain(rows)
    assert plain(run.tables["accounts"].to_arrow().to_pylist()) == plain(tables["accounts"])


@pytest.mark.parametrize("scheme", ["chains", "lock", "speculative"])
def test_agree_disorder_within_lateness(scheme):
    rows = arriving()
    in_time, late = split(rows, 40)
    assert not late and in_time != rows
    with stream(rows, lateness=40).start(threads=2, max_threads=2, scheme=scheme, punctuation=64) as run:
        run.wait()
        check(run, in_time)


@pytest.mark.filterwarnings("ignore::headrace.errors.LateRowsWarning")
@pytest.mark.parametrize("policy", ["drop", "side"])
def test_agree_late_events_change_nothing(policy):
    rows = arriving()
    in_time, late = split(rows, 10)
    assert len(late) > 100
    with stream(rows, lateness=10, late=policy).start(threads=2, max_threads=2) as run:
        run.wait()
        check(run, in_time)
        metrics = run.metrics()
        assert (metrics.dropped, metrics.set_aside) == ((len(late), 0) if policy == "drop" else (0, len(late)))
        assert run.late is None if policy == "drop" else run.late.to_pylist() == late


def test_a_late_event_is_an_error_by_default():
    with pytest.raises(LateRowError, match="more than lateness = 10"):
        stream(arriving(), lateness=10).to_arrow()
