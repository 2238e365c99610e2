"""Results passed on to several operators: what replaces the collector of the operator before, where `ways` decides so.

Each taker has what a single one has: a `passing.Passed`, with counts, latency and watermark of its own, and a gate with a source
for each instance. The instances give their rows to all gates (`several_takers_kernel`).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from headrace.codegen.called import Bound
from headrace.egress.rings import OutArrays
from headrace.elastic.passing import Passed, take_over
from headrace.elastic.several_takers_kernel import (
    ARRAYS,
    KERNEL,
    SeveralArrays,
    TakerArrays,
    take_for_all,
    take_share,
)
from headrace.memory.cells import padded_cells
from headrace.metrics.latency import LatencyHistogram


class PassedToSeveral:
    """What a section that passes its results on to several operators has in place of a collector.

    Parameters
    ----------
    section : ElasticSection
        Whose results are passed on.
    takers : int
        How many operators take them.
    """

    def __init__(self, section: Any, takers: int):
        self._section, self._takers = section, takers
        self._passed: list[Passed] = []
        self._bound: list[Bound] = []
        self.finished = threading.Event()

    def pass_to(self, following: Any) -> Passed:
        """Add an operator that takes the results."""
        instances = self._section.max_threads
        own = OutArrays(**self._section.out._asdict() | {"tail": padded_cells(instances)})
        passed = Passed(self._section, following, own)
        self._passed.append(passed)
        return passed

    def compile(self) -> None:
        """Compile the kernels that take the results, and have the rings' kernels call them from now on."""
        out, example = self._section.out, (0, 0, 0, 0)
        assert len(self._passed) == self._takers
        addresses = np.zeros((self._takers, 2), np.int64)
        for row, passed in zip(addresses, self._passed, strict=True):
            share = Bound(take_share, TakerArrays(passed.arrays, padded_cells(self._section.max_threads)), example)
            row[KERNEL], row[ARRAYS] = share.addresses
            self._bound.append(share)
        all_of_them = Bound(take_for_all, SeveralArrays(out, addresses, self._passed[0].arrays.stop), example)
        self._bound.append(all_of_them)
        take_over(out, all_of_them)

    @property
    def rows(self) -> int:
        """Results so far."""
        return self._passed[0].rows

    @property
    def unreleased(self) -> int:
        """Results that some gate has not taken yet."""
        return max(passed.unreleased for passed in self._passed)

    @property
    def latency(self) -> LatencyHistogram:
        """From the arrival of the tuple that made a result ready until it was given to the last operator."""
        return self._passed[-1].latency

    @property
    def watermark(self) -> int:
        """Event time up to which all results have been passed on to all."""
        return min(passed.watermark for passed in self._passed)


__all__ = ["PassedToSeveral"]
