"""From a user's plain Python functions to compiled, cached kernels.

`modules` turns generated source into an importable module whose machine code
is found again by the next process; `included` makes a file of kernels a part of
such a source; `functions` captures, checks and rewrites
user functions so that they can be pasted into such a source; `state` and
`kinds` say what they may keep and emit, `inference` and `containers` rewrite what
they do with strings, lists, sets and maps, `uses` says
what is used once only; `stateless` fuses map, filter and flat_map into one
generated loop.
"""
