"""Shared memory between threads: atomics, padded cells, waiting, the seqlock.

Everything two threads share in headrace is an ordinary NumPy array; what makes
it safe is that a cell another thread may write is touched only through
`headrace.memory.atomics`.
"""
