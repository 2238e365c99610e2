"""Translating compile errors: the one informative line of Numba's message, at the user's line."""

from __future__ import annotations

import linecache
import re
import types as python_types
from collections.abc import Iterable
from typing import Any

from headrace.codegen.capture import CapturedFunction
from headrace.codegen.generated import GeneratedFunction
from headrace.codegen.modules import load_module
from headrace.errors import FunctionError


def check_compiles(
    generated: GeneratedFunction,
    argument_types: Iterable[Any],
    context: str = "",
    debug: bool = False,
) -> Any:
    """Compile a generated function, or raise an error at the user's line.

    Parameters
    ----------
    generated : GeneratedFunction
    argument_types : iterable of numba types
        Types of its parameters, in order.
    context : str
        Source of the functions it calls, such as the template's ``emit_row``.

    Returns
    -------
    numba type or None
        Its return type; None if kernels run as plain Python.

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
    """Return the one line of a Numba message that helps the user."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    rejected = re.findall(r"raised a specific error:\s*\w+: (.*)", text)
    # A dict fails in the hash of its keys, and what Numba says last is about a helper of its own.
    if "NRT required" in text and (not rejected or rejected[-1].startswith("missing a required argument")):
        return (
            "makes a list, set, dict or array of its own, which it cannot here: keep it in a field of the state (hr.list_of,"
            " hr.set_of, hr.map_of), write a loop, or if and elif, or min(a, b) and max(a, b) for sorted"
        )
    if rejected:
        return rejected[-1].strip()
    if re.search(r"scipy \S+ is required", text):  # installing it would not help: these functions need arrays of their own
        return (
            "calls np.linalg, np.dot or @ on arrays, which are not compiled here: write the sums as loops, or compute the column"
            " with NumPy before the stream"
        )
    attribute = re.search(r"Unknown attribute '(\w+)' of type Module\(<module '(\w+)'", text)
    if attribute:
        return f"there is no compiled {attribute[2]}.{attribute[1]}"
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
    """Trace a compile error of a generated module to the user's line.

    Parameters
    ----------
    error : Exception
        The exception that Numba raised.
    functions : list of GeneratedFunction
        The functions whose sources were pasted into the module.
    module : module
        As returned by `load_module`.

    Returns
    -------
    FunctionError
        Raise it ``from None``: of the hundred lines of Numba's own text it has the one that helps;
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
