"""forward: every tuple of all inputs, in merged order (STRETCH, Operator 15).

It has no key and no state, so it measures the gate.
"""

import headrace as hr
from headrace.apps.app import App
from headrace.reference import apps as reference


def build(first: hr.Stream, *others: hr.Stream) -> hr.Stream:
    return (first.union(*others) if others else first).forward()


APP = App(
    name="forward",
    help="pass the tuples of one or two inputs on, in merged order",
    left=None,
    right=None,
    has_right=None,
    build=build,
    reference=reference.forward,
)
