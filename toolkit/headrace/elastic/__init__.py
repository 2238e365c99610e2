"""Virtual Shared-Nothing parallelism: O+ and its special cases, on a number of threads that can change during a run.

All instances of an operator read one gate and share one state. Each key is owned by one
instance, and only its owner updates the key's state. A reconfiguration is a control record in
the stream: at its position all instances switch together to another mapping of keys or another
number of instances, and no state moves (STRETCH, Gulisano et al.).

===================  =======================================================================
``specs``            specifications of the operators: A+, O+, J+, Operator 15
``aggregate``        A and A+: keyed window aggregates
``custom``           O+: user-defined functions over windows
``join``             J and J+: by comparing all pairs, or by an index
``forward``          Operator 15: every tuple, in merged order (``forward_kernel``)
``shared_nothing``   the same operators without sharing, for comparison (``mode="sn"``)
``compiled``          the base class of these operators: kernel text, columns, state, results
``build``            compiles an operator's kernels, and the loop that calls them by address
``local_days``       windows of local days: when each day of a time zone begins (``local_days_kernel``)
``instance_loop``    the loop of every instance: read, process, expire, promise, reconfigure
``batch_kernel``     how many tuples an instance takes at once, and the estimated cost of a tuple
``windows_kernel``   which windows a tuple falls into, for operators with windows
``failures``         failure codes of the workers
``arrays``           the arrays that instances share; ``words`` names their cells
``epochs``           which instances are active, what each owns, and how all switch at one position
``ownership``        which keys of a batch an instance owns
``hot_keys``         which keys cause the load of a bucket
``loads``            which buckets an instance's load comes from
``section``          one operator at run time: gate, state, workers, output
``options``          the options of `start` for this engine
``configuration``    the configuration in force, and how a request becomes a configuration
``reconfiguration``  how a configuration is placed in the stream, and when it is in force
``outlets``          which operators take an operator's results, and the possible ways there
``ways``             which way is taken: through a collector or directly by the gate, and why
``passing``          directly by the gate: what replaces the collector (``passing_kernel``: how
                     each instance adds its own results to the next operator's gate)
``several_takers``   the same where several operators take the results (``several_takers_kernel``)
``passed_keys``      maps upstream key ids to downstream ones, where the key is some of the columns
``passed_steps``     steps between two operators that the sender applies (``kept_rows_kernel``)
``routed``           directly into a channel for each downstream instance (``routing_kernel``)
``results``          from result records to rows, for operators with keys
``measures``         the declarations of all metrics
``measuring``        from an operator's counters to a snapshot
``spread``           how unevenly load was shared, over all configurations
===================  =======================================================================
"""
