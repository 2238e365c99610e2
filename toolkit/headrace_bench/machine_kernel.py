"""The loops of `headrace bench machine`: arithmetic, and a word passed back and forth between two cores."""

import numpy as np

from headrace.kernel import kernel
from headrace.memory.atomics import CELL, load_acquire, now_ns, pause, store_release

WORD = 2 * CELL
"""In the middle of an array, on cache lines of its own."""
LOOK_EVERY = 1_000


@kernel
def arithmetic(steps, x):
    """Run four independent chains of operations in registers alone, which keeps a core fully busy."""
    a = b = c = d = np.uint64(x)
    for n in range(steps):
        a = a * np.uint64(3) + np.uint64(n)
        b = (b * np.uint64(5)) ^ np.uint64(n)
        c = c * np.uint64(7) + np.uint64(n)
        d = (d * np.uint64(9)) ^ np.uint64(n)
        a ^= a >> np.uint64(3)
        b ^= b >> np.uint64(5)
        c ^= c >> np.uint64(7)
        d ^= d >> np.uint64(9)
    return a + b + c + d


@kernel
def pass_word(words, first, last, me, until):
    """Wait until it is the turn of `me`, 0 or 1, and pass the word to the other thread, for turns `first` to before `last`.

    Returns the number of turns made by time `until`, after which neither thread waits any more. The waiting thread pauses
    between two loads, as the engines' kernels do; the pause is part of a turn's time.
    """
    for n in range(first, last):
        spins = 0
        while load_acquire(words, WORD) != 2 * n + me:
            spins += 1
            if spins % LOOK_EVERY == 0 and now_ns() > until:
                return n - first
            pause()
        store_release(words, WORD, 2 * n + me + 1)
    return last - first
