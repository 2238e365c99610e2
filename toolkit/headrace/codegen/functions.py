"""User functions: from plain Python to text for a generated module, with errors at the user's own lines.

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

What a user should know beyond what errors say: globals and closures are
frozen when the operator is made; integers are int64 and wrap around; the order
of calls to ``random`` depends on the threads, so a function that uses it breaks
the guarantee that every run gives the same output.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.codegen.bindings import (
    Binding,
    ContainerBinding,
    FieldBinding,
    HostKernel,
    ListBinding,
    Membership,
    Memory,
    Opened,
    Texts,
    Unreadable,
)
from headrace.codegen.capture import CapturedFunction, capture
from headrace.codegen.compile_errors import check_compiles, translate_error
from headrace.codegen.failures import NOT_IN_PYTHON, UnfinishedError, call_plain, explain_failure
from headrace.codegen.generated import GeneratedFunction
from headrace.codegen.rewriting.function import rewrite
from headrace.codegen.trees import copied

__all__ = [
    "ContainerBinding",
    "FieldBinding",
    "GeneratedFunction",
    "ListBinding",
    "Memory",
    "NOT_IN_PYTHON",
    "Texts",
    "UnfinishedError",
    "Unreadable",
    "call_plain",
    "check_compiles",
    "explain_failure",
    "specialise",
    "translate_error",
]
_DECORATORS = ("compiled", "compiled_user", "compiled_user_bounded", "compiled_user_within")


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
    hints: Mapping[str, str] | None = None,
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
    only_used: bool = False,
) -> GeneratedFunction:
    """Rewrite a user function for a kernel.

    Parameters
    ----------
    function : callable or CapturedFunction
        Plain Python: a ``def`` or a lambda.
    name : str
        Name of the generated function.
    arguments : tuple of str
        The roles of the user's parameters, by position, such as
        ``("state", "t", "emit")``. The user may name them differently, and
        leave a last "emit" out.
    bindings : dict
        Role -> what it stands for: a dict of field -> expression for a
        parameter with attributes, an expression for a single value. A field
        given as text is read-only, except for roles whose name begins with
        "state". Instead of text: `FieldBinding` for more details, `ListBinding` for a field that
        holds tuples, `Unreadable` for one that cannot be used, `Membership` for ``in`` tests.
    parameters : tuple of str
        Parameters of the generated function: all names that the texts of
        bindings, `emit` and `poll` use, apart from those of the module.
    emits : dict, list or None
        Names of the output fields, in order, with kinds if these are to be
        checked; None where the function cannot emit.
    emit : str
        Statement(s) for an emission; ``{values}`` stands for all values in
        order, ``{0}`` for the first one, ``{chars}`` for that of the field chars.
    left_out : dict, optional
        The last of these fields, which are given by name only -> expression that stands for one that is left out.
    hints : dict, optional
        Name of an output field, existing or not -> advice where it is missing, or given.
    poll : str or None
        Condition tested in each iteration of loops that may be long; where it
        holds, the function returns, or raises RuntimeError if it owes a value.
    returns : str or None
        None: the function returns nothing. A kind, or "truth": it must return
        such a value on every path. "any": it may return anything.
    decorator : str
        Written above each function; "" for none.
    debug : bool
        Integers that leave the range of int64 raise instead of wrapping around.
    memory : Memory, optional
        The memory of containers; needed if a binding is a `ContainerBinding`.
    texts : Texts, optional
        How the kernel represents strings; without it a function can have none.
    kinds : dict, optional
        Role of a single value that is not a number -> "string", or a tuple of "string" and "number".
    rows : dict, optional
        Names in the function that stand for rows of tables -> how a row is found once a key is assigned to the name.
    named : dict, optional
        Names in the function, beside its parameters, that stand for an object with fields -> role.
    ends : tuple of str, optional
        Roles of states that end with the call: assigning a container of one to a field of its kind hands it over without
        a copy, where the function does not use it again.
    only_used : bool
        Leave out parameters that the function does not use.

    Raises
    ------
    FunctionError
        With file and line, if the function cannot be compiled in this way.
    """
    if isinstance(function, CapturedFunction):
        captured = dataclasses.replace(function, node=copied(function.node))  # it is rewritten in place
    else:
        captured = capture(function)
    objects: dict[str, dict[str, Binding]] = {}
    values: dict[str, str | Unreadable] = {}
    asked: dict[str, Membership] = {}
    for role, binding in bindings.items():
        if isinstance(binding, Membership):
            asked[role] = binding
            names = " or ".join(f"{name!r} in it" for name in list(binding.names)[:1])
            binding = Unreadable(f"{binding.what}, which can only be tested with `in`, as in {names}")
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
    host = HostKernel(
        name=name,
        objects=objects,
        values=values,
        emits=emits,
        emit=emit,
        left_out=dict(left_out or {}),
        hints=dict(hints or {}),
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
        only_used=only_used,
    )
    written = rewrite(captured, tuple(arguments), host)
    imports = ["import math", "import numpy as np"]
    if any(call.startswith("random") for call in written.impure):
        imports.append("import random")
    if written.checks:
        imports.append(f"from headrace.codegen.checked import {', '.join(sorted(written.checks))}")
    imports += sorted(written.number_checks)
    if written.kept:
        imports.append(f"from headrace.codegen.containers.kernel import {', '.join(sorted(written.kept))}")
    decorators = {decorator, *(chunk.partition("\n")[0].removeprefix("@") for chunk in written.chunks)}
    imports += [f"from headrace.codegen.modules import {each}" for each in _DECORATORS if each in decorators]
    return GeneratedFunction(
        name=name,
        parameters=written.parameters,
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
