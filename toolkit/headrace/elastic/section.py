"""One operator of the elastic engine at run time: gate, state, workers, output rings, collector.

A `headrace.runtime.sections.Section` of one operator. Its threads are `max_threads`
workers, parked unless active, and one collector, unless the workers pass the results
on to the next operator's gate (`passing`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.egress import rings, words_ring
from headrace.egress.list_words import ListWords
from headrace.elastic import arrays, build, epochs, loads, words
from headrace.elastic.compiled import Compiled
from headrace.elastic.configuration import Configuration, plan_configuration, write_configuration
from headrace.elastic.hot_keys import hottest
from headrace.elastic.measuring import RECORDS_HELD, count_places, measure
from headrace.elastic.options import ElasticOptions
from headrace.elastic.passed_keys import PassedKeys
from headrace.elastic.passing import Passed, PassedInlet, PassedRows
from headrace.elastic.passing_kernel import take_results
from headrace.elastic.reconfiguration import Reconfiguration
from headrace.elastic.several_takers import PassedToSeveral
from headrace.elastic.ways import Way, passed_keys
from headrace.errors import HeadraceError, OverflowInputError, ParameterError
from headrace.gates.membership_kernel import VERSION
from headrace.ingress.store import Store, allocate_directories
from headrace.kernel import compile_now
from headrace.memory.atomics import CELL
from headrace.memory.cells import CACHE_LINE, HUGE_PAGE, publish_cell, read_cells, reserved, touch
from headrace.metrics.snapshot import OperatorMetrics
from headrace.plan.nodes import Branch, OperatorNode
from headrace.progress import END_OF_TIME, MIN_TIME
from headrace.references import BUCKETS
from headrace.runtime.gate_inlet import GateInlet
from headrace.runtime.gated_section import GatedSection
from headrace.runtime.sections import Moment
from headrace.workers.spans import counters

if TYPE_CHECKING:
    import pandas as pd

OUTPUT_CAPACITY = 1 << 16
"""Rows of each instance's output ring."""


class ElasticSection(GatedSection):
    """One operator: gate, state, workers, output, reconfiguration."""

    is_routed = False
    """Whether each instance reads its own channel."""

    def __init__(
        self, node: OperatorNode, branches: list[Branch], options: ElasticOptions, compiled: Compiled, way: Way,
        never_negative: frozenset[str],
    ):  # fmt: skip
        self.node, self.name = node, node.name
        self.operators = (node.name,)
        self.options = options
        self.max_threads = options.max_threads
        self.compiled, self.way = compiled, way
        if self.compiled.order_matters and options.takes_as_they_come(node.name, len(branches)):
            raise ParameterError(
                f'input_order="arrival": {node.name!r} depends on the order of its input: {self.compiled.order_matters}; leave it'
                f" out, or give a dict of the operators that do not"
            )
        self.above: ElasticSection | None = way.above
        self.followings: list[ElasticSection] = []
        """The operators that results are passed on to."""
        self._behind_lock, self._horizons_lock = threading.Lock(), threading.Lock()
        self._done_behind: dict[str, int] = {}
        """For each of these, the event time up to which it needs nothing of this one any more."""
        self._horizons: dict[str, int] = {}
        """For each last operator in line that shares this one's keys, the event time before which it needs none."""
        self._unfinished_behind: set[str] = set()
        self.never_negative = never_negative
        """Results that are whole numbers and never negative; see `ways.never_negative`."""
        self.key_ids: PassedKeys | None = None
        """Maps key ids of the operator before to its own; None if both have the same ids, or it has no key."""
        if self.above is not None and self.compiled.dictionary is not None:
            self.key_ids = passed_keys(self.compiled, self.above.compiled, way.between)
            if self.key_ids is None:
                self.compiled.dictionary = self.above.dictionary
        self.dictionary = self.compiled.dictionary
        sources = len(branches) if self.above is None else self.above.max_threads
        initial = options.initial(self.name)
        planned = options.planned(self.name)
        self.arrays = arrays.allocate(self.max_threads, sources, len(planned), options.batch_ns)
        self._open(sources)
        # The threads that write results change together with those that read the gate.
        self.out: Any = rings.allocate(
            self.max_threads,
            OUTPUT_CAPACITY,
            self.arrays.meter,
            membership=self.gate.words[VERSION:],
            list_words=words_ring.CAPACITY if self.compiled.list_fields else 0,
        )
        self.directories = allocate_directories(sources, self.compiled.value_columns)
        self.state = self.compiled.allocate(self.max_threads, OUTPUT_CAPACITY)
        self.inlets: list[Any] = []
        if self.above is None:
            self.inlets = [self._make_inlet(i, branch) for i, branch in enumerate(branches)]
        else:
            columns = self.compiled.columns_of(0)
            self._passed_rows = [PassedRows(columns, directory) for directory in self.directories]
            self._passed = self.above.pass_results_to(self)
            self.inlets = [PassedInlet(branches[0], self._passed)]
        self._describe_load()
        self.finisher = self.compiled.finisher(self.stores)
        self.own_words = [self.compiled.private(worker) for worker in range(self.max_threads)]
        self.module = self._build()
        self._activate(initial, planned)
        self._touch(initial.members)
        self._id_limit = 0
        self._ids_lock = threading.Lock()
        self._keeps_input = False
        self.initial = initial
        self.reconfiguration = self._steer(planned)
        if self.above is not None:
            self.note_ids()  # later, the operator before calls it for new ids
        column = list(self.compiled.result_fields).index
        self.result_lists = [(column(position), column(count)) for position, count in self.compiled.list_fields]

    def _open(self, sources: int) -> None:
        """Allocate the gate that the instances read."""
        options = self.options
        self._open_gate(
            options.gate,
            sources,
            self._gate_readers(sources),
            options.capacity_for(sources),
            options.bound_for(self.compiled.bound_ns),
            lead=self.compiled.lead,
            ranks=self.way.by_content,
            rows=OUTPUT_CAPACITY if self.way.by_content else 0,
        )

    def _steer(self, planned: Sequence[tuple[int, Configuration]]) -> Reconfiguration:
        """Return what places changes into its input."""
        return Reconfiguration(
            self.arrays, self.gate, self.kernels, self.max_threads, self.initial, planned, self.transfer_of
        )

    # -- results that are passed on without a collector

    @property
    def taker(self) -> Any:
        """The kernel that takes the results of the operator before."""
        return take_results

    def passed_keys(self, instances: int, rows: int) -> np.ndarray:
        """int32[instances, rows] for the operator before to write its results' key ids to; [instances, 0] without a key."""
        rows = rows if self.dictionary is not None else 0
        return reserved(instances * rows, np.int32).reshape(instances, rows)

    def pass_results_to(self, following: ElasticSection) -> Passed:
        """Let each instance pass its results on to the gate of `following`, which has a source for each."""
        if following.way.by_content and not self.followings:
            self._give_by_rank()
        if following.way.takers > 1:
            if self.collector is None:
                self.collector = PassedToSeveral(self, following.way.takers)
            passed = self.collector.pass_to(following)
        else:
            passed = self.collector = Passed(self, following, self.out)
        self.passes_on = True
        self.followings.append(following)
        self._done_behind[following.name] = MIN_TIME
        self._unfinished_behind.add(following.name)
        passed.begin(self.initial.members)
        self.lengthen()
        return passed

    def _give_by_rank(self) -> None:
        """Let each instance give the results of a window in order of their keys, as the next operator's gate merges them."""
        self.state = self.compiled.give_by_rank(self.state)
        self.module = self._build()

    def lengthen(self) -> None:
        """Widen the check of event times, so that they stay in range in the windows of downstream operators, too."""
        if self.above is not None:
            self.above.lengthen()
            return
        for inlet in self.inlets:
            inlet.encoder.window_size = self._checked_size() + self._reach_behind()

    def _checked_size(self) -> int:
        """By how much event time tuples must be in range here."""
        return max(self.compiled.retention, self.compiled.window_size)

    def _reach_behind(self) -> int:
        """The largest sum of window sizes of downstream operators in line."""
        return max((each.compiled.window_size + each._reach_behind() for each in self.followings), default=0)

    @property
    def stores(self) -> list[Any]:
        """The store of each source."""
        return super().stores if self.above is None else self._passed_rows

    def _close_results(self) -> None:
        if self.above is not None:
            self.above._finish_behind(self)

    def _finish_behind(self, following: ElasticSection) -> None:
        """A downstream operator has given its last result: once all have, this one has finished, too."""
        with self._behind_lock:
            self._unfinished_behind.discard(following.name)
            is_last = not self._unfinished_behind
        if is_last:
            self._run.section_finished(self)
            self._close_results()

    def _make_inlet(self, number: int, branch: Branch) -> GateInlet:
        compiled, side = self.compiled, branch.side
        return self._inlet(
            number,
            branch,
            Store(compiled.columns_of(side), compiled.multi_key_of(side), self.directories[number]),
            self._note_keys,
            keys=compiled.keys_of(side),
            dictionary=compiled.dictionary,
            values=compiled.values_of(side),
            narrow_values=compiled.narrow_values_of(side),
            forms=compiled.forms_of(side),
            counted=compiled.counted_of(side),
            texts=compiled.texts_of(side),
            carry=compiled.carried_of(side),
            window_size=self._checked_size(),
            nulls=compiled.nulls,
            equal_columns=compiled.equal_columns_of(side),
            no_key=-1 - side,  # a left tuple without a key matches no right one without
            time_value=compiled.time_value,
        )

    def _describe_load(self) -> None:
        """Tell the workers where to find the keys of a tuple, and which counter measures load."""
        compiled = self.compiled
        for source, store in enumerate(self.stores):
            how = loads.EVENLY
            if compiled.load_by_key:
                how = loads.SEVERAL_KEYS if store.multi_key else loads.ONE_KEY
            self.arrays.layout[source] = how, store.width, compiled.load_meter

    @property
    def result_columns(self) -> list[np.ndarray]:
        """Columns of the results; each holds a ring for every instance."""
        return [getattr(self.state, name) for name in self.compiled.result_fields]

    @property
    def kept_fields(self) -> list[str]:
        """The other fields of the state: what an operator keeps from tuple to tuple."""
        return [name for name in self.state._fields if name not in self.compiled.result_fields]

    def _touch(self, members: Sequence[int]) -> None:
        """Have the first huge page of each large array of the initial members' state supplied now.

        Rings of results have small pages, which take 2 us each when they are first written. To have all of them supplied would
        double the time that a start takes.
        """
        states = self.states
        for state in states if len(states) == 1 else [states[member] for member in members]:
            for array in (getattr(state, name) for name in self.kept_fields):
                if array.nbytes >= HUGE_PAGE:
                    touch(array.reshape(-1)[: CACHE_LINE // array.itemsize])

    def _build(self) -> build.Instance:
        sharing = build.SHARING_WITH_GAPS if self.way.between.conditions else build.SHARING
        return build.build(self.compiled.text(), self.options.gate, self._kind, self.options.debug, sharing)

    @property
    def _kind(self) -> str:
        """The name of its module: equal operators share a module, whatever their own names, and are compiled once."""
        return type(self.compiled).__name__.removeprefix("Compiled").lower()

    def _activate(self, initial: Configuration, planned: Sequence[tuple[int, Configuration]]) -> None:
        write_configuration(self.arrays, 0, initial)
        for index, (at, configuration) in enumerate(planned):
            plan_configuration(self.arrays, index, at, configuration)
        for member in initial.members:
            self.arrays.start_watermark[member * CELL] = MIN_TIME
            self._join(member)
            rings.start_mark(self.out, member, self.compiled.first_promise, MIN_TIME)

    def _join(self, member: int) -> None:
        """Let an instance read from the beginning."""
        self.kernels.join_reader(self.gate, member, 0, 1)

    def arguments(self, worker: int) -> tuple:
        """The arguments of `run_instance` for this worker."""
        return (
            worker,
            self.gate,
            self.arrays,
            self.out,
            self.directories,
            self.state,
            self.own_words[worker],
            self.compiled.scratch(),
        )

    def _gate_readers(self, sources: int) -> int:
        """Readers of the gate: the instances."""
        return self.max_threads

    # -- what a run asks of a section

    def compile_work(self) -> None:
        """Compile the instances' loop."""
        self._compile(self.module, self.arguments(0))

    def work(self, arguments: tuple) -> None:
        """Run the loop of an instance."""
        self.module.run(*arguments)

    def let_go(self) -> None:
        """Cut the references back to this object."""
        super().let_go()
        vars(self.reconfiguration).pop("_transfer_of", None)
        if self.key_ids is not None:
            self.key_ids.let_go()
            self.key_ids = None
        self.above = None
        self.followings = []

    def extras(self) -> dict[str, Any]:
        """``hot_keys``, if the operator has keys; ``takes``, if its input comes from another operator."""
        found: dict[str, Any] = {} if self.dictionary is None else {"hot_keys": self.hot_keys}
        if self.takes:
            found["takes"] = self.takes
        return found

    @property
    def takes(self) -> str:
        """How it gets the results of the operator before, in words; "" if there is none."""
        if self.above is not None:
            if self.is_routed:
                return f"channels: each instance of {self.above.name!r} routes its results to the owner of their key"
            why = f"; one channel for all: {self.way.why_shared}" if self.way.why_shared else ""
            order = ", in order of their keys" if self.way.by_content else ""
            to = f", to {self.way.takers} operators" if self.way.takers > 1 else ""
            return f"gate: each instance of {self.above.name!r} passes its results on{to}{order}{why}"
        origin = self.inlets[0].branch.origin if len(self.inlets) == 1 else None
        if not isinstance(origin, OperatorNode):
            return ""
        return f"collector: {self.way.why_collected}" if self.way.why_collected else "collector"

    def hot_keys(self, limit: int = 10) -> pd.DataFrame:
        """Return the most frequent keys among the latest rows of each source.

        Parameters
        ----------
        limit : int
            Rows at most.

        Returns
        -------
        DataFrame
            A column for each key column, then ``share`` (the fraction of these rows' keys), ``bucket`` (0 to 1023) and
            ``thread``, the present owner of the bucket; the most frequent key first.
        """
        assert self.dictionary is not None
        return hottest(self, limit)

    def window_size(self, operator: str) -> int:
        """WS in the stream's unit; 0 without windows."""
        return self.compiled.window_size

    @property
    def active(self) -> int:
        """Instances that are active."""
        return len(self.reconfiguration.current.members)

    def transfer_of(self, epoch: int) -> tuple[int, int]:
        """Bytes and nanoseconds of the state an epoch moved; nothing moves under VSN."""
        return 0, 0

    def explain_exception(self, error: Exception, worker: int) -> BaseException | None:
        """Explain an exception in a worker; None if it is not a user function's."""
        return self.compiled.explain_exception(error, self.own_words[worker], self.stores)

    def explain_failure(self, reported: np.ndarray) -> HeadraceError:
        """Explain what a worker reported, in the user's terms."""
        return self.compiled.explain(reported, self.stores, self.state)

    def compile_handles(self) -> None:
        super().compile_handles()
        c, out, zero = self.arrays, self.out, 0
        self.reconfiguration.compile()
        compile_now(epochs.watch, (c, zero, zero))
        if self.passes_on:
            self.collector.compile()
            return
        compile_now(words_ring.words_taken, (out, zero, zero))
        if self.compiled.list_fields:
            ListWords.compile()

    def _progress(self) -> object:
        """A value that changes while the operator makes progress with its input."""
        passed = counters(self.arrays.meter)[:, words.PASSED].tolist()
        return [inlet.books.added for inlet in self.inlets], passed

    def _note_keys(self, ids: np.ndarray) -> None:
        """Make room for keys before tuples with them are published."""
        self.note_ids()
        self.compiled.note_keys(ids)
        self._note_behind(ids)

    def _note_behind(self, ids: np.ndarray) -> None:
        """Make these keys known to downstream operators, too, by the ids they have there."""
        for following in self.followings:
            theirs = ids
            if following.key_ids is not None:
                theirs = following.key_ids.note(ids)
                following.note_ids()
            elif not self._shares_keys(following):
                continue
            following.compiled.note_keys(theirs)
            following._note_behind(theirs)

    def _shares_keys(self, other: ElasticSection | None) -> bool:
        """Whether another operator, upstream or downstream, knows keys by the same ids."""
        return other is not None and self.dictionary is not None and other.dictionary is self.dictionary

    def note_ids(self) -> None:
        """Publish how far key ids reach, before tuples with new ids are published."""
        with self._ids_lock:  # several sources call this, and the published limit must not decrease
            self._note_ids(BUCKETS if self.dictionary is None else self.dictionary.id_limit)
        for following in self.followings:
            if self._shares_keys(following):
                following.note_ids()

    def _note_ids(self, limit: int) -> None:
        if limit > self._id_limit:
            if limit > self.compiled.id_capacity:
                raise OverflowInputError(
                    f"more keys are live at once than max_keys={self.options.max_keys} allows (or their hashes"
                    f" collide): pass a larger max_keys=, or use smaller windows"
                )
            self._id_limit = limit
            publish_cell(self.arrays.words, words.IDS, -(-limit // BUCKETS))

    def release(self, watermark: int) -> None:
        """Free rows and key ids that no window can need any more."""
        if self._keeps_input:
            return
        for store in self.stores:
            store.release(watermark - self.compiled.retention)
        if self.dictionary is not None and watermark < END_OF_TIME and not any(map(self._shares_keys, self.followings)):
            # Every window that holds ts ends by ts + WS. An encoder that finds no room recycles ids itself.
            self._expire(self.name, watermark - self._keys_last() + 1)
        self.compiled.release(watermark)
        if self.above is not None:
            # All its results up to the watermark have arrived; if they are ahead, it still reads tuples before that.
            self.above._release_behind(self, min(watermark, self._passed.watermark))

    def _release_behind(self, following: ElasticSection, watermark: int) -> None:
        """Free what no downstream operator needs, now that one of them has given its results up to a watermark."""
        with self._behind_lock:  # their collectors are several threads
            self._done_behind[following.name] = watermark
            if (by_all := min(self._done_behind.values())) > MIN_TIME:
                self.release(by_all)

    def _expire(self, name: str, horizon: int) -> None:
        """Note that the last operator of a line needs no key used before `horizon`; what none of them needs may be recycled."""
        if self.above is not None and self._shares_keys(self.above):
            self.above._expire(name, horizon)
            return
        with self._horizons_lock:
            self._horizons[name] = horizon
            if len(self._horizons) == self._lasts():
                self.dictionary.expire(min(self._horizons.values()))

    def _lasts(self) -> int:
        """How many operators in line from here on share this one's keys with none behind them."""
        return sum(each._lasts() for each in self.followings if self._shares_keys(each)) or 1

    def _keys_last(self) -> int:
        """How long after a tuple some window may still have its key, here or in upstream operators that know the key."""
        above = self.above
        is_theirs = self.key_ids is not None or self._shares_keys(above)
        return self.compiled.window_size + (above._keys_last() if above is not None and is_theirs else 0)

    def keep_input(self) -> None:
        """Free no tuple of the input and no key id, because input encoded in advance is read again."""
        self._keeps_input = True

    def share_input(self, other: ElasticSection) -> None:
        """Read the input that another section of the same operator has encoded and keeps, with that section's key ids."""
        self.directories, self.finisher = other.directories, other.finisher
        self.dictionary = self.compiled.dictionary = other.dictionary
        self.note_ids()

    # -- what is measured

    @property
    def states(self) -> Sequence[tuple[np.ndarray, ...]]:
        """The states that its instances work on: a single shared one."""
        return (self.state,)

    def records_held(self, members: list[int]) -> int:
        """Records in the gate that its slowest reader has not consumed yet; a lower bound."""
        return RECORDS_HELD[self.options.gate](self.gate, self.kernels, members)

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """Tuples passed by every instance, by every reader of the gate, and by the foremost instance."""
        passed = counters(self.arrays.meter)[members, words.PASSED]
        return int(passed.min()), int(passed.min()), int(passed.max())

    def backlog_ns(self, members: list[int], depth: int) -> int:
        """How long `depth` tuples will take, at the recent speed of the slowest instance."""
        return depth * int(read_cells(self.gate.cost)[members].max())

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        """What shows, at the end of the input, that some instance did not get all its tuples."""
        passed = counters(self.arrays.meter)[:, words.PASSED]
        return [f"instance {r} passed {passed[r]:,} tuples of {added:,}" for r in members if passed[r] != added]

    def state_bytes(self) -> int:
        """Estimated bytes of the window instances, their contents, and the stored tuples."""
        kept = sum(store.held_bytes for store in self.stores) if self.compiled.retention else 0
        arenas = sum(self.compiled.arena_bytes(state) for state in self.states)
        return self.compiled.state_bytes(self._id_limit) + arenas + kept

    def live_windows(self, members: list[int]) -> int:
        """Number of live window instances; for a join, of stored tuples."""
        states, places = self.states, self.compiled.places_per_key
        if places:
            return sum(count_places(state[0], self._id_limit * places) for state in states)
        return self.compiled.stored_tuples(states[members[0] % len(states)], members[0])

    def metrics(self, operator: str, moment: Moment) -> OperatorMetrics:
        """Take a snapshot; see `measuring.measure`."""
        return measure(self, moment)
