"""J and J+: pairs of tuples of two streams that are close in time and satisfy a condition.

==============  ===============================================================================
``compiled``     the operator: which columns are compared, and in which types
``shape``       what its kernels depend on, and the names of its state and scratch memory
``template``    text of its kernels: ``join_kernel``, common to all joins, and one of the next two
``all_pairs``   comparing all pairs, after ScaleJoin (``all_pairs_kernel``)
``indexed``     comparing only tuples that can match: cells by bands and equal columns
                (``index_kernel``)
``conditions``  the condition on a pair as text, exact whatever the types
``results``     from result records to rows
==============  ===============================================================================
"""
