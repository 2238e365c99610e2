"""The Streaming Ledger (TStream, section VI-A) and its peers: transfers and deposits over two tables, in one order.

Half of the events of `ledger` are transfers, which access two accounts and two assets and are rejected unless both sources hold
enough; the verdict on a transfer depends on all events before it. `deposits` has no transfers: each event adds to one account
and to one asset, so that a split by keys is correct. Each event gives a row of the result: its time, and the balance and
quantity of its target afterwards, -1 in both if it was rejected. The result is a sequence.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import headrace as hr
import headrace_datasets
from headrace.apps.sl import AT_FIRST, build
from headrace.kernel import kernel
from headrace.memory.wrapped import wrapped_sum
from headrace_bench.digest import mix, unsigned
from headrace_bench.peers.workloads import Work

RECORDS = 10_000
"""Number of accounts, and of assets."""
NUMBERS = ("source", "target", "source_asset", "target_asset", "amount", "quantity")
NAMES = ("ledger", "deposits")
BATCH = 50_000
"""Number of events that SQL gets at a time."""


def orders_of(n: int, transfers: float) -> pa.Table:
    """Make `n` events: ts (ms), kind, accounts, assets, amount, quantity. With transfers, 1 % of events are overdrafts."""
    made = headrace_datasets.sl(n=n, transfers=transfers, rejected=0.01 if transfers else 0.0).to_arrow().combine_chunks()
    ts = pc.cast(pc.cast(made["ts"], pa.timestamp("ms"), safe=False), pa.int64())
    columns = {"ts": ts, "kind": made["kind"], **{name: made[name].fill_null(0) for name in NUMBERS}}
    return pa.table(columns).combine_chunks()


@kernel
def ledger_loop(columns, accounts, assets, out):
    """Apply `columns` (ts, whether a transfer, those of `NUMBERS`) in order; fold results into `out` (digest, rows)."""
    ts, is_transfer, source, target, source_asset, target_asset, amount, quantity = columns
    for i in range(ts.size):
        is_fine = amount[i] >= 0 and quantity[i] >= 0
        if is_fine and is_transfer[i]:
            is_fine = accounts[source[i]] >= amount[i] and assets[source_asset[i]] >= quantity[i]
            if is_fine:
                accounts[source[i]] -= amount[i]
                assets[source_asset[i]] -= quantity[i]
        balance, left = -1, -1
        if is_fine:
            accounts[target[i]] += amount[i]
            assets[target_asset[i]] += quantity[i]
            balance, left = accounts[target[i]], assets[target_asset[i]]
        out[0] = wrapped_sum(out[0], mix(out[1], ts[i], balance, left, 0))
        out[1] += 1


def query(stream: hr.Stream) -> hr.Stream:
    """Our query: the application of the command line."""
    return build(stream, RECORDS)


def ledger(table: pa.Table, folder: Path) -> Work:
    """Balance of the target account and quantity of the target asset after each event; the result is a sequence."""
    is_transfer = pc.equal(table["kind"], "transfer").combine_chunks().to_numpy(zero_copy_only=False)
    columns = (table["ts"].to_numpy(), is_transfer, *(table[name].to_numpy() for name in NUMBERS))

    def loop() -> tuple[float, int, int]:
        out, accounts, assets = np.zeros(2, np.int64), np.full(RECORDS, AT_FIRST), np.full(RECORDS, AT_FIRST)
        begin = time.perf_counter()
        ledger_loop(columns, accounts, assets, out)
        return time.perf_counter() - begin, unsigned(out[0]), int(out[1])

    name = NAMES[0] if is_transfer.any() else NAMES[1]
    return Work(name, "events", [table], ("ts", "balance", "quantity"), loop, query, folder, is_ordered=True, row="event")


# -- in SQL

_START = f"""
    create or replace table accounts as select range as id, {AT_FIRST}::bigint as held from range({RECORDS});
    create or replace table assets as select range as id, {AT_FIRST}::bigint as held from range({RECORDS});"""
_TAKE = """
    create or replace temp table batch as
    select *, kind = 'transfer' as moves, amount >= 0 and quantity >= 0 as is_fine, amount >= 0 and quantity >= 0 as ok
    from (select *, row_number() over () as position from arrived)"""
_CHANGES = """
    select position, {source} as id, case when ok then -{much} else 0 end as change, true as is_source from batch where moves
    union all select position, {target}, case when ok then {much} else 0 end, false from batch"""
_RUNNING = """
    select position, is_source,
        held + coalesce(sum(change) over (partition by id order by position
            range between unbounded preceding and 1 preceding), 0) as before,
        held + sum(change) over (partition by id order by position range unbounded preceding) as after
    from ({changes}) join {table} using (id)"""
_OF = {
    "accounts": {"source": "source", "target": "target", "much": "amount"},
    "assets": {"source": "source_asset", "target": "target_asset", "much": "quantity"},
}
_MONEY, _GOODS = (_RUNNING.format(table=table, changes=_CHANGES.format(**of)) for table, of in _OF.items())
_JUDGE = f"""
    create or replace temp table judged as
    with money as ({_MONEY}), goods as ({_GOODS})
    select b.* exclude (ok), b.ok as was,
        is_fine and (not moves or (m.before >= amount and g.before >= quantity)) as ok,
        n.after::bigint as balance, h.after::bigint as left
    from batch b
    left join money m on m.position = b.position and m.is_source left join goods g on g.position = b.position and g.is_source
    join money n on n.position = b.position and not n.is_source join goods h on h.position = b.position and not h.is_source"""
_DIFFER = "select count(*) from judged where ok <> was"
_AGAIN = 'create or replace temp table batch as select * exclude (was, balance, "left") from judged'
_RESULT = """
    select ts, case when ok then balance else -1 end as balance, case when ok then "left" else -1 end as quantity
    from judged order by position"""
_KEEP = [
    f"""update {table} set held = held + total from (
        select id, sum(change)::bigint as total from ({_CHANGES.format(**of)}) group by id) as moved
    where moved.id = {table}.id"""
    for table, of in _OF.items()
]


def in_batches(connection, table: pa.Table, batch: int) -> pa.Table:
    """Compute the result in SQL alone, batch by batch.

    At first every event of a batch counts as accepted. The batch is then judged again, with the balances that the last verdicts
    imply, until no verdict changes. A verdict depends only on earlier events, so stable verdicts are those of the serial order.
    """
    connection.execute(_START)
    found = []
    for begin in range(0, table.num_rows, batch):
        connection.register("arrived", table.slice(begin, batch))
        connection.execute(_TAKE)
        connection.execute(_JUDGE)
        while connection.execute(_DIFFER).fetchall() != [(0,)]:
            connection.execute(_AGAIN)
            connection.execute(_JUDGE)
        found.append(connection.sql(_RESULT).to_arrow_table())
        for each in _KEEP:
            connection.execute(each)
    return pa.concat_tables(found)


__all__ = ["BATCH", "NAMES", "in_batches", "ledger", "orders_of"]
