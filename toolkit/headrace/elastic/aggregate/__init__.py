"""A and A+: aggregates over the windows of each key.

====================  ======================================================================
``compiled``           the operator: which columns are aggregated, in which types; its state
``shape``             what its kernels depend on, and the names of its state
``aggregate_kernel``  windows: when they open and expire, which tuples fall into the same ones
``count_kernel``      folding of tuples that are only counted
``fold``              text of the kernel that folds values
``as_they_come``      which results do not depend on the order of tuples, and how far ahead a source may be
``template``          text of the other kernels that depend on the shape
``ranked_kernel``     the results of a window in order of their keys, which ``rank_sort_kernel`` sorts
``distinct``          sets of values, for exact distinct counts
``collected``         text that collects values in lists and maps
``collected_kernel``  results of collected values: quantiles, the most frequent value, the k best
``results``           from result records to rows
====================  ======================================================================
"""
