"""The life of workers of every engine: started, parked, measured, failing, stopped.

==================  ===================================================================
``arrays``          the arrays that workers of any engine share
``pool``            the threads of a run: started, told to stop, waited for
``time_slice``      short time slices, where the system grants them
``spans``           reading the counters and spans that workers write
``worker_kernel``   parking, how a worker spends its time, and its failure record
``changes_kernel``  putting a configuration into force at once
==================  ===================================================================
"""
