"""`mode="sn"`: an operator whose instances share nothing, run by the same engine.

Between the input gate and the instances there is one more thread for each source:
its router. The routers are the gate's readers. What a router copies to an instance
goes into the router's queue to that instance, and into that instance's store of the
source. Everything after the instances is as under VSN.
See `headrace.elastic.shared_nothing.template` for what differs and why.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from headrace.codegen.kinds import Array, MapOf, SetOf, width_of
from headrace.elastic import build, words
from headrace.elastic.aggregate.compiled import CompiledAggregate
from headrace.elastic.aggregate.shape import Layout
from headrace.elastic.arrays import InstanceArrays
from headrace.elastic.configuration import Configuration
from headrace.elastic.custom import custom_kernel
from headrace.elastic.custom.compiled import CompiledCustom
from headrace.elastic.custom.shape import (
    ARENA_FIELDS,
    LIST_FIELDS,
    POOL_FIELDS,
    fields_by_key,
    node_fields,
    state_field,
)
from headrace.elastic.join.compiled import CompiledJoin
from headrace.elastic.section import ElasticSection
from headrace.elastic.shared_nothing import instance_queues, router, transfer
from headrace.elastic.shared_nothing.private_store import PrivateStore
from headrace.elastic.shared_nothing.template import build_instance, build_router, custom_text
from headrace.elastic.shared_nothing.transfer import Containers, Field, KeyedState, Lists, Sets
from headrace.elastic.shared_nothing.transfer_kernel import ALL_EPOCHS, EPOCH_RING
from headrace.ingress.store import CHUNK, allocate_directories, chunk_of
from headrace.kernel import compile_now
from headrace.memory.atomics import CELL
from headrace.memory.bundle import named
from headrace.memory.cells import read_cell
from headrace.memory.event_count import signal
from headrace.metrics.snapshot import OperatorMetrics
from headrace.progress import NEVER
from headrace.references import row_of, source_of, tuple_reference
from headrace.runtime.sections import Moment, Task
from headrace.workers.spans import counters


class SharedNothingSection(ElasticSection):
    """An operator with a state for each instance, and a queue and a store for each pair of source and instance."""

    def _build(self) -> build.Instance:
        compiled, debug = self.compiled, self.options.debug
        if isinstance(compiled, CompiledJoin):
            self._recipients, text, positions = router.TO_ALL, compiled.text(), "seen"
            transfer_text = transfer.stored_transfer(compiled.shape)
        elif isinstance(compiled, CompiledCustom):
            self._recipients, text, positions = router.TO_OWNERS, custom_text(compiled.shape), "ticks"
            transfer_text = transfer.keyed_transfer(self._custom_state(compiled))
        elif isinstance(compiled, CompiledAggregate):
            self._recipients, text, positions = router.TO_OWNERS, compiled.text(), "none"
            transfer_text = transfer.keyed_transfer(self._aggregate_state(compiled))
        else:
            self._recipients, text, positions = router.BY_POSITION, compiled.text(), "seen"
            transfer_text = transfer.no_transfer()
        self._router = build_router(self.options.gate, debug)
        return build_instance(text, transfer_text, positions, f"{self._kind} sn", debug)

    def _fields(self, names: Iterable[str]) -> tuple[Field, ...]:
        """Fields of the state, with the bytes per element."""
        return tuple((name, getattr(self.state, name).itemsize) for name in names)

    def _aggregate_state(self, compiled: CompiledAggregate) -> KeyedState:
        layout = Layout(compiled.shape)
        sets = Sets(*layout.sets, len(layout.distinct)) if layout.sets else None
        containers = Containers(*layout.arena, layout.heads) if layout.heads else None
        by_key = self._fields(layout.by_key)
        return KeyedState(compiled.shape.slots, by_key, layout.opened, sets, containers=containers)

    def _custom_state(self, compiled: CompiledCustom) -> KeyedState:
        shape = compiled.shape
        by_key = fields_by_key(shape)
        lists = None
        if shape.stored is not None:
            first, last, _ = LIST_FIELDS
            lists = Lists(first, last, POOL_FIELDS, self._fields(node_fields(shape.stored)))
        slots = 1 if shape.is_single else shape.slots
        heads = {state_field(n): width_of(k) if isinstance(k, SetOf | MapOf) else None for n, k in shape.containers}
        arrays = {state_field(n): k.size for n, k, _ in shape.state if isinstance(k, Array)}
        containers = Containers(*ARENA_FIELDS, heads, arrays) if heads or arrays else None
        return KeyedState(slots, self._fields(by_key), lists=lists, containers=containers)

    def _activate(self, initial: Configuration, planned: Sequence[tuple[int, Configuration]]) -> None:
        self._allocate()
        for source in range(len(self.inlets)):
            self.kernels.join_reader(self.gate, source, 0, 1)
        super()._activate(initial, planned)

    def _join(self, member: int) -> None:
        instance_queues.join_reader(self._queues, member, 0, 1)

    def _allocate(self) -> None:
        compiled, instances, sources = self.compiled, self.max_threads, len(self.inlets)
        capacity, bound_ns = self.options.capacity_for(sources), self.options.bound_for(compiled.bound_ns)
        self._queues = instance_queues.allocate(sources, instances, capacity, bound_ns, self.gate)
        # The instances learn of planned changes from their queues.
        self._instance_arrays = InstanceArrays(**{**self.arrays._asdict(), "plan_at": np.full(1, NEVER)})
        self._transfers = np.zeros((ALL_EPOCHS + 1, 2), np.int64)
        self._directories = allocate_directories(instances * sources, compiled.value_columns).reshape(
            instances, sources, -1
        )
        names = self.kept_fields
        private = [self.state, *(compiled.allocate(instances, 1) for _ in range(instances - 1))]
        # For the transfer: the address of each field in the state of every instance.
        among_all = {f"all_{name}": np.array([getattr(own, name).ctypes.data for own in private]) for name in names}
        among_all |= {"transfers": self._transfers, "stores": self._directories}
        self._states = [
            named(**self.state._asdict() | {name: getattr(own, name) for name in names} | among_all)
            for own in private
        ]
        self._private = [
            [
                PrivateStore(
                    compiled.columns_of(inlet.branch.side),
                    compiled.multi_key_of(inlet.branch.side),
                    self._directories[instance, source],
                )
                for source, inlet in enumerate(self.inlets)
            ]
            for instance in range(instances)
        ]
        self._routing = [
            router.allocate(
                source,
                self._recipients,
                not isinstance(compiled, CompiledAggregate),
                instances,
                store.multi_key,
                store.width,
                [dtype.itemsize for dtype in store.dtypes],
            )
            for source, store in enumerate(self._private[0])
        ]
        self._memory = threading.Lock()
        if isinstance(compiled, CompiledCustom):
            compiled.look_at(self.state)

    def arguments(self, worker: int) -> tuple:
        return (
            worker,
            self._queues,
            self._instance_arrays,
            self.out,
            self._directories[worker],
            self._states[worker],
            self.own_words[worker],
            self.compiled.scratch(),
        )

    def compile_handles(self) -> None:
        super().compile_handles()
        compile_now(self._router.route, self._router_arguments(0))

    # -- the routers

    def _gate_readers(self, sources: int) -> int:
        return sources

    def _router_arguments(self, source: int) -> tuple:
        return self.gate, self.arrays, self._queues, self.directories, self._directories, self._routing[source]

    def helpers(self) -> Iterable[Task]:
        routers = range(len(self.inlets))
        return [Task(f"{self.name}-router {source}", functools.partial(self._route, source)) for source in routers]

    def _route(self, source: int) -> None:
        arguments = self._router_arguments(source)
        while True:
            status = self._router.route(*arguments)
            if status == router.OVER:
                return
            with self._memory:
                if status == router.NEEDS_MEMORY:
                    self._make_room(source)
                else:
                    self._prepare(source)

    def _members(self, row: int) -> list[int]:
        return [int(r) for r in np.flatnonzero(self.arrays.member[row])]

    def _make_room(self, source: int) -> None:
        """Give every member's store the chunks, masks and key buffers that the next tuples need."""
        t = self._routing[source]
        needed = int(t.words[router.KEYS_NEEDED])
        for r in self._members(int(t.words[router.CONFIG])):
            store = self._private[r][source]
            while t.room[r] - t.rows[r] < router.BATCH_TUPLES:
                number = chunk_of(int(t.room[r]))
                store.open(number, t.masked)
                t.room[r] += CHUNK
                t.origin[r, number & 1] = store.origin_address(number)
                t.keys_room[r, number & 1] = store.chunks[number].keys.size
            if store.multi_key:
                number = chunk_of(int(t.rows[r]))
                store.grow_keys(number, int(t.used[r]), needed)
                t.keys_room[r, number & 1] = store.chunks[number].keys.size
        for own in self._private:  # of all instances: one that is not a member now may become one
            own[source].add_masks(t.masked)
        t.words[router.KEYS_NEEDED] = 0

    def _prepare(self, source: int) -> None:
        """Prepare for the next configuration: joiners that get every tuple need a store as long as the others'."""
        t = self._routing[source]
        now, following = int(t.words[router.CONFIG]), int(t.words[router.NEXT_CONFIG])
        members = self._members(now)
        if self._recipients == router.TO_ALL:
            model = members[0]
            for r in set(self._members(following)) - set(members):
                rows = int(t.rows[model])
                self._private[r][source].follow(self._private[model][source], rows, t.masked)
                t.rows[r] = rows
                t.room[r] = t.room[model]
        t.words[router.PREPARED] = following

    # -- what differs in measuring and stopping

    def release(self, watermark: int) -> None:
        super().release(watermark)
        with self._memory:
            for source, t in enumerate(self._routing):
                for rows, own in zip(t.rows, self._private, strict=True):
                    own[source].free(int(rows), watermark - self.compiled.retention)

    def stop(self) -> None:
        super().stop()
        queues = self._queues
        signal(queues.words, instance_queues.READERS_WAITING, queues.event, instance_queues.DATA_EVENT)
        signal(queues.words, router.ROUTERS_WAITING, queues.event, instance_queues.SPACE_EVENT)

    def transfer_of(self, epoch: int) -> tuple[int, int]:
        """Return (bytes, ns) of the state that moved at an epoch."""
        moved, ns = self._transfers[epoch % EPOCH_RING]
        return int(moved), int(ns)

    @property
    def states(self) -> Sequence[tuple[np.ndarray, ...]]:
        """The state of each instance."""
        return self._states

    def records_held(self, members: list[int]) -> int:
        return super().records_held(list(range(len(self.inlets))))  # the routers are the gate's readers

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """An instance has passed all tuples before the first record that waits for it.

        All instances count, because routers may have tuples for some that are not yet members.
        """
        queues, instances = self._queues, self.max_threads
        reads = [read_cell(t.words, router.SEEN) for t in self._routing]  # first: what enters a queue later comes after these
        passed = [min(reads)]
        for r in range(instances):
            # Queues before the lane: a record that leaves a queue meanwhile is found in the lane, or was passed.
            for source, t in enumerate(self._routing):
                q = source * instances + r
                # The router's own END: its SEEN runs ahead of what it has published.
                passed += _first_waiting(queues.taken[q * CELL :], t.end[r:], queues.queue_seen[q])
            if len(reads) > 1:
                passed += _first_waiting(queues.cursor[r * CELL :], queues.merged[r * CELL :], queues.out_seen[r])
        return min(passed), min(reads), max(reads)

    def _waiting(self, r: int) -> int:
        """How many records wait for an instance."""
        queues = self._queues
        pairs = [source * self.max_threads + r for source in range(len(self.inlets))]
        waiting = sum(_held(queues.end, queues.taken, pair) for pair in pairs)
        return waiting + (_held(queues.merged, queues.cursor, r) if len(pairs) > 1 else 0)

    def backlog_ns(self, members: list[int], depth: int) -> int:
        """The largest backlog of an instance, plus the largest of a router."""
        waiting = [self._waiting(r) * read_cell(self._queues.cost, r * CELL) for r in members]
        added = sum(inlet.books.added for inlet in self.inlets)
        routing = [
            max(0, added - read_cell(t.words, router.SEEN)) * read_cell(self.gate.cost, source * CELL)
            for source, t in enumerate(self._routing)
        ]
        return max(0, *waiting) + max(routing)

    @property
    def _copies(self) -> int:
        return sum(read_cell(t.words, router.COPIES) for t in self._routing)

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        copies = self._copies
        taken = int(counters(self.arrays.meter)[:, words.TUPLES].sum())
        return [] if copies == taken else [f"the routers sent {copies:,} copies, and {taken:,} were processed"]

    def metrics(self, operator: str, moment: Moment) -> OperatorMetrics:
        measured = super().metrics(operator, moment)
        read = max(read_cell(t.words, router.SEEN) for t in self._routing)
        moved, ns = self._transfers[ALL_EPOCHS]
        own = {
            "duplication": self._copies / max(1, read),
            "transferred_bytes": int(moved),
            "transferred_ns": int(ns),
        }
        return replace(measured, values={**measured.values, **own})

    def explain_exception(self, error: Exception, worker: int) -> BaseException | None:
        """A custom operator's tuple is a copy: explain the original tuple, with this worker's state."""
        compiled, words = self.compiled, self.own_words[worker]
        if isinstance(compiled, CompiledCustom):
            ref = int(words[custom_kernel.CAUSE_REF])
            source, row = source_of(ref), row_of(ref)
            if words[custom_kernel.STAGE] == custom_kernel.UPDATE:
                origin = self._private[worker][source].origin_of(row)
                words[custom_kernel.CAUSE_REF] = tuple_reference(source, origin)
            compiled.look_at(self._states[worker])
        return super().explain_exception(error, worker)


def _held(written: np.ndarray, taken: np.ndarray, cell: int) -> int:
    """Records in a queue; its end is read last, so the number is never negative."""
    before = read_cell(taken, cell * CELL)
    return read_cell(written, cell * CELL) - before


def _first_waiting(taken: np.ndarray, end: np.ndarray, seen: np.ndarray) -> list[int]:
    """SEEN of the first record that a reader has not taken yet, as a list; empty if there is none.

    `taken` and `end` are views that begin with the cell to read.
    """
    cursor, last, first = -1, -1, 0
    while cursor != read_cell(taken, 0):  # the slot may have been reused meanwhile
        cursor, last = read_cell(taken, 0), read_cell(end, 0)
        first = int(seen[cursor & (len(seen) - 1)])
    return [first] if cursor < last else []  # `last` was read before the slot: the record had been written
