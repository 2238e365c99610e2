"""How the parts of a run are connected: what feeds each inlet, where results go, and what reads each source.

It is made once, while the run starts. Nothing runs here, and nothing refers to it afterwards.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.egress.collector import Consumer
from headrace.ingress.readers import Reader
from headrace.plan.nodes import OperatorNode, Query, SourceNode
from headrace.runtime.consumers import Relay, SinkConsumer
from headrace.runtime.feeding import Feeder
from headrace.runtime.options import RunOptions
from headrace.runtime.player import REST_S, Origin, Player
from headrace.runtime.sections import Section
from headrace.runtime.shared_stream import SharedStream
from headrace.runtime.source_threads import OWN_THREADS
from headrace.runtime.sources import Source
from headrace.runtime.step_threads import StepThreads
from headrace.windows import NANOSECONDS


class Wiring:
    """The connections of the sections of a query.

    Parameters
    ----------
    query : Query
    options : RunOptions
    sections : dict
        By the name of their node, upstream first.
    ends : dict
        The consumer of each output of the query, by the output's name.
    stop_word : int64[...]
        Word 0 is not 0 once the run is over.
    """

    def __init__(
        self,
        query: Query,
        options: RunOptions,
        sections: Mapping[str, Section],
        ends: Mapping[str, SinkConsumer],
        stop_word: np.ndarray,
    ):
        self._query, self._options, self._sections, self._ends = query, options, sections, ends
        self._stop_word = stop_word
        self._feeders = self._make_feeders()
        """The feeders of each section, in the order of its inlets."""
        self._all_feeders = list(itertools.chain.from_iterable(self._feeders.values()))
        self.relays: list[tuple[str, Relay]] = []
        """The relays that `consumers_of` made, each with the name of its thread."""

    def _make_feeders(self) -> dict[str, list[Feeder]]:
        origin, rest_s = Origin(), self._rest_s()
        feeders: dict[str, list[Feeder]] = {}
        for name, section in self._sections.items():
            feeders[name] = []
            for inlet in section.inlets:
                given = inlet.branch.origin
                player = Player(None)
                if isinstance(given, SourceNode):
                    player = Player(self._options.rate, origin, NANOSECONDS[given.unit], rest_s=rest_s)
                else:
                    before = self._sections[given.name]
                    inlet.books.arrived = lambda before=before: before.results
                feeders[name].append(Feeder(inlet, self._stop_word, player, self._options.debug))
        return feeders

    def _rest_s(self) -> float:
        """How long a paced source rests: many sources share threads, which should not wake for each more often than for a few."""
        inlets = itertools.chain.from_iterable(section.inlets for section in self._sections.values())
        external = sum(isinstance(inlet.branch.origin, SourceNode) for inlet in inlets)
        return REST_S * max(1, math.ceil(external / OWN_THREADS))

    def is_followed(self, name: str) -> bool:
        """Whether a section's results go into another section."""
        return any(self._comes_from(feed, name) for feed in self._all_feeders)

    @staticmethod
    def _comes_from(feed: Feeder, name: str) -> bool:
        origin = feed.inlet.branch.origin
        return isinstance(origin, OperatorNode) and origin.name == name

    def consumers_of(self, name: str) -> Sequence[Consumer]:
        """The consumers of a section's results, sinks and downstream inlets; if there are several, each has its own relay.

        There are none of one whose workers pass their results on.
        """
        if getattr(self._sections[name], "passes_on", False):
            return []
        outputs = [output.name for output in self._query.outputs if output.node.name == name]
        consumers: list[Any] = [self._ends[output] for output in outputs]
        consumers += [feed for feed in self._all_feeders if self._comes_from(feed, name)]
        if len(consumers) < 2:
            return consumers
        own = [Relay(consumer, self._stop_word) for consumer in consumers]
        self.relays += [(f"{name}-relay{number}", relay) for number, relay in enumerate(own)]
        return own

    def step_threads(self, start: Callable[[str, Callable[[], None]], None]) -> StepThreads | None:
        """Threads for the steps of sources; None where the reading thread of a source applies them."""
        stepping = sum(feed.has_free_steps for feed in self._all_feeders if self._is_external(feed))
        if self._options.step_threads == 1 or not stepping:
            return None
        return StepThreads(self._options.step_threads, stepping, self._stop_word, start)

    def sources(self, fail: Callable[[BaseException], None], step_threads: StepThreads | None) -> list[Source]:
        """The sources that read the query's streams: one for each inlet that a stream feeds."""
        shared = _shared_readers([feed for feed in self._all_feeders if self._is_external(feed)])
        return [
            Source(
                name, self._sections[name].operators[0], number, feed, ways, self._options.passed_time, fail,
                self._stop_word, shared.get(feed), step_threads,
            )
            for name, ways in self._feeders.items()
            for number, feed in enumerate(ways)
            if self._is_external(feed)
        ]  # fmt: skip

    @staticmethod
    def _is_external(feed: Feeder) -> bool:
        return isinstance(feed.inlet.branch.origin, SourceNode)


def _shared_readers(feeders: Sequence[Feeder]) -> dict[Feeder, Reader]:
    """Return readers for the feeders whose stream can be read only once and goes into several operators."""
    by_stream: dict[tuple[int, int], list[Feeder]] = {}
    for feed in feeders:
        branch = feed.inlet.branch
        by_stream.setdefault((id(branch.origin), branch.source_index), []).append(feed)
    found = {}
    for takers in by_stream.values():
        branch = takers[0].inlet.branch
        reader = branch.origin.readers[branch.source_index]() if len(takers) > 1 else None
        if reader is not None and not reader.is_replayable:
            stream = SharedStream(reader, len(takers))
            found |= {feed: stream.taker(number) for number, feed in enumerate(takers)}
    return found
