"""Sums and products of whole numbers that wrap around in 64 bits.

Numba tells LLVM that no ``+``, ``-`` or ``*`` of signed integers overflows. An overflow is therefore undefined, not merely
truncated: LLVM may drop everything that follows from it, and does, depending on what is inlined where. Hashes and the detection
of overflows use these kernels instead. User functions wrap around throughout (`linkable.let_wrap`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from headrace.kernel import JIT

__all__ = ["wrapped_product", "wrapped_sum"]

if JIT:

    def _wrapped(operation: str) -> Callable:
        def wrapped(typing_context, a, b):
            if not (isinstance(a, types.Integer) and isinstance(b, types.Integer)):
                return None

            def generate(context, builder, signature, args):
                left, right = (
                    context.cast(builder, each, given, types.int64) for each, given in zip(args, (a, b), strict=True)
                )
                return getattr(builder, operation)(left, right)

            return types.int64(a, b), generate

        return wrapped

    wrapped_sum: Callable[[Any, Any], Any] = intrinsic(prefer_literal=False)(_wrapped("add"))
    """``a + b`` of integers, as int64."""
    wrapped_product: Callable[[Any, Any], Any] = intrinsic(prefer_literal=False)(_wrapped("mul"))
    """``a * b`` of integers, as int64."""

else:

    def _cut(number: int) -> np.int64:
        return np.int64((number + 2**63) % 2**64 - 2**63)

    def wrapped_sum(a, b):
        return _cut(int(a) + int(b))

    def wrapped_product(a, b):
        return _cut(int(a) * int(b))
