"""Finding out why a compiled step failed: the row goes through the user's own functions until one fails in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.codegen.failures import NOT_IN_PYTHON
from headrace.codegen.functions import call_plain, explain_failure
from headrace.codegen.stateless.steps import Filter, FlatMap, Map, Step, function_of, returns_value
from headrace.errors import FunctionError


def explain(
    steps: Sequence[Step], row: Mapping[str, Any], seen: dict[str, Any], times: dict[str, str], cause: Exception
) -> FunctionError:
    """Follow a row through the steps in plain Python until one fails.

    Parameters
    ----------
    steps : list of Filter, Map, FlatMap
    row : dict
        All columns of the row, for the error.
    seen : dict
        The values that functions see of it.
    times : dict
        Name of an event time -> how it is written as a date.
    cause : Exception
        The exception of the compiled loop.
    """
    whole = dict(row)
    tuples = [seen]
    called: list[tuple[Step, dict[str, Any]]] = []
    try:
        for step in steps:
            following = []
            for t in tuples:
                names = _columns_of(step)
                called.append((step, t))
                result, emitted = call_plain(function_of(step), ("t", "emit"), {"t": t}, names)
                if isinstance(step, Filter):
                    following += [t] if result else []
                elif returns_value(step):
                    _check_ranges(step, dict.fromkeys(names, result), t)
                    following.append(t | dict.fromkeys(names, result))
                else:
                    for values in emitted:
                        _check_ranges(step, values, t)
                    if isinstance(step, Map) and len(emitted) != 1:
                        text = f"must emit exactly once for each tuple, not {len(emitted)} times"
                        code = function_of(step).__code__
                        raise FunctionError(text, code.co_name, code.co_filename, code.co_firstlineno, t)
                    following += [t | values for values in emitted]
            tuples = following
    except FunctionError as error:
        error.tuple, error.times = whole | (error.tuple or {}), times
        error.args = (*error.args[:4], error.tuple)
        return error
    found = [explain_failure(function_of(step), ("t", "emit"), {"t": t}, _columns_of(step), cause) for step, t in called]
    error = next((one for one in found if not str(one).startswith(NOT_IN_PYTHON)), found[0])
    error.tuple = whole
    error.args = (*error.args[:4], whole)
    return error  # the times in the row are dates already


def _columns_of(step: Step) -> tuple[str, ...]:
    """Names of the columns that a step computes."""
    return () if isinstance(step, Filter) else tuple(step.columns)


def _check_ranges(step: Map | FlatMap, values: Mapping[str, Any], t: Mapping[str, Any]) -> None:
    """Raise `FunctionError` for an integer that does not fit in its column of int32."""
    for name, value in values.items():
        if step.columns[name] == "int32" and isinstance(value, int) and not -(2**31) <= value < 2**31:
            code = getattr(step.function, "py_func", step.function).__code__
            text = f"OverflowError: {name}={value} does not fit in int32; declare it as {name}='int64'"
            raise FunctionError(text, code.co_name, code.co_filename, code.co_firstlineno, dict(t))
