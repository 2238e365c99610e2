"""What cannot be lowered of a function of a transaction is refused at its line, with what to do.

Errors      each case, with a part of its text; expected lines are counted from its `def`
"""


import pytest

import headrace as hr
from headrace.errors import FunctionError
from headrace.transactions.lowering.function import lower
from support.made_up_tables import A, B
from support.made_up_transactions import EMITS

R = hr.table("R", columns={"m": hr.map_of("int64", hr.record(n="int64")), "a": hr.map_of("int64", hr.array("int64", 2))}, rows=5)


def container_then_rejected(e, t):
    B[e.k].v.add(e.x)
    if e.x > 0:
        t.reject()


def container_then_unknown(e, t):
    B[e.k].l.append(e.x)
    A[e.j].b += 1


def container_in_the_turn_before(e, t):
    for k in e.ks:
        B[k].v.add(1)


def container_then_least(e, t):
    B[e.k].l.append(e.x)
    B[e.k].n -= 1


def whole_row(e, t):
    x = [A[e.k]]  # noqa: F841


def whole_table(e, t):
    x = A  # noqa: F841


def no_such_column(e, t):
    A[e.k].balance += 1


def key_assigned(e, t):
    A[e.k].id = 3


def key_read(e, t):
    t.emit(o=A[e.k].id)


def two_tables_one_name(e, t):
    r = A[e.k]
    r = B[e.k]  # noqa: F841


def row_and_number(e, t):
    r = A[e.k]
    r = 3  # noqa: F841


def no_such_output(e, t):
    t.emit(p=1)


def output_by_place(e, t):
    t.emit(1)


def reject_with_reason(e, t):
    t.reject("poor")


def transaction_misspelt(e, t):
    t.abort()


def transaction_in_expression(e, t):
    x = t.reject() or 3  # noqa: F841


def row_in_comprehension(e, t):
    t.emit(o=sum([A[k].b for k in e.ks]))


def looped_into_a_row(e, t):
    for A[e.k].b in e.ks:  # noqa: B020
        pass


def pay(k, x):
    A[k].b += x


def helper_takes_something_else(e, t):
    pay(e.k)


def helper_assigns_to_the_row(e, t):
    r = A[e.k]
    rebound(r)


def rebound(r):
    r = A[3]
    r.b += 1


def helper_assigns_to_the_row_given(e, t):
    rebound(A[e.k])


def gives_a_value(e, t):
    return A[e.k].b


def three_parameters(e, t, x):
    t.reject()


def container_under_a_name(e, t):
    kept = B[e.k].l
    kept.append(e.x)
    if e.x > 0:
        t.reject()


def container_of_a_named_row_under_a_name(e, t):
    r = B[e.k]
    kept = r.v
    t.emit(o=len(kept))


def push(xs, x):
    xs.append(x)


def push_twice(xs, x):
    push(xs, x)
    push(xs, x)


def helper_changes_a_container(e, t):
    push_twice(B[e.k].l, x=e.x)


def record_in_a_loop_then_rejected(e, t):
    for each in R[e.k].m.values():
        each.n += 1
    if e.x > 0:
        t.reject()


def array_in_a_loop_then_rejected(e, t):
    for each in R[e.k].a.values():
        each[0] = e.x
    A[e.j].b += 1


def read_then_rejected(e, t):
    if R[e.k].m[e.x].n > 3:
        t.reject()


def read_then_unknown(e, t):
    n = R[e.k].a[e.x][0]
    A[e.j].b += n


def read_where_another_key_is_there(e, t):
    r = R[e.k]
    if e.x in r.m and r.m[e.j].n > 3:
        t.reject()


def read_where_the_key_was_another_one(e, t):
    r, x = R[e.k], e.x
    if x in r.m:
        x += 1
        if r.m[x].n > 3:
            t.reject()


def read_where_it_is_not_there(e, t):
    r = R[e.k]
    if e.x in r.m:
        r.m[e.x].n += 1
    else:
        t.emit(o=r.m[e.x].n)
        t.reject()


def read_in_the_turn_before(e, t):
    r = R[e.k]
    for k in e.ks:
        if k > 3 and e.x in r.m:
            t.reject()
        t.emit(o=r.m[k].n)


def element(m, k):
    return m[k].n


def helper_reads_an_element(e, t):
    t.emit(o=element(R[e.k].m, e.x))


REFUSED = [
    (read_then_rejected, 1, r"R\[e.k\].m\[e.x\]: where the map has no such key, reading puts zeros in"),
    (read_then_unknown, 1, r"ask before, as in if e.x in R\[e.k\].a"),
    (read_where_another_key_is_there, 2, r"r.m\[e.j\]: .* reading puts zeros in"),
    (read_where_the_key_was_another_one, 4, r"r.m\[x\]: .* reading puts zeros in"),
    (read_where_it_is_not_there, 5, r"r.m\[e.x\]: .* reading puts zeros in"),
    (read_in_the_turn_before, 5, r"r.m\[k\]: .* reading puts zeros in"),
    (helper_reads_an_element, 1, r"element reads elements of R\[e.k\].m: give it the row"),
    (container_then_rejected, 1, "cannot be put back if the transaction is rejected afterwards .line"),
    (container_then_unknown, 1, "as where A has no key e.j: change it last, or find that row before"),
    (container_in_the_turn_before, 2, "change it last"),
    (container_then_least, 1, "change it last"),
    (whole_row, 1, r"A\[e.k\] is a row: use its columns, as in A\[e.k\].b"),
    (whole_table, 1, "'A' is the table 'A': use its rows"),
    (no_such_column, 1, "the table 'A' has no column 'balance'"),
    (key_assigned, 1, "the key of a row cannot be changed"),
    (key_read, 1, "it is what the row was looked up by"),
    (two_tables_one_name, 2, "'r' is a row of A elsewhere: use two names"),
    (row_and_number, 2, "'r' is a row of A elsewhere: use two names"),
    (no_such_output, 1, "there is no such column"),
    (output_by_place, 1, "give each column by name"),
    (reject_with_reason, 1, "takes nothing"),
    (transaction_misspelt, 1, r"a transaction has reject\(\) and emit"),
    (transaction_in_expression, 1, "call it as a statement of its own"),
    (row_in_comprehension, 1, "write a for loop"),
    (looped_into_a_row, 1, "give what is looped over a name of its own"),
    (helper_takes_something_else, 1, "give pay k, x"),
    (helper_assigns_to_the_row, 2, "rebound assigns to 'r', which is 'r' here"),
    (helper_assigns_to_the_row_given, 1, "rebound assigns to 'r', which is a row here"),
    (gives_a_value, 1, "returns a value, which is not used"),
    (three_parameters, 0, "takes 3 parameters"),
    (container_under_a_name, 1, r"'kept' would be another name of B\[e.k\].l: give the row a name, .* and use r.l"),
    (container_of_a_named_row_under_a_name, 2, "'kept' would be another name of r.v"),
    (helper_changes_a_container, 1, r"push_twice changes B\[e.k\].l: give it the row"),
    (record_in_a_loop_then_rejected, 2, "each.n.*: a list, set, map or array cannot be put back"),
    (array_in_a_loop_then_rejected, 2, r"each\[0\].*: a list, set, map or array cannot be put back"),
]


@pytest.mark.parametrize(("function", "line", "text"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_example_what_cannot_be_lowered_is_refused_at_its_line(function, line, text):
    with pytest.raises(FunctionError, match=text) as caught:
        lower(function, EMITS)
    assert caught.value.line == function.__code__.co_firstlineno + line
    assert caught.value.function == function.__name__


def asked_before(e, t):
    """What is known to be there makes nothing: by a condition around it, before it, in it."""
    r = R[e.k]
    if e.x not in r.m:
        t.reject()
    if r.m[e.x].n > 3 or (e.j in r.a and r.a[e.j][0] > 3):
        t.reject()
    n = r.a[e.j][1] if e.j in r.a else 0
    if e.y in r.m and not (e.y not in r.m or r.m[e.y].n < 1):
        n += r.m[e.y].n
        if n > 9:
            t.reject()
    for k in e.ks:
        if k not in r.m:
            continue
        n += r.m[k].n
    if n < 0:
        t.reject()
    t.emit(o=n, u=r.a[e.x][0])


def test_example_what_is_asked_for_before_may_be_read():
    assert not lower(asked_before, EMITS).must_undo
