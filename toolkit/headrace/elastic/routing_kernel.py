"""Route an operator's results into the channels of the next one's instances, and change which keys each of these owns.

This is `passing_kernel` with `reader_queues_kernel` as the gate.
"""

import numpy as np

from headrace.egress.rings import FOR_SWITCH
from headrace.elastic.passing_kernel import take_results
from headrace.gates.reader_queues_kernel import switch
from headrace.kernel import kernel


@kernel
def route_results(p, me, request, head, mark):
    """The kernel that the ring's kernels call in place of a collector: see ELSEWHERE in `egress.rings`."""
    if request == FOR_SWITCH:
        switch(p.gate, head, mark, p.stop)
        return np.int64(1)
    return take_results(p, me, request, head, mark)


__all__ = ["route_results"]
