"""The transactional applications of the command line (TStream, section VI-A), over plain rows.

Each gives the rows of its output file and its tables' content as ``--state`` writes it. A null where a value is
needed, and a key that no table has, reject the event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.reference.order import Payload, Source
from headrace.reference.transactions import Table, Transaction, transact

RECORDS = 10_000
SEGMENTS = 100
Outcome = tuple[list[Payload], dict[str, list[Payload]]]
"""The rows, and the content of each table by its name."""


class SetOf:
    """The kind of a set, as the state of an operator has it."""

    kind = "int64"


def _is_list(values: Any, length: int | None = None) -> bool:
    return values is not None and None not in values and length in (None, len(values))


def gs(sources: Sequence[Source], records: int = RECORDS) -> Outcome:
    """Grep and Sum: read all keys of a list and sum what they hold, or write them."""
    table = Table("records", {"value": "int64"}, {key: {"value": key} for key in range(records)})

    def grep(e: Any, t: Transaction) -> None:
        if not _is_list(e.keys) or not (e.values is None or _is_list(e.values, len(e.keys))):
            t.reject()
        if e.values is None:
            t.emit(sum=sum(table[key].value for key in e.keys))
        else:
            for key, value in zip(e.keys, e.values, strict=True):
                table[key].value = value

    return _outcome(sources, [grep], [table], ["sum"])


def sl(sources: Sequence[Source], records: int = RECORDS) -> Outcome:
    """Streaming Ledger: deposits, and transfers that happen if there is enough."""
    ids = range(records)
    accounts = Table("accounts", {"balance": "int64"}, {i: {"balance": 10_000} for i in ids}, key="id")
    assets = Table("assets", {"quantity": "int64"}, {i: {"quantity": 10_000} for i in ids}, key="id")

    def move(e: Any, t: Transaction) -> None:
        if e.kind not in ("deposit", "transfer") or None in (e.amount, e.quantity) or min(e.amount, e.quantity) < 0:
            t.reject()
        if e.kind == "transfer":
            if accounts[e.source].balance < e.amount or assets[e.source_asset].quantity < e.quantity:
                t.reject()
            accounts[e.source].balance -= e.amount
            assets[e.source_asset].quantity -= e.quantity
        accounts[e.target].balance += e.amount
        assets[e.target_asset].quantity += e.quantity
        t.emit(balance=accounts[e.target].balance, quantity=assets[e.target_asset].quantity)

    return _outcome(sources, [move], [accounts, assets], ["balance", "quantity"])


def ob(sources: Sequence[Source], records: int = RECORDS) -> Outcome:
    """Online Bidding: bids take what is offered; prices are altered, quantities topped up, in lists."""
    items = Table(
        "items", {"price": "int64", "quantity": "int64"}, {i: {"price": 100, "quantity": 1_000} for i in range(records)}, key="id"
    )

    def trade(e: Any, t: Transaction) -> None:
        used = {"bid": [e.prices, e.quantities], "alter": [e.prices], "top": [e.quantities]}.get(e.kind)
        if used is None or not _is_list(e.items, 1 if e.kind == "bid" else None):
            t.reject()
        if not all(_is_list(values, len(e.items)) and min(values, default=0) >= 0 for values in used):
            t.reject()
        for at, item in enumerate(e.items):
            row = items[item]
            if e.kind == "alter":
                row.price = e.prices[at]
            elif e.kind == "top":
                row.quantity += e.quantities[at]
            elif e.prices[at] < row.price or e.quantities[at] > row.quantity:
                t.reject()
            else:
                row.quantity -= e.quantities[at]
                t.emit(quantity=row.quantity)

    return _outcome(sources, [trade], [items], ["quantity"])


def tp(sources: Sequence[Source], records: int = SEGMENTS) -> Outcome:
    """Toll Processing: three transactions an event."""
    kinds = {"sum": "int64", "number": "int64", "vehicles": SetOf()}
    segments = Table("segments", kinds, {i: {} for i in range(records)}, key="segment")

    def road_speed(e: Any, t: Transaction) -> None:
        if None in (e.vehicle, e.speed) or e.speed < 0:
            t.reject()
        segments[e.segment].sum += e.speed
        segments[e.segment].number += 1

    def vehicle_cnt(e: Any, t: Transaction) -> None:
        if None in (e.vehicle, e.speed):
            t.reject()
        segments[e.segment].vehicles.add(e.vehicle)

    def toll_notification(e: Any, t: Transaction) -> None:
        if None in (e.vehicle, e.speed):
            t.reject()
        segment = segments[e.segment]
        average = float(segment.sum) / float(segment.number) if segment.number else None
        vehicles = len(segment.vehicles)
        is_free = average is None or average >= 40 or vehicles <= 50
        t.emit(average=average, vehicles=vehicles, toll=0 if is_free else 2 * (vehicles - 50) ** 2)

    functions = [road_speed, vehicle_cnt, toll_notification]
    rows, state = _outcome(sources, functions, [segments], ["average", "vehicles", "toll"], ["vehicle", "segment"])
    return rows, {"segments": [row | {"vehicles": len(row["vehicles"])} for row in state["segments"]]}


APPS: dict[str, Callable[..., Outcome]] = {"gs": gs, "sl": sl, "ob": ob, "tp": tp}


def _outcome(
    sources: Sequence[Source], functions: list[Callable], tables: list[Table], emits: list[str], carry: Sequence[str] = ()
) -> Outcome:
    rows = transact(sources, functions, tables, emits, carry)
    return rows, {table.name: table.content() for table in tables}
