"""O+ with the functions of a user: f_U, f_O, f_S over the windows of each key.

=====================  ==============================================================================
``operator``           `hr.operator`: what a user says
``binding``            what each name in the functions stands for in the kernels; the rewritten text
``program``            the operator: its state, and why a call failed
``shape``              what its kernels depend on, and the names of its state
``custom_kernel``      windows: ticks, expiry, which tuples fall into the same ones
``kept_kernel``        windows that keep their tuples
``texts_kernel``       which strings a state that slides still holds
``containers_kernel``  containers that are emitted
``template``           how the functions are called, and with what, as text
``results``            from result records to rows
=====================  ==============================================================================
"""
