"""`mode="sn"`: an operator whose instances share nothing, run by the same engine.

Between the input gate and the instances stands one more thread for each source,
its router. The routers are the gate's readers; what a router copies to an
instance goes into its queue to that instance, and into that instance's store of
the source. Everything after the instances is as under VSN.
See `headrace.operators.shared_nothing` for what differs and why.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np

from headrace.elasticity.reconfiguration import Configuration, write_configuration
from headrace.engine.custom_program import CustomProgram
from headrace.engine.join_program import JoinProgram
from headrace.engine.operator import Operator, compile_now
from headrace.engine.programs import FREE_WORD, AggregateProgram, Program
from headrace.errors import HeadraceError
from headrace.gates import store as stores
from headrace.gates.merged_log_kernel import ROW_MASK, SOURCE_SHIFT
from headrace.gates.store import CHUNK, CHUNK_SHIFT, Store
from headrace.memory.atomics import CELL
from headrace.memory.bundle import numbered
from headrace.memory.cells import read_cell, read_cells
from headrace.memory.event_count import signal
from headrace.operators import (
    aggregate,
    custom,
    custom_shape,
    instance_queues,
    membership,
    output,
    shared_nothing,
)
from headrace.operators import router_kernel as router
from headrace.operators.shared_nothing import TOTAL, KeyedState, Lists
from headrace.progress import MIN_TIME


class PrivateStore(Store):
    """The rows of one source that one instance was sent, written by the router.

    Python opens, enlarges and frees chunks; the router fills them through the
    directory. Rows count from 0, or are the source's own if all are sent.
    """

    def __init__(self, columns, multi_key: bool, directory: np.ndarray):
        super().__init__(columns, multi_key, directory)
        self._origins: dict[int, np.ndarray] = {}

    def open(self, number: int, masked: np.ndarray) -> None:
        """Make chunk `number` writable, with validity masks for these columns."""
        self._open(number)
        self._origins[number] = np.empty(CHUNK, np.int64)
        self.add_masks(masked)

    def origin_address(self, number: int) -> int:
        """Where the router notes what the rows of a chunk are copies of."""
        return self._origins[number].ctypes.data

    def origin_of(self, row: int) -> int:
        """Return the source's own number of a row."""
        return int(self._origins[row >> CHUNK_SHIFT][row & (CHUNK - 1)])

    def add_masks(self, masked: np.ndarray) -> None:
        """Give all chunks a validity mask for each of these columns."""
        for number, chunk in list(self.chunks.items()):
            missing = [i for i in range(len(self.names)) if masked[i] and chunk.validity[i] is None]
            for i in missing:
                chunk.validity[i] = np.ones(CHUNK, np.uint8)
            if missing:
                self._publish(number, chunk)

    def grow_keys(self, number: int, used: int, needed: int) -> None:
        """Make room for `needed` more keys in a chunk; readers of the old buffer keep it."""
        chunk = self.chunks[number]
        if used + needed <= chunk.keys.size:
            return
        grown = np.empty(max(used + needed, 2 * chunk.keys.size), np.int32)
        grown[:used] = chunk.keys[:used]
        chunk.retired.append(chunk.keys)
        chunk.keys = grown
        self._keys_hint = max(self._keys_hint, grown.size)
        self._publish(number, chunk)

    def free(self, rows: int, horizon: int) -> None:
        """Free the full chunks among the first `rows` rows whose last ts is below `horizon`."""
        self.rows = rows
        for number in range(self.first_chunk, rows >> CHUNK_SHIFT):
            chunk = self.chunks.get(number)
            if chunk is not None:
                chunk.last_ts = int(chunk.ts[-1])
        self.release(horizon)
        for number in [n for n in self._origins if n < self.first_chunk]:
            del self._origins[number]

    def follow(self, other: PrivateStore, rows: int, masked: np.ndarray) -> None:
        """Open the chunks that `other` has, to be filled by the transfer at the barrier."""
        numbers = sorted(other.chunks)
        for number in numbers:
            if number not in self.chunks:
                self.open(number, masked)
            if number < rows >> CHUNK_SHIFT:
                # Its last time decides when it is freed, and too old ones are not transferred.
                self.chunks[number].ts[-1] = other.chunks[number].ts[-1]
        self.add_masks(masked)
        self.first_chunk = numbers[0] if numbers else rows >> CHUNK_SHIFT
        for number in [n for n in self.chunks if n < self.first_chunk]:
            del self.chunks[number]
        for number in [n for n in self._origins if n < self.first_chunk]:
            del self._origins[number]


class SharedNothingOperator(Operator):
    """An operator with a state for each instance, and a queue and a store for each source and instance."""

    def _build(self) -> ModuleType:
        program, debug = self.program, self.options.debug
        table = len(self.state)
        if isinstance(program, JoinProgram):
            self._how, text, positions = router.TO_ALL, program.text(), "seen"
            transfer = shared_nothing.stored_transfer(program.shape, table)
        elif isinstance(program, CustomProgram):
            self._how, text, positions = router.TO_OWNERS, shared_nothing.custom_text(program.shape), "ticks"
            transfer = shared_nothing.keyed_transfer(self._custom_state(program), table)
        elif isinstance(program, AggregateProgram):
            self._how, text, positions = router.TO_OWNERS, program.text(), "none"
            transfer = shared_nothing.keyed_transfer(self._aggregate_state(program), table)
        else:
            self._how, text, positions = router.BY_POSITION, program.text(), "seen"
            transfer = shared_nothing.stateless_transfer(table)
        self._router = shared_nothing.build_router(self.options.gate, debug)
        name = (
            f"{type(program).__name__.removesuffix('Program').lower()} sn"  # one module for equal operators
        )
        return shared_nothing.build_instance(text, transfer, positions, name, debug)

    def _aggregate_state(self, program: AggregateProgram) -> KeyedState:
        opened, sets, distinct = aggregate.state_places(program.shape)
        arrays = tuple((i, self.state[i].itemsize) for i in range(opened))
        return KeyedState(program.shape.slots, arrays, opened, sets, distinct)

    def _custom_state(self, program: CustomProgram) -> KeyedState:
        shape = program.shape
        places = [custom_shape.PRESENT, *([custom_shape.LATEST] if shape.is_single else [])]
        places += sorted(custom_shape.field_places(shape).values())
        lists = None
        if shape.stored is not None:
            ends = [places.index(custom_shape.field_places(shape)[name]) for name in ("first", "last")]
            nodes = sorted(custom_shape.node_places(shape.stored).values())
            lists = Lists(*ends, custom_shape.FOLLOWING, tuple((i, self.state[i].itemsize) for i in nodes))
        slots = 1 if shape.is_single else shape.slots
        return KeyedState(slots, tuple((i, self.state[i].itemsize) for i in places), lists=lists)

    def _activate(self, initial: Configuration, planned: Sequence[tuple[int, Configuration]]) -> None:
        self._allocate()
        control = self.control
        write_configuration(control, 0, initial)
        for row, (at, configuration) in enumerate(planned, start=1):
            write_configuration(control, row, configuration)
            control.plan_at[row - 1] = at
            control.plan_config[row - 1] = row
        for source in range(len(self.ports)):
            self.kernels.join_reader(self.gate, source, 0, 1)
        for member in initial.members:
            control.start_watermark[member * CELL] = MIN_TIME
            instance_queues.join_reader(self._queues, member, 0, 1)
            output.start_mark(self.out, member, self.program.first_promise, MIN_TIME)

    def _allocate(self) -> None:
        program, instances, sources = self.program, self.max_threads, len(self.ports)
        self._queues = instance_queues.allocate(
            sources, instances, self.options.capacity, self.options.bound_ns, self.gate
        )
        # The instances learn of planned changes from their queues.
        unplanned = {"plan_at": np.full(1, router.NEVER), "plan_config": np.zeros(1, np.int64)}
        self._instance_control = membership.ControlArrays(**{**self.control._asdict(), **unplanned})
        self._transfers = np.zeros((TOTAL + 1, 2), np.int64)
        self._directories = stores.allocate_directories(instances * sources, program.value_columns).reshape(
            instances, sources, -1
        )
        first_output = program.first_output
        shared = list(self.state)[first_output:]
        private = [list(self.state)[:first_output]]
        private += [list(program.allocate(instances, 1))[:first_output] for _ in range(instances - 1)]
        table = np.array([[array.ctypes.data for array in arrays] for arrays in private], np.int64)
        table = table.reshape(instances, -1)
        self._states = [
            numbered((*arrays, *shared, table, self._transfers, self._directories)) for arrays in private
        ]
        self._private = [
            [
                PrivateStore(
                    program.columns_of(port.branch.side),
                    program.multi_key_of(port.branch.side),
                    self._directories[instance, source],
                )
                for source, port in enumerate(self.ports)
            ]
            for instance in range(instances)
        ]
        self._routing = [
            router.allocate(
                source,
                self._how,
                not isinstance(program, AggregateProgram),
                instances,
                store.multi_key,
                store.width,
                [dtype.itemsize for dtype in store.dtypes],
            )
            for source, store in enumerate(self._private[0])
        ]
        self._memory = threading.Lock()
        if isinstance(program, CustomProgram):
            program.look_at(self.state)

    def arguments(self, worker: int) -> tuple:
        return (
            worker,
            self._queues,
            self._instance_control,
            self.out,
            self._directories[worker],
            self._states[worker],
            self.program.private(worker),
            self.program.scratch(),
        )

    def compile_handles(self) -> None:
        super().compile_handles()
        compile_now(self._router.route, self._router_arguments(0))

    # -- the routers

    def _gate_readers(self, sources: int) -> int:
        return sources

    def _router_arguments(self, source: int) -> tuple:
        return self.gate, self.control, self._queues, self.directories, self._directories, self._routing[source]

    def helpers(self) -> Iterable[tuple[str, Callable[[], None]]]:
        return [(f"router {source}", functools.partial(self._route, source)) for source in range(len(self.ports))]

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
        return [int(r) for r in np.flatnonzero(self.control.member[row])]

    def _make_room(self, source: int) -> None:
        """Give every member's store the chunks, masks and key buffers that the next tuples need."""
        t = self._routing[source]
        needed = int(t.words[router.KEYS_NEEDED])
        for r in self._members(int(t.words[router.CONFIG])):
            store = self._private[r][source]
            while t.room[r] - t.rows[r] < router.BATCH:
                number = int(t.room[r]) >> CHUNK_SHIFT
                store.open(number, t.masked)
                t.room[r] += CHUNK
                t.origin[r, number & 1] = store.origin_address(number)
                t.keys_room[r, number & 1] = store.chunks[number].keys.size
            if store.multi_key:
                number = int(t.rows[r]) >> CHUNK_SHIFT
                store.grow_keys(number, int(t.used[r]), needed)
                t.keys_room[r, number & 1] = store.chunks[number].keys.size
        for own in self._private:  # of those, too, who are no members now and may be again
            own[source].add_masks(t.masked)
        t.words[router.KEYS_NEEDED] = 0

    def _prepare(self, source: int) -> None:
        """Before a configuration is in force: joiners that get every tuple need a store as long as the others'."""
        t = self._routing[source]
        now, following = int(t.words[router.CONFIG]), int(t.words[router.NEXT_CONFIG])
        members = self._members(now)
        if self._how == router.TO_ALL:
            model = members[0]
            for r in set(self._members(following)) - set(members):
                rows = int(t.rows[model])
                self._private[r][source].follow(self._private[model][source], rows, t.masked)
                t.rows[r] = rows
                t.room[r] = t.room[model]
        t.words[router.PREPARED] = following

    # -- what differs in being watched and ended

    def release(self, watermark: int) -> None:
        super().release(watermark)
        with self._memory:
            for source, t in enumerate(self._routing):
                for rows, own in zip(t.rows, self._private, strict=True):
                    own[source].free(int(rows), watermark - self.program.retention)

    def stop(self) -> None:
        super().stop()
        queues = self._queues
        signal(queues.words, instance_queues.READERS_WAITING, queues.event, instance_queues.DATA_EVENT)
        signal(queues.words, instance_queues.ROUTERS_WAITING, queues.event, instance_queues.SPACE_EVENT)

    def transfer_of(self, epoch: int) -> tuple[int, int]:
        """Return (bytes, ns) of the state that moved at an epoch."""
        moved, ns = self._transfers[epoch % membership.EPOCH_RING]
        return int(moved), int(ns)

    @property
    def states(self) -> Sequence[tuple[np.ndarray, ...]]:
        """The state of each instance."""
        return self._states

    def records_held(self, members: list[int]) -> int:
        return super().records_held(list(range(len(self.ports))))  # the routers are the gate's readers

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """What an instance has passed is all before the first record that waits for it.

        Of all instances: the routers may have tuples for some that are not yet members.
        """
        queues, instances = self._queues, self.max_threads
        reads = [read_cell(t.words, router.SEEN) for t in self._routing]  # first: what is put into a queue later comes after
        passed = [min(reads)]
        for r in range(instances):
            # Queues before the lane: what leaves one meanwhile is found in the other, or was passed.
            for source, t in enumerate(self._routing):
                q = source * instances + r
                # Its own END: SEEN runs ahead of what it has published.
                passed += _first_waiting(queues.taken[q * CELL :], t.end[r:], queues.queue_seen[q])
            if len(reads) > 1:
                passed += _first_waiting(queues.cursor[r * CELL :], queues.merged[r * CELL :], queues.out_seen[r])
        return min(passed), min(reads), max(reads)

    def _waiting(self, r: int) -> int:
        """Records that wait for an instance."""
        queues = self._queues
        pairs = [source * self.max_threads + r for source in range(len(self.ports))]
        waiting = sum(_held(queues.end, queues.taken, pair) for pair in pairs)
        return waiting + (_held(queues.merged, queues.cursor, r) if len(pairs) > 1 else 0)

    def work_ns(self, members: list[int], depth: int) -> int:
        """Of the instance that most waits for, and of the routers."""
        waiting = [self._waiting(r) * read_cell(self._queues.cost, r * CELL) for r in members]
        added = sum(port.added for port in self.ports)
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
        taken = int(read_cells(self.control.meter, 1)[:, membership.TUPLES].sum())
        return [] if copies == taken else [f"the routers sent {copies:,} copies, and {taken:,} were processed"]

    def metrics(self, now_ns: int = 0, seconds: float = 0.0, is_finished: bool = False):
        measured = super().metrics(now_ns, seconds, is_finished)
        read = max(read_cell(t.words, router.SEEN) for t in self._routing)
        moved, ns = self._transfers[TOTAL]
        return replace(
            measured,
            duplication=self._copies / max(1, read),
            transferred_bytes=int(moved),
            transferred_ns=int(ns),
        )

    def explain(self, error: BaseException, worker: int, words: np.ndarray) -> HeadraceError | None:
        """A custom operator's tuple is a copy: explain the tuple it was copied from, on this worker's state."""
        program: Program = self.program
        if isinstance(program, CustomProgram):
            at = FREE_WORD + custom.CAUSE_REF
            source, row = int(words[at]) >> SOURCE_SHIFT, int(words[at]) & ROW_MASK
            if words[FREE_WORD + custom.STAGE] == custom.UPDATE:
                words[at] = source << SOURCE_SHIFT | self._private[worker][source].origin_of(row)
            program.look_at(self._states[worker])
        return super().explain(error, worker, words)


def _held(written: np.ndarray, taken: np.ndarray, cell: int) -> int:
    """What is in a queue; its end is read last, so it is never less than nothing."""
    before = read_cell(taken, cell * CELL)
    return read_cell(written, cell * CELL) - before


def _first_waiting(taken: np.ndarray, end: np.ndarray, seen: np.ndarray) -> list[int]:
    """SEEN of the first record that its reader has yet to take (as first words of views); none if there is none."""
    cursor, last, first = -1, -1, 0
    while cursor != read_cell(taken, 0):  # its slot may have been used again meanwhile
        cursor, last = read_cell(taken, 0), read_cell(end, 0)
        first = int(seen[cursor & (len(seen) - 1)])
    return [first] if cursor < last else []  # as it was before the slot was read: it had been written
