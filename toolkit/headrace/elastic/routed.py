"""An operator whose instances each read a channel of their own, into which the upstream instances route their results.

This is `channel="reader"`, Viper's way between operators, the alternative to a gate that all instances read. State and keys
are shared as in the gate: only which instance reads a tuple is decided earlier, by the sender. So a change of ownership has to
change the senders: its control record goes into the gate of the upstream operator, whose instances meet there, and the last to
arrive puts it into force (`gates.reader_queues_kernel`: `switch`). From there it reaches this operator's instances, which meet
as usual.

Source      Viper (Walulya et al.), section 3.3; STRETCH, section 7.
Checked     tests/headrace/elastic/test_routed.py, test_routed_interleave.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.codegen.included import included
from headrace.codegen.modules import load_module
from headrace.elastic import build, epochs, passing_kernel, routing_kernel, words
from headrace.elastic.configuration import Configuration
from headrace.elastic.reconfiguration import Reconfiguration
from headrace.elastic.section import OUTPUT_CAPACITY, ElasticSection
from headrace.gates import reader_queues, reader_queues_kernel
from headrace.gates.variants import instead_of
from headrace.memory.cells import read_cells
from headrace.workers.spans import counters

_KERNELS = reader_queues_kernel.__name__
_LEAST_SHARE = 1024
"""The least bound of a queue, in tuples, if the gate has no lower one: queues grow in number with the square of the threads."""

_SHARING = build.READS_SOME + build.SHARES_STATE + '''
from headrace.elastic.instance_loop import SEEN
from headrace.gates.reader_queues_kernel import tuples_passed


@kernel
def tuples_before(g, l, row, start):
    """Count the tuples passed here and elsewhere: a window gets at most as many as this grows by while it is open."""
    return tuples_passed(g)
'''


class RoutedReconfiguration(Reconfiguration):
    """Changes of an operator that also change how its senders route: placed in the gate of the operator before."""

    def _place(self, row: int) -> bool:
        return super()._place(epochs.BEHIND + row)


class RoutedSection(ElasticSection):
    """An operator whose instances each read what the operator before has routed to them."""

    is_routed = True

    @property
    def _senders(self) -> ElasticSection:
        assert self.above is not None
        return self.above

    def _open(self, sources: int) -> None:
        options = self.options
        self.kernels = reader_queues_kernel
        allowed = options.capacity_for(sources)
        share = max(allowed // self.max_threads, min(allowed, _LEAST_SHARE))
        bound_ns = options.bound_for(self.compiled.bound_ns)
        self.gate = reader_queues.allocate(sources, OUTPUT_CAPACITY, share, bound_ns, self.arrays.member, self.arrays.owner)

    def _build(self) -> build.Instance:
        return build.Instance(self.compiled.text(), _KERNELS, self._kind, _SHARING, self.options.debug)

    def _steer(self, planned: Sequence[tuple[int, Configuration]]) -> Reconfiguration:
        senders = self._senders
        return RoutedReconfiguration(
            self.arrays, senders.gate, senders.kernels, self.max_threads, self.initial, planned, self.transfer_of
        )

    @property
    def taker(self) -> Any:
        """`routing_kernel.route_results`, compiled for these channels."""
        passing = load_module(included(passing_kernel, instead_of(_KERNELS)), "passing reader queues")
        instead = {passing_kernel.__name__: passing.__name__}
        return load_module(included(routing_kernel, instead), "routing", entry="route_results").route_results

    def passed_keys(self, instances: int, rows: int) -> np.ndarray:
        """The keys by which senders route."""
        return self.gate.keys

    # -- what is measured

    def records_held(self, members: list[int]) -> int:
        """Records in the channels."""
        read = read_cells(self.gate.tail)
        return int((read_cells(self.gate.end) - read).sum())

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """The tuples that instances have passed in their own channels, added up: each tuple is in one channel."""
        passed = int(read_cells(self.gate.passed).sum())
        return passed, passed, passed

    def backlog_ns(self, members: list[int], depth: int) -> int:
        """How long the instance with the most waiting work will take for it, at its recent speed."""
        read = read_cells(self.gate.tail)
        waiting = (read_cells(self.gate.end) - read).reshape(self.max_threads, -1).sum(axis=1)
        return int((waiting * read_cells(self.gate.cost)).max())

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        """What shows, at the end of the input, that some routed tuples were not processed."""
        processed = int(counters(self.arrays.meter)[:, words.TUPLES].sum())
        return [] if processed == added else [f"{added:,} tuples were routed, and {processed:,} were processed"]


__all__ = ["RoutedSection"]
