"""`state=` and `emits=` as users write them, and what is said of what cannot be kept."""

import numpy as np
import pyarrow as pa
import pytest

from headrace.codegen.state import KINDS, StateField, read_emits, read_state
from headrace.errors import ParameterError


@pytest.mark.parametrize("name", KINDS)
def test_example_a_kind_is_one_thing_in_arrays_and_in_columns(name):
    kind = KINDS[name]
    assert read_state({"x": name})["x"] == StateField(name, kind.zero)
    assert np.dtype(kind.dtype).itemsize == (1 if name == "bool" else kind.arrow.bit_width // 8)
    assert pa.array([kind.zero], kind.arrow).to_pylist() == [kind.zero]


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
        ({"n": 2**63}, "give a kind .* or a first value"),
        ({"n": None}, "give a kind .* or a first value"),
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
        ({"n": int}, "emits: n=<class 'int'>: the kinds are"),
        ({"a b": "int64"}, "emits: 'a b' is not a Python name"),
        ("n", "emits='n': give a dict"),
    ],
)
def test_example_what_cannot_be_emitted_is_told(emits, message):
    with pytest.raises(ParameterError, match=message):
        read_emits(emits)
