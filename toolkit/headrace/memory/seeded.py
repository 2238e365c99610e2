"""A hash that only this process can compute, for the places of entries in tables of the user's data.

With a publicly known hash, an attacker who chooses the data can choose values that
all have one place: each lookup then walks past all the others. Here four random
words, drawn for each table, go into the hash, so nobody who does not know them can
choose colliding values. Only places in tables may depend on this hash: not results,
ids or saved data.

``fold(a, b)`` is the upper half of the 128-bit product xor its lower half, hence
each bit of the result depends on all bits of both::

    seeded(w)       fold(fold(w ^ s0, s1) ^ s2, s3)
    seeded_pair     fold(fold(w ^ s0, s1) ^ s2 ^ v, s3)
    seeded_bytes    h = s2; for each whole 8 bytes before the last byte, then for the
                    last 8 bytes: h = fold(h ^ w, s1); then seeded(h ^ length)

It resists attackers who cannot observe which values collide; it is not a
cryptographic hash. (Its two products take as long as the two of the stable hash
in `headrace.ingress.hashing`.)
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from headrace.kernel import JIT, kernel

SEED_WORDS = 4


class Seed(NamedTuple):
    """Four random words; the factors, s1 and s3, are odd."""

    s0: np.uint64
    s1: np.uint64
    s2: np.uint64
    s3: np.uint64


def draw_seed() -> Seed:
    """Return a new seed from the operating system's random numbers."""
    words = [secrets.randbits(64) for _ in range(SEED_WORDS)]
    return Seed(np.uint64(words[0]), np.uint64(words[1] | 1), np.uint64(words[2]), np.uint64(words[3] | 1))


if JIT:

    @intrinsic(prefer_literal=False)
    def fold(typing_context, a, b):
        """Return the upper half of the product of two uint64, xor its lower half."""
        if not (isinstance(a, types.Integer) and isinstance(b, types.Integer)):
            return None

        def generate(context, builder, signature, args):
            wide, word = ir.IntType(128), ir.IntType(64)
            product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
            upper = builder.trunc(builder.lshr(product, wide(64)), word)
            return builder.xor(upper, builder.trunc(product, word))

        return types.uint64(types.uint64, types.uint64), generate

else:

    def fold(a, b):
        """Return the upper half of the product of two uint64, xor its lower half."""
        product = int(a) * int(b)
        return np.uint64((product >> 64) ^ (product & 0xFFFFFFFFFFFFFFFF))


@kernel(borrows=True)
def seed_at(words, at):
    """Return the seed that lies in four words from `at` on."""
    return Seed(np.uint64(words[at]), np.uint64(words[at + 1]), np.uint64(words[at + 2]), np.uint64(words[at + 3]))


@kernel
def seeded(word, seed):
    """Hash one uint64; see the module's definition."""
    return fold(fold(word ^ seed.s0, seed.s1) ^ seed.s2, seed.s3)


@kernel
def seeded_pair(word, other, seed):
    """Hash two uint64."""
    return fold(fold(word ^ seed.s0, seed.s1) ^ seed.s2 ^ other, seed.s3)
