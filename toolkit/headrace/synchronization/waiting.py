"""Which node waits for which at the moment, from what any thread may read: states of leaves, mailboxes and inputs.

The numbers are read while workers go on: each was true a moment ago. The answer takes them as if all were of one moment; one
answer in a thousand may name something that has just come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.ingress.store import Store
from headrace.memory.atomics import CELL
from headrace.memory.cells import read_cell, read_cells
from headrace.progress import MIN_TIME
from headrace.synchronization import words
from headrace.synchronization.layout import Layout
from headrace.synchronization.tag_ranges import tags_text

A_THREAD = "a thread"
"""What a leaf waits for that has events it may process, and that no thread runs."""


def waits(arrays: Any, layout: Layout, stores: Sequence[Store]) -> list[str]:
    """Say what each node waits for.

    Parameters
    ----------
    arrays : PlanArrays
    layout : Layout
        In force.
    stores : sequence of Store
        Of the inputs.

    Returns
    -------
    list of str
        The name of a node that has to process something or to come to rest; or of an input, by its tags, that has to bring
        something or to promise that it will not; or "a thread"; "" for a node that works, or has nothing to do.
    """
    queues, cells = layout.queues, words.QUEUE_CELLS * CELL
    frontier = read_cells(arrays.input[words.FRONTIER :], words.INPUT_CELLS * CELL)
    head, at, tail, done = (
        read_cells(arrays.queue[cell:], cells)[: len(queues)] for cell in (words.HEAD, words.AT, words.TAIL, words.DONE_TS)
    )
    is_there = head < tail
    first = [
        max(int(done[q]), _first_ts(arrays, stores[queue.input], q, int(head[q]), int(at[q]))) if is_there[q]
        else int(frontier[queue.input])
        for q, queue in enumerate(queues)
    ]  # fmt: skip
    states = read_cells(arrays.node[words.STATE :], words.NODE_CELLS * CELL)
    own = [[q for q in layout.queues_of(node) if is_there[q]] for node in range(len(layout.places))]

    def rank(q: int) -> tuple[int, int]:
        return first[q], queues[q].input

    def holds_back(node: int) -> str | None:
        """The name of the node or tags whose event has to come before the node's first one; None: nothing."""
        q = min(own[node], key=rank)
        other = min(layout.dependents[q], key=rank, default=None)
        if other is None or rank(other) >= rank(q):
            return None
        if is_there[other]:
            return layout.names[queues[other].node]
        return tags_text([tag for tag in layout.places[queues[other].node].tags if tag.tag == queues[other].tag])

    def above(node: int) -> str:
        """The nearest node above that has an event; the parent if none has."""
        parent = layout.places[node].parent
        at = parent
        while at >= 0:
            if own[at]:
                return layout.names[at]
            at = layout.places[at].parent
        return layout.names[parent] if parent >= 0 else ""

    def of(node: int) -> str:
        place = layout.places[node]
        if place.is_leaf:
            if states[node] == words.RUNNING:
                return ""
            if states[node] == words.AT_REST:
                return above(node)
            return (holds_back(node) or A_THREAD) if own[node] else ""
        if not own[node]:
            return ""
        held = holds_back(node)
        below = (leaf for leaf in layout.leaves if place.below <= leaf <= node and states[leaf] != words.AT_REST)
        restless = next(below, None)
        return held or (layout.names[restless] if restless is not None else "")

    return [of(node) for node in range(len(layout.places))]


def _first_ts(arrays: Any, store: Store, q: int, head: int, at: int) -> int:
    """Event time of a queue's first event: the first of its first run, or the first unprocessed one in that run."""
    run = (q * words.RUNS + (head & (words.RUNS - 1))) * words.RUN_WORDS
    if not at:
        return read_cell(arrays.runs, run + words.FIRST_TS)
    try:
        return store.ts_of(read_cell(arrays.runs, run + words.FIRST) + at)
    except KeyError:  # processed and freed meanwhile
        return MIN_TIME


__all__ = ["waits"]
