"""Many arrays as one argument: a named tuple that kernels take by reference.

Numba passes a named tuple of twenty arrays as some two hundred scalars, in every
call of every kernel: compiling an operator took 8 s, most of it spent on these.
A bundle is passed as one address. Reading a field loads the array's pointer and
shape from a descriptor that never changes. LLVM is told so (invariant loads), and
hoists the loads out of loops as it would with separate arguments (2.6 s).

Python code, and kernels without the compiler, see an ordinary named tuple. A field may itself be a bundle: the descriptor
holds its address, so kernels that take the inner bundle are compiled once, whatever bundle it is part of.

Invariants  I1  the descriptor is written once, when the bundle is made, and
                lives as long as the bundle; so does its Numba type
            I2  arrays read from a bundle carry no reference count: the
                caller of a kernel keeps the bundle alive during the call
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

from headrace.kernel import JIT

_HEAD_WORDS = 3
"""Before shape and strides: count, item size, address."""


class BundleType(types.Type):
    """Numba's view of a bundle: names and types of its fields, arrays or other bundles, in order."""

    def __init__(self, name: str, names: tuple[str, ...], arrays: tuple[Any, ...]):
        self.names, self.arrays = names, arrays
        fields = ", ".join(f"{n}: {a}" for n, a in zip(names, arrays, strict=True))
        # A hash: the type's name is part of the name of each function that takes it. There LLVM does not accept a letter
        # such as the dotless i, and a long name takes time.
        super().__init__(f"Bundle[{name} {hashlib.sha256(fields.encode()).hexdigest()[:16]}]")

    def offset_words(self, name: str) -> int:
        """The word at which a field's descriptor starts."""
        offset = 0
        for field, array in zip(self.names, self.arrays, strict=True):
            if field == name:
                return offset
            offset += 1 if isinstance(array, BundleType) else _HEAD_WORDS + 2 * array.ndim
        raise AttributeError(name)


@register_model(BundleType)
class _BundleModel(models.PrimitiveModel):
    def __init__(self, manager, type_):
        super().__init__(manager, type_, ir.IntType(64))


@infer_getattr
class _BundleAttributes(AttributeTemplate):
    key = BundleType

    def generic_resolve(self, type_, name):
        if name in type_.names:
            return type_.arrays[type_.names.index(name)]
        return None


@lower_getattr_generic(BundleType)
def _lower_field(context, builder, type_, value, name):
    array_type = type_.arrays[type_.names.index(name)]
    word = ir.IntType(64)
    base = builder.inttoptr(value, word.as_pointer())
    first = type_.offset_words(name)
    unchanging = builder.module.add_metadata([])

    def load(index):
        loaded = builder.load(builder.gep(base, [ir.Constant(word, first + index)]), align=8)
        loaded.set_metadata("invariant.load", unchanging)
        return loaded

    if isinstance(array_type, BundleType):
        return load(0)
    item = context.get_data_type(array_type.dtype)
    item_bytes = context.get_constant(types.intp, array_type.dtype.bitwidth // 8)
    shape = [load(_HEAD_WORDS + d) for d in range(array_type.ndim)]
    strides = [load(_HEAD_WORDS + array_type.ndim + d) for d in range(array_type.ndim - 1)]
    array = context.make_array(array_type)(context, builder)
    context.populate_array(
        array,
        data=builder.inttoptr(load(2), item.as_pointer()),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, [*strides, item_bytes]),
        itemsize=item_bytes,
        meminfo=None,
    )
    return array._getvalue()


@unbox(BundleType)
def _unbox(type_, obj, c):
    number = c.pyapi.object_getattr_string(obj, "_address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    return NativeValue(address, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


def _describe(arrays: tuple[Any, ...]) -> np.ndarray:
    words: list[int] = []
    for array in arrays:
        if is_bundle(array):
            words.append(array._address)
            continue
        if not array.flags.c_contiguous:
            raise ValueError("a bundle takes C contiguous arrays only")
        words += [array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides]
    return np.array(words, np.int64)


_array_types: dict[tuple[np.dtype, int, bool], Any] = {}
"""Types of C contiguous arrays. Numba takes 13 us to find one, and a small run has some eighty."""


def _typeof_field(field: Any, context: Any) -> Any:
    if is_bundle(field):
        return typeof_impl(field, context)
    key = field.dtype, field.ndim, field.flags.writeable
    known = _array_types.get(key)
    if known is None:
        known = _array_types[key] = typeof_impl(field, context)
    return known


def by_reference(fields: type) -> Any:
    """Class decorator: turn a `NamedTuple` of C contiguous arrays, or of bundles, into a bundle.

    Examples
    --------
    >>> import numba
    >>> @by_reference
    ... class Pair(NamedTuple):
    ...     a: np.ndarray
    ...     b: np.ndarray
    >>> @numba.njit
    ... def total(pair):
    ...     return pair.a[0] + pair.b[1]
    >>> int(total(Pair(np.array([1, 2]), np.array([3, 4]))))
    5
    """
    names = tuple(fields._fields)

    class Bundle(fields):
        def __new__(cls, *args, **kwargs):
            bundle = super().__new__(cls, *args, **kwargs)
            bundle._descriptor = _describe(tuple(bundle))
            bundle._address = int(bundle._descriptor.ctypes.data)
            bundle._type = None
            return bundle

    Bundle.__name__, Bundle.__qualname__ = fields.__name__, fields.__qualname__
    Bundle.__module__, Bundle.__doc__ = fields.__module__, fields.__doc__
    if JIT:

        @typeof_impl.register(Bundle)
        def _typeof(value, context):
            # Called before each call of a kernel that may not be compiled yet: some hundred times when a run starts.
            if value._type is None:
                value._type = BundleType(fields.__qualname__, names, tuple(_typeof_field(field, context) for field in value))
            return value._type

    return Bundle


def is_bundle(value: Any) -> bool:
    """Whether the value is a bundle of arrays."""
    return hasattr(value, "_address")


def place_of(bundle: Any) -> int:
    """Return the address by which compiled code knows a bundle, for as long as the bundle lives."""
    return bundle._address


def opaque(bundle: Any) -> Any:
    """Return what stands for a bundle in a kernel that does not look into it; the caller keeps the bundle itself alive."""
    return bundle._address if JIT else bundle


@functools.cache
def _named(names: tuple[str, ...]) -> Any:
    fields = NamedTuple("Named", [(name, np.ndarray) for name in names])  # type: ignore[misc]
    return by_reference(fields)


def named(**arrays: np.ndarray) -> Any:
    """Bundle arrays under names chosen at run time, as for an operator's state and scratch memory.

    Examples
    --------
    >>> state = named(counts=np.zeros(4, np.uint32), opened=np.zeros(2, np.int64))
    >>> state._fields, state.counts.size
    (('counts', 'opened'), 4)
    """
    return _named(tuple(arrays))(**arrays)
