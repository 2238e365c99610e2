"""sl, Streaming Ledger: deposits, and transfers that happen if there is enough (TStream, section VI-A).

READ_MODIFY of two or four records under a condition on two of them: the effect of one operation depends on what others read.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.records import records_option
from headrace.reference import transaction_apps as reference

AT_FIRST = 10_000
NUMBERS = ("source", "target", "source_asset", "target_asset", "amount", "quantity")


def build(events: hr.Stream, records: int) -> hr.Stream:
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
            accounts[e.source].balance -= e.amount
            assets[e.source_asset].quantity -= e.quantity
        accounts[e.target].balance += e.amount
        assets[e.target_asset].quantity += e.quantity
        t.emit(balance=accounts[e.target].balance, quantity=assets[e.target_asset].quantity)

    return events.transact(move, emits={"balance": "int64", "quantity": "int64"})


APP = App(
    name="sl",
    help="deposit, and transfer money and assets where there is enough",
    left=(TIME, ("kind", "text"), *((name, "integer") for name in NUMBERS)),
    build=build,
    reference=reference.sl,
    options=[records_option(reference.RECORDS)],
    tables=("accounts", "assets"),
)
