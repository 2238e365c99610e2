"""A stable 64-bit hash of key values, and reads of eight bytes at a time.

The bucket of a key is a function of its value alone, so a mapping of
buckets to instances can be saved, and replayed by another process or on
another machine. The definition below is therefore part of the file format of
mappings, and must not change. All arithmetic is modulo 2**64, ``>>`` shifts in
zeros, bytes are little-endian::

    mix(w, n)  h = (w + n * P1) * P2;  h ^= h >> 32;  h *= P3;  h ^= h >> 29
    short      a string of n <= 8 bytes: mix(its bytes, zero padded, n)
    long       n > 8 bytes: h = n * P1; for each whole 8 bytes before the last
               byte: h = rotl(h ^ w * P2, 29) * P3; then the last 8 bytes of the
               string (they may overlap what was read) the same way; mix(h, n)
    integer    mix(value as two's complement, 8); bool as 0 or 1; timestamps
               and dates as the integer they are in their unit
    float      as integer, of the bits in float64, where every NaN has the bits
               0x7ff8000000000000 and -0.0 those of 0.0
    tuple      h = hash of the first part; for each further part
               h = mix(rotl(h, 29) ^ hash of the part, count of parts)
    bucket     the top bits of the hash (the low bits choose the table slot)

The multipliers are the odd constants of xxHash64.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from headrace.kernel import JIT, kernel
from headrace.memory.seeded import fold, seeded

P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
ZERO, FULL = np.uint64(0), np.uint64(0xFFFFFFFFFFFFFFFF)
SHORT = 8
"""Longest string, in bytes, that is kept and compared as one integer."""

_LEFT, _RIGHT = np.uint64(29), np.uint64(35)
_HALF = np.uint64(32)

if JIT:

    @intrinsic(prefer_literal=False)
    def load_word(typing_context, data, position):
        """Read data[position : position + 8] as one uint64, little-endian, at any alignment."""
        if not (isinstance(data, types.Array) and data.dtype == types.uint8):
            return None

        def generate(context, builder, signature, args):
            base = context.make_array(data)(context, builder, args[0]).data
            index = context.cast(builder, args[1], position, types.intp)
            pointer = builder.bitcast(builder.gep(base, [index]), ir.IntType(64).as_pointer())
            return builder.load(pointer, align=1)

        return types.uint64(data, position), generate

    @intrinsic(prefer_literal=False)
    def store_word(typing_context, data, position, word):
        """Write one uint64 to data[position : position + 8], little-endian, at any alignment."""
        if not (isinstance(data, types.Array) and data.dtype == types.uint8):
            return None

        def generate(context, builder, signature, args):
            base = context.make_array(data)(context, builder, args[0]).data
            index = context.cast(builder, args[1], position, types.intp)
            pointer = builder.bitcast(builder.gep(base, [index]), ir.IntType(64).as_pointer())
            builder.store(args[2], pointer, align=1)
            return context.get_dummy_value()

        return types.void(data, position, types.uint64), generate

    @intrinsic(prefer_literal=False)
    def prefetch(typing_context, array, position):
        """Ask for the cache line of array[position]; outside of the array it is harmless."""
        if not isinstance(array, types.Array):
            return None

        def generate(context, builder, signature, args):
            base = context.make_array(array)(context, builder, args[0]).data
            index = context.cast(builder, args[1], position, types.intp)
            byte_pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
            pointer = builder.bitcast(builder.gep(base, [index]), byte_pointer)
            function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag])
            function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], function_type)
            # For reading, into all cache levels, data cache.
            builder.call(function, [pointer, flag(0), flag(3), flag(1)])
            return context.get_dummy_value()

        return types.void(array, position), generate

else:

    def prefetch(array, position):
        """Ask for the cache line of array[position]; outside of the array it is harmless."""

    def load_word(data, position):
        """Read data[position : position + 8] as one uint64, little-endian, at any alignment."""
        return np.uint64(int.from_bytes(data[position : position + 8].tobytes(), "little"))

    def store_word(data, position, word):
        """Write one uint64 to data[position : position + 8], little-endian, at any alignment."""
        data[position : position + 8] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)


@kernel
def load_short(data, start, length):
    """Return a string of at most 8 bytes as an integer, zero padded.

    Reads past the string's end only within `data`: the last string of a buffer
    is assembled byte by byte, since foreign buffers need not be padded.
    """
    if length == 0:
        return ZERO
    if start + 8 <= data.size:
        return load_word(data, start) & (FULL >> np.uint64(64 - 8 * length))
    word = ZERO
    for i in range(length):
        word |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return word


@kernel
def mix(word, length):
    """Hash one integer; see the module's definition."""
    h = (word + np.uint64(length) * P1) * P2
    h ^= h >> _HALF
    h *= P3
    return h ^ (h >> _LEFT)


@kernel
def _round(h, word):
    h ^= word * P2
    return ((h << _LEFT) | (h >> _RIGHT)) * P3


@kernel
def hash_long(data, start, length):
    """Hash a string of more than 8 bytes."""
    h = np.uint64(length) * P1
    last = start + length - 8
    position = start
    while position < last:
        h = _round(h, load_word(data, position))
        position += 8
    return mix(_round(h, load_word(data, last)), length)


@kernel
def seeded_bytes(data, start, length, seed):
    """Hash a string of more than 8 bytes with a seed; see `headrace.memory.seeded`."""
    h = seed.s2
    last = start + length - 8
    position = start
    while position < last:
        h = fold(h ^ load_word(data, position), seed.s1)
        position += 8
    h = fold(h ^ load_word(data, last), seed.s1)
    return seeded(h ^ np.uint64(length), seed)


@kernel
def combine(h, part, count):
    """Add a further part's hash to the hash of a tuple of `count` parts."""
    return mix(((h << _LEFT) | (h >> _RIGHT)) ^ part, count)


@kernel
def is_equal(left, left_start, right, right_start, length):
    """Compare two strings of the same length, which is more than 8."""
    last = length - 8
    position = 0
    while position < last:
        if load_word(left, left_start + position) != load_word(right, right_start + position):
            return False
        position += 8
    return load_word(left, left_start + last) == load_word(right, right_start + last)


@kernel
def bucket_of(h, bucket_bits):
    """Return the top `bucket_bits` (0 to 63) bits of a hash."""
    return np.int64((h >> np.uint64(1)) >> np.uint64(63 - bucket_bits))
