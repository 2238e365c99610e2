"""Policies; `headrace.controllers` gives them their public names.

=================  ====================================================================
``threshold``      threads by the load there is: above one bound more, below one fewer
``proactive``      threads by the work that is coming, for joins
``operations``     threads by what operations cost, for transactions
``load_balancer``  the key mapping by what the buckets cost
``schedule``       given sizes at given times
=================  ====================================================================
"""
