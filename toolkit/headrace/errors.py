"""Errors and warnings: one class for each thing a caller may want to catch.

Every message names the parameter or column, the value that was found and what
to do about it, in that order, on one line: the command line prints it as it is.

Wrong input is an `InputError`, which is also a `ValueError`; the run was not
started, or it stopped before the row in question had any effect.

    ParameterError: advance = 0: must be at least 1; give a duration such as '30min'
"""

from __future__ import annotations

from typing import Any


class HeadraceError(Exception):
    """Everything this package raises on purpose."""


class InputError(HeadraceError, ValueError):
    """A parameter, schema or row that cannot be used as given.

    Parameters
    ----------
    text : str
        What is wrong, on one line; for a row, the text before its number.
    row : int or str, optional
        The row at fault, counted from 0. Code that has changed the order of the
        user's rows (a sort, lateness, a filter) sets the user's own number.
    rest : str
        The text after the row's number.

    Examples
    --------
    >>> error = EventTimeError("event time 'ts' is null at row ", 0, ": fill it")
    >>> error.row = 17
    >>> str(error)
    "event time 'ts' is null at row 17: fill it"
    """

    def __init__(self, text: str = "", row: int | str | None = None, rest: str = ""):
        super().__init__(*([text] if row is None else [text, row, rest]))
        self.row = row

    def __str__(self) -> str:
        if self.row is None:
            return super().__str__()
        text, _, rest = self.args
        return f"{text}{self.row}{rest}"


class ParameterError(InputError):
    """A parameter outside its range, of the wrong type, or in conflict with another."""


class ArgumentError(ParameterError, TypeError):
    """An argument that a call does not take, or is missing; the text names the closest one. Also a `TypeError`."""


class UnknownNameError(ParameterError, KeyError):
    """An unknown name, such as that of an operator or an application; the text names the closest. Also a `KeyError`."""

    __str__ = Exception.__str__  # a KeyError shows its text in quotes


class MissingAttributeError(HeadraceError, AttributeError):
    """A method or attribute that an object does not have; the text says what to write instead. Also an `AttributeError`."""


class SchemaError(InputError):
    """A column that is missing, named twice, or not of the type its use needs."""


class UnsupportedTypeError(SchemaError):
    """A column type that the engine does not support; the text proposes a cast."""


class EventTimeError(InputError):
    """An event time that is null, NaN, NaT, out of range, or not whole in its unit."""


class DisorderError(InputError):
    """A source that is not sorted by event time, as it must be."""


class LateRowError(InputError):
    """A row with an event time below the watermark, with ``late="error"``."""


class KeyNullError(InputError):
    """A null key, or a null element in a list of keys, where nulls are errors."""


class OverflowInputError(InputError):
    """Something that exceeds its bound: a tuple larger than the buffer, a time beyond 62 bits."""


class ReconfigurationError(InputError):
    """An impossible reconfiguration: no threads, too many threads, or an instance that is not there."""


class CheckpointError(InputError):
    """A checkpoint from which no run can resume: it is damaged, of another program or of other inputs."""


class OutputError(HeadraceError, OSError):
    """A result that cannot be written to its destination."""


class AggregateOverflowError(HeadraceError, OverflowError):
    """A sum of integers that overflows int64."""


class FunctionError(HeadraceError):
    """A user function that does not compile, or failed on a tuple.

    Parameters
    ----------
    text : str
        What happened, in one line.
    function : str
        Name of the user's function.
    file, line : str, int
        Position in the user's own source; line 0 if it is unknown.
    tuple : dict or None
        The tuple it failed on, as column name -> value, with times as the integers that
        the function saw; None while compiling.

    Attributes
    ----------
    times : dict
        For the names in `tuple` that are event times of a timestamp column: the readable time.
    compiler : str
        If the function does not compile, the full output of the compiler: some hundred lines, of which the text has the
        informative one. Otherwise empty.
    """

    compiler: str = ""

    def __init__(
        self,
        text: str,
        function: str = "",
        file: str = "",
        line: int = 0,
        tuple: dict[str, object] | None = None,
    ):
        # All of them positional for Exception, so that the error survives pickling.
        super().__init__(text, function, file, line, tuple)
        self.function, self.file, self.line, self.tuple = function, file, line, tuple
        self.times: dict[str, str] = {}

    def __str__(self) -> str:
        text = str(self.args[0])
        if self.function:
            place = f' (function "{self.function}"'
            place += f', file "{self.file}", line {self.line})' if self.file else ")"
            text += place
        if self.tuple is not None:
            times = {name: f" ({text})" for name, text in self.times.items()}
            values = (f"{name!r}: {value!r}{times.get(name, '')}" for name, value in self.tuple.items())
            text += f" on tuple {{{', '.join(values)}}}"
        return text


class InconsistentProgramError(HeadraceError):
    """A program whose results would depend on the plan; below its first line the text has a drawing of the difference.

    Parameters
    ----------
    text : str
    counterexample : object
        Can be printed, and run again; see ``Program.check``.
    """

    def __init__(self, text: str, counterexample: Any = None):
        # Both of them positional for Exception, so that the error survives pickling.
        super().__init__(text, counterexample)
        self.counterexample = counterexample

    def __str__(self) -> str:
        return str(self.args[0])


class RunStoppedError(HeadraceError):
    """The run was stopped before its end, so the requested result does not exist."""


class RunFailedError(HeadraceError):
    """The run failed; the cause is chained to this error."""


class LateRowsWarning(UserWarning):
    """Late rows are missing from the results: the text says how many, and what to change.

    They were dropped, with ``late="drop"``, or set aside, with ``late="side"``, by a call such as `Stream.to_arrow`, which
    returns no run whose ``run.late`` has them.
    """


class DurationWarning(UserWarning):
    """A small whole number without a unit was read as microseconds, since the event time is a timestamp."""


class NoResultsWarning(UserWarning):
    """No function of a custom operator emits anything, so it will have no results."""


class UnsafeResultsWarning(UserWarning):
    """A run of transactions keeps no order, as ``scheme="none"`` and ``unsafe=True`` request: its results are wrong."""


class ControllerWarning(RuntimeWarning):
    """A controller failed and was detached; the run goes on without it."""


class NotSupportedError(HeadraceError):
    """Something that this engine, platform or plan does not support; see ``run.capabilities``."""
