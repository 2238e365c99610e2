"""Functions that only compiled code calls: without wrappers, and without machine code of their own.

Numba treats every function as a program of its own: it wraps it for Python and for C, optimises it together with all
it calls, and turns it into machine code. For its caller Numba does all this again, with the function inside, and so on up.
An aggregate's engine consists of two hundred functions, of which Python calls forty. A function that only compiled code
calls goes into a `LinkableLibrary`, which stops before machine code and is kept on disk as LLVM bitcode, for its callers to
link. The bodies, and with them the machine code of the callers, are the same.

This uses Numba's documented extension point, a ``pipeline_class``, and methods of its code library that have not changed
since 0.50.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar

from llvmlite import binding, ir
from numba.core.codegen import JITCodeLibrary

from headrace.indexing import DirectCompiler
from headrace.remembering import QuickCompiler

__all__ = [
    "REFUSE", "UNWRAPPED", "LibraryCompiler", "LinkableCompiler", "LinkableLibrary", "OftenCompiler", "SeldomCompiler",
    "let_wrap", "mark",
]  # fmt: skip

REFUSE: int = ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value or 0
"""Address of a function that refuses: a call from Python to code that is not for Python raises a TypeError."""

UNWRAPPED: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of `numba.njit` for functions that neither Python nor C calls."""


def mark(ir_module: ir.Module, *attributes: str) -> None:
    """Give LLVM attributes to the functions that are defined in a module."""
    for function in ir_module.functions:
        if not function.is_declaration:
            for attribute in attributes:
                set.add(function.attributes, attribute)  # llvmlite's own `add` refuses attributes it does not know


def let_wrap(ir_module: ir.Module) -> None:
    """Let sums, differences and products of signed integers wrap around: remove the flags that promise LLVM they do not."""
    for function in ir_module.functions:
        for block in function.blocks:
            for instruction in block.instructions:
                flags = getattr(instruction, "flags", ())
                if "nsw" in flags:
                    instruction.flags = [flag for flag in flags if flag != "nsw"]


class _NoExecutable:
    """Stands for an executable where its environment would be registered: linked code has none."""

    @staticmethod
    def set_env(env_name: str, env: Any) -> None:
        return


class LinkableLibrary(JITCodeLibrary):
    """LLVM code that is to be linked into that of its callers.

    Attributes
    ----------
    placing : tuple of str
        LLVM attributes of its functions that say whether to inline them into their callers.
    """

    placing: ClassVar[tuple[str, ...]] = ()

    @property
    def codegen(self) -> Any:
        return _NoExecutable

    def add_ir_module(self, ir_module: ir.Module) -> None:
        mark(ir_module, *self.placing)
        super().add_ir_module(ir_module)

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function that refuses to run."""
        self._ensure_finalized()
        return REFUSE

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        """Return its name, its kind, and bitcode in place of machine code, which it does not have."""
        return self.name, "linkable", self._get_module_for_linking().as_bitcode()

    @classmethod
    def from_bitcode(cls, codegen: Any, name: str, bitcode: bytes) -> LinkableLibrary:
        """Make a library from what `serialize_using_object_code` returned."""
        made = cls(codegen, name)
        made._final_module = made._shared_module = binding.parse_bitcode(bitcode)
        made._finalize_final_module()
        return made


class _OftenLibrary(LinkableLibrary):
    placing = ("alwaysinline",)


class _SeldomLibrary(LinkableLibrary):
    placing = ("noinline", "cold")


class LibraryCompiler(QuickCompiler):
    """Numba's own passes, which put their code into a library of our own kind."""

    library: type[JITCodeLibrary]

    def compile_extra(self, func: Callable) -> Any:
        self.state.library = self.library(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


class LinkableCompiler(LibraryCompiler, DirectCompiler):
    """Numba's own passes, which put their code into a `LinkableLibrary`."""

    library = LinkableLibrary


class OftenCompiler(LinkableCompiler):
    """The same for functions that LLVM is to inline into each caller, whatever their size.

    Numba's own option, ``forceinline``, would also apply to all callees.
    """

    library = _OftenLibrary


class SeldomCompiler(LinkableCompiler):
    """The same for functions that are not inlined, and whose callers are laid out for the case that they do not call them."""

    library = _SeldomLibrary
