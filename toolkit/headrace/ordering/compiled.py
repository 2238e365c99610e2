"""A pipeline in one run: its columns, its memory, why a call failed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen.bindings import HELD_FIELD, LITERALS, TEMPORARIES, TEXT_FIELDS
from headrace.codegen.functions import explain_failure, translate_error
from headrace.codegen.placed import write_first_values
from headrace.codegen.text import python_name
from headrace.egress.containers import state_objects, word_object
from headrace.errors import DisorderError, FunctionError, HeadraceError, OverflowInputError, SchemaError
from headrace.ingress.ordered_texts import MAX_TEXTS, OrderedTexts
from headrace.ingress.times import time_text
from headrace.memory.arena import HANDED_OUT, HEAD, allocate_arena, used_bytes
from headrace.memory.atomics import CELL
from headrace.memory.bundle import named
from headrace.memory.cells import publish_cell, read_cell, read_cells
from headrace.memory.maps_kernel import map_find
from headrace.memory.own_words import own_words
from headrace.ordering import words
from headrace.ordering.arrays import PipelineArrays
from headrace.ordering.binding import Bound, BoundStage, bind_policy
from headrace.ordering.held_texts import holds_texts
from headrace.ordering.stages import Stage
from headrace.ordering.template import LEAST_LOOKED_FOR, NOT_ONCE
from headrace.plan.nodes import Branch, OperatorNode, StreamType
from headrace.progress import END_OF_TIME
from headrace.windows import parse_duration
from headrace.workers import worker_kernel

LEAST_RECYCLED = 1 << 14
"""Up to this many strings, ids to be reused are not looked for."""


class CompiledPipeline:
    """What the workers of one pipeline work on.

    Parameters
    ----------
    node : OperatorNode
        Its spec is an `OrderedSpec`.
    branches : list of Branch
    workers : int
        The most there may be.
    max_state : int
        Bytes that states may take.
    debug : bool
        As in `start`.
    policy : function, optional
        The user's own schedule.
    """

    def __init__(self, node: OperatorNode, branches: list[Branch], workers: int, max_state: int, debug: bool, policy: Any = None):
        spec: Any = node.spec
        self.node, self.spec, self.workers = node, spec, workers
        first = branches[0]
        self.event_time = first.event_time
        self.bound: Bound = spec.bind(StreamType(first.schema, first.event_time, node.unit), debug)
        self._policy_function = policy
        self.policy = None if policy is None else bind_policy(policy, debug)
        read = self.bound.stages[0].columns
        self.columns: dict[str, np.dtype] = {one.column: np.dtype(one.dtype) for one in read}
        self.carried = first.schema.names if self.bound.passes_input else []
        self.texts = OrderedTexts(MAX_TEXTS) if self.bound.has_texts else None
        self.text_columns: dict[str, OrderedTexts] = {}
        if self.texts is not None:
            self.texts.set_types([pa.string()])
            self.texts.keep(self.bound.literals)
            self.text_columns = {one.column: self.texts for one in read if one.kind == "string"}
        self._keeps_texts = holds_texts(self.bound)
        self._recycle_at, self._asked, self._is_asking = LEAST_RECYCLED, 0, False
        self.state = self._allocate(max_state)

    def _allocate(self, max_state: int) -> Any:
        """Allocate the bundle ``s``."""
        stages, buckets = self.bound.stages, self.bound.buckets
        free, arena = allocate_arena(buckets + len(stages) + self.workers, max_state // 8)
        places = np.zeros(len(stages), np.int64)
        for number, one in enumerate(stages):
            if one.stage.kind == "stateful":
                places[number] = arena[HANDED_OUT] + CELL
                arena[HANDED_OUT] += -(-one.state_words // CELL) * CELL
                write_first_values(one.stage.state, arena, int(places[number]))
        fields = {
            "arena": arena,
            "arena_f": arena.view(np.float64),
            "arena_h": arena.view(np.float32),
            "arena_free": free,
            "owners": np.arange(buckets, buckets + len(stages) + 1),
            "key_heads": np.zeros(max(1, buckets) * HEAD, np.int64),
            "key_limits": np.full(max(1, buckets), LEAST_LOOKED_FOR),
            "forget_after": np.array([self._forget_after(one.stage) for one in stages], np.int64),
            "stage_state": places,
            "temporaries": np.zeros(self.workers * TEMPORARIES * HEAD, np.int64),
        }
        if self.texts is not None:
            fields |= zip((*TEXT_FIELDS, HELD_FIELD), (*self.texts.arrays, self.texts.points, self.texts.held), strict=True)
            fields[LITERALS] = self.texts.keep(self.bound.literals).astype(np.int64)
        return named(**fields)

    def _forget_after(self, stage: Stage) -> int:
        return 0 if stage.forget is None else parse_duration(stage.forget, self.node.unit, "forget")

    def private(self) -> np.ndarray:
        """A worker's own words."""
        return own_words(words.PRIVATE_WORDS)

    def release(self, watermark: int, shared: PipelineArrays) -> None:
        """The results of all tuples up to `watermark` are out: ids of strings that nothing refers to any more may be reused."""
        if self.texts is None or watermark >= END_OF_TIME:
            return
        if self._is_asking:
            at = read_cell(shared.words, words.TEXTS_AT)
            if read_cell(shared.words, words.TEXTS_TOLD) == self._asked and watermark >= at - 1:
                self._is_asking = False
                self._recycle(at)
        elif self.texts.size > self._recycle_at:
            if self._keeps_texts:
                self._is_asking, self._asked = True, self._asked + 1
                publish_cell(shared.words, words.TEXTS_ASKED, self._asked)
            else:
                self._recycle(watermark + 1)

    def _recycle(self, horizon: int) -> None:
        """Free the ids of strings that were last used before `horizon`."""
        assert self.texts is not None
        self.texts.horizon = horizon
        self.texts.recycle(horizon)
        self._recycle_at = max(LEAST_RECYCLED, 2 * self.texts.size)

    def state_bytes(self) -> int:
        """Bytes of the states."""
        return used_bytes(self.state.arena_free, self.state.arena)

    # -- failures

    def explain_compile_error(self, error: BaseException, module: ModuleType) -> HeadraceError | None:
        """Say in the user's words why the kernels do not compile."""
        return translate_error(error, [*self.bound.generated, *([] if self.policy is None else [self.policy])], module)

    def explain_exception(self, error: BaseException, private: np.ndarray, arrays: PipelineArrays) -> HeadraceError:
        """A user function raised: call it again in plain Python, on the record and the state it found."""
        if int(private[words.CHOOSING]):
            return self._explain_policy(error, int(private[words.CHOOSING]) - 1, arrays)
        number = int(private[words.STAGE])
        one = self.bound.stages[number]
        stage = one.stage
        is_end = int(private[words.POSITION]) < 0
        row = {} if is_end else self._record(arrays, number, int(private[words.POSITION]))
        function = stage.end if is_end else stage.function
        roles = ("state", "emit") if is_end else stage.roles

        def given() -> dict[str, Any]:
            values: dict[str, Any] = {} if is_end else {"t": dict(row)}
            if stage.is_kept:
                values["state"] = self._state_of(one, number, row)
            return values

        assert function is not None
        emits = [*stage.emits, "ts"] if stage.emits else None
        explained = explain_failure(function, roles, given(), emits, error, given)
        where = f"{stage.name}: "
        if str(error) == NOT_ONCE:  # in plain Python it may emit as often as it likes
            explained = FunctionError(where + NOT_ONCE, explained.function, explained.file, explained.line, row)
        if not str(explained.args[0]).startswith(where):
            explained = FunctionError(where + str(explained.args[0]), explained.function, explained.file, explained.line, row)
        kind = self.node.schema.field(0).type
        if pa.types.is_timestamp(kind) and row:
            explained.times = dict.fromkeys((python_name(self.event_time), "ts"), time_text(row["ts"], kind))
        return explained

    def state_full(self, private: np.ndarray, max_state: int) -> OverflowInputError:
        """A stage's containers, or the state of one more key, did not fit; the memory is one for all stages."""
        one = self.bound.stages[int(private[words.STAGE])]
        function = one.end if int(private[words.POSITION]) < 0 else one.function
        assert function is not None
        of = function.captured
        return OverflowInputError(
            f'{one.stage.name}: what it keeps does not fit (function "{of.name}", file "{of.file}", line {of.line}): together the'
            f" stages of {self.node.name} keep more than max_state={max_state} bytes; pass a larger max_state=, or keep less"
        )

    def _explain_policy(self, error: BaseException, number: int, arrays: PipelineArrays) -> HeadraceError:
        """The user's own schedule raised: call it again in plain Python, on what is known of the stage just now."""
        form, known = arrays.form[number], read_cells(arrays.known, 1)[number]

        def cell(stage: int, what: int) -> int:
            return int(read_cell(arrays.stage, stage * words.STAGE_CELLS * CELL + what))

        def waiting(stage: int) -> int:
            return max(1, cell(stage, words.TAIL) - cell(stage, words.HEAD))

        figures = {
            "backlog": waiting(number),
            "behind": waiting(number + 1) if number + 1 < len(arrays.form) else 0,
            "cost": max(1, int(known[words.COST])) / words.COST_UNIT,
            "selectivity": (int(known[words.MADE]) + 1) / (int(known[words.TAKEN]) + 1),
            "workers": cell(number, words.WORKERS) & words.A_COUNT,
            "most": int(form[words.MOST]),
            "position": number,
            "count": len(arrays.form),
        }
        explained = explain_failure(self._policy_function, ("stage",), {"stage": figures}, None, error)
        text = f"schedule, of stage {self.bound.stages[number].stage.name}: {explained.args[0]}"
        return FunctionError(text, explained.function, explained.file, explained.line, figures)

    def _record(self, arrays: PipelineArrays, number: int, position: int) -> dict[str, Any]:
        """A record of a stage's ring, as plain Python has it."""
        one, form = self.bound.stages[number], arrays.form[number]
        at = int(form[words.RING]) + (position & int(form[words.MASK])) * int(form[words.STRIDE])
        found = arrays.arena[at : at + one.stride]
        ts = int(found[words.TS])
        row: dict[str, Any] = {}
        for index, column in enumerate(one.columns):
            is_null = one.nullable and int(found[words.NULLS]) >> index & 1
            value = found[words.FIRST_COLUMN + index : words.FIRST_COLUMN + index + 1]
            row[column.name] = None if is_null else word_object(value, column.kind, self.texts)
        return {python_name(self.event_time): ts, "ts": ts} | row

    def _state_of(self, one: BoundStage, number: int, row: dict[str, Any]) -> dict[str, Any]:
        """The state as it is in memory: the failed call may have changed some of it."""
        place = int(self.state.stage_state[number])
        if one.stage.kind == "partitioned":
            place = self._place_of_key(one, number, row)
        return state_objects(one.stage.state, self.state.arena, place, self.texts)

    def _place_of_key(self, one: BoundStage, number: int, row: dict[str, Any]) -> int:
        """Where the state of a record's key is."""
        key = row[one.columns[one.key - words.FIRST_COLUMN].name]
        if isinstance(key, str):
            assert self.texts is not None
            key = int(self.texts.encode(pa.array([key]))[0])
        first = sum(before.stage.buckets for before in self.bound.stages[:number])
        for bucket in range(first, first + one.stage.buckets):
            place = map_find(self.state.arena, self.state.key_heads, bucket * HEAD, int(key), one.entry_words)
            if place >= 0:
                return int(place) + 1
        return 0

    def out_of_order(self, failure: np.ndarray) -> HeadraceError:
        """Time went back before a stage that needs it."""
        stage = self.bound.stages[int(failure[worker_kernel.FAILURE_STAGE])].stage
        kind = self.node.schema.field(0).type
        ts, before = (time_text(int(failure[at]), kind) for at in (worker_kernel.FAILURE_TS, worker_kernel.FAILURE_KEY))
        return DisorderError(
            f"{stage.name}: event time {ts} after {before}: a stage with forget= needs times that do not go back; leave forget="
            f" out, or emit(ts=...) before it so that they rise"
        )

    def null_key(self, failure: np.ndarray) -> HeadraceError:
        """A record without a key came to a partitioned stage."""
        stage = self.bound.stages[int(failure[worker_kernel.FAILURE_STAGE])].stage
        ts = time_text(int(failure[worker_kernel.FAILURE_TS]), self.node.schema.field(0).type)
        return SchemaError(
            f"{stage.name}: {stage.by!r} is null in the tuple at event time {ts}, and it is the key: filter such tuples before,"
            f" as in .filter(lambda t: t.{stage.by} is not None)"
        )


__all__ = ["CompiledPipeline"]
