"""The steps `Filter`, `Map` and `FlatMap`, and what each requires of its function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.codegen.kinds import SCALARS_TEXT, Scalar, kinds_are, scalar
from headrace.codegen.text import is_attribute
from headrace.errors import ParameterError
from headrace.expressions import Expression


@dataclass(frozen=True)
class Filter:
    """Keep tuples for which the condition holds: an expression, or a function of a tuple."""

    condition: Expression | Callable


@dataclass(frozen=True)
class Map:
    """Add columns to each tuple, or replace them.

    ``f(t, emit)`` emits once; ``f(t)`` returns the value of the only column.
    """

    function: Callable
    columns: Mapping[str, str]


@dataclass(frozen=True)
class FlatMap:
    """Replace each tuple by as many as ``f(t, emit)`` emits; columns not emitted are repeated."""

    function: Callable
    columns: Mapping[str, str]


Step = Filter | Map | FlatMap


def function_of(step: Step) -> Any:
    """Return the user's function; for a filter, the condition."""
    return step.condition if isinstance(step, Filter) else step.function


def name_of(function: Any) -> str:
    """Return the name of a function."""
    return getattr(function, "__name__", type(function).__name__)


def returns_value(step: Map | FlatMap) -> bool:
    """Whether the function is written as ``f(t)`` and not as ``f(t, emit)``."""
    if not isinstance(step, Map) or len(step.columns) != 1:
        return False
    function = getattr(step.function, "py_func", step.function)
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount - len(function.__defaults__ or ()) == 1


def check_step(step: Step, event_time: str) -> None:
    """Raise `ParameterError` if a step cannot compute the columns it names."""
    if isinstance(step, Filter):
        return
    if not step.columns:
        kind = "map" if isinstance(step, Map) else "flat_map"
        raise ParameterError(
            f"{kind}({name_of(step.function)}): name the columns it computes and their kinds, as in {kind}(f, total='int64')"
        )
    for name, kind in step.columns.items():
        if isinstance(kind, Mapping):
            given = ", ".join(f"{column}={of!r}" for column, of in kind.items())
            raise ParameterError(f"{name}={kind!r}: give each column by its name, as in {given or 'total=' + repr('int64')}")
        if scalar(kind) is None:
            raise ParameterError(f"{name}={kind!r}: {kinds_are(kind, SCALARS_TEXT)}")
        if name == event_time:
            raise ParameterError(
                f"{name}={kind!r}: the event time is carried and cannot be computed; give the column another name"
            )
        if not is_attribute(name):
            raise ParameterError(f"{name!r} is not a Python name: a function cannot compute it; rename the column")


def computed_by(steps: Sequence[Step]) -> dict[str, Scalar]:
    """Return the columns of the results that are not carried, with their kinds."""
    found: dict[str, Scalar] = {}
    for step in steps:
        for name, kind in {}.items() if isinstance(step, Filter) else step.columns.items():
            known = scalar(kind)
            assert known is not None  # checked by `check_step`
            found[name] = known
    return found
