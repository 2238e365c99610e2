"""An operator's results on their way into the channels of the next one's instances, and changes of what each owns there.

`passing_kernel` on other kernels: its gate is `reader_queues_kernel`.
"""

import numpy as np

from headrace.egress.rings import FOR_SWITCH
from headrace.elastic.passing_kernel import take_results
from headrace.gates.reader_queues_kernel import switch
from headrace.kernel import kernel


@kernel
def route_results(p, me, request, head, mark):
    """What the ring's kernels call in the collector's place: see ELSEWHERE in `egress.rings`."""
    if request == FOR_SWITCH:
        switch(p.gate, head, mark, p.stop)
        return np.int64(1)
    return take_results(p, me, request, head, mark)


__all__ = ["route_results"]
