"""ob, Online Bidding: bids take what is offered; prices are altered and quantities topped up in lists (TStream, section VI-A).

A bid is one READ_MODIFY under a condition on its own record; alter and top write a record for each element.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.records import records_option
from headrace.reference import transaction_apps as reference

PRICE, QUANTITY = 100, 1_000


def build(events: hr.Stream, records: int) -> hr.Stream:
    items = hr.table(
        "items", columns={"price": "int64", "quantity": "int64"}, rows=records, first={"price": PRICE, "quantity": QUANTITY}
    )

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
            item.quantity -= e.quantities[0]
            t.emit(quantity=item.quantity)
        elif e.kind == "alter":
            for key, price in zip(e.items, e.prices):  # noqa: B905 (compiled, of one length)
                items[key].price = price
        elif e.kind == "top":
            for key, quantity in zip(e.items, e.quantities):  # noqa: B905
                items[key].quantity += quantity
        else:
            t.reject()

    return events.transact(trade, emits={"quantity": "int64"})


APP = App(
    name="ob",
    help="take bids for items, alter prices, top up quantities",
    left=(
        TIME,
        ("kind", "text"),
        ("items", "list of integers"),
        ("prices", "list of integers"),
        ("quantities", "list of integers"),
    ),
    build=build,
    reference=reference.ob,
    options=[records_option(reference.RECORDS)],
    tables=("items",),
)
