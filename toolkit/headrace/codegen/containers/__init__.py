"""Rewriting operations of a user function on strings, lists, sets, maps and arrays into calls of `kernel`.

``state.count[t.word] += 1`` becomes, for a map of strings to integers::

    place_1 = kept_value(s.arena, s.state_count, p * HEAD, c_word, 1)
    s.arena[place_1] = s.arena[place_1] + 1

A string is its id: equal strings have equal ids, so ``==`` stays as it is, and only
operations that need order or length become calls. `inference` finds which expressions are
strings and containers. Only operations rewritten here may use one: an id that
was used as a number would give a wrong result.

===============  ==============================================================================
``places``       where a container is; values as words; temporary lists
``expressions``  conditions, comparisons, ``in``, elements, values of results
``calls``        methods, ``len``, ``min``, ``max``, ``sum``
``assignment``   assignments to containers and their elements
``loops``        loops over containers; `KeptValues`, which combines all of it
``kernel``       the kernels that are called
===============  ==============================================================================
"""
