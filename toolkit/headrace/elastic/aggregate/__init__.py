"""A and A+: aggregates of the windows of each key.

====================  ======================================================================
``program``           the operator: which columns are aggregated, in which types; its state
``shape``             what its kernels depend on, and the names of its state
``aggregate_kernel``  windows: when they open and expire, which tuples fall into the same ones
``count_kernel``      how tuples are folded where they are only counted
``fold``              how their values are folded, as text
``as_they_come``      which results do not depend on the order of tuples, and what room tuples that are ahead take
``template``          what else depends on the shape, as text
``distinct``          sets of values, for exact distinct counts
``collected``         values that are collected in lists and maps, as text
``collected_kernel``  what becomes of them: quantiles, the most frequent one, the k best
``results``           from result records to rows
====================  ======================================================================
"""
