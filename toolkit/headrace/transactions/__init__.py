"""Transactions: many threads read and write shared tables, with the outcome of one event after another (TStream).

Each function of an event is one transaction. Executors take events in batches, name the rows of each event before any
row is read, and run independent transactions concurrently (Zhang et al., "Towards Concurrent Stateful Stream Processing
on Multicore Processors"). All that a function's text says is found out before a run; the run deals in numbers only.

From a function to kernels:

====================  ======================================================================
``specification``     how an operator is declared: functions, what they emit, what is carried
``lowering``          rewrites a function so that a statement of its own finds each row
``nulls``             rejects an event where a row would be found by a null
``branches``          tells apart the rows of branches that exclude each other
``determined``        a function that only names the rows of an event: the determined sets
``splitting``         splits a transaction into independent operations on single rows
``turns``             finds rows used in turns that may be the same: these are not split
``overwriting``       operations that overwrite a row: only the last of several is done
``adding``            operations that add to a row: several are done as one, with their sum
``explained``         says in words what became of the functions
``event_columns``     which columns of the event functions read
``binding``           what names stand for in kernels, and the rewritten functions
``template``          the source text of one operator's kernels (``undo_kernel``)
``build``             compiles that text, and the loop that calls it
``fitting``           which schemes can run the functions, and why others cannot
====================  ======================================================================

Tables:

====================  ======================================================================
``tables``            `hr.table` and `hr.column`: what a table is, before any run
``table_data``        its initial rows, read from any table and checked
``memory``            where the rows of a run lie; ``layout`` writes that for kernels
``index_kernel``      finds the row of a key
``content``           tables as of one moment, as Arrow, pandas or Spark has them
``snapshots``         snapshots taken at regular intervals
``audit``             checks sums that tables are to conserve
====================  ======================================================================

Running:

====================  ======================================================================
``section``           one operator at run time; ``compiled`` has its columns and tables
``executor_kernel``   the loop of every executor: accept, prepare, execute, give results
``accept_kernel``     what the leader of a punctuation does
``phases_kernel``     the barrier between the phases of a batch, changes, pauses
``key_sets_kernel``   which rows the events of a batch touch
``whole_kernel``      transactions that run whole, by a scheme of ``schemes_kernel``:
``flow_kernel``       chains: each runs as soon as those before it on its rows are done,
``stealing_kernel``   and idle executors steal those that are ready
``locks_kernel``      lock: ticket locks, drawn in the order of events
``versions_kernel``   mvlk: a version of a row for each write, readers take theirs
``partition_kernel``  partition: a counter for each partition, in the order of events
``speculative_kernel``  speculative: transactions on versions of rows (``multiversion_kernel``),
``speculation_kernel``  executed, validated, and executed again until their reads are final
``operations_kernel`` transactions as operations, each in the chain of its row (``chains_kernel``);
``combining_kernel``  leaves out operations that a later one overwrites or adds as well
``skip_chains_kernel`` the paper's chains: a concurrent skip list for each row
``arrays``            the memory that executors share; ``words`` names its cells
``configuration``     the configuration in force, and the tables where executors read it
``reconfiguration``   how a configuration is requested, and when it comes into force
``adaptive``          a controller that chooses the scheme by trying
``options``           the options of `start` for this engine
``results``           turns result records into rows
``measures``          what is measured, declared once
``measuring``         turns the executors' counters into a snapshot
``unfinished``        which event a user function does not come back from
====================  ======================================================================
"""
