"""J and J+: pairs of tuples of two streams that are near in time and satisfy a condition.

==============  ===============================================================================
``program``     the operator: which columns are compared, and in which types
``shape``       what its kernels depend on, and the names of its state and scratch memory
``template``    its kernels as the text of a module: ``join_kernel``, what all joins do, and one of
``all_pairs``   comparing all pairs, after ScaleJoin (``all_pairs_kernel``)
``indexed``     meeting only those that can match: cells by bands and equal columns
                (``index_kernel``)
``conditions``  the condition of a pair as text, exact whatever the types
``results``     from result records to rows
==============  ===============================================================================
"""
