"""Generated code that is called by its address, from kernels that are compiled once for all programs.

An engine's loop is the same for every query, and what users write is a small part of what it runs. Compiled together,
as one unit, the loop is compiled again for each query: 16 s of 20 for a transaction of ten lines. Here the loop calls
an entry of the generated module by its address, under Numba's own calling convention, so that an exception passes
through it as through any call; what it costs is an indirect call, of some 2 ns, and that nothing is inlined across it.

A bundle whose fields differ from program to program is given to the loop as a plain address (`opaque`), which is what
a bundle is to a kernel anyway (`memory.bundle`).

Without the compiler an address is the number of a Python function.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic

from headrace.kernel import JIT

_functions: dict[int, Callable] = {}
_numbers = itertools.count(1)


def opaque(bundle: Any) -> Any:
    """Return what the loop is given for a bundle that it does not look into: keep the bundle itself alive."""
    return bundle._address if JIT else bundle


def address_of(function: Any, arguments: tuple) -> int:
    """Compile an entry for these arguments, and return its address.

    Parameters
    ----------
    function : callable
        Compiled by `headrace.codegen.modules`, an entry of its module; returns an int64. It must stay alive.
    arguments : tuple
        As it will be called with; bundles as they are.
    """
    if not JIT:
        number = next(_numbers)
        _functions[number] = function
        return number
    signature = tuple(typeof(argument) for argument in arguments)
    function.compile(signature)
    compiled = function.overloads[signature]
    assert compiled.signature.return_type == types.int64, compiled.signature
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


if JIT:

    @intrinsic
    def call(typingctx, address, arguments):
        """Call what is at an address with a tuple of arguments; returns the int64 that it does."""
        signature = types.int64(address, arguments)

        def codegen(context, builder, sig, args):
            given, packed = args
            kinds = list(sig.args[1])
            values = cgutils.unpack_tuple(builder, packed, len(kinds))
            convention = context.call_conv
            kind = convention.get_function_type(types.int64, kinds)
            pointer = builder.inttoptr(given, kind.as_pointer())
            status, result = convention.call_function(builder, pointer, types.int64, kinds, values)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return result

        return signature, codegen

else:

    def call(address, arguments):
        """Call what is at an address with a tuple of arguments; returns the int64 that it does."""
        return _functions[address](*arguments)
