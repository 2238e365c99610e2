"""A transaction's function, brought into a form in which each row it touches is found by a statement of its own.

``accounts[e.source].balance -= e.amount`` becomes ::

    accounts[e.source] = e.source          # the name `accounts[e.source]`: from here on that row
    accounts[e.source].balance -= e.amount

where the first line's target is a single name, which happens to read like what the user wrote, so that messages do,
too. ``t.reject()`` becomes ``return 1``, the end ``return 0``, ``t.emit(balance=x)`` assignments to fields of
`EMITTED`, and functions that use tables are written out where they are called. What is evaluated only under a
condition (the second part of ``and``) becomes a statement under that condition: a row that Python would not look up
is not looked up. A null names no row: it rejects where one is found by it, also under the name of a local that is but
another name of the column. A loop over a list column with null elements rejects where it begins: which are null is not
known in a kernel, only how many.

The result is read twice: by `headrace.codegen`, which makes a kernel of it, and by `determined`, which takes from it
what the keys depend on.

Each class builds on the one before.

===============  ==============================================================================
``lowered``      the form: `Lowered`, its rows, what the function returns
``trees``        pieces of syntax trees
``tuples``       assignments of several names, as one of each
``rows``         which names stand for rows, and the statement that finds each
``expressions``  what is evaluated, its rows found in front
``emissions``    ``t.reject()`` and ``t.emit(...)``
``returns``      functions that return before their end, so that all ways lead there
``called``       functions that are written out where they are called
``statements``   assignments, conditions, loops
``entries``      what comes to be in a map by being read
``writes``       what is written, and whether it may have to be undone
``function``     `lower`; one function, all of it together
===============  ==============================================================================
"""
