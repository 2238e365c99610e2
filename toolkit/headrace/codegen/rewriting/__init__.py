"""Rewrite a captured user function into text for a generated module.

Each class builds on the one before; `containers` comes first, with what is done with strings, lists, sets and maps.

==============  ==============================================================================
``numbers``     what Python checks and the compiler does not
``fields``      names and attributes: what they stand for, read and assigned
``calls``       helpers, builtins, emit
``statements``  assignments, loops, conditions, what is returned
``polls``       loops that look whether the run is stopped
``function``    `rewrite`; one function, all of it together, as text with the user's lines
``lines``       statements and their lines
==============  ==============================================================================
"""
