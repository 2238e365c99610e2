"""Containers of a state that ends, given to another one as a whole.

Property    what is assigned is given away only if no way through the function uses it besides: nothing is lost, or seen twice
Oracle      small functions by hand; a program that gives a map away, compiled, against its own plain Python
Cannot see  that nothing is copied, but for the memory that is held
"""

import ast
import inspect
import textwrap

import pyarrow as pa
import pytest

import headrace as hr
from headrace.codegen.uses import given_away
from headrace.errors import FunctionError
from headrace.reference import synchronization as reference


def away(text):
    """What a function's body gives away of s."""
    found = given_away(ast.parse(textwrap.dedent(text)).body, {"s": "state"}, ["state"])
    return sorted(map(ast.unparse, found.values()))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("a.m = s.m", ["s.m"]),
        ("a.m = s.m\na.n = s.n", ["s.m", "s.n"]),
        ("if x:\n    a.m = s.m\nelse:\n    b.m = s.m", ["s.m", "s.m"]),
        ("if x:\n    a.m = s.m\nelse:\n    for k in s.m:\n        b.m[k] = 1", ["s.m"]),
        ("if x:\n    a.m = s.m\nif y:\n    b.m = s.m", []),
        ("a.m = s.m\nb.m = s.m", []),
        ("a.m = s.m\nn = len(s.m)", []),
        ("n = len(s.m)\nif n:\n    a.m = s.m", []),
        ("if len(s.m) > 0:\n    a.m = s.m", []),
        ("if s.n > 0:\n    a.m = s.m", ["s.m"]),
        ("for k in range(2):\n    a.m = s.m", []),
        ("while x:\n    a.m = s.m", []),
        ("helper(s)\na.m = s.m", []),
        ("helper(s.n)\na.m = s.m", ["s.m"]),
        ("a.m = other.m", []),
    ],
)
def test_example_ways_through_a_function(body, expected):
    assert away(body) == expected


def count(state, e, emit):
    state.counts[e.key] = state.counts.get(e.key, 0) + 1


def total(state, e, emit):
    emit(keys=len(state.counts), total=sum(state.counts.values()))


def split(state, left, right, tags_left, tags_right):
    if "end" in tags_right:
        right.counts = state.counts
    else:
        left.counts = state.counts


def merge(into, other):
    if len(into.counts) == 0:
        into.counts = other.counts
    else:
        for key, value in other.counts.items():
            into.counts[key] = into.counts.get(key, 0) + value


def program(fork=split, join=merge):
    return hr.program(
        tags={"value": {"key": "int64"}, "end": {}}, depends=[("value", "end"), ("end", "end")],
        state={"counts": hr.map_of("int64", "int64")}, emits={"keys": "int64", "total": "int64"},
        update={"value": count, "end": total}, fork=fork, join=join,
    )  # fmt: skip


@pytest.mark.slow
def test_agree_what_is_given_away_is_there_and_given_back():
    values = [[(ts, {"key": ts * 7919 % (501 + k)}) for ts in range(4_000)] for k in range(3)]
    ends = [(ts, {}) for ts in range(0, 4_000, 40)]
    tables = [pa.table({"ts": [ts for ts, _ in rows], "key": [e["key"] for _, e in rows]}) for rows in values]
    expected = reference.run(program(), [*(("value", rows) for rows in values), ("end", ends)])
    program().check()
    held = set()
    for leaves in (1, 3):
        with program().start(
            {"value": tables, "end": pa.table({"ts": [ts for ts, _ in ends]})}, leaves=leaves, threads=2
        ) as run:
            run.wait()
            assert run.to_arrow().to_pylist() == expected
            held.add(run.metrics().operators["program"].values["state_bytes"] < 1 << 18)
    assert held == {True}, "a map of 500 keys takes some kilobytes"


def test_example_maps_that_are_used_besides():
    def twice(state, left, right, tags_left, tags_right):
        left.counts = state.counts
        right.counts = state.counts

    with pytest.raises(FunctionError, match="state.counts would be moved, but it is used elsewhere as well") as caught:
        program(fork=twice).over({"value": pa.table({"ts": [1], "key": [1]}), "end": pa.table({"ts": [1]})})
    lines, first = inspect.getsourcelines(twice)
    assert caught.value.line in range(first, first + len(lines))


def test_example_only_of_a_state_that_ends():
    def grow(state, e, emit):
        state.counts = state.counts

    wrong = hr.program(
        tags={"value": {}}, state={"counts": hr.map_of("int64", "int64")}, emits={"n": "int64"}, update={"value": grow}
    )
    with pytest.raises(FunctionError, match="give a map an empty one|an empty one"):
        wrong.over({"value": pa.table({"ts": [1]})})
