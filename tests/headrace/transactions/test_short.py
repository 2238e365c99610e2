"""Short transactions on few rows, in whole runs, beside the same functions in plain Python.

Property    two names, or none, for one row, used in turns; what was read kept under a name that decides whether the event
            is rejected, what is emitted, what is written; several names assigned at once; functions that are called and
            return early: rows and tables are those of the serial definition, for every scheme
Oracle      `headrace.reference.transactions`, which runs the same function
Drawn       by seeds, which a failure names with the function's text. Not by Hypothesis: a case is a whole run, and making one
            that failed smaller took five minutes; it draws statements alone in test_returns.py
Cannot see  machine code: these run in the process without the compiler, unless HEADRACE_COMPILED is set
"""

import random

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError
from headrace.transactions import splitting
from headrace.transactions.lowering import function as lowering
from support.short_transactions import EMITS, events, program
from support.transacted import SCHEMES, agree

A = hr.table("A", columns={"b": "int64", "c": "int64"}, rows=4, first={"b": 4, "c": 1})
EVENTS = pa.table({
    "ts": list(range(8)), "k": [1, 2, 2, 0, 1, 1, 3, 2], "j": [3, 3, 2, 1, 1, 2, 3, 2], "y": [1, 2, 2, 0, 0, 1, 3, 2],
    "ks": [[0, 1], [], [2, 2, 3], [1], [3, 0], [], [2, 1, 2], [0]],
    "x": [1, 0, 0, 2, 3, 1, -1, 4], "nk": [None, 2, None, 1, 2, 1, 0, 3],
})  # fmt: skip


def read_under_a_name_found_before(e, t):
    r = A[e.y]
    A[e.k].b -= 1
    t.emit(o=r.b)


def written_in_turns(e, t):
    r, s = A[e.y], A[e.k]
    r.b -= 1
    s.b *= 3
    r.b += 5


def written_in_turns_without_names(e, t):
    A[e.k].b -= 1
    A[e.j].b *= 3
    A[e.k].b += 5
    t.emit(o=A[e.j].b)


def rejected_by_a_value_with_a_name(e, t):
    r = A[e.k]
    is_little = r.b < 3
    if is_little:
        t.reject()
    r.b -= e.x
    t.emit(o=r.b)


def emits_by_a_value_with_a_name(e, t):
    r = A[e.k]
    if r.b < 3:
        t.reject()
    r.b -= 1
    u = r.b
    if u > 3:
        t.emit(o=u)


def stop(t, is_wrong):
    if is_wrong:
        t.reject()


def rejected_in_a_function(e, t):
    r = A[e.y]
    if e.x > 0:
        r.b += 1
    else:
        stop(t, 2 < r.c < r.b)


def two_values_at_once(e, t):
    u, v = e.x, 0
    if u > 3:
        t.reject()
    v = A[e.j].c
    t.emit(o=u, u=v)


def swap(k, j):
    p, q = A[k], A[j]
    p.b, q.b = q.b + 1, p.b
    return p.b


def rows_are_swapped(e, t):
    u = v = e.x
    u, v = v + 1, u
    (u, w), [x, y] = (v, u), (7, e.y)
    A[e.k].c += u + w + x + y
    t.emit(o=swap(e.k, e.j), u=u)


def a_key_changes_beside_its_row(e, t):
    k, n = e.k, e.nk
    k, r = e.j, A[k]
    r.b += 1
    A[n].c += 1
    t.emit(o=r.b + k)


def lists_that_may_be_empty(e, t):
    if not e.ks:
        t.reject()
    for k in reversed(e.ks):
        A[k].b = A[k].b * 2 + e.x
    t.emit(o=e.ks[0] if e.ks and e.ks[0] > 0 else -1, u=A[e.k].b)


def lists_asked_beside_rows(e, t):
    if e.ks and A[e.ks[0]].b > 3:
        A[e.k].c += 1
    if not e.ks or not (A[e.k].b > 2 and e.ks):
        A[e.j].b -= 1
    t.emit(o=1 if e.ks and A[e.y].c else 2)


AGREE = [
    read_under_a_name_found_before, written_in_turns, written_in_turns_without_names, rejected_by_a_value_with_a_name,
    emits_by_a_value_with_a_name, rejected_in_a_function, two_values_at_once, rows_are_swapped, a_key_changes_beside_its_row,
    lists_that_may_be_empty, lists_asked_beside_rows,
]  # fmt: skip


@pytest.mark.logic
@pytest.mark.parametrize("function", AGREE, ids=lambda function: function.__name__)
def test_example_rows_and_tables_are_those_of_the_serial_definition(function):
    agree(function, EVENTS, EMITS, carry=["k"], schemes=SCHEMES, threads=2, punctuation=3)


def done_with_one_first(e, t):
    r, s = A[e.y], A[e.k]
    r.b -= 1
    r.b += 5
    s.b *= 3
    t.emit(o=s.b)


def other_columns_in_turns(e, t):
    r, s = A[e.y], A[e.k]
    r.b -= 1
    s.c += 3
    r.b += 5


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (written_in_turns, f"and r is used again after it (line {written_in_turns.__code__.co_firstlineno + 4})"),
        (done_with_one_first, "an operation chain for each row"),
        (other_columns_in_turns, "an operation chain for each row"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_example_what_is_used_in_turns_is_not_taken_apart(function, said, capsys):
    hr.stream(EVENTS, event_time="ts").transact(function, emits=EMITS).explain()
    assert said in capsys.readouterr().out.replace(splitting.SAME, "")


def one_after_the_other(e, t):
    p = A[e.k]
    q = A[e.j]
    p.b += 1
    q.b += 1


def both_at_once(e, t):
    p, q = A[e.k], A[e.j]
    p.b += 1
    q.b += 1


def one_in_the_other(e, t):
    (p, x), [q] = (A[e.k], e.x), [A[e.j]]
    t.emit(u=x)
    p.b += 1
    q.b += 1


def explained(function, capsys):
    hr.stream(EVENTS, event_time="ts").transact(function, emits=EMITS).explain()
    return capsys.readouterr().out.replace(function.__name__, "f")


@pytest.mark.parametrize("function", [both_at_once, one_in_the_other])
def test_example_rows_that_are_found_at_once_are_explained_as_those_found_one_by_one(function, capsys):
    wanted = explained(one_after_the_other, capsys)
    assert "an operation chain for each row" in wanted
    assert explained(function, capsys) == wanted


def in_order(e, t):
    for k in sorted(e.ks):
        A[k].b += 1


def test_a_list_is_not_sorted_in_a_function():
    with pytest.raises(FunctionError, match=r"sorted\(e.ks\): a column of lists .* sort it beforehand, in Spark"):
        hr.stream(EVENTS, event_time="ts").transact(in_order)


def both_lists(e, t):
    for k in e.ks + e.ks[1:]:
        A[k].b += 1


def twice_the_list(e, t):
    t.emit(o=len(e.ks * 2))


def lists_compared(e, t):
    if e.ks == e.ks[:1]:
        t.reject()


def element_changed(e, t):
    mine = e.ks if e.x > 0 else e.ks[1:]
    mine[0] = e.k
    A[mine[0]].b += 1


def element_added_to(e, t):
    e.ks[0] += 1


def list_added_to(e, t):
    mine = e.ks
    mine += e.ks
    t.emit(o=len(mine))


def twice(x):
    return x * 2


def double(x):
    y = x
    return y + x


def given_to_helpers(e, t):
    t.emit(o=twice(e.x), u=len(double(e.ks[1:])))


def given_to_a_helper_that_takes_numbers_too(e, t):
    t.emit(o=twice(e.x), u=len(twice(e.ks)))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (given_to_helpers, r"y \+ x: y is a list of numbers"),
        (given_to_a_helper_that_takes_numbers_too, r"x \* 2: x is a list of numbers"),
        (both_lists, r"e.ks \+ e.ks\[1:\]: e.ks is a list of numbers; write a loop"),
        (twice_the_list, r"e.ks \* 2: e.ks is a list of numbers; write a loop"),
        (lists_compared, r"e.ks == e.ks\[:1\]: e.ks is a list of numbers; compare its elements in a loop"),
        (element_changed, r"mine\[0\] is assigned: mine is a column of lists, which cannot be changed"),
        (element_added_to, r"e.ks\[0\] is assigned: e.ks is a column of lists, which cannot be changed"),
        (list_added_to, "mine is a list of numbers; write a loop"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_example_lists_are_not_computed_with_as_arrays_are(function, text):
    with pytest.raises(FunctionError, match=text):
        hr.stream(EVENTS, event_time="ts").transact(function, emits=EMITS)


def check(seeds, schemes=("serial", "chains", "")):
    """Under these schemes, and one that is drawn."""
    for seed in seeds:
        draw = random.Random(seed)
        function, text = program(draw)
        given, threads, punctuation = events(draw, 30), draw.choice([1, 2]), draw.choice([1, 7, 50])
        drawn = draw.choice(["lock", "mvlk", "partition"])
        for scheme in (each or drawn for each in schemes):
            try:
                agree(function, given, EMITS, ["k"], [scheme], threads=threads, punctuation=punctuation)
            except Exception as error:
                raise AssertionError(f"{seed}, {scheme}, {threads} threads, {punctuation}: {error!r}\n{text}") from error


@pytest.mark.slow
@pytest.mark.interpreted
def test_short_functions_give_what_they_give_in_order():
    check(range(10))


@pytest.mark.campaign
@pytest.mark.interpreted
@pytest.mark.parametrize("first", range(0, 6000, 200))
def test_many_short_functions_give_what_they_give_in_order(first):
    check(range(first, first + 200))


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("room", "name", "mistake", "function", "fails"),
    [
        (splitting, "used_in_turns", lambda *_: None, written_in_turns, "other results|table A differs"),
        (lowering, "one_by_one", lambda statements, _: statements, both_at_once, "is a row"),
    ],
    ids=["taken apart though in turns", "several names at once"],
)
def test_planted_mistakes_are_found(room, name, mistake, function, fails, monkeypatch):
    monkeypatch.setattr(room, name, mistake)
    with pytest.raises((AssertionError, FunctionError), match=fails):
        agree(function, EVENTS, EMITS, carry=["k"], threads=2, punctuation=3)
