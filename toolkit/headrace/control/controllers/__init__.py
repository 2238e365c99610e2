"""Policies; `headrace.controllers` gives them their public names.

=================  ====================================================================
``threshold``      threads by the present load: more above one bound, fewer below another
``proactive``      threads by the predicted work, for joins
``operations``     threads by the cost of operations, for transactions
``load_balancer``  the key mapping by the load of the buckets
``schedule``       given configurations at given times
=================  ====================================================================
"""
