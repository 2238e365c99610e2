"""Virtual Shared-Nothing parallelism: O+ and its special cases, on a number of threads that changes while the stream runs.

All instances of an operator read one gate and share one state; each key is owned by one
instance, which alone updates it. A reconfiguration is a record in the stream: at its position
all instances change at once to another mapping of keys, or another number of themselves, and
no state moves (STRETCH, Gulisano et al.).

===================  =======================================================================
``specs``            what is asked of an operator: A+, O+, J+, Operator 15
``aggregate``        A and A+: windows over keys
``custom``           O+: the functions of a user
``join``             J and J+: comparing all pairs, or by an index
``forward``          Operator 15: every tuple, in merged order (``forward_kernel``)
``shared_nothing``   the same operators without sharing, for comparison (``mode="sn"``)
``program``          what these have in common: kernel text, columns, state, results
``build``            their kernels, which the loop calls by address
``local_days``       windows of days of a time zone: when these begin (``local_days_kernel``)
``instance_loop``    what every instance does: read, process, expire, promise, reconfigure
``batch_kernel``     how many tuples it takes at once, and what they are taken to cost
``windows_kernel``   which windows a tuple falls into, for operators with windows
``failures``         why a worker gave up
``arrays``           what instances share; ``words`` names its cells
``epochs``           which instances are active and own what, and how all change at one position
``ownership``        which of a batch's keys are an instance's own
``hot_keys``         which keys are behind the load of a bucket
``loads``            which buckets of keys an instance's load comes from
``section``          one operator at run time: gate, state, workers, output
``options``          what `start` may be told of this engine
``configuration``    what is in force, and how a wish becomes a configuration
``reconfiguration``  how a configuration is placed in the stream, and when it holds
``outlets``          what takes an operator's results, and by which ways they may get there
``ways``             by which of them: through a collector, or by the gate, and why not
``passing``          by the gate, to the next operator: what stands for the collector
                     (``passing_kernel``: how each instance gives the next gate its own)
``passed_keys``      a key of some columns of the key before: ids of one for ids of the other
``passed_steps``     steps between two operators that are done on the way (``kept_rows_kernel``)
``routed``           the same into a channel for each instance behind (``routing_kernel``)
``results``          from result records to rows: what operators with keys have in common
``measures``         what is measured, declared once
``measuring``        from an operator's counters to a snapshot
``spread``           how unevenly load was shared, over all configurations
===================  =======================================================================
"""
