"""Functions that only ever run inside another one: no wrappers, no machine code of their own.

Numba treats every function as a program of its own: it wraps it for Python and for C, optimises it together with all
it calls, and turns it into machine code; its caller does the same with it inside once more, and so on up. An aggregate's
engine is made of two hundred functions, of which Python calls forty. What only compiled code calls goes into a
`LinkableLibrary`, which ends before machine code and is kept on disk as LLVM's bitcode, for its callers to link. The
bodies, and with them the machine code of the callers, are the same.

It uses Numba's documented extension point, a ``pipeline_class``, and methods of its code library that have stood since
0.50.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar

from llvmlite import binding, ir
from numba.core.codegen import JITCodeLibrary

from headrace.remembering import QuickCompiler

__all__ = [
    "REFUSE", "UNWRAPPED", "LibraryCompiler", "LinkableCompiler", "LinkableLibrary", "OftenCompiler", "SeldomCompiler",
    "let_wrap", "mark",
]  # fmt: skip

REFUSE: int = ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value or 0
"""Address of something that refuses: a call from Python of what is not for Python raises a TypeError."""

UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""For `numba.njit`, of what neither Python nor C calls."""


def mark(ir_module: ir.Module, *attributes: str) -> None:
    """Give attributes of LLVM's to the functions that are defined in a module."""
    for function in ir_module.functions:
        if not function.is_declaration:
            for attribute in attributes:
                set.add(function.attributes, attribute)  # llvmlite's own `add` refuses what it has not heard of


def let_wrap(ir_module: ir.Module) -> None:
    """Have sums, differences and products of signed integers wrap around: that they never do is not promised to LLVM."""
    for function in ir_module.functions:
        for block in function.blocks:
            for instruction in block.instructions:
                flags = getattr(instruction, "flags", ())
                if "nsw" in flags:
                    instruction.flags = [flag for flag in flags if flag != "nsw"]


class _NoExecutable:
    """Where an executable's environment would be registered: what is linked has none."""

    @staticmethod
    def set_env(env_name: str, env: Any) -> None:
        return


class LinkableLibrary(JITCodeLibrary):
    """LLVM code that waits to be linked into its callers'.

    Attributes
    ----------
    placing : tuple of str
        LLVM's attributes of its functions: whether to copy them into their callers.
    """

    placing: ClassVar[tuple[str, ...]] = ()

    @property
    def codegen(self) -> Any:
        return _NoExecutable

    def add_ir_module(self, ir_module: ir.Module) -> None:
        mark(ir_module, *self.placing)
        super().add_ir_module(ir_module)

    def get_pointer_to_function(self, name: str) -> int:
        """Address of something that refuses."""
        self._ensure_finalized()
        return REFUSE

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        """Its name, its kind, and bitcode in place of the machine code that it does not have."""
        return self.name, "linkable", self._get_module_for_linking().as_bitcode()

    @classmethod
    def from_bitcode(cls, codegen: Any, name: str, bitcode: bytes) -> LinkableLibrary:
        """Make it from what `serialize_using_object_code` gave."""
        made = cls(codegen, name)
        made._final_module = made._shared_module = binding.parse_bitcode(bitcode)
        made._finalize_final_module()
        return made


class _OftenLibrary(LinkableLibrary):
    placing = ("alwaysinline",)


class _SeldomLibrary(LinkableLibrary):
    placing = ("noinline", "cold")


class LibraryCompiler(QuickCompiler):
    """Numba's own passes, into a library of a kind of ours."""

    library: type[JITCodeLibrary]

    def compile_extra(self, func: Callable) -> Any:
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class LinkableCompiler(LibraryCompiler):
    """Numba's own passes, into a `LinkableLibrary`."""

    library = LinkableLibrary


class OftenCompiler(LinkableCompiler):
    """The same of what LLVM is to copy into each caller, however large it finds it.

    Numba's own option, ``forceinline``, would be that of all callees too.
    """

    library = _OftenLibrary


class SeldomCompiler(LinkableCompiler):
    """The same of what stays a function of its own, beside callers that are laid out for when they do not call it."""

    library = _SeldomLibrary
