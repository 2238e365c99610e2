"""Operations on numbers in user functions, with Python's semantics where machine code would differ.

A processor truncates what does not fit, gives nan where Python raises, and for
some arguments (the integer of a NaN, a shift by 64 bits) processors give
different results. `rewrite` calls these functions instead, only where they are needed: not
for a shift or a quotient by a constant, nor for ``+ - *``, which wrap around.
With ``debug=True`` those are checked as well (`checked_sum`, ...).

The plain bodies run with ``NUMBA_DISABLE_JIT=1``, on Python's and
NumPy's numbers alike.

==================  ==================================================================
``values``          whether a number fits, and the error where it does not
``conversions``     to integers, and `float`
``rounding``        ``round(x, n)``, `math.isclose`
``powers``          ``**``
``shifts``          ``<<`` and ``>>``
``quotients``       ``//`` and `divmod`
``signs``           ``-x``, ``abs(x)`` and ``~x``
``sums``            ``+ - *``, where they must fit
``math_functions``  functions of `math`
``tuples``          ``x in (a, b)``, ``for x in (a, b)``
``pairs``           replacements for calls with two numbers
==================  ==================================================================
"""
