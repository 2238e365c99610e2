"""The four transactional applications with operations of a given cost, and their events.

They are as in `headrace.apps`, except that each operation takes ``rounds`` dependent steps before its value is stored or used.
The number of steps is a column of the events, so one compiled module serves all costs. The steps leave the value unchanged:
whatever an operation costs, results and tables are those of the applications.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

import headrace as hr
import headrace_datasets
from headrace.apps.gs import numbered
from headrace.apps.ob import PRICE, QUANTITY
from headrace.apps.sl import AT_FIRST
from headrace.apps.tp import FREE_FROM, FREE_UP_TO

RECORDS = 10_000
SEGMENTS = 100


def worked(value, rounds):
    """Make `rounds` steps of an xorshift generator, which LLVM cannot shorten; returns `value` unchanged."""
    x = (value & 0xFFFFFFFF) | 1
    for _ in range(rounds):
        x ^= (x & 0x7FFFF) << 13
        x ^= x >> 17
        x ^= (x & 0x7FFFFFF) << 5
    return value if x != 0 else value + 1


def gs(events: hr.Stream, records: int = RECORDS, record_bytes: int = 8) -> hr.Stream:
    """Grep and Sum; columns that are never read pad the records to `record_bytes`."""
    data = numbered(records)
    for k in range(record_bytes // 8 - 1):
        data = data.append_column(f"more_{k}", pa.array(np.zeros(records, np.int64)))
    table = hr.table("records", key="key", columns=dict.fromkeys(data.column_names[1:], "int64"), data=data)

    def grep(e, t):
        if e.keys is None or None in e.keys:
            t.reject()
        if e.values is None:
            total = 0
            for key in e.keys:
                total += worked(table[key].value, e.rounds)
            t.emit(sum=total)
        else:
            if None in e.values or len(e.values) != len(e.keys):
                t.reject()
            for key, value in zip(e.keys, e.values):  # noqa: B905 (compiled, of one length)
                table[key].value = worked(value, e.rounds)

    return events.transact(grep, emits={"sum": "int64"})


def sl(events: hr.Stream, records: int = RECORDS) -> hr.Stream:
    """The Streaming Ledger."""
    accounts = hr.table("accounts", columns={"balance": "int64"}, rows=records, first={"balance": AT_FIRST})
    assets = hr.table("assets", columns={"quantity": "int64"}, rows=records, first={"quantity": AT_FIRST})

    def move(e, t):
        if e.kind is None or (e.kind != "deposit" and e.kind != "transfer"):
            t.reject()
        if e.amount is None or e.quantity is None or e.amount < 0 or e.quantity < 0:
            t.reject()
        if e.kind == "transfer":
            if accounts[e.source].balance < e.amount or assets[e.source_asset].quantity < e.quantity:
                t.reject()
            accounts[e.source].balance = worked(accounts[e.source].balance - e.amount, e.rounds)
            assets[e.source_asset].quantity = worked(assets[e.source_asset].quantity - e.quantity, e.rounds)
        accounts[e.target].balance = worked(accounts[e.target].balance + e.amount, e.rounds)
        assets[e.target_asset].quantity = worked(assets[e.target_asset].quantity + e.quantity, e.rounds)
        t.emit(balance=accounts[e.target].balance, quantity=assets[e.target_asset].quantity)

    return events.transact(move, emits={"balance": "int64", "quantity": "int64"})


def ob(events: hr.Stream, records: int = RECORDS) -> hr.Stream:
    """Online Bidding."""
    first = {"price": PRICE, "quantity": QUANTITY}
    items = hr.table("items", columns={"price": "int64", "quantity": "int64"}, rows=records, first=first)

    def trade(e, t):
        if e.kind is None or e.items is None or None in e.items:
            t.reject()
        if e.kind == "bid" or e.kind == "alter":
            if e.prices is None or None in e.prices or len(e.prices) != len(e.items):
                t.reject()
            for price in e.prices:
                if price < 0:
                    t.reject()
        if e.kind == "bid" or e.kind == "top":
            if e.quantities is None or None in e.quantities or len(e.quantities) != len(e.items):
                t.reject()
            for quantity in e.quantities:
                if quantity < 0:
                    t.reject()
        if e.kind == "bid":
            if len(e.items) != 1:
                t.reject()
            item = items[e.items[0]]
            if e.prices[0] < item.price or e.quantities[0] > item.quantity:
                t.reject()
            item.quantity = worked(item.quantity - e.quantities[0], e.rounds)
            t.emit(quantity=item.quantity)
        elif e.kind == "alter":
            for key, price in zip(e.items, e.prices):  # noqa: B905 (compiled, of one length)
                items[key].price = worked(price, e.rounds)
        elif e.kind == "top":
            for key, quantity in zip(e.items, e.quantities):  # noqa: B905
                items[key].quantity = worked(items[key].quantity + quantity, e.rounds)
        else:
            t.reject()

    return events.transact(trade, emits={"quantity": "int64"})


def tp(reports: hr.Stream, records: int = SEGMENTS) -> hr.Stream:
    """Toll Processing."""
    columns = {"sum": "int64", "number": "int64", "vehicles": hr.set_of("int64")}
    segments = hr.table("segments", key="segment", columns=columns, rows=records)

    def road_speed(e, t):
        if e.vehicle is None or e.speed is None or e.speed < 0:
            t.reject()
        segments[e.segment].sum += worked(e.speed, e.rounds)
        segments[e.segment].number += 1

    def vehicle_cnt(e, t):
        if e.vehicle is None or e.speed is None:
            t.reject()
        segments[e.segment].vehicles.add(worked(e.vehicle, e.rounds))

    def toll_notification(e, t):
        if e.vehicle is None or e.speed is None:
            t.reject()
        segment = segments[e.segment]
        vehicles = len(segment.vehicles)
        if segment.number == 0:
            t.emit(vehicles=vehicles, toll=0)
        else:
            average = segment.sum / segment.number
            toll = 0
            if average < FREE_FROM and vehicles > FREE_UP_TO:
                toll = 2 * (vehicles - FREE_UP_TO) ** 2
            t.emit(average=average, vehicles=worked(vehicles, e.rounds), toll=toll)

    return reports.transact(
        road_speed, vehicle_cnt, toll_notification,
        emits={"average": "float64", "vehicles": "int64", "toll": "int64"}, carry=["vehicle", "segment"],
    )  # fmt: skip


def tp_in_two_tables(reports: hr.Stream, records: int = SEGMENTS) -> hr.Stream:
    """Toll Processing as in the paper: a segment's speeds in one table, its vehicles in another; each event reads both."""
    speeds = hr.table("speeds", key="segment", columns={"sum": "int64", "number": "int64"}, rows=records)
    counts = hr.table("counts", key="segment", columns={"vehicles": hr.set_of("int64")}, rows=records)

    def road_speed(e, t):
        if e.vehicle is None or e.speed is None or e.speed < 0:
            t.reject()
        speeds[e.segment].sum += worked(e.speed, e.rounds)
        speeds[e.segment].number += 1

    def vehicle_cnt(e, t):
        if e.vehicle is None or e.speed is None:
            t.reject()
        counts[e.segment].vehicles.add(worked(e.vehicle, e.rounds))

    def toll_notification(e, t):
        if e.vehicle is None or e.speed is None:
            t.reject()
        speed = speeds[e.segment]
        vehicles = worked(len(counts[e.segment].vehicles), e.rounds)
        if speed.number == 0:
            t.emit(vehicles=vehicles, toll=0)
        else:
            average = worked(speed.sum, e.rounds) / speed.number
            toll = 0
            if average < FREE_FROM and vehicles > FREE_UP_TO:
                toll = 2 * (vehicles - FREE_UP_TO) ** 2
            t.emit(average=average, vehicles=vehicles, toll=toll)

    return reports.transact(
        road_speed, vehicle_cnt, toll_notification,
        emits={"average": "float64", "vehicles": "int64", "toll": "int64"}, carry=["vehicle", "segment"],
    )  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """An application, and the events it is measured with.

    Parameters
    ----------
    name : str
    build : callable
        ``build(stream)`` gives the stream of results.
    make : callable
        ``make(n=..., **events)`` gives the dataset.
    events : dict
        Arguments of `make`, as `bench gs | sl | ob | tp` and the paper's section VI-A have them.
    operations : callable
        ``operations(table)`` gives the number of operations in a table of events.
    morphstream : float or None
        Events per second that MorphStream processes on a similar machine.
    """

    name: str
    build: Callable[[hr.Stream], hr.Stream]
    make: Callable[..., headrace_datasets.Dataset]
    operations: Callable[[pa.Table], int]
    morphstream: float | None = None
    events: Mapping[str, Any] = field(default_factory=dict)

    def table(self, n: int, **changed: Any) -> pa.Table:
        """`n` events."""
        return self.make(n=n, **{**self.events, **changed}).to_arrow().combine_chunks()


def with_rounds(table: pa.Table, rounds: int) -> pa.Table:
    """The events with a column that has each operation take `rounds` steps."""
    return table.append_column("rounds", pa.array(np.full(table.num_rows, rounds)))


def _in_lists(column: str) -> Callable[[pa.Table], int]:
    return lambda table: sum(len(chunk.flatten()) for chunk in table[column].chunks)


def _of_ledger(table: pa.Table) -> int:
    return 4 * table.num_rows - 2 * table["source"].null_count


WORKLOADS = {
    each.name: each
    for each in (
        Workload("gs", gs, headrace_datasets.gs, _in_lists("keys"), 52e3, {"multi_share": None}),
        Workload("sl", sl, headrace_datasets.sl, _of_ledger, 28e3, {"multi_share": None}),
        Workload("ob", ob, headrace_datasets.ob, _in_lists("items"), None, {"multi_share": None}),
        Workload("tp", tp, headrace_datasets.tp, lambda table: 3 * table.num_rows, 54e3),
    )
}

TWO_TABLES = Workload("tp", tp_in_two_tables, headrace_datasets.tp, lambda table: 4 * table.num_rows)
"""TP with rows of two tables, and so of two partitions, in each event (TStream, section VI-B)."""

__all__ = ["TWO_TABLES", "WORKLOADS", "Workload", "with_rounds", "worked"]
