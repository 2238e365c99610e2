"""Which rows an event will touch, named before anything is read.

Property    every row that a transaction touches was named, and as written if it is written, whatever it reads; a key
            under a condition on the event is named only where that holds; a key that depends on what is read is
            refused at its line, in every disguise
Oracle      keys worked out by hand; what the lowered text touches when it runs (`support.transacted.Lowered`), also of
            random functions (test_lowering.py)
Cannot see  how key sets are kept, and what schemes do with them
"""

import numpy as np
import pytest

import headrace as hr
from headrace.errors import FunctionError
from headrace.transactions import determined
from headrace.transactions.determined import name_keys
from headrace.transactions.lowering.function import lower
from planted_mistakes import planted
from support.transacted import Event, Lowered, twin

A = hr.table("A", columns={"b": "int64", "next": "int64"}, rows=20, first={"b": 5})
B = hr.table("B", columns={"b": "int64"}, rows=20)
I = hr.table("I", columns={"b": "int64"}, rows=2, unknown="insert", max_rows=100)


def named(function, **event):
    """Rows that an event names: "A1" is read, "A1!" written."""
    made = Lowered(function, ["o"], {table: twin(table, least=False) for table in (A, B, I)})
    event = {"k": 1, "j": 2, "x": 0, "ks": [3, 4, 5], "nk": None} | event
    made.name_keys(*(Event(event, 0), None)[: made.takes])
    return sorted(f"{table}{key}" + "!" * is_written for (table, key), is_written in made.noted.items() if key is not None)


def under_event(e, t):
    if e.x > 0:
        A[e.k].b += 1
    elif e.x < 0:
        t.reject()
    B[e.j].b = A[e.j].b


def under_read(e, t):
    if A[e.k].b > 0 and e.x > 0:
        A[e.j].b += 1
    else:
        B[e.j].b += 1


def parts_of_conditions(e, t):
    if e.x > 0 and A[e.k].b > 3 and A[e.j].b > 3:
        t.emit(o=1)


def guarded(e, t):
    if len(e.ks) > 0 and A[e.ks[0]].b > 3:
        A[e.ks[0]].b -= 1


def left_by_event(e, t):
    for k in e.ks:
        if k == 4:
            break
        A[k].b += 1
    else:
        B[e.k].b += 1


def left_by_read(e, t):
    for k in e.ks:
        if A[k].b > 5:
            break
        if k == 4:
            return
    B[e.k].b += 1


def skipped_by_read(e, t):
    for k in e.ks:
        if A[k].b > 5:
            continue
        if k == 4:
            break
    else:
        B[e.k].b += 1


def returns_in_a_loop_under_a_read(e, t):
    if A[e.k].b > 0:
        for k in e.ks:
            if k == 4:
                return
    B[e.j].b += 1


def rejected_by_read(e, t):
    if A[e.k].b < 3:
        t.reject()
    if e.x > 0:
        t.reject()
    B[e.j].b += 1


def endless_but_for_a_read(e, t):
    while True:
        if A[e.k].b > 7:
            return
        A[e.k].b += 1


def turns_by_reads(e, t):
    n = 0
    while n < A[e.k].b:
        B[e.j].b += 1
        n += 1


def worked_out_under_a_read(e, t):
    if A[e.k].b > 3:
        p = e.k + 10
        A[p].b += 1
        for k in e.ks:
            q = k + 1
            B[q].b += 1


def of_a_local_list(e, t):
    keys = [e.k, 9]
    keys[0] = e.j
    keys.append(7)
    for k in keys:
        A[k].b += 1


def null_key(e, t):
    A[e.nk].b += 1
    A[e.k].b += 1


def read_of_what_comes_to_be(e, t):
    t.emit(o=I[e.k].b)


def by_helpers(e, t):
    pay(A[e.k], e.x)
    t.emit(o=get(plus(e.j)))


def pay(row, x):
    row.b += x


def get(k):
    return B[k].b


def plus(k):
    return k + 1


def row_by_a_read(e, t):
    r = A[e.k] if B[e.j].b > 0 else A[e.j]
    r.b += 1


@pytest.mark.parametrize(
    ("function", "event", "expected"),
    [
        (under_event, {"x": 1}, "A1! A2 B2!"), (under_event, {"x": 0}, "A2 B2!"), (under_event, {"x": -1}, ""),
        (under_read, {}, "A1 A2! B2!"), (under_read, {"x": 1}, "A1 A2! B2!"),
        (parts_of_conditions, {"x": 1}, "A1 A2"), (parts_of_conditions, {"x": 0}, ""),
        (guarded, {}, "A3!"), (guarded, {"ks": []}, ""),
        (left_by_event, {}, "A3!"), (left_by_event, {"ks": [3]}, "A3! B1!"),
        (left_by_read, {}, "A3 A4 A5 B1!"), (skipped_by_read, {}, "A3 A4 A5 B1!"),
        (returns_in_a_loop_under_a_read, {}, "A1 B2!"),
        (rejected_by_read, {}, "A1 B2!"), (rejected_by_read, {"x": 1}, "A1"),
        (endless_but_for_a_read, {}, "A1!"), (turns_by_reads, {}, "A1 B2!"),
        (worked_out_under_a_read, {}, "A1 A11! B4! B5! B6!"), (of_a_local_list, {}, "A2! A7! A9!"),
        (null_key, {}, ""), (null_key, {"nk": 3}, "A1! A3!"), (read_of_what_comes_to_be, {}, "I1!"),
        (by_helpers, {}, "A1! B3"), (row_by_a_read, {}, "A1! A2! B2"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)  # fmt: skip
def test_example_rows_are_named(function, event, expected):
    written = {place for place in named(function, **event) if place.endswith("!")}
    assert sorted(written | {p for p in named(function, **event) if f"{p}!" not in written}) == expected.split()


# -- keys that depend on what is read


def directly(e, t):
    A[A[e.k].next].b += 1


def by_a_name(e, t):
    n = A[e.k].next
    A[n].b += 1


def by_a_name_under_a_condition(e, t):
    n = 1
    if A[e.k].b > 3:
        n = 2
    A[n].b += 1


def by_a_loop_that_is_left(e, t):
    k = 0
    for k in e.ks:
        if A[k].b > 5:
            break
    B[k].b += 1


def by_a_count_of_turns(e, t):
    n = 0
    for k in e.ks:
        if A[k].b > 5:
            continue
        n += 1
    B[n].b += 1


def by_a_while_loop(e, t):
    n = 0
    while n < A[e.k].b:
        n += 1
    B[n].b += 1


def by_a_helper(e, t):
    A[follow(e.k)].b += 1


def follow(k):
    return A[k].next


def by_a_helpers_parameter(e, t):
    pay_to(A[e.k].next)


def pay_to(k):
    A[k].b += 1


def by_a_conditional_expression(e, t):
    A[e.k if A[e.j].b > 3 else e.j].b += 1


def by_a_part_of_a_condition(e, t):
    n = e.x > 0 and A[e.k].next
    B[n].b += 1


def by_an_element(e, t):
    keys = [1, 2]
    keys[0] = A[e.k].next
    A[keys[0]].b += 1


def by_an_element_of_an_array(e, t):
    keys = np.zeros(2, np.int64)
    keys[0] = A[e.k].next
    A[keys[0]].b += 1


def by_what_was_appended(e, t):
    keys = [1]
    keys.append(A[e.k].next)
    for k in keys:
        A[k].b += 1


def by_two_names(e, t):
    n, m = A[e.k].next, e.j
    p = n + 1
    A[p].b += m


def by_arithmetic(e, t):
    n = e.k
    n += A[e.j].next * 0
    A[n].b += 1


def by_a_row_under_a_name(e, t):
    r = A[e.k]
    q = A[r.next]
    q.b += 1


def by_range(e, t):
    for k in range(A[e.k].b):
        B[k].b += 1


def by_enumerate(e, t):
    for i, k in enumerate([A[e.k].next]):
        B[k].b += i


DISGUISES = [
    (directly, 1), (by_a_name, 2), (by_a_name_under_a_condition, 4), (by_a_loop_that_is_left, 5), (by_a_count_of_turns, 6),
    (by_a_while_loop, 4), (by_a_helper, 1), (by_a_helpers_parameter, 1), (by_a_conditional_expression, 1),
    (by_a_part_of_a_condition, 2), (by_an_element, 3), (by_an_element_of_an_array, 3), (by_what_was_appended, 4),
    (by_two_names, 3), (by_arithmetic, 3), (by_a_row_under_a_name, 2), (by_range, 2), (by_enumerate, 2),
]  # fmt: skip


@pytest.mark.parametrize(("function", "line"), DISGUISES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_key_that_depends_on_a_read_is_refused_at_its_line(function, line):
    lowered = lower(function, ["o"])
    with pytest.raises(FunctionError, match="depends on what .* reads .*put the key into the event before") as caught:
        name_keys(lowered)
    assert caught.value.line == function.__code__.co_firstlineno + line or function is by_a_loop_that_is_left


# -- planted mistakes

MISTAKES = {
    "key under a read condition not named": ("return [*body, *orelse]", "return body", under_read, {}),
    "a return in a loop that a read may leave": (
        "inner = {ast.Continue} | (after & {ast.Return})", "inner = {ast.Continue, ast.Return}", left_by_read, {}),
    "a break that a read may skip": ("if self._reads.skips(node) is None:", "if True:", skipped_by_read, {}),
    "a rejection by a read ends the naming": (
        "inner = leaving if read is None else _NONE", "inner = leaving", rejected_by_read, {}),
    "elements of a local list": ("while isinstance(target, ast.Subscript | ast.Starred):", "while False:", of_a_local_list, {}),
    "what a read decides is an assignment": ("self._taint(names, value)", "pass", by_a_name, {}),
    "a name that a branch gave": ("self._taint(names - self._settled, under)", "pass", by_a_name_under_a_condition, {}),
    "a loop left early": (
        "return test or self._leaves_under(node.body, None, (ast.Break, ast.Continue))", "return test",
        by_a_loop_that_is_left, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes_of_naming_are_found(name):
    text, mistake, function, event = MISTAKES[name]

    def outcome():
        try:
            return named(function, **event)
        except (FunctionError, NameError) as error:
            return str(error)

    right = outcome()
    with planted(determined, text, mistake):
        assert outcome() != right
