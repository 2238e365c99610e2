"""From Arrow to the engine: readers, event times, key dictionary, tokeniser, encoder.

A source is read as Arrow record batches (`readers`), each `validation` has seen, with what it says
of time itself (`watermarks`), put in order if asked (`reorder`), and encoded (`encode`): event times as int64 in
the stream's unit (`times`), keys (`key_sources`) as dense ids (`keys`; `key_tables` with `string_keys`, `number_keys`
and `tuple_keys`), the columns that kernels need as NumPy arrays (`columns`, `lists`); everything else stays in Arrow and is
referred to by row.
"""
