"""A seqlock: several cells that change together are read as of one moment, without a lock.

Its users define what it protects: which threads read and feed a gate, which ones
write results. A change is rare and short; a scan reads all the cells and is told
afterwards whether a change came in between.

State       VERSION  an int64 cell: odd while what it protects changes
Invariants  I1  only the thread that made VERSION odd (`begin_change`) writes what it
                protects, or ends the change
            I2  what is protected is stored with `store_release` and read with
                `load_acquire`
Ordering    S1 VERSION becomes odd (compare_exchange, acq_rel), S2 store_release what
            is protected, S3 VERSION becomes even (fetch_add, acq_rel)
            V1 load_acquire VERSION, V2 load_acquire what is protected, V3
            load_acquire VERSION: the same, and even
                    a V2 that sees a store of S2 synchronises with it: S1 has
                    happened before, so V3 does not find what V1 found, or V1
                    found it odd. A relaxed store could be seen before S1 (C11;
                    ARMv8.0), and half of a change be taken for all of it. All of
                    S2 is seen or none: the order of its stores does not matter
Progress    A change excludes others by a try-lock. A scan never waits: it is
            told that a change came in between, and begins again or does without.
Source      Boehm, "Can seqlocks get along with programming language memory models?", 2012.
Checked     tests/headrace/memory/test_weak_memory.py (a model, and the rule I2 in
            the text of all that use it), tests/headrace/gates, tests/headrace/egress
"""

from headrace.kernel import kernel
from headrace.memory.atomics import compare_exchange, fetch_add, load_acquire


@kernel
def begin_change(words, version):
    """S1: make the cell `version` of `words` odd. False if another thread is changing what it protects."""
    before = load_acquire(words, version)
    return before & 1 == 0 and compare_exchange(words, version, before, before + 1)


@kernel
def end_change(words, version):
    """S3: make it even again."""
    fetch_add(words, version, 1)


@kernel
def begin_scan(words, version):
    """V1: return the version that `is_whole` needs after the scan."""
    return load_acquire(words, version)


@kernel
def is_whole(words, version, before):
    """V3: whether everything read since `begin_scan` is as of one moment."""
    return before & 1 == 0 and load_acquire(words, version) == before


__all__ = ["begin_change", "begin_scan", "end_change", "is_whole"]
