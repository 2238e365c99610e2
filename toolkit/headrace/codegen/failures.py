"""Finding out why a compiled function failed on a tuple: the user's own function is called on it again, in plain Python."""

from __future__ import annotations

import copy
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any

from headrace.codegen.int64 import bounded
from headrace.errors import FunctionError

NOT_IN_PYTHON = "failed when compiled with"
"""How the message begins where plain Python does not fail."""
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STEPS_TO_EXPLAIN = 1_000_000
"""Lines a failed function may run in the interpreter before we stop looking for the reason."""


class _Fields:
    """A tuple or state as a user function sees it."""

    def __init__(self, values: Mapping[str, object]):
        self.__dict__.update(values)


class _TooLong(Exception):
    pass


class UnfinishedError(FunctionError):
    """A call in plain Python was given up after so many lines; ``line`` is the last of them in the user's own code."""


def call_plain(
    function: Callable,
    arguments: tuple[str, ...],
    values: Mapping[str, object],
    emits: Iterable[str] | None = None,
    most: int = _STEPS_TO_EXPLAIN,
) -> tuple[Any, list[dict[str, Any]]]:
    """Call the user's own Python function on one tuple.

    Parameters
    ----------
    function : callable
        The user's function.
    arguments : tuple of str
        Its roles, as given to `specialise`.
    values : dict
        Role -> dict of fields, for a parameter with attributes, or a value.
        None is a null.
    emits : list of str, optional
        Names of the output fields.
    most : int
        Lines that it may run.

    Returns
    -------
    result, emitted
        Its return value, and a dict for each emission.

    Raises
    ------
    FunctionError
        With the user's line, the error's text and the offending tuple; an
        `UnfinishedError`, with the line that it was at, if it does not end soon.
    """
    function = getattr(function, "py_func", function)
    code = function.__code__
    names = tuple(emits or ())
    emitted: list[dict[str, Any]] = []

    def emit(*positional, **named):
        for name in named:
            if name not in names:
                raise TypeError(f"there is no output field {name!r}")
        emitted.append(dict(zip(names, positional, strict=False)) | named)

    given = code.co_argcount - len(function.__defaults__ or ())
    call = []
    for role in arguments[:given]:
        value = emit if role == "emit" else values.get(role)
        call.append(_Fields(_copied(value)) if isinstance(value, Mapping) else value)

    steps = 0

    def trace(frame, event, argument):
        nonlocal steps
        steps += 1
        if steps > most:
            raise _TooLong
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return function(*call), emitted
    except _TooLong as stopped:
        raise UnfinishedError(f"does not end: it ran {most:,} lines", *_place(stopped, code), _offending(values)) from None
    except Exception as error:
        sys.settrace(before)
        raise _explained(error, function, _offending(values)) from error
    finally:
        sys.settrace(before)


def explain_failure(
    function: Callable,
    arguments: tuple[str, ...],
    values: Mapping[str, object],
    emits: Iterable[str] | None = None,
    cause: BaseException | None = None,
    again: Callable[[], Mapping[str, object]] | None = None,
) -> FunctionError:
    """Find out why a compiled function failed on a tuple.

    Compiled code knows neither its line nor a full message, so the user's own
    Python function is called again on the same values.

    Parameters
    ----------
    function, arguments, values, emits
        As for `call_plain`.
    cause : Exception, optional
        The exception of the compiled function; reported if Python does not fail, or not soon.
    again : function, optional
        Returns the values once more for a second call, where the first call may have changed them.

    Returns
    -------
    FunctionError
        With the user's line, the error's text and the offending tuple.

    Examples
    --------
    >>> error = explain_failure(lambda t: 10 // t.x, ("t",), {"t": {"x": 0}})
    >>> error.args[0], error.tuple
    ('ZeroDivisionError: integer division or modulo by zero', {'x': 0})
    """
    code = getattr(function, "py_func", function).__code__
    try:
        call_plain(function, arguments, values, emits)
    except FunctionError as error:
        if cause is None or not isinstance(error, UnfinishedError):
            return error
    if again is not None:
        values = again()
    try:
        call_plain(function, arguments, {role: bounded(value) for role, value in values.items()}, emits)
    except FunctionError as error:
        error.tuple = _offending(values)
        if isinstance(error, UnfinishedError) and cause is not None:
            text = f"{type(cause).__name__}: {cause}; the line is not known, since more than a million ran on this tuple"
            return FunctionError(text, code.co_name, code.co_filename, code.co_firstlineno, error.tuple)
        error.args = (*error.args[:4], error.tuple)
        return error
    reason = f"{type(cause).__name__}: {cause}" if cause is not None else "an error"
    text = (
        f"{NOT_IN_PYTHON} {reason}, though not in plain Python: an integer beyond int64 or int32, "
        f"a null or an index out of bounds are different there"
    )
    if any(isinstance(part, list | dict | set) for part in _fields_of(values.get("state")).values()):
        text += ", and its changes to lists, sets and maps before the failure were already in place"
    return FunctionError(text, code.co_name, code.co_filename, code.co_firstlineno, _offending(values))


def _fields_of(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _copied(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Copy values with their containers, since a call may change them and another call may follow."""
    return {
        name: copy.deepcopy(part) if isinstance(part, dict) else copy.copy(part) if isinstance(part, list | set) else part
        for name, part in fields.items()
    }


def _offending(values: Mapping[str, object]) -> dict[str, object]:
    """Return the tuple, or both tuples of a join with their roles as prefixes, and the key."""
    tuples = {role: value for role, value in values.items() if isinstance(value, Mapping) and role != "state"}
    result: dict[str, object] = {}
    for role, value in tuples.items():
        assert isinstance(value, Mapping)
        result.update(value if len(tuples) == 1 else {f"{role}.{field}": v for field, v in value.items()})
    result.update({role: v for role, v in values.items() if role == "key"})
    return result


def _explained(error: Exception, function: Callable, offending: dict[str, object]) -> FunctionError:
    return FunctionError(f"{type(error).__name__}: {error}", *_place(error, function.__code__), offending)


def _place(error: Exception, code: CodeType) -> tuple[str, str, int]:
    """Function, file and line of the user's code at which an exception was raised."""
    name, file, line = code.co_name, code.co_filename, code.co_firstlineno
    for frame in traceback.extract_tb(error.__traceback__):
        # The innermost line of the user's code, not of Python's library, NumPy or this package; but the function
        # itself may be in this package, as those of `apps` are.
        is_other = frame.filename.startswith((_PACKAGE, _LIBRARY, "<frozen ")) or "site-packages" in frame.filename
        if frame.lineno and (not is_other or frame.filename == code.co_filename):
            name, file, line = frame.name, frame.filename, frame.lineno
    return name, file, line
