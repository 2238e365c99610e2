"""What containers of a state mean: Python's own, but for order, equal floats, and loops over what changes.

Property    keys are the same as in a dict or set of canonical values, and iterate in order
Oracle      dict and set, `sorted`; small cases by hand
Cannot see  what the kernels do: tests/headrace/memory/test_containers.py
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.reference.containers import FloatList, KeyOrderedMap, KeyOrderedSet, first_value

INTS = st.lists(st.tuples(st.sampled_from(["add", "take"]), st.integers(-5, 5) | st.integers()), max_size=30)


@given(INTS)
def test_oracle_maps_and_sets_of_integers(operations):
    ours, plain = KeyOrderedMap(), {}
    our_set, plain_set = KeyOrderedSet(), set()
    for operation, key in operations:
        if operation == "add":
            for d in (ours, plain):
                d[key] = d.get(key, 0) + 1
            our_set.add(key), plain_set.add(key)
        else:
            assert ours.pop(key, None) == plain.pop(key, None)
            our_set.discard(key), plain_set.discard(key)
    assert ours == plain and our_set == plain_set
    assert list(ours.items()) == sorted(plain.items())
    assert list(ours) == list(ours.keys()) == list(our_set) == sorted(plain)
    assert list(ours.values()) == [plain[key] for key in sorted(plain)]


def test_example_floats_that_are_one_key():
    seen, count = KeyOrderedSet(), KeyOrderedMap()
    for value in (math.nan, 0.0, 2.0, -0.0, float("nan"), -math.inf):
        seen.add(value)
        count[value] = count.get(value, 0) + 1
    assert str(seen) == "{-inf, 0.0, 2.0, nan}"
    assert str(count) == "{-inf: 1, 0.0: 2, 2.0: 1, nan: 2}"
    assert float("nan") in seen and float("nan") in count and count[float("nan")] == 2
    del count[float("nan")]
    seen.remove(float("nan"))
    assert len(seen) == len(count) == 3


def test_example_strings_order_by_code_point():
    seen = KeyOrderedSet()
    seen.update(["\U00010000", "\uffff", "b", "", "ab", "a\0", "a"])
    assert list(seen) == ["", "a", "a\0", "ab", "b", "\uffff", "\U00010000"]


def test_example_nan_in_lists_equals_nothing():
    nan = math.nan
    held = FloatList([1.0, nan, 0.0, -0.0])
    assert nan not in held and nan not in held[:2] and held.count(nan) == 0
    with pytest.raises(ValueError, match="nan is not in list"):
        held.index(nan)
    held.sort()
    assert str(held) == "[0.0, -0.0, 1.0, nan]"
    held.sort(reverse=True)
    assert str(held) == "[nan, 1.0, 0.0, -0.0]"
    held.remove(-0.0)
    assert str(held) == "[nan, 1.0, -0.0]"


def grown(kept):
    kept.add(2) if isinstance(kept, set) else kept.update({2: 0})


def replaced(kept):
    """As many keys as before, others."""
    if isinstance(kept, set):
        kept.remove(1)
        kept.add(2)
    else:
        del kept[1]
        kept[2] = 0


@pytest.mark.parametrize("change", [grown, replaced, lambda kept: kept.clear()])
@pytest.mark.parametrize("make", [KeyOrderedMap, KeyOrderedSet])
def test_example_a_loop_over_keys_that_change_raises(make, change):
    kept = make()
    kept.add(1) if make is KeyOrderedSet else kept.update({1: 0})
    with pytest.raises(RuntimeError, match="changed during iteration"):
        for _ in kept:  # at the last step too
            change(kept)


def test_example_values_may_change_in_a_loop():
    counts = KeyOrderedMap()
    counts.update({2: 0, 1: 0})
    for key, value in counts.items():
        counts[key] = value + key
    assert counts == {1: 1, 2: 2}


def test_example_first_values_are_of_their_own():
    class ListOf:
        kind = "int64"

    class Array:
        kind, size = "float64", 3

    class Record:
        fields = (("n", "int64"), ("name", "string"))

    class MapOf:
        key, value = "string", Record()

    for scalar, zero in (("int64", 0), ("float32", 0.0), ("bool", False), ("string", ""), ("duration[s]", 0)):
        assert first_value(scalar) == zero and type(first_value(scalar)) is type(zero)
    assert first_value(ListOf()) == [] and first_value(ListOf()) is not first_value(ListOf())
    assert first_value(Array()) == [0.0] * 3
    users = first_value(MapOf())
    users["a"].n += 1
    assert (users["a"].n, users["b"].n, users["b"].name) == (1, 0, "") and "c" not in users
    MapOf.value = "int64"
    with pytest.raises(KeyError):
        first_value(MapOf())["a"]
