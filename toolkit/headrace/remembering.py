"""Remember how Numba resolves calls of operators and library functions, across the functions that it compiles.

To resolve ``+`` for two types, Numba tries one overload after another, at every ``+`` of every function, and again in each
pass over the function: up to a quarter of the time in which it compiled an operator of ours. The answer depends only on
the function, the types and the flags. `QuickCompiler` gives Numba's passes a typing context that keeps it.

Numba gives two answers at once: the signature, which it returns, and the implementation, which it records in the
function's type, where compiling with other flags (such as without reference counts) records another. Both are kept, and
both are given again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.core.compiler import Compiler, Flags
from numba.core.targetconfig import ConfigStack
from numba.core.typing.context import Context

__all__ = ["KnownFlags", "QuickCompiler", "RememberingContext"]


class KnownFlags(Flags):
    """Numba's flags, with their values cached.

    Each lookup of flags in a dict reads all options one by one, and Numba does so thousands of times for one operator of
    ours.
    """

    __slots__ = ("_known",)

    def __init__(self, copy_from: Flags | None = None):
        super().__init__(copy_from)
        self._known: tuple[tuple, dict[str, Any], int, dict] = ((), {}, 0, {})

    def _look(self) -> tuple[tuple, dict[str, Any], int, dict]:
        # A value is identified by its `id`, which holds while `_values` keeps the value.
        now = (*self._values, *map(id, self._values.values()))
        if self._known[0] != now or not self._known[1]:
            values = super().values()
            self._known = (now, values, hash(tuple(sorted(values))), _answers(values))
        return self._known

    def values(self) -> dict[str, Any]:
        """All options with their values."""
        return self._look()[1]

    @property
    def answers(self) -> dict[tuple, tuple[Any, Any]]:
        """Signature and implementation of calls that were compiled with these values; shared by all flags that have them."""
        return self._look()[3]

    def __hash__(self) -> int:
        return self._look()[2]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KnownFlags):
            return self.answers is other.answers
        return super().__eq__(other)


_ANSWERS: list[tuple[dict[str, Any], dict]] = []
"""By the values of the flags, which have no hash; there are few."""


def _answers(values: dict[str, Any]) -> dict:
    for known, answers in _ANSWERS:
        if known == values:
            return answers
    _ANSWERS.append((values, {}))
    return _ANSWERS[-1][1]


_KEPT = (types.Number, types.Boolean, types.Literal, types.Array, types.BaseAnonymousTuple, types.SliceType, types.NoneType)
"""Types of arguments whose answers are kept. Not functions, which would live for as long."""


class RememberingContext(Context):
    """Numba's typing context, which repeats its earlier answers.

    There is one over each context of Numba: the implementation of a call is compiled for a context, and kept with it.
    """

    def __init__(self, context: Context):
        self.__dict__ = context.__dict__  # what is registered with one context is registered with both

    def resolve_function_type(self, func: Any, args: tuple, kws: Any) -> Any:
        """Return the signature of a call."""
        flags, function = ConfigStack.top_or_none(), self._lookup_global(func) or func
        if kws or not isinstance(flags, KnownFlags) or not isinstance(function, types.Function):
            return super().resolve_function_type(func, args, kws)
        question, answers = (function, args), flags.answers
        found = answers.get(question)
        if found is None:
            signature = super().resolve_function_type(func, args, kws)
            if signature is not None and all(isinstance(each, _KEPT) and each.is_precise() for each in args):
                implementation = function._impl_keys.get(signature.args)
                if implementation is not None:
                    answers[question] = signature, implementation
            return signature
        signature, function._impl_keys[signature.args] = found
        return signature


_context_over = functools.cache(RememberingContext)


class QuickCompiler(Compiler):
    """Numba's own passes, with a context that remembers."""

    def compile_extra(self, func: Callable) -> Any:
        self.state.flags = KnownFlags(self.state.flags)
        self.state.typingctx = _context_over(self.state.typingctx)
        return super().compile_extra(func)
