"""What cannot be done with strings, lists, sets, maps and arrays in a user function is refused, with the user's line.

Errors      each case, with a part of its text; expected lines are found by a comment `# here` in this file
"""

from __future__ import annotations

import inspect

import pytest

from headrace.errors import FunctionError
from support.kept_values import Compiled


def joins_texts(state, t, emit):
    state.last = t.w + "s"  # here


def emits_joined_texts(state, t, emit):
    emit(1, t.w + "s", state.xs, state.ws, state.ms)  # here


def keeps_joined_texts(state, t, emit):
    state.ws.append("a " + t.w)  # here


def formats(state, t, emit):
    state.last = f"{t.i}"  # here


def upper(state, t, emit):
    state.last = t.w.upper()  # here


def looks_inside(state, t, emit):
    if "a" in t.w:  # here
        state.n = 1


def first_letter(state, t, emit):
    state.last = t.w[0]  # here


def part_that_is_not_there(state, t, emit):
    pair = (t.w, t.i)
    state.n = pair[2]  # here


def part_before_the_first(state, t, emit):
    pair = (t.w, t.i)
    state.n = pair[-3]  # here


def letters(state, t, emit):
    for _ in t.w:  # here
        state.n += 1


def number_of_text(state, t, emit):
    state.n = int(t.w)  # here


def text_as_number(state, t, emit):
    state.n = t.w  # here


def number_as_text(state, t, emit):
    state.last = t.i  # here


def compares_kinds(state, t, emit):
    if t.w == t.i:  # here
        state.n = 1


def two_kinds(state, t, emit):
    x = 1
    if t.i > 0:
        x = t.w  # here
    state.n = 1 if x == 1 else 2


def text_or(state, t, emit):
    state.n = t.i or t.w  # here


def popped_or(state, t, emit):
    state.last = state.ws.pop() or "none"  # here


def longest_by_key(state, t, emit):
    state.last = max(t.w, t.v, key=len)  # here


def greatest_by_key(state, t, emit):
    state.n = max(state.n, t.i, key=abs)  # here


def least_or(state, t, emit):
    state.n = min(state.n, t.i, default=0)  # here


def wrong_element(state, t, emit):
    state.xs.append(t.w)  # here


def wrong_key(state, t, emit):
    state.ms[t.i] = 1  # here


def no_text(state, t, emit):
    emit(n=1, w=None, l=state.xs, s=state.ws, m=state.ms)  # here


def list_written_out(state, t, emit):
    emit(1, t.w, [t.i], state.ws, state.ms)  # here


def map_written_out(state, t, emit):
    emit(1, t.w, state.xs, state.ws, {})  # here


def get_without_default(state, t, emit):
    state.n = state.mi.get(t.i)  # here


def bare(state, t, emit):
    state.n = abs(state.xs)  # here


def adds_lists(state, t, emit):
    state.xs = state.xs + state.xs  # here


def unknown_method(state, t, emit):
    state.xs.push(1)  # here


def local_set(state, t, emit):
    seen = set(state.xs)  # here
    state.n = len(seen)


def keeps_a_record(state, t, emit):
    house = state.mr[t.i]  # here
    house.n += 1


def unknown_field(state, t, emit):
    state.mr[t.i].z += 1  # here


def sort_key(state, t, emit):
    state.ws.sort(key=len)  # here


def step(state, t, emit):
    state.xs = state.xs[::2]  # here


def text_index(state, t, emit):
    state.n = state.xs[t.w]  # here


def emits_kind(state, t, emit):
    emit(t.w, t.w, state.xs, state.ws, state.ms)  # here


def emits_view(state, t, emit):
    emit(1, t.w, state.mi.keys(), state.ws, state.ms)  # here


def comprehends(state, t, emit):
    state.n = sorted([x for x in state.xs if x > 1])[0]  # here


def keeps_a_comprehension(state, t, emit):
    state.xs = [x + 1 for x in (t.i, t.j)]  # here


def emits_a_comprehension(state, t, emit):
    emit(1, t.w, [x + 1 for x in state.xs], state.ws, state.ms)  # here


def deletes(state, t, emit):
    del state.ms[t.w]  # here


def returns_a_list(xs):
    return xs  # here


def list_from_helper(state, t, emit):
    state.n = len(returns_a_list(state.xs))


def keeps_a_text_that_is_not_there(state, t, emit):
    state.ws.append(t.word)  # here


def emits_a_text_that_is_not_there(state, t, emit):
    emit(1, t.word, state.xs, state.ws, state.ms)  # here


def emits_a_list_that_is_not_there(state, t, emit):
    emit(1, t.w, state.xss, state.ws, state.ms)  # here


def one_of_two_texts(state, t, emit):
    state.last = t.w if t.i > 1 else t.word  # here


def one_text_or_another(state, t, emit):
    state.last = t.w or t.word  # here


def greater_of_two_texts(state, t, emit):
    state.last = max(t.w, t.word)  # here


REFUSED = [
    (joins_texts, "t.w is a string, which can be compared, kept and emitted here; for other text work, do it before"),
    (emits_joined_texts, r"t.w \+ 's': t.w is a string, which can be compared, kept and emitted here; for other text work"),
    (keeps_joined_texts, "'a ' \\+ t.w: 'a ' is a string, which can be compared, kept and emitted here; for other text work"),
    (formats, "strings cannot be put together here"),
    (upper, r"t.w.upper\(\): text work; do it before: in Spark, or in an expression"),
    (looks_inside, "looks into a string"),
    (first_letter, "a part of a string"),
    (part_that_is_not_there, r"pair\[2\]: there is no such part; the last one is \[1\]"),
    (part_before_the_first, r"pair\[-3\]: there is no such part"),
    (letters, "a loop over a string"),
    (number_of_text, r"t.w is a string, in int\(...\), which takes numbers"),
    (text_as_number, "t.w is a string, and the field is a number"),
    (number_as_text, "t.i is a number, and the field is a string"),
    (compares_kinds, "a string and a number are compared, and never equal"),
    (two_kinds, "'x' is a string here and a number elsewhere: use two names"),
    (text_or, "t.w is a string, in t.i or t.w: write a condition, as in a if a else b"),
    (popped_or, r"state.ws.pop\(\) or 'none': give state.ws.pop\(\) a name in a statement before"),
    (longest_by_key, r"max\(t.w, t.v, key=len\): key= cannot be compiled; write if and else"),
    (greatest_by_key, r"max\(state.n, t.i, key=abs\): key= cannot be compiled; write if and else"),
    (least_or, "default= cannot be compiled; min of several values needs none: leave it out"),
    (wrong_element, r"t.w is a string: state.xs.append\(...\) takes a number"),
    (wrong_key, r"t.i is a number: state.ms\[...\] takes a string"),
    (no_text, r"None is no value: emit\(w=...\) takes a string"),
    (list_written_out, r"\[t.i\]: emit\(l=...\) takes list_of\('int64'\); give it \[\], or a list of the state"),
    (map_written_out, r"{}: emit\(\w+=...\) takes map_of\('string', 'int64'\); give it one of the state"),
    (get_without_default, "takes 2 arguments here, and 1 are given: without a default there may be no value"),
    (bare, r"state.xs is list_of\('int64'\), in abs\(...\)"),
    (adds_lists, r"state.xs is list_of\('int64'\); write a loop"),
    (unknown_method, r"list_of\('int64'\) has no push\(\) here; it has append, clear, count, .* sort"),
    (local_set, r"a set or map is a field of the state; set\(\) alone, given to one, empties it"),
    (keeps_a_record, "use its fields, or a loop's variable"),
    (unknown_field, "it has n, x"),
    (sort_key, "key= cannot be compiled; keep what to sort by in a list or map of its own"),
    (step, "a slice with a step; write a loop"),
    (text_index, r"t.w is a string: state.xs\[...\] takes a number"),
    (emits_kind, r"t.w is a string: emit\(n=...\) takes a number"),
    (emits_view, r"write list\(state.mi.keys\(\)\)"),
    (comprehends, r"state.xs is list_of\('int64'\): write a for loop over it"),
    (keeps_a_comprehension, "a comprehension, in state.xs; write a for loop"),
    (emits_a_comprehension, r"a comprehension, in emit\(l=...\); write a for loop"),
    (deletes, r"uses del: write pop\(\)"),
    (keeps_a_text_that_is_not_there, "t.word: t has no field 'word'; it has i, j"),
    (emits_a_text_that_is_not_there, "t.word: t has no field 'word'"),
    (emits_a_list_that_is_not_there, "state.xss: state has no field 'xss'; did you mean state.xs. it has "),
    (one_of_two_texts, "t.word: t has no field 'word'"),
    (one_text_or_another, "t.word: t has no field 'word'"),
    (greater_of_two_texts, "t.word: t has no field 'word'"),
    (list_from_helper, "only a container with a name, a field of the state for one, can be used here"),
]


@pytest.mark.parametrize(("function", "text"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_example_refused_with_the_users_line(function, text):
    with pytest.raises(FunctionError, match=text) as caught:
        Compiled(function)
    if function is not list_from_helper:
        lines, first = inspect.getsourcelines(function)
        assert caught.value.line == first + next(i for i, line in enumerate(lines) if "# here" in line)
