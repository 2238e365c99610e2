"""The baseline that shows what sharing saves: a private queue, store and state for each instance.

===================  ============================================================
``section``          the operator, run as the others are (``mode="sn"``)
``router_kernel``    forwardSN: a tuple is copied to every instance that needs it
                     (``router``: a router's state; ``queueing_kernel``: its queues;
                     ``copies_kernel``: what it copies)
``private_store``    where an instance keeps its tuples of a source
``instance_queues``  one queue for each router and instance, merged by the latter
``routed_kernel``    how an instance reads what it was sent
``transfer``         how state moves at a barrier, for each kind of state
                     (``transfer_kernel``, ``stored_transfer_kernel``)
``template``         text that puts all this around an operator's own kernels
===================  ============================================================
"""
