"""The small leaves: errors, progress, kernel. Each test is the leaf's own promise."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from headrace import errors, progress, references
from headrace.errors import (
    FunctionError,
    HeadraceError,
    InputError,
    OutputError,
)
from headrace.kernel import JIT, kernel
from headrace.newest import Record


def test_every_error_is_ours_and_survives_pickling():
    classes = [c for c in vars(errors).values() if isinstance(c, type) and c.__module__ == errors.__name__]
    assert len(classes) > 10
    for error_class in classes:
        error = error_class("advance = 0: must be at least 1")
        assert isinstance(error, (HeadraceError, Warning))
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


@given(st.integers(0, 2**15 - 1), st.integers(0, 2**48 - 1), st.integers(1, 2**40))
def test_references_keep_what_they_are_made_of(source, row, epoch):
    ref = references.tuple_reference(source, row)
    assert 0 <= ref < 2**63 and (references.source_of(ref), references.row_of(ref)) == (source, row)
    assert references.epoch_of(-(1 + epoch)) == epoch and references.epoch_of(references.HEARTBEAT) == 0


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


@given(st.integers(1, 6), st.lists(st.booleans()))
def test_oracle_a_record_keeps_the_newest_entries(most, steps):
    record, added = Record[int](most), []
    for number, is_new in enumerate(steps):
        if is_new or not added:
            record.add(number)
            added.append(number)
        else:
            record.replace_last(number)
            added[-1] = number
    found = record.newest()
    assert found == added[-most:] and found.left_out == len(added) - len(found) and len(record) == len(found)
