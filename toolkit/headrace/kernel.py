"""The one Numba policy: how every kernel of this package is compiled.

A kernel releases the GIL (unless it says `keep_gil`), is kept on disk
(`headrace.caches`), and divides as NumPy does (by zero gives inf, not an
exception): it returns status codes and raises nothing, since raising inside
compiled code leaks what it holds.

With ``NUMBA_DISABLE_JIT=1`` the decorators return the function unchanged, and
`JIT` is False: every kernel then runs as plain Python. ``NUMBA_BOUNDSCHECK=1``
turns bounds checks on; such code is kept apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import config, njit, typeof
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from headrace.caches.machine_code import KernelCache

JIT: bool = not config.DISABLE_JIT
"""False if kernels run as plain Python."""

_POLICY: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
}


def mark(ir_module: ir.Module, *attributes: str) -> None:
    """Give attributes of LLVM's to the functions that are defined in a module."""
    for function in ir_module.functions:
        if not function.is_declaration:
            for attribute in attributes:
                set.add(function.attributes, attribute)  # llvmlite's own `add` refuses what it has not heard of


class _PlacedLibrary(JITCodeLibrary):
    """Numba's own, which tells LLVM whether to copy its functions into their callers."""

    placing: tuple[str, ...] = ()

    def add_ir_module(self, ir_module: ir.Module) -> None:
        mark(ir_module, *self.placing)
        super().add_ir_module(ir_module)


class _OftenLibrary(_PlacedLibrary):
    placing = ("alwaysinline",)


class _SeldomLibrary(_PlacedLibrary):
    placing = ("noinline", "cold")


class _PlacedCompiler(Compiler):
    """Numba's own passes, into a `_PlacedLibrary`. Its own option, `forceinline`, would be that of all callees too."""

    library: type[_PlacedLibrary]

    def compile_extra(self, func: Callable) -> Any:
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class _OftenCompiler(_PlacedCompiler):
    library = _OftenLibrary


class _SeldomCompiler(_PlacedCompiler):
    library = _SeldomLibrary


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
        Copy the body into each caller before type inference. Only where LLVM
        does not inline by itself and a measurement says that it pays.
    often : bool
        Have LLVM copy it into each caller, however large it finds it.
    keep_gil : bool
        For calls of some nanoseconds from Python: who gives the GIL up may wait
        a time slice to get it back.
    borrows : bool
        Leave out the counting of references to its arrays, which keeps LLVM from inlining it: for what is called
        many times, makes no arrays and returns none.
    seldom : bool
        Keep LLVM from copying it into its callers, and let it lay them out for when they do not call it: for the rare
        part of what is called many times, such as making room, so that the frequent part is small enough to be copied.
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
    if often:
        policy["pipeline_class"] = _OftenCompiler
    if seldom:
        policy["pipeline_class"] = _SeldomCompiler
    if pipeline is not None:
        policy["pipeline_class"] = pipeline
    compiled = njit(inline="always" if inline else "never", **policy)(function)
    if JIT:
        compiled._cache = KernelCache(function)
    return compiled


def compile_now(function: Any, arguments: tuple) -> None:
    """Compile for these arguments without running, so that no thread meets the compiler."""
    if hasattr(function, "compile"):
        function.compile(tuple(typeof(a) for a in arguments))
