"""A file of kernels as part of a generated module."""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Mapping
from types import ModuleType
from typing import NamedTuple

_COMPILED = ast.ImportFrom("headrace.codegen.modules", [ast.alias("compiled", "kernel")], 0)
"""The import of the decorator that makes kernels of an included file's functions."""
_known: weakref.WeakKeyDictionary[ModuleType, dict[tuple, _Texts]] = weakref.WeakKeyDictionary()
"""Each file's texts, by its source and `instead`: parsing takes a quarter of the time in which a run starts."""


class _Texts(NamedTuple):
    """A file as part of another one."""

    imports: str
    names: frozenset[str]
    """The names that the imports define."""
    whole: str


def included(module: ModuleType, instead: Mapping[str, str] | None = None) -> str:
    """Return the text of a file of kernels as part of a source for `load_module`.

    The text after the file's imports is unchanged, so the kernels read, are
    checked, and fail with the lines of an ordinary file. The generated module
    compiles them with its other functions: names that the file
    does not define are looked up in the module.

    Parameters
    ----------
    module : module
        Its imports, from `headrace.kernel` among them, stand before all definitions.
    instead : dict, optional
        Module of an import -> module to import the same names from instead. With an
        empty name nothing is imported, since the generated module has these names.

    Returns
    -------
    str

    Examples
    --------
    >>> from headrace.gates import source_kernel
    >>> text = included(source_kernel, {"headrace.gates.merged_log_kernel": "headrace.gates.scalegate_kernel"})
    >>> "import compiled as kernel" in text, "from headrace.gates.scalegate_kernel import" in text
    (True, True)
    """
    return _texts_of(module, instead or {}).whole


def imports_of(module: ModuleType, instead: Mapping[str, str] | None = None) -> tuple[str, frozenset[str]]:
    """Return the imports of a file of kernels as `included` writes them, and the names that they define.

    Parameters
    ----------
    module, instead
        As in `included`.

    Examples
    --------
    >>> from headrace.memory import arena
    >>> text, names = imports_of(arena)
    >>> text.splitlines()[0], "kernel" in names, "CELL" in names
    ('from headrace.codegen.modules import compiled as kernel', True, True)
    """
    texts = _texts_of(module, instead or {})
    return texts.imports, texts.names


def _texts_of(module: ModuleType, others: Mapping[str, str]) -> _Texts:
    source = inspect.getsource(module)
    texts, place = _known.setdefault(module, {}), (source, *others.items())
    if place not in texts:
        statements, end = _opening(source, others)
        imports = "\n".join(ast.unparse(statement) for statement in statements)
        names = frozenset(alias.asname or alias.name for statement in statements for alias in statement.names)
        texts[place] = _Texts(imports, names, "\n".join([imports, *source.splitlines()[end:]]) + "\n")
    return texts[place]


def _opening(source: str, others: Mapping[str, str]) -> tuple[list[ast.Import | ast.ImportFrom], int]:
    """Return the imports that a file needs as part of another one, and the last line before the rest of it."""
    imports: list[ast.Import | ast.ImportFrom] = [_COMPILED]
    end = 0
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom):
            origin = others.get(statement.module or "", statement.module)
            if origin and origin not in ("__future__", "headrace.kernel"):
                imports.append(ast.ImportFrom(origin, statement.names, 0))
        elif isinstance(statement, ast.Import):
            imports.append(statement)
        elif not isinstance(statement, ast.Expr):  # the docstring
            break
        end = statement.end_lineno or end
    return imports, end
