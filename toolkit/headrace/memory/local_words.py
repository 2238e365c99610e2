"""Arrays on the stack of a kernel, which LLVM keeps in registers where it sees all their uses.

A word of an array in shared memory is loaded and stored at every use, because another array might alias it. Words on the stack
have no alias: where every index is a constant, and every function that gets them is inlined into the kernel, no memory access
is left.

They live as long as the call of the kernel that has them, and are not cleared: write a word before reading it.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from headrace.kernel import JIT


def _compile_local(dtype):
    @intrinsic
    def local(typing_context, size):
        if not isinstance(size, types.IntegerLiteral):
            return None
        array_type = types.Array(dtype, 1, "C")
        count = size.literal_value

        def generate(context, builder, signature, args):
            place = cgutils.alloca_once(builder, ir.ArrayType(context.get_data_type(dtype), count))
            zero = ir.Constant(ir.IntType(32), 0)
            width = context.get_constant(types.intp, dtype.bitwidth // 8)
            array = context.make_array(array_type)(context, builder)
            context.populate_array(
                array,
                data=builder.gep(place, [zero, zero], inbounds=True),
                shape=[context.get_constant(types.intp, count)],
                strides=[width],
                itemsize=width,
                meminfo=None,
            )
            return array._getvalue()

        return array_type(size), generate

    return local


if JIT:
    local_i64 = _compile_local(types.int64)
    local_f64 = _compile_local(types.float64)
    local_f32 = _compile_local(types.float32)

else:

    def local_i64(size):
        return np.empty(size, np.int64)

    def local_f64(size):
        return np.empty(size, np.float64)

    def local_f32(size):
        return np.empty(size, np.float32)


__all__ = ["local_f32", "local_f64", "local_i64"]
