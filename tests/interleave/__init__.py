"""Schedule exploration: the kernels' own text, run under every interleaving we choose.

One source, two executions. The same file that Numba compiles is read as text,
and each access to a shared cell becomes a point at which a thread may be
stopped: a kernel turns into a generator, an atomic into a ``yield`` followed by
the access, a call of another kernel into ``yield from``. A scheduler then
resumes the generators of several threads in an order of its choice.

Memory      `SC`   sequential consistency: all threads see an access at once
            `TSO`  x86: a thread's stores wait in its buffer, first in first
                   out, and become visible to others later; the thread itself
                   sees them at once. A fence, a read-modify-write and a futex
                   call empty the buffer first. A buffer writes its oldest
                   store to memory in a step of its own, which the scheduler
                   chooses: step ``n + t`` for thread t of n
Cuts        SC: before each atomic, and before each run of plain writes to a
            shared array, so that a write that follows its publication is caught.
            TSO: before each load, read-modify-write and fence; see Reduction
Waiting     `futex_wait` sleeps until a wake reaches it (its timeout never
            fires, so a lost wake-up shows as a deadlock); `futex_wake` wakes as
            many as it is told, the longest sleepers first; after `pause` a
            thread goes on only when another thread has written something and,
            under TSO, the write has become visible
Schedules   `exhaustive` all of them, or all with at most so many preemptions
            (under TSO a buffer's step costs one, too, while any thread can run);
            `sampled` random and priority (PCT: random priorities, few change
            points) schedules by seed. Only executions that reach their end
            are counted.
Failing     raises `FailingSchedule`; its text gives the seed or the choices,
            and the schedule itself, which `replay` runs again
Blind spot  memory weaker than x86's (C11 relaxed, AArch64): the written
            argument, the test that reads the LLVM IR, the models in
            tests/headrace/memory/test_weak_memory.py, and tests/litmus

Reduction under TSO, and why no outcome is lost:
            R1  A store's entry into its buffer is not a step of its own. It
                touches what no other thread sees, so it may as well happen
                together with the access before it; its visibility is a step.
            R2  A fence or read-modify-write empties the whole buffer in one
                step, its own. Schedules in which others run between two stores
                take the buffer's steps before it. A fence with nothing to
                empty is no step.
            R3  A run of plain writes to shared arrays becomes visible in one
                step, as in SC. Plain writes to all other arrays, which no other
                thread may read at that time, go with the store before them.
                Each such execution is possible on the machine, so nothing false
                is reported; what is left out is what SC leaves out, too.
            R4  Sleep sets (Godefroid 1996), where every schedule is run: once
                steps a and then b have been explored from a state, a is not
                tried again after b if they commute, since that leads to the
                states after a, b. Two steps commute when neither writes what
                the other reads or writes. A thread's step writes nothing that
                others see unless it is a read-modify-write or empties the
                buffer; a plain read is not recorded, so every step is assumed
                to read every plain cell. A buffer's step commutes with its own
                thread's loads: they see the value either way. Steps that sleep,
                wake or pause commute with none.
            tests/headrace/memory/test_explorer.py compares all this with a machine that
            applies none of these. The programs of a test must each keep their notes in a
            list of their own: R4 does not see what threads do to a shared Python object.

Arrays are lists here (a two-dimensional array a list of lists) and cells are
not padded: `CELL` is 1. That makes tens of thousands of schedules a second.
A buffer is a list of (array, index, value); while its thread runs, memory and
buffer have swapped these values, so that every load finds what the thread sees.

=================  =======================================================================
`models`           what an access to memory does under SC and under TSO
`rewriting`        a kernel's text as a generator
`kernels`          kernel files, programs of a test and planted bugs, loaded in this form: `Kernels`
`execution`        one execution under SC
`buffered`         one execution under TSO: buffers, and which steps commute
`strategies`       which schedule comes next
`exploring`        `exhaustive`, `sampled`, `find_failure`, `replay`; how many schedules
=================  =======================================================================
"""

from interleave.exploring import (
    EXPLORED,
    FailingSchedule,
    are_too_few,
    exhaustive,
    find_failure,
    replay,
    sampled,
)
from interleave.kernels import Kernels, copied
from interleave.models import SC, TSO
from interleave.strategies import packed, unpacked

__all__ = [
    "EXPLORED",
    "SC",
    "TSO",
    "FailingSchedule",
    "Kernels",
    "are_too_few",
    "copied",
    "exhaustive",
    "find_failure",
    "packed",
    "replay",
    "sampled",
    "unpacked",
]
