"""The small leaves: errors, tuples, progress, kernel. Each test is the leaf's own promise."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import errors, progress
from headrace.errors import (
    FunctionError,
    HeadraceError,
    InputError,
    OutputError,
    SchemaError,
    UnsupportedTypeError,
)
from headrace.kernel import JIT, kernel
from headrace.tuples import Field, Schema


def test_every_error_is_ours_and_survives_pickling():
    classes = [c for c in vars(errors).values() if isinstance(c, type) and c.__module__ == errors.__name__]
    assert len(classes) > 10
    for error_class in classes:
        error = error_class("advance = 0: must be at least 1")
        assert isinstance(error, HeadraceError)
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is error_class and str(copy) == str(error) == "advance = 0: must be at least 1"


def test_input_errors_are_value_errors_and_output_errors_are_os_errors():
    assert issubclass(InputError, ValueError) and issubclass(OutputError, OSError)
    assert issubclass(errors.AggregateOverflowError, OverflowError)


def test_function_error_names_function_place_and_tuple():
    error = FunctionError("ZeroDivisionError: division by zero", "update", "mill.py", 12, {"ts": 5, "x": 0})
    assert str(error) == (
        'ZeroDivisionError: division by zero (function "update", file "mill.py", line 12)'
        " on tuple {'ts': 5, 'x': 0}"
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.function, copy.file, copy.line, copy.tuple) == ("update", "mill.py", 12, {"ts": 5, "x": 0})


def test_schema():
    schema = Schema.of(x="int64", y="float32", tags="list<string>")
    assert schema.names == ("x", "y", "tags") and len(schema) == 3
    assert schema.index("y") == 1 and schema["y"] == Field("y", "float32") and "z" not in schema
    assert schema.select(["tags", "x"]).names == ("tags", "x")
    assert [field.is_numeric for field in schema] == [True, True, False]


def test_schema_errors_name_the_column():
    with pytest.raises(SchemaError, match="column 'z' does not exist: the columns are x"):
        Schema.of(x="int64").index("z")
    with pytest.raises(SchemaError, match="column 'x' occurs twice"):
        Schema((Field("x", "int64"), Field("x", "bool")))
    with pytest.raises(UnsupportedTypeError, match="column 'x' has kind 'decimal': cast it to one of int64"):
        Field("x", "decimal")
    with pytest.raises(SchemaError, match="non-empty"):
        Field("", "int64")


@given(st.integers(0, 2**15 - 1), st.integers(0, 2**48 - 1), st.integers(1, 2**40))
def test_references_keep_what_they_are_made_of(source, row, epoch):
    ref = progress.tuple_reference(source, row)
    assert 0 <= ref < 2**63 and (progress.source_of(ref), progress.row_of(ref)) == (source, row)
    control = progress.control_reference(epoch)
    assert control < progress.HEARTBEAT and progress.epoch_of(control) == epoch


def test_times_have_room():
    assert -(2**63) < progress.MIN_TIME < 0 < progress.END_OF_TIME < 2**63
    # An event time and a window size, both at their bounds, still add up in int64.
    assert (progress.END_OF_TIME - 1) + (progress.END_OF_TIME - 1) < 2**63


@kernel
def ratio(a, b):
    return a / b


@kernel(inline=True)
def twice(a):
    return a + a


@kernel
def twice_ratio(a, b):
    return twice(ratio(a, b))


def test_kernel_compiles_and_divides_as_numpy():
    assert twice_ratio(1.0, 2.0) == 1.0
    if JIT:
        assert twice_ratio(1.0, 0.0) == float("inf")
        assert ratio.targetoptions["nogil"] and twice_ratio.signatures
