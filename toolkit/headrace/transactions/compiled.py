"""A transactional operator in one run: its columns, its memory, why a call failed."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen.bindings import HELD_FIELD, LITERALS, TEMPORARIES, TEXT_FIELDS
from headrace.codegen.functions import UnfinishedError, call_plain, explain_failure, translate_error
from headrace.codegen.kinds import scalar
from headrace.codegen.text import python_name
from headrace.errors import FunctionError, HeadraceError
from headrace.ingress.keys import KeyDictionary
from headrace.ingress.lists import names_of
from headrace.ingress.ordered_texts import MAX_TEXTS, OrderedTexts
from headrace.ingress.store import Store
from headrace.ingress.times import time_text
from headrace.memory.arena import HEAD
from headrace.memory.bundle import named
from headrace.memory.cells import reserved
from headrace.memory.own_words import own_words
from headrace.names import listed
from headrace.plan.nodes import Branch, OperatorNode
from headrace.progress import END_OF_TIME
from headrace.reference.transactions import Rejected, Transaction
from headrace.references import row_of, source_of
from headrace.transactions import tables, undo_kernel
from headrace.transactions.binding import (
    Bound,
    added_field,
    event_field,
    kept_field,
    mask_field,
    memory_of,
)
from headrace.transactions.memory import TableMemory
from headrace.transactions.options import MOST_PUNCTUATION
from headrace.transactions.results import RING_MASK, TransactionResults, ring_field
from headrace.transactions.tables import reading
from headrace.transactions.template import SEVERAL_EMIT
from headrace.transactions.unfinished import Unfinished
from headrace.transactions.words import PRIVATE_WORDS

UNDO_WORDS = 1 << 20
LINES_TO_FIND = 100_000
"""Lines that a function runs in the interpreter, some 0.05 s, to find where it does not come back from."""
_TOO_MANY_TEXTS = (
    f"more than {MAX_TEXTS:,} different strings are in use at one time; where columns of tables hold strings, all that events"
    f" brought are kept: give numbers, such as ids, for strings that are hardly ever the same"
)


class CompiledTransactions:
    """What the executors of one operator work on.

    Parameters
    ----------
    node : OperatorNode
        Its spec is a `TransactSpec`.
    branches : list of Branch
    executors : int
        The most there may be.
    max_state : int
        Bytes that containers may take.
    operations : int
        That a batch may have.
    """

    def __init__(self, node: OperatorNode, branches: list[Branch], executors: int, max_state: int, operations: int):
        spec: Any = node.spec
        self.node, self.spec, self.executors = node, spec, executors
        first = branches[0]
        self._event_time = first.event_time
        self.bound: Bound = spec.bind(first.schema, first.event_time)
        read = self.bound.readable.values()
        self.lists = [one.column for one in read if one.is_list]
        self.values = [one.column for one in read if not one.is_list]
        self.columns: dict[str, np.dtype] = {one.column: np.dtype(one.dtype) for one in read if not one.is_list}
        self.columns |= {name: np.dtype(np.int64) for column in self.lists for name in names_of(column)}
        self.carried = first.schema.names
        self.texts = OrderedTexts(MAX_TEXTS, _TOO_MANY_TEXTS) if self.bound.has_texts else None
        self.text_columns: Mapping[str, KeyDictionary] = {}
        if self.texts is not None:
            self.texts.set_types([pa.string()])
            self.texts.keep(self.bound.literals)
            self.text_columns = {one.column: self.texts for one in read if one.holds_text}
        self.memory = TableMemory(self.bound.tables, self.texts, executors=executors, max_state=max_state, versions=operations)
        self._keeps_texts = self.memory.has_texts
        """Rows may hold strings until the run ends."""
        self.result_fields = [RING_MASK, *map(ring_field, spec.emits)]
        self._failing = threading.Lock()

    def allocate(self, capacity: int, operations: int) -> Any:
        """Allocate the bundle ``s``: `capacity` of each ring of results, `operations` that a batch may have."""
        fields = self.memory.fields()
        fields["undo"] = reserved(self.executors * UNDO_WORDS, np.int64).reshape(self.executors, -1)
        for number in range(len(self.spec.functions)):
            fields[mask_field(number)] = reserved(MOST_PUNCTUATION, np.int64)
            fields[f"fate_{number}"] = reserved(MOST_PUNCTUATION, np.int64)
        for site, (_, one) in enumerate(self.bound.operations.sites if self.bound.operations else ()):
            for column, number in one.saved:
                kind = one.row.table.columns[column]
                assert isinstance(kind, str)
                fields[kept_field(site, number)] = reserved(operations, memory_of(kind))
        for site, columns in (self.bound.operations.adding if self.bound.operations else {}).items():
            for number in range(len(columns)):
                fields[added_field(site, number)] = reserved(operations, np.int64)
        fields["event_rejected"] = reserved(MOST_PUNCTUATION, np.int64)
        dtypes: dict[str, Any] = {}
        for name, kind in self.spec.emits.items():
            known = scalar(kind)
            assert known is not None
            dtypes[name] = known.dtype
            fields[event_field(name)] = reserved(MOST_PUNCTUATION, known.dtype)
        fields["temporaries"] = np.zeros(self.executors * TEMPORARIES * HEAD, np.int64)
        if self.texts is not None:
            fields |= zip((*TEXT_FIELDS, HELD_FIELD), (*self.texts.arrays, self.texts.points, self.texts.held), strict=True)
            fields[LITERALS] = self.texts.keep(self.bound.literals).astype(np.int64)
        for name, dtype in ((RING_MASK, "int64"), *((ring_field(name), dtype) for name, dtype in dtypes.items())):
            fields[name] = reserved(self.executors * capacity, dtype).reshape(self.executors, capacity)
        return named(**fields)

    def private(self) -> np.ndarray:
        """An executor's own words."""
        return own_words(PRIVATE_WORDS)

    def finisher(self, stores: Sequence[Store]) -> TransactionResults:
        return TransactionResults(self.node.schema, stores, self.spec.carry, self.spec.emits, self.texts)

    def release(self, watermark: int) -> None:
        """Release the strings of events up to `watermark`, which are not read any more."""
        if self.texts is None or self._keeps_texts or watermark >= END_OF_TIME:
            return
        self.texts.expire(watermark + 1)

    # -- failures

    def explain_compile_error(self, error: BaseException, module: ModuleType) -> HeadraceError | None:
        """Say in the user's words why the kernels do not compile."""
        return translate_error(error, self.bound.generated, module)

    def explain_exception(
        self, error: BaseException, words: np.ndarray, ref: int, state: Any, executor: int, stores: Sequence[Store],
        seen: Mapping[int, int],
    ) -> HeadraceError:  # fmt: skip
        """A user function raised: call it again in plain Python, on the rows that it found; `seen` as of `TableMemory.read`."""
        with self._failing:
            undo_kernel.put_back(executor, state, words)
            event = self._event_of(ref, stores)
            if str(error) == SEVERAL_EMIT:
                return self._with_time(self._several_emit(event), event)
            function = self.spec.functions[max(0, int(words[undo_kernel.FUNCTION]))]
            rows = {}

            def given() -> dict[str, Any]:
                """Give the arguments of a call, with rows as they are in memory, whatever an earlier call did to its own."""
                rows.update((table, self.memory.read(table, seen)) for table in self.bound.tables)
                return {"e": event, "t": Transaction(self.spec.emits)}

            values = given()
            with reading(rows):
                explained = explain_failure(function, ("e", "t"), values, None, error, given)
            explained.tuple = event
            if isinstance(explained.__cause__, Rejected):
                text = f"failed when compiled with {type(error).__name__}: {error}, though in plain Python it is rejected"
                explained = FunctionError(text, explained.function, explained.file, explained.line, event)
            elif (place := _users_place(explained.__cause__)) is not None:
                explained = FunctionError(explained.args[0], *place, event)
            return self._with_time(explained, event)

    def explain_unfinished(
        self, found: Unfinished, words: np.ndarray, ref: int, stores: Sequence[Store], seen: Mapping[int, int]
    ) -> FunctionError:
        """Say which event is not finished, and where its function is: it is called in plain Python, for some lines.

        The executor goes on meanwhile, so rows may be read half written; if the call ends, the line is the function's own.
        """
        event, number = self._event_of(ref, stores), int(words[undo_kernel.FUNCTION])
        functions = self.spec.functions if number < 0 else self.spec.functions[number : number + 1]
        code = functions[0].__code__
        place, rows = (code.co_name, code.co_filename, code.co_firstlineno), {}
        for function in functions:
            rows = {table: self.memory.read(table, seen) for table in self.bound.tables}
            try:
                with reading(rows):
                    call_plain(function, ("e", "t"), {"e": event, "t": Transaction(self.spec.emits)}, None, LINES_TO_FIND)
            except UnfinishedError as error:
                place = error.function, error.file, error.line
                break
            except Exception:  # it ends, by an error, perhaps since a row was read half written: it is not the one
                continue
        names = [f"{table.name}[{key!r}]" for table, read in rows.items() for key in read]
        text = (
            f"event {found.number:,} of the input, counted from 0, is unfinished: its executor ({found.worker}) has been busy"
            f" for {found.busy_ns / 1e9:.1f} s{f', with {listed(names)}' if names else ''}"
        )
        return self._with_time(FunctionError(text, *place, event), event)

    def _with_time(self, explained: FunctionError, event: dict[str, Any]) -> FunctionError:
        """Have the event's time shown as a timestamp."""
        time = self.node.schema.field(0).type
        if pa.types.is_timestamp(time):
            explained.times = dict.fromkeys((python_name(self._event_time), "ts"), time_text(event["ts"], time))
        return explained

    def _several_emit(self, event: dict[str, Any]) -> FunctionError:
        """Say that several functions emitted values for one event."""
        names = [function.__name__ for function in self.spec.functions]
        code = self.spec.functions[-1].__code__
        text = (
            f"{SEVERAL_EMIT}: of {', '.join(names[:-1])} and {names[-1]} one may call t.emit(...) for an event; have one of"
            f" them emit what all of them found, or give each an operator of its own"
        )
        return FunctionError(text, code.co_name, code.co_filename, code.co_firstlineno, event)

    def _event_of(self, ref: int, stores: Sequence[Store]) -> dict[str, Any]:
        """The event as plain Python has it."""
        store, row = stores[source_of(ref)], row_of(ref)
        whole: dict[str, Any] = {}
        for first, _, batch in list(store.payload):
            if first <= row < first + batch.num_rows:
                columns = map(_as_numbers, batch.slice(row - first, 1).columns)
                whole = dict(zip(map(python_name, batch.schema.names), (column[0].as_py() for column in columns), strict=True))
        ts = store.ts_of(row)
        return whole | {python_name(self._event_time): ts, "ts": ts}


def _users_place(error: BaseException | None) -> tuple[str, str, int] | None:
    """Function, file and line of the innermost call outside the tables' own code, if that code raised."""
    ours, place = False, None
    for frame, line in traceback.walk_tb(error.__traceback__ if error is not None else None):
        ours = frame.f_globals.get("__name__") in (Transaction.__module__, tables.__name__)
        if not ours:
            place = frame.f_code.co_name, frame.f_code.co_filename, line
    return place if ours else None


def _as_numbers(column: pa.Array) -> pa.Array:
    """Times as integers of their unit, as functions see them."""
    if not pa.types.is_temporal(column.type) or pa.types.is_interval(column.type):
        return column
    return column.view(pa.int64() if column.type.bit_width == 64 else pa.int32())
