"""The transactional operator at run time: gate, tables, executors, output rings, collector.

A `headrace.runtime.sections.Section` of one operator. Its threads are `max_threads`
executors, parked unless active, and one collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from headrace.egress import rings
from headrace.errors import HeadraceError, OverflowInputError, RunFailedError, RunStoppedError
from headrace.ingress.store import Store, allocate_directories
from headrace.memory.cells import read_cell
from headrace.metrics.snapshot import OperatorMetrics
from headrace.plan.nodes import Branch, OperatorNode
from headrace.runtime.gate_books import log_records_held
from headrace.runtime.gate_inlet import GateInlet
from headrace.runtime.gated_section import GatedSection
from headrace.runtime.sections import Moment, Task
from headrace.transactions import arrays, words
from headrace.transactions.audit import Audit
from headrace.transactions.build import Built
from headrace.transactions.compiled import CompiledTransactions
from headrace.transactions.configuration import (
    Configuration,
    family_in_force,
    family_of,
    plan_configuration,
    write_configuration,
)
from headrace.transactions.content import TablesAt
from headrace.transactions.fitting import fitting, no_operations, objection
from headrace.transactions.measuring import LENGTHS, measure
from headrace.transactions.options import MOST_PUNCTUATION, TransactionOptions
from headrace.transactions.reconfiguration import Reconfiguration, at_punctuation
from headrace.transactions.snapshots import Snapshots
from headrace.transactions.template import generate
from headrace.transactions.undo_kernel import MAX_ROWS, ROWS_KEPT
from headrace.transactions.unfinished import find_unfinished, is_still_at
from headrace.workers import worker_kernel

OUTPUT_CAPACITY = 1 << 16
GATE_CAPACITY = 2 * MOST_PUNCTUATION
"""A batch stays in the gate until it is executed, and the next one gathers meanwhile."""


class TransactionSection(GatedSection):
    """One operator: gate, tables, executors, output, reconfiguration."""

    built: Callable[..., Any] = Built
    """What makes the loop of a family; benchmarks replace it."""

    def __init__(self, node: OperatorNode, branches: list[Branch], options: TransactionOptions):
        self.node, self.name = node, node.name
        self.operators = (node.name,)
        self.options, self.max_threads, self._debug = options, options.max_threads, options.debug
        operations = arrays.operations_of(MOST_PUNCTUATION, options.max_operations)
        self.compiled = compiled = CompiledTransactions(node, branches, options.max_threads, options.max_state, operations)
        can_split = self.can_split
        initial, planned = options.initial(self.name, can_split), options.planned(self.name, can_split)
        if options.adapts and objection(compiled.bound, initial.scheme) is not None:
            initial = replace(initial, scheme="speculative")
        for configuration in (initial, *(each for _, each in planned)):
            if (wrong := objection(compiled.bound, configuration.scheme)) is not None:
                raise wrong
        if options.has_skip_lists and not can_split:
            raise no_operations(compiled.bound)
        self._initial = initial
        self._open_gate("log", len(branches), 1, GATE_CAPACITY)
        self.kernels.join_reader(self.gate, 0, 0, 1)
        self.arrays = arrays.allocate(
            self.max_threads, compiled.memory.records, MOST_PUNCTUATION, operations, len(planned),
            max_delay_ns=options.max_delay_ns, table_rows=compiled.memory.rows, table_places=compiled.memory.places,
            copies=compiled.memory.copies, skip_lists=options.has_skip_lists,
        )  # fmt: skip
        self.out = rings.allocate(self.max_threads, OUTPUT_CAPACITY, self.arrays.meter)
        self.state = compiled.allocate(OUTPUT_CAPACITY, self.arrays.sets.size)
        self.directories = allocate_directories(len(branches), len(compiled.columns))
        self.inlets = [self._make_inlet(number, branch) for number, branch in enumerate(branches)]
        self.finisher = compiled.finisher(self.stores)
        self._modules: dict[str, Built] = {}
        self._private = [compiled.private() for _ in range(self.max_threads)]
        write_configuration(self.arrays, 0, initial, can_split)
        for index, (at, configuration) in enumerate(planned):
            plan_configuration(self.arrays, index, at, configuration, can_split)
        arrays.activate(self.arrays, self.out)
        self.reconfiguration = _Compiled(
            self.arrays, self.gate, self.max_threads, initial, planned, self._schemes, can_split, compile_for=self._compile_for
        )
        self._final: TablesAt | None = None
        self.chains_seen = np.zeros(LENGTHS, np.int64)
        is_watched = any(table.conserve is not None for table in compiled.memory.tables)
        self.audit = Audit(compiled.memory, self._rest) if is_watched else None
        every = options.snapshot_every
        self.snapshots = Snapshots(every, self.arrays, compiled.memory.at, self._rest) if every is not None else None

    @property
    def can_split(self) -> bool:
        """Whether the functions can be run operation by operation."""
        return self.compiled.bound.operations is not None

    @property
    def _schemes(self) -> tuple[str, ...]:
        """The schemes that may be requested during the run."""
        return tuple(scheme for scheme in fitting(self.compiled.bound) if scheme != "none" or self.options.unsafe)

    def _compile_for(self, configuration: Configuration) -> None:
        """Compile a configuration's loop, so that no executor waits for the compiler."""
        self._module(family_of(configuration.scheme, self.can_split))

    @property
    def result_columns(self) -> list[np.ndarray]:
        """Columns of the results, in each a ring for every executor."""
        return [getattr(self.state, name) for name in self.compiled.result_fields]

    def _make_inlet(self, number: int, branch: Branch) -> GateInlet:
        compiled = self.compiled
        return self._inlet(
            number, branch, Store(compiled.columns, False, self.directories[number]), keys=(), dictionary=None,
            values=compiled.values, lists=compiled.lists, texts=compiled.text_columns, carry=compiled.carried,
        )  # fmt: skip

    def _progress(self) -> object:
        return [inlet.books.added for inlet in self.inlets], read_cell(self.arrays.words, words.SEEN)

    def _module(self, family: str) -> Built:
        """The loop of a family, compiled."""
        if family not in self._modules:
            text = generate(self.compiled.bound, list(self.compiled.spec.emits), list(self.compiled.columns), family)
            built = self.built(text, family, self.name, debug=self._debug)
            self._compile(built, self.arguments(0))
            self._modules[family] = built
        return self._modules[family]

    def arguments(self, worker: int) -> tuple:
        """The arguments of `run_executor` for this worker."""
        return worker, self.gate, self.arrays, self.out, self.directories, self.state, self._private[worker]

    def compile_work(self) -> None:
        """Compile the loops of all schemes that are planned."""
        for configuration in (self._initial, *(each for _, each in self.options.planned(self.name, self.can_split))):
            self._compile_for(configuration)

    def compile_handles(self) -> None:
        super().compile_handles()
        if self.snapshots is not None:
            self.snapshots.compile()

    def helpers(self) -> list[Task]:
        """The audit, where tables conserve something, and the thread that takes snapshots, where they are asked for."""
        audits = [Task(f"{self.name}-audit", self.audit.run)] if self.audit is not None else []
        takers = [Task(f"{self.name}-snapshots", self.snapshots.run)] if self.snapshots is not None else []
        return [*audits, *takers]

    def work(self, arguments: tuple) -> None:
        """Run the loop of the scheme in force, until none is."""
        goes_on = 1
        while goes_on:
            goes_on = self._module(family_in_force(self.arrays)).run(*arguments)

    def explain_exception(self, error: Exception, worker: int) -> BaseException:
        """Explain an exception that a user function raised in an executor."""
        if isinstance(error, HeadraceError):
            return error
        private = self._private[worker]
        ref = int(self.arrays.refs[int(private[words.CAUSE])])
        if isinstance(error, MemoryError):
            return self._too_little_memory(str(error))
        seen = arrays.rows_seen(self.arrays, private)
        return self.compiled.explain_exception(error, private, ref, self.state, worker, self.stores, seen)

    def _too_little_memory(self, said: str) -> OverflowInputError:
        """Explain a kernel's MemoryError, by its text."""
        if said.startswith(ROWS_KEPT):
            return OverflowInputError(f"{self.name}: one transaction changes more rows than can be put back: split it")
        if said.startswith(MAX_ROWS):
            table = said.removeprefix(MAX_ROWS)
            most = next(each.capacity for each in self.compiled.bound.tables if each.name == table)
            return OverflowInputError(
                f"{self.name}: table {table!r} has no room for more than max_rows={most} keys; make it with a larger max_rows="
            )
        return OverflowInputError(
            f"{self.name}: the lists, sets and maps of its tables take more than max_state={self.options.max_state} bytes;"
            f" pass a larger max_state=, or keep less in them"
        )

    def unfinished(self) -> HeadraceError | None:
        found = find_unfinished(self.arrays, self._private)
        if found is None:
            return None
        private, ref = self._private[found.worker], int(self.arrays.refs[found.cause])
        seen = arrays.rows_seen(self.arrays, private)
        explained = self.compiled.explain_unfinished(found, private, ref, self.stores, seen)
        return explained if is_still_at(self.arrays, found) else None

    def explain_failure(self, reported: np.ndarray) -> HeadraceError:
        """Explain what an executor reported."""
        code = int(reported[worker_kernel.FAILURE_CODE])
        if code == words.TOO_MANY_OPERATIONS:
            return OverflowInputError(
                f"{self.name}: one event names more keys than there is room for: pass a larger max_operations="
            )
        return RunFailedError(f"an executor failed with code {code}; please report this")

    def _close_results(self) -> None:
        self._final = self.compiled.memory.at(None)
        if self.audit is not None:
            self.audit.close()
        if self.snapshots is not None:
            self.snapshots.stop()

    def let_go(self) -> None:
        """Remove the references back to the section."""
        super().let_go()
        for part in (self.reconfiguration, self.audit, self.snapshots):
            if part is not None:
                vars(part).pop("_rest", None)
                vars(part).pop("_compile_for", None)

    def release(self, watermark: int) -> None:
        super().release(watermark)
        self.compiled.release(watermark)

    def extras(self) -> dict[str, Any]:
        """``snapshot``, ``snapshots``, ``tables``."""
        found: dict[str, Any] = {"snapshot": self.snapshot, "snapshots": self._taken}
        if self._final is not None:
            found["tables"] = self._final
        return found

    @property
    def _taken(self) -> tuple[TablesAt, ...]:
        """The newest snapshots that were taken regularly, oldest first."""
        return self.snapshots.taken if self.snapshots is not None else ()

    def snapshot(self) -> TablesAt:
        """Copy all tables as of one punctuation, while the run goes on.

        Raises
        ------
        RunStoppedError
            The run failed or was stopped: its tables are not as of any one punctuation.
        """
        if self._final is not None:
            return self._final
        with self._rest() as position:
            if position is not None:
                return self.compiled.memory.at(position)
        if self.collector is not None and self.collector.finished.wait(1.0):
            return self._final or self.compiled.memory.at(None)
        kept = f"; run.snapshots[-1] is {self._taken[-1]!r}" if self._taken else ""
        raise RunStoppedError(f"{self.name}: the run is over, and did not end by itself: it has no tables{kept}")

    @contextmanager
    def _rest(self) -> Iterator[int | None]:
        """Let the executors rest between two batches; gives how many events were executed, None if the run is over."""
        with at_punctuation(self.arrays, self.gate) as position:
            yield position

    def stop(self) -> None:
        super().stop()
        if self.audit is not None:
            self.audit.stop()
        if self.snapshots is not None:
            self.snapshots.stop()

    # -- what is measured

    def records_held(self, members: list[int]) -> int:
        """Records in the gate that are not executed, at least."""
        return log_records_held(self.gate, self.kernels, [0])

    def passed_tuples(self, members: list[int]) -> tuple[int, int, int]:
        """Events that were executed."""
        executed = read_cell(self.arrays.words, words.SEEN)
        return executed, executed, executed

    def faults_at_end(self, members: list[int], added: int) -> list[str]:
        """Signs, at the end of the input, that something is missing."""
        executed = read_cell(self.arrays.words, words.SEEN)
        return [] if executed == added else [f"{executed:,} events were executed of {added:,}"]

    @property
    def rejected(self) -> int:
        """How many events of the results had a transaction rejected."""
        return self.finisher.rejected

    def metrics(self, operator: str, moment: Moment) -> OperatorMetrics:
        """Take a snapshot; see `measuring.measure`."""
        return measure(self, moment)


class _Compiled(Reconfiguration):
    """Compiles what a configuration needs before it is requested from the executors."""

    def __init__(self, *arguments: Any, compile_for: Callable[[Configuration], None]):
        super().__init__(*arguments)
        self._compile_for = compile_for

    def resolve(self, requested: Mapping[str, Any], newest: Configuration) -> Configuration:
        """Complete a request, or raise an error if it cannot be met; compile what it needs."""
        target = super().resolve(requested, newest)
        self._compile_for(target)
        return target
