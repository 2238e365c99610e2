"""Rewrites a transaction's function so that a statement of its own finds each row it touches.

``accounts[e.source].balance -= e.amount`` becomes ::

    accounts[e.source] = e.source          # the name `accounts[e.source]`: from here on that row
    accounts[e.source].balance -= e.amount

where the first line's target is a single name. It is spelled as the user wrote the row, so that messages are, too.
``t.reject()`` becomes ``return 1``, the end ``return 0``, ``t.emit(balance=x)`` assignments to fields of
`EMITTED`, and functions that use tables are inlined where they are called. What is evaluated only under a
condition (the second part of ``and``) becomes a statement under that condition: a row that Python would not look up
is not looked up. A null names no row: the event is rejected where a row is looked up by one, also through a local
that is only another name of the column. A loop over a list column with null elements rejects where it begins, since a
kernel knows how many elements are null, but not which.

The result is read twice: by `headrace.codegen`, which makes a kernel of it, and by `determined`, which takes from it
what the keys depend on.

Each class builds on the one before.

===============  ==============================================================================
``lowered``      the form: `Lowered`, its rows, what the function returns
``trees``        pieces of syntax trees
``tuples``       an assignment to several names, as an assignment to each
``rows``         which names stand for rows, and the statement that finds each
``expressions``  expressions, with the statements that find their rows in front
``emissions``    ``t.reject()`` and ``t.emit(...)``
``returns``      rewrites early returns, so that all paths reach the end
``called``       inlines functions where they are called
``statements``   assignments, conditions, loops
``entries``      entries of maps that come into being when they are read
``writes``       what is written, and whether it may have to be undone
``function``     `lower`: all of these together, for one function
===============  ==============================================================================
"""
