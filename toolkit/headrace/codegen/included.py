"""A file of kernels as part of a generated module."""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Mapping
from types import ModuleType

_COMPILED = "from headrace.codegen.modules import compiled as kernel"
_known: weakref.WeakKeyDictionary[ModuleType, dict[tuple, str]] = weakref.WeakKeyDictionary()
"""Of each file its texts, by its source and `instead`: parsing took a quarter of the time in which a run starts."""


def included(module: ModuleType, instead: Mapping[str, str] | None = None) -> str:
    """Return the text of a file of kernels, as part of a source for `load_module`.

    What follows the file's imports is as it stands; so the kernels read, are
    checked, and fail with the lines of an ordinary file. The generated module
    compiles them as its own, with what else it defines: names that the file
    leaves open are the module's.

    Parameters
    ----------
    module : module
        Its imports, from `headrace.kernel` among them, stand before all definitions.
    instead : dict, optional
        Modules to import the same names from instead: name -> name. With an empty
        name nothing is imported, since the generated module has these names.

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
    source, others = inspect.getsource(module), instead or {}
    texts, place = _known.setdefault(module, {}), (source, *others.items())
    if place not in texts:
        texts[place] = _with_imports(source, others)
    return texts[place]


def _with_imports(source: str, others: Mapping[str, str]) -> str:
    """The text of a file, with the imports it needs as part of another one."""
    imports, end = [_COMPILED], 0
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom):
            origin = others.get(statement.module or "", statement.module)
            if origin and origin not in ("__future__", "headrace.kernel"):
                imports.append(ast.unparse(ast.ImportFrom(origin, statement.names, 0)))
        elif isinstance(statement, ast.Import):
            imports.append(ast.unparse(statement))
        elif not isinstance(statement, ast.Expr):  # the docstring
            break
        end = statement.end_lineno or end
    return "\n".join([*imports, *source.splitlines()[end:]]) + "\n"
