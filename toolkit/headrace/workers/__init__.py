"""A worker's life, of whatever engine: started, parked, measured, failing, stopped.

==================  ===================================================================
``arrays``          what workers of any engine share
``pool``            the threads of a run: started together, told to stop, waited for
``spans``           reading what workers write about themselves
``worker_kernel``   parking, what a worker does with its time, and its failure record
``changes_kernel``  a configuration that comes into force at once
==================  ===================================================================
"""
