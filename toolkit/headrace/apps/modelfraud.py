"""modelfraud: transactions checked against the model of the last rule, made of the transactions before it (section 4.1).

Transactions are independent of each other: each worker has the model and sums its own transactions. A rule depends on all.
Sums have 96 bits, as in `eventwindow`.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.dealing import Deal
from headrace.apps.eventwindow import HALF, LOW
from headrace.reference import synchronization_apps as reference

MODULUS = 1_000


def check(state, e, emit):
    """A transaction: a fraud if it agrees with the model; in any case it is summed."""
    if e.value % MODULUS == state.model:
        emit(kind="fraud", value=e.value)
    state.high += e.value >> HALF
    state.low += e.value & LOW


def renew(state, e, emit):
    """A rule: tell the sum of the transactions since the last one, and make the model of both."""
    high = state.high + (state.low >> HALF)
    if high < -(1 << 31) or high >= 1 << 31:
        raise OverflowError("the sum of the transactions since the last rule is beyond int64")
    total = (high << HALF) + (state.low & LOW)
    emit(kind="rule", value=total)
    state.model = (total % MODULUS + e.value % MODULUS) % MODULUS
    state.rules += 1
    state.high = 0
    state.low = 0


def replicate(state, left, right, tags_left, tags_right):
    """Both sides have the model; the sum goes to where a rule may come."""
    left.model = state.model
    left.rules = state.rules
    right.model = state.model
    right.rules = state.rules
    if "rule" in tags_right:
        right.high = state.high
        right.low = state.low
    else:
        left.high = state.high
        left.low = state.low


def merge(into, other):
    """Add both sums; the model is that of the latest rule."""
    if other.rules > into.rules:
        into.model = other.model
        into.rules = other.rules
    into.high += other.high
    into.low += other.low


PROGRAM = hr.program(
    name="modelfraud",
    tags={"transaction": {"value": "int64"}, "rule": {"value": "int64"}},
    depends=[("rule", "rule"), ("rule", "transaction")],
    state={"high": "int64", "low": "int64", "model": "int64", "rules": "int64"},
    emits={"kind": "string", "value": "int64"},
    update={"transaction": check, "rule": renew},
    fork=replicate,
    join=merge,
)


def build(deal: Deal, transactions: hr.Stream, rules: hr.Stream) -> hr.Stream:
    return PROGRAM.over({"transaction": deal(transactions), "rule": rules})


APP = App(
    name="modelfraud",
    help="find transactions that the model of the latest rule classifies as fraud",
    left=(TIME, ("value", "integer")),
    right=(TIME, ("value", "integer")),
    has_right=True,
    build=build,
    reference=reference.modelfraud,
    tags=("transaction",),
)
