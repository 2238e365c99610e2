"""User functions: plain Python in, text for a generated module out, errors in the user's own lines.

A template decides what the attributes of a function's parameters stand for and
pastes `GeneratedFunction.source` into its module:

>>> from headrace.codegen.functions import FieldBinding, specialise
>>> def update(state, t, emit):
...     if t.chars > state.chars:
...         state.chars = t.chars
>>> generated = specialise(
...     update,
...     name="user_update",
...     arguments=("state", "t", "emit"),
...     bindings={
...         "state": {"chars": FieldBinding("s_chars[slot]", "s_chars[slot]", kind="int64")},
...         "t": {"chars": "c_chars[row]"},
...     },
...     emits={"chars": "int64"},
...     emit="emit_row(out, {values})",
...     parameters=("slot", "row", "s_chars", "c_chars", "out"),
... )
>>> print(generated.source)
@compiled_user
def user_update(slot, row, s_chars, c_chars, out):  # user_update:1
    if c_chars[row] > s_chars[slot]:  # user_update:2
        s_chars[slot] = checked_int64(c_chars[row])  # user_update:3

What a user should know, beyond what an error tells: globals and closures are
frozen when the operator is made; integers are int64 and wrap around; the order
of calls to ``random`` depends on the threads, so a function that uses it breaks
the promise that every run gives the same output.
"""

from __future__ import annotations

import copy
import dataclasses
import linecache
import os
import re
import sys
import traceback
import types as python_types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.codegen.bindings import (
    Binding,
    ContainerBinding,
    FieldBinding,
    ListBinding,
    Membership,
    Memory,
    Opened,
    Plan,
    Texts,
    Unreadable,
)
from headrace.codegen.capture import CapturedFunction, capture
from headrace.codegen.modules import load_module
from headrace.codegen.rewrite import rewrite
from headrace.errors import FunctionError

__all__ = [
    "ContainerBinding",
    "FieldBinding",
    "GeneratedFunction",
    "ListBinding",
    "Memory",
    "Texts",
    "Unreadable",
    "call_plain",
    "check_compiles",
    "explain_failure",
    "specialise",
    "translate_error",
]

_MAY_RAISE = re.compile(
    r"[/%]|\*\*|\bmath\.|\bnp\.(?!int64\(|float64\()|\braise\b|\bwhile\b|\bfor\b|@compiled_user_bounded"
    r"|\bkept_(?!float|bits|key_bits|less|lesser|greater|count|has|find|or|entry|sum|discard)\w"
    r"|\bchecked_(?!int64|float64|float32|bool|truth|negative|magnitude|invert)"
)
_DECORATORS = ("compiled", "compiled_user", "compiled_user_bounded", "compiled_user_within")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STEPS_TO_EXPLAIN = 1_000_000
"""Lines a failed function may run in the interpreter before we stop looking for the reason."""


@dataclass(frozen=True)
class GeneratedFunction:
    """A user function, rewritten for one kernel.

    Attributes
    ----------
    name : str
        What the kernel calls.
    parameters : tuple of str
        Of `name`, by position.
    source : str
        The function and the helpers it calls, decorated. Each line ends in a
        marker, which `translate_error` reads wherever the text is pasted.
    imports : tuple of str
        Lines that the module needs above it.
    line_map : dict
        Line of `source`, from 1 -> (file, line) of the user.
    reads, writes : dict
        Role -> names of the fields it reads, and assigns.
    expression : str or None
        The returned expression, where the function is nothing else: a template
        can write it in place of a call.
    impure : tuple of str
        Calls whose results differ from run to run, such as ``random.random``.
    captured : CapturedFunction
    """

    name: str
    parameters: tuple[str, ...]
    source: str
    imports: tuple[str, ...]
    line_map: Mapping[int, tuple[str, int]]
    reads: Mapping[str, tuple[str, ...]]
    writes: Mapping[str, tuple[str, ...]]
    expression: str | None
    impure: tuple[str, ...]
    captured: CapturedFunction
    markers: Mapping[str, CapturedFunction]

    @property
    def signature(self) -> str:
        """The call, as ``name(parameter, ...)``."""
        return f"{self.name}({', '.join(self.parameters)})"

    @property
    def may_raise(self) -> bool:
        """Whether a call may fail, or take long: it is not made without need, and what it is made on is on record."""
        return bool(_MAY_RAISE.search("\n".join(line.partition("  # ")[0] for line in self.source.splitlines())))

    @property
    def preamble(self) -> str:
        """The imports as text."""
        return "\n".join(self.imports) + "\n"


def specialise(
    function: Callable | CapturedFunction,
    *,
    name: str,
    arguments: tuple[str, ...],
    bindings: Mapping[str, Mapping[str, str | Binding] | str | Unreadable | Membership],
    parameters: tuple[str, ...],
    emits: Mapping[str, Any] | Iterable[str] | None = None,
    emit: str = "emit({values})",
    left_out: Mapping[str, str] | None = None,
    poll: str | None = None,
    returns: str | None = None,
    decorator: str = "compiled_user",
    debug: bool = False,
    memory: Memory | None = None,
    texts: Texts | None = None,
    kinds: Mapping[str, Any] | None = None,
    rows: Mapping[str, Opened] | None = None,
    named: Mapping[str, str] | None = None,
    ends: tuple[str, ...] = (),
) -> GeneratedFunction:
    """Rewrite a user function for a kernel.

    Parameters
    ----------
    function : callable or CapturedFunction
        Plain Python: a ``def`` or a lambda.
    name : str
        What the generated function is called.
    arguments : tuple of str
        The roles of the user's parameters, by position, such as
        ``("state", "t", "emit")``. The user may name them differently, and
        leave a last "emit" out.
    bindings : dict
        Role -> what it stands for: a dict of field -> expression for a
        parameter with attributes, an expression for a single value. A field
        given as text is read-only, except for roles whose name begins with
        "state"; `FieldBinding` says more, `ListBinding` that it holds tuples,
        `Unreadable` why it cannot be used, `Membership` that it is asked what is in it.
    parameters : tuple of str
        Parameters of the generated function: all names that the texts of
        bindings, `emit` and `poll` use, apart from those of the module.
    emits : dict, list or None
        Names of the output fields, in order, with kinds if they are to be
        checked; None where the function cannot emit.
    emit : str
        Statement(s) for an emission; ``{values}`` stands for all values in
        order, ``{0}`` for the first one, ``{chars}`` for that of the field chars.
    left_out : dict, optional
        The last of these fields, which are given by name only -> expression that stands for one that is left out.
    poll : str or None
        Condition, tested at the head of each loop that may be long; where it
        holds, the function returns, or raises RuntimeError if it owes a value.
    returns : str or None
        None: the function returns nothing. A kind, or "truth": it must return
        such a value on every path. "any": whatever it returns.
    decorator : str
        Written above each function; "" for none.
    debug : bool
        Integers that leave the range of int64 raise and do not wrap around.
    memory : Memory, optional
        What containers live in; needed if a binding is a `ContainerBinding`.
    texts : Texts, optional
        How the kernel knows strings; without it a function has none.
    kinds : dict, optional
        Role of a single value -> "string", or a tuple of "string" and "number", where it is no number.
    rows : dict, optional
        Names in the function that stand for rows of tables -> how a row is found, once a key is assigned to the name.
    named : dict, optional
        Names in the function, beside its parameters, that stand for something with fields -> role.
    ends : tuple of str, optional
        Roles of states that end with the call: assigning a container of one to a field of its kind hands it over, without
        a copy, where the function does not use it again.

    Raises
    ------
    FunctionError
        With file and line, if the function cannot be compiled this way.
    """
    if isinstance(function, CapturedFunction):
        captured = dataclasses.replace(function, node=copy.deepcopy(function.node))  # it is rewritten in place
    else:
        captured = capture(function)
    objects: dict[str, dict[str, Binding]] = {}
    values: dict[str, str | Unreadable] = {}
    asked: dict[str, Membership] = {}
    for role, binding in bindings.items():
        if isinstance(binding, Membership):
            asked[role] = binding
            names = " or ".join(f"{name!r} in it" for name in list(binding.names)[:1])
            binding = Unreadable(f"{binding.what}, of which is only asked what is among them, as in {names}")
        if isinstance(binding, str | Unreadable):
            values[role] = binding
            continue
        writable = role.startswith("state")
        objects[role] = {
            field: FieldBinding(text, text if writable else None) if isinstance(text, str) else text
            for field, text in binding.items()
        }
    if emits is not None and not isinstance(emits, Mapping):
        emits = dict.fromkeys(emits)
    plan = Plan(
        name=name,
        objects=objects,
        values=values,
        emits=emits,
        emit=emit,
        left_out=dict(left_out or {}),
        parameters=tuple(parameters),
        poll=poll,
        returns=returns,
        decorator=decorator,
        debug=debug,
        memory=memory,
        texts=texts,
        kinds=dict(kinds or {}),
        rows=dict(rows or {}),
        named=dict(named or {}),
        asked=asked,
        ends=tuple(ends),
    )
    written = rewrite(captured, tuple(arguments), plan)
    imports = ["import math", "import numpy as np"]
    if any(call.startswith("random") for call in written.impure):
        imports.append("import random")
    if written.checks:
        imports.append(f"from headrace.codegen.checked import {', '.join(sorted(written.checks))}")
    if written.number_checks:
        imports.append(f"from headrace.codegen.python_numbers import {', '.join(sorted(written.number_checks))}")
    if written.kept:
        imports.append(f"from headrace.codegen.containers.kernel import {', '.join(sorted(written.kept))}")
    decorators = {decorator, *(chunk.partition("\n")[0].removeprefix("@") for chunk in written.chunks)}
    imports += [f"from headrace.codegen.modules import {each}" for each in _DECORATORS if each in decorators]
    return GeneratedFunction(
        name=name,
        parameters=tuple(parameters),
        source="\n\n\n".join(written.chunks),
        imports=tuple(imports),
        line_map={
            number: (origin[0].file, origin[1])
            for number, origin in enumerate(written.lines, start=1)
            if origin is not None
        },
        reads={role: tuple(sorted(fields)) for role, fields in written.reads.items()},
        writes={role: tuple(sorted(fields)) for role, fields in written.writes.items()},
        expression=written.expression,
        impure=tuple(sorted(written.impure)),
        captured=captured,
        markers=dict(written.markers),
    )


# ---------------------------------------------------------------- compiling


def check_compiles(
    generated: GeneratedFunction,
    argument_types: Iterable[Any],
    context: str = "",
    debug: bool = False,
) -> Any:
    """Compile a generated function, or say in the user's words why not.

    Parameters
    ----------
    generated : GeneratedFunction
    argument_types : iterable of numba types
        For its parameters, in order.
    context : str
        Source of what it calls, such as the template's ``emit_row``.

    Returns
    -------
    numba type or None
        What it returns; None if kernels run as plain Python.

    Raises
    ------
    FunctionError
    """
    source = f"{generated.preamble}\n\n{context}\n\n{generated.source}\n"
    module = load_module(source, generated.name, debug=debug)
    compiled = getattr(module, generated.name)
    if not hasattr(compiled, "compile"):
        return None
    try:
        compiled.compile(tuple(argument_types))
    except Exception as error:
        raise translate_error(error, [generated], module) from None
    return compiled.overloads[tuple(argument_types)].signature.return_type


def _text_of(error: BaseException) -> str:
    """The one line of a Numba message that tells the user something."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    rejected = re.findall(r"raised a specific error:\s*\w+: (.*)", text)
    if rejected:
        return rejected[-1].strip()
    call = re.search(r"No implementation of function .*\n\s*\n? *>>> (.*)", text)
    if call:
        return f"there is no compiled {call[1]}"
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith(("Failed in", "During:", ">>>", "File ", "-", "There are", "[1]")):
            return line.removesuffix(":")
    return type(error).__name__


def translate_error(
    error: BaseException,
    functions: Iterable[GeneratedFunction],
    module: python_types.ModuleType,
) -> FunctionError:
    """Trace an error of compiling a generated module to the user's line.

    Parameters
    ----------
    error : Exception
        What Numba raised.
    functions : list of GeneratedFunction
        Whose sources were pasted into the module.
    module : module
        As returned by `load_module`.

    Returns
    -------
    FunctionError
        Raise it ``from None``: Numba's own text has a hundred lines, of which the error has the one that tells something;
        all of them are in `FunctionError.compiler`. If the error is in no user function, it names the first one.
    """
    functions = list(functions)
    owners = {marker: owner for each in functions for marker, owner in each.markers.items()}
    lines = _module_lines(module)
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    stem = module.__name__
    places = re.findall(rf'{stem}[^\n"]*?(?:", line | \()(\d+)', text)
    location = getattr(error, "loc", None)
    if location is not None and stem in str(location.filename):
        places.append(location.line)  # the outermost: a last resort
    for place in places:
        number = int(place)
        if not 1 <= number <= len(lines):
            continue
        marker = re.search(r"  # (\w+):(\d+)$", lines[number - 1])
        if marker and marker[1] in owners:
            owner = owners[marker[1]]
            return _compile_error(error, owner, owner.line + int(marker[2]) - 1)
    first = functions[0].captured
    return _compile_error(error, first, first.line)


def _compile_error(error: BaseException, function: CapturedFunction, line: int) -> FunctionError:
    explained = FunctionError(f"does not compile: {_text_of(error)}", function.name, function.file, line)
    explained.compiler = re.sub(r"\x1b\[[0-9;]*m", "", f"{type(error).__name__}: {error}")
    return explained


def _module_lines(module: python_types.ModuleType) -> list[str]:
    assert module.__spec__ is not None
    return [line.rstrip("\n") for line in linecache.getlines(module.__spec__.origin or "")]


# ------------------------------------------------------------------ failing


class _Fields:
    """A tuple or state as a user function sees it."""

    def __init__(self, values: Mapping[str, object]):
        self.__dict__.update(values)


class _TooLong(Exception):
    pass


def call_plain(
    function: Callable,
    arguments: tuple[str, ...],
    values: Mapping[str, object],
    emits: Iterable[str] | None = None,
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

    Returns
    -------
    result, emitted
        What it returned, and a dict for each emission.

    Raises
    ------
    FunctionError
        With the user's line, the error's text and the offending tuple; also if
        the function does not end soon.
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
        if steps > _STEPS_TO_EXPLAIN:
            raise _TooLong
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return function(*call), emitted
    except _TooLong:
        text, line = "does not end: it ran a million lines", code.co_firstlineno
        raise FunctionError(text, code.co_name, code.co_filename, line, _offending(values)) from None
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
        What the compiled function raised; said if Python does not fail.
    again : function, optional
        Gives the values once more, for a second call: where the first one may have changed them.

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
    try:
        call_plain(function, arguments, values, emits)
    except FunctionError as error:
        return error
    if again is not None:
        values = again()
    try:
        call_plain(function, arguments, {role: _bounded(value) for role, value in values.items()}, emits)
    except FunctionError as error:
        error.tuple = _offending(values)
        error.args = (*error.args[:4], error.tuple)
        return error
    code = getattr(function, "py_func", function).__code__
    reason = f"{type(cause).__name__}: {cause}" if cause is not None else "an error"
    text = (
        f"failed when compiled with {reason}, though not in plain Python: an integer beyond int64 or int32, "
        f"a null or an index out of bounds are different there"
    )
    if any(isinstance(part, list | dict | set) for part in _fields_of(values.get("state")).values()):
        text += ", and what it changed in a list, set or map before it failed is changed already"
    return FunctionError(text, code.co_name, code.co_filename, code.co_firstlineno, _offending(values))


class _Int64(int):
    """An integer whose sums, products and so on raise where they do not fit in 64 bits, as with ``debug=True``."""

    @classmethod
    def operation(cls, name: str, symbol: str) -> Callable:
        original = getattr(int, name)

        def apply(self, *other):
            result = original(self, *other)
            if type(result) is not int:
                return result
            if not -(2**63) <= result < 2**63:
                pair = (other[0], self) if name.startswith("__r") and name != "__rshift__" else (self, *other)
                text = f" {symbol} ".join(str(int(part)) for part in pair) if other else f"{symbol} {int(self)}"
                raise OverflowError(f"{text} leaves the range of int64")
            return cls(result)

        return apply


for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "pow": "**", "lshift": "<<", "floordiv": "//", "rshift": ">>", "mod": "%",
}.items():  # fmt: skip
    for _side in ("", "r"):
        setattr(_Int64, f"__{_side}{_name}__", _Int64.operation(f"__{_side}{_name}__", _symbol))
for _name, _symbol in {"neg": "-", "abs": "abs"}.items():
    setattr(_Int64, f"__{_name}__", _Int64.operation(f"__{_name}__", _symbol))


def _fields_of(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _copied(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same with containers of its own: a call may change them, and there may be another one."""
    return {
        name: copy.deepcopy(part) if isinstance(part, dict) else copy.copy(part) if isinstance(part, list | set) else part
        for name, part in fields.items()
    }


def _bounded(value: Any) -> Any:
    """The same with bounded integers: a tuple or state, a key, a value, a list or the values of a map."""
    if isinstance(value, list):
        made = copy.copy(value)
        made[:] = map(_bounded, value)
        return made
    if isinstance(value, dict) and type(value) is not dict:
        kept = copy.copy(value)
        for key, part in value.items():
            kept[key] = _bounded(part)
        return kept
    if isinstance(value, Mapping):
        return {name: _bounded(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_bounded, value))
    return _Int64(value) if type(value) is int else value


def _offending(values: Mapping[str, object]) -> dict[str, object]:
    """The tuple, or both tuples of a join with their roles in front, and the key."""
    tuples = {role: value for role, value in values.items() if isinstance(value, Mapping) and role != "state"}
    result: dict[str, object] = {}
    for role, value in tuples.items():
        assert isinstance(value, Mapping)
        result.update(value if len(tuples) == 1 else {f"{role}.{field}": v for field, v in value.items()})
    result.update({role: v for role, v in values.items() if role == "key"})
    return result


def _explained(error: Exception, function: Callable, offending: dict[str, object]) -> FunctionError:
    code = function.__code__
    name, file, line = code.co_name, code.co_filename, code.co_firstlineno
    for frame in traceback.extract_tb(error.__traceback__):
        # The innermost line of the user's, not of NumPy or of this package: the function itself may be one of `apps`.
        is_ours = frame.filename.startswith(_PACKAGE) and frame.filename != code.co_filename
        if not is_ours and "site-packages" not in frame.filename and frame.lineno:
            name, file, line = frame.name, frame.filename, frame.lineno
    return FunctionError(f"{type(error).__name__}: {error}", name, file, line, offending)
