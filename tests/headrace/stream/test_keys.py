"""Keys that a function gives each tuple: the paper's f_MK, several keys from a tuple's columns, or none.

Oracle      the same function run as plain Python, its keys written into a list column, and ``hr.each`` of that
"""

import random
import re

import pyarrow as pa
import pytest

import headrace as hr
from headrace.errors import FunctionError, HeadraceError, ParameterError


def ends(t, emit):
    """Both ends of a leg, and what is between for every third mile; some have none."""
    if t.miles % 5 != 0:
        emit(t.origin)
        if t.dest != "nowhere":
            emit(t.dest)
            emit(t.dest)
        for _ in range(t.miles % 3):
            emit("between")


def miles(t, emit):
    for part in range(1, 4):
        emit(t.miles // part)


def legs(rows=500, seed=3):
    rng = random.Random(seed)
    ts = sorted(rng.randint(-50, 2 * rows) for _ in range(rows))
    places = ["Ä", "b", "nowhere", ""]
    return pa.table({
        "ts": ts, "miles": [rng.randint(0, 40) for _ in ts],
        "origin": pa.array([rng.choice(places) for _ in ts]).dictionary_encode(), "dest": [rng.choice(places) for _ in ts],
        "key": ["k"] * rows,
    })  # fmt: skip


class Row:
    def __init__(self, row):
        self.__dict__.update(row)


def listed(table, function):
    """What the function gives each tuple, in plain Python."""
    found = []
    for row in table.to_pylist():
        found.append([])
        function(Row(row), found[-1].append)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("function", "kind"), [(ends, "string"), (miles, "int64")])
def test_oracle_keys_of_a_function_are_those_of_a_list(function, kind):
    table = legs()
    by_list = table.append_column("listed", pa.array(listed(table, function), pa.list_(getattr(pa, kind)())))
    count = {"n": hr.count(), "most": hr.max("miles")}
    expected = hr.stream(by_list, event_time="ts").key_by(place=hr.each("listed")).window(60, 20).aggregate(**count).to_arrow()
    stream = hr.stream(table, event_time="ts").key_by(place=hr.keys(function, kind))
    assert stream.window(60, 20).aggregate(**count).to_arrow(threads=2) == expected


def test_a_function_that_fails_is_named_with_its_row():
    def broken(t, emit):
        emit(10 // t.miles)

    table = pa.table({"ts": [1, 2], "miles": [5, 0]})
    query = hr.stream(table, event_time="ts").key_by(place=hr.keys(broken, "int64")).window(10).aggregate(n=hr.count())
    with pytest.raises(FunctionError, match="ZeroDivisionError.*broken") as caught:
        query.to_arrow()
    assert caught.value.tuple == {"ts": 2, "miles": 0}


def test_what_is_no_function_or_has_no_name_is_refused():
    stream = hr.stream(legs(), event_time="ts")
    with pytest.raises(ParameterError, match=r"give a function f\(t, emit\)"):
        hr.keys("origin", "string")
    with pytest.raises(ParameterError, match="give the key a name"):
        stream.key_by(hr.keys(ends, "string"))
    with pytest.raises(ParameterError, match=r"the kinds are int64, .*, string, timestamp\[us\] and duration\[us\]"):
        stream.key_by(place=hr.keys(ends, "text"))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda s: s.key_by(["key"]), 'the columns one after the other: key_by("key")'),
        (lambda s: s.key_by(["key", "dest"]), 'the columns one after the other: key_by("key", "dest")'),
        (lambda s: s.key_by(place=["origin", "dest"]),
         'one key of each of the columns, key_by(place=("origin", "dest")), or write key_by("origin", "dest") for a key of'),
        (lambda s: s.key_by(place=["origin"]), 'key_by(place=("origin",))'),
        (lambda s: s.select(["ts", "key"]), 'is not a name; give one after the other: select("ts", "key")'),
    ],
)  # fmt: skip
def test_example_a_list_where_names_are_given_one_after_the_other(wrong, told):
    with pytest.raises(HeadraceError, match=re.escape(told)):
        wrong(hr.stream(legs(3), event_time="ts"))
