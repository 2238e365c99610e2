"""J and J+ for the engine: which columns the kernels compare, and in which types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.codegen.bindings import LITERALS, TEXT_FIELDS, Unreadable, event_time_binding, texts_in, unnamed
from headrace.codegen.functions import FieldBinding, explain_failure, specialise, translate_error
from headrace.codegen.kinds import cannot_read
from headrace.codegen.text import attributes, python_name
from headrace.elastic.compiled import Compiled
from headrace.elastic.failures import INDEX_FULL
from headrace.elastic.join import indexed, template
from headrace.elastic.join.all_pairs_kernel import PROBES, RUN_WORDS
from headrace.elastic.join.join_kernel import EARLIER, GROUP, LATER, SIZE
from headrace.elastic.join.results import JoinResults
from headrace.elastic.join.shape import (
    RESULTS,
    STATE,
    Band,
    JoinShape,
    UserPredicate,
    probe_arrays,
    width_arrays,
)
from headrace.errors import HeadraceError, OverflowInputError
from headrace.expressions import BandPredicate, EqualPredicate, Predicate
from headrace.ingress.columns import is_scalar, is_text, plain_type, value_dtype
from headrace.ingress.comparison import Comparison, compare_band, compare_equal
from headrace.ingress.key_sources import KeySource, make_dictionary
from headrace.ingress.ordered_texts import OrderedTexts
from headrace.ingress.store import Store
from headrace.ingress.times import span_text, time_text
from headrace.memory.bundle import named
from headrace.memory.cells import reserved
from headrace.plan.nodes import Branch, OperatorNode
from headrace.progress import END_OF_TIME
from headrace.references import BUCKETS, row_of, source_of
from headrace.workers import worker_kernel

_NULLS_MATCH_NOTHING = (
    "a tuple with a null in a column that a join condition reads matches nothing: leave it out, or compute a column without"
    " nulls before, by map()"
)


class CompiledJoin(Compiled):
    """A join in one run; the node's spec is a `headrace.elastic.specs.JoinSpec`."""

    order_matters = "its pairs are in the order of their later tuples"
    bound_ns = 1_000_000
    """More than elsewhere: with 0.25 ms, two threads on two cores made 0.82 to 0.96 times the comparisons (``bench join``)."""
    first_promise = -1
    load_by_key = False
    latest_is_ready = True
    time_value = "(event time)"
    result_fields = RESULTS

    def __init__(self, node: OperatorNode, branches: list[Branch], options: Any):
        spec: Any = node.spec
        self.node, self.spec = node, spec
        self.retention = self.window_size = spec.within
        self.nulls = spec.nulls
        self._branches = branches
        self._debug, self._max_keys = options.debug, options.max_keys
        self._schemas = [next(b.schema for b in branches if b.side == side) for side in (0, 1)]
        self._time = [next(b.event_time for b in branches if b.side == side) for side in (0, 1)]
        self._columns: list[dict[str, np.dtype]] = [{}, {}]
        """The columns that kernels read of each side, by name; another form of a column has a longer name."""
        self._forms: list[dict[str, tuple[str, int]]] = [{}, {}]
        self._keys: tuple[list[KeySource], list[KeySource]] = ([], [])
        self._bands: list[tuple[str, str, np.dtype, int | float, bool]] = []
        for left, right in spec.on:
            self._equal(left, right)
        function: Callable | None = None
        if isinstance(spec.where, Predicate):
            for part in spec.where.parts:
                if isinstance(part, BandPredicate):
                    self._band(part.left, part.right, part.width)
                elif isinstance(part, EqualPredicate):
                    self._equal(part.left, part.right)
        elif spec.where is not None:
            function = spec.where
        self._function = function
        self._texts: OrderedTexts | None = None
        self._literals: list[str] = []
        self._text_columns: tuple[list[str], list[str]] = ([], [])
        self._user = user = self._user_predicate(function) if function is not None else None
        names = [list(columns) for columns in self._columns]
        self.shape = JoinShape(
            bands=tuple(
                Band(
                    names[0].index(left),
                    names[1].index(right),
                    dtype.name,
                    Band.is_too_wide(dtype.name, width),
                    is_equal and dtype.kind == "f",
                )
                for left, right, dtype, width, is_equal in self._bands
            ),
            on_keys=bool(self._keys[0]),
            user=None
            if user is None
            else UserPredicate(
                user.preamble + user.source,
                tuple(names[0].index(c) for c in self._read[0]),
                tuple(names[1].index(c) for c in self._read[1]),
                user.may_raise,
                self._texts is not None,
            ),
            left_dtypes=tuple(d.name for d in self._columns[0].values()),
            right_dtypes=tuple(d.name for d in self._columns[1].values()),
        )
        # Instances that share nothing have no index to share: they compare all pairs.
        if spec.index and options.mode == "vsn":
            widths = [width for _, _, _, width, _ in self._bands]
            terms = indexed.choose_terms(self.shape.on_keys, list(zip(self.shape.bands, widths, strict=True)))
            self.shape = replace(self.shape, index=terms)
        if self._keys[0]:
            self.key_names = [key.columns[0] for key in self._keys[0]]
            self.dictionary = make_dictionary(
                self._schemas[0], self._keys[0], BUCKETS, options.max_keys
            )
            self.id_capacity = 2**31 - 1
        self.value_columns = max(len(self._columns[0]), len(self._columns[1]))

    def _equal(self, left: str, right: str) -> None:
        compared = compare_equal(left, self._kind(0, left), right, self._kind(1, right))
        if compared.dtype is None:
            self._keys[0].append(KeySource((left,)))
            self._keys[1].append(KeySource((right,)))
        else:
            self._compare(left, right, compared, 0, is_equal=True)

    def _band(self, left: str, right: str, width: int | float) -> None:
        compared = compare_band(left, self._kind(0, left), right, self._kind(1, right), width)
        self._compare(left, right, compared, width, is_equal=False)

    def _compare(self, left: str, right: str, compared: Comparison, width: int | float, is_equal: bool) -> None:
        assert compared.dtype is not None
        forms = [
            self._form(side, name, compared.dtype, divisor)
            for side, (name, divisor) in enumerate(zip((left, right), compared.divisors, strict=True))
        ]
        self._bands.append((forms[0], forms[1], compared.dtype, width, is_equal))

    def _kind(self, side: int, name: str) -> pa.DataType:
        return self._schemas[side].field(name).type

    def _form(self, side: int, name: str, dtype: np.dtype, divisor: int = 1) -> str:
        """Name the column as kernels read it: whole numbers read as float64, or in a coarser unit, become separate columns."""
        form = name
        is_other = dtype.kind == "f" and value_dtype(self._kind(side, name)).kind != "f"
        if divisor > 1 or is_other:
            form = f"{name} / {divisor} as {dtype}"
            self._forms[side][form] = (name, divisor)
        self._columns[side][form] = np.promote_types(self._columns[side].get(form, dtype), dtype)
        return form

    def _user_predicate(self, function: Callable):
        fields: list[list[str]] = []
        for side, (schema, time) in enumerate(zip(self._schemas, self._time, strict=True)):
            columns = [c for name, c in attributes(schema.names).items() if c != time and name != "ts"]
            fields.append(
                [self.time_value, *(c for c in columns if is_scalar(schema.field(c).type) or self._is_text(side, c))]
            )

        def bindings(role: str, read: list[str], side: int) -> dict[str, FieldBinding | Unreadable]:
            schema, time = self._schemas[side], self._time[side]
            found: dict[str, FieldBinding | Unreadable] = {
                name: Unreadable(cannot_read(schema.field(column).type))
                for name, column in attributes(schema.names).items()
                if column != time and column not in fields[side]
            }
            found |= {
                python_name(name): FieldBinding(
                    f"{role}_{i}", kind="string" if self._is_text(side, name) else None, unasked=_NULLS_MATCH_NOTHING
                )
                for i, name in enumerate(read)
            }
            found |= unnamed(schema.names, time)
            given = found.pop(self.time_value, None)
            if given is not None:
                found |= {python_name(time): given}
                as_ts = event_time_binding((schema.names, time))
                found["ts"] = as_ts if isinstance(as_ts, Unreadable) else given
            return found

        texts = texts_in("buffer")  # the first literal also stands for nulls, which a speculative test reads

        def written(read, reads_texts=True):
            return specialise(
                function,
                name="user_predicate",
                arguments=("l", "r"),
                bindings={role: bindings(role, read[side], side) for side, role in enumerate("lr")},
                parameters=(
                    *(["buffer"] if reads_texts else []),
                    *(f"l_{i}" for i in range(len(read[0]))),
                    *(f"r_{i}" for i in range(len(read[1]))),
                ),
                texts=texts,
                returns="truth",
                decorator="compiled_user",
                debug=self._debug,
            )

        trial = written(fields)
        self._read = tuple(self._columns_read(trial.reads.get(role, ()), side) for side, role in enumerate("lr"))
        for side, names in enumerate(self._read):
            for name in names:
                if name == self.time_value:
                    self._columns[side][name] = np.dtype(np.int64)
                elif self._is_text(side, name):
                    self._columns[side][name] = np.dtype(np.int64)
                    self._text_columns[side].append(name)
                else:
                    self._form(side, name, value_dtype(self._kind(side, name), narrow=True))
        if any(self._text_columns) or len(texts.literals) > 1:
            self._literals = texts.literals
            self._texts = OrderedTexts(self._max_keys)
            self._texts.set_types([pa.string()])
            self._texts.keep(self._literals)
        return written(self._read, self._texts is not None)

    def _is_text(self, side: int, name: str) -> bool:
        return name != self.time_value and is_text(plain_type(self._kind(side, name)))

    def _columns_read(self, names: Iterable[str], side: int) -> list[str]:
        """The columns of a side that the predicate reads, given the names of its attributes."""
        times = {"ts", python_name(self._time[side])}
        columns = attributes(self._schemas[side].names)
        return list(dict.fromkeys(self.time_value if name in times else columns[name] for name in names))

    def keys_of(self, side):
        return self._keys[side]

    def equal_columns_of(self, side):
        keys = [key.columns[0] for key in self._keys[side]]
        return list(dict.fromkeys([*(pair[side] for pair in self.spec.on), *keys]))

    def forms_of(self, side):
        return self._forms[side]

    def texts_of(self, side):
        return {} if self._texts is None else dict.fromkeys(self._text_columns[side], self._texts)

    def release(self, watermark):
        if self._texts is not None and watermark != END_OF_TIME:
            # Once a tuple's ts + WS has passed, no instance reads it any more (I1 of `join_kernel`).
            self._texts.expire(watermark - self.window_size + 1)

    def values_of(self, side):
        return [n for n, d in self._columns[side].items() if d.itemsize == 8 or d == np.uint8]

    def narrow_values_of(self, side):
        return [n for n in self._columns[side] if n not in self.values_of(side)]

    def carried_of(self, side):
        left_out = {self._time[side]} | (self.spec.kept_once(self._time[0]) if side else set())
        return [f.name for f in self._schemas[side] if f.name not in left_out]

    def columns_of(self, side):
        return dict(self._columns[side])

    def text(self):
        return template.generate(self.shape)

    def allocate(self, instances, capacity):
        sides = np.array([b.side for b in self._branches], np.int64)
        places = (instances, len(self._branches))
        fields = dict(zip(STATE, (sides, np.zeros(places, np.int64), np.zeros(places, np.int64)), strict=True))
        if self.shape.index:
            fields |= indexed.allocate_index(self.shape, instances)
        for name in RESULTS:
            fields[name] = reserved(instances * capacity, np.int64).reshape(instances, capacity)
        return named(**fields)

    def private(self, worker):
        words = super().private(worker)
        words[SIZE] = self.spec.within
        return words

    def scratch(self):
        widths = [_width(width, dtype) for _, _, dtype, width, _ in self._bands]
        fields = probe_arrays(self.shape, GROUP + PROBES) | width_arrays(self.shape, widths)
        if self._texts is not None:
            fields |= zip(TEXT_FIELDS, (*self._texts.arrays, self._texts.points), strict=True)
            fields[LITERALS] = self._texts.keep(self._literals).astype(np.int64)
        if self.shape.index:
            fields |= indexed.index_scratch(self.shape, widths)
        else:
            fields["runs"] = np.zeros(RUN_WORDS * BUCKETS, np.int32)
        return named(**fields)

    def finisher(self, stores):
        return JoinResults(self.node.schema, stores, (self.carried_of(0), self.carried_of(1)))

    def begin_with(self, state: Any, rows: int) -> None:
        """Make the first `rows` rows of each source stored tuples of every instance; only for a join without an index."""
        assert not self.shape.index, "an index would not have them"
        state.high[:, :] = rows

    def stored_tuples(self, state, member):
        return int(np.maximum(0, state.high[member] - state.low[member]).sum())

    def explain(self, failure, stores, state):
        if int(failure[worker_kernel.FAILURE_CODE]) == INDEX_FULL:
            kind = self._kind(0, self._time[0])
            within = span_text(self.spec.within, kind) if pa.types.is_timestamp(kind) else f"{self.spec.within:,} time units"
            return OverflowInputError(
                f"join: the tuples within {within} of event time {self.time_text(int(failure[worker_kernel.FAILURE_TS]))}"
                f" need more than {indexed.MOST_BLOCKS:,} blocks of the index; use a smaller within=, or index=False"
            )
        return super().explain(failure, stores, state)

    def explain_compile_error(self, error: BaseException, module: ModuleType) -> HeadraceError | None:
        """Explain in the user's terms why a predicate does not compile."""
        return None if self._user is None else translate_error(error, [self._user], module)

    def explain_exception(
        self, error: BaseException, words: np.ndarray, stores: list[Store]
    ) -> HeadraceError | None:
        """Explain a user predicate's exception in a kernel by its line and the pair of tuples."""
        if self._function is None:
            return None
        tuples: list[dict[str, Any]] = [{}, {}]
        times: dict[str, str] = {}
        for ref in (int(words[LATER]), int(words[EARLIER])):
            source, row = source_of(ref), row_of(ref)
            side = self._branches[source].side
            for name in self._read[side]:
                values, _ = stores[source].column(name, np.array([row]))
                shown = ("ts", python_name(self._time[side])) if name == self.time_value else (python_name(name),)
                value = values[0].item()
                if name in self._text_columns[side]:
                    assert self._texts is not None
                    (strings,) = self._texts.decode(np.array([value], np.int32))
                    value = strings[0].as_py()
                tuples[side].update(dict.fromkeys(shown, value))
                if name == self.time_value and pa.types.is_timestamp(kind := self._kind(side, self._time[side])):
                    times |= {f"{'lr'[side]}.{one}": time_text(values[0].item(), kind) for one in shown}
        explained = explain_failure(self._function, ("l", "r"), {"l": tuples[0], "r": tuples[1]}, cause=error)
        explained.times = times
        return explained




def _width(width: int | float, dtype: np.dtype) -> int | float:
    """The width of a band; for integers rounded down, which changes no comparison."""
    return float(width) if dtype.kind == "f" else int(min(width, 2**64))
