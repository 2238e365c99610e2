"""Functions of transactions as lowered: text that finds each row by a statement of its own.

Property    the lowered text, run by Python, gives the rows and tables that the function gives as it stands: what a
            condition guards is not looked up, values are read in Python's order, helpers keep their names apart, the
            least values are checked; what is written is known as such; what may be rejected after it wrote is put
            back; what cannot be lowered is refused: test_lowering_refused.py
Oracle      `headrace.reference.transactions`, which runs the function itself; random functions (support)
Cannot see  what the compiler makes of the text, and threads: test_functions.py
"""

import ast
import random

import pyarrow as pa
import pytest

from headrace.errors import FunctionError
from headrace.transactions import branches
from headrace.transactions.lowering import called, expressions, rows, statements, writes
from headrace.transactions.lowering.function import lower
from planted_mistakes import planted
from support.made_up_tables import LIMIT, NAME, A, B, I, S
from support.made_up_transactions import EMITS, events, program
from support.transacted import agree_as_text


def made_up(count=60, seed=5):
    """Events of every kind; 10 is no key."""
    draw = random.Random(seed)
    numbers, lists = pa.int64(), pa.list_(pa.int64())
    columns = {
        "k": lambda: draw.randrange(11), "j": lambda: draw.randrange(11), "x": lambda: draw.randrange(-3, 6),
        "nk": lambda: draw.choice([None, 1, 2, 12]), "nx": lambda: draw.choice([None, 1, 2, 12]),
        "ks": lambda: [draw.randrange(10) for _ in range(draw.randrange(4))], "s": lambda: draw.choice(["a", "b", "cc"]),
        "ns": lambda: [draw.choice([None, *range(7)]) for _ in range(draw.randrange(3))],
    }  # fmt: skip
    kinds = {"ks": lists, "ns": lists, "s": pa.string()}
    made = {name: pa.array([make() for _ in range(count)], kinds.get(name, numbers)) for name, make in columns.items()}
    return pa.table({"ts": range(count), **made})


EVENTS = made_up()


# -- functions whose lowered text does what they do


def row_under_a_name(e, t):
    r = A[e.k]
    r.b += 1
    r.c = r.b
    t.emit(o=r.c)


def one_name_on_two_branches(e, t):
    if e.x > 0:
        r = A[e.k]
    else:
        r = A[e.j]
    r.b += 1


def rows_of_conditional_expressions(e, t):
    r = A[e.k] if e.x > 0 else A[e.j] if e.x < -1 else A[e.x]
    r.b += 1
    t.emit(o=r.b)


def row_chosen_by_a_read(e, t):
    r = A[e.k] if A[e.j].b > 5 else A[2]
    r.b += 1


def later_parts_are_not_looked_up(e, t):
    if (e.x > 0 and A[e.k].b > 4) or (e.x < -1 and (A[e.j].b > 4 or A[e.k].b < 8)):
        A[1].c += 1
    both = e.x > 0 and A[e.k].b
    t.emit(o=(e.x or A[e.j].b) + (1 if both else 0))


def value_of_a_part(e, t):
    t.emit(o=(e.x and A[e.k].b) + (e.x or A[e.j].b))


def chained_comparison(e, t):
    if 5 < A[1].b < A[e.j].b:
        t.emit(o=1)
    A[1].b = e.x + 4


def guarded_element(e, t):
    if len(e.ks) > 0 and A[e.ks[0]].b > 3:
        A[e.ks[0]].b -= 1
    if e.nx is not None and A[e.nx + 1].b > 3:
        t.emit(o=1)


def read_before_a_helper_writes(e, t):
    t.emit(o=A[1].b + bump(e.x) + A[1].b)


def added_to_what_was_there_before(e, t):
    A[1].b += bump(e.x)


def arguments_in_order(e, t):
    A[2].b = max(A[1].b, bump(e.x), A[1].b - 2)
    t.emit(o=A[1].b, u=bump(1))


def bump(x):
    A[1].b += x
    return A[1].b


def loops_left_early(e, t):
    for k in e.ks:
        if k == 4:
            break
        if k == 2:
            continue
        A[k].b += 1
    else:
        A[e.k].b += 5
    i = 0
    while i < len(e.ks):
        A[e.ks[i]].c = i
        i += 1


def row_in_the_condition_of_a_loop(e, t):
    n = 0
    while A[e.k].b > 3 and n < 4:
        A[e.k].b -= 1
        n += 1
    t.emit(o=n)


def loops_over_lists(e, t):
    s = 0
    for i in range(len(e.ks)):
        s += A[e.ks[i]].b * i
    for i, k in enumerate(e.ks):
        A[k].b = i
    for a, b in zip(e.ks, e.ks):  # noqa: B905
        A[a].c += A[b].b
    t.emit(o=s)


def a_key_that_changed(e, t):
    k = e.k
    A[k].b += 1
    k += 1
    A[k].b += 2
    t.emit(o=A[k].b)


def the_same_row_twice(e, t):
    A[e.k].b -= 1
    A[e.k + 0].b += A[e.k].b
    A[e.k].b, A[e.j].b = A[e.j].b, A[e.k].b + e.x


def rejected_after_writes(e, t):
    A[e.k].b += 1
    A[e.j].b += 1
    A[e.k].b += 1
    if A[e.j].b > 9:
        t.reject()


def rejected_in_a_loop(e, t):
    for k in e.ks:
        if k == LIMIT:
            t.reject()
        A[k].b += 1


def least_values(e, t):
    A[e.k].c += 1
    B[e.k].n -= e.x
    t.emit(o=B[e.k].n)


def comes_to_be_and_is_rejected(e, t):
    seen = I[e.j].b
    if e.x < 0:
        t.reject()
    t.emit(o=seen)


def null_keys(e, t):
    pay(e.nk, 1)
    A[e.nk].b += 1


def null_keys_under_names(e, t):
    k = e.nk
    if k is not None and k > 1:
        A[k].c += 1
    for n in e.ns:
        A[n].c += 1
    A[k].b += 1
    one = e.nk if e.x > 0 else e.nx
    A[one].b += 1
    if e.x > 2:
        late = e.nx
        t.emit(o=A[late].b)


def null_elements(e, t):
    A[e.k].b += 1
    if e.x > 4:
        return
    if A[e.k].b > 6:
        for x, n in zip(e.ks, e.ns):  # noqa: B905
            A[n].b += x
    for n in e.ns:
        A[1].c += n
    if None in e.ns:
        A[2].c = 0


def null_elements_beside_containers(e, t):
    r = B[e.k]
    for n in e.ns:
        r.l.append(n)
    if None not in e.ks:
        for n in e.ks:
            r.l.append(n)


def pay(k, x):
    A[k].b += x


def strings(e, t):
    if e.s == NAME:
        S[e.s].w += 1
    elif e.s in ("b",):
        S["b"].w -= 1
    else:
        S[e.s].w = 0


def helpers(e, t):
    k = 2
    t.emit(o=outer(e, 3, w=2) + low(k) + low(low2(0)))
    A[k].c += 1
    stop(t, A[e.k].b > 20)


def outer(e, n, w=1, z=5):
    k = e.j
    return inner(e.k, n) + inner(k=k, n=w) + z


def inner(k, n):
    x = A[k].b
    A[k].b += n
    return x


def stop(t, is_wrong):
    if is_wrong:
        t.reject()


low = lambda k: A[k].b  # noqa: E731
low2 = lambda k: k + 1  # noqa: E731


def rows_given_to_helpers(e, t):
    move(A[e.k], A[e.j], x=e.x)
    r = A[3]
    move(r, r, 1)
    move(dst=A[1], src=r, x=2)


def move(src, dst, x):
    src.b -= x
    dst.b += x


def row_given_back(e, t):
    t.emit(o=get(e.k).b)


def get(k):
    return A[k]


def emits_on_two_branches(e, t):
    if e.x > 0:
        t.emit(o=A[e.k].b)
    elif e.x < -1:
        t.emit(u=1, o=None)


def container_on_a_branch_that_is_not_rejected(e, t):
    if e.x > 0:
        B[e.k].v.add(e.x)
        return
    t.reject()


def container_or_rejected(e, t):
    r = B[e.k]
    if e.x > 0:
        r.l.append(e.x)
        t.emit(o=len(r.l) + sum(r.l))
    else:
        t.reject()


AGREE = [
    row_under_a_name, one_name_on_two_branches, rows_of_conditional_expressions, row_chosen_by_a_read,
    later_parts_are_not_looked_up, value_of_a_part, chained_comparison, guarded_element, read_before_a_helper_writes,
    added_to_what_was_there_before, arguments_in_order, loops_left_early, row_in_the_condition_of_a_loop, loops_over_lists,
    a_key_that_changed, the_same_row_twice, rejected_after_writes, rejected_in_a_loop, least_values,
    comes_to_be_and_is_rejected, null_keys, null_keys_under_names, null_elements, null_elements_beside_containers,
    strings, helpers, rows_given_to_helpers, row_given_back, emits_on_two_branches,
    container_on_a_branch_that_is_not_rejected, container_or_rejected,
]  # fmt: skip


@pytest.mark.parametrize("function", AGREE, ids=lambda function: function.__name__)
def test_lowered_text_does_what_the_function_does(function):
    rows = agree_as_text(function, EVENTS, EMITS)
    assert not all(row["rejected"] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 20_000), marks=pytest.mark.campaign)], ids=str)
def test_made_up_functions_do_as_text_what_they_do(seeds):
    agreed = 0
    for seed in seeds:
        functions, text = program(seed)
        try:
            agree_as_text(functions, events(random.Random(seed), 40), EMITS)
        except FunctionError as error:
            assert "depends on what the transaction reads" in str(error), f"{seed}: {error}\n{text}"
        except Exception as error:
            raise AssertionError(f"{seed}: {error!r}\n{text}") from error
        else:
            agreed += 1
    assert agreed > 0.8 * len(seeds)


# -- what it finds out


def only_reads(e, t):
    t.emit(o=A[e.k].b)


def rejected_before_it_writes(e, t):
    if A[e.k].b < 0:
        t.reject()
    A[e.k].b += 1


def writes_in_the_turn_before(e, t):
    for k in e.ks:
        if k < 0:
            t.reject()
        A[1].b += 1


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (only_reads, False), (rejected_before_it_writes, False), (rejected_after_writes, True), (least_values, True),
        (writes_in_the_turn_before, True), (comes_to_be_and_is_rejected, True), (container_or_rejected, False),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)  # fmt: skip
def test_example_undo_is_taken_where_a_write_may_be_rejected(function, expected):
    assert lower(function, EMITS).must_undo is expected


# -- planted mistakes


def row_of_a_loop(e, t):
    k = e.k
    A[k].b += 1
    for k in e.ks:
        A[k].b += 1


def found_on_one_branch(e, t):
    if e.x > 0:
        A[e.k].b += 1
    A[e.k].b += 1


def two_calls_of_one_helper(e, t):
    t.emit(o=twice_of(twice_of(e.x)) + twice_of(e.k))


def twice_of(x):
    y = x + A[1].b
    A[1].b = x
    return x + y


def rejected_in_the_turn_after(e, t):
    for k in e.ks:
        if A[1].b > k:
            t.reject()
        A[1].b += 1


MISTAKES = {
    "short circuit lost": (expressions, "return any(map(self._touches, late))", "return False", later_parts_are_not_looked_up),
    "row kept for a key that changed": (
        rows, "return all(name == self._event or name in self._captured.constants for name in names)", "return True",
        row_of_a_loop,
    ),
    "undo not taken": (writes, "lowered.must_undo |= now.single", "pass", rejected_after_writes),
    "undo not taken in the next turn": (
        writes, "for _ in range(2):  # a write", "for _ in range(1):  # a write", rejected_in_the_turn_after),
    "least not checked": (statements, "[ast.Lt()], [ast.Constant(least)]", "[ast.Is()], [ast.Constant(None)]", least_values),
    "read after a helper wrote": (
        expressions, "if self._count != number and any(", "if self._count < 0 and any(", read_before_a_helper_writes),
    "row that came to be stays": (writes, 'if row.table.unknown == "insert":', 'if row.table.unknown == "never":',
                                  comes_to_be_and_is_rejected),
    "row of one branch known behind it": (statements, "        result = self._block(statements)\n        self._open = known",
                                          "        result = self._block(statements)", found_on_one_branch),
    "names of two calls are one": (called, 'helper.name)}_{self._count}_"', 'helper.name)}_"', two_calls_of_one_helper),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes_of_lowering_are_found(name):
    module, text, mistake, function = MISTAKES[name]
    agree_as_text(function, EVENTS, EMITS)
    expected = "other results|table . differs|nothing would be put back|was named as read|cannot access local variable"
    with planted(module, text, mistake), pytest.raises((AssertionError, UnboundLocalError), match=expected):
        agree_as_text(function, EVENTS, EMITS)


# -- rows of branches that exclude each other


def reads_or_writes(e, t):
    if e.x > 0:
        t.emit(o=A[e.k].b + A[e.j].b)
    elif e.x < 0:
        A[e.k].b += 1
        if A[e.k].b > 6:
            A[e.j].c += 1
    else:
        for k in e.ks:
            if k > 3:
                A[k].b += A[e.j].b
            else:
                A[e.j].c += A[k].b


def writes_behind_the_condition(e, t):
    y = 0
    if e.x > 0:
        y = A[e.k].b
    else:
        y = A[e.k].c
    A[e.k].b = y


def written(function):
    """Of the rows of a function, what they were called and whether they are written."""
    rows = lower(function, EMITS).rows.values()
    return sorted((row.name.rstrip(branches.OTHER), row.is_written) for row in rows)


def test_example_a_branch_that_only_reads_a_row_does_not_write_it():
    agree_as_text(reads_or_writes, EVENTS, EMITS)
    assert written(reads_or_writes) == [
        ("A[e.j]", False), ("A[e.j]", False), ("A[e.j]", True), ("A[e.j]", True),
        ("A[e.k]", False), ("A[e.k]", True), ("A[k]", False), ("A[k]", True),
    ]  # fmt: skip
    agree_as_text(writes_behind_the_condition, EVENTS, EMITS)
    assert written(writes_behind_the_condition) == [("A[e.k]", True)]


def test_a_row_that_leaves_its_branch_must_not_be_parted():
    """What is opened in front, or goes on behind the condition, would be another row there."""
    text = "row = e.k\nif e.x > 0: y = row.b\nelse: row.b = 1"
    for body in (text, text.removeprefix("row = e.k\n") + "\nz = row.b"):
        tree = ast.parse(body)
        assert branches.part_rows(tree.body, ["row"]) == {}
        with planted(branches, "and both[name] == everywhere[name]", ""):
            assert branches.part_rows(tree.body, ["row"])
