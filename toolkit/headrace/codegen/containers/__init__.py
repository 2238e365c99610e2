"""Rewrite what a user function does with strings, lists, sets, maps and arrays into calls of `kernel`.

``state.count[t.word] += 1`` becomes, for a map of strings to integers::

    place_1 = kept_value(s.arena, s.state_count, p * HEAD, c_word, 1)
    s.arena[place_1] = s.arena[place_1] + 1

A string is its id: equal ones have equal ids, so ``==`` stays as it is, and only
what asks for order or length becomes a call. `inference` says which expressions are
strings and containers. Nothing but what is rewritten here may take one: an id that
went on as a number would be a wrong result.

===============  ==============================================================================
``places``       where a container is; values as words; lists that are made in passing
``expressions``  conditions, comparisons, ``in``, elements, values of results
``calls``        methods, ``len``, ``min``, ``max``, ``sum``
``assignment``   to containers and their elements
``loops``        over containers; `KeptValues`, all of it together
``kernel``       the kernels that are called
===============  ==============================================================================
"""
