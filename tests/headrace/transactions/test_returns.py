"""Called functions that return before their end, and conditions that find rows behind a list, in transactions.

Property    any statements with `return`, written without, say and give the same; the lowered text gives the rows and tables
            that the function gives as it stands, and so do whole runs under every scheme; what gives no value where one is
            used is refused at the line of the call
Oracle      Python; `headrace.reference.transactions`, which runs the same function
Planted     mistakes of how ends are found, each by a function of these
Cannot see  machine code, but for HEADRACE_COMPILED; random functions of these forms: test_lowering.py
"""

import ast
import copy
import random

import pyarrow as pa
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import FunctionError
from headrace.transactions.lowering import expressions, returns, statements
from headrace.transactions.lowering.function import lower
from planted_mistakes import planted
from support.campaign import rarely
from support.transacted import SCHEMES, agree, agree_as_text

A = hr.table("A", columns={"b": "int64", "c": "int64"}, rows=6, first={"b": 4, "c": 1})
B = hr.table("B", columns={"l": hr.list_of("int64"), "n": "int64"}, rows=6)
EMITS = {"o": "int64", "u": "int64"}


def made_up(count, seed=7):
    """Events with keys that may be unknown or null, and lists that are often empty or have nulls."""
    draw = random.Random(seed)
    numbers, lists = pa.int64(), pa.list_(pa.int64())
    columns = {
        "k": (numbers, lambda: draw.randrange(6)), "j": (numbers, lambda: draw.choice([0, 1, 2, 3, 9])),
        "nk": (numbers, lambda: draw.choice([None, 1, 2, 3])), "x": (numbers, lambda: draw.randrange(-3, 6)),
        "ks": (lists, lambda: [draw.randrange(6) for _ in range(draw.choice([0, 0, 1, 2, 4]))]),
        "ns": (lists, lambda: [draw.choice([None, 0, 1, 2, 3]) for _ in range(draw.randrange(3))]),
        "s": (pa.string(), lambda: draw.choice(["", "a", "bb"])),
    }  # fmt: skip
    made = {name: pa.array([make() for _ in range(count)], kind) for name, (kind, make) in columns.items()}
    return pa.table({"ts": range(count), **made})


EVENTS = made_up(80)


# -- ends


def by_the_event(e, t):
    t.emit(o=limited(e.x, e.k), u=limited(e.x + 2, k=e.j))


def limited(x, k):
    if x > 3:
        return -1
    if x > 1:
        A[k].c += 1
        return A[k].c
    elif x < -1:
        return 0
    A[k].b += x
    return A[k].b


def by_what_is_read(e, t):
    A[e.k].b -= spent(e.k, e.x)
    t.emit(o=A[e.k].b)


def spent(k, x):
    if A[k].b < x:
        return A[k].b
    A[k].c += 1
    y = A[k].c
    if y > 3:
        return x - 1
    return x


def columns_are_given_back(e, t):
    """One may be null, and is where a row is found by it."""
    n = counted(e.k)
    A[counted(e.nk)].c += n
    t.emit(o=n, u=either(e, e.k, e.j))


def counted(k):
    A[k].b += 1
    return k


def either(e, k, j):
    A[k].c += 1
    return k if e.x > 0 else j


def ends_on_some_ways_only(e, t):
    """Neither branch always ends."""
    t.emit(o=some_ways(e), u=A[e.k].b)


def some_ways(e):
    if e.x > 0:
        if A[e.k].b > 5:
            return 1
        y = A[e.k].b
    else:
        if e.k == 3:
            return 2
        y = e.x
    A[e.k].b += y
    return y


def in_loops(e, t):
    t.emit(o=first_rich(e, 5), u=last_seen(e))


def first_rich(e, least):
    for k in e.ks:
        if A[k].b >= least:
            return k
        A[k].b += 1
    else:
        if e.x > 3:
            return -2
    A[e.k].b += 1
    return -1


def last_seen(e):
    n = 0
    while n < 3:
        n += 1
        if A[e.k].b > 6:
            break
        if n > e.x:
            return n
        A[e.k].b += 1
    return -n


def in_loops_of_loops(e, t):
    t.emit(o=pair(e))


def pair(e):
    seen = 0
    for k in e.ks:
        for j in e.ks:
            if j == 4:
                break
            if A[k].b + A[j].b + j > 9 + seen:
                return 10 * k + j
            seen += 1
        else:
            if e.x > 4:
                return 77
        if A[k].c > 3:
            continue
        A[k].c += 1
    return seen


def without_end(e, t):
    t.emit(o=turns(e))


def turns(e):
    n = 0
    while True:
        n += 1
        A[e.k].b += 1
        if A[e.k].b % 4 == 0 or n > 5:
            return n


def nothing_is_given(e, t):
    noted(e, t)
    t.emit(o=A[e.k].b)


def noted(e, t):
    if e.x > 4:
        return None
    if e.x < -1:
        return t.reject()
    for k in e.ks:
        if k == e.k:
            return
        A[k].b += 1
    A[e.k].b += 1
    return bumped(e.k)


def bumped(k):
    if A[k].b > 8:
        return
    A[k].c += 1


def what_is_given_is_not_used(e, t):
    limited(e.x, e.k)
    if e.x > 2:
        first_rich(e, 4)


def or_rejected(e, t):
    t.emit(o=taken(e, t))


def taken(e, t):
    if A[e.k].b > e.x:
        A[e.k].b -= e.x
        return A[e.k].b
    A[e.j].c += 1
    t.reject()


def after_nulls(e, t):
    t.emit(o=summed(e))


def summed(e):
    if None in e.ns:
        return -1
    total = 0
    for n in e.ns:
        total += A[n].b
    if e.nk is None:
        return total
    key = e.nk
    A[key].b += 1
    return A[key].b + total


def rows_are_given(e, t):
    richer(e).b += 1
    t.emit(o=richer(e).b)


def richer(e):
    if e.x > 2:
        return A[e.j]
    r = A[e.k]
    if r.b > 5:
        return A[2]
    return A[e.k]


def rows_of_a_condition_at_once(e, t):
    t.emit(o=both(e, e.x > 0), u=both(e, A[e.k].b > 5))


def both(e, is_so):
    p, q = A[e.k] if is_so else A[e.j], A[e.j]
    if p.b > 7:
        return p.c
    p.b, q.b = q.b + 1, p.b
    (r, y), [s] = (A[e.k], e.x), [A[e.j] if e.x > 1 else A[2]]
    s.c += y
    return r.b


def ends_in_a_function_of_a_function(e, t):
    t.emit(o=outer(e) + outer(e, 3))


def outer(e, least=5):
    found = first_rich(e, least)
    if found == -1:
        return limited(e.x, e.k)
    return limited(0, 1) if found < 0 else found


# -- conditions that find rows behind a list


def list_in_the_condition_of_a_loop(e, t):
    n = 0
    while e.ks and A[e.ks[0]].b < 6:
        A[e.ks[0]].b += 1
        n += 1
    while not (not e.ks or A[e.k].c > 2) and n < 9:
        A[e.k].c += 1
        n += 1
    t.emit(o=n)


def list_or_row(e, t):
    if not e.ks or A[e.ks[0]].b > 4:
        A[e.k].b += 1
    else:
        A[e.k].c += 1
    while (e.ks or A[e.k].b < 3) and A[e.k].b < 7:
        A[e.k].b += 2
    is_so = 1 if (e.s and A[e.k].b > 5) or not (e.ks and e.x) else 0
    t.emit(o=is_so, u=2 if e.s and e.ks and A[e.j].b else 3)


def containers_in_conditions(e, t):
    r = B[e.k]
    while (not r.l or B[e.k].n < 2) and r.n < 4:
        r.n += 1
    n = 5 if r.l and A[e.k].b > 3 and r.l[0] > 0 else 6
    t.emit(o=n, u=r.n)
    r.l.append(e.x)


AGREE = [
    by_the_event, by_what_is_read, columns_are_given_back, ends_on_some_ways_only, in_loops, in_loops_of_loops, without_end,
    nothing_is_given, what_is_given_is_not_used, or_rejected, after_nulls, rows_are_given, rows_of_a_condition_at_once,
    ends_in_a_function_of_a_function, list_in_the_condition_of_a_loop, list_or_row, containers_in_conditions,
]  # fmt: skip
ids = {"ids": lambda value: getattr(value, "__name__", "")}


@pytest.mark.parametrize("function", AGREE, **ids)
def test_lowered_text_does_what_the_function_does(function):
    found = agree_as_text(function, EVENTS, EMITS)
    assert not all(row["rejected"] for row in found)


BY_TEXT_ALONE = (
    by_the_event, columns_are_given_back, ends_on_some_ways_only, in_loops, without_end, what_is_given_is_not_used,
    list_in_the_condition_of_a_loop, list_or_row,
)  # fmt: skip
"""Whole runs of these, whose text differs from the others' in what is checked above, are the campaign's."""


@pytest.mark.logic
@pytest.mark.parametrize("function", [*(each for each in AGREE if each not in BY_TEXT_ALONE), *rarely(*BY_TEXT_ALONE)], **ids)
def test_example_rows_and_tables_are_those_of_the_serial_definition(function):
    schemes = [*SCHEMES, *(() if function is containers_in_conditions else ("speculative",))]
    agree(function, EVENTS, EMITS, carry=["k"], schemes=schemes, threads=2, punctuation=7)


def kept_apart(e, t):
    t.emit(o=by_kind(e))


def by_kind(e):
    if e.x > 3:
        return -1
    return A[e.k].b


def test_example_what_the_event_decides_stays_a_condition_on_it(capsys):
    """So such a function is taken apart as one that is written with `else`."""
    hr.stream(EVENTS, event_time="ts").transact(kept_apart, emits=EMITS).explain()
    assert "an operation chain for each row" in capsys.readouterr().out


# -- any statements


class Ended(Exception):
    """A transaction was rejected, or has done enough."""


def drawn(draw, depth, in_loop):
    """Statements that say what they do, ask what to do, and end in every way."""
    lines = []
    for _ in range(draw.randrange(1, 4)):
        kind = draw.choice(["say", "return", "leave", "reject", "if", "else", "for", "while"][: 8 if depth else 3])
        block = [f"    {line}" for line in drawn(draw, depth - 1, in_loop or kind in ("for", "while"))] if depth else []
        if kind == "say":
            lines.append(f"say({draw.randrange(100)})")
        elif kind == "return":
            lines.append(draw.choice([f"return {draw.randrange(100)}", "return"]))
        elif kind == "leave":
            lines.append(draw.choice(["break", "continue"]) if in_loop else "pass")
        elif kind == "reject":
            lines.append("t.reject()")
        else:
            head = {"for": f"for n in range({draw.randrange(3)}):", "while": draw.choice(["while asked():", "while True:"])}
            lines += [head.get(kind, "if asked():"), "    say(0)", *block]
            if kind == "else" or (kind != "if" and draw.random() < 0.4):
                lines += ["else:", *(f"    {line}" for line in drawn(draw, depth - 1, in_loop))]
    return lines


def what_it_does(function, answers):
    """What a function says and gives, if what it asks is answered so."""
    said, answers = [], random.Random(answers)

    class Rejecting:
        def reject(self):
            raise Ended("rejected")

    def say(what):
        said.append(what)
        if len(said) > 40:
            raise Ended("enough")

    space = {"say": say, "asked": lambda: say("asked") or answers.random() < 0.5, "t": Rejecting()}
    exec(compile(ast.fix_missing_locations(ast.Module([function], [])), "<drawn>", "exec"), space)
    try:
        return said, space["f"]()
    except Ended as end:
        return said, str(end)


def is_rejecting(node):
    return ast.unparse(node) == "t.reject()"


@pytest.mark.slow
@settings(max_examples=300)
@given(st.randoms(use_true_random=False))
def test_any_statements_without_return_do_what_they_did(draw):
    text = "def f():\n" + "\n".join(f"    {line}" for line in drawn(draw, 3, False))
    (function,) = ast.parse(text).body
    ended = copy.deepcopy(function)
    body, gives = returns.at_end(ended.body, "result", "is_over", is_rejecting, True)
    note(f"{text}\n{ast.unparse(ast.Module(body, []))}")
    ended.body = [*ast.parse("result = None").body, *body, *ast.parse("return result").body]
    for answers in range(8):
        before, after = what_it_does(function, answers), what_it_does(ended, answers)
        assert before == after
        is_value = isinstance(before[1], int)
        assert gives is not returns.Gives.VALUE or before[1] is not None
        assert gives is not returns.Gives.NOTHING or not is_value


# -- what is refused


def gives_nothing(e, t):
    x = bumped(e.k)  # noqa: F841


def gives_something_sometimes(e, t):
    t.emit(o=sometimes(e.k))


def sometimes(k):
    if A[k].b > 3:
        return 1
    A[k].b += 1


def gives_a_row_or_a_number(e, t):
    t.emit(o=row_or_number(e.k))


def row_or_number(k):
    if k > 3:
        return 0
    return A[k]


def gives_rows_of_two_tables(e, t):
    one_of_two(e.k).n += 1


def one_of_two(k):
    if k > 3:
        return A[k]
    return B[k]


def keeps_a_row_that_is_given(e, t):
    r = richer(e)
    r.b += 1


REFUSED = [
    (gives_nothing, 1, r"bumped\(e.k\): bumped gives nothing, and that is used here"),
    (gives_something_sometimes, 1, "sometimes gives a value on some paths, and none on others, and that is used here"),
    (gives_a_row_or_a_number, 1, "row_or_number gives a row on some paths, and none on others"),
    (gives_rows_of_two_tables, 1, "one_of_two gives rows of A and B"),
    (keeps_a_row_that_is_given, 1, r"richer\(e\) is a row of A: use its columns, as in richer\(e\).b"),
]


@pytest.mark.parametrize(("function", "line", "text"), REFUSED, **ids)
def test_example_what_cannot_be_used_is_refused_at_the_call(function, line, text):
    with pytest.raises(FunctionError, match=text) as caught:
        lower(function, EMITS)
    assert caught.value.line == function.__code__.co_firstlineno + line
    assert caught.value.function == function.__name__


def reads_what_may_not_be_there(e, t):
    t.emit(o=half_assigned(e.k))


def half_assigned(k):
    if A[k].b > 3:
        y = 1
    return y


def test_a_value_that_may_be_missing_is_refused_at_its_line_in_the_called_function():
    with pytest.raises(FunctionError, match="'y' may have no value here") as caught:
        lower(reads_what_may_not_be_there, EMITS)
    assert caught.value.function == "half_assigned"
    assert caught.value.line == half_assigned.__code__.co_firstlineno + 3


# -- planted mistakes

MISTAKES = {
    "a loop goes on when the function has returned": (
        returns, "return [*made, ast.copy_location(ast.Break(), node)] if in_loop else made", "return made", in_loops),
    "only the inner loop is left": (
        returns, "return [node, located(leave, node), *self.block", "return [node, *self.block", in_loops_of_loops),
    "what is behind a loop is done though it has returned": (
        returns, "is_open = ast.UnaryOp(ast.Not(), ast.Name(self._is_over, ast.Load()))", "is_open = ast.Constant(True)",
        in_loops),
    "a branch that has not returned does not go on": (
        returns, "node.orelse += rest if ways[1] else []", "pass", by_the_event),
    "what the event says does not guard a turn": (
        statements, "body = [*self._If(turn), located(ast.Break(), node)]",
        "before = []; test = ast.UnaryOp(ast.Not(), self._condition(node.test, before));"
        " body = [*before, located(ast.If(test, [ast.Break()], []), node), *self._inner(node.body)]",
        list_in_the_condition_of_a_loop),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes_of_ends_are_found(name):
    module, text, mistake, function = MISTAKES[name]
    expected = "other results|table . differs|cannot access local variable|index out of range"
    agree_as_text(function, EVENTS, EMITS)
    with planted(module, text, mistake), pytest.raises((AssertionError, IndexError, NameError), match=expected):
        agree_as_text(function, EVENTS, EMITS)


def test_planted_mistake_of_truth_is_found():
    """A list is no value that could be kept."""
    stream = hr.stream(EVENTS, event_time="ts")
    stream.transact(list_or_row, emits=EMITS)
    right, said = "lowered = self._truth(value, block) if of_truth else self", "is a number here and a string elsewhere"
    with planted(expressions, right, "lowered = self"), pytest.raises(FunctionError, match=said) as caught:
        stream.transact(list_or_row, emits=EMITS)
    assert caught.value.line > list_or_row.__code__.co_firstlineno
