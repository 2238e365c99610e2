"""Strings that functions have from outside: variables around them, defaults of parameters, tuples of strings.

Property    they mean what they mean in Python, in functions of every kind and in what these call
Oracle      the same function, called by the interpreter
"""

from types import SimpleNamespace

import pyarrow as pa
import pytest

import headrace as hr
from headrace.codegen import capture

ROWS = pa.table({"ts": [1, 2, 3, 4], "k": [1, 1, 2, 2], "s": ["a", "b", "zz", "b"]})
ONE, OTHER = "b", "zz"
SOME = ("a", "zz")
NESTED = (1, "a")


def longer(s, other="zz"):
    return s if len(s) > 1 else other


def longer_than_one(s):
    return s if len(s) > 1 else OTHER


def by_a_name(t):
    one = ONE
    return t.s == one


def by_a_default_that_is_assigned(t, other="b"):
    if t.k > 1:
        other = t.s
    return t.s == other


FILTERS = [
    lambda t: t.s == ONE,
    lambda t: t.s in SOME,
    lambda t, some=("a", "q"): t.s not in some,
    lambda t, least="b": least <= t.s < OTHER,
    lambda t: longer(t.s) == t.s or longer(t.s, ONE) == ONE,
    lambda t: longer_than_one(t.s) == OTHER,
    lambda t: t.k == NESTED[0],
    by_a_name,
    by_a_default_that_is_assigned,
]


def check(function):
    expected = [row for row in ROWS.to_pylist() if function(SimpleNamespace(**row))]
    assert hr.stream(ROWS, event_time="ts").filter(function).to_arrow().to_pylist() == expected, "rows that are kept"


@pytest.mark.logic
@pytest.mark.parametrize("function", FILTERS)
def test_agree_filters(function):
    check(function)


def counts(state, t, emit, word="none"):
    state.n[ONE] = state.n.get(ONE, 0) + (1 if t.s in SOME else 0)
    if t.k > 1:
        word = longer(t.s)
    state.seen.add(OTHER)
    emit(word=word, n=state.n[ONE] + len(OTHER) + (10 if ONE in state.seen else 0))


@pytest.mark.logic
def test_example_stages_of_pipelines():
    state = {"n": hr.map_of("string", "int64"), "seen": hr.set_of("string")}
    pipeline = hr.stream(ROWS, event_time="ts").ordered()
    found = pipeline.partitioned(counts, by="k", state=state, emits={"word": "string", "n": "int64"}).to_arrow()
    assert found["word"].to_pylist() == ["none", "none", "zz", "zz"] and found["n"].to_pylist() == [3, 3, 3, 3]


MADE = hr.table("made", columns={"word": "string", "n": "int64"}, rows=3)


def books(e, t):
    MADE[e.k].n += 1 if e.s in SOME else 0
    if MADE[e.k].word == "":
        MADE[e.k].word = OTHER
    t.emit(word=MADE[e.k].word, n=MADE[e.k].n)


@pytest.mark.logic
@pytest.mark.parametrize("scheme", ["serial", "chains"])
def test_example_transactions(scheme):
    query = hr.stream(ROWS, event_time="ts").transact(books, emits={"word": "string", "n": "int64"})
    found = query.to_arrow(scheme=scheme)
    assert found["word"].to_pylist() == ["zz"] * 4 and found["n"].to_pylist() == [1, 1, 1, 1]


@pytest.mark.logic
def test_example_joins():
    def pairs(function):
        both = [hr.stream(ROWS, event_time="ts") for _ in range(2)]
        query = both[0].join(both[1], 9, function, prefixes=("l_", "r_"))
        return [(row["l_k"], row["r_s"]) for row in query.to_arrow().to_pylist()]

    assert pairs(lambda l, r: l.s == ONE and longer(r.s) != OTHER) == []
    assert sorted(pairs(lambda l, r, one="a": l.s == one and r.s in SOME)) == [(1, "a"), (1, "zz")]


@pytest.mark.interpreted
def test_planted_strings_that_are_compared_as_they_are(monkeypatch):
    monkeypatch.setattr(capture, "write_texts", lambda node, values: None)
    with pytest.raises(AssertionError, match="rows that are kept"):
        check(FILTERS[0])
