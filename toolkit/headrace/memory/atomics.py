"""CPU atomics, fences, clocks, futexes and array views for compiled kernels.

Numba offers no CPU atomics, and a plain load in a spin loop is hoisted by LLVM
and never sees the other thread's store. This module is the one audited place
that emits them, as intrinsics over LLVM's own atomic instructions. Every
function takes ``(array, index, ...)`` where the array is one-dimensional and C
contiguous. None of them checks bounds.

Ordering    ``load_acquire``   nothing after it moves before it
            ``store_release``  nothing before it moves after it
            ``fetch_add``, ``compare_exchange``   acquire and release
            ``exchange``, ``fence``               sequentially consistent
            ``load_relaxed``, ``store_relaxed``   only not torn, not hoisted
            ``prefetch``, ``prefetch_for_write``  none: hints
On x86-64 acquire loads and release stores are plain moves; the orderings still
bind the compiler, and they are what AArch64 needs.

Without the compiler (``NUMBA_DISABLE_JIT=1``) the same names are plain Python
functions, so that every kernel can be run, and every interleaving of it be
explored, by the interpreter.

Checked     tests/headrace/memory/test_atomics.py reads the LLVM IR; litmus
            tests in tests/litmus run them on real cores.
"""

from __future__ import annotations

import ctypes
import platform
import threading
import time

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from headrace.kernel import JIT

CELL = 16
"""int64 words in a padded cell: 128 bytes, so that neither false sharing nor
the adjacent-line prefetcher couples two cells."""
EVENT_CELL = 32
"""The same for futex words, which are int32."""

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_VOID_PTR = _I8.as_pointer()
_MACHINE = platform.machine()
HAS_FUTEX = platform.system() == "Linux" and _MACHINE in ("x86_64", "aarch64")
_SYS_FUTEX = {"x86_64": 202, "aarch64": 98}.get(_MACHINE, -1)
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129


def clock_of(system: str, implementation: str) -> int:
    """The clock id that a system's `clock_gettime` takes for the clock that `time.monotonic_ns` reads.

    Compiled code and Python subtract each other's times, so they must read one
    clock. On macOS Python reads ``mach_absolute_time``, which stops while the
    machine sleeps: it is CLOCK_UPTIME_RAW, as CLOCK_MONOTONIC does not stop.

    Parameters
    ----------
    system : str
        Its name in `platform.system`.
    implementation : str
        The name of the clock in ``time.get_clock_info("monotonic")``.
    """
    if system == "Darwin":
        return 8 if "mach_absolute_time" in implementation else 6
    return 1


_CLOCK = clock_of(platform.system(), time.get_clock_info("monotonic").implementation)


def _is_cell(array, index) -> bool:
    return (
        isinstance(array, types.Array)
        and array.ndim == 1
        and isinstance(array.dtype, types.Integer)
        and isinstance(index, types.Integer)
    )


def _pointer(context, builder, array_type, array, index_type, index):
    # From the array's own data field: llvmlite's store_atomic reads the pointee type.
    base = context.make_array(array_type)(context, builder, array).data
    return builder.gep(base, [context.cast(builder, index, index_type, types.intp)], inbounds=True)


def _declare(builder, name, result, arguments, variadic=False):
    function_type = ir.FunctionType(result, arguments, var_arg=variadic)
    return cgutils.get_or_insert_function(builder.module, function_type, name)


def _compile_load(order):
    @intrinsic(prefer_literal=False)
    def load(typing_context, array, index):
        if not _is_cell(array, index):
            return None

        def generate(context, builder, signature, args):
            pointer = _pointer(context, builder, array, args[0], index, args[1])
            value_type = context.get_data_type(array.dtype)
            return builder.load_atomic(pointer, order, array.dtype.bitwidth // 8, typ=value_type)

        return array.dtype(array, index), generate

    return load


def _compile_store(order):
    @intrinsic(prefer_literal=False)
    def store(typing_context, array, index, value):
        if not (_is_cell(array, index) and isinstance(value, types.Integer)):
            return None

        def generate(context, builder, signature, args):
            pointer = _pointer(context, builder, array, args[0], index, args[1])
            builder.store_atomic(
                context.cast(builder, args[2], value, array.dtype), pointer, order, array.dtype.bitwidth // 8
            )
            return context.get_dummy_value()

        return types.void(array, index, value), generate

    return store


def _compile_update(operation, order):
    @intrinsic(prefer_literal=False)
    def update(typing_context, array, index, value):
        if not (_is_cell(array, index) and isinstance(value, types.Integer)):
            return None

        def generate(context, builder, signature, args):
            pointer = _pointer(context, builder, array, args[0], index, args[1])
            return builder.atomic_rmw(
                operation, pointer, context.cast(builder, args[2], value, array.dtype), order
            )

        return array.dtype(array, index, value), generate

    return update


def _compile_view(dtype):
    @intrinsic(prefer_literal=False)
    def view(typing_context, address, count):
        if not (isinstance(address, types.Integer) and isinstance(count, types.Integer)):
            return None
        array_type = types.Array(dtype, 1, "C")

        def generate(context, builder, signature, args):
            array = context.make_array(array_type)(context, builder)
            item = context.get_data_type(dtype)
            pointer = builder.inttoptr(
                context.cast(builder, args[0], address, types.intp), item.as_pointer()
            )
            size = context.cast(builder, args[1], count, types.intp)
            width = context.get_constant(types.intp, dtype.bitwidth // 8)
            context.populate_array(
                array, data=pointer, shape=[size], strides=[width], itemsize=width, meminfo=None
            )
            return array._getvalue()

        return array_type(address, count), generate

    return view


def _compile_prefetch(for_write):
    @intrinsic(prefer_literal=False)
    def fetch(typing_context, array, index):
        if not _is_cell(array, index):
            return None

        def generate(context, builder, signature, args):
            pointer = builder.bitcast(_pointer(context, builder, array, args[0], index, args[1]), _VOID_PTR)
            hint = _declare(builder, "llvm.prefetch.p0", ir.VoidType(), [_VOID_PTR, _I32, _I32, _I32])
            # into the nearest cache (3), data (1)
            builder.call(hint, [pointer, *(ir.Constant(_I32, word) for word in (for_write, 3, 1))])
            return context.get_dummy_value()

        return types.void(array, index), generate

    return fetch


if JIT:
    prefetch = _compile_prefetch(0)
    prefetch_for_write = _compile_prefetch(1)
    load_acquire = _compile_load("acquire")
    load_relaxed = _compile_load("monotonic")
    store_release = _compile_store("release")
    store_relaxed = _compile_store("monotonic")
    fetch_add = _compile_update("add", "acq_rel")
    exchange = _compile_update("xchg", "seq_cst")

    @intrinsic(prefer_literal=False)
    def compare_exchange(typing_context, array, index, expected, desired):
        """Store `desired` if the cell holds `expected`; true if it did."""
        if not _is_cell(array, index):
            return None

        def generate(context, builder, signature, args):
            pointer = _pointer(context, builder, array, args[0], index, args[1])
            result = builder.cmpxchg(
                pointer,
                context.cast(builder, args[2], expected, array.dtype),
                context.cast(builder, args[3], desired, array.dtype),
                "acq_rel",
                "acquire",
            )
            return builder.extract_value(result, 1)

        return types.boolean(array, index, expected, desired), generate

    @intrinsic
    def fence(typing_context):
        """Order every access before it with every access after it (seq_cst)."""

        def generate(context, builder, signature, args):
            builder.fence("seq_cst")
            return context.get_dummy_value()

        return types.void(), generate

    @intrinsic
    def pause(typing_context):
        """Tell the core that this is a spin loop."""

        def generate(context, builder, signature, args):
            # An LLVM intrinsic: inline assembly aborts the process.
            if _MACHINE in ("x86_64", "AMD64"):
                builder.call(_declare(builder, "llvm.x86.sse2.pause", ir.VoidType(), []), [])
            elif _MACHINE in ("aarch64", "arm64"):
                hint = _declare(builder, "llvm.aarch64.hint", ir.VoidType(), [_I32])
                builder.call(hint, [ir.Constant(_I32, 1)])
            return context.get_dummy_value()

        return types.void(), generate

    @intrinsic
    def yield_core(typing_context):
        """Let another thread that waits for this core run, if there is one."""

        def generate(context, builder, signature, args):
            builder.call(_declare(builder, "sched_yield", _I32, []), [])
            return context.get_dummy_value()

        return types.void(), generate

    def _timespec(context, builder, nanoseconds):
        spec = cgutils.alloca_once(builder, ir.ArrayType(_I64, 2))
        zero, one = ir.Constant(_I32, 0), ir.Constant(_I32, 1)
        second = ir.Constant(_I64, 1_000_000_000)
        builder.store(builder.sdiv(nanoseconds, second), builder.gep(spec, [zero, zero], inbounds=True))
        builder.store(builder.srem(nanoseconds, second), builder.gep(spec, [zero, one], inbounds=True))
        return builder.bitcast(spec, _VOID_PTR)

    @intrinsic
    def now_ns(typing_context):
        """The monotonic clock in nanoseconds; the clock of `time.monotonic_ns`."""

        def generate(context, builder, signature, args):
            spec = cgutils.alloca_once(builder, ir.ArrayType(_I64, 2))
            clock = _declare(builder, "clock_gettime", _I32, [_I32, _VOID_PTR])
            builder.call(clock, [ir.Constant(_I32, _CLOCK), builder.bitcast(spec, _VOID_PTR)])
            zero, one = ir.Constant(_I32, 0), ir.Constant(_I32, 1)
            seconds = builder.load(builder.gep(spec, [zero, zero], inbounds=True))
            rest = builder.load(builder.gep(spec, [zero, one], inbounds=True))
            return builder.add(builder.mul(seconds, ir.Constant(_I64, 1_000_000_000)), rest)

        return types.int64(), generate

    @intrinsic(prefer_literal=False)
    def nanosleep(typing_context, nanoseconds):
        """Sleep at least that long (the kernel adds its timer slack, about 50 us)."""

        def generate(context, builder, signature, args):
            spec = _timespec(context, builder, context.cast(builder, args[0], nanoseconds, types.int64))
            sleep = _declare(builder, "nanosleep", _I32, [_VOID_PTR, _VOID_PTR])
            builder.call(sleep, [spec, ir.Constant(_VOID_PTR, None)])
            return context.get_dummy_value()

        return types.void(nanoseconds), generate

    @intrinsic(prefer_literal=False)
    def _futex_wait(typing_context, array, index, expected, timeout_ns):
        if not (_is_cell(array, index) and array.dtype == types.int32):
            return None

        def generate(context, builder, signature, args):
            pointer = _pointer(context, builder, array, args[0], index, args[1])
            spec = _timespec(context, builder, context.cast(builder, args[3], timeout_ns, types.int64))
            call = _declare(builder, "syscall", _I64, [_I64], variadic=True)
            value = builder.sext(context.cast(builder, args[2], expected, types.int32), _I64)
            return builder.call(
                call,
                [
                    ir.Constant(_I64, _SYS_FUTEX),
                    builder.bitcast(pointer, _VOID_PTR),
                    ir.Constant(_I64, _FUTEX_WAIT_PRIVATE),
                    value,
                    spec,
                    ir.Constant(_VOID_PTR, None),
                    ir.Constant(_I64, 0),
                ],
            )

        return types.int64(array, index, expected, timeout_ns), generate

    @intrinsic(prefer_literal=False)
    def _futex_wake(typing_context, array, index, count):
        if not (_is_cell(array, index) and array.dtype == types.int32):
            return None

        def generate(context, builder, signature, args):
            pointer = _pointer(context, builder, array, args[0], index, args[1])
            call = _declare(builder, "syscall", _I64, [_I64], variadic=True)
            return builder.call(
                call,
                [
                    ir.Constant(_I64, _SYS_FUTEX),
                    builder.bitcast(pointer, _VOID_PTR),
                    ir.Constant(_I64, _FUTEX_WAKE_PRIVATE),
                    context.cast(builder, args[2], count, types.int64),
                    ir.Constant(_VOID_PTR, None),
                    ir.Constant(_VOID_PTR, None),
                    ir.Constant(_I64, 0),
                ],
            )

        return types.int64(array, index, count), generate

    from headrace.kernel import kernel

    if HAS_FUTEX:
        futex_wait, futex_wake = _futex_wait, _futex_wake
    else:
        _POLL_NS = 100_000

        @kernel
        def futex_wait(array, index, expected, timeout_ns):
            """Poll: there is no futex here. Short sleeps until the word differs."""
            waited = 0
            while waited < timeout_ns and load_acquire(array, index) == expected:
                nanosleep(_POLL_NS)
                waited += _POLL_NS
            return 0

        @kernel
        def futex_wake(array, index, count):
            """Do nothing: pollers see the changed word themselves."""
            return 0

    @intrinsic
    def borrowed(typing_context, array):
        """The same array without its reference count, for a kernel whose caller keeps it alive."""

        def generate(context, builder, signature, args):
            (kind,) = signature.args
            made = context.make_array(kind)(context, builder, args[0])
            made.meminfo = cgutils.get_null_value(made.meminfo.type)
            return made._getvalue()

        return (array(array), generate) if isinstance(array, types.Array) else None

    view_i64 = _compile_view(types.int64)
    view_i32 = _compile_view(types.int32)
    view_u32 = _compile_view(types.uint32)
    view_f64 = _compile_view(types.float64)
    view_f32 = _compile_view(types.float32)
    view_u8 = _compile_view(types.uint8)

else:
    # The interpreter: the GIL orders single accesses, the lock makes updates indivisible.
    _lock = threading.Lock()

    def load_acquire(array, index):
        return int(array[index])

    def store_release(array, index, value):
        array[index] = value

    load_relaxed, store_relaxed = load_acquire, store_release

    def fetch_add(array, index, value):
        with _lock:
            old = int(array[index])
            array[index] = old + value
            return old

    def exchange(array, index, value):
        with _lock:
            old = int(array[index])
            array[index] = value
            return old

    def compare_exchange(array, index, expected, desired):
        with _lock:
            if int(array[index]) != expected:
                return False
            array[index] = desired
            return True

    def fence():
        pass

    def prefetch(array, index):
        pass

    prefetch_for_write = prefetch

    def pause():
        time.sleep(0)

    yield_core = pause

    def now_ns():
        return time.monotonic_ns()

    def nanosleep(nanoseconds):
        time.sleep(nanoseconds * 1e-9)

    def futex_wait(array, index, expected, timeout_ns):
        end = time.monotonic_ns() + timeout_ns
        while int(array[index]) == expected and time.monotonic_ns() < end:
            time.sleep(20e-6)
        return 0

    def futex_wake(array, index, count):
        return 0

    def borrowed(array):
        return array

    def _interpreted_view(c_type, dtype):
        def view(address, count):
            if count == 0:
                return np.empty(0, dtype)
            return np.ctypeslib.as_array((c_type * int(count)).from_address(int(address)))

        return view

    view_i64 = _interpreted_view(ctypes.c_int64, np.int64)
    view_i32 = _interpreted_view(ctypes.c_int32, np.int32)
    view_u32 = _interpreted_view(ctypes.c_uint32, np.uint32)
    view_f64 = _interpreted_view(ctypes.c_double, np.float64)
    view_f32 = _interpreted_view(ctypes.c_float, np.float32)
    view_u8 = _interpreted_view(ctypes.c_uint8, np.uint8)
