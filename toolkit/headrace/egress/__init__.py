"""From the instances' result rings to ordered batches, and to where the user wants them.

==================  ====================================================================
``rings``           a ring of result records for each worker, and what it promises
``words_ring``      such a ring for the lists that records refer to
``list_words``      these lists, taken and kept until their records are released
``records``         records as columns, drained or in order
``held_records``    records that wait for their release
``collector``       the output gate: drains the rings, orders by content, passes on
``key_order``       results by (time, key): the order of key values
``gather``          columns of the tuples that results refer to; ``gather_kernel``
``containers``      lists, sets, maps and arrays of user functions as columns
``emitted``         what user functions emit as columns
``sink``            `Sink`, which takes a query's results
``sinks``           memory, a Parquet file, a function, nowhere
``part_files``      a file that has its name only when it is complete
``directory``       a directory of Parquet files that grows while the run goes on
==================  ====================================================================
"""
