"""Strings, lists, sets, maps and arrays in user functions: compiled code does what Python does with the same text.

Property    a function of the state leaves the same state, returns the same emissions and raises the same error as in
            plain Python; what cannot be compiled is refused: test_kept_refused.py
Oracle      the user's own function, called by the interpreter on `headrace.reference.containers`
Programs    some written down (one compiled every day, three in the campaign), and a generator of small functions over
            fields of every kind (interpreted: the text that the rewriting writes, run as Python)
Cannot see  what threads do to each other: tests/headrace/elastic/test_containers.py
"""

from __future__ import annotations

import ast
import random

import pytest

from headrace.errors import FunctionError
from support.campaign import rarely
from support.drawn_programs import Programs, made
from support.kept_values import Compiled, agree, drawn_tuple

# -- written down


def cart(state, t, emit):
    if t.w == "cart" and t.v not in state.ss:
        state.ss.add(t.v)
    if t.w not in state.ms:
        state.ms[t.w] = 0
    state.ms[t.w] += 1
    state.xs.append(t.i)
    if len(state.xs) > 5:
        state.xs.pop(0)
    state.last = max(state.last, t.w)
    emit(len(state.ss), state.last, state.xs[-3:], sorted(state.ms)[:2], state.ms)


def halved(counts, key):
    if key in counts:
        counts[key] //= 2
    return counts.get(key, 0)


def longest(a, b):
    return a if len(a) >= len(b) else b


def nested(state, t, emit):
    state.mr[t.i].n += 1
    state.mr[t.i].x += t.j * 0.5
    state.ma[t.w][t.j % 3] += t.i
    state.a[t.i % 4] = len(t.w)
    state.n = 0
    for key, house in state.mr.items():
        if house.n > 3:
            continue
        state.n += key
        house.n += 1
    for row in state.ma.values():
        state.n += max(row)
    state.ms[t.v] = state.a[-1]
    state.last = longest(state.last, t.w)
    state.mi[t.i] = state.mi.setdefault(t.i, 40) + 1
    halved(state.mi, t.i)
    emit(state.n + sum(state.a), t.w, list(state.mi.values()), state.ws, state.ms)


def top_three(state, t, emit):
    state.ws.append(t.w)
    for word in state.ws:
        state.ss.add(word)
    words = sorted(state.ss, reverse=True)[:3]
    if "" in state.ss and len(words) == 3:
        state.ss.discard(words[-1])
    emit(len(words), min(t.w, t.v, "m"), state.xs, words, state.ms)


def count_up(state, by=1):
    state.n = (state.n + by) % 4
    state.last = "h" if state.n % 2 else ""
    return state.n


def other_word(state):
    state.last = "b" if state.last > "a" else "cart"
    return state.last


def changed_meanwhile(state, t, emit):
    """What a place or a side of a comparison is said by, a call on the right changes."""
    state.mi[state.n] = t.i
    state.mi[state.n] += count_up(state)
    state.a[state.n] += count_up(state)
    state.ma[state.last][state.n % 3] += count_up(state, 2)
    state.mr[state.n].n += count_up(state)
    state.mr[count_up(state)].n -= count_up(state, 3)
    state.xs.append(state.n)
    if len(state.xs) > 4:
        state.xs[state.n] += count_up(state)
        state.xs.pop(0)
    orders = (state.last > other_word(state)) + 2 * (state.last <= other_word(state)) + 4 * (state.last >= other_word(state))
    emit(orders + 8 * (state.last < other_word(state)), state.last, state.xs, state.ws, state.ms)


NAMES = ("a", "cart", "zebra crossing")


def chosen_words(state, t, emit):
    state.last = t.w or t.v or "none"
    state.ws.append(t.w and t.v)
    if len(state.ws) > 3:
        state.ws.pop(0)
    state.mw[t.v], state.last = state.ws[0], state.mw.get(t.w, t.v)
    state.n = len(state.last and NAMES[t.i % 3]) + len(NAMES[-1 - t.i % 2])
    state.last, state.n = state.ws[-1], state.n + 1
    emit(state.n, t.v or NAMES[t.j % 3], state.xs, state.ws, state.ms)


def empties(state, t, emit):
    state.xs.append(t.i)
    state.ss.add(t.w)
    words = sorted(state.ss)
    emit(1, t.w, [], words, state.ms)
    emit(2, t.w, state.xs[-2:], [], state.ms)
    emit(3, t.w, [], [], state.ms)
    emit(4, t.w, state.xs, words, state.ms)


def names_of_temporaries(value_1, place_1, emit_1):
    value_1.ms[place_1.w] = value_1.n
    value_1.a[place_1.i % 4] += 1
    for at_1 in value_1.xs:
        value_1.n += at_1
    value_1.xs.append(place_1.i)
    emit_1(value_1.n, place_1.w, value_1.xs, value_1.ss, value_1.ms)


@pytest.mark.slow
@pytest.mark.parametrize("function", [*rarely(cart, nested), chosen_words])
def test_compiled_equals_plain(function):
    for seed in range(20):
        assert agree(function, seed) is None


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("seeds", [range(7), *rarely(range(7, 20))], ids=str)
@pytest.mark.parametrize("function", [cart, nested, top_three, changed_meanwhile, chosen_words, empties, names_of_temporaries])
def test_interpreted_equals_plain(function, seeds):
    for seed in seeds:
        assert agree(function, seed) is None


def sums(state, t, emit):
    state.xs.append(2**62)
    state.n = sum(state.xs)


@pytest.mark.interpreted
def test_a_sum_that_leaves_its_range_is_an_error_where_integers_must_fit():
    compiled = Compiled(sums, debug=True)
    row = drawn_tuple(random.Random(1))
    compiled(row)
    with pytest.raises(OverflowError, match="leaves the range of int64"):
        compiled(row)


def grows_in_its_loop(state, t, emit):
    state.mi[t.i] = 1
    for key in state.mi:
        state.mi[key + 1] = 2


def pops_nothing(state, t, emit):
    state.xs.pop()


def misses(state, t, emit):
    state.ms[t.w] += 1


def beyond(state, t, emit):
    state.a[t.j] = 1


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("function", "error"),
    [(grows_in_its_loop, RuntimeError), (pops_nothing, IndexError), (misses, KeyError), (beyond, IndexError)],
)
def test_errors_are_those_of_python(function, error):
    assert {agree(function, seed) for seed in range(5)} == {error}


@pytest.mark.slow
def test_compiled_errors_are_those_of_python():
    assert agree(misses, 1) is KeyError


# -- drawn


def drawn_program(seed):
    text = Programs(seed).function(f"program_{seed}")
    ast.parse(text)
    return made(text, f"program_{seed}")


def agree_or_too_large(seed, steps):
    try:
        return agree(drawn_program(seed), seed, steps)
    except FunctionError as error:
        assert "temporary lists: use fewer" in str(error)
        return None


@pytest.mark.slow
@pytest.mark.interpreted
@pytest.mark.parametrize("part", [0, *rarely(1, 2, 3)])
def test_property_drawn_programs(part):
    errors = [agree_or_too_large(seed, 25) for seed in range(part * 100, part * 100 + 100)]
    assert errors.count(None) > 30 and len(set(errors)) > 2


@pytest.mark.campaign
def test_campaign_drawn_programs_compiled():
    for seed in range(10_000, 10_100):
        agree_or_too_large(seed, 60)
