"""Finding out why a compiled step failed: the row goes through the user's own functions until one fails in plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.codegen.functions import call_plain, explain_failure
from headrace.codegen.stateless.steps import Filter, Map, Step, function_of, returns_value
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
    try:
        for step in steps:
            following = []
            for t in tuples:
                names: tuple[str, ...] = () if isinstance(step, Filter) else tuple(step.columns)
                result, emitted = call_plain(function_of(step), ("t", "emit"), {"t": t}, names)
                if isinstance(step, Filter):
                    following += [t] if result else []
                elif returns_value(step):
                    following.append(t | dict.fromkeys(names, result))
                else:
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
    error = explain_failure(function_of(steps[0]), ("t", "emit"), {"t": seen}, (), cause)
    error.tuple = whole
    error.args = (*error.args[:4], whole)
    return error  # the times in the row are dates already
