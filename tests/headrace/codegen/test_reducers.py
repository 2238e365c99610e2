"""Comprehensions that a builtin reduces: loops in functions of their own.

Property    any, all, next, sum, min, max and len of comprehensions over a state give what they give in plain Python, evaluated
            as far and in the same order; what cannot be given to a function of its own is refused at its line
Oracle      `headrace.reference`, which calls the same functions in plain Python
Cannot see  combinations: `support.natural_functions` draws them
"""

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError
from headrace.kernel import JIT
from headrace.reference import ordering as reference

EMITS = {"n": "int64", "x": "float64", "w": "string", "p": "bool"}
STATE = {
    "xs": hr.list_of("int64"), "fs": hr.list_of("float64"), "ws": hr.list_of("string"), "m": hr.map_of("int64", "int64"),
    "r": hr.map_of("int64", hr.record(n="int64", w="string")), "calls": 0, "seen": hr.set_of("int64"),
}  # fmt: skip
LIMIT = 2
WEIGHTS = (1, -1)
ROWS = pa.table({
    "ts": list(range(40)), "k": [i % 3 for i in range(40)], "v": [(i * 7) % 11 - 3 for i in range(40)],
    "f": [i / 4 - 3 for i in range(40)], "s": [("a", "cart", "b", "")[i % 4] for i in range(40)],
})  # fmt: skip


def counted(state, x):
    state.calls += 1
    return x > LIMIT


def all_of_them(state, t, emit):
    total = t.v
    if any(x == t.v for x in state.xs) and all(x > -3 for x in state.xs):
        total += sum(x * t.v for x in state.xs if x != LIMIT)
    total += (5, 7)[t.v > LIMIT] + WEIGHTS[t.v < 0]
    total += len([x for x in state.xs if x % 2]) + sum((len(w) for w in state.ws), LIMIT)
    first = next((x for x in reversed(state.xs) if x > t.v), -1)
    pairs = any(x == y for x in state.xs if x > 0 for y, z in state.m.items() if z)
    nested = all(any(x <= y for y in state.xs) for x in state.xs)
    short = any(counted(state, x) for x in state.xs)  # as many calls as Python makes
    whole = any([counted(state, x) for x in state.xs])  # noqa: C419  (all of them)
    word = next((w for w in state.ws if w > t.s), t.s)
    if state.ws and max(w for w in state.ws) > min((w for w in state.ws if w), default=word):
        total += 3
    most = max((f for f in state.fs if f < t.f), default=0.5)
    least = min((one.n for one in state.r.values()), default=7) + max(state.xs, default=LIMIT)
    known = any(one.w == t.s for one in state.r.values()) or any(state.seen)
    truth = all(state.fs)
    emit(n=total * 1000 + first * 10 + state.calls + least, x=most, w=word,
         p=(pairs != nested) == (short and whole) or (known and not truth))  # fmt: skip
    state.xs.append(t.v)
    state.fs.append(t.f)
    state.ws.append(t.s)
    state.m[t.v] = t.v % 3
    state.r[t.v % 5].n = max([2 * x for x in state.xs])
    state.r[t.v % 5].w = t.s
    state.seen.add(0)
    if len(state.xs) > 6:
        state.xs.pop(0)


def rows_of(function, **options):
    stream = hr.stream(ROWS, event_time="ts").ordered().partitioned(function, by="k", state=STATE, emits=EMITS)
    return stream.to_arrow(**options).to_pylist()


@pytest.mark.slow
def test_oracle_each_reducer():
    source = [(row["ts"], {name: row[name] for name in ("k", "v", "f", "s")}) for row in ROWS.to_pylist()]
    stages = [reference.Partitioned(all_of_them, by="k", state=STATE, emits=EMITS)]
    expected = reference.ordered([source], stages)
    assert len({row["n"] for row in expected}) > 20 and {row["p"] for row in expected} == {True, False}
    assert rows_of(all_of_them, threads=2) == expected


LEDGER = hr.table("ledger", columns={"n": "int64"}, rows=20)
EVENTS = pa.table({"ts": range(5), "k": [1, 1, 2, 1, 2], "ks": [[1, 2], [], [3], [4, 5], [2, 1, 4]]})


def of_a_list_column(e, t):
    if any(x > 4 for x in e.ks):
        t.reject()
    LEDGER[e.k].n += sum(2 * x for x in e.ks) + len([x for x in e.ks if x > 1])
    known = LEDGER[e.k].n
    t.emit(n=known + max((x for x in e.ks), default=9), p=all(x < known for x in e.ks), w=next((x for x in e.ks if x > 1), -1))


def of_a_table(e, t):
    t.emit(n=sum(LEDGER[x].n for x in e.ks), p=True, w=0)


def transacted(function):
    return hr.stream(EVENTS, event_time="ts").transact(function, emits={"n": "int64", "p": "bool", "w": "int64"})


@pytest.mark.logic
def test_example_of_a_list_column_of_a_transaction():
    rows = [tuple(row.values())[1:] for row in transacted(of_a_list_column).to_arrow(threads=2).to_pylist()]
    assert rows == [
        (9, True, 2, False), (16, True, -1, False), (10, True, 3, False), (None, None, None, True), (27, True, 2, False),
    ]  # fmt: skip
    with pytest.raises(FunctionError, match="sum|comprehension|loop"):
        transacted(of_a_table).to_arrow()


def negative_sums(state, t, emit):
    emit(x=-sum(state.fs), n=0, w="", p=True)
    emit(x=-(sum(f for f in state.fs) % 4), n=0, w="", p=True)
    emit(x=-sum(state.xs), n=0, w="", p=True)


@pytest.mark.logic
def test_example_the_negative_of_a_sum_of_no_floats():
    """What `hr.operator` says of it: Python's sum is the integer 0 there."""
    rows = rows_of(negative_sums)[:3]
    looped = "-0.0" if JIT else "0.0"  # a name for an integer and a float is one for a float, says the compiler
    assert [str(row["x"]) for row in rows] == ["-0.0", looped, "0.0"]
    stages = [reference.Partitioned(negative_sums, by="k", state=STATE, emits=EMITS)]
    one = [(0, {"k": 0, "v": 0, "f": 0.0, "s": ""})]
    assert [str(float(row["x"])) for row in reference.ordered([one], stages)] == ["0.0"] * 3


def greatest_of_none(state, t, emit):
    emit(n=max(x for x in state.xs), x=0.0, w="", p=False)  # here


def test_the_greatest_of_nothing_is_an_error_as_in_python():
    with pytest.raises(FunctionError, match=r"ValueError: max\(\) .*empty"):
        rows_of(greatest_of_none)


def next_without_default(state, t, emit):
    emit(n=next(x for x in state.xs), x=0.0, w="", p=False)


def next_of_none(state, t, emit):
    emit(n=next((x for x in state.xs), None), x=0.0, w="", p=False)


def map_of_any(state, t, emit):
    emit(n=0, x=0.0, w="", p=map(any, state.xs))


def emits_inside(state, t, emit):
    emit(n=sum(emit(n=x, x=0.0, w="", p=True) for x in state.xs), x=0.0, w="", p=False)


@pytest.mark.parametrize(
    "function, message",
    [
        (next_without_default, r"next\(...\) cannot be compiled: give it a comprehension and a default"),
        (next_of_none, r"next\(...\) cannot be compiled: give it a comprehension and a default"),
        (map_of_any, "cannot be compiled"),
        (emits_inside, "gives nothing: call it as a statement of its own"),
    ],
)  # fmt: skip
def test_refused(function, message):
    with pytest.raises(FunctionError, match=message):
        rows_of(function)
