"""Values as 64-bit words, and plain accesses to many words at once or to half a word.

Containers keep one int64 for each element, key and value: an integer unchanged, a
float as its bits, a string as its dense id. Floats need two conversions: equal numbers
must be one key (`float_bits`), and their order is not that of their bits read as an
integer (`float_rank`).

The accesses are intrinsics, because Numba copies through views that it makes and
checks at each call. None is atomic, and none checks bounds: they are for memory that
one thread owns.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from headrace.kernel import JIT, kernel

NAN_BITS = 0x7FF8000000000000
_INFINITY_BITS = 0x7FF0000000000000
ALL_BUT_SIGN = 0x7FFFFFFFFFFFFFFF
NAN_RANK = ALL_BUT_SIGN


@kernel(borrows=True)
def float_bits(value, bits):
    """Bits that are equal for equal values: NaN equals NaN, -0.0 equals 0.0."""
    if value != value:
        return np.int64(NAN_BITS)
    if value == 0.0:
        return np.int64(0)
    return bits


@kernel(borrows=True)
def float_rank(word):
    """An integer that orders as the float with these bits: -0.0 equal to 0.0, NaN last."""
    magnitude = word & ALL_BUT_SIGN
    if magnitude > _INFINITY_BITS:
        return np.int64(NAN_RANK)
    if magnitude == 0:
        return np.int64(0)
    return word ^ ((word >> 63) & ALL_BUT_SIGN)


def _is_row(dtype, array, *integers) -> bool:
    return (
        isinstance(array, types.Array)
        and array.ndim == 1
        and array.dtype == dtype
        and all(isinstance(integer, types.Integer) for integer in integers)
    )


def _is_words(array, *integers) -> bool:
    return _is_row(types.int64, array, *integers)


if JIT:

    def _address(context, builder, array_type, array, index_type, index):
        base = context.make_array(array_type)(context, builder, array).data
        return builder.gep(base, [context.cast(builder, index, index_type, types.intp)], inbounds=True)

    def _half_address(context, builder, array_type, array, index_type, index):
        base = context.make_array(array_type)(context, builder, array).data
        halves = builder.bitcast(base, ir.IntType(32).as_pointer())
        return builder.gep(
            halves, [context.cast(builder, index, index_type, types.intp)], inbounds=True, source_etype=ir.IntType(32)
        )

    @intrinsic(prefer_literal=False)
    def half(typing_context, words, index):
        """Read the int32 at `index`, counted in int32s from the start of an int64 array."""
        if not _is_words(words, index):
            return None

        def generate(context, builder, signature, args):
            pointer = _half_address(context, builder, words, args[0], index, args[1])
            return builder.sext(builder.load(pointer, typ=ir.IntType(32)), ir.IntType(64))

        return types.int64(words, index), generate

    @intrinsic(prefer_literal=False)
    def set_half(typing_context, words, index, value):
        """Write the int32 at `index`."""
        if not _is_words(words, index, value):
            return None

        def generate(context, builder, signature, args):
            pointer = _half_address(context, builder, words, args[0], index, args[1])
            builder.store(context.cast(builder, args[2], value, types.int32), pointer)
            return context.get_dummy_value()

        return types.void(words, index, value), generate

    def _copy_of(dtype):
        """Make an intrinsic that copies elements of `dtype` between two places, which may overlap."""

        def copy(typing_context, target, at, source, first, count):
            if not (_is_row(dtype, target, at, first, count) and _is_row(dtype, source)):
                return None
            size = dtype.bitwidth // 8

            def generate(context, builder, signature, args):
                to = _address(context, builder, target, args[0], at, args[1])
                begin = _address(context, builder, source, args[2], first, args[3])
                length = context.cast(builder, args[4], count, types.intp)
                cgutils.raw_memmove(builder, to, begin, length, size, align=size)
                return context.get_dummy_value()

            return types.void(target, at, source, first, count), generate

        return copy

    copy_words = intrinsic(prefer_literal=False)(_copy_of(types.int64))
    copy_bytes = intrinsic(prefer_literal=False)(_copy_of(types.uint8))

    @intrinsic(prefer_literal=False)
    def clear_words(typing_context, words, at, count):
        """Make `count` words zero."""
        if not _is_words(words, at, count):
            return None

        def generate(context, builder, signature, args):
            pointer = _address(context, builder, words, args[0], at, args[1])
            length = builder.mul(context.cast(builder, args[2], count, types.intp), ir.Constant(ir.IntType(64), 8))
            cgutils.memset(builder, pointer, length, 0)
            return context.get_dummy_value()

        return types.void(words, at, count), generate

else:

    def half(words, index):
        """Read the int32 at `index`, counted in int32s from the start of an int64 array."""
        return int(words.view(np.int32)[index])

    def set_half(words, index, value):
        """Write the int32 at `index`."""
        words.view(np.int32)[index] = value

    def copy_words(target, at, source, first, count):
        """Copy `count` words; the two places may overlap."""
        target[at : at + count] = source[first : first + count]

    copy_bytes = copy_words

    def clear_words(words, at, count):
        """Make `count` words zero."""
        words[at : at + count] = 0
