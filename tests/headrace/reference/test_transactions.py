"""The serial definition of transactions, on examples worked out by hand, and what must hold of every application."""

import copy
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.reference.transaction_apps import APPS, ob, sl, tp
from headrace.reference.transactions import Table, transact


def rows_of(function, events, *tables, emits=(), **options):
    return transact([list(enumerate(events))], [function], tables, emits, **options)


def test_example_a_rejected_transaction_leaves_nothing():
    accounts = Table("accounts", {"balance": "int64"}, {0: {"balance": 5}, 1: {}}, unknown="insert")

    def greedy(e, t):
        accounts[1].balance += e.amount
        accounts[7].balance = 1
        accounts[0].balance -= e.amount
        assert accounts[1].balance == e.amount, "it reads its own writes"
        if accounts[0].balance < 0:
            t.reject()

    assert [row["rejected"] for row in rows_of(greedy, [{"amount": 6}], accounts)] == [True]
    assert accounts.content() == [{"key": 0, "balance": 5}, {"key": 1, "balance": 0}]
    assert [row["rejected"] for row in rows_of(greedy, [{"amount": 5}], accounts)] == [False]
    assert [row["balance"] for row in accounts.content()] == [0, 5, 1]


def test_example_containers_are_as_before_too():
    seen = Table("seen", {"words": type("SetOf", (), {"kind": "string"})()}, {"a": {}})

    def note(e, t):
        seen["a"].words.add(e.word)
        if e.word == "no":
            t.reject()
        t.emit(words=len(seen["a"].words))

    rows = rows_of(note, [{"word": word} for word in ("x", "no", "y", "x")], seen, emits=["words"], carry=["word"])
    assert [(row["word"], row["words"], row["rejected"]) for row in rows] == [
        ("x", 1, False), ("no", None, True), ("y", 2, False), ("x", 2, False)
    ]  # fmt: skip
    assert seen.content() == [{"key": "a", "words": ["x", "y"]}]


@pytest.mark.parametrize(("unknown", "outcome"), [("reject", True), ("insert", False), ("error", None)])
def test_example_unknown_keys(unknown, outcome):
    table = Table("t", {"n": "int64"}, {0: {}}, unknown=unknown)

    def count(e, t):
        table[e.key].n += 1

    if outcome is None:
        with pytest.raises(KeyError, match="t has no key 3"):
            rows_of(count, [{"key": 3}], table)
    else:
        assert rows_of(count, [{"key": 3}], table)[0]["rejected"] is outcome
    assert rows_of(count, [{"key": None}], table)[0]["rejected"], "a null is no key"


def test_example_a_constraint_rejects_and_integers_have_ends():
    table = Table("t", {"n": "int64"}, {0: {"n": 3}}, least={"n": 0})

    def add(e, t):
        table[0].n += e.by

    assert [row["rejected"] for row in rows_of(add, [{"by": -3}, {"by": -1}, {"by": 2}], table)] == [False, True, False]
    with pytest.raises(OverflowError, match=r"t\.n: 9223372036854775808 is beyond int64"):
        rows_of(add, [{"by": 2**63 - 2}], table)


def test_bad_emissions_and_columns():
    table = Table("t", {"n": "int64"}, {0: {}})
    for function, words in [
        (lambda e, t: (t.emit(a=1), t.emit(a=2)), "emit was called before"),
        (lambda e, t: t.emit(b=1), "the columns are a"),
        (lambda e, t: table[0].m, "t has no column 'm'"),
        (lambda e, t: setattr(table[0], "key", 1), "'key' that can be written"),
    ]:
        with pytest.raises((ValueError, AttributeError), match=words):
            rows_of(function, [{}], table, emits=["a"])


def test_example_sl():
    base = {"kind": "transfer", "source": 0, "target": 1, "source_asset": 0, "target_asset": 1, "amount": 9_000, "quantity": 1}
    events = [base, base, base | {"kind": "deposit", "source": None, "amount": 5}, base | {"target": 0, "amount": 1_000}]
    events += [base | {"amount": -1}, base | {"target": 2}, base | {"kind": "loan"}, base | {"amount": None}]
    rows, tables = sl([list(enumerate(events))], records=2)
    assert [row["balance"] for row in rows] == [19_000, None, 19_005, 1_000, None, None, None, None]
    assert [row["quantity"] for row in rows[:4]] == [10_001, None, 10_002, 10_003]
    assert [row["rejected"] for row in rows] == [False, True, False, False, True, True, True, True]
    assert [row["balance"] for row in tables["accounts"]] == [1_000, 19_005]


def test_example_ob():
    events = [
        {"kind": "alter", "items": [0, 0], "prices": [5, 7], "quantities": None},
        {"kind": "bid", "items": [0], "prices": [6], "quantities": [1]},
        {"kind": "bid", "items": [0], "prices": [7], "quantities": [1_000]},
        {"kind": "top", "items": [0, 0, 1], "prices": None, "quantities": [2, 3, 4]},
        {"kind": "top", "items": [1, 9], "prices": None, "quantities": [1, 1]},
        {"kind": "bid", "items": [0, 1], "prices": [9, 9], "quantities": [1, 1]},
        {"kind": "top", "items": [], "prices": [None], "quantities": []},
    ]
    rows, tables = ob([list(enumerate(events))], records=2)
    assert [row["rejected"] for row in rows] == [False, True, False, False, True, True, False]
    assert [row["quantity"] for row in rows] == [None, None, 0, None, None, None, None]
    assert tables["items"] == [{"id": 0, "price": 7, "quantity": 5}, {"id": 1, "price": 100, "quantity": 1_004}]


def test_example_tp():
    events = [{"vehicle": i % 53, "segment": 0, "speed": 30} for i in range(60)]
    events += [{"vehicle": 99, "segment": 0, "speed": -1}, {"vehicle": 100, "segment": 5, "speed": 1}]
    rows, tables = tp([list(enumerate(events))], records=1)
    assert (rows[51]["toll"], rows[52]["toll"], rows[59]["average"]) == (8, 18, 30.0)
    assert (rows[60]["rejected"], rows[60]["vehicles"], rows[60]["toll"]) == (True, 54, 32), "only the speed is not noted"
    assert rows[61]["rejected"] and rows[61]["vehicles"] is None
    assert tables["segments"] == [{"segment": 0, "sum": 1_800, "number": 60, "vehicles": 54}]


def drawn(name, draw):
    """An event of an application, wrong in some way now and then."""
    key = lambda: draw.choice([0, 1, 2, 2, 3, None, -1])  # noqa: E731
    few = lambda: draw.randint(-1, 40)  # noqa: E731
    many = lambda pick: draw.choice([None, [pick() for _ in range(draw.randint(0, 3))], [pick()]])  # noqa: E731
    if name == "gs":
        return {"keys": many(key), "values": many(few)}
    if name == "sl":
        of = {column: key() for column in ("source", "target", "source_asset", "target_asset")}
        return of | {"kind": draw.choice(["deposit", "transfer", "?"]), "amount": 300 * few(), "quantity": few()}
    assert name == "ob"
    kind = draw.choice(["bid", "alter", "top"])
    return {"kind": kind, "items": many(key), "prices": many(lambda: 5 * few()), "quantities": many(few)}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["gs", "ob", "sl"]), st.integers(0, 2**32))
def test_property_what_is_rejected_leaves_nothing(name, seed):
    """Without the events that were rejected the tables are the same, and so are all other rows."""
    draw = random.Random(seed)
    events = [(i, drawn(name, draw)) for i in range(60)]
    before = copy.deepcopy(events)
    rows, tables = APPS[name]([events], records=4)
    assert events == before and len(rows) == 60
    kept = [event for event, row in zip(events, rows, strict=True) if not row["rejected"]]
    again, same = APPS[name]([kept], records=4)
    assert same == tables and again == [row for row in rows if not row["rejected"]]
    if name == "sl":
        deposits = sum(event["amount"] for _, event in kept if event["kind"] == "deposit")
        assert sum(row["balance"] for row in tables["accounts"]) == 4 * 10_000 + deposits
