"""``print`` in user functions, called by threads that do not hold the GIL.

Numba's own ``print`` asks for an environment, which a function that is linked into others does not have; without one it
gives up and holds the GIL for ever. Text literals in the function, whole numbers, floats and bools need no environment.

The plain body runs with ``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

__all__ = ["PLACE", "checked_print"]

PLACE = "\0"
"""Where a number goes in a line."""
_SHOWN = (types.Integer, types.Float, types.Boolean)


def checked_print(line, values):
    """Print a line with numbers put in their places.

    Parameters
    ----------
    line : str
        A constant, with `PLACE` for each number.
    values : tuple of numbers

    Examples
    --------
    >>> checked_print(f"x is {PLACE}, y {PLACE}", (1, 2.5))
    x is 1, y 2.5
    """
    print(_pattern(line).format(*values), end="")


def _pattern(line: str) -> str:
    """Return the line, with its end, as ``str.format`` takes it."""
    return line.replace("{", "{{").replace("}", "}}").replace(PLACE, "{}") + "\n"


@overload(checked_print, prefer_literal=True)
def _checked_print(line, values):
    for kind in values:
        if not isinstance(kind, _SHOWN):
            raise TypingError(f"print: {types.unliteral(kind)} is not a number; print its numbers one by one")
    return lambda line, values: _put(line, values)


@intrinsic(prefer_literal=True)
def _put(typing_context, line, values):
    def write(context, builder, signature, arguments):
        python = context.get_python_api(builder)
        lock = python.gil_ensure()
        pattern = python.unserialize(python.serialize_object(_pattern(line.literal_value)))
        shown = [
            python.from_native_value(types.unliteral(kind), builder.extract_value(arguments[1], number))
            for number, kind in enumerate(values)
        ]
        made = python.call_method(pattern, "format", shown)
        python.print_object(made)  # one write: between two, another thread's line could begin
        for given in (made, *shown, pattern):
            python.decref(given)
        python.gil_release(lock)
        return context.get_dummy_value()

    return types.none(line, values), write
