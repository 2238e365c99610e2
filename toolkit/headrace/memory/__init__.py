"""Shared memory between threads: atomics, padded cells, waiting, the seqlock.

Everything that threads share in headrace is an ordinary NumPy array. This is safe
because a cell that another thread may write is accessed only through
`headrace.memory.atomics`.

State that grows with the data lies in blocks of an arena (`arena`): the lists, sets
and maps of user functions (`lists_kernel`, `maps_kernel`), tables of distinct values.

======================  ===============================================================
``atomics``             loads, stores, updates, fences, futexes; views of addresses
``cells``               arrays aligned, padded or reserved; how Python reads a cell
``event_count``         sleeping until something may have changed
``seqlock``             several cells read as of one moment
``bundle``              many arrays as one argument of a kernel
``local_words``         words on a kernel's stack, which the compiler keeps in registers
``own_words``           words of one worker, which kernels take by their address
``arena``               blocks of words for state that grows
``lists_kernel``        lists of words
``maps_kernel``         maps and sets of words
``stored``              kept tuples of windows: nodes, and chains of free nodes
``words``               values as 64-bit words, and accesses to many words at once
``wrapped``             sums and products that wrap around in 64 bits
``text_order``          the order of strings that are known by id
``held_texts_kernel``   records which strings a state holds
``seeded``              a hash that only this process can compute
======================  ===============================================================
"""
