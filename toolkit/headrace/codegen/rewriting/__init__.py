"""Rewriting a captured user function into text for a generated module.

Each class builds on the one before; `containers` comes first, with operations on strings, lists, sets and maps.

==============  ==============================================================================
``numbers``     operations that Python checks and the compiler does not
``fields``      names and attributes: what they stand for, read and assigned
``calls``       helpers, builtins, emit
``statements``  assignments, loops, conditions, returns
``polls``       tests in loops whether the run is stopped
``function``    `rewrite`: a whole function as text marked with the user's lines
``lines``       statements and their lines
==============  ==============================================================================
"""
