"""From a user's plain Python functions to compiled, cached kernels.

A user's function is captured, rewritten and put into a generated module; compile errors and failures are reported at the
user's own lines.

===================  ==========================================================================
``functions``        `specialise`: from a function to text for a module; the interface for engines
``capture``          a function's source, and everything it refers to
``reducers``         any, sum, max and the like of comprehensions, as functions of their own
``bindings``         what its names stand for in the kernel it becomes part of
``assigned``         refuses reads of names that may be unbound
``inference``        which expressions are strings or containers
``held``             refuses reads of container names whose place was assigned anew
``uses``             which containers of a state are handed over
``rewriting``        from names to arrays, statement by statement
``containers``       its part for strings, lists, sets, maps and arrays
``checked``          conversions that refuse silent loss
``python_numbers``   operations on numbers with Python's semantics
``printing``         `print` in threads that do not hold the GIL
``generated``        the result: `GeneratedFunction`
``compile_errors``   compile errors at the user's line
``failures``         why a function failed: it is called again in plain Python
``int64``            Python integers bounded to 64 bits, for these calls
``written``          a checksum of what the user wrote
``kinds``            kinds of values that functions may keep and emit
``state``            `state=` and `emits=`, for every engine
``placed``           a state whose fields lie side by side in an arena
``stateless``        map, filter and flat_map in one generated loop
``batch_texts``      the strings of one batch as numbers
``modules``          generated source as modules whose machine code is cached across processes
``included``         a file of kernels as a part of such a module
``called``           generated code that is called by its address
``parts``            kernels that only run inside another one
``trees``            copies of syntax trees, and trees from text
``text``             writing kernels as text
===================  ==========================================================================
"""
