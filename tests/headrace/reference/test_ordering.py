"""The serial definition of ordered pipelines: stages, states, event times, the end of the input.

Property    small cases worked out by hand; a chain is its stages one after another over whole lists; planted mistakes fail
Oracle      the same stages written as loops over lists
Cannot see  whether the applications are what their table says: test_ordering_apps.py
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import DisorderError, EventTimeError, KeyNullError, ParameterError
from headrace.reference import ordering
from headrace.reference.ordering import Filter, FlatMap, Map, Partitioned, Stateful, ordered
from planted_mistakes import fails, planted


def rows(*values, ts=None):
    """One source: rows of `x` at times 0, 1, 2 ..."""
    times = range(len(values)) if ts is None else ts
    return [[(at, {"x": x}) for at, x in zip(times, values, strict=True)]]


def copies(t, emit):
    for i in range(t.x):
        emit(i=i)


def test_example_stateless_stages():
    assert ordered(rows(2, 0, 1), []) == [{"ts": 0, "x": 2}, {"ts": 1, "x": 0}, {"ts": 2, "x": 1}]
    assert ordered(rows(2, None, 0, 1), [Filter(lambda t: None if t.x is None else t.x > 0)]) == [
        {"ts": 0, "x": 2}, {"ts": 3, "x": 1}
    ]  # fmt: skip
    assert ordered(rows(2, 0, 1), [FlatMap(copies, ["i"])]) == [{"ts": 0, "i": 0}, {"ts": 0, "i": 1}, {"ts": 2, "i": 0}]
    kept = ordered(rows(2), [FlatMap(copies, ["i"], carry=["x"])])
    assert kept == [{"ts": 0, "x": 2, "i": 0}, {"ts": 0, "x": 2, "i": 1}]
    assert [list(row) for row in kept] == [["ts", "x", "i"]] * 2
    assert ordered(rows(2, 3), [Map(lambda t: t.x + t.ts, ["y"])]) == [{"ts": 0, "y": 2}, {"ts": 1, "y": 4}]
    assert ordered(rows(2), [Map(lambda t: t.x + 5, ["y"], carry=None)]) == [{"ts": 0, "x": 2, "y": 7}], "all stay"
    both = Map(lambda t, emit: emit(x=-t.x), ["x", "z"])
    assert ordered(rows(2), [both]) == [{"ts": 0, "x": -2, "z": None}], "what is left out is null"


def test_example_sources_are_merged_first():
    left, right = [(1, {"x": "a"}), (3, {"x": "b"})], [(1, {"x": "c"}), (2, {"x": "d"})]
    assert [row["x"] for row in ordered([left, right], [])] == ["a", "c", "d", "b"]


def count(state, t, emit):
    state.n += 1
    state.seen.add(t.x)
    emit(n=state.n, seen=state.seen)


COUNTED = {"n": "int64", "seen": hr.set_of("int64")}


def test_example_each_key_has_a_state_of_its_own():
    stage = Partitioned(count, "k", COUNTED, ["n", "seen"], carry=["k"])
    source = [(i, {"k": k, "x": x}) for i, (k, x) in enumerate([("b", 9), ("a", 2), ("b", -1), ("b", 9)])]
    assert ordered([source], [stage]) == [
        {"ts": 0, "k": "b", "n": 1, "seen": [9]},
        {"ts": 1, "k": "a", "n": 1, "seen": [2]},
        {"ts": 2, "k": "b", "n": 2, "seen": [-1, 9]},  # as it is then, in the order of the elements
        {"ts": 3, "k": "b", "n": 3, "seen": [-1, 9]},
    ], "states of the keys"
    of_all = ordered([source], [Stateful(count, COUNTED, ["n", "seen"])])
    assert of_all[-1] == {"ts": 3, "n": 4, "seen": [-1, 2, 9]}


@pytest.mark.parametrize("by, numbers", [("k", [1, 1, 2, 2, 3]), (["k", "j"], [1, 1, 2, 1, 1])])
def test_example_keys(by, numbers):
    nan = float("nan")
    source = [(i, {"k": k, "j": i // 3, "x": 0}) for i, k in enumerate([nan, 0.0, float("nan"), -0.0, nan])]
    assert [row["n"] for row in ordered([source], [Partitioned(count, by, COUNTED, ["n", "seen"])])] == numbers


def test_example_null_keys():
    source = [[(0, {"k": 1, "x": 0}), (1, {"k": None, "x": 0}), (2, {"k": 1, "x": 0})]]
    with pytest.raises(KeyNullError):
        ordered(source, [Partitioned(count, "k", COUNTED, ["n", "seen"])])
    dropped = Partitioned(count, "k", COUNTED, ["n", "seen"], null_keys="drop")
    assert [row["n"] for row in ordered(source, [dropped])] == [1, 2]


def test_example_a_key_that_was_not_seen_for_long_is_as_new():
    # forget 10:  0 .. 10 .. 21    10 is not more than 10 after 0, 21 is 11 after 10; what another key does is not seen
    source = [(ts, {"k": k, "x": ts}) for ts, k in [(0, 1), (10, 1), (15, 2), (21, 1), (21, 1)]]
    stage = Partitioned(count, "k", COUNTED, ["n", "seen"], forget=10)
    found = ordered([source], [stage])
    found = [(row["n"], row["seen"]) for row in found]
    assert found == [(1, [0]), (2, [0, 10]), (1, [15]), (1, [21]), (2, [21])], "what is forgotten"


def test_example_every_kind_has_a_first_value():
    kinds = {
        "i": "int64", "f": "float64", "b": "bool", "s": "string", "at": "timestamp[us]", "five": 5, "half": 0.5,
        "array": hr.array("int64", 3), "list": hr.list_of("float64"), "set": hr.set_of("string"),
        "map": hr.map_of("int64", "int64"),
    }  # fmt: skip
    names = list(kinds)

    def show(state, t, emit):
        emit(**{name: getattr(state, name) for name in names})

    expected = {"i": 0, "f": 0.0, "b": False, "s": "", "at": 0, "five": 5, "half": 0.5}
    expected |= {"array": [0, 0, 0], "list": [], "set": [], "map": []}
    assert ordered(rows(1), [Stateful(show, kinds, names)]) == [{"ts": 0} | expected]


def test_example_a_state_holds_what_its_kinds_hold():
    def keep(state, t, emit):
        state.f, state.half = 3, 2**53 + 1
        state.words = {"b", "a"}
        state.words.add("aa")
        state.counts = {3: 1, 1: 2}
        mine = [t.x]
        state.list = mine
        mine.append(7)  # the state has a list of its own
        emit(f=state.f, half=state.half, words=sorted(state.words, key=len), counts=state.counts, list=state.list, wide=1)

    kinds = {
        "f": "float64", "half": 0.5, "words": hr.set_of("string"), "counts": hr.map_of("int64", "int64"),
        "list": hr.list_of("int64"),
    }  # fmt: skip
    (row,) = ordered(rows(5), [Stateful(keep, kinds, dict.fromkeys(kinds) | {"wide": "float64"})])
    assert row == {
        "ts": 0, "f": 3.0, "half": 2.0**53, "words": ["a", "b", "aa"], "counts": [(1, 2), (3, 1)], "list": [5], "wide": 1.0
    }, "what states hold"  # fmt: skip
    assert [type(row[name]) for name in ("f", "half", "wide")] == [float] * 3, "what states hold"


def add(state, t, emit):
    state.sum += t.x
    emit(x=state.sum)


def last_sum(state, emit):
    emit(ts=1_000 + state.sum, x=state.sum)


SUM = Stateful(add, {"sum": "int64"}, ["x"], end=last_sum)


def test_example_ends_come_in_the_order_of_the_chain():
    # 1 2 -> sums 1 3, at the end 3 -> sums of these 1 4, then 7; at its own end 7
    assert ordered(rows(1, 2), [SUM, SUM]) == [
        {"ts": 0, "x": 1}, {"ts": 1, "x": 4}, {"ts": 1_003, "x": 7}, {"ts": 1_007, "x": 7}
    ]  # fmt: skip
    between = [SUM, Filter(lambda t: t.ts > 1_000), FlatMap(lambda t, emit: (emit(x=t.x), emit(x=1)), ["x"]), SUM]
    assert [row["x"] for row in ordered(rows(1, 2), between)] == [3, 4, 4]


def test_example_ends_on_empty_input():
    assert ordered([[]], [SUM]) == [{"ts": 1_000, "x": 0}], "nothing came"
    assert [row["x"] for row in ordered([[]], [SUM, SUM])] == [0, 0]
    assert ordered([], [Filter(lambda t: False), SUM]) == [{"ts": 1_000, "x": 0}]
    assert ordered(rows(5), [Filter(lambda t: False), SUM]) == [{"ts": 1_000, "x": 0}], "nothing reached it"
    assert ordered([[]], [Stateful(add, {"sum": "int64"}, ["x"])]) == []


def test_example_an_end_carries_nulls():
    stage = Stateful(add, {"sum": "int64"}, ["x"], carry=["y"], end=last_sum)
    assert ordered([[(3, {"x": 2, "y": "a"})]], [stage]) == [{"ts": 3, "y": "a", "x": 2}, {"ts": 1_002, "y": None, "x": 2}]


def test_example_an_event_time_of_its_own():
    late = FlatMap(lambda t, emit: (emit(ts=t.ts + 10, x=0), emit(x=1)), ["x"])
    found = ordered(rows(5, 6), [late])
    assert [row["ts"] for row in found] == [10, 0, 11, 1], "order is that of emission, nothing needs time"
    assert [row["n"] for row in ordered(rows(5, 6), [late, Partitioned(count, "x", COUNTED, ["n", "seen"])])] == [1, 1, 2, 2]
    with pytest.raises(DisorderError, match=r"event time 0 after 10: emit\(ts=...\) went back before a stage that needs time"):
        ordered(rows(5, 6), [late, Partitioned(count, "x", COUNTED, ["n", "seen"], forget=100)])
    forwards = FlatMap(lambda t, emit: (emit(x=1), emit(ts=t.ts + 1, x=0)), ["x"])
    again = [forwards, Partitioned(count, "x", COUNTED, ["n", "seen"], forget=100)]
    assert [row["ts"] for row in ordered(rows(5, 6), again)] == [0, 1, 1, 2]


def end_without_ts(state, emit):
    emit(x=1)


@pytest.mark.parametrize(
    "stage, error, words",
    [
        (Stateful(add, {"sum": "int64"}, ["x"], end=end_without_ts), EventTimeError, "without ts= where the input has ended"),
        (FlatMap(lambda t, emit: emit(ts=1.5, x=1), ["x"]), EventTimeError, r"emit\(ts=1.5\): an event time is an integer"),
        (FlatMap(lambda t, emit: emit(ts=None, x=1), ["x"]), EventTimeError, r"emit\(ts=None\)"),
        (FlatMap(lambda t, emit: emit(z=1), ["x", "y"]), ParameterError, r"emit\(z=...\): the columns are x, y"),
        (Map(lambda t, emit: None, ["x"]), ParameterError, "emit was called 0 times"),
        (Stateful(lambda s, t, emit: s.total, {"sum": "int64"}, []), AttributeError, "no field 'total'; it has sum"),
        (Stateful(lambda s, t, emit: setattr(s, "n", 1), {"m": 0}, []), AttributeError, "no field 'n'; it has m"),
        (Stateful(add, {"sum": 2**63 - 1}, ["x"]), OverflowError, "sum: 9223372036854775808 is beyond int64"),
        (FlatMap(lambda t, emit: emit(x=-(2**63) - t.x), ["x"]), OverflowError, "x: -9223372036854775809 is beyond int64"),
        (FlatMap(lambda t, emit: emit(ts=2**63, x=1), ["x"]), OverflowError, "ts: 9223372036854775808"),
    ],
)
def test_bad_functions(stage, error, words):
    with pytest.raises(error, match=words):
        ordered(rows(1), [stage])


def test_example_an_error_comes_with_its_tuple_not_with_its_stage():
    """A tuple passes all stages before the next one enters the first: so the error of the earlier tuple is the one."""

    def fails_at(number, text):
        def check(t):
            if t.x == number:
                raise ValueError(text)
            return True

        return Filter(check)

    with pytest.raises(ValueError, match="second"):
        ordered(rows(1, 2), [fails_at(2, "first"), fails_at(1, "second")])


# -- random chains --------------------------------------------------------------------------------------------


def spread(t, emit):
    for i in range(t.x % 3):
        emit(k=(t.k + i) % 4, x=t.x // 2 + i)


def difference(state, t, emit):
    state.n += 1
    if state.n % 2 == 0 or t.x < 4:
        emit(k=t.k, x=abs(t.x - state.before) % 50)
    state.before = t.x


def flush(state, emit):
    for i in range(state.n % 3):
        emit(ts=500, k=i, x=state.before)


BOTH = ["k", "x"]
STAGES = {
    "filter": Filter(lambda t: t.x % 5 != 0),
    "map": Map(lambda t: t.x * 3 % 40, ["x"], carry=["k"]),
    "flat_map": FlatMap(spread, BOTH),
    "partitioned": Partitioned(difference, "k", {"n": "int64", "before": "int64"}, BOTH),
    "stateful": Stateful(difference, {"n": "int64", "before": "int64"}, BOTH, end=flush),
}


def by_lists(name, tuples):
    """The stage over a whole list of (ts, k, x): loops, with no stage of the reference."""
    made, n, before = [], {}, {}
    for ts, k, x in tuples:
        if name == "filter":
            made += [(ts, k, x)] if x % 5 else []
        elif name == "map":
            made.append((ts, k, x * 3 % 40))
        elif name == "flat_map":
            made += [(ts, (k + i) % 4, x // 2 + i) for i in range(x % 3)]
        else:
            key = k if name == "partitioned" else None
            n[key] = n.get(key, 0) + 1
            if n[key] % 2 == 0 or x < 4:
                made.append((ts, k, abs(x - before.get(key, 0)) % 50))
            before[key] = x
    if name == "stateful":
        made += [(500, i, before.get(None, 0)) for i in range(n.get(None, 0) % 3)]
    return made


CASES = st.tuples(
    st.lists(st.sampled_from(sorted(STAGES)), max_size=5),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 99)), max_size=25),
)


def check_chain(case):
    names, steps = case
    ts, source = 0, []
    for step, k, x in steps:
        ts += step
        source.append((ts, k, x))
    expected = source
    for name in names:
        expected = by_lists(name, expected)
    found = ordered([[(ts, {"k": k, "x": x}) for ts, k, x in source]], [STAGES[name] for name in names])
    assert [tuple(row.values()) for row in found] == expected, names


@given(CASES)
def test_oracle_chains(case):
    check_chain(case)


@pytest.mark.parametrize(
    "text, mistake, check, expected",
    [
        ("if key not in states or", "if True or", test_example_each_key_has_a_state_of_its_own,
         "AssertionError: states of the keys"),
        ("seen[key] > self.forget", "seen[key] >= self.forget", test_example_a_key_that_was_not_seen_for_long_is_as_new,
         "AssertionError: what is forgotten"),
        ("seen[key] = ts", "seen.setdefault(key, ts)", test_example_a_key_that_was_not_seen_for_long_is_as_new,
         "AssertionError: what is forgotten"),
        ("as_emitted(value), name", "value, name", test_example_each_key_has_a_state_of_its_own,
         "AssertionError: states of the keys"),
        ("held[:] = value", "held = value", test_example_a_state_holds_what_its_kinds_hold, "AssertionError: what states hold"),
        ("return float(value)", "return value", test_example_a_state_holds_what_its_kinds_hold,
         "AssertionError: what states hold"),
        ('ts = values.pop("ts", self._ts)', 'ts = (values.pop("ts", 0), self._ts)[1]', test_example_an_event_time_of_its_own,
         "AssertionError: order is that of emission"),
        ("if self.end is not None:", "if self.end is not None and state.sum:", test_example_ends_on_empty_input,
         "AssertionError: nothing came"),
        ("dict.fromkeys(self._emits) | given", "given", test_example_stateless_stages,
         "AssertionError: what is left out is null"),
        ("ts < previous", "ts <= previous", test_example_an_event_time_of_its_own, "DisorderError: event time 1 after 1"),
    ],
)  # fmt: skip
def test_planted_mistakes_are_found(text, mistake, check, expected):
    assert Path(ordering.__file__).read_text().count(text) == 1, text
    with planted(ordering, text, mistake), fails(expected):
        check()
