"""Method: a dashboard on a real ledger, watched and steered through public names only.

Property: what the engine declares has a control or a panel, each click does what its printed line says, and the sum of the
balances is in the line that says nothing is lost; a table whose function makes money out of nothing turns that line red.
Oracle: the run's own configuration, books and tables.
Cannot see: anything in the browser; tests/browser drives a real one.
"""

import html
import itertools
import threading

import numpy as np
import pyarrow as pa
import pytest

import headrace as hr
from headrace_widgets import Dashboard
from support.made_up_run import Public
from support.workloads import eventually

ROWS = 500
accounts = hr.table("accounts", columns={"balance": "int64"}, rows=20, first={"balance": 100}, conserve="balance")


def transfer(e, t):
    if accounts[e.source].balance < e.amount:
        t.reject()
    accounts[e.source].balance -= e.amount
    accounts[e.target].balance += e.amount + e.minted


def events(stop, minted=0):
    draw = np.random.default_rng(3)
    schema = pa.schema([(name, pa.int64()) for name in ("ts", "source", "target", "amount", "minted")])

    def batches():
        for first in itertools.count(0, ROWS):
            if stop.is_set():
                return
            people = [draw.integers(0, 20, ROWS) for _ in range(2)]
            columns = np.arange(first, first + ROWS), *people, draw.integers(0, 60, ROWS), np.full(ROWS, minted)
            yield pa.record_batch(dict(zip(schema.names, columns, strict=True)), schema=schema)

    return hr.stream(pa.RecordBatchReader.from_batches(schema, batches()), event_time="ts")


@pytest.fixture
def opened(request):
    stop = threading.Event()
    stream = events(stop, getattr(request, "param", 0)).transact(transfer)
    with stream.start(threads=2, max_threads=4, rate=20_000, sink=hr.discard()) as run:
        dashboard = Dashboard(Public(run), stop_unwatched_after=None)
        yield run, dashboard, stop
        stop.set()
        dashboard.close()


def panels(dashboard):
    return {panel["key"]: panel for panel in dashboard.plots.widget.panels}


@pytest.mark.slow
def test_example_a_ledger_is_watched_and_steered(opened, tmp_path):
    run, dashboard, stop = opened
    assert list(dashboard.settings) == ["threads", "scheme", "sharing", "punctuation"]
    there = {"measure_transactions", "measure_rejected", "shares_of_time", "shares_of_breakdown", "measure_chains"}
    assert there <= set(panels(dashboard))
    text = lambda key: dashboard.plots.widget.texts.get(key, "")  # noqa: E731
    eventually(lambda: "chains/s" in text("measure_chains"), 180)
    eventually(lambda: "transactions/s" in text("measure_transactions") and "useful" in text("shares_of_breakdown"), 180)
    said = "accounts.balance sums to 2,000 as at the start (after "
    eventually(lambda: said in html.unescape(dashboard.status.badge.value), 180)
    assert "Nothing lost, order kept" in dashboard.status.badge.value

    punctuation = dashboard.settings["punctuation"]
    assert punctuation.slider.value == punctuation.entry.value == 500 and punctuation.slider.base == 10
    punctuation.entry.value = 2_000
    sharing = dashboard.settings["sharing"]
    assert not sharing.choice.disabled
    sharing.choice.value = "socket"
    dashboard.settings["scheme"].choice.value = "lock"
    dashboard.threads.plus.click()
    assert dashboard.messages.problem.value == ""
    assert dashboard.messages.lines == tuple(
        f"run.reconfigure({wish})" for wish in ("punctuation=2000", "sharing='socket'", "scheme='lock'", "threads=3")
    )
    mapping = dashboard.mapping  # the load of a bucket is not measured: nothing is coloured by it or predicted from it
    mapping.buckets.value = "0-15"
    mapping.move.click()
    assert "no imbalance can be predicted" in mapping.prediction.value and "coloured" not in mapping.picture().title
    mapping.discard.click()
    wanted = {"threads": 3, "scheme": "lock", "sharing": "socket", "punctuation": 2_000}
    eventually(lambda: wanted.items() <= run["transfer"].configuration.items(), 180)
    eventually(lambda: sharing.choice.disabled, 180)  # it has no effect now
    assert sharing.note in sharing.widget.children and sharing.note.value == "no effect with scheme lock: only with chains"
    dashboard.settings["scheme"].choice.value = "chains"
    eventually(lambda: not sharing.choice.disabled, 180)
    assert sharing.note not in sharing.widget.children and sharing.choice.value == "socket"
    punctuation.entry.value = 0
    assert "punctuation=0): give a whole number from 1 to " in dashboard.messages.problem.value
    assert punctuation.entry.value == 2_000
    assert "Chain length" in dashboard.save(tmp_path / "page.html").read_text()

    stop.set()
    assert run.wait(180)
    assert sum(run.tables["accounts"].to_arrow()["balance"].to_pylist()) == 2_000
    (total,) = run["transfer"].metrics().balance.conserved
    assert (total.now, total.at_tuple) == (2_000, None) and run.metrics().holds


@pytest.mark.slow
@pytest.mark.parametrize("opened", [1], indirect=True)
def test_example_money_out_of_nothing_is_seen_while_the_run_goes_on(opened):
    run, dashboard, _ = opened
    eventually(lambda: "and not to 2,000 as at the start" in html.unescape(dashboard.status.badge.value), 180)
    assert "The books do not balance" in dashboard.status.badge.value
    assert run.state == "running" and not run.metrics().holds
    eventually(lambda: not run.history.to_pandas()["balance_holds"].iloc[-1])
