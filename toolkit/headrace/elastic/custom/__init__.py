"""O+ with user functions: f_U, f_O, f_S over the windows of each key.

=====================  ==============================================================================
``operator``           `hr.operator`: the definition of an operator by a user
``binding``            what each name in the functions stands for in the kernels; the rewritten text
``compiled``            the operator: its state, and the explanation of failed calls
``shape``              what its kernels depend on, and the names of its state
``custom_kernel``      windows: ticks, expiry, which tuples fall into the same ones
``kept_kernel``        windows that keep their tuples
``texts_kernel``       which strings the state of a sliding window instance still holds
``containers_kernel``  containers that are emitted
``template``           text of the calls of the functions, and of their arguments
``results``            from result records to rows
=====================  ==============================================================================
"""
