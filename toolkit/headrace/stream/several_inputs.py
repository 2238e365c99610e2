"""`hr.inputs`: one operator with several inputs, each with its own columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.arguments import shown
from headrace.elastic.specs import key_types, keys_text, window_text
from headrace.errors import ParameterError, SchemaError
from headrace.ingress.same_schema import shared_type
from headrace.names import explains_arguments, missing_attribute
from headrace.stream.described import describe
from headrace.stream.hints import WINDOW_WORDS
from headrace.stream.streams import Stream
from headrace.stream.windowed import KeyedStream, applied
from headrace.summary import Summarised
from headrace.windows import Duration, Window


class KeyedInputs(Summarised):
    """Several keyed streams, the inputs of one operator; see `inputs`."""

    def __init__(self, keyed: tuple[KeyedStream, ...]):
        self._keyed = keyed

    def _summary(self) -> list[tuple[str, str]]:
        first = self._keyed[0]
        return [
            ("inputs", str(len(self._keyed))),
            ("key", keys_text(first._names, first._keys)),
            *describe(*(keyed._node for keyed in self._keyed))[1:],
        ]

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute(self, name, dict.fromkeys(("aggregate", "apply"), ".window(...).apply(...)"))

    @explains_arguments(**WINDOW_WORDS)
    def window(
        self, size: Duration, advance: Duration | None = None, instances: str = "multi", zone: str | None = None
    ) -> WindowedInputs:
        """Cut each key's tuples, of all inputs together, into windows [l * advance, l * advance + size).

        Parameters
        ----------
        size, advance : duration
            The paper's WS and WA: a text such as "1h", or a whole number in the unit of the event time. Without `advance`
            windows do not overlap. See `KeyedStream.window`.
        instances : {"multi", "single"}
            The paper's WT: "multi" keeps a state for each window, "single" one for each key, which slides.
        zone : str, optional
            Windows of whole days of this time zone.
        """
        windowed = self._keyed[0].window(size, advance, instances, zone)
        return WindowedInputs(self._keyed, windowed._window, instances)


class WindowedInputs(Summarised):
    """Several keyed streams cut into common windows."""

    def __init__(self, keyed: tuple[KeyedStream, ...], window: Window, instances: str):
        self._keyed, self._window, self._instances = keyed, window, instances

    def _summary(self) -> list[tuple[str, str]]:
        window = window_text(self._window, self._keyed[0]._node.unit, self._instances)
        return [("window", window), *KeyedInputs(self._keyed)._summary()]

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute(self, name, {
            "aggregate": ".apply(hr.operator(...)): the inputs have columns of their own"
        })  # fmt: skip

    def apply(self, operator: Any, name: str | None = None) -> Stream:
        """Run a custom operator, made by `headrace.operator`, on each window of each key.

        Parameters
        ----------
        operator : CustomOperator
            In its functions ``t.input`` is the number, from 0, of the tuple's input.
        name : str, optional
            Name of the operator in the query; by default that of its function.
        """
        return applied(self._keyed, self._window, self._instances, operator, name)


def inputs(*streams: KeyedStream | Stream) -> KeyedInputs:
    """Give one operator several inputs, each with its own columns: O+ with I > 1.

    Parameters
    ----------
    *streams : KeyedStream or Stream
        All have keys of the same names and types, or none has keys. At equal
        times the tuples of an earlier input come first.

    Raises
    ------
    ParameterError
        No stream is given.
    SchemaError
        Keys, or the units of event times, differ.

    Examples
    --------
    >>> import headrace as hr, pyarrow as pa
    >>> def update(state, t, emit):
    ...     if t.input == 0:
    ...         state.sold += t.amount
    ...     else:
    ...         state.returned += 1
    >>> def output(key, state, emit):
    ...     emit(sold=state.sold, returned=state.returned)
    >>> both = hr.operator(state={"sold": "int64", "returned": "int64"},
    ...     emits={"sold": "int64", "returned": "int64"}, update=update, output=output)
    >>> sales = hr.stream(pa.table({"ts": [0, 5], "shop": [1, 1], "amount": [3, 4]}), event_time="ts")
    >>> returns = hr.stream(pa.table({"ts": [2], "shop": [1]}), event_time="ts")
    >>> hr.inputs(sales.key_by("shop"), returns.key_by("shop")).window(10).apply(both).to_arrow().to_pylist()
    [{'ts': 10, 'shop': 1, 'sold': 7, 'returned': 1}]
    """
    keyed = tuple(s._without_keys() if isinstance(s, Stream) else s for s in streams)
    if not keyed:
        raise ParameterError("inputs(): give at least one keyed stream")
    for one in keyed:
        if not isinstance(one, KeyedStream):
            raise ParameterError(f"inputs({shown(one)}): is not a stream; give hr.stream(table, event_time=...).key_by(...)")
    first = keyed[0]
    types = _key_types(first)
    for other in keyed[1:]:
        if other._node.unit != first._node.unit:
            raise SchemaError(
                f"inputs(): event times are in {first._node.unit!r} and {other._node.unit!r}; cast one"
            )
        if other._names != first._names or None in map(shared_type, _key_types(other), types):
            raise SchemaError(
                f"inputs(): keys {_named_types(first)} and {_named_types(other)} differ; name and cast them alike,"
                f" as in key_by(name=column)"
            )
        if other._nulls != first._nulls:
            raise ParameterError(f"inputs(): nulls={first._nulls!r} and {other._nulls!r}; give all key_by() the same")
    return KeyedInputs(keyed)


def _key_types(keyed: KeyedStream) -> list[pa.DataType]:
    return key_types(keyed._keys, keyed._node.schema)


def _named_types(keyed: KeyedStream) -> str:
    return ", ".join(f"{n}: {k}" for n, k in zip(keyed._names, _key_types(keyed), strict=True)) or "none"
