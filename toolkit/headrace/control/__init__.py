"""What steers an operator while the stream runs, whatever its engine: look, decide, ask, note what came of it.

================  =====================================================================
``observation``   what a controller sees: the difference between two readings
``requests``      what it may ask for
``controllers``   policies; `headrace.controllers` gives them their public names
``policy``        what they remember, and that it is forgotten with a run
``damping``       a wish must last before it is one: no flapping
``cost_model``    what work costs, fitted while it runs: what would N threads give?
``control_loop``  a controller at work on one operator
``decisions``     what was decided, why, and what came of it
``quality``       how good a controller is: stability, accuracy, settling, overshoot
``mapping``       f_mu: which instance owns which bucket of keys
``balancing``     sharing measured loads among instances
================  =====================================================================
"""
