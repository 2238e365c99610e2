"""From Arrow to the engine: readers, event times, key dictionary, tokeniser, encoder.

A source is read as Arrow record batches. Each batch is validated, put in order if asked, and encoded: event
times as int64 in the stream's unit, keys as dense ids, the columns that kernels need as NumPy arrays. Everything
else stays in Arrow and is referred to by row.

=================  ======================================================================
``readers``        anything that holds a table, as record batches in order
``input_errors``   what is wrong with an input, in one line
``aligning``       casts later batches to the schema of the first one
``folders``        folders of Parquet files: whether each can be read as the first one
``same_schema``    sources that differ only in which columns may be null, as one stream
``parquet``        Parquet files as batches that are bounded in bytes
``batch_bytes``    the bytes that rows take, for that bound
``validation``     full validation of batches
``watermarks``     watermarks that a source gives itself
``reorder``        bounded repair of disorder
``times``          event time: from a column to int64, checked, and back
``encode``         from record batches to arrays that the engine reads; ``encode_kernel``
``columns``        Arrow columns as NumPy arrays
``lists``          list columns as kernels read them
``key_sources``    the columns that make up the key of a stream
``keys``           the key dictionary: values to dense ids, and back; ``keys_kernel``
``key_tables``     the hash table from key values to ids: its arrays and their growth
``string_keys``    such a table for strings,
``number_keys``    for numbers,
``tuple_keys``     for keys of several columns
``key_ranks``      what orders keys where kernels know them by id
``hashing``        a stable hash of key values
``comparison``     how a join compares a left column with a right one
``ordered_texts``  strings by id whose order kernels can compare; ``text_pages``, where their bytes lie
``tokeniser``      words of a text column; ``tokeniser_kernel``
``sorting``        sorting results; ``sorting_kernel``
``store``          the tuples of a source, by row number; ``store_kernel``
=================  ======================================================================
"""
