"""From Arrow to the engine: readers, event times, key dictionary, tokeniser, encoder.

A source is read as Arrow record batches, each of which was validated, put in order if asked, and encoded: event
times as int64 in the stream's unit, keys as dense ids, the columns that kernels need as NumPy arrays; everything
else stays in Arrow and is referred to by row.

=================  ======================================================================
``readers``        anything that holds a table, as record batches in order
``aligning``       a later batch, brought to the schema of the first one
``parquet``        Parquet files as batches that are bounded in bytes
``batch_bytes``    what rows take, for that
``validation``     full validation of batches
``watermarks``     what a source says of time itself
``reorder``        bounded repair of disorder
``times``          event time: from a column to int64, checked, and back
``encode``         from record batches to what the engine reads; ``encode_kernel``
``columns``        Arrow columns as NumPy arrays
``lists``          list columns as kernels read them
``key_sources``    what the key of a stream is made of
``keys``           the key dictionary: values to dense ids, and back; ``keys_kernel``
``key_tables``     a table of keys: values hashed to ids, its arrays and their growth
``string_keys``    such a table of strings,
``number_keys``    of numbers,
``tuple_keys``     of several columns
``hashing``        a stable hash of key values
``comparison``     how a join compares a left column with a right one
``ordered_texts``  strings known by id whose order kernels can ask for
``tokeniser``      words of a text column; ``tokeniser_kernel``
``sorting``        sorting results; ``sorting_kernel``
``store``          where the tuples of a source lie, by row number; ``store_kernel``
=================  ======================================================================
"""
