"""Shared memory between threads: atomics, padded cells, waiting, the seqlock.

Everything two threads share in headrace is an ordinary NumPy array; what makes
it safe is that a cell another thread may write is touched only through
`headrace.memory.atomics`.

What grows with the data lies in blocks of an arena (`arena`): the lists, sets and
maps of user functions (`lists_kernel`, `maps_kernel`), tables of distinct values.
"""
