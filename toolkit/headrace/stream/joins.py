"""What `join` takes, read into a specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.elastic.specs import JoinSpec
from headrace.errors import ParameterError
from headrace.expressions import EqualPredicate, Predicate
from headrace.ingress.key_sources import check_nulls
from headrace.windows import Duration, parse_duration


def read_join(
    unit: str,
    within: Duration,
    where: Predicate | Callable | None,
    on: Any,
    prefixes: tuple[str, str],
    nulls: str,
    index: bool,
) -> JoinSpec:
    """Return the specification of a join of streams whose event times are in `unit`; see `Stream.join`.

    Raises
    ------
    ParameterError
        An argument is invalid; the text says what to give instead.
    """
    units = parse_duration(within, unit, "within")
    if units < 1:
        raise ParameterError(f"within={within!r}: must be at least one time unit")
    pairs = _join_columns(on)
    check_nulls(nulls)
    if not isinstance(index, bool):
        raise ParameterError(f"index={index!r}: give True or False")
    if where is None and not pairs:
        raise ParameterError("join(): give where= (a predicate), on= (columns that must be equal), or both")
    if where is not None and not isinstance(where, Predicate) and not callable(where):
        raise ParameterError(f"where={where!r}: give hr.band(...), hr.equal(...) or a function of two tuples")
    return JoinSpec(units, where, pairs, prefixes, nulls, index)


def _join_columns(on: Any) -> tuple[tuple[str, str], ...]:
    if on is None:
        return ()
    items = on if isinstance(on, list) else [on]
    pairs = []
    for item in items:
        if isinstance(item, str):
            pairs.append((item, item))
        elif isinstance(item, EqualPredicate):
            pairs.append((item.left, item.right))
        elif isinstance(item, tuple) and len(item) == 2:
            pairs.append(item)
        else:
            raise ParameterError(f"on={item!r}: give a column name, or (left name, right name)")
    return tuple(pairs)
