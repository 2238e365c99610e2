"""Words of one worker: an array that kernels take by its address alone.

Numba passes an array as seven scalars (on the stack, once other arguments have taken the
registers), counts references to it in every kernel, and tests each index for being
negative. For an array that every kernel of a loop takes, to read and write it at fixed
places, that was a fifth of the time of a trivial pipeline. Here bounds are not checked,
and a negative index does not count from the end.

Python code, and kernels without the compiler, see an ordinary array.
"""

from __future__ import annotations

import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

from headrace.memory.cells import aligned

_I64 = ir.IntType(64)


class Words(np.ndarray):
    """A one-dimensional int64 array that must stay alive while a kernel has it; made by `own_words`."""


class WordsType(types.Type):
    """The Numba type of `Words`."""

    def __init__(self) -> None:
        super().__init__("Words")


def own_words(count: int) -> Words:
    """Allocate this many words, all 0, on cache lines of their own.

    Examples
    --------
    >>> import numba
    >>> @numba.njit
    ... def double(l):
    ...     l[1] = 2 * l[0]
    ...     return l[1]
    >>> l = own_words(2)
    >>> l[0] = 21
    >>> int(double(l))
    42
    """
    return aligned(count, np.int64).view(Words)


@register_model(WordsType)
class _WordsModel(models.PrimitiveModel):
    def __init__(self, manager, type_):
        super().__init__(manager, type_, _I64)


@typeof_impl.register(Words)
def _typeof(value, context):
    if value.dtype != np.int64 or value.ndim != 1 or not value.flags.c_contiguous:
        raise ValueError("words are int64, of one dimension, without gaps")
    return WordsType()


@unbox(WordsType)
def _unbox(type_, obj, c):
    data = c.pyapi.object_getattr_string(obj, "ctypes")
    number = c.pyapi.object_getattr_string(data, "data")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    c.pyapi.decref(data)
    return NativeValue(address, is_error=c.builder.icmp_signed("!=", c.pyapi.err_occurred(), ir.Constant(c.pyapi.pyobj, None)))


@infer_global(operator.getitem)  # type: ignore[misc]  # its module does not say what it returns
class _Getting(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 2 and isinstance(args[0], WordsType) and isinstance(args[1], types.Integer):
            return signature(types.int64, args[0], types.int64)
        return None


@infer_global(operator.setitem)  # type: ignore[misc]
class _Setting(AbstractTemplate):
    def generic(self, args, kws):
        if len(args) == 3 and isinstance(args[0], WordsType) and isinstance(args[1], types.Integer):
            return signature(types.none, args[0], types.int64, types.int64)
        return None


def _place(builder, address, index):
    return builder.gep(builder.inttoptr(address, _I64.as_pointer()), [index], inbounds=True)


@lower_builtin(operator.getitem, WordsType, types.int64)
def _get(context, builder, sig, args):
    return builder.load(_place(builder, *args))


@lower_builtin(operator.setitem, WordsType, types.int64, types.int64)
def _set(context, builder, sig, args):
    builder.store(args[2], _place(builder, args[0], args[1]))
    return context.get_dummy_value()


__all__ = ["Words", "WordsType", "own_words"]
