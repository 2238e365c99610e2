"""Transactions over a streaming DataFrame: the rows and tables of the events one after another, whatever the micro-batches.

Property    results and final tables of a query that ends are the reference's, under changes of threads, scheme and punctuation
            on the way; while a query goes on, a snapshot has the tables after the events so far
Oracle      the reference in plain Python
Cannot see  a query that fails and is started again (test_streaming.py of Spark does, for all engines)
"""

import random

import headrace as hr
from headrace.reference import transactions as reference
from support.spark_files import write_json
from support.workloads import HANG_S, eventually

ACCOUNTS, FILES, EACH = 20, 5, 80
SCHEMA = "ts long, source long, target long, amount long"
DRAW = random.Random(14)
EVENTS = [
    {"ts": i // 3, "source": DRAW.randrange(ACCOUNTS), "target": DRAW.randrange(ACCOUNTS + 1), "amount": DRAW.randrange(-1, 60)}
    for i in range(FILES * EACH)
]
"""Some amounts are negative or not there, and some targets unknown, so that events are rejected for each reason."""
CHANGES = [(90, {"threads": 3}), (170, {"scheme": "lock"}), (250, {"threads": 1, "punctuation": 7}), (330, {"scheme": "mvlk"})]


def transfers(accounts):
    def move(e, t):
        if e.amount < 0 or accounts[e.source].balance < e.amount:
            t.reject()
        accounts[e.source].balance -= e.amount
        accounts[e.target].balance += e.amount
        t.emit(balance=accounts[e.target].balance)

    return move


def expected(events):
    """Rows and balances after these events."""
    accounts = reference.Table("accounts", {"balance": "int64"}, {key: {"balance": 100} for key in range(ACCOUNTS)})
    source = [(event["ts"], event) for event in events]
    rows = list(reference.transact([source], [transfers(accounts)], [accounts], {"balance"}))
    return rows, [row["balance"] for row in accounts.content()]


def ledger(frame):
    accounts = hr.table("accounts", columns={"balance": "int64"}, rows=ACCOUNTS, first={"balance": 100}, conserve="balance")
    return hr.stream(frame, event_time="ts").transact(transfers(accounts), emits={"balance": "int64"})


def write(folder, number):
    """One file of events."""
    write_json(folder, number, EVENTS[number * EACH : (number + 1) * EACH])


def frame_of(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def balances(table):
    return table.to_arrow()["balance"].to_pylist()


def test_oracle_files_one_by_one_and_changes_on_the_way(spark, tmp_path):
    for number in range(FILES):
        write(tmp_path, number)
    rows, last = expected(EVENTS)
    assert {row["rejected"] for row in rows} == {False, True}
    live = hr.spark.live(frame_of(spark, tmp_path), trigger={"availableNow": True})
    with ledger(live).start(threads=2, max_threads=4, scheme="chains", punctuation=16, reconfigure=CHANGES) as run:
        assert run.wait(HANG_S)
        assert run.to_arrow().to_pylist() == rows
        assert balances(run.tables["accounts"]) == last
        assert len(run.changes) == len(CHANGES) and live.last_batch == FILES - 1


def test_oracle_snapshots_and_changes_while_the_query_goes_on(spark, tmp_path):
    changes = [{"scheme": "lock"}, {"threads": 3}, {"scheme": "chains", "threads": 1}]
    with ledger(frame_of(spark, tmp_path)).start(threads=2, max_threads=4, max_delay="1ms") as run:
        for number, change in enumerate([*changes, None]):
            write(tmp_path, number)
            count = (number + 1) * EACH
            # Events of the newest time wait: another of that time may come.
            ready = sum(event["ts"] < EVENTS[count - 1]["ts"] for event in EVENTS[:count])
            eventually(lambda wanted=ready: run.metrics().tuples_out >= wanted, HANG_S)
            now = run.snapshot()
            assert now.position >= ready and balances(now["accounts"]) == expected(EVENTS[: now.position])[1]
            if change:
                assert run.reconfigure(**change).wait(HANG_S)
        assert run.state == "running"
        run.stop()
    assert len(run.changes) == len(changes)
    eventually(lambda: not spark.streams.active, HANG_S)
