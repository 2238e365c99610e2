"""Fields that an emission leaves out, or gives as None: they become null, by a flag beside the values.

Results are words, which cannot be null. For each field that some emission leaves out, a program has one more column, and
every emission is completed with a flag there, and with a value where it has none.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from headrace.codegen.capture import CapturedFunction
from headrace.codegen.kinds import Kind

_NOTHING = {"string": "", "bool": False, "float64": 0.0, "float32": 0.0}
"""What stands where there is no value; 0 for other kinds."""


def fields_left_out(functions: Iterable[CapturedFunction], emits: Mapping[str, Kind]) -> tuple[str, ...]:
    """Return the fields that some emission does not give."""
    calls = (call for function in functions for call in _all_emissions(function, _emit_of(function)))
    absent = {name for call in calls for name in _absent(call, emits)}
    return tuple(name for name in emits if name in absent)


def emits_nothing(function: CapturedFunction) -> bool:
    """Whether neither an update nor a helper of it has an emission."""
    return next(_all_emissions(function, _emit_of(function)), None) is None


def flag_of(name: str) -> str:
    """The name of the flag of a field, which no field can have."""
    return f"{name} is null"


def completed(
    function: CapturedFunction, emits: Mapping[str, Kind], optional: Iterable[str], names: frozenset[str] | None = None
) -> CapturedFunction:
    """Give every emission all values, and a flag for each optional one.

    Parameters
    ----------
    function : CapturedFunction
        An update, or a helper.
    emits : mapping of str to kind
    optional : iterable of str
        The fields of `fields_left_out`.
    names : set of str, optional
        What it calls ``emit``; an update its third parameter.
    """
    names = _emit_of(function) if names is None else names
    helpers = {name: completed(helper, emits, optional, own) for name, helper, own in _helpers(function, names)}
    function = dataclasses.replace(
        function, node=copy.deepcopy(function.node), helpers={**function.helpers, **helpers}
    )
    for call in _emissions(function, names):
        absent = _absent(call, emits)
        call.keywords = [one for one in call.keywords if one.arg not in absent]
        given = {name: _NOTHING.get(str(emits[name]), 0) for name in absent}
        given |= {flag_of(name): name in absent for name in optional}
        for name, value in given.items():
            call.keywords.append(ast.copy_location(ast.keyword(name, ast.Constant(value)), call))
        ast.fix_missing_locations(call)
    return function


def _emit_of(update: CapturedFunction) -> frozenset[str]:
    """The name that an update has for ``emit``: its third parameter, if any; parameters with defaults are constants."""
    return frozenset([name for name in update.parameters if name not in update.defaults][2:3])


def _emissions(function: CapturedFunction, names: frozenset[str]) -> Iterator[ast.Call]:
    """A function's own calls of ``emit``, by its name for it."""
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def _helpers(function: CapturedFunction, names: frozenset[str]) -> Iterator[tuple[str, CapturedFunction, frozenset[str]]]:
    """The helpers to which a function hands ``emit``, each with its name for it."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(function.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in function.helpers:
            parameters = function.helpers[node.func.id].parameters
            given = [*zip(parameters, node.args, strict=False), *((one.arg, one.value) for one in node.keywords)]
            own = {name for name, value in given if name is not None and isinstance(value, ast.Name) and value.id in names}
            found.setdefault(node.func.id, set()).update(own)
    for name, own in found.items():
        if own:
            yield name, function.helpers[name], frozenset(own)


def _all_emissions(function: CapturedFunction, names: frozenset[str]) -> Iterator[ast.Call]:
    """The emissions of a function and of its helpers."""
    yield from _emissions(function, names)
    for _, helper, own in _helpers(function, names):
        yield from _all_emissions(helper, own)


def _absent(call: ast.Call, emits: Mapping[str, Kind]) -> list[str]:
    """The fields that an emission leaves out or gives as None; none if that cannot be seen, which is refused elsewhere."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        return []
    named = {one.arg for one in call.keywords if not (isinstance(one.value, ast.Constant) and one.value.value is None)}
    return [name for name in list(emits)[len(call.args) :] if name not in named]


__all__ = ["completed", "emits_nothing", "fields_left_out", "flag_of"]
