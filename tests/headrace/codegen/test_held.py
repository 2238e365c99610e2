"""Names for containers, and places that are given something else while such a name or a loop stands for them.

Errors      a name that is read after its place was given something else, with the line of the read; a loop that goes on
Agree       what is refused nowhere near it: a name that is used before, is found again, or is on another way; elements that
            are found in a container which moves meanwhile
Oracle      the same function in plain Python on `headrace.reference.containers`
"""

from __future__ import annotations

import inspect

import pytest

from headrace.errors import FunctionError
from support.kept_values import Compiled, agree


def emptied(state, t, emit):
    old = state.xs
    state.xs = []
    for x in old:  # here
        state.n += x


def sorted_in_its_place(state, t, emit):
    before = state.xs
    state.xs = sorted(before)
    emit(before[0], t.w, before, state.ws, state.ms)  # here


def set_emptied(state, t, emit):
    seen = state.ss
    if t.i > 3:
        state.ss = set()
    state.n = len(seen)  # here


def through_another_name(state, t, emit):
    counts = state.mi
    same = counts
    state.mi = {}
    state.n = sum(same.values())  # here


def in_the_next_turn(state, t, emit):
    xs = state.xs
    for _ in range(3):
        state.n += len(xs)  # here
        state.xs = state.xs[1:]


def forget(state):
    state.n = 0
    state.xs = []


def forget_all(state):
    forget(state)


def by_a_helper(state, t, emit):
    old = state.xs
    forget_all(state)
    emit(0, t.w, old, state.ws, state.ms)  # here


def in_its_own_loop(state, t, emit):
    for x in state.xs:
        if x < 0:
            state.xs = []  # here
        state.n += x


def in_a_loop_by_name(state, t, emit):
    words = state.ws
    for number, word in enumerate(words):
        if word == t.w:
            state.ws = state.ws[1:]  # here
            continue
        state.n += number


def two_names_of_a_made_list(state, t, emit):
    first = state.xs[:2]
    kept = first
    first = state.xs[2:]
    emit(len(first), t.w, kept, state.ws, state.ms)  # here


def made_again_in_its_loop(state, t, emit):
    rest = state.xs[:]
    for x in rest:
        rest = state.xs[1:]  # here
        state.n += x


def shorten(xs):
    xs = xs[1:]  # here
    return len(xs)


def shortens_what_it_is_given(state, t, emit):
    made = state.xs[:3]
    state.n = shorten(made) + len(made)


def touch(house):
    house.n += 1


def gives_a_record(state, t, emit):
    for house in state.mr.values():
        touch(house)  # here


def one_of_two(state, t, emit):
    xs = state.xs if t.i > 0 else state.xs[1:]  # here
    state.n = len(xs)


REFUSED = [
    (emptied, "'old' stands for state.xs, which is replaced in line"),
    (sorted_in_its_place, "'before' stands for state.xs, which is replaced in line"),
    (set_emptied, "'seen' stands for state.ss, .*: use 'seen' before that line; of a list, make a copy"),
    (through_another_name, "'same' stands for state.mi"),
    (in_the_next_turn, "'xs' stands for state.xs"),
    (by_a_helper, "'old' stands for state.xs"),
    (
        in_its_own_loop,
        "state.xs: state.xs is replaced in line .*, and the loop over it goes on: do so after the loop, or loop over a copy",
    ),
    (in_a_loop_by_name, r"enumerate\(words\): state.ws is replaced in line"),
    (two_names_of_a_made_list, "'kept' stands for the list 'first'"),
    (made_again_in_its_loop, "rest: the list 'rest' is replaced in line"),
    (gives_a_record, r"touch\(house\): house is record.*: give touch its fields, as in house.n"),
    (one_of_two, "a name stands for one container; write if and else"),
    (shortens_what_it_is_given, "'xs' is a container that shorten is given: use another name"),
]


@pytest.mark.parametrize(("function", "text"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_example_refused_with_the_users_line(function, text):
    with pytest.raises(FunctionError, match=text) as caught:
        Compiled(function)
    at = shorten if function is shortens_what_it_is_given else function
    lines, first = inspect.getsourcelines(at)
    assert caught.value.line == first + next(i for i, line in enumerate(lines) if "# here" in line)


def copied_before(state, t, emit):
    state.xs.append(t.i)
    old = state.xs.copy()
    state.xs = []
    for x in old:
        if x != t.j:
            state.xs.append(x)
    emit(len(old), t.w, old, state.ws, state.ms)


def used_before(state, t, emit):
    xs = state.xs
    xs.append(t.i)
    if len(xs) > 3:
        state.xs = xs[1:]
    else:
        state.n += len(xs)
    xs = state.xs
    state.n += xs[0]


def on_another_way(state, t, emit):
    xs = 0
    words = state.ws
    words.append(t.w)
    if t.i < 0:
        state.ws = sorted(words)
        emit(xs, t.w, state.xs, state.ws, state.ms)
        return
    emit(len(words), words[0], state.xs, words, state.ms)


def left_at_once(state, t, emit):
    state.xs.append(t.i)
    for x in state.xs:
        state.n += 1
        if x > 4:
            state.xs = []
            break
    for word in sorted(state.ss):
        if word == t.v:
            state.ss = set()
    state.ss.add(t.w)


def given_itself(state, t, emit):
    xs = state.xs
    xs.append(t.i)
    state.xs = xs
    xs.append(t.j)
    state.n = len(xs)


def from_a_map_that_moves(state, t, emit):
    state.mr[t.i].n += 1
    state.mr[state.n].n += state.mr[state.n + 1].n + 1
    state.mr[state.n].x -= state.mr[-state.n].x - 0.5
    state.ma[t.w][0] += state.ma[t.v][1] + 1
    state.ma[t.v][1] += 1
    state.n += 3


def numbered_from_what_changes(state, t, emit):
    state.xs.append(t.i)
    for number, x in enumerate(state.xs, state.n):
        state.n += 1
        state.mi[number] = x
    if len(state.xs) > 5:
        state.xs.clear()


def shortened_from_behind(state, t, emit):
    state.xs.append(t.i)
    state.xs.append(t.j % 5)
    for x in reversed(state.xs):
        if x > 3:
            state.xs.pop()
        state.n += x


def stored_in_the_order_written(state, t, emit):
    state.xs.append(t.i)
    i = 0
    i, state.xs[i] = len(state.xs) - 1, 7
    state.a[i % 4], i = i, 3
    state.n, state.a[state.n % 4] = i + t.i, 9
    state.xs[-1], i, state.mi[i] = i, i + 1, t.j
    state.n = n = i
    state.n += n


def total_of(xs, first=0):
    for x in xs:
        first += x
    return first


def twice(xs):
    xs[0] += 1
    return total_of(xs) + total_of(xs, first=1)


def given_to_a_helper_in_a_loop(state, t, emit):
    state.ma[t.w][t.i % 3] += t.i
    for row in state.ma.values():
        state.n += twice(row)
        state.n += total_of(state.a) + total_of(row)


AGREE = [
    copied_before, used_before, on_another_way, left_at_once, given_itself, from_a_map_that_moves,
    numbered_from_what_changes, shortened_from_behind, stored_in_the_order_written,
    given_to_a_helper_in_a_loop,
]  # fmt: skip


@pytest.mark.interpreted
@pytest.mark.parametrize("function", AGREE, ids=lambda function: function.__name__)
def test_agree_with_plain_python(function):
    assert [agree(function, seed, 60) for seed in (1, 2)] == [None, None]
