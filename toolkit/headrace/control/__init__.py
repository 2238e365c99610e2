"""Control of an operator while the stream runs, whatever its engine: observe, decide, ask, record the outcome.

================  =====================================================================
``observation``   what a controller sees: the difference between two readings
``requests``      what a controller may ask for
``controllers``   policies; `headrace.controllers` gives them their public names
``policy``        what policies remember, which is forgotten with a run
``damping``       no flapping: a wish must last before it becomes a request
``cost_model``    the cost of work, fitted while it runs: what would N threads give?
``control_loop``  the loop of one operator and its controller
``decisions``     what was decided, with reasons and outcomes
``quality``       how good a controller is: stability, accuracy, settling, overshoot
``mapping``       f_mu: which instance owns which bucket of keys
``balancing``     sharing measured loads among instances
================  =====================================================================
"""
