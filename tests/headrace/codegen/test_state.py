"""`state=` and `emits=` as users write them, and what is said of what cannot be kept."""

import numpy as np
import pyarrow as pa
import pytest

from headrace.codegen.kinds import NUMBERS, STRING, array, list_of, map_of, read_kind, record, scalar, set_of
from headrace.codegen.state import StateField, read_emits, read_state
from headrace.errors import ParameterError


@pytest.mark.parametrize("name", NUMBERS)
def test_example_a_kind_is_one_thing_in_arrays_and_in_columns(name):
    kind = NUMBERS[name]
    assert read_state({"x": name})["x"] == StateField(name, kind.zero)
    assert np.dtype(kind.dtype).itemsize == (1 if name == "bool" else kind.arrow.bit_width // 8)
    assert pa.array([kind.zero], kind.arrow).to_pylist() == [kind.zero]


@pytest.mark.parametrize(
    "make",
    [list_of, set_of, lambda kind: array(kind, 2), lambda kind: map_of(kind, "bool"), lambda kind: map_of("bool", kind),
     lambda kind: map_of("bool", array(kind, 2)), lambda kind: map_of("bool", record(n=kind))],
)  # fmt: skip
def test_example_containers_take_kinds_as_arrow_types(make):
    assert make(pa.int64()) == make("int64") and make(pa.large_string()) == make("string")


def test_example_a_first_value_says_the_kind():
    assert read_state({"n": 3, "x": -0.5, "seen": True}) == {
        "n": StateField("int64", 3),
        "x": StateField("float64", -0.5),
        "seen": StateField("bool", True),
    }
    assert read_state(None) == read_emits(None) == {}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"n": "int16"}, "state: n='int16': the kinds are int64, int32, float64, float32, bool"),
        ({"n": 2**63}, "give a kind or a first value"),
        ({"n": None}, "give a kind or a first value"),
        ({"for": "int64"}, "state: 'for' is not a Python name"),
        ({3: "int64"}, "state: 3 is not a Python name"),
        ({"\N{MICRO SIGN}s": 1, "\N{GREEK SMALL LETTER MU}s": 2}, "that name is taken; rename one"),
        (["n"], "give a dict of names and kinds"),
    ],
)
def test_example_what_cannot_be_kept_is_told(state, message):
    with pytest.raises(ParameterError, match=message):
        read_state(state)


@pytest.mark.parametrize(
    ("emits", "message"),
    [
        ({"n": int}, "emits: n=<class 'int'>: did you mean 'int64'[?] the kinds are int64, .*, string, list_of"),
        ({"n": record(a="int64")}, "give its fields one by one, or a map of records"),
        ({"a b": "int64"}, "emits: 'a b' is not a Python name"),
        ("n", "emits='n': give a dict"),
    ],
)
def test_example_what_cannot_be_emitted_is_told(emits, message):
    with pytest.raises(ParameterError, match=message):
        read_emits(emits)


def test_example_containers_say_their_columns():
    state = read_state({"views": list_of("string"), "seen": set_of("int64"), "last": "string", "at": "timestamp[us]"})
    assert state["views"] == StateField(list_of("string"), None) and state["last"] == StateField("string", "")
    assert state["at"] == StateField("timestamp[us]", 0)
    per_house = map_of("int64", record(n="int64", total="float64"))
    assert per_house.width == 2 and map_of("int64", array("bool", 24)).width == 24
    assert per_house.arrow == pa.map_(pa.int64(), pa.struct([("n", pa.int64()), ("total", pa.float64())]))
    assert set_of("string").arrow == list_of("string").arrow == pa.list_(pa.string())
    assert read_kind("emits: at", pa.timestamp("ms", "UTC")) == "timestamp[ms, tz=UTC]"
    assert scalar("timestamp[ms, tz=UTC]").arrow == pa.timestamp("ms", "UTC")
    assert scalar("duration[s]").arrow == pa.duration("s") and scalar("duration[s, tz=UTC]") is None
    assert read_kind("emits: word", pa.string()) == "string" and scalar("string") is STRING


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: list_of("text"), "list_of: kind='text'; did you mean 'string'[?] the kinds are int64, .*, string"),
        (lambda: list_of(list_of("int64")), "list_of: kind=list_of.* would not have a fixed size; only .* of a map"),
        (lambda: map_of("int64", list_of("int64")), "map_of: value=list_of.* would not have a fixed size"),
        (lambda: map_of(array("int64", 2), "int64"), "map_of: key=array"),
        (lambda: array("int64", 0), "size=0: give a whole number from 1 to 65,536"),
        (lambda: array("int64", True), "size=True"),
        (lambda: record(), "give at least one field"),
        (lambda: record(a=array("int64", 2)), "record: a=array"),
    ],
)
def test_example_containers_too_deep_or_of_no_kind(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
