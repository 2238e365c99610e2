"""From a user's plain Python functions to compiled, cached kernels.

A user's function is captured, rewritten and put into a generated module; what does not compile or fails is told in the
user's own lines.

===================  ==========================================================================
``functions``        `specialise`: a function in, text for a module out; what engines take from here
``capture``          a function's source, and everything it refers to
``reducers``         any, sum, max and the like of comprehensions, as functions of their own
``bindings``         what its names stand for in the kernel it becomes part of
``assigned``         names that may have no value where they are read
``inference``        which expressions are strings or containers
``held``             names for containers whose place is given something else
``uses``             which containers of a state are given away
``rewriting``        from names to arrays, statement by statement
``containers``       its part that is about strings, lists, sets, maps and arrays
``checked``          conversions that refuse what would silently lose something
``python_numbers``   operations on numbers, as Python has them
``printing``         `print`, by threads that do not hold Python's lock
``generated``        what comes out: `GeneratedFunction`
``compile_errors``   what does not compile, at the user's line
``failures``         why a function failed: it is called again in plain Python
``int64``            integers of plain Python that end at 64 bits, for that
``written``          what the user wrote, as a checksum
``kinds``            kinds of values that may be kept, beside numbers
``state``            `state=` and `emits=`, for every engine
``placed``           a state whose fields lie side by side in an arena
``stateless``        map, filter and flat_map in one generated loop
``batch_texts``      the strings of one batch as numbers
``modules``          generated source as modules whose machine code the next process finds again
``included``         a file of kernels as a part of such a module
``called``           generated code that is called by its address
``parts``            kernels that only run inside another one
``trees``            copies of syntax trees, and trees from text
``text``             writing kernels as text
===================  ==========================================================================
"""
