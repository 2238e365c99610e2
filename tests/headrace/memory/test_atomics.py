"""The atomics: what LLVM is told, what it makes of it, and that updates are not lost.

Property    each atomic is the LLVM instruction its name promises, and stays
            where it is; updates by several threads are exact.
Oracle      the text of the LLVM IR and of the machine code; sums and list lengths.
Cannot see  orderings that x86-64 gives anyway: the IR is all the evidence for
            other machines.
"""

import mmap
import os
import platform
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from headrace.kernel import JIT, kernel
from headrace.memory import atomics, cells
from headrace.memory.atomics import (
    CELL,
    borrowed,
    compare_exchange,
    exchange,
    fence,
    fetch_add,
    futex_wake,
    load_acquire,
    load_relaxed,
    nanosleep,
    now_ns,
    pause,
    prefetch,
    prefetch_for_write,
    store_relaxed,
    store_release,
    yield_core,
)
from interleave import TSO, Kernels, exhaustive, find_failure, sampled

compiled = pytest.mark.skipif(not JIT, reason="the interpreter has no LLVM IR")


@kernel
def every_atomic(a, event):
    store_release(a, 0, load_acquire(a, 1))
    store_relaxed(a, 2, load_relaxed(a, 3))
    fetch_add(a, 4, 5)
    exchange(a, 5, 6)
    compare_exchange(a, 6, 7, 8)
    fence()
    pause()
    yield_core()
    prefetch(a, 0)
    prefetch_for_write(a, 0)
    nanosleep(1)
    futex_wake(event, 0, 1)
    return now_ns()


@kernel
def spin(a):
    """The loop of numba#1351: a plain load is hoisted out of it and it never ends."""
    count = 0
    while load_acquire(a, 0) == 0:
        count += 1
    return count


@kernel
def spin_relaxed(a):
    count = 0
    while load_relaxed(a, 0) == 0:
        count += 1
    return count


@kernel
def count_up(a, times):
    for _ in range(times):
        fetch_add(a, 0, 1)


@kernel
def count_up_by_compare(a, times):
    for _ in range(times):
        while True:
            old = load_acquire(a, 0)
            if compare_exchange(a, 0, old, old + 1):
                break


@kernel
def push_all(words, following, first, count):
    """Treiber's stack: a lost update loses a node, and LLVM cannot fold the loop."""
    for node in range(first, first + count):
        while True:
            top = load_acquire(words, 0)
            following[node] = top
            if compare_exchange(words, 0, top, node):
                break


@kernel
def push_all_badly(words, following, first, count):
    for node in range(first, first + count):
        top = load_acquire(words, 0)
        following[node] = top
        store_release(words, 0, node)


def compiled_afresh(function, *arguments):
    """The kernel outside the cache: Numba does not show what it has loaded from there."""
    fresh = njit(nogil=True, error_model="numpy")(function.py_func)
    fresh(*arguments)
    return fresh


def ir_of(function, *arguments):
    return next(iter(compiled_afresh(function, *arguments).inspect_llvm().values()))


def asm_of(function, *arguments):
    return next(iter(compiled_afresh(function, *arguments).inspect_asm().values()))


# -- what LLVM is told -------------------------------------------------------------------------------


@compiled
@pytest.mark.parametrize(
    "instruction",
    [
        r"load atomic i64, .* acquire, align 8",
        r"load atomic i64, .* monotonic, align 8",
        r"store atomic i64 .* release, align 8",
        r"store atomic i64 .* monotonic, align 8",
        r"atomicrmw add .* acq_rel",
        r"atomicrmw xchg .* seq_cst",
        r"cmpxchg .* acq_rel acquire",
        r"fence seq_cst",
        r"call i32 @sched_yield",
        r"call void @llvm.prefetch.* i32 0, i32 3, i32 1",
        r"call void @llvm.prefetch.* i32 1, i32 3, i32 1",
    ],
)
def test_example_ir_has_the_instruction(instruction):
    ir = ir_of(every_atomic, np.zeros(8, np.int64), np.zeros(1, np.int32))
    assert re.search(instruction, ir), instruction


@compiled
@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 machine code")
def test_example_machine_code_has_the_locked_instructions():
    asm = asm_of(every_atomic, np.zeros(8, np.int64), np.zeros(1, np.int32))
    for instruction in (r"lock\s+cmpxchg", r"lock\s+(x?add|inc)", r"xchg", r"mfence|lock\s+or", r"pause"):
        assert re.search(instruction, asm), instruction


@compiled
@pytest.mark.parametrize("function", [spin, spin_relaxed])
def test_example_a_spin_loop_keeps_its_load(function):
    """It ends when another thread stores: a hoisted load would never see that."""
    a = np.ones(1, np.int64)
    assert "load atomic" in ir_of(function, a)
    a[0] = 0
    thread = threading.Thread(target=function, args=(a,), daemon=True)
    thread.start()
    time.sleep(0.02)
    atomics_store(a)
    thread.join(180)
    assert not thread.is_alive()


@kernel
def atomics_store(a):
    store_release(a, 0, 1)


@compiled
def test_example_the_argument_of_the_gates_is_in_their_ir():
    """The orderings that the comments in the kernel files cite are what LLVM is given."""
    from headrace.gates import MergedLog, ScaleGate

    for gate in (MergedLog(2, 1, 16), ScaleGate(2, 1, 16)):
        kernels, g = gate._kernels, gate.arrays
        ts = np.arange(4)
        add = ir_of(gate._sources.add, g, 0, ts, 0, 2, 0)
        peek = ir_of(kernels.peek, g, 0, 0, 1)
        advance = ir_of(kernels.advance, g, 0, 0)
        assert re.search(r"store atomic i64 .* release", add), "A2, A3"
        assert re.search(r"load atomic i64, .* acquire", add), "M0, A0"
        assert re.search(r"cmpxchg .* acq_rel acquire", add), "the flag; A2 of the skip list"
        assert re.search(r"load atomic i64, .* acquire", peek), "R1, R2"
        assert re.search(r"store atomic i64 .* release", advance), "R3"
        assert "fence seq_cst" in add and "fence seq_cst" in advance, "before waiters are looked for"


# -- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint64, np.uint8])
def test_example_values(dtype):
    a = np.zeros(4, dtype)
    values = one_of_each(a)
    assert values == (0, 7, 7, 9, True, False)
    assert a.tolist() == [7, 9, 3, 0]


@kernel
def one_of_each(a):
    store_release(a, 0, 7)
    old = fetch_add(a, 1, 7)
    seen = load_acquire(a, 0)
    before = exchange(a, 1, 9)
    store_relaxed(a, 3, 0)
    hit = compare_exchange(a, 2, 0, 3)
    miss = compare_exchange(a, 2, 0, 4)
    return old, seen, before, load_relaxed(a, 1), hit, miss


@kernel
def first_of(view, address):
    return view(address, 1)[0]


@kernel
def views(address):
    return (
        atomics.view_i64(address, 1)[0],
        atomics.view_i32(address, 2)[1],
        atomics.view_u8(address, 8)[0],
        atomics.view_f64(address, 1)[0],
    )


def test_example_views_read_memory_by_address():
    a = np.array([5, 7], np.int32)
    whole, second, byte, real = views(a.ctypes.data)
    assert (whole, second, byte) == (a.view(np.int64)[0], 7, 5)
    assert real == a.view(np.float64)[0]


@kernel
def first_and_size(array):
    array[0] += 1
    return array.size


@kernel
def lent(array, times):
    total = 0
    for _ in range(times):
        given = borrowed(array)
        total += first_and_size(given)
    return total


def test_example_a_borrowed_array_is_the_array_and_counts_no_reference():
    a = np.array([[5, 7], [1, 2]])[0]
    counted = sys.getrefcount(a), sys.getrefcount(a.base)
    assert lent(a, 1000) == 2000 and a.tolist() == [1005, 7]
    assert (sys.getrefcount(a), sys.getrefcount(a.base)) == counted


@kernel
def clock():
    return now_ns()


def test_example_the_clock_is_that_of_python():
    before = time.monotonic_ns()
    now = clock()
    assert before <= now <= time.monotonic_ns()


@pytest.mark.parametrize(
    "system, implementation, number",
    [
        ("Linux", "clock_gettime(CLOCK_MONOTONIC)", 1),
        ("Darwin", "mach_absolute_time()", 8),  # CLOCK_UPTIME_RAW: neither counts while the machine sleeps
        ("Darwin", "clock_gettime(CLOCK_MONOTONIC)", 6),
    ],
)
def test_example_compiled_code_and_python_read_one_clock(system, implementation, number):
    assert atomics.clock_of(system, implementation) == number


@compiled
def test_example_the_clock_of_this_platform_is_the_one_compiled_in():
    number = atomics.clock_of(platform.system(), time.get_clock_info("monotonic").implementation)
    assert re.search(rf"call i32 @clock_gettime\(i32 {number}, ", ir_of(clock))


def test_example_cells():
    for count in (0, 1, 3, 100):
        a = cells.aligned(count, np.int64)
        assert a.size == count and a.ctypes.data % 128 == 0 and not a.any()
        assert cells.padded_cells(count).size == count * CELL
        big = cells.reserved(count, np.int32)
        assert big.size == count and big.flags.writeable
    huge = cells.reserved(1 << 27, np.int64)  # 1 GiB of address space
    huge[1 << 26] = 1
    assert huge[1 << 26] == 1 and huge[0] == 0
    for count in (1, 3, 1 << 20):
        huge = cells.reserved(count, np.int32, huge_pages=True)
        assert huge.size == count and huge.ctypes.data % cells.HUGE_PAGE == 0 and not huge.any()
        huge[:] = 5


def test_example_aligned_arrays_share_no_cache_line_with_anything():
    blocks = []
    for count in (1, 15, 16, 17, 277) * 10:
        a = cells.aligned(count, np.int64)
        begin, end = a.ctypes.data, a.ctypes.data + a.nbytes
        blocks.append((a, begin // 128, -(-end // 128)))
        beside = np.zeros(count, np.int64)
        blocks.append((beside, beside.ctypes.data // 128, -(-(beside.ctypes.data + beside.nbytes) // 128)))
    for a, begin, end in blocks[::2]:
        assert not [1 for b, first, last in blocks if b is not a and first < end and begin < last]


def pages_supplied(memory):
    """How many the system supplies when each page is written to."""
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    memory[:: mmap.PAGESIZE // 8] += 1
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def test_example_touched_memory_is_there_and_keeps_its_values():
    pages = 2000

    def small_pages():
        memory = mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        return np.frombuffer(memory, np.int64)

    assert pages_supplied(small_pages()) >= pages
    cells.touch(np.zeros(1, np.int64))  # compiles
    memory = small_pages()
    memory[5], memory[-1] = 7, 9
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    cells.touch(memory)
    if JIT:
        assert resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before < 1.5 * pages, "once each"
    assert pages_supplied(memory) < pages / 10
    assert (memory[5], memory[-1], memory[0], memory[-mmap.PAGESIZE // 8]) == (7, 9, 1, 1)
    cells.touch(np.zeros(0, np.int64))


# -- several threads ---------------------------------------------------------------------------------


def run_together(function, arguments):
    threads = [threading.Thread(target=function, args=a, daemon=True) for a in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@compiled
@pytest.mark.stress
@pytest.mark.parametrize("function", [count_up, count_up_by_compare])
def test_litmus_counters_are_exact(function):
    """What it cannot see: LLVM may fold a plain loop into one add, so see the stack below."""
    a = np.zeros(1, np.int64)
    function(a, 0)
    run_together(function, [(a, 500_000)] * 3)
    assert a[0] == 1_500_000


def stack_length(words, following):
    length, node = 0, int(words[0])
    while node >= 0:
        length, node = length + 1, int(following[node])
    return length


@compiled
@pytest.mark.stress
def test_litmus_no_push_is_lost():
    count, threads = 200_000, 3
    words, following = np.full(1, -1, np.int64), np.zeros(count * threads, np.int64)
    push_all(words, following, 0, 0)
    run_together(push_all, [(words, following, t * count, count) for t in range(threads)])
    assert stack_length(words, following) == count * threads


@compiled
@pytest.mark.stress
def test_litmus_the_stack_shows_a_lost_push():
    """The test above can fail: without the compare, pushes are lost."""
    count = 1_000_000
    push_all_badly(np.full(1, -1, np.int64), np.zeros(1, np.int64), 0, 0)
    for _ in range(20):
        words, following = np.full(1, -1, np.int64), np.zeros(count * 2, np.int64)
        run_together(push_all_badly, [(words, following, t * count, count) for t in range(2)])
        if stack_length(words, following) < count * 2:
            return
    pytest.skip("this machine did not run both threads at once")


# -- every schedule ----------------------------------------------------------------------------------


def push(words, following, first, count):
    for node in range(first, first + count):
        while True:
            top = load_acquire(words, 0)
            following[node] = top
            if compare_exchange(words, 0, top, node):
                break


def push_badly(words, following, first, count):
    for node in range(first, first + count):
        top = load_acquire(words, 0)
        following[node] = top
        store_release(words, 0, node)


def stack_case(program, threads, count):
    k = Kernels(programs=[program], shared=("following",))

    def build():
        words, following = [-1], [0] * (threads * count)

        def check():
            found = stack_length(words, following)
            assert found == threads * count, f"a push is lost: {found} of {threads * count}"

        return [getattr(k, program.__name__)(words, following, t * count, count) for t in range(threads)], check

    return build


@pytest.mark.slow
def test_interleave_every_schedule_of_the_stack():
    assert exhaustive("stack", stack_case(push, 2, 2)) > 10_000
    assert exhaustive("stack", stack_case(push, 3, 1)) > 10_000
    assert exhaustive("stack", stack_case(push, 2, 2), preemptions=3, memory=TSO) > 100


@pytest.mark.slow
def test_interleave_larger_stacks():
    sampled("stack", stack_case(push, 3, 2), 80_000)


def test_interleave_catches_a_push_without_compare():
    find_failure("stack", stack_case(push_badly, 2, 1), "a push is lost: 1 of 2")


# -- futex and its fallback --------------------------------------------------------------------------

_FUTEX = '''
import sys, threading, time
{before}
import numpy as np
from headrace.kernel import kernel, JIT
from headrace.memory import atomics
from headrace.memory.atomics import futex_wait, futex_wake, store_release

@kernel
def sleep(event, timeout_ns):
    futex_wait(event, 0, 0, timeout_ns)

@kernel
def wake(event):
    store_release(event, 0, 1)
    futex_wake(event, 0, 10)

event = np.zeros(1, np.int32)
sleep(event, 1)
began = time.monotonic()
sleep(event, 50_000_000)
assert 0.03 < time.monotonic() - began < 120, "the timeout"
threads = [threading.Thread(target=sleep, args=(event, 600_000_000_000)) for _ in range(3)]
for t in threads: t.start()
time.sleep(0.05)
assert all(t.is_alive() for t in threads)
wake(event)
began = time.monotonic()
for t in threads: t.join(180)
assert not any(t.is_alive() for t in threads), "the wake"
sleep(event, 600_000_000_000)  # the word differs: returns at once
assert time.monotonic() - began < 300
print("ok", JIT, atomics.HAS_FUTEX)
'''
_NO_FUTEX = "import platform; platform.system = lambda: 'Elsewhere'"


def run_python(code, tmp_path, **environment):
    path = os.pathsep.join(p for p in sys.path if p)
    script = tmp_path / "script.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.parametrize(
    "before, environment, said",
    [
        ("", {}, f"ok True {platform.system() == 'Linux'}"),
        (_NO_FUTEX, {}, "ok True False"),
        ("", {"NUMBA_DISABLE_JIT": "1"}, f"ok False {platform.system() == 'Linux'}"),
    ],
    ids=["futex", "fallback", "interpreter"],
)
def test_example_sleep_and_wake(before, environment, said, tmp_path):
    assert run_python(_FUTEX.format(before=before), tmp_path, **environment) == said


def test_example_event_count_without_a_futex(tmp_path):
    """A gate's threads sleep and wake through the portable fallback too."""
    code = f'''
{_NO_FUTEX}
import threading
import numpy as np
from headrace.memory import atomics
assert not atomics.HAS_FUTEX
from headrace.kernel import kernel
from headrace.memory.event_count import prepare, signal, sleep, cancel
from headrace.memory.atomics import fetch_add, load_acquire

@kernel
def wait(words, event, wanted):
    while load_acquire(words, 16) < wanted:
        ticket = prepare(words, 0, event, 0)
        if load_acquire(words, 16) >= wanted:
            cancel(words, 0)
        else:
            sleep(words, 0, event, 0, ticket, 1_000_000)

@kernel
def produce(words, event, count):
    for _ in range(count):
        fetch_add(words, 16, 1)
        signal(words, 0, event, 0)

words, event = np.zeros(32, np.int64), np.zeros(1, np.int32)
produce(words, event, 0); wait(words, event, 0)
threads = [threading.Thread(target=wait, args=(words, event, 2000)) for _ in range(3)]
threads += [threading.Thread(target=produce, args=(words, event, 1000)) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join(180)
assert not any(t.is_alive() for t in threads) and words[0] == 0
print("ok")
'''
    assert run_python(code, tmp_path) == "ok"


# -- without the compiler ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="this is the run without the compiler")
def test_agree_everything_runs_without_the_compiler(tmp_path):
    """The gates' suite and this one, in an interpreter with NUMBA_DISABLE_JIT=1."""
    here = Path(__file__).parent
    suites = [here.parent / "gates" / "test_gates.py", Path(__file__)]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *map(str, suites)]
    command += ["-k", "(example or oracle) and not sleep_and_wake and not without_a_futex and not bad_"]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    root = here.parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout).group(1)) > 40
