"""Transactions: many threads read and write shared tables, with the outcome of one event after another (TStream).

A function of an event is one transaction. Executors take events in batches, name the rows of each before any is read,
and run what does not depend on each other side by side (Zhang et al., "Towards Concurrent Stateful Stream Processing on
Multicore Processors"). What is said by a function's text is found before a run; what is left for the run is numbers.

From a function to kernels:

====================  ======================================================================
``specification``     what is asked of an operator: functions, what they emit, what is carried
``lowering``          a function with a statement of its own for each row it finds
``nulls``             what rejects where a row is found by a null
``branches``          rows of branches that exclude each other, told apart
``determined``        from that, what only names its rows: the determined sets
``splitting``         from that, operations on single rows, where none depends on another one
``turns``             rows used in turns, which may be one: these are not taken apart
``overwriting``       which of them only the last one of several need be done,
``adding``            and of which the sum
``explained``         which of these it is, in words
``event_columns``     what functions read of the event
``binding``           what names stand for in kernels, and the rewritten functions
``template``          the text of one operator's kernels (``undo_kernel``)
``build``             that text, and the loop that calls it
``fitting``           which schemes can run it, and why others cannot
====================  ======================================================================

Tables:

====================  ======================================================================
``tables``            `hr.table` and `hr.column`: what a table is, before any run
``table_data``        its rows at first, read from any table and checked
``memory``            where the rows of a run lie; ``layout`` is what kernels write for that
``index_kernel``      which row a key has
``content``           tables as of one moment, as Arrow, pandas or Spark has them
``snapshots``         those that are taken by themselves
``audit``             whether what tables conserve is still there
====================  ======================================================================

Running:

====================  ======================================================================
``section``           one operator at run time; ``program`` is what it has of its functions
``executor_kernel``   what every executor does: accept, prepare, execute, give results
``accept_kernel``     what the leader of a punctuation does
``phases_kernel``     the barrier between the phases of a batch, changes, pauses
``key_sets_kernel``   which rows the events of a batch touch
``whole_kernel``      transactions that run whole, by a scheme of ``schemes_kernel``:
``flow_kernel``       chains: each as soon as those before it on its rows are done
``stealing_kernel``   and by executors that have nothing else to do
``locks_kernel``      lock: ticket locks, drawn in the order of events
``versions_kernel``   mvlk: a version of a row for each write, readers take theirs
``partition_kernel``  partition: numbers of each partition, in the order of events
``speculative_kernel``  transactions on versions of rows (``multiversion_kernel``), executed and validated by
``speculation_kernel``  counters, and again until they read what is final
``operations_kernel`` transactions as operations, in ``chains_kernel``: a chain for each row, or
``combining_kernel``  without those that a later one overwrites or adds as well; or
``skip_chains_kernel`` the paper's: a concurrent skip list for each
``arrays``            what executors share; ``words`` names its cells
``configuration``     what is in force, and the tables in which executors find that
``reconfiguration``   how a configuration is asked for, and when it holds
``adaptive``          the scheme chosen by trying, as a controller
``options``           what `start` may be told of this engine
``results``           from result records to rows
``measures``          what is measured, declared once
``measuring``         from the executors' counters to a snapshot
====================  ======================================================================
"""
