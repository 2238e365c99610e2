"""Generated functions that only ever run inside another one: typed and lowered, but not optimised by themselves.

A kernel that is linked into its callers (`headrace.linkable`) is optimised once by itself, and kept. A function that belongs
to one operator has one caller: it stops after lowering, and the one function that Python calls links all of them and is
optimised once. A new join shape thus took 40 % less processor time (8.5 s instead of 14.2, an aggregate 3.7 instead of 5.8,
measured together on a busy machine); the machine code is unchanged.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core.codegen import JITCodeLibrary

from headrace.indexing import DirectCompiler
from headrace.linkable import REFUSE, UNWRAPPED, LibraryCompiler, LinkableLibrary, let_wrap, mark

# LLVM limits vectors to 256 bits on Intel's processors with AVX-512, the first of which slowed down for wider
# ones. Those since Ice Lake, recognised by VBMI2, hardly do, and a join compares 1.4 to 1.7 times as fast.
_WIDE = ('"prefer-vector-width"="512"',) if binding.get_host_cpu_features().get("avx512vbmi2", False) else ()


class OperatorLibrary(JITCodeLibrary):
    """Numba's own library, whose functions use the widest vectors that pay off."""

    def add_ir_module(self, ir_module: ir.Module) -> None:
        mark(ir_module, *_WIDE)
        super().add_ir_module(ir_module)


class PartLibrary(LinkableLibrary):
    """LLVM code that is linked unoptimised into its caller's: it belongs to one operator, optimised as a whole."""

    placing = _WIDE

    def _optimize_final_module(self) -> None:
        return


class EntryCompiler(LibraryCompiler, DirectCompiler):
    """Numba's own passes, into an `OperatorLibrary`."""

    library = OperatorLibrary


class AddressLibrary(OperatorLibrary):
    """The library of a function that is called by its address and that Python cannot call."""

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function; for a missing one, that of a function that refuses to be called."""
        return super().get_pointer_to_function(name) or REFUSE


class AddressCompiler(EntryCompiler):
    """The same into an `AddressLibrary`."""

    library = AddressLibrary


class PartCompiler(EntryCompiler):
    """The same into a `PartLibrary`."""

    library = PartLibrary


class WithinLibrary(PartLibrary):
    """LLVM code that is inlined into its only caller."""

    placing = (*_WIDE, "alwaysinline")


class WithinCompiler(EntryCompiler):
    """The same into a `WithinLibrary`."""

    library = WithinLibrary


class _LetWrap:
    """Mixin for libraries of user functions: their integers wrap around."""

    def add_ir_module(self, ir_module: ir.Module) -> None:
        let_wrap(ir_module)
        super().add_ir_module(ir_module)  # pyright: ignore[reportAttributeAccessIssue]: that of the library


class UserLibrary(_LetWrap, PartLibrary):
    """A user's function."""


class UserCompiler(LibraryCompiler):
    """The same into a `UserLibrary`."""

    library = UserLibrary


class UserWithinLibrary(_LetWrap, WithinLibrary):
    """A user's function that is inlined into its only caller."""


class UserWithinCompiler(LibraryCompiler):
    """The same into a `UserWithinLibrary`."""

    library = UserWithinLibrary


class UserAloneLibrary(_LetWrap, OperatorLibrary):
    """A user's function that Python calls."""


class UserAloneCompiler(LibraryCompiler):
    """The same into a `UserAloneLibrary`."""

    library = UserAloneLibrary


class SeldomPartLibrary(PartLibrary):
    """LLVM code of a rarely called function: it is not inlined, and its callers treat the call as unlikely."""

    placing = (*_WIDE, "noinline", "cold")


class SeldomPartCompiler(EntryCompiler):
    """The same into a `SeldomPartLibrary`."""

    library = SeldomPartLibrary


PART: dict[str, Any] = {"pipeline_class": PartCompiler, **UNWRAPPED}
"""Options of `numba.njit` for a part."""
WITHIN: dict[str, Any] = {"pipeline_class": WithinCompiler, **UNWRAPPED}
"""Options for a part that is inlined into its one caller, whatever its size."""
SELDOM: dict[str, Any] = {"pipeline_class": SeldomPartCompiler, **UNWRAPPED}
"""Options for a part that is seldom called."""
USER: dict[str, Any] = {"pipeline_class": UserCompiler, **UNWRAPPED}
"""Options for a part that is a user's function."""
USER_WITHIN: dict[str, Any] = {"pipeline_class": UserWithinCompiler, **UNWRAPPED}
"""Options for a user's function that is inlined into its one caller, whatever its size."""
USER_ALONE: dict[str, Any] = {"pipeline_class": UserAloneCompiler, "no_cfunc_wrapper": True}
"""Options for a user's function in a module without an entry."""
ENTRY: dict[str, Any] = {"pipeline_class": EntryCompiler, "no_cfunc_wrapper": True}
"""Options for the function that Python calls."""
ADDRESSED: dict[str, Any] = {"pipeline_class": AddressCompiler, **UNWRAPPED}
"""Options for functions that generated code calls by their addresses (`called`)."""
