"""The one Numba policy: how every kernel of this package is compiled.

A kernel is compiled for its callers: for Python, with wrappers and machine code;
for other kernels, to be linked into them (`headrace.linkable`); for both, twice.
It releases the GIL (unless it says `keep_gil`), is kept on disk
(`headrace.caches`), divides as NumPy does (by zero gives inf, not an
exception), and has no negative indices (`headrace.indexing`). It returns status codes and raises nothing, because an exception in
compiled code leaks the references that the code holds.

With ``NUMBA_DISABLE_JIT=1`` the decorators return the function unchanged, and
`JIT` is False: every kernel then runs as plain Python. ``NUMBA_BOUNDSCHECK=1``
turns bounds checks on; such code is kept apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import config, njit, typeof

from headrace.caches.machine_code import KernelCache
from headrace.indexing import DirectCompiler
from headrace.linkable import UNWRAPPED, LinkableCompiler, OftenCompiler, SeldomCompiler

JIT: bool = not config.DISABLE_JIT
"""False if kernels run as plain Python."""

_POLICY: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,  # not called from C
}


def kernel(
    function: Callable | None = None,
    *,
    inline: bool = False,
    often: bool = False,
    keep_gil: bool = False,
    borrows: bool = False,
    seldom: bool = False,
    pipeline: type | None = None,
) -> Any:
    """Compile a function under the policy above, at its first call.

    Parameters
    ----------
    function : callable
        Takes arrays, numbers and named tuples of them.
    inline : bool
        Inline the body into each caller before type inference. Only where LLVM
        does not inline it by itself and a measurement shows that it pays.
    often : bool
        Have LLVM inline it into each caller, whatever its size.
    keep_gil : bool
        For calls of some nanoseconds from Python: a thread that releases the GIL
        may wait a time slice to get it back.
    borrows : bool
        Do not count references to its arrays, which keeps LLVM from inlining it: for kernels that are called many
        times, and neither make nor return arrays.
    seldom : bool
        Keep LLVM from inlining it, and have its callers laid out for the case that they do not call it: for the rare
        part of a frequent kernel, such as making room, so that the frequent part is small enough to be inlined.
    pipeline : type, optional
        Numba's compiler to use instead of its default, such as `codegen.parts.EntryCompiler`.

    Examples
    --------
    In a file (code typed at a prompt cannot be cached)::

        @kernel
        def clamp(value, low, high):
            return min(max(value, low), high)
    """
    if function is None:
        return lambda f: kernel(
            f, inline=inline, often=often, keep_gil=keep_gil, borrows=borrows, seldom=seldom, pipeline=pipeline
        )
    policy = {**_POLICY, "nogil": not keep_gil}
    if borrows:
        policy["_nrt"] = False
    policy["inline"] = "always" if inline else "never"
    compiled = njit(**policy, pipeline_class=pipeline or DirectCompiler)(function)
    if JIT:
        compiled._cache = KernelCache(function)
        if pipeline is None:
            compiler = OftenCompiler if often else SeldomCompiler if seldom else LinkableCompiler
            linked = njit(**{**policy, **UNWRAPPED}, pipeline_class=compiler)(function)
            linked._cache = KernelCache(function, is_linked=True)
            # Questions that compiled code asks the functions it calls.
            compiled.get_call_template = linked.get_call_template
            compiled.get_overload = linked.get_overload
    return compiled


def compile_now(function: Any, arguments: tuple) -> None:
    """Compile for these arguments without running, so that no thread waits for the compiler later."""
    if not hasattr(function, "compile"):
        return
    signature = tuple(typeof(a) for a in arguments)
    if signature not in function.overloads:  # `compile` would look, too, but takes a lock and times itself
        function.compile(signature)
