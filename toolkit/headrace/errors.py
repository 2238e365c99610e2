"""What can go wrong, one class for each thing a caller may want to catch.

Every message names the parameter or column, the value that was found and what
to do about it, in that order, on one line: the command line prints it as it is.

Input that is wrong is an `InputError` and also a `ValueError`; the run was not
started, or stopped before the row in question had any effect.

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
        What is wrong, on one line; of a row, what comes before its number.
    row : int or str, optional
        The row at fault, counted from 0. Code that has put rows in another order
        than the user's (a sort, lateness, a filter) gives the user's own number instead.
    rest : str
        What comes after it.

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
    """An argument that a call does not take, or lacks; the text names the closest one. Also a `TypeError`."""


class UnknownNameError(ParameterError, KeyError):
    """A name that is not there, of an operator or an application, say; the text names the closest. Also a `KeyError`."""

    __str__ = Exception.__str__  # a KeyError shows its text in quotes


class MissingAttributeError(HeadraceError, AttributeError):
    """A method or attribute that an object does not have; the text says what to write. Also an `AttributeError`."""


class SchemaError(InputError):
    """A column that is missing, named twice, or not of the type its use needs."""


class UnsupportedTypeError(SchemaError):
    """A column type the engine does not carry; the text proposes a cast."""


class EventTimeError(InputError):
    """An event time that is null, NaN, NaT, out of range, or not whole in its unit."""


class DisorderError(InputError):
    """A source that must be sorted by event time and is not."""


class LateRowError(InputError):
    """A row below the watermark, where ``late="error"``."""


class KeyNullError(InputError):
    """A null key or a null element of a key list, where nulls are errors."""


class OverflowInputError(InputError):
    """Something larger than its bound: a tuple than the buffer, a time than 62 bits."""


class ReconfigurationError(InputError):
    """A reconfiguration that cannot be meant: no threads, too many, an absent instance."""


class CheckpointError(InputError):
    """A checkpoint that cannot be resumed from: it is damaged, of another program or of other inputs."""


class OutputError(HeadraceError, OSError):
    """A result that cannot be written where it should go."""


class AggregateOverflowError(HeadraceError, OverflowError):
    """A sum of integers that left the range of int64."""


class FunctionError(HeadraceError):
    """A user function that does not compile, or that failed on a tuple.

    Parameters
    ----------
    text : str
        What happened, in one line.
    function : str
        Name of the user's function.
    file, line : str, int
        Where in the user's own source; line 0 where no line is known.
    tuple : dict or None
        The tuple it failed on, as column name -> value, times as the integers that
        the function saw; None while compiling.

    Attributes
    ----------
    times : dict
        Of the names in `tuple` that are event times of a timestamp column: the time to read.
    compiler : str
        Where it does not compile, all that the compiler said: some hundred lines, of which the text has the one that
        tells something. Empty elsewhere.
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
    """A program whose results would depend on the plan; the text has a drawing of what differs below its first line.

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
    """The run was stopped before its end, so what was asked for does not exist."""


class RunFailedError(HeadraceError):
    """The run failed; the cause is chained to this error."""


class LateRowsWarning(UserWarning):
    """Rows were dropped as late, with ``late="drop"``: the text says how many, and what to change."""


class UnsafeResultsWarning(UserWarning):
    """A run of transactions keeps no order, as ``scheme="none"`` and ``unsafe=True`` ask for: its results are wrong."""


class ControllerWarning(RuntimeWarning):
    """A controller failed and was detached; the run goes on without it."""


class NotSupportedError(HeadraceError):
    """A control that this engine, platform or plan lacks; see ``run.capabilities``."""
